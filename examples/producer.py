#!/usr/bin/python3
"""Signs users up and enqueues their welcome mails, with SQL only.

    DATABASE_URL=postgresql://... examples/producer.py ann@example.org bob@example.org

There is no library and no RabbitMQ on this side: the cleaner wakes the workers up, within
milliseconds. Needs python3-psycopg2.
"""
import os
import sys

import psycopg2
from psycopg2.extras import Json


def sign_up(conn, mail):
    # One transaction: the user and the task are both there, or neither.
    with conn, conn.cursor() as cursor:
        cursor.execute("INSERT INTO users (mail) VALUES (%s)", (mail,))
        cursor.execute("SELECT tenon.enqueue('welcome_mail', %s)", (Json({"to": mail}),))
        return cursor.fetchone()[0]


def main():
    conn = psycopg2.connect(os.environ["DATABASE_URL"])
    with conn, conn.cursor() as cursor:
        cursor.execute("CREATE TABLE IF NOT EXISTS users (mail text PRIMARY KEY)")
    for mail in sys.argv[1:] or ["ann@example.org"]:
        print(mail, "signed up, task", sign_up(conn, mail))
    conn.close()


if __name__ == "__main__":
    main()
