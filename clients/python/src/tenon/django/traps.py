"""Warnings about tasks that are enqueued outside of the transaction that they belong to."""

from __future__ import annotations

import sys
import warnings
from types import FrameType
from typing import Any

from django.db import connections

FRAMES_MAX = 40


class OutsideTransaction(RuntimeWarning):
    """A task may be lost, or run too early, because it is not enqueued in the transaction of its data."""


def check(kind: str, database: str) -> None:
    """Warns; costs nothing in atomic()."""
    if connections[database].in_atomic_block:
        return
    if _in_on_commit(database):
        _warn(
            f"{kind} was enqueued in an on_commit callback: it is lost if the process dies before that. Enqueue it in "
            "the transaction, where it waits for the commit by itself"
        )
    elif other := _open_elsewhere(database):
        _warn(
            f'{kind} was enqueued on the database "{database}", outside of the transaction on "{other}": it may run '
            "before that commits, and runs also if it is rolled back"
        )


def _in_on_commit(database: str) -> bool:
    frame: FrameType | None = sys._getframe(2)
    for _ in range(FRAMES_MAX):
        if frame is None:
            return False
        if frame.f_code.co_name == "run_and_clear_commit_hooks":
            return getattr(frame.f_locals.get("self"), "alias", None) == database
        frame = frame.f_back
    return False


def _open_elsewhere(database: str) -> str | None:
    for conn in connections.all(initialized_only=True):
        if conn.alias != database and conn.in_atomic_block:
            return str(conn.alias)
    return None


def _warn(text: str) -> None:
    warnings.warn(text, OutsideTransaction, stacklevel=_level())


def _level() -> int:
    """Of the frame that has called enqueue(): the first one that is neither ours nor the framework's."""
    frame: Any = sys._getframe(1)
    level = 1
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if not module.startswith(("tenon.", "django.tasks", "django_tasks", "asgiref")):
            return level
        frame, level = frame.f_back, level + 1
    return 2
