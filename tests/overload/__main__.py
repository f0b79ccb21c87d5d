"""script/overload: a backlog, then more workers than PostgreSQL has sessions for, all at once."""
import argparse
import os
import signal
import sys
import time

import psycopg2

sys.path.append(os.path.join(os.path.dirname(__file__), "..", "soak"))

from fleet import wait_until  # noqa: E402
from stage import Stage  # noqa: E402
from verdict import Journal, lines_of  # noqa: E402

AT_ONCE = 10000          # tasks of one call
URGENT_EVERY_S = 0.5
URGENT_LIMIT_S = 2.0
RSS_LIMIT_MB = 24        # of a worker with its guard and its handler
DESCRIPTORS_LIMIT = 40   # of a worker
SESSIONS_EACH = 2        # of a worker
READY_LIMIT_S = 90       # until as many work as there is room for; and the others when there is room
FREE_LEAST_MB = 2000     # of memory; below that it ends


def status_kb(pid, name):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next((int(line.split()[1]) for line in file if line.startswith(name)), 0)


def memory_free_mb():
    with open("/proc/meminfo", encoding="ascii") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith("MemAvailable"))


def children(pid):
    found = []
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file:
            found += [int(child) for child in file.read().split()]
    return found


class Overload(Stage):
    def __init__(self, tasks, workers):
        super().__init__("overload")
        self.tasks, self.names = tasks, [f"worker-{n}" for n in range(workers)]
        self.urgent, self.samples, self.conn = {}, [], None

    # --- preparing ---

    def prepare(self):
        self.serve()
        self.query("CREATE ROLE tenon_worker LOGIN PASSWORD 'word'; CREATE ROLE tenon_cleaner LOGIN PASSWORD 'word'")
        self.tenon("setup", "--grant-worker", "tenon_worker", "--grant-cleaner", "tenon_cleaner")
        self.conn = psycopg2.connect(self.env["DATABASE_URL"])  # before others take all there are
        self.conn.autocommit = True
        self.start("cleaner-0", "tenon_cleaner", "cleaner")
        self.say(f"{self.tasks} tasks without a worker")
        for _ in range(self.tasks // AT_ONCE):
            self.ask("SELECT tenon.enqueue_many('work', array_fill('{}'::jsonb, ARRAY[%s])) IS NULL", AT_ONCE)

    def start(self, name, role, *words):
        url = f"postgresql://{role}:word@" + self.env["DATABASE_URL"].partition("@")[2]
        self.fleet.add(name, lambda: ["env", f"DATABASE_URL={url}", self.bin + "/tenon", *words])

    def ask(self, sql, *args):
        with self.conn.cursor() as cursor:
            cursor.execute(sql, args)
            return cursor.fetchone()

    # --- while it goes on ---

    def enqueue_urgent(self):
        self.urgent[self.ask("SELECT tenon.enqueue('work', priority => 9)")[0]] = time.time()

    def said(self, name, event):
        with open(os.path.join(self.dir, name + ".log"), encoding="utf-8", errors="replace") as file:
            return f"event={event}" in file.read()

    def ready(self):
        return [name for name in self.names if self.said(name, "worker_ready")]

    def sample(self):
        """(sessions, and of the workers: MB of memory, of which the most, descriptors of one at most)"""
        memory, most, descriptors = 0.0, 0.0, 0
        for name in self.fleet.running("worker"):
            pid = self.fleet.pid(name)
            try:
                mb = sum(status_kb(p, "VmRSS") for p in [pid, *children(pid)]) / 1024
                descriptors = max(descriptors, len(os.listdir(f"/proc/{pid}/fd")))
            except (FileNotFoundError, ProcessLookupError):
                continue
            memory, most = memory + mb, max(most, mb)
        sessions = self.ask("SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'tenon worker%%'")[0]
        self.samples.append((sessions, memory, most, descriptors))
        if memory_free_mb() < FREE_LEAST_MB:
            raise RuntimeError(f"less than {FREE_LEAST_MB} MB of memory are free")

    def go_on(self, seconds, until):
        """Urgent tasks and samples, until it holds or for so long; whether it held."""
        deadline = time.monotonic() + seconds
        while not until():
            if time.monotonic() > deadline:
                return False
            self.enqueue_urgent()
            if len(self.urgent) % 10 == 0:
                self.sample()
            fallen = self.fleet.await_fallen(URGENT_EVERY_S)
            if fallen:
                raise RuntimeError(f"{fallen} ended by itself:\n{self.log_tail(fallen[0])}")
        return True

    def is_drained(self):
        return self.ask("SELECT NOT EXISTS (SELECT FROM tenon.task WHERE priority < 9)")[0]

    # --- the course ---

    def crowd(self, seconds):
        handler = self.bin + "/soak_handler"
        self.say(f"{len(self.names)} workers of one slot at once; there are "
                 f"{self.ask('SHOW max_connections')[0]} sessions")
        for name in self.names:
            self.start(name, "tenon_worker", "worker", "--slots", "1", "--handler", f"work=pool:exec {handler} pool")
        begun = time.time()
        drained = self.go_on(seconds, self.is_drained)
        left = self.ask("SELECT count(*) FROM tenon.task")[0]
        self.say(f"{'drained' if drained else f'{left} tasks are left'} after {time.time() - begun:.0f} s; "
                 f"{len(self.ready())} workers have worked")

    def make_room(self):
        """Those that work end; those that wait take their places."""
        first, waited = self.ready(), [name for name in self.names if self.said(name, "waiting_for_database")]
        silent = [name for name in self.names if name not in first and name not in waited]
        if silent:
            self.broken.append(f"{len(silent)} workers neither work nor say why, such as {silent[0]}")
        self.say(f"{len(waited)} workers waited and said so; now {len(first)} end")
        for name in first:
            self.fleet.signal(name, signal.SIGTERM)
        for name in first:
            status = self.fleet.members[name].process.wait(60)
            del self.fleet.members[name]
            if status != 0:
                self.broken.append(f"{name} ended with {status}")
        rest = [name for name in self.names if name not in first]
        if not self.go_on(READY_LIMIT_S, lambda: all(self.said(name, "worker_ready") for name in rest)):
            self.broken.append("when there was room some workers did not go on")
        self.say(f"{len(rest)} others work now")

    def judge(self):
        wait_until(lambda: not self.ask("SELECT EXISTS (SELECT FROM tenon.task WHERE priority = 9)")[0], 30)
        starts = {task: runs[0].start for task, runs in Journal(self.env["SOAK_JOURNAL"]).runs.items()}
        waits = sorted(starts.get(task, float("inf")) - at for task, at in self.urgent.items())
        figures = (("urgent tasks started after, s", waits[len(waits) // 2], waits[-1], URGENT_LIMIT_S),
                   ("a worker, its guard and handler, MB", None, max(s[2] for s in self.samples), RSS_LIMIT_MB),
                   ("descriptors of a worker", None, max(s[3] for s in self.samples), DESCRIPTORS_LIMIT),
                   ("sessions of the workers", None, max(s[0] for s in self.samples), SESSIONS_EACH * len(self.names)))
        print(f"all workers at once: {max(s[1] for s in self.samples):.0f} MB; {len(waits)} urgent tasks")
        for what, median, most, limit in figures:
            print(f"{what:<38} {'' if median is None else f'median {median:.2f}, '}most {most:.2f}, limit {limit}")
            if most > limit:
                self.broken.append(f"{what}: {most:.2f}, more than {limit}")
        for name in self.names:
            self.broken += [f"{name}: {line}" for line in lines_of(os.path.join(self.dir, name + ".log"))
                            if "level=error" in line][:1]

    def run(self, seconds):
        self.prepare()
        self.crowd(seconds)
        self.make_room()
        self.judge()


def main():
    parser = argparse.ArgumentParser(prog="script/overload")
    parser.add_argument("--tasks", type=int, default=1000000)
    parser.add_argument("--workers", type=int, default=200)
    parser.add_argument("--seconds", type=int, default=300)
    args = parser.parse_args()
    overload = Overload(args.tasks, args.workers)
    overload.play(lambda: overload.run(args.seconds))
    print("overload: all held")


main()
