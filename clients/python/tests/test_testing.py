"""The helpers for the tests of an application, on a real database: tenon.testing."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
from typing import Any

import psycopg
import pytest
from conftest import URL

import tenon
import tenon.testing
from tenon.testing import TaskFailed, arun_due, arun_mine, eager, run, run_due, run_mine

app = tenon.App()
seen: list[str] = []


@app.task
def greet(payload: dict[str, Any]) -> str:
    return f"hello {payload['to']}, attempt {tenon.current().attempt}"


@app.task
def snoozes(payload: dict[str, Any], context: tenon.Context) -> str:
    if context.step("first", lambda: context.progress is None) and "ready" not in context.steps:
        context.set_progress({"slept": True})
        context.step("ready", lambda: 1)
        raise tenon.Snooze("not yet", after="2 h")
    return f"progress {context.progress}"


@app.task(max_attempts=2, retry="constant(1 h)")
def fails() -> None:
    raise ValueError("no")


@app.task
def waits(payload: dict[str, Any], context: tenon.Context) -> Any:
    return context.wait_signal("paid:17", "1 d")


@app.task
def broken_statement(payload: dict[str, Any]) -> None:
    there[0].execute("SELECT 1 / 0")


@app.task
def finishes(payload: dict[str, Any], context: tenon.Context) -> None:
    context.finish(there[0], {"by": "finish"})


@app.task
def parent(payload: dict[str, Any]) -> int:
    return greet.enqueue(there[0], {"to": "child"})


@app.task
async def coroutine(payload: dict[str, Any]) -> int:
    await asyncio.sleep(0)
    return tenon.current().id


there: list[Any] = []


@pytest.fixture(autouse=True)
def here(conn: psycopg.Connection) -> None:
    there[:] = [conn]


def states(conn: psycopg.Connection) -> list[tuple[Any, ...]]:
    return conn.execute("SELECT kind, state, result FROM tenon.tasks ORDER BY id").fetchall()


def due(conn: psycopg.Connection, ahead: Any = None) -> list[str]:
    return [f"{r.kind} {r.outcome}" for r in run_due(conn, ahead, app.tasks)]


def test_a_run_leaves_no_context_behind() -> None:
    assert run(greet, {"to": "ann"}, attempt=3).result == "hello ann, attempt 3"
    with pytest.raises(LookupError, match="no task runs here"):
        tenon.current()


def test_a_function_is_called_directly() -> None:
    tenon.testing.allow_calls(False)  # as without the plugin
    with pytest.raises(LookupError):
        greet({"to": "ann"})
    with tenon.testing.context(attempt=2, progress=7) as context:
        assert greet({"to": "ann"}) == "hello ann, attempt 2"
        assert context.progress == 7
    tenon.testing.allow_calls()
    try:
        assert greet({"to": "ann"}) == "hello ann, attempt 1"
        with tenon.testing.context(attempt=5):
            assert greet({"to": "ann"}) == "hello ann, attempt 5"
        with pytest.raises(LookupError):
            tenon.current()
    finally:
        tenon.testing.allow_calls()


def test_run_mine_names_what_it_does_not_know(conn: psycopg.Connection) -> None:
    conn.execute("SELECT tenon.enqueue('nobodys')")
    with pytest.raises(LookupError, match="no task of the kind 'nobodys' here; known are: broken_statement, "):
        run_mine(conn, app.tasks)


def test_due_tasks_end_in_the_transaction(conn: psycopg.Connection) -> None:
    greet.enqueue(conn, {"to": "ann"})
    greet.enqueue(conn, {"to": "bob"}, delay="1 h")
    assert due(conn) == ["greet done"]
    assert due(conn) == []
    assert due(conn, "59 min") == []
    assert due(conn, "1 min") == ["greet done"]
    assert states(conn) == [("greet", "done", f"hello {to}, attempt 1") for to in ("ann", "bob")]
    conn.rollback()
    assert states(conn) == []


def test_a_delay_under_a_limit(conn: psycopg.Connection) -> None:
    greet.enqueue(conn, {"to": "ann"}, delay="1 h", limit_keys=["greetings"])
    assert due(conn) == []
    assert due(conn, "1 h") == ["greet done"]


def test_only_this_transactions_tasks(conn: psycopg.Connection) -> None:
    with psycopg.connect(URL) as other:
        greet.enqueue(other, {"to": "other"})
    greet.enqueue(conn, {"to": "mine"})
    assert [r.result for r in run_due(conn, tasks=app.tasks)] == ["hello mine, attempt 1"]
    conn.rollback()
    assert [r.result for r in run_due(conn, tasks=app.tasks, committed=True)] == ["hello other, attempt 1"]
    assert states(conn) == [("greet", "done", "hello other, attempt 1")]


def test_a_snooze_and_its_steps(conn: psycopg.Connection) -> None:
    snoozes.enqueue(conn, {})
    assert due(conn) == ["snoozes snooze"]
    assert due(conn, dt.timedelta(minutes=119)) == []
    assert due(conn, dt.timedelta(minutes=1)) == ["snoozes done"]
    assert states(conn)[0][1:] == ("done", "progress {'slept': True}")


def test_retries_until_it_is_dead(conn: psycopg.Connection) -> None:
    fails.enqueue(conn)
    assert due(conn) == ["fails failed"]
    assert states(conn)[0][1] == "retrying"
    assert due(conn, "2 h") == ["fails failed"]
    assert states(conn)[0][1] == "dead"


def test_a_signal_and_its_time(conn: psycopg.Connection) -> None:
    waits.enqueue(conn, {})
    assert due(conn) == ["waits wait_signal"]
    assert due(conn, "1 h") == []
    conn.execute("SELECT tenon.signal('paid:17', '{\"by\": \"card\"}')")
    assert due(conn) == ["waits done"]
    assert states(conn)[0][2] == {"by": "card"}
    conn.rollback()
    waits.enqueue(conn, {})
    assert due(conn) == ["waits wait_signal"]
    assert due(conn, "1 d") == ["waits done"]
    assert states(conn)[0][2] is None


def test_what_follows_runs_too(conn: psycopg.Connection) -> None:
    parent.enqueue(conn, {})
    assert due(conn) == ["parent done", "greet done"]
    conn.execute("SELECT tenon.set_limit('one', max_running => 1)")
    greet.enqueue_many(conn, [{"to": "a"}, {"to": "b"}], limit_keys=["one"])
    assert due(conn) == ["greet done", "greet done"]
    flow = conn.execute("SELECT tenon.batch(on_done => 'coroutine')").fetchone()
    assert flow
    greet.enqueue(conn, {"to": "c"}, flow=flow[0])
    conn.execute("SELECT tenon.close(%s)", flow)
    assert due(conn) == ["greet done", "coroutine done"]


def test_a_failed_statement_spares_the_transaction(conn: psycopg.Connection) -> None:
    broken_statement.enqueue(conn, {})
    finishes.enqueue(conn, {})
    assert due(conn) == ["broken_statement failed", "finishes done"]
    assert states(conn)[1][2] == {"by": "finish"}


def test_on_an_asynchronous_connection(conn: psycopg.Connection) -> None:
    async def use() -> None:
        async with await psycopg.AsyncConnection.connect(URL) as there:
            await coroutine.aenqueue(there, {})
            await greet.aenqueue(there, {"to": "x"}, delay=60)
            (first, second) = await arun_mine(there, app.tasks)
            assert (first.outcome, second.outcome) == ("done", "done")
            assert [r.outcome for r in await arun_due(there, "1 min", app.tasks)] == ["done", "done"]
            await there.rollback()

    asyncio.run(use())


def test_eager() -> None:
    nowhere: Any = object()
    with eager(app.tasks) as runs:
        number = greet.enqueue(nowhere, {"to": "ann"}, delay="1 h")
        assert [(r.id, r.result) for r in runs] == [(number, "hello ann, attempt 1")]
        greet.enqueue_many(nowhere, [{"to": "b"}, {"to": "c"}])
        with pytest.raises(TaskFailed, match="fails failed: ValueError: no") as caught:
            fails.enqueue(nowhere)
        assert caught.value.run is runs[-1]

        async def use() -> None:
            await coroutine.aenqueue(nowhere, {})
            coroutine.enqueue(nowhere, {})  # within a loop

        asyncio.run(use())
    assert [r.outcome for r in runs] == ["done", "done", "done", "failed", "done", "done"]
    with eager(app.tasks, raises=False) as runs:
        fails.enqueue(nowhere)
    assert runs[0].error_class == "ValueError"
    with pytest.raises(TypeError):
        greet.enqueue(nowhere, {"to": "ann"})


def test_flush(conn: psycopg.Connection) -> None:
    greet.enqueue(conn, {"to": "ann"})
    conn.execute("SELECT tenon.batch(on_done => 'x')")
    conn.commit()
    tenon.testing.flush(conn)
    assert states(conn) == []
    assert conn.execute("SELECT count(*) FROM tenon.flow").fetchone() == (0,)
    greet.enqueue(conn, {"to": "ann"})
    conn.rollback()


PLAIN = """
import os, psycopg, tenon

