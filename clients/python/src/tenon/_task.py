"""Tasks: functions with a name in the database. The decorator, and what one does with what it returns."""

from __future__ import annotations

import inspect
import json
import re
import typing
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, Protocol, TypeVar, Unpack, overload

from tenon import _context, _enqueue
from tenon._context import Context
from tenon._options import (
    KindOptions,
    LimitOptions,
    ManyOptions,
    OneOptions,
    QueueOptions,
    ScheduleOptions,
    checked,
    known,
    of_kind,
)
from tenon._outcomes import InvalidPayload
from tenon._payload import decode, place_of, storable
from tenon._secrets import Secret, sealed

P = TypeVar("P")
T = TypeVar("T")
R = TypeVar("R")
_KIND = re.compile(r"[A-Za-z0-9_.:-]{1,100}")


class Runnable(Protocol):
    """What a pool child can run."""

    kind: str
    is_async: bool

    def call(self, context: Context) -> Any:
        """The result, or if is_async a coroutine that gives it."""


class Task(Generic[P, R]):
    """A kind of task: enqueue() makes one, a worker runs the function with its payload. It can be called, too."""

    def __init__(
        self, function: Callable[..., R], kind: str | None, options: KindOptions, secret: Secret | None = None
    ) -> None:
        if secret not in (None, "payload", "all"):
            raise ValueError(f"secret={secret!r}: 'payload' or 'all'")
        self.function = function
        self.secret = secret
        self.kind = kind or function.__name__
        self.of_kind, rest = of_kind(options)
        self.options = checked(rest)
        self.is_async = inspect.iscoroutinefunction(function)
        if not _KIND.fullmatch(self.kind):
            raise ValueError(f"kind {self.kind!r}: use 1 to 100 of A-Z a-z 0-9 _ . : -")
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__
        self.__module__ = function.__module__
        self.__wrapped__ = function
        self._parameters = list(inspect.signature(function).parameters.values())
        self._payload_type: Any = None
        if len(self._parameters) > 2:
            raise TypeError(f"{self.kind}: a task takes a payload and a tenon.Context, nothing else")

    def __call__(self, *args: Any, **kwargs: Any) -> R:
        """The function itself, here and now."""
        if _context.for_calls is None:
            return self.function(*args, **kwargs)
        with _context.called(self.kind):
            return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<tenon task {self.kind}>"

    def enqueue(self, conn: Any, payload: P | None = None, **options: Unpack[OneOptions]) -> int:
        """Enqueue in the transaction of `conn`; returns the task's id. It runs if that commits, never if not."""
        return _enqueue.enqueue(conn, self.kind, self._given(payload), self._with(options))

    async def aenqueue(self, conn: Any, payload: P | None = None, **options: Unpack[OneOptions]) -> int:
        """The same, on an asynchronous connection."""
        return await _enqueue.aenqueue(conn, self.kind, self._given(payload), self._with(options))

    def enqueue_many(self, conn: Any, payloads: Iterable[P], **options: Unpack[ManyOptions]) -> list[int]:
        """Enqueue one for each payload, at most 100,000, in one statement; returns their ids."""
        return _enqueue.enqueue_many(conn, self.kind, self._all_given(payloads), self._with(options))

    async def aenqueue_many(self, conn: Any, payloads: Iterable[P], **options: Unpack[ManyOptions]) -> list[int]:
        """The same, on an asynchronous connection."""
        return await _enqueue.aenqueue_many(conn, self.kind, self._all_given(payloads), self._with(options))

    def call(self, context: Context) -> Any:
        """Run the function on the payload of a task line. For pool children and tests."""
        if not self._parameters:
            return self.function()
        payload = self._decoded(context.payload)
        return self.function(payload, context) if len(self._parameters) == 2 else self.function(payload)

    def _with(self, options: Any) -> dict[str, Any]:
        given = {**self.options, **options}
        if self.secret and given.get("on_conflict") == "merge":
            raise ValueError(f"{self.kind}: the database cannot merge payloads that are encrypted; use 'replace'")
        return given

    def _decoded(self, payload: Any) -> Any:
        if self._payload_type is None:
            self._payload_type = _payload_type(self.function, self._parameters[0].name)
        return payload if self._payload_type is Any else decode(self._payload_type, payload)

    def check(self, payload: Any) -> None:
        """TypeError, which names the place, if a payload is not JSON or is not what the function takes."""
        try:
            text = storable(payload)
        except (TypeError, ValueError) as error:
            raise TypeError(f"{self.kind}: {place_of(payload)} cannot be stored as JSON: {error}") from error
        if not self._parameters:
            if payload not in (None, {}):
                raise TypeError(f"{self.kind}: its function takes no payload, and was given {payload!r:.100}")
            return
        try:
            self._decoded(json.loads(text))
        except InvalidPayload as error:
            raise TypeError(f"{self.kind}: {error}") from error

    def _given(self, payload: Any) -> Any:
        plain: Any = {} if payload is None else payload
        self.check(plain)
        return sealed(plain, self.kind, "payload") if self.secret else plain

    def _all_given(self, payloads: Iterable[Any]) -> list[Any]:
        return [self._given(one) for one in payloads]


