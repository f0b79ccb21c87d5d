"""Tests without a worker: run a task here and now, and look at what a transaction has enqueued."""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import json
import sys
import threading
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from tenon import _context, _due, _enqueue
from tenon._connections import Connection, Django, Row, need_async, need_sync
from tenon._context import Context, set_current, unset_current
from tenon._outcomes import Span
from tenon._payload import encode, storable
from tenon._run import Reply, arun
from tenon._run import run as run_blocking
from tenon._secrets import opened
from tenon._task import Runnable, default_app

_MINE = """SELECT id, kind, queue, state, priority, run_at, unique_key, CAST(payload AS text)
             FROM tenon.mine() ORDER BY id"""


@dataclass(frozen=True)
class Run:
    """The outcome of a run that the worker would receive."""

    outcome: str
    """`done`, `failed`, `snooze`, `wait_signal`, `dead` or `interrupted`."""
    result: Any = None
    error: str | None = None
    error_class: str | None = None
    delay: timedelta | None = None
    progress: list[Any] = field(default_factory=list)
    """What was said, in order."""
    extended: list[timedelta] = field(default_factory=list)
    steps: dict[str, Any] = field(default_factory=dict)
    """Those that the worker was told to record, not those on a connection."""
    signal: str | None = None
    """What it waits for; `delay` is for how long."""
    id: int = 1
    kind: str = ""


class TaskFailed(AssertionError):
    """In a test, a task that was run at once has failed; `run` is what came of it."""

    def __init__(self, run: Run) -> None:
        super().__init__(f"{run.kind} {run.outcome}: {run.error}")
        self.run = run


@dataclass(frozen=True)
class Enqueued:
    """A task that a transaction has enqueued."""

    id: int
    kind: str
    queue: str
    state: str
    priority: int
    run_at: datetime
    unique_key: str | None
    payload: Any


def run(task: Runnable, payload: Any = None, **line: Any) -> Run:
    """Run a task on a payload, which goes through JSON as it would on its way to a worker.

    `line` has what its function is to see in its context: attempt=3, progress=..., steps={...}, timeout_ms=....
    """
    said: list[dict[str, Any]] = []
    whole = _line(task.kind, payload, line)
    return _outcome(task.kind, _run_line(task, whole, said), said, whole)


async def arun_task(task: Runnable, payload: Any = None, **line: Any) -> Run:
    """The same in an event loop, for coroutine functions."""
    said: list[dict[str, Any]] = []
    whole = _line(task.kind, payload, line)
    return _outcome(task.kind, await _arun_line(task, whole, said), said, whole)


@contextmanager
def context(payload: Any = None, **line: Any) -> Iterator[Context]:
    """Within it tenon.current() works, for functions that are called directly; `line` as for run()."""
    said: list[dict[str, Any]] = []
    made = _context_of(_line(line.pop("kind", "test"), payload, line), said)
    token = set_current(made)
    try:
        yield made
    finally:
        unset_current(token)


def allow_calls(allowed: bool = True) -> None:
    """From here on a task's function may be called directly in tests, and tenon.current() works in it. pytest has done
    this, and so has Django's test runner of tenon.
    """
    _context.for_calls = (lambda kind: context(kind=kind)) if allowed else None


def mine(conn: Any) -> list[Enqueued]:
    """What the transaction of this connection has enqueued so far: look, and then roll back."""
    return [_enqueued(row) for row in need_sync(conn).rows(_MINE, [])]


async def amine(conn: Any) -> list[Enqueued]:
    """The same, on an asynchronous connection."""
    return [_enqueued(row) for row in await need_async(conn).arows(_MINE, [])]


def run_mine(conn: Any, tasks: Mapping[str, Runnable] | None = None) -> list[Run]:
    """Run what the transaction has enqueued so far, in order, in this process; nothing is committed or finished.

    `tasks` are those of an App (`app.tasks`); by default those of `@tenon.task`, and on one of Django's connections the
    project's. The functions use connections of their own, which do not see what has not been committed; those that take
    the connection from the test do, and so do Django's.
    """
    known = tasks_for(conn, tasks)
    return [run(_known(known, one.kind), one.payload, id=one.id, queue=one.queue) for one in mine(conn)]


async def arun_mine(conn: Any, tasks: Mapping[str, Runnable] | None = None) -> list[Run]:
    """The same, on an asynchronous connection."""
    known = tasks_for(conn, tasks)
    return [
        await arun_task(_known(known, one.kind), one.payload, id=one.id, queue=one.queue) for one in await amine(conn)
    ]


