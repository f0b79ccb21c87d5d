<?php
declare(strict_types=1);

namespace Tenon;

/** The task that runs: what the worker said of it, and what the handler may say to the worker. */
final class Task
{
    private const NAME_BYTES_MAX = 100;
    private const STEP_BYTES_MAX = 1_048_576;
    private const PROGRESS_BYTES_MAX = 65_536;
    private const LOG_BYTES_MAX = 8_192; // the worker keeps 4,096
    private const DELAY_MS_MAX = 2_592_000_000;
    private const WAIT_MS_MAX = 31_536_000_000;
    private const WAIT_FOR_MS_MIN = 1_000;
    private const WAIT_FOR_MS_MAX = 60_000;
    private const ENDS = [null, 'done', 'dead', 'cancelled', 'expired'];

    private static ?self $current = null;

    public readonly int $id;
    public readonly string $kind;
    public readonly string $queue;
    public readonly int $attempt;
    public readonly int $failures;
    public readonly int $maxAttempts;
    /** The claim token, for SQL of your own: tenon.finish, tenon.progress, tenon.extend. */
    public readonly string $claim;
    public readonly ?string $trace;
    /** As JSON has it: objects are stdClass. */
    public readonly mixed $payload;
    /** The progress that was recorded last, by this or an earlier attempt. */
    private mixed $progress;
    /** @var array<string, mixed> what is recorded: steps by their names, and the signals that came */
    private array $steps;
    private float $deadline;
    private ?string $stopped = null;
    /** @var array<string, bool> the worker's answers to steps */
    private array $answers = [];
    /** @internal What ended the attempt, also if the handler has caught it. */
    public ?Suspended $suspended = null;

    /** @internal */
    public function __construct(\stdClass $line, private readonly \Closure $says, private readonly \Closure $listens)
    {
        $this->id = $line->id;
        $this->kind = $line->kind;
        $this->queue = $line->queue ?? 'default';
        $this->attempt = $line->attempt ?? 1;
        $this->failures = $line->failures ?? 0;
        $this->maxAttempts = $line->max_attempts ?? 25;
        $this->claim = $line->claim ?? '';
        $this->trace = $line->trace ?? null;
        $this->payload = $line->payload ?? null;
        $this->progress = $line->progress ?? null;
        $this->steps = (array) ($line->steps ?? []);
        $this->deadline = self::now() + ($line->timeout_ms ?? 3_600_000) / 1000;
    }

    /** The task that this process runs; null outside of a handler. */
    public static function current(): ?self
    {
        return self::$current;
    }

    /** @internal */
    public static function setCurrent(?self $task): void
    {
        self::$current = $task;
    }

    /**
     * Calls `$work` once, even after a crash, and returns its value as JSON has it, in this attempt or a later one. With a connection the
     * record is a part of its transaction.
     */
    public function step(string $name, callable $work, ?object $connection = null): mixed
    {
        $this->mustContinue($name);
        if ($connection !== null) {
            return $this->stepThere($name, $work, $connection);
        }
        return array_key_exists($name, $this->steps) ? $this->steps[$name] : $this->record($name, $work());
    }

    /** The payload of the signal; null if it did not come in time. Until it comes, no attempt runs. */
    public function waitSignal(string $name, int|float|string|\DateInterval $timeout = '365 d'): mixed
    {
        $this->mustContinue($name);
        if (array_key_exists($name, $this->steps)) {
            return $this->steps[$name];
        }
        $ms = self::between(Duration::milliseconds($timeout), self::WAIT_MS_MAX, 'wait for a signal for 1 ms to 365 days');
        $this->suspend(['outcome' => 'wait_signal', 'signal' => $name, 'timeout_ms' => $ms]);
    }

    /** Ends the attempt, and continues after this time, once for each name. */
    public function sleep(string $name, int|float|string|\DateInterval $span): void
    {
        $ms = $this->step($name, fn () => self::clockMs() + Duration::milliseconds($span)) - self::clockMs();
        if ($ms > 0) {
            $this->suspend(['outcome' => 'snooze', 'delay_ms' => min($ms, self::DELAY_MS_MAX)]);
        }
    }

    /**
     * How other tasks have ended, in the order of the ids; for instance children, which a step has enqueued. This is a step too: while one
     * of them has not ended, the attempt ends, and the handler runs again after 1 s to 60 s. A state of null is a task that does not exist.
     *
     * @param list<int> $ids
     * @return list<Result>
     */
    public function waitFor(array $ids, ?object $connection, ?string $name = null): array
    {
        $name ??= 'wait_for:' . substr(hash('sha256', implode(' ', $ids)), 0, 16);
        $this->mustContinue($name);
        if (!array_key_exists($name, $this->steps)) {
            $found = array_map(fn ($id) => Tenon::result($connection, $id) ?? new Result(null), $ids);
            if (array_filter($found, fn ($one) => !in_array($one->state, self::ENDS, true)) !== []) {
                $since = $this->step("$name:since", self::clockMs(...));
                $ms = max(self::WAIT_FOR_MS_MIN, min(intdiv(self::clockMs() - $since, 4), self::WAIT_FOR_MS_MAX));
                $this->suspend(['outcome' => 'snooze', 'delay_ms' => $ms, 'error' => 'waits for ' . count($ids) . ' tasks']);
            }
            $this->record($name, array_map(fn ($one) => [$one->state, $one->result, $one->error], $found));
        }
        return array_map(fn ($one) => new Result(...$one), $this->steps[$name]);
    }

    /** The progress that was recorded last, by this or an earlier attempt. */
    public function progress(): mixed
    {
        return $this->progress;
    }

