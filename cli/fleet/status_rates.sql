-- Counters since the statistics were reset (two readings make rates), and the current state. Queues that are set up or served come
-- first. Failed attempts are counted in tenon.attempt. Where the count of ready tasks meets its bound, the leading cleaner's last
-- count is used, with its age; without one, the bound is a lower bound.
--   $1 bigint  how far to count    $2 bigint  how many queues
WITH range AS MATERIALIZED (
    SELECT s.queue, p AS priority, t.run_at
    FROM tenon.queue_names($2::bigint) AS s (queue)
    CROSS JOIN generate_series(9, 0, -1) p
    CROSS JOIN LATERAL (SELECT run_at FROM tenon.task
                        WHERE queue = s.queue AND priority = p AND run_at <= statement_timestamp() AND start_time IS NULL
                        ORDER BY run_at LIMIT 1) t
    WHERE NOT EXISTS (SELECT FROM tenon.paused p WHERE p.what = 'queue' AND p.name = s.queue)
), seen AS MATERIALIZED (
    SELECT count(*) AS n, count(*) >= $1::bigint AS bounded
    FROM (SELECT FROM range r
          CROSS JOIN LATERAL (SELECT FROM tenon.task
                              WHERE queue = r.queue AND priority = r.priority AND run_at <= statement_timestamp()
                                AND start_time IS NULL
                              ORDER BY run_at LIMIT $1::bigint) t
          LIMIT $1::bigint) l
), depth AS MATERIALIZED (
    SELECT sum(d.ready) AS n, c.counted_at
    FROM tenon.depth_fresh() c (counted_at) CROSS JOIN tenon.depth d
    WHERE (SELECT bounded FROM seen) AND NOT EXISTS (SELECT FROM tenon.paused p WHERE p.what = 'queue' AND p.name = d.queue)
    GROUP BY c.counted_at
), counted AS (
    SELECT coalesce(d.n, s.n) AS n, s.bounded AND d.n IS NULL AS at_least,
           coalesce(extract(epoch FROM statement_timestamp() - d.counted_at)::bigint, 0) AS age_s
    FROM seen s LEFT JOIN depth d ON d.n >= s.n
), inserted AS (
    SELECT c.relname, sum(pg_stat_get_tuples_inserted(t.relid)) AS n
    FROM pg_class c
    CROSS JOIN LATERAL (SELECT c.oid AS relid UNION ALL SELECT inhrelid FROM pg_inherits WHERE inhparent = c.oid) t
    WHERE c.relnamespace = 'tenon'::regnamespace AND c.relname IN ('task', 'history', 'dead', 'attempt')
    GROUP BY c.relname
)
SELECT to_char(statement_timestamp(), 'HH24:MI:SS'),
       (extract(epoch FROM statement_timestamp()) * 1000)::bigint,
       (SELECT n FROM inserted WHERE relname = 'task'),
       (SELECT n FROM inserted WHERE relname = 'history'),
       (SELECT n FROM inserted WHERE relname = 'attempt'),
       (SELECT n FROM inserted WHERE relname = 'dead'),
       counted.n, counted.at_least, counted.age_s,
       (SELECT extract(epoch FROM statement_timestamp() - min(run_at))::numeric(12, 1) FROM range),
       w.n, w.slots
FROM counted, (SELECT count(*) AS n, coalesce(sum(slots), 0) AS slots FROM tenon.worker WHERE ended_at IS NULL) w;
