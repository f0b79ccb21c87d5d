-- For /metrics: limits, how many tasks wait in line at each and how many it has let go, in all of its keys, counted to 1,000;
-- and how many of a key it lets run at once. A kind or a queue has no other keys, whatever colons its name has.
--   $1 bigint  how many limits
SELECT l.name, l.paused, w.n, h.n, CASE WHEN l.strict THEN 1 ELSE l.max_running END
FROM (SELECT name, p.what IS NOT NULL AS paused, strict, max_running
      FROM tenon.limit FULL JOIN (SELECT * FROM tenon.paused WHERE what = 'limit') p USING (name)
      ORDER BY name LIMIT $1::bigint) l
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
