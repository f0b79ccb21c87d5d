"""Records of the logging module as log lines of the task that runs (docs/protocol.md, "Log lines")."""

from __future__ import annotations

import logging

from tenon._context import current

MESSAGE_MAX = 8192
"""Characters; the worker keeps 4,096 bytes of a message."""


def _level(number: int) -> str:
    if number >= logging.ERROR:
        return "error"
    if number >= logging.WARNING:
        return "warning"
    return "info" if number >= logging.INFO else "debug"


class Handler(logging.Handler):
    """Sends each record to the worker, with the task that runs here; `tenon logs` prints it.

    Records outside of a task, and those of tasks that have something secret, go to `otherwise`, if that is given.
    """

    def __init__(self, level: int = logging.NOTSET, otherwise: logging.Handler | None = None) -> None:
        super().__init__(level)
        self.otherwise = otherwise

    def emit(self, record: logging.LogRecord) -> None:
        try:
            context = current()
        except LookupError:
            context = None
        if context is None or context.hides:
            if self.otherwise is not None and record.levelno >= self.otherwise.level:
                self.otherwise.handle(record)
            return
        try:
            message = self.format(record)[:MESSAGE_MAX]
            said = {"level": _level(record.levelno), "message": message, "fields": {"logger": record.name}}
            context._says({"id": context.id, "log": said})  # pyright: ignore[reportPrivateUsage]
        except Exception:  # a record fails no task
            self.handleError(record)


def install() -> None:
    """Adds the handler to the root logger, unless it has one. What logging would print without any, it still prints."""
    root = logging.getLogger()
    if not any(isinstance(handler, Handler) for handler in root.handlers):
        root.addHandler(Handler(otherwise=None if root.handlers else logging.lastResort))
