"""python -m tenon APP: a pool child of a tenon worker, which runs the tasks of an app."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from tenon._child import Child, Wire
from tenon._run import describe
from tenon._sync import description, sync
from tenon._task import App, Runnable, default_app, tasks_of
from tenon.logs import install

_EPILOG = """A worker starts it as a handler: tenon worker --handlers handlers.conf, where
python -m tenon APP --print-handlers > handlers.conf writes the file. In it "in_flight = 0"
leaves it to --concurrency how many tasks run at once. What the tasks print goes to stderr."""


def load(name: str) -> Mapping[str, Runnable]:
    """The tasks of `module`, with those of what it imports; or of `module:object`."""
    module_name, _, path = name.partition(":")
    sys.path.insert(0, str(Path.cwd()))
    module = importlib.import_module(module_name)
    if not path:
        return default_app.tasks
    found: object = module
    for part in path.split("."):
        found = getattr(found, part)
    return tasks_of(found)


def handlers_file(command: list[str], directory: str) -> str:
    """A handlers file, for all kinds that the command names in its hello."""
    words = ", ".join(quoted(word) for word in command)
    return f'handler "*" {{\n    command = {{{words}}}\n    mode = "pool"\n    directory = {quoted(directory)}\n}}\n'


def quoted(word: str) -> str:
    """A string of a handlers file; ${NAME} would be a variable."""
    if "${" in word:
        raise ValueError(f"{word}: a handlers file cannot have ${{ in a word")
    return json.dumps(word, ensure_ascii=False)


def main() -> None:
    parser = argparse.ArgumentParser("python -m tenon", description=__doc__, epilog=_EPILOG)
    parser.add_argument("app", help="a module, or module:object: a tenon.App, a task, a list of tasks")
    parser.add_argument(
        "--concurrency",
        type=int,
        default=1,
        metavar="N",
        help="maximum tasks at once, 1 (default) to 1024",
    )
    parser.add_argument("--no-logs", action="store_true", help="do not send the log records of tasks to the worker")
    parser.add_argument("--print-handlers", action="store_true", help="print the handlers file, and exit")
    parser.add_argument(
        "--sync",
        action="store_true",
        help="set what the app declares in the database of TENON_DATABASE_URL or DATABASE_URL, and exit",
    )
    parser.add_argument(
        "--print-sync", action="store_true", help="print what --sync would set, for tenon sync, and exit"
    )
    arguments = parser.parse_args()
    if not 1 <= arguments.concurrency <= 1024:
        parser.error("--concurrency: 1 to 1024")
    if arguments.print_handlers:
        command = [sys.executable, "-m", "tenon", arguments.app]
        command += ["--concurrency", str(arguments.concurrency)]
        command += ["--no-logs"] if arguments.no_logs else []
        loaded(arguments.app)  # what is wrong with it is said now
        print(handlers_file(command, str(Path.cwd())), end="")
    elif arguments.sync or arguments.print_sync:
        loaded(arguments.app)
        app = declared(arguments.app)
        print(synced(app) if arguments.sync else json.dumps(description(app), indent=4) + "\n", end="")
    else:
        wire = Wire.of_process()  # what modules print when they are imported does not go to the worker, either
        wire.say({"starting": f"importing {arguments.app}"})
        tasks = loaded(arguments.app)
        if not arguments.no_logs:
            install()  # after the app has configured its logging
        Child(tasks, arguments.concurrency, wire).serve()


def declared(name: str) -> App:
    """The app itself; a task or a list of tasks is one without schedules and limits."""
    module_name, _, path = name.partition(":")
    found: object = importlib.import_module(module_name)
    for part in path.split(".") if path else []:
        found = getattr(found, part)
    if not path:
        return default_app
    if isinstance(found, App):
        return found
    app = App()
    app.tasks = dict(tasks_of(found))
    return app


def synced(app: App) -> str:
    """What was changed, a line for each."""
    url = os.environ.get("TENON_DATABASE_URL") or os.environ.get("DATABASE_URL")
    if not url:
        sys.stderr.write("python -m tenon: set DATABASE_URL\n")
        sys.exit(2)
    import psycopg

    with psycopg.connect(url) as conn:
        changes = sync(conn, app)
    return "".join(f"{change.act} {change.what} {change.name}\n" for change in changes)


def loaded(name: str) -> Mapping[str, Runnable]:
    """The tasks of the app; without any, or where it cannot be imported, the end: what is wrong, in the first line."""
    try:
        tasks = load(name)
    except Exception as error:
        sys.stderr.write(f"python -m tenon: could not import {name}: {describe(error)}\n")
        sys.exit(1)
    if not tasks:
        sys.stderr.write(f"python -m tenon: {name} has no tasks: mark them with @tenon.task\n")
        sys.exit(2)
    return tasks


if __name__ == "__main__":
    main()
