-- Started tasks whose worker is gone: dead, left, or without a row.
-- What somebody else has locked is left for later, and does not count.
-- scans
--   $1 integer  how many
--   ret  a row for each task that was requeued; from trace on, for its span
WITH lost AS MATERIALIZED (
    SELECT t.id, t.claims, t.start_time, t.worker_id, t.queue, t.kind, t.trace,
           1 + t.failures + t.crashes AS attempt
    FROM tenon.task t
    WHERE t.start_time IS NOT NULL
      AND NOT EXISTS (SELECT FROM tenon.worker w WHERE w.id = t.worker_id AND w.ended_at IS NULL)
    LIMIT $1::integer
    FOR UPDATE OF t SKIP LOCKED
), given AS (
    SELECT worker_id, array_agg(id) AS ids, array_agg(claims) AS claims,
           array_agg((extract(epoch FROM start_time) * 1000000)::bigint) AS starts_us, count(*)::integer AS n
    FROM lost
    GROUP BY worker_id
)
SELECT p.id, l.queue, l.kind, p.state,
       l.trace, l.claims, (extract(epoch FROM l.start_time) * 1000000)::bigint AS start_us, l.attempt, 'crashed' AS reason,
       format('worker %s is gone', g.worker_id) AS error
FROM given g
CROSS JOIN LATERAL tenon.requeue(g.ids, g.claims, g.starts_us, g.worker_id, array_fill('crashed'::text, ARRAY[g.n]),
                                  array_fill(format('worker %s is gone', g.worker_id), ARRAY[g.n]), NULL) p
JOIN lost l ON l.id = p.id;
