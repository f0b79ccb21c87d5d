"""Runs the blocks of README.md and docs/start.md as a reader would, one after the other: for snippets_test.

Usage: snippets.py REPOSITORY PROGRAMS, in an empty folder, with DATABASE_URL and AMQP_URL in the environment. In that
folder the scripts that make and start things are stand-ins, as a test has done both already. A block is run by its
language, or a comment above it, which nobody sees who reads the page, says why not: <!-- not run: ... -->.

Worker and cleaner stay, each in its terminal, while what follows runs. A worker takes the place of the one before it,
as both have a handler for the same kind. `tenon dev` ends with its block, and the rest where the page says "stop".
"""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from terminal import Terminal

REPOSITORY, PROGRAMS = Path(sys.argv[1]), Path(sys.argv[2])
HERE = Path.cwd()
PAGE = "\n".join((REPOSITORY / name).read_text() for name in ("README.md", "docs/start.md"))
LIMIT_S = 60
PACKAGES_LIMIT_S = 200  # npm, when it runs for the first time
BLOCK = re.compile(r"(?:<!-- not run: ([^>]+) -->\n)?^```(\w*)\n(.*?)^```$", re.M | re.S)
STAYS = re.compile(r"^(\w+=\S+ )*tenon (worker|cleaner|dev)( |$)")
LANGUAGES = {"sh", "sql", "c", "python", "js"}

# Of a block that is a program: its file, and the command that runs it.
FILES = {
    "import psycopg2": ("signup.py", "./signup.py bob@example.org"),
    "require('pg')": ("signup.js", "node signup.js eve@example.org"),
    "def welcome_mail(": ("mailer.py", "tenon worker --stderr --handler 'welcome_mail=pool:exec ./mailer.py'"),
    "function welcomeMail(": ("mailer.js", "tenon worker --stderr --handler 'welcome_mail=pool:exec node mailer.js'"),
}
# Before a block that has the text runs: SQL. The numbers in the page are those of a reader's tasks.
FIRST = {
    "def welcome_mail(": """SELECT tenon.enqueue('welcome_mail', '{"to": "python"}')""",
    "function welcomeMail(": """SELECT tenon.enqueue('welcome_mail', '{"to": "node"}')""",
    "cat >> mails": """SELECT tenon.enqueue('welcome_mail', '{"to": "cat"}')""",
    "--function app.transfer": """CREATE SCHEMA app; CREATE FUNCTION app.transfer(jsonb) RETURNS jsonb RETURN $1;
        GRANT USAGE ON SCHEMA app TO PUBLIC; SELECT tenon.enqueue('transfer', '{"amount": 3}')""",
    "tenon status": """SELECT tenon.enqueue('welcome_mail', delay => '1 h') FROM generate_series(1, 30);
        SELECT tenon.flow('f' || n) FROM generate_series(1, 17) n""",
}


def done(payload, result):
    return f"""SELECT count(*) = 1 FROM tenon.history WHERE outcome = 'done'
        AND payload @> '{payload}' AND coalesce(result, '{{}}') @> '{result}'"""


def signed_up(mail):
    """The user is there, and the worker of "Run it" has sent the mail."""
    return done(f'{{"to": "{mail}"}}', "{}") + f" AND EXISTS (SELECT FROM public.users WHERE mail = '{mail}')"


