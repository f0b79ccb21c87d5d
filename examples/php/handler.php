<?php
// A pool handler: reads a task per line, and answers each in a line; docs/protocol.md says what the lines mean.
//
//     tenon worker --handler 'welcome_mail=pool:exec php examples/php/handler.php'
declare(strict_types=1);
ini_set('display_errors', 'stderr'); // what PHP says must not get into the answers

class Dead extends RuntimeException // it can never work, however often it is tried
{
}

function welcomeMail(object $payload): array
{
    $to = $payload->to ?? throw new Dead('the payload has no "to"');
    fwrite(STDERR, "mail to $to\n"); // send it here; stdout is for answers
    return ['sent' => $to];
}

/** Throws where a result is no JSON, such as NAN. */
function text(array $answer): string
{
    return json_encode($answer, JSON_INVALID_UTF8_SUBSTITUTE | JSON_THROW_ON_ERROR, 2048) . "\n";
}

function answer(int $id, string $line): string
{
    try {
        $task = json_decode($line, false, 2048, JSON_BIGINT_AS_STRING | JSON_THROW_ON_ERROR);
        return text(['id' => $id, 'outcome' => 'done', 'result' => welcomeMail($task->payload)]);
    } catch (Dead $error) {
        return text(['id' => $id, 'outcome' => 'dead', 'error' => $error->getMessage()]);
    } catch (Throwable $error) { // it is tried again, later and later, until it has failed 25 times
        return text(['id' => $id, 'outcome' => 'failed', 'error' => (string) $error, 'error_class' => $error::class]);
    }
}

fwrite(STDOUT, text(['hello' => 'tenon']));
while (($line = fgets(STDIN)) !== false) {
    $id = (int) substr($line, strlen('{"id":')); // also of a payload that PHP cannot read
    fwrite(STDOUT, answer($id, $line));
}
