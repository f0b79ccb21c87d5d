"""INSTALLED_APPS = [..., "tenon.django"]: the commands of manage.py."""

from django.apps import AppConfig


class TenonConfig(AppConfig):
    name = "tenon.django"
    label = "tenon"
    verbose_name = "tenon"