# After a block, or while its commands stay, this becomes true.
THEN = {
    "cat >> sent.txt": done('{"to": "you@example.org"}', "{}"),
    "BEGIN;\nINSERT": signed_up("ann@example.org"),
    "import psycopg2": signed_up("bob@example.org"),
    "require('pg')": signed_up("eve@example.org"),
    "tenon_enqueue(t, conn": signed_up("fay@example.org"),
    "def welcome_mail(": done('{"to": "python"}', '{"sent": true}'),
    "function welcomeMail(": done('{"to": "node"}', '{"sent": true}'),
    "cat >> mails": done('{"to": "cat"}', "{}"),
    "--function app.transfer": done('{"amount": 3}', '{"amount": 3}'),
    'SELECT tenon.flow(\'{"name": "nightly"': "SELECT count(*) = 3 FROM tenon.task WHERE flow IS NOT NULL",
    "DROP SCHEMA": "SELECT to_regnamespace('tenon') IS NULL",
}
# And so these files have exactly this.
WRITTEN = {"cat >> sent.txt": ("sent.txt", '{"to": "you@example.org"}'), "cat >> mails": ("mails", '{"to": "cat"}')}
STOP = "DROP SCHEMA"  # before it the page says to stop all
READY = {"worker": ["event=worker_ready"], "cleaner": ["event=cleaner_started"],
         "dev": ["event=worker_ready", "event=cleaner_started"]}  # fmt: skip
ENDS_WITH = {"tenon doctor": (0, 1)}  # it may find something: this machine is busy
STAND_INS = {
    "script/bootstrap": "",
    "script/build": "",
    "script/services": """case $1 in env) echo "export DATABASE_URL='$OURS' AMQP_URL='$OUR_AMQP'";; esac""",
    "bin/sudo": 'exec "$@"',
}
C = """#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <tenon/tenon.h>
int main(void)
{{
PGconn *conn = PQconnectdb(getenv("DATABASE_URL"));
{}
tenon_free(t);
PQfinish(conn);
}}
"""


def fail(block, why):
    sys.exit(f"{why}: in\n{block}")


def marked(table, text):
    """Of a table what is for this block."""
    return [value for mark, value in table.items() if mark in text]


class Staying(Terminal):
    """A command that stays."""

    def __init__(self, line, env):
        super().__init__(line, env, fail, LIMIT_S)
        self.word = STAYS.match(line)[2]


class Reader:
    """A shell that goes from block to block."""

    def __init__(self):
        self.staying, self.stayed = [], 0
        path = f"{HERE}/bin:{os.environ['PATH']}"
        self.env = {**os.environ, "OURS": os.environ["DATABASE_URL"], "OUR_AMQP": os.environ["AMQP_URL"], "PATH": path}
        for name, text in STAND_INS.items():
            (HERE / name).parent.mkdir(exist_ok=True)
            (HERE / name).write_text(f"#!/bin/bash\n{text}\n")
            (HERE / name).chmod(0o755)
        built = HERE / "build/release"
        built.mkdir(parents=True)
        for name in ("tenon", "tenon-http", "tenon-sql"):
            (built / name).symlink_to(PROGRAMS / name)
        (built / "install_manifest.txt").write_text(f"{HERE}/installed\n")
        (HERE / "installed").touch()
        shutil.copytree(REPOSITORY / "examples", HERE / "examples")

    def run(self, *words, code=(0,), limit_s=LIMIT_S):
        more = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        try:
            ran = subprocess.run(words, env=self.env, text=True, timeout=limit_s, **more)
        except subprocess.TimeoutExpired as late:
            fail(words[-1], f"not within {limit_s} s: {late.output}")
        if ran.returncode not in code:
            fail(words[-1], f"exit code {ran.returncode}: {ran.stdout}")
        return ran.stdout

    def sql(self, text):
        return self.run("psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-d", self.env["OURS"], "-c", text).strip()

    def shell(self, text):
        """What it sets is there for the next one."""
        code = ENDS_WITH.get(text.split("  #")[0].strip(), (0,))
        self.run("bash", "-o", "pipefail", "-ec", f"{text}\nenv -0 > {HERE}/environment", code=code)
        pairs = (HERE / "environment").read_text().rstrip("\0").split("\0")
        self.env = dict(pair.split("=", 1) for pair in pairs)

    def stay(self, line):
        """Until it is ready; then it goes on while others run."""
        self.stayed += 1
        command = Staying(line, self.env)
        self.staying.append(command)
        command.await_all(READY[command.word])

    def end(self, *words):
        for command in [c for c in self.staying if c.word in words]:
            command.end()
            self.staying.remove(command)

    def until(self, true, block):
        deadline = time.monotonic() + LIMIT_S
        while not true():
            for command in self.staying:
                command.must_stay()
            if time.monotonic() > deadline:
                fail(block, f"not within {LIMIT_S} s: {[c.said()[-1000:] for c in self.staying]}")
            time.sleep(0.02)

    def save(self, name, text, command):
        """A block as the file that the page or the reader names. Returns the command that runs it."""
        (HERE / name).write_text(text)
        (HERE / name).chmod(0o755)
        if STAYS.match(command) and f"`{command}`" not in PAGE:
            fail(text, f"the page does not say `{command}`")
        if "require('pg')" in text:
            modules = self.run(REPOSITORY / "script/node-env", limit_s=PACKAGES_LIMIT_S).split()[-1]
            (HERE / "node_modules").symlink_to(f"{modules}/node_modules")
        return command

    def compile(self, text):
        sanitized = b"__asan_init" in (PROGRAMS / "libtenon.so").read_bytes()
        (HERE / "snippet.c").write_text(C.format(text))
        flags = self.run("pkg-config", "--cflags", "--libs", "libpq").split()
        flags += ["-fsanitize=address,undefined"] if sanitized else []
        self.run("cc", "-std=c17", "-Wall", "-Wextra", "-Werror", "snippet.c", "-o", "snippet", f"-I{REPOSITORY}/include",
                 f"-L{PROGRAMS}", "-ltenon", f"-Wl,-rpath,{PROGRAMS}", *flags)  # fmt: skip
        self.run(HERE / "snippet")


