"""What an operation costs beside 1, 10 and 100 times as many tasks that wait: PostgreSQL's CPU time and the buffers it reads."""
import time

import workloads
from process import run

LIMIT_S = 300
LIST = ("list", "--json", "--limit", "50")


def growth(b):
    for waiting in b.sizes.growth:
        b.tenon.prepare(waiting, queues=("blocked",))
        b.servers.sql("TRUNCATE tenon.limit_task, tenon.limit_event, tenon.limit_due, tenon.limit_start, tenon.limit_turn;"
                      "TRUNCATE tenon.flow, tenon.flow_task, tenon.flow_wait, tenon.flow_note")
        b.servers.sql("SELECT tenon.set_limit('bench', max_running => 2)")
        for name, operation in OPERATIONS.items():
            measure(b, f"{name}, {waiting:,} waiting", operation)


def used(b):
    """(CPU seconds of all of PostgreSQL, buffers that its sessions asked for)"""
    time.sleep(b.sizes.growth_rest_s)  # sessions report their buffers with up to a second's delay
    return b.server_cpu_s(), int(b.servers.value(
        "SELECT blks_hit + blks_read FROM pg_stat_database WHERE datname = current_database()"))


def measure(b, variant, operation):
    """`operation(b)` does some operations and returns their number."""
    before = used(b)
    n = operation(b)
    after = used(b)
    b.add("growth", variant, "postgres_cpu_us", (after[0] - before[0]) / n * 1e6, "us")
    b.add("growth", variant, "buffers", (after[1] - before[1]) / n, "")


def enqueue(b, arguments=""):
    """Four producers, a transaction for each task, by SQL alone."""
    workloads.pgbench(f"\\set k random(1, 100)\nSELECT tenon.enqueue('noop', '{{}}'::jsonb{arguments});\n", 4, b.sizes.growth_s)
    return b.tenon.counts()[0]


def with_a_limit(b):
    return enqueue(b, workloads.PRODUCED["limited"])


def work(b):
    """What was enqueued before is run, without a cleaner, which these tasks do not need."""
    n = b.tenon.counts()[0]
    with b.tenon.worker():
        b.tenon.wait_until_done(LIMIT_S)
    return n


def settled_work(b):
    n = b.tenon.counts()[0]
    workloads.drain_with_cleaner(b, n)
    return n


def cleaner(b):
    """A leading cleaner that has nothing to do but its chores, of which counting the depth is the dearest."""
    with b.tenon.cleaner():
        time.sleep(b.sizes.growth_cleaner_s)
    return b.sizes.growth_cleaner_s


def flows(b):
    n = b.sizes.growth_flows
    b.servers.sql("""SELECT count(tenon.flow('{"tasks": [{"name": "p", "kind": "noop"}, {"kind": "noop", "depends_on": ["p"]}]}'))
        FROM generate_series(1, %s)""", n)
    workloads.drain_with_cleaner(b, 2 * n)
    return 2 * n


def command(*words):
    def operation(b):
        for _ in range(10):
            run([b.tenon.bin, *words], 10)
        return 10
    return operation


OPERATIONS = {
    "enqueue": enqueue, "claim and finish": work,
    "enqueue with a limit": with_a_limit, "claim, finish and settle with a limit": settled_work,
    "enqueue, run and settle a flow of two": flows,
    "tenon list": command(*LIST), "tenon list --oldest": command(*LIST, "--oldest"), "tenon status": command("status", "--json"),
    "a second of a cleaner": cleaner,
}
