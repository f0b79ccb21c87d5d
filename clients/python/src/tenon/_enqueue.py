"""The statements that enqueue, in the caller's transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from tenon._connections import Connection, Row, need_async, need_sync
from tenon._options import arguments, checked
from tenon._payload import encode
from tenon._publisher import Publisher, WakeUp, default_publisher

Statement = tuple[str, list[Any]]


class Instead(Protocol):
    """What tests have run tasks at once, in place of the database."""

    @property
    def runs(self) -> list[Any]: ...

    def enqueue(self, kind: str, payload: Any, options: Mapping[str, Any]) -> int: ...
    async def aenqueue(self, kind: str, payload: Any, options: Mapping[str, Any]) -> int: ...


instead: Instead | None = None


class Request:
    """One call of tenon.enqueue or tenon.enqueue_many."""

    def __init__(self, kind: str, options: Mapping[str, Any]) -> None:
        self.kind = kind
        given = checked(options)
        publisher: Publisher | None = options["publisher"] if "publisher" in options else default_publisher()
        if "queues" in given:
            publisher = None  # each would have a route of its own; the cleaner wakes up
        self.publisher = publisher if publisher is not None and publisher.announces() else None
        if self.publisher is not None:
            given.setdefault("announced", True)
        self.names, self.values = arguments(given)
        self.queue: str | None = given.get("queue")

    def one(self, payload: Any) -> Statement:
        """Returns (id, exchange, routing key)."""
        # announced has another default there; without a publisher the cleaner wakes up
        names = ", ".join(["CAST({} AS text)", "CAST({} AS text)", *self.names])
        if self.publisher is None:
            return f"SELECT tenon.enqueue({names})", [self.kind, encode(payload), *self.values]
        columns = "id, exchange, routing_key"
        return (
            f"SELECT {columns} FROM tenon.enqueue_routed({names})",
            [self.kind, encode(payload), *self.values],
        )

    def many(self, payloads: Sequence[Any]) -> Statement:
        """Returns (ids, exchange, routing key)."""
        names = ", ".join(["CAST({} AS text)", "CAST({} AS text[])", *self.names])
        values = [self.kind, [encode(p) for p in payloads], *self.values]
        if self.publisher is None:
            return f"SELECT tenon.enqueue_many({names})", values
        route = "tenon.route_of(CAST({} AS text), CAST({} AS text)) r"
        sql = f"SELECT tenon.enqueue_many({names}), r.exchange, r.routing_key FROM {route}"
        return sql, [*values, self.kind, self.queue]

    def enqueued(self, conn: Connection, row: Row) -> list[int]:
        """The ids; and their wake-ups, after the commit."""
        ids = [int(i) for i in row[0]] if isinstance(row[0], list) else [int(row[0])]
        if self.publisher is not None:
            wake_ups = [WakeUp(i, str(row[1]), str(row[2])) for i in ids]
            conn.after_commit(self.publisher, wake_ups)
        return ids


def enqueue(conn: Any, kind: str, payload: Any, options: Mapping[str, Any]) -> int:
    """One task, on a blocking connection."""
    if instead is not None:
        return instead.enqueue(kind, payload, checked(options))
    where, request = need_sync(conn), Request(kind, options)
    return request.enqueued(where, where.rows(*request.one(payload))[0])[0]


async def aenqueue(conn: Any, kind: str, payload: Any, options: Mapping[str, Any]) -> int:
    """One task, on an asynchronous connection."""
    if instead is not None:
        return await instead.aenqueue(kind, payload, checked(options))
    where, request = need_async(conn), Request(kind, options)
    return request.enqueued(where, (await where.arows(*request.one(payload)))[0])[0]


def enqueue_many(conn: Any, kind: str, payloads: Sequence[Any], options: Mapping[str, Any]) -> list[int]:
    """Many of one kind, in one statement."""
    if instead is not None:
        return [instead.enqueue(kind, payload, checked(options)) for payload in payloads]
    where, request = need_sync(conn), Request(kind, options)
    return request.enqueued(where, where.rows(*request.many(payloads))[0])


async def aenqueue_many(conn: Any, kind: str, payloads: Sequence[Any], options: Mapping[str, Any]) -> list[int]:
    """The same, on an asynchronous connection."""
    if instead is not None:
        return [await instead.aenqueue(kind, payload, checked(options)) for payload in payloads]
    where, request = need_async(conn), Request(kind, options)
    return request.enqueued(where, (await where.arows(*request.many(payloads)))[0])
