"""manage.py tenon_sync: sets what the project's code declares, at each deploy."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from tenon._sync import description, sync
from tenon.django.child import make_app
from tenon.django.program import backend_of


class Command(BaseCommand):
    help = "Set in the database what the code declares: the options of tasks, schedules, limits and queues."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--backend", default="default", help="an alias in TASKS")
        parser.add_argument("--print", action="store_true", help="print what it would set, as JSON for tenon sync")

    def handle(self, *args: Any, **options: Any) -> None:
        backend = backend_of(options["backend"])
        app = make_app(backend.alias)
        if options["print"]:
            self.stdout.write(json.dumps(description(app), indent=4))
            return
        with backend.schema():
            for change in sync(backend.database, app):
                self.stdout.write(f"{change.act} {change.what} {change.name}")
