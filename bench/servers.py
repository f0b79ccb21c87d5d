"""The private servers that everything in one run shares, and their one documented setting."""
import contextlib
import fcntl
import glob
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import pika
import psycopg2
from pika.exceptions import ChannelClosedByBroker as NotThere

DIRECTORY = ".services/bench/servers"
TEMPORARY = ".services/bench/tmp"
# A usual setting for a machine of this size. Durability stays at PostgreSQL's defaults: fsync,
# synchronous_commit and full_page_writes are on.
POSTGRES = {"shared_buffers": "1GB", "max_wal_size": "4GB"}


LIMIT_S = 300


def lock():
    """One run at a time, while the result lives; children do not inherit it, so none of a killed run holds it."""
    os.makedirs(os.path.dirname(DIRECTORY), exist_ok=True)
    file = open(f"{DIRECTORY}.lock", "w", encoding="ascii")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit("bench: another run is under way in this clone; wait until it has ended")
    return file


def services(directory, *words):
    return subprocess.run(["script/services", "--dir", directory, *words], check=True, text=True,
                          stdout=subprocess.PIPE, timeout=LIMIT_S).stdout


def wipe_leftovers():
    """What a killed run left: its servers, and every program with its mark, which all programs inherit."""
    mark = f"BENCH_SERVERS={os.path.abspath(DIRECTORY)}"
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(FileNotFoundError, PermissionError, ProcessLookupError):
            with open(f"/proc/{pid}/environ", "rb") as file:
                if mark.encode() in file.read().split(b"\0"):
                    os.kill(int(pid), signal.SIGKILL)
    os.environ.update([mark.split("=", 1)])
    for directory in glob.glob(f"{DIRECTORY}/*"):
        services(directory, "wipe")


@contextlib.contextmanager
def temporary():
    """A place of our own for temporary files, as some programs leave theirs behind, Celery's for instance."""
    shutil.rmtree(TEMPORARY, ignore_errors=True)
    os.makedirs(TEMPORARY)
    os.environ["TMPDIR"] = os.path.abspath(TEMPORARY)
    yield
    shutil.rmtree(TEMPORARY, ignore_errors=True)


@contextlib.contextmanager
def channel():
    connection = pika.BlockingConnection(pika.URLParameters(os.environ["AMQP_URL"]))
    try:
        yield connection.channel()
    finally:
        connection.close()


def rabbitmq_names(queues):
    """What their queues in RabbitMQ may be called: before workers declared one for each kind, and since then."""
    return [name for queue in queues for name in (f"tenon.{queue}", f"tenon.{queue}/noop")]


