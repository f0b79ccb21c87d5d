"""A terminal in which a command stays until Ctrl-C, as a reader of the documentation keeps one open: for snippets.py and tutorial.py."""
import os
import signal
import subprocess


class Terminal:
    def __init__(self, text, env, log, fail, limit_s):
        """`fail(text, why)` ends the program; `limit_s` is how long the command may take to end."""
        self.text, self.log, self.fail, self.limit_s = text, log, fail, limit_s
        with log.open("w") as out:
            self.process = subprocess.Popen(["bash", "-ec", text], env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out, process_group=0)

    def said(self):
        return self.log.read_text(errors="replace")

    def must_stay(self):
        if self.process.poll() is not None:
            self.fail(self.text, f"it did not stay, exit code {self.process.returncode}: {self.said()}")

    def end(self):
        """A program of tenon ends well; of others it is enough that they end."""
        self.must_stay()
        os.killpg(self.process.pid, signal.SIGINT)
        try:
            code = self.process.wait(self.limit_s)
        except subprocess.TimeoutExpired:
            self.fail(self.text, f"it did not end within {self.limit_s} s: {self.said()}")
        if code != 0 and "tenon " in self.text:
            self.fail(self.text, f"exit code {code}: {self.said()}")

    def kill(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
