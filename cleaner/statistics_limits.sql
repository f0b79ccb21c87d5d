-- For /metrics: limits, and how many tasks wait in line at each, in those of its keys; counted to 1,000.
--   $1 bigint  how many limits
SELECT l.name, l.paused, w.n
FROM (SELECT name, paused FROM tenon.limit ORDER BY name LIMIT $1::bigint) l
CROSS JOIN LATERAL (
    SELECT count(*) AS n
    FROM (SELECT FROM tenon.limit_task WHERE state = 'waits' AND key = l.name
          UNION ALL
          SELECT FROM tenon.limit_task WHERE state = 'waits' AND key >= l.name || ':' AND key < l.name || ';'
          LIMIT 1000) t
) w
ORDER BY l.name;
