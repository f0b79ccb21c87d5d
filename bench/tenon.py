"""tenon as the workloads use it: its programs, and what its tables say afterwards."""
import contextlib
import os
import signal
import subprocess
import time

from process import cpu_s, rss_mb, run, wait_cpu_s

NOTE_DELETES = """
DROP SCHEMA IF EXISTS bench CASCADE;
CREATE SCHEMA bench;
CREATE SEQUENCE bench.deleted_us;
CREATE FUNCTION bench.note_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM setval('bench.deleted_us', (extract(epoch FROM clock_timestamp()) * 1000000)::bigint);
    RETURN NULL;
END $$;
CREATE TRIGGER note_deleted AFTER DELETE ON tenon.task FOR EACH STATEMENT EXECUTE FUNCTION bench.note_deleted();
"""


class Program:
    """A worker or a cleaner that runs."""

    def __init__(self, words, env):
        self.started = time.time()
        self.process = subprocess.Popen(words, env={**os.environ, **env})
        self.pid = self.process.pid

    def wait(self, timeout_s, ends_with=(0,)):
        """CPU seconds of it and of its handlers, when it has ended by itself."""
        status, cpu = wait_cpu_s(self.process, timeout_s)
        if status not in ends_with:
            raise RuntimeError(f"{self.process.args[0]} ended with {status}")
        return cpu

    def stop(self):
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGTERM)
            return self.wait(40, (0, -signal.SIGTERM))  # it dies of it as long as it has not begun to listen for it
        return 0.0

    def __enter__(self):
        return self

    def __exit__(self, failure, *_):
        if failure is None:
            self.stop()
        elif self.process.returncode is None:  # how it ends would hide what failed
            self.process.kill()
            self.process.wait()

    def cpu_s(self):
        return cpu_s(self.pid)

    def rss_mb(self):
        return rss_mb(self.pid)


class Tenon:
    """The producers are of the build that is measured, with its libtenon; the handler knows only the protocol."""

    def __init__(self, build, servers, handler):
        self.bin = f"{build}/tenon"
        self.bench = f"{build}/bench"
        self.servers = servers
        self.handler = handler

    def worker(self, *options, slots=2, handler=None, env=None):
        handler = handler or f"noop=pool:exec {self.handler}"
        return Program([self.bin, "worker", "--slots", str(slots), "--log-level", "error",
                        "--handler", handler, *options], env or {})

    def cleaner(self):
        return Program([self.bin, "cleaner", "--log-level", "warning"], {})

    @contextlib.contextmanager
    def running(self, **options):
        """A worker and a cleaner that have found each other, and are stopped in the end."""
        with self.worker(**options) as worker, self.cleaner() as cleaner:
            self.warm_up()
            yield worker, cleaner

    def warm_up(self):
        """The first tasks start the children, prepare the statements and open the producers' way."""
        for _ in range(3):
            self.produce(1, tasks=50)
            self.wait_until_done(30)

    def enqueue_sql(self, n, queue=None, run_at=None, announced=True, kind="noop", unique=False):
        """Bulk inserts of 10,000 with payloads {"i": number}, made in the server; `unique`: each with a key of its own."""
        with contextlib.closing(self.servers.connect()) as conn, conn.cursor() as cursor:
            for first in range(0, n, 10000):
                cursor.execute(
                    "SELECT tenon.enqueue_many(%s, (SELECT array_agg(jsonb_build_object('i', i))"
                    " FROM generate_series(%s, %s) i), queue => %s, run_at => %s, announced => %s, unique_keys => %s::text[])",
                    (kind, first, last := min(first + 10000, n) - 1, queue, run_at, announced,
                     [f"key:{i}" for i in range(first, last + 1)] if unique else None))

    def prepare(self, n, queues=("default",), unique=False):
        """`n` tasks in a database that has come to rest."""
        self.servers.empty_tenon(queues)
        for queue in queues:
            self.enqueue_sql(n // len(queues), queue=queue, unique=unique)
        self.rest()

    def rest(self):
        """The state of a backlog that has been there for a while."""
        self.servers.sql("VACUUM ANALYZE tenon.task")
        self.servers.settle()

    def counts(self):
        """How many tasks are (unfinished, finished, dead)."""
        return self.servers.sql("SELECT (SELECT count(*) FROM tenon.task WHERE queue < 'blocked' OR queue > 'blocked'), (SELECT count(*) FROM tenon.history),"
                                " (SELECT count(*) FROM tenon.dead)")[0]

    def last_finish(self):
        return float(self.servers.value("SELECT extract(epoch FROM max(finished_at)) FROM tenon.history"))

    @contextlib.contextmanager
    def without_history(self):
        """Done tasks leave no trace; gives what tells when the last one went: a trigger notes the moment of each
        statement that deletes tasks, as finished_at does with a history."""
        self.servers.sql(NOTE_DELETES)
        self.servers.sql("UPDATE tenon.setting SET history_keep = '0'")
        try:
            yield lambda: self.servers.value("SELECT last_value FROM bench.deleted_us") / 1e6
        finally:
            self.servers.sql("UPDATE tenon.setting SET history_keep = DEFAULT; DROP SCHEMA bench CASCADE")

    def wait_until_done(self, limit_s):
        """By index: a million tasks of the queue `blocked` are not read."""
        self.wait_until("NOT EXISTS (SELECT FROM tenon.task WHERE queue < 'blocked')"
                        " AND NOT EXISTS (SELECT FROM tenon.task WHERE queue > 'blocked')", limit_s)

    def wait_until(self, condition, limit_s):
        """Until SQL says so. One connection and ten looks a second, which cost next to nothing."""
        deadline = time.monotonic() + limit_s
        with contextlib.closing(self.servers.connect()) as conn, conn.cursor() as cursor:
            cursor.execute(f"SELECT {condition}")
            while not cursor.fetchone()[0]:
                if time.monotonic() > deadline:
                    raise RuntimeError(f"{condition}: not after {limit_s} s; unfinished, finished, dead: {self.counts()}")
                time.sleep(0.1)
                cursor.execute(f"SELECT {condition}")

    def done_between(self, start, end):
        return self.servers.value(
            "SELECT count(*) FROM tenon.history WHERE finished_at BETWEEN to_timestamp(%s) AND to_timestamp(%s)",
            start, end)

    def produce(self, producers, seconds=0, tasks=0, batch=1, begin=False, watch=None):
        """(tasks, seconds) of bench_produce."""
        out = run([f"{self.bench}/bench_produce", str(producers), str(seconds), str(tasks), str(batch),
                   *(["begin"] if begin else [])], seconds, watch)
        return int(out.split()[0]), float(out.split()[1])
