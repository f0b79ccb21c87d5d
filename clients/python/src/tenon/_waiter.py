"""Waiting for the ends of tasks: any number of threads, or of coroutines, on one connection."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import socket
import threading
import time
import weakref
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from concurrent.futures import wait as wait_for_futures
from typing import Any, Generic, TypeVar

from tenon._awaited import Awaited, Question, TaskResult
from tenon._connections import connection
from tenon._listening import AsyncListener, BlockingListener, Listener, async_listener, blocking_listener
from tenon._outcomes import Span
from tenon._steps import blocking
from tenon._wait import failure, seconds

F = TypeVar("F", "Future[TaskResult]", "asyncio.Future[TaskResult]")


class _Waiting(Generic[F]):
    """The callers that wait for each task, and the changes that the owner of the connection does not know yet."""

    def __init__(self) -> None:
        self._futures: dict[int, list[F]] = {}
        self._new: list[int] = []
        self._gone: list[int] = []

    def come(self, task_id: int, future: F) -> None:
        self._futures.setdefault(task_id, []).append(future)
        self._new.append(task_id)

    def go(self, task_id: int, future: F) -> None:
        left = self._futures.get(task_id, [])
        if future in left:
            left.remove(future)
            if not left:
                del self._futures[task_id]
                self._gone.append(task_id)

    def next_question(self, awaited: Awaited) -> Question | None:
        now = time.monotonic()
        awaited.add(self._new, now)
        awaited.drop(i for i in self._gone if i not in self._futures)
        self._new, self._gone = [], []
        return awaited.question(now)

    def tell(self, result: TaskResult) -> None:
        for future in self._futures.pop(result.id, []):
            if not future.done():
                future.set_result(result)

    def refused(self, ids: list[int], awaited: Awaited, error: Exception) -> list[list[int]]:
        """What to ask for again: each half of many, so that one that must be is refused alone."""
        if half := len(ids) // 2:
            return [ids[:half], ids[half:]]
        awaited.drop(ids)
        for future in self._futures.pop(ids[0], []):
            if not future.done():
                future.set_exception(error)
        return []

    def fail(self, error: Exception) -> None:
        """All of them; each gets an exception of its own, because each raises it."""
        for task_id, futures in self._futures.items():
            for future in futures:
                if not future.done():
                    future.set_exception(_failure(task_id, error))
        self.__init__()  # type: ignore[misc]


def _failure(task_id: int, error: Exception) -> Exception:
    if isinstance(error, (TypeError, ValueError)):  # no connection that can be waited on
        return error
    found = failure([task_id], error)
    found.__cause__ = error
    return found


def _closing(made: Any, listener: Listener | None) -> Any:
    """What close() of that connection returns, if it was made for the waiter: no pool, and nobody else waits on it."""
    if isinstance(made, str):
        made = connection(made).conn  # Django's
    if not (listener and listener.is_taken()) and not type(made).__name__.endswith("Pool"):
        return made.close()
    return None


def _left(awaited: Awaited) -> float | None:
    """How long there is no question, if nothing happens."""
    due = awaited.due()
    return None if due is None else max(due - time.monotonic(), 0.001)


class Waiter:
    """Lets any number of threads wait for tasks on one connection, which a thread of its own listens on.

    `connect` makes that connection, like that of wait(), or returns an alias of Django's databases. It is called when
    somebody waits for the first time, and again after the connection was lost. One for each process.
    """

    def __init__(self, connect: Callable[[], Any]) -> None:
        self._connect = connect
        self._closed = False
        self._begin_anew()
        _waiters.add(self)

    def wait(self, task_id: int, timeout: Span | None = None) -> TaskResult:
        """Wait until this task has ended, or the time is over: then it is `unfinished`.

        A ConnectionError says that the connection was lost, or cannot be made; the task may be waited for again. The
        driver's error says, for instance, that another role has enqueued it.
        """
        blocking()
        future: Future[TaskResult] = Future()
        self._come(task_id, future)
        try:
            ended = wait_for_futures([future], None if timeout is None else max(seconds(timeout), 0)).done
            return future.result() if ended else TaskResult(task_id, "unfinished")
        finally:
            with self._lock:
                self._waiting.go(task_id, future)

    def close(self) -> None:
        """End the connection, and its thread. Callers that still wait get a ConnectionError."""
        self._closed = True
        with self._lock:
            thread = self._thread
            self._wake()
        if thread is not None:
            thread.join()

    def __enter__(self) -> Waiter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begin_anew(self) -> None:
        """Also in a fork, before anything else runs: it has the thread's connection, but not the thread."""
        self._lock = threading.Lock()
        self._waiting: _Waiting[Future[TaskResult]] = _Waiting()
        self._thread: threading.Thread | None = None
        self._bell: socket.socket | None = None

    def _come(self, task_id: int, future: Future[TaskResult]) -> None:
        with self._lock:
            if self._closed:
                raise ValueError("the waiter was closed")
            self._waiting.come(task_id, future)
            if self._thread is None:
                heard, self._bell = socket.socketpair()
                heard.setblocking(False)
                self._bell.setblocking(False)
                self._thread = threading.Thread(target=self._run, args=(heard,), name="tenon-waiter", daemon=True)
                self._thread.start()
            self._wake()

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError):  # it is full: the thread wakes anyhow
            if self._bell is not None:
                self._bell.send(b"!")

    def _run(self, heard: socket.socket) -> None:
        error: Exception = ConnectionError("the waiter was closed")
        try:
            self._use(self._connect(), heard)
        except Exception as found:
            error = found
        with self._lock:  # later callers begin again
            self._waiting.fail(error)
            self._thread = None
            for end in (heard, self._bell):
                if end is not None:
                    end.close()
            self._bell = None

    def _use(self, made: Any, heard: socket.socket) -> None:
        listener: BlockingListener | None = None
        try:
            listener = blocking_listener(made)
            listener.open()
            self._serve(listener, heard)
        finally:
            if listener is not None:
                with contextlib.suppress(Exception):
                    listener.close()
            with contextlib.suppress(Exception):
                closing = _closing(made, listener)
                if asyncio.iscoroutine(closing):  # it was refused
                    asyncio.run(closing)

    def _serve(self, listener: BlockingListener, heard: socket.socket) -> None:
        awaited = Awaited(self._tell)
        while not self._closed:
            with self._lock:
                question = self._waiting.next_question(awaited)
            if question is not None:
                self._ask(listener, awaited, question)
            else:
                awaited.heard(listener.hear(_left(awaited), [heard]))
                with contextlib.suppress(BlockingIOError):
                    heard.recv(4096)

    def _ask(self, listener: BlockingListener, awaited: Awaited, question: Question) -> None:
        sql, ids = question
        parts = [ids]
        while parts and not self._closed:
            ids = parts.pop()
            try:
                awaited.answer(listener.rows(sql, [ids]))
            except Exception as error:
                if listener.lost():
                    raise
                with self._lock:
                    parts += self._waiting.refused(ids, awaited, error)

    def _tell(self, result: TaskResult) -> None:
        with self._lock:
            self._waiting.tell(result)


