"""The pool child on its pipes, without a worker: outcomes, output, stop lines."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from conftest import HERE

import tenon.__main__
from tenon.testing import run

MOMENT = timedelta(seconds=1)
"""How much the clock of the system may be set back or forth meanwhile."""


class Pipes:
    """A child and what a worker would say to it."""

    def __init__(self, *words: str, **env: str) -> None:
        command = [sys.executable, "-m", "tenon", *words]
        pipe, env = subprocess.PIPE, {**os.environ, **env}
        self.process = subprocess.Popen(command, cwd=HERE, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, env=env)
        self.starting = self.read()
        self.hello = self.read()
        self.ids = 16

    def read(self) -> Any:
        return json.loads(self.line())

    def line(self) -> bytes:
        assert self.process.stdout
        return self.process.stdout.readline()

    def write(self, line: bytes) -> None:
        assert self.process.stdin
        self.process.stdin.write(line + b"\n")

    def send(
        self, kind: str, payload: str = "{}", progress: str = "null", steps: str = "{}", max_attempts: int = 25
    ) -> int:
        self.ids += 1
        self.write(
            f'{{"id":{self.ids},"kind":"{kind}","queue":"default","attempt":1,"failures":0,'
            f'"max_attempts":{max_attempts},'
            f'"timeout_ms":3600000,"claim":"{self.ids}/1/1/x","trace":null,"progress":{progress},'
            f'"steps":{steps},"payload":{payload}}}'.encode()
        )
        return self.ids

    def ask(self, kind: str, payload: str = "{}") -> Any:
        number = self.send(kind, payload)
        reply = self.read()
        assert reply.pop("id") == number
        return reply

    def end(self) -> str:
        _, err = self.process.communicate(timeout=30)
        assert self.process.returncode == 0
        return err.decode()


def pipes() -> Iterator[Pipes]:
    pipes = Pipes("app", "--concurrency", "8")
    yield pipes
    pipes.process.kill()
    pipes.process.wait()


child = pytest.fixture(scope="module")(pipes)
own = pytest.fixture(pipes)


def test_hello(own: Pipes) -> None:
    assert own.starting == {"starting": "importing app"}
    kinds = own.hello.pop("kinds")
    assert "order" in kinds
    assert kinds == sorted(kinds)
    assert own.hello == {"hello": "tenon", "in_flight": 8, "stop": True}
    own.end()


def test_outcomes(child: Pipes) -> None:
    assert child.ask("nothing") == {"outcome": "done"}
    assert child.ask("plain", '{"a": [1.5, "é"]}') == {"outcome": "done", "result": {"a": [1.5, "é"]}}
    assert child.ask("snooze") == {"outcome": "snooze", "error": "busy", "delay_ms": 3_600_000}
    assert child.ask("dead") == {"outcome": "dead", "error": "never", "error_class": "tenon.Dead"}
    retry = child.ask("retry")
    assert (retry["outcome"], retry["delay_ms"], retry["error_class"]) == ("failed", 3_600_000, "KeyError")
    assert retry["error"].startswith("KeyError: 'inner'")
    left = child.ask("leaves")
    assert (left["outcome"], left["error_class"]) == ("failed", "SystemExit")


def test_errors_have_a_traceback_of_the_users_code(child: Pipes) -> None:
    error = child.ask("broken")["error"]
    first, empty, trace, *frames = error.split("\n")
    assert first == "ValueError: no \ufffd such thing"
    assert empty == ""
    assert trace == "Traceback (most recent call last):"
    assert "in broken" in frames[0]
    assert "tenon/_" not in error
    long = child.ask("broken", '{"long": 100000}')["error"]
    assert len(long.encode()) <= 8191
    assert "\n[...]\n" in long


NOTES = {
    "5,000 digits": "Exceeds the limit",
    "nan": "Out of range float values",
    "infinity": "Out of range float values",
    "half": r"it has \ud83d in a text, which PostgreSQL cannot store",
    "zero": r"it has \u0000 in a text, which PostgreSQL cannot store",
    "circle": "Circular reference detected",
    "model": "dictionary changed size during iteration",
    "speechless": "Speechless is not JSON",
    "bytes": "bytes is not JSON: b'x'",
    "long": "it is longer than 2000000 bytes",
}


def test_results_that_are_no_json_are_notes(child: Pipes) -> None:
    """The work was done, and the neighbours go on."""
    for what, why in NOTES.items():
        reply = child.ask("gives", json.dumps({"what": what}))
        assert reply["outcome"] == "done", what
        assert reply["result"].startswith("tenon: the result was not kept: "), what
        assert why in reply["result"]
    assert child.ask("gives", '{"what": "400 digits"}') == {"outcome": "done", "result": 10**400}
    assert child.ask("gives", '{"what": "backslash"}') == {"outcome": "done", "result": "\\u0000"}
    assert child.ask("raises")["outcome"] == "failed"


def test_deep_results(child: Pipes) -> None:
    """However deep, and just at the limit of Python's encoder."""
    for deep in (*range(900, 1000, 3), 100_000):
        number = child.send("gives", f'{{"deep": {deep}}}')
        line = child.line()
        assert line.startswith(b'{"id": %d, "outcome": "done", "result": ' % number), line[:200]


