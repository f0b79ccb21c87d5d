"""The cases of clients/conformance, which all clients run."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest
from conftest import HERE

import tenon
from tenon._outcomes import microseconds
from tenon.testing import Run, run, run_due

FOLDER = HERE.parent.parent / "conformance"
PROTOCOL = json.loads((FOLDER / "protocol.json").read_text())
ENQUEUE = json.loads((FOLDER / "enqueue.json").read_text())
WAIT_FOR = json.loads((FOLDER / "wait_for.json").read_text())
RUN_DUE = json.loads((FOLDER / "run_due.json").read_text())
PUBLISH = json.loads((FOLDER / "publish.json").read_text())
DURATIONS = json.loads((FOLDER / "durations.json").read_text())
LACKING = {"null"}
"""What this client does not have: None is no payload."""
LIMIT_S = 60


class Child:
    """A pool child whose lines are read by a thread."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tenon", "conformance_app:app", "--concurrency", "4"]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, cwd=HERE, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)
        self.lines: queue.Queue[bytes] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        self.hello = self.read()
        while "starting" in self.hello:
            self.hello = self.read()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self.lines.put(line)

    def read(self) -> Any:
        return json.loads(self.lines.get(timeout=LIMIT_S))

    def write(self, said: Any) -> None:
        if isinstance(said, dict):
            said = json.dumps(said, separators=(",", ":"), ensure_ascii=False)
        elif isinstance(said, list):
            said = "".join(part if isinstance(part, str) else part[0] * part[1] for part in said)
        assert self.process.stdin
        self.process.stdin.write(said.encode("utf-8", "surrogatepass") + b"\n")
        self.process.stdin.flush()


@pytest.fixture(scope="module")
def shared() -> Iterator[list[Child]]:
    """A child for the cases that do not end it."""
    children: list[Child] = []
    yield children
    for child in children:
        child.process.kill()
        child.process.wait()


def cases(found: list[dict[str, Any]]) -> Any:
    kept = [case for case in found if not LACKING & set(case.get("needs", []))]
    return pytest.mark.parametrize("case", kept, ids=[case["name"] for case in kept])


def matches(line: Any, step: dict[str, Any]) -> bool:
    error = str(line.get("error", ""))
    return (
        any(
            all(k in line and line[k] == v for k, v in one.items())
            for one in step.get("expect_any", [step.get("expect")])
        )
        and not set(step.get("absent", [])) & set(line)
        and step.get("error_contains", "") in error
        and not any(text in error for text in step.get("error_without", []))
        and len(error.encode()) <= step.get("error_bytes_max", sys.maxsize)
        and str(line.get("result", "")).startswith(step.get("result_begins", ""))
    )


def test_hello() -> None:
    child = Child()
    assert {k: v for k, v in child.hello.items() if k in PROTOCOL["hello"]} == PROTOCOL["hello"]
    assert child.hello["in_flight"] >= 4
    assert set(PROTOCOL["kinds"]) <= set(child.hello["kinds"])
    child.process.kill()
    child.process.wait()


@cases(PROTOCOL["cases"])
def test_protocol(case: dict[str, Any], shared: list[Child]) -> None:
    own = any("end" in step for step in case["steps"])
    if own or not shared:
        shared.append(Child()) if not own else None
    child = Child() if own else shared[0]
    early: list[Any] = []  # of other tasks
    for step in case["steps"]:
        if "send" in step:
            child.write(step["send"])
        elif "end" in step:
            assert child.process.stdin
            child.process.stdin.close()
        elif "exit" in step:
            assert child.process.wait(LIMIT_S) == step["exit"]
        else:
            found = next((line for line in early if matches(line, step)), None)
            while found is None:
                line = child.read()
                if matches(line, step):
                    found = line
                else:
                    early.append(line)
            if found in early:
                early.remove(found)
    assert early == []
    assert child.lines.empty()


def options_of(options: dict[str, Any]) -> dict[str, Any]:
    given = dict(options)
    for name in ("run_at", "start_before"):
        if name in given:
            given[name] = datetime.fromisoformat(given[name])
    if "run_ats" in given:
        given["run_ats"] = [None if at is None else datetime.fromisoformat(at) for at in given["run_ats"]]
    return given


def made(case: dict[str, Any]) -> Any:
    """A task whose function takes what the case gives."""
    return tenon.App().task(kind=ENQUEUE["kind"])(lambda payload: payload)