_waiters: weakref.WeakSet[Waiter] = weakref.WeakSet()


def _begin_all_anew() -> None:
    for waiter in _waiters:
        waiter._begin_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_all_anew)


class AsyncWaiter:
    """Lets any number of coroutines wait for tasks on one connection.

    `connect` makes that connection, like that of await_(). It is called when somebody waits for the first time, and
    again after the connection was lost. One for each event loop.
    """

    def __init__(self, connect: Callable[[], Awaitable[Any]]) -> None:
        self._connect = connect
        self._closed = False
        self._waiting: _Waiting[asyncio.Future[TaskResult]] = _Waiting()
        self._task: asyncio.Task[None] | None = None

    async def wait(self, task_id: int, timeout: Span | None = None) -> TaskResult:
        """As Waiter.wait()."""
        if self._closed:
            raise ValueError("the waiter was closed")
        future: asyncio.Future[TaskResult] = asyncio.get_running_loop().create_future()
        self._waiting.come(task_id, future)
        if self._task is None:
            self._wake = asyncio.Event()
            self._task = asyncio.create_task(self._run(self._wake), name="tenon-waiter")
        self._wake.set()
        try:
            ended, _ = await asyncio.wait([future], timeout=None if timeout is None else max(seconds(timeout), 0))
            return future.result() if ended else TaskResult(task_id, "unfinished")
        finally:
            self._waiting.go(task_id, future)
            if not future.cancel():
                future.exception()  # it was seen

    async def close(self) -> None:
        """End the connection. Callers that still wait get a ConnectionError."""
        self._closed = True
        if self._task is not None:
            self._wake.set()
            await asyncio.wait([self._task])

    async def __aenter__(self) -> AsyncWaiter:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _run(self, wake: asyncio.Event) -> None:
        error: Exception = ConnectionError("the waiter was closed")
        try:
            await self._use(await self._connect(), wake)
        except Exception as found:
            error = found
        finally:
            self._waiting.fail(error)  # later callers begin again
            self._task = None

    async def _use(self, made: Any, wake: asyncio.Event) -> None:
        listener: AsyncListener | None = None
        try:
            listener = await async_listener(made)
            await listener.open(wake)
            await self._serve(listener)
        finally:
            if listener is not None:
                with contextlib.suppress(Exception):
                    await listener.close()
            with contextlib.suppress(Exception):
                closing = _closing(made, listener)
                if inspect.isawaitable(closing):
                    await closing

    async def _serve(self, listener: AsyncListener) -> None:
        awaited = Awaited(self._waiting.tell)
        while not self._closed:
            question = self._waiting.next_question(awaited)
            if question is not None:
                await self._ask(listener, awaited, question)
            else:
                awaited.heard(await listener.hear(_left(awaited)))

    async def _ask(self, listener: AsyncListener, awaited: Awaited, question: Question) -> None:
        sql, ids = question
        parts = [ids]
        while parts and not self._closed:
            ids = parts.pop()
            try:
                awaited.answer(await listener.rows(sql, [ids]))
            except Exception as error:
                if listener.lost():
                    raise
                parts += self._waiting.refused(ids, awaited, error)
