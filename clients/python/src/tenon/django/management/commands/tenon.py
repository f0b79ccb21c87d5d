"""manage.py tenon COMMAND...: the program tenon on the project's database."""

from __future__ import annotations

import argparse
from typing import Any

from django.core.management.base import CommandParser

from tenon.django.program import ProgramCommand, backend_of, find


class Command(ProgramCommand):
    help = "Run the program tenon on the project's database: tenon setup, tenon cleaner, tenon status ..."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--backend", default="default", help="an alias in TASKS")
        parser.add_argument("--tenon", help="the program; default: as the settings or PATH say")
        parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="COMMAND ...")

    def handle(self, *args: Any, **options: Any) -> None:
        backend = backend_of(options["backend"])
        self.program(backend, find(backend, options["tenon"]), options["arguments"])
