"""The connections that users have: one small class for each kind, which executes a statement in their transaction."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Sequence
from typing import Any

from tenon._publisher import Publisher, WakeUp

Row = Sequence[Any]
Values = Sequence[Any]


@functools.lru_cache(maxsize=1024)
def _positional(sql: str) -> str:
    return sql.replace("{}", "%s")


@functools.lru_cache(maxsize=1024)
def _numbered(sql: str) -> str:
    first, *rest = sql.split("{}")
    return first + "".join(f"${i}{part}" for i, part in enumerate(rest, 1))


@functools.lru_cache(maxsize=1024)
def _named(sql: str) -> Any:
    import sqlalchemy

    first, *rest = sql.split("{}")
    return sqlalchemy.text(first + "".join(f":p{i}{part}" for i, part in enumerate(rest)))


class Connection:
    """What enqueueing needs of a connection; `{}` stands for a value in its statements."""

    is_async = False

    def __init__(self, conn: Any) -> None:
        self.conn = conn

    def rows(self, sql: str, values: Values) -> list[Row]:
        raise NotImplementedError

    async def arows(self, sql: str, values: Values) -> list[Row]:
        raise NotImplementedError

    def execute(self, sql: str) -> None:
        """A statement without values, which returns nothing."""
        self.conn.execute(sql)

    async def aexecute(self, sql: str) -> None:
        """The same, on an asynchronous connection."""
        await self.conn.execute(sql)

    def is_committed(self) -> bool:
        """Whether what was executed just now has been committed already."""
        return False

    def after_commit(self, publisher: Publisher, wake_ups: list[WakeUp]) -> None:
        """Publish after the commit, by itself where that can be known, else when the user says so."""
        publisher.hold(self.conn, wake_ups)
        if self.is_committed():
            publisher.publish(self.conn)


class Psycopg(Connection):
    """psycopg 3; whatever row factory the user has chosen."""

    def rows(self, sql: str, values: Values) -> list[Row]:
        from psycopg.rows import tuple_row

        with self.conn.cursor(row_factory=tuple_row) as cursor:
            return list(cursor.execute(_positional(sql), values).fetchall())

    def is_committed(self) -> bool:
        return int(self.conn.info.transaction_status) == 0  # PQTRANS_IDLE


class AsyncPsycopg(Psycopg):
    is_async = True

    async def arows(self, sql: str, values: Values) -> list[Row]:
        from psycopg.rows import tuple_row

        async with self.conn.cursor(row_factory=tuple_row) as cursor:
            await cursor.execute(_positional(sql), values)
            return list(await cursor.fetchall())


class Psycopg2(Connection):
    def execute(self, sql: str) -> None:
        with self.conn.cursor() as cursor:
            cursor.execute(sql)

    def rows(self, sql: str, values: Values) -> list[Row]:
        from psycopg2.extensions import cursor as plain_cursor

        with self.conn.cursor(cursor_factory=plain_cursor) as cursor:
            cursor.execute(_positional(sql), values)
            return list(cursor.fetchall())

    def is_committed(self) -> bool:
        return int(self.conn.get_transaction_status()) == 0


class Asyncpg(Connection):
    is_async = True

    async def arows(self, sql: str, values: Values) -> list[Row]:
        return list(await self.conn.fetch(_numbered(sql), *values))

    def is_committed(self) -> bool:
        return not self.conn.is_in_transaction()


class SqlAlchemy(Connection):
    """A Connection or Session; after a session's commit its wake-ups are published."""

    def execute(self, sql: str) -> None:
        import sqlalchemy

        self.conn.execute(sqlalchemy.text(sql))

    ran_on: Any = None
    """The driver's connection that ran the last statement: of a session nobody else knows it."""

    def _taken(self, result: Any) -> list[Row]:
        self.ran_on = result.context.root_connection.connection.driver_connection
        return list(result.fetchall())

    def rows(self, sql: str, values: Values) -> list[Row]:
        return self._taken(self.conn.execute(_named(sql), _parameters(values)))

    def is_committed(self) -> bool:
        """As the driver's connection beneath it says, whoever has put that into autocommit."""
        with contextlib.suppress(TypeError):  # a driver that is not known here
            return connection(self.ran_on).is_committed()
        return False

    def after_commit(self, publisher: Publisher, wake_ups: list[WakeUp]) -> None:
        session = _session_of(self.conn)
        if session is None:
            super().after_commit(publisher, wake_ups)
            return
        publisher.hold(session, wake_ups)
        _listen(session, publisher)
        if self.is_committed():
            publisher.publish(session)


class AsyncSqlAlchemy(SqlAlchemy):
    is_async = True

    async def aexecute(self, sql: str) -> None:
        import sqlalchemy

        await self.conn.execute(sqlalchemy.text(sql))

    async def arows(self, sql: str, values: Values) -> list[Row]:
        return self._taken(await self.conn.execute(_named(sql), _parameters(values)))


def _parameters(values: Values) -> dict[str, Any]:
    return {f"p{i}": value for i, value in enumerate(values)}


