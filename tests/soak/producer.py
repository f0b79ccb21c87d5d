"""The producer in plain SQL of script/soak: producer.py LOG FIRST SEED PER_SECOND; see producer.c."""
import json
import os
import random
import signal
import sys
import time

import psycopg2


class Producer:
    def __init__(self, log, first, seed, per_second):
        self.log = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self.number, self.pause = first, 1 / per_second
        self.random = random.Random(seed)
        self.stop = False
        self.conn = None

    def put(self, what, number, task):
        os.write(self.log, f"{what} {number} {task} {time.time_ns()}\n".encode())

    def chance(self, percent):
        return self.random.randrange(100) < percent

    def place(self, cursor, number):
        fails = self.chance(1)
        payload = {"ms": self.random.randrange(5, 35), "number": number, **({"fail": True} if fails else {})}
        cursor.execute(
            "SELECT tenon.enqueue(%s, %s, priority => %s, max_attempts => %s, unique_key => %s,"
            " delay => %s * interval '1 ms')",
            ("solo" if self.chance(10) else "work", json.dumps(payload), self.random.randrange(10),
             2 if fails else None,
             f"key-{self.random.randrange(20)}" if not fails and self.chance(5) else None,
             self.random.randrange(3000) if self.chance(10) else None))
        task = cursor.fetchone()[0]
        cursor.execute("INSERT INTO soak.placed VALUES (%s, %s, %s)", (number, task, fails))
        return task

    def cancel(self, cursor, task):
        self.put("cancelling", task, 0)
        cursor.execute("SELECT tenon.cancel(%s)", (task,))
        was = cursor.fetchone()[0]
        self.conn.commit()
        self.put("cancelled", task, int(was))

    def transact(self):
        number, task, committing = self.number, 0, False
        self.number += 1
        self.put("begin", number, 0)
        try:
            with self.conn.cursor() as cursor:
                task = self.place(cursor, number)
                if self.chance(10):
                    self.conn.rollback()
                    self.put("rolled_back", number, task)
                    return
                committing = True
                self.conn.commit()
                self.put("committed", number, task)
                if self.chance(3):
                    self.cancel(cursor, task)
        except psycopg2.Error:
            self.put("unknown" if committing else "failed", number, task)
            raise

    def run(self):
        while not self.stop:
            try:
                if not self.conn:
                    self.conn = psycopg2.connect(os.environ["DATABASE_URL"], connect_timeout=5)
                self.transact()
            except psycopg2.Error:
                if self.conn:
                    self.conn.close()
                self.conn = None
                time.sleep(0.2)
            time.sleep(self.pause * self.random.uniform(0.5, 1.5))

    def on_term(self, _signal, _frame):
        self.stop = True


def main():
    producer = Producer(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
    signal.signal(signal.SIGTERM, producer.on_term)
    producer.run()


main()
