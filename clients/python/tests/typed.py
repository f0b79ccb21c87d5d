"""What a type checker tells those who use the package: mypy reads this, nobody runs it.

A `type: ignore` stands where it must complain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, assert_type

import tenon

conn: Any = None


@dataclass
class Order:
    number: int


@tenon.task
def nothing() -> int:
    return 1


@tenon.task
def order(payload: Order) -> str:
    return str(payload.number)


@tenon.task(queue="mail", max_attempts=3)
def with_context(payload: Order, context: tenon.Context) -> None: ...


@tenon.task(kind="again", secret="all")
async def coroutine(payload: dict[str, int]) -> list[int]:
    return list(payload.values())


@tenon.task  # type: ignore[arg-type]
def wrong_context(payload: Order, context: int) -> None: ...


@tenon.task(priorities=1)  # type: ignore[call-overload, untyped-decorator]
def wrong_option() -> None: ...


async def enqueues() -> None:
    assert_type(nothing.enqueue(conn), int)
    assert_type(order.enqueue(conn, Order(1), priority=7, unique_key="a"), int)
    assert_type(await with_context.aenqueue(conn, Order(1), delay=0.5), int)
    assert_type(order.enqueue_many(conn, [Order(1)], unique_keys=["a", None]), list[int])
    assert_type(await coroutine.aenqueue_many(conn, [{"a": 1}]), list[int])


def enqueues_wrongly() -> None:
    nothing.enqueue(conn, Order(1))  # type: ignore[arg-type]
    order.enqueue(conn, {"number": 1})  # type: ignore[arg-type]
    with_context.enqueue(conn, 1)  # type: ignore[arg-type]
    order.enqueue(conn, Order(1), priority="high")  # type: ignore[arg-type]
    order.enqueue(conn, Order(1), on_conflict="drop")  # type: ignore[arg-type]
    order.enqueue(conn, Order(1), quue="mail")  # type: ignore[call-arg]
    order.enqueue(conn, Order(1), unique_keys=["a"])  # type: ignore[call-arg]
    order.enqueue_many(conn, [1])  # type: ignore[list-item]
    order.enqueue_many(conn, [Order(1)], unique_key="a")  # type: ignore[call-arg]


def has_types() -> None:
    assert_type(order, tenon.Task[Order, str])
    assert_type(nothing, tenon.Task[None, int])
    assert_type(with_context, tenon.Task[Order, None])
    assert_type(order(Order(1)), str)
    assert_type(tenon.wait(conn, [1])[0], tenon.TaskResult)
