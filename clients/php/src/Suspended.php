<?php
declare(strict_types=1);

namespace Tenon;

/**
 * Task::waitSignal and Task::sleep throw it to end the attempt; the task continues later. It is an Error, so that
 * `catch (\Exception)` lets it pass.
 */
final class Suspended extends \Error
{
    /** @param array<string, mixed> $reply what the worker is told */
    public function __construct(public readonly array $reply)
    {
        parent::__construct('the task continues later: do not catch this');
    }
}
