-- Kinds that nobody handles: due tasks, in a queue that is not paused, which no living worker takes (tenon.queue_depth).
--   $1 bigint  how many rows to count now, in all    $2 bigint  how many queues to look at, and rows to return
SELECT r.*, row_to_json(r)::text
FROM tenon.queue_depth($1::bigint, $2::bigint) d
CROSS JOIN LATERAL (SELECT d.queue, d.kind, d.ready, d.at_least, d.counted_at,
                           extract(epoch FROM statement_timestamp() - d.counted_at)::bigint AS age_s) r
WHERE d.ready > 0 AND d.kind <> '(other)'
  AND NOT EXISTS (SELECT FROM tenon.paused p WHERE p.what = 'queue' AND p.name = d.queue)
  AND NOT EXISTS (SELECT FROM tenon.paused p WHERE p.what = 'kind' AND p.name = d.kind)
  AND NOT EXISTS (SELECT FROM tenon.worker w
                  WHERE w.ended_at IS NULL AND w.state = 'alive'
                    AND d.queue = ANY (w.queues) AND d.kind = ANY (w.kinds))
ORDER BY d.queue, d.kind
LIMIT $2::bigint;
