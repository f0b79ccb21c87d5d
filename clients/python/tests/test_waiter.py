"""What a waiter has: it frees its own, all of it, and nobody else's; and refuses whom it must, alone."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import app
import psycopg
import pytest
from conftest import URL
from psycopg.adapt import Loader
from test_waiting import ASYNC, BLOCKING, LIMIT_S, LISTENING, after_awaited, finish

import tenon
from tenon._listening import async_listener, blocking_listener

BUSY = "another call waits on this connection"
FORKED = 20


@pytest.mark.parametrize("kind", ["psycopg", "psycopg2"])
def test_who_is_refused_frees_nothing(kind: str) -> None:
    """And a waiter ends no connection that another call waits on."""
    with BLOCKING[kind]() as mine:
        first, second = blocking_listener(mine), blocking_listener(mine)
        first.open()
        with tenon.Waiter(lambda: mine) as waiter:
            for _ in range(2):
                with pytest.raises(ValueError, match=BUSY):
                    waiter.wait(1)
        second.close()
        with pytest.raises(ValueError, match=BUSY):
            second.open()
        first.close()
        second.open()
        first.close()
        assert (second.is_taken(), second.rows(LISTENING, [])) == (True, [(1,)])
        second.close()
        assert (second.is_taken(), second.rows(LISTENING, [])) == (False, [(0,)])


@pytest.mark.parametrize("kind", ["psycopg", "asyncpg"])
def test_nor_does_an_asynchronous_one(kind: str) -> None:
    async def run() -> None:
        mine = await ASYNC[kind]()
        first, second = await async_listener(mine), await async_listener(mine)
        await first.open(asyncio.Event())
        async with tenon.AsyncWaiter(lambda: asyncio.sleep(0, mine)) as waiter:
            for _ in range(2):
                with pytest.raises(ValueError, match=BUSY):
                    await waiter.wait(1)
        await first.close()
        await second.open(asyncio.Event())
        await first.close()
        assert second.is_taken()
        assert [tuple(row) for row in await second.rows(LISTENING, [])] == [(1,)]
        await second.close()
        await mine.close()

    asyncio.run(run())


class Unreadable(Loader):
    """An application's own: it cannot read the result {"n": 22}."""

    def load(self, data: Any) -> str:
        text = bytes(data).decode()
        if text == '{"n": 22}':
            raise ValueError("cannot read that")
        return text


REFUSED: dict[str, tuple[str, type[Exception], str]] = {
    "a result that Python cannot read": ("payload = '{\"n\": 1e5000}'", ValueError, "4300 digits"),
    "one that the caller's driver cannot": ("payload = '{\"n\": 22}'", ValueError, "cannot read that"),
    "another role's by now": ("enqueued_by = 'postgres'", psycopg.errors.InsufficientPrivilege, "permission denied"),
}


@pytest.fixture
def producer(conn: psycopg.Connection) -> Iterator[str]:
    role = "waits_python"
    conn.execute(f"CREATE ROLE {role}; SELECT tenon.grant_producer('{role}')")
    conn.commit()
    yield role
    conn.rollback()
    conn.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")
    conn.commit()


def refusing(conn: psycopg.Connection, producer: str, change: str) -> tuple[list[int], Any]:
    """Three tasks of that role, and what ends them at once, so that they are asked for in one statement."""
    ids = app.plain.enqueue_many(conn, [{"n": n} for n in range(3)])
    conn.execute("UPDATE tenon.task SET enqueued_by = %s", (producer,))
    conn.commit()

    def act(other: psycopg.Connection) -> None:
        other.execute(f"UPDATE tenon.task SET {change} WHERE id = {ids[1]}")
        finish(other, *ids)

    return ids, after_awaited(3, act)


def only_one_is(error: type[Exception], match: str, ids: list[int], found: list[Any]) -> None:
    assert [found[n] for n in (0, 2)] == [tenon.TaskResult(ids[n], "done", {"n": n}) for n in (0, 2)]
    with pytest.raises(error, match=match):
        raise found[1]


@pytest.mark.parametrize("what", REFUSED)
def test_only_who_asked_is_refused(conn: psycopg.Connection, producer: str, what: str) -> None:
    change, error, match = REFUSED[what]

    def connect() -> Any:
        mine = psycopg.connect(URL, autocommit=True)
        mine.execute(f"SET SESSION AUTHORIZATION {producer}")
        mine.adapters.register_loader("text", Unreadable)
        return mine

    ids, ending = refusing(conn, producer, change)
    with tenon.Waiter(connect) as waiter, ThreadPoolExecutor(3) as pool, ending:
        waiting = [pool.submit(waiter.wait, i, LIMIT_S) for i in ids]
        only_one_is(error, match, ids, [one.exception() or one.result() for one in waiting])


