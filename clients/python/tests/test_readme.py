"""The snippets of README.md, run as a reader would. Those that install packages: test_fresh.py."""

from __future__ import annotations

import asyncio
import base64
import os
import re
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from conftest import HERE, program, run_program

import tenon

README = HERE.parent / "README.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)
NAMED = re.compile(r"# (append to )?([\w/]+\.py)\n")


# Each block is one of these: files by their names, commands by a part of one, and the handlers file.
FILES = {
    *(
        "app.py",
        "signup.py",
        "outcomes.py",
        "items.py",
        "bank.py",
        "orders.py",
        "cards.py",
        "wake.py",
        "test_app.py",
        "results.py",
        "web.py",
        "reports.py",
        "split.py",
        "watch_errors.py",
        "watch_traces.py",
        "watch_logs.py",
        "service.py",
    ),
    *("shop/settings.py", "orders/tasks.py", "orders/views.py", "orders/tests.py"),
}
COMMANDS = (
    "with your database driver",
    "reports --sync",
    "-m tenon app --concurrency",
    "startproject",
    "manage.py migrate",
    "manage.py tenon show",
    "manage.py tenon dev",
)


def blocks(language: str) -> list[str]:
    return [text for found, text in BLOCK.findall(README.read_text()) if found == language]


def commands(of: str) -> list[str]:
    """The lines of the shell block that has such a line."""
    (text,) = [text for text in blocks("sh") if of in text]
    return [line.split("  #")[0].strip() for line in text.splitlines()]


def write(folder: Path) -> None:
    for text in blocks("python"):
        named = NAMED.match(text)
        assert named, f"a snippet without a name: {text[:60]}"
        path = folder / named[2]
        if path.parent.is_dir():
            with path.open("a" if named[1] else "w") as file:
                file.write(text)


