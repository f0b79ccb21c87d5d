-- Problems of the outbox: level, subject, finding, what to do.
--   $1 bigint  how long a message may wait, in seconds    $2 bigint  how many messages to read    $3 bigint  how many findings
WITH refused AS MATERIALIZED (
    SELECT m.exchange, m.routing_key, m.error, m.retry_at IS NOT NULL AS again, count(*) AS n, min(m.failed_at) AS since
      FROM (SELECT * FROM tenon.message WHERE failed_at IS NOT NULL ORDER BY id LIMIT $2::bigint) m
     GROUP BY m.exchange, m.routing_key, m.error, m.retry_at IS NOT NULL
), named AS MATERIALIZED (
    SELECT r.*, CASE WHEN r.exchange = '' THEN 'the default exchange' ELSE 'the exchange ' || r.exchange END AS place,
           CASE WHEN r.exchange = '' THEN '''(default)''' WHEN r.exchange ~ '^[A-Za-z0-9_.:/-]+$' THEN r.exchange
                ELSE quote_literal(r.exchange) END AS option
      FROM refused r
)
SELECT * FROM (
    (SELECT CASE WHEN r.again THEN 'warning' ELSE 'error' END, 'outbox',
            format('RabbitMQ has refused %s for %s with the routing key %s%s, since %s UTC: %s',
                   CASE WHEN r.n = 1 THEN 'a message' ELSE r.n || ' messages' END, r.place, CASE WHEN r.routing_key = '' THEN '""' ELSE r.routing_key END,
                   CASE WHEN r.again THEN ', which the cleaner tries again by itself' ELSE '' END,
                   to_char(r.since AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS'), left(tenon.error_line(r.error), 200)),
            CASE WHEN r.again THEN 'make room in the queue, or raise its limit'
                 ELSE format('bind a queue, create the exchange or grant the right; then run: tenon outbox retry --exchange %s; or delete instead of retry',
                             r.option) END
       FROM named r ORDER BY r.again, r.n DESC, r.exchange, r.routing_key LIMIT $3::bigint)
    UNION ALL
    SELECT 'warning', 'outbox',
           format('%s%s for RabbitMQ, the oldest for %s', CASE WHEN d.at_least THEN 'at least ' ELSE '' END,
                  CASE WHEN d.waiting = 1 THEN 'a message waits' ELSE d.waiting || ' messages wait' END,
                  date_trunc('second', d.oldest_ms * interval '1 ms')),
           'a cleaner that is connected to RabbitMQ must lead: tenon cleaner with --amqp-url; see its log, and tenon outbox list'
      FROM tenon.outbox_depth($2::bigint) d
     WHERE d.oldest_ms > $1::bigint * 1000
) f (level, subject, finding, advice);
