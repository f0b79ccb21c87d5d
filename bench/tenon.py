"""tenon as the workloads use it: its programs, and what its tables say afterwards."""
import contextlib
import os
import signal
import subprocess
import time

from process import cpu_s, rss_mb, run, wait_cpu_s

SLOTS = 2


class Program:
    """A worker or a cleaner that runs."""

    def __init__(self, words, env):
        self.started = time.time()
        self.process = subprocess.Popen(words, env={**os.environ, **env})
        self.pid = self.process.pid

    def wait(self, timeout_s):
        """CPU seconds of it and of its handlers, when it has ended by itself."""
        status, cpu = wait_cpu_s(self.process, timeout_s)
        if status != 0:
            raise RuntimeError(f"{self.process.args[0]} ended with {status}")
        return cpu

    def stop(self):
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGTERM)
            return self.wait(40)
        return 0.0

    def cpu_s(self):
        return cpu_s(self.pid)

    def rss_mb(self):
        return rss_mb(self.pid)


class Tenon:
    def __init__(self, build, servers):
        self.bin = f"{build}/tenon"
        self.bench = f"{build}/bench"
        self.servers = servers

    def worker(self, *options, handler=None, env=None):
        handler = handler or f"noop=pool:exec {self.bench}/bench_handler"
        return Program([self.bin, "worker", "--slots", str(SLOTS), "--log-level", "error",
                        "--handler", handler, *options], env or {})

    def cleaner(self):
        return Program([self.bin, "cleaner", "--log-level", "warning"], {})

    @contextlib.contextmanager
    def running(self, workers=1, cleaner=True, **options):
        """Workers, and a cleaner, that have found each other, and are stopped in the end."""
        programs = [self.worker(**options) for _ in range(workers)]
        programs += [self.cleaner()] if cleaner else []
        try:
            self.warm_up()
            yield programs
        finally:
            for program in programs:
                program.stop()

    def warm_up(self):
        """The first tasks start the children, prepare the statements and open the producers' way."""
        for _ in range(3):
            self.produce(1, tasks=50)
            self.wait_until_done(30)

    def enqueue_sql(self, n, queue=None, run_at=None, announced=True, kind="noop"):
        """Bulk inserts of 10,000 with payload {}, made in the server."""
        for first in range(0, n, 10000):
            self.servers.sql(
                "SELECT tenon.enqueue_many(%s, array_fill('{}'::jsonb, ARRAY[%s]), queue => %s,"
                " run_at => %s, announced => %s)", kind, min(10000, n - first), queue, run_at, announced)

    def prepare(self, n, queues=("default",)):
        """`n` tasks in a database that has come to rest."""
        self.servers.empty_tenon(queues)
        for queue in queues:
            self.enqueue_sql(n // len(queues), queue=queue)
        self.servers.sql("VACUUM ANALYZE tenon.task")
        self.servers.settle()

    def finished(self):
        return self.servers.value("SELECT count(*) FROM tenon.finished")

    def last_finish(self):
        return float(self.servers.value("SELECT extract(epoch FROM max(finished_at)) FROM tenon.finished"))

    def left(self):
        return self.servers.value("SELECT count(*) FROM tenon.task")

    def wait_until_done(self, limit_s):
        deadline = time.monotonic() + limit_s
        while self.left() > 0:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.left()} tasks are left after {limit_s} s")
            time.sleep(0.02)

    def finished_between(self, start, end):
        return self.servers.value(
            "SELECT count(*) FROM tenon.finished WHERE finished_at BETWEEN to_timestamp(%s) AND to_timestamp(%s)",
            start, end)

    def produce(self, producers, seconds=0, tasks=0, batch=1, begin=False, watch=None):
        """(tasks, seconds) of bench_produce."""
        out = run([f"{self.bench}/bench_produce", str(producers), str(seconds), str(tasks), str(batch),
                   *(["begin"] if begin else [])], seconds, watch)
        return int(out.split()[0]), float(out.split()[1])
