"""One attacker of script/attack: attacker.py ROLE SEED HINT LOG ACTS, where HINT is a file with an id near the newest,
and ACTS are the names of those it may do, with commas, or empty.

Acts chosen by the seed, paced by what they cost, until SIGTERM; then LOG has how often each was done and refused, and
a line for each that succeeded though it must not.
"""
import collections
import random
import signal
import sys
import time

# What bounds an attacker, so that it does not win by the processor alone. Each is one process that does one thing
# after another.
ACTS_PER_S = 50        # statements, or what costs as much: a connect costs 5
ROWS_PER_S = 1000      # tasks
BYTES_PER_S = 2000000  # of payloads, results, messages
MESSAGES_PER_S = 1000  # to RabbitMQ, and NOTIFY
SESSIONS = 20          # held open beside the one that works; and as many channels
LOCKS = 1000           # advisory ones at once
HELD_S = (5, 90)       # how long a session is held


class Attacker:
    def __init__(self, seed, hint, log):
        self.random, self.hint, self.log = random.Random(seed), hint, log
        self.counts, self.findings = collections.Counter(), collections.Counter()
        self.held, self.stop = [], False  # (until, what has close())
        self.acts = {}  # method: weight

    # --- chance ---

    def chance(self, percent):
        return self.random.randrange(100) < percent

    def pick(self, *choices):
        return self.random.choice(choices)

    def near_id(self):
        """The id of a task of somebody, most likely one that is unfinished."""
        with open(self.hint, encoding="ascii") as file:
            newest = int(file.read() or 1)
        return max(1, newest + self.random.randrange(-50, 100))

    def text(self, most):
        return "".join(chr(self.random.choice((self.random.randrange(32, 127), self.random.randrange(1, 0xd7ff))))
                       for _ in range(self.random.randrange(most)))

    # --- what is held for a while ---

    def hold(self, thing):
        self.held.append((time.monotonic() + self.random.uniform(*HELD_S), thing))

    def let_go(self, everything=False):
        now, kept = time.monotonic(), []
        while len(self.held) > SESSIONS:
            self.close(self.held.pop(0)[1])
        for until, thing in self.held:
            if everything or until < now:
                self.close(thing)
            else:
                kept.append((until, thing))
        self.held = kept

    def close(self, thing):
        try:
            thing.close()
        except self.errors:
            pass

    # --- the course ---

    errors = (OSError,)

    def reason(self, error):
        return type(error).__name__

    def act(self):
        """Returns the cost, in statements."""
        act = self.random.choices(list(self.acts), weights=self.acts.values())[0]
        try:
            cost = act() or 1
            self.counts[act.__name__, "done"] += 1
            return cost
        except self.errors as error:
            self.counts[act.__name__, self.reason(error)] += 1
            self.recover()
            return 1

    def recover(self):
        """After an error."""

    def run(self):
        due = time.monotonic()
        while not self.stop:
            due = max(due, time.monotonic() - 1) + self.act() / ACTS_PER_S
            self.let_go()
            self.stop = signal.sigtimedwait({signal.SIGTERM}, max(0, due - time.monotonic())) is not None
        self.let_go(everything=True)
        with open(self.log, "w", encoding="utf-8") as file:
            for (act, outcome), n in sorted(self.counts.items(), key=str):
                file.write(f"act {act} {outcome} {n}\n")
            for finding, n in self.findings.items():
                file.write(f"finding {n} times: {finding}\n")


def main():
    from broker import Broker  # they import this file
    from producer import Producer
    from stranger import Stranger
    role, seed, hint, log, acts = sys.argv[1:]
    attacker = {"connect": Stranger, "producer": Producer, "broker": Broker}[role](int(seed), hint, log)
    if acts:
        attacker.acts = {act: n for act, n in attacker.acts.items() if act.__name__ in acts.split(",")}
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # run() waits for it
    attacker.run()


if __name__ == "__main__":
    main()
