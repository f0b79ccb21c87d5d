"""tenon: transactional background tasks for PostgreSQL.

A task is enqueued on your own connection, in your own transaction, and runs if that commits:

    @tenon.task(queue="mail")
    def send_mail(mail: Mail) -> None: ...

    send_mail.enqueue(conn, Mail(to="ann@example.org"))

A worker of tenon runs it: python -m tenon APP is its handler.
"""

from tenon._awaited import TaskResult
from tenon._context import Context, current
from tenon._outcomes import (
    Crashed,
    Dead,
    Interrupted,
    InvalidPayload,
    Outcome,
    Retry,
    SecretError,
    Snooze,
    Suspended,
    TimedOut,
)
from tenon._publisher import Publisher, set_publisher
from tenon._secrets import Keys, set_keys
from tenon._task import App, Task, task
from tenon._wait import await_, wait
from tenon._waiter import AsyncWaiter, Waiter

__all__ = [
    "App",
    "AsyncWaiter",
    "Context",
    "Crashed",
    "Dead",
    "Interrupted",
    "InvalidPayload",
    "Keys",
    "Outcome",
    "Publisher",
    "Retry",
    "SecretError",
    "Snooze",
    "Suspended",
    "Task",
    "TaskResult",
    "TimedOut",
    "Waiter",
    "await_",
    "current",
    "set_keys",
    "set_publisher",
    "task",
    "wait",
]
