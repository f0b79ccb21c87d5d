"""The handler in Python of tests/clients/bank_test.c."""

from __future__ import annotations

import os

import psycopg

import tenon

LOCK = "SELECT FROM public.account WHERE id IN (%(from)s, %(to)s) ORDER BY id FOR UPDATE"
TAKE = "UPDATE public.account SET balance = balance - %(amount)s WHERE id = %(from)s"
GIVE = "UPDATE public.account SET balance = balance + %(amount)s WHERE id = %(to)s"
NOTE = """INSERT INTO public.ledger (n, source, target, amount, by)
          VALUES (%(n)s, %(from)s, %(to)s, %(amount)s, 'python')"""
PAUSE = "SELECT pg_sleep(%(pause)s)"


@tenon.task
def bank_python(payload: dict, context: tenon.Context) -> None:
    with psycopg.connect(os.environ["DATABASE_URL"]) as conn:
        for statement in (LOCK, TAKE, GIVE, NOTE, PAUSE):
            conn.execute(statement, payload)
        context.finish(conn)
