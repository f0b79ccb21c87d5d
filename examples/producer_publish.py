#!/usr/bin/python3
"""Like producer.py, and publishes the task's id itself: a worker starts at once after the commit.

    DATABASE_URL=postgresql://... AMQP_URL=amqp://... examples/producer_publish.py ann@example.org

This is the whole protocol: the exchange and the routing key that tenon.enqueue_routed returns, the id in
decimal as the body; it need not be persistent. The message is only a wake-up: one that comes too early, twice, or
never costs time, never a task. So no error of RabbitMQ is an error of ours, and nothing waits for it for long.
Needs python3-psycopg2 and python3-pika.
"""
import os
import sys

import pika
import psycopg2
from psycopg2.extras import Json


class Waker:
    """Publishes ids, and connects again when it must. One thread at a time."""

    def __init__(self, url):
        self.settings = pika.URLParameters(url)
        self.settings.socket_timeout = 1
        self.settings.stack_timeout = 2
        self.settings.blocked_connection_timeout = 1  # an alarm in RabbitMQ
        self.connection = None
        self.channel = None

    def wake(self, task, exchange, key):
        for _ in range(2):  # the connection may have died while nothing was sent
            try:
                if self.channel is None or not self.channel.is_open:
                    self.connection = pika.BlockingConnection(self.settings)
                    self.channel = self.connection.channel()
                self.channel.basic_publish(exchange, key, str(task).encode())
                return True
            except (pika.exceptions.AMQPError, OSError):
                self.channel = None
        return False

    def close(self):
        if self.connection is not None and self.connection.is_open:
            self.connection.close()


def sign_up(conn, mail):
    with conn, conn.cursor() as cursor:
        cursor.execute("INSERT INTO users (mail) VALUES (%s)", (mail,))
        # routed: we publish the id ourselves, so that the cleaner need not
        cursor.execute("SELECT id, exchange, routing_key FROM tenon.enqueue_routed('welcome_mail', %s)", (Json({"to": mail}),))
        return cursor.fetchone()


def main():
    waker = Waker(os.environ["AMQP_URL"])
    conn = psycopg2.connect(os.environ["DATABASE_URL"])
    with conn, conn.cursor() as cursor:
        cursor.execute("CREATE TABLE IF NOT EXISTS users (mail text PRIMARY KEY)")
    for mail in sys.argv[1:] or ["ann@example.org"]:
        task, exchange, key = sign_up(conn, mail)  # committed here
        woken = waker.wake(task, exchange, key)
        print(mail, "signed up, task", task, "" if woken else "(RabbitMQ is away: a second late)")
    conn.close()
    waker.close()


if __name__ == "__main__":
    main()
