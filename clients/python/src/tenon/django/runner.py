"""TEST_RUNNER = "tenon.django.runner.Runner": Django's own, with tenon's schema in the test databases."""

from __future__ import annotations

from io import StringIO
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.db import connections
from django.test.runner import DiscoverRunner

from tenon.django._framework import task_backends
from tenon.django.backend import TenonBackend


class Runner(DiscoverRunner):
    def setup_databases(self, **kwargs: Any) -> Any:
        found = super().setup_databases(**kwargs)
        try:
            self._setup_tenon({connection.alias for connection, _, _ in found})
        except BaseException:
            self.teardown_databases(found)
            raise
        return found

    def _setup_tenon(self, made: set[str]) -> None:
        """Where a test database was made; a database that no test needs is the real one."""
        for alias in settings.TASKS:
            backend = task_backends[alias]
            if isinstance(backend, TenonBackend) and backend.database in made:
                self._setup(alias, backend.database)

    def _setup(self, alias: str, database: str) -> None:
        """In the test database, and in its copies, which are made before: each process of `test --parallel` has one."""
        more = {"stdout": StringIO()} if self.verbosity < 2 else {}
        connection = connections[database]
        name = connection.settings_dict["NAME"]
        names = [name]
        if self.parallel > 1:
            copies = [connection.creation.get_test_db_clone_settings(str(n + 1)) for n in range(self.parallel)]
            names += [copy["NAME"] for copy in copies]
        try:
            for each in names:
                connection.settings_dict["NAME"] = each
                call_command("tenon", "--backend", alias, "setup", "--amqp-url", "none", **more)
        finally:
            connection.settings_dict["NAME"] = name
