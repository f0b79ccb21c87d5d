#!/usr/bin/python3
"""Answers with the texts of tests/answers.json, which are in its tasks' payloads, byte by byte.

usage: answers.py pool|exec | answers.py serve DIR (an HTTP server that writes DIR/port)
"result": a text for a result. "line": a whole line. "said": a line before the reply;
with "latin" in Latin-1, so that it may be any bytes. "err": to stderr, in Latin-1.
"kill": kills itself at the first attempt.
"until": stays in flight until somebody writes to that FIFO.
"""
import http.server
import json
import os
import sys
import threading


def text_of(pieces, task_id=0):
    texts = (piece if isinstance(piece, str) else piece[0] * piece[1] for piece in pieces)
    return "".join(texts).replace("$ID", str(task_id))


def say(line, encoding="utf-8"):
    sys.stdout.buffer.write(line.encode(encoding) + b"\n")
    sys.stdout.buffer.flush()


lock = threading.Lock()


def answer(task):
    payload = task["payload"]
    with lock:
        for pieces in payload.get("said", []):
            say(text_of(pieces, task["id"]), "latin-1" if "latin" in payload else "utf-8")
    if "err" in payload:
        sys.stderr.buffer.write(payload["err"].encode("latin-1"))
        sys.stderr.buffer.flush()
    if "until" in payload:
        open(payload["until"]).close()
    if "kill" in payload and task["attempt"] == 1:
        os.kill(os.getpid(), 9)
    with lock:
        result = text_of(payload.get("result", ["null"]))
        done = '{"id":%d,"outcome":"done","result":%s}' % (task["id"], result)
        say(text_of(payload["line"], task["id"]) if "line" in payload else done)


def pool():
    say('\ufeff{"hello":"tenon","in_flight":200}')
    for line in sys.stdin:
        threading.Thread(target=answer, args=(json.loads(line),)).start()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        payload = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body = text_of(payload["result"]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        try:
            self.wfile.write(body)
        except ConnectionError:
            pass  # it is too long

    def log_message(self, *args):
        pass


def serve(directory):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    with open(os.path.join(directory, "port"), "w") as file:
        file.write(str(server.server_port))
    print("listening", file=sys.stderr, flush=True)
    server.serve_forever()


if sys.argv[1] == "pool":
    pool()
elif sys.argv[1] == "exec":
    sys.stdout.buffer.write(text_of(json.load(sys.stdin)["result"]).encode())
else:
    serve(sys.argv[2])
