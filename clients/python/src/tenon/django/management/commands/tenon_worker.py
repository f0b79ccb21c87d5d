"""manage.py tenon_worker: a worker of tenon, whose handler is this project."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from tenon.__main__ import handlers_file
from tenon._task import Task, default_app
from tenon.django.backend import TenonBackend
from tenon.django.child import FIRST
from tenon.django.program import ProgramCommand, backend_of, find
from tenon.django.results import discover


class Command(ProgramCommand):
    help = "Start a worker of tenon that runs this project's tasks. What follows -- goes to tenon worker."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--backend", default="default", help="an alias in TASKS")
        parser.add_argument("--queues", help="names with commas; default: QUEUES of the backend")
        parser.add_argument("--concurrency", type=int, default=4, help="tasks at once in each process (default: 4)")
        parser.add_argument("--processes", default="auto", help="processes (default: as many as processors)")
        parser.add_argument("--tenon", help="the program; default: as the settings or PATH say")
        parser.add_argument("--print-handlers", action="store_true", help="print the handlers file, and exit")
        parser.add_argument("more", nargs=argparse.REMAINDER, metavar="-- OPTIONS")

    def handle(self, *args: Any, **options: Any) -> None:
        backend = backend_of(options["backend"])
        handlers = handlers_of(backend, options["concurrency"])
        if options["print_handlers"]:
            self.stdout.write(handlers, ending="")
            return
        path = find(backend, options["tenon"])
        queues = options["queues"] or ",".join(sorted(queues_of(backend)))
        if not queues:
            raise CommandError("QUEUES is empty, so that all names are allowed: say which with --queues")
        fd = in_memory(handlers)
        arguments = ["worker", "--handlers", f"/proc/self/fd/{fd}", "--queues", queues]
        arguments += ["--slots", options["processes"], *[a for a in options["more"] if a != "--"]]
        try:
            self.program(backend, path, arguments, [fd])
        finally:
            os.close(fd)


def handlers_of(backend: TenonBackend, concurrency: int) -> str:
    kinds = discover(backend)
    if backend.alias == FIRST:
        kinds = sorted({*kinds, *default_app.tasks})
    if not kinds:
        raise CommandError(
            f'no task of the backend "{backend.alias}" was found: put them into tasks.py of an app, or name '
            "their modules in OPTIONS, MODULES"
        )
    name = "app" if backend.alias == "default" else f"app_{backend.alias}"
    command = [sys.executable, "-m", "tenon", f"tenon.django.child:{name}", "--concurrency", str(concurrency)]
    return handlers_file(command, str(Path.cwd()))


def queues_of(backend: TenonBackend) -> set[str]:
    """QUEUES, and those of the tasks of @tenon.task."""
    more = set[Any]()
    if backend.alias == FIRST and backend.queues:
        more = {task.options.get("queue") for task in default_app.tasks.values() if isinstance(task, Task)}
    return {*backend.queues, *(queue for queue in more if queue)}


def in_memory(text: str) -> int:
    """A file that is gone when the worker is."""
    fd = os.memfd_create("handlers", 0)
    os.write(fd, text.encode())
    os.set_inheritable(fd, True)
    return fd
