-- What is set for kinds.
--   $1 text  one kind; NULL = all
-- scans
SELECT name, k.queue, k.priority, k.max_attempts, k.max_crashes, make_interval(secs => k.timeout_ms / 1000.0), k.retry, k.on_dead,
       'paused by ' || p.paused_by || coalesce(': ' || p.paused_why, ''),
       (coalesce(to_jsonb(k), to_jsonb(jsonb_populate_record(NULL::tenon.kind, '{"limited": false}'))) || jsonb_build_object('name', name, 'paused', p.what IS NOT NULL, 'paused_by', p.paused_by, 'paused_at', p.paused_at,
                                         'paused_why', p.paused_why))::text
FROM (SELECT * FROM tenon.paused WHERE what = 'kind') p
FULL JOIN tenon.kind k USING (name)
WHERE $1::text IS NULL OR name = $1
ORDER BY name;
