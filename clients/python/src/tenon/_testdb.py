"""A test database of one's own: made beside the one that DATABASE_URL names, with the schema tenon."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from typing import Any
from urllib.parse import urlsplit, urlunsplit


def program() -> str:
    """The path of the program tenon: TENON, else in PATH, else in this environment."""
    name = os.environ.get("TENON") or "tenon"
    path = shutil.which(name) or shutil.which(name, path=sysconfig.get_path("scripts"))
    if path is None:
        raise LookupError(f"there is no program {name!r}: install tenon, or set TENON to its path")
    return path


def named(url: str, suffix: str = "") -> tuple[str, str]:
    """The name of the test database, and its URL."""
    parts = urlsplit(url)
    if parts.scheme not in ("postgresql", "postgres") or len(parts.path) < 2:
        raise ValueError("DATABASE_URL should be like postgresql://user@host/name, for a test database test_name")
    name = f"test_{parts.path[1:]}{suffix}"
    return name, urlunsplit(parts._replace(path=f"/{name}"))


def make(url: str, suffix: str = "") -> str:
    """Makes it, empty, in place of an old one; returns its URL."""
    name, made = named(url, suffix)
    _execute(url, _drop(name), f"CREATE DATABASE {_quoted(name)}")
    return made


def drop(url: str, suffix: str = "") -> None:
    """Removes it, with the connections to it."""
    _execute(url, _drop(named(url, suffix)[0]))


def _drop(name: str) -> str:
    return f"DROP DATABASE IF EXISTS {_quoted(name)} WITH (FORCE)"


def setup(url: str) -> None:
    """tenon setup, without RabbitMQ."""
    command = [program(), "setup", "--amqp-url", "none"]
    env = {**os.environ, "TENON_DATABASE_URL": url}
    ran = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise RuntimeError(f"tenon setup failed with exit code {ran.returncode}: {ran.stderr.strip()}")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _execute(url: str, *statements: str) -> None:
    conn: Any
    try:
        import psycopg

        conn = psycopg.connect(url, autocommit=True)
    except ImportError:
        import psycopg2

        conn = psycopg2.connect(url)
        conn.autocommit = True
    try:
        with conn.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
    finally:
        conn.close()
