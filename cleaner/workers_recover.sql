-- Requeue what a dead worker had started. There is no index on worker_id, so that claims stay cheap.
-- What somebody else has locked is left for later, and does not count; of large ones those that have 8 MB together are taken.
-- scans
--   $1 uuid  worker    $2 integer  how many
--   ret  a row for each task that was requeued; from trace on, for its span
WITH locked AS MATERIALIZED (
    SELECT id, claims, claim_key, start_time, queue, kind, trace, 1 + failures + crashes AS attempt, payload_bytes
    FROM tenon.task
    WHERE worker_id = $1::uuid
      AND EXISTS (SELECT FROM tenon.worker WHERE id = $1::uuid AND state = 'dead')
      AND NOT EXISTS (SELECT FROM tenon.set_aside s WHERE s.part = 'recover' AND s.id = task.id AND s.until > statement_timestamp())
    LIMIT $2::integer
    FOR UPDATE SKIP LOCKED
), mine AS MATERIALIZED (
    SELECT b.*
    FROM (SELECT l.*, sum(l.payload_bytes) OVER (ORDER BY l.id) - l.payload_bytes AS bytes_before FROM locked l) b
    WHERE b.bytes_before < 8388608
), given AS (
    SELECT array_agg(id) AS ids, array_agg(claim_key) AS keys, count(*)::integer AS n,
           (SELECT format('worker %s on %s pid %s died', id, left(host, 255), pid)
            FROM tenon.worker WHERE id = $1::uuid) AS error
    FROM mine
)
SELECT p.id, m.queue, m.kind, p.state,
       m.trace, m.claims, (extract(epoch FROM m.start_time) * 1000000)::bigint AS start_us, m.attempt, 'crashed' AS reason, g.error
FROM given g
CROSS JOIN LATERAL tenon.recover(g.ids, g.keys, array_fill('crashed'::text, ARRAY[g.n]),
                                  array_fill(g.error, ARRAY[g.n])) p
JOIN mine m ON m.id = p.id;
