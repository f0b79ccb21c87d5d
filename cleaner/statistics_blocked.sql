-- For /metrics: how many blocked tasks wait for parents, at limits, for their time (and at a limit then), for signals, and for their
-- turn to run alone; and how many flows have not ended. Each is counted to a bound.
--   $1 bigint  how far to count
SELECT (SELECT count(*) FROM (SELECT task FROM tenon.flow_wait GROUP BY task ORDER BY task LIMIT $1::bigint) w),
       (SELECT count(*) FROM (SELECT FROM tenon.limit_task WHERE state = 'waits' LIMIT $1::bigint) l),
       (SELECT count(*) FROM (SELECT FROM tenon.limit_task WHERE state = 'later' LIMIT $1::bigint) l),
       (SELECT count(*) FROM (SELECT FROM tenon.waiting LIMIT $1::bigint) w),
       (SELECT count(*) FROM (SELECT FROM tenon.suspect WHERE alone AND claims IS NULL LIMIT $1::bigint) s),
       (SELECT count(*) FROM (SELECT FROM tenon.flow WHERE ended_at IS NULL LIMIT $1::bigint) f);