def _session_of(conn: Any) -> Any:
    """The Session of whatever wraps one: a scoped_session, an AsyncSession; None for a Connection."""
    inner = (
        conn()
        if _is_a(conn, "sqlalchemy", "scoped_session") or _is_a(conn, "sqlalchemy", "async_scoped_session")
        else conn
    )
    inner = getattr(inner, "sync_session", inner)
    return inner if _is_a(inner, "sqlalchemy", "Session") else None


def _listen(session: Any, publisher: Publisher) -> None:
    """Once for each session and publisher."""
    from sqlalchemy import event

    key = ("tenon", id(publisher))
    if key in session.info:
        return
    session.info[key] = publisher  # kept, so that no other has its id

    def committed(session: Any) -> None:
        if not session.in_nested_transaction():
            publisher.publish(session)

    def ended(session: Any, transaction: Any) -> None:
        if transaction.parent is None:
            publisher.forget(session)

    event.listen(session, "after_commit", committed)
    event.listen(session, "after_transaction_end", ended)


class Django(Connection):
    """A connection of Django's, or its alias; also from asyncio, in the thread that the connection belongs to."""

    is_async = True

    def __init__(self, conn: Any) -> None:
        from django.db import connections

        super().__init__(connections[conn] if isinstance(conn, str) else conn)
        self.alias = self.conn.alias

    def execute(self, sql: str) -> None:
        with self.conn.cursor() as cursor:
            cursor.execute(sql)

    def rows(self, sql: str, values: Values) -> list[Row]:
        with self.conn.cursor() as cursor:
            cursor.execute(_positional(sql), values)
            return list(cursor.fetchall())

    async def arows(self, sql: str, values: Values) -> list[Row]:
        from asgiref.sync import sync_to_async

        def run() -> list[Row]:
            return Django(self.alias).rows(sql, values)

        return await sync_to_async(run, thread_sensitive=True)()

    async def aexecute(self, sql: str) -> None:
        from asgiref.sync import sync_to_async

        await sync_to_async(lambda: Django(self.alias).execute(sql), thread_sensitive=True)()

    def after_commit(self, publisher: Publisher, wake_ups: list[WakeUp]) -> None:
        from django.db import transaction

        key = _Key()  # its own, because savepoints may be rolled back
        publisher.hold(key, wake_ups)
        transaction.on_commit(lambda: publisher.publish(key), using=self.alias)


class _Key:
    """What wake-ups are held under."""


_CLASSES: tuple[tuple[str, str, type[Connection]], ...] = (
    ("psycopg", "AsyncConnection", AsyncPsycopg),
    ("psycopg", "Connection", Psycopg),
    ("psycopg2", "connection", Psycopg2),
    ("asyncpg", "Connection", Asyncpg),
    ("asyncpg", "PoolConnectionProxy", Asyncpg),
    ("sqlalchemy", "AsyncSession", AsyncSqlAlchemy),
    ("sqlalchemy", "AsyncConnection", AsyncSqlAlchemy),
    ("sqlalchemy", "async_scoped_session", AsyncSqlAlchemy),
    ("sqlalchemy", "Session", SqlAlchemy),
    ("sqlalchemy", "scoped_session", SqlAlchemy),
    ("sqlalchemy", "Connection", SqlAlchemy),
    ("django", "BaseDatabaseWrapper", Django),
)
_known: dict[type, type[Connection]] = {}


def _is_a(conn: Any, package: str, name: str) -> bool:
    """By the names of its class and those above it: no driver is imported that the user does not have."""
    return any(c.__name__ == name and c.__module__.partition(".")[0].lstrip("_") == package for c in type(conn).__mro__)


def connection(conn: Any) -> Connection:
    """What knows how to use the user's connection; TypeError if nothing does."""
    kind = None if isinstance(conn, str) else _known.get(type(conn))
    if kind is None:
        kind = _known[type(conn)] = _kind_of(conn)
    return kind(conn)


def _kind_of(conn: Any) -> type[Connection]:
    if isinstance(conn, str):
        if "/" in conn or "=" in conn:
            raise TypeError("a task is enqueued on an open connection (or Django's alias), not a URL")
        return Django
    if _is_a(conn, "django", "ConnectionProxy"):
        return Django
    for package, name, kind in _CLASSES:
        if _is_a(conn, package, name):
            return kind
    raise TypeError(
        f"{type(conn).__module__}.{type(conn).__qualname__} is not a connection that tenon knows: psycopg, psycopg2, "
        "asyncpg, a session or connection of SQLAlchemy, an alias of Django's databases"
    )


def need_sync(conn: Any) -> Connection:
    """For the plain methods."""
    found = connection(conn)
    if found.is_async and not isinstance(found, Django):
        raise TypeError(f"{type(conn).__qualname__} is asynchronous: use the method that begins with a")
    return found


def need_async(conn: Any) -> Connection:
    """For the methods that begin with `a`."""
    found = connection(conn)
    if not found.is_async:
        raise TypeError(f"{type(conn).__qualname__} blocks: use the method without the a")
    return found