def lines_of(reader, language, text):
    """The commands of a block."""
    if language == "sh":
        return [line for line in text.splitlines() if line and not line.startswith("#")]
    return [reader.save(name, text, command) for name, command in marked(FILES, text)]


def do(reader, language, text):
    lines = lines_of(reader, language, text)
    if STOP in text:
        reader.end("worker", "cleaner")
    if any(STAYS.match(line) and STAYS.match(line)[2] == "worker" for line in lines):
        reader.end("worker")
    for sql in marked(FIRST, text):
        reader.sql(sql)
    if language == "sql":
        reader.sql(text)
    elif language == "c":
        reader.compile(text)
    elif not lines:
        fail(text, "nothing in FILES says how to run it")
    for line in lines:
        (reader.stay if STAYS.match(line) else reader.shell)(line)


def judge(reader, text):
    for condition in marked(THEN, text):
        reader.until(lambda sql=condition: reader.sql(sql) == "t", f"{text}\n{condition}")
    for name, content in marked(WRITTEN, text):
        if (HERE / name).read_text() != content:
            fail(text, f"{name} has {(HERE / name).read_text()!r}, not {content!r}")
    reader.end("dev")


def check(blocks):
    if PAGE.count("\n```") != 2 * len(blocks):
        sys.exit("a block that is not closed, or indented")
    for why, language, text in blocks:
        if not why and language not in LANGUAGES:
            fail(text, "a block without a language; one that is not to run says why: <!-- not run: ... -->")
    for mark in {**FILES, **FIRST, **THEN, **WRITTEN, STOP: 0}:
        if not any(mark in text for why, _, text in blocks if not why):
            sys.exit(f"no block that is run has {mark}")


def main():
    blocks = BLOCK.findall(PAGE)
    check(blocks)
    reader = Reader()
    ran = dict.fromkeys(sorted(LANGUAGES), 0)
    try:
        for why, language, text in blocks:
            if not why:
                do(reader, language, text)
                judge(reader, text)
                ran[language] += 1
        reader.end(*READY)
    finally:
        for command in reader.staying:
            command.kill()
    parts = ", ".join(f"{n} {language}" for language, n in ran.items())
    n = sum(ran.values())
    print(f"ran: {n} blocks ({parts}), {reader.stayed} commands that stay; not run: {len(blocks) - n}")
    for why, _, text in blocks:
        if why:
            print(f"not run: the block with {text.splitlines()[0].split('  ')[0]}: {why}")


main()
