<?php
declare(strict_types=1);

namespace Tenon\Tests\app;

/** What its handler does with it is a method of Handlers. */
final class Order
{
    public function __construct(public readonly string $does)
    {
    }
}
