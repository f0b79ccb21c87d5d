"""The backend: enqueues in the caller's transaction, and reads what became of tasks."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, ClassVar

from django.conf import settings
from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.db import ProgrammingError, connections
from django.utils import timezone

from tenon import _enqueue
from tenon._publisher import Publisher
from tenon.django import results, traps
from tenon.django._framework import (
    BaseTaskBackend,
    InvalidTask,
    Task,
    TaskResult,
    TaskResultStatus,
    normalize_json,
    signals,
)
from tenon.django.task import TenonTask, options_of

OPTIONS = {
    "DATABASE": "the alias of the database with the schema tenon; default: default",
    "AMQP_URL": "RabbitMQ, for workers and to publish wake-ups; default: none",
    "MAX_ATTEMPTS": "how often a task is tried; default: as tenon.kind, tenon.queue say, else 25",
    "TIMEOUT": "how long one run may take, a timedelta or seconds; default: as those say, else an hour",
    "MODULES": "modules with tasks, besides the apps' own tasks.py",
    "MIGRATE": "whether manage.py migrate makes the schema; default: True",
    "TENON": "the program tenon; default: as PATH says",
}
_KIND = re.compile(r"[A-Za-z0-9_.:-]{1,100}")
_NOT_THERE = ("3F000", "42P01")  # invalid_schema_name, undefined_table


class TenonBackend(BaseTaskBackend):
    """A task's kind is the path of its function: `shop.tasks.send_receipt`."""

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True
    task_class = TenonTask
    _publishers: ClassVar[dict[str, Publisher]] = {}

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        self.database: str = self.options.get("DATABASE", "default")

    def validate_task(self, task: Task[Any, Any]) -> None:
        run_after: Any = task.run_after
        if not isinstance(run_after, datetime | timedelta | None):
            raise InvalidTask(f"run_after is {run_after!r:.100}; it should be a datetime or a timedelta")
        if isinstance(run_after, timedelta):  # Django documents it, its own check does not know it
            super().validate_task(replace(task, run_after=None))
        else:
            super().validate_task(task)
        if not _KIND.fullmatch(task.module_path):
            raise InvalidTask(f"{task.module_path}: use a path of 1 to 100 of A-Z a-z 0-9 _ .")

    def enqueue(self, task: Task[Any, Any], args: Any, kwargs: Any) -> TaskResult[Any]:
        """The task runs if the transaction commits, and never if it does not; without one, at once."""
        self.validate_task(task)
        _must_fit(task, args, kwargs)
        payload = {"args": normalize_json(list(args)), "kwargs": normalize_json(kwargs), **results.kept(task)}
        if _enqueue.instead is not None:
            return self._at_once(task, payload)
        traps.check(task.module_path, self.database)
        with self.schema():
            number = _enqueue.enqueue(self.database, task.module_path, payload, self._options(task))
        result: TaskResult[Any] = TaskResult(
            task=task,
            id=str(number),
            status=TaskResultStatus.READY,
            enqueued_at=timezone.now(),
            started_at=None,
            finished_at=None,
            last_attempted_at=None,
            args=payload["args"],
            kwargs=payload["kwargs"],
            backend=self.alias,
            errors=[],
            worker_ids=[],
        )
        signals.task_enqueued.send(type(self), task_result=result)
        return result

    def _at_once(self, task: Task[Any, Any], payload: Mapping[str, Any]) -> TaskResult[Any]:
        """In a test with tenon.testing.eager()."""
        number = _enqueue.enqueue(self.database, task.module_path, payload, self._options(task))
        return results.of_run(task, payload, _enqueue.instead.runs[-1] if _enqueue.instead else None, number)

    def get_result(self, result_id: str) -> TaskResult[Any]:
        """The role needs the right to read: tenon setup --grant-reader ROLE."""
        with self.schema():
            return results.read(self, str(result_id))

    def _options(self, task: Task[Any, Any]) -> Mapping[str, Any]:
        run_after: Any = task.run_after
        options: dict[str, Any] = {
            "queue": task.queue_name,
            "priority": results.priority_of(task.priority),
            "max_attempts": self.options.get("MAX_ATTEMPTS"),
            "timeout": self.options.get("TIMEOUT"),
            "publisher": self._publisher(),
            **options_of(task),
        }
        if isinstance(run_after, timedelta):
            options["delay"] = run_after
        elif run_after is not None:
            options["run_at"] = run_after if timezone.is_aware(run_after) else timezone.make_aware(run_after)
        return options

    def _publisher(self) -> Publisher | None:
        url = self.options.get("AMQP_URL")
        if url is None:
            return None
        if url not in self._publishers:
            self._publishers[url] = Publisher(url)
        return self._publishers[url]

    @contextmanager
    def schema(self) -> Iterator[None]:
        """Says what to do where there is no PostgreSQL, or no schema tenon in it."""
        if problem := self.wrong_database():
            raise ImproperlyConfigured(problem)
        try:
            yield
        except ProgrammingError as error:
            cause: Any = error.__cause__
            code = getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None)  # psycopg, psycopg2
            if code not in _NOT_THERE or "tenon" not in str(error):
                raise
            name = connections[self.database].settings_dict["NAME"]
            raise ProgrammingError(
                f'{str(error).splitlines()[0]} in the database "{name}": run manage.py tenon setup, '
                'or in tests call_command("tenon", "setup")'
            ) from error

    def wrong_options(self) -> str | None:
        """What is wrong with them, if anything."""
        unknown = sorted(set(self.options) - set(OPTIONS))
        if not unknown:
            return None
        where = f'TASKS["{self.alias}"]["OPTIONS"]'
        are = "is not an option" if len(unknown) == 1 else "are not options"
        return f"{where}: {', '.join(unknown)} {are}; {', '.join(sorted(OPTIONS))} are"

    def wrong_database(self) -> str | None:
        """What is wrong with it, if anything."""
        option = f'TASKS["{self.alias}"]["OPTIONS"]["DATABASE"]'
        if self.database not in connections.settings:
            there = ", ".join(sorted(connections.settings))
            return f'{option}: there is no "{self.database}" in DATABASES; there are: {there}'
        if connections[self.database].vendor == "postgresql":
            return None
        engine = connections.settings[self.database]["ENGINE"]
        return (
            f'DATABASES["{self.database}"] is {engine}; tenon needs django.db.backends.postgresql '
            f"(or name another alias in {option})"
        )

    def check(self, **kwargs: Any) -> Iterable[checks.CheckMessage]:
        """manage.py check."""
        yield from super().check(**kwargs)
        if problem := self.wrong_options():
            yield checks.Error(problem, id="tenon.E001")
        if problem := self.wrong_database():
            yield checks.Error(problem, id="tenon.E002")
        if not _installed(settings.INSTALLED_APPS):
            hint = 'add "tenon.django", for manage.py tenon_worker'
            yield checks.Warning("tenon.django is not in INSTALLED_APPS", hint=hint, id="tenon.W001")


def _must_fit(task: Task[Any, Any], args: Any, kwargs: Any) -> None:
    """TypeError names the argument."""
    given = (None, *args) if task.takes_context else args
    try:
        inspect.signature(task.func).bind(*given, **kwargs)
    except TypeError as error:
        raise TypeError(f"{task.module_path}: {error}") from None


def _installed(apps: Sequence[str]) -> bool:
    return any(app.startswith("tenon.django") for app in apps)
