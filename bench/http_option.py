#!/usr/bin/python3
"""What a worker's --http costs a drain: without it, with it, with it, without it, and that again and again.

usage: bench/http_option.py [--fours N] [--tasks N]      after: script/build release tenon bench_handler

Starts private servers and prints the time with the option to the time without it, of each pair and as a median. Above 1: it is
slower with it. In fours, because a drain is not as fast as the one before: servers age. The default of six fours is twelve
pairs of 200,000 tasks; some 10 s a pair.
"""
import argparse
import contextlib
import os
import statistics
import sys
from types import SimpleNamespace

from drain import drain_once
from process import family_cpu_s
from servers import DIRECTORY, Servers, lock, wipe_leftovers
from tenon import Tenon

BUILD = os.path.abspath("build/release")


def drain_s(b, n, env):
    b.tenon.prepare(n)
    return n / drain_once(b, n, env=env)["exit_tasks_per_s"]


def pairs(b, n, env):
    """The ratios of one four."""
    off, on, on_again, off_again = [drain_s(b, n, e) for e in ({}, env, env, {})]
    return [on / off, on_again / off_again]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fours", type=int, default=6, metavar="N", help="how often (default: 6)")
    parser.add_argument("--tasks", type=int, default=200000, metavar="N", help="how many in a drain (default: 200000)")
    arguments = parser.parse_args()
    with contextlib.ExitStack() as stack:
        stack.enter_context(lock())
        wipe_leftovers()
        servers = Servers(f"{BUILD}/tenon", f"{DIRECTORY}/tenon")
        stack.callback(servers.close)
        b = SimpleNamespace(servers=servers, tenon=Tenon(BUILD, servers, f"{BUILD}/bench/bench_handler"),
                            server_cpu_s=lambda: sum(family_cpu_s(servers.postgres_pid).values()))
        drain_s(b, arguments.tasks, {})  # the first is always slower
        env = {"TENON_HTTP": "127.0.0.1:0"}
        found = [ratio for _ in range(arguments.fours) for ratio in pairs(b, arguments.tasks, env)]
        print(f"--http: {statistics.median(found):.3f} ({min(found):.2f} to {max(found):.2f}),"
              f" {len(found)} pairs: {' '.join(f'{ratio:.3f}' for ratio in found)}", flush=True)


sys.exit(main())
