-- The newest dead tasks, grouped by their errors: when they died, in 48 steps up to now; how many of the newest 20 had died before and
-- were retried; and what was changed in the half hour before the first. In each row, of which there is at least one, whether there
-- are more.
--   $1 bigint  how many tasks to read    $2 integer  how many groups
WITH newest AS MATERIALIZED (
    SELECT d.id, d.dead_at, d.queue, d.kind, d.error_class, d.failures + d.crashes + (d.reason = 'handler')::integer AS counted
    FROM tenon.dead d ORDER BY d.dead_at DESC LIMIT $1::bigint
), reach AS MATERIALIZED (
    SELECT greatest(extract(epoch FROM statement_timestamp() - min(dead_at)), 48 * 60) / 48 AS step_s FROM newest
), numbered AS MATERIALIZED (
    SELECT n.*, row_number() OVER (PARTITION BY n.error_class, n.kind ORDER BY n.dead_at DESC) AS place,
           least(greatest(47 - floor(extract(epoch FROM statement_timestamp() - n.dead_at) / r.step_s), 0), 47)::integer AS step
    FROM newest n, reach r
), grouped AS MATERIALIZED (
    SELECT n.error_class, n.kind, count(*) AS n, array_agg(DISTINCT n.queue) AS queues,
           min(n.dead_at) AS first_at, max(n.dead_at) AS last_at, max(n.id) AS newest_id
    FROM newest n GROUP BY n.error_class, n.kind
    ORDER BY count(*) DESC, max(n.dead_at) DESC LIMIT $2::integer
), steps AS MATERIALIZED (
    SELECT s.error_class, s.kind, json_object_agg(s.step, s.n) AS steps
    FROM (SELECT error_class, kind, step, count(*) AS n FROM numbered GROUP BY 1, 2, 3) s GROUP BY s.error_class, s.kind
), again AS MATERIALIZED (
    SELECT n.error_class, n.kind, count(*) AS looked, count(*) FILTER (WHERE a.n > n.counted) AS again
    FROM numbered n
    CROSS JOIN LATERAL (SELECT count(*) AS n FROM (SELECT FROM tenon.attempt WHERE task_id = n.id LIMIT 1000) l) a
    WHERE n.place <= 20 GROUP BY n.error_class, n.kind
), workers AS MATERIALIZED (
    SELECT host, pid, started_at FROM tenon.worker ORDER BY started_at DESC LIMIT 1000
), acts AS MATERIALIZED (
    SELECT id, at, who, act FROM tenon.audit ORDER BY id DESC LIMIT 1000
)
SELECT s.n >= $1::bigint, row_to_json(r)::text, (SELECT round(step_s::numeric, 3) FROM reach)
FROM (SELECT count(*) AS n FROM newest) s
LEFT JOIN LATERAL (
    SELECT g.error_class, g.kind, g.n, g.queues[1:10] AS queues, g.first_at, g.last_at, g.newest_id,
           left(tenon.error_line(d.last_error), 200) AS error, t.steps, coalesce(a.looked, 0) AS looked, coalesce(a.again, 0) AS again,
           (SELECT json_build_object('host', w.host, 'pid', w.pid, 'at', w.started_at) FROM workers w
             WHERE w.started_at <= g.first_at AND w.started_at > g.first_at - interval '30 min' ORDER BY w.started_at DESC LIMIT 1) AS worker,
           (SELECT json_build_object('id', c.id, 'at', c.at, 'who', c.who, 'act', c.act) FROM acts c
             WHERE c.at <= g.first_at AND c.at > g.first_at - interval '30 min' ORDER BY c.at DESC LIMIT 1) AS act
    FROM grouped g
    LEFT JOIN tenon.dead d ON d.id = g.newest_id
    LEFT JOIN steps t ON t.error_class IS NOT DISTINCT FROM g.error_class AND t.kind = g.kind
    LEFT JOIN again a ON a.error_class IS NOT DISTINCT FROM g.error_class AND a.kind = g.kind
) r ON true
ORDER BY r.n DESC, r.last_at DESC;
