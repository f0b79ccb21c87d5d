#!/usr/bin/python3
"""A pool handler in Python: writes a welcome mail into a Maildir, two at a time.

    mailer.py MAILDIR JOURNAL

It speaks the JSON lines of docs/protocol.md: a hello, then one reply per task line, in any order.
The journal gets one line when a run starts and one when its mail is delivered; the demo counts by it:
    TASK ATTEMPT PID start|end CLOCK_REALTIME_IN_NANOSECONDS WORKER_PID EMAIL
"""
import json
import mailbox
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import format_datetime, localtime, make_msgid

IN_FLIGHT = 2
WORKER_PID = os.getppid()
out_lock = threading.Lock()
maildir_lock = threading.Lock()


def welcome(payload):
    user, domain = payload["email"].split("@")
    mail = EmailMessage()
    mail["From"] = Address("The Sign-up Desk", "desk", "example.org")
    mail["To"] = Address(payload["name"], user, domain)
    mail["Subject"] = "Welcome"
    mail["Date"] = format_datetime(localtime())
    mail["Message-ID"] = make_msgid(domain="example.org")
    mail.set_content(f"Dear {payload['name']},\n\nyou are user number {payload['user']}.\n")
    return mail


def note(journal, task, what):
    line = (f"{task['id']} {task['attempt']} {os.getpid()} {what} {time.time_ns()} {WORKER_PID} "
            f"{task['payload']['email']}\n")
    os.write(journal, line.encode())


def run(task, maildir, journal):
    note(journal, task, "start")
    time.sleep((20 + task["id"] % 31) / 1000)  # as long as a mail server somewhere else takes
    with maildir_lock:
        name = maildir.add(welcome(task["payload"]))
    note(journal, task, "end")
    return {"id": task["id"], "outcome": "done", "result": {"mail": name}}


def run_and_reply(line, maildir, journal):
    try:
        reply = run(json.loads(line), maildir, journal)
    except Exception as error:  # also of a payload that Python cannot read
        reply = {"id": int(line[6:line.index(",")]), "outcome": "failed", "error": repr(error)}
    with out_lock:
        print(json.dumps(reply), flush=True)


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: mailer.py MAILDIR JOURNAL")
    maildir = mailbox.Maildir(sys.argv[1], factory=None, create=False)
    journal = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    print(json.dumps({"hello": "tenon", "in_flight": IN_FLIGHT}), flush=True)
    with ThreadPoolExecutor(IN_FLIGHT) as threads:
        for line in sys.stdin:
            threads.submit(run_and_reply, line, maildir, journal)


main()
