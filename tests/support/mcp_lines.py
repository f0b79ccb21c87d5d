#!/usr/bin/env python3
"""Drives tenon mcp over pipes with the lines of good, bad and hostile clients. For mcp_test, which has enqueued task 1 and, as
task 2, one with a payload of 1,000,000 bytes; task 3 is dead. The database is that of DATABASE_URL.

usage: tests/support/mcp_lines.py TENON
"""
import json
import os
import select
import socket
import subprocess
import sys
import time

LIMIT_S = 60
READS = ["doctor", "status", "list_tasks", "show_task", "show_logs", "explain_task", "dead_tasks", "list_workers", "list_schedules", "list_limits",
         "list_flows", "show_flow", "list_outbox", "list_audit"]
ACTS = ["retry_tasks", "cancel_tasks", "run_tasks_now", "pause", "resume"]
META = "io.modelcontextprotocol/"
MODERN = {META + "protocolVersion": "2026-07-28", META + "clientCapabilities": {}, META + "clientInfo": {"name": "modern", "version": "1"}}


class Server:
    def __init__(self, *options, **environment):
        self.process = subprocess.Popen([sys.argv[1], "mcp", *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        env={**os.environ, **environment})
        self.rest = b""
        self.ids = 100

    def send(self, *lines):
        for line in lines:
            data = line if isinstance(line, bytes) else json.dumps(line).encode()
            self.process.stdin.write(data + b"\n")
        self.process.stdin.flush()

    def answer(self):
        end = time.monotonic() + LIMIT_S
        while b"\n" not in self.rest:
            assert select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))[0], "no answer came"
            piece = os.read(self.process.stdout.fileno(), 65536)
            assert piece, "the server has ended"
            self.rest += piece
        line, self.rest = self.rest.split(b"\n", 1)
        answer = json.loads(line)
        assert answer["jsonrpc"] == "2.0" and ("result" in answer) != ("error" in answer), answer
        return answer

    def ask(self, method, **params):
        self.ids += 1
        self.send({"jsonrpc": "2.0", "id": self.ids, "method": method, "params": params})
        answer = self.answer()
        assert answer["id"] == self.ids, answer
        return answer

    def greet(self, version="2025-11-25", name="lines"):
        answer = self.ask("initialize", protocolVersion=version, capabilities={}, clientInfo={"name": name, "version": "1"})
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return answer["result"]

    def call(self, name, **arguments):
        """The text of a tool's answer; fails where it is an error."""
        result = self.ask("tools/call", name=name, arguments=arguments)["result"]
        assert not result["isError"], result
        return result["content"][0]["text"]

    def fails(self, name, says, **arguments):
        result = self.ask("tools/call", name=name, arguments=arguments)["result"]
        assert result["isError"] and says in result["content"][0]["text"], result

    def end(self):
        self.process.stdin.close()
        code = self.process.wait(LIMIT_S)
        assert code == 0, f"exit code {code}"


def code_of(answer):
    return answer["error"]["code"]


