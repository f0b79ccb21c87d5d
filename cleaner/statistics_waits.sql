-- For /metrics: how long tasks were ready before they were started, of those that ended since the last time, among the
-- newest ids of the history; so a fast fleet is counted in part. What ended a moment ago is left to the next time, as
-- its neighbours may not have committed.
--   $1 bigint  since when, microseconds since 1970; NULL = from now on
--   $2 bigint  how many ids    $3 float8[]  upper bounds of the buckets, in seconds
-- The first column is what $1 is next; where nothing ended, the others are NULL.
WITH span AS MATERIALIZED (
    SELECT statement_timestamp() - interval '1 s' AS until, timestamptz 'epoch' + $1::bigint * interval '1 microsecond' AS since
), newest AS MATERIALIZED (
    SELECT queue, kind, finished_at, extract(epoch FROM start_time - greatest(run_at, created_at))::float8 AS wait_s
    FROM tenon.finished
    WHERE $1::bigint IS NOT NULL
    ORDER BY id DESC
    LIMIT $2::bigint
)
SELECT (extract(epoch FROM s.until) * 1000000)::bigint, e.*
FROM span s
LEFT JOIN (SELECT n.queue, n.kind, width_bucket(greatest(n.wait_s, 0), $3::float8[]) AS bucket, count(*),
                  (sum(greatest(n.wait_s, 0)) * 1000000)::bigint AS sum_us
           FROM newest n, span
           WHERE n.wait_s IS NOT NULL AND n.finished_at > span.since AND n.finished_at <= span.until
           GROUP BY 1, 2, 3) e ON true;
