-- What an act on messages would change: how many, up to 100,000; and in each row one of the messages that were named and that it would
-- not change: its id, and its state, NULL when there is no such message. At least one row.
--   $1 text  retry, delete or replay    $2 bigint[]  the messages, or $3 text  the exchange    $4, $5 timestamptz  replay: since, until
-- scans
WITH named AS MATERIALIZED (
    SELECT i.id, o.id IS NOT NULL AND ($1::text = 'delete' OR o.state = 'refused') AS fits, o.state
    FROM (SELECT DISTINCT unnest($2::bigint[]) AS id) i
    LEFT JOIN LATERAL (SELECT id, state FROM tenon.outbox WHERE id = i.id OFFSET 0) o ON true
), n AS MATERIALIZED (
    SELECT CASE WHEN $1 = 'replay'
                THEN (SELECT count(*)
                      FROM (SELECT FROM tenon.message_sent s
                            WHERE s.sent_at >= $4::timestamptz AND s.sent_at < coalesce($5::timestamptz, now())
                              AND s.exchange = coalesce($3::text, s.exchange) LIMIT 100000) s)
                WHEN $2 IS NOT NULL THEN (SELECT count(*) FROM named WHERE fits)
                ELSE (SELECT count(*)
                      FROM (SELECT FROM tenon.message m WHERE m.failed_at IS NOT NULL AND m.exchange = $3 LIMIT 100000) m) END AS n
)
SELECT n.n, u.id, u.state
FROM n
LEFT JOIN (SELECT id, state FROM named WHERE NOT fits) u ON true
ORDER BY u.id;
