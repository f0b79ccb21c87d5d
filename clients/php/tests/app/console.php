<?php
declare(strict_types=1);

use Symfony\Bundle\FrameworkBundle\Console\Application;
use Tenon\Tests\app\Kernel;

require __DIR__ . '/../bootstrap.php';

(new Application(new Kernel('test', false)))->run();
