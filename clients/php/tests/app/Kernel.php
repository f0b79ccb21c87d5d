<?php
declare(strict_types=1);

namespace Tenon\Tests\app;

use Symfony\Bundle\FrameworkBundle\FrameworkBundle;
use Symfony\Component\Config\Loader\LoaderInterface;
use Symfony\Component\DependencyInjection\ContainerBuilder;
use Symfony\Component\DependencyInjection\Reference;
use Symfony\Component\HttpKernel\Kernel as BaseKernel;
use Tenon\Messenger\TenonBundle;

/** An application of Symfony, as small as possible: messages, handlers, and a connection of Doctrine. */
final class Kernel extends BaseKernel
{
    public function registerBundles(): iterable
    {
        return [new FrameworkBundle(), new TenonBundle()];
    }

    public function registerContainerConfiguration(LoaderInterface $loader): void
    {
        // in build()
    }

    protected function build(ContainerBuilder $container): void
    {
        $container->loadFromExtension('framework', [
            'secret' => 'test', 'http_method_override' => false,
            'messenger' => [
                'transports' => ['tasks' => 'tenon://default?retry=constant(1+ms,1+ms)'],
                'routing' => ['*' => 'tasks'],
            ],
        ]);
        $container->register('tenon_connection')->setFactory([Database::class, 'dbal'])->setClass(\Doctrine\DBAL\Connection::class)
            ->setPublic(true);
        $container->register(Handlers::class)->setArguments([new Reference('tenon_connection'), new Reference('messenger.default_bus')])
            ->addTag('kernel.reset', ['method' => 'reset'])->addTag('messenger.message_handler', ['handles' => Welcome::class, 'method' => 'welcome'])
            ->addTag('messenger.message_handler', ['handles' => Order::class, 'method' => 'order'])
            ->addTag('messenger.message_handler', ['handles' => Event::class, 'method' => 'event'])
            ->addTag('messenger.message_handler', ['handles' => Audited::class, 'method' => 'audit', 'from_transport' => 'tasks']);
    }

    public function getCacheDir(): string
    {
        return (getenv('TEST_CACHE') ?: sys_get_temp_dir() . '/tenon-php-' . getmypid()) . '/cache';
    }

    public function getLogDir(): string
    {
        return dirname($this->getCacheDir()) . '/log';
    }
}
