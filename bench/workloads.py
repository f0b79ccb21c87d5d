"""tenon's workloads. Each puts its figures into `b.record`; what they mean is in docs/benchmarks.md."""
import contextlib
import os
import tempfile
import threading
import time
from urllib.parse import quote

from cost import Cost
from drain import drain, drain_once, report
from process import run

# How a producer that knows only SQL wakes the publisher up: as tenon does; in every commit; not at all.
# (":0" without the space would be a variable of pgbench.)
NOTIFY = {"adaptive": """SELECT tenon.enqueue('noop', '{"i": 0}')""",
          "always": """SELECT tenon.enqueue('noop', '{"i": 0}', notify => false), pg_notify('tenon', '')""",
          "never": """SELECT tenon.enqueue('noop', '{"i": 0}', notify => false)"""}
PRODUCED = {"plain": "", "limited": ", limit_keys => ARRAY['bench:' || :k]"}
FLEET = {"slots": 8, "env": {"BENCH_WORK_MS": "10"}}
# The parts of a chain's links, and all of each: the medians in ms. `parent_end` is when the one before had ended.
LINK_PARTS = {"end_to_ready": "run_at - parent_end", "ready_to_claim": "start_time - run_at",
              "claim_to_end": "finished_at - start_time", "link": "finished_at - parent_end"}
LINK_P50 = """SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY 1000 * extract(epoch FROM {}))
                FROM (SELECT *, lag(finished_at) OVER (ORDER BY finished_at) AS parent_end FROM tenon.history) link
               WHERE parent_end IS NOT NULL"""
LATE_MS = 900  # a worker looks for itself once a second: what starts later after its commit was not woken up


def percentiles(values_ms, ps=(50, 95, 99)):
    values = sorted(values_ms)
    return {p: values[min(len(values) - 1, int(len(values) * p / 100))] for p in ps}


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
    latency_of(b, "libtenon")
    latency_of(b, "libtenon-transaction", "begin")
    latency_of(b, "sql", NOTIFY["adaptive"])
    latency_of(b, "sql-never-notified", NOTIFY["never"])


def latency_of(b, variant, *how):
    b.servers.empty_tenon()
    def enqueue(n):
        return run([f"{b.tenon.bench}/bench_latency", str(n), *how], n * 0.02)
    with tempfile.NamedTemporaryFile() as starts:
        with b.tenon.running(env={"BENCH_STARTS": starts.name}):
            enqueue(10)
            out = enqueue(b.sizes.latency)
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
    for producers in b.sizes.producers:
        sustained_sql(b, producers)


def sustained_of(b, variant, producers, begin=False):
    b.servers.empty_tenon()
    with b.tenon.running() as programs:
        start, cost = time.time(), Cost(b, programs)
        tasks, seconds = b.tenon.produce(producers, b.sizes.sustained_s, begin=begin, watch=cost.watch)
        report_sustained(b, variant, start, tasks, seconds, cost)


def sustained_sql(b, producers):
    seconds = b.sizes.sustained_s
    b.servers.empty_tenon()
    with b.tenon.running() as programs:
        start, cost = time.time(), Cost(b, programs)
        tasks = pgbench(NOTIFY["adaptive"] + ";\n", producers, seconds, watch=cost.watch) * seconds
        report_sustained(b, f"sql-{producers}-producers", start, tasks, seconds, cost)


def report_sustained(b, variant, start, tasks, seconds, cost):
    done = b.tenon.done_between(start, start + seconds)
    b.add("sustained", variant, "enqueued_per_s", tasks / seconds, "1/s")
    b.add("sustained", variant, "tasks_per_s", done / seconds, "1/s")
    for part, us in cost.per_task_us(b.tenon.done_between(cost.start, cost.end)):
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
    seconds = (max(commits.values()) - min(commits.values())) / 1e9
    waits = [(started[task] - ns) / 1e6 for task, ns in commits.items()]
    b.add("notify", variant, "commits_per_s", len(commits) / seconds, "1/s")
    for p, ms in percentiles(waits).items():
        b.add("notify", variant, f"p{p}_ms", ms, "ms")
    b.add("notify", variant, "max_ms", max(waits), "ms")
    b.add("notify", variant, "late", sum(ms > LATE_MS for ms in waits), "tasks")


