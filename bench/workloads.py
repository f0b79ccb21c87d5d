"""tenon's workloads. Each puts its figures into `b.record`; what they mean is in docs/benchmarks.md."""
import os
import subprocess
import tempfile
import time

import psycopg2

from cost import Cost
from process import run

# How a producer that knows only SQL wakes the publisher up: as tenon does; in every commit; not at all.
NOTIFY = {"adaptive": "SELECT tenon.enqueue('noop')",
          "always": "SELECT tenon.enqueue('noop', notify => false), pg_notify('tenon', '')",
          "never": "SELECT tenon.enqueue('noop', notify => false)"}


def percentiles(values_ms, ps=(50, 95, 99)):
    values = sorted(values_ms)
    return {p: values[min(len(values) - 1, int(len(values) * p / 100))] for p in ps}


def drain_once(b, n):
    """(tasks/s from the worker's start to the last finished row, CPU seconds of worker and handlers)"""
    worker = b.tenon.worker("--until-empty")
    cpu = worker.wait(300)
    if b.tenon.finished() != n:
        raise RuntimeError(f"{b.tenon.finished()} of {n} tasks finished")
    return n / (b.tenon.last_finish() - worker.started), cpu


def drain(b):
    for n in b.sizes.drain:
        b.tenon.prepare(n)
        rate, cpu = drain_once(b, n)
        b.add("drain", n, "tasks_per_s", rate, "1/s")
        b.add("drain", n, "worker_cpu_us_per_task", cpu / n * 1e6, "us")
    drain_without_history(b)


def drain_without_history(b):
    try:
        b.servers.sql("UPDATE tenon.setting SET history_keep = '0'")
    except psycopg2.errors.CheckViolation:
        b.record.skip("drain", "tenon", "without history: this version always keeps one")
        return
    try:
        for n in b.sizes.drain:
            b.tenon.prepare(n)
            worker = b.tenon.worker("--until-empty")
            worker.wait(300)  # its end is the end: no finished row has a time
            rate = n / (time.time() - worker.started)
            b.add("drain", f"{n}-without-history", "tasks_per_s", rate, "1/s")
    finally:
        b.servers.sql("UPDATE tenon.setting SET history_keep = DEFAULT")


def bulk_enqueue(b):
    n, batch = b.sizes.bulk, min(10000, b.sizes.bulk)
    b.servers.empty_tenon()
    tasks, seconds = b.tenon.produce(1, tasks=n, batch=batch)
    b.add("bulk-enqueue", "libtenon", "tasks_per_s", tasks / seconds, "1/s")
    b.servers.empty_tenon()
    start = time.monotonic()
    b.tenon.enqueue_sql(n)
    b.add("bulk-enqueue", "sql", "tasks_per_s", n / (time.monotonic() - start), "1/s")


def read_starts(path):
    with open(path, encoding="ascii") as file:
        return {int(task): int(ns) for task, ns in (line.split() for line in file)}


def latency(b):
    latency_of(b, "libtenon", (), cleaner=False)
    latency_of(b, "libtenon-transaction", ("begin",), cleaner=False)
    latency_of(b, "sql", (NOTIFY["adaptive"],), cleaner=True)
    latency_of(b, "sql-never-notified", (NOTIFY["never"],), cleaner=True)


def latency_of(b, variant, how, cleaner):
    b.servers.empty_tenon()
    def words(n):
        return [f"{b.tenon.bench}/bench_latency", str(n), *how]
    with tempfile.NamedTemporaryFile() as starts:
        with b.tenon.running(cleaner=cleaner, env={"BENCH_STARTS": starts.name}):
            subprocess.run(words(10), check=True, stdout=subprocess.DEVNULL)
            out = subprocess.run(words(b.sizes.latency), check=True, text=True,
                                 capture_output=True).stdout
            b.tenon.wait_until_done(30)
        started = read_starts(starts.name)
    rows = [tuple(map(int, line.split())) for line in out.splitlines()]
    for name, column in ((variant, 1), (f"{variant}-after-commit", 2)):
        for p, ms in percentiles([(started[row[0]] - row[column]) / 1e6 for row in rows]).items():
            b.add("latency", name, f"p{p}_ms", ms, "ms")


