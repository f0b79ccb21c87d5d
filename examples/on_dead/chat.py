#!/usr/bin/env python3
"""Posts to a chat that a task is dead: the handler of the kind that stands in on_dead.

SELECT tenon.set_settings('{"on_dead": "task_died"}');
tenon worker --handler 'task_died=pool:exec examples/on_dead/chat.py'      with WEBHOOK_URL=https://...

The body is {"text": ...}, which Slack, Mattermost and others take.
"""

import json
import os
import sys
import urllib.request

ANSWER_LIMIT_S = 30


def post(dead: dict) -> None:
    why = str(dead["error"] or dead["reason"])[:500]
    text = f"Task {dead['id']} ({dead['kind']}) is dead after attempt {dead['attempt']}: {why}"
    body = json.dumps({"text": text}).encode()
    request = urllib.request.Request(
        os.environ["WEBHOOK_URL"], body, {"Content-Type": "application/json"}
    )
    urllib.request.urlopen(request, timeout=ANSWER_LIMIT_S).close()


def main() -> None:
    print('{"hello": "tenon"}', flush=True)
    for line in sys.stdin:
        task_id = int(line[6 : line.index(",")])
        try:
            post(json.loads(line)["payload"])
            reply = {"id": task_id, "outcome": "done"}
        except Exception as error:
            reply = {
                "id": task_id,
                "outcome": "failed",
                "error": str(error),
                "error_class": type(error).__name__,
            }
        print(json.dumps(reply), flush=True)


main()
