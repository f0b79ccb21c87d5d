"""Wake-ups through RabbitMQ: after the commit, from a thread of its own, and never waited for."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import importlib.util
import logging
import os
import queue
import threading
import time
import weakref
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, Protocol

from tenon._amqp_url import AmqpUrl

WAITING_MAX = 10_000
"""The maximum number of wake-ups that wait for RabbitMQ; the workers' poll finds the tasks of the others."""
WORTH_S = 10.0
"""An older wake-up is worth nothing: the poll has found its task."""
CONNECT_S = 2.0
BACKOFF_S = 1.0
"""While RabbitMQ is away, the first wait before the next try; doubled each time ..."""
BACKOFF_MAX_S = 30.0
"""... up to this."""
IDLE_S = 5.0

logger = logging.getLogger("tenon")


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

    It needs `pika` or `aio-pika`, and takes `url` as tenon's programs do: one host or several, which are tried in
    turn, or `none`, which publishes nothing. Nothing here blocks or raises because of RabbitMQ, so it may be used from
    asyncio too. While RabbitMQ is known to be away, which a warning in the log says once, tasks are left to PostgreSQL
    to announce; a wake-up that is lost before that costs a second at most, never a task. One for each process; threads
    share it.
    """

    def __init__(self, url: str) -> None:
        self._url = AmqpUrl(url)
        self._open = _pick_library() if self._url.urls else None
        self._begin_anew()
        _publishers.add(self)
        atexit.register(self.close)

    def announces(self) -> bool:
        """Whether it publishes what is enqueued now: not while RabbitMQ is known to be away."""
        return self._open is not None and not self._away

    def _begin_anew(self) -> None:
        """In a child of os.fork(), too: it has neither the thread nor what was enqueued, nor whoever has the lock."""
        self._pending: weakref.WeakKeyDictionary[Any, list[WakeUp]] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()
        self._queue: queue.Queue[tuple[float, WakeUp] | None] = queue.Queue(WAITING_MAX)
        self._thread: threading.Thread | None = None
        self._away = False
        self._told = False
        self._backoff = BACKOFF_S
        self._again = 0.0  # when it is tried again
        self._since = 0.0  # when it was connected

    def publish(self, conn: Any) -> None:
        """Publish what was enqueued on this connection. Call it after the commit.

        SQLAlchemy's sessions and Django do it by themselves, and so does a connection that commits each statement.
        """
        self._send(self._take(conn))

    def forget(self, conn: Any) -> None:
        """Drop what was enqueued on this connection: it was rolled back. (To publish it does no harm.)"""
        self._take(conn)

    def close(self, timeout: float = 2.0) -> None:
        """Publish the waiting wake-ups, within this many seconds, and end the thread."""
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
                item = waiting.get(timeout=max(self._again - time.monotonic(), 0.01) if self._away else IDLE_S)
            except queue.Empty:
                channel = self._deliver(channel, None)
                continue
            if item is None:
                _close(channel)
                return
            since, wake_up = item
            if time.monotonic() - since <= WORTH_S:
                channel = self._deliver(channel, wake_up)

    def _deliver(self, channel: _Channel | None, wake_up: WakeUp | None) -> _Channel | None:
        """Publish it, or with None keep the connection alive, or see whether RabbitMQ is back.

        A channel that fails is replaced once, because it may have died while nothing was sent. While RabbitMQ is
        away, wake-ups are dropped: the workers' poll finds their tasks.
        """
        if self._away and time.monotonic() < self._again:
            return channel
        is_new = channel is None
        while True:
            try:
                if channel is None and (wake_up is not None or self._away):
                    channel = self._connect()
                if channel is not None:
                    self._use(channel, wake_up)
                return channel
            except _Blocked as error:
                self._is_away(error)
                return channel
            except Exception as error:
                _close(channel)
                channel = None
                if is_new:
                    self._is_away(error)
                    return None
                is_new = True

    def _connect(self) -> _Channel:
        """To the first host that answers; the one that had to be left is tried last."""
        assert self._open is not None
        urls = self._url.urls
        for i in range(len(urls)):
            urls.append(urls.pop(0))
            try:
                channel = self._open(urls[-1])
                self._since = time.monotonic()
                return channel
            except Exception:
                if i + 1 == len(urls):
                    raise
        raise AssertionError("no hosts")

    def _use(self, channel: _Channel, wake_up: WakeUp | None) -> None:
        if wake_up is None:
            channel.idle()
        else:
            channel.publish(wake_up)
            if time.monotonic() - self._since > CONNECT_S:  # that it blocks, it says only after the first
                self._is_back()
        self._away = False

    def _is_back(self) -> None:
        self._backoff = BACKOFF_S
        if self._told:
            logger.info("RabbitMQ is back at %s", self._url.where)
        self._told = False

    def _is_away(self, error: Exception) -> None:
        self._again = time.monotonic() + self._backoff
        self._backoff = min(2 * self._backoff, BACKOFF_MAX_S)
        if not self._told:
            why = self._url.without_password(f"{type(error).__name__}: {error}" if str(error) else repr(error))
            logger.warning(
                "could not publish wake-ups to RabbitMQ at %s: %s; PostgreSQL notifies the workers until it is back",
                self._url.where,
                why[:500],
            )
        self._told = True
        self._away = True  # last: whoever sees it finds the warning in the log


_publishers: weakref.WeakSet[Publisher] = weakref.WeakSet()


def _begin_all_anew() -> None:
    for publisher in _publishers:
        publisher._begin_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_all_anew)


def key_of(conn: Any) -> Any:
    """What outlives the call and can be referred to weakly: of asyncpg's pool, the connection behind the proxy."""
    return conn._con if type(conn).__name__ == "PoolConnectionProxy" else conn


