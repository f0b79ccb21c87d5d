<?php
declare(strict_types=1);

namespace Tenon\Messenger;

use Symfony\Component\DependencyInjection\Compiler\CompilerPassInterface;
use Symfony\Component\DependencyInjection\Compiler\PassConfig;
use Symfony\Component\DependencyInjection\ContainerBuilder;
use Symfony\Component\DependencyInjection\ContainerInterface;
use Symfony\Component\DependencyInjection\Reference;
use Symfony\Component\HttpKernel\Bundle\Bundle;

/** The transport `tenon://` and the command tenon:handle, in an application of Symfony. */
final class TenonBundle extends Bundle implements CompilerPassInterface
{
    private const OPTIONAL = ContainerInterface::NULL_ON_INVALID_REFERENCE;
    private const AFTER_MESSENGERS_PASS = -16;

    public function build(ContainerBuilder $container): void
    {
        $container->register(Connections::class)
            ->setArguments([new Reference('doctrine', self::OPTIONAL), new Reference('tenon_connection', self::OPTIONAL)]);
        $container->register(TenonTransportFactory::class)->addTag('messenger.transport_factory')
            ->setArguments([new Reference(Connections::class), []]);
        $container->register(HandleCommand::class)->addTag('console.command', ['command' => 'tenon:handle'])->setArguments([
            new Reference('messenger.routable_message_bus'), new Reference('messenger.default_serializer'), [],
            new Reference(Connections::class), new Reference('services_resetter', self::OPTIONAL),
        ]);
        $container->addCompilerPass($this, PassConfig::TYPE_BEFORE_OPTIMIZATION, self::AFTER_MESSENGERS_PASS);
    }

    /** What has handlers is known once Messenger has found them. */
    public function process(ContainerBuilder $container): void
    {
        $handled = [];
        foreach (array_keys($container->findTaggedServiceIds('messenger.bus')) as $bus) {
            $handled += $container->getDefinition("$bus.messenger.handlers_locator")->getArgument(0);
        }
        $container->getDefinition(HandleCommand::class)->replaceArgument(2, array_keys($handled));
        $container->getDefinition(TenonTransportFactory::class)->replaceArgument(1, array_keys($handled));
    }
}