class Servers:
    """A PostgreSQL and a RabbitMQ for the tenon whose program this is. What runs next finds those servers in its
    environment of which `use` was called last."""

    def __init__(self, tenon, directory, blocked=0):
        self.tenon, self.directory, self.blocked = tenon, directory, blocked
        self.redis = None
        try:
            self.start()
        except BaseException:
            self.services("wipe")
            raise

    def services(self, *words):
        return services(self.directory, *words)

    def use(self):
        os.environ.update(shlex.split(line)[1].split("=", 1) for line in self.services("env").splitlines())

    def start(self):
        self.services("start")
        self.use()
        for name, value in POSTGRES.items():
            self.sql(f"ALTER SYSTEM SET {name} = '{value}'")
        self.services("restart", "postgres")
        self.use()
        self.postgres_pid, self.rabbitmq_pid = map(
            int, re.findall(r" runs on .*, pid (\d+)", self.services("status")))
        self.setup()
        if self.blocked:
            self.block(self.blocked)

    def block(self, n):
        """So many tasks, of which half wait for a parent, which is due in a year, and half for the first of them, which nobody
        handles and which holds all of their limit; they stay while all else is emptied."""
        self.block_by_parent(n // 2)
        self.block_by_limit(n - n // 2)
        self.sql("VACUUM ANALYZE")

    def block_by_parent(self, n):
        self.sql("SELECT tenon.enqueue('noop', flow => tenon.flow('blocked'), queue => 'blocked', delay => '1 year')")
        flow, parent = self.sql("SELECT flow, id FROM tenon.task WHERE queue = 'blocked'")[0]
        for first in range(0, n, 10000):
            self.sql("SELECT cardinality(tenon.enqueue_many('noop', array_fill('{}'::jsonb, ARRAY[%s]), flow => %s,"
                     " depends_on => ARRAY[%s], queue => 'blocked'))", min(10000, n - first), flow, parent)
        self.sql("TRUNCATE tenon.flow_note")

    def block_by_limit(self, n):
        self.sql("SELECT tenon.set_limit('blocked', max_running => 1)")
        for first in range(0, n, 10000):
            self.sql("SELECT cardinality(tenon.enqueue_many('noop', array_fill('{}'::jsonb, ARRAY[%s]),"
                     " limit_keys => '{blocked}', queue => 'blocked'))", min(10000, n - first))
        while self.value("SELECT tenon.settle()") > 0:
            pass

    def setup(self):
        subprocess.run([self.tenon, "setup"], check=True, stdout=subprocess.DEVNULL, timeout=LIMIT_S)

    def connect(self, database=None):
        conn = psycopg2.connect(os.environ["DATABASE_URL"], **({"dbname": database} if database else {}))
        conn.autocommit = True
        return conn

    def sql(self, text, *params, database=None):
        """The rows of one statement, on a connection of its own."""
        conn = self.connect(database)
        try:
            cursor = conn.cursor()
            cursor.execute(text, params or None)
            return cursor.fetchall() if cursor.description else []
        finally:
            conn.close()

    def value(self, text, *params, database=None):
        return self.sql(text, *params, database=database)[0][0]

    def empty_tenon(self, queues=("default",)):
        """No task, no history, no wake-up, and no dirty pages from the one before."""
        if self.blocked:
            self.sql("DELETE FROM tenon.task WHERE queue <> 'blocked'")
        else:
            self.sql("TRUNCATE tenon.task")
        self.sql("TRUNCATE tenon.history, tenon.dead, tenon.worker")
        for name in rabbitmq_names(queues):
            with contextlib.suppress(NotThere), channel() as c:
                c.queue_purge(name)
        self.settle()

    def messages(self, queue):
        """How many wait in RabbitMQ."""
        found = 0
        for name in rabbitmq_names([queue]):
            with contextlib.suppress(NotThere), channel() as c:
                found += c.queue_declare(name, passive=True).method.message_count
        return found

    @contextlib.contextmanager
    def queues(self, n):
        """The names of so many queues, which setup makes known; they are gone afterwards."""
        names = [f"q{i}" for i in range(n)]
        self.sql("INSERT INTO tenon.queue (name) SELECT unnest(%s)", names)
        self.setup()
        try:
            yield names
        finally:
            self.sql("DELETE FROM tenon.queue WHERE name = ANY(%s)", names)
            with channel() as c:
                for name in rabbitmq_names(names):
                    c.queue_delete(name)

    def settle(self):
        self.sql("CHECKPOINT")

    def new_database(self, name):
        """An empty database of this name for a rival; its URL."""
        self.sql(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        self.sql(f"CREATE DATABASE {name}")
        return os.environ["DATABASE_URL"].rsplit("/", 1)[0] + "/" + name

    def start_redis(self):
        """A Redis of our own with its recommended durability: appendonly, fsync every second; no snapshots."""
        if self.redis is None:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                self.redis_port = probe.getsockname()[1]
            self.redis_dir = tempfile.TemporaryDirectory(prefix="tenon-bench-redis.")
            self.redis = subprocess.Popen(
                ["redis-server", "--port", str(self.redis_port), "--bind", "127.0.0.1", "--dir",
                 self.redis_dir.name, "--appendonly", "yes", "--appendfsync", "everysec", "--save", "",
                 "--maxmemory-policy", "noeviction"], stdout=subprocess.DEVNULL)
            self.wait_for_redis(time.monotonic() + 30)
        return f"redis://127.0.0.1:{self.redis_port}"

    def wait_for_redis(self, deadline):
        while subprocess.run(["redis-cli", "-p", str(self.redis_port), "ping"], capture_output=True,
                             timeout=30).stdout != b"PONG\n":
            if time.monotonic() > deadline or self.redis.poll() is not None:
                raise RuntimeError("redis-server did not start within 30 s")
            time.sleep(0.05)

    def versions(self):
        with channel() as c:
            rabbitmq = c.connection._impl.server_properties["version"]
        return {"PostgreSQL": self.value("SHOW server_version"), "RabbitMQ": rabbitmq}

    def settings(self):
        """What is not PostgreSQL's default, by name."""
        return {name: self.value(f"SHOW {name}") for name in (*POSTGRES, "max_connections")}

    def close(self):
        if self.redis:
            self.redis.kill()
            self.redis.wait()
            self.redis_dir.cleanup()
        self.services("wipe")
