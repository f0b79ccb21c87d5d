"""What README.md says from pip install on, in a new virtual environment: the packages come from the registry."""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path

import psycopg
import pytest
from conftest import HERE
from test_readme import Reader, commands, first_task, write

SECRETS = """
import tenon, os
keys = tenon.Keys({"a": os.urandom(32)})
assert keys.decrypt(keys.encrypt([1], kind="k"), kind="k") == [1]
"""


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With nothing in it but clients/python, and beside it an empty virtual environment."""
    clone = tmp_path_factory.mktemp("fresh") / "clone"
    shutil.copytree(HERE.parent, clone / "clients/python", ignore=shutil.ignore_patterns("__pycache__", "tests"))
    Reader(clone).run(f"{sys.executable} -m venv ../fresh")
    return clone


@pytest.fixture
def fresh(clone: Path, monkeypatch: pytest.MonkeyPatch) -> Reader:
    monkeypatch.delenv("TENON_PASS_ENV", raising=False)
    reader = Reader(clone)
    old, new = str(Path(sys.executable).parent), str(clone.parent / "fresh/bin")
    reader.env = {"PATH": reader.env["PATH"].replace(old, new), "PYTHONPATH": ""}
    return reader


def test_django_in_five_minutes(fresh: Reader, conn: psycopg.Connection) -> None:
    begin = time.monotonic()
    install, start = commands("startproject")
    fresh.run(install)
    fresh.run(start)
    fresh.folder = fresh.folder.parent / "shop"
    write(fresh.folder)
    first_task(fresh, conn)
    print(f"ran: Django, from pip install to the first task: {time.monotonic() - begin:.0f} s")


def test_install(fresh: Reader) -> None:
    (install,) = commands("with your database driver")
    fresh.run(install)
    fresh.run("python -c 'import psycopg, tenon'")
    with pytest.raises(AssertionError, match="cryptography"):
        fresh.run(f"python -c '{SECRETS}'")
    fresh.run("pip install './clients/python[secrets]'")
    fresh.run(f"python -c '{SECRETS}'")
