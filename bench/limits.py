"""What PostgreSQL and RabbitMQ can do on this machine with nothing of a queue between."""
import subprocess

from workloads import pgbench

# tenon.task's columns and its primary key, without its other indexes.
TABLE = """
DROP SCHEMA IF EXISTS bench CASCADE;
CREATE SCHEMA bench;
CREATE TABLE bench.task (LIKE tenon.task INCLUDING IDENTITY INCLUDING DEFAULTS, PRIMARY KEY (id));
"""
COLUMNS = "run_at, created_at, timeout_ms, max_attempts, priority, delayed, announced, queue, kind, payload"
VALUES = "now(), now(), 3600000, 25, 4, false, true, 'default', 'noop', '{}'"
INSERT = f"INSERT INTO bench.task ({COLUMNS}) VALUES ({VALUES});\n"
# Three commits for 500 rows: insert, claim, delete. Each client works on rows of its own.
LIFE_500 = f"""
INSERT INTO bench.task ({COLUMNS.replace('max_attempts', 'max_attempts, attempt')})
SELECT {VALUES.replace('25,', '25, :client_id,')} FROM generate_series(1, 500);
UPDATE bench.task SET start_time = now(), worker_id = '00000000-0000-0000-0000-000000000001'
WHERE attempt = :client_id;
DELETE FROM bench.task WHERE attempt = :client_id;
"""
WINDOW = 2048


def postgres(b):
    for clients in (1, 4, 16):
        b.servers.sql(TABLE)
        b.servers.settle()
        b.limit(f"pgbench-insert-{clients}-clients", "rows_per_s", pgbench(INSERT, clients, b.sizes.pgbench_s))
    b.servers.sql(TABLE + "CREATE INDEX ON bench.task (attempt);")
    b.servers.settle()
    b.limit("pgbench-insert-update-delete-500", "rows_per_s", pgbench(LIFE_500, 4, b.sizes.pgbench_s, rows=500))
    b.servers.sql("DROP SCHEMA bench CASCADE")


def rabbitmq(b):
    n = b.sizes.limit_messages
    for verb in ("publish", "consume"):
        out = subprocess.run([f"{b.tenon.bench}/bench_limit_amqp", verb, str(n), str(WINDOW)], check=True, text=True,
                             capture_output=True, timeout=120).stdout
        b.limit(f"rabbitmq-{verb}", "messages_per_s", n / float(out))


def run(b):
    postgres(b)
    rabbitmq(b)
