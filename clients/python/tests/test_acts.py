"""What one does with tasks, flows, limits and schedules from Python; and what the code declares."""

from __future__ import annotations

import asyncio
import datetime as dt
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from conftest import URL

import tenon
from tenon.testing import run_due

app = tenon.App()
there: list[Any] = []


@dataclass
class Part:
    number: int
    names: list[str]


@app.task(queue="parts", max_attempts=3, timeout="5 min", on_timeout="dead", limit_keys=["parts"])
def part(payload: Part) -> int:
    if payload.number < 0:
        raise tenon.Dead("negative")
    return payload.number * 2


@app.task
def ended(payload: dict[str, Any]) -> dict[str, Any]:
    return payload


@app.task
def nothing() -> None: ...


@app.task
def parent(payload: dict[str, Any], context: tenon.Context) -> list[Any]:
    conn = there[0]
    ids = context.step("split", lambda: ended.enqueue_many(conn, [{"n": n} for n in range(3)], delay="3 s"), conn)
    return [(one.state, one.result["n"]) for one in context.wait_for(ids, conn)]


@app.task
async def aparent(payload: dict[str, Any], context: tenon.Context) -> list[Any]:
    conn = there[0]
    ids = await context.astep("split", lambda: ended.aenqueue_many(conn, [{"n": 1}]), conn)
    return [one.state for one in await context.await_for(ids, conn, "children")]


@pytest.fixture(autouse=True)
def here(conn: psycopg.Connection) -> None:
    there[:] = [conn]


def test_tasks(conn: psycopg.Connection) -> None:
    first, second = ended.enqueue(conn, {"n": 1}), ended.enqueue(conn, {"n": 2}, delay="1 d")
    assert tenon.result(conn, first).state == "ready"
    assert tenon.run_now(conn, second, "it is urgent")
    assert tenon.cancel(conn, first)
    assert not tenon.cancel(conn, first)
    assert tenon.result(conn, first).state == "cancelled"
    with pytest.raises(psycopg.Error, match="has no step 'charge'"), conn.transaction():
        tenon.retry(conn, first, from_step="charge")
    assert tenon.retry(conn, first)
    run_due(conn, tasks=app.tasks)
    assert tenon.result(conn, first) == tenon.TaskResult(first, "done", {"n": 1})
    gone = tenon.result(conn, 1_000_000_000)
    assert gone.state is None
    assert "there is no task 1000000000" in str(gone.error)


def test_signals_flows_and_batches(conn: psycopg.Connection) -> None:
    assert tenon.signal(conn, "paid:1", {"by": "card"})
    with pytest.raises(ValueError, match="the name of a step or signal"):
        tenon.signal(conn, "")
    flow = tenon.flow(conn, "two")
    one = ended.enqueue(conn, {"n": 1}, flow=flow)
    two = ended.enqueue(conn, {"n": 2}, flow=flow, depends_on=[one])
    assert tenon.result(conn, two).state == "blocked"
    assert isinstance(tenon.flow(conn), int)
    batch = tenon.batch(conn, on_done=ended, on_dead="nobody", payload={"batch": 7})
    part.enqueue_many(conn, [Part(1, []), Part(2, ["a"])], flow=batch)
    assert tenon.close(conn, batch)
    assert not tenon.close(conn, batch)
    runs = run_due(conn, tasks=app.tasks)
    assert [r.outcome for r in runs] == ["done"] * 5
    assert runs[-1].result["batch"] == 7
    late = tenon.batch(conn, on_end=ended)
    part.enqueue(conn, Part(3, []), flow=late)
    assert tenon.cancel_flow(conn, late) == 1


