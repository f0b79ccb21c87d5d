"""TEST_RUNNER = "tenon.django.runner.Runner": Django's own, with tenon's schema in the test databases."""

from __future__ import annotations

from io import StringIO
from typing import Any

from django.conf import settings
from django.core.management import call_command
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
        more = {"stdout": StringIO()} if self.verbosity < 2 else {}
        for alias in settings.TASKS:
            backend = task_backends[alias]
            if isinstance(backend, TenonBackend) and backend.database in made:
                call_command("tenon", "--backend", alias, "setup", "--amqp-url", "none", **more)
