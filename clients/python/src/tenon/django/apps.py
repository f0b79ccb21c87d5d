"""INSTALLED_APPS = [..., "tenon.django"]: the commands of manage.py, the migration, the admin pages."""

from django.apps import AppConfig


class TenonConfig(AppConfig):
    name = "tenon.django"
    label = "tenon"
    verbose_name = "tenon"
    default_auto_field = "django.db.models.BigAutoField"
