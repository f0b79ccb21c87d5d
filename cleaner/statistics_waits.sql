-- For /metrics: how long tasks were ready before they were started, of those that ended since the last time: among the
-- newest ids of the history, where a slow worker's rows may be in any block, and in the last blocks, where those are that
-- waited long. So a fast fleet is counted in part. What ended a moment ago is left to the next time, as its neighbours may
-- not have committed.
--   $1 bigint  since when, microseconds since 1970; NULL = from now on
--   $2 bigint  how many ids    $3 integer  how many blocks    $4 float8[]  upper bounds of the buckets, in seconds
-- The first column is what $1 is next; where nothing ended, the others are NULL.
WITH span AS MATERIALIZED (
    SELECT statement_timestamp() - interval '1 s' AS until, timestamptz 'epoch' + $1::bigint * interval '1 microsecond' AS since
), newest AS MATERIALIZED (
    SELECT id, queue, kind, created_at, run_at, start_time, finished_at
    FROM tenon.history
    WHERE $1::bigint IS NOT NULL
    ORDER BY id DESC
    LIMIT $2::bigint
), last AS MATERIALIZED (
    SELECT id, queue, kind, created_at, run_at, start_time, finished_at
    FROM tenon.history
    WHERE ctid = ANY ((SELECT tenon.ended_tids(since, $3::integer, 0) FROM span)::tid[])
      AND finished_at > timestamptz 'epoch' + $1::bigint * interval '1 microsecond'
), ended AS (
    SELECT e.queue, e.kind, greatest(extract(epoch FROM e.start_time - greatest(e.run_at, e.created_at))::float8, 0) AS wait_s
    FROM (SELECT * FROM newest WHERE finished_at > (SELECT since FROM span) UNION SELECT * FROM last) e, span
    WHERE e.start_time IS NOT NULL AND e.finished_at > span.since AND e.finished_at <= span.until
)
SELECT (extract(epoch FROM s.until) * 1000000)::bigint, e.*
FROM span s
LEFT JOIN (SELECT queue, kind, width_bucket(wait_s, $4::float8[]) AS bucket, count(*), (sum(wait_s) * 1000000)::bigint AS sum_us
           FROM ended
           GROUP BY 1, 2, 3) e ON true;
