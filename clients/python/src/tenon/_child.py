"""The pool child: reads task lines, runs them in threads or on an event loop, and answers (docs/protocol.md)."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any, BinaryIO

from tenon import _run
from tenon._context import Context
from tenon._payload import encode
from tenon._task import Runnable

QUICK_S = 0.001
"""A kind whose last task took less is run by the thread that has read it."""
MIND_S = 0.005
"""How often it is looked whether the leader takes long."""


class Wire:
    """stdin and stdout of the protocol, put out of the reach of whatever the handlers print or read."""

    def __init__(self, source: BinaryIO, sink: int) -> None:
        self.source = source
        self._sink = sink
        self._lock = threading.Lock()

    @classmethod
    def of_process(cls) -> Wire:
        """Takes the process's own: from here on print() goes to stderr, also of C libraries and subprocesses."""
        sys.stdout.flush()
        source, sink = os.dup(0), os.dup(1)  # not inherited by subprocesses
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)
        return cls(os.fdopen(source, "rb", 1 << 16), sink)

    def say(self, message: dict[str, Any]) -> None:
        """One line, in one piece."""
        self.write(encode(message).encode("utf-8", "replace") + b"\n")

    def write(self, line: bytes) -> None:
        with self._lock:
            try:
                rest = memoryview(line)
                while rest:
                    rest = rest[os.write(self._sink, rest) :]
            except BrokenPipeError:
                os._exit(1)  # the worker is gone, and nobody wants the answers


class Threads:
    """The threads that read task lines and run blocking functions; one of them at a time leads, that is, reads.

    To hand each task to another thread would cost more than a short one takes. So the leader runs itself what it has
    read, if that kind was quick the last time; else it lets another lead first. And where a task takes long
    unexpectedly, the minder lets another lead meanwhile: so that the next task starts, and a stop line is heard.
    """

    def __init__(self, child: Child) -> None:
        self._child = child
        self._lock = threading.Lock()
        self._runs: Context | None = None  # what the leader runs
        self._quick: dict[str, bool] = {}
        self._idle = 0
        self._leads = threading.Semaphore(0)
        self._threads: list[threading.Thread] = []
        self._ended = False
        self._busy = threading.Event()

    def run(self) -> None:
        """Until the end of input, and of what runs then."""
        threading.Thread(target=self._mind, name="tenon-minder", daemon=True).start()
        self._lead()
        for thread in self._threads:
            thread.join()

    def _lead(self) -> None:
        while not self._ended:
            item = self._child.next()
            if item is None:
                self._end()
            elif not self._run(*item):
                self._follow()

    def _follow(self) -> None:
        """Until it is this thread's turn to lead, or the end."""
        with self._lock:
            if self._ended:
                return
            self._idle += 1
        self._leads.acquire()

    def _run(self, task: Runnable, context: Context) -> bool:
        """Returns whether this thread still leads."""
        quick = self._quick.get(task.kind, False)
        with self._lock:
            self._runs = context if quick else None
            if not quick:
                self._pass_on()
        if quick and not self._busy.is_set():
            self._busy.set()
        begin = time.monotonic()
        reply = _run.run(task, context)
        self._quick[task.kind] = time.monotonic() - begin < QUICK_S
        self._child.answer(context, reply)
        with self._lock:
            leads = self._runs is context
            self._runs = None if leads else self._runs
        return leads

    def let_read(self, context: Context) -> None:
        """The thread of this task is going to wait for a line: if it leads, another must."""
        with self._lock:
            if self._runs is context:
                self._runs = None
                self._pass_on()

    def _pass_on(self) -> None:
        if self._idle > 0:
            self._idle -= 1
            self._leads.release()
        else:
            thread = threading.Thread(target=self._lead, name=f"tenon-{len(self._threads)}")
            self._threads.append(thread)
            thread.start()

    def _mind(self) -> None:
        before = None
        while self._busy.wait():
            time.sleep(MIND_S)
            with self._lock:
                if self._runs is None and before is None:
                    self._busy.clear()
                elif self._runs is not None and self._runs is before:
                    self._runs = None
                    self._pass_on()
                before = self._runs

    def _end(self) -> None:
        with self._lock:
            self._ended = True
            for _ in range(self._idle):
                self._leads.release()


