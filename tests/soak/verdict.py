"""What was lost, what ran without being committed, what ran twice and why: by the application's own table, the
producers' logs and the handlers' journal. Of tenon's tables two things are asked: which tasks are dead, and what the
payload is of a task whose id no producer was told."""
import collections
import os

CRASHES_MAX = 3    # tenon gives a task up after so many workers died with it
TELLING_S = 2.0    # a run may have ended so long before its worker died, and its end not be told yet
LOCKED_S = 5.0     # and so much later if it met a lock: RETRY_MAX_MS of worker/decide/round.h
RECOVERY_S = 90.0  # a claim whose commit was not known may be given back so much later

Run = collections.namedtuple("Run", "task attempt pid worker start")


def lines_of(path, most_bytes=None):
    """Its whole lines, or those of its last bytes."""
    try:
        with open(path, "rb") as file:
            if most_bytes and os.fstat(file.fileno()).st_size > most_bytes:
                file.seek(-most_bytes, os.SEEK_END)
                file.readline()
            data = file.read()
    except FileNotFoundError:
        return []
    return data[:data.rfind(b"\n") + 1].decode().splitlines()


class Journal:
    def __init__(self, path):
        self.runs, self.ends = collections.defaultdict(list), {}
        for line in lines_of(path):
            task, attempt, pid, worker, what, at = line.split()
            run = Run(int(task), int(attempt), int(pid), int(worker), 0)
            if what == "start":
                run = run._replace(start=int(at) / 1e9)
                self.runs[run.task].append(run)
            else:
                self.ends[run[:3]] = int(at) / 1e9

    def end(self, run):
        return self.ends.get(run[:3])


class Logs:
    """The producers' logs: the outcome of each transaction."""

    def __init__(self, paths):
        self.outcome, self.cancelling, self.cancelled = {}, collections.Counter(), {}
        for path in paths:
            for line in lines_of(path):
                what, number, task, at = line.split()
                if what == "cancelling":
                    self.cancelling[int(number)] += 1
                elif what == "cancelled":
                    if task == "1":
                        self.cancelled[int(number)] = int(at) / 1e9
                    else:
                        self.cancelling[int(number)] -= 1  # too late
                elif what != "begin" and self.outcome.get(int(number)) != "committed":
                    self.outcome[int(number)] = what

    def count(self, what):
        return sum(outcome == what for outcome in self.outcome.values())


class Verdict:
    """`placed`: {number: (task, fails)} as the application's table has it. `snooze`: {task: number} of those it does
    not have: what is enqueued under the key of a running task gets that one's id, and runs after it under its own."""

    def __init__(self, placed, later, logs, journal, faults, dead):
        self.rows, self.broken, self.details = [], [], []
        self.placed, self.logs, self.journal, self.faults = placed, logs, journal, faults
        self.tasks = {task: fails for task, fails in placed.values()}
        self.later = [task for task, number in later.items() if number in placed]
        self.tasks.update((task, False) for task in self.later)
        self.dead = dead
        self.check_commits()
        self.check_lost()
        self.check_phantoms()
        self.check_doubles()
        self.check_cancelled()

    def row(self, what, value, held=None):
        self.rows.append((what, str(value), {None: "", True: "ok", False: "BROKEN"}[held]))
        if held is False:
            self.broken.append(what)

    def check_commits(self):
        logs = self.logs
        for what in ("committed", "rolled_back", "failed", "unknown"):
            self.row(f"transactions {what.replace('_', ' ')}", logs.count(what))
        wrong = [n for n, outcome in logs.outcome.items()
                 if (outcome == "committed") != (n in self.placed)
                 and outcome in ("committed", "rolled_back")]
        self.row("  contradicted by the table", len(wrong), not wrong)
        self.row("tasks committed", len(self.tasks))
        self.row("  to run after one of their key", len(self.later))

    def died_with_workers(self, task):
        runs = self.journal.runs.get(task, [])
        cut = [run for run in runs if not self.journal.end(run)]
        return self.dead.get(task) == "crashes" and len(runs) >= CRASHES_MAX and len(cut) >= 1

    def check_lost(self):
        ended = {run.task for runs in self.journal.runs.values() for run in runs
                 if self.journal.end(run)}
        lost = [task for task in self.tasks if task not in ended
                and not self.logs.cancelling[task] and not self.died_with_workers(task)]
        self.row("lost", len(lost), not lost)
        self.details += [f"lost: task {task}" for task in lost[:20]]
        self.row("given up after three crashes",
                 sum(self.died_with_workers(task) for task in self.tasks))

    def check_phantoms(self):
        phantoms = [task for task in self.journal.runs if task not in self.tasks]
        self.row("run without a commit", len(phantoms), not phantoms)
        self.details += [f"run without a commit: task {task}" for task in phantoms[:20]]

    def told(self, run):
        """When the database should know of the run's end at the latest."""
        end = self.journal.end(run) or run.start
        return max([end] + [fault.until + LOCKED_S for fault in self.faults if fault.doubles == "lock"
                            and fault.at <= end + TELLING_S and fault.until >= end]) + TELLING_S

    def excuse(self, run, again):
        end = self.journal.end(run)
        for fault in self.faults:
            if fault.doubles == "worker" and fault.pid == run.worker:
                if run.start <= fault.until and (end is None or self.told(run) >= fault.at):
                    return fault
            elif fault.doubles == "database":
                if fault.at <= again.start and fault.until + RECOVERY_S >= run.start:
                    if self.told(run) >= fault.at and run.start <= fault.until + TELLING_S:
                        return fault
        return None

    def check_doubles(self):
        doubled, unexplained, overlaps = 0, [], []
        for task, runs in self.journal.runs.items():
            runs.sort(key=lambda run: run.start)
            if len(runs) < 2 or self.tasks.get(task):
                continue  # that one fails on purpose, and is tried again
            doubled += 1
            for run, again in zip(runs, runs[1:]):
                if not self.excuse(run, again):
                    unexplained.append((run, again))
                if self.journal.end(run) and again.start < self.journal.end(run):
                    overlaps.append((run, again))
        self.row("run more than once", doubled)
        self.row("  without a fault to explain it", len(unexplained), not unexplained)
        self.row("  while the run before still went on", len(overlaps))
        for run, again in unexplained[:20]:
            end = self.journal.end(run)
            self.details.append(
                f"unexplained: task {run.task}, attempt {run.attempt} of worker {run.worker} at "
                f"{run.start:.3f} to {end or 0:.3f}, attempt {again.attempt} of worker "
                f"{again.worker} at {again.start:.3f}")

    def awake(self, run, at):
        """When the run's worker could hear of what happened `at`: a frozen one starts what it had claimed before."""
        return max([at] + [fault.until for fault in self.faults if fault.doubles == "worker"
                           and fault.pid == run.worker and fault.at <= run.start and fault.until >= at])

    def check_cancelled(self):
        late = [task for task, at in self.logs.cancelled.items()
                for run in self.journal.runs.get(task, []) if run.start > self.awake(run, at) + 0.5]
        self.row("tasks cancelled", len(self.logs.cancelled))
        self.row("  started half a second later all the same", len(late), not late)
        self.details += [f"started after it was cancelled: task {task}" for task in late[:20]]

    def text(self):
        width = max(len(row[0]) for row in self.rows)
        lines = [f"{what:<{width}}  {value:>10}  {held}" for what, value, held in self.rows]
        return "\n".join(lines + self.details)
