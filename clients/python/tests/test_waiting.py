"""Waiting for tasks' ends: on every kind of connection, and by many of one process on one."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import app
import asyncpg
import psycopg
import psycopg2
import pytest
import sqlalchemy
from conftest import URL, Worker
from psycopg.rows import dict_row
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

import tenon
from tenon import _awaited, _listening
from tenon._awaited import ASK_S, ASKED_MAX, Awaited
from tenon._connections import need_async, need_sync

MANY = 1_000
THREADS = 100
LISTENING = "SELECT count(*) FROM pg_listening_channels()"
NAMED_URL = f"{URL}{'&' if '?' in URL else '?'}application_name=waits"
SA_URL = URL.replace("postgresql://", "postgresql+psycopg://")
LIMIT_S = 60


@contextmanager
def of_psycopg2() -> Iterator[Any]:
    conn = psycopg2.connect(URL)
    yield conn
    conn.close()


BLOCKING: dict[str, Callable[[], Any]] = {
    "psycopg": lambda: psycopg.connect(URL, row_factory=dict_row),
    "psycopg in autocommit": lambda: psycopg.connect(URL, autocommit=True),
    "psycopg2": of_psycopg2,
    "a connection of SQLAlchemy": lambda: sqlalchemy.create_engine(SA_URL).connect(),
    "a session of SQLAlchemy": lambda: Session(sqlalchemy.create_engine(SA_URL.replace("psycopg", "psycopg2"))),
}


async def of_asyncpg() -> Any:
    return await asyncpg.connect(URL)


async def of_async_psycopg() -> Any:
    return await psycopg.AsyncConnection.connect(URL)


async def of_async_session() -> Any:
    return AsyncSession(create_async_engine(SA_URL))


async def of_async_engine() -> Any:
    return await create_async_engine(SA_URL.replace("psycopg", "asyncpg")).connect()


ASYNC = {
    "psycopg": of_async_psycopg,
    "asyncpg": of_asyncpg,
    "a connection of SQLAlchemy": of_async_engine,
    "a session of SQLAlchemy": of_async_session,
}


def when_awaited(n: int, act: Callable[[psycopg.Connection], Any]) -> None:
    """Does something, when so many tasks are awaited."""
    with psycopg.connect(URL, autocommit=True) as conn:
        until(conn, "SELECT count(*) = %s FROM tenon.task WHERE awaited", n)
        act(conn)


@contextmanager
def after_awaited(n: int, act: Callable[[psycopg.Connection], Any]) -> Iterator[None]:
    """The same, while others do theirs."""
    with ThreadPoolExecutor(1) as pool:
        acting = pool.submit(when_awaited, n, act)
        yield
        acting.result()


def until(conn: psycopg.Connection, sql: str, *values: object) -> None:
    end = time.monotonic() + LIMIT_S
    while conn.execute(sql, values).fetchone() != (True,):
        assert time.monotonic() < end, sql
        conn.execute("SELECT pg_sleep(0.01)")


def finish(conn: psycopg.Connection, *ids: int) -> None:
    """As a worker would, with their payloads as results."""
    conn.execute(
        """UPDATE tenon.task SET start_time = now(), claim_key = tenon.random_key(),
                                worker_id = gen_random_uuid(), claims = 1
            WHERE id = ANY (%s)""",
        (list(ids),),
    )
    conn.execute(
        """SELECT tenon.finish(concat_ws('/', id, claims, lpad(to_hex(claim_key), 16, '0')), payload)
             FROM tenon.task WHERE id = ANY (%s) ORDER BY id""",
        (list(ids),),
    )


def terminate(conn: psycopg.Connection) -> None:
    """Whoever waits."""
    until(
        conn,
        """SELECT bool_or(pg_terminate_backend(pid)) FROM pg_stat_activity
            WHERE query ~ 'tenon.await' AND state = 'idle' AND datname = current_database()""",
    )


def one_ends(ids: list[int]) -> Any:
    return after_awaited(1, lambda conn: finish(conn, ids[1]))


def as_they_ended(ids: list[int]) -> list[tenon.TaskResult]:
    return [tenon.TaskResult(ids[2], "unfinished"), tenon.TaskResult(ids[1], "done", {"n": 1})]


@pytest.mark.parametrize("kind", BLOCKING)
def test_a_blocking_connection(conn: psycopg.Connection, ids: list[int], kind: str) -> None:
    """It is as it was afterwards."""
    with BLOCKING[kind]() as mine:
        with one_ends(ids):
            assert tenon.wait(mine, [ids[1]], timeout=LIMIT_S) == as_they_ended(ids)[1:]
        assert tenon.wait(mine, [ids[2], ids[1]], timeout=0.01) == as_they_ended(ids)
        assert need_sync(mine).rows(LISTENING, []) == [(0,)]
        if kind == "psycopg in autocommit":
            return
        app.plain.enqueue(mine, {})
        with pytest.raises(ValueError, match="cannot wait in a transaction"):
            tenon.wait(mine, ids)
        mine.rollback()
        assert conn.execute("SELECT count(*) FROM tenon.task").fetchone() == (2,)


@pytest.mark.parametrize("kind", ASYNC)
def test_an_asynchronous_connection(conn: psycopg.Connection, ids: list[int], kind: str) -> None:
    async def run() -> None:
        mine = await ASYNC[kind]()
        with one_ends(ids):
            assert await tenon.await_(mine, [ids[1]], timeout=LIMIT_S) == as_they_ended(ids)[1:]
        assert await tenon.await_(mine, [ids[2], ids[1]], timeout=0.01) == as_they_ended(ids)
        assert [tuple(row) for row in await need_async(mine).arows(LISTENING, [])] == [(0,)]
        if kind == "asyncpg":
            await mine.execute("BEGIN")
        await app.plain.aenqueue(mine, {})
        with pytest.raises(ValueError, match="cannot wait in a transaction"):
            await tenon.await_(mine, ids)
        await mine.close()

    asyncio.run(run())
    assert conn.execute("SELECT count(*) FROM tenon.task").fetchone() == (2,)


def test_every_end(conn: psycopg.Connection, worker: Worker) -> None:
    done, dead = app.plain.enqueue(conn, {"n": 1}), app.dead.enqueue(conn, {})
    cancelled, expired = (app.plain.enqueue(conn, {}, queue="elsewhere") for _ in range(2))
    conn.execute("SELECT tenon.cancel(%s)", (cancelled,))
    conn.execute("UPDATE tenon.task SET start_before = now() WHERE id = %s", (expired,))
    conn.commit()
    worker("app")
    found = tenon.wait(conn, [done, dead, cancelled, expired, 10**12, done], timeout=LIMIT_S)
    assert [one.state for one in found] == ["done", "dead", "cancelled", "expired", None, "done"]
    assert all(one.ended for one in found)
    assert [one.result for one in found] == [{"n": 1}, None, None, None, None, {"n": 1}]
    assert "never" in str(found[1].error)
    assert "there is no task 1000000000000" in str(found[4].error)
    assert tenon.wait(conn, []) == []
    with pytest.raises(ValueError, match="10001 tasks: wait for at most 10000"):
        tenon.wait(conn, range(10_001))


def test_what_cannot_be_waited_on(conn: psycopg.Connection) -> None:
    async def run() -> None:
        with pytest.raises(TypeError, match="an event loop runs here"):
            tenon.wait(conn, [1])
        with pytest.raises(TypeError, match="Connection blocks"):
            await tenon.await_(conn, [1])
        mine = await of_async_psycopg()
        with pytest.raises(TypeError, match="AsyncConnection is asynchronous"):
            await asyncio.to_thread(tenon.wait, mine, [1])
        with pytest.raises(TypeError, match="AsyncConnection is asynchronous"):
            await asyncio.to_thread(tenon.Waiter(lambda: mine).wait, 1)
        await mine.close()

    asyncio.run(run())
    closed = psycopg.connect(URL)
    closed.close()
    with pytest.raises(ConnectionError, match="could not wait for task 1: the connection is closed"):
        tenon.wait(closed, [1])


def test_the_connection_is_lost(ids: list[int]) -> None:
    what = f"could not wait for tasks {ids[0]}, {ids[1]}, {ids[2]}: "
    for kind in ("psycopg", "psycopg2"):
        with after_awaited(3, terminate), BLOCKING[kind]() as mine, pytest.raises(ConnectionError, match=what):
            tenon.wait(mine, ids, LIMIT_S)

    async def run(kind: str) -> None:
        mine = await ASYNC[kind]()
        with after_awaited(3, terminate), pytest.raises(ConnectionError, match=what):
            await tenon.await_(mine, ids, LIMIT_S)

    for kind in ("psycopg", "asyncpg"):
        asyncio.run(run(kind))


def test_one_call_at_a_time(ids: list[int]) -> None:
    async def run() -> None:
        for kind in ("psycopg", "asyncpg"):
            mine = await ASYNC[kind]()
            first = asyncio.create_task(tenon.await_(mine, [ids[0]], 0.2))
            await asyncio.sleep(0)
            with pytest.raises(ValueError, match="another call waits on this connection"):
                await tenon.await_(mine, ids)
            assert [one.ended for one in await first] == [False]
            assert [one.ended for one in await tenon.await_(mine, ids, 0.01)] == [False] * 3
            await mine.close()

    asyncio.run(run())


def test_another_role_s_task(conn: psycopg.Connection, ids: list[int]) -> None:
    def connect() -> psycopg.Connection:
        mine = psycopg.connect(URL, autocommit=True)
        mine.execute("SET SESSION AUTHORIZATION waits_python")
        return mine

    conn.execute("CREATE ROLE waits_python; SELECT tenon.grant_producer('waits_python')")
    conn.commit()
    try:
        with connect() as mine, pytest.raises(psycopg.errors.InsufficientPrivilege, match="permission denied"):
            tenon.wait(mine, ids)
        with tenon.Waiter(connect) as waiter:
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="permission denied"):
                waiter.wait(ids[0])
            assert waiter.wait(10**12).state is None  # it goes on
    finally:
        conn.rollback()
        conn.execute("DROP OWNED BY waits_python; DROP ROLE waits_python")
        conn.commit()


def test_a_pooler(monkeypatch: pytest.MonkeyPatch) -> None:
    """It tells its clients another process id; PgBouncer itself is in tests/enqueue/pooler_test.c."""
    monkeypatch.setattr(_listening, "PID", "SELECT pg_backend_pid() + 1")
    with psycopg.connect(URL) as mine, pytest.raises(ValueError, match="leads through a pooler"):
        tenon.wait(mine, [1])
    with (
        tenon.Waiter(lambda: psycopg2.connect(URL)) as waiter,
        pytest.raises(ValueError, match="leads through a pooler"),
    ):
        waiter.wait(1)

    async def run() -> None:
        for kind in ASYNC:
            mine = await ASYNC[kind]()
            with pytest.raises(ValueError, match="leads through a pooler"):
                await tenon.await_(mine, [1])
            await mine.close()

    asyncio.run(run())


def until_connections(conn: psycopg.Connection, n: int) -> None:
    """Waiters have so many: the server ends a session that is over in its own time."""
    until(conn, "SELECT count(*) = %s FROM pg_stat_activity WHERE application_name = 'waits'", n)


@pytest.mark.parametrize("library", [psycopg.AsyncConnection, asyncpg])
def test_a_thousand_coroutines(conn: psycopg.Connection, library: Any) -> None:
    """On one connection, and each gets its own result."""
    ids = app.plain.enqueue_many(conn, [{"n": n} for n in range(MANY)])
    conn.commit()

    def act(other: psycopg.Connection) -> None:
        until_connections(other, 1)
        finish(other, *ids)

    async def run() -> list[tenon.TaskResult]:
        async with tenon.AsyncWaiter(lambda: library.connect(NAMED_URL)) as waiter:
            acting = asyncio.create_task(asyncio.to_thread(when_awaited, MANY, act))
            found = await asyncio.gather(*(waiter.wait(i, LIMIT_S) for i in ids))
            await acting
        return found

    assert asyncio.run(run()) == [tenon.TaskResult(i, "done", {"n": n}) for n, i in enumerate(ids)]
    with psycopg.connect(URL, autocommit=True) as other:
        until_connections(other, 0)


def test_many_threads(conn: psycopg.Connection) -> None:
    ids = app.plain.enqueue_many(conn, [{"n": n} for n in range(THREADS)])
    conn.commit()

    def act(other: psycopg.Connection) -> None:
        until_connections(other, 1)
        finish(other, *ids)

    waiter = tenon.Waiter(lambda: psycopg2.connect(NAMED_URL))
    with waiter, ThreadPoolExecutor(THREADS) as pool, after_awaited(THREADS, act):
        found = pool.map(lambda i: waiter.wait(i, LIMIT_S), ids)
    assert list(found) == [tenon.TaskResult(i, "done", {"n": n}) for n, i in enumerate(ids)]


def test_a_waiter_that_lost_its_connection(ids: list[int]) -> None:
    """Who waits is told; who waits then has another one."""
    with tenon.Waiter(lambda: psycopg.connect(URL)) as waiter:
        with after_awaited(1, terminate), pytest.raises(ConnectionError, match=f"could not wait for task {ids[0]}: "):
            waiter.wait(ids[0], LIMIT_S)
        with after_awaited(2, lambda conn: finish(conn, ids[1])):
            assert waiter.wait(ids[1], LIMIT_S) == tenon.TaskResult(ids[1], "done", {"n": 1})
        assert waiter.wait(ids[2], 0.01) == tenon.TaskResult(ids[2], "unfinished")
    with pytest.raises(ValueError, match="the waiter was closed"):
        waiter.wait(ids[0])


@pytest.mark.parametrize("kind", ["psycopg", "asyncpg"])
def test_an_asynchronous_one_that_lost_it(ids: list[int], kind: str) -> None:
    async def run() -> None:
        async with tenon.AsyncWaiter(ASYNC[kind]) as waiter:
            with after_awaited(1, terminate), pytest.raises(ConnectionError, match=f"could not wait for task {ids[0]}"):
                await waiter.wait(ids[0], LIMIT_S)
            with after_awaited(2, lambda conn: finish(conn, ids[1])):
                assert await waiter.wait(ids[1], LIMIT_S) == tenon.TaskResult(ids[1], "done", {"n": 1})
            assert await waiter.wait(ids[2], 0.01) == tenon.TaskResult(ids[2], "unfinished")
        with pytest.raises(ValueError, match="the waiter was closed"):
            await waiter.wait(ids[0])

    asyncio.run(run())


def test_a_server_that_is_away() -> None:
    with tenon.Waiter(lambda: psycopg.connect("host=127.0.0.1 port=1")) as waiter:
        for _ in range(2):
            with pytest.raises(ConnectionError, match=r"could not wait for task 17: .*refused"):
                waiter.wait(17)

    async def run() -> None:
        async with tenon.AsyncWaiter(lambda: asyncpg.connect("postgresql://127.0.0.1:1/")) as waiter:
            with pytest.raises(ConnectionError, match="could not wait for task 17: "):
                await waiter.wait(17)

    asyncio.run(run())


def test_who_waits_when_it_is_closed(ids: list[int]) -> None:
    waiter = tenon.Waiter(lambda: psycopg.connect(URL))
    with after_awaited(1, lambda _: waiter.close()), pytest.raises(ConnectionError, match="the waiter was closed"):
        waiter.wait(ids[0], LIMIT_S)


def test_after_a_fork(ids: list[int]) -> None:
    with tenon.Waiter(lambda: psycopg.connect(URL)) as waiter:
        assert waiter.wait(ids[0], 0.01).state == "unfinished"
        pid = os.fork()
        if pid == 0:
            with psycopg.connect(URL, autocommit=True) as other:
                finish(other, ids[1])
            os._exit(waiter.wait(ids[1], LIMIT_S).state != "done")
        assert os.waitpid(pid, 0)[1] == 0
        assert waiter.wait(ids[1], LIMIT_S).result == {"n": 1}


def test_nothing_polls(conn: psycopg.Connection, ids: list[int]) -> None:
    """Whoever waits asks nothing until something is said; what a stranger says is only a reason to ask."""
    last = "SELECT state || ' ' || (query ~ 'tenon.result') FROM pg_stat_activity WHERE application_name = 'waits'"
    quiet = f"SELECT array_agg(s) = '{{idle false}}' FROM ({last} AND now() - state_change > '2 s') x (s)"
    asked = f"SELECT array_agg(s) = '{{idle true}}' FROM ({last}) x (s)"
    with (
        psycopg.connect(URL, autocommit=True) as other,
        tenon.Waiter(lambda: psycopg.connect(NAMED_URL)) as waiter,
        ThreadPoolExecutor(1) as pool,
    ):
        waiting = pool.submit(waiter.wait, ids[1], LIMIT_S)
        until(other, quiet)
        other.execute("SELECT pg_notify('tenon_ended', %s), pg_notify('tenon_ended', 'x')", (str(ids[1]),))
        until(other, asked)
        assert not waiting.done()
        finish(other, ids[1])
        assert waiting.result().result == {"n": 1}


def test_what_is_asked() -> None:
    """New ones one by one; what was not heard of all at once, and seldom."""
    told: list[tenon.TaskResult] = []
    awaited = Awaited(told.append)
    assert (awaited.question(0), awaited.due()) == (None, None)
    awaited.add([1, 2], 0)
    assert awaited.question(0) == (_awaited.AWAIT, [1])
    awaited.answer([(1, "running", None, None)])
    assert awaited.question(0) == (_awaited.AWAIT, [2])
    assert (awaited.question(0), awaited.due()) == (None, ASK_S)
    awaited.heard([2, 3, 2])  # nobody waits for 3
    assert awaited.question(1) == (_awaited.RESULT, [2])
    awaited.answer([(2, "done", "[1]", None)])
    assert told == [tenon.TaskResult(2, "done", [1])]
    awaited.add(range(10, 10 + ASKED_MAX), 1)
    while awaited.question(1):
        pass
    again = [awaited.question(ASK_S) for _ in range(3)]
    assert [len(q[1]) if q else 0 for q in again] == [ASKED_MAX, 1, 0]
    awaited.drop([1, *range(10, 10 + ASKED_MAX)])
    assert (awaited.question(2 * ASK_S), awaited.due()) == (None, None)
