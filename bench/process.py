"""What a process costs, from /proc."""
import os
import subprocess
import time

TICK = os.sysconf("SC_CLK_TCK")


def stat_fields(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        return file.read().rpartition(")")[2].split()


def cpu_s(pid):
    """CPU seconds of all threads of a process, to the nanosecond; not of its children."""
    total = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/schedstat", encoding="ascii") as file:
            total += int(file.read().split()[0])
    return total / 1e9


def rss_mb(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        for line in file:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
    return 0.0


def family_cpu_s(pid):
    """{process id: CPU seconds} of a process's children and, with what it has reaped, of itself."""
    found = {}
    for child in children(pid):
        try:
            found[child] = cpu_s(child)
        except (FileNotFoundError, ProcessLookupError):
            pass  # reaped meanwhile: what it took is in what is read next
    found[pid] = cpu_s(pid) + sum(int(x) for x in stat_fields(pid)[13:15]) / TICK
    return found


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(x) for x in file.read().split()]


def wait_cpu_s(process, timeout_s):
    """Wait for a child; (its exit status, CPU seconds of it and of all that it has reaped)."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return process.returncode, usage.ru_utime + usage.ru_stime
        time.sleep(0.002)
    process.kill()
    process.wait()
    raise subprocess.TimeoutExpired(process.args, timeout_s)


def run(words, seconds, watch=None):
    """The output of a program that takes so long; meanwhile watch(its process id, seconds)."""
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            if watch:
                watch(process.pid, seconds)
            out, err = process.communicate(timeout=seconds + 120)
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        raise RuntimeError(f"{words[0]} ended with {process.returncode}: {err.strip()[-500:]}")
    return out


def machine_busy_percent(seconds):
    """How busy all processors are, over the next so many seconds."""
    before = cpu_ticks()
    time.sleep(seconds)
    after = cpu_ticks()
    return 100 * (after[0] - before[0]) / max(1, after[1] - before[1])


def cpu_ticks():
    """(ticks in which processors worked, all ticks)"""
    with open("/proc/stat", encoding="ascii") as file:
        fields = [int(x) for x in file.readline().split()[1:9]]
    return sum(fields) - fields[3] - fields[4], sum(fields)
