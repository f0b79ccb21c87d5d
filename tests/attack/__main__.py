"""script/attack: honest tasks without, then beside an attacker; then the count."""
import argparse
import glob
import os
import random
import signal
import subprocess
import sys
import time

sys.path.append(os.path.join(os.path.dirname(__file__), "..", "soak"))

from fleet import wait_until  # noqa: E402
from judge import Verdict  # noqa: E402
from stage import ROOT, Stage  # noqa: E402
from verdict import lines_of  # noqa: E402

HERE = os.path.join(ROOT, "tests", "attack")
PRODUCERS, PER_SECOND = 5, 112  # of which a tenth is rolled back: 500 tasks a second are committed
WORKERS, SLOTS = 2, 8
WARM_S, BASELINE_S = 10, 120
READY_LIMIT_S, DRAIN_LIMIT_S, ANSWER_LIMIT_S = 60, 60, 60
HINT_EVERY_S = 1.0
HINT_BYTES = 500  # of each log
MEMORY_MORE_MB = 64  # that a worker or cleaner may take under attack
# role: (configure, write, read) in RabbitMQ, as docs/deploy.md says
PARTS = {"tenon_worker": (r"^tenon\.", r"^tenon\.", r"^tenon(\.|$)"), "tenon_cleaner": ("^tenon$", "^tenon$", "^$"),
         "honest": ("^$", "^tenon$", "^$"), "stranger": ("^$", "^tenon$", "^$")}


def rss_mb(pid):
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