def test_schedules_and_limits(conn: psycopg.Connection) -> None:
    at = tenon.set_schedule(conn, "nightly", ended, cron="0 3 * * *", zone="Europe/Berlin", payload={"n": 1})
    assert isinstance(at, dt.datetime)
    assert tenon.remove_schedule(conn, "nightly")
    assert not tenon.remove_schedule(conn, "nightly")
    tenon.set_limit(conn, "api", max_running=2, max_starts=10, per="1 min", fair=True)
    found = conn.execute("SELECT max_running, max_starts, per FROM tenon.limit WHERE name = 'api'").fetchone()
    assert found == (2, 10, dt.timedelta(minutes=1))
    assert tenon.remove_limit(conn, "api")
    with pytest.raises(TypeError, match="'running' is not an option; the options are: max_running, "):
        tenon.set_limit(conn, "api", running=1)  # type: ignore[call-arg]


def test_parents_and_rates(conn: psycopg.Connection) -> None:
    app = tenon.App()

    @app.task(kind="part")
    def part(n: int) -> int:
        return n

    @app.task(kind="sum")
    def total(payload: Any, context: tenon.Context) -> int:
        return sum(one.result for one in tenon.parent_results(conn, context))

    flow = tenon.flow(conn, "sums")
    number = total.enqueue(conn, {}, flow=flow, depends_on=part.enqueue_many(conn, [1, 2], flow=flow))
    run_due(conn, tasks=app.tasks)
    assert tenon.result(conn, number).result == 3
    parts = [{"kind": "part", "name": "a", "payload": 1}, {"kind": "sum", "depends_on": ["a"]}]
    assert tenon.cancel_flow(conn, tenon.flow(conn, {"tasks": parts})) == 2
    tenon.set_limit(conn, "sms", max_starts=1, per="1 min")
    assert tenon.take_limit(conn, "sms") == dt.timedelta()
    assert tenon.take_limit(conn, "sms") > dt.timedelta()


def test_on_an_asynchronous_connection(conn: psycopg.Connection) -> None:
    async def use() -> None:
        async with await psycopg.AsyncConnection.connect(URL) as there:
            task = await ended.aenqueue(there, {})
            assert (await tenon.aresult(there, task)).state == "ready"
            assert await tenon.acancel(there, task)
            assert await tenon.aretry(there, task)
            assert await tenon.asignal(there, "async")
            batch = await tenon.abatch(there, on_end="ended")
            assert await tenon.aclose(there, batch)
            assert await tenon.acancel_flow(there, await tenon.aflow(there)) == 0
            await tenon.aset_schedule(there, "hourly", "ended", every="1 h")
            assert await tenon.aremove_schedule(there, "hourly")
            await tenon.aset_limit(there, "api", max_running=1)
            assert await tenon.aremove_limit(there, "api")
            assert await tenon.arun_now(there, await ended.aenqueue(there, {}, delay=60))
            await there.rollback()

    asyncio.run(use())


def test_payloads_are_checked(conn: psycopg.Connection) -> None:
    wrong: list[tuple[Any, Any, str]] = [
        (part, {"number": "1", "names": []}, "part: payload.number: expected int, got '1'"),
        (part, Part(1, ["a", 2]), r"part: payload.names\[1\]: expected str, got 2"),  # type: ignore[list-item]
        (part, {"number": 1}, "part: payload: .*missing 1 required positional argument: 'names'"),
        (part, None, "part: payload: .*missing 2 required"),
        (nothing, {"a": 1}, "nothing: its function takes no payload, and was given {'a': 1}"),
        (ended, {"a": [1, {"b": object()}]}, r"ended: payload.a\[1\].b cannot be stored as JSON: object is not JSON"),
        (ended, {"a": "x\0"}, r"ended: payload.a cannot be stored as JSON: it has \\u0000"),
        (ended, {"a": float("inf")}, "ended: payload.a cannot be stored as JSON"),
    ]
    for task, payload, said in wrong:
        with pytest.raises(TypeError, match=said):
            task.enqueue(conn, payload)
    with pytest.raises(TypeError, match="part: payload: expected Part, got 3"):
        part.enqueue_many(conn, [Part(1, []), 3])  # type: ignore[list-item]
    nothing.enqueue(conn, {})  # type: ignore[arg-type]
    assert part.enqueue(conn, {"number": 1, "names": ["a"]})  # type: ignore[arg-type]


