"""Wake-ups: after the commit, by either library, and without harm when RabbitMQ is away."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import app
import asyncpg
import pika
import psycopg
import psycopg2
import pytest
import sqlalchemy
from conftest import URL, program, run_program
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

import tenon
from tenon import _publisher
from tenon._amqp_url import AmqpUrl
from tenon._publisher import WakeUp

AMQP = os.environ.get("AMQP_URL", "")


class Spy:
    """A queue that gets what a worker would get."""

    def __init__(self) -> None:
        self.connection = pika.BlockingConnection(pika.URLParameters(AMQP))
        self.channel = self.connection.channel()
        queue = self.channel.queue_declare("", exclusive=True).method.queue
        self.channel.queue_bind(queue, "tenon", "default/plain")
        self.bodies: list[int] = []
        self.channel.basic_consume(queue, lambda *got: self.bodies.append(int(got[3])), auto_ack=True)

    def next(self) -> int:
        end = time.monotonic() + 60
        while not self.bodies:
            assert time.monotonic() < end, "no wake-up within 60 s"
            self.connection.process_data_events(0.2)
        return self.bodies.pop(0)

    def skip_to(self, number: int | None) -> None:
        """What was enqueued before may have been announced or not."""
        assert number
        while self.next() != number:
            pass

    def is_empty(self) -> bool:
        self.connection.process_data_events(0)
        return not self.bodies


@pytest.fixture(scope="module")
def spy() -> Iterator[Spy]:
    run_program(program(), "setup", TENON_AMQP_URL=AMQP)
    spy = Spy()
    yield spy
    spy.connection.close()


@contextmanager
def publishing(url: str = AMQP) -> Iterator[tenon.Publisher]:
    publisher = tenon.Publisher(url)
    yield publisher
    publisher.close()


@pytest.fixture(params=["pika", "aio-pika"])
def publisher(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[tenon.Publisher]:
    if request.param == "aio-pika":
        monkeypatch.setattr(_publisher, "_pick_library", lambda: _publisher._AioPika)
    with publishing() as publisher:
        yield publisher


def test_after_the_commit(conn: psycopg.Connection, spy: Spy, publisher: tenon.Publisher) -> None:
    number = app.plain.enqueue(conn, {}, publisher=publisher)
    assert spy.is_empty()
    conn.commit()
    publisher.publish(conn)
    assert spy.next() == number
    ids = app.plain.enqueue_many(conn, [{}] * 3, publisher=publisher)
    conn.commit()
    publisher.publish(conn)
    assert [spy.next() for _ in ids] == ids
    assert conn.execute("SELECT bool_and(announced) FROM tenon.task").fetchone() == (True,)


def test_of_all_tasks(conn: psycopg.Connection, spy: Spy) -> None:
    with publishing() as publisher:
        tenon.set_publisher(publisher)
        try:
            number = app.plain.enqueue(conn, {})
            app.plain.enqueue(conn, {}, publisher=None)  # this one not
        finally:
            tenon.set_publisher(None)
        conn.commit()
        publisher.publish(conn)
        assert spy.next() == number
    assert spy.is_empty()
    assert conn.execute("SELECT array_agg(announced ORDER BY id) FROM tenon.task").fetchone() == ([True, False],)


def test_autocommit(conn: psycopg.Connection, spy: Spy) -> None:
    with publishing() as publisher, psycopg.connect(URL, autocommit=True) as mine:
        number = app.plain.enqueue(mine, {}, publisher=publisher)
        assert spy.next() == number
        with mine.transaction():
            second = app.plain.enqueue(mine, {}, publisher=publisher)
            assert spy.is_empty()
        publisher.publish(mine)
        assert spy.next() == second
    with publishing() as publisher:
        old = psycopg2.connect(URL)
        old.autocommit = True
        assert app.plain.enqueue(old, {}, publisher=publisher) == spy.next()
        old.close()


def test_a_session_does_it_by_itself(conn: psycopg.Connection, spy: Spy) -> None:
    engine = sqlalchemy.create_engine(URL.replace("postgresql://", "postgresql+psycopg://"))
    with publishing() as publisher, Session(engine) as session:
        for _ in range(2):
            with session.begin_nested():
                number = app.plain.enqueue(session, {}, publisher=publisher)
            assert spy.is_empty()
            session.commit()
            assert spy.next() == number
        app.plain.enqueue(session, {}, publisher=publisher)
        session.rollback()
        number = app.plain.enqueue(session, {}, publisher=publisher)
        session.commit()
        assert spy.next() == number  # and not the one that was rolled back
        publisher.close()
    assert spy.is_empty()


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2"])
def test_a_session_in_autocommit(conn: psycopg.Connection, spy: Spy, driver: str) -> None:
    url = URL.replace("postgresql://", f"postgresql+{driver}://")
    engine = sqlalchemy.create_engine(url, isolation_level="AUTOCOMMIT")
    with publishing() as publisher, Session(engine) as session:
        number = app.plain.enqueue(session, {}, publisher=publisher)
        assert spy.next() == number  # there is no commit to wait for
        session.commit()
        number = app.plain.enqueue(session, {}, publisher=publisher)
        assert spy.next() == number
        session.rollback()  # which undoes nothing
    assert spy.is_empty()
    assert conn.execute("SELECT count(*) FROM tenon.task").fetchone() == (2,)
    engine.dispose()


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2"])
def test_a_connection_of_sqlalchemy(conn: psycopg.Connection, spy: Spy, driver: str) -> None:
    engine = sqlalchemy.create_engine(URL.replace("postgresql://", f"postgresql+{driver}://"))
    with publishing() as publisher:
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as mine:
            assert app.plain.enqueue(mine, {}, publisher=publisher) == spy.next()
            mine.commit()
            with mine.begin():  # PostgreSQL does not hear of it
                assert app.plain.enqueue(mine, {}, publisher=publisher) == spy.next()
        with engine.connect() as mine:
            number = app.plain.enqueue(mine, {}, publisher=publisher)
            assert spy.is_empty()
            mine.commit()
            assert spy.is_empty()
            publisher.publish(mine)
            assert spy.next() == number
    engine.dispose()
    assert spy.is_empty()


def test_async_connections(conn: psycopg.Connection, spy: Spy) -> None:
    async def run(publisher: tenon.Publisher) -> None:
        async with asyncpg.create_pool(URL, min_size=1) as pool, pool.acquire() as mine:
            assert await app.plain.aenqueue(mine, {}, publisher=publisher) == spy.next()  # committed
            async with mine.transaction():
                number = await app.plain.aenqueue(mine, {}, publisher=publisher)
            assert spy.is_empty()
            publisher.publish(mine)
            assert spy.next() == number
        async with await psycopg.AsyncConnection.connect(URL) as mine:
            number = await app.plain.aenqueue(mine, {}, publisher=publisher)
            await mine.commit()
            publisher.publish(mine)
            assert spy.next() == number
        engine = create_async_engine(URL.replace("postgresql://", "postgresql+asyncpg://"))
        async with AsyncSession(engine) as session:
            number = await app.plain.aenqueue(session, {}, publisher=publisher)
            assert spy.is_empty()
            await session.commit()
            assert spy.next() == number
        async with AsyncSession(engine.execution_options(isolation_level="AUTOCOMMIT")) as session:
            number = await app.plain.aenqueue(session, {}, publisher=publisher)
            assert spy.next() == number
        async with engine.connect() as mine:
            number = await app.plain.aenqueue(mine, {}, publisher=publisher)
            assert spy.is_empty()
            await mine.commit()
            publisher.publish(mine)
            assert spy.next() == number
            await mine.execution_options(isolation_level="AUTOCOMMIT")
            assert await app.plain.aenqueue(mine, {}, publisher=publisher) == spy.next()
        await engine.dispose()

    with publishing() as publisher:
        asyncio.run(run(publisher))


def announced(conn: psycopg.Connection, publisher: tenon.Publisher) -> int | None:
    """Enqueue a task; its id if the publisher has announced it."""
    number = app.plain.enqueue(conn, {}, publisher=publisher)
    conn.commit()
    publisher.publish(conn)
    row = conn.execute("SELECT announced FROM tenon.task WHERE id = %s", (number,)).fetchone()
    return number if row == (True,) else None


def wait_until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end, "not within 60 s"
        time.sleep(0.01)


PASSWORD = urlsplit(AMQP).password or ""
AWAY = {
    "nobody listens": ("amqp://app:secret-word@127.0.0.1:1,127.0.0.1:2/%2f", "127.0.0.1:1,127.0.0.1:2"),
    "a wrong password": (AMQP.replace(PASSWORD, "secret-word"), "ACCESS_REFUSED"),
    "no such virtual host": (AMQP.rpartition("/")[0] + "/nowhere", "nowhere"),
}


@pytest.mark.parametrize("what", AWAY)
@pytest.mark.parametrize("library", ["_Pika", "_AioPika"])
def test_without_rabbitmq(
    conn: psycopg.Connection, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, what: str, library: str
) -> None:
    """It is said once, and from then on PostgreSQL notifies the workers."""
    monkeypatch.setattr(_publisher, "BACKOFF_S", 0.01)
    monkeypatch.setattr(_publisher, "_pick_library", lambda: getattr(_publisher, library))
    url, said = AWAY[what]
    with publishing(url) as publisher:
        announced(conn, publisher)
        wait_until(lambda: not publisher.announces())
        assert not any(announced(conn, publisher) for _ in range(100))
        wait_until(lambda: publisher._backoff > 0.1)  # tried again and again
        assert publisher._queue.empty()
    (record,) = [one for one in caplog.records if one.name == "tenon"]
    assert record.levelname == "WARNING"
    assert said in record.getMessage()
    assert "could not publish wake-ups to RabbitMQ at 127.0.0.1" in record.getMessage()
    assert "secret-word" not in caplog.text


def refused(_: str) -> Any:
    raise ConnectionRefusedError


def test_rabbitmq_comes_back(
    conn: psycopg.Connection, spy: Spy, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level("INFO", "tenon")
    monkeypatch.setattr(_publisher, "BACKOFF_S", 0.01)
    with publishing() as publisher:
        keep = publisher._open
        publisher._open = refused
        announced(conn, publisher)
        wait_until(lambda: not publisher.announces())
        publisher._open = keep
        wait_until(publisher.announces)
        publisher._since = 0.0  # a while ago
        spy.skip_to(announced(conn, publisher))
        wait_until(lambda: "RabbitMQ is back at" in caplog.text)


@pytest.mark.parametrize("library", ["_Pika", "_AioPika"])
def test_rabbitmq_blocks(
    conn: psycopg.Connection, spy: Spy, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, library: str
) -> None:
    """As with an alarm of memory or disk, which would be one for all who use that server."""
    blocks = True

    class Blocking(getattr(_publisher, library)):  # type: ignore[misc]
        def idle(self) -> None:
            super().idle()
            if blocks:
                raise _publisher._Blocked("low on memory")

    monkeypatch.setattr(_publisher, "BACKOFF_S", 0.01)
    monkeypatch.setattr(_publisher, "_pick_library", lambda: Blocking)
    with publishing() as publisher:
        announced(conn, publisher)
        wait_until(lambda: not publisher.announces())
        assert "it blocks publishers: low on memory" in caplog.text
        blocks = False
        wait_until(publisher.announces)
        spy.skip_to(announced(conn, publisher))


def test_hosts_in_turn(conn: psycopg.Connection, spy: Spy, caplog: pytest.LogCaptureFixture) -> None:
    login, _, host = AMQP.rpartition("@")
    with publishing(f"{login}@127.0.0.1:1,{host}") as publisher:
        assert announced(conn, publisher) == spy.next()
    assert not [one for one in caplog.records if one.name == "tenon"]


def test_none_is_no_publisher(conn: psycopg.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)  # no library is needed
    with publishing("none") as publisher:
        assert not announced(conn, publisher)
        assert publisher._thread is None


def test_urls() -> None:
    assert AmqpUrl("amqp://a:b@one,two:5673/v").urls == ["amqp://a:b@one/v", "amqp://a:b@two:5673/v"]
    assert AmqpUrl("amqps://[::1]:5671//").urls == ["amqps://[::1]:5671/%2f"]
    assert [AmqpUrl(f"amqp://{end}").urls for end in ("", "/", "h//")] == [["amqp://localhost/%2f"]] * 2 + [
        ["amqp://h/%2f"]
    ]
    wrong = (
        "",
        "rabbit",
        "amqp://a:secret@h,,i/",
        "amqp://a:secret@h:0",
        "amqp://a:se@cret@h",
        "amqp://a:secret@h/v?x=1",
    )
    for url in (
        *wrong,
        " amqp://a:secret@h",
        "amqp://a:secret@h\n",
        "amqp://" + "h," * 16 + "h",
        "'amqp://a:secret@h'",
    ):
        with pytest.raises(ValueError, match="the AMQP URL has at most 16 hosts and the form") as caught:
            tenon.Publisher(url)
        assert "secret" not in str(caught.value)


def test_after_a_broken_connection(conn: psycopg.Connection, spy: Spy, publisher: tenon.Publisher) -> None:
    def broken(wake_up: WakeUp) -> None:
        raise ConnectionResetError

    opened = []
    keep = publisher._open

    def connect(url: str) -> object:
        opened.append(keep(url))
        return opened[-1]

    publisher._open = connect  # type: ignore[assignment]
    for _ in range(2):
        number = app.plain.enqueue(conn, {}, publisher=publisher)
        conn.commit()
        publisher.publish(conn)
        assert spy.next() == number
        if len(opened) == 1:
            opened[0].publish = broken
    assert len(opened) == 2


def test_after_a_fork(conn: psycopg.Connection, spy: Spy) -> None:
    with publishing() as publisher:
        publisher.hold(conn, [WakeUp(1, "tenon", "default/plain")])
        publisher.publish(conn)
        assert spy.next() == 1
        publisher.hold(conn, [WakeUp(2, "tenon", "default/plain")])
        with publisher._lock:  # as another thread has it
            pid = os.fork()
            if pid == 0:
                signal.alarm(60)
                publisher.publish(conn)  # which is the parent's to do
                publisher.hold(spy, [WakeUp(3, "tenon", "default/plain")])
                publisher.publish(spy)
                publisher.close(20)
                os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        assert spy.next() == 3
        publisher.publish(conn)
        assert spy.next() == 2


def test_a_library_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(ImportError, match="needs pika or aio-pika"):
        tenon.Publisher(AMQP)
