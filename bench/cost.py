"""Where the processors' time goes while tasks come one after the other."""
import re
import subprocess
import time

from process import children, cpu_s
from servers import DIRECTORY

# Whose client a session of PostgreSQL is, by the beginning of its application_name.
SESSIONS = (("tenon worker", "worker_sessions"), ("tenon cleaner", "cleaner_sessions"), ("", "producer_sessions"))
MARGIN_S = 1  # at both ends, in which producers connect or leave


class Cost:
    """Looks at all processes twice while producers run: `watch` goes to process.run()."""

    def __init__(self, b, programs=()):
        self.b, self.programs = b, dict(zip(("worker", "cleaner"), programs))
        self.seconds, self.used = 0, {}

    def processes(self, producer):
        """{process id: part}"""
        found = {producer: "producers", rabbitmq(): "rabbitmq"}
        for part, program in self.programs.items():
            found[program.pid] = part
            found.update({pid: "handlers" for pid in children(program.pid)})
        for pid, kind, name in self.b.servers.sql("SELECT pid, backend_type, application_name FROM pg_stat_activity"
                                                  " WHERE pid <> pg_backend_pid()"):
            found[pid] = (next(part for begin, part in SESSIONS if name.startswith(begin))
                          if kind == "client backend" else "postgresql_itself")
        return found

    def watch(self, producer, seconds):
        margin = min(MARGIN_S, seconds / 4)
        time.sleep(margin)
        parts = self.processes(producer)
        start, before = time.monotonic(), {pid: cpu_s(pid) for pid in parts}
        time.sleep(seconds - 2 * margin)
        for pid, part in parts.items():
            try:
                self.used[part] = self.used.get(part, 0) + cpu_s(pid) - before[pid]
            except FileNotFoundError:  # an autovacuum worker, which has ended
                pass
        self.seconds = time.monotonic() - start

    def per_task_us(self, tasks_per_s):
        """[(part, us)], the greatest first, and their sum."""
        costs = {part: used / self.seconds / tasks_per_s * 1e6 for part, used in self.used.items()}
        return sorted(costs.items(), key=lambda cost: -cost[1]) + [("all", sum(costs.values()))]


def rabbitmq():
    """RabbitMQ's process."""
    text = subprocess.run(["script/services", "--dir", DIRECTORY, "status"], check=True, text=True,
                          capture_output=True).stdout
    return int(re.search(r"rabbitmq runs on .*, pid (\d+)", text)[1])
