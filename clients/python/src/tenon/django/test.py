"""For tests of a Django project: what TestCase and the test runner need of tenon (docs/testing.md)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.db import connections
from django.test import TestCase, TransactionTestCase

from tenon import testing
from tenon._outcomes import Span
from tenon.django._framework import task_backends
from tenon.django.backend import TenonBackend

_THERE = "SELECT pg_catalog.to_regclass('tenon.task') IS NOT NULL"


def backends() -> Iterator[TenonBackend]:
    """Those of TASKS that are of tenon, one for each database."""
    seen = set()
    for alias in getattr(settings, "TASKS", {}):
        backend = task_backends[alias]
        if isinstance(backend, TenonBackend) and backend.wrong_database() is None and backend.database not in seen:
            seen.add(backend.database)
            yield backend


def has_schema(database: str) -> bool:
    """Whether the schema tenon is there."""
    with connections[database].cursor() as cursor:
        cursor.execute(_THERE)
        return bool(cursor.fetchone()[0])


def setup(backend: TenonBackend, **more: Any) -> None:
    """tenon setup on the backend's database, without RabbitMQ."""
    call_command("tenon", "--backend", backend.alias, "setup", "--amqp-url", "none", **more)


def setup_missing() -> None:
    """Where migrations have not made the schema."""
    for backend in backends():
        if not has_schema(backend.database):
            setup(backend)


def flush() -> None:
    """Deletes the tasks of all backends, after a test that has committed."""
    for backend in backends():
        if not connections[backend.database].in_atomic_block and has_schema(backend.database):
            testing.flush(backend.database)


class TenonTestMixin(TransactionTestCase):
    """What a test of TestCase or TransactionTestCase may ask: class SignUp(TenonTestMixin, TestCase)."""

    tenon_database = "default"

    def mine(self) -> list[testing.Enqueued]:
        """What the test's transaction has enqueued."""
        return testing.mine(self.tenon_database)

    def run_mine(self) -> list[testing.Run]:
        """Run that, in order; nothing is ended."""
        return testing.run_mine(self.tenon_database)

    def run_due(self, ahead: Span | None = None) -> list[testing.Run]:
        """Run what is due, with `ahead` as if that time had passed; in a TransactionTestCase what is committed."""
        committed = not connections[self.tenon_database].in_atomic_block
        return testing.run_due(self.tenon_database, ahead, committed=committed)

    def _fixture_teardown(self) -> None:
        if not isinstance(self, TestCase):
            flush()
        super()._fixture_teardown()  # type: ignore[misc]


__all__ = ["TenonTestMixin", "flush", "has_schema", "setup", "setup_missing"]
