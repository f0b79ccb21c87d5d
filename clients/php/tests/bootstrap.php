<?php
// The client, and Debian's packages of Symfony and Doctrine.
declare(strict_types=1);

const ROOT = __DIR__ . '/../../..';

foreach (['Symfony/Bundle/FrameworkBundle', 'Symfony/Component/Messenger', 'Symfony/Component/Console', 'Doctrine/DBAL'] as $library) {
    (@include_once "$library/autoload.php") || exit(69);
}
spl_autoload_register(function (string $class): void {
    foreach (['Tenon\\Tests\\' => __DIR__, 'Tenon\\' => dirname(__DIR__) . '/src'] as $prefix => $folder) {
        $file = $folder . '/' . str_replace('\\', '/', substr($class, strlen($prefix))) . '.php';
        if (str_starts_with($class, $prefix) && is_file($file)) {
            require $file;
            return;
        }
    }
});

set_error_handler(function (int $type, string $message, string $file, int $line): bool {
    if (str_starts_with(realpath($file) ?: $file, realpath(dirname(__DIR__)) . '/')) {
        throw new ErrorException($message, 0, $type, $file, $line);
    }
    return false;
});
