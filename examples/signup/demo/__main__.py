"""script/demo: sign-ups on a real PostgreSQL and a real RabbitMQ, three faults, and a count."""
import glob
import os
import shutil
import signal
import subprocess
import sys
import time

import psycopg2

from faults import kill_producer, kill_worker, restart_rabbitmq
from fleet import Fleet
from live import Live
from records import Journal, Signups, read_maildir
from servers import Servers
from verdict import Verdict

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
HERE = os.path.join(ROOT, "examples", "signup")
BUILD = os.path.join(ROOT, "build", "release")
RUN = os.path.join(ROOT, ".services", "demo-run")
FAILED = os.path.join(ROOT, "build", "log", "demo")
SIGNUPS, PER_SECOND = 5000, 220
PRODUCERS = ("producer-1", "producer-2", "producer-3", "producer-4")
IN_C = ("producer-1", "producer-2")
WORKERS = ("worker-1", "worker-2", "worker-3")
DRAIN_LIMIT_S = 30.0
READY_LIMIT_S = 15.0
KILL_LATEST_S = 17.0  # after that there may be nothing left to hit


class Demo:
    def __init__(self):
        self.signups_wanted = SIGNUPS
        self.fleet = Fleet(RUN)
        self.servers = Servers(ROOT, os.path.join(ROOT, ".services", "demo"))
        self.signups, self.journal = Signups(), Journal(os.path.join(RUN, "journal"))
        self.faults, self.env, self.cleaner_started = [], {}, 0.0
        self.live = Live(self.progress)

    # --- what goes on ---

    def read(self):
        with self.live.lock:
            self.signups.read()
            self.journal.read()

    def living_workers(self):
        return {self.fleet.pid(name) for name in WORKERS if self.fleet.is_running(name)}

    def progress(self):
        if not self.signups.tails:
            return None
        self.read()
        return (f"committed {self.signups.committed:,}  rolled back "
                f"{len(self.signups.all) - self.signups.committed:,}  run {self.journal.ended:,}  "
                f"running {self.journal.running(self.living_workers())}  faults {len(self.faults)} of 3")

    # --- starting ---

    def prepare(self):
        starting = self.servers.start()
        self.live.say("building, and starting a PostgreSQL and a RabbitMQ of its own")
        try:
            subprocess.run([ROOT + "/script/build", "release", "tenon", "signup", "mailer"],
                           check=True, stdin=subprocess.DEVNULL)
        finally:
            Servers.await_started(starting)
        server = self.servers.env()
        self.env = {"DATABASE_URL": server["DATABASE_URL"], "AMQP_URL": server["AMQP_URL"]}
        for sub in ("maildir/tmp", "maildir/new", "maildir/cur", "notes"):
            os.makedirs(os.path.join(RUN, sub))

    def make_schema(self):
        with open(os.path.join(HERE, "users.sql"), encoding="utf-8") as file:
            self.query(file.read())
        self.query("ALTER ROLE signup PASSWORD 'word'")
        self.query("CREATE ROLE tenon_worker LOGIN PASSWORD 'word'; CREATE ROLE tenon_cleaner LOGIN PASSWORD 'word'")
        done = subprocess.run([BUILD + "/tenon", "setup", "--grant-producer", "signup", "--grant-worker", "tenon_worker",
                               "--grant-cleaner", "tenon_cleaner"],
                              env={**os.environ, **self.env}, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"tenon setup failed:\n{done.stdout}")
        self.query("SELECT tenon.set_kind('charge', on_dead => 'refund')")
        self.query("SELECT tenon.set_schedule('report', every => '1 s', kind => 'report', catch_up => 'all')")

    def query(self, sql):
        conn = psycopg2.connect(self.env["DATABASE_URL"])
        try:
            with conn, conn.cursor() as cursor:
                cursor.execute(sql)
                return cursor.fetchall() if cursor.description else None
        finally:
            conn.close()

    def url(self, role):
        return f"postgresql://{role}:word@" + self.env["DATABASE_URL"].partition("@")[2]

    def worker_env(self):
        """What the worker connects with, which handlers do not get, and the application's role, which they get."""
        return {"TENON_DATABASE_URL": self.url("tenon_worker"), "TENON_AMQP_URL": self.env["AMQP_URL"],
                "DATABASE_URL": self.url("signup")}

    def start_fleet(self):
        self.fleet.start("cleaner", [BUILD + "/tenon", "cleaner"],
                         {**self.env, "DATABASE_URL": self.url("tenon_cleaner")})
        self.cleaner_started = time.monotonic()
        for name in WORKERS:
            mailer = BUILD + "/examples/signup/mailer" if name == "worker-2" else HERE + "/mailer.py"
            self.fleet.start(name, [BUILD + "/tenon", "worker", "--slots", "4", "--handlers",
                                    HERE + "/handlers.conf"],
                             {**self.worker_env(), "SIGNUP_MAILER": mailer,
                              "SIGNUP_MAILDIR": os.path.join(RUN, "maildir"),
                              "SIGNUP_JOURNAL": self.journal.tail.path,
                              "SIGNUP_NOTES": os.path.join(RUN, "notes")})
        self.await_ready()
        self.query("""SELECT tenon.enqueue('charge', '{"card": 4711}')""")
        for name in PRODUCERS:
            self.signups.add_log(name, os.path.join(RUN, name + ".signups"))
            self.start_producer(name, PRODUCERS.index(name) * SIGNUPS // 4 + 1)
        self.live.say(f"cleaner, 3 workers of 4 slots and 4 producers run; {SIGNUPS:,} sign-ups, "
                      f"{PER_SECOND} each second")

    def await_ready(self):
        deadline = time.monotonic() + READY_LIMIT_S
        for name in WORKERS:
            while "event=worker_ready" not in self.log_of(name):
                if time.monotonic() > deadline or not self.fleet.is_running(name):
                    raise RuntimeError(f"{name} did not start:\n{self.log_of(name)}")
                time.sleep(0.01)

    def log_of(self, name):
        with open(os.path.join(RUN, name + ".log"), encoding="utf-8", errors="replace") as file:
            return file.read()[-4000:]

    def start_producer(self, name, first):
        """Producers connect as the application's role, which may enqueue and no more."""
        last = (PRODUCERS.index(name) + 1) * SIGNUPS // 4
        program = BUILD + "/examples/signup/signup" if name in IN_C else HERE + "/signup.py"
        self.fleet.start(name, [program, str(first), str(last), str(PER_SECOND / 4), self.signups.tails[name].path],
                         {**self.env, "DATABASE_URL": self.url("signup")})

    # --- the course ---

    def strike(self, fault):
        self.faults.append(fault)
        self.live.say(fault.text)

    def make_trouble(self):
        started = time.monotonic()
        time.sleep(3)
        self.strike(kill_producer(self, "producer-1"))
        time.sleep(2)
        rabbitmq = restart_rabbitmq(self, "tenon.default/welcome_mail")
        self.strike(rabbitmq)
        rabbitmq.thread.join(started + KILL_LATEST_S - time.monotonic())
        time.sleep(2 if rabbitmq.is_over() else 0)
        self.strike(kill_worker(self, "worker-1"))
        rabbitmq.thread.join()
        if not rabbitmq.is_over():
            raise RuntimeError("RabbitMQ did not come up again")

    def await_end(self):
        """Until all sign-ups are made and no task is left; when to count, not what."""
        for name in PRODUCERS:
            if self.fleet.processes[name].wait(60) != 0:
                raise RuntimeError(f"{name} failed:\n{self.log_of(name)}")
        self.query("SELECT tenon.pause_schedule('report')")
        deadline = time.monotonic() + DRAIN_LIMIT_S
        while self.query("SELECT count(*) FROM tenon.task")[0][0] > 0:
            if time.monotonic() > deadline:
                self.live.say(f"tasks are left after {DRAIN_LIMIT_S:.0f} s; counting all the same")
                break
            time.sleep(0.1)

    def stop_fleet(self):
        for name in ("worker-2", "worker-3", "cleaner"):
            status = self.fleet.stop(name, 30)
            if status != 0:
                raise RuntimeError(f"{name} did not end well ({status}):\n{self.log_of(name)}")

    def run(self):
        self.prepare()
        self.make_schema()
        started = time.monotonic()
        self.start_fleet()
        self.make_trouble()
        self.await_end()
        self.stop_fleet()
        self.read()
        self.live.end()
        users = [row[0] for row in self.query("SELECT email FROM app.users")]
        verdict = Verdict(self, users, *read_maildir(os.path.join(RUN, "maildir")), os.path.join(RUN, "notes"))
        print(verdict.text())
        print(f"{time.monotonic() - started:.0f} s after the build and the start of the servers")
        return verdict

    def wipe(self, keep, failed):
        self.live.end()
        self.fleet.wipe()
        if failed and not keep:
            shutil.rmtree(FAILED, ignore_errors=True)
            shutil.copytree(RUN, FAILED)
            for log in glob.glob(os.path.join(ROOT, ".services", "demo", "*.log")):
                shutil.copy(log, FAILED)
            print(f"demo: the journal and all logs are in {FAILED}")
        if keep:
            print(f"kept: Maildir, journal and logs in {RUN}\n"
                  f"kept: the servers; eval \"$(script/services --dir .services/demo env)\"\n"
                  f"      script/services --dir .services/demo wipe; rm -r .services/demo-run")
        else:
            shutil.rmtree(RUN, ignore_errors=True)
            self.servers.wipe()


def on_signal(number, _frame):
    sys.exit(128 + number)


def main():
    signal.signal(signal.SIGINT, on_signal)
    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGHUP, on_signal)
    shutil.rmtree(RUN, ignore_errors=True)
    os.makedirs(RUN)
    demo, keep, failed = Demo(), "--keep" in sys.argv[1:], False
    demo.servers.wipe()
    try:
        verdict = demo.run()
        failed = bool(verdict.broken)
        if failed:
            sys.exit("demo: BROKEN: " + "; ".join(verdict.broken))
        print("demo: all promises held")
    except (RuntimeError, subprocess.SubprocessError, psycopg2.Error) as error:
        failed = True
        demo.live.end()
        sys.exit(f"demo: {error}")
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        demo.wipe(keep, failed)


main()
