<?php
declare(strict_types=1);

namespace Tenon;

/** What the worker is told of a run: the outcome that its result or its exception stands for. */
final class Reply
{
    private const ERROR_BYTES_MAX = 8_191;
    private const CLASS_BYTES_MAX = 100;
    private const RESULT_BYTES_MAX = 2_000_000;
    private const DELAY_MS_MAX = 2_592_000_000;
    private const NOTE_BYTES_MAX = 500;

    /** @return array<string, mixed> */
    public static function to(Task $task, callable $handler): array
    {
        try {
            $result = $handler($task);
            return $task->suspended?->reply ?? self::done($result);
        } catch (\Throwable $error) {
            return $task->suspended?->reply ?? self::failed($error);
        }
    }

    /** @return array<string, mixed> */
    private static function done(mixed $result): array
    {
        if ($result === null) {
            return ['outcome' => 'done'];
        }
        try {
            $text = Json::write($result);
            if (strlen($text) > self::RESULT_BYTES_MAX) {
                throw new \LengthException('it is longer than ' . self::RESULT_BYTES_MAX . ' bytes');
            }
            return ['outcome' => 'done', 'result' => json_decode($text, false, 2_048, JSON_THROW_ON_ERROR)];
        } catch (\Throwable $error) { // the work is done, whatever the result is
            $why = mb_strcut(self::storable($error->getMessage()), 0, self::NOTE_BYTES_MAX, 'UTF-8');
            return ['outcome' => 'done', 'result' => "tenon: the result was not kept: $why"];
        }
    }

    /** @return array<string, mixed> */
    private static function failed(\Throwable $error): array
    {
        return match (true) {
            $error instanceof Interrupted => ['outcome' => 'interrupted'],
            $error instanceof Snooze => ['outcome' => 'snooze', 'error' => self::cut($error->getMessage())] + self::delay($error->after),
            $error instanceof Retry => ['outcome' => 'failed'] + self::described($error) + self::delay($error->after),
            $error instanceof Dead => ['outcome' => 'dead'] + self::described($error),
            default => ['outcome' => 'failed'] + self::described($error),
        };
    }

    /** @return array<string, int> */
    private static function delay(int|float|string|\DateInterval|null $after): array
    {
        return $after === null ? [] : ['delay_ms' => max(1, min(Duration::milliseconds($after), self::DELAY_MS_MAX))];
    }

    /** Of an outcome with a previous error, the class and the trace are those of the previous error. @return array<string, string> */
    private static function described(\Throwable $error): array
    {
        $cause = $error instanceof Outcome ? $error->getPrevious() ?? $error : $error;
        $text = $error->getMessage() === '' ? $cause->getMessage() : $error->getMessage();
        if (!$cause instanceof Outcome) {
            $text .= "\n\n" . $cause::class . ": {$cause->getMessage()}\nat {$cause->getFile()}:{$cause->getLine()}\n{$cause->getTraceAsString()}";
        }
        return ['error' => self::cut($text), 'error_class' => substr($cause::class, -self::CLASS_BYTES_MAX)];
    }

    /** Without its middle, if it is too long. */
    private static function cut(string $text): string
    {
        $text = self::storable($text);
        if (strlen($text) <= self::ERROR_BYTES_MAX) {
            return $text;
        }
        $half = intdiv(self::ERROR_BYTES_MAX, 2) - 10;
        return mb_strcut($text, 0, $half, 'UTF-8') . "\n[...]\n" . mb_strcut($text, strlen($text) - $half + 3, null, 'UTF-8');
    }

    private static function storable(string $text): string
    {
        return str_replace("\0", "\u{FFFD}", mb_scrub($text, 'UTF-8'));
    }
}
