"""Tasks for the tests."""

import asyncio
import ctypes
import dataclasses
import datetime as dt
import enum
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pydantic

import tenon


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Part:
    at: dt.datetime
    colour: Colour = Colour.RED


@dataclasses.dataclass
class Order:
    number: int
    parts: list[Part]
    note: str | None = None


class Card(pydantic.BaseModel):
    holder: str
    limit: float = 0


together = threading.Barrier(4)


@tenon.task
def order(payload: Order) -> Order:
    assert isinstance(payload.parts[0], Part)
    return payload


@tenon.task
def card(payload: Card) -> Card:
    return payload


@tenon.task
def plain(payload: dict) -> dict:
    return payload


@tenon.task
def nothing() -> None: ...


@tenon.task
def noisy(payload: dict) -> int:
    print("hello from Python")
    sys.stdout.write("and again\n")
    subprocess.run(["echo", "from a subprocess"], check=True)
    libc = ctypes.CDLL(None)
    libc.puts(b"from C")
    libc.fflush(None)
    assert sys.stdin.read() == ""  # the protocol's input is not to be had
    return os.getpid()


@tenon.task
def four_at_once(payload: dict) -> None:
    together.wait(30)


two = threading.Barrier(2)


@tenon.task
def quick_or_not(payload: dict) -> None:
    if payload:
        two.wait(30)


meeting = []


@tenon.task
async def four_coroutines(payload: dict) -> None:
    meeting.append(asyncio.current_task())
    while len(meeting) < 4:
        await asyncio.sleep(0.001)


@tenon.task(max_attempts=1)
def broken(payload: dict) -> None:
    raise ValueError("no \0 such thing " + "x" * payload.get("long", 0))


@tenon.task
def retry(payload: dict) -> None:
    raise tenon.Retry(after=3600) from KeyError("inner")


@tenon.task
def snooze(payload: dict) -> None:
    raise tenon.Snooze("busy", after=dt.timedelta(hours=1))


@tenon.task
def dead(payload: dict) -> None:
    raise tenon.Dead("never")


@tenon.task
def leaves(payload: dict) -> None:
    sys.exit(3)


@tenon.task
def no_json(payload: dict) -> object:
    return {"inf": float("inf")}


@tenon.task
def transfer(payload: dict, context: tenon.Context) -> str:
    with psycopg.connect(os.environ["DATABASE_URL"]) as conn:
        conn.execute("UPDATE public.account SET balance = balance + 1")
        context.finish(conn, {"by": "finish"})
    return "not kept"


@tenon.task
async def atransfer(payload: dict, context: tenon.Context) -> None:
    async with await psycopg.AsyncConnection.connect(os.environ["DATABASE_URL"]) as conn:
        await conn.execute("UPDATE public.account SET balance = balance + 1")
        await context.afinish(conn)


@tenon.task
def steps(payload: dict, context: tenon.Context) -> object:
    if context.progress is None:
        context.set_progress({"step": 1})
        context.extend(60)
        raise tenon.Interrupted
    return context.progress


@tenon.task
def waits(payload: dict, context: tenon.Context) -> None:
    assert context.wait(60)
    context.check()


@tenon.task
async def awaits(payload: dict, context: tenon.Context) -> str:
    return await context.stopped()


@tenon.task
async def sleeps(payload: dict) -> None:
    await asyncio.sleep(60)


@tenon.task
def buys(payload: dict, context: tenon.Context) -> object:
    price = context.step("price", lambda: {"at": dt.date(2026, 1, 2)})
    paid = context.step("pay", lambda: price["at"])
    return {"steps": dict(context.steps), "paid": paid}


@tenon.task
async def abuys(payload: dict, context: tenon.Context) -> object:
    async def price() -> object:
        return {"at": dt.date(2026, 1, 2)}

    first, second = await asyncio.gather(context.astep("price", price), context.astep("other", lambda: 7))
    return [first, second]


@tenon.task
def goes_on_later(payload: dict, context: tenon.Context) -> object:
    context.sleep("nap", payload.get("nap", 3600))
    try:
        return context.wait_signal("paid", 5)
    except Exception:
        return "caught"


@tenon.task
def catches_everything(payload: dict, context: tenon.Context) -> object:
    try:
        context.wait_signal("paid")
    except BaseException:
        context.step("refund", lambda: 1)  # must not be done
    return "caught"


@tenon.task
def misuses(payload: dict, context: tenon.Context) -> list[str]:
    said = []
    for name in ("", "x" * 101, "a\0b"):
        try:
            context.step(name, lambda: 1)
        except ValueError as error:
            said.append(str(error))
    try:
        context.step("outer", lambda: context.step("outer", lambda: 1))
    except ValueError as error:
        said.append(str(error))
    try:
        context.step("long", lambda: "x" * 1_048_577)
    except ValueError as error:
        said.append(str(error))
    return said


@tenon.task
async def blocks(payload: dict, context: tenon.Context) -> None:
    context.step("a", lambda: 1)


@tenon.task
def books(payload: dict, context: tenon.Context) -> None:
    def book() -> int:
        conn.execute("INSERT INTO public.booking VALUES (%s)", (context.id,))
        return context.attempt

    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as conn:
        with conn.transaction(force_rollback=True):
            context.step("book", book, conn)
        for _ in range(2):
            with conn.transaction():
                assert context.step("book", book, conn) == 1
    if context.attempt == 1:
        raise tenon.Retry(after=0.001)


@tenon.task
async def abooks(payload: dict, context: tenon.Context) -> None:
    async def book() -> int:
        await conn.execute("INSERT INTO public.booking VALUES (%s)", (context.id,))
        return context.attempt

    async with await psycopg.AsyncConnection.connect(os.environ["DATABASE_URL"], autocommit=True) as conn:
        async with conn.transaction(force_rollback=True):
            await context.astep("book", book, conn)
        for _ in range(2):
            async with conn.transaction():
                assert await context.astep("book", book, conn) == 1
    await context.asleep("nap", 0.001)
    if context.attempt == 1:
        raise tenon.Retry(after=0.001)


small = tenon.App()


@small.task(kind="of-another-app")
def other() -> None: ...


def _circle() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


def _deep(depth: int) -> Any:
    found: Any = []
    for _ in range(depth):
        found = [found]
    return found


class Model:
    """As a library's, whose own code fails."""

    def model_dump(self, **_: Any) -> Any:
        raise RuntimeError("dictionary changed size during iteration")


class Speechless(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


RESULTS: dict[str, Callable[[], Any]] = {
    "400 digits": lambda: 10**400,
    "5,000 digits": lambda: 10**5000,
    "nan": lambda: {"a": float("nan")},
    "infinity": lambda: [1e400, -1e400],
    "half": lambda: {"a": "caf\ud83d"},
    "zero": lambda: "a\0b",
    "backslash": lambda: "\\u0000",
    "circle": _circle,
    "model": Model,
    "speechless": Speechless,
    "bytes": lambda: b"x",
    "long": lambda: "x" * 3_000_000,
}


@tenon.task
def gives(payload: dict[str, Any]) -> Any:
    if "deep" in payload:
        return _deep(payload["deep"])
    return RESULTS[payload["what"]]()


@tenon.task
def raises(payload: Any) -> None:
    raise Speechless
