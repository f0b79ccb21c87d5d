#!/usr/bin/python3
"""What an act of many costs a running load: 1,000 tasks a second, in windows alone and beside `tenon retry --rate`.

usage: bench/operators.py [--windows N] [--seconds S] [--rate N]      after: script/build; eval "$(script/services env)"

On an empty database: it makes the schema and 100,000 dead tasks. Prints, for both kinds of windows, how many tasks of the
load ended a second, and the median and 99th percentile from enqueue to start.
"""
import argparse
import os
import signal
import subprocess
import threading
import time

import psycopg2

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
TENON = os.path.join(ROOT, "build/release/tenon")
HANDLER = os.path.join(ROOT, "build/release/bench/bench_handler")
DEAD = """
INSERT INTO tenon.dead (dead_at, id, run_at, created_at, timeout_ms, claims, failures, crashes, max_attempts, priority,
                        reason, queue, kind, payload, last_error)
SELECT now(), nextval('tenon.task_id_seq'), now(), now(), 60000, 1, 1, 0, 1, 4, 'failures', 'default', 'noop', '{}',
       'Timeout: slow' FROM generate_series(1, 100000)"""
RESULT = """
SELECT count(*), percentile_cont(ARRAY[0.5, 0.99]) WITHIN GROUP (ORDER BY extract(epoch FROM start_time - created_at) * 1000)
FROM tenon.history WHERE payload = '{"load": 1}' AND created_at >= to_timestamp(%s) AND created_at < to_timestamp(%s)"""


def connect():
    conn = psycopg2.connect(os.environ["DATABASE_URL"])
    conn.autocommit = True
    return conn


def produce(stop):
    """50 transactions a second, of 20 tasks each."""
    cursor = connect().cursor()
    due = time.monotonic()
    while not stop.is_set():
        cursor.execute("""SELECT tenon.enqueue_many('noop', array_fill('{"load": 1}'::jsonb, '{20}'))""")
        due += 0.02
        time.sleep(max(0, due - time.monotonic()))


def start(*args):
    return subprocess.Popen([TENON, *args], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def window(seconds, rate):
    act = start("retry", "--state", "dead", "--rate", f"{rate}/s", "--yes") if rate else None
    begun = time.time()
    time.sleep(seconds)
    ended = time.time()
    if act:
        act.send_signal(signal.SIGTERM)
        act.wait()
    time.sleep(2)
    return begun, ended


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--windows", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--rate", type=int, default=500)
    options = parser.parse_args()
    subprocess.run([TENON, "setup"], check=True, stdout=subprocess.DEVNULL)
    cursor = connect().cursor()
    cursor.execute(DEAD)
    programs = [start("cleaner"), start("worker", "--slots", "2", "--handler", f"noop=pool:exec {HANDLER}")]
    stop = threading.Event()
    producer = threading.Thread(target=produce, args=(stop,))
    producer.start()
    time.sleep(5)
    pairs = [(window(options.seconds, 0), window(options.seconds, options.rate)) for _ in range(options.windows)]
    stop.set()
    producer.join()
    time.sleep(5)
    for name, which in (("alone", 0), ("beside", 1)):
        for pair in pairs:
            begun, ended = pair[which]
            cursor.execute(RESULT, (begun, ended))
            n, waits = cursor.fetchone()
            print(f"{name:8} {n / (ended - begun):8.0f} tasks/s  p50 {waits[0]:8.2f} ms  p99 {waits[1]:8.2f} ms")
    cursor.execute("SELECT sum(n), sum(skipped) FROM tenon.audit")
    print("retried, skipped:", *cursor.fetchone())
    for program in programs:
        program.send_signal(signal.SIGTERM)
    for program in programs:
        program.wait()


main()
