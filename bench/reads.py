#!/usr/bin/python3
"""How long everything that only looks takes with 1,000,000 waiting, 1,000,000 finished and 100,000 dead tasks, 100,000
failed attempts, a flow of 10,000 and 2,000 tasks in line at 200 limits.

usage: bench/reads.py [--times N] [--json]                    after: script/build; eval "$(script/services env)"

On an empty database: it makes the schema and the tasks. Prints, for each path of the page's API, for the metrics of a
cleaner that leads, and for the commands, the median and the longest of N times, in milliseconds: the answer as a whole,
as the one who asks sees it (a command's with the start of its process and its connection). A worker lives, whose only slot
is taken for as long as that lasts: else why one of the others waits would be told without counting what is before it.
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
       SELECT now(), now(), 86400000, 0, 25, 10, 4, false, true, 'bulk', 'mail', jsonb_build_object('n', i)
       FROM generate_series(1, 1000000) i""",
    """INSERT INTO tenon.history (finished_at, id, run_at, created_at, claims, failures, crashes, priority, outcome, queue, kind,
                                   payload)
       SELECT now() - i * interval '3 ms', nextval('tenon.task_id_seq'), now(), now(), 1, 0, 0, 4, 'done', 'bulk', 'mail', '{}'
       FROM generate_series(1, 1000000) i""",
    """INSERT INTO tenon.dead (dead_at, id, run_at, created_at, timeout_ms, claims, failures, crashes, max_attempts, priority, reason,
                               queue, kind, payload, last_error, error_class)
       SELECT now() - i * interval '30 ms', nextval('tenon.task_id_seq'), now(), now(), 1000, 1, 1, 0, 1, 4, 'failures', 'bulk',
              'mail', '{}', 'Timeout: it', 'Timeout' FROM generate_series(1, 100000) i""",
    """INSERT INTO tenon.attempt (ended_at, task_id, attempt, claims, started_at, worker_id, outcome, queue, kind, error_class, error)
       SELECT now() - i * interval '30 ms', i, 1, 1, now() - i * interval '30 ms', gen_random_uuid(), 'failed', 'bulk', 'mail',
              'Timeout', 'Timeout: it' FROM generate_series(1, 100000) i""",
    "SELECT tenon.enqueue_many('mail', array_fill('{}'::jsonb, ARRAY[10000]), queue => 'flows', flow => tenon.flow('bulk'))",
    "SELECT tenon.set_limit('tenant:' || i, max_running => 1) FROM generate_series(1, 200) i",
    """SELECT count(tenon.enqueue('mail', queue => 'limited', limit_keys => ARRAY['tenant:' || (i % 200 + 1)]))
       FROM generate_series(1, 2000) i""",
    "VACUUM ANALYZE",
)
FILTERS = ({}, {"state": "dead"}, {"state": "ready", "kind": "mail"}, {"state": "dead", "error": "Timeout"}, {"state": "done"},
           {"payload": "$.n == 1"}, {"state": "done", "payload": "$.n == 1"}, {"state": "dead", "error": "None"})
PREVIEWS = ({"act": "retry", "filter": {"state": "dead"}}, {"act": "retry", "filter": {"payload": "$.n == 1"}},
            {"act": "cancel", "filter": {"kind": "mail"}}, {"act": "cancel", "filter": {"payload": "$.n == 1"}})


def answer(url, token="", body=None):
    headers = {"Authorization": f"Bearer {token}", "X-Tenon": "1", "Content-Type": "application/json"}
    request = urllib.request.Request(url, data=json.dumps(body).encode() if body else None, headers=headers)
    with urllib.request.urlopen(request, timeout=60) as response:
        return response.read()


def run(*args):
    subprocess.run([TENON, *args], check=True, stdout=subprocess.DEVNULL)


def reads(token, first, last, dead):
    """(what, call) for each."""
    paths = ["session", "overview", "doctor", "load", "kinds", "names", "rates", "rates?hours=24", "rates?queue=bulk", "dead",
             "flows", "flows/1", "limits", "limits?key=tenant:1", "schedules", "workers", "audit", f"tasks/{first}", f"tasks/{last}", f"tasks/{dead}"]
    paths += ["tasks?" + urllib.parse.urlencode({"filter": json.dumps(f)}) for f in FILTERS]
    for path in paths:
        yield "GET /api/" + urllib.parse.unquote_plus(path), lambda path=path: answer(f"http://{UI}/api/{path}", token)
    for body in PREVIEWS:
        yield f"POST /api/preview {json.dumps(body)}", lambda body=body: answer(f"http://{UI}/api/preview", token, body)
    yield "GET /metrics", lambda: answer(f"http://{METRICS}/metrics")
    for args in (("status",), ("list",), ("list", "--state", "dead"), ("list", "--error", "Timeout"), ("show", str(first)),
                 ("show", str(last)), ("show", str(dead)), ("why", str(first)), ("why", str(last)), ("why", str(dead))):
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


def await_start(cursor):
    """The ids of the first and the last that wait, when one runs; and of a dead one."""
    for _ in range(600):
        cursor.execute("SELECT min(id) FILTER (WHERE start_time IS NULL), max(id), (SELECT min(id) FROM tenon.dead) FROM tenon.task"
                       " WHERE queue = 'bulk' HAVING count(start_time) > 0")
        if ids := cursor.fetchone():
            return ids
        time.sleep(0.1)
    raise SystemExit("the worker has started nothing")


def measure(cursor, n):
    programs = [subprocess.Popen([TENON, *args], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
                for args in (("ui", "--listen", UI), ("cleaner", "--http", METRICS),
                             ("worker", "--queues", "bulk", "--slots", "1", "--handler", "mail=sleep 86400", "--drain-limit", "1s"))]
    try:
        token = programs[0].stdout.readline().strip().partition("#token=")[2]  # it listens before it prints
        await_answer(f"http://{METRICS}/metrics")
        return {what: times_of(call, n) for what, call in reads(token, *await_start(cursor))}
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
