"""python -m tenon APP: a pool child of a tenon worker, which runs the tasks of an app."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path

from tenon._child import Child, Wire
from tenon._run import describe
from tenon._task import Runnable, default_app, tasks_of

KINDS_MAX = 100
"""The maximum number of kinds of one handler in a handlers file."""

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


def handlers_file(command: list[str], kinds: list[str], directory: str) -> str:
    """Entries of a handlers file, each for a hundred kinds at most."""
    words = ", ".join(quoted(word) for word in command)
    entries = []
    for i in range(0, len(kinds), KINDS_MAX):
        title = ",".join(kinds[i : i + KINDS_MAX])
        entries.append(
            f'handler "{title}" {{\n    command = {{{words}}}\n    mode = "pool"\n'
            f"    directory = {quoted(directory)}\n}}\n"
        )
    return "\n".join(entries)


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
    parser.add_argument("--print-handlers", action="store_true", help="print the handlers file, and exit")
    arguments = parser.parse_args()
    if not 1 <= arguments.concurrency <= 1024:
        parser.error("--concurrency: 1 to 1024")
    if arguments.print_handlers:
        command = [sys.executable, "-m", "tenon", arguments.app]
        command += ["--concurrency", str(arguments.concurrency)]
        print(handlers_file(command, sorted(loaded(arguments.app)), str(Path.cwd())), end="")
    else:
        wire = Wire.of_process()  # what modules print when they are imported does not go to the worker, either
        wire.say({"starting": f"importing {arguments.app}"})
        Child(loaded(arguments.app), arguments.concurrency, wire).serve()


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
