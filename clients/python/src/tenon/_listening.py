"""Connections that hear of tasks' ends: one small class for each driver. Nothing here polls."""

from __future__ import annotations

import asyncio
import contextlib
import selectors
import weakref
from collections.abc import Iterable, Sequence
from typing import Any

from tenon._connections import (
    Asyncpg,
    AsyncPsycopg,
    AsyncSqlAlchemy,
    Connection,
    Django,
    Psycopg,
    Psycopg2,
    Row,
    SqlAlchemy,
    Values,
    connection,
    need_sync,
)
from tenon._publisher import key_of

CHANNEL = "tenon_ended"
LISTEN = f"LISTEN {CHANNEL}"
UNLISTEN = f"UNLISTEN {CHANNEL}"
PID = "SELECT pg_catalog.pg_backend_pid()"


_taken: weakref.WeakSet[Any] = weakref.WeakSet()  # the connections that somebody waits on


class Listener:
    """What a driver's connection has said, and whether it may be listened on."""

    def __init__(self, conn: Any, where: Connection) -> None:
        self.conn = conn
        self.where = where
        self._said: list[int] = []
        self._occupies = False
        self._listens = False
        self._autocommit: bool | None = None  # as it was, when this has changed it

    def must_be_idle(self) -> None:
        if self.lost():
            raise ConnectionResetError("the connection is closed")
        if not self.where.is_committed():
            raise ValueError("cannot wait in a transaction, because it receives no notifications: wait after its end")

    def occupy(self) -> None:
        """What a connection hears is heard by one."""
        if self.is_taken():
            raise ValueError("another call waits on this connection: give all ids to one call, or use a Waiter")
        _taken.add(key_of(self.conn))
        self._occupies = True

    def is_taken(self) -> bool:
        """Whether somebody waits on it; after close(): somebody else."""
        return key_of(self.conn) in _taken

    def leave(self) -> None:
        if self._occupies:
            _taken.discard(key_of(self.conn))
        self._occupies = False

    def must_be_direct(self, told: int, row: Row) -> None:
        """A pooler tells its clients another process id than the backend's own."""
        if told != row[0]:
            raise ValueError(
                "waiting for tasks needs a direct connection; this one leads through a pooler, "
                "which delivers no notifications"
            )

    def note(self, channel: str, payload: str) -> None:
        """Anybody may say anything there: it is only a reason to ask."""
        if channel == CHANNEL and payload.isascii() and payload.isdigit():
            self._said.append(int(payload))

    def take(self) -> list[int]:
        said, self._said = self._said, []
        return said

    def lost(self) -> bool:
        """Whether the connection has ended."""
        return bool(self.conn.closed)


class BlockingListener(Listener):
    """Of a connection that blocks. Between open() and close() each statement is a transaction of its own."""

    def open(self) -> None:
        self.occupy()
        try:
            self.must_be_idle()
            self._autocommit = self.conn.autocommit
            self.conn.autocommit = True
            self.must_be_direct(self.conn.info.backend_pid, self.rows(PID, [])[0])
            self._listens = True
            self._listen()
        except BaseException:
            self.close()
            raise

    def rows(self, sql: str, values: Values) -> list[Row]:
        return self.where.rows(sql, values)

    def hear(self, timeout: float | None, also: Sequence[Any] = ()) -> list[int]:
        """Wait until something is said, one of `also` can be read, or the time is over."""
        self._receive()
        if not self._said and readable([self.conn.fileno(), *also], timeout):
            self._receive()
        return self.take()

    def close(self) -> None:
        """As it was, if it is this one's and not lost."""
        try:
            if self._occupies and self._listens and not self.lost():
                self._unlisten()
            if self._occupies and self._autocommit is not None and not self.lost():
                self.conn.autocommit = self._autocommit
        finally:
            self.leave()

    def _listen(self) -> None:
        raise NotImplementedError

    def _unlisten(self) -> None:
        raise NotImplementedError

    def _receive(self) -> None:
        raise NotImplementedError


class PsycopgListener(BlockingListener):
    """psycopg 3: what comes with an answer goes to the handler, the rest lies in libpq."""

    def _listen(self) -> None:
        self.conn.add_notify_handler(self._handle)
        self.conn.execute(LISTEN)

    def _unlisten(self) -> None:
        self.conn.execute(UNLISTEN)
        self.conn.remove_notify_handler(self._handle)

    def _handle(self, notify: Any) -> None:
        self.note(notify.channel, notify.payload)

    def _receive(self) -> None:
        receive(self, self.conn.pgconn)


class Psycopg2Listener(BlockingListener):
    def _listen(self) -> None:
        self._run(LISTEN)

    def _unlisten(self) -> None:
        self._run(UNLISTEN)

    def _run(self, sql: str) -> None:
        with self.conn.cursor() as cursor:
            cursor.execute(sql)

    def _receive(self) -> None:
        self.conn.poll()
        others = list[Any]()
        for notify in self.conn.notifies:
            if notify.channel == CHANNEL:
                self.note(notify.channel, notify.payload)
            else:
                others.append(notify)
        self.conn.notifies[:] = others


