"""script/soak: load and faults for so many minutes, then the count."""
import argparse
import os
import random
import signal
import time

import psycopg2

from faults import Faults
from fleet import wait_until
from samples import Samples
from stage import SOAK, Stage
from verdict import Journal, Logs, Verdict

WORKERS, CLEANERS, PRODUCERS = 3, 2, 4
PER_SECOND = 30      # transactions of each producer
BETWEEN_S = (1, 5)   # faults
DRAIN_LIMIT_S = 180  # a lost claim is found again within 90 s
READY_LIMIT_S = 60


class Soak(Stage):
    def __init__(self, seed):
        super().__init__("soak", seed)
        self.random, self.firsts = random.Random(seed), 0
        self.logs = [os.path.join(self.dir, f"producer-{n}.transactions") for n in range(PRODUCERS)]

    # --- the course ---

    def prepare(self):
        self.serve()
        self.query("CREATE SCHEMA soak; CREATE TABLE soak.placed"
                   " (number bigint PRIMARY KEY, task bigint NOT NULL, fails boolean NOT NULL)")
        self.tenon("setup")

    def producer_argv(self, number):
        """Each process numbers its transactions from another million on."""
        self.firsts += 1
        program = ([self.bin + "/soak_producer"] if number % 2 == 0 else
                   ["/usr/bin/python3", SOAK + "/producer.py"])
        return [*program, self.logs[number], str(self.firsts * 1000000),
                str(self.seed % 1000000 + self.firsts), str(PER_SECOND)]

    def start_fleet(self):
        handler = self.bin + "/soak_handler"
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
        later = dict(self.query("SELECT id, (payload ->> 'number')::bigint FROM tenon.tasks t"
                                " WHERE NOT EXISTS (SELECT FROM soak.placed p WHERE p.task = t.id)"))
        verdict = Verdict(placed, later, Logs(self.logs), Journal(self.env["SOAK_JOURNAL"]),
                          faults.struck, dead)
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


def main():
    parser = argparse.ArgumentParser(prog="script/soak")
    parser.add_argument("minutes", type=float)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    args = parser.parse_args()
    soak = Soak(args.seed)
    soak.play(lambda: soak.run(args.minutes))
    print(f"soak: seed {args.seed}: lost 0, phantom 0, unexplained 0, all flat")


main()
