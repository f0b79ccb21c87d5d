<?php
declare(strict_types=1);

namespace Tenon;

/** The handler stopped early: the task is ready again at once, without counting a failure. */
final class Interrupted extends Outcome
{
}
