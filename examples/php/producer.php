<?php
// Signs a user up: the row and the task in one transaction, so that both are there, or neither.
//
//     psql -c 'CREATE TABLE public.users (mail text PRIMARY KEY)'
//     php examples/php/producer.php ann@example.org          # needs pdo_pgsql
//
// In Laravel it is the same in DB::transaction, with DB::selectOne; in Symfony on Doctrine's Connection.
declare(strict_types=1);

function connected(string $url): PDO
{
    $at = array_map('rawurldecode', parse_url($url));
    $dsn = sprintf('pgsql:host=%s;port=%s;dbname=%s', $at['host'], $at['port'] ?? 5432, ltrim($at['path'], '/'));
    return new PDO($dsn, $at['user'] ?? null, $at['pass'] ?? null);
}

function signUp(PDO $db, string $mail): int
{
    $db->beginTransaction();
    try {
        $db->prepare('INSERT INTO public.users (mail) VALUES (?)')->execute([$mail]);
        $enqueue = $db->prepare("SELECT tenon.enqueue('welcome_mail', CAST(? AS jsonb))");
        $enqueue->execute([json_encode(['to' => $mail], JSON_THROW_ON_ERROR)]);
        $id = (int) $enqueue->fetchColumn();
        $db->commit();
        return $id;
    } catch (Throwable $error) {
        $db->rollBack();
        throw $error;
    }
}

if ($argc !== 2) {
    fwrite(STDERR, "usage: producer.php MAIL\n");
    exit(64);
}
echo 'task ', signUp(connected(getenv('DATABASE_URL')), $argv[1]), "\n";
