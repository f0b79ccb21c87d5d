-- Claim one suspect, which this worker runs with nothing beside it (tenon.claim_alone). The row is that of claim.sql.
--   $1 uuid  worker, must have the turn    $2 text[]  queues    $3 text[]  kinds
SELECT t.id, t.claims, t.claim_key, t.timeout_ms, t.failures, t.max_attempts, t.priority, t.queue,
       t.kind, t.trace, t.payload, 1 + t.failures + t.crashes, t.progress,
       CASE WHEN t.step_count IS NOT NULL THEN tenon.steps_of(t.id) END,
       (date_part('epoch', t.start_time - greatest(t.run_at, t.created_at)) * 1000000)::bigint
FROM tenon.claim_alone($1::uuid, $2::text[], $3::text[]) t;