def test_waiting_for_children(conn: psycopg.Connection) -> None:
    number = parent.enqueue(conn, {})
    assert [r.outcome for r in run_due(conn, tasks=app.tasks)] == ["snooze"]
    runs = [(r.kind, r.outcome) for r in run_due(conn, "3 s", app.tasks)]
    assert runs.count(("ended", "done")) == 3
    run_due(conn, "2 s", app.tasks)
    assert tenon.result(conn, number).result == [["done", 0], ["done", 1], ["done", 2]]


def test_waiting_for_children_in_coroutines(conn: psycopg.Connection) -> None:
    from tenon.testing import arun_due

    async def use() -> None:
        async with await psycopg.AsyncConnection.connect(URL) as conn:
            there[:] = [conn]
            number = await aparent.aenqueue(conn, {})
            await arun_due(conn, tasks=app.tasks)
            await arun_due(conn, "2 s", app.tasks)
            assert (await tenon.aresult(conn, number)).result == ["done"]
            await conn.rollback()

    asyncio.run(use())


def declared() -> tenon.App:
    app = tenon.App()

    @app.periodic(cron="0 3 * * *", zone="Europe/Berlin", payload={"n": 1})
    @app.periodic(name="hourly", every="1 h")
    @app.task(queue=app.queue("slow", priority=2), timeout=1200, retry="constant(1 min)", unique_key="x", max_crashes=5)
    def report(payload: dict[str, Any]) -> None: ...

    @app.task
    def plain() -> None: ...

    app.limit("tenant", max_running=5, per="1 min", max_starts=60)
    return app


def test_a_description() -> None:
    assert tenon.description(declared(), remove={"kinds": ["old"]}, source="shop") == {
        "queues": {"slow": {"priority": 2}},
        "kinds": {
            "plain": {},
            "report": {
                "queue": "slow",
                "timeout": "1200000000 microseconds",
                "retry": "constant(1 min)",
                "max_crashes": 5,
            },
        },
        "limits": {"tenant": {"max_running": 5, "per": "60000000 microseconds", "max_starts": 60}},
        "schedules": {
            "report": {"kind": "report", "cron": "0 3 * * *", "zone": "Europe/Berlin", "payload": {"n": 1}},
            "hourly": {"kind": "report", "every": "3600000000 microseconds"},
        },
        "remove": {"kinds": ["old"]},
        "source": "shop",
    }
    with pytest.raises(TypeError, match="wants cron or every"):
        app.periodic(zone="UTC")
    with pytest.raises(TypeError, match="goes above @task"):
        app.periodic(every=60)(lambda: None)
    with pytest.raises(TypeError, match=r"part: payload: .*missing"):
        app.periodic(every=60)(part)


def test_sync(conn: psycopg.Connection) -> None:
    if conn.execute("SELECT to_regproc('tenon.sync')").fetchone() == (None,):
        pytest.skip("this schema has no tenon.sync")
    app = declared()
    changes = tenon.sync(conn, app)
    assert sorted((c.what, c.name, c.act) for c in changes if c.name != "plain") == [
        ("kind", "report", "added"),
        ("limit", "tenant", "added"),
        ("queue", "slow", "added"),
        ("schedule", "hourly", "added"),
        ("schedule", "report", "added"),
    ]
    assert tenon.sync(conn, app) == []
    conn.execute("SELECT tenon.enqueue('report')")
    assert conn.execute("SELECT queue, timeout_ms FROM tenon.task WHERE kind = 'report'").fetchall() == [
        ("slow", 1_200_000)
    ]
    assert tenon.sync(conn, tenon.App(), remove={"schedules": ["hourly", "never"]}) == [
        tenon.Change("schedule", "hourly", "removed")
    ]
