"""The program behind script/bench; its arguments and their meaning stand there."""
import argparse
import datetime
import os
import platform
import signal
import subprocess
import sys
import time

import limits
import rivals
import sizes
import workloads
from process import family_cpu_s, machine_busy_percent
from record import Record, say, table
from servers import Servers, lock
from tenon import Tenon

BUILD = "build/release"


class Bench:
    """What a workload gets: the servers, tenon, how large it is, and where its figures go."""

    def __init__(self, arguments):
        self.sizes = sizes.QUICK if arguments.quick else sizes.FULL
        self.quick = arguments.quick
        self.record = Record(arguments.json)
        self.busy_percent = machine_busy_percent(0.5 if arguments.quick else 5)
        self.build = os.path.abspath(arguments.build)
        self.servers = Servers(f"{self.build}/tenon")
        self.tenon = Tenon(self.build, self.servers)

    def add(self, workload, variant, metric, value, unit):
        self.record.add(workload, "tenon", variant, metric, value, unit)

    def limit(self, variant, metric, value, unit="1/s"):
        self.record.add("limits", "limit", variant, metric, value, unit)

    def server_cpu_s(self):
        """CPU seconds of the whole PostgreSQL server since its start."""
        return sum(family_cpu_s(self.servers.postgres_pid).values())


def processor():
    with open("/proc/cpuinfo", encoding="ascii") as file:
        return next((line.split(":")[1].strip() for line in file if line.startswith("model name")), "unknown")


def facts(b):
    git = lambda *words: subprocess.run(["git", *words], text=True, capture_output=True).stdout.strip()
    return {"date": datetime.date.today().isoformat(), "commit": git("rev-parse", "--short", "HEAD"),
            "modified": git("status", "--porcelain", "--untracked-files=no") != "",
            "cpus": os.cpu_count(), "processor": processor(), "kernel": platform.release(),
            "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
            "quick": b.quick, "command": os.environ.get("BENCH_COMMAND", "bench"),
            "busy_before_percent": round(b.busy_percent, 1), "settings": b.servers.settings(),
            "versions": b.servers.versions()}


def parse():
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("workloads", nargs="*")
    parser.add_argument("--rivals", default="")
    parser.add_argument("--limits", action="store_true")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", required=True)
    parser.add_argument("--build", default=BUILD)
    arguments = parser.parse_args()
    if arguments.runs < 1:
        parser.error("--runs must be 1 or more")
    if arguments.rivals == "all":
        arguments.rivals = ",".join(rivals.ALL)
    for name in filter(None, arguments.rivals.split(",")):
        if name not in rivals.ALL:
            parser.error(f"rival {name}: one of {' '.join(rivals.ALL)}")
    for name in arguments.workloads:
        if name not in workloads.ALL:
            parser.error(f"workload {name}: one of {' '.join(workloads.ALL)}")
    return arguments


def parts(b, arguments):
    """What one run does: (name, function) in order. tenon and its rivals take turns by workload."""
    chosen = arguments.workloads or list(workloads.ALL)
    if arguments.limits:
        yield "limits", lambda: limits.run_all(b)
    systems = [rivals.ALL[name](b) for name in arguments.rivals.split(",") if name]
    for name in chosen:
        yield name, lambda name=name: workloads.ALL[name](b)
        for system in systems:
            if name in system.workloads:
                yield f"{name}, {system.name}", lambda name=name, system=system: system.run(name)


def run_all(b, arguments):
    """Do it all; what failed is said, and the rest is measured all the same."""
    failed = []
    for run in range(1, arguments.runs + 1):
        b.record.run = run
        for name, function in list(parts(b, arguments)):
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
    held = lock()
    b = Bench(arguments)
    try:
        b.record.head({**facts(b), "runs": arguments.runs, "rivals": rivals.facts(arguments.rivals)})
        failed = run_all(b, arguments)
        b.record.head({"failed": failed})
    finally:
        b.servers.close()
        b.record.close()
        held.close()
    print(table(b.record.rows))
    for text in failed:
        print(f"bench: {text}", file=sys.stderr)
    return 1 if failed else 0


sys.exit(main())
