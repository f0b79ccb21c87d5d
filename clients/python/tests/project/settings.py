"""A project with tenon's backend."""

import os
from urllib.parse import unquote, urlsplit

import django

FRAMEWORK = [] if django.VERSION >= (6,) else ["django_tasks"]
url = urlsplit(os.environ["DATABASE_URL"])
SECRET_KEY = "tests"
USE_TZ = True
INSTALLED_APPS = [*FRAMEWORK, "tenon.django", "project"]
ROOT_URLCONF = "project.urls"
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": url.path[1:],
        "USER": unquote(url.username or ""),
        "PASSWORD": unquote(url.password or ""),
        "HOST": url.hostname,
        "PORT": url.port,
    }
}
TASKS = {
    "default": {
        "BACKEND": "tenon.django.TenonBackend",
        "QUEUES": ["default", "mail"],
        "OPTIONS": {"MAX_ATTEMPTS": 2, "TENON": os.environ.get("TENON", "tenon"), "MODULES": ["project.more"]},
    },
    "other": {
        "BACKEND": "tenon.django.TenonBackend",
        "QUEUES": [],
        "OPTIONS": {"TIMEOUT": 60, "MODULES": ["project.more"]},
    },
}
LOGGING_CONFIG = None
