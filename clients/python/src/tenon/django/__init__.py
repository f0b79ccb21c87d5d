"""Django's Tasks framework on tenon: TASKS = {"default": {"BACKEND": "tenon.django.TenonBackend"}}."""

from tenon.django.backend import TenonBackend

__all__ = ["TenonBackend"]
