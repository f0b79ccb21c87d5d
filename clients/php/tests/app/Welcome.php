<?php
declare(strict_types=1);

namespace Tenon\Tests\app;

final class Welcome
{
    public function __construct(public readonly string $to)
    {
    }
}
