-- finish.sql for when a row was locked by somebody else: what is locked is left out, stays ours, and is returned.
-- Parameters and result as there.
WITH mine AS MATERIALIZED (
    SELECT t.id, f.reply
    FROM unnest($1::bigint[], $2::bigint[], $3::jsonb[]) AS f (id, key, reply)
    JOIN tenon.task t ON t.id BETWEEN f.id AND f.id
    WHERE t.claim_key = f.key
    ORDER BY f.id
    FOR UPDATE OF t SKIP LOCKED
), gone AS (
    DELETE FROM tenon.task t
    USING mine m
    WHERE t.id BETWEEN m.id AND m.id
    RETURNING t.id, t.run_at, t.start_time, t.created_at, t.worker_id, t.claims, t.failures, t.crashes,
              t.priority, t.queue, t.kind, t.payload, t.unique_key, t.trace, t.last_error, t.enqueued_by, t.tags, m.reply,
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
