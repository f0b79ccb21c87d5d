"""Run due tasks in the caller's transaction, as a worker would, with their ends in the database; for tests."""

from __future__ import annotations

import json
import secrets
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any

from tenon._connections import Connection, Row
from tenon._outcomes import Span, microseconds
from tenon._run import Reply
from tenon._task import Runnable

RUNS_MAX = 10_000
"""More runs in one call are taken for tasks that enqueue each other without an end."""

# The rows of this transaction, or all: see `Scope`. A worker does not see what is not committed, and this does not
# run what others have committed, because the database may have more in it than the test.
_MINE = "SELECT m.id FROM tenon.mine() m"
_ALL = "SELECT t.id FROM tenon.task t"
_EARLIER = """
UPDATE tenon.task SET run_at = run_at - CAST(CAST({} AS text) AS interval),
                      wanted_at = wanted_at - CAST(CAST({} AS text) AS interval),
                      start_before = start_before - CAST(CAST({} AS text) AS interval)
 WHERE start_time IS NULL AND id IN (%s) RETURNING id"""
_WAIT_EARLIER = """
UPDATE tenon.waiting SET until = until - CAST(CAST({} AS text) AS interval), settled = false
 WHERE task_id IN (%s) RETURNING task_id"""
_LIMIT_EARLIER = """
UPDATE tenon.limit_task SET wanted_at = wanted_at - CAST(CAST({} AS text) AS interval)
 WHERE state IN ('later', 'ending') AND task_id IN (%s) RETURNING task_id"""
_SETTLE = "SELECT tenon.settle()"
_CLAIM = """
UPDATE tenon.task t SET start_time = clock_timestamp(), claims = claims + 1,
                         claim_key = CAST(CAST({} AS text) AS bigint),
                         worker_id = '00000000-0000-0000-0000-000000000000'
 WHERE t.id = (SELECT d.id FROM tenon.task d
                WHERE d.id IN (%s) AND d.start_time IS NULL AND d.run_at <= clock_timestamp()
                  AND d.kind = ANY (CAST({} AS text[])) AND coalesce(d.start_before > clock_timestamp(), true)
                ORDER BY d.priority DESC, d.run_at, d.id LIMIT 1)
RETURNING t.id, t.kind, t.queue, 1 + t.failures + t.crashes, t.failures, t.max_attempts, t.timeout_ms,
          t.id || '/' || t.claims || '/' || lpad(to_hex(t.claim_key), 16, '0'), t.trace,
          CAST(t.progress AS text), CAST(t.payload AS text),
          CASE WHEN t.step_count IS NOT NULL THEN CAST(tenon.steps_of(t.id) AS text) END"""
_HELD = """
SELECT 1 FROM tenon.task
 WHERE id = CAST(CAST({} AS text) AS bigint) AND claim_key = CAST(CAST({} AS text) AS bigint)"""
_STEP = "SELECT CAST(tenon.step(CAST({} AS text), CAST({} AS text), CAST(CAST({} AS text) AS jsonb)) AS text)"
_PROGRESS = "SELECT tenon.progress(CAST({} AS text), CAST(CAST({} AS text) AS jsonb))"
_FINISH = "SELECT tenon.finish(CAST({} AS text), CAST(CAST({} AS text) AS jsonb))"
_REQUEUE = """
SELECT state FROM tenon.requeue(
    CAST(CAST({} AS text[]) AS bigint[]), CAST(CAST({} AS text[]) AS bigint[]), CAST({} AS text[]), CAST({} AS text[]),
    CAST(CAST({} AS text[]) AS bigint[]), CAST({} AS text[]), CAST({} AS text[]))"""
_REASONS = {
    "failed": "failed",
    "dead": "dead",
    "snooze": "snooze",
    "wait_signal": "wait_signal",
    "interrupted": "released",
}
SNOOZE_MS = 60_000


@dataclass
class Statement:
    """To be executed; its rows are sent."""

    sql: str
    values: list[Any]


