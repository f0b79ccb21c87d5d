-- Change an existing schedule; what the changes do not name stays. No row: there is none of this name.
--   $1 text  its name    $2 jsonb  the changes: cron or every_ms, zone, catch_up, overlap, queue, priority, max_attempts, timeout_ms
SELECT json_build_object('name', s.name, 'act', 'set', 'task', NULL, 'next_at', n)
FROM tenon.schedule s
CROSS JOIN LATERAL (SELECT to_jsonb(s) - CASE WHEN $2::jsonb ?| '{cron,every_ms}' THEN '{cron,every_ms}'::text[] ELSE '{}' END || $2::jsonb AS w) c
CROSS JOIN LATERAL tenon.set_schedule(
    s.name, cron => w->>'cron', every => (w->>'every_ms')::bigint * interval '1 ms', kind => s.kind, payload => s.payload,
    zone => w->>'zone', catch_up => w->>'catch_up', overlap => w->>'overlap', queue => w->>'queue', priority => (w->>'priority')::integer,
    max_attempts => (w->>'max_attempts')::integer, timeout => (w->>'timeout_ms')::bigint * interval '1 ms', source => s.source) n
WHERE s.name = $1;
