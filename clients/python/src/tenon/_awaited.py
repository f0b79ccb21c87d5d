"""Which tasks are waited for, and what is to be asked next: without a connection, and without a clock."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from tenon._connections import Row

ASK_S = 10.0
"""A task without news for this long is asked for again: the mark of a task that was locked is missing."""
ASKED_MAX = 1_000
"""The maximum number of tasks in one statement."""

# A mark that is lost in a crash of the server is set again: that breaks the connection, too.
AWAIT = """SELECT i.id, r.state, CAST(r.result AS text), r.error
             FROM (SELECT pg_catalog.set_config('synchronous_commit', 'off', true)) s,
                  pg_catalog.unnest(CAST({} AS bigint[])) i (id), tenon.await(i.id) r"""
RESULT = """SELECT i.id, r.state, CAST(r.result AS text), r.error
              FROM pg_catalog.unnest(CAST({} AS bigint[])) i (id), tenon.result(i.id) r"""
ENDS = ("done", "dead", "cancelled", "expired", None)


@dataclass(frozen=True)
class TaskResult:
    """How a task has ended."""

    id: int
    state: str | None
    """`done`, `dead`, `cancelled` or `expired`; `unfinished`: not in time; None: there is no such task, or no more."""
    result: Any = None
    """What its function returned, of one that is done; encrypted: as it is stored, see `Keys.decrypt`."""
    error: str | None = None
    """What went wrong, of one that is not."""

    @property
    def ended(self) -> bool:
        """Whether there is nothing more to wait for."""
        return self.state != "unfinished"


Question = tuple[str, list[int]]


class Awaited:
    """The tasks of one connection. `tell` gets each result."""

    def __init__(self, tell: Callable[[TaskResult], None]) -> None:
        self._tell = tell
        self._tasks: dict[int, None] = {}
        self._new: list[int] = []
        self._again: list[int] = []
        self._said: list[int] = []
        self._due = 0.0

    def __len__(self) -> int:
        return len(self._tasks)

    def add(self, ids: Iterable[int], now: float) -> None:
        if not self._tasks:
            self._due = now + ASK_S
        ids = list(ids)
        self._tasks.update(dict.fromkeys(ids))
        self._new.extend(ids)

    def drop(self, ids: Iterable[int]) -> None:
        """Nobody waits for them any more."""
        for task_id in ids:
            self._tasks.pop(task_id, None)

    def heard(self, ids: Iterable[int]) -> None:
        """They are said to have ended."""
        self._said.extend(i for i in ids if i in self._tasks)

    def look(self) -> None:
        """Ask for all once more."""
        self._said.extend(self._tasks)

    def due(self) -> float | None:
        """When there is a question, though nothing is heard."""
        return self._due if self._tasks else None

    def question(self, now: float) -> Question | None:
        """The next one. New ones are asked for one by one: so each is locked no longer than it must."""
        if self._tasks and now >= self._due:
            self._due = now + ASK_S
            self._again = list(self._tasks)
        for sql, waiting, most in (
            (AWAIT, self._new, 1),
            (RESULT, self._said, ASKED_MAX),
            (AWAIT, self._again, ASKED_MAX),
        ):
            while waiting:
                some = [i for i in dict.fromkeys(waiting[:most]) if i in self._tasks]
                del waiting[:most]
                if some:
                    return sql, some
        return None

    def answer(self, rows: Iterable[Row]) -> None:
        for number, state, text, error in rows:
            if state in ENDS:
                self._tasks.pop(number, None)
                self._tell(TaskResult(number, state, None if text is None else json.loads(text), error))