@dataclass
class Attempt:
    """To be run; the reply and what was said are sent."""

    task: Runnable
    line: dict[str, Any]


class Savepoint:
    """To be set: what follows may fail. `Release` ends it."""


class Release:
    """Keeps what followed the savepoint, or if a statement in it has failed, undoes all of that."""


Ask = Statement | Attempt | Savepoint | Release
Script = Generator[Ask, Any, None]


def script(tasks: Mapping[str, Runnable], committed: bool, ahead: Span | None) -> Script:
    """What to do, without a connection."""
    which = _ALL if committed else _MINE
    if ahead is not None:
        span = f"{microseconds(ahead)} microseconds"
        yield Statement(_EARLIER % which, [span] * 3)
        yield Statement(_WAIT_EARLIER % which, [span])
        yield Statement(_LIMIT_EARLIER % which, [span])
    for _ in range(RUNS_MAX):
        yield Statement(_SETTLE, [])
        key = secrets.randbits(62) + 1
        rows = yield Statement(_CLAIM % which, [str(key), sorted(tasks)])
        if not rows:
            return
        line = _line(rows[0])
        yield Savepoint()
        reply, said = yield Attempt(tasks[line["kind"]], line)
        yield Release()
        yield from _end(line, str(key), reply, said)
    raise RuntimeError(f"{RUNS_MAX} runs, and there are still tasks that are due: do they enqueue each other?")


def _line(row: Row) -> dict[str, Any]:
    """What a worker would send."""
    names = ("id", "kind", "queue", "attempt", "failures", "max_attempts", "timeout_ms", "claim", "trace")
    line: dict[str, Any] = dict(zip(names, row, strict=False))
    progress, payload, steps = row[len(names) :]
    line["progress"] = None if progress is None else json.loads(progress)
    line["payload"] = json.loads(payload)
    if steps is not None:
        line["steps"] = json.loads(steps)
    return line


def _end(line: dict[str, Any], key: str, reply: Reply, said: list[dict[str, Any]]) -> Script:
    """What a worker does with an answer."""
    held = yield Statement(_HELD, [str(line["id"]), key])
    if not held:
        return  # the function has finished it, or somebody has cancelled it
    for message in said:
        if "step" in message:
            step = message["step"]
            yield Statement(_STEP, [line["claim"], step["name"], json.dumps(step["value"])])
        elif "progress" in message:
            yield Statement(_PROGRESS, [line["claim"], json.dumps(message["progress"])])
    if reply["outcome"] == "done":
        yield Statement(_FINISH, [line["claim"], reply.get("result")])
        return
    delay = reply.get("delay_ms", reply.get("timeout_ms"))
    if delay is None and reply["outcome"] == "snooze":
        delay = SNOOZE_MS
    lists = [
        [str(line["id"])], [key], [_REASONS.get(reply["outcome"], reply["outcome"])], [reply.get("error")],
        [None if delay is None else str(delay)], [reply.get("error_class")], [reply.get("signal")],
    ]  # fmt: skip
    yield Statement(_REQUEUE, lists)


SAVEPOINT = "SAVEPOINT tenon_testing"
RELEASE = "RELEASE SAVEPOINT tenon_testing"
ROLLBACK = "ROLLBACK TO SAVEPOINT tenon_testing"


def release(where: Connection) -> None:
    """On a blocking connection."""
    try:
        if is_broken(where):
            where.execute(ROLLBACK)
        where.execute(RELEASE)
    except Exception:  # a statement has failed, and with it the transaction
        where.execute(ROLLBACK)


async def arelease(where: Connection) -> None:
    """On an asynchronous connection."""
    try:
        await where.aexecute(RELEASE)
    except Exception:
        await where.aexecute(ROLLBACK)


def is_broken(where: Connection) -> bool:
    """Whether Django wants to roll back what a task of its has begun; from here on it does not."""
    if not getattr(where.conn, "needs_rollback", False):
        return False
    where.conn.set_rollback(False)
    return True
