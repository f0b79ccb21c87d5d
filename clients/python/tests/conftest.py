"""Needs DATABASE_URL, AMQP_URL and TENON, the program: script/test tests/clients/clients_python_test.c has them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

pytest_plugins = ["pytester"]
URL = os.environ.get("DATABASE_URL", "")
HERE = Path(__file__).parent
LIMIT_S = 180
Worker = Callable[..., str]


@pytest.fixture
def conn() -> Iterator[psycopg.Connection]:
    """A connection of the test's own; what it left behind is removed."""
    with psycopg.connect(URL) as conn:
        yield conn
        conn.rollback()
        conn.execute("TRUNCATE tenon.task, tenon.task_step, tenon.history, tenon.dead, tenon.attempt")


@pytest.fixture
def ids(conn: psycopg.Connection) -> list[int]:
    """Of three tasks that nobody runs."""
    import app  # which needs the package

    numbers = app.plain.enqueue_many(conn, [{"n": n} for n in range(3)])
    conn.commit()
    return numbers


def run_program(*words: str, cwd: Path | str = HERE, code: int = 0, **env: str) -> str:
    """Its output, after its exit with that code."""
    found = {**os.environ, "TENON_AMQP_URL": "none", **env}
    ran = subprocess.run(words, cwd=cwd, env=found, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert ran.returncode == code, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture
def worker() -> Worker:
    """Runs a worker on an app until no task is ready."""

    def run(app: str, concurrency: int = 4, cwd: Path = HERE, **env: str) -> str:
        handlers = run_program(
            sys.executable, "-m", "tenon", app, "--concurrency", str(concurrency), "--print-handlers", cwd=cwd
        )
        path = Path(os.environ["TMPDIR"]) / f"handlers-{os.getpid()}.conf"
        path.write_text(handlers)
        return run_program(
            program(), "worker", "--until-empty", "--handlers", str(path), "--pass-env", "DATABASE_URL", cwd=cwd, **env
        )

    return run


def program() -> str:
    path = os.environ.get("TENON") or shutil.which("tenon")
    assert path, "set TENON to the program"
    return path
