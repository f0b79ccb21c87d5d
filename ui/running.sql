-- What the workers run: the oldest first. Tasks are looked for as in core/tasks/status_queues.sql, within the same bounds.
--   $1 bigint  how many due rows to read, in all    $2 bigint  how many queues to look at    $3 integer  how many
WITH served AS MATERIALIZED (
    SELECT queue FROM tenon.queue_names($2::bigint) AS queue
), share AS MATERIALIZED (
    SELECT greatest($1::bigint / greatest(count(*), 1), 100) AS rows FROM served
)
SELECT json_build_object('worker', t.worker_id, 'id', t.id, 'kind', t.kind, 'queue', s.queue, 'start_time', t.start_time,
                         'attempt', 1 + t.failures + t.crashes, 'timeout_ms', t.timeout_ms)::text
FROM served s
CROSS JOIN LATERAL (
    SELECT l.* FROM (
        SELECT d.id, d.kind, d.worker_id, d.start_time, d.failures, d.crashes, d.timeout_ms
        FROM generate_series(9, 0, -1) p
        CROSS JOIN LATERAL (SELECT * FROM tenon.task
                            WHERE queue = s.queue AND priority = p AND run_at <= statement_timestamp()
                            ORDER BY run_at LIMIT (SELECT rows FROM share)) d
        LIMIT (SELECT rows FROM share)) l
    WHERE l.start_time IS NOT NULL) t
ORDER BY t.start_time
LIMIT $3::integer;