def _close(channel: _Channel | None) -> None:
    if channel is not None:
        with contextlib.suppress(Exception):
            channel.close()


def _pick_library() -> Callable[[str], _Channel]:
    if importlib.util.find_spec("pika") is not None:
        return _Pika
    if importlib.util.find_spec("aio_pika") is not None:
        return _AioPika
    raise ImportError("tenon.Publisher needs pika or aio-pika: pip install pika")


class _Blocked(Exception):
    """RabbitMQ has an alarm, and reads nothing from those who publish: neither would it read that they go."""

    def __init__(self, why: str) -> None:
        super().__init__(f"it blocks publishers{why and ': '}{why}")


class _Pika:
    def __init__(self, url: str) -> None:
        import pika

        settings = pika.URLParameters(url)
        settings.socket_timeout = CONNECT_S
        settings.stack_timeout = CONNECT_S
        self._connection = pika.BlockingConnection(settings)
        self._connection.add_on_connection_blocked_callback(self._blocks)
        self._connection.add_on_connection_unblocked_callback(self._unblocks)
        self._channel = self._connection.channel()
        self._blocked = ""

    def _blocks(self, _connection: Any, method: Any) -> None:
        self._blocked = str(method.method.reason)

    def _unblocks(self, *_: Any) -> None:
        self._blocked = ""

    def publish(self, wake_up: WakeUp) -> None:
        self._channel.basic_publish(wake_up.exchange, wake_up.routing_key, b"%d" % wake_up.id)
        self.idle()

    def idle(self) -> None:
        self._connection.process_data_events(0)
        if self._blocked:
            raise _Blocked(self._blocked)

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
        self.idle()

    def idle(self) -> None:
        self._wait(asyncio.sleep(0))  # heartbeats
        transport: Any = self._connection.transport
        unblocked = transport and getattr(transport.connection, "_Connection__connection_unblocked", None)
        if unblocked is not None and not unblocked.is_set():  # its library tells the log only
            raise _Blocked("")

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
