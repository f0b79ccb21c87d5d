"""What the demo says while it runs: lines, and on a terminal one more at the bottom that refreshes."""
import sys
import threading
import time

REFRESH_S, PLAIN_S = 0.2, 2.0


class Live:
    def __init__(self, state):
        """`state` returns the progress as text, or None when there is none yet."""
        self.state, self.tty = state, sys.stdout.isatty()
        self.start_s = time.monotonic()
        self.lock, self.over = threading.Lock(), threading.Event()
        self.thread = threading.Thread(target=self.refresh, daemon=True)
        self.thread.start()

    def stamp(self):
        return f"{time.monotonic() - self.start_s:5.1f} s  "

    def say(self, text):
        with self.lock:
            print(("\r\x1b[K" if self.tty else "") + self.stamp() + text, flush=True)

    def refresh(self):
        while not self.over.wait(REFRESH_S if self.tty else PLAIN_S):
            text = self.state()
            if text:
                with self.lock:
                    print(("\r\x1b[K" if self.tty else "") + self.stamp() + text,
                          end="" if self.tty else "\n", flush=True)

    def end(self):
        self.over.set()
        self.thread.join()
        if self.tty:
            print("\r\x1b[K", end="", flush=True)
