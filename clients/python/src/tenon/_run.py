"""One run of one task: calls the function, and makes of what comes of it the reply that the worker is given."""

from __future__ import annotations

import asyncio
import json
import traceback
from typing import Any

from tenon._context import Context, set_current
from tenon._middleware import around
from tenon._outcomes import Dead, Interrupted, InvalidPayload, Retry, SecretError, Snooze, Span, microseconds
from tenon._payload import storable
from tenon._task import Runnable

ERROR_BYTES_MAX = 8191
CLASS_BYTES_MAX = 100
RESULT_BYTES_MAX = 2_000_000
DELAY_MS_MAX = 2_592_000_000

NOTE_CHARACTERS_MAX = 500

Reply = dict[str, Any]
"""A reply without its id; `result` is JSON text."""


def run(task: Runnable, context: Context) -> Reply:
    """For functions that block."""
    set_current(context)
    try:
        context.open(getattr(task, "secret", None))
        with around(context):
            result = task.call(context)
        reply = done(result, context)
    except BaseException as error:
        reply = failed(error, context.hides)
    return _ended(context, reply)


async def arun(task: Runnable, context: Context) -> Reply:
    """For coroutine functions."""
    set_current(context)
    try:
        context.open(getattr(task, "secret", None))
        with around(context):
            result = await task.call(context)
        reply = done(result, context)
    except BaseException as error:
        reply = failed(error, context.hides)
    return _ended(context, reply)


def _ended(context: Context, reply: Reply) -> Reply:
    """A task that sleeps or waits does so, also where its function has caught that."""
    return dict(context.suspended) if context.suspended is not None else reply


def done(result: Any, context: Context) -> Reply:
    """A result that is not JSON does not undo the work: a text replaces it, like one beyond the worker's limits."""
    if result is None:
        return {"outcome": "done"}
    try:
        text = storable(context.sealed(result, "result"))
        if len(text.encode()) > RESULT_BYTES_MAX:
            raise ValueError(f"it is longer than {RESULT_BYTES_MAX} bytes")
    except Exception as error:  # also of what the user's own classes do while they are encoded
        why = type(error).__name__ if context.hides else _message(error)[:NOTE_CHARACTERS_MAX]
        text = json.dumps(f"tenon: the result was not kept: {why}")
    return {"outcome": "done", "result": text}


def reply_line(task_id: int, reply: Reply) -> bytes:
    """As the worker reads it."""
    rest = dict(reply)
    result = rest.pop("result", None)
    text = json.dumps({"id": task_id, **rest})
    return (text if result is None else f'{text[:-1]}, "result": {result}}}').encode() + b"\n"


def failed(error: BaseException, hides: bool = False) -> Reply:
    """The outcome that an exception stands for; if the task is secret, without what the exception says."""
    try:
        return _failed(error, hides)
    except Exception as problem:
        why = f"an error that cannot be described: {type(error).__qualname__}, {type(problem).__qualname__}"
        return {"outcome": "failed", "error": why}


def _failed(error: BaseException, hides: bool) -> Reply:
    if isinstance(error, Interrupted | asyncio.CancelledError):
        return {"outcome": "interrupted"}
    if isinstance(error, Snooze):
        return {"outcome": "snooze", "error": _cut(_message(error)), **_delay(error.after)}
    outcome = "dead" if isinstance(error, Dead) else "failed"
    reply = {
        "outcome": outcome,
        "error": _cut(describe(error, hides)),
        "error_class": class_of(_cause(error)),
    }
    return {**reply, **_delay(error.after)} if isinstance(error, Retry) else reply


def _delay(after: Span | None) -> Reply:
    if after is None:
        return {}
    return {"delay_ms": min(max(microseconds(after) // 1000, 1), DELAY_MS_MAX)}


def _cause(error: BaseException) -> BaseException:
    """`raise Retry(...) from error`: error is what went wrong."""
    if isinstance(error, Retry | Dead) and error.__cause__ and not isinstance(error, InvalidPayload):
        return error.__cause__
    return error


def class_of(error: BaseException) -> str:
    """`ValueError`, `requests.exceptions.Timeout`."""
    kind = type(error)
    name = kind.__qualname__
    if kind.__module__ not in ("builtins", "__main__"):
        name = f"{kind.__module__}.{name}"
    return name if len(name.encode()) <= CLASS_BYTES_MAX else name[-24:]


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as problem:
        return f"its message cannot be had: {problem!r}"


def describe(error: BaseException, hides: bool = False) -> str:
    """What went wrong, on one line; then the traceback, without our own frames. `hides`: without messages, which may
    be of what is secret, except those that were given on purpose.
    """
    cause = _cause(error)
    said = isinstance(error, Retry | Dead) and not (hides and isinstance(error, InvalidPayload))
    head = _message(error) if said else ""
    head = head or _headline(cause, hides)
    if said and cause is error:
        return head  # it was said on purpose: where does not matter
    trace = cause.__traceback__
    while trace is not None and trace.tb_frame.f_globals.get("__package__", "").startswith("tenon"):
        trace = trace.tb_next
    if hides:
        return f"{head}\n\n" + "".join(traceback.format_tb(trace)).rstrip()
    return f"{head}\n\n" + "".join(traceback.format_exception(type(cause), cause, trace)).rstrip()


def _headline(error: BaseException, hides: bool) -> str:
    if hides and not isinstance(error, SecretError):
        return f"{class_of(error)} (its message is not kept, because the task is secret)"
    return "".join(traceback.format_exception_only(error)).strip()


def _cut(text: str) -> str:
    """Without its middle, if it is too long; and without what PostgreSQL cannot store."""
    data = text.replace("\0", "\ufffd").encode("utf-8", "replace")
    if len(data) <= ERROR_BYTES_MAX:
        return data.decode()
    half = ERROR_BYTES_MAX // 2 - 10
    return data[:half].decode(errors="ignore") + "\n[...]\n" + data[-half:].decode(errors="ignore")
