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
     * @param Connections $connections of which the DSN names one
     * @param list<string> $handled what has handlers in the application
     */
    public function __construct(private readonly Connections $connections, private readonly array $handled = [])
    {
    }

    public function createTransport(string $dsn, array $options, SerializerInterface $serializer): TransportInterface
    {
        $transport = $options['transport_name'] ?? 'tenon';
        unset($options['transport_name']);
        $name = parse_url($dsn, PHP_URL_HOST) ?: throw new \InvalidArgumentException('the DSN should be like tenon://default?queue=mail');
        parse_str(parse_url($dsn, PHP_URL_QUERY) ?? '', $given);
        $options = $given + $options;
        $unknown = array_diff(array_keys($options), self::KNOWN);
        if ($unknown !== []) {
            $known = implode(', ', self::KNOWN);
            throw new \InvalidArgumentException('the transport of tenon has no option "' . reset($unknown) . "\"; there are $known");
        }
        return new TenonTransport(fn () => $this->connections->named($name), $serializer, $options, $transport, $this->handled);
    }

    public function supports(string $dsn, array $options): bool
    {
        return str_starts_with($dsn, 'tenon://');
    }
}
