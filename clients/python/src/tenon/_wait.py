"""Waiting for the ends of tasks, on a connection that the caller has (docs/steps.md)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import Any

from tenon._awaited import Awaited, TaskResult
from tenon._listening import AsyncListener, BlockingListener, async_listener, blocking_listener
from tenon._outcomes import Span, microseconds
from tenon._steps import blocking

WAITED_MAX = 10_000
"""The maximum number of tasks in one call."""


def wait(conn: Any, ids: Iterable[int], timeout: Span | None = None) -> list[TaskResult]:
    """Wait until these tasks have ended, whatever their ends; what has not when the time is over is `unfinished`.

    `conn` blocks (psycopg, psycopg2, SQLAlchemy or Django on one of them), is in no transaction, and does not lead
    through a pooler: else ValueError. It listens until this returns, and nothing polls. When it is lost, a
    ConnectionError says so; the driver's error says, for instance, that another role has enqueued the task.
    """
    blocking()
    call = _Call(ids, timeout)
    listener = blocking_listener(conn)
    try:
        listener.open()
        try:
            call.run(listener)
        finally:
            listener.close()
    except Exception as error:
        if listener.lost():
            raise call.failed(error) from error
        raise
    return call.results()


async def await_(conn: Any, ids: Iterable[int], timeout: Span | None = None) -> list[TaskResult]:
    """The same on an asynchronous connection: psycopg, asyncpg, or SQLAlchemy on one of them."""
    call = _Call(ids, timeout)
    listener = await async_listener(conn)
    try:
        await listener.open(asyncio.Event())
        try:
            await call.arun(listener)
        finally:
            await listener.close()
    except Exception as error:
        if listener.lost():
            raise call.failed(error) from error
        raise
    return call.results()


class _Call:
    def __init__(self, ids: Iterable[int], timeout: Span | None) -> None:
        now = time.monotonic()
        self.ids = [int(i) for i in ids]
        if len(self.ids) > WAITED_MAX:
            raise ValueError(f"{len(self.ids)} tasks: wait for at most {WAITED_MAX} in one call")
        self.until = None if timeout is None else now + seconds(timeout)
        self.ended: dict[int, TaskResult] = {}
        self.awaited = Awaited(self._tell)
        self.awaited.add(self.ids, now)

    def _tell(self, result: TaskResult) -> None:
        self.ended[result.id] = result

    def run(self, listener: BlockingListener) -> None:
        while True:
            while (question := self.awaited.question(time.monotonic())) is not None:
                self.awaited.answer(listener.rows(question[0], [question[1]]))
            if (left := self._left()) == 0:
                return
            self.awaited.heard(listener.hear(left))

    async def arun(self, listener: AsyncListener) -> None:
        while True:
            while (question := self.awaited.question(time.monotonic())) is not None:
                self.awaited.answer(await listener.rows(question[0], [question[1]]))
            if (left := self._left()) == 0:
                return
            self.awaited.heard(await listener.hear(left))

    def _left(self) -> float:
        """How long nothing is to be done; 0: it is over."""
        due = self.awaited.due()
        if due is None:
            return 0
        now = time.monotonic()
        if self.until is not None and now >= self.until:
            return 0
        return max((due if self.until is None else min(due, self.until)) - now, 0.001)

    def failed(self, error: Exception) -> ConnectionError:
        return failure([i for i in dict.fromkeys(self.ids) if i not in self.ended], error)

    def results(self) -> list[TaskResult]:
        """In the order of the ids."""
        return [self.ended.get(i) or TaskResult(i, "unfinished") for i in self.ids]


def seconds(span: Span) -> float:
    return microseconds(span) / 1_000_000


def failure(ids: list[int], error: Exception) -> ConnectionError:
    """Says what was waited for, and the driver's words on one line."""
    few = ("task " if len(ids) == 1 else "tasks ") + ", ".join(map(str, ids))
    what = few if len(ids) <= 10 else f"{len(ids)} tasks"
    return ConnectionError(f"could not wait for {what}: {' '.join(str(error).split())}")
