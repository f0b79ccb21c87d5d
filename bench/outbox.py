"""Messages of tenon.publish: how fast the relay sends a backlog, beside a bare publisher in C; and how soon a consumer
has a message after its commit, beside a task: with nothing else to send, and beside a backlog."""
import contextlib
import subprocess
import time

from process import run
from servers import channel
from workloads import NOTIFY, latency_of, percentiles

QUEUE = "bench.limit"  # of bench_limit_amqp
BACKLOG_QUEUE = "bench.backlog"
WINDOW = 1024  # as the relay's
LIMIT_S = 300
PUBLISH = f"SELECT tenon.publish('', '{QUEUE}', 'x')"
PUBLISH_KEY = f"SELECT tenon.publish('', '{QUEUE}', 'x', order_key => 'another')"
FIRST = 10  # that are not measured


def outbox(b):
    bare_s = float(amqp(b, "persistent", b.sizes.outbox))
    bare = b.sizes.outbox / bare_s
    b.add("outbox", "bare-publisher", "messages_per_s", bare, "1/s")
    for variant, key in (("plain", "NULL"), ("keys", "'key ' || i % 1000")):
        relayed = b.sizes.outbox / relay_s(b, variant, key)
        b.add("outbox", variant, "messages_per_s", relayed, "1/s")
        b.add("outbox", variant, "of_bare_publisher", relayed / bare, "x")
    latency(b)
    backlog(b, b.backlog or b.sizes.outbox_backlog)


def amqp(b, verb, n):
    return run([f"{b.tenon.bench}/bench_limit_amqp", verb, str(n), str(WINDOW)], LIMIT_S)


def relay_s(b, variant, key):
    """Seconds from the start of a cleaner until the outbox is empty; the queue is there, and empty. And what that cost."""
    amqp(b, "persistent", 1)
    b.servers.empty_tenon()
    with contextlib.closing(b.servers.connect()) as conn, conn.cursor() as cursor:
        cursor.execute(f"SELECT count(tenon.publish('', '{QUEUE}', lpad(i::text, 100, '0'), order_key => {key}, notify => false))"
                       f" FROM generate_series(1, {b.sizes.outbox}) i")
    b.servers.sql("VACUUM ANALYZE tenon.message")
    b.servers.settle()
    wal, cpu_s, start = b.servers.value("SELECT pg_current_wal_lsn()"), b.server_cpu_s(), time.monotonic()
    with b.tenon.cleaner() as cleaner:
        b.tenon.wait_until("NOT EXISTS (SELECT FROM tenon.message)", LIMIT_S)
        took_s = time.monotonic() - start
        for metric, value, unit in (("cleaner_cpu_us", cleaner.cpu_s() * 1e6, "us"),
                                    ("postgres_cpu_us", (b.server_cpu_s() - cpu_s) * 1e6, "us"),
                                    ("wal_bytes", float(b.servers.value("SELECT pg_current_wal_lsn() - %s::pg_lsn", wal)), "B")):
            b.add("outbox", variant, f"{metric}_per_message", value / b.sizes.outbox, unit)
        return took_s


def latency(b):
    """The same producer, with the same pause between: a message to its consumer, and a task to its handler."""
    b.servers.empty_tenon()
    messages(b, "message-after-commit", PUBLISH)
    latency_of(b, "outbox-task", NOTIFY["adaptive"])


def messages(b, variant, publish):
    """From the return of a commit to the consumer, by a cleaner that starts now."""
    n = b.sizes.latency
    words = [f"{b.tenon.bench}/bench_limit_amqp", "receive", str(n + FIRST), str(WINDOW)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as consumer, b.tenon.cleaner():
        assert consumer.stdout.readline() == "ready\n"
        b.tenon.wait_until("EXISTS (SELECT FROM tenon.setting s JOIN tenon.lock k ON k.key = s.leader_key)", 30)
        out = run([f"{b.tenon.bench}/bench_latency", str(FIRST), publish], 1) \
            + run([f"{b.tenon.bench}/bench_latency", str(n), publish], n * 0.02)
        came = [int(line) for line in consumer.communicate(timeout=LIMIT_S)[0].split()]
    after = [int(line.split()[2]) for line in out.splitlines()]
    times = [(at - commit) / 1e6 for at, commit in zip(came[FIRST:], after[FIRST:], strict=True)]
    for p, ms in {**percentiles(times), 100: max(times)}.items():
        b.add("outbox", variant, f"p{p}_ms", ms, "ms")


def backlog(b, n):
    """New messages of another key, and tasks, beside `n` messages: of one key whose first message is refused, while
    the relay finds that out of all of them and afterwards; and without a key, while they are sent."""
    fill(b, n, "nowhere", "'stuck'")
    both(b, "passing")
    with b.tenon.cleaner():
        start = time.monotonic()
        b.tenon.wait_until("NOT EXISTS (SELECT FROM tenon.message WHERE NOT held AND failed_at IS NULL)", LIMIT_S + n / 1000)
        b.add("outbox", "backlog", "rest_of_passing_s", time.monotonic() - start, "s")
    both(b, "held")
    with channel() as c:
        c.queue_declare(BACKLOG_QUEUE, durable=True)
        fill(b, n, BACKLOG_QUEUE, "NULL")
        both(b, "sending")
        b.servers.sql("TRUNCATE tenon.message")
        c.queue_delete(BACKLOG_QUEUE)


def both(b, variant):
    messages(b, f"message-{variant}", PUBLISH_KEY)
    latency_of(b, f"outbox-task-{variant}", NOTIFY["adaptive"])


def fill(b, n, queue, key):
    b.servers.empty_tenon()
    b.servers.sql("TRUNCATE tenon.message")
    with contextlib.closing(b.servers.connect()) as conn, conn.cursor() as cursor:
        for first in range(0, n, 100000):
            cursor.execute(f"SELECT cardinality(tenon.publish_many('', %s, array_fill(repeat('x', 100), ARRAY[%s]), order_key => {key}, notify => false))",
                           (queue, min(100000, n - first)))
    b.servers.sql("VACUUM ANALYZE tenon.message")
    b.servers.settle()
