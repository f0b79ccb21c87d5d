-- The tasks and schedules of the original that would run in this copy; NULL = none, or this is not a copy.
SELECT CASE WHEN tenon.copied() IS NOT NULL AND t.n + s.n > 0 THEN
           concat(least(t.n, 10000), CASE t.n WHEN 1 THEN ' task' WHEN 10001 THEN ' or more tasks' ELSE ' tasks' END,
                  ' and ', s.n, CASE s.n WHEN 1 THEN ' schedule' ELSE ' schedules' END) END
FROM (SELECT count(*) AS n FROM (SELECT FROM tenon.task LIMIT 10001) l) t,
     (SELECT count(*) AS n FROM tenon.schedule) s;