def _payload_type(function: Callable[..., Any], name: str) -> Any:
    """Looked up late, when all classes of the module are there."""
    return typing.get_type_hints(function).get(name, Any)


class App:
    """A set of tasks, each kind once. Most programs need only the one behind `tenon.task`."""

    def __init__(self) -> None:
        self.tasks: dict[str, Runnable] = {}
        self.schedules: dict[str, dict[str, Any]] = {}
        self.limits: dict[str, dict[str, Any]] = {}
        self.queues: dict[str, dict[str, Any]] = {}

    @overload
    def task(self, function: Callable[[], R], /) -> Task[None, R]: ...
    @overload
    def task(self, function: Callable[[P], R], /) -> Task[P, R]: ...
    @overload
    def task(self, function: Callable[[P, Context], R], /) -> Task[P, R]: ...
    @overload
    def task(
        self, /, *, kind: str | None = None, secret: Secret | None = None, **options: Unpack[KindOptions]
    ) -> Decorator: ...

    def task(
        self,
        function: Any = None,
        /,
        *,
        kind: str | None = None,
        secret: Secret | None = None,
        **options: Unpack[KindOptions],
    ) -> Any:
        """Make a function a task. `kind` is its name in the database, by default the function's; `secret` says what of
        it is encrypted, with the keys of set_keys(): its `payload`, or `all` (also results, progress and steps). The
        other options are those of enqueue(), for each task of the kind that does not say otherwise.
        """

        def wrap(function: Callable[..., Any]) -> Task[Any, Any]:
            made: Task[Any, Any] = Task(function, kind, options, secret)
            self.add(made)
            return made

        return wrap if function is None else wrap(function)

    def periodic(self, *, name: str | None = None, **options: Unpack[ScheduleOptions]) -> Callable[[T], T]:
        """Declare a schedule of a task, in `cron` or `every`: a decorator above @task. sync() sets it.

        Its name is the task's kind, unless it is given: a task may have several.
        """
        if ("cron" in options) == ("every" in options):
            raise TypeError("periodic() wants cron or every")
        known(options, ScheduleOptions)

        def wrap(task: T) -> T:
            kind = getattr(task, "kind", None) or getattr(task, "module_path", None)
            if kind is None:
                raise TypeError("@periodic goes above @task")
            which = name or str(kind)
            if self.schedules.get(which, {}).get("kind", kind) != kind:
                raise ValueError(f"two schedules of the name {which!r}: give one another name=...")
            given: dict[str, Any] = dict(options)
            if isinstance(task, Task):
                task.check({} if given.get("payload") is None else given["payload"])
            elif given.get("payload") is None:  # one of Django's
                given["payload"] = {"args": [], "kwargs": {}}
            self.schedules[which] = {"kind": str(kind), **given}
            return task

        return wrap

    def limit(self, name: str, **options: Unpack[LimitOptions]) -> str:
        """Declare a limit; sync() sets it. Returns the name, for `limit_keys` of tasks."""
        known(options, LimitOptions)
        self.limits[name] = dict(options)
        return name

    def queue(self, name: str, **options: Unpack[QueueOptions]) -> str:
        """Declare a queue's defaults; sync() sets them. Returns the name, for `queue` of tasks."""
        known(options, QueueOptions)
        self.queues[name] = dict(options)
        return name

    def add(self, task: Runnable) -> None:
        """ValueError if another has the kind."""
        known = self.tasks.get(task.kind)
        if isinstance(known, Task) and isinstance(task, Task) and not _same(known, task):
            raise ValueError(f"two tasks of the kind {task.kind!r}: give one another kind=...")
        self.tasks[task.kind] = task


def _same(a: Task[Any, Any], b: Task[Any, Any]) -> bool:
    """A module that is loaded again makes its tasks again."""
    return _place(a) == _place(b)


def _place(task: Task[Any, Any]) -> tuple[str, str]:
    return task.function.__module__, task.function.__qualname__


class Decorator(Protocol):
    """What `task(...)` with options returns."""

    @overload
    def __call__(self, function: Callable[[], R], /) -> Task[None, R]: ...
    @overload
    def __call__(self, function: Callable[[P], R], /) -> Task[P, R]: ...
    @overload
    def __call__(self, function: Callable[[P, Context], R], /) -> Task[P, R]: ...


default_app = App()
task = default_app.task
periodic = default_app.periodic
limit = default_app.limit
queue = default_app.queue


def tasks_of(found: Any) -> dict[str, Runnable]:
    """The tasks of an app, a task, or several tasks."""
    if isinstance(found, App):
        return found.tasks
    if isinstance(found, Task):
        return {found.kind: found}
    if isinstance(found, Sequence) and all(isinstance(t, Task) for t in found):
        return {t.kind: t for t in found}
    raise TypeError(f"{found!r} is not a tenon.App, a task or a list of tasks")
