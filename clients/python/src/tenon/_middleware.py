"""Middleware: what surrounds each run of a task in this process."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from inspect import isgeneratorfunction
from typing import Any, TypeVar

from tenon._context import Context

M = TypeVar("M", bound=Callable[[Context], object])
_chain: list[Callable[[Context], AbstractContextManager[object]]] = []


def middleware(function: M) -> M:
    """Have `function(context)` surround each run: a generator function that yields once, or one that returns a context
    manager. The first one is the outermost. It does not block: coroutines run within it, too.

    What a task raises comes out of the `yield`, also Snooze and Suspended, which are not failures: raise it again.
    """
    make: Any = contextmanager(function) if isgeneratorfunction(function) else function
    _chain.append(make)
    return function


def around(context: Context) -> AbstractContextManager[object]:
    """All of them."""
    return _all(context) if _chain else nullcontext()


@contextmanager
def _all(context: Context) -> Generator[None, None, None]:
    with ExitStack() as stack:
        for each in _chain:
            stack.enter_context(each(context))
        yield


def remove_middleware(function: Callable[[Context], object]) -> None:
    """For tests."""
    _chain[:] = [each for each in _chain if getattr(each, "__wrapped__", each) is not function]
