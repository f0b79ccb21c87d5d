-- The ordered claim by age alone, over all priorities, so that no low priority starves.
-- Parameters and columns as in look.sql; the oldest candidates of every range are compared first.
WITH ranges AS MATERIALIZED (
    SELECT p.priority::smallint AS priority, q.queue
    FROM generate_series(9, 0, -1) AS p (priority), unnest($2::text[]) AS q (queue)
    WHERE EXISTS (SELECT FROM tenon.worker WHERE id = $1::uuid AND state = 'alive')
      AND NOT EXISTS (SELECT FROM tenon.queue p WHERE p.name = q.queue AND p.paused)
), oldest AS MATERIALIZED (
    SELECT t.id
    FROM ranges r
    CROSS JOIN LATERAL (
        SELECT id, run_at
        FROM tenon.task
        WHERE queue = r.queue
          AND priority = r.priority
          AND run_at <= statement_timestamp()
          AND start_time IS NULL
          AND kind = ANY ($3::text[])
        ORDER BY run_at
        LIMIT $4::integer
    ) t
    ORDER BY t.run_at
    LIMIT $4::integer
), c AS MATERIALIZED (
    SELECT id
    FROM tenon.task
    WHERE id = ANY (ARRAY(SELECT o.id FROM oldest o))
      AND start_time IS NULL
      AND run_at <= statement_timestamp()
    ORDER BY id
    FOR UPDATE SKIP LOCKED
)
UPDATE tenon.task t
SET start_time = clock_timestamp(), worker_id = $1::uuid, attempt = t.attempt + 1
FROM c
WHERE t.id = c.id
RETURNING t.id, t.attempt, (date_part('epoch', t.start_time) * 1000000)::bigint, t.timeout_ms,
          t.failures, t.max_attempts, t.priority, t.queue, t.kind, t.trace, t.payload;
