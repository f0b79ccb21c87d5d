-- Limits and the keys in use, by name. It counts what waits.
-- scans
--   $1 integer  at most this many, and one more to show that there are more
-- The last column is the row as JSON.
SELECT l.key, coalesce(l.max_running::text, '-'), coalesce(l.max_starts || '/' || l.per, '-'),
       l.running, l.ready, l.waiting,
       concat_ws(', ', CASE WHEN l.paused THEN 'paused' END, CASE WHEN l.strict THEN 'strict' END,
                 CASE WHEN l.dead > 0 THEN l.dead || ' dead' END, CASE WHEN l.fair THEN 'fair, weight ' || l.weight END,
                 to_char(l.until AT TIME ZONE 'UTC', '"until" YYYY-MM-DD HH24:MI:SS "UTC"'), CASE WHEN l.rule IS NULL THEN 'no limit' END),
       json_build_object('key', l.key, 'rule', l.rule, 'max_running', l.max_running, 'max_starts', l.max_starts,
                         'per_ms', (extract(epoch FROM l.per) * 1000)::bigint, 'strict', l.strict, 'fair', l.fair, 'weight', l.weight,
                         'running', l.running, 'ready', l.ready, 'waiting', l.waiting, 'dead', l.dead, 'paused', l.paused, 'until', l.until)
FROM tenon.limits l
ORDER BY l.key
LIMIT $1::integer + 1;
