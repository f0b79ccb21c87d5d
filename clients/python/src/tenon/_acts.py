"""What one does with tasks, flows, signals, schedules and limits, on the caller's connection and in its transaction.

Each function has a twin that begins with `a`, for an asynchronous connection.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Unpack

from tenon._awaited import TaskResult
from tenon._connections import Row, need_async, need_sync
from tenon._context import Context
from tenon._options import LimitOptions, ScheduleOptions, argument, known, moment, span
from tenon._payload import storable
from tenon._steps import checked as checked_name
from tenon._task import Task

Kind = str | Task[Any, Any]
"""A task, or its kind."""
Statement = tuple[str, list[Any]]


def _text(value: Any) -> str:
    return str(value)


_TYPES: dict[str, tuple[str, Any]] = {
    "every": ("interval", span),
    "per": ("interval", span),
    "timeout": ("interval", span),
    "payload": ("jsonb", storable),
    "description": ("jsonb", storable),
    "until": ("timestamptz", moment),
    **dict.fromkeys(("priority", "max_attempts", "max_running", "max_starts", "weight", "n"), ("integer", _text)),
    **dict.fromkeys(("strict", "fair", "notify"), ("boolean", _text)),
    **dict.fromkeys(("id", "flow"), ("bigint", _text)),
}


def statement(function: str, given: Mapping[str, Any], columns: str = "*") -> Statement:
    """A call with named arguments; those that are None are left to the function."""
    names, values = list[str](), list[Any]()
    for name, value in given.items():
        if value is not None:
            kind, convert = _TYPES.get(name, ("text", _text))
            names.append(argument(name, kind))
            values.append(convert(value))
    return f"SELECT {columns} FROM tenon.{function}({', '.join(names)})", values


def kind_of(task: Kind | None) -> str | None:
    """Its name in the database; also of one of Django's tasks."""
    if task is None or isinstance(task, str):
        return task
    return str(getattr(task, "kind", None) or task.module_path)  # type: ignore[attr-defined]


def _rows(conn: Any, asked: Statement) -> list[Row]:
    return need_sync(conn).rows(*asked)


async def _arows(conn: Any, asked: Statement) -> list[Row]:
    return await need_async(conn).arows(*asked)


# --- tasks ---------------------------------------------------------------------------------------


def cancel(conn: Any, task_id: int) -> bool:
    """Cancel a task, or tell a running one to stop; returns whether it had not ended."""
    return bool(_rows(conn, statement("cancel", {"id": task_id}))[0][0])


async def acancel(conn: Any, task_id: int) -> bool:
    return bool((await _arows(conn, statement("cancel", {"id": task_id})))[0][0])


def retry(conn: Any, task_id: int, why: str | None = None, from_step: str | None = None) -> bool:
    """Run a task again that is dead, cancelled or expired; for operators. `why` is for the audit log.

    With `from_step` it forgets that step and all that it recorded after it.
    """
    return bool(_rows(conn, _retry(task_id, why, from_step))[0][0])


async def aretry(conn: Any, task_id: int, why: str | None = None, from_step: str | None = None) -> bool:
    return bool((await _arows(conn, _retry(task_id, why, from_step)))[0][0])


def _retry(task_id: int, why: str | None, from_step: str | None) -> Statement:
    return statement("retry", {"id": task_id, "why": why, "from_step": from_step})


def run_now(conn: Any, task_id: int, why: str | None = None) -> bool:
    """Run a task now that is scheduled or waits for its retry; for operators."""
    return bool(_rows(conn, statement("run_now", {"id": task_id, "why": why}))[0][0])


async def arun_now(conn: Any, task_id: int, why: str | None = None) -> bool:
    return bool((await _arows(conn, statement("run_now", {"id": task_id, "why": why})))[0][0])


_RESULT = "state, CAST(result AS text), error"


def result(conn: Any, task_id: int) -> TaskResult:
    """The state of a task now, and its result if it is done."""
    return _result(task_id, _rows(conn, statement("result", {"id": task_id}, _RESULT))[0])


async def aresult(conn: Any, task_id: int) -> TaskResult:
    return _result(task_id, (await _arows(conn, statement("result", {"id": task_id}, _RESULT)))[0])


def _result(task_id: int, row: Row) -> TaskResult:
    return TaskResult(task_id, row[0], None if row[1] is None else json.loads(row[1]), row[2])


def signal(conn: Any, name: str, payload: Any = True) -> bool:
    """Send a signal to the task that waits for it, or will; False if it had been sent before."""
    return bool(_rows(conn, _signal(name, payload))[0][0])


async def asignal(conn: Any, name: str, payload: Any = True) -> bool:
    return bool((await _arows(conn, _signal(name, payload)))[0][0])


def _signal(name: str, payload: Any) -> Statement:
    return statement("signal", {"name": checked_name(name), "payload": payload})


# --- flows and batches ---------------------------------------------------------------------------


def flow(conn: Any, name: str | Mapping[str, Any] | None = None) -> int:
    """Make a flow; its number is the option `flow` of what is enqueued in it, with `depends_on=[parent]`.

    Given the description of `tenon.flow`, with `tasks`, it makes the whole flow.
    """
    return int(_rows(conn, _flow(name))[0][0])


async def aflow(conn: Any, name: str | Mapping[str, Any] | None = None) -> int:
    return int((await _arows(conn, _flow(name)))[0][0])


