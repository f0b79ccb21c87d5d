"""Where the processors' time goes while tasks come one after the other."""
import time

from process import children, cpu_s

# Whose client a session of PostgreSQL is, by the beginning of its application_name.
SESSIONS = (("tenon worker", "worker_sessions"), ("tenon cleaner", "cleaner_sessions"), ("", "producer_sessions"))
MARGIN_S = 1  # at both ends, in which producers connect or leave


class Cost:
    """Looks at all processes twice while producers run: `watch` goes to process.run()."""

    def __init__(self, b, programs=()):
        self.b, self.programs = b, dict(zip(("worker", "cleaner"), programs))
        self.start = self.end = 0  # the two looks, by time.time()
        self.used = {}

    def processes(self, producer):
        """{process id: part}, without PostgreSQL's."""
        found = {producer: "producers", self.b.servers.rabbitmq_pid: "rabbitmq"}
        for part, program in self.programs.items():
            found[program.pid] = part
            found.update({pid: "handlers" for pid in children(program.pid)})
        return found

    def sessions(self):
        rows = self.b.servers.sql("SELECT pid, application_name FROM pg_stat_activity"
                                  " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()")
        return {pid: next(part for begin, part in SESSIONS if name.startswith(begin)) for pid, name in rows}

    def watch(self, producer, seconds):
        margin = min(MARGIN_S, seconds / 4)
        time.sleep(margin)
        sessions = self.sessions()
        parts = {**self.processes(producer), **sessions}
        self.start, server, before = time.time(), self.b.server_cpu_s(), {pid: cpu_s(pid) for pid in parts}
        time.sleep(seconds - 2 * margin)
        self.end, server = time.time(), self.b.server_cpu_s() - server
        used = {pid: cpu_s(pid) - before[pid] for pid in parts}
        for pid, part in parts.items():
            self.used[part] = self.used.get(part, 0) + used[pid]
        # checkpointer, WAL writer, and autovacuum's workers, of which most have ended by now
        self.used["postgresql_itself"] = max(0, server - sum(used[pid] for pid in sessions))

    def per_task_us(self, tasks):
        """[(part, us)], the greatest first, and their sum; of so many tasks between the looks."""
        costs = {part: used / tasks * 1e6 for part, used in self.used.items()}
        return sorted(costs.items(), key=lambda cost: -cost[1]) + [("all", sum(costs.values()))]
