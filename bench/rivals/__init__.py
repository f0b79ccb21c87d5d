"""What people would pick instead. Each is installed at run time, at the version that is named here, into
a directory under .services, and uses the same servers as tenon."""
import json
import os
import subprocess
import tempfile

import pika

from workloads import Snapshot

HERE = os.path.dirname(__file__)
TOOLS = os.path.abspath(".services/bench/tools")
NODE = "24.21.0"
NPM = "12.2.0"
REGISTRY = "https://registry.npmjs.org"
ARCHITECTURES = {"x86_64": "x64", "aarch64": "arm64"}
LIMIT_S = 300


def fetch(package, version, folder):
    """One package of the npm registry, unpacked."""
    if not os.path.exists(f"{TOOLS}/{folder}/package.json"):
        os.makedirs(f"{TOOLS}/{folder}", exist_ok=True)
        subprocess.run(f"curl -fsS {REGISTRY}/{package}/-/{package}-{version}.tgz"
                       f" | tar xz -C {TOOLS}/{folder} --strip-components=1", shell=True, check=True)


def install_node():
    """Node itself, npm, and the packages of package.json; nothing outside TOOLS."""
    architecture = ARCHITECTURES[os.uname().machine]
    fetch(f"node-linux-{architecture}", NODE, "node")
    fetch("npm", NPM, "npm")
    with open(f"{HERE}/package.json", encoding="ascii") as file:
        wanted = file.read()
    installed = f"{TOOLS}/package.json.installed"
    if os.path.exists(installed) and open(installed, encoding="ascii").read() == wanted:
        return
    with open(f"{TOOLS}/package.json", "w", encoding="ascii") as file:
        file.write(wanted)
    subprocess.run([f"{TOOLS}/node/bin/node", f"{TOOLS}/npm/bin/npm-cli.js", "install", "--prefix", TOOLS, "--cache",
                    f"{TOOLS}/npm-cache", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel", "error"],
                   check=True, stdout=subprocess.DEVNULL,
                   env={**os.environ, "PATH": f"{TOOLS}/node/bin:{os.environ['PATH']}"})
    os.replace(f"{TOOLS}/package.json", f"{TOOLS}/package.json.installed")


class Rival:
    workloads = ("drain", "latency", "sustained")
    variants = ("recommended", "max")

    def __init__(self, b):
        self.b = b
        self.install()

    def install(self):
        install_node()

    def command(self):
        return [f"{TOOLS}/node/bin/node", f"{HERE}/{self.file}"]

    def environment(self):
        return {"RIVAL_URL": self.b.servers.new_database("bench_rival"), "NODE_PATH": f"{TOOLS}/node_modules"}

    def measure(self, *words, inside=None):
        """What the rival's program printed: {metric: value}."""
        env = {**os.environ, **self.environment()}
        self.b.servers.settle()
        process = subprocess.Popen([*self.command(), *map(str, words)], env=env, stdout=subprocess.PIPE, text=True)
        try:
            if inside:
                inside()
            out, _ = process.communicate(timeout=LIMIT_S)
        finally:
            process.kill()
        if process.returncode != 0:
            raise RuntimeError(f"{self.name} {words} ended with {process.returncode}")
        return {line.split()[0]: float(line.split()[1]) for line in out.splitlines()}

    def add(self, workload, variant, metric, value):
        unit = "ms" if metric.endswith("_ms") else "" if metric == "last_to_first" else "1/s"
        self.b.record.add(workload, self.name, variant, metric, value, unit)

    def run(self, workload):
        getattr(self, workload.replace("-", "_"))()

    def drain(self):
        for n in self.drain_sizes():
            for variant in self.variants:
                figures = self.measure("drain", variant, n)
                self.add("drain", f"{n}-{variant}", "tasks_per_s", figures["tasks_per_s"])
                self.add("bulk-enqueue", f"{n}-{variant}", "tasks_per_s", figures["bulk_tasks_per_s"])

    def drain_sizes(self):
        return self.b.sizes.drain

    def latency(self):
        for metric, value in self.measure("latency", "recommended", self.b.sizes.latency).items():
            self.add("latency", "recommended", metric, value)

    def sustained(self):
        for producers in self.b.sizes.producers:
            for metric, value in self.measure("sustained", "recommended", producers, self.b.sizes.sustained_s).items():
                self.add("sustained", f"{producers}-producers", metric, value)


class NodeInPostgres(Rival):
    workloads = (*Rival.workloads, "held-snapshot")

    def held_snapshot(self):
        seconds, size = self.b.sizes.held_s, self.b.sizes.held_slice_s
        environment = self.environment()
        self.environment = lambda: environment  # the snapshot must be of the same database
        try:
            with Snapshot(self.b.servers, "bench_rival"):
                figures = self.measure("sustained", "recommended", 4, seconds, size)
        finally:
            del self.environment
        for metric, value in figures.items():
            self.add("held-snapshot", "4-producers", metric, value)
        first, last = figures["slice_1_tasks_per_s"], figures[f"slice_{seconds // size}_tasks_per_s"]
        self.add("held-snapshot", "4-producers", "last_to_first", last / first)


class Graphile(NodeInPostgres):
    name, file = "graphile-worker", "graphile.js"


class PgBoss(NodeInPostgres):
    name, file = "pg-boss", "pgboss.js"


class BullMQ(Rival):
    name, file = "bullmq", "bullmq.js"

    def environment(self):
        url = self.b.servers.start_redis()
        subprocess.run(["redis-cli", "-u", url, "flushall"], check=True, stdout=subprocess.DEVNULL)
        return {"RIVAL_URL": url, "NODE_PATH": f"{TOOLS}/node_modules"}


class CeleryRabbitMQ(Rival):
    name = "celery"

    def install(self):
        pass  # Debian's python3-celery, which script/bench installs

    def drain_sizes(self):
        return self.b.sizes.drain[:1]  # it would take minutes

    def command(self):
        return ["/usr/bin/python3", f"{HERE}/celery_bench.py"]

    def environment(self):
        connection = pika.BlockingConnection(pika.URLParameters(os.environ["AMQP_URL"]))
        connection.channel().queue_delete("bench.celery")
        connection.close()
        file, path = tempfile.mkstemp(prefix="tenon-bench-celery.")
        os.close(file)
        self.starts = path
        return {"BENCH_STARTS": path}

    def measure(self, *words, **options):
        try:
            return super().measure(*words, **options)
        finally:
            os.unlink(self.starts)


ALL = {cls.name: cls for cls in (Graphile, PgBoss, BullMQ, CeleryRabbitMQ)}


def facts(names):
    """Which versions were measured."""
    found = {}
    with open(f"{HERE}/package.json", encoding="ascii") as file:
        packages = json.load(file)["dependencies"]
    for name in filter(None, names.split(",")):
        found[name] = packages.get(name) or subprocess.run(
            ["dpkg-query", "-W", "-f", "${Version}", "python3-celery"], text=True, capture_output=True).stdout
    if "bullmq" in found:
        found["redis"] = subprocess.run(["redis-server", "--version"], text=True,
                                        capture_output=True).stdout.split()[2].removeprefix("v=")
    if {"graphile-worker", "pg-boss", "bullmq"} & set(found):
        found["node"] = NODE
    return found
