-- One row per queue: how many tasks it has, by state, and since when the oldest of them is ready (tenon.queue_depth).
--   $1 bigint  how many rows to count now, in all    $2 bigint  how many queues
SELECT r.*, row_to_json(r)::text
FROM (SELECT d.queue, sum(d.ready)::bigint AS ready, sum(d.running)::bigint AS running, sum(d.scheduled)::bigint AS scheduled,
             sum(d.retrying)::bigint AS retrying, sum(d.blocked)::bigint AS blocked, sum(d.dead)::bigint AS dead,
             bool_or(d.at_least) AS at_least, min(d.counted_at) AS counted_at
      FROM tenon.queue_depth($1::bigint, $2::bigint) d GROUP BY d.queue) s
LEFT JOIN LATERAL (
    SELECT min(t.run_at) AS run_at
    FROM generate_series(9, 0, -1) p
    CROSS JOIN LATERAL (SELECT run_at FROM tenon.task
                        WHERE queue = s.queue AND priority = p AND run_at <= statement_timestamp()
                          AND start_time IS NULL
                        ORDER BY run_at LIMIT 1) t
) oldest ON true
CROSS JOIN LATERAL (
    SELECT s.queue, EXISTS (SELECT FROM tenon.paused p WHERE p.what = 'queue' AND p.name = s.queue) AS paused, s.ready,
           extract(epoch FROM statement_timestamp() - oldest.run_at)::bigint AS oldest_ready_s,
           s.running, s.scheduled, s.retrying, s.blocked, s.dead, s.at_least, s.counted_at,
           extract(epoch FROM statement_timestamp() - s.counted_at)::bigint AS age_s
) r
ORDER BY s.queue;
