"""What the admin pages show: the view tenon.tasks, to read."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import models


class TaskRow(models.Model):
    """A task, unfinished or ended. Tasks are changed by functions of tenon only."""

    id: models.Field[int, int] = models.BigIntegerField(primary_key=True)
    state: models.Field[str, str] = models.TextField()
    kind: models.Field[str, str] = models.TextField()
    queue: models.Field[str, str] = models.TextField()
    priority: models.Field[int, int] = models.SmallIntegerField()
    created_at: models.Field[datetime, datetime] = models.DateTimeField("enqueued at")
    run_at: models.Field[datetime | None, datetime | None] = models.DateTimeField(null=True)
    start_time: models.Field[datetime | None, datetime | None] = models.DateTimeField("started at", null=True)
    end_time: models.Field[datetime | None, datetime | None] = models.DateTimeField("ended at", null=True)
    attempt: models.Field[int, int] = models.IntegerField()
    failures: models.Field[int, int] = models.IntegerField()
    crashes: models.Field[int, int] = models.IntegerField()
    payload: models.Field[Any, Any] = models.JSONField()
    progress: models.Field[Any, Any] = models.JSONField(null=True)
    result: models.Field[Any, Any] = models.JSONField(null=True)
    unique_key: models.Field[str | None, str | None] = models.TextField(null=True)
    last_error: models.Field[str | None, str | None] = models.TextField(null=True)
    error_class: models.Field[str | None, str | None] = models.TextField(null=True)
    enqueued_by: models.Field[str | None, str | None] = models.TextField(null=True)

    class Meta:
        managed = False
        db_table = 'tenon"."tasks'
        ordering = ("-id",)
        verbose_name = "task"
        verbose_name_plural = "tasks"
        default_permissions = ("view", "change")

    def __str__(self) -> str:
        return f"{self.pk} {self.kind}"
