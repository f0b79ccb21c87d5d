"""Durable steps (docs/steps.md): what an attempt has done and recorded, no later one does again."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from tenon._awaited import ENDS, TaskResult
from tenon._connections import Row
from tenon._outcomes import Interrupted, Span, Suspended, microseconds
from tenon._payload import encode, printed_bytes

NAME_BYTES_MAX = 100
STEP_BYTES_MAX = 1_048_576
SNOOZE_MS_MAX = 2_592_000_000
WAIT_MS_MAX = 31_536_000_000

RECORD = "SELECT CAST(tenon.step(CAST({} AS text), CAST({} AS text), CAST(CAST({} AS text) AS jsonb)) AS text)"
KEPT = "SELECT CAST(tenon.steps(CAST({} AS text)) AS text)"


class Steps:
    """The steps of one attempt. A line is written from the thread of the task, and answered from that of the reader."""

    def __init__(self, task_id: int, kept: Mapping[str, Any], says: Callable[[dict[str, Any]], None]) -> None:
        self._id = task_id
        self.kept = dict(kept)
        self._says = says
        self._now: set[str] = set()  # those that are being done
        self._asked: dict[str, Future[bool]] = {}
        self._uncertain: set[str] = set()  # recorded on a connection, which may have rolled back
        self._over: str | None = None
        self.suspended: Suspended | None = None

    @contextmanager
    def doing(self, name: str) -> Iterator[None]:
        """While a step is done. A second one of the name, or one after the end of the attempt, is an error."""
        self.must_go_on()
        checked(name)
        if name in self._now:
            raise ValueError(f"the step {name!r} is being done: give the other another name")
        self._now.add(name)
        try:
            yield
        finally:
            self._now.discard(name)

    def must_go_on(self) -> None:
        """sleep() and wait_signal() are the end of an attempt, also where somebody caught what they raised."""
        if self.suspended is not None:
            raise self.suspended

    def ask(self, name: str, value: Any) -> Future[bool]:
        """Have the worker record it; the future is done when it is committed."""
        text = encode(value)
        if printed_bytes(text) > STEP_BYTES_MAX:
            raise ValueError(f"the step {name!r} is longer than {STEP_BYTES_MAX} bytes")
        asked: Future[bool] = Future()
        self._asked[name] = asked
        if self._over is not None:
            self.end(self._over)
        self._says({"id": self._id, "step": {"name": name, "value": json.loads(text)}})
        return asked

    def told(self, name: str, recorded: bool) -> None:
        """The worker's answer."""
        asked = self._asked.pop(name, None)
        if asked is not None and asked.set_running_or_notify_cancel():
            asked.set_result(recorded)

    def end(self, why: str) -> None:
        """No answer will come."""
        self._over = why
        for name in list(self._asked):
            asked = self._asked.pop(name, None)
            if asked is not None and asked.set_running_or_notify_cancel():
                asked.set_exception(Interrupted(why))

    def keep(self, name: str, value: Any, recorded: bool) -> Any:
        """What the step returns, now that the worker has answered."""
        if not recorded:
            raise ValueError(
                f"the step {name!r} was not recorded: a task has 1,000 steps of 1 MiB in all, without \\u0000"
            )
        self.kept[name] = json.loads(encode(value))
        return self.kept[name]

    def uncertain(self, name: str) -> bool:
        """Whether it was recorded on a connection in this attempt, and may have been rolled back since."""
        return name in self._uncertain

    def recorded_there(self, name: str) -> None:
        """On the user's connection."""
        self._uncertain.add(name)

    def sleep_until(self, at_ms: int) -> None:
        """Come back then, if that lies ahead."""
        ms = at_ms - now_ms()
        if ms > 0:
            self.suspend({"outcome": "snooze", "delay_ms": min(ms, SNOOZE_MS_MAX)})

    def signal(self, name: str, timeout: Span | None) -> Any:
        """What it carried, None if it did not come in time; else the attempt is over."""
        self.must_go_on()
        checked(name)
        if name in self.kept:
            return self.kept[name]
        ms = WAIT_MS_MAX if timeout is None else milliseconds(timeout)
        if not 1 <= ms <= WAIT_MS_MAX:
            raise ValueError(f"wait for a signal for 1 ms to 365 days, not {timeout}")
        self.suspend({"outcome": "wait_signal", "signal": name, "timeout_ms": ms})
        return None  # not reached

    def suspend(self, reply: dict[str, Any]) -> None:
        self.suspended = Suspended(reply)
        raise self.suspended


RESULTS = """SELECT i.id, r.state, CAST(r.result AS text), r.error
               FROM pg_catalog.unnest(CAST(CAST({} AS text[]) AS bigint[])) WITH ORDINALITY i (id, n),
                    tenon.result(i.id) r
              ORDER BY i.n"""
WAIT_FOR_MS_MAX = 60_000


class WaitFor:
    """A step that waits for other tasks. What it records is [[id, state, result, error], ...]."""

    def __init__(self, ids: Iterable[int], name: str | None) -> None:
        self.ids = [int(i) for i in ids]
        words = " ".join(map(str, self.ids))
        self.name = checked(name or f"wait_for:{hashlib.sha256(words.encode()).hexdigest()[:16]}")
        self.since = checked(f"{self.name}:since")

    def values(self) -> list[str]:
        return [str(i) for i in self.ids]

    def ended(self, rows: Sequence[Row]) -> bool:
        return all(row[1] in ENDS for row in rows)

    def again(self, since_ms: int) -> dict[str, Any]:
        """After a quarter of the time that has passed: tasks that take long are asked for seldom."""
        ms = min(max((now_ms() - since_ms) // 4, 1000), WAIT_FOR_MS_MAX)
        return {"outcome": "snooze", "delay_ms": ms, "error": f"waits for {len(self.ids)} tasks"}

    def results(self, rows: Sequence[Row]) -> Callable[[], Any]:
        found = [[int(r[0]), r[1], None if r[2] is None else json.loads(r[2]), r[3]] for r in rows]
        return lambda: found

    def read(self, found: Any) -> list[TaskResult]:
        return [TaskResult(*one) for one in found]


def checked(name: str) -> str:
    """The name of a step or a signal."""
    if not 1 <= len(name.encode()) <= NAME_BYTES_MAX or "\0" in name:
        raise ValueError(f"the name of a step or signal has 1 to {NAME_BYTES_MAX} bytes, not {name!r:.120}")
    return name


def now_ms() -> int:
    return int(time.time() * 1000)


def milliseconds(span: Span) -> int:
    return microseconds(span) // 1000


def blocking() -> None:
    """A coroutine that blocked would stop all others of its event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise TypeError("this blocks, and an event loop runs here: use the method that begins with a")
