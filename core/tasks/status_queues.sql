-- One row per queue: what waits in it, and since when.
-- Counts are bounded: at most $1 rows that are due and as many that are not are read, of each queue its
-- share, and where that was not all, `at_least` says so. A row of a backlog of millions is never
-- read; what runs is found because the oldest due rows are claimed first.
--   $1 bigint  how many rows to read, in all    $2 bigint  how many queues
WITH dead AS MATERIALIZED (
    SELECT queue, count(*) AS n
    FROM (SELECT queue FROM tenon.dead ORDER BY dead_at DESC LIMIT $1::bigint) d GROUP BY queue
), shown AS MATERIALIZED (
    SELECT queue FROM tenon.queue_names($2::bigint) AS queue
    UNION SELECT queue FROM (SELECT queue FROM dead LIMIT $2::bigint) d
), share AS MATERIALIZED (
    SELECT greatest($1::bigint / greatest(count(*), 1), 100) AS rows FROM shown
)
SELECT r.*, row_to_json(r)::text
FROM shown s
CROSS JOIN share
LEFT JOIN dead d ON d.queue = s.queue
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE l.start_time IS NULL) AS ready,
           count(*) FILTER (WHERE l.start_time IS NOT NULL) AS running, count(*) AS looked_at
    FROM (SELECT t.start_time
          FROM generate_series(9, 0, -1) p
          CROSS JOIN LATERAL (SELECT start_time FROM tenon.task
                              WHERE queue = s.queue AND priority = p AND run_at <= statement_timestamp()
                              ORDER BY run_at LIMIT (SELECT rows FROM share)) t
          LIMIT (SELECT rows FROM share)) l
) due
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE l.run_at < 'infinity' AND l.failed = 0) AS scheduled,
           count(*) FILTER (WHERE l.run_at < 'infinity' AND l.failed > 0) AS retrying,
           count(*) FILTER (WHERE l.run_at = 'infinity') AS blocked, count(*) AS looked_at
    FROM (SELECT t.failed, t.run_at
          FROM generate_series(9, 0, -1) p
          CROSS JOIN LATERAL (SELECT failures + crashes AS failed, run_at FROM tenon.task
                              WHERE queue = s.queue AND priority = p AND run_at > statement_timestamp()
                              ORDER BY run_at LIMIT (SELECT rows FROM share)) t
          LIMIT (SELECT rows FROM share)) l
) ahead
LEFT JOIN LATERAL (
    SELECT min(t.run_at) AS run_at
    FROM generate_series(9, 0, -1) p
    CROSS JOIN LATERAL (SELECT run_at FROM tenon.task
                        WHERE queue = s.queue AND priority = p AND run_at <= statement_timestamp()
                          AND start_time IS NULL
                        ORDER BY run_at LIMIT 1) t
) oldest ON true
CROSS JOIN LATERAL (
    SELECT s.queue, EXISTS (SELECT FROM tenon.paused p WHERE p.what = 'queue' AND p.name = s.queue) AS paused, due.ready,
           extract(epoch FROM statement_timestamp() - oldest.run_at)::bigint AS oldest_ready_s,
           due.running, ahead.scheduled, ahead.retrying, ahead.blocked, coalesce(d.n, 0) AS dead,
           due.looked_at >= share.rows OR ahead.looked_at >= share.rows
           OR coalesce((SELECT sum(n) FROM dead) >= $1::bigint, false) AS at_least
) r
ORDER BY s.queue;
