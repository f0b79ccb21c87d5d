"""tenon beside its rivals, beside the machine, and beside itself with other settings: ratios of one run."""

IN_POSTGRESQL = ("river", "graphile-worker", "pg-boss")  # a task is a row of the application's own transaction
RIVALS = (*IN_POSTGRESQL, "bullmq", "celery")
BULK = [f"{n}-{settings}" for n in (50000, 200000) for settings in ("recommended", "max")]


def ratio(a, b):
    return a / b if a is not None and b else None


def best(get, workload, system, variants):
    """A rival's fastest variant."""
    rates = [get(workload, system, variant, "tasks_per_s") for variant in variants]
    return max((rate for rate in rates if rate is not None), default=None)


def best_drain(get, system, n):
    return best(get, "drain", system, (f"{n}-recommended", f"{n}-max"))


def best_sustained(get, system, variant):
    return best(get, "sustained", system, (variant, f"{variant}-polling"))


def p50(get, system):
    return get("latency", system, "libtenon" if system == "tenon" else "recommended", "p50_ms")


def drain(n):
    return (f"drain of {n:,}", lambda get: get("drain", "tenon", n, "tasks_per_s"), "tasks/s",
            lambda get, rival: ratio(get("drain", "tenon", n, "tasks_per_s"), best_drain(get, rival, n)))


def sustained(variant):
    own = lambda get: get("sustained", "tenon", variant, "tasks_per_s")
    return (f"one transaction per task, {variant.replace('-', ' ')}", own, "tasks/s",
            lambda get, rival: ratio(own(get), best_sustained(get, rival, variant)))


def own(workload, variant, metric="tasks_per_s"):
    return lambda get: get(workload, "tenon", variant, metric)


def bulk(get):
    return get("bulk-enqueue", "tenon", "libtenon", "tasks_per_s")


# (what, tenon's figure, its unit, the ratio to a rival: more than 1, and tenon is ahead)
TO_RIVALS = (
    drain(50000), drain(200000), sustained("4-producers"), sustained("16-producers"),
    ("enqueueing in bulk", bulk, "tasks/s",
     lambda get, rival: ratio(bulk(get), best(get, "bulk-enqueue", rival, BULK))),
    ("latency, p50 (the rival's divided by tenon's)", lambda get: p50(get, "tenon"), "ms",
     lambda get, rival: ratio(p50(get, rival), p50(get, "tenon"))),
)


def inserted(clients):
    return lambda get: get("limits", "limit", f"pgbench-insert-{clients}-clients", "rows_per_s")


def journeys(get):
    """The least that a task's way could take: its commit, the message, and the claim's commit."""
    insert, message = (get("limits", "limit", f"{name}-every-20-ms", "p50_ms")
                       for name in ("insert", "rabbitmq-deliver"))
    return None if None in (insert, message) else 2 * insert + message


# (what, the ratio of which two)
TO_THE_MACHINE = (
    ("a drain of 200,000 to insert, update and delete in batches of 500", own("drain", 200000),
     lambda get: get("limits", "limit", "pgbench-insert-update-delete-500", "rows_per_s")),
    ("one transaction per task to a bare insert, 4 producers", own("sustained", "4-producers"), inserted(4)),
    ("the same, 16 producers", own("sustained", "16-producers"), inserted(16)),
    ("latency, p50: two bare inserts and a message to tenon", journeys, own("latency", "libtenon", "p50_ms")),
    ("under an open snapshot, the second drain to the first", own("held-snapshot", "drain-100000", "last_to_first"),
     lambda get: 1),
)

# (what, the ratio of which two)
TO_TUNE = (
    ("a pool handler in Python instead of a program for each task", own("handlers", "python-pool"),
     own("handlers", "exec-true")),
    ("a second worker, on two processors", own("scale", "2-workers"), own("scale", "1-workers")),
    ("four workers instead of one, on two processors", own("scale", "4-workers"), own("scale", "1-workers")),
    ("100 queues instead of one, served by one worker", own("scale", "100-queues"), own("scale", "1-queues")),
    ("a backlog of which RabbitMQ holds no wake-ups", own("drain", "50000"), own("drain", "50000-published")),
    ("no history (`history_keep = '0'`)", own("drain", "200000-without-history"), own("drain", 200000)),
    ("`tenon_enqueue_many()` instead of one transaction per task, 4 producers", bulk, own("sustained", "4-producers")),
    ("one call that commits by itself instead of BEGIN, the call and COMMIT", own("sustained", "4-producers"),
     own("sustained", "4-producers-transaction")),
)


def to_rivals(get):
    """(what, tenon's figure, its unit, [a ratio or None for each of RIVALS])"""
    return [(what, figure(get), unit, [to(get, rival) for rival in RIVALS]) for what, figure, unit, to in TO_RIVALS]


def ratios(get, of):
    """(what, ratio) for each of TO_THE_MACHINE or TO_TUNE."""
    return [(what, ratio(a(get), b(get))) for what, a, b in of]