def sustained(b):
    for producers in b.sizes.producers:
        sustained_of(b, f"{producers}-producers", producers)
    sustained_of(b, f"{b.sizes.producers[0]}-producers-transaction", b.sizes.producers[0], begin=True)
    b.servers.empty_tenon()
    with b.tenon.running() as programs:
        start, cost = time.time(), Cost(b, programs)
        tasks = pgbench(NOTIFY["adaptive"] + ";\n", 4, b.sizes.sustained_s, watch=cost.watch) * b.sizes.sustained_s
        report_sustained(b, "sql-4-producers", start, tasks, b.sizes.sustained_s, cost)


def sustained_of(b, variant, producers, begin=False):
    b.servers.empty_tenon()
    with b.tenon.running() as programs:
        start, cost = time.time(), Cost(b, programs)
        tasks, seconds = b.tenon.produce(producers, b.sizes.sustained_s, begin=begin, watch=cost.watch)
        report_sustained(b, variant, start, tasks, seconds, cost)


def report_sustained(b, variant, start, tasks, seconds, cost):
    done = b.tenon.finished_between(start, start + seconds)
    b.add("sustained", variant, "enqueued_per_s", tasks / seconds, "1/s")
    b.add("sustained", variant, "tasks_per_s", done / seconds, "1/s")
    for part, us in cost.per_task_us(done / seconds):
        b.add("sustained", variant, f"cpu_us_{part}", us, "us")
    b.tenon.wait_until_done(60)


def notify(b):
    """Producers that know only SQL, with transactions that stay open for up to so many ms."""
    for producers, open_ms in b.sizes.notify:
        for name, statement in NOTIFY.items():
            notify_of(b, f"{producers}-producers-{open_ms}-ms-{name}", producers, open_ms, statement)


def notify_of(b, variant, producers, open_ms, statement):
    b.servers.empty_tenon()
    with tempfile.NamedTemporaryFile() as starts:
        with b.tenon.running(env={"BENCH_STARTS": starts.name}):
            out = run([f"{b.tenon.bench}/bench_open_transactions", str(producers), str(b.sizes.notify_s),
                       str(open_ms), statement], b.sizes.notify_s)
            b.tenon.wait_until_done(60)
        started = read_starts(starts.name)
    commits = {int(task): int(ns) for task, ns in (line.split() for line in out.splitlines())}
    b.add("notify", variant, "commits_per_s", len(commits) / b.sizes.notify_s, "1/s")
    for p, ms in percentiles([(started[task] - ns) / 1e6 for task, ns in commits.items()]).items():
        b.add("notify", variant, f"p{p}_ms", ms, "ms")


def pgbench(script, clients, seconds, rows=1, watch=None):
    """Rows per second of a script that is run again and again by `clients`."""
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(script)
        file.flush()
        out = run([f"{os.environ['TENON_PGBIN']}/pgbench", "-n", "-M", "prepared", "-f", file.name, "-c", str(clients),
                   "-j", str(min(clients, 2)), "-T", str(seconds), os.environ["DATABASE_URL"]],
                  seconds, watch)
    return next(float(line.split()[2]) for line in out.splitlines() if line.startswith("tps")) * rows


class Snapshot:
    """A session that holds a REPEATABLE READ snapshot, so that no row version can be removed."""

    def __init__(self, servers, database=None):
        self.conn = servers.connect(database)
        self.conn.cursor().execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.conn.close()


