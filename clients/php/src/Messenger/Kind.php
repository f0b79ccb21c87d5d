<?php
declare(strict_types=1);

namespace Tenon\Messenger;

/** The kind of a message's task: its class, with dots, such as App.Message.Welcome. */
final class Kind
{
    public static function of(string $class): string
    {
        return str_replace('\\', '.', $class);
    }
}
