"""tenon: transactional background tasks for PostgreSQL.

A task is enqueued on your own connection, in your own transaction, and runs if that commits:

    @tenon.task(queue="mail")
    def send_mail(mail: Mail) -> None: ...

    send_mail.enqueue(conn, Mail(to="ann@example.org"))

A worker of tenon runs it: python -m tenon APP is its handler.
"""

from tenon._acts import (
    ParentResult,
    abatch,
    acancel,
    acancel_flow,
    aclose,
    aflow,
    aparent_results,
    aremove_limit,
    aremove_schedule,
    aresult,
    aretry,
    arun_now,
    aset_limit,
    aset_schedule,
    asignal,
    atake_limit,
    batch,
    cancel,
    cancel_flow,
    close,
    flow,
    parent_results,
    remove_limit,
    remove_schedule,
    result,
    retry,
    run_now,
    set_limit,
    set_schedule,
    signal,
    take_limit,
)
from tenon._awaited import TaskResult
from tenon._beside import Beside, run
from tenon._context import Context, current
from tenon._middleware import middleware
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
from tenon._publish import apublish, apublish_many, publish, publish_many
from tenon._publisher import Publisher, set_publisher
from tenon._secrets import Keys, set_keys
from tenon._sync import Change, async_sync, description, sync
from tenon._task import App, Task, limit, periodic, queue, task
from tenon._wait import await_, wait
from tenon._waiter import AsyncWaiter, Waiter

__all__ = [
    "App",
    "AsyncWaiter",
    "Beside",
    "Change",
    "Context",
    "Crashed",
    "Dead",
    "Interrupted",
    "InvalidPayload",
    "Keys",
    "Outcome",
    "ParentResult",
    "Publisher",
    "Retry",
    "SecretError",
    "Snooze",
    "Suspended",
    "Task",
    "TaskResult",
    "TimedOut",
    "Waiter",
    "abatch",
    "acancel",
    "acancel_flow",
    "aclose",
    "aflow",
    "aparent_results",
    "apublish",
    "apublish_many",
    "aremove_limit",
    "aremove_schedule",
    "aresult",
    "aretry",
    "arun_now",
    "aset_limit",
    "aset_schedule",
    "asignal",
    "async_sync",
    "atake_limit",
    "await_",
    "batch",
    "cancel",
    "cancel_flow",
    "close",
    "current",
    "description",
    "flow",
    "limit",
    "middleware",
    "parent_results",
    "periodic",
    "publish",
    "publish_many",
    "queue",
    "remove_limit",
    "remove_schedule",
    "result",
    "retry",
    "run",
    "run_now",
    "set_keys",
    "set_limit",
    "set_publisher",
    "set_schedule",
    "signal",
    "sync",
    "take_limit",
    "task",
    "wait",
]
