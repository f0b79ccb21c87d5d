-- All about one schedule: in the first row one JSON object, then what people read, line by line: its name and its text,
-- NULL where there is none.
--   $1 text  the schedule
SELECT l.name, l.text
FROM (SELECT s.*, 'YYYY-MM-DD HH24:MI:SS "UTC"' AS form FROM tenon.schedules s WHERE s.name = $1) s
CROSS JOIN LATERAL (VALUES
    ('json', (to_jsonb(s) - 'form' - 'every' || jsonb_build_object('every_ms', (extract(epoch FROM s.every) * 1000)::bigint))::text),
    ('schedule', s.name),
    ('state', s.state || coalesce(' by ' || s.paused_by || to_char(s.paused_at, '" since "' || s.form) || coalesce(': ' || s.paused_why, ''), '')),
    ('cron', s.cron),
    ('every', s.every::text),
    ('zone', CASE WHEN s.cron IS NOT NULL THEN s.zone END),
    ('next tick', to_char(s.next_at, s.form) || CASE WHEN s.zone <> 'UTC' AND s.cron IS NOT NULL
        THEN to_char(s.next_at AT TIME ZONE s.zone, '" (there "HH24:MI")"') ELSE '' END),
    ('last tick', to_char(s.last_at, s.form)),
    ('last task', s.last_task || coalesce(', ' || s.last_state, '')),
    ('last error', s.last_error),
    ('skipped', CASE WHEN s.skipped > 0 THEN s.skipped || ' ticks, because the previous task had not ended' END),
    ('catch up', s.catch_up),
    ('overlap', s.overlap),
    ('kind', s.kind),
    ('queue', s.queue),
    ('priority', s.priority::text),
    ('max attempts', s.max_attempts::text),
    ('timeout', (s.timeout_ms * interval '1 ms')::text),
    ('file', s.source),
    ('set', format('%s by %s', to_char(s.set_at, s.form), s.set_by)),
    ('payload', s.payload::text)) AS l (name, text);
