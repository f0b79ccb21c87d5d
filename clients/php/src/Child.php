<?php
declare(strict_types=1);

namespace Tenon;

/** A pool child: reads task lines, and answers each (docs/protocol.md). It runs one task at a time. */
final class Child
{
    /** @var array<string, callable(Task): mixed> */
    private array $handlers = [];
    /** @var list<string> lines that came while a task ran */
    private array $waiting = [];
    private bool $ended = false;
    private bool $retiring = false;
    private ?Task $running = null;

    public function __construct(private readonly ?Wire $wire = null)
    {
    }

    /** The handler gets the Task that runs; what it returns is the result. */
    public function handle(string $kind, callable $handler): self
    {
        $this->handlers[$kind] = $handler;
        return $this;
    }

    /** Runs tasks until no more come. */
    public function run(): void
    {
        if ($this->handlers === []) {
            throw new \LogicException('there is no handler: define one with Child::handle');
        }
        $wire = $this->wire ?? Wire::ofProcess();
        $kinds = array_map('strval', array_keys($this->handlers));
        sort($kinds);
        $wire->say(['hello' => 'tenon', 'in_flight' => 1, 'stop' => true, 'kinds' => $kinds]);
        while (!$this->retiring && ($line = $this->next($wire)) !== false) {
            $this->read($wire, $line);
        }
        if ($this->retiring) {
            $wire->say(['bye' => true]);
        }
    }

    /** `run` returns after the task that runs; the worker starts another process. For one that has lost a connection, or grown too large. */
    public function retire(): void
    {
        $this->retiring = true;
    }

    private function next(Wire $wire): string|false
    {
        return array_shift($this->waiting) ?? ($this->ended ? false : $wire->line(null));
    }

    private function read(Wire $wire, string $line): void
    {
        try {
            $message = Json::read($line);
        } catch (\JsonException $error) {
            $id = (int) substr($line, strlen('{"id":'));
            $wire->say(['id' => $id, 'outcome' => 'dead', 'error' => "PHP cannot read the payload: {$error->getMessage()}"]);
            return;
        }
        if (isset($message->id)) {
            $wire->say(['id' => $message->id] + $this->answer($wire, $message));
        }
    }

    /** @return array<string, mixed> */
    private function answer(Wire $wire, \stdClass $message): array
    {
        $handler = $this->handlers[$message->kind] ?? null;
        if ($handler === null) {
            return ['outcome' => 'failed', 'error' => "there is no handler for \"$message->kind\""];
        }
        $this->running = $task = new Task($message, $wire->say(...), fn (?float $seconds) => $this->listen($wire, $seconds));
        Task::setCurrent($task);
        try {
            return Reply::to($task, $handler);
        } finally {
            Task::setCurrent(null);
            $this->running = null;
        }
    }

    /** Hands the running task a line, if one comes in this time. True: one came; null: none; false: no more come. */
    private function listen(Wire $wire, ?float $seconds): ?bool
    {
        $line = $this->ended ? false : $wire->line($seconds);
        if (is_string($line)) {
            $this->told($line);
            return true;
        }
        $this->ended = $line === false;
        return $line;
    }

    private function told(string $line): void
    {
        if (str_starts_with($line, '{"id":')) {
            $this->waiting[] = $line;
            return;
        }
        $message = Json::read($line);
        if (property_exists($message, 'stop') && in_array($message->stop, [null, $this->running->id], true)) {
            $this->running->stop($message->why);
        } elseif (($message->step ?? null) === $this->running->id) {
            $this->running->told($message->name, $message->recorded);
        }
    }
}
