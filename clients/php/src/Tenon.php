<?php
declare(strict_types=1);

namespace Tenon;

/** Tasks, on the application's own connection: a PDO, or a Connection of Doctrine DBAL. */
final class Tenon
{
    private const ONE = [
        'queue' => 'text', 'priority' => 'integer', 'run_at' => 'timestamptz', 'delay' => 'interval', 'unique_key' => 'text',
        'on_conflict' => 'text', 'unique_for' => 'interval', 'debounce' => 'interval', 'debounce_max' => 'interval',
        'start_before' => 'timestamptz', 'max_attempts' => 'integer', 'timeout' => 'interval', 'retry' => 'text', 'limit_keys' => 'text[]',
        'flow' => 'bigint', 'depends_on' => 'bigint[]', 'on_parent_dead' => 'text', 'tags' => 'text[]', 'trace' => 'text',
    ];
    private const MANY = [
        'unique_keys' => 'text[]', 'queues' => 'text[]', 'priorities' => 'integer[]', 'run_ats' => 'timestamptz[]',
    ];

    /**
     * Enqueues a task in the connection's transaction, and returns its id. The task runs if the transaction commits, and never if it
     * rolls back. The options are those of tenon.enqueue (docs/sql.md).
     */
    public static function enqueue(object $connection, string $kind, mixed $payload = new \stdClass(), mixed ...$options): int
    {
        $sql = new Statement($connection);
        $arguments = $sql->text($kind) . ', ' . $sql->json($payload) . self::options($sql, $options, self::ONE);
        return (int) $sql->rows("SELECT tenon.enqueue($arguments)")[0][0];
    }

    /**
     * One task for each payload, in one statement; returns the ids in the same order. `unique_keys`, `queues`, `priorities` and `run_ats`
     * have one value, or null, for each.
     *
     * @param array<mixed> $payloads
     * @return list<int>
     */
    public static function enqueueMany(object $connection, string $kind, array $payloads, mixed ...$options): array
    {
        if ($payloads === []) {
            return [];
        }
        $sql = new Statement($connection);
        $kind = $sql->text($kind);
        $documents = 'ARRAY(SELECT pg_catalog.jsonb_array_elements(' . $sql->json(array_values($payloads)) . '))';
        $more = self::options($sql, $options, array_diff_key(self::ONE, ['unique_key' => 1]) + self::MANY);
        $rows = $sql->rows("SELECT pg_catalog.unnest(tenon.enqueue_many($kind, $documents$more))");
        return array_map(fn ($row) => (int) $row[0], $rows);
    }

    /** Sends a signal, for which tasks wait with Task::waitSignal. */
    public static function signal(object $connection, string $name, mixed $payload = null): void
    {
        $sql = new Statement($connection);
        $sql->rows("SELECT tenon.signal({$sql->text($name)}, {$sql->json($payload)})");
    }

    /** Whether the task was cancelled: it had not ended. */
    public static function cancel(object $connection, int $id): bool
    {
        $sql = new Statement($connection);
        return $sql->rows("SELECT tenon.cancel({$sql->text($id)}::bigint)::integer")[0][0] == 1;
    }

    /** How the task stands or has ended; null: there is no such task. */
    public static function result(object $connection, int $id): ?Result
    {
        $sql = new Statement($connection);
        $row = $sql->rows("SELECT r.state, r.result, r.error FROM tenon.result({$sql->text($id)}::bigint) r")[0] ?? [null];
        return $row[0] === null ? null : new Result($row[0], $row[1] === null ? null : Json::read($row[1]), $row[2]);
    }

    /**
     * ", queue => ?::text::text, ...": options that are null are as if they were not given.
     *
     * @param array<string, mixed> $options
     * @param array<string, string> $known
     */
    private static function options(Statement $sql, array $options, array $known): string
    {
        $text = '';
        foreach ($options as $name => $value) {
            $type = $known[$name]
                ?? throw new \InvalidArgumentException("there is no option \"$name\"; there are " . implode(', ', array_keys($known)));
            if ($value !== null) {
                $text .= ", $name => " . self::option($sql, $type, $value);
            }
        }
        return $text;
    }

    private static function option(Statement $sql, string $type, mixed $value): string
    {
        return match ($type) {
            'interval' => $sql->text(Duration::milliseconds($value) . ' milliseconds'),
            'timestamptz' => $sql->text(self::moment($value)),
            'timestamptz[]' => $sql->texts(array_map(fn ($one) => $one === null ? null : self::moment($one), $value)),
            'text[]', 'integer[]', 'bigint[]' => $sql->texts((array) $value),
            default => $sql->text($value),
        } . "::$type";
    }

    private static function moment(string|\DateTimeInterface $value): string
    {
        return is_string($value) ? $value : $value->format('Y-m-d H:i:s.uP');
    }
}
