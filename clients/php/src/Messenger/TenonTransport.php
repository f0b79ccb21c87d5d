<?php
declare(strict_types=1);

namespace Tenon\Messenger;

use Symfony\Component\Messenger\Envelope;
use Symfony\Component\Messenger\Stamp\DelayStamp;
use Symfony\Component\Messenger\Stamp\TransportMessageIdStamp;
use Symfony\Component\Messenger\Transport\Serialization\SerializerInterface;
use Symfony\Component\Messenger\Transport\TransportInterface;
use Tenon\Tenon;

/** Sends a message as a task, in the transaction of the connection. */
final class TenonTransport implements TransportInterface
{
    private const NOT_CONSUMED = "tenon's workers handle these messages: tenon worker --handler '*=pool:exec bin/console tenon:handle'";

    /**
     * @param \Closure(): object $connection a PDO, or a Connection of Doctrine
     * @param array<string, mixed> $options of each task
     * @param string $name of the transport, which handlers can ask for
     * @param list<string> $handled what has handlers in the application
     */
    public function __construct(
        private readonly \Closure $connection,
        private readonly SerializerInterface $serializer,
        private readonly array $options = [],
        private readonly string $name = 'tenon',
        private readonly array $handled = [],
    ) {
    }

    public function send(Envelope $envelope): Envelope
    {
        $options = $this->options;
        foreach ($envelope->all(TenonStamp::class) as $stamp) {
            $options = $stamp->options + $options;
        }
        $delay = $envelope->last(DelayStamp::class)?->getDelay() ?? 0;
        if ($delay > 0) {
            $options['delay'] = $delay / 1000;
        }
        $payload = $this->serializer->encode($envelope->withoutAll(DelayStamp::class));
        $payload['headers'] = (object) ($payload['headers'] ?? []);
        $payload['transport'] = $this->name;
        $id = Tenon::enqueue(($this->connection)(), Kind::of($envelope, $this->handled), $payload, ...$options);
        return $envelope->with(new TransportMessageIdStamp($id));
    }

    public function get(): iterable
    {
        throw new \LogicException(self::NOT_CONSUMED);
    }

    public function ack(Envelope $envelope): void
    {
        throw new \LogicException(self::NOT_CONSUMED);
    }

    public function reject(Envelope $envelope): void
    {
        throw new \LogicException(self::NOT_CONSUMED);
    }
}
