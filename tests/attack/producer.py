"""Who may enqueue: --grant-producer, and nothing else."""
import json

from attacker import ACTS_PER_S, BYTES_PER_S, ROWS_PER_S
from stranger import Stranger

BAD = (  # each must be refused
    "kind => 'a b'", "kind => ''", "kind => repeat('k', 101)", "kind => NULL", "kind => 'work', queue => 'UPPER'",
    "kind => 'work', priority => 10", "kind => 'work', priority => -1", "kind => 'work', max_attempts => 0",
    "kind => 'work', delay => '-1 s'", "kind => 'work', delay => '11 years'", "kind => 'work', run_at => 'infinity'",
    "kind => 'work', delay => '-1 year 361 days'", "kind => 'work', run_at => now(), delay => '1 s'",
    "kind => 'work', timeout => '0'", "kind => 'work', timeout => '31 days'",
    "kind => 'work', unique_key => 'k', debounce => '5 s', debounce_max => '300000 years'",
    "kind => 'work', unique_key => 'k', debounce => '5 s', debounce_max => '-1 year 361 days'",
    "kind => 'work', unique_key => 'k', unique_for => '-1 year 361 days'",
    "kind => 'work', timeout => '-1 year 361 days'", "kind => 'work', trace => 'x'", "kind => 'work', unique_key => ''",
    "kind => 'work', payload => '{'", "kind => 'work', payload => NULL::jsonb",
    "kind => 'work', payload => to_jsonb(repeat('x', 1100000))",
)
ODD_PAYLOADS = ("null", "[]", "1e-16383", "[" * 1500 + "]" * 1500, "9" * 5000, '{"ms": 1e400}', '{"ms": -1}', '"\\ud83d\\ude00"',
                '{"ms": {}}', '{"id": 1, "id": 2}', '"' + "\\n" * 1000 + '"')


