<?php
declare(strict_types=1);

namespace Tenon;

/** Lengths of time: a number of seconds, a DateInterval, or a text such as "30 s", "5 min", "2 h", "1 d". */
final class Duration
{
    private const LONGEST_MS = 1e15; // far beyond what tenon allows
    private const UNITS_MS = ['ms' => 1, 's' => 1_000, 'min' => 60_000, 'h' => 3_600_000, 'd' => 86_400_000];

    public static function milliseconds(int|float|string|\DateInterval $span): int
    {
        if (is_string($span)) {
            return self::textMilliseconds($span);
        }
        if ($span instanceof \DateInterval) {
            $start = new \DateTimeImmutable('@0');
            $span = (float) $start->add($span)->format('U.u');
        }
        if (!is_finite($span)) {
            throw new \InvalidArgumentException("the length of time is $span");
        }
        return (int) round(max(-self::LONGEST_MS, min($span * 1000, self::LONGEST_MS)));
    }

    private static function textMilliseconds(string $text): int
    {
        if (!preg_match('/\A(\d+(?:\.\d+)?) ?(ms|s|min|h|d)\z/', $text, $found)) {
            $shown = json_encode(substr($text, 0, 60), JSON_INVALID_UTF8_SUBSTITUTE);
            throw new \InvalidArgumentException("the length of time is $shown; it should be like \"30 s\", \"5 min\", \"2 h\", \"1 d\"");
        }
        return (int) round(min((float) $found[1] * self::UNITS_MS[$found[2]], self::LONGEST_MS));
    }
}
