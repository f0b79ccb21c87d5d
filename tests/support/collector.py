#!/usr/bin/python3
"""A collector of traces for tests: takes POST /v1/traces as OTLP's JSON.

usage: collector.py DIR

Listens on a port of 127.0.0.1 and writes its number to DIR/port. Each span that it took is a line of JSON in DIR/spans:
as it came, but for its attributes, which are one object; with the `resource`'s, and the request's `headers`. Then it
says "span TASK ATTEMPT OUTCOME" on stderr, and "refused" of each request that it did not take.

DIR/mode says what it does with requests: a status; or hang, for ever. Without that file it takes them.
"""
import http.server
import json
import os
import sys
import threading

DIR = sys.argv[1]
LOCK = threading.Lock()


def say(what):
    print(what, file=sys.stderr, flush=True)


def value_of(value):
    (kind, content), = value.items()
    assert kind in ("stringValue", "intValue") and isinstance(content, str), value
    return content if kind == "stringValue" else int(content)


def object_of(attributes):
    return {a["key"]: value_of(a["value"]) for a in attributes}


def take(body, headers):
    for resource in json.loads(body)["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            assert scope["scope"]["name"] == "tenon"
            for span in scope["spans"]:
                span["attributes"] = object_of(span["attributes"])
                span["resource"] = object_of(resource["resource"]["attributes"])
                span["headers"] = headers
                yield span


def mode():
    try:
        with open(f"{DIR}/mode", encoding="utf-8") as file:
            return file.read().strip()
    except FileNotFoundError:
        return "200"


class Collector(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def answer(self, status):
        self.send_response(status)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        doing = mode()
        if self.path != "/v1/traces" or doing != "200":
            say("refused")
            if doing == "hang":
                threading.Event().wait()
            self.answer(int(doing) if doing != "200" else 404)
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        with LOCK, open(f"{DIR}/spans", "a", encoding="utf-8") as file:
            spans = list(take(body, headers))
            for span in spans:
                file.write(json.dumps(span) + "\n")
        for span in spans:
            a = span["attributes"]
            say(f"span {a['tenon.task.id']} {a['tenon.attempt']} {a['tenon.outcome']}")
        self.answer(200)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
with open(f"{DIR}/port.new", "w", encoding="utf-8") as port:
    port.write(str(server.server_port))
os.rename(f"{DIR}/port.new", f"{DIR}/port")
say("listening")
server.serve_forever()