class AsyncListener(Listener):
    """Of an asynchronous connection; `wake` is set when hear() is to return."""

    wake: asyncio.Event

    async def open(self, wake: asyncio.Event) -> None:
        self.occupy()
        self.wake = wake
        try:
            self.must_be_idle()
            await self._begin()
            self.must_be_direct(self._told_pid(), (await self.rows(PID, []))[0])
            self._listens = True
            await self._listen()
        except BaseException:
            await self.close()
            raise

    async def rows(self, sql: str, values: Values) -> list[Row]:
        return await self.where.arows(sql, values)

    async def hear(self, timeout: float | None) -> list[int]:
        """Wait until something is said, or `wake` is set, or the time is over."""
        if not self._said:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.wake.wait(), timeout)
        self.wake.clear()
        return self.take()

    async def close(self) -> None:
        """As it was, if it is this one's and not lost."""
        try:
            if self._occupies and self._listens and not self.lost():
                await self._unlisten()
            if self._occupies and not self.lost():
                await self._end()
        finally:
            self.leave()

    async def _begin(self) -> None:
        """From here on each statement is a transaction of its own."""

    async def _end(self) -> None:
        """As it was."""

    def _told_pid(self) -> int:
        raise NotImplementedError

    async def _listen(self) -> None:
        raise NotImplementedError

    async def _unlisten(self) -> None:
        raise NotImplementedError


class AsyncPsycopgListener(AsyncListener):
    """psycopg 3. Its socket is watched only between statements, when psycopg does not watch it."""

    async def _begin(self) -> None:
        self._autocommit = self.conn.autocommit
        await self.conn.set_autocommit(True)

    def _told_pid(self) -> int:
        return int(self.conn.info.backend_pid)

    async def _listen(self) -> None:
        self.conn.add_notify_handler(self._handle)
        await self.conn.execute(LISTEN)

    def _handle(self, notify: Any) -> None:
        self.note(notify.channel, notify.payload)

    async def hear(self, timeout: float | None) -> list[int]:
        receive(self, self.conn.pgconn)
        loop, fd = asyncio.get_running_loop(), self.conn.fileno()
        loop.add_reader(fd, self.wake.set)
        try:
            said = await super().hear(timeout)
        finally:
            loop.remove_reader(fd)
        receive(self, self.conn.pgconn)
        return said + self.take()

    async def _unlisten(self) -> None:
        await self.conn.execute(UNLISTEN)
        self.conn.remove_notify_handler(self._handle)

    async def _end(self) -> None:
        if self._autocommit is not None:
            await self.conn.set_autocommit(self._autocommit)


class AsyncpgListener(AsyncListener):
    """asyncpg reads by itself, and says when its connection ends."""

    def _told_pid(self) -> int:
        return int(self.conn.get_server_pid())

    async def _listen(self) -> None:
        self.conn.add_termination_listener(self._ended)
        await self.conn.add_listener(CHANNEL, self._handle)

    def _handle(self, _conn: Any, _pid: int, channel: str, payload: str) -> None:
        self.note(channel, payload)
        self.wake.set()

    def _ended(self, _conn: Any) -> None:
        self.wake.set()

    async def hear(self, timeout: float | None) -> list[int]:
        said = await super().hear(timeout)
        if self.lost():
            raise ConnectionResetError("the connection was closed")
        return said

    async def _unlisten(self) -> None:
        self.conn.remove_termination_listener(self._ended)
        await self.conn.remove_listener(CHANNEL, self._handle)

    def lost(self) -> bool:
        return bool(self.conn.is_closed())


def receive(listener: Listener, pgconn: Any) -> None:
    """What has arrived at libpq. It raises when the connection is lost."""
    pgconn.consume_input()
    while (notify := pgconn.notifies()) is not None:
        listener.note(notify.relname.decode(), notify.extra.decode())


def readable(files: Iterable[Any], timeout: float | None) -> bool:
    """Whether one of them can be read within the time. A process with many clients has numbers beyond select()."""
    kind = getattr(selectors, "PollSelector", selectors.SelectSelector)
    with kind() as selector:
        for file in files:
            selector.register(file, selectors.EVENT_READ)
        return bool(selector.select(timeout))


def blocking_listener(conn: Any) -> BlockingListener:
    """For a blocking connection, by its driver; TypeError for another."""
    found = need_sync(conn)
    inner = found
    if isinstance(found, Django):
        if found.conn.in_atomic_block:
            raise ValueError(
                "cannot wait within atomic(), because the transaction receives no notifications: wait after its end"
            )
        found.conn.ensure_connection()
        inner = connection(found.conn.connection)
    elif isinstance(found, SqlAlchemy):
        plain = found.conn.connection  # of a Session: a method that returns its Connection
        inner = connection((plain().connection if callable(plain) else plain).driver_connection)
    if isinstance(inner, Psycopg):
        return PsycopgListener(inner.conn, inner)
    if isinstance(inner, Psycopg2):
        return Psycopg2Listener(inner.conn, inner)
    raise TypeError(f"tenon cannot wait on {type(inner.conn).__qualname__}: use psycopg or psycopg2")


async def async_listener(conn: Any) -> AsyncListener:
    """For an asynchronous connection, by its driver; TypeError for another."""
    found = connection(conn)
    inner: Connection = found
    if isinstance(found, AsyncSqlAlchemy):
        plain = conn if hasattr(conn, "get_raw_connection") else await conn.connection()
        inner = connection((await plain.get_raw_connection()).driver_connection)
    if isinstance(inner, AsyncPsycopg):
        return AsyncPsycopgListener(inner.conn, inner)
    if isinstance(inner, Asyncpg):
        return AsyncpgListener(inner.conn, inner)
    if isinstance(found, Django):
        raise TypeError("a connection of Django's belongs to its thread: await sync_to_async(tenon.wait)(...)")
    raise TypeError(f"{type(inner.conn).__qualname__} blocks: use what waits without await")
