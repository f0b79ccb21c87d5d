"""TEST_RUNNER = "tenon.django.runner.Runner": Django's own, with tenon's schema in the test databases."""

from __future__ import annotations

import unittest
from collections.abc import Iterator
from io import StringIO
from typing import Any

from django.db import connections
from django.test import TestCase, TransactionTestCase
from django.test.runner import DiscoverRunner

from tenon import testing
from tenon.django.backend import TenonBackend
from tenon.django.program import find
from tenon.django.test import backends, flush, has_schema, setup


class Runner(DiscoverRunner):
    def setup_test_environment(self, **kwargs: Any) -> None:
        super().setup_test_environment(**kwargs)
        testing.allow_calls()

    def setup_databases(self, **kwargs: Any) -> Any:
        for backend in backends():
            find(backend, None)  # without the program the migration would fail, and leave a test database behind
        found = super().setup_databases(**kwargs)
        try:
            self._setup_tenon({connection.alias for connection, _, _ in found})
        except BaseException:
            self.teardown_databases(found)
            raise
        return found

    def build_suite(self, *args: Any, **kwargs: Any) -> Any:
        suite = super().build_suite(*args, **kwargs)
        for test in _tests(suite):
            if isinstance(test, TransactionTestCase) and not isinstance(test, TestCase):
                test.addCleanup(flush)
        return suite

    def _setup_tenon(self, made: set[str]) -> None:
        """Where a test database was made without migrations; a database that no test needs is the real one."""
        for backend in backends():
            if backend.database in made and not has_schema(backend.database):
                self._setup(backend)

    def _setup(self, backend: TenonBackend) -> None:
        """In the test database, and in its copies, which are made before: each process of `test --parallel` has one."""
        more = {"stdout": StringIO()} if self.verbosity < 2 else {}
        connection = connections[backend.database]
        name = connection.settings_dict["NAME"]
        names = [name]
        if self.parallel > 1:
            copies = [connection.creation.get_test_db_clone_settings(str(n + 1)) for n in range(self.parallel)]
            names += [copy["NAME"] for copy in copies]
        try:
            for each in names:
                connection.settings_dict["NAME"] = each
                setup(backend, **more)
        finally:
            connection.settings_dict["NAME"] = name


def _tests(suite: Any) -> Iterator[Any]:
    for each in suite:
        if isinstance(each, unittest.TestSuite):
            yield from _tests(each)
        else:
            yield each
