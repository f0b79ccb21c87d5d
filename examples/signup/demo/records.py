"""What the demo counts by, all of it outside tenon: the producers' logs, the handlers' journal, the
users table and the Maildir."""
import collections
import email
import email.policy
import os

Signup = collections.namedtuple("Signup", "number committed task at")  # `at` in seconds since 1970


class Run:
    """One run of a task by a handler."""

    def __init__(self, task, attempt, pid, start, worker_pid, address):
        self.task, self.attempt, self.pid, self.worker_pid = task, attempt, pid, worker_pid
        self.start, self.end, self.address = start, None, address

    def is_on(self, at):
        return self.start <= at and (self.end is None or self.end > at)


class Tail:
    """The whole lines that were appended to a file since it was last read."""

    def __init__(self, path):
        self.path, self.offset = path, 0

    def lines(self):
        if not os.path.exists(self.path):
            return []
        with open(self.path, "rb") as file:
            file.seek(self.offset)
            data = file.read()
        data = data[:data.rfind(b"\n") + 1]
        self.offset += len(data)
        return data.decode().splitlines()


class Signups:
    """The producers' logs; a line is `committed|rolled_back NUMBER TASK NANOSECONDS`."""

    def __init__(self):
        self.tails, self.all, self.last = {}, [], {}
        self.committed = 0

    def add_log(self, name, path):
        self.tails[name] = Tail(path)

    def read(self):
        for name, tail in self.tails.items():
            for line in tail.lines():
                outcome, number, task, at = line.split()
                signup = Signup(int(number), outcome == "committed", int(task), int(at) / 1e9)
                self.committed += signup.committed
                self.all.append(signup)
                self.last[name] = signup


class Journal:
    """The handlers' journal; see mailer.py for its lines."""

    def __init__(self, path):
        self.tail, self.runs, self.ended = Tail(path), [], 0
        self.open = {}  # (task, attempt, pid) -> a run without an end

    def read(self):
        for line in self.tail.lines():
            task, attempt, pid, what, at, worker_pid, address = line.split()
            key = int(task), int(attempt), int(pid)
            if what == "start":
                run = Run(*key, int(at) / 1e9, int(worker_pid), address)
                self.open[key] = run
                self.runs.append(run)
            else:
                self.open.pop(key).end = int(at) / 1e9
                self.ended += 1

    def running(self, living_workers):
        """How many runs go on; those of a worker that was killed ended with it."""
        return sum(run.worker_pid in living_workers for run in self.open.values())


def read_maildir(path):
    """The address of each mail in new/, and what is wrong with those that are no proper mail."""
    addresses, faults = [], []
    for name in sorted(os.listdir(os.path.join(path, "new"))):
        with open(os.path.join(path, "new", name), "rb") as file:
            mail = email.message_from_binary_file(file, policy=email.policy.default)
        missing = [h for h in ("From", "To", "Subject", "Date", "Message-ID") if not mail[h]]
        to = mail["To"].addresses if mail["To"] else ()
        if missing or mail.defects or len(to) != 1 or mail["Date"].datetime is None:
            faults.append(f"{name}: missing {missing}, defects {mail.defects}")
            continue
        addresses.append(to[0].addr_spec)
    return addresses, faults
