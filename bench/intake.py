"""tenon intake beside tenon.enqueue_many: tasks of the same payloads, from a queue of RabbitMQ and from a client."""
import contextlib

from process import run
from servers import channel
from tenon import Program

PIECE = 500  # what intake commits at a time, at most
QUEUE = "bench.limit"  # the one of bench_limit_amqp
LIMIT_S = 300


def intake(b):
    rates = {"enqueue-many": by_client(b, b.sizes.intake), "intake": by_intake(b, b.sizes.intake)}
    for variant, rate in rates.items():
        b.add("intake", variant, "tasks_per_s", rate, "1/s")
    b.add("intake", "intake", "to_enqueue_many", rates["intake"] / rates["enqueue-many"], "")


def rate(b, n):
    """From the first task to the last."""
    return n / float(b.servers.value("SELECT extract(epoch FROM max(created_at) - min(created_at)) FROM tenon.task"))


def empty(b):
    b.servers.empty_tenon()
    b.servers.sql("TRUNCATE tenon.seen")


def by_client(b, n):
    """One session, 500 payloads in a call, which it sends as a text; prepared, as libtenon does."""
    empty(b)
    with contextlib.closing(b.servers.connect()) as conn, conn.cursor() as cursor:
        cursor.execute("PREPARE many (jsonb[]) AS SELECT tenon.enqueue_many('noop', $1)")
        for first in range(0, n, PIECE):
            payloads = ",".join(f'"{{\\"order\\": {i}, \\"total\\": 99.90}}"' for i in range(first, min(first + PIECE, n)))
            cursor.execute("EXECUTE many (%s)", ("{" + payloads + "}",))
    return rate(b, n)


def by_intake(b, n):
    empty(b)
    run([f"{b.tenon.bench}/bench_limit_amqp", "fill", str(n), "1000"], LIMIT_S)
    with Program([b.tenon.bin, "intake", "--from", QUEUE, "--kind", "noop", "--log-level", "warning"], {}):
        b.tenon.wait_until(f"(SELECT count(*) FROM tenon.task) >= {n}", LIMIT_S)
    with channel() as c:
        c.queue_delete(QUEUE)
    return rate(b, n)
