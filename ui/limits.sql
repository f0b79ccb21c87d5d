-- Limits, and keys that unfinished tasks have, by name, each as JSON: what holds, and how many tasks were let go and wait.
-- From one key to the next by the index, and counted to a bound, so that what waits costs nothing. In each row, of which there
-- is at least one, whether there are more keys. A kind or a queue has no other keys, whatever colons its name has.
--   $1 text  only names that begin so    $2 integer  how many limits, and how many keys    $3 integer  how far to count
WITH RECURSIVE line AS (
    (SELECT l.key FROM tenon.limit_task l WHERE l.key >= $1::text ORDER BY l.key LIMIT 1)
    UNION ALL
    SELECT (SELECT l.key FROM tenon.limit_task l WHERE l.key > n.key ORDER BY l.key LIMIT 1)
    FROM line n WHERE starts_with(n.key, $1::text)
), used AS MATERIALIZED (
    SELECT key FROM line WHERE starts_with(key, $1::text) LIMIT $2::integer + 1
), shown AS MATERIALIZED (
    SELECT key FROM (SELECT key FROM used LIMIT $2::integer) u
    UNION
    (SELECT name FROM tenon.limit WHERE starts_with(name, $1::text) ORDER BY name LIMIT $2::integer)
    UNION
    (SELECT name FROM tenon.paused WHERE what = 'limit' AND starts_with(name, $1::text) ORDER BY name LIMIT $2::integer)
)
SELECT (SELECT count(*) > $2::integer FROM used),
       CASE WHEN k.key IS NOT NULL THEN json_build_object(
           'key', k.key, 'is_limit', o.name IS NOT NULL,
           'is_key', (SELECT true FROM tenon.limit_task t WHERE t.key = k.key LIMIT 1) IS NOT NULL, 'rule', r.rule, 'max_running', r.max_running, 'max_starts', r.max_starts,
           'per_ms', (extract(epoch FROM r.per) * 1000)::bigint, 'strict', r.strict, 'fair', r.share IS NOT NULL, 'weight', r.weight, 'own', CASE WHEN l.name IS NOT NULL THEN to_jsonb(l) - 'name' END,
           'held', held.n, 'waiting', waits.n, 'dead', dead.n, 'paused', r.paused,
           'paused_here', p.name IS NOT NULL, 'paused_by', p.paused_by, 'paused_why', p.paused_why, 'until', r.until)::text END
FROM (SELECT) one
LEFT JOIN shown k ON true
LEFT JOIN tenon.limit l ON l.name = k.key
LEFT JOIN tenon.paused p ON p.what = 'limit' AND p.name = k.key
CROSS JOIN LATERAL (SELECT coalesce(l.name, p.name) AS name) o
LEFT JOIN LATERAL tenon.limit_rule(k.key) r ON true
CROSS JOIN LATERAL (SELECT count(*) AS n FROM (
    SELECT FROM tenon.limit_task WHERE state IN ('held', 'ending') AND key = k.key
    UNION ALL
    SELECT FROM tenon.limit_task WHERE state IN ('held', 'ending') AND key >= o.name || ':' AND key < o.name || ';' AND o.name !~ '^(kind|queue)/'
    LIMIT $3::integer) t) held
CROSS JOIN LATERAL (SELECT count(*) AS n FROM (
    SELECT FROM tenon.limit_task WHERE state = 'waits' AND key = k.key
    UNION ALL
    SELECT FROM tenon.limit_task WHERE state = 'waits' AND key >= o.name || ':' AND key < o.name || ';' AND o.name !~ '^(kind|queue)/'
    LIMIT $3::integer) t) waits
CROSS JOIN LATERAL (SELECT count(*) AS n FROM (
    SELECT FROM tenon.limit_task WHERE state = 'dead' AND key = k.key LIMIT $3::integer) t) dead
ORDER BY k.key;
