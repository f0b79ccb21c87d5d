"""The program behind script/bench; its arguments and their meaning stand there."""
import argparse
import contextlib
import datetime
import os
import platform
import signal
import subprocess
import sys
import time

import growth
import intake
import limits
import outbox
import rivals
import sizes
import workloads
from process import family_cpu_s, machine_busy_percent
from record import Record, ratios, say, table
from servers import DIRECTORY, Servers, lock, temporary, wipe_leftovers
from tenon import Tenon

BUILD = "build/release"
WORKLOADS = {**workloads.ALL, "growth": growth.growth, "intake": intake.intake, "outbox": outbox.outbox}


class Bench:
    """What a workload gets: the servers, tenon, how large it is, and where its figures go."""

    def __init__(self, system, build, arguments, record):
        self.system, self.record = system, record
        self.backlog = arguments.backlog
        self.sizes = sizes.QUICK if arguments.quick else sizes.PAIRS if arguments.against else sizes.FULL
        build = os.path.abspath(build)
        self.servers = Servers(f"{build}/tenon", f"{DIRECTORY}/{system}", arguments.blocked if system == "tenon" else 0)
        self.tenon = Tenon(build, self.servers, os.path.abspath(f"{BUILD}/bench/bench_handler"))

    def run(self, workload):
        self.servers.use()
        WORKLOADS[workload](self)

    def add(self, workload, variant, metric, value, unit):
        self.record.add(workload, self.system, variant, metric, value, unit)

    def limit(self, variant, metric, value, unit="1/s"):
        self.record.add("limits", "limit", variant, metric, value, unit)

    def server_cpu_s(self):
        """CPU seconds of the whole PostgreSQL server since its start."""
        return sum(family_cpu_s(self.servers.postgres_pid).values())


def processor():
    with open("/proc/cpuinfo", encoding="ascii") as file:
        return next((line.split(":")[1].strip() for line in file if line.startswith("model name")), "unknown")


def git(directory, *words):
    return subprocess.run(["git", "-C", directory, *words], text=True, capture_output=True).stdout.strip()


def facts(b, arguments, busy_percent):
    return {"date": datetime.date.today().isoformat(), "commit": git(".", "rev-parse", "--short", "HEAD"),
            "modified": git(".", "status", "--porcelain", "--untracked-files=no") != "",
            **({"against": git(arguments.against, "rev-parse", "--short", "HEAD")} if arguments.against else {}),
            "cpus": os.cpu_count(), "processor": processor(), "kernel": platform.release(),
            "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
            "quick": arguments.quick, "command": os.environ.get("BENCH_COMMAND", "bench"),
            "busy_before_percent": round(busy_percent, 1), "settings": b.servers.settings(),
            "versions": b.servers.versions(), "runs": arguments.runs, "rivals": rivals.facts(arguments.rivals)}


def parse():
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("workloads", nargs="*")
    parser.add_argument("--rivals", default="")
    parser.add_argument("--limits", action="store_true")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", required=True)
    parser.add_argument("--against", metavar="CHECKOUT")
    parser.add_argument("--blocked", type=int, default=0)
    parser.add_argument("--backlog", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.runs < 1:
        parser.error("--runs must be 1 or more")
    if arguments.against and (arguments.limits or arguments.rivals):
        parser.error("--against compares two builds of tenon, without rivals and limits")
    if arguments.rivals == "all":
        arguments.rivals = ",".join(rivals.ALL)
    for name in filter(None, arguments.rivals.split(",")):
        if name not in rivals.ALL:
            parser.error(f"rival {name}: one of {' '.join(rivals.ALL)}")
    for name in arguments.workloads:
        if name not in WORKLOADS:
            parser.error(f"workload {name}: one of {' '.join(WORKLOADS)}")
    return arguments


def parts(builds, run, arguments):
    """What one run does: (name, function) in order. Two builds, and tenon and its rivals, take turns by workload;
    which of two builds begins changes from run to run."""
    chosen = arguments.workloads or list(WORKLOADS)
    if arguments.limits:
        yield "limits", lambda: limits.run_all(builds[0])
    systems = [rivals.ALL[name](builds[0]) for name in arguments.rivals.split(",") if name]
    for name in chosen:
        for b in builds if run % 2 else reversed(builds):
            yield f"{name}, {b.system}", lambda name=name, b=b: b.run(name)
        for system in systems:
            if name in system.workloads:
                yield f"{name}, {system.name}", lambda name=name, system=system: system.run(name)


def run_all(builds, record, arguments):
    """Do it all; what failed is said, and the rest is measured all the same."""
    failed = []
    for run in range(1, arguments.runs + 1):
        record.run = run
        for name, function in list(parts(builds, run, arguments)):
            say(f"run {run} of {arguments.runs}: {name}")
            start = time.monotonic()
            try:
                function()
            except subprocess.TimeoutExpired as error:  # its text is a command line
                failed.append(f"run {run}: {name}: not done within {error.timeout:.0f} s")
                say(f"  FAILED: {failed[-1]}")
            except Exception as error:
                failed.append(f"run {run}: {name}: {type(error).__name__}: {error}")
                say(f"  FAILED: {failed[-1]}")
            say(f"  ({time.monotonic() - start:.0f} s)")
    return failed


def main():
    arguments = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that all is stopped and wiped then, too
    with contextlib.ExitStack() as stack:
        stack.enter_context(lock())
        wipe_leftovers()
        stack.enter_context(temporary())
        record = stack.enter_context(contextlib.closing(Record(arguments.json)))
        busy_percent = machine_busy_percent(0.5 if arguments.quick else 5)
        builds = []
        for system, build in (("tenon", BUILD), ("against", arguments.against and f"{arguments.against}/{BUILD}")):
            if build:
                builds.append(Bench(system, build, arguments, record))
                stack.callback(builds[-1].servers.close)
        record.head(facts(builds[0], arguments, busy_percent))
        failed = run_all(builds, record, arguments)
        record.head({"failed": failed})
    print(ratios(record.rows) if arguments.against else table(record.rows))
    for text in failed:
        print(f"bench: {text}", file=sys.stderr)
    return 1 if failed else 0


sys.exit(main())
