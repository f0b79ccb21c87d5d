#!/usr/bin/python3
"""What wake-ups that nobody takes cost RabbitMQ (docs/decisions/0026-a-queue-per-kind.md).

usage: eval "$(script/services env)"; bench/overflow.py [SECONDS [ROUNDS]]

Offers 5,000 wake-ups a second to a queue without a consumer, in two ways by turns, and prints what RabbitMQ used:
  bounded  a queue that drops its oldest beyond 10,000 and those older than 10 s: everything is published
  asked    a queue without bounds, as before: the publisher asks for its depth every 1,000 publishes or second, and
           publishes nothing while it holds 10,000
"""
import os
import statistics
import subprocess
import sys
import time

import pika

RATE, BATCH, WINDOW, ASK_EVERY = 5000, 50, 10000, 1000
QUEUE = "bench.overflow"
BOUNDS = {"x-max-length": WINDOW, "x-overflow": "drop-head", "x-message-ttl": 10000, "x-expires": 86400000}


def rabbitmq_eval(text):
    words = [*os.environ["TENON_RABBITMQCTL"].split(), "-q", "eval", text]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip().strip('"')


class Usage:
    def __init__(self):
        self.pid = int(rabbitmq_eval("os:getpid()."))
        self.peak_mb = 0

    def cpu_s(self):
        with open(f"/proc/{self.pid}/stat", encoding="ascii") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def note_memory(self):
        with open(f"/proc/{self.pid}/status", encoding="ascii") as file:
            kb = next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))
        self.peak_mb = max(self.peak_mb, kb / 1024)


class Publisher:
    def __init__(self, asks):
        self.asks, self.room, self.asked_at, self.since, self.published = asks, 0, 0.0, 0, 0
        self.connection = pika.BlockingConnection(pika.URLParameters(os.environ["AMQP_URL"]))
        self.channel = self.connection.channel()
        self.channel.queue_declare(QUEUE, durable=True, arguments=None if asks else BOUNDS)

    def ask(self):
        depth = self.channel.queue_declare(QUEUE, passive=True).method.message_count
        self.room, self.asked_at, self.since = WINDOW - depth, time.monotonic(), 0

    def offer(self, number):
        if self.asks and (self.since >= ASK_EVERY or time.monotonic() - self.asked_at >= 1):
            self.ask()
        if not self.asks or self.room > self.since:
            self.channel.basic_publish("", QUEUE, str(10000000 + number).encode())
            self.since += 1
            self.published += 1

    def close(self):
        self.channel.queue_delete(QUEUE)
        self.connection.close()


def run(asks, seconds):
    """RabbitMQ's CPU in seconds for a million that were offered, its memory, how many of them were published."""
    usage, publisher = Usage(), Publisher(asks)
    before, start, offered = usage.cpu_s(), time.monotonic(), 0
    while time.monotonic() - start < seconds:
        for _ in range(BATCH):
            offered += 1
            publisher.offer(offered)
        publisher.connection.process_data_events(0)
        if offered % RATE < BATCH:
            usage.note_memory()
        time.sleep(max(0, start + offered / RATE - time.monotonic()))
    cpu = usage.cpu_s() - before
    publisher.close()
    return cpu * 1e6 / offered, usage.peak_mb, publisher.published / offered


def idle(seconds):
    usage = Usage()
    before = usage.cpu_s()
    time.sleep(seconds)
    return (usage.cpu_s() - before) / seconds


def main():
    seconds, rounds = [int(word) for word in sys.argv[1:3]] + [70, 3][len(sys.argv) - 1:]
    print(f"idle: {idle(10):.3f} s of CPU a second")
    got = {"bounded": [], "asked": []}
    for _ in range(rounds):
        for name, results in got.items():
            results.append(run(name == "asked", seconds))
            print(f"{name}: %.1f s of CPU for a million offered, %.0f MB, %.3f published" % results[-1], flush=True)
    for name, results in got.items():
        print(f"{name}: median %.1f s" % statistics.median(result[0] for result in results))


if __name__ == "__main__":
    main()
