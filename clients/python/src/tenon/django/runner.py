"""TEST_RUNNER = "tenon.django.runner.Runner": Django's own, with tenon's schema in the test databases."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.test.runner import DiscoverRunner

from tenon.django._framework import task_backends
from tenon.django.backend import TenonBackend


class Runner(DiscoverRunner):
    def setup_databases(self, **kwargs: Any) -> Any:
        found = super().setup_databases(**kwargs)
        made = {connection.alias for connection, _, _ in found}  # a database that no test needs is the real one
        for alias in settings.TASKS:
            backend = task_backends[alias]
            if isinstance(backend, TenonBackend) and backend.database in made:
                call_command("tenon", "--backend", alias, "setup")
        return found
