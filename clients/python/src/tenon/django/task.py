"""Django's Task with the options of tenon: send_receipt.using(unique_key="order-17", timeout="5 min").enqueue(17)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from tenon._context import called
from tenon._outcomes import Span
from tenon.django._framework import Task

if TYPE_CHECKING:
    Base = Task[Any, Any]
else:
    Base = Task


@dataclass(frozen=True, slots=True, kw_only=True)
class TenonTask(Base):
    """The arguments of tenon.enqueue, in @task(...) and using(...); docs/sql.md describes them."""

    unique_key: str | None = None
    unique_for: Span | None = None
    on_conflict: Literal["keep", "replace", "merge"] | None = None
    debounce: Span | None = None
    debounce_max: Span | None = None
    start_before: datetime | None = None
    max_attempts: int | None = None
    timeout: Span | None = None
    retry: str | None = None
    trace: str | None = None
    limit_keys: Sequence[str] | None = None
    flow: int | None = None
    depends_on: Sequence[int] | None = None
    on_parent_dead: Literal["wait", "run", "cancel"] | None = None
    tags: Sequence[str] | None = None

    def using(
        self,
        *,
        priority: int | None = None,
        queue_name: str | None = None,
        run_after: datetime | None = None,
        backend: str | None = None,
        **options: Any,
    ) -> Any:
        """A task with other options than these. TypeError names one that does not exist."""
        unknown = sorted(set(options) - set(NAMES))
        if unknown:
            raise TypeError(f"{unknown[0]!r} is not an option of a task; Django's own and {', '.join(NAMES)} are")
        changed = Base.using(self, priority=priority, queue_name=queue_name, run_after=run_after, backend=backend)
        return replace(changed, **options) if options else changed

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """The function itself, here and now."""
        with called(self.module_path):
            return Base.call(self, *args, **kwargs)

    async def acall(self, *args: Any, **kwargs: Any) -> Any:
        """The same in an event loop."""
        with called(self.module_path):
            return await Base.acall(self, *args, **kwargs)

    def __hash__(self) -> int:
        return hash((self.module_path, self.backend, self.queue_name, self.priority, self.unique_key))


NAMES = tuple(f.name for f in fields(TenonTask) if f.name not in {one.name for one in fields(Base)})
"""Those that are tenon's."""


def options_of(task: Any) -> Mapping[str, Any]:
    """Those of tenon's that it has."""
    found = {name: getattr(task, name, None) for name in NAMES}
    return {name: value for name, value in found.items() if value is not None}
