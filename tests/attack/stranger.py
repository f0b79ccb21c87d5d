"""Who may only log in to the database."""
import os
import socket
from urllib.parse import urlsplit

import psycopg2
from psycopg2.extras import wait_select

from attacker import ACTS_PER_S, LOCKS, MESSAGES_PER_S, Attacker

# Each must be refused.
FORBIDDEN = (
    "SELECT count(*) FROM tenon.task", "SELECT * FROM tenon.tasks LIMIT 1", "SELECT * FROM tenon.worker",
    "SELECT * FROM tenon.setting", "SELECT * FROM tenon.lock", "SELECT * FROM tenon.history LIMIT 1",
    "SELECT id FROM tenon.task FOR UPDATE", "LOCK TABLE tenon.task IN ACCESS SHARE MODE",
    "LOCK TABLE tenon.history IN ACCESS EXCLUSIVE MODE", "UPDATE tenon.task SET start_time = NULL",
    "DELETE FROM tenon.task", "DELETE FROM tenon.dead", "TRUNCATE tenon.task", "DROP SCHEMA tenon CASCADE",
    "INSERT INTO tenon.queue (name) VALUES ('x')", "UPDATE tenon.setting SET payload_bytes_max = 1",
    "ALTER TABLE tenon.task ADD COLUMN x integer", "CREATE TABLE tenon.mine (x integer)",
    "CREATE INDEX ON tenon.task (kind)", "SELECT tenon.make_partitions()", "SELECT tenon.drop_history()",
    "SELECT tenon.requeue('{1}', '{1}', '{dead}', '{x}', '{1}')",
    "SELECT tenon.grant_operator(current_user)", "SELECT tenon.grant_worker(current_user)",
    "SELECT tenon.queue_names(10)", "SELECT nextval(pg_get_serial_sequence('tenon.task', 'id'))",
    "SET ROLE tenon_worker", "SET ROLE tenon_cleaner", "SET SESSION AUTHORIZATION tenon",
    "ALTER ROLE tenon_worker SET array_nulls = off", "ALTER ROLE current_user SUPERUSER",
    "ALTER SYSTEM SET fsync = off", "CREATE ROLE other", "COPY (SELECT 1) TO PROGRAM 'true'",
    "SELECT pg_read_file('PG_VERSION')", "SET session_replication_role = replica", "VACUUM FULL pg_catalog.pg_authid",
    "CREATE EVENT TRIGGER t ON ddl_command_start EXECUTE FUNCTION f()", "CREATE PUBLICATION p FOR ALL TABLES",
    "SELECT pg_create_physical_replication_slot('mine')", "PREPARE TRANSACTION 'mine'",
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename ~ '^tenon|honest' LIMIT 1",
    "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE usename ~ '^tenon|honest' LIMIT 1",
    "REINDEX TABLE tenon.task", "CLUSTER tenon.task USING task_pkey", "COMMENT ON TABLE tenon.task IS 'mine'",
)
SETTINGS = (
    "search_path = pg_temp, public, tenon, pg_catalog", "work_mem = '64kB'", "jit_above_cost = 0", "lock_timeout = '1ms'",
    "array_nulls = off", "timezone = 'Pacific/Kiritimati'", "datestyle = 'German, DMY'", "enable_indexscan = off",
    "plan_cache_mode = force_generic_plan", "default_transaction_isolation = serializable",
    "default_transaction_read_only = on", "default_transaction_deferrable = on", "statement_timeout = '1ms'",
    "transform_null_equals = on", "quote_all_identifiers = on", "synchronous_commit = off",
    "extra_float_digits = -15", "intervalstyle = sql_standard", "bytea_output = escape", "row_security = off",
    "check_function_bodies = off", "xmloption = document", "temp_buffers = '800kB'", "force_parallel_mode = on",
)
KEYS_OF_OTHERS = ("SELECT (classid::bigint << 32) | objid::bigint FROM pg_catalog.pg_locks"
                  " WHERE locktype = 'advisory' AND objsubid = 1 AND pid <> pg_backend_pid()")
CONNECT_COST = 5


def cut(descriptor):
    """End a connection without a goodbye."""
    with socket.socket(fileno=os.dup(descriptor)) as sock:
        sock.shutdown(socket.SHUT_RDWR)


