<?php
declare(strict_types=1);

namespace Tenon\Tests;

use Tenon\Tests\app\Database;

/** What the tests need of PostgreSQL and of the worker. */
trait Support
{
    private static int $patienceS = 60;

    private static function connected(): \PDO
    {
        $connection = Database::pdo();
        $connection->exec("SET timezone = 'UTC'");
        return $connection;
    }

    /** A worker of this handler until no task is left; returns its log. */
    private static function work(string $handler): string
    {
        $command = [
            'timeout', (string) self::$patienceS, getenv('TENON') ?: 'tenon', 'worker', '--until-empty', '--pass-env', 'DATABASE_URL,TEST_CACHE',
            '--handler', "*=pool:exec $handler",
        ];
        $process = proc_open($command, [['file', '/dev/null', 'r'], ['pipe', 'w'], ['redirect', 1]], $pipes);
        $said = stream_get_contents($pipes[1]);
        $status = proc_close($process);
        self::assertSame(0, $status, "the worker ended with $status: $said");
        return $said;
    }

    /** The same until this is so: a worker that waits for a retry alone is at its end. */
    private static function workUntil(string $handler, callable $so): void
    {
        for ($i = 0; $i < 10; $i++) {
            self::work($handler);
            if ($so()) {
                return;
            }
        }
        self::fail('it has not happened');
    }
}
