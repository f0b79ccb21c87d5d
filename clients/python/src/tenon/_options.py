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
    tags: Sequence[str]
    notify: bool
    announced: bool
    publisher: Publisher | None


class KindOptions(Options, total=False):
    """Those of the decorator: the others of tenon.set_kind, which sync() sets."""

    max_crashes: int
    timeout_min: Span
    on_timeout: Literal["retry", "dead"]
    on_dead: str
    history_keep: Span
    dead_keep: Span


class OneOptions(Options, total=False):
    """Those of one task."""

    unique_key: str


class ManyOptions(Options, total=False):
    """Those of many."""

    unique_keys: Sequence[str | None]
    queues: Sequence[str | None]
    priorities: Sequence[int | None]
    run_ats: Sequence[datetime | None]


class ScheduleOptions(TypedDict, total=False):
    """The arguments of tenon.set_schedule, besides its name and task; `cron` or `every`."""

    cron: str
    every: Span
    payload: Any
    zone: str
    catch_up: Literal["none", "last", "all"]
    overlap: Literal["allow", "skip"]
    queue: str
    priority: int
    max_attempts: int
    timeout: Span


class LimitOptions(TypedDict, total=False):
    """The arguments of tenon.set_limit."""

    max_running: int
    max_starts: int
    per: Span
    strict: bool
    fair: bool
    weight: int
    when_dead: Literal["block", "skip"]


class QueueOptions(TypedDict, total=False):
    """The arguments of tenon.set_queue."""

    priority: int
    max_attempts: int
    timeout: Span
    retry: str


def known(options: Mapping[str, Any], kind: Any) -> dict[str, Any]:
    """Those that were given; TypeError names one that does not exist."""
    for name in options:
        if name not in kind.__annotations__:
            raise TypeError(f"{name!r} is not an option; the options are: {', '.join(kind.__annotations__)}")
    return {name: value for name, value in options.items() if value is not None}


def moment(value: datetime) -> str:
    """As PostgreSQL reads a timestamptz."""
    if value.tzinfo is None:
        raise ValueError(f"{value.isoformat()} has no time zone: datetime.now(timezone.utc)")
    return value.isoformat()


def span(value: Span) -> str:
    """As PostgreSQL reads an interval."""
    return f"{microseconds(value)} microseconds"


def _text(value: Any) -> str:
    return str(value)


def _texts(values: Sequence[Any]) -> list[str | None]:
    return [None if value is None else str(value) for value in values]


# Each value goes as text, or as a list of texts, and is cast: so every driver is given the same.
_KINDS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "queue": ("text", _text),
    "priority": ("integer", _text),
    "run_at": ("timestamptz", moment),
    "delay": ("interval", span),
    "unique_key": ("text", _text),
    "unique_keys": ("text[]", list),
    "queues": ("text[]", list),
    "priorities": ("integer[]", _texts),
    "run_ats": ("timestamptz[]", lambda times: [None if at is None else moment(at) for at in times]),
    "tags": ("text[]", list),
    "on_conflict": ("text", _text),
    "unique_for": ("interval", span),
    "debounce": ("interval", span),
    "debounce_max": ("interval", span),
    "start_before": ("timestamptz", moment),
    "max_attempts": ("integer", _text),
    "timeout": ("interval", span),
    "retry": ("text", _text),
    "trace": ("text", _text),
    "limit_keys": ("text[]", list),
    "flow": ("bigint", _text),
    "depends_on": ("bigint[]", _texts),
    "on_parent_dead": ("text", _text),
    "notify": ("boolean", _text),
    "announced": ("boolean", _text),
}


OF_KIND = ("max_crashes", "timeout_min", "on_timeout", "on_dead", "history_keep", "dead_keep")


def of_kind(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Those that only the kind has, and the others."""
    return (
        {name: value for name, value in options.items() if name in OF_KIND},
        {name: value for name, value in options.items() if name not in OF_KIND},
    )


def checked(options: Mapping[str, Any]) -> dict[str, Any]:
    """Those that were given; TypeError names one that does not exist."""
    for name in options:
        if name not in _KINDS and name != "publisher":
            raise TypeError(f"{name!r} is not an option of a task; the options are: {', '.join(_KINDS)}")
    return {name: value for name, value in options.items() if value is not None}


def arguments(options: Mapping[str, Any]) -> tuple[list[str], list[Any]]:
    """The named arguments of the SQL function, with {} for each value, and the values."""
    names, values = list[str](), list[Any]()
    for name, value in options.items():
        if name != "publisher":
            kind, convert = _KINDS[name]
            names.append(argument(name, kind))
            values.append(convert(value))
    return names, values


def argument(name: str, kind: str) -> str:
    """A named argument, with {} for its text."""
    # a list of texts needs to be one before it is anything else
    inner = "CAST({} AS text[])" if kind.endswith("[]") else "CAST({} AS text)"
    return f"{name} => {inner}" if kind in ("text", "text[]") else f"{name} => CAST({inner} AS {kind})"
