<?php
declare(strict_types=1);

namespace Tenon\Tests;

/** A pool child with the handlers of the cases. */
final class ConformanceChild
{
    private const PATIENCE_S = 10;

    public string $rest = '';
    private int $status;
    /** @var resource */
    private $process;
    /** @var array<int, resource> */
    private array $pipes = [];

    public function __construct()
    {
        $command = [PHP_BINARY, '-d', 'memory_limit=256M', __DIR__ . '/conformance_handlers.php'];
        $this->process = proc_open($command, [['pipe', 'r'], ['pipe', 'w'], ['file', '/dev/null', 'w']], $this->pipes);
    }

    public function send(string $line): void
    {
        fwrite($this->pipes[0], "$line\n");
    }

    public function line(): \stdClass
    {
        $this->await('a line');
        $line = fgets($this->pipes[1]);
        return json_decode($line === false ? 'the child has ended' : $line, false, 2048, JSON_THROW_ON_ERROR);
    }

    public function end(): void
    {
        if (is_resource($this->pipes[0])) {
            fclose($this->pipes[0]);
        }
    }

    /** After which the child has said nothing more than `rest`. */
    public function status(): int
    {
        if (is_resource($this->process)) {
            $this->await('the end of the child');
            $this->rest = stream_get_contents($this->pipes[1]);
            $this->status = proc_close($this->process);
        }
        return $this->status;
    }

    private function await(string $what): void
    {
        [$read, $write, $except] = [[$this->pipes[1]], null, null];
        if (stream_select($read, $write, $except, self::PATIENCE_S) !== 1) {
            proc_terminate($this->process, SIGKILL);
            throw new \RuntimeException('waited ' . self::PATIENCE_S . " s for $what");
        }
    }
}
