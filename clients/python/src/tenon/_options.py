"""What a task may be given when it is enqueued: the arguments of tenon.enqueue."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, TypedDict

from tenon._outcomes import Span, microseconds
from tenon._publisher import Publisher


class Options(TypedDict, total=False):
    """The arguments of tenon.enqueue, described in docs/sql.md; spans are timedeltas, seconds, or texts as "5 min"."""

    queue: str
    priority: int
    run_at: datetime
    delay: Span
    on_conflict: Literal["keep", "replace", "merge"]
    unique_for: Span
    debounce: Span
    debounce_max: Span
    start_before: datetime
    max_attempts: int
    timeout: Span
    retry: str
    trace: str
    limit_keys: Sequence[str]
    flow: int
    depends_on: Sequence[int]
    on_parent_dead: Literal["wait", "run", "cancel"]
    notify: bool
    announced: bool
    publisher: Publisher | None


class OneOptions(Options, total=False):
    """Those of one task."""

    unique_key: str


class ManyOptions(Options, total=False):
    """Those of many."""

    unique_keys: Sequence[str | None]


def _moment(value: datetime) -> str:
    if value.tzinfo is None:
        raise ValueError(f"{value.isoformat()} has no time zone: datetime.now(timezone.utc)")
    return value.isoformat()


def _span(value: Span) -> str:
    return f"{microseconds(value)} microseconds"


def _text(value: Any) -> str:
    return str(value)


# Each value goes as text, or as a list of texts, and is cast: so every driver is given the same.
_KINDS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "queue": ("text", _text),
    "priority": ("integer", _text),
    "run_at": ("timestamptz", _moment),
    "delay": ("interval", _span),
    "unique_key": ("text", _text),
    "unique_keys": ("text[]", list),
    "on_conflict": ("text", _text),
    "unique_for": ("interval", _span),
    "debounce": ("interval", _span),
    "debounce_max": ("interval", _span),
    "start_before": ("timestamptz", _moment),
    "max_attempts": ("integer", _text),
    "timeout": ("interval", _span),
    "retry": ("text", _text),
    "trace": ("text", _text),
    "limit_keys": ("text[]", list),
    "flow": ("bigint", _text),
    "depends_on": ("bigint[]", lambda ids: [str(i) for i in ids]),
    "on_parent_dead": ("text", _text),
    "notify": ("boolean", _text),
    "announced": ("boolean", _text),
}


def checked(options: Mapping[str, Any]) -> dict[str, Any]:
    """Those that were given; TypeError names one that does not exist."""
    for name in options:
        if name not in _KINDS and name != "publisher":
            raise TypeError(f"{name!r} is not an option of a task; the options are: {', '.join(_KINDS)}")
    return {name: value for name, value in options.items() if value is not None}


def arguments(options: Mapping[str, Any]) -> tuple[list[str], list[Any]]:
    """The named arguments of the SQL function, with {} for each value, and the values."""
    names, values = [], []
    for name, value in options.items():
        if name != "publisher":
            kind, convert = _KINDS[name]
            names.append(_argument(name, kind))
            values.append(convert(value))
    return names, values


def _argument(name: str, kind: str) -> str:
    # a list of texts needs to be one before it is anything else
    inner = "CAST({} AS text[])" if kind.endswith("[]") else "CAST({} AS text)"
    return f"{name} => {inner}" if kind in ("text", "text[]") else f"{name} => CAST({inner} AS {kind})"