class Reader:
    """In an empty folder, with the program and this Python in PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        path = [str(Path(sys.executable).parent), str(Path(program()).parent), os.environ["PATH"]]
        self.env = {"PATH": os.pathsep.join(path), "TENON_PASS_ENV": "DATABASE_URL", "PYTHONPATH": ""}

    def run(self, command: str, **env: str) -> str:
        return run_program("bash", "-ec", command, cwd=self.folder, **self.env, **env)


@pytest.fixture
def reader(tmp_path: Path, conn: psycopg.Connection) -> Reader:
    write(tmp_path)
    return Reader(tmp_path)


def test_no_block_is_left_out() -> None:
    assert {named[2] for text in blocks("python") if (named := NAMED.match(text))} == FILES
    assert len(blocks("python")) == len(FILES)
    for text in blocks("sh"):
        assert sum(of in text for of in COMMANDS) == 1, text
    assert len(blocks("sh")) == len(COMMANDS)
    others = 2  # the opening and the handlers file
    assert README.read_text().count("\n```") == 2 * (len(FILES) + len(COMMANDS) + others)


def states(conn: psycopg.Connection) -> list[tuple[object, ...]]:
    found = conn.execute("SELECT kind, state, count(*) FROM tenon.tasks GROUP BY 1, 2 ORDER BY 1, 2").fetchall()
    conn.rollback()
    return list(found)


def test_from_enqueue_to_result(reader: Reader, conn: psycopg.Connection) -> None:
    printed, started = commands("-m tenon app --concurrency")
    assert reader.run("python signup.py").startswith("task ")
    reader.run("python wake.py")
    reader.run(printed)
    assert '"--concurrency", "8"' in (reader.folder / "handlers.conf").read_text()
    reader.run(f"{started} --until-empty")
    assert states(conn) == [("send_mail", "done", 13)]
    reader.run("python -m pytest -q test_app.py")


def test_results(reader: Reader, conn: psycopg.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    printed, started = commands("-m tenon app --concurrency")
    reader.run(printed)
    out = reader.run(f"{started} & worker=$!; python results.py; kill $worker; wait $worker")
    (line,) = re.findall(r"^print\(mail.state.*# (.*)$", README.read_text(), re.M)
    assert line in out.splitlines()
    monkeypatch.syspath_prepend(str(reader.folder))
    import web

    async def run() -> None:
        row = conn.execute("SELECT max(id) FROM tenon.history").fetchone()
        assert row
        assert await web.answer(row[0]) == {"state": "done", "result": {"sent": "ann@example.org"}}
        await web.waiter.close()

    asyncio.run(run())


def test_the_handler_written_by_hand(reader: Reader, conn: psycopg.Connection) -> None:
    (text,) = re.findall(r"^```\n(handler .*?)^```$", README.read_text(), re.M | re.S)
    (reader.folder / "hand.conf").write_text(text.replace('"python3"', f'"{sys.executable}"'))
    conn.execute("SELECT tenon.enqueue('thumbnail')")
    conn.commit()
    reader.run("tenon worker --handlers hand.conf --until-empty")
    assert states(conn) == [("thumbnail", "done", 1)]


def test_outcomes_and_the_context(reader: Reader, conn: psycopg.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(reader.folder))
    import items
    import outcomes

    from tenon.testing import run

    found = [run(outcomes.charge, {"state": s}).outcome for s in ("busy", "slow", "stolen", "stopped", "fine")]
    assert found == ["snooze", "failed", "dead", "interrupted", "done"]
    ran = run(items.import_items, {"items": 3}, progress=1, attempt=2)
    assert (ran.result, ran.progress, len(ran.extended)) == (2, [2, 3], 2)


def test_exactly_once(reader: Reader, conn: psycopg.Connection) -> None:
    conn.execute("DROP TABLE IF EXISTS public.account")
    conn.execute("CREATE TABLE public.account AS SELECT 0 AS balance")
    conn.execute("""SELECT tenon.enqueue('transfer', '{"amount": 5}')""")
    conn.commit()
    reader.run("python -m tenon bank --print-handlers > bank.conf")
    reader.run("tenon worker --handlers bank.conf --until-empty")
    assert states(conn) == [("transfer", "done", 1)]
    assert conn.execute("SELECT balance FROM public.account").fetchone() == (5,)


def test_steps(reader: Reader, conn: psycopg.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(reader.folder))
    conn.execute("DROP TABLE IF EXISTS public.shelf")
    conn.execute("CREATE TABLE public.shelf AS SELECT 9 AS items")
    conn.commit()
    import orders

    from tenon.testing import run

    first = run(orders.order, {"order": 17})
    assert (first.outcome, first.steps["charge"]) == ("snooze", {"key": "charge-1"})
    steps = {"reserve": 1, "charge": {"key": "k"}, "cooling-off": 0}
    second = run(orders.order, {"order": 17}, steps=steps)
    assert (second.outcome, second.signal) == ("wait_signal", "payment:17")
    assert run(orders.order, {"order": 17}, steps={**steps, "payment:17": None}).result == "refund k"
    assert run(orders.order, {"order": 17}, steps={**steps, "payment:17": True}).result == "ship"
    assert conn.execute("SELECT items FROM public.shelf").fetchone() == (8,)


def test_children(reader: Reader, conn: psycopg.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    conn.execute("""SELECT tenon.enqueue('whole', '{"n": 3}')""")
    conn.commit()
    reader.run("python -m tenon split --print-handlers > split.conf")
    while ("whole", "done", 1) not in states(conn):
        reader.run("tenon worker --handlers split.conf --until-empty")
    assert conn.execute("SELECT result FROM tenon.history WHERE kind = 'whole'").fetchone() == (5,)


def test_what_the_code_declares(reader: Reader, conn: psycopg.Connection) -> None:
    if conn.execute("SELECT to_regproc('tenon.sync')").fetchone() == (None,):
        pytest.skip("this schema has no tenon.sync")
    (sync,) = commands("reports --sync")
    assert set(reader.run(sync).splitlines()) == {
        "added queue slow",
        "added kind report",
        "added limit tenant",
        "added schedule report",
    }
    assert reader.run(sync) == ""


def test_secrets(reader: Reader, conn: psycopg.Connection) -> None:
    keys = f"2026-11:{base64.b64encode(os.urandom(32)).decode()}"
    enqueue = (
        "import os, psycopg; from cards import charge_card;"
        "charge_card.enqueue(psycopg.connect(os.environ['DATABASE_URL'], autocommit=True), {'card': '4111'})"
    )
    reader.run(f'python -c "{enqueue}"', APP_KEYS=keys)
    reader.run("python -m tenon cards --print-handlers > cards.conf", APP_KEYS=keys)
    reader.run("tenon worker --handlers cards.conf --until-empty", APP_KEYS=keys)
    row = conn.execute("SELECT payload, result FROM tenon.history").fetchone()
    assert row
    assert "4111" not in str(row)
    assert tenon.Keys.parse(keys).decrypt(row[1], kind="charge_card", what="result") == {"charged": "4111"}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reader:
    """Its Django project."""
    clone = tmp_path / "clone"
    clone.mkdir()
    reader = Reader(clone)
    del reader.env["TENON_PASS_ENV"]
    monkeypatch.delenv("TENON_PASS_ENV", raising=False)  # the command names what the project needs
    _, start = commands("startproject")
    reader.run(start)
    reader.folder = tmp_path / "shop"
    write(reader.folder)
    return reader


def first_task(project: Reader, conn: psycopg.Connection) -> str:
    """What the README says from the project on; the task's number."""
    migrate, enqueue, worker, cleaner = commands("manage.py migrate")
    project.run(migrate)
    project.run("python manage.py check")
    number = project.run(enqueue).split()[-1]
    project.run(f"{worker} -- --until-empty")
    project.run(f"{cleaner} --once")
    assert states(conn) == [("orders.tasks.send_receipt", "done", 1)]
    return number


