-- What an act would change: how many tasks, and a few of them, or those whose ids are given; at least one row. In each,
-- where to continue, because the reading is bounded by time; NULL: that was all.
--   $1 jsonb  the filter        $2 text     the act    $3 bigint[]  ids to show, whether they fit or not
--   $4 bigint only ids above it $5 integer  for how many ms to read
WITH f AS MATERIALIZED (
    SELECT ids, next FROM tenon.find($1::jsonb, $2, $4::bigint, 100000, $5::integer)
), shown AS (
    SELECT unnest(ids[1:3]) AS id FROM f
    UNION
    SELECT unnest($3::bigint[])
)
SELECT cardinality(f.ids), f.next, s.id, s.id = ANY (f.ids), t.state, t.kind, t.queue, regexp_replace(left(tenon.error_line(t.last_error), 61), '^(.{57}).{4}$', E'\\1...')
FROM f
LEFT JOIN shown s ON true
LEFT JOIN LATERAL (SELECT * FROM tenon.tasks WHERE id = s.id LIMIT 1) t ON true
ORDER BY s.id;
