"""A terminal in which a command stays until Ctrl-C, as a reader of the documentation keeps one open: for snippets.py and tutorial.py."""
import os
import signal
import subprocess
import threading


class Terminal:
    def __init__(self, text, env, fail, limit_s):
        """`fail(text, why)` ends the program; `limit_s` is how long the command may take to be ready, and to end."""
        self.text, self.fail, self.limit_s = text, fail, limit_s
        self.output, self.is_closed, self.changed = b"", False, threading.Condition()
        self.process = subprocess.Popen(["bash", "-ec", text], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, process_group=0)  # fmt: skip
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        while part := self.process.stdout.read1(65536):
            with self.changed:
                self.output += part
                self.changed.notify_all()
        with self.changed:
            self.is_closed = True
            self.changed.notify_all()

    def said(self):
        return self.output.decode(errors="replace")

    def await_all(self, words):
        """Until it has printed each of these."""
        def has_all():
            return all(word in self.said() for word in words)

        with self.changed:
            self.changed.wait_for(lambda: self.is_closed or has_all(), self.limit_s)
        if self.is_closed:
            self.process.wait(self.limit_s)
            self.must_stay()
        elif not has_all():
            self.fail(self.text, f"no {words} within {self.limit_s} s: {self.said()}")

    def must_stay(self):
        if self.process.poll() is not None:
            self.fail(self.text, f"it did not stay, exit code {self.process.returncode}: {self.said()}")

    def end(self):
        """A program of tenon ends well; of others it is enough that they end."""
        self.must_stay()
        os.killpg(self.process.pid, signal.SIGINT)
        try:
            code = self.process.wait(self.limit_s)
            self.reader.join(self.limit_s)
        except subprocess.TimeoutExpired:
            self.fail(self.text, f"it did not end within {self.limit_s} s: {self.said()}")
        if code != 0 and "tenon " in self.text:
            self.fail(self.text, f"exit code {code}: {self.said()}")

    def kill(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
