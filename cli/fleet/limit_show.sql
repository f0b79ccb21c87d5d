-- All about one limit or key: in the first row one JSON object, then what people read, line by line: its name and its
-- text, NULL where there is none.
-- scans
--   $1 text  the limit
SELECT t.name, t.text
FROM (SELECT v.*, p.paused_by, p.paused_at, p.paused_why, 'YYYY-MM-DD HH24:MI:SS "UTC"' AS form
      FROM tenon.limits v
      LEFT JOIN tenon.paused p ON p.what = 'limit' AND p.name IN (v.key, split_part(v.key, ':', 1))
      WHERE v.key = $1
      ORDER BY p.name DESC
      LIMIT 1) l
CROSS JOIN LATERAL (VALUES
    ('json', (to_jsonb(l) - 'form' - 'per' || jsonb_build_object('per_ms', (extract(epoch FROM l.per) * 1000)::bigint))::text),
    ('limit', l.key),
    ('rule', CASE WHEN l.rule IS NULL THEN 'none' WHEN l.rule <> l.key THEN l.rule END),
    ('at once', l.max_running::text),
    ('starts', l.max_starts || ' in ' || l.per),
    ('strict', CASE WHEN l.strict THEN 'one after the other' || CASE WHEN l.dead > 0 THEN format(', %s dead block', l.dead) ELSE '' END END),
    ('fair', CASE WHEN l.fair THEN 'weight ' || l.weight END),
    ('until', to_char(l.until AT TIME ZONE 'UTC', l.form)),
    ('paused', CASE WHEN l.paused THEN concat_ws(' ', 'by', l.paused_by, to_char(l.paused_at AT TIME ZONE 'UTC', '"at" ' || l.form), l.paused_why) END),
    ('running', l.running::text),
    ('ready', l.ready::text),
    ('waiting', l.waiting::text)) AS t (name, text);
