-- The ordered claim by age alone, over all priorities, so that no low priority starves.
-- Parameters and columns as in look.sql; the oldest candidates of every range are compared first.
WITH ranges AS MATERIALIZED (
    SELECT p.priority::smallint AS priority, q.queue,
           timestamptz 'epoch' + coalesce(($5::bigint[])[(q.place - 1) * 10 + p.priority + 1], 0) * interval '1 microsecond' AS from_at
    FROM generate_series(9, 0, -1) AS p (priority), unnest($2::text[]) WITH ORDINALITY AS q (queue, place)
    WHERE EXISTS (SELECT FROM tenon.worker WHERE id = $1::uuid AND state = 'alive')
      AND NOT EXISTS (SELECT FROM tenon.queue p WHERE p.name = q.queue AND p.paused)
), oldest AS MATERIALIZED (
    SELECT t.ctid
    FROM ranges r
    CROSS JOIN LATERAL (
        SELECT ctid, run_at
        FROM tenon.task
        WHERE queue = r.queue
          AND priority = r.priority
          AND run_at >= r.from_at
          AND run_at <= statement_timestamp()
          AND start_time IS NULL
          AND kind = ANY ($3::text[])
        ORDER BY run_at
        LIMIT $4::integer
    ) t
    ORDER BY t.run_at
    LIMIT $4::integer
), c AS MATERIALIZED (
    SELECT t.ctid, t.bytes
    FROM oldest o
    CROSS JOIN LATERAL (
        SELECT ctid, CASE WHEN pg_column_compression(payload) IS NULL THEN pg_column_size(payload)
                          ELSE octet_length(payload::text) END AS bytes
        FROM tenon.task
        WHERE ctid = o.ctid
          AND start_time IS NULL
          AND run_at <= statement_timestamp()
        FOR UPDATE SKIP LOCKED
    ) t
), fits AS MATERIALIZED (
    SELECT ctid
    FROM (SELECT ctid, sum(bytes) OVER (ROWS UNBOUNDED PRECEDING) - bytes AS before FROM c) b
    WHERE before < 16777216
)
UPDATE tenon.task t
SET start_time = clock_timestamp(), worker_id = $1::uuid, attempt = t.attempt + 1
FROM fits
WHERE t.ctid = fits.ctid
RETURNING t.id, t.attempt, (date_part('epoch', t.start_time) * 1000000)::bigint, t.timeout_ms,
          t.failures, t.max_attempts, t.priority, t.queue, t.kind, t.trace, t.payload,
          (date_part('epoch', t.run_at) * 1000000)::bigint;
