"""The faults, each chosen and dosed by the seed. A fault says in `doubles` what it may excuse: "worker" the
tasks that one worker ran, "database" those whose end could not be told, None nothing at all."""
import signal
import time

import psycopg2


class Fault:
    def __init__(self, at, text, doubles=None, pid=0):
        self.at, self.until, self.text, self.doubles, self.pid = at, at, text, doubles, pid


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
        except psycopg2.Error as error:  # the server is not up again: this fault fell flat
            fault.text += f" (fell flat: {str(error).strip().splitlines()[0]})"
        fault.until = time.time()
        self.soak.say(f"{fault.text}, {fault.until - fault.at:.1f} s")

    def pick(self, fault, prefix):
        name = self.random.choice(self.fleet.running(prefix))
        fault.pid = self.fleet.pid(name)
        fault.text += f": {name} (pid {fault.pid})"
        return name

    # --- processes ---

    def kill(self, fault, prefix):
        name = self.pick(fault, prefix)
        self.fleet.end(name, signal.SIGKILL, 10)
        time.sleep(self.random.uniform(0, 2))
        self.fleet.start(name)

    def stop(self, fault, prefix, longest_s):
        name = self.pick(fault, prefix)
        self.fleet.signal(name, signal.SIGSTOP)
        time.sleep(self.random.uniform(0.2, longest_s))
        self.fleet.signal(name, signal.SIGCONT)

    def term(self, fault, prefix):
        name = self.pick(fault, prefix)
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
        fault.doubles = "database"
        ended = self.soak.query(
            "SELECT application_name FROM (SELECT pid, application_name FROM pg_stat_activity"
            " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
            " AND datname = current_database() ORDER BY random() LIMIT %s) b"
            " WHERE pg_terminate_backend(pid)", (self.random.randrange(1, 4),))
        fault.text += ": " + ", ".join(name or "an application" for name, in ended)

    def lock_table(self, fault):
        fault.doubles = "database"
        seconds = self.random.uniform(0.5, 1.5)
        self.soak.query("SET LOCAL lock_timeout = '3s'; LOCK tenon.task IN ACCESS EXCLUSIVE MODE;"
                        " SELECT pg_sleep(%s)", (seconds,))

    # --- RabbitMQ: none of it may make any task run twice ---

    def restart_rabbitmq(self, _fault):
        self.soak.services("restart", "rabbitmq")

    def kill_rabbitmq(self, _fault):
        self.soak.services("kill", "rabbitmq")
        time.sleep(self.random.uniform(0, 3))
        self.soak.services("start", "rabbitmq")

    def purge_queue(self, _fault):
        self.soak.rabbitmqctl("purge_queue", "tenon.default")

    def delete_queue(self, _fault):
        self.soak.rabbitmqctl("delete_queue", "tenon.default")

    def close_connections(self, _fault):
        self.soak.rabbitmqctl("close_all_connections", "soak")

    def alarm(self, _fault):
        self.soak.rabbitmqctl("set_vm_memory_high_watermark", "absolute", "1MB")
        time.sleep(self.random.uniform(1, 5))
        self.soak.rabbitmqctl("set_vm_memory_high_watermark", "0.6")
