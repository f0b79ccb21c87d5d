"""What became of a task, as the framework wants it: read from tenon.tasks and tenon.attempt."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import connections
from django.utils import timezone
from django.utils.module_loading import import_string

from tenon.django._framework import (
    Task,
    TaskError,
    TaskResult,
    TaskResultDoesNotExist,
    TaskResultStatus,
)

if TYPE_CHECKING:
    from tenon.django.backend import TenonBackend

_TASK = """SELECT kind, queue, state, created_at, start_time, end_time, CAST(worker_id AS text),
                  CAST(payload AS text), CAST(result AS text)
             FROM tenon.tasks WHERE id = %s"""
_ATTEMPTS = """SELECT started_at, CAST(worker_id AS text), outcome, error_class, error
                 FROM tenon.attempt WHERE id = %s ORDER BY claims, ended_at"""
_STATUS = {
    "running": TaskResultStatus.RUNNING,
    "done": TaskResultStatus.SUCCESSFUL,
    "dead": TaskResultStatus.FAILED,
    "cancelled": TaskResultStatus.FAILED,
    "expired": TaskResultStatus.FAILED,
}  # all others: READY
_CLASSES = {"timed_out": "tenon.TimedOut", "crashed": "tenon.Crashed"}
Row = tuple[Any, ...]


def kept(task: Task[Any, Any]) -> dict[str, Any]:
    """What of a task the row cannot say: tenon has ten priorities, and a retry moves run_at."""
    more: dict[str, Any] = {}
    if task.priority:
        more["priority"] = task.priority
    if isinstance(task.run_after, datetime):
        more["run_after"] = task.run_after.isoformat()
    return more


def priority_of(priority: int) -> int | None:
    """-100..100 as 0..9; 0 is whatever the kind or queue has, else 4."""
    if priority == 0:
        return None
    if priority < 0:
        return 4 - -(priority * 4 // 100)
    return 4 + -(-priority * 5 // 100)


def task_of(kind: str, queue: str, backend: str, payload: dict[str, Any]) -> Task[Any, Any]:
    """The task as it was enqueued."""
    task = import_string(kind)
    if not isinstance(task, Task):
        raise ImportError(f"{kind} is no task")
    run_after = payload.get("run_after")
    return task.using(
        queue_name=queue,
        backend=backend,
        priority=payload.get("priority", 0),
        run_after=None if run_after is None else datetime.fromisoformat(run_after),
    )


def read(backend: TenonBackend, result_id: str) -> TaskResult[Any]:
    """TaskResultDoesNotExist if there is no such task, or it is none of Django's."""
    if not result_id.isascii() or not result_id.isdigit() or len(result_id) > 18:
        raise TaskResultDoesNotExist(result_id)
    with connections[backend.database].cursor() as cursor:
        cursor.execute(_TASK, [int(result_id)])
        row = cursor.fetchone()
        cursor.execute(_ATTEMPTS, [int(result_id)])
        attempts = cursor.fetchall()
    if row is None:
        raise TaskResultDoesNotExist(result_id)
    try:
        return _result(backend, result_id, row, attempts)
    except (ImportError, KeyError, TypeError) as error:
        raise TaskResultDoesNotExist(f"{result_id} is no task of Django's: {error}") from error


def _result(backend: TenonBackend, result_id: str, row: Row, attempts: list[Row]) -> TaskResult[Any]:
    kind, queue, state, created_at, start_time, end_time, worker, payload_text, value = row
    payload = json.loads(payload_text)
    started = [a[0] for a in attempts]
    workers = [a[1] for a in attempts]
    if start_time is not None and state in ("running", "done"):  # an attempt that is in no row of its own
        started.append(start_time)
        workers.append(worker)
    status = _STATUS.get(state, TaskResultStatus.READY)
    result: TaskResult[Any] = TaskResult(
        task=task_of(kind, queue, backend.alias, payload),
        id=result_id,
        status=status,
        enqueued_at=_moment(created_at),
        started_at=_moment(min(started, default=None)),
        finished_at=_moment(end_time),
        last_attempted_at=_moment(max(started, default=None)),
        args=payload["args"],
        kwargs=payload["kwargs"],
        backend=backend.alias,
        errors=[_error(*a[2:]) for a in attempts],
        worker_ids=workers,
    )
    if status == TaskResultStatus.SUCCESSFUL and value is not None:
        object.__setattr__(result, "_return_value", json.loads(value))
    return result


def _moment(at: datetime | None) -> datetime | None:
    if at is None or settings.USE_TZ:
        return at
    return timezone.make_naive(at) if timezone.is_aware(at) else at


def _error(outcome: str, error_class: str | None, error: str | None) -> TaskError:
    """The worker keeps one text: what went wrong on its first line, then the traceback."""
    path = _CLASSES.get(outcome) or error_class or "tenon.Crashed"
    if not all(part.isidentifier() for part in path.split(".")):
        path = "tenon.Crashed"
    elif "." not in path:
        path = f"builtins.{path}" if path[:1].isupper() else "tenon.Crashed"
    _, _, trace = (error or "").partition("\n\n")
    text = trace if trace.startswith("Traceback") else error or ""
    return TaskError(exception_class_path=path, traceback=text.rstrip("\n") + "\n")
