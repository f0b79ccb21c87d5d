"""What surrounds each run, the recipes of README.md for it, and a worker beside an application."""

from __future__ import annotations

import asyncio
import importlib
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from conftest import program
from test_readme import write

import tenon
from tenon._middleware import remove_middleware
from tenon.testing import arun_task, run

app = tenon.App()
said: list[str] = []


@app.task
def works(payload: dict[str, Any]) -> int:
    said.append("works")
    return 1


@app.task
async def coroutine(payload: dict[str, Any]) -> int:
    await asyncio.sleep(0)
    return 2


@app.task
def fails(payload: dict[str, Any]) -> None:
    raise ValueError("no")


@app.task
def sleeps(payload: dict[str, Any], context: tenon.Context) -> None:
    context.sleep("a while", 60)


@pytest.fixture
def chain() -> Iterator[None]:
    def outer(context: tenon.Context) -> Iterator[None]:
        said.append(f"outer {context.kind} {tenon.current().id}")
        try:
            yield
        except BaseException as error:
            said.append(f"outer saw {type(error).__name__}")
            raise
        finally:
            said.append("outer ends")

    class Inner:
        def __init__(self, _: tenon.Context) -> None:
            said.append("inner")

        def __enter__(self) -> None: ...

        def __exit__(self, *error: object) -> None:
            said.append("inner ends")

    said.clear()
    tenon.middleware(outer)
    tenon.middleware(Inner)
    yield
    remove_middleware(outer)
    remove_middleware(Inner)


def test_the_order(chain: None) -> None:
    assert run(works, id=7).result == 1
    assert said == ["outer works 7", "inner", "works", "inner ends", "outer ends"]
    said.clear()
    assert asyncio.run(arun_task(coroutine)).result == 2
    assert said == ["outer coroutine 1", "inner", "inner ends", "outer ends"]


def test_what_is_raised(chain: None) -> None:
    failed = run(fails)
    assert (failed.outcome, failed.error_class) == ("failed", "ValueError")
    assert failed.error
    assert "contextlib" not in failed.error  # the traceback begins in the task
    assert "outer saw ValueError" in said
    said.clear()
    assert run(sleeps).outcome == "snooze"
    assert "outer saw Suspended" in said


def test_one_that_fails() -> None:
    def broken(_: tenon.Context) -> Iterator[None]:
        raise RuntimeError("no database")
        yield

    tenon.middleware(broken)
    try:
        assert (run(works).outcome, run(works).error_class) == ("failed", "RuntimeError")
    finally:
        remove_middleware(broken)


@pytest.fixture
def recipes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The files of README.md."""
    from tenon import _middleware

    write(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    before = list(_middleware._chain)
    yield tmp_path
    _middleware._chain[:] = before


def test_sentry(recipes: Path) -> None:
    import sentry_sdk

    sent: list[Any] = []
    importlib.import_module("watch_errors")
    sentry_sdk.init(
        "http://key@127.0.0.1:1/1", before_send=lambda event, _: sent.append(event), default_integrations=False
    )
    try:
        run(works)
        run(sleeps)
        assert sent == []
        run(fails, id=17, attempt=3)
    finally:
        sentry_sdk.init()
    (event,) = sent
    assert event["exception"]["values"][-1]["value"] == "no"
    assert event["tags"]["kind"] == "fails"
    assert event["contexts"]["tenon"] == {"id": 17, "queue": "default", "attempt": 3}


def test_opentelemetry(recipes: Path, conn: psycopg.Connection) -> None:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    watch = importlib.import_module("watch_traces")
    with trace.get_tracer("web").start_as_current_span("request") as request:
        works.enqueue(conn, {}, trace=watch.traceparent())
    (task,) = conn.execute("SELECT trace FROM tenon.tasks").fetchall()
    run(works, trace=task[0])
    run(fails)
    run(sleeps)
    _, first, second, third = exporter.get_finished_spans()
    assert first.parent
    assert first.parent.span_id == request.get_span_context().span_id
    assert (first.name, second.status.is_ok, third.status.is_ok) == ("works", False, True)
    assert second.events[0].attributes["exception.type"] == "ValueError"


def test_structlog(recipes: Path) -> None:
    import structlog

    importlib.import_module("watch_logs")

    @app.task(kind="logs")
    def log(payload: dict[str, Any]) -> None:
        structlog.get_logger().info("said")

    with structlog.testing.capture_logs(processors=[structlog.contextvars.merge_contextvars]) as logs:
        run(log, id=5, attempt=2)
    assert logs == [{"event": "said", "log_level": "info", "task": 5, "kind": "logs", "attempt": 2}]


def test_fastapi_with_a_worker_beside_it(
    recipes: Path, conn: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fastapi.testclient import TestClient

    monkeypatch.chdir(recipes)
    monkeypatch.setenv("TENON", program())
    monkeypatch.setenv("TENON_AMQP_URL", "none")
    monkeypatch.delitem(sys.modules, "app", raising=False)  # other tests have one of that name
    service = importlib.import_module("service")
    with TestClient(service.app) as client:
        answer = client.post("/mails", json={"to": "ann@example.org"})
        assert (answer.status_code, answer.json()) == (200, {"sent": "ann@example.org"})
    alive = "SELECT count(*) FROM tenon.worker WHERE state = 'alive'"
    assert conn.execute(alive).fetchone() == (0,)  # stopped with the application


BESIDE = """
import sys, time, tenon
beside = tenon.run("app", cleaner=False)
print(beside.pid, flush=True)
sys.stdin.read()
"""


def test_a_worker_ends_with_its_application(recipes: Path) -> None:
    """However that ends."""
    env = {**os.environ, "TENON": program(), "TENON_AMQP_URL": "none", "PYTHONPATH": os.pathsep.join(sys.path)}
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", BESIDE]
    with subprocess.Popen(command, cwd=recipes, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, env=env) as parent:
        assert parent.stdout
        watcher = int(parent.stdout.readline())
        descriptor = os.pidfd_open(watcher)
        parent.send_signal(signal.SIGKILL)
    try:
        ended = select.select([descriptor], [], [], 30)[0]
        assert ended == [descriptor]
    finally:
        os.close(descriptor)


def test_without_a_database_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DATABASE_URL")
    monkeypatch.delenv("TENON_DATABASE_URL", raising=False)
    with pytest.raises(ValueError, match="set DATABASE_URL, or give database_url"):
        tenon.run("app")
