"""Follows a page of docs/tutorials/ as a reader would, from an empty folder: for tutorials_test.

Usage: tutorial.py REPOSITORY PROGRAMS NAME, in an empty folder, with DATABASE_URL and AMQP_URL in the environment.
Exit code 77, and a line that says why, where the language is not there.

A block of the page is

  sh      commands for the reader's first terminal, or after <!-- stays until: TEXT --> for a new terminal, whose last
          command stays, and has printed TEXT before the page continues
  text    what the commands before it print. A number stands for any number, and ... for any text. If the last one only
          looks, it is repeated until it prints that
  other   a file: <!-- file: NAME --> writes it, <!-- append: NAME --> adds to it,
          and <!-- insert: NAME before TEXT -->, or after, adds to it there, beside the line with that text
  any     after <!-- not run: WHY --> nothing

~/tenon in the page is the clone. The ports of the page become free ones.
"""

import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

from terminal import Terminal

REPOSITORY, PROGRAMS, NAME = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
HERE = Path.cwd()
BESIDE = HERE.parent  # what a reader does not see
PAGE = REPOSITORY / f"docs/tutorials/{NAME}.md"
LIMIT_S = 240  # pip and npm on a busy machine
SKIPPED = 77
BLOCK = re.compile(r"(?:^<!-- ([^>]+) -->\n)?^```(\w*)\n(.*?)^```$", re.M | re.S)
MARK = re.compile(r"(file|append|insert|stays until|not run): (.+)")
LOOKS = re.compile(r"tenon (list|show|why|status|logs)\b")
PORT = re.compile(r"\b(?:3000|8000|8080)\b")


def fail(block, why):
    sys.exit(f"docs/tutorials/{NAME}.md: {why}: in\n{block}")


