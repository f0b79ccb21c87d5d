-- The kinds that have tasks, settings or workers, by name: their defaults, how many tasks they have by state, how many workers serve
-- them, whether they are paused.
--   $1 bigint  how many rows to count, in all    $2 bigint  how many queues    $3 integer  how many kinds
-- scans
WITH depth AS MATERIALIZED (
    SELECT d.kind, sum(d.ready) AS ready, sum(d.running) AS running, sum(d.scheduled) AS scheduled, sum(d.retrying) AS retrying,
           sum(d.blocked) AS blocked, sum(d.dead) AS dead, bool_or(d.at_least) AS at_least, array_agg(DISTINCT d.queue) AS queues
    FROM tenon.queue_depth($1::bigint, $2::bigint) d WHERE d.kind IS NOT NULL AND d.kind <> '(other)' GROUP BY d.kind
), served AS MATERIALIZED (
    SELECT k.kind, count(*) AS n FROM tenon.worker w CROSS JOIN unnest(w.kinds) k (kind) WHERE w.ended_at IS NULL GROUP BY k.kind
), names AS (
    SELECT kind AS name FROM depth UNION SELECT kind FROM served UNION SELECT name FROM tenon.kind UNION SELECT name FROM tenon.paused WHERE what = 'kind'
)
SELECT json_build_object('kind', n.name, 'ready', coalesce(d.ready, 0), 'running', coalesce(d.running, 0), 'scheduled', coalesce(d.scheduled, 0),
    'retrying', coalesce(d.retrying, 0), 'blocked', coalesce(d.blocked, 0), 'dead', coalesce(d.dead, 0), 'at_least', coalesce(d.at_least, false),
    'queues', d.queues[1:10], 'workers', coalesce(s.n, 0), 'paused', p.what IS NOT NULL, 'paused_by', p.paused_by, 'paused_why', p.paused_why,
    'defaults', CASE WHEN k.name IS NOT NULL THEN to_jsonb(k) - 'name' - 'limited' - 'timeout_min_ms' END)::text
FROM names n
LEFT JOIN depth d ON d.kind = n.name
LEFT JOIN served s ON s.kind = n.name
LEFT JOIN tenon.kind k ON k.name = n.name
LEFT JOIN tenon.paused p ON p.what = 'kind' AND p.name = n.name
ORDER BY n.name
LIMIT $3::integer;
