<?php
declare(strict_types=1);

namespace Tenon\Tests;

use Doctrine\DBAL\Connection;
use PHPUnit\Framework\TestCase;
use Symfony\Component\DependencyInjection\ContainerInterface;
use Symfony\Component\Filesystem\Filesystem;
use Symfony\Component\Messenger\Envelope;
use Symfony\Component\Messenger\Stamp\DelayStamp;
use Symfony\Component\Messenger\Stamp\TransportMessageIdStamp;
use Symfony\Component\Messenger\Transport\Serialization\PhpSerializer;
use Tenon\Messenger\Connections;
use Tenon\Messenger\TenonStamp;
use Tenon\Messenger\TenonTransport;
use Tenon\Messenger\TenonTransportFactory;
use Tenon\Result;
use Tenon\Retry;
use Tenon\Snooze;
use Tenon\Tenon;
use Tenon\Tests\app\Audited;
use Tenon\Tests\app\Kernel;
use Tenon\Tests\app\Moved;
use Tenon\Tests\app\Order;
use Tenon\Tests\app\Welcome;

/** The transport in an application of Symfony, and a worker that starts its tenon:handle. */
final class MessengerTest extends TestCase
{
    use Support;

    private static string $cache;
    private static ContainerInterface $container;
    private static Connection $connection;
    private static \PDO $outside;

    public static function setUpBeforeClass(): void
    {
        self::$cache = sys_get_temp_dir() . '/tenon-php-' . getmypid();
        putenv('TEST_CACHE=' . self::$cache);
        $kernel = new Kernel('test', false);
        $kernel->boot();
        self::$container = $kernel->getContainer();
        self::$connection = self::$container->get('tenon_connection');
        self::$outside = self::connected();
    }

    public static function tearDownAfterClass(): void
    {
        (new Filesystem())->remove(self::$cache);
    }

    protected function setUp(): void
    {
        self::$outside->exec('DELETE FROM tenon.task; DROP TABLE IF EXISTS public.lines; CREATE TABLE public.lines (id serial, text text)');
    }

    /** @param list<object> $stamps */
    private static function dispatch(object $message, array $stamps = []): int
    {
        return self::$container->get('messenger.default_bus')->dispatch($message, $stamps)->last(TransportMessageIdStamp::class)->getId();
    }

    private static function handler(): string
    {
        return PHP_BINARY . ' -d memory_limit=256M ' . escapeshellarg(__DIR__ . '/app/console.php') . ' tenon:handle';
    }

    private static function ended(int $id): ?Result
    {
        return Tenon::result(self::$outside, $id);
    }

    /** What became of the task when no task is left to run. */
    private static function end(int $id): Result
    {
        self::workUntil(self::handler(), fn () => in_array(self::ended($id)->state, ['done', 'dead'], true));
        return self::ended($id);
    }

    /** @return list<string> */
    private static function lines(): array
    {
        return self::$outside->query('SELECT text FROM public.lines ORDER BY id')->fetchAll(\PDO::FETCH_COLUMN);
    }

    private static function task(int $id): \stdClass
    {
        return json_decode(self::$outside->query("SELECT to_jsonb(t) FROM tenon.tasks t WHERE id = $id")->fetchColumn());
    }

    public function testItIsSentInTheTransaction(): void
    {
        self::$connection->beginTransaction();
        $lost = self::dispatch(new Welcome('nobody'));
        $this->assertSame(1, self::$connection->fetchOne('SELECT count(*) FROM tenon.task'), 'in the transaction, and not after it');
        self::$connection->rollBack();
        $this->assertNull(self::ended($lost));

        self::$connection->beginTransaction();
        $id = self::dispatch(new Welcome('ann'));
        $this->assertNull(self::ended($id), 'nobody sees it before the commit');
        self::$connection->commit();
        $this->assertEquals(new Result('done', (object) ['sent' => 'ann', 'messages' => 1]), self::end($id));
        $this->assertSame(['welcome ann'], self::lines());
    }

