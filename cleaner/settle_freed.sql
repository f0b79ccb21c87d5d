-- Tasks that were let go, as they are after that commit: for those that are due somebody must be woken.
--   $1 bigint[]  ids
SELECT t.id, t.queue, t.kind, t.due
FROM unnest($1::bigint[]) AS f (id)
CROSS JOIN LATERAL (
    SELECT id, queue, kind, run_at <= clock_timestamp() AS due
    FROM tenon.task
    WHERE id = f.id AND start_time IS NULL
    OFFSET 0
) t;
