-- finish.sql without a history (tenon.setting.history_keep = 0): the tasks leave the hot table, and that is all; but those
-- that somebody waits for (tenon.await) are kept with their results. Parameters and result as there. What is kept is read
-- from the table again, where the statement's snapshot still has it: to hand all rows on whole costs an eighth more.
WITH gone AS (
    DELETE FROM tenon.task t
    USING unnest($1::bigint[], $2::bigint[], $3::jsonb[]) AS f (id, key, reply)
    WHERE t.id BETWEEN f.id AND f.id AND t.claim_key = f.key
    RETURNING t.id, t.awaited, CASE WHEN t.awaited THEN f.reply END AS reply,
              CASE WHEN tenon.needs_note(t) THEN tenon.record_end_of(t) END
), kept AS (
    INSERT INTO tenon.history (finished_at, id, run_at, start_time, created_at, worker_id, claims, failures,
                                crashes, priority, outcome, queue, kind, payload, unique_key, trace, last_error,
                                enqueued_by, tags, result)
    SELECT clock_timestamp(), t.id, t.run_at, t.start_time, t.created_at, t.worker_id, t.claims, t.failures, t.crashes,
           t.priority, 'done', t.queue, t.kind, t.payload, t.unique_key, t.trace, t.last_error, t.enqueued_by, t.tags,
           g.reply -> 'result'
    FROM gone g JOIN tenon.task t ON t.id BETWEEN g.id AND g.id
    WHERE g.awaited
)
SELECT i
FROM unnest($1::bigint[]) i
WHERE (SELECT count(*) FROM gone) < cardinality($1::bigint[]) AND i NOT IN (SELECT id FROM gone);
