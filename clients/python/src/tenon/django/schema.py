"""The schema tenon, made by manage.py migrate."""

from __future__ import annotations

from io import StringIO

from django.conf import settings
from django.core.management import call_command

from tenon.django._framework import task_backends
from tenon.django.backend import TenonBackend


def make(database: str) -> None:
    """tenon setup, if a backend has its tasks in this database and does not say MIGRATE: False."""
    for alias in getattr(settings, "TASKS", {}):
        backend = task_backends[alias]
        if isinstance(backend, TenonBackend) and backend.database == database:
            if backend.wrong_database() is None and backend.options.get("MIGRATE", True):
                call_command("tenon", "--backend", alias, "setup", "--amqp-url", "none", stdout=StringIO())
            return