def run_due(
    conn: Any, ahead: Span | None = None, tasks: Mapping[str, Runnable] | None = None, committed: bool = False
) -> list[Run]:
    """Run what the transaction has enqueued and what is due, and what comes of that, until nothing is due any more.

    Unlike run_mine() it ends the tasks in the database, in your transaction: done, dead, or to be tried again. With
    `ahead` it is as if that time had passed: what has snoozed, is delayed or is to be retried by then is due. Flows,
    limits, signals and callbacks continue. With `committed` it runs all due tasks of the database instead, for tests
    that commit. `conn` needs the rights of the schema's owner, as in a test database.
    """
    where, runs = need_sync(conn), list[Run]()
    script = _due.script(tasks_for(conn, tasks), committed, ahead)
    answer: Any = None
    while True:
        try:
            ask = script.send(answer)
        except StopIteration:
            return runs
        answer = None
        if isinstance(ask, _due.Statement):
            answer = where.rows(ask.sql, ask.values)
        elif isinstance(ask, _due.Attempt):
            said: list[dict[str, Any]] = []
            reply = _run_line(ask.task, ask.line, said)
            runs.append(_outcome(ask.task.kind, reply, said, ask.line))
            answer = reply, said
        elif not committed:
            _due.release(where) if isinstance(ask, _due.Release) else where.execute(_due.SAVEPOINT)


async def arun_due(
    conn: Any, ahead: Span | None = None, tasks: Mapping[str, Runnable] | None = None, committed: bool = False
) -> list[Run]:
    """The same, on an asynchronous connection."""
    where, runs = need_async(conn), list[Run]()
    script = _due.script(tasks_for(conn, tasks), committed, ahead)
    answer: Any = None
    while True:
        try:
            ask = script.send(answer)
        except StopIteration:
            return runs
        answer = None
        if isinstance(ask, _due.Statement):
            answer = await where.arows(ask.sql, ask.values)
        elif isinstance(ask, _due.Attempt):
            said: list[dict[str, Any]] = []
            reply = await _arun_line(ask.task, ask.line, said)
            runs.append(_outcome(ask.task.kind, reply, said, ask.line))
            answer = reply, said
        elif not committed:
            await (_due.arelease(where) if isinstance(ask, _due.Release) else where.aexecute(_due.SAVEPOINT))


class Eager:
    """Runs a task when it is enqueued, at once and in this process, without a database."""

    def __init__(self, tasks: Mapping[str, Runnable] | None, raises: bool) -> None:
        self.runs: list[Run] = []
        self._tasks = tasks
        self._raises = raises
        self._ids = itertools.count(1)

    def enqueue(self, kind: str, payload: Any, options: Mapping[str, Any]) -> int:
        task = _known(tasks_for(None, self._tasks), kind)
        return self._ended(run(task, _opened(kind, payload), **self._given(options)))

    async def aenqueue(self, kind: str, payload: Any, options: Mapping[str, Any]) -> int:
        task = _known(tasks_for(None, self._tasks), kind)
        return self._ended(await arun_task(task, _opened(kind, payload), **self._given(options)))

    def _given(self, options: Mapping[str, Any]) -> dict[str, Any]:
        return {"id": next(self._ids), **{k: options[k] for k in ("queue", "max_attempts", "trace") if k in options}}

    def _ended(self, ended: Run) -> int:
        self.runs.append(ended)
        if self._raises and ended.outcome in ("failed", "dead"):
            raise TaskFailed(ended)
        return ended.id


@contextmanager
def eager(tasks: Mapping[str, Runnable] | None = None, raises: bool = True) -> Iterator[list[Run]]:
    """Within it enqueue() runs the task at once, whatever its delay; no database is asked. Gives the list of the runs.

    A task that fails raises TaskFailed where it was enqueued; not with `raises=False`. In production a task runs after
    the commit: what is wrong with that is found by a test with run_due().
    """
    before = _enqueue.instead
    _enqueue.instead = made = Eager(tasks, raises)
    try:
        yield made.runs
    finally:
        _enqueue.instead = before


FLUSHED = (
    "task", "task_step", "suspect", "history", "dead", "attempt", "unique_hold", "again", "again_note", "flow",
    "flow_task", "flow_wait", "flow_note", "limit_task", "limit_start", "limit_due", "limit_turn", "limit_event",
    "signal", "waiting", "minute", "depth", "set_aside",
)  # fmt: skip
"""Tables with tasks and what belongs to them; the others have settings."""


def flush(conn: Any) -> None:
    """Delete all tasks of the database, between tests that commit; in autocommit, or commit it yourself."""
    where: Connection = need_sync(conn)
    tables = ", ".join(f"tenon.{name}" for name in FLUSHED)
    where.execute(f"TRUNCATE {tables}")


