"""The plugin of pytest: a test database with the schema, and fixtures that run tasks in tests (docs/testing.md)."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

from tenon import testing

RunDue = Callable[..., list[testing.Run]]
_TRANSACTIONAL = {"transactional_db", "live_server", "django_db_reset_sequences", "django_db_serialized_rollback"}


def pytest_configure() -> None:
    """A task's function may be called directly."""
    testing.allow_calls()


def _suffix() -> str:
    """Each process of pytest-xdist has a database of its own."""
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    return f"_{worker}" if worker else ""


@pytest.fixture(scope="session")
def tenon_database_url() -> Iterator[str]:
    """The URL of the test database: test_NAME, made beside the one that DATABASE_URL names, and removed at the end.
    Override it, with the scope `session`, to name another; its tasks are deleted.
    """
    from tenon import _testdb

    url = os.environ.get("DATABASE_URL")
    if not url:
        pytest.fail("set DATABASE_URL, beside whose database the test database is made; or override tenon_database_url")
    yield _testdb.make(url, _suffix())
    _testdb.drop(url, _suffix())


@pytest.fixture(scope="session")
def tenon_database(tenon_database_url: str) -> Iterator[str]:
    """The same with the schema tenon. Meanwhile DATABASE_URL names it, so that what connects by that meets no other."""
    from tenon import _testdb

    _testdb.setup(tenon_database_url)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DATABASE_URL", tenon_database_url)
        yield tenon_database_url


@pytest.fixture
def tenon_conn(tenon_database: str) -> Iterator[Any]:
    """A connection of psycopg to it, in a transaction that is rolled back."""
    import psycopg

    with psycopg.connect(tenon_database) as conn:
        yield conn
        conn.rollback()


@pytest.fixture
def tenon_clean(tenon_database: str) -> Iterator[str]:
    """For tests that commit: the test database, whose tasks are deleted at the end."""
    import psycopg

    yield tenon_database
    with psycopg.connect(tenon_database, autocommit=True) as conn:
        testing.flush(conn)


@pytest.fixture
def tenon_eager() -> Iterator[list[testing.Run]]:
    """Tasks run when they are enqueued, without a database; the list of the runs."""
    with testing.eager() as runs:
        yield runs


@pytest.fixture
def tenon_run_mine() -> Callable[..., list[testing.Run]]:
    """tenon.testing.run_mine, on Django's default database if no connection is given."""

    def run_mine(conn: Any = "default", **more: Any) -> list[testing.Run]:
        return testing.run_mine(conn, **more)

    return run_mine


@pytest.fixture
def tenon_run_due() -> RunDue:
    """tenon.testing.run_due, on Django's default database if no connection is given; there it runs what is committed in
    a test with transaction=True.
    """

    def run_due(conn: Any = "default", ahead: Any = None, **more: Any) -> list[testing.Run]:
        if isinstance(conn, str):
            from django.db import connections

            more.setdefault("committed", not connections[conn].in_atomic_block)
        return testing.run_due(conn, ahead, **more)

    return run_due


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, Any, Any]:
    """After pytest-django has made its databases: with --nomigrations, or an old one that is used again, the schema may
    be missing.
    """
    made = yield
    if fixturedef.argname == "django_db_setup":
        from tenon.django.test import setup_missing

        with _unblocked(request.config):
            setup_missing()
    return made


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Before pytest-django empties the models' tables: those of tenon are not models."""
    if _commits(item):
        from tenon.django.test import flush

        with _unblocked(item.config):
            flush()


def _commits(item: pytest.Item) -> bool:
    """Whether pytest-django empties the tables after it."""
    if not item.config.pluginmanager.hasplugin("django"):
        return False
    marker = item.get_closest_marker("django_db")
    if marker is not None and (marker.kwargs.get("transaction") or (marker.args and marker.args[0])):
        return True
    if _TRANSACTIONAL & set(getattr(item, "fixturenames", ())):
        return True
    cls = getattr(item, "cls", None)
    if cls is None:
        return False
    from django.test import TestCase, TransactionTestCase

    return issubclass(cls, TransactionTestCase) and not issubclass(cls, TestCase)


def _unblocked(config: pytest.Config) -> AbstractContextManager[Any]:
    """pytest-django refuses queries outside of its fixtures."""
    from pytest_django.plugin import blocking_manager_key

    blocker: Any = config.stash.get(blocking_manager_key, None)
    return nullcontext() if blocker is None else blocker.unblock()
