#!/usr/bin/python3
"""A pool handler for long work: it goes on where the last attempt stopped.

    tenon worker --handler 'import=pool:exec examples/checkpoint.py'
    psql -c "SELECT tenon.enqueue('import', '{\"items\": 1000}', timeout => '1 minute')"

Its task has so many items. After each it says how far it is; the worker writes that down about once a second,
and the next attempt begins there, however this one ended. So the items of the last second may be done twice,
and must not mind. It asks for another minute with each: however long the whole takes, one that hangs is found
within a minute. It hears when its worker drains, or its task is cancelled, and stops after the item it is at.
"""
import json
import os
import sys
import threading
import time

stops = {}  # of the tasks that run


def say(line):
    os.write(1, json.dumps(line).encode() + b"\n")  # in one piece, as two threads may say something


def do_item(number):
    time.sleep(float(os.environ.get("ITEM_S", "0.01")))
    with open(os.environ.get("ITEMS", "/dev/null"), "a", encoding="ascii") as items:
        items.write("%d\n" % number)


def work(task, stop):
    done = (task["progress"] or {"done": 0})["done"]
    while done < task["payload"]["items"] and not stop.is_set():
        do_item(done)
        done += 1
        say({"id": task["id"], "progress": {"done": done, "of": task["payload"]["items"]}, "extend_ms": 60000})
    return "done" if done == task["payload"]["items"] else "interrupted"


def run(task_id, line, stop):
    try:
        reply = {"outcome": work(json.loads(line), stop)}
    except Exception as error:  # also of a payload that Python cannot read
        reply = {"outcome": "failed", "error": repr(error)}
    del stops[task_id]
    say({"id": task_id, **reply})


def main():
    say({"hello": "tenon", "in_flight": 4, "stop": True})
    for line in sys.stdin:
        if not line.startswith('{"stop":'):
            task_id = int(line[len('{"id":'):line.index(",")])
            stops[task_id] = threading.Event()
            threading.Thread(target=run, args=(task_id, line, stops[task_id])).start()
            continue
        stopped = json.loads(line)["stop"]
        for task_id, stop in list(stops.items()):
            if stopped in (None, task_id):
                stop.set()
    # no more tasks come; Python waits for the threads that still work


if __name__ == "__main__":
    main()
