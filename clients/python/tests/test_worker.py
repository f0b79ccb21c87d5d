"""Tasks that a real worker runs."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import sys
from pathlib import Path

import app
import psycopg
from conftest import Worker, program, run_program


def outcomes(conn: psycopg.Connection, columns: str = "state") -> list[tuple[object, ...]]:
    found = conn.execute(f"SELECT kind, {columns} FROM tenon.tasks ORDER BY kind, id").fetchall()  # type: ignore[call-overload]
    conn.rollback()
    return list(found)


def test_from_enqueue_to_result(conn: psycopg.Connection, worker: Worker) -> None:
    at = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)
    app.order.enqueue(conn, app.Order(number=1, parts=[app.Part(at=at)]))
    app.card.enqueue(conn, app.Card(holder="Ann", limit=10))
    app.nothing.enqueue(conn)
    app.broken.enqueue(conn)
    app.four_coroutines.enqueue_many(conn, [{}] * 4)
    app.steps.enqueue(conn)
    app.noisy.enqueue(conn)
    conn.commit()
    worker("app", concurrency=8, TENON_SLOTS="1")  # the four coroutines meet in one child
    assert outcomes(conn) == [
        ("broken", "dead"),
        ("card", "done"),
        *[("four_coroutines", "done")] * 4,
        ("noisy", "done"),
        ("nothing", "done"),
        ("order", "done"),
        ("steps", "done"),
    ]
    rows = {r[0]: r for r in outcomes(conn, "result, last_error, error_class")}
    assert rows["order"][1] == {
        "number": 1,
        "note": None,
        "parts": [{"at": "2026-01-02T00:00:00+00:00", "colour": "red"}],
    }
    assert rows["card"][1] == {"holder": "Ann", "limit": 10.0}
    assert rows["steps"][1] == {"step": 1}
    assert str(rows["broken"][2]).startswith("ValueError: no")
    assert rows["broken"][3] == "ValueError"


def test_exactly_once(conn: psycopg.Connection, worker: Worker) -> None:
    conn.execute("CREATE TABLE IF NOT EXISTS public.account (balance int)")
    conn.execute("TRUNCATE public.account")
    conn.execute("INSERT INTO public.account VALUES (0)")
    app.transfer.enqueue_many(conn, [{}] * 5)
    app.atransfer.enqueue_many(conn, [{}] * 5)
    conn.commit()
    worker("app", concurrency=4)
    assert [o[1:] for o in outcomes(conn, "state, result")] == [("done", None)] * 5 + [("done", {"by": "finish"})] * 5
    assert conn.execute("SELECT balance FROM public.account").fetchone() == (10,)


def test_not_charged(conn: psycopg.Connection, worker: Worker) -> None:
    app.snooze.enqueue(conn)
    app.retry.enqueue(conn)
    conn.commit()
    worker("app")
    found = outcomes(conn, "failures, run_at > now() + interval '50 min'")
    assert found == [("retry", 1, True), ("snooze", 0, True)]


def test_an_app_that_cannot_be_imported(conn: psycopg.Connection, tmp_path: Path) -> None:
    """It is said why, and no task is charged: the next deploy has it right. What it prints disturbs nobody."""
    (tmp_path / "wrong.py").write_text("print('importing')\nimport no_such_module\n")
    handler = f"plain=pool:exec {sys.executable} -m tenon wrong"
    app.plain.enqueue(conn, {})
    conn.commit()
    command = [program(), "worker", "--handler", handler]
    env = {**os.environ, "TENON_AMQP_URL": "none"}
    with subprocess.Popen(command, cwd=tmp_path, env=env, stderr=subprocess.PIPE, text=True) as started:
        assert started.stderr
        said = next(line for line in started.stderr if "handler_backs_off" in line)
        started.terminate()
        started.stderr.read()
    assert "No module named 'no_such_module'" in said
    assert outcomes(conn, "state, failures, last_error") == [("plain", "ready", 0, None)]
    (tmp_path / "wrong.py").write_text(
        "import time\nprint('importing')\nimport tenon\n@tenon.task\ndef plain(_): ...\n"
    )
    run_program(*command, "--until-empty", cwd=tmp_path)
    assert outcomes(conn) == [("plain", "done")]
