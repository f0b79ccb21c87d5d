"""What a handler knows of the task it runs, and what it may say about it."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import json
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from tenon import _steps
from tenon._awaited import TaskResult
from tenon._connections import Connection, need_async, need_sync
from tenon._outcomes import Interrupted, Span, microseconds
from tenon._payload import encode, printed_bytes
from tenon._secrets import Secret, is_envelope, opened, sealed

PROGRESS_BYTES_MAX = 65_536
EXTEND_MS_MAX = 2_592_000_000

Say = Callable[[dict[str, Any]], None]
_FINISH = "SELECT tenon.finish(CAST({} AS text), CAST(CAST({} AS text) AS jsonb))"
_current: contextvars.ContextVar[Context] = contextvars.ContextVar("tenon.current")


class Context:
    """The task that runs: its number, attempt, deadline; its progress and steps; whether it is to stop."""

    __slots__ = (
        "_deadline",
        "_event",
        "_let_read",
        "_says",
        "_secret",
        "_steps",
        "_task",
        "_wakers",
        "hides",
        "payload",
        "progress",
        "stopped_why",
    )

    def __init__(self, task: Mapping[str, Any], says: Say, let_read: Callable[[Context], object] | None = None) -> None:
        self._task = task
        self._says = says
        self._let_read = let_read  # called before this thread waits for a line of the worker
        self._steps: _steps.Steps | None = None  # made when somebody asks: most never do
        self._deadline = time.monotonic() + task["timeout_ms"] / 1000
        self._event: threading.Event | None = None  # made when somebody waits: most never do
        self._wakers: list[Callable[[], object]] = []
        self._secret: Secret | None = None
        self.hides = False
        """Whether something of it is secret, and so are the messages of its errors."""
        self.payload: Any = task["payload"]
        """The payload as plain JSON."""
        self.progress: Any = task["progress"]
        """The progress that was recorded last, by this or an earlier attempt: the checkpoint to continue from."""
        self.stopped_why: str | None = None
        """Why the task should stop: `cancelled`, `lost` (the claim), `drain` (the worker ends); None: it should not."""

    @property
    def id(self) -> int:
        return int(self._task["id"])

    @property
    def kind(self) -> str:
        return str(self._task["kind"])

    @property
    def queue(self) -> str:
        return str(self._task["queue"])

    @property
    def attempt(self) -> int:
        """From 1: 1 + failures + crashes."""
        return int(self._task["attempt"])

    @property
    def failures(self) -> int:
        return int(self._task["failures"])

    @property
    def max_attempts(self) -> int:
        return int(self._task["max_attempts"])

    @property
    def claim(self) -> str:
        """The claim token, for SQL of one's own: tenon.finish, tenon.progress, tenon.extend."""
        return str(self._task["claim"])

    @property
    def trace(self) -> str | None:
        """The W3C traceparent that was given at enqueueing."""
        trace = self._task["trace"]
        return None if trace is None else str(trace)

    def open(self, secret: Secret | None) -> None:
        """Decrypt what came encrypted; if all of the task is secret, what it says is encrypted from here on."""
        self._secret = secret
        steps: dict[str, Any] = self._task.get("steps") or {}
        came = (self.payload, self.progress, *steps.values())
        self.hides = secret is not None or any(map(is_envelope, came))
        self.payload = opened(self.payload, self.kind, "payload")
        self.progress = opened(self.progress, self.kind, "progress")

    def sealed(self, value: Any, what: str) -> Any:
        """A value as it leaves this process."""
        return sealed(value, self.kind, what) if self._secret == "all" else value

    @property
    def remaining(self) -> timedelta:
        """How long it may still run."""
        return timedelta(seconds=self._deadline - time.monotonic())

    @property
    def deadline(self) -> datetime:
        """When its time is over."""
        return datetime.now(UTC) + self.remaining

    @property
    def stopping(self) -> bool:
        """Whether the task should stop: it was cancelled, its claim is lost, or the worker ends."""
        return self.stopped_why is not None

    def check(self) -> None:
        """Raise Interrupted if the task should stop. For loops, after they have recorded their progress."""
        if self.stopped_why is not None:
            raise Interrupted(self.stopped_why)

    def wait(self, span: Span) -> bool:
        """Sleep for this time, or until the task should stop; returns whether it should."""
        if self._event is None:
            self._event = threading.Event()
            self._wakers.append(self._event.set)
        return self.stopping or self._event.wait(microseconds(span) / 1_000_000)

    async def stopped(self) -> str:
        """Wait until the task should stop; returns why."""
        loop, event = asyncio.get_running_loop(), asyncio.Event()
        self._wakers.append(lambda: loop.call_soon_threadsafe(event.set))
        if not self.stopping:
            await event.wait()
        return self.stopped_why or ""

    def stop(self, why: str) -> None:
        """Tell the handler to stop; the worker's word comes here."""
        self.stopped_why = why
        for wake in self._wakers:
            wake()
        if why != "drain" and self._steps is not None:
            self._steps.end(why)

    def set_progress(self, value: Any) -> None:
        """Record the progress, however often it is called: the worker stores it about once a second.

        The next attempt gets the last value. ValueError if it is longer than 64 KiB.
        """
        text = encode(value)
        said = self.sealed(json.loads(text), "progress")
        if printed_bytes(encode(said)) > PROGRESS_BYTES_MAX:
            raise ValueError(f"progress is longer than {PROGRESS_BYTES_MAX} bytes")
        self.progress = json.loads(text)
        self._says({"id": self.id, "progress": said})

    def extend(self, span: Span) -> None:
        """Move the deadline to this time from now, if that is later; at most 30 days."""
        ms = microseconds(span) // 1000
        if not 1 <= ms <= EXTEND_MS_MAX:
            raise ValueError(f"extend by 1 ms to 30 days, not {span}")
        self._deadline = max(self._deadline, time.monotonic() + ms / 1000)
        self._says({"id": self.id, "extend_ms": ms})

    @property
    def steps(self) -> Mapping[str, Any]:
        """What is known to be recorded: the steps of earlier attempts and the signals that came, then those of this."""
        return self._own_steps().kept

    def step(self, name: str, work: Callable[[], Any], conn: Any = None) -> Any:
        """Do `work` once, even after a crash: returns what it returned, now or in an earlier attempt, in plain JSON.

        Without `conn` the worker records it after it was done, and it is done once more if that is lost: give the other
        side a key. With `conn` the record is a part of your transaction, and both are there, exactly once, or neither.
        """
        _steps.blocking()
        steps = self._own_steps()
        with steps.doing(name):
            if name in steps.kept:
                return steps.kept[name]
            if conn is not None:
                return self._step_on(need_sync(conn), steps, name, work)
            value = work()
            asked = steps.ask(name, self.sealed(value, f"step:{name}"))
            if self._let_read is not None:
                self._let_read(self)
            return steps.keep(name, value, asked.result())

    async def astep(self, name: str, work: Callable[[], Awaitable[Any] | Any], conn: Any = None) -> Any:
        """The same for coroutines; `work` may be a coroutine function, and `conn` is an asynchronous connection."""
        steps = self._own_steps()
        with steps.doing(name):
            if name in steps.kept:
                return steps.kept[name]
            if conn is not None:
                return await self._astep_on(need_async(conn), steps, name, work)
            value = await _awaited(work())
            asked = steps.ask(name, self.sealed(value, f"step:{name}"))
            return steps.keep(name, value, await asyncio.wrap_future(asked))

    def sleep(self, name: str, span: Span) -> None:
        """Continue this long after it was reached first, without a worker meanwhile; the attempt counts no failure.

        Its end is a step of that name, by this machine's clock.
        """
        at = self.step(name, lambda: _steps.now_ms() + _steps.milliseconds(span))
        self._own_steps().sleep_until(at)

    async def asleep(self, name: str, span: Span) -> None:
        """The same for coroutines."""
        at = await self.astep(name, lambda: _steps.now_ms() + _steps.milliseconds(span))
        self._own_steps().sleep_until(at)

    def wait_signal(self, name: str, timeout: Span | None = None) -> Any:
        """Return the signal's payload; None if it did not come in time, 365 days at most and by default.

        If it has not come, this attempt ends without counting a failure, and the next one starts when the signal comes
        or its time is over.
        """
        return self._own_steps().signal(name, timeout)

    def wait_for(self, ids: Iterable[int], conn: Any, name: str | None = None) -> list[TaskResult]:
        """Wait until these tasks have ended, without a worker meanwhile; returns how each has, in the order of the ids.

        That is a step: an attempt that finds them unfinished ends without counting a failure, and the function runs
        again from its start, after 1 s at first and 60 s at last. So enqueue them in a step:
        ids = context.step("split", lambda: part.enqueue_many(conn, parts), conn).
        `conn` is of a role that may see them, such as the one that enqueued them.
        """
        wait = _steps.WaitFor(ids, name)
        known = self._own_steps().kept
        if wait.name not in known:
            self._own_steps().must_go_on()
            rows = need_sync(conn).rows(_steps.RESULTS, [wait.values()])
            if not wait.ended(rows):
                since = self.step(wait.since, _steps.now_ms)
                self._own_steps().suspend(wait.again(since))
            self.step(wait.name, wait.results(rows))
        return wait.read(self._own_steps().kept[wait.name])

    async def await_for(self, ids: Iterable[int], conn: Any, name: str | None = None) -> list[TaskResult]:
        """The same for coroutines, on an asynchronous connection."""
        wait = _steps.WaitFor(ids, name)
        known = self._own_steps().kept
        if wait.name not in known:
            self._own_steps().must_go_on()
            rows = await need_async(conn).arows(_steps.RESULTS, [wait.values()])
            if not wait.ended(rows):
                since = await self.astep(wait.since, _steps.now_ms)
                self._own_steps().suspend(wait.again(since))
            await self.astep(wait.name, wait.results(rows))
        return wait.read(self._own_steps().kept[wait.name])

    def told(self, name: str, recorded: bool) -> None:
        """The worker's word on a step."""
        self._own_steps().told(name, recorded)

    def end_of_lines(self) -> None:
        """The worker says nothing more."""
        if self._steps is not None:
            self._steps.end("the worker says nothing more")

    @property
    def suspended(self) -> Mapping[str, Any] | None:
        """The reply of an attempt that sleep() or wait_signal() has ended."""
        if self._steps is None or self._steps.suspended is None:
            return None
        return self._steps.suspended.reply

    def _own_steps(self) -> _steps.Steps:
        if self._steps is None:
            raw: dict[str, Any] = self._task.get("steps") or {}
            kept = {name: opened(value, self.kind, f"step:{name}") for name, value in raw.items()}
            self._steps = _steps.Steps(self.id, kept, self._says)
            if self.stopped_why not in (None, "drain"):
                self._steps.end(str(self.stopped_why))
        return self._steps

    def _step_on(self, where: Connection, steps: _steps.Steps, name: str, work: Callable[[], Any]) -> Any:
        if steps.uncertain(name):
            kept = json.loads(where.rows(_steps.KEPT, [self.claim])[0][0])
            if name in kept:
                return opened(kept[name], self.kind, f"step:{name}")
        values = [self.claim, name, encode(self.sealed(work(), f"step:{name}"))]
        recorded = where.rows(_steps.RECORD, values)[0][0]
        steps.recorded_there(name)
        return opened(json.loads(recorded), self.kind, f"step:{name}")

    async def _astep_on(self, where: Connection, steps: _steps.Steps, name: str, work: Callable[[], Any]) -> Any:
        if steps.uncertain(name):
            kept = json.loads((await where.arows(_steps.KEPT, [self.claim]))[0][0])
            if name in kept:
                return opened(kept[name], self.kind, f"step:{name}")
        values = [self.claim, name, encode(self.sealed(await _awaited(work()), f"step:{name}"))]
        recorded = (await where.arows(_steps.RECORD, values))[0][0]
        steps.recorded_there(name)
        return opened(json.loads(recorded), self.kind, f"step:{name}")

    def finish(self, conn: Any, result: Any = None) -> None:
        """Finish the task in your own transaction: its effects and its end commit together, exactly once.

        The driver's error for SQLSTATE 55000 means that the claim is no longer valid: let it roll back.
        """
        where: Connection = need_sync(conn)
        where.rows(_FINISH, [self.claim, encode(self._result(result))])

    async def afinish(self, conn: Any, result: Any = None) -> None:
        """The same, on an asynchronous connection."""
        await need_async(conn).arows(_FINISH, [self.claim, encode(self._result(result))])

    def _result(self, result: Any) -> Any:
        return None if result is None else self.sealed(result, "result")


async def _awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def current() -> Context:
    """The context of the task that runs here; LookupError outside of one."""
    try:
        return _current.get()
    except LookupError:
        raise LookupError("no task runs here") from None


def set_current(context: Context) -> contextvars.Token[Context]:
    """Before a task runs."""
    return _current.set(context)


def unset_current(token: contextvars.Token[Context]) -> None:
    """After it, where its caller continues: in tests."""
    _current.reset(token)


def is_running() -> bool:
    """Whether a task runs here."""
    return _current.get(None) is not None


for_calls: Callable[[str], contextlib.AbstractContextManager[object]] | None = None
"""In tests: what surrounds the call of a task's function, so that current() works in it."""


def called(kind: str) -> contextlib.AbstractContextManager[object]:
    """Surrounds a direct call of a task's function."""
    return contextlib.nullcontext() if for_calls is None or is_running() else for_calls(kind)