def has_options(conn: psycopg.Connection, case: dict[str, Any]) -> None:
    names = "SELECT string_agg(pg_get_function_arguments(oid), ', ') FROM pg_proc WHERE proname = 'enqueue_many'"
    row = conn.execute(names).fetchone()
    assert row
    for name in {"tags", "queues", "priorities", "run_ats"} & set(case["options"]):
        if f" {name} " not in f" {row[0]}":
            pytest.skip(f"this schema has no {name}")


def columns(conn: psycopg.Connection, table: str, number: int) -> dict[str, Any]:
    row = conn.execute(f"SELECT to_jsonb(t) FROM tenon.{table} t WHERE id = %s", (number,)).fetchone()
    assert row
    return dict(row[0])


@cases(ENQUEUE["enqueue"])
def test_enqueue(case: dict[str, Any], conn: psycopg.Connection) -> None:
    has_options(conn, case)
    conn.execute("SET LOCAL timezone = 'UTC'")
    task = made(case)
    first = case.get("first")
    before = first and task.enqueue(conn, first["payload"], **options_of(first["options"]))
    if "error" in case:
        with pytest.raises((psycopg.Error, TypeError, ValueError)) as caught:
            task.enqueue(conn, case.get("payload"), **options_of(case["options"]))
        assert getattr(caught.value, "sqlstate", case["error"]) == case["error"]
        return
    number = task.enqueue(conn, case.get("payload"), **options_of(case["options"]))
    row = columns(conn, "tasks", number)
    assert {k: row[k] for k in case.get("row", {})} == case.get("row", {})
    kept = columns(conn, "task", number)
    assert {k: kept[k] for k in case.get("task", {})} == case.get("task", {})
    if "delay_ms" in case:
        delay = datetime.fromisoformat(row["run_at"]) - datetime.fromisoformat(row["created_at"])
        assert abs(delay - timedelta(milliseconds=case["delay_ms"])) < timedelta(seconds=1)
    if case.get("same_id"):
        assert number == before


@cases(ENQUEUE["enqueue_many"])
def test_enqueue_many(case: dict[str, Any], conn: psycopg.Connection) -> None:
    has_options(conn, case)
    conn.execute("SET LOCAL timezone = 'UTC'")
    task = made(case)
    if "error" in case:
        with pytest.raises((psycopg.Error, TypeError, ValueError)) as caught:
            task.enqueue_many(conn, case["payloads"], **options_of(case["options"]))
        assert getattr(caught.value, "sqlstate", case["error"]) == case["error"]
        return
    numbers = task.enqueue_many(conn, case["payloads"], **options_of(case["options"]))
    assert len(numbers) == len(case["rows"])
    for number, wanted in zip(numbers, case["rows"], strict=True):
        row = columns(conn, "tasks", number)
        assert {k: row[k] for k in wanted} == wanted


def task_in(conn: psycopg.Connection, state: str, before: list[int]) -> int:
    if state in ("same", "missing"):
        return before[-1] if state == "same" else 999_999_999_999
    number = int(made({}).enqueue(conn))
    if state == "cancelled":
        tenon.cancel(conn, number)
    return number


@cases(WAIT_FOR["cases"])
def test_wait_for(case: dict[str, Any], conn: psycopg.Connection) -> None:
    name, since, ids = WAIT_FOR["name"], f"{WAIT_FOR['name']}:since", list[int]()
    for state in case["tasks"]:
        ids.append(task_in(conn, state, ids))

    def attempt(conn: psycopg.Connection | None, steps: dict[str, Any]) -> Run:
        @tenon.App().task
        def waits(payload: Any, context: tenon.Context) -> list[str | None]:
            return [one.state for one in context.wait_for(ids, conn, name)]

        return run(waits, steps=steps)

    waited = case.get("waited_ms")
    ended = attempt(conn, {since: int(time.time() * 1000) - waited} if waited else {})
    assert ended.outcome == case["outcome"], ended.error
    if "states" in case:
        again = attempt(None, ended.steps)
        assert [ended.result, list(ended.steps)] == [case["states"], [name]]
        assert [again.result, again.steps] == [case["states"], {}]
    else:
        least, most = (timedelta(milliseconds=ms) for ms in case["delay_ms"])
        assert ended.delay is not None
        assert least <= ended.delay <= most
        assert list(ended.steps) == ([] if waited else [since])