def test_payloads_that_do_not_fit_are_dead(child: Pipes) -> None:
    reply = child.ask("order", '{"number": "1", "parts": []}')
    assert (reply["outcome"], reply["error"]) == ("dead", "payload.number: expected int, got '1'")
    assert child.ask("card", '{"limit": 1}')["error"].startswith("payload: no Card")
    for payload in ("9" * 5000, "[" * 10_000 + "]" * 10_000):
        reply = child.ask("plain", payload)
        assert reply["outcome"] == "dead"
        assert reply["error"].startswith("Python cannot read the payload")
    assert child.ask("strange")["error"] == "the app has no task 'strange'"


def test_a_result_that_is_no_json_is_done_all_the_same(child: Pipes) -> None:
    reply = child.ask("no_json")
    assert reply["outcome"] == "done"
    assert reply["result"].startswith("tenon: the result was not kept: Out of range float")


def test_output_of_handlers_goes_to_stderr(own: Pipes) -> None:
    assert own.ask("noisy")["outcome"] == "done"
    err = own.end()
    for words in ("hello from Python", "and again", "from a subprocess", "from C"):
        assert words in err


def test_many_at_once(child: Pipes) -> None:
    for kind in ("four_at_once", "four_coroutines"):
        ids = [child.send(kind) for _ in range(4)]
        replies = sorted((child.read() for _ in ids), key=lambda reply: reply["id"])
        assert replies == [{"id": number, "outcome": "done"} for number in ids]


def test_a_quick_kind_that_takes_long_stops_no_other(child: Pipes) -> None:
    for _ in range(20):
        assert child.ask("quick_or_not") == {"outcome": "done"}
    for _ in range(3):
        ids = [child.send("quick_or_not", '{"meet": 1}') for _ in range(2)]
        replies = sorted((child.read() for _ in ids), key=lambda reply: reply["id"])
        assert replies == [{"id": number, "outcome": "done"} for number in ids]


def test_progress_and_more_time(child: Pipes) -> None:
    number = child.send("steps")
    assert child.read() == {"id": number, "progress": {"step": 1}}
    assert child.read() == {"id": number, "extend_ms": 60_000}
    assert child.read() == {"id": number, "outcome": "interrupted"}
    number = child.send("steps", progress='{"step": 1}')
    assert child.read() == {"id": number, "outcome": "done", "result": {"step": 1}}


def test_stop_lines(own: Pipes) -> None:
    other = own.send("waits")
    for kind in ("waits", "sleeps"):
        number = own.send(kind)
        own.write(b'{"stop":%d,"why":"cancelled"}' % number)
        assert own.read() == {"id": number, "outcome": "interrupted"}
    late = own.send("awaits")
    own.write(b'{"stop":null,"why":"drain"}')
    replies = {r["id"]: r for r in (own.read(), own.read())}
    assert replies[other]["outcome"] == "interrupted"
    assert replies[late] == {"id": late, "outcome": "done", "result": "drain"}
    own.write(b'{"stop":999,"why":"lost"}')  # answered in the meantime
    own.end()


def test_the_end_of_input_waits_for_what_runs(own: Pipes) -> None:
    ids = [own.send("four_coroutines") for _ in range(4)]
    assert own.process.stdin
    own.process.stdin.close()
    assert sorted(own.read()["id"] for _ in ids) == ids
    assert own.process.wait(30) == 0


def test_an_object_of_a_module() -> None:
    pipes = Pipes("app:small")
    assert pipes.hello["in_flight"] == 1
    assert pipes.ask("of-another-app") == {"outcome": "done"}
    assert pipes.ask("plain")["outcome"] == "failed"
    pipes.end()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["no_such_module"], "No module named 'no_such_module'"),
        (["app:nothing_there"], "has no attribute 'nothing_there'"),
        (["app:Colour"], "is not a tenon.App, a task or a list of tasks"),
        (["json"], "json has no tasks: mark them with @tenon.task"),
        (["app", "--concurrency", "0"], "--concurrency: 1 to 1024"),
    ],
)
def test_an_app_that_is_none(words: list[str], says: str) -> None:
    ran = subprocess.run([sys.executable, "-m", "tenon", *words], cwd=HERE, capture_output=True, text=True, check=False)
    assert ran.returncode != 0
    assert "hello" not in ran.stdout
    assert says in ran.stderr


def test_until_when_it_may_run() -> None:
    at: list[tuple[datetime, timedelta]] = []

    @tenon.App().task
    def looks(payload: Any, context: tenon.Context) -> None:
        at.append((context.deadline, context.remaining))
        context.extend(120)
        at.append((context.deadline, context.remaining))

    before = datetime.now(UTC)
    assert run(looks, timeout_ms=60_000).outcome == "done"
    after = datetime.now(UTC)
    for (deadline, remaining), seconds in zip(at, (60, 120), strict=True):
        length = timedelta(seconds=seconds)
        assert before - MOMENT < deadline - length < after + MOMENT
        assert length - (after - before) - MOMENT < remaining <= length


def test_a_handlers_file_is_for_all_kinds() -> None:
    text = tenon.__main__.handlers_file(["python", 'a "b"'], "/srv")
    assert text.startswith('handler "*" {\n    command = {"python", "a \\"b\\""}\n')
    with pytest.raises(ValueError, match="cannot have"):
        tenon.__main__.quoted("${HOME}")
