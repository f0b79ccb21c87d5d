<?php
// The handlers of clients/conformance/README.md.
declare(strict_types=1);

use Tenon\Child;
use Tenon\Dead;
use Tenon\Interrupted;
use Tenon\Retry;
use Tenon\Snooze;
use Tenon\Task;

require __DIR__ . '/bootstrap.php';

$seconds = fn (Task $task) => isset($task->payload->ms) ? $task->payload->ms / 1000 : null;

(new Child())
    ->handle('conformance.echo', fn (Task $task) => $task->payload)
    ->handle('conformance.nothing', fn () => null)
    ->handle('conformance.about', fn (Task $task) => [
        'id' => (string) $task->id, 'kind' => $task->kind, 'queue' => $task->queue, 'attempt' => $task->attempt,
        'failures' => $task->failures, 'max_attempts' => $task->maxAttempts, 'claim' => $task->claim, 'trace' => $task->trace,
        'progress' => $task->progress(),
    ])
    ->handle('conformance.fail', fn (Task $task) => throw new RuntimeException(str_repeat($task->payload->message, $task->payload->times ?? 1)))
    ->handle('conformance.retry', fn (Task $task) => throw new Retry($task->payload->message, $seconds($task)))
    ->handle('conformance.snooze', fn (Task $task) => throw new Snooze($seconds($task)))
    ->handle('conformance.dead', fn (Task $task) => throw new Dead($task->payload->message))
    ->handle('conformance.interrupt', fn () => throw new Interrupted())
    ->handle('conformance.typed', function (Task $task) {
        return is_int($task->payload->n) ? $task->payload->n + 1 : throw new Dead('n is not an integer');
    })
    ->handle('conformance.no_json', fn () => NAN)
    ->handle('conformance.large', fn (Task $task) => str_repeat('x', $task->payload->bytes))
    ->handle('conformance.print', function (Task $task) {
        echo $task->payload->text, "\n";
        fwrite(STDOUT, $task->payload->text . "\n");
        passthru('echo from a process of its own; cat');
        return 'printed';
    })
    ->handle('conformance.log', function (Task $task) {
        $task->log('warning', $task->payload->message, ['logger' => 'shop']);
        return 'logged';
    })
    ->handle('conformance.progress', fn (Task $task) => $task->setProgress(['done' => ($task->progress()->done ?? 0) + 1]))
    ->handle('conformance.extend', fn (Task $task) => $task->extend($seconds($task)))
    ->handle('conformance.steps', function (Task $task) {
        $one = $task->step('one', fn () => 1);
        return $one + $task->step('two', fn () => ['n' => $one + 1])->n;
    })
    ->handle('conformance.wait', fn (Task $task) => ['came' => $task->waitSignal($task->payload->signal, $seconds($task))])
    ->handle('conformance.slow', function (Task $task) {
        $task->wait(60);
        $task->check();
    })
    ->handle('conformance.sleep', function (Task $task) use ($seconds) {
        usleep((int) ($seconds($task) * 1e6));
        return 'slept';
    })
    ->run();
