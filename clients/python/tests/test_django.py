"""The backend against what Django's documentation says of tasks, run by a real worker."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from conftest import HERE, program, run_program
from test_child import Pipes

import tenon
import tenon.testing

os.environ["DJANGO_SETTINGS_MODULE"] = "project.settings"
django = pytest.importorskip("django")
django.setup()

from django.core import checks  # noqa: E402
from django.core.exceptions import ImproperlyConfigured  # noqa: E402
from django.core.management import CommandError, call_command  # noqa: E402
from django.db import ProgrammingError, connection, transaction  # noqa: E402
from django.test import override_settings  # noqa: E402
from django.utils import timezone  # noqa: E402
from project import more, tasks, urls  # noqa: E402
from project.framework import (  # noqa: E402
    InvalidTask,
    TaskResultDoesNotExist,
    TaskResultMismatch,
    TaskResultStatus,
    default_task_backend,
    signals,
    task,
    task_backends,
)

from tenon.django import TenonBackend  # noqa: E402
from tenon.django.program import backend_of, conninfo, find  # noqa: E402
from tenon.django.results import priority_of  # noqa: E402
from tenon.django.traps import OutsideTransaction  # noqa: E402

Run = Callable[..., str]


@pytest.fixture(autouse=True)
def table(conn: psycopg.Connection) -> Iterator[None]:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE IF NOT EXISTS public.thing (number int)")
        cursor.execute("TRUNCATE public.thing")
    yield
    connection.close()


def manage(*words: str, code: int = 0, **env: str) -> str:
    where = {"PYTHONPATH": str(HERE), "DJANGO_SETTINGS_MODULE": "project.settings", **env}
    return run_program(sys.executable, "-m", "django", *words, code=code, **where)


def run_tasks(*words: str, **env: str) -> str:
    return manage("tenon_worker", "--processes", "1", *words, "--", "--until-empty", **env)


def test_flags_and_settings() -> None:
    assert isinstance(task_backends["default"], TenonBackend)
    assert default_task_backend.alias == "default"
    assert default_task_backend.options["MAX_ATTEMPTS"] == 2
    for flag in ("defer", "async_task", "get_result", "priority"):
        assert getattr(default_task_backend, f"supports_{flag}")


def test_waiting(conn: psycopg.Connection) -> None:
    done, never = (int(tasks.add.enqueue(n, 1).id) for n in (2, 3))
    assert [one.state for one in tenon.wait("default", [done, never], 0.01)] == ["unfinished"] * 2
    conn.execute("SELECT tenon.cancel(%s)", (never,))
    conn.commit()
    run_tasks()
    with tenon.Waiter(lambda: "default") as waiter:
        assert waiter.wait(done, 60).result == 3
    assert [one.state for one in tenon.wait("default", [done, never])] == ["done", "cancelled"]
    with transaction.atomic(), pytest.raises(ValueError, match=r"cannot wait within atomic\(\)"):
        tenon.wait("default", [done])

    async def run() -> None:
        with pytest.raises(TypeError, match="belongs to its thread"):
            await tenon.await_("default", [done])

    asyncio.run(run())


def test_from_enqueue_to_result(tmp_path: Path) -> None:
    sent = []
    signals.task_enqueued.connect(lambda task_result, **_: sent.append(task_result.id), weak=False, dispatch_uid="t")
    result = tasks.add.enqueue(1, b=2)
    signals.task_enqueued.disconnect(dispatch_uid="t")
    assert sent == [result.id]
    assert isinstance(result.id, str)
    assert len(result.id) < 64
    assert (result.status, result.attempts, result.args, result.kwargs) == (TaskResultStatus.READY, 0, [1], {"b": 2})
    assert result.enqueued_at is not None
    assert not result.is_finished
    with pytest.raises(ValueError, match="Task has not finished yet"):
        _ = result.return_value
    others = [
        tasks.acount.enqueue(["a", "b"]),
        tasks.email.enqueue("ann@example.org"),
        more.found_by_modules.enqueue(),
        urls.found_by_urls.enqueue(),
    ]
    context = tasks.context_of.enqueue("word")
    log = tmp_path / "signals"
    run_tasks(SIGNALS=str(log))
    result.refresh()
    assert (result.status, result.return_value, result.errors) == (TaskResultStatus.SUCCESSFUL, 3, [])
    assert result.is_finished
    assert result.attempts == len(result.worker_ids) == 1
    assert result.enqueued_at <= result.started_at <= result.last_attempted_at <= result.finished_at
    assert result == tasks.add.get_result(result.id)
    assert result.task == tasks.add
    values = [default_task_backend.get_result(r.id).return_value for r in others]
    assert values == [2, "mail to ann@example.org", "modules", "urls"]
    context.refresh()
    assert context.return_value == ["word", 1, context.id, ["word"], 1]
    said = log.read_text().splitlines()
    assert f"started {result.id} RUNNING" in said
    assert f"finished {result.id} SUCCESSFUL" in said


def test_async_twins() -> None:
    async def run() -> None:
        result = await tasks.add.aenqueue(2, 3)
        assert (await tasks.add.aget_result(result.id)).status == TaskResultStatus.READY
        assert (await default_task_backend.aget_result(result.id)).args == [2, 3]
        with pytest.raises(TaskResultDoesNotExist):
            await default_task_backend.aget_result("0")
        await result.arefresh()

    asyncio.run(run())


def test_results_that_are_none() -> None:
    for number in ("0", "x", "-1", "1e3", "٣", "9" * 60):
        with pytest.raises(TaskResultDoesNotExist):
            default_task_backend.get_result(number)
    with pytest.raises(TaskResultMismatch):
        tasks.email.get_result(tasks.add.enqueue(1).id)
    with connection.cursor() as cursor:  # somebody else's
        cursor.execute("SELECT tenon.enqueue('send_mail'), tenon.enqueue('project.tasks.connection')")
        for number in cursor.fetchone():
            with pytest.raises(TaskResultDoesNotExist):
                default_task_backend.get_result(str(number))


def test_a_row_imports_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kind and payload of a row may be anybody's."""
    (tmp_path / "imported_by_a_row.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    given = '{"args": [], "kwargs": {}'
    rows = (
        ("imported_by_a_row.task", given + "}", "is not a task of this project"),
        ("os.system", given + "}", "is not a task of this project"),
        ("project.tasks.add", given + ', "run_after": "soon"}', "invalid run_after or priority: .*soon"),
        ("project.tasks.add", given + ', "priority": "x"}', "invalid run_after or priority"),
        ("project.tasks.add", "{}", r"payload of project.tasks.add is not .*: \{\}"),
        ("project.tasks.add", "[]", r"payload of project.tasks.add is not .*: \[\]"),
    )
    with connection.cursor() as cursor:
        for kind, payload, why in rows:
            cursor.execute("SELECT tenon.enqueue(%s, %s::text)", [kind, payload])
            with pytest.raises(TaskResultDoesNotExist, match=why):
                default_task_backend.get_result(str(cursor.fetchone()[0]))
        run_tasks()
        cursor.execute("SELECT count(*) FROM tenon.dead WHERE error_class = 'tenon.InvalidPayload'")
        assert cursor.fetchone() == (4,)  # not tried again
    assert "imported_by_a_row" not in sys.modules


def test_failures() -> None:
    value = tasks.value_error.enqueue()
    one_attempt = {
        "system_exit": (tasks.system_exit.enqueue(), SystemExit, "SystemExit: This Task failed due to SystemExit\n"),
        "complex": (tasks.complex_exception.enqueue(), ValueError, "ValueError: This task failed\n"),
        "lambda": (tasks.lambda_returned.enqueue(), TypeError, "Unsupported type: <class 'function'>\n"),
        "tuple": (tasks.twice.enqueue((1, 2, 3)), TypeError, "TypeError: unhashable type: 'list'\n"),
    }
    dead = tasks.given_up.enqueue()
    run_tasks()
    value.refresh()
    assert value.status == TaskResultStatus.READY  # it is tried again
    assert (value.attempts, len(value.errors), value.finished_at) == (1, 1, None)
    for result, kind, end in one_attempt.values():
        result.refresh()
        assert result.errors[0].exception_class is kind
        assert result.errors[0].traceback.startswith("Traceback (most recent call last):\n")
        assert result.errors[0].traceback.endswith(end)
    dead.refresh()
    assert dead.status == TaskResultStatus.FAILED
    assert dead.errors[0].exception_class is tenon.Dead
    assert dead.errors[0].traceback == "never\n"
    with connection.cursor() as cursor:
        cursor.execute('SELECT tenon.run_now_where(\'{"state": "retrying"}\')')
    run_tasks()
    value.refresh()
    assert value.status == TaskResultStatus.FAILED
    assert (value.attempts, len(value.errors)) == (2, 2)
    assert value.finished_at >= value.last_attempted_at > value.started_at
    assert value.errors[1].traceback.endswith("ValueError: This Task failed due to ValueError\n")
    assert 'raise ValueError("This Task failed due to ValueError")' in value.errors[1].traceback
    with pytest.raises(ValueError, match="Task failed"):
        _ = value.return_value


def test_the_second_attempt_knows_of_the_first() -> None:
    result = tasks.second_time.enqueue()
    while default_task_backend.get_result(result.id).status == TaskResultStatus.READY:
        run_tasks()
    result.refresh()
    assert result.return_value == [2, 1]
    assert result.errors[0].traceback == "not yet\n"
    assert result.errors[0].exception_class is tenon.Retry


def test_a_process_that_dies() -> None:
    result = tasks.killed.enqueue()
    run_tasks()
    result.refresh()
    assert result.errors[0].exception_class is tenon.Crashed
    assert "signal 9" in result.errors[0].traceback


def test_cancelled() -> None:
    result = tasks.add.enqueue(1)
    with connection.cursor() as cursor:
        cursor.execute("SELECT tenon.cancel(%s)", [result.id])
    result.refresh()
    assert (result.status, result.is_finished, result.attempts) == (TaskResultStatus.FAILED, True, 0)


def test_a_lost_claim_is_no_end_and_a_cancel_is_one(tmp_path: Path) -> None:
    log = tmp_path / "signals"
    child = Pipes("tenon.django.child:app", "--no-logs", DJANGO_SETTINGS_MODULE="project.settings", SIGNALS=str(log))
    ended = []
    for why, max_attempts in (("lost", 1), ("lost", 2), ("cancelled", 1), ("cancelled", 2)):
        for kind in ("project.tasks.stopped", "project.tasks.stopped_in_a_thread"):
            number = child.send(kind, '{"args": [], "kwargs": {}}', max_attempts=max_attempts)
            assert child.read() == {"id": number, "progress": "begun"}
            child.write(b'{"stop":%d,"why":"%s"}' % (number, why.encode()))
            assert child.read() == {"id": number, "outcome": "interrupted"}
            ended += [f"finished {number} FAILED"] if why == "cancelled" else []
    child.end()
    assert [line for line in log.read_text().splitlines() if line.startswith("finished")] == ended


def test_expired() -> None:
    result = tasks.add.enqueue(1)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE tenon.task SET start_before = now() WHERE id = %s", [result.id])
        result.refresh()
        assert result.status == TaskResultStatus.FAILED  # nothing starts it any more
        cursor.execute("SELECT tenon.settle()")
    result.refresh()
    assert (result.status, result.is_finished, result.attempts) == (TaskResultStatus.FAILED, True, 0)


def test_after_the_commit_and_never_before() -> None:
    with transaction.atomic():
        result = tasks.there.enqueue(1)
        run_tasks()  # it sees nothing
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO public.thing VALUES (1)")
        point = transaction.savepoint()
        rolled_back = tasks.there.enqueue(1)
        transaction.savepoint_rollback(point)
    run_tasks()
    result.refresh()
    assert result.return_value == 1
    with pytest.raises(TaskResultDoesNotExist):
        rolled_back.refresh()


def test_tasks_of_tenon_on_an_alias(conn: psycopg.Connection) -> None:
    @tenon.App().task
    def on_alias(payload: Any) -> None: ...

    count = "SELECT count(*) FROM tenon.task WHERE kind = 'on_alias'"

    async def run() -> list[int]:
        return [await on_alias.aenqueue("default", {}), *await on_alias.aenqueue_many("default", [{}, {}])]

    with transaction.atomic():
        ids = [on_alias.enqueue("default", {}), *on_alias.enqueue_many("default", [{}, {}])]
        assert conn.execute(count).fetchone() == (0,)
        found = [one.id for one in tenon.testing.mine("default")]
        assert found == ids
        transaction.set_rollback(True)
    assert len({*ids, *asyncio.run(run())}) == 6
    assert conn.execute(count).fetchone() == (3,)


def test_messages_on_an_alias(conn: psycopg.Connection) -> None:
    count = "SELECT count(*) FROM tenon.message WHERE exchange = 'on_alias'"

    async def run() -> list[int]:
        return [
            await tenon.apublish("default", "on_alias", "a", {"order": 42}, order_key="order 42"),
            *await tenon.apublish_many("default", "on_alias", "a", [b"x", b"y"]),
        ]

    with transaction.atomic():
        ids = [
            tenon.publish("default", "on_alias", "a", {"order": 42}),
            *tenon.publish_many(connection, "on_alias", "a", ["x", "y"]),
        ]
        assert conn.execute(count).fetchone() == (0,)
        transaction.set_rollback(True)
    assert len({*ids, *asyncio.run(run())}) == 6
    assert conn.execute(count).fetchone() == (3,)


def test_wake_ups_after_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []
    publisher = tenon.Publisher("amqp://127.0.0.1:1/")
    monkeypatch.setattr(publisher, "_send", sent.extend)
    monkeypatch.setattr(TenonBackend, "_publisher", lambda _: publisher)
    with transaction.atomic():
        number = tasks.add.enqueue(1).id
        with contextlib.suppress(RuntimeError), transaction.atomic():
            tasks.add.enqueue(2)
            raise RuntimeError
        assert sent == []
    assert [(str(w.id), w.exchange, w.routing_key) for w in sent] == [(number, "tenon", "default/project.tasks.add")]


def test_exactly_once() -> None:
    result = tasks.once.enqueue()
    run_tasks()
    result.refresh()
    assert result.return_value == {"kept": True}
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM public.thing")
        assert cursor.fetchone() == (1,)


def test_run_after_and_priority() -> None:
    at = timezone.now() + dt.timedelta(hours=1)
    later = tasks.add.using(run_after=at, priority=-50, queue_name="mail").enqueue(1)
    soon = tasks.add.using(run_after=dt.timedelta(hours=1)).enqueue(1)
    found = default_task_backend.get_result(later.id)
    assert found.task == later.task
    assert (found.task.run_after, found.task.priority, found.task.queue_name) == (at, -50, "mail")
    with connection.cursor() as cursor:
        cursor.execute("SELECT run_at, priority, queue FROM tenon.task WHERE id = %s", [later.id])
        assert cursor.fetchone() == (at, 2, "mail")
        cursor.execute("SELECT run_at - created_at FROM tenon.task WHERE id = %s", [soon.id])
        assert cursor.fetchone() == (dt.timedelta(hours=1),)
    mapped = [priority_of(p) for p in range(-100, 101)]
    assert (mapped[0], mapped[99], mapped[100], mapped[101], mapped[200]) == (0, 3, None, 5, 9)
    assert [4 if p is None else p for p in mapped] == sorted(4 if p is None else p for p in mapped)


def test_validation() -> None:
    with pytest.raises(InvalidTask, match="Queue 'nowhere' is not valid for backend"):
        tasks.add.using(queue_name="nowhere")
    with pytest.raises(InvalidTask, match="priority must be a whole number"):
        tasks.add.using(priority=101)
    with pytest.raises(InvalidTask, match="run_after must be an aware datetime"):
        tasks.add.using(run_after=dt.datetime(2026, 1, 1))  # noqa: DTZ001
    with pytest.raises(InvalidTask, match="run_after is 'soon'; it should be a datetime or a timedelta"):
        tasks.add.using(run_after="soon")
    with pytest.raises(InvalidTask, match="module level"):
        task(lambda: None)
    with pytest.raises(TypeError, match="Unsupported type"):
        tasks.add.enqueue(timezone.now())
    long = type(tasks.add.func)(tasks.add.func.__code__, {"__name__": "m" * 100})
    with pytest.raises(InvalidTask, match="use a path of 1 to 100"):
        task(long)


def test_the_other_backend() -> None:
    result = more.of_the_other_backend.enqueue()
    run_tasks()
    result.refresh()
    assert result.status == TaskResultStatus.READY  # the default backend's worker does not take it
    assert "QUEUES is empty" in error_of("tenon_worker", "--backend", "other", "--tenon", program())
    run_tasks("--backend", "other", "--queues", "default", "--tenon", program())
    result.refresh()
    assert result.return_value == "other"


def error_of(*words: str) -> str:
    with pytest.raises(CommandError) as caught:
        call_command(*words)
    return str(caught.value)


def test_the_program_of_an_environment_that_is_not_activated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tenon"
    path.touch(0o755)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr("sysconfig.get_path", {"scripts": str(tmp_path)}.get)
    assert find(backend_of("default"), "tenon") == str(path)


def test_commands() -> None:
    printed = manage("tenon_worker", "--print-handlers")
    assert '"tenon.django.child:app"' in printed
    assert printed.startswith('handler "*"')
    assert json.loads(manage("tenon", "status", "--json"))["queues"] == []
    assert "there is no program 'no-such'" in error_of("tenon_worker", "--tenon", "no-such")
    with override_settings(TASKS={"default": {"BACKEND": "not.there.Backend"}}), pytest.raises(Exception, match="not"):
        call_command("tenon", "status")


def test_call_command_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    """In conftest.py, say: where it became the program, pytest ran no test and ended with 0."""
    monkeypatch.setenv("TENON_AMQP_URL", "none")
    monkeypatch.setenv("TENON_DATABASE_URL", "postgresql://127.0.0.1:1/elsewhere")  # for manage.py, not for this
    monkeypatch.setenv("PATH", str(Path(program()).parent), prepend=os.pathsep)
    out = io.StringIO()
    call_command("tenon", "status", "--json", stdout=out)
    assert json.loads(out.getvalue())["queues"] == []
    call_command("tenon", "setup")
    with pytest.raises(CommandError, match="tenon show failed with exit code 1") as caught:
        call_command("tenon", "show", "1")
    assert caught.value.returncode == 1
    result = tasks.add.enqueue(2, 3)
    call_command("tenon_worker", "--processes", "1", "--", "--until-empty")
    result.refresh()
    assert result.return_value == 5


def test_setup_in_the_same_process() -> None:
    """Where manage.py's words are executed by a script, this must come back too, with the exit code."""
    code = (
        "import sys; from django.core.management import execute_from_command_line as run\n"
        "try: run(['manage.py', 'tenon', '--tenon', sys.argv[1], 'show', '1'])\n"
        "except SystemExit as end: print('exit code', end.code)"
    )
    env = {
        "PYTHONPATH": f"{HERE}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
        "DJANGO_SETTINGS_MODULE": "project.settings",
    }
    assert "exit code 1" in run_program(sys.executable, "-c", code, program(), **env)


def row_of(result: Any) -> dict[str, Any]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_jsonb(t) FROM tenon.task t WHERE id = %s", [result.id])
        return dict(json.loads(cursor.fetchone()[0]))


def test_options_at_each_call() -> None:
    with transaction.atomic():
        first = tasks.add.using(unique_key="add-1", limit_keys=["tenant:1"], timeout="5 min", max_attempts=7).enqueue(1)
        row = row_of(first)
        assert (row["unique_key"], row["limit_keys"], row["timeout_ms"]) == ("add-1", ["tenant:1"], 300_000)
        assert row["max_attempts"] == 7  # over MAX_ATTEMPTS of the backend
        again = tasks.add.using(unique_key="add-1", queue_name="mail").using(on_conflict="replace").enqueue(2)
        assert again.id == first.id
        with connection.cursor() as cursor:
            cursor.execute("SELECT tenon.flow('mine')")
            (flow,) = cursor.fetchone()
        parent = tasks.add.using(flow=flow).enqueue(3)
        child = tasks.add.using(flow=flow, depends_on=[int(parent.id)], retry="constant(1 min)").enqueue(3)
        assert (row_of(child)["retry"], row_of(child)["flow"]) == ("constant(1 min)", flow)
        own = tasks.with_options.enqueue()
        assert (row_of(own)["max_attempts"], row_of(own)["timeout_ms"]) == (3, 60_000)
        assert hash(tasks.with_options) == hash(tasks.with_options.using(limit_keys=["a"]))
        transaction.set_rollback(True)
    with pytest.raises(TypeError, match="'unique' is not an option of a task; Django's own and unique_key, "):
        tasks.add.using(unique="x")


def test_arguments_that_do_not_fit() -> None:
    with pytest.raises(TypeError, match=r"^project.tasks.add: missing a required argument: 'a'$"):
        tasks.add.enqueue()
    with pytest.raises(TypeError, match=r"project.tasks.add: got an unexpected keyword argument 'c'"):
        tasks.add.enqueue(1, c=2)
    with pytest.raises(TypeError, match="missing a required argument: 'word'"):
        tasks.context_of.enqueue()


def test_what_the_code_declares() -> None:
    out = io.StringIO()
    call_command("tenon_sync", "--print", stdout=out)
    found = json.loads(out.getvalue())
    assert found["kinds"]["project.tasks.with_options"] == {
        "max_attempts": 3,
        "timeout": "60000000 microseconds",
        "queue": "default",
    }
    assert found["kinds"]["project.tasks.email"] == {"queue": "mail", "priority": 5}
    assert found["kinds"]["plain"] == {"queue": "plain"}
    schedule = {"kind": "project.tasks.with_options", "cron": "0 3 * * *", "payload": {"args": [], "kwargs": {}}}
    assert found["schedules"] == {"project.tasks.with_options": schedule}
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_regproc('tenon.sync')")
        if cursor.fetchone() != (None,):
            out = io.StringIO()
            call_command("tenon_sync", stdout=out)
            assert "added schedule project.tasks.with_options" in out.getvalue()
            cursor.execute("SELECT tenon.remove_schedule('project.tasks.with_options')")


def test_tasks_of_tenon_by_the_same_worker() -> None:
    with transaction.atomic():
        number = tasks.plain.enqueue("default", {"n": 2})
    run_tasks()
    assert tenon.wait("default", [number])[0].result == {"n": 2, "database": "default"}


def test_enqueued_outside_of_the_transaction(recwarn: pytest.WarningsRecorder) -> None:
    def warned() -> list[str]:
        found = [
            f"{w.filename.rpartition('/')[2]}: {w.message}" for w in recwarn.list if w.category is OutsideTransaction
        ]
        recwarn.clear()
        return found

    with transaction.atomic():
        tasks.add.enqueue(1)
        transaction.on_commit(lambda: tasks.add.enqueue(2))
        assert warned() == []
    (said,) = warned()
    assert said.startswith("test_django.py: project.tasks.add was enqueued in an on_commit callback: it is lost if")
    with transaction.atomic("lite"):
        tasks.add.enqueue(3)
        transaction.on_commit(lambda: tasks.add.enqueue(4), using="lite")  # this one is right
    (said,) = warned()
    assert 'on the database "default", outside of the transaction on "lite"' in said
    tasks.add.enqueue(5)
    asyncio.run(tasks.add.aenqueue(6))
    assert warned() == []


def test_conninfo() -> None:
    settings = {"NAME": "a b", "PASSWORD": "it's \\", "HOST": "", "OPTIONS": {"sslmode": "require", "pool": True}}
    assert conninfo(settings) == r"dbname='a b' password='it\'s \\' sslmode='require'"


def problems(**params: Any) -> list[tuple[str | None, str]]:
    return [(c.id, c.msg) for c in TenonBackend("default", params).check()]


def test_system_checks() -> None:
    assert checks.run_checks() == []
    there = "AMQP_URL, DATABASE, MAX_ATTEMPTS, MIGRATE, MODULES, TENON, TIMEOUT are"
    text = f'TASKS["default"]["OPTIONS"]: MAX_ATTEMPT is not an option; {there}'
    assert problems(OPTIONS={"MAX_ATTEMPT": 1}) == [("tenon.E001", text)]
    text = 'TASKS["default"]["OPTIONS"]["DATABASE"]: there is no "nowhere" in DATABASES; there are: default, lite'
    assert problems(OPTIONS={"DATABASE": "nowhere"}) == [("tenon.E002", text)]
    with override_settings(INSTALLED_APPS=[]):
        assert [c.id for c in TenonBackend("default", {}).check()] == ["tenon.W001"]


def test_checks_on_sqlite() -> None:
    text = (
        'DATABASES["lite"] is django.db.backends.sqlite3; tenon needs django.db.backends.postgresql '
        '(or name another alias in TASKS["default"]["OPTIONS"]["DATABASE"])'
    )
    on_sqlite = {"default": {"BACKEND": "tenon.django.TenonBackend", "OPTIONS": {"DATABASE": "lite"}}}
    with override_settings(TASKS=on_sqlite):
        assert [c.msg for c in checks.run_checks()] == [text]  # whichever apps there are
        with pytest.raises(ImproperlyConfigured, match=re.escape(text)):
            tasks.add.enqueue(1)
        with pytest.raises(ImproperlyConfigured, match=re.escape(text)):
            default_task_backend.get_result("1")
        assert error_of("tenon", "setup") == error_of("tenon_worker") == text
    misspelt = {"default": {"BACKEND": "tenon.django.TenonBackend", "OPTIONS": {"TIMEOUTS": 1}}}
    with override_settings(TASKS=misspelt):
        assert "TIMEOUTS is not an option" in error_of("tenon", "setup")


def test_failures_before_the_setup() -> None:
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("ALTER SCHEMA tenon RENAME TO elsewhere")
        with pytest.raises(ProgrammingError, match=r'schema "tenon" does not exist in the database "\w+": run manage'):
            tasks.add.enqueue(1)
        transaction.set_rollback(True)
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("ALTER SCHEMA tenon RENAME TO elsewhere")
        with pytest.raises(ProgrammingError, match=r'"tenon.tasks" does not exist in the database "\w+": run manage'):
            default_task_backend.get_result("1")
        transaction.set_rollback(True)
