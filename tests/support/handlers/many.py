#!/usr/bin/python3
"""A pool handler that takes many tasks at once. It writes each call, its own number and the tasks', as a line to
the file TEST_JOURNAL.calls, and answers the last task first: done, with how many there were.

"then" of a payload: "die" ends it without an answer, in the first attempt; "hang" is answered when it is told to stop.
"""
import json
import os
import sys

hanging = set()


def say(line):
    os.write(1, json.dumps(line).encode() + b"\n")


def stop(which):
    for task_id in list(hanging) if which is None else hanging & {which}:
        hanging.remove(task_id)
        say({"id": task_id, "outcome": "interrupted"})


def call(tasks):
    with open(os.environ["TEST_JOURNAL"] + ".calls", "a", encoding="ascii") as calls:
        calls.write("%d: %s\n" % (os.getpid(), " ".join(str(task["id"]) for task in tasks)))
    for task in reversed(tasks):
        then = task["payload"].get("then")
        if then == "die" and task["claim"].split("/")[1] == "1":
            os._exit(3)
        elif then == "hang":
            hanging.add(task["id"])
            say({"id": task["id"], "progress": {"of": len(tasks)}})
        else:
            say({"id": task["id"], "outcome": "done", "result": len(tasks)})


say({"hello": "tenon", "chunks": True, "stop": True})
for line in sys.stdin:
    message = json.loads(line)
    if "stop" in message:
        stop(message["stop"])
    else:
        call([json.loads(next(sys.stdin)) for _ in range(message["tasks"])])
