-- Claim the tasks whose wake-ups arrived. Only ready ones, only queues and kinds this worker serves.
--   $1 uuid      worker, must be alive     $3 text[]  queues
--   $2 bigint[]  ids                       $4 text[]  kinds
-- Index: the primary key. SKIP LOCKED: whoever holds a row claims, cancels or finishes it right now.
WITH c AS MATERIALIZED (
    SELECT id
    FROM tenon.task
    WHERE id = ANY ($2::bigint[])
      AND start_time IS NULL
      AND run_at <= statement_timestamp()
      AND queue = ANY (ARRAY(SELECT q.queue FROM unnest($3::text[]) AS q (queue)
                             WHERE NOT EXISTS (SELECT FROM tenon.queue p WHERE p.name = q.queue AND p.paused)))
      AND kind = ANY ($4::text[])
      AND EXISTS (SELECT FROM tenon.worker WHERE id = $1::uuid AND state = 'alive')
    ORDER BY id
    FOR UPDATE SKIP LOCKED
)
UPDATE tenon.task t
SET start_time = clock_timestamp(), worker_id = $1::uuid, attempt = t.attempt + 1
FROM c
WHERE t.id = c.id
RETURNING t.id, t.attempt, (date_part('epoch', t.start_time) * 1000000)::bigint, t.timeout_ms,
          t.failures, t.max_attempts, t.priority, t.queue, t.kind, t.trace, t.payload;
