"""Django's own tests of its Tasks framework, with tenon's backend in place of its Dummy and Immediate ones.

They are in Django's source package, which is fetched, and not in what pip installs. Slow: for TEST_LONG.
"""

from __future__ import annotations

import importlib
import logging
import os
import subprocess
import sys
import tarfile
import unittest
from pathlib import Path
from typing import Any

import django
import pytest
from conftest import run_program

os.environ["DJANGO_SETTINGS_MODULE"] = "project.settings"
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"  # some ask the database in the event loop
django.setup()

from django.test import SimpleTestCase  # noqa: E402

from tenon.django import TenonBackend  # noqa: E402

_OF_DUMMY = "of the list that a DummyBackend keeps"
_OTHERWISE = "an ImmediateBackend cannot, and this one can"
_LOGS = "of the log lines of a backend that runs tasks itself"
LEFT_OUT = {
    "DummyBackendTestCase.test_clear": _OF_DUMMY,
    "DummyBackendTestCase.test_refresh_result": _OF_DUMMY,
    "DummyBackendTestCase.test_refresh_result_async": _OF_DUMMY,
    "ImmediateBackendTestCase.test_cannot_get_result": _OTHERWISE,
    "ImmediateBackendTestCase.test_cannot_pass_run_after": _OTHERWISE,
    "ImmediateBackendTestCase.test_cannot_refresh_result": _OTHERWISE,
    "ImmediateBackendTestCase.test_enqueue_logs": _LOGS,
    "ImmediateBackendTestCase.test_failed_logs": _LOGS,
    "ImmediateBackendTestCase.test_throws_keyboard_interrupt": "it is the worker's process that is interrupted",
}


class Deferring(TenonBackend):
    """With what the tests ask of a DummyBackend."""

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        params.setdefault("OPTIONS", {})
        super().__init__(alias, params)
        self.results: list[Any] = []

    def clear(self) -> None:
        self.results.clear()

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        result = super().enqueue(task, args, kwargs)
        self.results.append(result)
        return result

    def get_result(self, result_id: str) -> Any:
        """When it was enqueued says the database's clock; those who compare results know the application's."""
        found = super().get_result(result_id)
        for known in self.results:
            if known.id == found.id:
                object.__setattr__(found, "enqueued_at", known.enqueued_at)
        return found


class Working(Deferring):
    """With a worker that runs each task at once, and once, as an ImmediateBackend does."""

    def _options(self, task: Any) -> dict[str, Any]:
        return {**super()._options(task), "max_attempts": 1}

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        result = super().enqueue(task, args, kwargs)
        run_program(
            sys.executable, "-m", "django", "tenon_worker", "--processes", "1", "--queues", task.queue_name,
            "--", "--until-empty", PYTHONPATH=os.pathsep.join(sys.path[:2]), DJANGO_SETTINGS_MODULE="own_settings",
        )  # fmt: skip
        result = self.get_result(result.id)
        for error in result.errors:  # the worker's process has logged it
            logging.getLogger("django.tasks").error(error.traceback)
        return result


def fetched() -> Path:
    """Its folder tests/, of the version that is installed."""
    folder = Path(sys.prefix) / "django-sources"
    found = folder / f"django-{django.__version__}" / "tests"
    if not found.is_dir():
        what = ["--no-deps", "--no-binary", ":all:", "-d", str(folder), f"django=={django.__version__}"]
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", *what], check=True)
        (package,) = folder.glob(f"[dD]jango-{django.__version__}.tar.gz")
        with tarfile.open(package) as tar:
            tar.extractall(folder, [m for m in tar if "/tests/tasks/" in m.name], filter="data")
    return found


def classes() -> list[type[SimpleTestCase]]:
    sys.path.insert(0, str(fetched()))
    found = []
    for module in ("test_tasks", "test_dummy_backend", "test_immediate_backend"):
        loaded = importlib.import_module(f"tasks.{module}")
        vars(loaded).update(DummyBackend=Deferring, ImmediateBackend=Working)
        found += [c for c in vars(loaded).values() if isinstance(c, type) and c.__module__ == loaded.__name__]
    return found


def replaced(tasks: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The same settings with our backends."""
    mine = {"DummyBackend": Deferring, "ImmediateBackend": Working}

    def path(backend: str) -> str:
        found = mine.get(backend.rpartition(".")[2])
        return f"{found.__module__}.{found.__qualname__}" if found else backend

    return {alias: {**one, "BACKEND": path(one["BACKEND"])} for alias, one in tasks.items()}


def name_of(case: unittest.TestCase) -> str:
    return f"{type(case).__name__}.{case._testMethodName}"


def cases() -> list[unittest.TestCase]:
    found: list[unittest.TestCase] = []
    for one in classes():
        one.databases = {"default"}
        if settings := getattr(one, "_overridden_settings", None):
            setattr(one, "_overridden_settings", {**settings, "TASKS": replaced(settings["TASKS"])})  # noqa: B010
        loaded = unittest.defaultTestLoader.loadTestsFromTestCase(one)
        found += [case for case in loaded if isinstance(case, unittest.TestCase)]
    return found


@pytest.mark.parametrize("case", cases(), ids=name_of)
def test_of_django(case: unittest.TestCase, conn: object) -> None:
    if why := LEFT_OUT.get(name_of(case)):
        pytest.skip(why)
    result = unittest.TestResult()
    unittest.TestSuite([case]).run(result)
    assert result.testsRun == 1
    assert not result.errors + result.failures, "\n".join(text for _, text in result.errors + result.failures)
