-- All about one flow: in the first row one JSON object, then what people read, line by line: its name and its text, NULL
-- where there is none; and in each row how many tasks it has.
--   $1 bigint  the flow
SELECT l.name, l.text, f.tasks
FROM (SELECT f.*, 'YYYY-MM-DD HH24:MI:SS "UTC"' AS form FROM tenon.flows f WHERE f.id = $1::bigint) f
CROSS JOIN LATERAL (VALUES
    ('json', (to_jsonb(f) - 'form')::text),
    ('flow', f.id::text),
    ('name', f.name),
    ('state', f.state),
    ('tasks', f.tasks || coalesce(': ' || (SELECT string_agg(s.n || ' ' || s.state, ', ') FROM (VALUES
        (f.blocked, 'blocked'), (f.waiting, 'waiting'), (f.running, 'running'), (f.done, 'done'), (f.dead, 'dead'),
        (f.cancelled, 'cancelled'), (f.expired, 'expired')) AS s (n, state) WHERE s.n > 0), '')),
    ('made', format('%s by %s', to_char(f.made_at, f.form), f.made_by)),
    ('ended', to_char(f.ended_at, f.form)),
    ('cancelled', format('%s by %s', to_char(f.cancelled_at, f.form), f.cancelled_by)),
    ('on done', f.on_done || coalesce(': task ' || f.done_task, '')),
    ('on dead', f.on_dead || coalesce(': task ' || f.dead_task, '')),
    ('on end', f.on_end || coalesce(': task ' || f.end_task, ''))) AS l (name, text)
WHERE l.name <> 'cancelled' OR f.cancelled_at IS NOT NULL;
