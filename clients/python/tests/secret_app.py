"""A task whose values are encrypted."""

import dataclasses
import os

import psycopg

import tenon

KEYS = tenon.Keys({"2026-11": b"1" * 32, "2026-10": b"0" * 32})
tenon.set_keys(KEYS)

secret = tenon.App()


@dataclasses.dataclass
class Card:
    number: str
    fails: str | None = None

    def __post_init__(self) -> None:
        if self.fails == "misfit" and "SECRET_CHILD" in os.environ:
            raise ValueError(self.number)


def deeper(card: Card) -> None:
    raise ValueError(f"no such card: {card.number}")


def ends(card: Card, context: tenon.Context) -> object:
    match card.fails:
        case "shows":
            return [context.progress, context.steps["authorise"]]
        case "raises":
            deeper(card)
        case "says":
            raise tenon.Dead("Secret, but said on purpose")
        case "retries":
            try:
                deeper(card)
            except ValueError as error:
                raise tenon.Retry(after=3600) from error
        case "result":
            return {"not JSON": {card.number: object()}, card.number: print}
        case "finishes":
            with psycopg.connect(os.environ["DATABASE_URL"]) as conn:
                context.finish(conn, {"finished": card.number})
    return None


@secret.task(secret="all", max_attempts=1)
def charge(card: Card, context: tenon.Context) -> object:
    if card.fails is not None:
        return ends(card, context)
    context.set_progress({"at": card.number})
    context.step("authorise", lambda: f"code of {card.number}")
    return {"last": card.number}
