#!/usr/bin/env python3
"""How long after its end who waits for a task hears of it: of 1,000 that wait on one connection 300, whose tasks end one by
one.

    script/services start && eval "$(script/services env)" && build/release/tenon setup
    "$(script/python-env)"/bin/python bench/waiting/measure.py [threads | psycopg | asyncpg | node]...

A line for each: p50 and p99 of the time from a task's end, the moment in its row (`finished_at`), to its waiter, as in
wait_test; then p50 from before the statement that ends it, and after that has returned. The cleaner and other work on the
database must rest.
"""
import asyncio
import json
import os
import subprocess
import sys
import threading
import time

import asyncpg
import psycopg

import tenon

MANY = 1000
MEASURED = 300
PAUSE_S = 0.01
LIMIT_S = 120
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
URL = os.environ.get("DATABASE_URL", "")
CLAIM = """UPDATE tenon.task SET start_time = now(), claim_key = tenon.random_key(), worker_id = gen_random_uuid(), claims = 1
            WHERE id = ANY (%s)"""
CLAIM_OF = "SELECT concat_ws('/', id, claims, lpad(to_hex(claim_key), 16, '0')) FROM tenon.task WHERE id = %s"


@tenon.task
def waited_for(payload: dict) -> None: ...


def threads(ids):
    heard = {}

    def wait(waiter, task_id):
        waiter.wait(task_id, LIMIT_S)
        heard[task_id] = time.time()

    with tenon.Waiter(lambda: psycopg.connect(URL)) as waiter:
        all_of_them = [threading.Thread(target=wait, args=(waiter, i)) for i in ids]
        for thread in all_of_them:
            thread.start()
        for thread in all_of_them:
            thread.join()
    return heard


def coroutines(connect):
    async def wait(waiter, task_id):
        await waiter.wait(task_id, LIMIT_S)
        return task_id, time.time()

    async def run(ids):
        async with tenon.AsyncWaiter(lambda: connect(URL)) as waiter:
            return dict(await asyncio.gather(*(wait(waiter, i) for i in ids)))

    return lambda ids: asyncio.run(run(ids))


def node(ids):
    folder = subprocess.run(["script/node-env"], cwd=ROOT, check=True, text=True, capture_output=True).stdout.strip()
    script = os.path.join(ROOT, "bench/waiting/measure.mjs")
    ran = subprocess.run(["node", "--input-type=module", "-"], cwd=folder, check=True, text=True, capture_output=True,
                         input=f"const IDS = {json.dumps(ids)};\n" + open(script, encoding="utf-8").read())
    return {int(i): s for i, s in json.loads(ran.stdout)}


WAYS = {"threads": threads, "psycopg": coroutines(psycopg.AsyncConnection.connect), "asyncpg": coroutines(asyncpg.connect),
        "node": node}


def end_one_by_one(ids, began, ended):
    """From when all are waited for: some with a pause, then the rest at once."""
    with psycopg.connect(URL, autocommit=True) as conn:
        while conn.execute("SELECT count(*) FROM tenon.task WHERE awaited AND id = ANY (%s)", (ids,)).fetchone()[0] < MANY:
            time.sleep(0.01)
        conn.execute(CLAIM, (ids,))
        for task_id in ids[:MEASURED]:
            (claim,) = conn.execute(CLAIM_OF, (task_id,)).fetchone()
            time.sleep(PAUSE_S)
            began[task_id] = time.time()
            conn.execute("SELECT tenon.finish(%s)", (claim,))
            ended[task_id] = time.time()
        conn.execute("SELECT tenon.cancel(i) FROM unnest(CAST(%s AS bigint[])) i", (ids[MEASURED:],))


def p(ms, share):
    return sorted(ms)[int(len(ms) * share)]


def moments(ids):
    with psycopg.connect(URL) as conn:
        return dict(conn.execute("SELECT id, extract(epoch FROM finished_at)::float8 FROM tenon.history WHERE id = ANY (%s)",
                                 (ids,)).fetchall())


def measure(name):
    began, returned = {}, {}
    with psycopg.connect(URL, autocommit=True) as conn:
        ids = waited_for.enqueue_many(conn, [{}] * MANY)
    ending = threading.Thread(target=end_one_by_one, args=(ids, began, returned))
    ending.start()
    heard = WAYS[name](ids)
    ending.join()
    ms, before, after = ([(heard[i] - at) * 1000 for i, at in since.items()]
                         for since in (moments(list(began)), began, returned))
    print(f"{name}: p50 {p(ms, 0.5):.2f} ms, p99 {p(ms, 0.99):.2f} ms; from before the statement p50 {p(before, 0.5):.2f} ms,"
          f" after it has returned {p(after, 0.5):.2f} ms", flush=True)


if __name__ == "__main__":
    for way in sys.argv[1:] or WAYS:
        measure(way)
