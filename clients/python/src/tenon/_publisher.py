"""Wake-ups through RabbitMQ: after the commit, from a thread of its own, and never waited for."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import importlib.util
import os
import queue
import threading
import time
import weakref
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, Protocol

WAITING_MAX = 10_000
"""So many wake-ups wait for RabbitMQ at most; the workers' poll finds the tasks of the others."""
WORTH_S = 10.0
"""An older wake-up is worth nothing: the poll has found its task."""
CONNECT_S = 2.0
BACKOFF_S = 1.0
IDLE_S = 5.0


class WakeUp(NamedTuple):
    """One message: the id of a task, and where it goes."""

    id: int
    exchange: str
    routing_key: str


class _Channel(Protocol):
    def publish(self, wake_up: WakeUp) -> None: ...

    def idle(self) -> None: ...

    def close(self) -> None: ...


class Publisher:
    """Publishes the wake-ups of what was enqueued, so that a worker starts at once.

    It needs `pika` or `aio-pika`. Nothing here blocks or raises because of RabbitMQ, so it may be used from asyncio
    too; a wake-up that is lost costs a second at most, never a task. One for each process; threads share it.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._open = _pick_library()
        self._begin_anew()
        _publishers.add(self)
        atexit.register(self.close)

    def _begin_anew(self) -> None:
        """In a child of os.fork(), too: it has neither the thread nor what was enqueued, nor whoever has the lock."""
        self._pending: weakref.WeakKeyDictionary[Any, list[WakeUp]] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()
        self._queue: queue.Queue[tuple[float, WakeUp] | None] = queue.Queue(WAITING_MAX)
        self._thread: threading.Thread | None = None

    def publish(self, conn: Any) -> None:
        """Publish what was enqueued on this connection. Call it after the commit.

        SQLAlchemy's sessions and Django do it by themselves, and so does a connection that commits each statement.
        """
        self._send(self._take(conn))

    def forget(self, conn: Any) -> None:
        """Drop what was enqueued on this connection: it was rolled back. (To publish it does no harm.)"""
        self._take(conn)

    def close(self, timeout: float = 2.0) -> None:
        """Publish what waits, for so many seconds at most, and end the thread."""
        atexit.unregister(self.close)
        if self._thread is not None:
            with contextlib.suppress(queue.Full):
                self._queue.put_nowait(None)
            self._thread.join(timeout)
        self._thread = None

    def hold(self, conn: Any, wake_ups: list[WakeUp]) -> None:
        """Keep them until publish()."""
        with self._lock:
            self._pending.setdefault(key_of(conn), []).extend(wake_ups)

    def _take(self, conn: Any) -> list[WakeUp]:
        with self._lock:
            return self._pending.pop(key_of(conn), [])

    def _send(self, wake_ups: list[WakeUp]) -> None:
        if wake_ups:
            self._ensure_thread()
        for wake_up in wake_ups:
            with contextlib.suppress(queue.Full):
                self._queue.put_nowait((time.monotonic(), wake_up))

    def _ensure_thread(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="tenon-publisher", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        channel: _Channel | None = None
        waiting = self._queue
        while True:
            try:
                item = waiting.get(timeout=IDLE_S)
            except queue.Empty:
                channel = _attempt(channel, None)
                continue
            if item is None:
                if channel is not None:
                    channel.close()
                return
            channel = self._deliver(channel, *item)

    def _deliver(self, channel: _Channel | None, since: float, wake_up: WakeUp) -> _Channel | None:
        """The channel may have died while nothing was sent: so a second one, and after that one each second."""
        for trial in (1, 2):
            if time.monotonic() - since > WORTH_S:
                return channel
            if channel is None:
                channel = self._connect()
            if channel is not None:
                channel = _attempt(channel, wake_up)
                if channel is not None:
                    return channel
            if trial == 2:
                time.sleep(BACKOFF_S)
        return None

    def _connect(self) -> _Channel | None:
        try:
            return self._open(self._url)
        except Exception:
            return None


_publishers: weakref.WeakSet[Publisher] = weakref.WeakSet()


def _begin_all_anew() -> None:
    for publisher in _publishers:
        publisher._begin_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_all_anew)


def key_of(conn: Any) -> Any:
    """What outlives the call and can be referred to weakly: of asyncpg's pool, the connection behind the proxy."""
    return conn._con if type(conn).__name__ == "PoolConnectionProxy" else conn


def _attempt(channel: _Channel | None, wake_up: WakeUp | None) -> _Channel | None:
    """Publish, or with None keep the connection alive; None when it is broken."""
    if channel is None:
        return None
    try:
        if wake_up is None:
            channel.idle()
        else:
            channel.publish(wake_up)
        return channel
    except Exception:
        with contextlib.suppress(Exception):
            channel.close()
        return None


def _pick_library() -> Callable[[str], _Channel]:
    if importlib.util.find_spec("pika") is not None:
        return _Pika
    if importlib.util.find_spec("aio_pika") is not None:
        return _AioPika
    raise ImportError("tenon.Publisher needs pika or aio-pika: pip install pika")


class _Pika:
    def __init__(self, url: str) -> None:
        import pika

        settings = pika.URLParameters(url)
        settings.socket_timeout = CONNECT_S
        settings.stack_timeout = CONNECT_S
        settings.blocked_connection_timeout = CONNECT_S
        self._connection = pika.BlockingConnection(settings)
        self._channel = self._connection.channel()

    def publish(self, wake_up: WakeUp) -> None:
        self._channel.basic_publish(wake_up.exchange, wake_up.routing_key, b"%d" % wake_up.id)

    def idle(self) -> None:
        self._connection.process_data_events(0)

    def close(self) -> None:
        self._connection.close()


class _AioPika:
    def __init__(self, url: str) -> None:
        import aio_pika

        self._library = aio_pika
        self._runner = asyncio.Runner()
        self._exchanges: dict[str, Any] = {}
        try:
            self._wait(self._open(url))
        except BaseException:
            self._runner.close()
            raise

    async def _open(self, url: str) -> None:
        self._connection = await self._library.connect(url, timeout=CONNECT_S)
        self._channel = await self._connection.channel(publisher_confirms=False)

    def _wait(self, awaitable: Awaitable[Any]) -> Any:
        async def limited() -> Any:
            return await asyncio.wait_for(awaitable, CONNECT_S)

        return self._runner.run(limited())

    def publish(self, wake_up: WakeUp) -> None:
        exchange = self._exchanges.get(wake_up.exchange)
        if exchange is None:
            exchange = self._wait(self._channel.get_exchange(wake_up.exchange, ensure=False))
            self._exchanges[wake_up.exchange] = exchange
        message = self._library.Message(b"%d" % wake_up.id)
        self._wait(exchange.publish(message, wake_up.routing_key, mandatory=False))

    def idle(self) -> None:
        self._wait(asyncio.sleep(0.01))  # heartbeats

    def close(self) -> None:
        try:
            self._wait(self._connection.close())
        finally:
            self._runner.close()


class _Default:
    publisher: Publisher | None = None


def set_publisher(publisher: Publisher | None) -> None:
    """The publisher of all tasks that are enqueued without one of their own; None: none."""
    _Default.publisher = publisher


def default_publisher() -> Publisher | None:
    """What set_publisher() set."""
    return _Default.publisher
