"""Tests without a worker: run a task here and now, and look at what a transaction has enqueued."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from tenon._connections import Row, need_async, need_sync
from tenon._context import Context
from tenon._payload import encode
from tenon._run import Reply, arun
from tenon._run import run as run_blocking
from tenon._secrets import opened
from tenon._task import Runnable, Task, default_app

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


def run(task: Task[Any, Any], payload: Any = None, **line: Any) -> Run:
    """Run a task on a payload, which goes through JSON as it would on its way to a worker.

    `line` has what its function is to see in its context: attempt=3, progress=..., steps={...}, timeout_ms=....
    """
    if task.is_async:
        return asyncio.run(arun_task(task, payload, **line))
    said: list[dict[str, Any]] = []
    return _outcome(task.kind, run_blocking(task, _context(task, payload, said, line)), said)


async def arun_task(task: Task[Any, Any], payload: Any = None, **line: Any) -> Run:
    """The same in an event loop, for coroutine functions."""
    said: list[dict[str, Any]] = []
    return _outcome(task.kind, await arun(task, _context(task, payload, said, line)), said)


def mine(conn: Any) -> list[Enqueued]:
    """What the transaction of this connection has enqueued so far: look, and then roll back."""
    return [_enqueued(row) for row in need_sync(conn).rows(_MINE, [])]


async def amine(conn: Any) -> list[Enqueued]:
    """The same, on an asynchronous connection."""
    return [_enqueued(row) for row in await need_async(conn).arows(_MINE, [])]


def run_mine(conn: Any, tasks: Mapping[str, Runnable] | None = None) -> list[Run]:
    """Run what the transaction has enqueued so far, in order, in this process; nothing is committed or finished.

    The functions use connections of their own, which do not see what has not been committed; those that take the
    connection from the test do.
    """
    known = default_app.tasks if tasks is None else tasks
    runs = []
    for one in mine(conn):
        task = known[one.kind]
        assert isinstance(task, Task)
        runs.append(run(task, one.payload, id=one.id, queue=one.queue))
    return runs


def _enqueued(row: Row) -> Enqueued:
    return Enqueued(*(*row[:-1], opened(json.loads(row[-1]), str(row[1]), "payload")))


def _context(task: Runnable, payload: Any, said: list[dict[str, Any]], line: Mapping[str, Any]) -> Context:
    whole = {
        "id": 1,
        "kind": task.kind,
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

    def says(message: dict[str, Any]) -> None:
        said.append(message)
        if "step" in message:
            context.told(message["step"]["name"], True)

    context = Context(json.loads(encode({**whole, **line})), says)
    return context


def _outcome(kind: str, reply: Reply, said: list[dict[str, Any]]) -> Run:
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
    )
