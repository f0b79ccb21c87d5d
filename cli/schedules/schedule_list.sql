-- The schedules by name: those that are paused or failing too.
--   $1 integer  at most this many
-- The last column is the row as JSON.
SELECT s.name, coalesce(s.cron, 'every ' || e.ms / u.ms || u.unit), s.zone, s.kind,
       to_char(s.next_at, 'YYYY-MM-DD HH24:MI:SS'), s.state,
       concat_ws(', ', to_char(s.last_at, 'YYYY-MM-DD HH24:MI:SS'), 'task ' || s.last_task || coalesce(' ' || s.last_state, '')),
       json_build_object(
           'name', s.name, 'cron', s.cron, 'every_ms', e.ms, 'zone', s.zone, 'kind', s.kind, 'payload', s.payload,
           'queue', s.queue, 'priority', s.priority, 'max_attempts', s.max_attempts, 'timeout_ms', s.timeout_ms,
           'catch_up', s.catch_up, 'overlap', s.overlap, 'state', s.state, 'next_at', s.next_at, 'last_at', s.last_at,
           'last_task', s.last_task, 'last_state', s.last_state, 'skipped', s.skipped, 'last_error', s.last_error,
           'source', s.source)
FROM tenon.schedules s
CROSS JOIN LATERAL (SELECT (extract(epoch FROM s.every) * 1000)::bigint AS ms) e
LEFT JOIN LATERAL (
    SELECT v.ms, v.unit
    FROM (VALUES (86400000, 'd'), (3600000, 'h'), (60000, 'min'), (1000, 's'), (1, 'ms')) AS v (ms, unit)
    WHERE e.ms % v.ms = 0
    ORDER BY v.ms DESC
    LIMIT 1) u ON true
ORDER BY s.name
LIMIT $1::integer;