def bad_lines(tenon):
    for line, code in ((b"{bad", -32700), (b"{} {}", -32700), (b"\xff\xfe", -32700), (b'{"jsonrpc": "2.0\x00"}', -32700),
                       (b"[" * 5000, -32700), (b'{"id": 1, "id": 2}', -32700), (b"17", -32700), (b"{}", -32600), (b"[]", -32600),
                       (b'[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]', -32600), (b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}', -32600),
                       (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', -32600), (b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}', -32600),
                       (b'{"jsonrpc": "2.0", "id": 1}', -32600), (b'{"jsonrpc": "2.0", "id": 1, "method": 17}', -32600),
                       (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": [1]}', -32600),
                       (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/none"}', -32601),
                       (b'{"jsonrpc": "2.0", "id": 1, "method": "resources/list"}', -32601),
                       (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}', -32602),  # before initialize, without a revision
                       (b'{"jsonrpc": "2.0", "id": 1, "method": "initialize"}', -32602)):
        tenon.send(line)
        assert code_of(tenon.answer()) == code, line
    # nobody answers these
    tenon.send(b"", b"  \r", b'{"jsonrpc": "2.0", "method": "notifications/none"}', b'{"jsonrpc": "2.0", "id": 9, "result": {}}',
               b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 4711}}')
    tenon.send(b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": "' + b"x" * 3_000_000 + b'"}}')
    answer = tenon.answer()
    assert code_of(answer) == -32600 and "over the limit" in answer["error"]["message"], answer
    assert tenon.ask("ping")["result"]


def revisions(tenon):
    assert tenon.greet("2025-06-18")["protocolVersion"] == "2025-06-18"
    assert tenon.greet("1999-01-01")["protocolVersion"] == "2025-11-25"
    found = tenon.ask("server/discover", _meta=MODERN)["result"]
    assert found["supportedVersions"][0] == "2026-07-28" and found["resultType"] == "complete" and "tools" in found["capabilities"]
    unknown = tenon.ask("tools/list", _meta={**MODERN, META + "protocolVersion": "1900-01-01"})
    assert code_of(unknown) == -32022 and unknown["error"]["data"]["requested"] == "1900-01-01", unknown
    assert code_of(tenon.ask("tools/list", _meta={META + "protocolVersion": "2026-07-28"})) == -32602


def modern_only():
    tenon = Server()
    listed = tenon.ask("tools/list", _meta=MODERN)["result"]
    assert listed["ttlMs"] and [tool["name"] for tool in listed["tools"]] == READS, listed
    assert tenon.ask("tools/call", name="explain_task", arguments={"id": 1}, _meta=MODERN)["result"]["isError"] is False
    tenon.end()


def reads(tenon):
    assert [tool["name"] for tool in tenon.ask("tools/list")["result"]["tools"]] == READS
    for name in (name for name in READS if name != "show_logs"):
        arguments = {"id": 1} if name in ("show_task", "explain_task", "show_flow") else {}
        assert json.loads(tenon.call(name, **arguments)) is not None, name
    assert json.loads(tenon.call("list_tasks", state="dead", limit=1))["tasks"][0]["id"] == 3
    assert json.loads(tenon.call("dead_tasks"))["groups"][0]["error_class"] == "Boom"
    assert isinstance(json.loads(tenon.call("list_workers")), list)
    tenon.fails("show_task", "there is no task 4711", id=4711)
    long = tenon.call("show_task", id=2)
    assert len(long) < 33000 and "more bytes" in json.loads(long)["payload"]["long"], len(long)


def logs(tenon):
    """Task 3 has logged 3,000 lines, every tenth a warning; task 1 none."""
    assert tenon.call("show_logs", id=1) == ""
    tenon.fails("show_logs", "there is no task 4711", id=4711)
    tenon.fails("show_logs", "level", id=3, level="loud")
    warnings = tenon.call("show_logs", id=3, level="warning").splitlines()
    assert len(warnings) == 300 and "attempt 1  warning" in warnings[0] and warnings[0].endswith("line 10"), warnings[:2]
    long = tenon.call("show_logs", id=3).splitlines()
    assert "more bytes" in long[0] and long[-1].endswith("line 3000"), long[:2]
    assert 300 < len(long) < 3000 and "attempt 1" in long[1] and len("".join(long)) < 33000, len(long)


def bad_arguments(tenon):
    for arguments, says in (({}, '"id" is missing'), ({"id": 0}, "above 0"), ({"id": "1"}, "above 0"), ({"id": 1.5}, "above 0"),
                            ({"id": 1, "json": True}, 'no argument "json"'), ({"id": [1]}, "above 0")):
        tenon.fails("show_task", says, **arguments)
    for arguments, says in (({"limit": 101}, "1 to 100"), ({"limit": -1}, "above 0"), ({"kind": ""}, "1 to 1000 bytes"),
                            ({"kind": "x" * 1001}, "1 to 1000 bytes"), ({"kind": "a\0b"}, "1 to 1000 bytes"), ({"kind": 17}, "1 to 1000 bytes"),
                            ({"state": "burning"}, "state"), ({"payload": "--all"}, "payload")):
        tenon.fails("list_tasks", says, **arguments)
    # a text that looks like an option stays a text
    assert json.loads(tenon.call("list_tasks", error="--help"))["tasks"] == []
    assert code_of(tenon.ask("tools/call", name="none")) == -32602
    assert code_of(tenon.ask("tools/call", arguments={})) == -32602
    # names of which no character is cut in the error
    assert code_of(tenon.ask("tools/call", name="x" + "\u00e9" * 100)) == -32602
    assert code_of(tenon.ask("x" + "\u00e9" * 100)) == -32601
    tenon.fails("show_task", 'no argument "x\u00e9', **{"id": 1, "x" + "\u00e9" * 100: 1})
    assert code_of(tenon.ask("tools/call", name="status", arguments=[1])) == -32602
    for name in ACTS:
        answer = tenon.ask("tools/call", name=name, arguments={"ids": [3], "reason": "it is back"})
        assert code_of(answer) == -32602 and "--allow-acts" in answer["error"]["message"], answer


def acts():
    tenon = Server("--allow-acts")
    tenon.greet(name="my client; x=1")
    assert [tool["name"] for tool in tenon.ask("tools/list")["result"]["tools"]] == READS + ACTS
    tenon.fails("retry_tasks", '"reason" is missing', ids=[3])
    tenon.fails("retry_tasks", "filter", reason="everything")
    tenon.fails("retry_tasks", "1 to 100", ids=list(range(1, 102)), reason="many")
    tenon.fails("pause", "queue", reason="nothing")
    tenon.fails("pause", "--all", queue="--all", reason="everything")
    assert json.loads(tenon.call("retry_tasks", kind="mail", dry_run=True, reason="to see"))["changed"] == 0
    assert json.loads(tenon.call("retry_tasks", ids=[3], reason="it's back"))["changed"] == 1
    tenon.fails("retry_tasks", "already", ids=[3], reason="again")
    assert "paused" in tenon.call("pause", queue="mail", reason="the provider is down")
    assert "resumed" in tenon.call("resume", queue="mail", reason="it is back")
    assert json.loads(tenon.call("cancel_tasks", kind="mail", state="ready", reason="wrong"))["changed"] == 1
    tenon.end()


def calls_at_once(tenon):
    tenon.send(*({"jsonrpc": "2.0", "id": f"c{i}", "method": "tools/call", "params": {"name": "status"}} for i in range(12)))
    answers = [tenon.answer() for _ in range(12)]
    assert {answer["id"] for answer in answers} == {f"c{i}" for i in range(12)}
    failed = [answer["result"]["content"][0]["text"] for answer in answers if answer["result"]["isError"]]
    assert len(failed) == 4 and all("8 calls are running" in text for text in failed), failed


def cancelled_calls_are_not_answered():
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections, and says nothing
        url = f"postgresql://x@127.0.0.1:{silent.getsockname()[1]}/x?sslmode=disable&connect_timeout=60"
        tenon = Server(DATABASE_URL=url, TENON_DATABASE_URL=url)
        tenon.greet()
        tenon.send({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "status"}})
        taken, _ = silent.accept()  # its process runs
        tenon.send({"jsonrpc": "2.0", "id": 7, "method": "ping"})
        assert code_of(tenon.answer()) == -32600  # this id is in use
        tenon.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}})
        assert taken.recv(4096) is not None and b"" == drained(taken)  # its process has gone
        assert tenon.ask("ping")["result"]
        tenon.send({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "status"}})
        silent.accept()
        begun = time.monotonic()
        tenon.end()  # and does not wait for a call that hangs
        assert time.monotonic() - begun < LIMIT_S / 2
        assert tenon.rest == b"", tenon.rest


def drained(connection):
    data = connection.recv(4096)
    while data:
        data = connection.recv(4096)
    return data


def main():
    tenon = Server()
    bad_lines(tenon)
    revisions(tenon)
    reads(tenon)
    logs(tenon)
    bad_arguments(tenon)
    calls_at_once(tenon)
    tenon.end()
    modern_only()
    cancelled_calls_are_not_answered()
    acts()


main()