def _flow(name: str | Mapping[str, Any] | None) -> Statement:
    return statement("flow", {"name": name} if name is None or isinstance(name, str) else {"description": name})


def batch(
    conn: Any,
    *,
    on_done: Kind | None = None,
    on_dead: Kind | None = None,
    on_end: Kind | None = None,
    payload: Any = None,
    name: str | None = None,
) -> int:
    """Make a batch, whose callbacks are enqueued when all of its tasks are done, when one has died, or when all have
    ended. Its number is the option `flow` of its tasks; close() it when it has all.
    """
    return int(_rows(conn, _batch(on_done, on_dead, on_end, payload, name))[0][0])


async def abatch(
    conn: Any,
    *,
    on_done: Kind | None = None,
    on_dead: Kind | None = None,
    on_end: Kind | None = None,
    payload: Any = None,
    name: str | None = None,
) -> int:
    return int((await _arows(conn, _batch(on_done, on_dead, on_end, payload, name)))[0][0])


def _batch(
    on_done: Kind | None, on_dead: Kind | None, on_end: Kind | None, payload: Any, name: str | None
) -> Statement:
    callbacks = {"on_done": kind_of(on_done), "on_dead": kind_of(on_dead), "on_end": kind_of(on_end)}
    return statement("batch", {**callbacks, "payload": payload, "name": name})


def close(conn: Any, flow: int) -> bool:
    """No more tasks are added to the batch; False if it was closed."""
    return bool(_rows(conn, statement("close", {"flow": flow}))[0][0])


async def aclose(conn: Any, flow: int) -> bool:
    return bool((await _arows(conn, statement("close", {"flow": flow})))[0][0])


def cancel_flow(conn: Any, flow: int) -> int:
    """Cancel all tasks of a flow or batch that have not ended; returns how many."""
    return int(_rows(conn, statement("cancel_flow", {"flow": flow}))[0][0])


async def acancel_flow(conn: Any, flow: int) -> int:
    return int((await _arows(conn, statement("cancel_flow", {"flow": flow})))[0][0])


@dataclass(frozen=True)
class ParentResult:
    """What a task in `depends_on` has returned."""

    id: int
    name: str | None
    state: str
    result: Any


_PARENTS = "id, name, state, CAST(result AS text)"


def parent_results(conn: Any, context: Context) -> list[ParentResult]:
    """What the parents of the running task have returned, in the order of its `depends_on`."""
    return _parents(_rows(conn, statement("parent_results", {"claim": context.claim}, _PARENTS)))


async def aparent_results(conn: Any, context: Context) -> list[ParentResult]:
    return _parents(await _arows(conn, statement("parent_results", {"claim": context.claim}, _PARENTS)))


def _parents(rows: list[Row]) -> list[ParentResult]:
    return [ParentResult(row[0], row[1], row[2], None if row[3] is None else json.loads(row[3])) for row in rows]


# --- limits in a handler -------------------------------------------------------------------------


def take_limit(conn: Any, key: str, n: int = 1) -> timedelta:
    """Take `n` of the rate of a limit key: zero, or how long to wait before asking again."""
    return timedelta(milliseconds=_rows(conn, statement("take_limit", {"key": key, "n": n}))[0][0])


async def atake_limit(conn: Any, key: str, n: int = 1) -> timedelta:
    return timedelta(milliseconds=(await _arows(conn, statement("take_limit", {"key": key, "n": n})))[0][0])


# --- schedules and limits, for operators ---------------------------------------------------------


def set_schedule(conn: Any, name: str, task: Kind, **options: Unpack[ScheduleOptions]) -> datetime:
    """Set or change a schedule; returns its next tick. What the code declares, sync() sets (`@tenon.periodic`)."""
    found: datetime = _rows(conn, _schedule(name, task, options))[0][0]
    return found


async def aset_schedule(conn: Any, name: str, task: Kind, **options: Unpack[ScheduleOptions]) -> datetime:
    found: datetime = (await _arows(conn, _schedule(name, task, options)))[0][0]
    return found


def _schedule(name: str, task: Kind, options: ScheduleOptions) -> Statement:
    return statement("set_schedule", {"name": name, "kind": kind_of(task), **known(options, ScheduleOptions)})


def remove_schedule(conn: Any, name: str) -> bool:
    """False if there was none."""
    return bool(_rows(conn, statement("remove_schedule", {"name": name}))[0][0])


async def aremove_schedule(conn: Any, name: str) -> bool:
    return bool((await _arows(conn, statement("remove_schedule", {"name": name})))[0][0])


def set_limit(conn: Any, name: str, **options: Unpack[LimitOptions]) -> None:
    """Set or change a limit; what is not given, it has not. It applies to the tasks with `limit_keys=[name]`, or with
    keys such as `name:42`.
    """
    _rows(conn, statement("set_limit", {"name": name, **known(options, LimitOptions)}))


async def aset_limit(conn: Any, name: str, **options: Unpack[LimitOptions]) -> None:
    await _arows(conn, statement("set_limit", {"name": name, **known(options, LimitOptions)}))


def remove_limit(conn: Any, name: str) -> bool:
    """False if there was none."""
    return bool(_rows(conn, statement("remove_limit", {"name": name}))[0][0])


async def aremove_limit(conn: Any, name: str) -> bool:
    return bool((await _arows(conn, statement("remove_limit", {"name": name})))[0][0])
