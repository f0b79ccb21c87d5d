-- Finish many tasks: they leave the hot table for the history in one statement.
--   $1 bigint[]  ids    $2 bigint[]  keys of the claims    $3 jsonb[]  replies; the key "result" of each is kept
-- Returns the ids that were not finished, mostly none: they are not this claim's any more (see verify.sql).
-- `BETWEEN f.id AND f.id` and not `=`: a task can then only be looked up by its id, one by one. With `=` a plan
-- that was made while the table was nearly empty walks all of it (docs/decisions/0014-plans-that-stay-good.md).
WITH gone AS (
    DELETE FROM tenon.task t
    USING unnest($1::bigint[], $2::bigint[], $3::jsonb[]) AS f (id, key, reply)
    WHERE t.id BETWEEN f.id AND f.id AND t.claim_key = f.key
    RETURNING t.id, t.run_at, t.start_time, t.created_at, t.worker_id, t.claims, t.failures, t.crashes,
              t.priority, t.queue, t.kind, t.payload, t.unique_key, t.trace, t.last_error, t.enqueued_by, t.tags, f.reply,
              CASE WHEN tenon.needs_note(t) THEN tenon.record_end_of(t) END
), kept AS (
    INSERT INTO tenon.history (finished_at, id, run_at, start_time, created_at, worker_id, claims, failures,
                                crashes, priority, outcome, queue, kind, payload, unique_key, trace, last_error,
                                enqueued_by, tags, result)
    SELECT clock_timestamp(), id, run_at, start_time, created_at, worker_id, claims, failures, crashes, priority,
           'done', queue, kind, payload, unique_key, trace, last_error, enqueued_by, tags,
           reply -> 'result'
    FROM gone
    RETURNING id
)
SELECT i
FROM unnest($1::bigint[]) i
WHERE (SELECT count(*) FROM kept) < cardinality($1::bigint[]) AND i NOT IN (SELECT id FROM kept);
