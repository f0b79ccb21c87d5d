<?php
declare(strict_types=1);

namespace Tenon;

/** A failed attempt with a retry delay of its own: `throw new Retry('busy', '30 s')`. */
final class Retry extends Outcome
{
    public function __construct(string $message, public readonly int|float|string|\DateInterval $after, ?\Throwable $previous = null)
    {
        Duration::milliseconds($after); // a mistake is the handler's
        parent::__construct($message, 0, $previous);
    }
}
