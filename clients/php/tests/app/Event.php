<?php
declare(strict_types=1);

namespace Tenon\Tests\app;

/** Its handler handles all messages that implement it. */
interface Event
{
}
