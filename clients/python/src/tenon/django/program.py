"""The program tenon, started from manage.py with what the settings say."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from django.core.management import CommandError
from django.db import connections

from tenon.django._framework import task_backends
from tenon.django.backend import TenonBackend

_PARTS = {"dbname": "NAME", "user": "USER", "password": "PASSWORD", "host": "HOST", "port": "PORT"}


def backend_of(alias: str) -> TenonBackend:
    """The backend of an alias, if it is tenon's."""
    backend = task_backends[alias]
    if not isinstance(backend, TenonBackend):
        raise CommandError(f'TASKS["{alias}"] has BACKEND {type(backend).__name__}, not tenon.django.TenonBackend')
    if problem := backend.wrong_options() or backend.wrong_database():
        raise CommandError(problem)
    return backend


def find(backend: TenonBackend, given: str | None) -> str:
    """The path of the program."""
    name = given or backend.options.get("TENON") or "tenon"
    path = shutil.which(name)
    if path is None:
        raise CommandError(
            f"there is no program {name!r}: build and install tenon, or name it with --tenon or "
            f'TASKS["{backend.alias}"]["OPTIONS"]["TENON"]'
        )
    return path


def conninfo(settings: Mapping[str, Any]) -> str:
    """The settings of a database as libpq's keywords and values."""
    parts = {name: settings.get(key) for name, key in _PARTS.items()}
    for name, value in settings.get("OPTIONS", {}).items():
        if isinstance(value, str) and not name.startswith(("pool", "isolation", "assume_role")):
            parts[name] = value
    return " ".join(f"{name}={_quoted(str(value))}" for name, value in parts.items() if value)


def _quoted(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def environment(backend: TenonBackend) -> dict[str, str]:
    """Where the servers are, unless the variables say so: workers and cleaners may have roles of their own."""
    env = dict(os.environ)
    if "TENON_DATABASE_URL" not in env:
        env["TENON_DATABASE_URL"] = conninfo(connections[backend.database].settings_dict)
    if "TENON_AMQP_URL" not in env and "AMQP_URL" not in env:
        env["TENON_AMQP_URL"] = backend.options.get("AMQP_URL") or "none"
    # the child is this project: it gets the variables by which the settings find the database, which a worker
    # keeps to itself otherwise, and imports what manage.py could
    if "TENON_PASS_ENV" not in env:
        names = [name for name in env if name.startswith("PG") or name in ("DATABASE_URL", "AMQP_URL")]
        if names:
            env["TENON_PASS_ENV"] = ",".join(sorted(names))
    env["PYTHONPATH"] = os.pathsep.join(path for path in [sys.path[0], env.get("PYTHONPATH", "")] if path)
    return env


def execute(path: str, arguments: Sequence[str], env: Mapping[str, str]) -> NoReturn:
    """Become the program: signals go to it, and its exit status is ours."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(path, [path, *arguments], dict(env))
