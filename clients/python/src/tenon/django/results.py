"""The outcome of a task for the framework, read from tenon.tasks and tenon.attempt."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import connections
from django.utils import timezone
from django.utils.module_loading import autodiscover_modules

from tenon._outcomes import InvalidPayload
from tenon.django._framework import (
    BaseTaskBackend,
    InvalidTask,
    Task,
    TaskError,
    TaskResult,
    TaskResultDoesNotExist,
    TaskResultStatus,
    task_backends,
)

if TYPE_CHECKING:
    from tenon.django.backend import TenonBackend

_TASK = """SELECT kind, queue, state, created_at, start_time, end_time, CAST(worker_id AS text),
                  CAST(payload AS text), CAST(result AS text)
             FROM tenon.tasks WHERE id = %s"""
_ATTEMPTS = """SELECT started_at, CAST(worker_id AS text), outcome, error_class, error
                 FROM tenon.attempt WHERE task_id = %s ORDER BY claims, ended_at"""
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


def task_of(kind: str, queue: str, backend: str, payload: Any) -> Task[Any, Any]:
    """The task as it was enqueued; InvalidPayload if Django has not enqueued it."""
    found = registered(kind, backend)
    if found is None:
        raise InvalidPayload(f"{kind} is not a task of this project")
    fits = isinstance(payload, dict) and isinstance(payload.get("args"), list)
    if not fits or not isinstance(payload.get("kwargs"), dict):
        raise InvalidPayload(f'the payload of {kind} is not {{"args": [...], "kwargs": {{...}}}}: {payload!r:.100}')
    try:
        run_after = payload.get("run_after")
        return found.using(
            queue_name=queue,
            backend=backend,
            priority=payload.get("priority", 0),
            run_after=None if run_after is None else datetime.fromisoformat(run_after),
        )
    except (TypeError, ValueError, InvalidTask) as error:
        raise InvalidPayload(f"the payload of {kind} has an invalid run_after or priority: {error}") from error


def registered(kind: str, backend: str) -> Task[Any, Any] | None:
    """The task of that path, if the project has it. The path is a row's: anybody may have written it, so nothing is
    imported because of it but the modules that have tasks anyway.
    """
    found = _loaded(kind)
    if found is None and backend not in _discovered:
        discover(task_backends[backend])
        _discovered.add(backend)
        found = _loaded(kind)
    return found


def _loaded(kind: str) -> Task[Any, Any] | None:
    module, _, name = kind.rpartition(".")
    found = getattr(sys.modules.get(module), "__dict__", {}).get(name)
    return found if issubclass(type(found), Task) else None


_discovered: set[str] = set()


def discover(backend: BaseTaskBackend) -> list[str]:
    """The kinds of all tasks of this backend: in the apps' modules `tasks`, the OPTIONS' MODULES, and the URLs'."""
    autodiscover_modules("tasks")
    for name in backend.options.get("MODULES", []):
        importlib.import_module(name)
    if urls := getattr(settings, "ROOT_URLCONF", None):
        importlib.import_module(urls)  # views may have tasks, too
    return sorted(_paths(backend.alias))


def _paths(alias: str) -> set[str]:
    """Of all loaded modules. By type(), because isinstance() wakes Django's lazy objects up."""
    found = set()
    for module in list(sys.modules.values()):
        for value in list(getattr(module, "__dict__", {}).values()):
            if issubclass(type(value), Task) and value.backend == alias:
                found.add(value.module_path)
    return found


def of_run(task: Task[Any, Any], payload: Mapping[str, Any], run: Any, number: int) -> TaskResult[Any]:
    """Of a task that a test has run at once."""
    now = timezone.now()
    ended = {"done": TaskResultStatus.SUCCESSFUL, "failed": TaskResultStatus.FAILED, "dead": TaskResultStatus.FAILED}
    failed = run.outcome in ("failed", "dead")
    result: TaskResult[Any] = TaskResult(
        task=task,
        id=str(number),
        status=ended.get(run.outcome, TaskResultStatus.READY),
        enqueued_at=now,
        started_at=now,
        finished_at=now if run.outcome in ended else None,
        last_attempted_at=now,
        args=payload["args"],
        kwargs=payload["kwargs"],
        backend=task.backend,
        errors=[_error(run.outcome, run.error_class, run.error)] if failed else [],
        worker_ids=["eager"],
    )
    if run.outcome == "done":
        object.__setattr__(result, "_return_value", run.result)
    return result


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
    except InvalidPayload as error:
        raise TaskResultDoesNotExist(f"{result_id} is not a task of Django's: {error}") from error


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
