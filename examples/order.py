#!/usr/bin/python3
"""A pool handler whose task is an order: reserve the goods, ask for the price of the shipping, charge the customer,
wait for the payment or a day, ship or refund. Whatever dies meanwhile, each step is done once.

    tenon worker --handler 'order=pool:exec examples/order.py' --pass-env DATABASE_URL
    psql -c "SELECT tenon.enqueue('order', '{\"order\": 17}')"
    tenon signal payment:17 --payload '{"amount": 30}'

A step in this database commits together with its record: both are there, or neither. One elsewhere is recorded after it
was done, and may be done twice when its record is lost: it gets a key by which the other side knows it again. There is no
library: docs/steps.md says what the lines and functions mean. Needs python3-psycopg2.
"""
import json
import os
import sys
from contextlib import closing

import psycopg2
from psycopg2.extras import Json

DAY_MS = 86400000


def connected():
    """A connection for one task: one that is kept would fail each task after a restart of PostgreSQL."""
    return closing(psycopg2.connect(os.environ["DATABASE_URL"]))


def say(line):
    print(json.dumps(line), flush=True)


def effect(cursor, order, what):
    cursor.execute('INSERT INTO order_effect ("order", what) VALUES (%s, %s)', (order, what))


def step(conn, task, name, work):
    """What `work` returned when it was done, now or in an earlier attempt."""
    if name not in task["steps"]:
        with conn, conn.cursor() as cursor:  # one transaction
            value = work(cursor)
            cursor.execute("SELECT tenon.step(%s, %s, %s)", (task["claim"], name, Json(value)))
        task["steps"][name] = value
    return task["steps"][name]


def step_elsewhere(task, name, work):
    """The same for work that no transaction holds. The worker says when it is recorded."""
    if name not in task["steps"]:
        value = work("%s-%d" % (name, task["id"]))
        say({"id": task["id"], "step": {"name": name, "value": value}})
        answer = json.loads(sys.stdin.readline() or sys.exit(0))  # one task at a time: nothing else comes
        if not answer["recorded"]:
            raise ValueError("the step %s was not recorded" % name)
        task["steps"][name] = value
    return task["steps"][name]


def ask_price(key):
    with open(os.environ.get("PRICES", "/dev/null"), "a", encoding="ascii") as prices:
        prices.write(key + "\n")
    return {"shipping": 5}


def run(conn, task):
    order = task["payload"]["order"]
    payment = "payment:%d" % order
    step(conn, task, "reserve", lambda cursor: effect(cursor, order, "reserve"))
    price = step_elsewhere(task, "price", ask_price)
    step(conn, task, "charge", lambda cursor: effect(cursor, order, "charge"))
    if payment not in task["steps"]:
        return {"outcome": "wait_signal", "signal": payment, "timeout_ms": task["payload"].get("wait_ms", DAY_MS)}
    end = "ship" if task["steps"][payment] is not None else "refund"  # null: it did not come in time
    step(conn, task, end, lambda cursor: effect(cursor, order, end))
    return {"outcome": "done", "result": {"order": order, "end": end, "shipping": price["shipping"]}}


def main():
    with connected() as conn, conn, conn.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(17)")  # some start at once
        cursor.execute('CREATE TABLE IF NOT EXISTS order_effect ("order" bigint, what text)')
    say({"hello": "tenon"})
    for line in iter(sys.stdin.readline, ""):
        task_id = int(line[len('{"id":'):line.index(",")])
        try:
            task = json.loads(line)
            task["steps"] = task.get("steps") or {}
            with connected() as conn:
                reply = run(conn, task)
        except Exception as error:  # also of a payload that Python cannot read
            reply = {"outcome": "failed", "error": repr(error)}
        say({"id": task_id, **reply})


if __name__ == "__main__":
    main()
