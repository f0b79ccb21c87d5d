"""The processes of the demo. Each dies with the demo, and only they are ever killed."""
import os
import signal
import subprocess
import time


class Fleet:
    def __init__(self, log_dir):
        self.log_dir, self.processes = log_dir, {}

    def start(self, name, argv, env):
        """Start a process in a session of its own, so that Ctrl-C reaches the demo alone."""
        with open(os.path.join(self.log_dir, name + ".log"), "ab") as log:
            self.processes[name] = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", *argv], env={**os.environ, **env},
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        return self.processes[name]

    def pid(self, name):
        return self.processes[name].pid

    def is_running(self, name):
        return self.processes[name].poll() is None

    def signal(self, name, number):
        if self.is_running(name):  # until it is reaped nobody else can have its number
            self.processes[name].send_signal(number)

    def kill(self, name):
        """kill -9; returns when it was sent and when the process was gone."""
        sent = time.time()
        self.signal(name, signal.SIGKILL)
        self.processes[name].wait()
        return sent, time.time()

    def stop(self, name, limit_s):
        """SIGTERM, and wait; the exit status, or None when it did not end in time."""
        self.signal(name, signal.SIGTERM)
        try:
            return self.processes[name].wait(limit_s)
        except subprocess.TimeoutExpired:
            return None

    def await_stopped(self, name, limit_s):
        """Wait until a process has stopped itself (SIGSTOP)."""
        deadline = time.monotonic() + limit_s
        while self.is_running(name) and time.monotonic() < deadline:
            with open(f"/proc/{self.pid(name)}/stat", encoding="ascii") as stat:
                if stat.read().rpartition(")")[2].split()[0] == "T":
                    return True
            time.sleep(0.002)
        return False

    def wipe(self):
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
                process.wait()
