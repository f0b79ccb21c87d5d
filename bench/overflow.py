#!/usr/bin/python3
"""What wake-ups that nobody takes cost RabbitMQ (docs/decisions/0026-a-queue-per-kind.md).

usage: eval "$(script/services env)"; bench/overflow.py [SECONDS [ROUNDS]]

Offers 5,000 wake-ups a second to a queue without a consumer, in three ways by turns, and prints what RabbitMQ used:
  dropped  a queue that drops its oldest beyond 10,000 and those older than 10 s: everything is published
  refused  as tenon does: the queue refuses what is beyond 10,000; who is refused publishes nothing for 0.1 s. Each
           publish waits for its confirm here, which costs RabbitMQ more than tenon's bursts
  asked    a queue without bounds, as before: the publisher asks for its depth every 1,000 publishes or second, and
           publishes nothing while it holds 10,000
"""
import os
import statistics
import subprocess
import sys
import time

import pika

RATE, BATCH, WINDOW, ASK_EVERY, PAUSE_S = 5000, 50, 10000, 1000, 0.1
QUEUE = "bench.overflow"
BOUNDS = {"x-max-length": WINDOW, "x-message-ttl": 10000, "x-expires": 86400000}
ARGUMENTS = {"dropped": {**BOUNDS, "x-overflow": "drop-head"}, "refused": {**BOUNDS, "x-overflow": "reject-publish"},
             "asked": None}


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
    def __init__(self, way):
        self.way, self.room, self.asked_at, self.since, self.published, self.full_until = way, 0, 0.0, 0, 0, 0.0
        self.connection = pika.BlockingConnection(pika.URLParameters(os.environ["AMQP_URL"]))
        self.channel = self.connection.channel()
        self.channel.queue_declare(QUEUE, durable=True, arguments=ARGUMENTS[way])
        if way == "refused":
            self.channel.confirm_delivery()

    def ask(self):
        depth = self.channel.queue_declare(QUEUE, passive=True).method.message_count
        self.room, self.asked_at, self.since = WINDOW - depth, time.monotonic(), 0

    def may_publish(self):
        if self.way == "asked" and (self.since >= ASK_EVERY or time.monotonic() - self.asked_at >= 1):
            self.ask()
        return time.monotonic() >= self.full_until and (self.way != "asked" or self.room > self.since)

    def offer(self, number):
        if not self.may_publish():
            return
        try:
            self.channel.basic_publish("", QUEUE, str(10000000 + number).encode())
        except pika.exceptions.NackError:
            self.full_until = time.monotonic() + PAUSE_S
        self.since += 1
        self.published += 1

    def close(self):
        self.channel.queue_delete(QUEUE)
        self.connection.close()


def run(way, seconds):
    """RabbitMQ's CPU in seconds for a million that were offered, its memory, how many of them were published."""
    usage, publisher = Usage(), Publisher(way)
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
    got = {way: [] for way in ARGUMENTS}
    for _ in range(rounds):
        for name, results in got.items():
            results.append(run(name, seconds))
            print(f"{name}: %.1f s of CPU for a million offered, %.0f MB, %.3f published" % results[-1], flush=True)
    for name, results in got.items():
        print(f"{name}: median %.1f s" % statistics.median(result[0] for result in results))


if __name__ == "__main__":
    main()
