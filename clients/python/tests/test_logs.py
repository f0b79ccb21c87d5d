"""Records of the logging module as log lines."""

from __future__ import annotations

import contextvars
import logging
from typing import Any

from tenon._context import Context, set_current
from tenon.logs import Handler, install

TASK = {"id": 7, "kind": "mail", "timeout_ms": 1000, "payload": None, "progress": None, "steps": {}}


def logged(level: int, message: str, *args: object, hides: bool = False, task: bool = True) -> list[dict[str, Any]]:
    said: list[dict[str, Any]] = []
    context = Context(TASK, said.append)
    context.hides = hides
    logger = logging.Logger("shop")
    logger.addHandler(Handler())

    def run() -> None:
        if task:
            set_current(context)
        logger.log(level, message, *args)

    contextvars.copy_context().run(run)
    return said


def test_a_record_is_a_log_line() -> None:
    log = {"level": "warning", "message": "two words", "fields": {"logger": "shop"}}
    assert logged(logging.WARNING, "two %s", "words") == [{"id": 7, "log": log}]
    words = {level: logged(level, "a")[0]["log"]["level"] for level in (10, 20, 30, 40, 50)}
    assert words == {10: "debug", 20: "info", 30: "warning", 40: "error", 50: "error"}
    assert len(logged(logging.INFO, "x" * 3_000_000)[0]["log"]["message"]) == 8192


def test_outside_of_a_task_and_of_secrets_nothing_is_sent() -> None:
    assert logged(logging.ERROR, "a", task=False) == []
    assert logged(logging.ERROR, "a", hides=True) == []


def test_a_process_without_logging_prints_as_before(capsys: Any, monkeypatch: Any) -> None:
    root = logging.Logger("root")
    monkeypatch.setattr(logging, "getLogger", lambda: root)
    install()
    install()
    assert len(root.handlers) == 1
    root.info("unseen")
    root.warning("outside")
    assert capsys.readouterr().err == "outside\n"


def test_logging_of_the_application_stays(capsys: Any, monkeypatch: Any) -> None:
    root = logging.Logger("root")
    root.addHandler(logging.NullHandler())
    monkeypatch.setattr(logging, "getLogger", lambda: root)
    install()
    root.warning("outside")
    assert len(root.handlers) == 2
    assert capsys.readouterr().err == ""