    /** Records the progress. The worker stores the last value about once a second; the next attempt gets it. */
    public function setProgress(mixed $value): void
    {
        $text = Json::write($value);
        if (strlen($text) > self::PROGRESS_BYTES_MAX) {
            throw new \LengthException('progress is longer than ' . self::PROGRESS_BYTES_MAX . ' bytes');
        }
        $this->progress = Json::read($text);
        ($this->says)(['id' => $this->id, 'progress' => $value]);
    }

    /**
     * Sends a log line; the level is "error", "warning", "info" or "debug". It never fails the task: fields that are not JSON are left out.
     *
     * @param array<string, mixed> $fields
     */
    public function log(string $level, string $message, array $fields = []): void
    {
        $line = ['level' => $level, 'message' => mb_strcut(mb_scrub($message, 'UTF-8'), 0, self::LOG_BYTES_MAX, 'UTF-8')];
        if ($fields !== [] && json_encode($fields, JSON_INVALID_UTF8_SUBSTITUTE) !== false) {
            $line['fields'] = $fields;
        }
        ($this->says)(['id' => $this->id, 'log' => $line]);
    }

    /** Moves the deadline to this time from now, if that is later. */
    public function extend(int|float|string|\DateInterval $span): void
    {
        $ms = self::between(Duration::milliseconds($span), self::DELAY_MS_MAX, 'extend by 1 ms to 30 days');
        $this->deadline = max($this->deadline, self::now() + $ms / 1000);
        ($this->says)(['id' => $this->id, 'extend_ms' => $ms]);
    }

    /** How many seconds the task may still run. */
    public function remaining(): float
    {
        return $this->deadline - self::now();
    }

    /** Ends the task in the connection's transaction: what it writes and the end of the task are both there, or neither. */
    public function finish(object $connection, mixed $result = null): void
    {
        $sql = new Statement($connection);
        $claim = $sql->text($this->claim);
        $value = $result === null ? 'NULL::jsonb' : $sql->json($result);
        $sql->rows("SELECT tenon.finish($claim, $value)");
    }

    /** Why the task should stop: "cancelled", "lost" (its claim) or "drain" (the worker ends); null: it should not. */
    public function stopping(): ?string
    {
        while ($this->stopped === null && ($this->listens)(0.0)) {
            // until nothing more has come
        }
        return $this->stopped;
    }

    /** Throws Interrupted if the task should stop. For loops, after they have recorded their progress. */
    public function check(): void
    {
        if ($this->stopping() !== null) {
            throw new Interrupted($this->stopped);
        }
    }

    /** Waits for this time, or until the task should stop; returns whether it should. */
    public function wait(int|float|string|\DateInterval $span): bool
    {
        $ends = self::now() + Duration::milliseconds($span) / 1000;
        while ($this->stopped === null && ($left = $ends - self::now()) > 0) {
            if (($this->listens)($left) === false) {
                usleep((int) ($left * 1e6));
            }
        }
        return $this->stopped !== null;
    }

    /** @internal The worker's word. */
    public function stop(string $why): void
    {
        $this->stopped = $why;
    }

    /** @internal The worker's answer to a step. */
    public function told(string $name, bool $recorded): void
    {
        $this->answers[$name] = $recorded;
    }

    private static function now(): float
    {
        return hrtime(true) / 1e9;
    }

    private static function clockMs(): int
    {
        return (int) round(microtime(true) * 1000);
    }

    private static function between(int $ms, int $most, string $what): int
    {
        return $ms >= 1 && $ms <= $most ? $ms : throw new \InvalidArgumentException("$what, not $ms ms");
    }

    /** A task that sleeps or waits does so, also if the handler has caught what ends its attempt. */
    private function mustContinue(string $name): void
    {
        if ($this->suspended !== null) {
            throw $this->suspended;
        }
        if ($name === '' || strlen($name) > self::NAME_BYTES_MAX || str_contains($name, "\0")) {
            throw new \InvalidArgumentException('the name of a step or signal has 1 to ' . self::NAME_BYTES_MAX . ' bytes');
        }
    }

    /** @param array<string, mixed> $reply */
    private function suspend(array $reply): never
    {
        throw $this->suspended = new Suspended($reply);
    }

    /** Through the worker, which answers when the record is committed. */
    private function record(string $name, mixed $value): mixed
    {
        $text = Json::write($value);
        if (strlen($text) > self::STEP_BYTES_MAX) {
            throw new \LengthException("the step \"$name\" is longer than " . self::STEP_BYTES_MAX . ' bytes');
        }
        unset($this->answers[$name]);
        ($this->says)(['id' => $this->id, 'step' => ['name' => $name, 'value' => $value]]);
        while (!isset($this->answers[$name])) {
            $more = ($this->listens)(null);
            if ($more === false || in_array($this->stopped, ['cancelled', 'lost'], true)) {
                throw new Interrupted($this->stopped ?? 'the worker is gone');
            }
        }
        if (!$this->answers[$name]) {
            throw new \RuntimeException("the step \"$name\" was not recorded: a task has 1,000 steps of 1 MiB in all, without \\u0000");
        }
        return $this->steps[$name] = Json::read($text);
    }

    /** In the transaction of the connection, which also knows what an earlier attempt has committed. */
    private function stepThere(string $name, callable $work, object $connection): mixed
    {
        $sql = new Statement($connection);
        $known = (array) Json::read($sql->rows("SELECT tenon.steps({$sql->text($this->claim)})")[0][0] ?? '{}');
        if (array_key_exists($name, $known)) {
            return $this->steps[$name] = $known[$name];
        }
        $value = $work();
        $sql = new Statement($connection);
        $arguments = "{$sql->text($this->claim)}, {$sql->text($name)}, {$sql->json($value)}";
        return Json::read($sql->rows("SELECT tenon.step($arguments)")[0][0]);
    }
}
