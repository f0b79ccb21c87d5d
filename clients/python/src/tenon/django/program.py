"""The program tenon, started from manage.py with what the settings say."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from typing import Any

from django.core.management import CommandError
from django.core.management.base import BaseCommand
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
    path = shutil.which(name) or shutil.which(name, path=sysconfig.get_path("scripts"))  # of this environment
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


STAYS = {"worker", "cleaner", "dev", "ui", "intake", "logs"}
"""Commands that run until they are stopped: manage.py becomes these, and starts all others."""


class ProgramCommand(BaseCommand):
    """A command of manage.py that becomes the program; call_command() runs it and returns."""

    _of_manage = False

    def run_from_argv(self, argv: list[str]) -> None:
        self._of_manage = True
        super().run_from_argv(argv)

    def program(self, backend: TenonBackend, path: str, arguments: Sequence[str], fds: Sequence[int] = ()) -> None:
        """CommandError if it was called and the program has failed."""
        env = environment(backend)
        sys.stdout.flush()
        sys.stderr.flush()
        if self._of_manage and STAYS & set(arguments[:1]):  # signals go to it, and its exit status is ours
            os.execve(path, [path, *arguments], dict(env))
        if self._of_manage:
            sys.exit(subprocess.run([path, *arguments], env=env, check=False).returncode)
        # of the project's own connection, which may be that of its tests: never a database that a variable names
        own = {**env, "TENON_DATABASE_URL": conninfo(connections[backend.database].settings_dict)}
        out = None if self.stdout._out is sys.stdout else subprocess.PIPE
        ran = subprocess.run([path, *arguments], env=own, stdout=out, text=True, pass_fds=fds, check=False)
        if ran.stdout:
            self.stdout.write(ran.stdout, ending="")
        if ran.returncode != 0:
            words = " ".join(["tenon", *arguments[:1]])
            raise CommandError(f"{words} failed with exit code {ran.returncode}", returncode=ran.returncode)
