"""Payloads and results: JSON outside, plain values, dataclasses or Pydantic models inside."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import json
import re
import types
import typing
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tenon._outcomes import InvalidPayload

_TEXTS: dict[type, Callable[[str], Any]] = {
    dt.datetime: dt.datetime.fromisoformat,
    dt.date: dt.date.fromisoformat,
    dt.time: dt.time.fromisoformat,
    uuid.UUID: uuid.UUID,
    decimal.Decimal: decimal.Decimal,
}
_PLAIN: tuple[type, ...] = (str, int, float, bool)
_hints: dict[type, dict[str, Any]] = {}


def encode(value: Any) -> str:
    """As JSON text. TypeError or ValueError when it cannot be JSON."""
    return json.dumps(value, default=_plain, allow_nan=False, ensure_ascii=False)


_ZERO = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
_HALF = re.compile("[\ud800-\udfff]")


def storable(value: Any) -> str:
    """As encode(), for PostgreSQL, which has no U+0000 in its texts, nor half a surrogate pair."""
    text = encode(value)
    if found := _HALF.search(text):
        raise ValueError(f"it has \\u{ord(found[0]):04x} in a text, which PostgreSQL cannot store")
    if "\\u0000" in text and _ZERO.search(text):
        raise ValueError("it has \\u0000 in a text, which PostgreSQL cannot store")
    return text


def place_of(value: Any, where: str = "payload") -> str:
    """Which part of it is not JSON."""
    parts: list[tuple[str, Any]] = []
    if isinstance(value, Mapping):
        parts = [(f"{where}.{key}", item) for key, item in value.items()]
    elif isinstance(value, list | tuple):
        parts = [(f"{where}[{i}]", item) for i, item in enumerate(value)]
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = [(f"{where}.{f.name}", getattr(value, f.name)) for f in dataclasses.fields(value)]
    for place, item in parts:
        try:
            storable(item)
        except (TypeError, ValueError):
            return place_of(item, place)
        except RecursionError:
            return place
    return where


def printed_bytes(text: str) -> int:
    """How long PostgreSQL prints it, at most: it puts spaces behind commas and colons, and writes out exponents."""
    return len(text.encode("utf-8", "replace")) + 320 * (text.count("e+") + text.count("e-"))


def _plain(value: Any) -> Any:
    """What json does not know."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True, round_trip=True)
    if isinstance(value, dt.datetime | dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, uuid.UUID | decimal.Decimal):
        return str(value)
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, set | frozenset):
        return list(value)
    raise TypeError(f"{type(value).__qualname__} is not JSON: {value!r:.100}")


def decode(kind: Any, value: Any, where: str = "payload") -> Any:
    """A value of JSON as the type that a function asks for; InvalidPayload when it does not fit."""
    if kind is Any or kind is object or (kind is dict and isinstance(value, dict)):
        return value
    origin = typing.get_origin(kind)
    if origin is typing.Annotated:
        return decode(typing.get_args(kind)[0], value, where)
    if origin is typing.Union or origin is types.UnionType:
        return _one_of(typing.get_args(kind), value, where)
    if origin is typing.Literal:
        return _checked(value in typing.get_args(kind), kind, value, where)
    if isinstance(origin or kind, type):
        return _decode_class(origin or kind, typing.get_args(kind), value, where)
    return value  # a type variable, a NewType: nothing that could be checked


def _checked(fits: bool, kind: Any, value: Any, where: str) -> Any:
    if not fits:
        name = getattr(kind, "__qualname__", str(kind))
        raise InvalidPayload(f"{where}: expected {name}, got {value!r:.100}")
    return value


def _one_of(kinds: Sequence[Any], value: Any, where: str) -> Any:
    why = InvalidPayload(f"{where}: nothing fits")
    for kind in kinds:
        try:
            return decode(kind, value, where)
        except InvalidPayload as error:
            why = error
    raise why


def _decode_class(kind: type, args: Sequence[Any], value: Any, where: str) -> Any:
    if kind is type(None):
        return _checked(value is None, kind, value, where)
    if kind in _PLAIN:
        return _decode_plain(kind, value, where)
    if hasattr(kind, "model_validate"):
        return _guarded(kind.model_validate, kind, value, where)
    if dataclasses.is_dataclass(kind):
        return _decode_dataclass(kind, value, where)
    if kind in _TEXTS:
        _checked(isinstance(value, str), kind, value, where)
        return _guarded(_TEXTS[kind], kind, value, where)
    if issubclass(kind, enum.Enum):
        return _guarded(kind, kind, value, where)
    return _decode_collection(kind, args, value, where)


def _decode_plain(kind: type, value: Any, where: str) -> Any:
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    fits = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    return _checked(fits, kind, value, where)


def _guarded(make: Callable[[Any], Any], kind: type, value: Any, where: str) -> Any:
    try:
        return make(value)
    except (ValueError, ArithmeticError) as error:
        raise InvalidPayload(f"{where}: no {kind.__qualname__}: {error}") from error


def _decode_dataclass(kind: type, value: Any, where: str) -> Any:
    _checked(isinstance(value, dict), kind, value, where)
    hints = _hints.get(kind)
    if hints is None:
        hints = _hints[kind] = typing.get_type_hints(kind)
    given = {
        f.name: decode(hints[f.name], value[f.name], f"{where}.{f.name}")
        for f in dataclasses.fields(kind)
        if f.init and f.name in value
    }
    try:
        return kind(**given)
    except (TypeError, ValueError) as error:
        raise InvalidPayload(f"{where}: {error}") from error


def _decode_collection(kind: type, args: Sequence[Any], value: Any, where: str) -> Any:
    if issubclass(kind, Mapping):
        _checked(isinstance(value, dict), kind, value, where)
        of = args[1] if args else Any
        return {key: decode(of, item, f"{where}.{key}") for key, item in value.items()}
    if not issubclass(kind, Sequence | set | frozenset):
        return value  # a class of the user that JSON does not know: the user sees its value
    _checked(isinstance(value, list), kind, value, where)
    of = [args[0]] * len(value) if args else [Any] * len(value)
    if kind is tuple and args and args[-1] is not Ellipsis:
        _checked(len(args) == len(value), kind, value, where)
        of = list(args)
    items = [decode(of[i], item, f"{where}[{i}]") for i, item in enumerate(value)]
    return kind(items) if kind in (set, frozenset, tuple) else items