class Producer(Stranger):
    def __init__(self, seed, hint, log):
        super().__init__(seed, hint, log)
        self.own = [0]
        self.acts.update({
            self.enqueue_odd: 40, self.enqueue_stray: 40, self.enqueue_work: 10, self.many: 5, self.bad: 10,
            self.huge: 3, self.short: 3, self.keys: 5, self.again: 5, self.open: 3, self.rolled_back: 5, self.cancel: 20,
            self.finish: 20, self.huge_result: 2, self.route: 5})

    def enqueue(self, kind, payload="{}", conn=None, **args):
        names = "".join(f", {name} => %s" for name in args)
        rows = self.sql(f"SELECT tenon.enqueue(%s, %s{names})", kind, payload, *args.values(), conn=conn)
        self.own = self.own[-100:] + [rows[0][0]]
        return ACTS_PER_S / ROWS_PER_S + 1

    # --- tasks ---

    def odd_queue(self):
        return self.pick("default", "x" * 63, "other", f"q{self.random.randrange(100000)}", "0.-_")

    def enqueue_odd(self):
        """Nobody serves it."""
        return self.enqueue(self.pick("odd", "A.b:c-d_", "k" * 100, f"k{self.random.randrange(1000)}"),
                            self.random.choice(ODD_PAYLOADS), queue=self.odd_queue(),
                            priority=self.random.randrange(10), announced=self.pick(None, True, False),
                            notify=self.pick(None, True, False),
                            run_at=self.pick(None, "-infinity", "4713-01-01 BC", "now", "2035-01-01"))

    def enqueue_stray(self):
        """A kind that the same workers serve."""
        payload = json.dumps({"ms": self.random.randrange(5), **({"fail": True} if self.chance(5) else {})})
        return self.enqueue("stray", payload if self.chance(80) else self.random.choice(ODD_PAYLOADS),
                            priority=self.random.randrange(10), max_attempts=self.random.randrange(1, 4),
                            delay=self.pick(None, None, "0", "1 ms", "3 s", "10 years"))

    def enqueue_work(self):
        """The kind of the others."""
        return self.enqueue("work", '{"ms": 1}', priority=9)

    def many(self):
        n = self.random.randrange(1, 500)
        self.sql("SELECT tenon.enqueue_many(%s, array_fill('{}'::jsonb, ARRAY[%s]), queue => %s, priority => 9)",
                 self.pick("odd", "stray"), n, self.pick("default", "bulk"))
        return n * ACTS_PER_S / ROWS_PER_S

    def short(self):
        """Its child is ended among tasks of others."""
        return self.enqueue(self.pick("stray", "work"), '{"ms": 50}', timeout="1 ms", max_attempts=2)

    def huge(self):
        self.enqueue(self.pick("stray", "odd"), json.dumps({"ms": 1, "x": "x" * 1000000}), priority=9)
        return 1000000 * ACTS_PER_S / BYTES_PER_S

    def bad(self):
        text = "SELECT tenon.enqueue(%s)" % self.random.choice(BAD)
        try:
            self.findings[f"was not refused: {text}: {self.sql(text)}"] += 1
        except self.errors as error:
            self.counts["bad", error.pgcode] += 1

    # --- transactions ---

    def keys(self):
        """Held in an open transaction."""
        conn = self.connect(autocommit=False)
        self.hold(conn)
        for _ in range(20):
            self.enqueue(self.pick("stray", "work"), unique_key=f"key-{self.random.randrange(20)}-{id(conn)}", conn=conn)
        return 25

    def again(self):
        """What joins whatever holds the key, or follows it: tenon.settle() puts them together."""
        for _ in range(3):
            self.enqueue(self.pick("odd", "stray"), self.pick("{}", "1", "[1]", '{"ms": 1}'), unique_key=f"again-{self.random.randrange(5)}",
                         on_conflict=self.pick(None, "keep", "replace", "merge"), debounce=self.pick("1 ms", "-1 month 30 days 2 s", "30 days"),
                         debounce_max=self.pick(None, "30 days", "365 days", "-100 days 2500 hours"), unique_for=self.pick(None, None, "5 s"))
        return 3 * ACTS_PER_S / ROWS_PER_S + 3

    def open(self):
        """Ids below those that others commit meanwhile; then they commit after all, or do not."""
        conn = self.connect(autocommit=False)
        self.hold(conn)
        self.enqueue("stray", '{"ms": 1}', conn=conn)
        return 6

    def rolled_back(self):
        self.sql("BEGIN")
        for _ in range(5):
            self.sql("SAVEPOINT s")
            self.enqueue("work", '{"ms": 1}')
            self.sql("ROLLBACK TO s")
        self.sql("ROLLBACK")
        return 15

    # --- tasks of others ---

    def cancel(self):
        """Mostly of others; of its own also such as run beside those of others."""
        self.sql("SELECT tenon.cancel(%s)", self.near_id() if self.chance(70) else self.random.choice(self.own))

    def guess(self):
        worker = self.pick("00000000-0000-0000-0000-000000000001", "%032x" % self.random.getrandbits(128))
        worker = worker if "-" in worker else "-".join((worker[:8], worker[8:12], worker[12:16], worker[16:20], worker[20:]))
        start = self.sql("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")[0][0]
        return self.pick(f"{self.near_id()}/1/{start - self.random.randrange(100000)}/{worker}",
                         f"{self.near_id()}/1/{start}/' OR true", self.text(200), "")

    def finish(self, result='{"mine": true}'):
        claim = self.guess()
        try:
            self.findings[f"was not refused: finish {claim}: {self.sql('SELECT tenon.finish(%s, %s)', claim, result)}"] += 1
        except self.errors as error:
            self.counts["finish", error.pgcode] += 1
        return 2

    def huge_result(self):
        self.finish(self.pick('"' + "x" * 1000000 + '"', "[" + "1e-16383," * 50 + "1]"))
        return 1000000 * ACTS_PER_S / BYTES_PER_S

    def route(self):
        self.sql("SELECT tenon.route_of(%s, %s)", self.text(50), self.text(50))
