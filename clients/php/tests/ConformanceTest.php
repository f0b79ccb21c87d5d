<?php
declare(strict_types=1);

namespace Tenon\Tests;

use PHPUnit\Framework\TestCase;
use Tenon\Child;
use Tenon\Duration;
use Tenon\Result;
use Tenon\Suspended;
use Tenon\Task;
use Tenon\Tenon;
use Tenon\Wire;

/** clients/conformance: what every client must do. */
final class ConformanceTest extends TestCase
{
    use Support;

    /** This client runs one task at a time in a process. */
    private const LACKS = ['at_once'];

    private ?\PDO $connection = null;

    protected function tearDown(): void
    {
        $this->connection?->rollBack();
        $this->connection = null; // PHPUnit keeps the test
    }

    private static function data(string $name): \stdClass
    {
        return json_decode(file_get_contents(ROOT . "/clients/conformance/$name.json"), false, 2048, JSON_THROW_ON_ERROR);
    }

    /** @param list<\stdClass> $cases @return array<string, array{\stdClass}> */
    private static function named(array $cases): array
    {
        return array_combine(array_column($cases, 'name'), array_map(fn ($one) => [$one], $cases));
    }

    private function needs(\stdClass $case): void
    {
        if (array_intersect($case->needs ?? [], self::LACKS) !== []) {
            $this->markTestSkipped('the client runs one task at a time');
        }
    }

    public function testAChildThatRetires(): void
    {
        [$source, $sink] = [fopen('php://memory', 'r+'), fopen('php://memory', 'r+')];
        fwrite($source, "{\"id\":1,\"kind\":\"last\"}\n{\"id\":2,\"kind\":\"last\"}\n");
        rewind($source);
        $child = new Child(new Wire($source, $sink));
        $child->handle('last', fn () => $child->retire())->run();
        rewind($sink);
        $said = explode("\n", rtrim(stream_get_contents($sink)));
        $this->assertSame(['{"id":1,"outcome":"done"}', '{"bye":true}'], array_slice($said, 1));
    }

    public static function lines(): array
    {
        return self::named(self::data('protocol')->cases);
    }

    /** @dataProvider lines */
    public function testLines(\stdClass $case): void
    {
        $this->needs($case);
        $data = self::data('protocol');
        $child = new ConformanceChild();
        $hello = $child->line();
        $this->assertSame((array) $data->hello, array_intersect_key((array) $hello, (array) $data->hello));
        $this->assertSame([], array_diff($data->kinds, $hello->kinds));
        foreach ($case->steps as $step) {
            $this->follow($child, $step);
        }
        $child->end();
        $this->assertSame([0, ''], [$child->status(), $child->rest]);
    }

    private function follow(ConformanceChild $child, \stdClass $step): void
    {
        match (true) {
            isset($step->send) => $child->send(self::text($step->send)),
            isset($step->end) => $child->end(),
            isset($step->exit) => $this->assertSame($step->exit, $child->status()),
            default => $this->compare($child->line(), $step),
        };
    }

    private static function text(mixed $send): string
    {
        return match (true) {
            is_array($send) => implode('', array_map(fn ($part) => is_array($part) ? str_repeat(...$part) : $part, $send)),
            is_string($send) => $send,
            default => json_encode($send, JSON_THROW_ON_ERROR | JSON_UNESCAPED_UNICODE, 2048),
        };
    }

    private function compare(\stdClass $line, \stdClass $step): void
    {
        $wanted = $step->expect_any ?? [$step->expect];
        $matching = array_filter($wanted, fn ($one) => array_intersect_key((array) $line, (array) $one) == (array) $one);
        $this->assertNotEmpty($matching, substr(json_encode($line), 0, 300) . ', not ' . json_encode($wanted));
        foreach ($step->absent ?? [] as $key) {
            $this->assertFalse(property_exists($line, $key), $key);
        }
        if (isset($step->error_contains)) {
            $this->assertStringContainsString($step->error_contains, $line->error);
        }
        foreach ($step->error_without ?? [] as $part) {
            $this->assertStringNotContainsString($part, $line->error);
        }
        $this->assertLessThanOrEqual($step->error_bytes_max ?? PHP_INT_MAX, strlen($line->error ?? ''));
        if (isset($step->result_begins)) {
            $this->assertStringStartsWith($step->result_begins, $line->result);
        }
    }

    public function testDurations(): void
    {
        $data = self::data('durations');
        foreach ($data->texts as [$text, $ms]) {
            $this->assertSame($ms, Duration::milliseconds($text), $text);
        }
        foreach ($data->refused as $text) {
            try {
                Duration::milliseconds($text);
                $this->fail("$text was taken");
            } catch (\InvalidArgumentException $error) {
                $this->assertStringContainsString('it should be like', $error->getMessage());
            }
        }
        $this->assertSame(90_500, Duration::milliseconds(90.5));
        $this->assertSame(90_000, Duration::milliseconds(new \DateInterval('PT1M30S')));
    }

    public static function enqueued(): array
    {
        return self::named(self::data('enqueue')->enqueue);
    }

