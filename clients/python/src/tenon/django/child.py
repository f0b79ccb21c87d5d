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
from django.db import DatabaseError, close_old_connections
from django.utils import timezone
from django.utils.module_loading import import_string

from tenon._context import Context
from tenon._outcomes import Dead, Interrupted, Retry, Snooze, Suspended
from tenon._run import class_of, describe
from tenon._task import App
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
from tenon.django.results import discover, task_of

logger = logging.getLogger("tenon.django")
_WORKER = f"{socket.gethostname()}:{os.getpid()}"
_STOPPED = Interrupted | asyncio.CancelledError
"""How a task ends that is told to stop."""


class Runner:
    """Runs one of Django's tasks in a pool child."""

    def __init__(self, kind: str, backend: TenonBackend) -> None:
        self.kind = kind
        self.backend = backend
        self.is_async = iscoroutinefunction(import_string(kind).func)

    def call(self, context: Context) -> Any:
        return self._acall(context) if self.is_async else self._call(context)

    def _call(self, context: Context) -> Any:
        close_old_connections()
        try:
            result = self._result(context)
            try:
                value = result.task.func(*self._arguments(result), **result.kwargs)
                return self._succeeded(result, normalize_json(value))
            except BaseException as error:
                self._failed(context, result, error)
                raise
        finally:
            close_old_connections()

    async def _acall(self, context: Context) -> Any:
        result = await sync_to_async(self._result)(context)
        try:
            value = await result.task.func(*self._arguments(result), **result.kwargs)
            return await sync_to_async(self._succeeded)(result, normalize_json(value))
        except BaseException as error:
            await sync_to_async(self._failed)(context, result, error)
            raise
        finally:
            await sync_to_async(close_old_connections)()

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
    return made


def __getattr__(name: str) -> Any:
    """`app`, and `app_ALIAS` for another backend than default: made when it is asked for."""
    if name == "app" or name.startswith("app_"):
        django.setup()
        return make_app(name[4:] or "default")
    raise AttributeError(name)


__all__ = ["Retry", "Runner", "make_app"]
