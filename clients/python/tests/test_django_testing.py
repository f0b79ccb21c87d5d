"""Tests of a Django project as its developers write them: with pytest-django, and with Django's own test runner."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import psycopg
import pytest
from conftest import program, run_program

pytest.importorskip("django")

SETTINGS = """
from project.settings import *
INSTALLED_APPS = ["django.contrib.contenttypes", "django.contrib.auth", "tenon.django", "shop"]
ROOT_URLCONF = None
TASKS = {"default": {"BACKEND": "tenon.django.TenonBackend", "QUEUES": [],
                     "OPTIONS": {"TENON": %r, "MAX_ATTEMPTS": 2}}}
TEST_RUNNER = "tenon.django.runner.Runner"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
"""

TASKS = """
from project.framework import task
import tenon
from django.contrib.auth.models import User

@task
def welcome(name):
    User.objects.filter(username=name).update(first_name=f"Welcome {tenon.current().attempt}")
    return tenon.current().attempt

@task(max_attempts=3, retry="constant(1 h)")
def fails():
    raise ValueError("no")

@task
async def later():
    if tenon.current().progress is None:
        tenon.current().set_progress(1)
        raise tenon.Snooze("not yet", after="1 d")
    return await User.objects.acount()

@tenon.task
def plain(payload: dict) -> str:
    return f"plain {payload['n']} {User.objects.count()}"
"""

PYTEST = """
import pytest, tenon, tenon.testing
from django.contrib.auth.models import User
from django.db import connection, transaction
from shop.tasks import fails, later, plain, welcome

def test_a_call():
    with pytest.raises(RuntimeError, match="Database access not allowed"):
        welcome.call("ann")

@pytest.mark.django_db
def test_called_directly():
    User.objects.create(username="ann")
    assert welcome.call("ann") == 1
    assert User.objects.get().first_name == "Welcome 1"

@pytest.mark.django_db
def test_mine(tenon_run_mine):
    User.objects.create(username="ann")
    result = welcome.enqueue("ann")
    plain.enqueue("default", {"n": 1})
    assert [r.outcome for r in tenon_run_mine()] == ["done", "done"]
    assert User.objects.get().first_name == "Welcome 1"

@pytest.mark.django_db
def test_due(tenon_run_due):
    User.objects.create(username="ann")
    results = welcome.enqueue("ann"), later.enqueue(), fails.enqueue()
    assert [r.outcome for r in tenon_run_due()] == ["done", "snooze", "failed"]
    for result in results:
        result.refresh()
    assert [str(r.status) for r in results] == ["SUCCESSFUL", "READY", "READY"]
    assert results[0].return_value == 1
    assert [r.outcome for r in tenon_run_due(ahead="1 d")] == ["failed", "done"]
    results[1].refresh()
    assert results[1].return_value == 1
    assert [r.outcome for r in tenon_run_due(ahead="1 d")] == ["failed"]
    results[2].refresh()
    assert (str(results[2].status), len(results[2].errors)) == ("FAILED", 3)

@pytest.mark.django_db(transaction=True)
def test_commits(tenon_run_due):
    User.objects.create(username="ann")
    with transaction.atomic():
        result = welcome.enqueue("ann")
    plain.enqueue("default", {"n": 2})
    assert [r.outcome for r in tenon_run_due()] == ["done", "done"]
    result.refresh()
    assert result.return_value == 1
    welcome.enqueue("left behind")

@pytest.mark.django_db(transaction=True)
def test_nothing_is_left():
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM tenon.tasks")
        assert cursor.fetchone() == (0,)

def test_eager_without_a_database(tenon_eager, monkeypatch):
    with pytest.raises(tenon.testing.TaskFailed, match="shop.tasks.fails failed: ValueError: no"):
        fails.enqueue()
    with tenon.testing.eager(raises=False):
        result = fails.enqueue()
    assert (str(result.status), result.errors[0].exception_class) == ("FAILED", ValueError)

@pytest.mark.django_db
def test_eager(tenon_eager):
    result = welcome.enqueue("ann")
    assert (str(result.status), result.return_value) == ("SUCCESSFUL", 1)
    with pytest.raises(TypeError, match="missing a required argument: 'name'"):
        welcome.enqueue()
"""

UNITTEST = """
from django.contrib.auth.models import User
from django.db import connection
from django.test import TestCase, TransactionTestCase
from tenon.django.test import TenonTestMixin
from shop.tasks import later, welcome

class Inside(TenonTestMixin, TestCase):
    def test_it(self):
        User.objects.create(username="ann")
        result = welcome.enqueue("ann")
        later.enqueue()
        self.assertEqual([t.kind for t in self.mine()], ["shop.tasks.welcome", "shop.tasks.later"])
        self.assertEqual([r.outcome for r in self.run_due()], ["done", "snooze"])
        result.refresh()
        self.assertEqual(result.return_value, 1)
        self.assertEqual([r.outcome for r in self.run_due("1 d")], ["done"])
        self.assertEqual(welcome.call("ann"), 1)

class ACommits(TransactionTestCase):
    def test_it(self):
        welcome.enqueue("left behind")

class BNothingIsLeft(TransactionTestCase):
    def test_it(self):
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM tenon.tasks")
            self.assertEqual(cursor.fetchone(), (0,))

class CMixin(TenonTestMixin, TransactionTestCase):
    def test_it(self):
        welcome.enqueue("x")
        self.assertEqual([r.outcome for r in self.run_due()], ["done"])
"""


class Shop:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        here = str(Path(__file__).parent)
        path = os.pathsep.join([str(folder), here, os.environ.get("PYTHONPATH", "")])
        self.env = {"PYTHONPATH": path, "DJANGO_SETTINGS_MODULE": "shop.settings"}

    def run(self, *words: str, code: int = 0, **env: str) -> str:
        return run_program(sys.executable, "-m", *words, cwd=self.folder, code=code, **self.env, **env)


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    folder = tmp_path / "shop"
    folder.mkdir()
    files = {"__init__": "", "settings": SETTINGS % program(), "tasks": TASKS, "tests": UNITTEST, "test_shop": PYTEST}
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return Shop(tmp_path)


def test_with_pytest_django(shop: Shop, conn: psycopg.Connection) -> None:
    found = "SELECT count(*) FROM tenon.tasks"
    assert "8 passed" in shop.run("pytest", "-p", "no:cacheprovider", "--create-db", "shop/test_shop.py")
    assert "8 passed" in shop.run(
        "pytest", "-p", "no:cacheprovider", "--create-db", "--nomigrations", "shop/test_shop.py"
    )
    assert conn.execute(found).fetchone() == (0,)  # the real database is left alone


def test_with_djangos_runner(shop: Shop, conn: psycopg.Connection) -> None:
    shop.run("django", "test", "--noinput", "shop")
    shop.run("django", "test", "--noinput", "--parallel", "2", "shop")
    off = shop.folder / "shop/settings.py"
    off.write_text(off.read_text() + 'TASKS["default"]["OPTIONS"]["MIGRATE"] = False\n')
    shop.run("django", "test", "--noinput", "shop")  # the runner makes the schema
    assert conn.execute("SELECT count(*) FROM tenon.tasks").fetchone() == (0,)
