"""Who owns RabbitMQ's user of a producer."""
import os
import socket
import ssl
import struct
from urllib.parse import urlsplit

import pika

from attacker import ACTS_PER_S, BYTES_PER_S, MESSAGES_PER_S, Attacker
from stranger import cut

CONNECT_COST = 5
QUEUE = "tenon.default/work"
# Each must be refused.
FORBIDDEN = {
    "declare a queue": lambda c: c.queue_declare("tenon.mine"),
    "declare a queue of the server's naming": lambda c: c.queue_declare("", exclusive=True),
    "declare the workers' queue": lambda c: c.queue_declare(QUEUE, durable=True),
    "delete a queue": lambda c: c.queue_delete(QUEUE),
    "purge a queue": lambda c: c.queue_purge(QUEUE),
    "get": lambda c: c.basic_get(QUEUE),
    "consume": lambda c: c.basic_consume(QUEUE, lambda *_: None),
    "bind": lambda c: c.queue_bind(QUEUE, "tenon", "default/other"),
    "unbind": lambda c: c.queue_unbind(QUEUE, "tenon", "default/work"),
    "declare another exchange": lambda c: c.exchange_declare("mine"),
    "declare tenon's exchange": lambda c: c.exchange_declare("tenon", "fanout"),
    "delete tenon's exchange": lambda c: c.exchange_delete("tenon"),
    "bind the exchange to another": lambda c: c.exchange_bind("tenon", "amq.topic", "#"),
}


class Broker(Attacker):
    errors = (OSError, ssl.SSLError, pika.exceptions.AMQPError, ValueError)

    def __init__(self, seed, hint, log):
        super().__init__(seed, hint, log)
        self.url, self.connection, self.channel = os.environ["AMQP_URL"], None, None
        self.recover()
        self.acts = {self.ids: 30, self.garbage: 20, self.huge: 2, self.odd_keys: 10, self.copies: 5, self.unroutable: 5,
                     self.transactions: 5, self.default_exchange: 3, self.forbidden: 10, self.channels: 2, self.storm: 1,
                     self.silent: 2, self.bad_frames: 3}

    def connect(self):
        return pika.BlockingConnection(pika.URLParameters(self.url))

    def recover(self):
        if not self.connection or not self.connection.is_open:
            self.connection, self.channel = self.connect(), None
        if not self.channel or not self.channel.is_open:
            self.channel = self.connection.channel()

    def publish(self, bodies, key="default/work", exchange="tenon", mandatory=False, **properties):
        size = 0
        for body in bodies:
            self.channel.basic_publish(exchange, key, body, pika.BasicProperties(**properties), mandatory)
            size += len(body)
        self.connection.process_data_events(0)
        return max(len(bodies) * ACTS_PER_S / MESSAGES_PER_S, size * ACTS_PER_S / BYTES_PER_S)

    def key(self):
        return self.pick("default/work", "default/work", "default/stray", "default/odd", "x/y")

    # --- messages ---

    def ids(self):
        """Of tasks that are there, were, will be."""
        n = self.random.randrange(1, 100)
        ids = (self.near_id(), self.random.randrange(1 << 63), self.random.randrange(1000))
        return self.publish([str(self.random.choice(ids)).encode() for _ in range(n)], self.key(),
                            delivery_mode=self.pick(1, 2), priority=self.pick(None, 255),
                            expiration=self.pick(None, "0", "100000000"))

    def garbage(self):
        return self.publish([self.pick(b"", b"-1", b"0", b"17 ", b"+17", b"1e3", b"99999999999999999999", b"17\0", b"\xff\xfe",
                                       b"17; DROP SCHEMA tenon", self.random.randbytes(200)) for _ in range(20)],
                            self.key(), content_type=self.pick(None, "\x01" * 100), headers={"x": "y" * 1000})

    def huge(self):
        return self.publish([self.random.choice((b"1", b"\0", b"9")) * self.random.randrange(1, 4000000)], self.key())

    def odd_keys(self):
        return self.publish([b"17"] * 10, self.text(60), headers={"x-death": [{"count": 1}], "a": {"b": [None, True]}})

    def copies(self):
        """One message to many routing keys."""
        return self.publish([str(self.near_id()).encode()], headers={
            self.pick("CC", "BCC"): ["default/work", "default/stray"] + [f"x/{n}" for n in range(1000)]}) + 5

    def unroutable(self):
        """What is returned is not read for a while."""
        return self.publish([b"17"] * 20, "nobody/here", mandatory=True)

    def transactions(self):
        channel = self.connection.channel()
        channel.tx_select()
        for _ in range(20):
            channel.basic_publish("tenon", "default/work", str(self.near_id()).encode())
        self.random.choice((channel.tx_rollback, channel.tx_commit))()
        channel.close()
        return 5

    # --- what is not allowed ---

    def forbidden(self):
        name = self.random.choice(list(FORBIDDEN))
        try:
            FORBIDDEN[name](self.connection.channel())
            self.findings[f"was not refused: {name}"] += 1
        except pika.exceptions.ChannelClosedByBroker as error:
            self.counts["forbidden", error.reply_code] += 1
        return 3

    def default_exchange(self):
        channel = self.connection.channel()
        try:
            channel.basic_publish("", QUEUE, b"17")
            channel.queue_declare("tenon", passive=True)  # by now the refusal has come
            self.findings["was not refused: publish to a queue past the exchange"] += 1
        except pika.exceptions.ChannelClosedByBroker as error:
            self.counts["default_exchange", error.reply_code] += 1
        return 3

    # --- connections ---

    def channels(self):
        connection = self.connect()
        self.hold(connection)
        for _ in range(100):
            connection.channel()
        return CONNECT_COST + 100

    def socket(self):
        to = urlsplit(self.url)
        sock = socket.create_connection((to.hostname, to.port), timeout=5)
        self.hold(sock)
        return sock

    def storm(self):
        for _ in range(3):
            connection = self.connect()
            cut(connection._impl._transport._sock.fileno())  # pika has no other way
        return 3 * CONNECT_COST

    def silent(self):
        self.socket().sendall(self.pick(b"", b"AMQP\x00\x00\x09\x01"))
        return CONNECT_COST

    def bad_frames(self):
        self.socket().sendall(b"AMQP\x00\x00\x09\x01" + self.pick(
            self.random.randbytes(500), struct.pack(">BHI", 1, 0, 0xffffffff) + b"x" * 100,
            struct.pack(">BHI", 3, 1, 10) + b"0123456789\x00", b"GET / HTTP/1.1\r\n\r\n"))
        return CONNECT_COST
