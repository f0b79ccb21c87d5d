-- For /metrics: limits, how many tasks wait in line at each and how many it has let go, in all of its keys, counted to 1,000;
-- and how many of a key it lets run at once. A kind or a queue has no other keys, whatever colons its name has.
--   $1 bigint  how many limits
SELECT l.name, l.paused, w.n, h.n, CASE WHEN l.strict THEN 1 ELSE l.max_running END
FROM (SELECT n.name, p.name IS NOT NULL AS paused, r.strict, r.max_running
      FROM ((SELECT name FROM tenon.limit ORDER BY name LIMIT $1::bigint)
            UNION
            (SELECT name FROM tenon.paused WHERE what = 'limit' ORDER BY name LIMIT $1::bigint)
            ORDER BY name LIMIT $1::bigint) n
      LEFT JOIN tenon.limit r ON r.name = n.name
      LEFT JOIN tenon.paused p ON p.what = 'limit' AND p.name = n.name) l
CROSS JOIN LATERAL (
    SELECT count(*) AS n
    FROM (SELECT FROM tenon.limit_task WHERE state = 'waits' AND key = l.name
          UNION ALL
          SELECT FROM tenon.limit_task WHERE state = 'waits' AND key >= l.name || ':' AND key < l.name || ';' AND l.name !~ '^(kind|queue)/'
          LIMIT 1000) t
) w
CROSS JOIN LATERAL (
    SELECT count(*) AS n
    FROM (SELECT FROM tenon.limit_task WHERE state IN ('held', 'ending') AND key = l.name
          UNION ALL
          SELECT FROM tenon.limit_task WHERE state IN ('held', 'ending') AND key >= l.name || ':' AND key < l.name || ';' AND l.name !~ '^(kind|queue)/'
          LIMIT 1000) t
) h
ORDER BY l.name;
