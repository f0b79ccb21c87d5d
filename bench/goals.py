"""What tenon was built to reach on two processors, and what a run reached."""


def ratio(a, b):
    return a / b if a is not None and b else None


def drain(get, variant):
    return get("drain", "tenon", variant, "tasks_per_s")


def sustained(get, variant):
    return get("sustained", "tenon", variant, "tasks_per_s")


def latency(get, metric, variant="libtenon"):
    return get("latency", "tenon", variant, metric)


def held(get, variant):
    return get("held-snapshot", "tenon", variant, "last_to_first")


def limit(get, variant):
    return get("limits", "limit", variant, "rows_per_s")


IN_POSTGRESQL = ("graphile-worker", "pg-boss")  # a task is a row of the application's own transaction
RIVALS = (*IN_POSTGRESQL, "bullmq", "celery")


def best(get, workload, systems, variants):
    """The fastest, whichever of the systems and of their variants that was."""
    rates = [get(workload, system, variant, "tasks_per_s") for system in systems for variant in variants]
    return max((rate for rate in rates if rate is not None), default=None)


def best_drain(get, systems, n):
    return best(get, "drain", systems, (f"{n}-recommended", f"{n}-max"))


def best_sustained(get, systems, variant):
    return best(get, "sustained", systems, (variant, f"{variant}-polling"))


def drain_to_best(get, n):
    return ratio(drain(get, n), best_drain(get, IN_POSTGRESQL, n))


def sustained_to_best(get, variant):
    return ratio(sustained(get, variant), best_sustained(get, IN_POSTGRESQL, variant))


def bulk(get):
    return get("bulk-enqueue", "tenon", "libtenon", "tasks_per_s")


def bulk_to_best(get):
    variants = [f"{n}-{settings}" for n in (50000, 200000) for settings in ("recommended", "max")]
    return ratio(bulk(get), best(get, "bulk-enqueue", IN_POSTGRESQL, variants))


def idle_cpu(get):
    both = [get("footprint", "tenon", program, "idle_cpu_percent") for program in ("worker", "cleaner")]
    return None if None in both else sum(both)


# (what, its figure, at least or at most, the goal); a goal of None: a ratio that is only shown
GOALS = (
    ("drain of 50,000, tasks/s", lambda get: drain(get, "50000"), "at least", 90000),
    ("drain of 50,000 without history, tasks/s", lambda get: drain(get, "50000-without-history"), "at least", 110000),
    ("drain of 200,000, tasks/s", lambda get: drain(get, "200000"), "at least", 80000),
    ("sustained, 4 producers, tasks/s", lambda get: sustained(get, "4-producers"), "at least", 8000),
    ("the same, to a bare insert with 4 clients",
     lambda get: ratio(sustained(get, "4-producers"), limit(get, "pgbench-insert-4-clients")), "at least", 0.5),
    ("sustained, 16 producers, tasks/s", lambda get: sustained(get, "16-producers"), "at least", 13000),
    ("sustained, 4 producers that know only SQL, tasks/s", lambda get: sustained(get, "sql-4-producers"),
     "at least", 7500),
    ("latency, p50, ms", lambda get: latency(get, "p50_ms"), "at most", 1.0),
    ("latency, p99, ms", lambda get: latency(get, "p99_ms"), "at most", 2.5),
    ("latency, p50, to graphile-worker's",
     lambda get: ratio(latency(get, "p50_ms"), get("latency", "graphile-worker", "recommended", "p50_ms")),
     "at most", 1.0),
    ("latency, p50, a producer that knows only SQL, ms", lambda get: latency(get, "p50_ms", "sql"), "at most", 1.5),
    ("snapshot held, last 10 s to first", lambda get: held(get, "4-producers"), "at least", 0.95),
    ("snapshot held, second drain to first", lambda get: held(get, "drain-100000"), "at least", 0.9),
    ("enqueue in bulk, tasks/s", bulk, "at least", 200000),
    ("idle CPU of worker and cleaner, % of a core", idle_cpu, "at most", 1),
    ("worker's resident memory, MB", lambda get: get("footprint", "tenon", "worker", "rss_mb"), "at most", 15),
    ("drain of 200,000 to insert, update and delete in batches of 500",
     lambda get: ratio(drain(get, "200000"), limit(get, "pgbench-insert-update-delete-500")), None, None),
    ("drain of 50,000 to the best rival's in PostgreSQL", lambda get: drain_to_best(get, 50000), None, None),
    ("drain of 200,000 to the best rival's in PostgreSQL", lambda get: drain_to_best(get, 200000), None, None),
    ("sustained, 4 producers, to the best rival's in PostgreSQL",
     lambda get: sustained_to_best(get, "4-producers"), None, None),
    ("sustained, 16 producers, to the best rival's in PostgreSQL",
     lambda get: sustained_to_best(get, "16-producers"), None, None),
    ("enqueue in bulk to the best rival's in PostgreSQL", bulk_to_best, None, None),
    ("sustained, 4 producers, to BullMQ's in Redis",
     lambda get: ratio(sustained(get, "4-producers"), get("sustained", "bullmq", "4-producers", "tasks_per_s")),
     None, None),
)


def verdict(value, direction, goal):
    if value is None:
        return "not measured"
    if goal is None:
        return "-"
    return "met" if (value >= goal if direction == "at least" else value <= goal) else "**not met**"


def rows(get, shown):
    """(what, the goal, the figure, whether it was met), all texts."""
    for what, figure, direction, goal in GOALS:
        value = figure(get)
        wanted = "-" if goal is None else f"{direction} {goal:,}"
        yield what, wanted, shown(value), verdict(value, direction, goal)
