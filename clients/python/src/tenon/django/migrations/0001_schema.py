"""Makes the schema tenon in the database of a backend, by tenon setup; and tells Django what its admin pages show."""

from __future__ import annotations

from typing import Any

from django.db import migrations

from tenon.django.models import TaskRow
from tenon.django.schema import make


def forwards(apps: Any, schema_editor: Any) -> None:
    make(schema_editor.connection.alias)


class Migration(migrations.Migration):
    atomic = False
    initial = True
    dependencies = ()
    operations = (
        migrations.RunPython(forwards, migrations.RunPython.noop),
        migrations.CreateModel(
            name="TaskRow",
            fields=[(field.name, field.clone()) for field in TaskRow._meta.local_fields],
            options={
                "verbose_name": "task",
                "verbose_name_plural": "tasks",
                "db_table": 'tenon"."tasks',
                "ordering": ("-id",),
                "managed": False,
                "default_permissions": ("view", "change"),
            },
        ),
    )
