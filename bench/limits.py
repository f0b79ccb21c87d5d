"""What PostgreSQL and RabbitMQ can do on this machine with nothing of a queue between."""
from cost import Cost
from process import run
from workloads import pgbench, percentiles

# tenon.task's columns and its primary key, without its other indexes.
TABLE = """
DROP SCHEMA IF EXISTS bench CASCADE;
CREATE SCHEMA bench;
CREATE TABLE bench.task (LIKE tenon.task INCLUDING IDENTITY INCLUDING DEFAULTS, PRIMARY KEY (id));
"""
COLUMNS = "run_at, created_at, timeout_ms, max_attempts, priority, delayed, announced, queue, kind, payload"
VALUES = "now(), now(), 3600000, 25, 4, false, true, 'default', 'noop', '{}'"
INSERT = f"INSERT INTO bench.task ({COLUMNS}) VALUES ({VALUES});\n"
# Three commits for 500 rows: insert, claim, delete. Each session takes 500 ids at once from the sequence, so that
# the rows of one insert have ids of their own from first to last.
LIFE_TABLE = TABLE + """
ALTER TABLE bench.task ALTER COLUMN id SET CACHE 500;
DO $$ BEGIN
    EXECUTE (SELECT format('ALTER TABLE bench.task SET (%s)', array_to_string(reloptions, ', '))
             FROM pg_class WHERE oid = 'tenon.task'::regclass);
END $$;
"""
LIFE_500 = f"""
WITH new AS (INSERT INTO bench.task ({COLUMNS}) SELECT {VALUES} FROM generate_series(1, 500) RETURNING id)
SELECT min(id) AS first, max(id) AS last FROM new \\gset
UPDATE bench.task SET start_time = now(), claim_key = id, worker_id = '00000000-0000-0000-0000-000000000001', claims = 1
WHERE id BETWEEN :first AND :last;
DELETE FROM bench.task WHERE id BETWEEN :first AND :last;
"""
# as in tenon's own sessions: a plan made while the table is nearly empty would stay a sequential scan
BY_INDEX = "-c enable_seqscan=off -c enable_bitmapscan=off"
WINDOW = 2048


def postgres(b):
    for clients in (1, 4, 16):
        b.servers.sql(TABLE)
        b.servers.settle()
        cost, variant = Cost(b), f"pgbench-insert-{clients}-clients"
        rows_per_s = pgbench(INSERT, clients, b.sizes.pgbench_s, watch=cost.watch)
        b.limit(variant, "rows_per_s", rows_per_s)
        for part, us in cost.per_task_us(rows_per_s * (cost.end - cost.start)):
            b.limit(variant, f"cpu_us_{part}", us, "us")
    b.servers.sql(LIFE_TABLE)
    b.servers.settle()
    rows_per_s = pgbench(LIFE_500, 4, b.sizes.pgbench_s, rows=500, options=BY_INDEX)
    b.limit("pgbench-insert-update-delete-500", "rows_per_s", rows_per_s)


def amqp(b, verb, n):
    return run([f"{b.tenon.bench}/bench_limit_amqp", verb, str(n), str(WINDOW)], 60)


def rabbitmq(b):
    n = b.sizes.limit_messages
    for verb in ("publish", "consume"):
        b.limit(f"rabbitmq-{verb}", "messages_per_s", n / float(amqp(b, verb, n)))


def idle_machine(b):
    """What a task's two journeys take when nothing else goes on: a row's to the disk, and a message's."""
    b.servers.sql(TABLE)
    b.servers.settle()
    out = run([f"{b.tenon.bench}/bench_latency", str(b.sizes.latency), INSERT.rstrip(";\n") + " RETURNING id"], 60)
    inserts = [(int(after) - int(before)) / 1e6 for _, before, after in map(str.split, out.splitlines())]
    deliveries = [float(line) for line in amqp(b, "deliver", b.sizes.latency).split()]
    for variant, values in (("insert-every-20-ms", inserts), ("rabbitmq-deliver-every-20-ms", deliveries)):
        for p, ms in percentiles(values).items():
            b.limit(variant, f"p{p}_ms", ms, "ms")


def run_all(b):
    postgres(b)
    rabbitmq(b)
    idle_machine(b)
    b.servers.sql("DROP SCHEMA bench CASCADE")
