"""What the signals have said, for the tests to look at."""

import os
from pathlib import Path

from django.apps import AppConfig


def note(task_result, signal, **_):
    if path := os.environ.get("SIGNALS"):
        from .framework import signals

        which = "started" if signal is signals.task_started else "finished"
        with Path(path).open("a") as file:
            file.write(f"{which} {task_result.id} {task_result.status}\n")


class ProjectConfig(AppConfig):
    name = "project"

    def ready(self):
        from .framework import signals

        signals.task_started.connect(note)
        signals.task_finished.connect(note)
