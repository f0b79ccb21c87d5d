-- Kinds that nobody handles: due tasks, in a queue that is not paused, which no living worker takes.
-- Tasks are looked for as in status_queues.sql, within the same bounds.
--   $1 bigint  how many due rows to read, in all    $2 bigint  how many queues to look at, and rows to return
WITH shown AS MATERIALIZED (
    SELECT queue FROM tenon.queue_names($2::bigint) AS queue
), share AS MATERIALIZED (
    SELECT greatest($1::bigint / greatest(count(*), 1), 100) AS rows FROM shown
)
SELECT s.queue, l.kind, count(*),
       json_build_object('queue', s.queue, 'kind', l.kind, 'ready', count(*))::text
FROM shown s
CROSS JOIN LATERAL (
    SELECT t.kind, t.start_time
    FROM generate_series(9, 0, -1) p
    CROSS JOIN LATERAL (SELECT kind, start_time FROM tenon.task
                        WHERE queue = s.queue AND priority = p AND run_at <= statement_timestamp()
                        ORDER BY run_at LIMIT (SELECT rows FROM share)) t
    LIMIT (SELECT rows FROM share)) l
WHERE l.start_time IS NULL
  AND NOT EXISTS (SELECT FROM tenon.paused p WHERE p.what = 'queue' AND p.name = s.queue)
  AND NOT EXISTS (SELECT FROM tenon.paused p WHERE p.what = 'kind' AND p.name = l.kind)
GROUP BY s.queue, l.kind
HAVING NOT EXISTS (SELECT FROM tenon.worker w
                   WHERE w.ended_at IS NULL AND w.state = 'alive'
                     AND s.queue = ANY (w.queues) AND l.kind = ANY (w.kinds))
ORDER BY s.queue, l.kind
LIMIT $2::bigint;
