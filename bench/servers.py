"""The private servers that everything in one run shares, and their one documented setting."""
import os
import shlex
import socket
import subprocess
import tempfile
import time

import pika
import psycopg2

DIRECTORY = ".services/bench/servers"
# A usual setting for a machine of this size. Durability stays at PostgreSQL's defaults: fsync,
# synchronous_commit and full_page_writes are on.
POSTGRES = {"shared_buffers": "1GB", "max_wal_size": "4GB"}


def services(*words):
    subprocess.run(["script/services", "--dir", DIRECTORY, *words], check=True,
                   stdout=subprocess.DEVNULL)


def read_env():
    text = subprocess.run(["script/services", "--dir", DIRECTORY, "env"], check=True, text=True,
                          capture_output=True).stdout
    for line in text.splitlines():
        name, _, value = shlex.split(line)[1].partition("=")
        os.environ[name] = value


class Servers:
    def __init__(self, tenon):
        self.tenon = tenon
        self.redis = None
        try:
            self.start()
        except BaseException:
            services("wipe")
            raise

    def start(self):
        services("start")
        read_env()
        for name, value in POSTGRES.items():
            self.sql(f"ALTER SYSTEM SET {name} = '{value}'")
        services("restart", "postgres")
        read_env()
        subprocess.run([self.tenon, "setup"], check=True, stdout=subprocess.DEVNULL)

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
        self.sql("TRUNCATE tenon.task, tenon.finished, tenon.dead, tenon.worker")
        connection = pika.BlockingConnection(pika.URLParameters(os.environ["AMQP_URL"]))
        for queue in queues:
            connection.channel().queue_purge(f"tenon.{queue}")
        connection.close()
        self.settle()

    def settle(self):
        self.sql("CHECKPOINT")

    def new_database(self, name):
        """An empty database of this name for a rival; its URL."""
        self.sql(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        self.sql(f"CREATE DATABASE {name}")
        return os.environ["DATABASE_URL"].rsplit("/", 1)[0] + "/" + name

    def start_redis(self):
        """A Redis of our own with its recommended durability: appendonly, fsync every second."""
        if self.redis is None:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                self.redis_port = probe.getsockname()[1]
            self.redis_dir = tempfile.TemporaryDirectory(prefix="tenon-bench-redis.")
            self.redis = subprocess.Popen(
                ["redis-server", "--port", str(self.redis_port), "--bind", "127.0.0.1", "--dir",
                 self.redis_dir.name, "--appendonly", "yes", "--appendfsync", "everysec",
                 "--maxmemory-policy", "noeviction"], stdout=subprocess.DEVNULL)
            while subprocess.run(["redis-cli", "-p", str(self.redis_port), "ping"],
                                 capture_output=True).stdout != b"PONG\n":
                time.sleep(0.05)
        return f"redis://127.0.0.1:{self.redis_port}"

    def versions(self):
        text = {"PostgreSQL": self.value("SHOW server_version")}
        connection = pika.BlockingConnection(pika.URLParameters(os.environ["AMQP_URL"]))
        text["RabbitMQ"] = connection._impl.server_properties["version"]
        connection.close()
        return text

    def close(self):
        if self.redis:
            self.redis.terminate()
            self.redis.wait()
            self.redis_dir.cleanup()
        services("wipe")
