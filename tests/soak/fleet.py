"""The processes of the soak. Each dies with it, and only they are ever killed."""
import os
import select
import signal
import subprocess
import time

# Neither killed nor told to end: what grows with the age of a process shows in these. They meet all else.
SPARED = ("worker-0", "cleaner-0")


class Member:
    """One place in the fleet: the process that fills it now, and all that have."""

    def __init__(self, name, argv):
        self.name, self.argv = name, argv  # argv() makes the command of the next process
        self.process = None


class Fleet:
    def __init__(self, directory, env):
        self.directory, self.env = directory, env
        self.members = {}

    def add(self, name, argv):
        self.members[name] = Member(name, argv)
        self.start(name)

    def start(self, name):
        """In a session of its own, so that Ctrl-C reaches the soak alone."""
        member = self.members[name]
        with open(os.path.join(self.directory, name + ".log"), "ab") as log:
            member.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", *member.argv()],
                env={**os.environ, **self.env}, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True)

    def running(self, prefix):
        return [name for name, member in self.members.items()
                if name.startswith(prefix) and member.process.poll() is None]

    def pid(self, name):
        return self.members[name].process.pid

    def signal(self, name, number):
        process = self.members[name].process
        if process.poll() is None:  # until it is reaped nobody else can have its number
            process.send_signal(number)

    def end(self, name, number, limit_s):
        """Signal, and wait for the end; the exit status, or None when it had to be killed."""
        process = self.members[name].process
        self.signal(name, number)
        try:
            return process.wait(limit_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return None

    def restart_fallen(self):
        """Start again what has ended; returns their names and exit statuses."""
        fallen = [(name, member.process.returncode) for name, member in self.members.items()
                  if member.process.poll() is not None]
        for name, _ in fallen:
            self.start(name)
        return fallen

    def await_fallen(self, limit_s):
        """Wait until one has ended by itself, or so long; the names of those that have."""
        poll, fds = select.poll(), []
        try:
            for name in self.running(""):
                fds.append(os.pidfd_open(self.pid(name)))
                poll.register(fds[-1], select.POLLIN)
            if len(fds) == len(self.members):
                poll.poll(limit_s * 1000)
        finally:
            for fd in fds:
                os.close(fd)
        return [name for name, member in self.members.items() if member.process.poll() is not None]

    def wipe(self):
        for member in self.members.values():
            if member.process.poll() is None:
                member.process.send_signal(signal.SIGKILL)
        for member in self.members.values():
            member.process.wait()


def wait_until(condition, limit_s):
    deadline = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True
