#!/usr/bin/python3
"""The same sign-up service in Python, by SQL alone: psycopg2 and no AMQP at all.

    signup.py FIRST LAST PER_SECOND LOG

See signup.c for what it logs. The cleaner sees the new rows and wakes the workers up.
"""
import os
import sys
import time

import psycopg2
from psycopg2.extras import Json

NAMES = ["Ann Archer", "Zoë Müller", "Bo Li", "Åsa Öberg", "Joan \"J\" O'Neil"]


def sign_up(conn, number, log):
    email, name = f"user{number}@example.org", NAMES[number % len(NAMES)]
    with conn.cursor() as cursor:
        cursor.execute("INSERT INTO app.users (email, name) VALUES (%s, %s) RETURNING id",
                       (email, name))
        user = cursor.fetchone()[0]
        cursor.execute("SELECT tenon.enqueue('welcome_mail', %s)",
                       (Json({"user": user, "email": email, "name": name}),))
        task = cursor.fetchone()[0]
    if number % 10 == 0:
        conn.rollback()
        outcome = "rolled_back"
    else:
        conn.commit()
        outcome = "committed"
    os.write(log, f"{outcome} {number} {task} {time.time_ns()}\n".encode())


def main():
    if len(sys.argv) != 5:
        sys.exit("usage: signup.py FIRST LAST PER_SECOND LOG")
    first, last, per_second = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    log = os.open(sys.argv[4], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    conn = psycopg2.connect(os.environ["DATABASE_URL"])
    start = time.monotonic()
    for number in range(first, last + 1):
        sign_up(conn, number, log)
        time.sleep(max(0.0, start + (number - first + 1) / per_second - time.monotonic()))
    conn.close()


main()
