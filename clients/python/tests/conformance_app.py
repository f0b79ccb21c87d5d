"""The handlers of clients/conformance/README.md."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import tenon

app = tenon.App()


@dataclass
class Typed:
    n: int


def conformance(function: Any) -> Any:
    return app.task(kind=f"conformance.{function.__name__}")(function)


@conformance
def echo(payload: Any) -> Any:
    return payload


@conformance
def nothing(payload: Any) -> None: ...


@conformance
def about(payload: Any, context: tenon.Context) -> dict[str, Any]:
    names = ("kind", "queue", "attempt", "failures", "max_attempts", "claim", "trace", "progress")
    return {"id": str(context.id), **{name: getattr(context, name) for name in names}}


@conformance
def fail(payload: Any) -> None:
    raise RuntimeError(payload["message"] * payload.get("times", 1))


@conformance
def retry(payload: Any) -> None:
    raise tenon.Retry(payload["message"], after=payload["ms"] / 1000)


@conformance
def snooze(payload: Any) -> None:
    raise tenon.Snooze(after=payload["ms"] / 1000 if "ms" in payload else None)


@conformance
def dead(payload: Any) -> None:
    raise tenon.Dead(payload["message"])


@conformance
def interrupt(payload: Any) -> None:
    raise tenon.Interrupted


@conformance
def typed(payload: Typed) -> int:
    return payload.n + 1


@conformance
def no_json(payload: Any) -> Any:
    return object()


@conformance
def large(payload: Any) -> str:
    return "x" * int(payload["bytes"])


@conformance
def print_(payload: Any) -> str:
    print(payload["text"], flush=True)
    return "printed"


@conformance
def log(payload: Any) -> str:
    logging.getLogger("shop").warning("%s", payload["message"])
    return "logged"


@conformance
def progress(payload: Any, context: tenon.Context) -> None:
    context.set_progress({"done": (context.progress or {"done": 0})["done"] + 1})


@conformance
def extend(payload: Any, context: tenon.Context) -> None:
    context.extend(payload["ms"] / 1000)


@conformance
def steps(payload: Any, context: tenon.Context) -> int:
    one = context.step("one", lambda: 1)
    return int(one + context.step("two", lambda: {"n": one + 1})["n"])


@conformance
def wait(payload: Any, context: tenon.Context) -> dict[str, Any]:
    return {"came": context.wait_signal(payload["signal"], payload["ms"] / 1000)}


@conformance
def slow(payload: Any, context: tenon.Context) -> None:
    context.wait(60)
    context.check()


@conformance
def sleep(payload: Any, context: tenon.Context) -> str:
    context.wait(payload["ms"] / 1000)
    return "slept"


app.tasks["conformance.print"] = app.tasks.pop("conformance.print_")
app.tasks["conformance.print"].kind = "conformance.print"