DATABASE = os.environ.get("DATABASE_URL")

@tenon.task
def greet(payload: dict) -> str:
    return f"hello {payload['to']}, {tenon.current().attempt}"

def test_it_runs(tenon_conn, tenon_run_mine, tenon_run_due):
    assert tenon_conn.info.dbname.startswith("test_")
    assert os.environ["DATABASE_URL"] != DATABASE
    greet.enqueue(tenon_conn, {"to": "ann"}, delay="1 h")
    assert [r.result for r in tenon_run_mine(tenon_conn)] == ["hello ann, 1"]
    assert tenon_run_due(tenon_conn) == []
    assert [r.result for r in tenon_run_due(tenon_conn, "1 h")] == ["hello ann, 1"]

def test_nothing_is_left(tenon_conn):
    assert tenon_conn.execute("SELECT count(*) FROM tenon.tasks").fetchone() == (0,)

def test_what_commits(tenon_clean):
    with psycopg.connect(tenon_clean) as conn:
        greet.enqueue(conn, {"to": "ann"})

def test_nothing_is_left_of_that(tenon_conn):
    assert tenon_conn.execute("SELECT count(*) FROM tenon.tasks").fetchone() == (0,)

def test_eager(tenon_eager):
    greet.enqueue(None, {"to": "ann"})
    assert tenon_eager[0].result == "hello ann, 1"

def test_a_call():
    assert greet({"to": "ann"}) == "hello ann, 1"
"""


def test_the_plugin(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, conn: psycopg.Connection) -> None:
    monkeypatch.delenv("DJANGO_SETTINGS_MODULE", raising=False)
    pytester.makepyfile(PLAIN)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=6)
    names = "SELECT count(*) FROM pg_database WHERE datname LIKE 'test\\_' || current_database()"
    assert conn.execute(names).fetchone() == (0,)  # removed again
    assert states(conn) == []  # the database that DATABASE_URL names is left alone
    monkeypatch.delenv("DATABASE_URL")
    result = pytester.runpytest_subprocess("-k", "left", "-p", "no:cacheprovider")
    assert os.environ.get("DATABASE_URL") is None
    result.stdout.fnmatch_lines(["*set DATABASE_URL, beside whose database*"])