    /** @dataProvider enqueued */
    public function testEnqueue(\stdClass $case): void
    {
        $this->inTransaction();
        $first = isset($case->first) ? $this->enqueue($case->first) : null;
        $this->refused($case, function () use ($case, $first) {
            $id = $this->enqueue($case);
            $this->assertSame(isset($case->same_id) ? $first : $id, $id);
            $this->check($id, $case);
        });
    }

    public static function enqueuedMany(): array
    {
        return self::named(self::data('enqueue')->enqueue_many);
    }

    /** @dataProvider enqueuedMany */
    public function testEnqueueMany(\stdClass $case): void
    {
        $this->inTransaction();
        $this->refused($case, function () use ($case) {
            $ids = Tenon::enqueueMany($this->connection, self::data('enqueue')->kind, $case->payloads, ...(array) $case->options);
            $this->assertCount(count($case->rows), $ids);
            foreach ($ids as $i => $id) {
                $this->check($id, (object) ['row' => $case->rows[$i]]);
            }
        });
    }

    private function inTransaction(): void
    {
        $this->connection = self::connected();
        $this->connection->beginTransaction();
    }

    private function refused(\stdClass $case, callable $do): void
    {
        try {
            $do();
            $this->assertFalse(property_exists($case, 'error'), 'error');
        } catch (\PDOException $error) {
            $this->assertSame($case->error ?? null, $error->getCode(), $error->getMessage());
        }
    }

    private function enqueue(\stdClass $case): int
    {
        $payload = property_exists($case, 'payload') ? [$case->payload] : [];
        return Tenon::enqueue($this->connection, self::data('enqueue')->kind, ...$payload, ...(array) $case->options);
    }

    private function check(int $id, \stdClass $case): void
    {
        foreach (['tasks' => $case->row ?? null, 'task' => $case->task ?? null] as $table => $wanted) {
            $row = json_decode($this->connection->query("SELECT to_jsonb(t) FROM tenon.$table t WHERE id = $id")->fetchColumn() ?: 'null');
            foreach ((array) $wanted as $key => $value) {
                $this->assertEquals($value, $row->$key, $key);
            }
            if ($wanted !== null && isset($case->delay_ms)) {
                $delay = (float) (new \DateTime($row->run_at))->format('U.u') - (float) (new \DateTime($row->created_at))->format('U.u');
                $this->assertEqualsWithDelta($case->delay_ms / 1000, $delay, 1);
            }
        }
    }

    public static function waits(): array
    {
        return self::named(self::data('wait_for')->cases);
    }

    /** @dataProvider waits */
    public function testWaitFor(\stdClass $case): void
    {
        $this->inTransaction();
        $name = self::data('wait_for')->name;
        $ids = [];
        foreach ($case->tasks as $state) {
            $ids[] = $this->task($state, $ids);
        }
        $steps = isset($case->waited_ms) ? ["$name:since" => (int) (microtime(true) * 1000) - $case->waited_ms] : [];
        [$recorded, $states, $suspended] = $this->wait($ids, $this->connection, $name, $steps);
        if ($case->outcome === 'done') {
            $this->assertSame([$case->states, [$name]], [$states, array_keys($recorded)]);
            $this->assertSame([[], $states, null], $this->wait($ids, null, $name, json_decode(json_encode($recorded), true)));
            return;
        }
        $this->assertSame('snooze', $suspended->reply['outcome']);
        $this->assertSame(isset($case->waited_ms) ? [] : ["$name:since"], array_keys($recorded));
        $this->assertGreaterThanOrEqual($case->delay_ms[0], $suspended->reply['delay_ms']);
        $this->assertLessThanOrEqual($case->delay_ms[1], $suspended->reply['delay_ms']);
    }

    /** @param list<int> $before */
    private function task(string $state, array $before): int
    {
        if ($state === 'same' || $state === 'missing') {
            return $state === 'same' ? end($before) : 999_999_999_999;
        }
        $id = Tenon::enqueue($this->connection, 'conformance.nowhere');
        if ($state === 'cancelled') {
            Tenon::cancel($this->connection, $id);
        }
        return $id;
    }

    /**
     * A task that waits, beside a worker that records each step.
     *
     * @return array{array<string, mixed>, ?list<?string>, ?Suspended}
     */
    private function wait(array $ids, ?\PDO $connection, string $name, array $steps): array
    {
        $recorded = [];
        $says = function (array $line) use (&$recorded) {
            $recorded[$line['step']['name']] = $line['step']['value'];
        };
        $task = null;
        $listens = function () use (&$task, &$recorded) {
            $task->told(array_key_last($recorded), true);
            return true;
        };
        $task = new Task((object) ['id' => 1, 'kind' => 'wait', 'steps' => $steps], $says, $listens);
        try {
            $states = array_map(fn (Result $one) => $one->state, $task->waitFor($ids, $connection, $name));
            return [$recorded, $states, null];
        } catch (Suspended $suspended) {
            return [$recorded, null, $suspended];
        }
    }
}
