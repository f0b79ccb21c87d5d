#!/usr/bin/python3
"""A pool handler that takes many tasks at once: it sends their mails in one call of a mail service.

    export MAIL_API_URL=https://mail.example/batch
    tenon worker --handlers examples/bulk.conf
    psql -c "SELECT tenon.enqueue('mail', '{\"to\": \"ann@example.org\", \"subject\": \"News\"}')"

The service is given a list of mails, and answers with a list: for each mail its id, or an error. So each task
has an outcome of its own. When the service does not answer, all of them are tried again; the key of a mail
stays the same, so that the service can tell what it has sent already.
"""
import json
import os
import sys
import urllib.request

API = os.environ.get("MAIL_API_URL", "http://127.0.0.1:8025/batch")


def post(mails):
    request = urllib.request.Request(API, json.dumps(mails).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        answers = json.load(answer)
    if len(answers) != len(mails):
        raise ValueError("%d answers for %d mails" % (len(answers), len(mails)))
    return answers


def outcome(answer):
    if "error" in answer:
        return {"outcome": "dead", "error": answer["error"]}
    return {"outcome": "done", "result": {"message": answer["id"]}}


def send(mails):
    """The outcomes, in the same order."""
    try:
        return [outcome(answer) for answer in post(mails)]
    except (OSError, ValueError) as error:
        return [{"outcome": "failed", "error": str(error)} for mail in mails]


def say(lines):
    sys.stdout.write("".join(json.dumps(line) + "\n" for line in lines))
    sys.stdout.flush()


def read(n):
    """The mails of the n tasks that follow, by their ids. What is no mail is answered at once."""
    mails = {}
    for line in (next(sys.stdin) for _ in range(n)):
        task_id = int(line[len('{"id":'):line.index(",")])  # each begins so, whatever follows
        try:
            mails[task_id] = {"key": "task-%d" % task_id, **json.loads(line)["payload"]}
        except (ValueError, RecursionError, TypeError) as error:  # 5,000 digits, or a list
            say([{"id": task_id, "outcome": "dead", "error": "this is no mail: %s" % error}])
    return mails


def main():
    say([{"hello": "tenon", "chunks": True}])
    for line in sys.stdin:
        mails = read(json.loads(line)["tasks"])
        if mails:
            say({"id": task_id, **end} for task_id, end in zip(mails, send(list(mails.values()))))


if __name__ == "__main__":
    main()