def skip(why):
    print(why)
    sys.exit(SKIPPED)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def asked(*words):
    """What a command prints; None if it fails."""
    ran = subprocess.run(words, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return ran.stdout.strip() if ran.returncode == 0 else None


def can(command):
    return subprocess.run(["sh", "-c", command], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


# --- what a language needs --------------------------------------------------------------------------


def program(name, text):
    """A program that this reader has in PATH."""
    path = BESIDE / "bin"
    path.mkdir(exist_ok=True)
    (path / name).write_text(f"#!/bin/sh\n{text}\n")
    (path / name).chmod(0o755)
    return path


def python(*newest):
    """python3 is the one that script/python-env takes; its virtual environments are those of the page."""
    env = asked(REPOSITORY / "script/python-env", *newest)
    if env is None:
        skip("there is no Python that is new enough: script/python-env says more")
    path = program("python3", f'exec {Path(env, "bin/python").resolve()} "$@"')
    return {"PATH": path, "PYTHONPATH": "", "PYTHONUNBUFFERED": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


def node():
    return {f"npm_config_{name}": "false" for name in ("audit", "fund", "update_notifier")}


def go():
    """What is there, or what script/go-env fetches; and its caches."""
    env = asked(REPOSITORY / "script/go-env", "sh", "-c", "dirname $(command -v go); echo $GOPATH; echo $GOCACHE")
    if env is None:
        skip("Go is not there, and script/go-env cannot fetch it")
    path, packages, cache = env.splitlines()
    return {"PATH": Path(path), "GOPATH": packages, "GOCACHE": cache, "GOFLAGS": "-modcacherw"}


def rails():
    """Debian's Rails has no registry to fetch gems from: what is installed is used."""
    if not can("command -v rails && ruby -e '%w(railties puma pg byebug listen).each { |name| gem name }'"):
        skip("Rails is not there: script/bootstrap --with-languages=rails")
    home = BESIDE / "home"
    home.mkdir(exist_ok=True)
    (home / ".railsrc").write_text("--skip-bundle --skip-bootsnap --skip-spring\n")
    return {"HOME": str(home)}


NEEDS = {"fastapi": python, "django": lambda: python("newest"), "express": node, "go": go, "rails": rails}


# --- the page -----------------------------------------------------------------------------------------


class Block:
    def __init__(self, mark, language, text):
        self.language, self.text = language, text
        self.what, self.of = None, None
        if mark:
            found = MARK.fullmatch(mark)
            if not found:
                fail(text, f"nobody knows what <!-- {mark} --> means")
            self.what, self.of = found.groups()
        elif language not in ("sh", "text"):
            fail(text, "a block that is not sh or text is a file: <!-- file: NAME -->; or <!-- not run: WHY -->")


def blocks_of(page, port):
    clone = BESIDE / "clone"  # a path without a blank
    clone.symlink_to(REPOSITORY)
    text = PORT.sub(str(port), page.replace("~/tenon", str(clone)))
    found = [Block(*groups) for groups in BLOCK.findall(text)]
    if text.count("\n```") != 2 * len(found):
        sys.exit(f"{PAGE}: a block that is not closed, or indented")
    return found


def pattern_of(text):
    """What a `text` block allows."""
    lines = []
    for line in text.strip().splitlines():
        words = []
        for word in line.split():
            parts = re.split(r"(\.\.\.|\d+)", word)
            words.append("".join(".*" if p == "..." else r"\d+" if p.isdigit() else re.escape(p) for p in parts))
        lines.append(r"[ \t]+".join(words))
    return re.compile(r"\s*" + r"\s*\n\s*".join(lines) + r"\s*", re.S)


# --- the reader ---------------------------------------------------------------------------------------


class Reader:
    def __init__(self, needs):
        self.first = {k: v for k, v in os.environ.items() if not k.startswith(("TENON_", "TEST_", "PG"))}
        self.first |= {"LC_ALL": "C.UTF-8", "NO_COLOR": "1", **{k: str(v) for k, v in needs.items() if k != "PATH"}}
        self.first["PATH"] = os.pathsep.join(str(p) for p in [*([needs["PATH"]] if "PATH" in needs else []), PROGRAMS, os.environ["PATH"]])
        self.env, self.folder = self.first, HERE
        self.staying, self.command, self.before, self.output = [], "", "", ""

    def do(self, block):
        if block.what == "not run":
            return
        if block.what in ("file", "append"):
            self.write(block)
        elif block.what == "insert":
            self.insert(block)
        elif block.what == "stays until":
            self.stay(block)
        elif block.language == "text":
            self.compare(block)
        else:
            self.shell(block.text)

    def write(self, block):
        path = self.folder / block.of
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a" if block.what == "append" else "w") as file:
            file.write(block.text)

    def insert(self, block):
        name, place, beside = block.of.split(" ", 2)
        lines = (self.folder / name).read_text().splitlines(keepends=True)
        found = [i for i, line in enumerate(lines) if beside in line]
        if len(found) != 1:
            fail(block.text, f"{len(found)} lines of {name} have {beside}")
        lines.insert(found[0] + (place == "after"), block.text)
        (self.folder / name).write_text("".join(lines))

    def shell(self, text):
        """What it sets, and where it goes, is there for the next block."""
        lines = text.replace("\\\n", "").strip().splitlines()
        state = BESIDE / "environment"
        self.before, self.output = "", ""
        for line in lines:
            self.command, self.before = line, self.before + self.output
            self.output = self.run(f"{line}\n{{ env -0; pwd; }} > {state}").rstrip("\n") + "\n"
            *pairs, folder = state.read_text().split("\0")
            self.env = dict(pair.split("=", 1) for pair in pairs)
            self.folder = Path(folder.strip())

    def run(self, text):
        more = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        try:
            ran = subprocess.run(["bash", "-o", "pipefail", "-ec", text], env=self.env, cwd=self.folder, text=True, timeout=LIMIT_S, **more)
        except subprocess.TimeoutExpired as late:
            fail(text, f"not within {LIMIT_S} s: {late.output}")
        if ran.returncode != 0:
            fail(text, f"exit code {ran.returncode}: {ran.stdout}{self.others()}")
        return ran.stdout

    def compare(self, block):
        wanted = pattern_of(block.text)

        deadline = time.monotonic() + LIMIT_S
        while not wanted.fullmatch(self.before + self.output):
            for command in self.staying:
                command.must_stay()
            if not LOOKS.match(self.command) or time.monotonic() > deadline:
                fail(block.text, f"it was:\n{self.before}{self.output}{self.others()}")
            time.sleep(0.05)
            self.output = self.run(self.command)

    def stay(self, block):
        command = Terminal(block.text, self.first, fail, LIMIT_S)
        self.staying.append(command)
        command.await_all([block.of])

    def others(self):
        """What the other terminals show."""
        return "".join(f"\n--- {c.text}\n{c.said()[-2000:]}" for c in self.staying)


def main():
    needs = NEEDS[NAME]()
    blocks = blocks_of(PAGE.read_text(), free_port())
    reader = Reader(needs)
    begin = time.monotonic()
    try:
        for block in blocks:
            reader.do(block)
        for command in reversed(reader.staying):
            command.end()
    finally:
        for command in reader.staying:
            command.kill()
    left = [b for b in blocks if b.what == "not run"]
    print(f"ran: docs/tutorials/{NAME}.md: {len(blocks) - len(left)} blocks in {time.monotonic() - begin:.0f} s; not run: {len(left)}")
    for block in left:
        print(f"not run: the block with {block.text.splitlines()[0]}: {block.of}")


main()
