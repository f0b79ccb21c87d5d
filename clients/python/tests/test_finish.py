"""Finishing a task and recording its steps in the handler's own transaction, on every kind of connection."""

from __future__ import annotations

import asyncio
from typing import Any

import app
import psycopg
import pytest
from test_enqueue import (
    of_async_engine,
    of_async_psycopg,
    of_async_session,
    of_asyncpg,
    of_asyncpg_pool,
    of_engine,
    of_psycopg,
    of_psycopg2,
    of_scoped_session,
    of_session,
)

import tenon.testing

RESULT = {"note": "Zoë's 100% {} :p0 %s"}
CLAIMED = """UPDATE tenon.task SET start_time = now(), claim_key = tenon.random_key(),
                                worker_id = gen_random_uuid(), claims = 1
              RETURNING concat_ws('/', id, claims, lpad(to_hex(claim_key), 16, '0'))"""


@pytest.fixture
def context(conn: psycopg.Connection) -> tenon.Context:
    """Of a task that a worker has claimed."""
    app.plain.enqueue(conn, {})
    row = conn.execute(CLAIMED).fetchone()
    conn.commit()
    assert row
    return tenon.testing._context_of(tenon.testing._line("plain", {}, {"claim": row[0]}), [])


def kept(conn: psycopg.Connection) -> tuple[Any, Any]:
    """Its steps while it is there; its result once it is not."""
    left = conn.execute("SELECT steps FROM tenon.tasks WHERE end_time IS NULL").fetchall()
    ended = conn.execute("SELECT result FROM tenon.history").fetchall()
    conn.rollback()
    assert len(left) + len(ended) == 1
    return (left[0][0], None) if left else (None, ended[0][0])


def sqlstate(error: BaseException) -> str:
    of_driver = getattr(error, "orig", error)
    return getattr(of_driver, "sqlstate", None) or of_driver.pgcode


@pytest.mark.parametrize("of", [of_psycopg, of_psycopg2, of_session, of_scoped_session, of_engine])
def test_on_a_blocking_connection(conn: psycopg.Connection, context: tenon.Context, of: Any) -> None:
    with of() as (mine, _):
        assert context.step("a", lambda: 1, mine) == 1
        context.finish(mine, RESULT)
        mine.rollback()
    assert kept(conn) == (None, None)
    with of() as (mine, commit):
        assert context.step("b", lambda: RESULT, mine) == RESULT
        commit()
    assert kept(conn) == ({"b": RESULT}, None)
    with of() as (mine, commit):
        context.finish(mine, RESULT)
        commit()
    assert kept(conn) == (None, RESULT)
    with of() as (mine, _), pytest.raises(Exception, match="claim") as refused:
        context.finish(mine, RESULT)
    assert sqlstate(refused.value) == "55000"
    assert kept(conn) == (None, RESULT)


@pytest.mark.parametrize("of", [of_async_psycopg, of_asyncpg, of_asyncpg_pool, of_async_session, of_async_engine])
def test_on_an_async_connection(conn: psycopg.Connection, context: tenon.Context, of: Any) -> None:
    async def run() -> None:
        async with of() as (mine, _):
            assert await context.astep("a", lambda: 1, mine) == 1
            await context.afinish(mine, RESULT)
            if hasattr(mine, "rollback"):  # asyncpg does it at the end of its connection
                await mine.rollback()
        assert kept(conn) == (None, None)
        async with of() as (mine, commit):
            assert await context.astep("b", lambda: RESULT, mine) == RESULT
            await commit()
        assert kept(conn) == ({"b": RESULT}, None)
        async with of() as (mine, commit):
            await context.afinish(mine, RESULT)
            await commit()
        assert kept(conn) == (None, RESULT)
        async with of() as (mine, _):
            with pytest.raises(Exception, match="claim") as refused:
                await context.afinish(mine, RESULT)
        assert sqlstate(refused.value) == "55000"

    asyncio.run(run())
    assert kept(conn) == (None, RESULT)