@cases(RUN_DUE["cases"])
def test_run_due(case: dict[str, Any], conn: psycopg.Connection) -> None:
    app, ran, hour = tenon.App(), list[str](), timedelta(hours=1)
    first = {one["name"]: one.get("first") for one in case["tasks"]}

    @app.task(kind=RUN_DUE["kind"])
    def due(name: str) -> str:
        ran.append(name)
        how = first.pop(name, None)
        if how == "snooze":
            raise tenon.Snooze("not yet", after=hour)
        if how == "failed":
            raise tenon.Retry("not yet", after=hour)
        if how == "dead":
            raise tenon.Dead("never")
        return name

    for key, most in case.get("limits", {}).items():
        conn.execute("SELECT tenon.set_limit(%s, max_running => %s)", (key, most))
    ids = list[int]()
    for one in case["tasks"]:
        options = {name: one[name] for name in ("limit_keys", "max_attempts") if name in one}
        delay = timedelta(milliseconds=one.get("delay_ms", 0))
        ids.append(due.enqueue(conn, one["name"], delay=delay, **options))
    for call in case["calls"]:
        ahead = timedelta(milliseconds=call.get("ahead_ms", 0))
        runs = run_due(conn, ahead=ahead or None, tasks=app.tasks)
        assert [f"{name} {run.outcome}" for name, run in zip(ran, runs, strict=True)] == call["ran"]
        ran.clear()
    assert [str(tenon.result(conn, number).state) for number in ids] == case["states"]


def body_of(case: dict[str, Any]) -> Any:
    if "hex" in case:
        given = case["hex"]
        return bytes.fromhex(given) if isinstance(given, str) else [bytes.fromhex(one) for one in given]
    return case["text"] if "text" in case else case["json"]


def check_message(conn: psycopg.Connection, number: int, row: dict[str, Any], body: dict[str, Any]) -> None:
    """`body` has the JSON of its body, or its bytes in hexadecimal."""
    sql = "SELECT to_jsonb(o) - 'body', encode(o.body, 'hex') FROM tenon.outbox o WHERE id = %s"
    found = conn.execute(sql, (number,)).fetchone()
    assert found
    assert {k: found[0][k] for k in row} == row
    if "json" in body:
        assert json.loads(bytes.fromhex(found[1])) == body["json"]
    else:
        assert found[1] == body["hex"]


@cases(PUBLISH["publish"])
def test_publish(case: dict[str, Any], conn: psycopg.Connection) -> None:
    def publish() -> int:
        return tenon.publish(conn, case["exchange"], case["routing_key"], body_of(case), **case["options"])

    if "error" in case:
        with pytest.raises(psycopg.Error) as caught:
            publish()
        assert caught.value.sqlstate == case["error"]
        return
    number = publish()
    body = {"json": case["body_json"]} if "body_json" in case else {"hex": case["body_hex"]}
    check_message(conn, number, case["row"], body)
    if "expires_ms" in case:
        sql = "SELECT expires_at - created_at FROM tenon.outbox WHERE id = %s"
        row = conn.execute(sql, (number,)).fetchone()
        assert row
        assert row[0] == timedelta(milliseconds=case["expires_ms"])


@cases(PUBLISH["publish_many"])
def test_publish_many(case: dict[str, Any], conn: psycopg.Connection) -> None:
    def publish() -> list[int]:
        return tenon.publish_many(conn, case["exchange"], case["routing_key"], body_of(case), **case["options"])

    if "error" in case:
        with pytest.raises(psycopg.Error) as caught:
            publish()
        assert caught.value.sqlstate == case["error"]
        return
    numbers = publish()
    assert len(numbers) == len(case["rows"])
    for i, number in enumerate(numbers):
        body = {"json": case["bodies_json"][i]} if "bodies_json" in case else {"hex": case["bodies_hex"][i]}
        check_message(conn, number, case["rows"][i], body)


def test_publish_many_of_different_forms(conn: psycopg.Connection) -> None:
    for bodies in (["text", b"bytes"], [b"bytes", {"json": 1}]):
        with pytest.raises(TypeError, match="different forms"):
            tenon.publish_many(conn, "orders", "", bodies)
    assert tenon.publish_many(conn, "orders", "", []) == []


@pytest.mark.parametrize(("text", "ms"), DURATIONS["texts"])
def test_durations(text: str, ms: int) -> None:
    assert microseconds(text) == ms * 1000


@pytest.mark.parametrize("text", DURATIONS["refused"])
def test_refused_durations(text: str) -> None:
    with pytest.raises(ValueError, match="the length of time is"):
        microseconds(text)
