"""The admin pages: tasks to read, to retry and to cancel. Nothing else can be changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.core.paginator import Paginator
from django.db import DatabaseError, connections, transaction
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.functional import cached_property
from django.utils.html import format_html, format_html_join
from django.utils.safestring import mark_safe

from tenon.django.models import TaskRow
from tenon.django.test import backends

COUNT_MAX = 10_000
"""How many tasks are counted at most, for the pages of the list."""

if TYPE_CHECKING:
    Admin = admin.ModelAdmin[TaskRow]
    Pages = Paginator[TaskRow]
    Rows = QuerySet[TaskRow]
else:
    Admin = admin.ModelAdmin
    Pages = Paginator

_ATTEMPTS = """SELECT attempt, started_at, ended_at, outcome, host, error FROM tenon.attempt
                WHERE task_id = %s ORDER BY claims, ended_at"""
STATES = ("blocked", "scheduled", "ready", "running", "retrying", "done", "cancelled", "expired", "dead")


def database() -> str:
    """Of the first backend of tenon."""
    return next((backend.database for backend in backends()), "default")


class FewCounted(Pages):
    """A history has millions of rows, and nobody turns that many pages."""

    @cached_property
    def count(self) -> int:
        rows: Any = self.object_list
        return len(rows.values_list("pk").order_by()[:COUNT_MAX])


class StateFilter(admin.SimpleListFilter):
    title = "state"
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(state, state) for state in STATES]

    def queryset(self, request: HttpRequest, queryset: Rows) -> Rows:
        return queryset.filter(state=self.value()) if self.value() else queryset


class NameFilter(admin.SimpleListFilter):
    """The names are those of the counts, so that no task is read for them."""

    column = ""

    def has_output(self) -> bool:
        return True  # it filters, also while nothing was counted

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        with connections[database()].cursor() as cursor:
            cursor.execute(f"SELECT DISTINCT {self.column} FROM tenon.minute ORDER BY 1 LIMIT 100")
            return [(row[0], row[0]) for row in cursor.fetchall()]

    def queryset(self, request: HttpRequest, queryset: Rows) -> Rows:
        return queryset.filter(**{self.column: self.value()}) if self.value() else queryset


class KindFilter(NameFilter):
    title = parameter_name = column = "kind"


class QueueFilter(NameFilter):
    title = parameter_name = column = "queue"


@admin.register(TaskRow)
class TaskAdmin(Admin):
    list_display = ("id", "state", "kind", "queue", "created_at", "end_time", "attempt", "error_line")
    list_filter = (StateFilter, QueueFilter, KindFilter)
    search_fields = ("=id", "=kind", "=unique_key")
    search_help_text = "the number, kind or unique key of a task"
    ordering = ("-id",)
    sortable_by = ()
    show_full_result_count = False
    paginator = FewCounted
    list_per_page = 50
    actions = ("retry", "cancel")

    def get_queryset(self, request: HttpRequest) -> Rows:
        return TaskRow.objects.using(database()).order_by("-id")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        return [*(field.name for field in TaskRow._meta.fields), "why", "attempts"]

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.get_readonly_fields(request, obj)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """There is nothing to save."""

    @admin.display(description="last error")
    def error_line(self, task: TaskRow) -> str:
        return (task.last_error or "").partition("\n")[0][:100]

    @admin.display(description="why")
    def why(self, task: TaskRow) -> str:
        """As tenon why says it."""
        with connections[database()].cursor() as cursor:
            cursor.execute("SELECT tenon.why(%s)", [task.pk])
            return str(cursor.fetchone()[0])

    @admin.display(description="attempts that did not end well")
    def attempts(self, task: TaskRow) -> str:
        with connections[database()].cursor() as cursor:
            cursor.execute(_ATTEMPTS, [task.pk])
            rows = cursor.fetchall()
        lines = (
            (number, f"{ended:%Y-%m-%d %H:%M:%S}", outcome, host or "", error or "")
            for number, _, ended, outcome, host, error in rows
        )
        head = mark_safe("<tr><th>#</th><th>ended</th><th>outcome</th><th>host</th><th>error</th></tr>")
        row = "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td><pre>{}</pre></td></tr>"
        return format_html("<table>{}{}</table>", head, format_html_join("", row, lines)) if rows else "-"

    @admin.action(description="Retry or run now", permissions=["change"])
    def retry(self, request: HttpRequest, queryset: Rows) -> None:
        """One that has ended without being done runs again; one that waits for its time runs at once."""
        self._each(request, queryset, "CASE WHEN {due} THEN tenon.run_now(id) ELSE tenon.retry(id) END", "will run")

    @admin.action(description="Cancel", permissions=["change"])
    def cancel(self, request: HttpRequest, queryset: Rows) -> None:
        """A running one is told to stop."""
        self._each(request, queryset, "tenon.cancel(id)", "cancelled")

    def _each(self, request: HttpRequest, queryset: Rows, act: str, done: str) -> None:
        """One after the other: what is refused for one does not undo the others."""
        n, refused = 0, list[str]()
        due = "state IN ('scheduled', 'retrying')"
        for number in list(queryset.values_list("pk", flat=True)):
            try:
                with transaction.atomic(database()), connections[database()].cursor() as cursor:
                    sql = f"SELECT {act.format(due=due)} FROM tenon.tasks WHERE id = %s"
                    cursor.execute(sql, [number])
                    row = cursor.fetchone()
                    n += bool(row and row[0])
            except DatabaseError as error:
                refused.append(f"{number}: {str(error).splitlines()[0]}")
        self.message_user(request, f"{n} {'task' if n == 1 else 'tasks'} {done}", messages.SUCCESS)
        for why in refused[:10]:
            self.message_user(request, why, messages.ERROR)
