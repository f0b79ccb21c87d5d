<?php
declare(strict_types=1);

namespace Tenon\Tests\app;

use Doctrine\DBAL\Connection;
use Doctrine\DBAL\DriverManager;

/** DATABASE_URL. */
final class Database
{
    /** @return array<string, mixed> */
    private static function parameters(): array
    {
        $at = array_map('rawurldecode', array_map('strval', parse_url(getenv('DATABASE_URL'))));
        parse_str($at['query'] ?? '', $more);
        return [
            'host' => $more['host'] ?? $at['host'], 'port' => (int) ($more['port'] ?? $at['port'] ?? 5432), 'dbname' => ltrim($at['path'], '/'),
            'user' => $more['user'] ?? $at['user'] ?? null, 'password' => $at['pass'] ?? null,
        ];
    }

    public static function dbal(): Connection
    {
        return DriverManager::getConnection(['driver' => 'pdo_pgsql'] + array_filter(self::parameters()));
    }

    public static function pdo(): \PDO
    {
        $at = self::parameters();
        return new \PDO("pgsql:host={$at['host']};port={$at['port']};dbname={$at['dbname']}", $at['user'], $at['password']);
    }
}
