"""Tasks in a module of another name."""

from .framework import task


@task
def found_by_modules():
    return "modules"


@task(backend="other")
def of_the_other_backend():
    return "other"
