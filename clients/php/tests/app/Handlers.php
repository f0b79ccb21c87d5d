<?php
declare(strict_types=1);

namespace Tenon\Tests\app;

use Doctrine\DBAL\Connection;
use Symfony\Component\Messenger\Exception\RecoverableExceptionInterface;
use Symfony\Component\Messenger\Exception\UnrecoverableMessageHandlingException;
use Symfony\Component\Messenger\MessageBusInterface;
use Tenon\Snooze;
use Tenon\Task;

/** Each writes to public.lines what it did. */
final class Handlers
{
    private int $messages = 0;

    public function __construct(private readonly Connection $connection, private readonly MessageBusInterface $bus)
    {
    }

    /** Services are reset after each message. */
    public function reset(): void
    {
        $this->messages = 0;
    }

    private function write(string $text): void
    {
        $this->connection->executeStatement('INSERT INTO public.lines (text) VALUES (?)', [$text]);
    }

    /** @return array<string, mixed> */
    public function welcome(Welcome $message): array
    {
        echo "not a line of the protocol\n";
        $this->write("welcome $message->to");
        return ['sent' => $message->to, 'messages' => ++$this->messages];
    }

    public function order(Order $message): mixed
    {
        return $this->{$message->does}(Task::current());
    }

    private function fail(): never
    {
        throw new \DomainException('no funds');
    }

    private function failForAMoment(): string
    {
        return Task::current()->attempt > 1 ? 'second attempt' : throw new class('busy') extends \RuntimeException implements RecoverableExceptionInterface {
            public function getRetryDelay(): int
            {
                return 1;
            }
        };
    }

    /** What it writes is not committed. */
    private function leaveOpen(): string
    {
        $this->connection->beginTransaction();
        $this->write('left open');
        return 'done';
    }

    private function loseTheConnection(): mixed
    {
        return $this->connection->fetchOne('SELECT pg_terminate_backend(pg_backend_pid())');
    }

    /** Of all events. */
    public function event(Event $event): string
    {
        return $event::class;
    }

    /** Only of messages that came through the transport "tasks". */
    public function audit(Audited $message): string
    {
        return 'audited';
    }

    private function refuse(): never
    {
        throw new UnrecoverableMessageHandlingException('no such address');
    }

    private function snooze(Task $task): mixed
    {
        $first = $task->step('first', function () {
            $this->write('first');
            return ['n' => 1];
        });
        if ($task->progress() === null) {
            $task->setProgress(1);
            throw new Snooze('1 ms');
        }
        return $first->n;
    }

    private function killed(Task $task): string
    {
        $this->write("attempt $task->attempt");
        if ($task->attempt === 1) {
            posix_kill(getmypid(), SIGKILL);
        }
        return 'survived';
    }

    /** After each step, and after the work of the first. */
    private function saga(Task $task): mixed
    {
        foreach (['reserve', 'charge', 'ship'] as $i => $name) {
            $task->step($name, fn () => $this->write($name));
            if ($task->attempt === $i + 1) {
                posix_kill(getmypid(), SIGKILL);
            }
        }
        return $this->connection->transactional(function () use ($task) {
            $this->write('finished');
            $task->finish($this->connection, 'whole');
        });
    }

    /** Its message is sent in its transaction, which is rolled back. */
    private function rollBack(): mixed
    {
        $this->connection->beginTransaction();
        $this->bus->dispatch(new Welcome('nobody'));
        $this->connection->rollBack();
        return 'rolled back';
    }

    private function waitForSignal(Task $task): mixed
    {
        return $task->waitSignal("paid:$task->id", '1 h');
    }
}