def test_django(project: Reader, conn: psycopg.Connection) -> None:
    number = first_task(project, conn)
    show, get = commands("manage.py tenon show")
    assert "orders.tasks.send_receipt" in project.run(show.replace("show 1", f"show {number}"))
    assert "receipt 17" in project.run(get.replace("'1'", f"'{number}'"))
    project.run("python manage.py tenon --settings shop.settings status")
    where = "SELECT schemaname FROM pg_tables WHERE tablename = 'auth_user'"
    assert conn.execute(where).fetchall() == [("public",)]


def test_tests_of_django(project: Reader, conn: psycopg.Connection) -> None:
    elsewhere = "postgresql://127.0.0.1:1/elsewhere"
    (runner,) = re.findall(r"`(TEST_RUNNER = .*?)`", README.read_text())
    settings = project.folder / "shop/settings.py"
    text = f"{settings.read_text()}{runner}\n"
    settings.write_text(text + 'TASKS["default"]["OPTIONS"] = {"TENON": "nowhere"}\n')
    assert "there is no program 'nowhere'" in project.run("python manage.py test 2>&1 || true")
    settings.write_text(text)  # that has left no test database, of which Django would ask
    project.run("python manage.py test", TENON_DATABASE_URL=elsewhere, TENON_AMQP_URL="amqp://127.0.0.1:1")
    assert states(conn) == []
    plain = "from django.test import SimpleTestCase\n\nclass Plain(SimpleTestCase):\n    def test(self): ...\n"
    (project.folder / "orders/test_plain.py").write_text(plain)
    made = "SELECT max(xmin::text::bigint) FROM pg_proc WHERE pronamespace = 'tenon'::regnamespace"
    before = conn.execute(made).fetchone()
    conn.rollback()
    project.run("python manage.py test orders.test_plain")
    assert conn.execute(made).fetchone() == before  # without a test database, the real one is left alone
    more = "from orders.tests import Receipts\n\nclass More(Receipts): ...\n"
    (project.folder / "orders/test_more.py").write_text(more)
    project.run("python manage.py test --keepdb")
    project.run("python manage.py test --keepdb --parallel 2")  # the copies are of a database that has the schema
    project.run("python manage.py test --noinput --parallel 2")
    settings.write_text(text + 'TEST_RUNNER = "django.test.runner.DiscoverRunner"\n')
    project.run("python manage.py test")  # migrations make the schema, too
    settings.write_text(settings.read_text() + 'TASKS["default"]["OPTIONS"] = {"MIGRATE": False}\n')
    said = project.run("python manage.py test 2>&1 || true")
    assert 'in the database "test_' in said
    assert 'in tests call_command("tenon", "setup")' in said


def test_django_while_one_develops(project: Reader, conn: psycopg.Connection) -> None:
    migrate, enqueue, _, _ = commands("manage.py migrate")
    project.run(migrate)
    printed, dev = commands("manage.py tenon dev")
    project.run(printed)
    env = {**os.environ, **project.env, "AMQP_URL": "none", "TENON_AMQP_URL": "none"}
    with subprocess.Popen(["bash", "-ec", f"exec {dev}"], cwd=project.folder, env=env) as started:
        try:
            number = project.run(enqueue).split()[-1]
            project.run(f"python manage.py tenon wait {number}")
        finally:
            started.terminate()
    assert states(conn) == [("orders.tasks.send_receipt", "done", 1)]
