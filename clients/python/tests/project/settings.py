"""A project with tenon's backend."""

import os
from urllib.parse import unquote, urlsplit

url = urlsplit(os.environ["DATABASE_URL"])
SECRET_KEY = "tests"
USE_TZ = True
INSTALLED_APPS = ["tenon.django", "project"]
ROOT_URLCONF = "project.urls"
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": url.path[1:],
        "USER": unquote(url.username or ""),
        "PASSWORD": unquote(url.password or ""),
        "HOST": url.hostname,
        "PORT": url.port,
    },
    "lite": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"},
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