class Attack(Stage):
    def __init__(self, seed, role, acts):
        super().__init__("attack", seed)
        self.role, self.acts = role, acts
        self.hint, self.report = (os.path.join(self.dir, name) for name in ("hint", "attacker.report"))

    # --- preparing ---

    def url(self, part):
        """(of PostgreSQL, of RabbitMQ), with the part's own role and user."""
        return [url.partition("://")[0] + f"://{part}:word@" + url.partition("@")[2]
                for url in (self.env["DATABASE_URL"], self.env["AMQP_URL"])]

    def prepare(self):
        self.serve()
        for part, permissions in PARTS.items():
            self.query(f"CREATE ROLE {part} LOGIN PASSWORD 'word'")
            self.rabbitmqctl("-q", "add_user", part, "word")
            status, said = self.rabbitmqctl("-q", "set_permissions", "--vhost", "/", part, *permissions)
            if status != 0:
                raise RuntimeError(said)
        grants = ["--grant-worker", "tenon_worker", "--grant-cleaner", "tenon_cleaner"]
        self.tenon("setup", *grants, "--grant-producer", "honest")
        if self.role == "producer":
            self.tenon("setup", "--grant-producer", "stranger")
        self.query("CREATE SCHEMA soak; CREATE TABLE soak.placed"
                   " (number bigint PRIMARY KEY, task bigint NOT NULL, fails boolean NOT NULL);"
                   "GRANT USAGE ON SCHEMA soak TO honest; GRANT INSERT ON soak.placed TO honest")

    def start(self, name, part, *argv):
        database, amqp = self.url(part)
        self.fleet.add(name, lambda: ["env", f"DATABASE_URL={database}", f"AMQP_URL={amqp}", *argv])

    def start_fleet(self):
        handler = self.bin + "/soak_handler"
        self.start("cleaner-0", "tenon_cleaner", self.bin + "/tenon", "cleaner")
        for n in range(WORKERS):
            self.start(f"worker-{n}", "tenon_worker", self.bin + "/tenon", "worker", "--slots", str(SLOTS),
                       "--handler", f"work=pool:exec {handler} pool",
                       "--handler", f"stray=pool:SOAK_JOURNAL={self.dir}/stray exec {handler} pool")
        if not wait_until(lambda: all("worker_ready" in self.log_tail(f"worker-{n}") for n in range(WORKERS)),
                          READY_LIMIT_S):
            raise RuntimeError("the workers did not start:\n" + self.log_tail("worker-0"))
        for n in range(PRODUCERS):
            self.start(f"producer-{n}", "honest", self.bin + "/soak_producer", f"{self.dir}/producer-{n}.transactions",
                       str((n + 1) * 10000000), str(self.seed % 1000000 + n), str(PER_SECOND), "plain")

    # --- the course ---

    def give_hint(self):
        """Which ids there are by now: what an attacker could find out by enqueueing one."""
        lines = [line for path in glob.glob(self.dir + "/producer-*.transactions") for line in lines_of(path, HINT_BYTES)]
        newest = max((int(line.split()[2]) for line in lines), default=1)
        with open(self.hint + ".new", "w", encoding="ascii") as file:
            file.write(str(newest))
        os.replace(self.hint + ".new", self.hint)

    def watch(self, seconds):
        """So long; (when it began, when it ended, how many processes wanted to run meanwhile)."""
        begin, loads = time.time(), []
        while time.time() < begin + seconds:
            self.give_hint()
            loads.append(os.getloadavg()[0])
            fallen = self.fleet.await_fallen(HINT_EVERY_S)
            if fallen:
                raise RuntimeError(f"{fallen} ended by itself:\n{self.log_tail(fallen[0])}")
        return begin, time.time(), sum(loads) / len(loads)

    def memory(self):
        return {name: rss_mb(self.fleet.pid(name)) for name in self.fleet.running("worker") + self.fleet.running("cleaner")}

    def answers(self, *argv):
        """It must succeed beside what the attacker has left, within a limit."""
        begun = time.time()
        done = subprocess.run(argv, env={**os.environ, **self.env}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, timeout=ANSWER_LIMIT_S, check=False, text=True)
        took = time.time() - begun
        self.say(f"{os.path.basename(argv[0])} {argv[1]}: {took:.1f} s")
        if done.returncode != 0:
            self.broken.append(f"{argv[0]} failed beside the attack: {done.stderr[-300:]}")

    def attack(self, seconds):
        before = self.memory()
        self.start("attacker", "stranger", "/usr/bin/python3", HERE + "/attacker.py", self.role, str(self.seed),
                   self.hint, self.report, self.acts)
        span = self.watch(seconds)
        self.answers(self.bin + "/tenon", "status", "--json")
        self.answers(self.env["TENON_PGBIN"] + "/pg_dump", "--schema=tenon", self.env["DATABASE_URL"])
        if self.fleet.end("attacker", signal.SIGTERM, 30) != 0:
            raise RuntimeError("the attacker did not end well:\n" + self.log_tail("attacker"))
        for name, mb in self.memory().items():
            self.say(f"{name}: {before[name]:.0f} MB before, {mb:.0f} MB now")
            if mb > before[name] + MEMORY_MORE_MB:
                self.broken.append(f"{name} grew from {before[name]:.0f} to {mb:.0f} MB")
        return span

    def drain(self):
        for name in self.fleet.running("producer"):
            self.fleet.end(name, signal.SIGTERM, 30)
        if not wait_until(lambda: not self.query("SELECT 1 FROM tenon.task WHERE enqueued_by = 'honest' LIMIT 1"),
                          DRAIN_LIMIT_S):
            self.broken.append(f"honest tasks are left after {DRAIN_LIMIT_S} s")
        for name in self.fleet.running("worker") + self.fleet.running("cleaner"):
            status = self.fleet.end(name, signal.SIGTERM, 60)
            if status != 0:
                self.broken.append(f"{name} ended with {status}")

    def judge(self, before, attack):
        placed, forged, dead = ({row[0] for row in self.query(sql)} for sql in (
            "SELECT task FROM soak.placed",
            "SELECT id FROM tenon.tasks WHERE kind = 'work' AND enqueued_by = 'stranger'",
            "SELECT id FROM tenon.dead WHERE enqueued_by = 'honest'"))
        verdict = Verdict(self.dir, placed, forged, dead)
        spans = verdict.span("without", *before), verdict.span("attacked", *attack)
        print(*(span.text() for span in spans), verdict.compare(*spans), sep="\n")
        print(f"{len(placed)} honest tasks; warned of: {verdict.events() or 'nothing'}")
        for task in verdict.odd[:20]:
            print(f"of task {task} is known: {self.query('SELECT to_json(t) FROM tenon.tasks t WHERE id = %s', [task])}")
        for line in lines_of(self.report):
            print(line)
            if line.startswith("finding"):
                verdict.findings.append(line[8:])
        self.broken += verdict.findings
        for finding in self.broken:
            print(f"FINDING: {finding}")

    def run(self, seconds):
        self.prepare()
        self.start_fleet()
        self.watch(WARM_S)
        self.say(f"{WORKERS} workers, {PRODUCERS} producers; first without the attacker")
        before = self.watch(min(BASELINE_S, seconds))
        self.say(f"now with the attacker: {self.role}")
        attack = self.attack(seconds)
        self.say("the attacker has ended; what is left drains")
        self.drain()
        self.judge(before, attack)


def main():
    parser = argparse.ArgumentParser(prog="script/attack")
    parser.add_argument("minutes", type=float)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--role", choices=("producer", "connect", "broker"), action="append")
    parser.add_argument("--acts", default="")
    args = parser.parse_args()
    for role in args.role or ("producer", "connect", "broker"):
        attack = Attack(args.seed, role, args.acts)
        attack.play(lambda: attack.run(60 * args.minutes))
    print(f"attack: seed {args.seed}: nothing lost, doubled or stalled")


main()
