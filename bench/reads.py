#!/usr/bin/python3
"""How long everything that only looks takes with 1,000,000 waiting, 1,000,000 finished and 100,000 dead tasks.

usage: bench/reads.py [--times N] [--json]                    after: script/build; eval "$(script/services env)"

On an empty database: it makes the schema and the tasks. Prints, for each path of the page's API, for the metrics of a
cleaner that leads, and for the commands, the median and the longest of N times, in milliseconds: the answer as a whole,
as the one who asks sees it (a command's with the start of its process and its connection).
"""
import argparse
import json
import os
import signal
import statistics
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

import psycopg2

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
TENON = os.path.join(ROOT, "build/release/tenon")
UI, METRICS = "127.0.0.1:7099", "127.0.0.1:7098"
SEED = (
    """INSERT INTO tenon.task (run_at, created_at, timeout_ms, claims, max_attempts, payload_bytes, priority, delayed, announced,
                               queue, kind, payload)
       SELECT now(), now(), 60000, 0, 25, 10, 4, false, true, 'bulk', 'mail', jsonb_build_object('n', i)
       FROM generate_series(1, 1000000) i""",
    """INSERT INTO tenon.finished (finished_at, id, run_at, created_at, claims, failures, crashes, priority, outcome, queue, kind,
                                   payload)
       SELECT now() - i * interval '3 ms', nextval('tenon.task_id_seq'), now(), now(), 1, 0, 0, 4, 'done', 'bulk', 'mail', '{}'
       FROM generate_series(1, 1000000) i""",
    """INSERT INTO tenon.dead (dead_at, id, run_at, created_at, timeout_ms, claims, failures, crashes, max_attempts, priority, reason,
                               queue, kind, payload, last_error, error_class)
       SELECT now() - i * interval '30 ms', nextval('tenon.task_id_seq'), now(), now(), 1000, 1, 1, 0, 1, 4, 'failures', 'bulk',
              'mail', '{}', 'Timeout: it', 'Timeout' FROM generate_series(1, 100000) i""",
    "VACUUM ANALYZE",
)
FILTERS = ({}, {"state": "dead"}, {"state": "ready", "kind": "mail"}, {"state": "dead", "error": "Timeout"}, {"state": "done"})


def answer(url, token=""):
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=60) as response:
        return response.read()


def run(*args):
    subprocess.run([TENON, *args], check=True, stdout=subprocess.DEVNULL)


def reads(token, waiting, dead):
    """(what, call) for each."""
    paths = ["session", "overview", "rates", "dead", "flows", "limits", "schedules", "workers", "audit", f"tasks/{waiting}",
             f"tasks/{dead}"]
    paths += ["tasks?" + urllib.parse.urlencode({"filter": json.dumps(f)}) for f in FILTERS]
    for path in paths:
        yield "GET /api/" + urllib.parse.unquote_plus(path), lambda path=path: answer(f"http://{UI}/api/{path}", token)
    yield "GET /metrics", lambda: answer(f"http://{METRICS}/metrics")
    for args in (("status",), ("list",), ("list", "--state", "dead"), ("list", "--error", "Timeout"), ("show", str(waiting)),
                 ("show", str(dead)), ("why", str(waiting)), ("why", str(dead))):
        yield "tenon " + " ".join(args), lambda args=args: run(*args)


def times_of(call, n):
    taken = []
    for _ in range(n):
        begun = time.monotonic()
        call()
        taken.append((time.monotonic() - begun) * 1000)
    return taken


def await_answer(url):
    for _ in range(600):
        try:
            return answer(url)
        except urllib.error.URLError:
            time.sleep(0.1)
    raise SystemExit(f"{url} does not answer: is something else at this port?")


def measure(cursor, n):
    cursor.execute("SELECT (SELECT min(id) FROM tenon.task), (SELECT min(id) FROM tenon.dead)")
    programs = [subprocess.Popen([TENON, *args], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
                for args in (("ui", "--listen", UI), ("cleaner", "--http", METRICS))]
    try:
        ids = cursor.fetchone()
        token = programs[0].stdout.readline().strip().partition("#token=")[2]  # it listens before it prints
        await_answer(f"http://{METRICS}/metrics")
        return {what: times_of(call, n) for what, call in reads(token, *ids)}
    finally:
        for program in programs:
            program.send_signal(signal.SIGTERM)
        for program in programs:
            program.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=15, metavar="N", help="how often each is asked (default: 15)")
    parser.add_argument("--json", action="store_true", help="as JSON: name to milliseconds")
    options = parser.parse_args()
    run("setup")
    conn = psycopg2.connect(os.environ["DATABASE_URL"])
    conn.autocommit = True
    cursor = conn.cursor()
    for statement in SEED:
        cursor.execute(statement)
    found = measure(cursor, options.times)
    if options.json:
        print(json.dumps({what: [round(t, 2) for t in taken] for what, taken in found.items()}))
        return
    print(f"{'median':>8} {'most':>8}  ms")
    for what, taken in found.items():
        print(f"{statistics.median(taken):8.1f} {max(taken):8.1f}  {what}")


main()
