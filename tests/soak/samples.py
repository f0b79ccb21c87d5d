"""What must not grow: descriptors, memory, RabbitMQ's queue, tables. Sampled all along; the last third of the
time is held against the first."""
import os
import re
import signal
import time

import psycopg2

PAGE = os.sysconf("SC_PAGE_SIZE")
# of each figure: it may grow to (the first third's most) * factor + more
# A child has five descriptors in its worker, and of four slots none may have been in use in the first third.
ALLOWED = {"descriptors": (1.0, 20), "RSS, MB": (1.5, 16), "heap, MB": (1.5, 8),
           "wake-ups in RabbitMQ": (1.5, 2000), "tenon.task, MB": (1.5, 16),
           "tasks unfinished": (1.5, 1000), "sessions": (1.0, 15)}


class Samples:
    def __init__(self, soak):
        self.soak, self.taken = soak, {name: [] for name in ALLOWED}
        self.depth_at = 0.0

    def add(self, name, value):
        self.taken[name].append((time.time(), value))

    def of_processes(self):
        fleet = self.soak.fleet
        for name in fleet.running("worker") + fleet.running("cleaner"):
            try:
                path = f"/proc/{fleet.pid(name)}"
                self.add("descriptors", len(os.listdir(path + "/fd")))
                with open(path + "/statm", encoding="ascii") as file:
                    self.add("RSS, MB", int(file.read().split()[1]) * PAGE / 1e6)
            except (FileNotFoundError, ProcessLookupError, IndexError):
                continue
            if name.startswith("worker") and "worker_ready" in self.soak.log_tail(name):
                fleet.signal(name, signal.SIGUSR1)
                for found in re.findall(r"heap_bytes=(\d+)", self.soak.log_tail(name)):
                    self.add("heap, MB", int(found) / 1e6)

    def of_database(self):
        try:
            size, tasks, sessions = self.soak.query(
                "SELECT pg_total_relation_size('tenon.task'), (SELECT count(*) FROM tenon.task),"
                " (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database())")[0]
        except psycopg2.Error:
            return
        self.add("tenon.task, MB", size / 1e6)
        self.add("tasks unfinished", tasks)
        self.add("sessions", sessions)

    def of_rabbitmq(self):
        """Not often: rabbitmqctl costs a second of a processor."""
        if time.time() - self.depth_at < 20:
            return
        self.depth_at = time.time()
        found = re.search(r"tenon\.default\s+(\d+)", self.soak.rabbitmqctl(
            "-q", "list_queues", "name", "messages", may_fail=True))
        if found:
            self.add("wake-ups in RabbitMQ", int(found.group(1)))

    def take(self):
        self.of_processes()
        self.of_database()
        self.of_rabbitmq()

    def rows(self, begin, end):
        """(name, most in the first third, most in the last, is it flat?)"""
        third = (end - begin) / 3
        for name, (factor, more) in ALLOWED.items():
            first = [v for at, v in self.taken[name] if at < begin + third]
            last = [v for at, v in self.taken[name] if end - third < at <= end]
            if not first or not last:
                yield name, float("nan"), float("nan"), False
            else:
                yield name, max(first), max(last), max(last) <= max(first) * factor + more
