-- Retry or delete messages of the outbox, or replay sent ones; how many.
--   $1 text  retry, delete or replay    $2 bigint[]  the messages, or $3 text  the exchange    $4, $5 timestamptz  replay: since, until
SELECT CASE $1::text WHEN 'retry' THEN tenon.retry_messages($2::bigint[], $3)
                     WHEN 'delete' THEN tenon.delete_messages($2::bigint[], $3)
                     ELSE tenon.replay_messages($4::timestamptz, $5::timestamptz, $3) END;
