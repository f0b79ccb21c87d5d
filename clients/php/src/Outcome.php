<?php
declare(strict_types=1);

namespace Tenon;

/** What Dead, Retry, Snooze and Interrupted have in common. */
abstract class Outcome extends \RuntimeException
{
}