class Stranger(Attacker):
    errors = (OSError, ValueError, psycopg2.Error)  # a date that Python cannot read

    def __init__(self, seed, hint, log):
        super().__init__(seed, hint, log)
        self.url, self.locks, self.conn = os.environ["DATABASE_URL"], 0, None
        self.recover()
        self.acts = {
            self.forbidden: 10, self.random_locks: 5, self.keys_of_others: 10, self.notify: 10, self.listen: 2,
            self.snapshot: 3, self.partitions: 2, self.temporary: 5, self.settings: 5, self.storm: 2, self.garbage: 2,
            self.catalogs: 10, self.numbers: 10, self.large_objects: 2, self.subtransactions: 1, self.sleeper: 2}

    def recover(self):
        if not self.conn or self.conn.closed:
            self.conn, self.locks = self.connect(), 0
        if self.conn.info.transaction_status != psycopg2.extensions.TRANSACTION_STATUS_IDLE:
            self.sql("ROLLBACK")

    def reason(self, error):
        return getattr(error, "pgcode", None) or type(error).__name__

    def connect(self, autocommit=True):
        conn = psycopg2.connect(self.url, connect_timeout=5)
        conn.autocommit = autocommit
        return conn

    def sql(self, text, *args, conn=None):
        with (conn or self.conn).cursor() as cursor:
            cursor.execute(text, args or None)
            return cursor.fetchall() if cursor.description else []

    def holder(self, *statements):
        """A session that has done these and is idle, most often in a transaction, for a while."""
        conn = self.connect()
        self.hold(conn)
        for text in statements:
            self.sql(text, conn=conn)
        return CONNECT_COST + len(statements)

    def waiter(self, text):
        """A session in which this statement goes on until it is closed."""
        conn = psycopg2.connect(self.url, async_=True)
        wait_select(conn)
        self.hold(conn)
        conn.cursor().execute(text)
        return CONNECT_COST

    # --- what is not allowed ---

    def forbidden(self):
        text = self.random.choice(FORBIDDEN)
        before = self.conn
        self.sql("BEGIN")
        try:
            rows = self.sql(text)
            if rows or not text.startswith("SELECT pg_"):  # nobody was there to be ended
                self.findings[f"was not refused: {text}: {rows}"] += 1
        except psycopg2.Error as error:
            self.counts["forbidden", error.pgcode] += 1
        if not before.closed:
            self.sql("ROLLBACK")
        return 3

    # --- locks ---

    def random_locks(self):
        if self.locks >= LOCKS:
            self.sql("SELECT pg_advisory_unlock_all()")
            self.locks = 0
        self.sql("SELECT pg_try_advisory_lock((random() * 2^62)::bigint) FROM generate_series(1, 100)")
        self.locks += 100

    def keys_of_others(self):
        keys = self.sql(KEYS_OF_OTHERS)
        if not keys:
            return 1
        key, how = self.random.choice(keys)[0], self.pick("", "_shared", "_xact", "_xact_shared")
        if self.chance(70):
            self.sql(f"SELECT pg_try_advisory{'_xact' if '_xact' in how else ''}_lock"
                     f"{'_shared' if 'shared' in how else ''}(%s)", key)
            return 2
        return self.waiter("SELECT pg_advisory_lock%s(%d)" % ("_shared" if "shared" in how else "", key))

    def partitions(self):
        """It asks no right, and keeps an ACCESS SHARE lock on each of them until the transaction ends."""
        return self.holder("BEGIN", "SELECT pg_partition_tree(oid) FROM pg_class WHERE relname = 'history'")

    # --- notifications, transactions ---

    def notify(self):
        n = self.random.randrange(1, 50)
        for _ in range(n):
            self.sql("SELECT pg_notify(%s, %s)", self.pick("tenon", "tenon_wakeup", "tenon_wakeup", "other"),
                     self.pick("", "default/work", "settle", "pause", "a/b c/d " * 500, self.text(1000)))
        return n * ACTS_PER_S / MESSAGES_PER_S

    def listen(self):
        return self.holder("LISTEN tenon", "LISTEN tenon_wakeup", "BEGIN", "SELECT 1")

    def snapshot(self):
        return self.holder("BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT txid_current()")

    def subtransactions(self):
        """So many that snapshots of others cannot hold their ids."""
        return self.holder("BEGIN", "CREATE TEMP TABLE s (x integer)",
                           *["SAVEPOINT s; INSERT INTO s VALUES (1)"] * 100)

    def sleeper(self):
        return self.waiter("SELECT pg_sleep(60)")

    # --- what it may make ---

    def temporary(self):
        name = self.pick("task", "setting", "producer", "kind", "queue", "pg_locks", "pg_roles", "history")
        self.sql(f"CREATE TEMP TABLE IF NOT EXISTS {name} AS SELECT g AS id, 't'::text AS name FROM generate_series(1, 1000) g")
        if self.chance(50):
            self.sql("DISCARD TEMP")
        return 2

    def settings(self):
        if self.chance(30):
            self.sql("RESET ALL")
        else:
            self.sql("SET " + self.random.choice(SETTINGS))

    def large_objects(self):
        self.sql("SELECT lo_unlink(lo_from_bytea(0, decode(repeat('00', 100000), 'hex')))")

    # --- connections ---

    def storm(self):
        for _ in range(5):
            conn = self.connect()
            cut(conn.fileno())
        return 5 * CONNECT_COST

    def garbage(self):
        to = urlsplit(self.url)
        sock = socket.create_connection((to.hostname, to.port), timeout=5)
        self.hold(sock)
        sock.sendall(self.pick(b"", b"\x00\x00\x00\x08\x04\xd2\x16\x2f", self.random.randbytes(200), b"\xff" * 8))
        return CONNECT_COST

    # --- statements ---

    def catalogs(self):
        self.sql(self.pick("SELECT * FROM pg_catalog.pg_locks", "SELECT * FROM pg_stat_activity",
                           "SELECT pg_total_relation_size(oid) FROM pg_class WHERE relname = 'task'",
                           "SELECT * FROM pg_stat_all_tables", "SELECT pg_stat_clear_snapshot()"))

    def numbers(self):
        self.sql("SELECT count(*) FROM generate_series(1, 10000)")