def pgbench(script, clients, seconds, rows=1, watch=None, options="", rate=None):
    """Rows per second of a script that is run again and again by `clients`, or `rate` times a second; `options`
    are of their sessions."""
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(script)
        file.flush()
        out = run([f"{os.environ['TENON_PGBIN']}/pgbench", "-n", "-M", "prepared", "-f", file.name, "-c", str(clients),
                   "-j", str(min(clients, 2)), "-T", str(seconds), *(["-R", str(rate)] if rate else []),
                   f"{os.environ['DATABASE_URL']}?options={quote(options)}"],
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
    """The first slice is the cold start, with a full page image of whatever is written; none is compared with it."""
    size = b.sizes.held_slice_s
    b.servers.empty_tenon()
    with b.tenon.running(), Snapshot(b.servers):
        start = time.time()
        tasks, seconds = b.tenon.produce(4, size + b.sizes.held_s)
        b.add("held-snapshot", "4-producers", "enqueued_per_s", tasks / seconds, "1/s")
        slices = [b.tenon.done_between(start + i * size, start + (i + 1) * size) / size
                  for i in range(1 + b.sizes.held_s // size)]
    for i, rate in enumerate(slices):
        b.add("held-snapshot", "4-producers", f"slice_{i}_tasks_per_s", rate, "1/s")
    b.add("held-snapshot", "4-producers", "last_to_first", slices[-1] / slices[1], "")
    held_drain(b)


def held_drain(b):
    n, rates = b.sizes.held_drain, []
    b.servers.empty_tenon()
    with Snapshot(b.servers):
        for i in range(2):
            b.tenon.enqueue_sql(n)
            b.servers.settle()
            figures = drain_once(b, n)
            report(b, "held-snapshot", f"drain-{n}", figures, f"drain_{i + 1}_")
            rates.append(figures["tasks_per_s"])
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
    with b.tenon.cleaner(), b.tenon.worker(env={"BENCH_FAIL_ONCE": "100"}) as worker:
        b.tenon.wait_until_done(300)
    seconds = b.tenon.last_finish() - worker.started
    failures = b.servers.value("SELECT sum(failures) FROM tenon.history")
    if failures != n:
        raise RuntimeError(f"{failures} failures of {n} tasks")
    b.add("retry-storm", n, "tasks_per_s", n / seconds, "1/s")
    b.add("retry-storm", n, "seconds", seconds, "s")


def handlers(b):
    for variant, n, handler in (
            ("exec-true", b.sizes.exec, "noop=exec /bin/true"),
            ("python-pool", b.sizes.python, "noop=pool:exec /usr/bin/python3 bench/handler.py"),
            ("c-pool", b.sizes.c, None)):
        b.tenon.prepare(n)
        report(b, "handlers", variant, drain_once(b, n, handler=handler))


def scale(b):
    for workers in b.sizes.workers:
        b.tenon.prepare(b.sizes.scale)
        report(b, "scale", f"{workers}-workers", drain_once(b, b.sizes.scale, ["default"] * workers))
    for n in b.sizes.queues:
        with b.servers.queues(n) as names:
            scale_queues(b, f"{n}-queues", names, [",".join(names)])
    with b.servers.queues(b.sizes.workers[-1]) as apart:
        scale_queues(b, f"{len(apart)}-workers-apart", apart, apart)
    for n in b.sizes.backlogs:
        scale_backlog(b, n)


def scale_queues(b, variant, names, served):
    b.tenon.prepare(b.sizes.scale, names)
    report(b, "scale", variant, drain_once(b, b.sizes.scale, served))


def scale_backlog(b, n):
    """The first 50,000 of a backlog, so that each length is measured over the same work. The worker does more
    until it is stopped, and the CPU time is divided by all of it."""
    part = min(n, b.sizes.backlog_part)
    b.tenon.prepare(n)
    postgres_s = b.server_cpu_s()
    with b.tenon.worker() as worker:
        b.tenon.wait_until(f"EXISTS (SELECT FROM tenon.history OFFSET {part - 1})", 300)
        worker_s = worker.stop()
    postgres_s = b.server_cpu_s() - postgres_s
    done = b.tenon.counts()[1]
    at = float(b.servers.value("SELECT extract(epoch FROM finished_at) FROM tenon.history"
                               " ORDER BY finished_at OFFSET %s LIMIT 1", part - 1))
    report(b, "scale", f"backlog-{n}", {
        "tasks_per_s": part / (at - worker.started), "worker_cpu_us_per_task": worker_s / done * 1e6,
        "postgres_cpu_us_per_task": postgres_s / done * 1e6})


def fleet(b):
    """Workers of eight slots, and handlers that take their time: processors have some to spare."""
    for n in b.sizes.fleet_queues:
        with b.servers.queues(n) as names:
            b.tenon.prepare(b.sizes.fleet, names)
            report(b, "fleet", f"{n}-queues", drain_once(b, b.sizes.fleet, [",".join(names)] * b.sizes.fleet_workers,
                                                         **FLEET))
            fleet_flow(b, f"{n}-queues-flow", names)


def fleet_flow(b, variant, names):
    """Tasks that come one by one, at a rate that all can follow. The enqueueing is in PostgreSQL's CPU time."""
    b.servers.empty_tenon(names)
    script = (f"\\set queue random(0, {len(names) - 1})\n"
              """SELECT tenon.enqueue('noop', '{"i": 0}', queue => 'q' || :queue);\n""")
    with contextlib.ExitStack() as stack:
        for _ in range(b.sizes.fleet_workers):
            stack.enter_context(b.tenon.worker("--queues", ",".join(names), **FLEET))
        stack.enter_context(b.tenon.cleaner())
        for name in names:
            b.tenon.enqueue_sql(1000 // len(names), queue=name, announced=False)
        b.tenon.wait_until_done(60)
        start, postgres_s = time.time(), b.server_cpu_s()
        pgbench(script, 4, b.sizes.fleet_s, rate=b.sizes.fleet_rate)
        b.tenon.wait_until_done(60)
        postgres_s = b.server_cpu_s() - postgres_s
    waits = [float(ms) for ms, in b.servers.sql("SELECT 1000 * extract(epoch FROM start_time - created_at)"
                                                " FROM tenon.history WHERE created_at > to_timestamp(%s)", start)]
    b.add("fleet", variant, "tasks_per_s", len(waits) / b.sizes.fleet_s, "1/s")
    b.add("fleet", variant, "postgres_cpu_us_per_task", postgres_s / len(waits) * 1e6, "us")
    for p, ms in percentiles(waits).items():
        b.add("fleet", variant, f"p{p}_ms", ms, "ms")


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
        # one of them reads pg_stat_database
        b.add("footprint", "worker-and-cleaner", "idle_transactions_per_s",
              max(0, after - before[0] - 1) / seconds, "1/s")


def footprint_tables(b):
    n = b.sizes.footprint
    b.servers.sql("TRUNCATE tenon.task, tenon.history")
    b.tenon.prepare(n)
    full = b.servers.value("SELECT pg_total_relation_size('tenon.task')")
    drain_once(b, n)
    b.servers.sql("VACUUM tenon.task")
    after = b.servers.value("SELECT pg_total_relation_size('tenon.task')")
    history = b.servers.value("SELECT sum(pg_total_relation_size(relid)) FROM pg_partition_tree('tenon.history')")
    b.add("footprint", f"{n}-tasks", "backlog_bytes_per_task", full / n, "B")
    b.add("footprint", f"{n}-tasks", "history_bytes_per_task", float(history) / n, "B")
    b.add("footprint", f"{n}-tasks", "hot_table_mb_after", after / 1e6, "MB")


def flows(b):
    """Flows of a parent and nine children beside as many plain tasks, with a cleaner in both; and a chain."""
    n = b.sizes.flows * 10
    b.tenon.prepare(n)
    plain = drain_with_cleaner(b, n)
    report(b, "flows", "plain", plain)
    b.servers.empty_tenon()
    b.servers.sql("TRUNCATE tenon.flow, tenon.flow_task, tenon.flow_wait, tenon.flow_note")
    b.servers.sql("""SELECT count(tenon.flow(jsonb_build_object('tasks', '[{"name": "p", "kind": "noop"}]'::jsonb
        || (SELECT jsonb_agg('{"kind": "noop", "depends_on": ["p"]}'::jsonb) FROM generate_series(1, 9)))))
        FROM generate_series(1, %s)""", b.sizes.flows)
    b.tenon.rest()
    report(b, "flows", f"{b.sizes.flows}-of-10", figures := drain_with_cleaner(b, n))
    b.add("flows", f"{b.sizes.flows}-of-10", "to_plain", figures["tasks_per_s"] / plain["tasks_per_s"], "")
    flows_chain(b)


def limited(b):
    """Tasks of many keys, of each of which two run at once, beside as many plain tasks, with a cleaner in both."""
    n, keys = b.sizes.limited, b.sizes.limit_keys
    b.tenon.prepare(n)
    plain = drain_with_cleaner(b, n)
    report(b, "limited", "plain", plain)
    b.servers.empty_tenon()
    b.servers.sql("TRUNCATE tenon.limit_task, tenon.limit_event, tenon.limit_due, tenon.limit_start, tenon.limit_turn")
    b.servers.sql("SELECT tenon.set_limit('bench', max_running => 2)")
    b.servers.sql("""SELECT count(tenon.enqueue_many('noop', (SELECT array_agg(jsonb_build_object('i', i))
        FROM generate_series(1, %s) i), limit_keys => ARRAY['bench:' || k])) FROM generate_series(1, %s) k""", n // keys, keys)
    b.servers.sql("VACUUM ANALYZE tenon.limit_task")
    b.tenon.rest()
    report(b, "limited", f"{keys}-keys", figures := drain_with_cleaner(b, n))
    b.add("limited", f"{keys}-keys", "to_plain", figures["tasks_per_s"] / plain["tasks_per_s"], "")


def recover(b):
    """Workers that hold tasks are killed at once, beside a backlog that nobody serves; and limited tasks meanwhile."""
    n, tasks = b.sizes.doomed, 3 * b.sizes.doomed
    b.tenon.prepare(b.sizes.waiting, queues=("blocked",))
    b.servers.sql("SELECT tenon.set_limit('bench', max_running => 1)")
    with b.tenon.running(), contextlib.ExitStack() as stack:
        doomed = [stack.enter_context(b.tenon.worker(slots=3, handler="hold=exec sleep 600")) for _ in range(n)]
        b.tenon.enqueue_sql(tasks, kind="hold", announced=False)
        b.tenon.wait_until(f"(SELECT count(*) FROM tenon.task WHERE kind = 'hold' AND start_time IS NOT NULL) = {tasks}", 60)
        stack.enter_context(enqueueing(b, "noop", ", limit_keys => ARRAY['bench']"))
        time.sleep(20)  # the cleaner's session is old enough to declare somebody dead
        killed = time.time()
        for worker in doomed:
            worker.process.kill()
            worker.process.wait()
        b.tenon.wait_until("NOT EXISTS (SELECT FROM tenon.task WHERE kind = 'hold' AND start_time IS NOT NULL)", 300)
        recovered = time.time()
        time.sleep(2)
    before, meanwhile = (started_p50_ms(b, "noop", *span) for span in ((killed - 15, killed), (killed, recovered)))
    b.add("recover", f"{n}-workers", "seconds", recovered - killed, "s")
    b.add("recover", f"{n}-workers", "limited_p50_to_before", meanwhile / before, "")


@contextlib.contextmanager
def enqueueing(b, kind, arguments):
    """20 tasks a second."""
    over = threading.Event()

    def enqueue():
        with contextlib.closing(b.servers.connect()) as conn, conn.cursor() as cursor:
            while not over.wait(0.05):
                cursor.execute(f"SELECT tenon.enqueue(%s, '{{}}'::jsonb{arguments})", (kind,))

    thread = threading.Thread(target=enqueue)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def started_p50_ms(b, kind, begin, end):
    """As long as the span itself, if none of its tasks has run."""
    return b.servers.value(
        "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY 1000 * extract(epoch FROM start_time - created_at))::float"
        " FROM tenon.history WHERE kind = %s AND created_at >= to_timestamp(%s) AND created_at < to_timestamp(%s)",
        kind, begin, end) or 1000 * (end - begin)


def producers(b):
    """Transactions with one enqueue each, by SQL alone, of plain tasks and of tasks with a limit; a cleaner and no worker."""
    for clients in b.sizes.clients:
        rates = {}
        for variant, arguments in PRODUCED.items():
            b.servers.empty_tenon()
            b.servers.sql("TRUNCATE tenon.limit_task, tenon.limit_event, tenon.limit_due, tenon.limit_start, tenon.limit_turn")
            b.servers.sql("SELECT tenon.set_limit('bench', max_running => 2)")
            b.servers.settle()
            postgres_s = b.server_cpu_s()
            with b.tenon.cleaner():
                rates[variant] = pgbench(f"\\set k random(1, {b.sizes.limit_keys})\nSELECT tenon.enqueue('noop', '{{}}'::jsonb{arguments});\n",
                                         clients, b.sizes.pgbench_s)
                cpu_us = (b.server_cpu_s() - postgres_s) / (rates[variant] * b.sizes.pgbench_s) * 1e6
            b.add("producers", f"{variant}-{clients}", "tasks_per_s", rates[variant], "1/s")
            b.add("producers", f"{variant}-{clients}", "postgres_cpu_us_per_task", cpu_us, "us")
        b.add("producers", f"limited-{clients}", "to_plain", rates["limited"] / rates["plain"], "")


def drain_with_cleaner(b, n):
    postgres_s = b.server_cpu_s()
    with b.tenon.cleaner(), b.tenon.worker() as worker:
        b.tenon.wait_until_done(300)
        seconds = b.tenon.last_finish() - worker.started
    return {"tasks_per_s": n / seconds, "postgres_cpu_us_per_task": (b.server_cpu_s() - postgres_s) / n * 1e6}


def flows_chain(b):
    links = b.sizes.chain
    b.servers.empty_tenon()
    with b.tenon.running():
        b.servers.sql("TRUNCATE tenon.history")
        b.servers.sql("""SELECT tenon.flow(jsonb_build_object('tasks', (SELECT jsonb_agg(jsonb_build_object(
            'name', 'l' || i, 'kind', 'noop', 'depends_on', CASE WHEN i = 1 THEN '[]' ELSE jsonb_build_array('l' || i - 1) END))
            FROM generate_series(1, %s) i)))""", links)
        b.tenon.wait_until_done(300)
    ms = b.servers.value("SELECT extract(epoch FROM max(finished_at) - min(finished_at)) * 1000 FROM tenon.history")
    b.add("flows", f"chain-{links}", "ms_per_link", float(ms) / (links - 1), "ms")
    for part, interval in LINK_PARTS.items():
        b.add("flows", f"chain-{links}", f"p50_ms_{part}", b.servers.value(LINK_P50.format(interval)), "ms")


ALL = {"drain": drain, "latency": latency, "sustained": sustained, "notify": notify, "held-snapshot": held_snapshot,
       "bulk-enqueue": bulk_enqueue, "scheduled": scheduled, "retry-storm": retry_storm, "handlers": handlers,
       "scale": scale, "fleet": fleet, "flows": flows, "limited": limited, "producers": producers,
       "recover": recover, "footprint": footprint}
