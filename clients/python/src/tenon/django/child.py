"""What a worker runs for Django: python -m tenon tenon.django.child:app."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from inspect import iscoroutinefunction
from typing import Any

import django
from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import DatabaseError, connections
from django.utils import timezone
from django.utils.module_loading import import_string

from tenon._context import Context
from tenon._outcomes import Dead, Interrupted, Retry, Snooze, Suspended
from tenon._run import class_of, describe
from tenon._task import App, Runnable, default_app
from tenon.django._framework import (
    Task,
    TaskContext,
    TaskError,
    TaskResult,
    TaskResultDoesNotExist,
    TaskResultStatus,
    normalize_json,
    signals,
    task_backends,
)
from tenon.django.backend import TenonBackend
from tenon.django.results import discover, priority_of, task_of
from tenon.django.task import options_of

logger = logging.getLogger("tenon.django")
_WORKER = f"{socket.gethostname()}:{os.getpid()}"
_STOPPED = Interrupted | asyncio.CancelledError
"""How a task ends that is told to stop."""


def close_idle_connections() -> None:
    """Those that are old or of no use, as Django does it for requests; but not where a test has a transaction."""
    for conn in connections.all(initialized_only=True):
        if not conn.in_atomic_block:
            conn.close_if_unusable_or_obsolete()


class Runner:
    """Runs one of Django's tasks in a pool child."""

    def __init__(self, kind: str, backend: TenonBackend) -> None:
        self.kind = kind
        self.backend = backend
        self.is_async = iscoroutinefunction(import_string(kind).func)

    @property
    def kind_options(self) -> dict[str, Any]:
        """What a sync sets of it."""
        task = import_string(self.kind)
        given = {**options_of(task), "queue": task.queue_name, "priority": priority_of(task.priority)}
        return {name: value for name, value in given.items() if value is not None}

    def call(self, context: Context) -> Any:
        return self._acall(context) if self.is_async else self._call(context)

    def _call(self, context: Context) -> Any:
        close_idle_connections()
        try:
            result = self._result(context)
            try:
                value = result.task.func(*self._arguments(result), **result.kwargs)
                return self._succeeded(result, normalize_json(value))
            except BaseException as error:
                self._failed(context, result, error)
                raise
        finally:
            close_idle_connections()

    async def _acall(self, context: Context) -> Any:
        result = await sync_to_async(self._result)(context)
        try:
            value = await result.task.func(*self._arguments(result), **result.kwargs)
            return await sync_to_async(self._succeeded)(result, normalize_json(value))
        except BaseException as error:
            await sync_to_async(self._failed)(context, result, error)
            raise
        finally:
            await sync_to_async(close_idle_connections)()

    def _result(self, context: Context) -> TaskResult[Any]:
        """What the task is shown of itself. Only one that asks for it pays for a query."""
        task = task_of(self.kind, context.queue, self.backend.alias, context.payload)
        result = self._read(context) if task.takes_context else None
        if result is None:
            result = _new_result(task, context)
        signals.task_started.send(type(self.backend), task_result=result)
        return result

    def _read(self, context: Context) -> TaskResult[Any] | None:
        try:
            return self.backend.get_result(str(context.id))
        except (DatabaseError, TaskResultDoesNotExist) as error:  # no right to read
            logger.warning("task %s: the context is without earlier attempts: %s", context.id, error)
            return None

    def _arguments(self, result: TaskResult[Any]) -> list[Any]:
        return [TaskContext(task_result=result), *result.args] if result.task.takes_context else result.args

    def _succeeded(self, result: TaskResult[Any], value: Any) -> Any:
        _set(result, status=TaskResultStatus.SUCCESSFUL, finished_at=timezone.now(), _return_value=value)
        self._finished(result)
        return value

    def _failed(self, context: Context, result: TaskResult[Any], error: BaseException) -> None:
        """Its last attempt is its end, and so is a cancel; of attempts before that, the log speaks."""
        cancelled = isinstance(error, _STOPPED) and context.stopped_why == "cancelled"
        if isinstance(error, Snooze | Suspended | _STOPPED) and not cancelled:
            return  # it runs again, maybe elsewhere already: its claim may be lost
        logger.warning("task %s (%s) failed: %s", context.id, self.kind, class_of(error))
        if not (cancelled or isinstance(error, Dead)) and context.failures + 1 < context.max_attempts:
            return
        path = f"{type(error).__module__}.{type(error).__qualname__}"
        result.errors.append(TaskError(exception_class_path=path, traceback=describe(error)))
        _set(result, status=TaskResultStatus.FAILED, finished_at=timezone.now())
        self._finished(result)

    def _finished(self, result: TaskResult[Any]) -> None:
        for receiver, problem in signals.task_finished.send_robust(type(self.backend), task_result=result):
            if isinstance(problem, Exception):
                logger.error("task_finished: %r failed", receiver, exc_info=problem)


def _new_result(task: Task[Any, Any], context: Context) -> TaskResult[Any]:
    now = timezone.now()
    return TaskResult(
        task=task,
        id=str(context.id),
        status=TaskResultStatus.RUNNING,
        enqueued_at=None,
        started_at=now,
        finished_at=None,
        last_attempted_at=now,
        args=context.payload["args"],
        kwargs=context.payload["kwargs"],
        backend=task.backend,
        errors=[],
        worker_ids=[_WORKER] * context.attempt,
    )


def _set(result: TaskResult[Any], **values: Any) -> None:
    for name, value in values.items():
        object.__setattr__(result, name, value)


def make_app(alias: str) -> App:
    """All tasks of the backend, for a pool child."""
    backend = task_backends[alias]
    if not isinstance(backend, TenonBackend):
        raise TypeError(f"TASKS[{alias!r}] is not tenon.django.TenonBackend")
    made = App()
    for kind in discover(backend):
        made.add(Runner(kind, backend))
    if alias == FIRST:
        for task in default_app.tasks.values():
            made.add(Closing(task))
        made.schedules, made.limits, made.queues = default_app.schedules, default_app.limits, default_app.queues
    return made


class Closing:
    """Runs a task of @tenon.task: like a request, it begins and ends without connections that are of no use."""

    def __init__(self, task: Runnable) -> None:
        self.kind = task.kind
        self.is_async = task.is_async
        self.secret = getattr(task, "secret", None)
        self.kind_options = {**getattr(task, "options", {}), **getattr(task, "of_kind", {})}
        self._task = task

    def call(self, context: Context) -> Any:
        return self._acall(context) if self.is_async else self._call(context)

    def _call(self, context: Context) -> Any:
        close_idle_connections()
        try:
            return self._task.call(context)
        finally:
            close_idle_connections()

    async def _acall(self, context: Context) -> Any:
        try:
            return await self._task.call(context)
        finally:
            await sync_to_async(close_idle_connections)()


def tasks_on(database: str | None) -> dict[str, Runnable]:
    """Those of all backends on a database; without one, of all. For tests."""
    found: dict[str, Runnable] = {}
    for alias in settings.TASKS:
        backend = task_backends[alias]
        if isinstance(backend, TenonBackend) and database in (None, backend.database):
            found |= {kind: Runner(kind, backend) for kind in discover(backend)}
    return found


FIRST = "default"
"""The backend whose worker also runs the tasks of @tenon.task."""


def __getattr__(name: str) -> Any:
    """`app`, and `app_ALIAS` for another backend than default: made when it is asked for."""
    if name == "app" or name.startswith("app_"):
        django.setup()
        return make_app(name[4:] or "default")
    raise AttributeError(name)


__all__ = ["Retry", "Runner", "make_app"]