    public function testStamps(): void
    {
        $stamps = [
            new TenonStamp(queue: 'mail', priority: 9, trace: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', maxAttempts: 3),
            new TenonStamp(uniqueKey: 'welcome ann', more: ['tags' => ['import-7']]),
            new DelayStamp(90_000),
        ];
        $id = self::dispatch(new Welcome('ann'), $stamps);
        $this->assertSame($id, self::dispatch(new Welcome('ann'), $stamps));
        $task = self::task($id);
        $this->assertSame(
            ['Tenon.Tests.app.Welcome', 'mail', 9, 'welcome ann', ['import-7'], $stamps[0]->options['trace']],
            [$task->kind, $task->queue, $task->priority, $task->unique_key, $task->tags, $task->trace],
        );
        $delay = (float) (new \DateTime($task->run_at))->format('U.u') - (float) (new \DateTime($task->created_at))->format('U.u');
        $this->assertEqualsWithDelta(90, $delay, 1);
    }

    public function testFailuresAreRetriedByTenon(): void
    {
        $id = self::dispatch(new Order('fail'), [new TenonStamp(maxAttempts: 2)]);
        $this->assertSame('dead', self::end($id)->state);
        $this->assertStringStartsWith("no funds\n\nDomainException: no funds\nat ", self::ended($id)->error);
        $attempts = self::$outside->query("SELECT outcome, error_class FROM tenon.attempt WHERE task_id = $id ORDER BY attempt")->fetchAll(\PDO::FETCH_NUM);
        $this->assertSame([['failed', 'DomainException'], ['failed', 'DomainException']], $attempts);
    }

    public function testAnUnrecoverableMessageIsDead(): void
    {
        $id = self::dispatch(new Order('refuse'));
        $this->assertSame('dead', self::end($id)->state);
        $this->assertStringStartsWith('no such address', self::ended($id)->error);
        $this->assertSame('1', (string) self::$outside->query("SELECT count(*) FROM tenon.attempt WHERE task_id = $id")->fetchColumn());
    }

    public function testAnErrorWithADelayOfItsOwn(): void
    {
        $id = self::dispatch(new Order('failForAMoment'), [new TenonStamp(retry: 'constant(1 h)')]);
        $this->assertEquals(new Result('done', 'second attempt'), self::end($id));
    }

    public function testAHandlerOfAnInterface(): void
    {
        $this->assertEquals(new Result('done', Moved::class), self::end(self::dispatch(new Moved())));
    }

    public function testAHandlerOfOneTransport(): void
    {
        $this->assertEquals(new Result('done', 'audited'), self::end(self::dispatch(new Audited())));
    }

    public function testATransactionThatAHandlerLeavesOpen(): void
    {
        $open = self::dispatch(new Order('leaveOpen'), [new TenonStamp(priority: 9, maxAttempts: 1)]);
        $next = self::dispatch(new Welcome('ann'));
        $this->assertSame('done', self::end($next)->state);
        $this->assertSame('dead', self::ended($open)->state);
        $this->assertStringStartsWith('the handler left a transaction open', self::ended($open)->error);
        $this->assertSame(['welcome ann'], self::lines());
    }

    public function testALostConnectionIsOpenedAgain(): void
    {
        $lost = self::dispatch(new Order('loseTheConnection'), [new TenonStamp(priority: 9, maxAttempts: 1)]);
        $next = self::dispatch(new Welcome('ann'), [new TenonStamp(maxAttempts: 1)]);
        $this->assertSame('done', self::end($next)->state);
        $this->assertSame('dead', self::ended($lost)->state);
    }

    public function testALostPdoCannotBeOpenedAgain(): void
    {
        $pdo = self::connected();
        $connections = new Connections(null, $pdo);
        $pdo->beginTransaction();
        $this->assertTrue($connections->inTransaction());
        $this->assertTrue($connections->renew());
        $this->assertFalse($connections->inTransaction());
        self::$outside->query('SELECT pg_terminate_backend(' . $pdo->query('SELECT pg_backend_pid()')->fetchColumn() . ', 10000)');
        $this->assertFalse($connections->renew());
    }

    public function testSnoozeAndAStepThatIsNotRunAgain(): void
    {
        $id = self::dispatch(new Order('snooze'), [new TenonStamp(maxAttempts: 1)]);
        $this->assertEquals(new Result('done', 1), self::end($id));
        $this->assertSame(['first'], self::lines());
    }

    public function testAHandlerThatIsKilled(): void
    {
        $id = self::dispatch(new Order('killed'));
        $this->assertEquals(new Result('done', 'survived'), self::end($id));
        $this->assertSame(['attempt 1', 'attempt 2'], self::lines());
    }

    public function testASagaThatIsKilledAfterEachStep(): void
    {
        $id = self::dispatch(new Order('saga'));
        $this->assertEquals(new Result('done', 'whole'), self::end($id));
        $this->assertSame(['reserve', 'charge', 'ship', 'finished'], self::lines());
    }

    public function testASignal(): void
    {
        $id = self::dispatch(new Order('waitForSignal'));
        self::work(self::handler());
        $this->assertSame('blocked', self::ended($id)->state);
        Tenon::signal(self::$outside, "paid:$id", ['amount' => 30]);
        self::$outside->query('SELECT tenon.settle()'); // as the cleaner does
        $this->assertEquals(new Result('done', (object) ['amount' => 30]), self::end($id));
    }

    public function testAHandlerSendsInItsTransaction(): void
    {
        $this->assertEquals(new Result('done', 'rolled back'), self::end(self::dispatch(new Order('rollBack'))));
        $this->assertSame([], self::lines());
        $this->assertSame(0, (int) self::$outside->query('SELECT count(*) FROM tenon.task')->fetchColumn());
    }

    public function testServicesAreResetAfterEachMessage(): void
    {
        $ids = array_map(fn ($name) => self::dispatch(new Welcome($name)), ['ann', 'bob', 'cid']);
        self::end($ids[2]);
        self::work(self::handler());
        $this->assertSame([1, 1, 1], array_map(fn ($id) => self::ended($id)->result->messages, $ids));
    }

    public function testAPdoConnection(): void
    {
        $transport = (new TenonTransportFactory(new Connections(null, self::$outside)))->createTransport('tenon://default?queue=mail', [], new PhpSerializer());
        self::$outside->beginTransaction();
        $sent = $transport->send(new Envelope(new Welcome('ann')));
        $this->assertSame('mail', self::task($sent->last(TransportMessageIdStamp::class)->getId())->queue);
        self::$outside->rollBack();
    }

    public function testMistakes(): void
    {
        $factory = new TenonTransportFactory(new Connections(null, self::$outside));
        $wrong = [
            'there is no option "prio"' => fn () => self::dispatch(new Welcome('ann'), [new TenonStamp(more: ['prio' => 9])]),
            'the transport of tenon has no option "prio"' => fn () => $factory->createTransport('tenon://default?prio=9', [], new PhpSerializer()),
            'a text of PostgreSQL cannot contain' => fn () => self::dispatch(new Welcome('ann'), [new TenonStamp(uniqueKey: "a\0b")]),
            'the length of time is "soon"' => fn () => new Retry('busy', 'soon'),
            'the length of time is INF' => fn () => new Snooze(INF),
            "tenon's workers handle these messages" => fn () => (new TenonTransport(fn () => self::$outside, new PhpSerializer()))->get(),
        ];
        foreach ($wrong as $message => $do) {
            try {
                $do();
                $this->fail("no error: $message");
            } catch (\LogicException $error) {
                $this->assertStringStartsWith($message, $error->getMessage());
            }
        }
    }
}
