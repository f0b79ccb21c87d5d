#!/usr/bin/env python3
"""Mails an operator that a task is dead: the handler of the kind that stands in on_dead.

SELECT tenon.set_settings('{"on_dead": "task_died"}');
tenon worker --handler task_died=examples/on_dead/mail.py      with OPERATOR=ops@example.org

The dead task is on stdin. $SENDMAIL (sendmail) sends the letter; if it fails, this task is tried again.
"""

import json
import os
import subprocess
import sys
from email.message import EmailMessage

dead = json.load(sys.stdin)
why = str(dead["error"] or dead["reason"])
letter = EmailMessage()
letter["To"] = os.environ["OPERATOR"]
letter["Subject"] = f"task {dead['id']} ({dead['kind']}) is dead: {' '.join(why.split())[:200]}"
letter.set_content(json.dumps(dead, indent=2, ensure_ascii=False))
subprocess.run([os.environ.get("SENDMAIL", "sendmail"), "-t"], input=bytes(letter), check=True)
