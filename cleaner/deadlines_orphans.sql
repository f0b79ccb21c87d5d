-- Started tasks whose worker is gone: dead, left, or without a row.
-- What somebody else has locked is left for later, and does not count.
-- scans
--   $1 integer  how many
--   ret  a row for each task that was requeued; from trace on, for its span
WITH lost AS MATERIALIZED (
    SELECT t.id, t.claims, t.claim_key, t.start_time, t.queue, t.kind, t.trace,
           1 + t.failures + t.crashes AS attempt, 'crashed' AS reason, format('worker %s is gone', t.worker_id) AS error
    FROM tenon.task t
    WHERE t.start_time IS NOT NULL
      AND NOT EXISTS (SELECT FROM tenon.worker w WHERE w.id = t.worker_id AND w.ended_at IS NULL)
    LIMIT $1::integer
    FOR UPDATE OF t SKIP LOCKED
), given AS (
    SELECT array_agg(id) AS ids, array_agg(claim_key) AS keys, array_agg(reason) AS reasons, array_agg(error) AS errors
    FROM lost
)
SELECT p.id, l.queue, l.kind, p.state,
       l.trace, l.claims, (extract(epoch FROM l.start_time) * 1000000)::bigint AS start_us, l.attempt, l.reason, l.error
FROM given g
CROSS JOIN LATERAL tenon.requeue(g.ids, g.keys, g.reasons, g.errors, NULL) p
JOIN lost l ON l.id = p.id;
