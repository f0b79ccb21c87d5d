-- What is set for queues.
--   $1 text  one queue; NULL = all
-- scans
SELECT name, NULL, q.priority, q.max_attempts, NULL, make_interval(secs => q.timeout_ms / 1000.0), q.retry, NULL,
       'paused by ' || p.paused_by || coalesce(': ' || p.paused_why, ''),
       (coalesce(to_jsonb(q), to_jsonb(jsonb_populate_record(NULL::tenon.queue, '{"limited": false}'))) || jsonb_build_object('name', name, 'paused', p.what IS NOT NULL, 'paused_by', p.paused_by, 'paused_at', p.paused_at,
                                         'paused_why', p.paused_why))::text
FROM (SELECT * FROM tenon.paused WHERE what = 'queue') p
FULL JOIN tenon.queue q USING (name)
WHERE $1::text IS NULL OR name = $1
ORDER BY name;
