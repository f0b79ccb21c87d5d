"""tenon.run(app): a worker and a cleaner beside an application, as its child processes.

The child of the application is this module as a program. Its stdin ends when the application does, however that ends;
then it stops what it has started.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

STOP_S = 30
"""How long running tasks may take to end, by default."""
AGAIN_S = 1.0
"""After which a program that has ended is started again."""


class Beside:
    """What run() has started; a context manager."""

    def __init__(self, command: Sequence[str], env: dict[str, str], stop_s: float) -> None:
        self._stop_s = stop_s
        words = [sys.executable, "-m", "tenon._beside", *command]
        # a session of its own: Ctrl-C in a terminal stops the application, and that stops this
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, env=env, start_new_session=True)

    @property
    def pid(self) -> int:
        """Of the process that watches over worker and cleaner."""
        return self._process.pid

    def stop(self) -> None:
        """Let running tasks end, and stop. Again: does nothing."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(self._stop_s + 5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def run(
    app: str,
    *,
    concurrency: int = 4,
    processes: int = 1,
    queues: str | None = None,
    database_url: str | None = None,
    cleaner: bool = True,
    options: Sequence[str] = (),
    stop_s: float = STOP_S,
) -> Beside:
    """Start a worker for the tasks of `app` (a module, or module:object), and a cleaner, beside this application.

    For development and small sites: one of the application's processes calls it, as in the lifespan of FastAPI.
    They end when the context ends, stop() is called, or this process dies. `database_url` is DATABASE_URL by default;
    `options` go to `tenon worker`.
    """
    from tenon._testdb import program

    env = dict(os.environ)
    url = database_url or env.get("TENON_DATABASE_URL") or env.get("DATABASE_URL")
    if not url:
        raise ValueError("set DATABASE_URL, or give database_url")
    env["TENON_DATABASE_URL"] = env["DATABASE_URL"] = url
    env.setdefault("TENON_AMQP_URL", env.get("AMQP_URL", "none"))
    env.setdefault("TENON_PASS_ENV", "DATABASE_URL")
    env["PYTHONPATH"] = os.pathsep.join(path for path in (str(Path.cwd()), env.get("PYTHONPATH", "")) if path)
    handler = [sys.executable, "-m", "tenon", app, "--concurrency", str(concurrency)]
    worker = [program(), "worker", "--handler", "*=pool:exec " + " ".join(map(_quoted, handler))]
    worker += ["--slots", str(processes), "--drain-limit", f"{stop_s:g}s", "--stderr", *options]
    worker += ["--queues", queues] if queues else []
    command = [*worker, "--", program(), "cleaner"] if cleaner else worker
    return Beside([f"{stop_s:g}", *command], env, stop_s)


def _quoted(word: str) -> str:
    import shlex

    return shlex.quote(word)


class Keeper:
    """Starts a program, and starts it again when it has ended, until it is told to stop."""

    def __init__(self, command: list[str], stopped: threading.Event) -> None:
        self._command = command
        self._stopped = stopped
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self.thread = threading.Thread(target=self._keep)
        self.thread.start()

    def _keep(self) -> None:
        while not self._stopped.is_set():
            with self._lock:
                if self._stopped.is_set():
                    return
                self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL)
            self._process.wait()
            self._stopped.wait(AGAIN_S)

    def stop(self, number: signal.Signals) -> None:
        with self._lock:
            if self._process is not None and self._process.poll() is None:
                self._process.send_signal(number)


def main() -> None:
    stop_s, words = float(sys.argv[1]), sys.argv[2:]
    commands: list[list[str]] = [[]]
    for word in words:
        if word == "--":
            commands.append([])
        else:
            commands[-1].append(word)
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os.close(0))  # the same end
    keepers = [Keeper(command, stopped) for command in commands]
    try:
        while os.read(0, 4096):
            pass
    except OSError:
        pass
    stopped.set()
    for each in keepers:
        each.stop(signal.SIGTERM)
    for each in keepers:
        each.thread.join(stop_s + 2)
    for each in keepers:
        each.stop(signal.SIGKILL)


if __name__ == "__main__":
    main()
