#!/usr/bin/python3
"""Celery on RabbitMQ with late acks and no result backend. No transaction joins it to a database.

    celery_bench.py drain VARIANT TASKS | latency VARIANT TASKS | sustained VARIANT PRODUCERS SECONDS

Its worker is Celery's own program, which imports this file. Each task appends its number and the time
to the file BENCH_STARTS. What was measured goes to stdout, a line for each figure: METRIC VALUE."""
import multiprocessing
import os
import struct
import subprocess
import sys
import time

from celery import Celery

SETTINGS = {
    # late acks; prefetch as its guide has it for many short tasks
    "recommended": ["--concurrency", "2", "--prefetch-multiplier", "128"],
    # the fastest that was found here
    "max": ["--concurrency", "2", "--prefetch-multiplier", "512", "--without-gossip", "--without-mingle",
            "--without-heartbeat"],
}
ENTRY = struct.Struct("<qq")
starts = os.open(os.environ["BENCH_STARTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

app = Celery("celery_bench", broker=os.environ["AMQP_URL"])
app.conf.update(task_acks_late=True, task_ignore_result=True, task_default_queue="bench.celery",
                worker_hijack_root_logger=False)


@app.task(name="noop")
def noop(i):
    os.write(starts, ENTRY.pack(i, time.clock_gettime_ns(time.CLOCK_MONOTONIC)))


def now_s():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) / 1e9


def count():
    return os.stat(os.environ["BENCH_STARTS"]).st_size // ENTRY.size


def entries():
    with open(os.environ["BENCH_STARTS"], "rb") as file:
        return list(ENTRY.iter_unpack(file.read()))


def wait_for(n, limit_s):
    deadline = now_s() + limit_s
    while count() < n:
        if now_s() > deadline:
            sys.exit(f"celery_bench: {count()} of {n} tasks ran in {limit_s} s")
        time.sleep(0.005)


def start_worker(variant):
    """It ends with the process group: asked to stop with a long backlog, Celery may never do so."""
    subprocess.Popen([sys.executable, "-m", "celery", "-A", "celery_bench", "worker", "--pool", "prefork",
                      "--loglevel", "ERROR", *SETTINGS[variant]],
                     cwd=os.path.dirname(os.path.abspath(__file__)), stdout=subprocess.DEVNULL,
                     stderr=subprocess.DEVNULL)


def warm_up(n):
    for _ in range(n):
        noop.delay(-1)
    wait_for(n, 60)


def drain(variant, n):
    """From the first task's start: starting Celery itself takes seconds, which are not counted."""
    before = now_s()
    with app.producer_pool.acquire(block=True) as producer:
        for i in range(n):
            noop.apply_async((i,), producer=producer)
    print("bulk_tasks_per_s", n / (now_s() - before))
    start_worker(variant)
    wait_for(n, 180)
    times = [at / 1e9 for _, at in entries()]
    print("tasks_per_s", n / (max(times) - min(times)))


def latency(variant, n):
    start_worker(variant)
    warm_up(50)
    sent = {}
    for i in range(n):
        sent[i] = now_s()
        noop.delay(i)
        time.sleep(0.02)
    wait_for(n + 50, 60)
    late = sorted((at / 1e9 - sent[i]) * 1e3 for i, at in entries() if i >= 0)
    for p in (50, 95, 99):
        print(f"p{p}_ms", late[min(n - 1, n * p // 100)])


def produce(until, totals):
    n = 0
    with app.producer_pool.acquire(block=True) as producer:
        while now_s() < until:
            noop.apply_async((0,), producer=producer)
            n += 1
    totals.put(n)


def sustained(variant, producers, seconds):
    app.conf.broker_transport_options = {"confirm_publish": True}  # a task is enqueued when RabbitMQ has it
    start_worker(variant)
    warm_up(50)
    app.pool.force_close_all()  # each producer gets a connection of its own
    start, totals = now_s(), multiprocessing.Queue()
    processes = [multiprocessing.Process(target=produce, args=(start + seconds, totals)) for _ in range(producers)]
    for process in processes:
        process.start()
    enqueued = sum(totals.get(timeout=seconds + 60) for _ in processes)
    done = sum(1 for i, at in entries() if i >= 0 and at / 1e9 < start + seconds)
    print("enqueued_per_s", enqueued / seconds)
    print("tasks_per_s", done / seconds)


if __name__ == "__main__":
    command, chosen, *numbers = sys.argv[1:]
    {"drain": drain, "latency": latency, "sustained": sustained}[command](chosen, *map(int, numbers))
