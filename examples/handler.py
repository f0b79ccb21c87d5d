#!/usr/bin/python3
"""A pool handler: a program that stays and runs one task after the other, in JSON lines.

    tenon worker --handlers examples/handlers.conf

After its first line, which says hello, it reads a task per line on stdin and answers each with a
line on stdout, in any order. Nothing else may be written to stdout; the end of stderr is kept in
case it dies. When stdin ends, it ends.
"""
import json
import os
import sys

MAILDIR = os.environ.get("MAILDIR", os.path.join(os.environ.get("TMPDIR", "/tmp"), "tenon-maildir"))


def welcome_mail(task):
    to = task["payload"]["to"]
    # A task may run again after a crash. The name makes a second run harmless: it is the same file.
    name = "task-%d" % task["id"]
    temporary = os.path.join(MAILDIR, "tmp", "%s.%d" % (name, os.getpid()))
    with open(temporary, "w", encoding="utf-8") as mail:
        mail.write("From: service@example.org\nTo: %s\nSubject: Welcome\n"
                   "Message-ID: <%s@example.org>\n\nHello, and welcome.\n" % (to, name))
    os.rename(temporary, os.path.join(MAILDIR, "new", name))
    return {"sent": True}


HANDLERS = {"welcome_mail": welcome_mail}


def run(line):
    try:
        task = json.loads(line)
    except (ValueError, RecursionError) as error:  # 5,000 digits, or 1,500 arrays in each other
        return {"outcome": "dead", "error": "Python cannot read the payload: %s" % error}
    handler = HANDLERS.get(task["kind"])
    if handler is None:
        return {"outcome": "failed", "error": "no handler for %(kind)s" % task}
    try:
        return {"outcome": "done", "result": handler(task)}
    except (KeyError, TypeError) as error:  # such a payload will not get better
        return {"outcome": "dead", "error": "not what the payload should be: %r" % error,
                "error_class": type(error).__name__}
    except OSError as error:  # the disk is full: it may get better
        return {"outcome": "failed", "error": str(error)}


def task_id(line):
    return int(line[len('{"id":'):line.index(",")])  # each begins so, whatever follows


def say(line):
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def main():
    for part in ("tmp", "new", "cur"):
        os.makedirs(os.path.join(MAILDIR, part), exist_ok=True)
    say({"hello": "tenon", "in_flight": 8})  # so many tasks may be sent before they are answered
    for line in sys.stdin:
        say({"id": task_id(line), **run(line)})


if __name__ == "__main__":
    main()
