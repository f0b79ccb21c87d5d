-- One row per worker that has not ended: what it is, whether it holds its presence lock, and how many
-- tasks it runs. Tasks are looked for as in core/tasks/status_queues.sql, within the same bounds.
--   $1 bigint  how many due rows to read, in all    $2 bigint  how many queues to look at, and workers
WITH shown AS MATERIALIZED (
    SELECT queue FROM tenon.queue_names($2::bigint) AS queue
), share AS MATERIALIZED (
    SELECT greatest($1::bigint / greatest(count(*), 1), 100) AS rows FROM shown
), running AS MATERIALIZED (
    SELECT l.worker_id, count(*) AS n
    FROM shown s
    CROSS JOIN LATERAL (
        SELECT t.worker_id
        FROM generate_series(9, 0, -1) p
        CROSS JOIN LATERAL (SELECT worker_id FROM tenon.task
                            WHERE queue = s.queue AND priority = p AND run_at <= statement_timestamp()
                            ORDER BY run_at LIMIT (SELECT rows FROM share)) t
        LIMIT (SELECT rows FROM share)) l
    WHERE l.worker_id IS NOT NULL
    GROUP BY l.worker_id
), held AS MATERIALIZED (
    SELECT key FROM tenon.lock WHERE counts
)
SELECT l.*, array_to_string(l.queues, ','), array_to_string(l.kinds, ','), row_to_json(l)::text
FROM tenon.worker w
LEFT JOIN running r ON r.worker_id = w.id
CROSS JOIN LATERAL (
    SELECT w.id, w.host, w.pid, w.state,
           EXISTS (SELECT FROM held h WHERE h.key = w.lock_key) AS present,
           coalesce(r.n, 0) AS running, w.slots,
           to_char(w.started_at, 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS since, w.queues, w.kinds, w.backing_off,
           (SELECT string_agg(format('%s: %s', array_to_string(s.kinds, ','), s.text), E'\n') FROM tenon.starting_of(w.starting) s) AS starting,
           w.version, w.release
) l
WHERE w.ended_at IS NULL
ORDER BY w.started_at
LIMIT $2::bigint;