@pytest.mark.parametrize("what", REFUSED)
def test_only_the_coroutine_that_asked_is(conn: psycopg.Connection, producer: str, what: str) -> None:
    change, error, match = REFUSED[what]
    ids, ending = refusing(conn, producer, change)

    async def connect() -> Any:
        mine = await psycopg.AsyncConnection.connect(URL, autocommit=True)
        await mine.execute(f"SET SESSION AUTHORIZATION {producer}")
        mine.adapters.register_loader("text", Unreadable)
        return mine

    async def run() -> list[Any]:
        async with tenon.AsyncWaiter(connect) as waiter:
            return await asyncio.gather(*(waiter.wait(i, LIMIT_S) for i in ids), return_exceptions=True)

    with ending:
        only_one_is(error, match, ids, asyncio.run(run()))


class Slow(psycopg.Connection[Any]):
    """Its end takes a moment; did anybody take it for ended before?"""

    seen: threading.Event
    too_early: bool

    def close(self) -> None:
        self.too_early = self.seen.wait(0.3)
        super().close()


class AsyncSlow(psycopg.AsyncConnection[Any]):
    seen: asyncio.Event
    too_early: bool

    async def close(self) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.seen.wait(), 0.3)
        self.too_early = self.seen.is_set()
        await super().close()


def test_after_close_the_connection_is_gone() -> None:
    """Also that of a waiter which was refused, as it is in a transaction."""
    mine = Slow.connect(URL)
    mine.seen = threading.Event()
    mine.execute("SELECT 1")
    waiter = tenon.Waiter(lambda: mine)
    with pytest.raises(ValueError, match="in a transaction"):
        waiter.wait(1)
    waiter.close()
    mine.seen.set()
    assert (mine.closed, mine.too_early) == (True, False)


def test_nor_does_an_asynchronous_close_return_before() -> None:
    async def run() -> None:
        mine = await AsyncSlow.connect(URL)
        mine.seen = asyncio.Event()
        await mine.execute("SELECT 1")
        waiter = tenon.AsyncWaiter(lambda: asyncio.sleep(0, mine))
        with pytest.raises(ValueError, match="in a transaction"):
            await waiter.wait(1)
        await waiter.close()
        mine.seen.set()
        assert (mine.closed, mine.too_early) == (True, False)

    asyncio.run(run())


class Another:
    """Of a driver that is not known."""

    closed = False

    def close(self) -> None:
        self.closed = True


class AnotherPool(Another):
    pass


@pytest.mark.parametrize("kind", [Another, AnotherPool])
def test_what_was_made_and_cannot_be_waited_on_is_closed(kind: type[Another]) -> None:
    """But for a pool, which would be the application's."""
    made = kind()
    with tenon.Waiter(lambda: made) as waiter, pytest.raises(TypeError, match="not a connection that tenon knows"):
        waiter.wait(1)
    assert made.closed == (kind is Another)

    async def run() -> None:
        async with tenon.AsyncWaiter(lambda: asyncio.sleep(0, mine)) as waiter:
            with pytest.raises(TypeError, match="blocks"):
                await waiter.wait(1)

    mine = psycopg.connect(URL)
    asyncio.run(run())
    assert mine.closed
    mine = asyncio.run(psycopg.AsyncConnection.connect(URL))
    with tenon.Waiter(lambda: mine) as waiter, pytest.raises(TypeError, match="is asynchronous"):
        waiter.wait(1)
    assert mine.closed


def in_a_child(run: Any) -> None:
    pid = os.fork()
    if pid == 0:
        signal.alarm(LIMIT_S)
        try:
            run()
        finally:
            os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0


def test_the_waiter_of_a_fork(ids: list[int]) -> None:
    """Whatever happens just then, and however many of its threads come first: it has a connection of its own."""
    made: list[Any] = []

    def connect() -> Any:
        made.append(psycopg.connect(URL))
        return made[-1]

    def close() -> None:
        waiter.close()
        os._exit(made[0].closed)

    def wait() -> None:
        with ThreadPoolExecutor(FORKED) as pool:
            found = list(pool.map(lambda _: waiter.wait(ids[1], LIMIT_S).state, range(FORKED)))
        os._exit((found, len(made)) != (["done"] * FORKED, 2))

    with tenon.Waiter(connect) as waiter:
        assert waiter.wait(10**12).state is None
        with waiter._lock:  # as another thread has it
            in_a_child(close)
        with psycopg.connect(URL, autocommit=True) as other:
            finish(other, ids[1])
        with waiter._lock:
            in_a_child(wait)
        assert waiter.wait(ids[1], LIMIT_S).result == {"n": 1}
    assert len(made) == 1
