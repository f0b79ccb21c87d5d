<?php
declare(strict_types=1);

namespace Tenon;

/** JSON as the client reads and writes it: objects are stdClass, and numbers beyond PHP's integers are texts. */
final class Json
{
    private const DEPTH_MAX = 2_048;
    private const WRITTEN = JSON_THROW_ON_ERROR | JSON_PRESERVE_ZERO_FRACTION | JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE;

    public static function write(mixed $value, int $flags = 0): string
    {
        return json_encode($value, self::WRITTEN | $flags, self::DEPTH_MAX);
    }

    public static function read(string $text): mixed
    {
        return json_decode($text, false, self::DEPTH_MAX, JSON_BIGINT_AS_STRING | JSON_THROW_ON_ERROR);
    }
}
