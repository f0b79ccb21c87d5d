"""What people would pick instead. Each is installed at run time, at the version that is named here, into
a directory under .services, and uses the same servers as tenon."""
import contextlib
import json
import os
import signal
import subprocess
import tempfile

from servers import channel
from workloads import Snapshot

HERE = os.path.dirname(__file__)
TOOLS = os.path.abspath(".services/bench/tools")
NODE = "24.21.0"
NPM = "12.2.0"
REGISTRY = "https://registry.npmjs.org"
CELERY = "5.7.0"
ARCHITECTURES = {"x86_64": "x64", "aarch64": "arm64"}
LIMIT_S = 300


def fetch(package, version, folder):
    """One package of the npm registry, unpacked."""
    if not os.path.exists(f"{TOOLS}/{folder}/package.json"):
        os.makedirs(f"{TOOLS}/{folder}", exist_ok=True)
        subprocess.run(f"curl -fsS {REGISTRY}/{package}/-/{package}-{version}.tgz"
                       f" | tar xz -C {TOOLS}/{folder} --strip-components=1", shell=True, check=True,
                       timeout=LIMIT_S)


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
                   check=True, stdout=subprocess.DEVNULL, timeout=LIMIT_S,
                   env={**os.environ, "PATH": f"{TOOLS}/node/bin:{os.environ['PATH']}"})
    os.replace(f"{TOOLS}/package.json", f"{TOOLS}/package.json.installed")


class Rival:
    workloads = ("drain", "latency", "sustained")
    variants = ("recommended", "max")
    sustained_variants = {"": "recommended"}  # by what is added to the variant's name

    def __init__(self, b):
        self.b = b
        self.install()

    def install(self):
        install_node()

    def command(self):
        return [f"{TOOLS}/node/bin/node", f"{HERE}/{self.file}"]

    def database(self):
        """The URL of an empty database."""
        return self.b.servers.new_database("bench_rival")

    def environment(self):
        return {"RIVAL_URL": self.database(), "NODE_PATH": f"{TOOLS}/node_modules"}

    def measure(self, *words):
        """What the rival's program printed: {metric: value}. Its workers end with it."""
        env = {**os.environ, **self.environment()}
        self.b.servers.settle()
        process = subprocess.Popen([*self.command(), *map(str, words)], env=env, stdout=subprocess.PIPE, text=True,
                                   start_new_session=True)
        try:
            out, _ = process.communicate(timeout=LIMIT_S)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
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
            for suffix, variant in self.sustained_variants.items():
                figures = self.measure("sustained", variant, producers, self.b.sizes.sustained_s)
                for metric, value in figures.items():
                    self.add("sustained", f"{producers}-producers{suffix}", metric, value)


class InPostgres(Rival):
    workloads = (*Rival.workloads, "held-snapshot")

    def held_snapshot(self):
        """As tenon's own: the first slice is the cold start."""
        size = self.b.sizes.held_slice_s
        seconds = size + self.b.sizes.held_s
        url = self.database()
        self.database = lambda: url  # the snapshot must be of the same database
        try:
            with Snapshot(self.b.servers, "bench_rival"):
                figures = self.measure("sustained", "recommended", 4, seconds, size)
        finally:
            del self.database
        for metric, value in figures.items():
            self.add("held-snapshot", "4-producers", metric, value)
        first, last = figures["slice_1_tasks_per_s"], figures[f"slice_{seconds // size - 1}_tasks_per_s"]
        self.add("held-snapshot", "4-producers", "last_to_first", last / first)


class Graphile(InPostgres):
    name, file = "graphile-worker", "graphile.js"


class PgBoss(InPostgres):
    name, file = "pg-boss", "pgboss.js"
    sustained_variants = {"": "recommended", "-polling": "polling"}


class BullMQ(Rival):
    name, file = "bullmq", "bullmq.js"

    def environment(self):
        url = self.b.servers.start_redis()
        subprocess.run(["redis-cli", "-u", url, "flushall"], check=True, stdout=subprocess.DEVNULL, timeout=60)
        return {"RIVAL_URL": url, "NODE_PATH": f"{TOOLS}/node_modules"}


class WithStarts(Rival):
    """Its workers write down each task's start in a file."""

    def measure(self, *words):
        with tempfile.NamedTemporaryFile(prefix="tenon-bench-starts.") as file:
            self.starts = file.name
            return super().measure(*words)


class River(WithStarts, InPostgres):
    name = "river"

    def install(self):
        os.makedirs(TOOLS, exist_ok=True)
        subprocess.run([f"{HERE}/../../script/go-env", "go", "build", "-o", f"{TOOLS}/river", "."], cwd=f"{HERE}/river",
                       check=True, timeout=LIMIT_S)

    def command(self):
        return [f"{TOOLS}/river"]

    def environment(self):
        return {"RIVAL_URL": self.database(), "BENCH_STARTS": self.starts}


class CeleryRabbitMQ(WithStarts):
    name = "celery"

    def install(self):
        python = f"{TOOLS}/celery-{CELERY}/bin/python"
        if not os.path.exists(f"{TOOLS}/celery-{CELERY}/bin/celery"):
            subprocess.run(["/usr/bin/python3", "-m", "venv", f"{TOOLS}/celery-{CELERY}"], check=True, timeout=LIMIT_S)
            subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"celery=={CELERY}"],
                           check=True, timeout=LIMIT_S)

    def drain_sizes(self):
        return self.b.sizes.drain[:1]  # it would take minutes

    def command(self):
        return [f"{TOOLS}/celery-{CELERY}/bin/python", f"{HERE}/celery_bench.py"]

    def environment(self):
        return {"BENCH_STARTS": self.starts}

    def measure(self, *words):
        try:
            return super().measure(*words)
        finally:
            with channel() as c:
                c.queue_delete("bench.celery")  # what its producers sent beyond what its worker could run


ALL = {cls.name: cls for cls in (River, Graphile, PgBoss, BullMQ, CeleryRabbitMQ)}


def facts(names):
    """Which versions were measured."""
    found = {}
    with open(f"{HERE}/package.json", encoding="ascii") as file:
        packages = json.load(file)["dependencies"]
    with open(f"{HERE}/river/go.mod", encoding="ascii") as file:
        packages["river"] = next(line.split()[1] for line in file if line.startswith("\tgithub.com/riverqueue/river "))
    packages["celery"] = CELERY
    for name in filter(None, names.split(",")):
        found[name] = packages[name]
    if "bullmq" in found:
        found["redis"] = subprocess.run(["redis-server", "--version"], text=True,
                                        capture_output=True).stdout.split()[2].removeprefix("v=")
    if {"graphile-worker", "pg-boss", "bullmq"} & set(found):
        found["node"] = NODE
    if "river" in found:
        found["go"] = subprocess.run([f"{HERE}/../../script/go-env", "go", "env", "GOVERSION"], text=True, check=True,
                                     capture_output=True).stdout.strip().removeprefix("go")
    return found
