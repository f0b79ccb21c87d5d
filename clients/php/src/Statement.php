<?php
declare(strict_types=1);

namespace Tenon;

/** One statement on the caller's connection, and so in the caller's transaction: a PDO, or a Connection of Doctrine DBAL. */
final class Statement
{
    /** @var list<?string> */
    private array $texts = [];

    public function __construct(private readonly object $connection)
    {
        if (!$connection instanceof \PDO && !method_exists($connection, 'fetchAllNumeric')) {
            throw new \InvalidArgumentException('a connection is a PDO or a Doctrine\DBAL\Connection, not a ' . $connection::class);
        }
    }

    /** The place of a text, or of null, in the statement. Call these methods in the order of the places. */
    public function text(int|string|null $value): string
    {
        if (is_string($value) && str_contains($value, "\0")) { // where the driver would end it
            throw new \InvalidArgumentException('a text of PostgreSQL cannot contain "\0"');
        }
        $this->texts[] = $value === null ? null : (string) $value;
        return '?::text';
    }

    public function json(mixed $value): string
    {
        return $this->text(Json::write($value)) . '::jsonb';
    }

    /** @param array<int|string|null> $values */
    public function texts(array $values): string
    {
        $texts = array_map(fn ($value) => $value === null ? null : (string) $value, array_values($values));
        return 'ARRAY(SELECT pg_catalog.json_array_elements_text(' . $this->text(Json::write($texts)) . '::json))';
    }

    /** @return list<list<mixed>> */
    public function rows(string $sql): array
    {
        if (!$this->connection instanceof \PDO) {
            return $this->connection->fetchAllNumeric($sql, $this->texts);
        }
        $prepared = $this->connection->prepare($sql);
        if (!$prepared || !$prepared->execute($this->texts)) {
            throw new \RuntimeException('the statement failed: ' . implode(' ', ($prepared ?: $this->connection)->errorInfo()));
        }
        return $prepared->fetchAll(\PDO::FETCH_NUM);
    }
}
