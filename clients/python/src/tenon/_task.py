"""Tasks: functions with a name in the database. The decorator, and what one does with what it returns."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, Protocol, TypeVar, Unpack, overload

from tenon import _enqueue
from tenon._context import Context
from tenon._options import ManyOptions, OneOptions, Options, checked
from tenon._payload import decode
from tenon._secrets import Secret, sealed

P = TypeVar("P")
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
        self, function: Callable[..., R], kind: str | None, options: Options, secret: Secret | None = None
    ) -> None:
        if secret not in (None, "payload", "all"):
            raise ValueError(f"secret={secret!r}: 'payload' or 'all'")
        self.function = function
        self.secret = secret
        self.kind = kind or function.__name__
        self.options = checked(options)
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
        if self._payload_type is None:
            self._payload_type = _payload_type(self.function, self._parameters[0].name)
        payload = context.payload
        if self._payload_type is not Any:
            payload = decode(self._payload_type, payload)
        return self.function(payload, context) if len(self._parameters) == 2 else self.function(payload)

    def _with(self, options: Any) -> dict[str, Any]:
        given = {**self.options, **options}
        if self.secret and given.get("on_conflict") == "merge":
            raise ValueError(f"{self.kind}: the database cannot merge payloads that are encrypted; use 'replace'")
        return given

    def _given(self, payload: Any) -> Any:
        plain = {} if payload is None else payload
        return sealed(plain, self.kind, "payload") if self.secret else plain

    def _all_given(self, payloads: Iterable[Any]) -> list[Any]:
        return [sealed(one, self.kind, "payload") for one in payloads] if self.secret else list(payloads)


def _payload_type(function: Callable[..., Any], name: str) -> Any:
    """Looked up late, when all classes of the module are there."""
    return typing.get_type_hints(function).get(name, Any)


class App:
    """A set of tasks, each kind once. Most programs need only the one behind `tenon.task`."""

    def __init__(self) -> None:
        self.tasks: dict[str, Runnable] = {}

    @overload
    def task(self, function: Callable[[], R], /) -> Task[None, R]: ...
    @overload
    def task(self, function: Callable[[P], R], /) -> Task[P, R]: ...
    @overload
    def task(self, function: Callable[[P, Context], R], /) -> Task[P, R]: ...
    @overload
    def task(
        self, /, *, kind: str | None = None, secret: Secret | None = None, **options: Unpack[Options]
    ) -> Decorator: ...

    def task(
        self,
        function: Any = None,
        /,
        *,
        kind: str | None = None,
        secret: Secret | None = None,
        **options: Unpack[Options],
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


def tasks_of(found: Any) -> dict[str, Runnable]:
    """The tasks of an app, a task, or several tasks."""
    if isinstance(found, App):
        return found.tasks
    if isinstance(found, Task):
        return {found.kind: found}
    if isinstance(found, Sequence) and all(isinstance(t, Task) for t in found):
        return {t.kind: t for t in found}
    raise TypeError(f"{found!r} is not a tenon.App, a task or a list of tasks")
