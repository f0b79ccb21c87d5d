"""What became of the honest tasks: by their producers' logs, the application's table and the handlers' journal."""
import collections
import glob
import re

from verdict import Journal, lines_of

STALL_S = 10.0    # a task that waits longer, or so long without any
RATIO_MOST = 2.0  # the p99 under attack to the one before
JUDGED_S = 120    # of less, the p99 is told and not judged
# Events that no stranger may bring about.
NEVER = ("worker_dead", "worker_stuck", "worker_failed", "cleaner_failed", "no_leader", "presence_lost", "database_down",
         "log_lines_dropped")


def percentile(values, part):
    values = sorted(values)
    return values[min(len(values) - 1, int(part * len(values)))] if values else float("nan")


def committed(directory):
    """{task: (when its transaction was committed, how long that took from its BEGIN on)}, in seconds."""
    commits = {}
    for log in glob.glob(directory + "/producer-*.transactions"):
        begun = {}
        for what, number, task, at in map(str.split, lines_of(log)):
            if what == "begin":
                begun[number] = int(at) / 1e9
            elif what == "committed":
                commits[int(task)] = int(at) / 1e9, int(at) / 1e9 - begun[number]
    return commits


class Span:
    """A part of the run: when it began and ended, and how long the tasks committed in it waited, in ms; as a control,
    how long the transactions took that enqueued them: those meet the same machine, and no worker."""

    def __init__(self, name, begin, end, load, commits, starts):
        self.name, self.seconds, self.load = name, end - begin, load
        chosen = [(at, task) for task, (at, _) in commits.items() if begin <= at < end]
        self.transactions = [1000 * commits[task][1] for _, task in chosen]
        self.waits = [max(0.0, 1000 * (starts[task] - at)) for at, task in chosen if task in starts]
        times = sorted([begin, end, *(at for at, _ in chosen)])
        self.gap_s = max(b - a for a, b in zip(times, times[1:]))
        self.p99, self.transactions_p99 = percentile(self.waits, 0.99), percentile(self.transactions, 0.99)
        parts = collections.defaultdict(list)
        for at, task in chosen:
            if task in starts:
                parts[int((at - begin) / 10)].append(1000 * (starts[task] - at))
        self.tens = sorted(percentile(waits, 0.99) for waits in parts.values())

    def text(self):
        most = max(self.waits, default=float("nan"))
        middle = self.tens[len(self.tens) // 2] if self.tens else float("nan")
        return (f"{self.name:<9} {self.seconds:5.0f} s  {len(self.waits) / self.seconds:5.0f} tasks/s  wait p50 "
                f"{percentile(self.waits, 0.5):.1f} ms, p99 {self.p99:.1f} ms (of 10 s in the middle {middle:.1f} ms), "
                f"most {most:.0f} ms; their transactions p99 {self.transactions_p99:.1f} ms; load {self.load:.1f}")


class Verdict:
    def __init__(self, directory, placed, forged, dead):
        """`placed`: the honest tasks' ids; `forged`: those of attackers; `dead`: the honest ones."""
        self.directory, self.placed, self.forged, self.findings, self.odd = directory, placed, forged, [], []
        self.commits = committed(directory)
        self.journal = Journal(directory + "/journal")
        self.starts = {task: runs[0].start for task, runs in self.journal.runs.items()}
        self.found("dead", sorted(dead))
        self.check()

    def found(self, what, tasks):
        if tasks:
            self.odd += tasks
            self.findings.append(f"{what}: {len(tasks)} tasks, such as {tasks[:5]}")

    def check(self):
        runs = self.journal.runs
        ended = {run.task for several in runs.values() for run in several if self.journal.end(run)}
        self.found("lost", sorted((set(self.placed) | set(self.commits)) - ended))
        self.found("run twice", [task for task in self.placed if len(runs.get(task, [])) > 1])
        self.found("run without a commit", [task for task in runs if task not in self.placed and task not in self.forged])
        self.found(f"stalled for more than {STALL_S:.0f} s",
                   [task for task, (at, _) in self.commits.items() if self.starts.get(task, 0) - at > STALL_S])

    def span(self, name, begin, end, load):
        span = Span(name, begin, end, load, self.commits, self.starts)
        if span.gap_s > STALL_S:
            self.findings.append(f"{name}: no commit for {span.gap_s:.0f} s")
        return span

    def compare(self, before, attack):
        ratio = attack.p99 / before.p99
        if ratio > RATIO_MOST and attack.seconds >= JUDGED_S:
            self.findings.append(f"the p99 under attack is {ratio:.2f} times the one before")
        return (f"p99 under attack to the one before: {ratio:.2f}, of the producers' transactions:"
                f" {attack.transactions_p99 / before.transactions_p99:.2f}")

    def events(self):
        """What workers and cleaners warned of, by event."""
        counts = collections.Counter()
        for path in glob.glob(self.directory + "/worker-*.log") + glob.glob(self.directory + "/cleaner-*.log"):
            for line in lines_of(path):
                found = re.search(r"level=(warn\w*|error) .*?event=(\w+)", line)
                if found:
                    counts[found[2]] += 1
        self.findings += [f"{counts[event]} times {event} in the logs" for event in NEVER if counts[event]]
        return ", ".join(f"{event} {n}" for event, n in sorted(counts.items()))
