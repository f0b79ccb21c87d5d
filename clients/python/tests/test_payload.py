"""Payloads: what goes in comes out, and what does not fit is said."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import json
import typing
import uuid

import pydantic
import pytest

import tenon
from tenon._payload import decode, encode


class Size(enum.IntEnum):
    SMALL = 1


class Model(pydantic.BaseModel):
    name: str = pydantic.Field(alias="Name")


@dataclasses.dataclass(frozen=True)
class Inner:
    when: dt.date
    price: decimal.Decimal


@dataclasses.dataclass
class Outer:
    key: uuid.UUID
    inner: Inner
    sizes: dict[str, Size]
    pair: tuple[int, str]
    tags: set[str]
    many: tuple[int, ...]
    model: Model
    ratio: float
    either: int | str | None = None
    word: typing.Literal["a", "b"] = "a"
    free: typing.Any = None


VALUE = Outer(
    key=uuid.UUID(int=7),
    inner=Inner(dt.date(2026, 1, 2), decimal.Decimal("1.10")),
    sizes={"x": Size.SMALL},
    pair=(1, "é"),
    tags={"t"},
    many=(1, 2),
    model=Model(Name="Ann"),
    ratio=1,
    either="7",
)


def test_round_trip() -> None:
    assert decode(Outer, json.loads(encode(VALUE))) == VALUE


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"key": "x"}, r"payload.key: no UUID"),
        ({"inner": {"when": "2026-01-02", "price": "x"}}, r"payload.inner.price: no Decimal"),
        ({"inner": {"when": "2026-01-02"}}, r"payload.inner: .*price"),
        ({"sizes": {"x": 2}}, r"payload.sizes.x: no Size"),
        ({"pair": [1]}, r"payload.pair: expected tuple"),
        ({"many": [1, "2"]}, r"payload.many\[1\]: expected int, got '2'"),
        ({"model": {}}, r"payload.model: no Model"),
        ({"ratio": True}, r"payload.ratio: expected float, got True"),
        ({"either": []}, r"payload.either: expected"),
        ({"word": "c"}, r"payload.word: expected"),
    ],
)
def test_what_does_not_fit(change: dict[str, object], says: str) -> None:
    with pytest.raises(tenon.InvalidPayload, match=says):
        decode(Outer, {**json.loads(encode(VALUE)), **change})


def test_keys_that_are_not_known_are_left_out() -> None:
    assert decode(Inner, {"when": "2026-01-02", "price": "1", "new": 1}).price == 1
