-- A page of the outbox, the oldest message first; at most 10,000 messages are read. In each row, of which there is at least one, where to
-- continue, or NULL: that was all. The last column is the message as JSON.
--   $1 text  refused or waiting, NULL = both    $2 text     the exchange, NULL = all
--   $3 bigint  only ids above it, NULL = all    $4 integer  how many
WITH read AS MATERIALIZED (
    SELECT id, exchange
    FROM ((SELECT id, exchange FROM tenon.message
           WHERE $1::text = 'refused' AND failed_at IS NOT NULL AND id > coalesce($3::bigint, 0) ORDER BY id LIMIT 10000)
          UNION ALL
          (SELECT id, exchange FROM tenon.message
           WHERE $1 = 'waiting' AND NOT held AND failed_at IS NULL AND id > coalesce($3, 0) ORDER BY id LIMIT 10000)
          UNION ALL
          (SELECT id, exchange FROM tenon.message WHERE $1 IS NULL AND id > coalesce($3, 0) ORDER BY id LIMIT 10000)) m
), fit AS MATERIALIZED (
    SELECT id FROM read WHERE exchange = coalesce($2::text, exchange) ORDER BY id LIMIT $4::integer
), n AS MATERIALIZED (
    SELECT CASE WHEN (SELECT count(*) FROM fit) = $4 THEN (SELECT max(id) FROM fit)
                WHEN (SELECT count(*) FROM read) = 10000 THEN (SELECT max(id) FROM read) END AS next
)
SELECT n.next, o.id, o.state, to_char(o.created_at, 'YYYY-MM-DD HH24:MI:SS'), coalesce(nullif(o.exchange, ''), '(default)'), o.routing_key, o.order_key, o.error,
       CASE WHEN o.id IS NOT NULL THEN json_build_object(
           'id', o.id, 'state', o.state, 'created_at', o.created_at, 'exchange', o.exchange, 'routing_key', o.routing_key,
           'order_key', o.order_key, 'message_id', o.message_id, 'content_type', o.content_type, 'bytes', octet_length(o.body),
           'error', o.error, 'tries', o.tries, 'failed_at', o.failed_at, 'retry_at', o.retry_at,
           'expires_at', nullif(o.expires_at, '-infinity'), 'published_by', o.published_by)::text END
FROM n
LEFT JOIN fit ON true
LEFT JOIN LATERAL (SELECT * FROM tenon.outbox WHERE id = fit.id OFFSET 0) o ON true
ORDER BY o.id;
