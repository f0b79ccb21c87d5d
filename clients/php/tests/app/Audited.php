<?php
declare(strict_types=1);

namespace Tenon\Tests\app;

final class Audited
{
}
