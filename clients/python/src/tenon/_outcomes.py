"""How a task ends, when it does not end well: raised by handlers."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

Span = timedelta | float | str
"""A length of time: a timedelta, seconds, or a text such as "30 s", "5 min", "2 h", "1 d"."""

UNITS_S = {"ms": 0.001, "s": 1, "min": 60, "h": 3600, "d": 86400}


def microseconds(span: Span) -> int:
    """A span as whole microseconds."""
    if isinstance(span, str):
        found = re.fullmatch(r"(\d+(?:\.\d+)?) ?(ms|s|min|h|d)", span)
        if not found:
            raise ValueError(f'the length of time is {span[:60]!r}; it should be like "30 s", "5 min", "2 h", "1 d"')
        span = float(found[1]) * UNITS_S[found[2]]
    length = span if isinstance(span, timedelta) else timedelta(seconds=span)
    return length // timedelta(microseconds=1)


class Outcome(Exception):
    """What the others have in common; not raised itself."""


class Retry(Outcome):
    """Report a failed attempt, which counts as a failure. The next attempt starts after `after`.

    Without `after`, after the retry delay of the task. `raise Retry(after=30) from error` keeps what went wrong.
    """

    def __init__(self, why: str = "", *, after: Span | None = None) -> None:
        super().__init__(why)
        self.after = after


class Snooze(Outcome):
    """Not now: it runs again after `after` (60 s by default), without counting a failure."""

    def __init__(self, why: str = "", *, after: Span | None = None) -> None:
        super().__init__(why)
        self.after = after


class Dead(Outcome):
    """This can never work: the task is dead, and not tried again."""


class Interrupted(Outcome):
    """It stopped before its end: ready again at once, with its recorded progress, without counting a failure."""


class Suspended(BaseException):
    """`Context.sleep` and `Context.wait_signal` raise this to end the attempt; the task continues later.

    It is not an Exception, so that `except Exception` lets it pass.
    """

    def __init__(self, reply: dict[str, Any]) -> None:
        super().__init__("the task continues later: do not catch this")
        self.reply = reply


class InvalidPayload(Dead, ValueError):
    """The payload is not what the task's function takes."""


class SecretError(ValueError):
    """What is encrypted cannot be decrypted here. The task fails, and is retried: usually a key is missing."""


class TimedOut(Exception):
    """What Django is shown for an attempt that was stopped at its time limit."""


class Crashed(Exception):
    """What Django is shown for an attempt whose process or worker died."""


for _public in (Outcome, Retry, Snooze, Dead, Interrupted, Suspended, InvalidPayload, SecretError, TimedOut, Crashed):
    _public.__module__ = "tenon"  # where it is imported from, and what error_class says
