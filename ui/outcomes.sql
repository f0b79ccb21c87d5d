-- The last ten ended tasks of each schedule, the newest first, among the newest ended tasks: those that have its name as a tag.
--   $1 bigint  how many ended tasks to read    $2 integer  how many schedules
-- scans
WITH named AS MATERIALIZED (
    SELECT name, kind FROM tenon.schedule ORDER BY name LIMIT $2::integer
), newest AS MATERIALIZED (
    SELECT id, kind, outcome::text AS state, finished_at AS at, tags FROM (
        SELECT id, kind, outcome, finished_at, tags FROM tenon.history ORDER BY id DESC LIMIT $1::bigint) h
    WHERE tags IS NOT NULL
    UNION ALL
    SELECT id, kind, 'dead', dead_at, tags FROM (SELECT id, kind, dead_at, tags FROM tenon.dead ORDER BY dead_at DESC LIMIT $1::bigint) d
    WHERE tags IS NOT NULL
), numbered AS (
    SELECT n.id, s.name, n.state, n.at, row_number() OVER (PARTITION BY s.name ORDER BY n.at DESC) AS place
    FROM newest n CROSS JOIN LATERAL unnest(n.tags) t (tag) JOIN named s ON s.name = t.tag AND s.kind = n.kind
)
SELECT json_build_object('name', n.name, 'outcomes', json_agg(json_build_object('id', n.id, 'state', n.state, 'at', n.at) ORDER BY n.place))::text
FROM numbered n WHERE n.place <= 10 GROUP BY n.name;