def held_snapshot(b):
    b.servers.empty_tenon()
    with b.tenon.running(), Snapshot(b.servers):
        start = time.time()
        tasks, seconds = b.tenon.produce(4, b.sizes.held_s)
        size = b.sizes.held_slice_s
        slices = [b.tenon.finished_between(start + i * size, start + (i + 1) * size) / size
                  for i in range(b.sizes.held_s // size)]
        b.add("held-snapshot", "4-producers", "tasks_per_s", tasks / seconds, "1/s")
        for i, rate in enumerate(slices):
            b.add("held-snapshot", "4-producers", f"slice_{i + 1}_tasks_per_s", rate, "1/s")
        b.add("held-snapshot", "4-producers", "last_to_first", slices[-1] / slices[0], "")
    held_drain(b)


def held_drain(b):
    n, rates = b.sizes.held_drain, []
    b.servers.empty_tenon()
    with Snapshot(b.servers):
        for i in range(2):
            before = b.tenon.finished()
            b.tenon.enqueue_sql(n)
            b.servers.settle()
            cpu = b.server_cpu_s()
            worker = b.tenon.worker("--until-empty")
            worker.wait(300)
            cpu = b.server_cpu_s() - cpu
            if b.tenon.finished() - before != n:
                raise RuntimeError("not all tasks finished under the snapshot")
            b.add("held-snapshot", f"drain-{n}", f"drain_{i + 1}_postgres_cpu_us_per_task", cpu / n * 1e6, "us")
            rates.append(n / (b.tenon.last_finish() - worker.started))
            b.add("held-snapshot", f"drain-{n}", f"drain_{i + 1}_tasks_per_s", rates[-1], "1/s")
    b.add("held-snapshot", f"drain-{n}", "last_to_first", rates[1] / rates[0], "")


def scheduled(b):
    """All due at one moment. Lateness is from that moment to the handler's start."""
    n = b.sizes.scheduled
    b.servers.empty_tenon()
    with tempfile.NamedTemporaryFile() as starts:
        with b.tenon.running(env={"BENCH_STARTS": starts.name}):
            due = time.time() + b.sizes.scheduled_ahead_s
            moment = b.servers.value("SELECT to_timestamp(%s)", due)
            b.tenon.enqueue_sql(n, run_at=moment)
            if time.time() > due - 0.5:
                raise RuntimeError("enqueueing took until the tasks were due; raise scheduled_ahead_s")
            b.servers.sql("VACUUM ANALYZE tenon.task")
            time.sleep(max(0, due - time.time()))
            b.tenon.wait_until_done(120)
        late = [ns / 1e6 - due * 1e3 for ns in read_starts(starts.name).values()]
    late = sorted(late)[-n:]  # without the tasks that warmed up
    for p, ms in percentiles(late, (50, 99, 100)).items():
        b.add("scheduled", n, "max_ms" if p == 100 else f"p{p}_ms", ms, "ms")
    b.add("scheduled", n, "tasks_per_s", n / (late[-1] / 1e3), "1/s")


def retry_storm(b):
    """Each task fails once, asks for another run 100 ms later, and then is done."""
    n = b.sizes.retries
    b.tenon.prepare(n)
    cleaner = b.tenon.cleaner()
    worker = b.tenon.worker(env={"BENCH_FAIL_ONCE": "100"})
    try:
        b.tenon.wait_until_done(300)
        seconds = b.tenon.last_finish() - worker.started
        failures = b.servers.value("SELECT sum(failures) FROM tenon.finished")
        if failures != n:
            raise RuntimeError(f"{failures} failures of {n} tasks")
    finally:
        worker.stop()
        cleaner.stop()
    b.add("retry-storm", n, "tasks_per_s", n / seconds, "1/s")
    b.add("retry-storm", n, "seconds", seconds, "s")


def handlers(b):
    for variant, n, handler in (
            ("exec-true", b.sizes.exec, "noop=exec /bin/true"),
            ("python-pool", b.sizes.python, "noop=pool:exec /usr/bin/python3 bench/handler.py"),
            ("c-pool", b.sizes.c, f"noop=pool:exec {b.tenon.bench}/bench_handler")):
        b.tenon.prepare(n)
        worker = b.tenon.worker("--until-empty", handler=handler)
        cpu = worker.wait(300)
        rate = n / (b.tenon.last_finish() - worker.started)
        b.add("handlers", variant, "tasks_per_s", rate, "1/s")
        b.add("handlers", variant, "worker_cpu_us_per_task", cpu / n * 1e6, "us")


def scale(b):
    for workers in b.sizes.workers:
        scale_workers(b, workers)
    for n in b.sizes.queues:
        scale_queues(b, n)
    for n in b.sizes.backlogs:
        scale_backlog(b, n)


def scale_workers(b, workers):
    n = b.sizes.scale
    b.tenon.prepare(n)
    programs = [b.tenon.worker("--until-empty") for _ in range(workers)]
    cpu = sum(program.wait(300) for program in programs)
    rate = n / (b.tenon.last_finish() - programs[0].started)
    b.add("scale", f"{workers}-workers", "tasks_per_s", rate, "1/s")
    b.add("scale", f"{workers}-workers", "worker_cpu_us_per_task", cpu / n * 1e6, "us")


def scale_queues(b, queues):
    names = ["default"] if queues == 1 else [f"q{i}" for i in range(queues)]
    subprocess.run([b.tenon.bin, "setup", "--queues", ",".join(names)], check=True, stdout=subprocess.DEVNULL)
    b.tenon.prepare(b.sizes.scale, names)
    worker = b.tenon.worker("--until-empty", "--queues", ",".join(names))
    cpu = worker.wait(300)
    b.add("scale", f"{queues}-queues", "tasks_per_s", b.sizes.scale / (b.tenon.last_finish() - worker.started), "1/s")
    b.add("scale", f"{queues}-queues", "worker_cpu_us_per_task", cpu / b.sizes.scale * 1e6, "us")


def scale_backlog(b, n):
    """The first 50,000 of a backlog, so that each length is measured over the same work."""
    part = min(b.sizes.backlog_part, n)
    b.tenon.prepare(n)
    server = b.server_cpu_s()
    worker = b.tenon.worker()
    try:
        while b.tenon.finished() < part:
            time.sleep(0.05)
    finally:
        worker.stop()
    done = b.tenon.finished()
    at = float(b.servers.value("SELECT extract(epoch FROM finished_at) FROM tenon.finished"
                               " ORDER BY finished_at OFFSET %s LIMIT 1", part - 1))
    b.add("scale", f"backlog-{n}", "tasks_per_s", part / (at - worker.started), "1/s")
    b.add("scale", f"backlog-{n}", "postgres_cpu_us_per_task", (b.server_cpu_s() - server) / done * 1e6, "us")


def footprint(b):
    footprint_of_tasks(b)
    footprint_idle(b)
    footprint_tables(b)


def wal_and_commits(b):
    time.sleep(1.5)  # backends report their commits with up to a second's delay
    return b.servers.sql("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0'), xact_commit FROM pg_stat_database"
                         " WHERE datname = current_database()")[0]


def footprint_of_tasks(b):
    n = b.sizes.footprint_drain
    b.tenon.prepare(n)
    wal, commits = wal_and_commits(b)
    drain_once(b, n)
    wal_after, commits_after = wal_and_commits(b)
    b.add("footprint", f"drain-{n}", "wal_bytes_per_task", float(wal_after - wal) / n, "B")
    b.add("footprint", f"drain-{n}", "commits_per_task", (commits_after - commits) / n, "")
    n = b.sizes.single
    with b.tenon.running():
        wal, commits = wal_and_commits(b)
        b.tenon.produce(1, tasks=n)
        b.tenon.wait_until_done(60)
        wal_after, commits_after = wal_and_commits(b)
    b.add("footprint", "one-producer", "wal_bytes_per_task", float(wal_after - wal) / n, "B")
    b.add("footprint", "one-producer", "commits_per_task", (commits_after - commits) / n, "")


def footprint_idle(b):
    with b.tenon.running() as (worker, cleaner):
        b.tenon.enqueue_sql(b.sizes.footprint_drain)
        b.tenon.wait_until_done(60)
        time.sleep(min(5, b.sizes.idle_s))
        names = (("worker", worker), ("cleaner", cleaner))
        for name, program in names:
            b.add("footprint", name, "rss_mb", program.rss_mb(), "MB")
        before = wal_and_commits(b)[1], [program.cpu_s() for _, program in names], time.monotonic()
        time.sleep(b.sizes.idle_s)
        cpus, after = [program.cpu_s() for _, program in names], wal_and_commits(b)[1]
        seconds = time.monotonic() - before[2]
        for i, (name, _) in enumerate(names):
            b.add("footprint", name, "idle_cpu_percent", (cpus[i] - before[1][i]) / b.sizes.idle_s * 100, "%")
        # one of them is the look at pg_stat_database itself
        b.add("footprint", "worker-and-cleaner", "idle_transactions_per_s",
              max(0, after - before[0] - 1) / seconds, "1/s")


def footprint_tables(b):
    n = b.sizes.footprint
    b.servers.sql("TRUNCATE tenon.task, tenon.finished")
    b.tenon.prepare(n)
    full = b.servers.value("SELECT pg_total_relation_size('tenon.task')")
    drain_once(b, n)
    b.servers.sql("VACUUM tenon.task")
    after = b.servers.value("SELECT pg_total_relation_size('tenon.task')")
    history = b.servers.value("SELECT sum(pg_total_relation_size(relid)) FROM pg_partition_tree('tenon.finished')")
    b.add("footprint", f"{n}-tasks", "backlog_bytes_per_task", full / n, "B")
    b.add("footprint", f"{n}-tasks", "history_bytes_per_task", float(history) / n, "B")
    b.add("footprint", f"{n}-tasks", "hot_table_mb_after", after / 1e6, "MB")


ALL = {"drain": drain, "latency": latency, "sustained": sustained, "notify": notify, "held-snapshot": held_snapshot,
       "bulk-enqueue": bulk_enqueue, "scheduled": scheduled, "retry-storm": retry_storm, "handlers": handlers,
       "scale": scale, "footprint": footprint}
