<?php
declare(strict_types=1);

namespace Tenon\Messenger;

use Symfony\Component\Messenger\Transport\Serialization\SerializerInterface;
use Symfony\Component\Messenger\Transport\TransportFactoryInterface;
use Symfony\Component\Messenger\Transport\TransportInterface;

/** Makes the transport of `tenon://CONNECTION?queue=QUEUE&priority=9`. */
final class TenonTransportFactory implements TransportFactoryInterface
{
    private const KNOWN = ['queue', 'priority', 'max_attempts', 'timeout', 'retry', 'limit_keys', 'tags'];

    /**
     * @param ?object $doctrine Doctrine's registry, which has the connection that the DSN names
     * @param ?object $connection the service `tenon_connection`, which is used instead if the application has it: a PDO, or a Connection
     */
    public function __construct(private readonly ?object $doctrine = null, private readonly ?object $connection = null)
    {
    }

    public function createTransport(string $dsn, array $options, SerializerInterface $serializer): TransportInterface
    {
        unset($options['transport_name']);
        $name = parse_url($dsn, PHP_URL_HOST) ?: throw new \InvalidArgumentException('the DSN should be like tenon://default?queue=mail');
        parse_str(parse_url($dsn, PHP_URL_QUERY) ?? '', $given);
        $options = $given + $options;
        $unknown = array_diff(array_keys($options), self::KNOWN);
        if ($unknown !== []) {
            $known = implode(', ', self::KNOWN);
            throw new \InvalidArgumentException('the transport of tenon has no option "' . reset($unknown) . "\"; there are $known");
        }
        return new TenonTransport(fn () => $this->connection($name), $serializer, $options);
    }

    public function supports(string $dsn, array $options): bool
    {
        return str_starts_with($dsn, 'tenon://');
    }

    private function connection(string $name): object
    {
        return $this->connection ?? $this->doctrine?->getConnection($name)
            ?? throw new \LogicException('there is no connection for tenon: define the service "tenon_connection", or use DoctrineBundle');
    }
}
