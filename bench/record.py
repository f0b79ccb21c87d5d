"""Figures: a JSON object a line as they come, and a table of medians at the end."""
import json
import statistics
import sys

KEYS = ("workload", "system", "variant", "metric", "value", "unit", "run")


def say(text):
    print(text, file=sys.stderr, flush=True)


class Record:
    def __init__(self, path):
        self.file = open(path, "w", encoding="ascii")
        self.rows = []
        self.run = 1

    def head(self, facts):
        """What was measured, when, on what, or what failed; a line of its own, which has no `value`."""
        self.file.write(json.dumps(facts) + "\n")
        self.file.flush()

    def add(self, workload, system, variant, metric, value, unit):
        value = round(value, 6 if abs(value) < 1 else 3)
        row = dict(zip(KEYS, (workload, system, str(variant), metric, value, unit, self.run)))
        self.rows.append(row)
        self.file.write(json.dumps(row) + "\n")
        self.file.flush()
        say(f"  {workload:<14} {system:<16} {variant!s:<24} {metric:<22} {shown(value):>12} {unit}")

    def close(self):
        self.file.close()


def shown(value):
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.3g}" if abs(value) < 100 else f"{value:.1f}"


def read(path):
    """(the head, the rows) of a file that Record wrote."""
    head, rows = {}, []
    with open(path, encoding="ascii") as file:
        for line in file:
            row = json.loads(line)
            if "value" in row:
                rows.append(row)
            else:
                head.update(row)
    return head, rows


def medians(rows):
    """{(workload, system, variant, metric): (median, least, greatest, runs, unit)}, in order."""
    values, units = {}, {}
    for row in rows:
        key = tuple(row[k] for k in KEYS[:4])
        values.setdefault(key, []).append(row["value"])
        units[key] = row["unit"]
    return {key: (statistics.median(v), min(v), max(v), len(v), units[key]) for key, v in values.items()}


# Of what processes cost, only these are compared: the parts are small and noisy.
COMPARED_COSTS = ("cpu_us_postgresql", "cpu_us_worker", "cpu_us_rabbitmq", "cpu_us_all")


def is_compared(metric):
    return metric in COMPARED_COSTS or not metric.startswith(("cpu_us_", "exit_"))


def ratios(rows):
    """Figures of two builds that took turns: of each, the medians, and the ratio of a run's pair: tenon's to the
    other's."""
    pairs = {}
    for row in filter(lambda row: is_compared(row["metric"]), rows):
        key = row["workload"], row["variant"], row["metric"]
        pairs.setdefault(key, {}).setdefault(row["run"], {})[row["system"]] = row["value"]
    lines = [f"{'workload':<14} {'variant':<30} {'metric':<26} {'against':>9} {'tenon':>9} {'ratio':>6}"
             "  least - greatest"]
    for key, runs in pairs.items():
        both = [(run["tenon"], run["against"]) for run in runs.values() if len(run) == 2 and run["against"]]
        if both:
            found = [tenon / against for tenon, against in both]
            tenon, against = (shown(statistics.median(values)) for values in zip(*both))
            lines.append(f"{key[0]:<14} {key[1]:<30} {key[2]:<26} {against:>9} {tenon:>9}"
                         f" {statistics.median(found):>6.3f}  {min(found):.3f} - {max(found):.3f}")
    return "\n".join(lines)


def table(rows):
    lines = [f"{'workload':<14} {'system':<16} {'variant':<24} {'metric':<22} {'median':>12} unit   least - greatest"]
    for key, (middle, least, most, n, unit) in medians(rows).items():
        span = f"{shown(least)} - {shown(most)}" if n > 1 else ""
        lines.append(f"{key[0]:<14} {key[1]:<16} {key[2]:<24} {key[3]:<22} {shown(middle):>12} {unit:<6} {span}")
    return "\n".join(lines)
