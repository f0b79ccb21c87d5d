"""Enqueueing on every kind of connection: in its transaction, with all options."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import app
import asyncpg
import psycopg
import psycopg2
import psycopg2.extras
import pytest
import sqlalchemy
from conftest import URL
from psycopg.rows import dict_row
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

import tenon.testing
from tenon import _options
from tenon._outcomes import microseconds

SA_URL = URL.replace("postgresql://", "postgresql+psycopg://")
Commit = Callable[[], Any]


@contextmanager
def of_psycopg() -> Iterator[tuple[Any, Commit]]:
    with psycopg.connect(URL, row_factory=dict_row) as conn:
        yield conn, conn.commit


@contextmanager
def of_psycopg2() -> Iterator[tuple[Any, Commit]]:
    conn = psycopg2.connect(URL, cursor_factory=psycopg2.extras.RealDictCursor)
    yield conn, conn.commit
    conn.close()


@contextmanager
def of_session() -> Iterator[tuple[Any, Commit]]:
    with Session(sqlalchemy.create_engine(SA_URL)) as session:
        yield session, session.commit


@contextmanager
def of_scoped_session() -> Iterator[tuple[Any, Commit]]:
    session = scoped_session(sessionmaker(sqlalchemy.create_engine(SA_URL.replace("+psycopg", "+psycopg2"))))
    yield session, session.commit
    session.remove()


@contextmanager
def of_engine() -> Iterator[tuple[Any, Commit]]:
    with sqlalchemy.create_engine(SA_URL).connect() as conn:
        yield conn, conn.commit


@asynccontextmanager
async def of_async_psycopg() -> AsyncIterator[tuple[Any, Commit]]:
    async with await psycopg.AsyncConnection.connect(URL) as conn:
        yield conn, conn.commit


@asynccontextmanager
async def of_asyncpg() -> AsyncIterator[tuple[Any, Commit]]:
    conn = await asyncpg.connect(URL)
    transaction = conn.transaction()
    await transaction.start()
    yield conn, transaction.commit
    await conn.close()


@asynccontextmanager
async def of_asyncpg_pool() -> AsyncIterator[tuple[Any, Commit]]:
    async with asyncpg.create_pool(URL, min_size=1) as pool, pool.acquire() as conn:
        transaction = conn.transaction()
        await transaction.start()
        yield conn, transaction.commit


@asynccontextmanager
async def of_async_session() -> AsyncIterator[tuple[Any, Commit]]:
    engine = create_async_engine(URL.replace("postgresql://", "postgresql+asyncpg://"))
    async with AsyncSession(engine) as session:
        yield session, session.commit
    await engine.dispose()


@asynccontextmanager
async def of_async_engine() -> AsyncIterator[tuple[Any, Commit]]:
    engine = create_async_engine(SA_URL)
    async with engine.connect() as conn:
        yield conn, conn.commit
    await engine.dispose()


def payload(number: int = 1) -> app.Order:
    at = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
    return app.Order(number=number, parts=[app.Part(at=at)], note="Zoë's 100% {} :p0 %s")


def committed(conn: psycopg.Connection) -> int:
    row = conn.execute("SELECT count(*) FROM tenon.task WHERE payload->>'note' LIKE 'Zoë%'").fetchone()
    conn.rollback()
    assert row
    return int(row[0])


@pytest.mark.parametrize("of", [of_psycopg, of_psycopg2, of_session, of_scoped_session, of_engine])
def test_in_the_transaction_of_a_blocking_connection(conn: psycopg.Connection, of: Any) -> None:
    with of() as (mine, commit):
        number = app.order.enqueue(mine, payload(), unique_key="a")
        assert app.order.enqueue(mine, payload(), unique_key="a") == number
        assert len(app.order.enqueue_many(mine, [payload(n) for n in range(3)])) == 3
        assert [t.kind for t in tenon.testing.mine(mine)] == ["order"] * 4
        assert tenon.testing.mine(mine)[0].payload["note"] == payload().note
        assert committed(conn) == 0
        commit()
        assert committed(conn) == 4
        with pytest.raises(TypeError, match="blocks: use the method without the a"):
            asyncio.run(app.order.aenqueue(mine, payload()))


@pytest.mark.parametrize("of", [of_async_psycopg, of_asyncpg, of_asyncpg_pool, of_async_session, of_async_engine])
def test_in_the_transaction_of_an_async_connection(conn: psycopg.Connection, of: Any) -> None:
    async def run() -> None:
        async with of() as (mine, commit):
            number = await app.order.aenqueue(mine, payload(), unique_key="a", delay=0.5)
            assert await app.order.aenqueue(mine, payload(), unique_key="a") == number
            assert len(await app.order.aenqueue_many(mine, [payload(n) for n in range(3)])) == 3
            assert len(await tenon.testing.amine(mine)) == 4
            assert committed(conn) == 0
            await commit()
            assert committed(conn) == 4
            with pytest.raises(TypeError, match="asynchronous: use the method that begins with a"):
                app.order.enqueue(mine, payload())

    asyncio.run(run())


def outbox(conn: psycopg.Connection) -> list[tuple[str, bytes]]:
    return conn.execute("SELECT message_id, body FROM tenon.outbox ORDER BY id").fetchall()


@pytest.mark.parametrize("of", [of_psycopg, of_psycopg2, of_session])
def test_publish_on_each_connection(conn: psycopg.Connection, of: Any) -> None:
    with of() as (mine, commit):
        number = tenon.publish(mine, "orders", "paid", {"n": "100% {} :p0 %s"}, message_id="a", headers={"v": 1})
        many = tenon.publish_many(mine, "orders", "paid", [b"\x00", b"\xff"], message_ids=["b", "c"])
        assert many == [number + 1, number + 2]
        assert outbox(conn) == []
        conn.commit()
        commit()
        assert outbox(conn) == [("a", b'{"n": "100% {} :p0 %s"}'), ("b", b"\x00"), ("c", b"\xff")]
    conn.execute("DELETE FROM tenon.message")
    conn.commit()


@pytest.mark.parametrize("of", [of_async_psycopg, of_asyncpg, of_async_session])
def test_publish_on_each_async_connection(conn: psycopg.Connection, of: Any) -> None:
    async def run() -> None:
        async with of() as (mine, commit):
            await tenon.apublish(mine, "orders", "paid", "text", message_id="a", order_key="k", expires="1 h")
            await tenon.apublish_many(mine, "orders", "paid", [[1], None], message_ids=["b", "c"])
            await commit()

    asyncio.run(run())
    assert outbox(conn) == [("a", b"text"), ("b", b"[1]"), ("c", b"null")]
    conn.execute("DELETE FROM tenon.message")
    conn.commit()


def test_options(conn: psycopg.Connection) -> None:
    now = dt.datetime.now(dt.UTC)
    number = app.order.enqueue(
        conn,
        payload(),
        queue="mail",
        priority=7,
        run_at=now + dt.timedelta(hours=1),
        unique_key="k",
        on_conflict="replace",
        start_before=now + dt.timedelta(hours=2),
        max_attempts=3,
        timeout=dt.timedelta(minutes=5),
        retry="constant(5 s)",
        trace="00-" + "1" * 32 + "-" + "2" * 16 + "-01",
        notify=False,
    )
    row = conn.execute(
        "SELECT queue, priority, run_at, unique_key, start_before, max_attempts, timeout_ms, retry, left(trace, 5)"
        " FROM tenon.task WHERE id = %s",
        (number,),
    ).fetchone()
    hour = dt.timedelta(hours=1)
    assert row
    assert row[:7] == ("mail", 7, now + hour, "k", now + 2 * hour, 3, 300_000)
    assert row[7].startswith("c")
    assert row[8] == "00-11"


def test_lengths_of_time_as_text() -> None:
    for text, us in (
        ("1.5 ms", 1500),
        ("30 s", 30_000_000),
        ("5min", 300_000_000),
        ("2 h", 7_200_000_000),
        ("1 d", 86_400_000_000),
    ):
        assert microseconds(text) == us
    for bad in ("", "5", "5 weeks", "-1 s", "1 s ", "x" * 100):
        with pytest.raises(ValueError, match="it should be like"):
            microseconds(bad)


def test_spans(conn: psycopg.Connection) -> None:
    app.plain.enqueue(conn, {}, unique_key="d", debounce=5.5, debounce_max=dt.timedelta(minutes=1))
    app.plain.enqueue(conn, {}, unique_key="h", unique_for=60, delay=dt.timedelta(days=2, milliseconds=1))
    ids = app.plain.enqueue_many(conn, [{}, {}], unique_keys=["d", None])
    rows = conn.execute("SELECT run_at - created_at, id FROM tenon.task ORDER BY run_at - created_at DESC").fetchall()
    assert rows[0][0] == dt.timedelta(days=2, milliseconds=1)
    assert len(rows) == 3
    assert ids[0] in [r[1] for r in rows]


def test_options_of_the_task_are_defaults(conn: psycopg.Connection) -> None:
    app.broken.enqueue(conn)
    app.broken.enqueue(conn, max_attempts=9)
    assert conn.execute("SELECT array_agg(max_attempts ORDER BY id) FROM tenon.task").fetchone() == ([1, 9],)


def test_all_arguments_of_the_function_are_options(conn: psycopg.Connection) -> None:
    row = conn.execute("SELECT proargnames FROM pg_proc WHERE oid = 'tenon.enqueue'::regproc").fetchone()
    assert row
    assert set(row[0]) - {"kind", "payload"} <= set(_options.OneOptions.__annotations__) | set(
        _options.Options.__annotations__
    )
    assert set(row[0]) - {"kind", "payload"} <= set(_options._KINDS)


def test_mistakes(conn: psycopg.Connection) -> None:
    with pytest.raises(TypeError, match="'quue' is not an option of a task; the options are: queue"):
        app.order.enqueue(conn, payload(), quue="mail")
    with pytest.raises(ValueError, match="has no time zone"):
        app.order.enqueue(conn, payload(), run_at=dt.datetime(2026, 1, 1))  # noqa: DTZ001
    with pytest.raises(TypeError, match="not a URL"):
        app.order.enqueue(URL, payload())
    with pytest.raises(TypeError, match="is not a connection that tenon knows"):
        app.order.enqueue(object(), payload())
    with pytest.raises(TypeError, match=r"plain: payload.x cannot be stored as JSON: object is not JSON"):
        app.plain.enqueue(conn, {"x": object()})
    with pytest.raises(TypeError, match="JSON compliant"):
        app.plain.enqueue(conn, {"x": float("nan")})
    with pytest.raises(ValueError, match="kind 'a b'"):
        tenon.task(kind="a b")(lambda: None)
    with pytest.raises(ValueError, match="two tasks of the kind"):
        tenon.task(kind="order")(lambda: None)
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="priority"):
        app.order.enqueue(conn, payload(), priority=10)
