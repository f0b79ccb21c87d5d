<?php
declare(strict_types=1);

namespace Tenon;

/** Not now: the task runs again after this time (60 s by default), without counting a failure. */
final class Snooze extends Outcome
{
    public function __construct(public readonly int|float|string|\DateInterval|null $after = null, string $message = '')
    {
        Duration::milliseconds($after ?? 0); // a mistake is the handler's
        parent::__construct($message);
    }
}
