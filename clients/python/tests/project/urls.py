"""Views may have tasks, too."""

from .framework import task

urlpatterns: list = []


@task
def found_by_urls():
    return "urls"
