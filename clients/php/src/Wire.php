<?php
declare(strict_types=1);

namespace Tenon;

/** The lines from and to the worker. */
final class Wire
{
    private const DESCRIPTORS = 'TENON_WIRE';

    /** @param resource $source @param resource $sink */
    public function __construct(private $source, private $sink)
    {
    }

    /**
     * Of this process. What handlers print must not get into the answers, so the process first starts itself again, with the same id and
     * with its stdout on stderr.
     */
    public static function ofProcess(): self
    {
        if (getenv(self::DESCRIPTORS) !== (string) getmypid()) {
            self::startAgain();
        }
        putenv(self::DESCRIPTORS);
        ini_set('display_errors', 'stderr');
        return new self(fopen('php://fd/3', 'r'), fopen('php://fd/4', 'w'));
    }

    private static function startAgain(): never
    {
        $command = 'export ' . self::DESCRIPTORS . '=$$; exec "$0" "$@" 3<&0 4>&1 </dev/null >&2';
        $words = explode("\0", rtrim(file_get_contents('/proc/self/cmdline'), "\0")); // with the options of php
        pcntl_exec('/bin/sh', ['-c', $command, PHP_BINARY, ...array_slice($words, 1)]);
        throw new \RuntimeException('could not start /bin/sh');
    }

    /** @param array<string, mixed> $message */
    public function say(array $message): void
    {
        $line = Json::write($message, JSON_INVALID_UTF8_SUBSTITUTE) . "\n";
        for ($sent = 0; $sent < strlen($line); $sent += $bytes) {
            $bytes = @fwrite($this->sink, $sent === 0 ? $line : substr($line, $sent));
            if (!$bytes) {
                exit(1); // the worker is gone
            }
        }
    }

    /** The next line, waiting for it at most this many seconds (null: as long as it takes); null: none came; false: no more come. */
    public function line(?float $seconds): string|false|null
    {
        if ($seconds !== null) {
            [$read, $write, $except] = [[$this->source], null, null];
            $whole = (int) $seconds;
            if (@stream_select($read, $write, $except, $whole, (int) (($seconds - $whole) * 1e6)) !== 1) {
                return null;
            }
        }
        return fgets($this->source);
    }
}
