"""Tasks as Django's documentation has them."""

import asyncio

from django.db import connection, transaction

import tenon

from .framework import task


@task
def add(a, b=0):
    return a + b


@task
async def acount(things):
    return len(things)


@task(priority=2, queue_name="mail")
def email(to):
    return f"mail to {to}"


@task(takes_context=True)
def context_of(context, word):
    return [word, context.attempt, context.task_result.id, context.task_result.args, tenon.current().attempt]


@task(takes_context=True)
def second_time(context):
    if context.attempt == 1:
        raise tenon.Retry("not yet", after=0.001)
    return [context.attempt, len(context.task_result.errors)]


@task
def value_error():
    raise ValueError("This Task failed due to ValueError")


@task
def complex_exception():
    raise ValueError(ValueError("This task failed"))


@task
def system_exit():
    raise SystemExit("This Task failed due to SystemExit")


@task
def lambda_returned():
    return lambda: True


@task
def twice(key):
    return {key: key * 2}


@task
async def stopped():
    tenon.current().set_progress("begun")
    await asyncio.Event().wait()


@task
def stopped_in_a_thread():
    tenon.current().set_progress("begun")
    while not tenon.current().wait(60):
        pass
    tenon.current().check()


@task
def given_up():
    raise tenon.Dead("never")


@task
def killed():
    import os
    import signal

    os.kill(os.getpid(), signal.SIGKILL)


@task
def there(number):
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM public.thing WHERE number = %s", [number])
        return cursor.fetchone()[0]


@task
def once():
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO public.thing VALUES (99)")
        tenon.current().finish("default", {"kept": True})


@tenon.periodic(cron="0 3 * * *")
@task(max_attempts=3, timeout=60)
def with_options(): ...


@tenon.task(queue="plain")
def plain(payload: dict, context: tenon.Context) -> dict:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return {**payload, "database": connection.alias}
