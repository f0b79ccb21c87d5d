"""The faults, each chosen and dosed by the seed. A fault says in `doubles` what it may excuse: "worker" the
tasks that one worker ran, "database" those whose end could not be told, "lock" an end that is told late, None
nothing at all. One that could not be done fell flat, and excuses nothing; too many of those break the soak, as
it has shown little then."""
import collections
import signal
import time

import psycopg2

from fleet import SPARED, wait_until

FLAT_MAX = 0.2       # of all faults
FLAT_KIND_MIN = 3    # a kind that never once worked, in so many
ALARM_ENDS_S = 30


class FellFlat(Exception):
    """A fault was refused."""


class Fault:
    def __init__(self, at, kind):
        self.at, self.until, self.kind, self.text = at, at, kind, kind
        self.doubles, self.pid, self.flat = None, 0, False


class Faults:
    def __init__(self, soak):
        self.soak, self.random, self.fleet = soak, soak.random, soak.fleet
        self.struck = []
        self.kinds = {
            self.kill_worker: 4, self.stop_worker: 3, self.term_worker: 3, self.kill_cleaner: 2,
            self.stop_cleaner: 1, self.term_cleaner: 1, self.kill_producer: 2,
            self.stop_producer: 1, self.restart_postgres: 1, self.kill_postgres: 1,
            self.restart_rabbitmq: 1, self.kill_rabbitmq: 1, self.purge_queue: 2,
            self.delete_queue: 2, self.close_connections: 2, self.end_backends: 3,
            self.lock_table: 2, self.alarm: 1}

    def strike(self):
        """One fault, to its end."""
        kind = self.random.choices(list(self.kinds), weights=self.kinds.values())[0]
        fault = Fault(time.time(), kind.__name__.replace("_", " "))
        self.struck.append(fault)
        try:
            kind(fault)
        except (psycopg2.Error, FellFlat) as error:  # as when a server is not up again
            fault.flat, fault.doubles = True, None
            fault.text += f" (fell flat: {(str(error).strip() or 'no reason').splitlines()[-1]})"
        fault.until = time.time()
        self.soak.say(f"{fault.text}, {fault.until - fault.at:.1f} s")

    def too_flat(self):
        """What is wrong with the faults themselves, as texts."""
        flat = [fault for fault in self.struck if fault.flat]
        if len(flat) > FLAT_MAX * len(self.struck):
            yield f"{len(flat)} of {len(self.struck)} faults fell flat"
        all_of, flat_of = (collections.Counter(fault.kind for fault in faults)
                           for faults in (self.struck, flat))
        for kind, n in all_of.items():
            if n >= FLAT_KIND_MIN and flat_of[kind] == n:
                yield f"\"{kind}\" fell flat each time, {n} times"

    def pick(self, fault, prefix, spare=False):
        name = self.random.choice([name for name in self.fleet.running(prefix)
                                   if not spare or name not in SPARED])
        fault.pid = self.fleet.pid(name)
        fault.text += f": {name} (pid {fault.pid})"
        return name

    # --- processes ---

    def kill(self, fault, prefix):
        name = self.pick(fault, prefix, spare=True)
        self.fleet.end(name, signal.SIGKILL, 10)
        time.sleep(self.random.uniform(0, 2))
        self.fleet.start(name)

    def stop(self, fault, prefix, longest_s):
        name = self.pick(fault, prefix)
        self.fleet.signal(name, signal.SIGSTOP)
        time.sleep(self.random.uniform(0.2, longest_s))
        self.fleet.signal(name, signal.SIGCONT)

    def term(self, fault, prefix):
        name = self.pick(fault, prefix, spare=True)
        status = self.fleet.end(name, signal.SIGTERM, 60)
        if status != 0:
            self.soak.broken.append(f"{name} ended with {status} after SIGTERM")
        self.fleet.start(name)

    def kill_worker(self, fault):
        fault.doubles = "worker"
        self.kill(fault, "worker")

    def stop_worker(self, fault):
        """Shorter than the 30 s after which it may be declared dead; once in a while longer."""
        long = self.random.random() < 0.1
        fault.doubles = "worker" if long else None
        self.stop(fault, "worker", 45 if long else 6)

    def term_worker(self, fault):
        self.term(fault, "worker")

    def kill_cleaner(self, fault):
        self.kill(fault, "cleaner")

    def stop_cleaner(self, fault):
        self.stop(fault, "cleaner", 6)

    def term_cleaner(self, fault):
        self.term(fault, "cleaner")

    def kill_producer(self, fault):
        self.kill(fault, "producer")

    def stop_producer(self, fault):
        self.stop(fault, "producer", 6)

    # --- PostgreSQL ---

    def restart_postgres(self, fault):
        fault.doubles = "database"
        self.soak.services("restart", "postgres")

    def kill_postgres(self, fault):
        fault.doubles = "database"
        self.soak.services("kill", "postgres")
        time.sleep(self.random.uniform(0, 3))
        self.soak.services("start", "postgres")

    def end_backends(self, fault):
        """Only a worker whose session was among them may not know what became of a task."""
        ended = self.soak.query(
            "SELECT application_name FROM (SELECT pid, application_name FROM pg_stat_activity"
            " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
            " AND datname = current_database() ORDER BY random() LIMIT %s) b"
            " WHERE pg_terminate_backend(pid)", (self.random.randrange(1, 4),))
        fault.text += ": " + ", ".join(name or "an application" for name, in ended)
        if any(name.startswith("tenon worker") for name, in ended):
            fault.doubles = "database"

    def lock_table(self, fault):
        fault.doubles = "lock"
        seconds = self.random.uniform(0.5, 1.5)
        self.soak.query("SET LOCAL lock_timeout = '3s'; LOCK tenon.task IN ACCESS EXCLUSIVE MODE;"
                        " SELECT pg_sleep(%s)", (seconds,))

    # --- RabbitMQ: none of it may make any task run twice ---

    def rabbitmqctl(self, *args):
        status, said = self.soak.rabbitmqctl(*args)
        if status != 0:
            raise FellFlat(said)

    def restart_rabbitmq(self, _fault):
        self.soak.services("restart", "rabbitmq")

    def kill_rabbitmq(self, _fault):
        self.soak.services("kill", "rabbitmq")
        time.sleep(self.random.uniform(0, 3))
        self.soak.services("start", "rabbitmq")

    def purge_queue(self, _fault):
        self.rabbitmqctl("purge_queue", "tenon.default/work")

    def delete_queue(self, _fault):
        self.rabbitmqctl("delete_queue", "tenon.default/work")

    def close_connections(self, _fault):
        self.rabbitmqctl("close_all_connections", "soak")

    def alarm(self, _fault):
        self.rabbitmqctl("set_vm_memory_high_watermark", "absolute", "1MB")
        time.sleep(self.random.uniform(1, 5))
        if not wait_until(lambda: self.soak.rabbitmqctl("set_vm_memory_high_watermark",
                                                        "0.6")[0] == 0, ALARM_ENDS_S):
            raise RuntimeError("the memory alarm could not be ended")
