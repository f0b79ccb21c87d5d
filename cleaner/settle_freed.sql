-- Tasks that were released, in their state after that commit: workers must be woken for those that are due.
--   $1 bigint[]  ids
SELECT t.id, t.queue, t.kind, t.due
FROM unnest($1::bigint[]) AS f (id)
CROSS JOIN LATERAL (
    SELECT id, queue, kind, run_at <= clock_timestamp() AS due
    FROM tenon.task
    WHERE id = f.id AND start_time IS NULL
    OFFSET 0
) t;
