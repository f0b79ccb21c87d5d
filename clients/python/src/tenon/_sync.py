"""What the code declares of kinds, queues, limits and schedules, set in the database by one call: tenon.sync."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tenon._connections import Row, need_async, need_sync
from tenon._options import OF_KIND, span
from tenon._task import App, Runnable, Task, default_app

_SYNC = "SELECT what, name, act FROM tenon.sync(CAST(CAST({} AS text) AS jsonb))"
_KIND = ("queue", "priority", "max_attempts", "timeout", "retry", "limit_keys", *OF_KIND)
"""The options of a task that are its kind's, too; the others stay with each call."""
_SPANS = ("timeout", "timeout_min", "every", "per")


@dataclass(frozen=True)
class Change:
    """What a sync has changed."""

    what: str
    """`queue`, `kind`, `limit` or `schedule`."""
    name: str
    act: str
    """`added`, `changed` or `removed`."""


def description(
    app: App | None = None, *, remove: Mapping[str, Iterable[str]] | None = None, source: str | None = None
) -> dict[str, Any]:
    """What an app declares, in the form that `tenon sync FILE.json` takes, too."""
    app = default_app if app is None else app
    found: dict[str, Any] = {
        "queues": {name: _plain(options) for name, options in app.queues.items()},
        "kinds": {kind: _plain(_of(task)) for kind, task in app.tasks.items()},
        "limits": {name: _plain(options) for name, options in app.limits.items()},
        "schedules": {name: _plain(options) for name, options in app.schedules.items()},
    }
    found = {key: dict(sorted(values.items())) for key, values in found.items() if values}
    if remove:
        found["remove"] = {what: sorted(names) for what, names in remove.items()}
    if source is not None:
        found["source"] = source
    return dict(json.loads(json.dumps(found)))


def _of(task: Runnable) -> dict[str, Any]:
    """The options of a kind; those of Django's tasks are `kind_options`."""
    if not isinstance(task, Task):
        return {name: value for name, value in getattr(task, "kind_options", {}).items() if name in _KIND}
    return {**{name: task.options[name] for name in _KIND if name in task.options}, **task.of_kind}


def _plain(options: Mapping[str, Any]) -> dict[str, Any]:
    """Spans as PostgreSQL reads them."""
    plain = {name: span(value) if name in _SPANS else value for name, value in options.items() if value is not None}
    if "limit_keys" in plain:
        plain["limit_keys"] = list(plain["limit_keys"])
    if "on_dead" in plain:
        plain["on_dead"] = getattr(plain["on_dead"], "kind", plain["on_dead"])
    return plain


def sync(
    conn: Any,
    app: App | None = None,
    *,
    remove: Mapping[str, Iterable[str]] | None = None,
    source: str | None = None,
) -> list[Change]:
    """Write what the code declares to the database: defaults of kinds and queues, limits and schedules.

    Returns the changes. Run it when you deploy, as a role with the rights of an operator. From then on, the options of
    a task also hold when it is enqueued by SQL, by a schedule, or in another language. For each kind, queue, limit and
    schedule that the code declares, all options are replaced. Others stay unchanged; to remove them, name them:
    remove={"schedules": ["weekly"], "limits": [], "kinds": [], "queues": []}.
    """
    return _changes(need_sync(conn).rows(_SYNC, _values(app, remove, source)))


async def async_sync(
    conn: Any,
    app: App | None = None,
    *,
    remove: Mapping[str, Iterable[str]] | None = None,
    source: str | None = None,
) -> list[Change]:
    """The same, on an asynchronous connection."""
    return _changes(await need_async(conn).arows(_SYNC, _values(app, remove, source)))


def _values(app: App | None, remove: Mapping[str, Iterable[str]] | None, source: str | None) -> list[Any]:
    return [json.dumps(description(app, remove=remove, source=source))]


def _changes(rows: list[Row]) -> list[Change]:
    return [Change(*map(str, row)) for row in rows]
