"""Drains: workers run all the tasks that are there beforehand."""
import contextlib
import time


def drain_once(b, n, served=("default",), last_finish=None, **options):
    """{metric: value} of the drain of all the `n` tasks there are, by a worker for each of `served`, which are the
    queues it serves, with commas; they end when nothing is left. `last_finish` tells when the last one was
    finished; without it the history does. `options` are the workers'."""
    before, postgres_s = b.tenon.counts(), b.server_cpu_s()
    with contextlib.ExitStack() as stack:
        programs = [stack.enter_context(b.tenon.worker("--until-empty", "--queues", queues, **options))
                    for queues in served]
        worker_s = sum(program.wait(300) for program in programs)
        end = time.time()
    postgres_s = b.server_cpu_s() - postgres_s
    left, finished, dead = b.tenon.counts()
    if left or dead or finished - before[1] != (0 if last_finish else n):
        raise RuntimeError(f"of {n} tasks {left} are left, {finished - before[1]} finished, {dead} dead")
    last_finish = last_finish or b.tenon.last_finish
    return {"tasks_per_s": n / (last_finish() - programs[0].started),
            "exit_tasks_per_s": n / (end - programs[0].started),
            "worker_cpu_us_per_task": worker_s / n * 1e6, "postgres_cpu_us_per_task": postgres_s / n * 1e6}


def report(b, workload, variant, figures, prefix=""):
    for metric, value in figures.items():
        b.add(workload, variant, prefix + metric, value, "us" if "_us_" in metric else "1/s")


def drain(b):
    for n in b.sizes.drain:
        b.tenon.prepare(n)
        report(b, "drain", n, plain := drain_once(b, n))
        drain_unique(b, n, plain)
    drain_published(b)
    with b.tenon.without_history() as last_finish:
        for n in b.sizes.drain:
            b.tenon.prepare(n)
            report(b, "drain", f"{n}-without-history", drain_once(b, n, last_finish=last_finish))


def drain_unique(b, n, plain):
    """Each with a unique key of its own, right after as many without."""
    b.tenon.prepare(n, unique=True)
    report(b, "drain", f"{n}-unique-key", figures := drain_once(b, n))
    b.add("drain", f"{n}-unique-key", "to_plain", figures["tasks_per_s"] / plain["tasks_per_s"], "")


def drain_published(b):
    """As libtenon leaves a backlog: RabbitMQ holds wake-ups of as many tasks as its window allows."""
    n = b.sizes.drain[0]
    b.servers.empty_tenon()
    with b.tenon.cleaner():
        b.tenon.produce(1, tasks=n, batch=min(n, 1000))
        b.tenon.rest()
        b.add("drain", f"{n}-published", "wakeups_waiting", b.servers.messages("default"), "")
        report(b, "drain", f"{n}-published", drain_once(b, n))
