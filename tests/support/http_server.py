#!/usr/bin/python3
"""An endpoint for tenon-http's tests: does what the path says, and writes down what it got.

usage: http_server.py DIR [CERTIFICATE KEY]

Listens on a port of 127.0.0.1 and on the same of ::1, and writes its number to DIR/port, each request as a line of JSON
to DIR/requests. With a certificate it speaks TLS.

  /echo          200, the body                 /text          200, no JSON
  /N             status N, "said N"            /N.after.S     status N with Retry-After: S
  /N.at.S        the same as a date            /moved         302 to /echo
  /N.say.HEX     the same as these bytes
  /big           200, 64 KiB and a byte        /endless       200, never ends
  /hang          never answers                 /drop          closes the connection
  /together      200 when COUNT of the environment are waiting
  anything else  404
"""
import email.utils
import http.server
import json
import os
import socket
import ssl
import sys
import threading
import time

DIR = sys.argv[1]
TOGETHER = threading.Barrier(int(os.environ.get("COUNT", "1")))
LOCK = threading.Lock()


def note(what):
    with LOCK, open(f"{DIR}/requests", "a", encoding="utf-8") as file:
        file.write(json.dumps(what) + "\n")


class Endpoint(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def hang(self):
        self.connection.recv(1)  # until the other side goes
        print("gone", self.path, file=sys.stderr, flush=True)
        self.close_connection = True

    def endless(self):
        self.send_response(200)
        self.end_headers()
        self.close_connection = True
        try:
            while True:
                self.wfile.write(b"1" * 4096)
        except OSError:
            print("gone", self.path, file=sys.stderr, flush=True)

    def together(self):
        TOGETHER.wait()
        self.answer(200)

    def drop(self):
        self.close_connection = True

    def status(self, word):
        if not word[0].isdigit():
            word = "404"
        number, how, seconds = (word.split(".") + ["", ""])[:3]
        headers = {}
        if how == "after":
            headers = {"Retry_After": seconds}
        elif how == "say":
            headers = {"Retry_After": bytes.fromhex(seconds).decode()}
        elif how == "at":
            headers = {"Retry_After": email.utils.formatdate(time.time() + int(seconds), usegmt=True)}
        self.answer(int(number), b"said " + number.encode(), **headers)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        note({"path": self.path, "headers": dict(self.headers), "body": body.decode()})
        word = self.path.rpartition("/")[2]
        if word in ("hang", "endless", "together", "drop"):
            getattr(self, word)()
        elif word == "echo":
            self.answer(200, body)
        elif word == "text":
            self.answer(200, b"very well")
        elif word == "big":
            self.answer(200, b'"' + b"1" * (64 << 10) + b'"')
        elif word == "moved":
            self.answer(302, b"", Location="/echo")
        else:
            self.status(word)


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 1024


class Server6(Server):
    address_family = socket.AF_INET6


def serve(server):
    if len(sys.argv) > 2:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*sys.argv[2:4])
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever).start()


first = Server(("127.0.0.1", 0), Endpoint)
serve(first)
try:
    serve(Server6(("::1", first.server_port), Endpoint))
except OSError:
    pass  # no IPv6 here
with open(f"{DIR}/port.new", "w", encoding="ascii") as ready:
    ready.write(str(first.server_port))
os.rename(f"{DIR}/port.new", f"{DIR}/port")
print("listening", file=sys.stderr, flush=True)