def tasks_for(conn: Any, tasks: Mapping[str, Runnable] | None = None) -> Mapping[str, Runnable]:
    """Those that were given, else those of @tenon.task and, where there is Django, those of the project."""
    if tasks is not None:
        return tasks
    if conn is None:
        return {**_of_django(None), **default_app.tasks}
    where = need_sync(conn) if _blocks(conn) else None
    return {**(_of_django(where.alias) if isinstance(where, Django) else {}), **default_app.tasks}


def _blocks(conn: Any) -> bool:
    try:
        need_sync(conn)
    except TypeError:
        return False
    return True


def _of_django(alias: str | None) -> dict[str, Runnable]:
    """The tasks of the backends on this database; of all without one."""
    if "django" not in sys.modules:
        return {}
    from django.apps import apps

    if not apps.ready:
        return {}
    from tenon.django.child import tasks_on

    return tasks_on(alias)


def _known(tasks: Mapping[str, Runnable], kind: str) -> Runnable:
    """LookupError says which there are."""
    if kind in tasks:
        return tasks[kind]
    few = ", ".join(sorted(tasks)[:10]) or "none"
    raise LookupError(
        f"there is no task of the kind {kind!r} here; known are: {few}. Import its module, or give tasks="
    )


def _opened(kind: str, payload: Any) -> Any:
    """As a worker is given it, which also says what cannot be JSON."""
    return opened(json.loads(storable(payload)), kind, "payload")


def _enqueued(row: Row) -> Enqueued:
    return Enqueued(*(*row[:-1], opened(json.loads(row[-1]), str(row[1]), "payload")))


def _line(kind: str, payload: Any, line: Mapping[str, Any]) -> dict[str, Any]:
    whole = {
        "id": 1,
        "kind": kind,
        "queue": "default",
        "attempt": 1,
        "failures": 0,
        "max_attempts": 25,
        "timeout_ms": 3_600_000,
        "claim": "1/1/0000000000000000",
        "trace": None,
        "progress": None,
        "payload": {} if payload is None else payload,
    }
    return dict(json.loads(encode({**whole, **line})))


def _context_of(line: Mapping[str, Any], said: list[dict[str, Any]]) -> Context:
    def says(message: dict[str, Any]) -> None:
        said.append(message)
        if "step" in message:
            made.told(message["step"]["name"], True)

    made = Context(line, says)
    return made


def _run_line(task: Runnable, line: dict[str, Any], said: list[dict[str, Any]]) -> Reply:
    """In a context of its own, so that none is left behind."""
    made = _context_of(line, said)
    if task.is_async:
        return _wait_for(arun(task, made))
    return contextvars.copy_context().run(run_blocking, task, made)


async def _arun_line(task: Runnable, line: dict[str, Any], said: list[dict[str, Any]]) -> Reply:
    made = _context_of(line, said)
    if task.is_async:
        return await asyncio.create_task(arun(task, made))
    return await asyncio.to_thread(run_blocking, task, made)  # as in a worker, where it may block


def _wait_for(coroutine: Coroutine[Any, Any, Reply]) -> Reply:
    """Without an event loop here: Django's own way, whose queries then stay in this thread."""
    if "django" in sys.modules:
        from asgiref.sync import async_to_sync

        async def run() -> Reply:
            return await coroutine

        if not _in_loop():
            return async_to_sync(run)()
    if not _in_loop():
        return asyncio.run(coroutine)
    ended: list[Reply] = []
    thread = threading.Thread(target=lambda: ended.append(asyncio.run(coroutine)))
    thread.start()
    thread.join()
    return ended[0]


def _in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _outcome(kind: str, reply: Reply, said: list[dict[str, Any]], line: Mapping[str, Any]) -> Run:
    delay = reply.get("delay_ms", reply.get("timeout_ms"))
    steps = [m["step"] for m in said if "step" in m]
    return Run(
        outcome=reply["outcome"],
        result=opened(json.loads(reply.get("result", "null")), kind, "result"),
        error=reply.get("error"),
        error_class=reply.get("error_class"),
        delay=None if delay is None else timedelta(milliseconds=delay),
        progress=[opened(m["progress"], kind, "progress") for m in said if "progress" in m],
        extended=[timedelta(milliseconds=m["extend_ms"]) for m in said if "extend_ms" in m],
        steps={s["name"]: opened(s["value"], kind, f"step:{s['name']}") for s in steps},
        signal=reply.get("signal"),
        id=line["id"],
        kind=kind,
    )
