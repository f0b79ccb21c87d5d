"""script/soak: load and faults for so many minutes, then the count."""
import argparse
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import time

import psycopg2

from faults import Faults
from fleet import Fleet, wait_until
from samples import Samples
from verdict import Journal, Logs, Verdict

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
HERE = os.path.join(ROOT, "tests", "soak")
BUILD = os.path.join(ROOT, "build", "release")
FAILED = os.path.join(ROOT, "build", "log", "soak-")  # and the seed
WORKERS, CLEANERS, PRODUCERS = 3, 2, 4
PER_SECOND = 30      # transactions of each producer
BETWEEN_S = (1, 5)   # faults
DRAIN_LIMIT_S = 180  # a lost claim is found again within 90 s
READY_LIMIT_S = 60


class Soak:
    def __init__(self, seed, directory):
        self.seed, self.random = seed, random.Random(seed)
        self.dir = directory
        self.services_dir, self.bin = directory + "-servers", os.path.join(directory, "bin")
        self.begun, self.broken = time.time(), []
        self.firsts, self.env, self.fleet = 0, {}, None
        self.logs = [os.path.join(self.dir, f"producer-{n}.transactions") for n in range(PRODUCERS)]

    def say(self, text):
        print(f"{time.strftime('%H:%M:%S')} {time.time() - self.begun:6.1f} s  {text}", flush=True)

    # --- servers ---

    def try_services(self, *args):
        """Its exit status, and what it said."""
        done = subprocess.run([ROOT + "/script/services", "--dir", self.services_dir, *args],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              stdin=subprocess.DEVNULL, text=True, check=False)
        return done.returncode, done.stdout

    def services(self, *args):
        status, said = self.try_services(*args)
        if status != 0:
            raise RuntimeError(f"script/services {' '.join(args)} failed:\n{said}")
        return said

    def rabbitmqctl(self, *args):
        return self.try_services("rabbitmqctl", *args)

    def query(self, sql, args=None):
        conn = psycopg2.connect(self.env["DATABASE_URL"], connect_timeout=5,
                                application_name="soak")
        try:
            with conn, conn.cursor() as cursor:
                cursor.execute(sql, args)
                return cursor.fetchall() if cursor.description else None
        finally:
            conn.close()

    def log_tail(self, name):
        with open(os.path.join(self.dir, name + ".log"), "rb") as file:
            file.seek(max(0, os.path.getsize(file.name) - 8000))
            return file.read().decode(errors="replace")

    # --- the course ---

    def prepare(self):
        self.say(f"seed {self.seed}: building, and starting a PostgreSQL and a RabbitMQ of its own")
        subprocess.run([ROOT + "/script/build", "release", "tenon", "soak_producer",
                        "soak_handler"], check=True, stdin=subprocess.DEVNULL)
        self.keep_programs()
        self.services("start")
        lines = shlex.split(self.services("env").replace("export ", ""))
        self.env = dict(line.split("=", 1) for line in lines)
        self.env["LD_LIBRARY_PATH"] = self.bin
        self.env["SOAK_JOURNAL"] = os.path.join(self.dir, "journal")
        self.query("CREATE SCHEMA soak; CREATE TABLE soak.placed"
                   " (number bigint PRIMARY KEY, task bigint NOT NULL, fails boolean NOT NULL)")
        subprocess.run([self.bin + "/tenon", "setup"], env={**os.environ, **self.env}, check=True,
                       stdout=subprocess.DEVNULL)

    def keep_programs(self):
        """Copies, so that a build that goes on meanwhile changes nothing."""
        os.makedirs(self.bin)
        for path in ("tenon", "libtenon.so.0", "tests/soak_producer", "tests/soak_handler"):
            shutil.copy(os.path.join(BUILD, path), self.bin)

    def producer_argv(self, number):
        """Each process numbers its transactions from another million on."""
        self.firsts += 1
        program = ([self.bin + "/soak_producer"] if number % 2 == 0 else
                   ["/usr/bin/python3", HERE + "/producer.py"])
        return [*program, self.logs[number], str(self.firsts * 1000000),
                str(self.seed % 1000000 + self.firsts), str(PER_SECOND)]

    def start_fleet(self):
        handler = self.bin + "/soak_handler"
        self.fleet = Fleet(self.dir, self.env)
        for n in range(CLEANERS):
            self.fleet.add(f"cleaner-{n}", lambda: [self.bin + "/tenon", "cleaner"])
        for n in range(WORKERS):
            self.fleet.add(f"worker-{n}", lambda: [
                self.bin + "/tenon", "worker", "--slots", "4", "--handler",
                f"work=pool:exec {handler} pool", "--handler", f"solo=exec {handler} exec"])
        for n in range(PRODUCERS):
            self.fleet.add(f"producer-{n}", lambda n=n: self.producer_argv(n))
        if not wait_until(lambda: all("worker_ready" in self.log_tail(f"worker-{n}")
                                      for n in range(WORKERS)), READY_LIMIT_S):
            raise RuntimeError("the workers did not start:\n" + self.log_tail("worker-0"))

    def look_after(self):
        for name, status in self.fleet.restart_fallen():
            self.say(f"{name} had ended by itself with {status}; started again")
            self.broken.append(f"{name} ended by itself with {status}")

    def make_trouble(self, minutes, samples, faults):
        end = time.time() + 60 * minutes
        while time.time() < end:
            time.sleep(self.random.uniform(*BETWEEN_S))
            samples.take()
            faults.strike()
            self.look_after()

    def is_drained(self):
        try:
            return self.query("SELECT NOT EXISTS (SELECT FROM tenon.task)")[0][0]
        except psycopg2.Error:
            return False

    def heal_and_drain(self, samples):
        self.services("start")
        self.look_after()
        samples.take()
        self.say("no more faults; the producers end, the rest drains")
        for name in self.fleet.running("producer"):
            self.fleet.end(name, signal.SIGTERM, 30)
        if not wait_until(self.is_drained, DRAIN_LIMIT_S):
            left = self.query("SELECT id, kind, state, attempt, failures, crashes, run_at, start_time,"
                              " last_error FROM tenon.tasks WHERE state NOT IN"
                              " ('done', 'dead', 'cancelled') LIMIT 10")
            self.broken.append(f"tasks are left after {DRAIN_LIMIT_S} s: {left}")
        for name in self.fleet.running("worker") + self.fleet.running("cleaner"):
            status = self.fleet.end(name, signal.SIGTERM, 60)
            if status != 0:
                self.broken.append(f"{name} ended with {status}")

    def judge(self, faults, samples, end):
        placed = {n: (task, fails) for n, task, fails in self.query("SELECT * FROM soak.placed")}
        dead = dict(self.query("SELECT id, reason FROM tenon.dead"))
        verdict = Verdict(placed, Logs(self.logs), Journal(self.env["SOAK_JOURNAL"]), faults.struck,
                          dead)
        self.broken += verdict.broken
        print(verdict.text())
        flat_faults = sum(fault.flat for fault in faults.struck)
        print(f"faults: {len(faults.struck)}, of which {flat_faults} fell flat")
        self.broken += faults.too_flat()
        print(f"{'must not grow':<32} {'first third':>12} {'last third':>12}")
        for name, first, last, flat in samples.rows(self.begun, end):
            print(f"{name:<32} {first:>12.1f} {last:>12.1f}  {'ok' if flat else 'BROKEN'}")
            if not flat:
                self.broken.append(f"{name} grew")

    def run(self, minutes):
        self.prepare()
        self.start_fleet()
        self.begun = time.time()
        self.say(f"{WORKERS} workers, {CLEANERS} cleaners, {PRODUCERS} producers, "
                 f"{PRODUCERS * PER_SECOND} transactions a second at most, for {minutes:g} min")
        samples, faults = Samples(self), Faults(self)
        self.make_trouble(minutes, samples, faults)
        end = time.time()
        self.heal_and_drain(samples)
        self.judge(faults, samples, end)

    def wipe(self):
        if self.fleet:
            self.fleet.wipe()
        if self.broken:
            kept = FAILED + str(self.seed)
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(self.dir, kept, ignore=shutil.ignore_patterns("bin"))
            for name in ("postgres.log", "rabbitmq.log"):
                if os.path.exists(os.path.join(self.services_dir, name)):
                    shutil.copy(os.path.join(self.services_dir, name), kept)
            print(f"soak: the journal and all logs are in {kept}")
        self.try_services("wipe")
        shutil.rmtree(self.dir, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(prog="script/soak")
    parser.add_argument("minutes", type=float)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    args = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda n, _frame: sys.exit(128 + n))
    directory = os.path.join(ROOT, ".services", f"soak-{os.getpid()}")
    os.makedirs(directory)
    soak = Soak(args.seed, directory)
    try:
        soak.run(args.minutes)
    except (RuntimeError, subprocess.SubprocessError, psycopg2.Error) as error:
        soak.broken.append(str(error))
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        soak.wipe()
    if soak.broken:
        sys.exit(f"soak: BROKEN with seed {args.seed}: " + "; ".join(soak.broken))
    print(f"soak: seed {args.seed}: lost 0, phantom 0, unexplained 0, all flat")


main()
