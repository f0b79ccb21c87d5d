<?php
declare(strict_types=1);

namespace Tenon;

/** How a task stands or has ended. */
final class Result
{
    public function __construct(public readonly ?string $state, public readonly mixed $result = null, public readonly ?string $error = null)
    {
    }
}
