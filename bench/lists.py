#!/usr/bin/python3
"""What the first page of a list costs behind 1,000,000 finished, 100,000 dead and 1,000,000 waiting tasks: ms of the backend's CPU.

usage: bench/lists.py [--times N]                             after: script/build; eval "$(script/services env)"

On an empty database: it makes the schema and the tasks, of which 60 of each sort that is looked for are the oldest. It asks as the
page does, for 50 tasks, in answers of 25 ms of reading, until it has them or everything was read. PostgreSQL must run on this
machine: the CPU time is that of /proc/PID/schedstat. Prints the least of N times, how many tasks, and how many answers.
"""
import argparse
import json
import os
import subprocess

import psycopg2

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
TENON = os.path.join(ROOT, "build/release/tenon")
TASK = """
INSERT INTO tenon.task (run_at, created_at, timeout_ms, failures, max_attempts, priority, delayed, announced, queue, kind, payload,
                        start_time, claim_key, worker_id, unique_key)
SELECT t.run_at, now(), 3600000, %(failures)s, 25, 4, t.run_at > now() AND t.run_at < 'infinity', false, %(queue)s, %(kind)s,
       '{"to": "ann@example.com"}', s.at, CASE WHEN s.at IS NOT NULL THEN 1 END,
       CASE WHEN s.at IS NOT NULL THEN gen_random_uuid() END, %(key)s || i
  FROM generate_series(1, %(n)s) i, (SELECT %(run_at)s::timestamptz) t (run_at), (SELECT %(started)s::timestamptz) s (at)"""
HISTORY = """
INSERT INTO tenon.history (finished_at, id, run_at, created_at, claims, failures, crashes, priority, outcome, queue, kind, payload,
                           unique_key)
SELECT now(), nextval('tenon.task_id_seq'), now(), now(), 1, 0, 0, 4, %(outcome)s, %(queue)s, %(kind)s, '{"to": "ann@example.com"}',
       %(key)s || i FROM generate_series(1, %(n)s) i"""
DEAD = """
INSERT INTO tenon.dead (dead_at, id, run_at, created_at, timeout_ms, claims, failures, crashes, max_attempts, priority, reason,
                        queue, kind, payload, last_error, error_class, unique_key)
SELECT now(), nextval('tenon.task_id_seq'), now(), now(), 1000, 25, 25, 0, 25, 4, 'failures', %(queue)s, %(kind)s,
       '{"to": "ann@example.com"}', 'it broke', %(error)s, %(key)s || i FROM generate_series(1, %(n)s) i"""
USUAL = {"n": 60, "kind": "mail", "queue": "default", "run_at": "now", "started": None, "failures": 0, "key": None,
         "outcome": "done", "error": "Timeout"}
SEED = (
    (TASK, {"started": "now"}), (TASK, {"run_at": "tomorrow", "failures": 1}), (TASK, {"run_at": "tomorrow"}),
    (TASK, {"run_at": "infinity"}), (TASK, {"queue": "billing"}), (TASK, {"kind": "bill", "key": "k"}),
    (HISTORY, {"kind": "hist", "queue": "hqueue", "key": "h"}), (HISTORY, {"outcome": "cancelled"}),
    (DEAD, {"error": "Rare", "key": "d"}), (DEAD, {"kind": "dkind", "queue": "dqueue"}),
    (HISTORY, {"n": 1000000}), (DEAD, {"n": 100000}), (TASK, {"n": 1000000}))
FILTERS = (
    {}, {"state": "ready"}, {"state": "running"}, {"state": "retrying"}, {"state": "scheduled"}, {"state": "blocked"},
    {"state": "done"}, {"state": "cancelled"}, {"state": "dead"}, {"kind": "mail"}, {"kind": "bill", "state": "ready"},
    {"kind": "hist", "state": "done"}, {"kind": "dkind", "state": "dead"}, {"kind": "bill"}, {"kind": "nothing"},
    {"queue": "billing", "state": "ready"}, {"queue": "hqueue", "state": "done"}, {"queue": "dqueue", "state": "dead"},
    {"queue": "billing"}, {"error": "Rare"}, {"unique_key": "k7"}, {"unique_key": "h7"}, {"unique_key": "d7"},
    {"payload": "$.to == \"bob@example.com\""})


def page(cursor, cpu, filter_, oldest):
    begun, after, tasks, answers = cpu(), None, 0, 0
    while tasks < 50:
        cursor.execute("SELECT cardinality(ids), next FROM tenon.find(%s, NULL, %s, %s, 25, %s)",
                       (json.dumps(filter_), after, 50 - tasks, oldest))
        n, after = cursor.fetchone()
        tasks += n
        answers += 1
        if after is None:
            break
    return cpu() - begun, tasks, answers


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--times", type=int, default=5)
    options = parser.parse_args()
    subprocess.run([TENON, "setup"], check=True, stdout=subprocess.DEVNULL)
    conn = psycopg2.connect(os.environ["DATABASE_URL"])
    conn.autocommit = True
    cursor = conn.cursor()
    for statement, parts in SEED:
        cursor.execute(statement, {**USUAL, **parts})
    cursor.execute("VACUUM (ANALYZE) tenon.task, tenon.history, tenon.dead")
    cursor.execute("SELECT pg_backend_pid()")
    pid = cursor.fetchone()[0]

    def cpu():
        with open(f"/proc/{pid}/schedstat", encoding="ascii") as stat:
            return int(stat.read().split()[0]) / 1e6
    print("| filter | order | ms of CPU | tasks | answers |\n|---|---|---|---|---|")
    for filter_, oldest in [(f, False) for f in FILTERS] + [({"state": "running"}, True)]:
        took, tasks, answers = min(page(cursor, cpu, filter_, oldest) for _ in range(options.times))
        print(f"| `{json.dumps(filter_)}` | {'oldest' if oldest else 'newest'} | {took:.1f} | {tasks} | {answers} |", flush=True)


if __name__ == "__main__":
    main()
