<?php
declare(strict_types=1);

namespace Tenon;

/** This can never work: the task is dead, and is not tried again. */
final class Dead extends Outcome
{
}
