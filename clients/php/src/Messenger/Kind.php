<?php
declare(strict_types=1);

namespace Tenon\Messenger;

use Symfony\Component\Messenger\Envelope;
use Symfony\Component\Messenger\Handler\HandlersLocator;

/** The kind of a message's task: its class, with dots, such as App.Message.Welcome. */
final class Kind
{
    private const OF_ALL = 'messenger';

    /** @param list<string> $handled what has handlers: classes, interfaces, and patterns such as `App\Message\*` */
    public static function of(Envelope $envelope, array $handled): string
    {
        $types = HandlersLocator::listTypes($envelope); // the class comes first
        return self::named(current(array_intersect($types, $handled)) ?: current($types));
    }

    /** Of what has a handler. */
    public static function named(string $type): string
    {
        return $type === '*' ? self::OF_ALL : str_replace('\\', '.', preg_replace('/\\\\\*\z/', '', $type));
    }
}
