<?php
declare(strict_types=1);

namespace Tenon\Messenger;

/** The application's connections: those of Doctrine, or the service `tenon_connection`, a PDO or a Connection of Doctrine DBAL. */
final class Connections
{
    public function __construct(private readonly ?object $doctrine = null, private readonly ?object $own = null)
    {
    }

    public function named(string $name): object
    {
        return $this->own ?? $this->doctrine?->getConnection($name)
            ?? throw new \LogicException('there is no connection for tenon: define the service "tenon_connection", or use DoctrineBundle');
    }

    /** Whether a transaction was begun that has not ended. Without auto-commit Doctrine always has one. */
    public function inTransaction(): bool
    {
        foreach ($this->all() as $one) {
            if ($one instanceof \PDO ? $one->inTransaction() : $one->isAutoCommit() && $one->isTransactionActive()) {
                return true;
            }
        }
        return false;
    }

    /** Rolls back, and closes what opens itself again when it is used. False: a PDO has lost its connection, and cannot do that. */
    public function renew(): bool
    {
        foreach ($this->all() as $one) {
            if (!$one instanceof \PDO) {
                $one->close();
            } elseif (!self::rolledBack($one)) {
                return false;
            }
        }
        return true;
    }

    private static function rolledBack(\PDO $connection): bool
    {
        try {
            return (!$connection->inTransaction() || $connection->rollBack()) && @$connection->query('SELECT') !== false;
        } catch (\PDOException) {
            return false;
        }
    }

    /** @return array<object> */
    private function all(): array
    {
        return array_filter([$this->own, ...array_values($this->doctrine?->getConnections() ?? [])]);
    }
}
