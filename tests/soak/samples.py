"""What must not grow: descriptors, memory, RabbitMQ's queue, tables. Sampled all along; the last third of the
time is held against the first."""
import os
import re
import signal
import statistics
import time

import psycopg2

from fleet import SPARED

PAGE = os.sysconf("SC_PAGE_SIZE")
# of each figure: it may grow to (the first third's most) * factor + more
# A child has five descriptors in its worker, and of four slots none may have been in use in the first third.
MOST = {"descriptors": (1.0, 20), "wake-ups in RabbitMQ": (1.5, 2000), "tenon.task, MB": (1.5, 16),
        "tasks unfinished": (1.5, 1000), "sessions": (1.0, 15)}
# of the processes that live all the time: the median may grow by so much
HEAP_MB, RSS_MB = "heap, MB", "RSS, MB"
MEDIAN = {HEAP_MB: 1.0, RSS_MB: 4.0}


def row(name, thirds, figure_of, factor, more):
    first, last = (figure_of(values) if values else float("nan") for values in thirds)
    return name, first, last, last <= first * factor + more  # nothing sampled is not flat


class Samples:
    def __init__(self, soak):
        self.soak, self.taken = soak, {name: [] for name in MOST}
        self.depth_at = 0.0

    def add(self, name, value):
        self.taken.setdefault(name, []).append((time.time(), value))

    def of_processes(self):
        fleet = self.soak.fleet
        for name in fleet.running("worker") + fleet.running("cleaner"):
            try:
                self.add("descriptors", len(os.listdir(f"/proc/{fleet.pid(name)}/fd")))
            except (FileNotFoundError, ProcessLookupError):
                continue

    def of_spared(self, name):
        """A worker tells its heap when it is asked; what it said the last time is young enough."""
        with open(f"/proc/{self.soak.fleet.pid(name)}/statm", encoding="ascii") as file:
            self.add(f"{name}: {RSS_MB}", int(file.read().split()[1]) * PAGE / 1e6)
        if name.startswith("worker"):
            for found in re.findall(r"heap_bytes=(\d+)", self.soak.log_tail(name))[-1:]:
                self.add(f"{name}: {HEAP_MB}", int(found) / 1e6)
            self.soak.fleet.signal(name, signal.SIGUSR1)

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
        _, said = self.soak.rabbitmqctl("-q", "list_queues", "name", "messages")
        depths = re.findall(r"^tenon\.\S+\s+(\d+)$", said, re.M)
        if depths:
            self.add("wake-ups in RabbitMQ", sum(int(depth) for depth in depths))

    def take(self):
        self.of_processes()
        for name in self.soak.fleet.running(""):
            if name in SPARED:
                self.of_spared(name)
        self.of_database()
        self.of_rabbitmq()

    def thirds(self, name, begin, end):
        third = (end - begin) / 3
        taken = self.taken.get(name, [])
        return ([value for at, value in taken if at < begin + third],
                [value for at, value in taken if end - third < at <= end])

    def rows(self, begin, end):
        """(name, of the first third, of the last, is it flat?)"""
        for name, (factor, more) in MOST.items():
            yield row(f"{name}, most", self.thirds(name, begin, end), max, factor, more)
        for name in (f"{process}: {what}" for process in SPARED for what in MEDIAN
                     if process.startswith("worker") or what != HEAP_MB):
            yield row(f"{name}, median", self.thirds(name, begin, end), statistics.median, 1.0,
                      MEDIAN[name.split(": ")[1]])
