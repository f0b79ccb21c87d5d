-- Tasks that ran past their deadline and whose worker did not end them.
-- What somebody else has locked is left for later, and does not count; of large ones those that have 8 MB together are taken.
-- scans
--   $1 interval  grace    $2 integer  how many
--   ret  a row for each task that was requeued; from trace on, for its span
WITH locked AS MATERIALIZED (
    SELECT t.id, t.claims, t.claim_key, t.start_time, t.queue, t.kind, t.trace,
           1 + t.failures + t.crashes AS attempt, 'timed_out' AS reason,
           format('ran past its timeout of %s ms, and worker %s did not end it', t.timeout_ms, t.worker_id) AS error, t.payload_bytes
    FROM tenon.task t
    WHERE t.start_time + make_interval(secs => t.timeout_ms / 1000.0) < statement_timestamp() - $1::interval
      AND NOT EXISTS (SELECT FROM tenon.set_aside s WHERE s.part = 'recover' AND s.id = t.id AND s.until > statement_timestamp())
    LIMIT $2::integer
    FOR UPDATE OF t SKIP LOCKED
), late AS MATERIALIZED (
    SELECT b.*
    FROM (SELECT l.*, sum(l.payload_bytes) OVER (ORDER BY l.id) - l.payload_bytes AS bytes_before FROM locked l) b
    WHERE b.bytes_before < 8388608
), given AS (
    SELECT array_agg(id) AS ids, array_agg(claim_key) AS keys, array_agg(reason) AS reasons, array_agg(error) AS errors
    FROM late
)
SELECT p.id, l.queue, l.kind, p.state,
       l.trace, l.claims, (extract(epoch FROM l.start_time) * 1000000)::bigint AS start_us, l.attempt, l.reason, l.error
FROM given g
CROSS JOIN LATERAL tenon.recover(g.ids, g.keys, g.reasons, g.errors) p
JOIN late l ON l.id = p.id;
