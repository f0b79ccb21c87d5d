"""Which promises held, by what was counted outside tenon."""
import collections
import datetime
import json
import os

RESTART_LIMIT_S = 10.0  # 1.5 s is usual; on a busy machine it may be more
KILL_SLACK_S = 0.1  # a handler dies a moment after its worker


def percentile(values, share):
    """The value that `share` of all do not exceed."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] if values else float("nan")


def runs_by_task(journal):
    runs = collections.defaultdict(list)
    for run in sorted(journal.runs, key=lambda run: run.start):
        runs[run.task].append(run)
    return runs


def read_notes(path):
    """Lines of a task's number and its payload."""
    with open(path, encoding="utf-8") as file:
        return [(int(task), json.loads(payload)) for task, _, payload in (line.partition(" ") for line in file)]


class Verdict:
    """`rows` is the table, `broken` the promises that did not hold."""

    def __init__(self, demo, users, mails, improper, notes):
        self.rows, self.broken = [], []
        self.demo, self.users, self.mails = demo, users, mails
        self.runs = runs_by_task(demo.journal)
        self.kill = next(fault for fault in demo.faults if fault.victim)
        self.check_signups()
        self.check_mails(improper)
        self.check_twice()
        self.check_restart()
        self.check_faults()
        self.check_notes(notes)
        self.measure_starts()

    def row(self, what, value, held=None, source=""):
        """`held`: None for a plain figure."""
        self.rows.append((what, value, {None: "", True: "ok", False: "BROKEN"}[held], source))
        if held is False:
            self.broken.append(what)

    def check_signups(self):
        signups = self.demo.signups
        rolled_back = [s for s in signups.all if not s.committed]
        known = len(set(self.users)) == len(self.users) == signups.committed
        self.row("sign-ups", f"{len(signups.all):,}", len(signups.all) == self.demo.signups_wanted,
                 "the producers' logs")
        self.row("  committed", f"{len(self.users):,}", known, "users table, and the same in the logs")
        self.row("  rolled back", f"{len(rolled_back):,}", len(rolled_back) > 0, "the producers' logs")

    def check_mails(self, improper):
        users, mailed = set(self.users), set(self.mails)
        ran = {runs[0].address for runs in self.runs.values()}
        rolled_back = {s.task for s in self.demo.signups.all if not s.committed}
        lost = users - mailed
        ghosts = (mailed - users) | (ran - users) | (rolled_back & set(self.runs))
        self.row("mails", f"{len(self.mails):,}", not improper, "Maildir; each read back and checked")
        self.row("committed and run", f"{len(users & mailed & ran):,}", None, "users, Maildir, journal")
        self.row("lost", f"{len(lost):,}", not lost, "users without a mail")
        self.row("run for a rolled-back sign-up", f"{len(ghosts):,}", not ghosts, "journal, Maildir, logs")

    def is_explained(self, first):
        return (first.worker_pid == self.kill.victim
                and first.start <= self.kill.struck_at + KILL_SLACK_S)

    def check_twice(self):
        twice = [runs for runs in self.runs.values() if len(runs) > 1]
        explained = [runs for runs in twice
                     if len(runs) == 2 and self.is_explained(runs[0])]
        overlaps = [a for runs in twice for a, b in zip(runs, runs[1:])
                    if b.start < (a.end or self.kill.struck_at)]
        self.row("run twice", f"{len(twice):,}", None, "journal")
        self.row("  begun by the killed worker before the kill", f"{len(explained):,}", None, "journal")
        self.row("  for no reason", f"{len(twice) - len(explained):,}", len(twice) == len(explained),
                 "journal")
        self.row("run twice at the same time", f"{len(overlaps):,}", not overlaps, "journal")

    def check_restart(self):
        cut = [run for run in self.demo.journal.runs
               if run.worker_pid == self.kill.victim and run.end is None]
        waits = [next((again.start - self.kill.struck_at for again in self.runs[run.task]
                       if again.start > run.start and again.worker_pid != self.kill.victim), None)
                 for run in cut]
        started = [wait for wait in waits if wait is not None]
        self.row("cut off by the kill, run again elsewhere", f"{len(started)} of {len(cut)}",
                 len(started) == len(cut), "journal")
        if started:
            self.row("  seconds from the kill to the restart",
                     f"{min(started):.2f} to {max(started):.2f}", max(started) < RESTART_LIMIT_S,
                     f"journal; limit {RESTART_LIMIT_S:.0f} s")

    def check_faults(self):
        for fault in self.demo.faults:
            self.row(f"running when {fault.name}", f"{fault.running}", fault.running > 0, "journal")
        purged = next(fault for fault in self.demo.faults if fault.thread).purged
        self.row("  wake-ups that RabbitMQ lost", f"{purged}", None, "RabbitMQ")
        orphan = next(fault.task for fault in self.demo.faults if fault.task)
        committed = {s.task: s.at for s in self.demo.signups.all if s.committed}
        if self.runs.get(orphan):
            self.row("  seconds until the unpublished task started",
                     f"{self.runs[orphan][0].start - committed[orphan]:.2f}", None, "log, journal")

    def check_notes(self, notes):
        """Tasks, not runs: a worker that is killed may have run one of them twice."""
        refunds = {task for task, _ in read_notes(os.path.join(notes, "refund"))}
        self.row("refunds of the one charge that is dead", f"{len(refunds)}", len(refunds) == 1, "the handler's notes")
        ticks = collections.defaultdict(set)
        for task, payload in read_notes(os.path.join(notes, "report")):
            ticks[datetime.datetime.fromisoformat(payload["tick"])].add(task)
        moments = sorted(ticks)
        gaps = sum(b - a != datetime.timedelta(seconds=1) for a, b in zip(moments, moments[1:]))
        twice = sum(len(tasks) > 1 for tasks in ticks.values())
        self.row("ticks of the schedule that were missed or doubled", f"{gaps + twice} of {len(moments)}",
                 bool(moments) and gaps + twice == 0, "the handler's notes")

    def measure_starts(self):
        calm, all_waits = [], []
        for signup in self.demo.signups.all:
            if signup.committed and signup.task in self.runs:
                wait = 1000 * (self.runs[signup.task][0].start - signup.at)
                all_waits.append(wait)
                if not any(f.struck_at <= signup.at + wait / 1000 and signup.at <= f.over_at
                           for f in self.demo.faults):
                    calm.append(wait)
        for name, waits in (("all", all_waits), (f"{len(calm):,} while no fault was felt", calm)):
            self.row(f"commit to start, {name}",
                     f"p50 {percentile(waits, 0.5):.1f} ms, p99 {percentile(waits, 0.99):.1f} ms",
                     None, "logs, journal")

    def text(self):
        widths = [max(len(row[i]) for row in self.rows) for i in range(3)]
        lines = ["", f"{'promise':<{widths[0]}}  {'counted':>{widths[1]}}  {'':<{widths[2]}}  by"]
        for what, value, held, source in self.rows:
            lines.append(f"{what:<{widths[0]}}  {value:>{widths[1]}}  {held:<{widths[2]}}  {source}")
        return "\n".join(lines) + "\n"
