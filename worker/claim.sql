-- Claim the tasks whose wake-ups arrived. Only ready ones, only queues and kinds this worker serves.
--   $1 uuid      worker, must be alive     $3 text[]  queues
--   $2 bigint[]  ids                       $4 text[]  kinds
--   $5 bigint    bytes of payload and steps to claim at most, without the last task
--   $6 bigint[]  a random key for each id: with the id the fence of the claim
-- One reading of the clock says whether a task may start and when it does: start_before is missed by no microsecond.
-- Index: the primary key. SKIP LOCKED: whoever holds a row claims, cancels or finishes it right now.
-- The rows are found by their ids one by one, and updated by where they lie: whatever statistics were taken of
-- a queue that was empty then, no plan can read more of the table than that.
WITH c AS MATERIALIZED (
    SELECT t.ctid, t.bytes, i.key
    FROM unnest($2::bigint[], $6::bigint[]) AS i (id, key)
    CROSS JOIN LATERAL (
        SELECT ctid, payload_bytes + coalesce(step_bytes, 0) AS bytes
        FROM tenon.task
        WHERE id = i.id
          AND start_time IS NULL
          AND run_at <= statement_timestamp() AND coalesce(start_before > statement_timestamp(), true)
          AND queue || '' = ANY (ARRAY(SELECT q.queue FROM unnest($3::text[]) AS q (queue)
                                       WHERE NOT EXISTS (SELECT FROM tenon.paused p
                                                         WHERE p.what = 'queue' AND p.name = q.queue)))
          AND kind = ANY ($4::text[])
          AND EXISTS (SELECT FROM tenon.worker WHERE id = $1::uuid AND state = 'alive')
        FOR UPDATE SKIP LOCKED
    ) t
), fits AS MATERIALIZED (
    SELECT ctid, key
    FROM (SELECT ctid, key, sum(bytes) OVER (ROWS UNBOUNDED PRECEDING) - bytes AS before FROM c) b
    WHERE before < $5::bigint
)
UPDATE tenon.task t
SET start_time = statement_timestamp(), claim_key = fits.key, worker_id = $1::uuid, claims = t.claims + 1
FROM fits
WHERE t.ctid = fits.ctid
RETURNING t.id, t.claims, t.claim_key, t.timeout_ms, t.failures, t.max_attempts, t.priority, t.queue,
          t.kind, t.trace, t.payload, 1 + t.failures + t.crashes, t.progress,
          CASE WHEN t.step_count IS NOT NULL THEN tenon.steps_of(t.id) END,
          (date_part('epoch', t.start_time - greatest(t.run_at, t.created_at)) * 1000000)::bigint;
