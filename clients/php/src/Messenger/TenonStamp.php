<?php
declare(strict_types=1);

namespace Tenon\Messenger;

use Symfony\Component\Messenger\Stamp\NonSendableStampInterface;

/** Options of one message's task; they override those of the transport. */
final class TenonStamp implements NonSendableStampInterface
{
    /** @var array<string, mixed> */
    public readonly array $options;

    /**
     * The options that have no names of their own here, such as `limit_keys`, are given in `$more`.
     *
     * @param array<string, mixed> $more
     */
    public function __construct(
        ?string $queue = null,
        ?int $priority = null,
        ?string $uniqueKey = null,
        ?string $trace = null,
        ?int $maxAttempts = null,
        int|float|string|\DateInterval|null $timeout = null,
        ?string $retry = null,
        array $more = [],
    ) {
        $this->options = array_filter([
            'queue' => $queue, 'priority' => $priority, 'unique_key' => $uniqueKey, 'trace' => $trace, 'max_attempts' => $maxAttempts,
            'timeout' => $timeout, 'retry' => $retry,
        ], fn ($value) => $value !== null) + $more;
    }
}
