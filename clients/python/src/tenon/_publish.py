"""Messages for exchanges of one's own, in the caller's transaction: tenon.publish of SQL."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, Unpack

from tenon._connections import Row, need_async, need_sync
from tenon._options import argument, known, span
from tenon._outcomes import Span
from tenon._payload import storable

Statement = tuple[str, list[Any]]


class PublishOptions(TypedDict, total=False):
    """The arguments of tenon.publish, described in docs/sql.md; `expires` is a length of time as elsewhere."""

    headers: Mapping[str, Any]
    message_id: str
    content_type: str
    order_key: str
    expires: Span
    properties: Mapping[str, Any]
    trace: str
    notify: bool


class PublishManyOptions(TypedDict, total=False):
    """Those of tenon.publish_many, which has an id for each message."""

    headers: Mapping[str, Any]
    message_ids: Sequence[str | None]
    content_type: str
    order_key: str
    expires: Span
    properties: Mapping[str, Any]
    trace: str
    notify: bool


_TYPES: dict[str, tuple[str, Any]] = {
    "headers": ("jsonb", storable),
    "properties": ("jsonb", storable),
    "message_id": ("text", str),
    "message_ids": ("text[]", list),
    "content_type": ("text", str),
    "order_key": ("text", str),
    "expires": ("interval", span),
    "trace": ("text", str),
    "notify": ("boolean", str),
}


def _is_bytes(body: Any) -> bool:
    return isinstance(body, bytes | bytearray | memoryview)


def _form(body: Any) -> tuple[str, str]:
    """What the body is in SQL, and its text: bytes are bytes, a str is a text, and anything else is JSON."""
    if _is_bytes(body):
        return "bytea", "\\x" + bytes(body).hex()
    return ("text", body) if isinstance(body, str) else ("json", storable(body))


def _statement(
    function: str, exchange: str, routing_key: str, body: tuple[str, Any], options: Mapping[str, Any]
) -> Statement:
    kind, value = body
    inner = "CAST({} AS text[])" if kind.endswith("[]") else "CAST({} AS text)"
    names = ["CAST({} AS text)", "CAST({} AS text)", f"CAST({inner} AS {kind})"]
    values = [exchange, routing_key, value]
    for name, given in options.items():
        cast, convert = _TYPES[name]
        names.append(argument(name, cast))
        values.append(convert(given))
    return f"SELECT tenon.{function}({', '.join(names)})", values


def _one(exchange: str, routing_key: str, body: Any, options: Mapping[str, Any]) -> Statement:
    return _statement("publish", exchange, routing_key, _form(body), known(options, PublishOptions))


def _many(exchange: str, routing_key: str, bodies: Sequence[Any], options: Mapping[str, Any]) -> Statement:
    if all(_is_bytes(body) or isinstance(body, str) for body in bodies):
        forms = [_form(body) for body in bodies]
    else:
        forms = [("json", storable(body)) for body in bodies if not _is_bytes(body)]
    kinds = {kind for kind, _ in forms}
    if len(kinds) > 1 or len(forms) < len(bodies):
        raise TypeError("bodies are of different forms; they should all be bytes, all be texts, or all be JSON")
    texts = (f"{forms[0][0] if forms else 'text'}[]", [text for _, text in forms])
    return _statement("publish_many", exchange, routing_key, texts, known(options, PublishManyOptions))


def _ids(row: Row) -> list[int]:
    ids = json.loads(row[0]) if isinstance(row[0], str) else row[0]
    return [int(number) for number in ids]


def publish(conn: Any, exchange: str, routing_key: str, body: Any, **options: Unpack[PublishOptions]) -> int:
    """Publish a message to RabbitMQ when the transaction of `conn` commits; returns its number in tenon.outbox.

    The body is bytes, a text, or anything else that is JSON.
    """
    return int(need_sync(conn).rows(*_one(exchange, routing_key, body, options))[0][0])


async def apublish(conn: Any, exchange: str, routing_key: str, body: Any, **options: Unpack[PublishOptions]) -> int:
    """The same, on an asynchronous connection."""
    return int((await need_async(conn).arows(*_one(exchange, routing_key, body, options)))[0][0])


def publish_many(
    conn: Any, exchange: str, routing_key: str, bodies: Sequence[Any], **options: Unpack[PublishManyOptions]
) -> list[int]:
    """Publish many messages in one statement. The bodies are all bytes, all texts, or all JSON."""
    return _ids(need_sync(conn).rows(*_many(exchange, routing_key, bodies, options))[0])


async def apublish_many(
    conn: Any, exchange: str, routing_key: str, bodies: Sequence[Any], **options: Unpack[PublishManyOptions]
) -> list[int]:
    """The same, on an asynchronous connection."""
    return _ids((await need_async(conn).arows(*_many(exchange, routing_key, bodies, options)))[0])
