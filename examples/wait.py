#!/usr/bin/python3
"""Enqueues tasks and waits for their results, all on two connections.

    DATABASE_URL=postgresql://... examples/wait.py KIND 1000

A web server has many requests that wait for a task, and should not hold a connection for each. Here one thread listens
for all of them (tenon_ended); each waits on an Event of its own. Nothing polls; every ten seconds what nobody has heard of
is asked for once more, as a notification is lost with its connection. Needs python3-psycopg2.
"""
import os
import select
import sys
import threading
import time

import psycopg2

ENDS = ("done", "dead", "cancelled", "expired", None)  # None: there is no such task
ASK_S = 10


class Waiter:
    def __init__(self, url):
        self.conn = psycopg2.connect(url)
        self.conn.autocommit = True  # so that each question is a transaction of its own
        self.lock = threading.Lock()  # of the connection, and of:
        self.waiting = {}  # id -> [Event, answer]
        self.ask("LISTEN tenon_ended")
        threading.Thread(target=self.listen, daemon=True).start()

    def ask(self, sql, *args):
        with self.conn.cursor() as cursor:
            cursor.execute(sql, args)
            return cursor.fetchone() if cursor.description else None

    def look(self, task_id, function):
        entry = self.waiting.get(task_id)
        answer = self.ask("SELECT * FROM tenon.%s(%%s)" % function, task_id) if entry else None
        if entry and answer[0] in ENDS:
            entry[1] = answer
            entry[0].set()

    def take_notified(self):
        while self.conn.notifies:
            said = self.conn.notifies.pop(0).payload  # anybody may say anything there
            self.look(int(said) if said.isdigit() else 0, "result")

    def listen(self):
        asked = time.monotonic()
        while True:
            select.select([self.conn], [], [], ASK_S)
            with self.lock:
                self.conn.poll()
                self.take_notified()
                if time.monotonic() - asked >= ASK_S:
                    asked = time.monotonic()
                    for task_id in list(self.waiting):
                        self.look(task_id, "await")

    def wait(self, task_id, timeout_s):
        """(state, result, error), or None when it has not ended in time."""
        entry = [threading.Event(), None]
        with self.lock:
            self.waiting[task_id] = entry
            self.look(task_id, "await")
            self.take_notified()  # what came with the answer wakes nobody
        entry[0].wait(timeout_s)
        with self.lock:
            del self.waiting[task_id]
        return entry[1]


def main():
    url = os.environ["DATABASE_URL"]
    waiter = Waiter(url)
    ended = []
    conn = psycopg2.connect(url)
    with conn, conn.cursor() as cursor:
        cursor.execute("SELECT unnest(tenon.enqueue_many(%s, array_fill('{}'::jsonb, ARRAY[%s])))",
                       (sys.argv[1], int(sys.argv[2])))
        ids = [row[0] for row in cursor]
    threads = [threading.Thread(target=lambda i=i: ended.append(waiter.wait(i, 60))) for i in ids]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(sum(answer is not None and answer[0] == "done" for answer in ended), "of", len(ids), "are done")


if __name__ == "__main__":
    main()
