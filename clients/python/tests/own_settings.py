"""What the worker of django_own.py is given."""

import os

from project import settings

globals().update({name: value for name, value in vars(settings).items() if name.isupper()})
TASKS = {
    "default": {
        "BACKEND": "tenon.django.TenonBackend",
        "QUEUES": [],
        "OPTIONS": {"TENON": os.environ.get("TENON", "tenon"), "MODULES": ["tasks.tasks"]},
    }
}
