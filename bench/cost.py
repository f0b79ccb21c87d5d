"""Where the processors' time goes while tasks come one after the other."""
import time

from process import children, cpu_s, family_cpu_s

# Whose client a session of PostgreSQL is, by the beginning of its application_name.
SESSIONS = (("tenon worker", "worker_sessions"), ("tenon cleaner", "cleaner_sessions"), ("", "producer_sessions"))
MARGIN_S = 1  # at both ends, in which producers connect or leave


class Cost:
    """Reads the CPU time of all processes twice while producers run: `watch` goes to process.run()."""

    def __init__(self, b, programs=()):
        self.b, self.programs = b, dict(zip(("worker", "cleaner"), programs))
        self.start = self.end = 0  # when they were read, by time.time()
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
        self.start, before, server_before = self.look(parts, sessions)
        time.sleep(seconds - 2 * margin)
        self.end, after, server_after = self.look(parts, sessions)
        for pid, part in parts.items():
            if pid in before and pid in after:  # a session of the cleaner may have come or gone
                self.used[part] = self.used.get(part, 0) + after[pid] - before[pid]
        # checkpointer, WAL writer, and autovacuum's workers, of which most have ended by now
        self.used["postgresql_itself"] = server_after - server_before

    def look(self, parts, sessions):
        """(now, {process id: CPU seconds} of the parts that are there, and those of PostgreSQL without the sessions)"""
        now, server = time.time(), family_cpu_s(self.b.servers.postgres_pid)
        found = {pid: server[pid] for pid in sessions if pid in server}
        without = sum(server.values()) - sum(found.values())
        return now, found | {pid: cpu_s(pid) for pid in parts if pid not in sessions}, without

    def per_task_us(self, tasks):
        """[(part, us)], the greatest first, then the sums of PostgreSQL and of all; of so many tasks between the
        two readings."""
        costs = {part: used / tasks * 1e6 for part, used in self.used.items()}
        postgres = sum(us for part, us in costs.items() if part.endswith("_sessions") or part == "postgresql_itself")
        parts = sorted(costs.items(), key=lambda cost: -cost[1])
        return [*parts, ("postgresql", postgres), ("all", sum(costs.values()))]
