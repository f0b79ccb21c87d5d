-- The newest dead tasks, grouped by their errors; in each row, of which there is at least one, whether there are more.
--   $1 bigint  how many tasks to read    $2 integer  how many groups
WITH newest AS MATERIALIZED (
    SELECT d.id, d.dead_at, d.queue, d.kind, d.error_class
    FROM tenon.dead d ORDER BY d.dead_at DESC LIMIT $1::bigint
), grouped AS MATERIALIZED (
    SELECT n.error_class, n.kind, count(*) AS n, array_agg(DISTINCT n.queue) AS queues,
           min(n.dead_at) AS first_at, max(n.dead_at) AS last_at, max(n.id) AS newest_id
    FROM newest n GROUP BY n.error_class, n.kind
    ORDER BY count(*) DESC, max(n.dead_at) DESC LIMIT $2::integer
)
SELECT s.n >= $1::bigint, row_to_json(r)::text
FROM (SELECT count(*) AS n FROM newest) s
LEFT JOIN LATERAL (
    SELECT g.error_class, g.kind, g.n, g.queues[1:10] AS queues, g.first_at, g.last_at, g.newest_id,
           left(tenon.error_line(d.last_error), 200) AS error
    FROM grouped g LEFT JOIN tenon.dead d ON d.id = g.newest_id
) r ON true
ORDER BY r.n DESC, r.last_at DESC;