class Loop:
    """Runs coroutines: one event loop, in a thread of its own."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._tasks: dict[int, asyncio.Task[None]] = {}

    def start(self, child: Child, task: Runnable, context: Context) -> None:
        self._on_loop(self._start, child, task, context)

    def cancel(self, task_id: int) -> None:
        self._on_loop(self._cancel, task_id)

    def _on_loop(self, function: Any, *args: Any) -> None:
        if self._loop is None:
            ready = threading.Event()
            self._thread = threading.Thread(target=self._run, args=(ready,), name="tenon-asyncio")
            self._thread.start()
            ready.wait()
        assert self._loop is not None
        self._loop.call_soon_threadsafe(function, *args)

    def _run(self, ready: threading.Event) -> None:
        with asyncio.Runner() as runner:
            self._loop = runner.get_loop()
            ready.set()
            self._loop.run_forever()

    def _start(self, child: Child, task: Runnable, context: Context) -> None:
        running = asyncio.get_running_loop().create_task(self._answer(child, task, context))
        self._tasks[context.id] = running
        running.add_done_callback(lambda ended: self._ended(child, context, ended))

    def _ended(self, child: Child, context: Context, running: asyncio.Task[None]) -> None:
        self._tasks.pop(context.id, None)
        if running.cancelled():  # before its first step
            child.answer(context, {"outcome": "interrupted"})

    async def _answer(self, child: Child, task: Runnable, context: Context) -> None:
        child.answer(context, await _run.arun(task, context))

    def _cancel(self, task_id: int) -> None:
        running = self._tasks.get(task_id)
        if running is not None:
            running.cancel()

    def end(self) -> None:
        if self._loop is not None and self._thread is not None:
            ended = asyncio.run_coroutine_threadsafe(self._rest(), self._loop)
            ended.result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    async def _rest(self) -> None:
        while self._tasks:
            await asyncio.wait(list(self._tasks.values()))


class Child:
    """One pool child and the tasks that it has."""

    def __init__(self, tasks: Mapping[str, Runnable], in_flight: int, wire: Wire) -> None:
        self._tasks = tasks
        self._in_flight = in_flight
        self._wire = wire
        self._running: dict[int, Context] = {}
        self._threads = Threads(self)
        self._loop = Loop()

    def serve(self) -> None:
        """Until no more tasks come and all have been answered."""
        kinds = sorted(self._tasks)
        self._wire.say({"hello": "tenon", "kinds": kinds, "in_flight": self._in_flight, "stop": True})
        self._threads.run()
        self._loop.end()

    def next(self) -> tuple[Runnable, Context] | None:
        """The next task for a thread; None at the end of input. The leader alone calls it."""
        while line := self._wire.source.readline():
            item = self._line(line)
            if item is not None:
                return item
        for context in list(self._running.values()):
            context.end_of_lines()
        return None

    def _line(self, line: bytes) -> tuple[Runnable, Context] | None:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError) as error:  # 5,000 digits, or 1,500 arrays in each other
            self._refuse(task_id(line), "dead", f"Python cannot read the payload: {error}")
            return None
        if "stop" in message:
            self._stop(message["stop"], message["why"])
            return None
        if "step" in message:
            self._told(message)
            return None
        task = self._tasks.get(message["kind"])
        if task is None:
            why = f"the app has no task {message['kind']!r}"
            self._refuse(message["id"], "failed", why)
            return None
        context = self._running[message["id"]] = Context(message, self._wire.say, self._threads.let_read)
        if not task.is_async:
            return task, context
        self._loop.start(self, task, context)
        return None

    def _stop(self, which: int | None, why: str) -> None:
        for number, context in list(self._running.items()):
            if which is None or which == number:
                context.stop(why)
                if which is not None and self._tasks[context.kind].is_async:
                    self._loop.cancel(number)

    def _told(self, message: Mapping[str, Any]) -> None:
        context = self._running.get(message["step"])
        if context is not None:
            context.told(message["name"], message["recorded"])

    def _refuse(self, number: int, outcome: str, why: str) -> None:
        self._wire.say({"id": number, "outcome": outcome, "error": why})

    def answer(self, context: Context, reply: _run.Reply) -> None:
        """From any thread."""
        del self._running[context.id]
        if reply == {"outcome": "done"}:
            self._wire.write(b'{"id":%d,"outcome":"done"}\n' % context.id)
        else:
            self._wire.write(_run.reply_line(context.id, reply))


def task_id(line: bytes) -> int:
    """Each task line begins so, whatever follows."""
    return int(line[len(b'{"id":') : line.index(b",")])
