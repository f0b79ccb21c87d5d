-- A piece of the pass over the table: requeue its started tasks whose worker is gone, and those that ran past their deadline and
-- whose worker did not end them. It reads blocks, because no index has what changes with a claim: claims stay cheap.
-- Tasks that somebody else has locked are left for the next pass; of large ones those that have 8 MB together are taken, each step
-- with 100 bytes for its row.
--   $1 tid  from here    $2 tid  up to here    $3 interval  grace    $4 integer  how many
--   ret  first a row without an id: `blocks` of the table, and whether the piece may hold `more` of them. Then a row for each task
--        that was requeued; from trace on, for its span
WITH locked AS MATERIALIZED (
    SELECT t.id, t.claims, t.claim_key, t.start_time, t.queue, t.kind, t.trace, 1 + t.failures + t.crashes AS attempt, t.worker_id,
           t.payload_bytes + coalesce(t.step_bytes + 100 * t.step_count, 0) AS bytes,
           CASE WHEN w.ended_at IS NULL AND w.id IS NOT NULL THEN 'timed_out' ELSE 'crashed' END AS reason,
           CASE WHEN w.state = 'dead' THEN format('worker %s on %s pid %s died', w.id, left(w.host, 255), w.pid)
                WHEN w.ended_at IS NULL AND w.id IS NOT NULL
                THEN format('ran past its timeout of %s ms, and worker %s did not end it', t.timeout_ms, w.id)
                ELSE format('worker %s is gone', t.worker_id) END AS error
    FROM tenon.task t
    LEFT JOIN tenon.worker w ON w.id = t.worker_id
    WHERE t.ctid >= $1::tid AND t.ctid < $2::tid
      AND t.start_time IS NOT NULL
      AND (w.id IS NULL OR w.ended_at IS NOT NULL
           OR t.start_time + make_interval(secs => t.timeout_ms / 1000.0) < statement_timestamp() - $3::interval)
      AND NOT EXISTS (SELECT FROM tenon.set_aside s WHERE s.part = 'recover' AND s.id = t.id AND s.until > statement_timestamp())
    LIMIT $4::integer
    FOR UPDATE OF t SKIP LOCKED
), lost AS MATERIALIZED (  -- not what another worker claimed before it was locked here: of that row the join has not seen the worker
    SELECT b.*
    FROM (SELECT l.*, sum(l.bytes) OVER (ORDER BY l.id) - l.bytes AS bytes_before
          FROM locked l
          WHERE l.reason <> 'crashed' OR NOT EXISTS (SELECT FROM tenon.worker a WHERE a.id = l.worker_id AND a.ended_at IS NULL)) b
    WHERE b.bytes_before < 8388608
), given AS (
    SELECT array_agg(id) AS ids, array_agg(claim_key) AS keys, array_agg(reason) AS reasons, array_agg(error) AS errors, count(*) AS n
    FROM lost
)
SELECT NULL::bigint AS id, NULL AS queue, NULL AS kind, NULL AS state, NULL AS trace, NULL::integer AS claims,
       NULL::bigint AS start_us, NULL::integer AS attempt, NULL AS reason, NULL AS error,
       pg_relation_size('tenon.task') / current_setting('block_size')::integer AS blocks,
       l.n = $4::integer OR l.n > g.n AS more
FROM given g, (SELECT count(*) AS n FROM locked) l
UNION ALL
SELECT p.id, l.queue, l.kind, p.state,
       l.trace, l.claims, (extract(epoch FROM l.start_time) * 1000000)::bigint, l.attempt, l.reason, l.error, NULL, NULL
FROM given g
CROSS JOIN LATERAL tenon.recover(g.ids, g.keys, g.reasons, g.errors) p
JOIN lost l ON l.id = p.id
ORDER BY id NULLS FIRST;
