"""The admin pages of tasks."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import psycopg
import pytest
from conftest import program, run_program

pytest.importorskip("django")

SETTINGS = """
from project.settings import *
DJANGO = "django.contrib"
INSTALLED_APPS = [f"{DJANGO}.{app}" for app in ("contenttypes", "auth", "sessions", "messages", "admin")]
INSTALLED_APPS += ["tenon.django"]
MIDDLEWARE = [f"{DJANGO}.sessions.middleware.SessionMiddleware", f"{DJANGO}.auth.middleware.AuthenticationMiddleware",
              f"{DJANGO}.messages.middleware.MessageMiddleware"]
PROCESSORS = ["django.template.context_processors.request", f"{DJANGO}.auth.context_processors.auth",
              f"{DJANGO}.messages.context_processors.messages"]
TEMPLATES = [{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True,
              "OPTIONS": {"context_processors": PROCESSORS}}]
ROOT_URLCONF = "shop.urls"
TASKS = {"default": {"BACKEND": "tenon.django.TenonBackend", "QUEUES": [], "OPTIONS": {"TENON": %r}}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
"""

URLS = """
from django.contrib import admin
from django.urls import path
urlpatterns = [path("admin/", admin.site.urls)]
"""

TESTS = """
import pytest
from django.contrib.auth.models import Permission, User
from django.core.management import call_command
from django.db import connection
from tenon.testing import run_due
import tenon

@tenon.task(max_attempts=1)
def fails() -> None:
    raise ValueError("<b>no</b>")

@tenon.task
def waits() -> None: ...

LIST = "/admin/tenon/taskrow/"

def state(number):
    with connection.cursor() as cursor:
        cursor.execute("SELECT state FROM tenon.tasks WHERE id = %s", [number])
        return cursor.fetchone()[0]

@pytest.mark.django_db
def test_pages(admin_client):
    dead = fails.enqueue("default")
    run_due("default")
    later = waits.enqueue("default", delay="1 d", unique_key="key-17")
    page = admin_client.get(LIST).content.decode()
    assert "2 tasks" in page and "ValueError: &lt;b&gt;no&lt;/b&gt;" in page and "Add task" not in page
    assert "1 task" in admin_client.get(LIST + "?state=dead").content.decode()
    assert "1 task" in admin_client.get(LIST + "?q=key-17").content.decode()
    assert "0 tasks" in admin_client.get(LIST + "?kind=other").content.decode()
    one = admin_client.get(f"{LIST}{dead}/change/").content.decode()
    assert "Dead since" in one and "ValueError: &lt;b&gt;no" in one and "<b>no" not in one
    assert "Delete" not in one
    assert admin_client.post(f"{LIST}{dead}/delete/").status_code == 403

    def act(name, *numbers):
        sent = {"action": name, "_selected_action": list(numbers)}
        return admin_client.post(LIST, sent, follow=True).content.decode()

    assert "1 task will run" in act("retry", dead)
    assert state(dead) == "ready"
    assert "1 task will run" in act("retry", later)
    assert state(later) == "ready"
    assert "2 tasks cancelled" in act("cancel", dead, later)
    assert state(later) == "cancelled"
    assert "0 tasks cancelled" in act("cancel", later)

@pytest.mark.django_db
def test_one_who_may_only_view(client):
    user = User.objects.create_user("ann", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_taskrow"))
    client.force_login(user)
    number = waits.enqueue("default")
    assert "1 task" in client.get(LIST).content.decode()
    client.post(LIST, {"action": "cancel", "_selected_action": [number]}, follow=True)
    assert state(number) == "ready"

@pytest.mark.django_db
def test_the_migration_knows_the_model():
    call_command("makemigrations", "tenon", "--check", "--dry-run")
"""


def test_admin(tmp_path: Path, conn: psycopg.Connection) -> None:
    folder = tmp_path / "shop"
    folder.mkdir()
    for name, text in {"__init__": "", "settings": SETTINGS % program(), "urls": URLS, "test_admin": TESTS}.items():
        (folder / f"{name}.py").write_text(text)
    path = os.pathsep.join([str(tmp_path), str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    env = {"PYTHONPATH": path, "DJANGO_SETTINGS_MODULE": "shop.settings"}
    said = run_program(
        sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-c", os.devnull, "--create-db", "test_admin.py",
        cwd=folder, **env,
    )  # fmt: skip
    assert "3 passed" in said
