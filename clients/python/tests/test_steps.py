"""Durable steps: as a worker hears of them, on connections, and without a worker."""

from __future__ import annotations

import json
import os
import threading
import time
from typing import Any

import app
import psycopg
import pytest
from conftest import Worker
from test_child import Pipes, pipes

from tenon import _child
from tenon.testing import run

child = pytest.fixture(scope="module")(pipes)
own = pytest.fixture(pipes)
PRICE = {"name": "price", "value": {"at": "2026-01-02"}}


def told(number: int, name: str, recorded: bool = True) -> bytes:
    return json.dumps({"step": number, "name": name, "recorded": recorded}).encode()


def test_a_step_waits_until_it_is_recorded(child: Pipes) -> None:
    number = child.send("buys")
    assert child.read() == {"id": number, "step": PRICE}
    assert child.ask("nothing") == {"outcome": "done"}  # meanwhile
    child.write(told(number, "price"))
    assert child.read() == {"id": number, "step": {"name": "pay", "value": "2026-01-02"}}
    child.write(told(number, "pay"))
    result = {"steps": {"price": {"at": "2026-01-02"}, "pay": "2026-01-02"}, "paid": "2026-01-02"}
    assert child.read() == {"id": number, "outcome": "done", "result": result}


def test_what_is_recorded_is_not_done_again(child: Pipes) -> None:
    number = child.send("buys", steps='{"price": {"at": "then"}, "pay": null}')
    result = {"steps": {"price": {"at": "then"}, "pay": None}, "paid": None}
    assert child.read() == {"id": number, "outcome": "done", "result": result}


def test_coroutines(child: Pipes) -> None:
    number = child.send("abuys")
    asked = sorted((child.read()["step"]["name"] for _ in range(2)), reverse=True)
    assert asked == ["price", "other"]
    for name in asked:
        child.write(told(number, name))
    assert child.read() == {"id": number, "outcome": "done", "result": [{"at": "2026-01-02"}, 7]}
    assert "use the method that begins with a" in child.ask("blocks")["error"]


def test_a_step_that_is_refused_is_a_failure(child: Pipes) -> None:
    for kind in ("buys", "abuys"):
        number = child.send(kind)
        for _ in range(1 if kind == "buys" else 2):
            child.write(told(number, child.read()["step"]["name"], recorded=False))
        reply = child.read()
        assert reply["outcome"] == "failed"
        assert "was not recorded: a task has 1,000 steps" in reply["error"]


def test_names_and_sizes(child: Pipes) -> None:
    said = child.ask("misuses")["result"]
    assert [text[:30] for text in said[:3]] == ["the name of a step or signal h"] * 3
    assert said[3:] == [
        "the step 'outer' is being done: give the other another name",
        "the step 'long' is longer than 1048576 bytes",
    ]


@pytest.mark.parametrize("kind", ["buys", "abuys"])
def test_who_is_cancelled_while_he_waits_is_interrupted(own: Pipes, kind: str) -> None:
    number = own.send(kind)
    while own.read()["step"]["name"] != "price":
        pass
    own.write(b'{"stop":null,"why":"drain"}')  # the record comes all the same
    own.write(b'{"stop":%d,"why":"lost"}' % number)
    while "outcome" not in (reply := own.read()):
        pass
    assert reply == {"id": number, "outcome": "interrupted"}
    own.write(told(number, "price"))  # too late, and nobody's
    own.end()


@pytest.mark.parametrize("kind", ["buys", "abuys"])
def test_the_end_of_input_while_he_waits(own: Pipes, kind: str) -> None:
    number = own.send(kind)
    own.read()
    assert own.process.stdin
    own.process.stdin.close()
    while "outcome" not in (reply := own.read()):
        pass
    assert reply == {"id": number, "outcome": "interrupted"}
    assert own.process.wait(30) == 0


def test_a_quick_task_that_waits_lets_another_thread_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_child, "MIND_S", 3600)  # nobody else finds out
    monkeypatch.setattr(_child, "QUICK_S", 3600)
    (source, there), (here, sink) = os.pipe(), os.pipe()
    served = _child.Child(app.tenon._task.default_app.tasks, 1, _child.Wire(os.fdopen(source, "rb"), sink))
    thread = threading.Thread(target=served.serve, daemon=True)
    thread.start()
    lines = os.fdopen(here)
    assert "hello" in lines.readline()
    for number in (1, 2):
        counts: dict[str, Any] = {"attempt": 1, "failures": 0, "max_attempts": 1, "timeout_ms": 60_000}
        line = {"id": number, "kind": "buys", "queue": "default", **counts, "claim": "", "trace": None}
        os.write(there, json.dumps({**line, "progress": None, "payload": {}}).encode() + b"\n")
        for name in ("price", "pay"):
            assert json.loads(lines.readline())["step"]["name"] == name
            os.write(there, told(number, name) + b"\n")
        assert json.loads(lines.readline())["outcome"] == "done"
    os.close(there)
    thread.join(30)
    assert not thread.is_alive()


def test_sleeping() -> None:
    first = run(app.goes_on_later)
    assert first.outcome == "snooze"
    assert first.delay is not None
    assert first.steps["nap"] > time.time() * 1000
    assert run(app.goes_on_later, steps=first.steps).outcome == "snooze"
    assert run(app.goes_on_later, steps={"nap": 1}).outcome == "wait_signal"


def test_waiting_for_a_signal() -> None:
    waits = run(app.goes_on_later, steps={"nap": 1})
    assert (waits.outcome, waits.signal, waits.delay and waits.delay.total_seconds()) == ("wait_signal", "paid", 5)
    assert run(app.goes_on_later, steps={"nap": 1, "paid": {"amount": 30}}).result == {"amount": 30}
    late = run(app.goes_on_later, steps={"nap": 1, "paid": None})
    assert (late.outcome, late.result) == ("done", None)


def test_who_catches_everything_waits_all_the_same() -> None:
    caught = run(app.catches_everything)
    assert (caught.outcome, caught.signal, caught.steps) == ("wait_signal", "paid", {})


def test_on_a_connection(conn: psycopg.Connection, worker: Worker) -> None:
    conn.execute("CREATE TABLE IF NOT EXISTS public.booking (task bigint)")
    conn.execute("TRUNCATE public.booking")
    app.books.enqueue(conn)
    app.abooks.enqueue(conn)
    conn.commit()
    for _ in range(20):  # what sleeps a millisecond is not ready at once
        worker("app")
        open_tasks = conn.execute("SELECT count(*) FROM tenon.task").fetchone()
        conn.commit()
        if open_tasks == (0,):
            break
    rows = conn.execute("SELECT kind, failures, outcome FROM tenon.history ORDER BY kind").fetchall()
    assert rows == [("abooks", 1, "done"), ("books", 1, "done")]
    assert conn.execute("SELECT count(*), count(DISTINCT task) FROM public.booking").fetchone() == (2, 2)
