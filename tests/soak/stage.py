"""What script/soak and script/attack run on: servers of their own, copies of the programs, and a fleet."""
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time

import psycopg2

from fleet import Fleet

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
SOAK = os.path.join(ROOT, "tests", "soak")
BUILD = os.path.join(ROOT, "build", "release")
PROGRAMS = ("tenon", "libtenon.so.1", "tests/soak_producer", "tests/soak_handler")
ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stage:
    def __init__(self, name, seed=None):
        """`name` is that of the script; what went wrong is in `broken`, and then the logs are kept."""
        self.name, self.seed, self.broken = name, seed, []
        self.dir = os.path.join(ROOT, ".services", f"{name}-{os.getpid()}")
        self.services_dir, self.bin = self.dir + "-servers", os.path.join(self.dir, "bin")
        self.kept = os.path.join(ROOT, "build", "log", name if seed is None else f"{name}-{seed}")
        self.begun, self.env = time.time(), {}
        self.fleet = Fleet(self.dir, self.env)
        os.makedirs(self.bin)

    def say(self, text):
        print(f"{time.strftime('%H:%M:%S')} {time.time() - self.begun:6.1f} s  {text}", flush=True)

    # --- servers ---

    def try_services(self, *args):
        """Its exit status, and what it said."""
        done = subprocess.run([ROOT + "/script/services", "--dir", self.services_dir, *args],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              stdin=subprocess.DEVNULL, text=True, check=False)
        return done.returncode, done.stdout

    def services(self, *args):
        status, said = self.try_services(*args)
        if status != 0:
            raise RuntimeError(f"script/services {' '.join(args)} failed:\n{said}")
        return said

    def rabbitmqctl(self, *args):
        return self.try_services("rabbitmqctl", *args)

    def query(self, sql, args=None):
        conn = psycopg2.connect(self.env["DATABASE_URL"], connect_timeout=5, application_name=self.name)
        try:
            with conn, conn.cursor() as cursor:
                cursor.execute(sql, args)
                return cursor.fetchall() if cursor.description else None
        finally:
            conn.close()

    # --- programs ---

    def log_tail(self, name):
        with open(os.path.join(self.dir, name + ".log"), "rb") as file:
            file.seek(max(0, os.path.getsize(file.name) - 8000))
            return file.read().decode(errors="replace")

    def serve(self):
        """Build, copy the programs, so that a build that goes on meanwhile changes nothing, and start the servers."""
        seed = "" if self.seed is None else f"seed {self.seed}: "
        self.say(f"{seed}building, and starting a PostgreSQL and a RabbitMQ of its own")
        subprocess.run([ROOT + "/script/build", "release", "tenon", "soak_producer", "soak_handler"],
                       check=True, stdin=subprocess.DEVNULL)
        for path in PROGRAMS:
            shutil.copy(os.path.join(BUILD, path), self.bin)
        self.services("start")
        lines = shlex.split(self.services("env").replace("export ", ""))
        self.env.update(line.split("=", 1) for line in lines)
        self.env["LD_LIBRARY_PATH"] = self.bin
        self.env["SOAK_JOURNAL"] = os.path.join(self.dir, "journal")

    def tenon(self, *words):
        """Run the program to its end; what it said."""
        done = subprocess.run([self.bin + "/tenon", *words], env={**os.environ, **self.env}, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"tenon {' '.join(words)} failed:\n{done.stdout}")
        return done.stdout

    # --- the end ---

    def wipe(self):
        self.fleet.wipe()
        if self.broken:
            shutil.rmtree(self.kept, ignore_errors=True)
            shutil.copytree(self.dir, self.kept, ignore=shutil.ignore_patterns("bin"))
            for name in ("postgres.log", "rabbitmq.log"):
                if os.path.exists(os.path.join(self.services_dir, name)):
                    shutil.copy(os.path.join(self.services_dir, name), self.kept)
            print(f"{self.name}: the journal and all logs are in {self.kept}")
        self.try_services("wipe")
        shutil.rmtree(self.dir, ignore_errors=True)

    def play(self, course):
        """Run it, leave nothing behind, and end the program with 1 if anything broke."""
        for number in ENDS:
            signal.signal(number, lambda n, _frame: sys.exit(128 + n))
        try:
            course()
        except (RuntimeError, subprocess.SubprocessError, psycopg2.Error) as error:
            self.broken.append(str(error))
        finally:
            for number in ENDS:
                signal.signal(number, signal.SIG_IGN)
            self.wipe()
        if self.broken:
            seed = "" if self.seed is None else f" with seed {self.seed}"
            sys.exit(f"{self.name}: BROKEN{seed}: " + "; ".join(self.broken))
