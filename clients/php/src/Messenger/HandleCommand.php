<?php
declare(strict_types=1);

namespace Tenon\Messenger;

use Symfony\Component\Console\Command\Command;
use Symfony\Component\Console\Input\InputInterface;
use Symfony\Component\Console\Output\OutputInterface;
use Symfony\Component\Messenger\Envelope;
use Symfony\Component\Messenger\Exception\HandlerFailedException;
use Symfony\Component\Messenger\Exception\RecoverableExceptionInterface;
use Symfony\Component\Messenger\Exception\UnrecoverableExceptionInterface;
use Symfony\Component\Messenger\MessageBusInterface;
use Symfony\Component\Messenger\Stamp\ConsumedByWorkerStamp;
use Symfony\Component\Messenger\Stamp\HandledStamp;
use Symfony\Component\Messenger\Stamp\ReceivedStamp;
use Symfony\Component\Messenger\Stamp\TransportMessageIdStamp;
use Symfony\Component\Messenger\Transport\Serialization\SerializerInterface;
use Tenon\Child;
use Tenon\Dead;
use Tenon\Outcome;
use Tenon\Retry;
use Tenon\Suspended;
use Tenon\Task;

/** A pool child that hands each task's message to the bus. */
final class HandleCommand extends Command
{
    private const TRANSPORT = 'tenon';

    private readonly Child $child;

    /**
     * @param list<string> $handled what has handlers: classes, interfaces, and patterns
     * @param ?object $resetter Symfony's services_resetter, which runs after each message
     */
    public function __construct(
        private readonly MessageBusInterface $bus,
        private readonly SerializerInterface $serializer,
        private readonly array $handled,
        private readonly Connections $connections,
        private readonly ?object $resetter = null,
    ) {
        parent::__construct('tenon:handle');
        $this->child = new Child();
    }

    protected function configure(): void
    {
        $this->setDescription("Handles messages for tenon's worker, which starts this command")
            ->setHelp("Run it through the worker: <info>tenon worker --handler '*=pool:exec bin/console tenon:handle'</info>");
    }

    protected function execute(InputInterface $input, OutputInterface $output): int
    {
        foreach ($this->handled as $type) {
            $this->child->handle(Kind::named($type), $this->handle(...));
        }
        $this->child->run();
        return self::SUCCESS;
    }

    private function handle(Task $task): mixed
    {
        $encoded = ['body' => $task->payload->body, 'headers' => (array) $task->payload->headers];
        $envelope = $this->serializer->decode($encoded)
            ->with(new ReceivedStamp($task->payload->transport ?? self::TRANSPORT), new ConsumedByWorkerStamp(), new TransportMessageIdStamp($task->id));
        try {
            $result = self::result($this->bus->dispatch($envelope));
            if ($this->connections->inTransaction()) {
                throw new \LogicException('the handler left a transaction open, which is rolled back');
            }
            return $result;
        } catch (\Throwable $error) {
            if (!$this->connections->renew()) {
                $this->child->retire();
            }
            throw self::outcome($error);
        } finally {
            $this->resetter?->reset();
        }
    }

    /** Of the last handler. */
    private static function result(Envelope $envelope): mixed
    {
        return $envelope->last(HandledStamp::class)?->getResult();
    }

    /** What the handlers threw: dead only if each of their errors is unrecoverable. */
    private static function outcome(\Throwable $error): \Throwable
    {
        $errors = [$error];
        if ($error instanceof HandlerFailedException) { // getNestedExceptions is gone from Symfony 7
            $errors = array_values(method_exists($error, 'getWrappedExceptions') ? $error->getWrappedExceptions() : $error->getNestedExceptions());
        }
        foreach ($errors as $one) {
            if ($one instanceof Outcome || $one instanceof Suspended) {
                return $one;
            }
        }
        $recoverable = array_filter($errors, fn ($one) => !$one instanceof UnrecoverableExceptionInterface);
        return $recoverable === [] ? new Dead($errors[0]->getMessage(), 0, $errors[0]) : self::delayed(reset($recoverable));
    }

    /** From Symfony 7.2 on, an error may say when to try again. */
    private static function delayed(\Throwable $error): \Throwable
    {
        $ms = $error instanceof RecoverableExceptionInterface && method_exists($error, 'getRetryDelay') ? $error->getRetryDelay() : null;
        return $ms === null ? $error : new Retry($error->getMessage(), $ms / 1000, $error);
    }
}
