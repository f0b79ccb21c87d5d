-- Attempts started, ended and failed, and tasks done and dead, in the last hours by step; the mean wait of started attempts and the mean
-- run time of ended ones, in seconds; when workers started, the newest 20; and when
-- a version of tenon or a release of the handlers first ran, the newest 20. Steps without any are left out.
--   $1 integer  minutes of a step    $2 integer  how many steps    $3 text  the queue; NULL = all    $4 text  the kind; NULL = all
WITH span AS MATERIALIZED (  -- to the end of this minute, or hour: what is older than a day has the beginning of its hour
    SELECT CASE WHEN $1::integer >= 60 THEN date_trunc('hour', statement_timestamp(), 'UTC') + interval '1 h'
                ELSE date_trunc('minute', statement_timestamp()) + interval '1 min' END - $1::integer * $2::integer * interval '1 min' AS since
), step AS MATERIALIZED (
    SELECT (extract(epoch FROM m.minute - s.since) / 60)::integer / $1::integer AS step, sum(m.started) AS started, sum(m.ended) AS ended,
           sum(m.done) AS done, sum(m.failed) AS failed, sum(m.dead) AS dead, sum(m.wait_us) AS wait_us, sum(m.run_us) AS run_us
    FROM tenon.minute m, span s
    WHERE m.minute >= s.since AND ($3::text IS NULL OR m.queue = $3::text) AND ($4::text IS NULL OR m.kind = $4::text)
    GROUP BY 1
)
SELECT json_build_object('since', (SELECT since FROM span), 'step_s', $1::integer * 60, 'steps', $2::integer,
    'started', coalesce(json_object_agg(step, started) FILTER (WHERE started > 0), '{}'),
    'done', coalesce(json_object_agg(step, done) FILTER (WHERE done > 0), '{}'),
    'failed', coalesce(json_object_agg(step, failed) FILTER (WHERE failed > 0), '{}'),
    'dead', coalesce(json_object_agg(step, dead) FILTER (WHERE dead > 0), '{}'),
    'wait_s', coalesce(json_object_agg(step, round(wait_us / started / 1e6, 6)) FILTER (WHERE started > 0), '{}'),
    'run_s', coalesce(json_object_agg(step, round(run_us / ended / 1e6, 6)) FILTER (WHERE ended > 0), '{}'),
    'workers', (SELECT coalesce(json_agg(json_build_object('at', w.started_at, 'host', w.host, 'pid', w.pid) ORDER BY w.started_at), '[]')
                FROM (SELECT w.started_at, w.host, w.pid FROM tenon.worker w, span s
                      WHERE w.started_at >= s.since ORDER BY w.started_at DESC LIMIT 20) w),
    'releases', (SELECT coalesce(json_agg(json_build_object('at', r.at, 'version', r.version, 'release', r.release) ORDER BY r.at), '[]')
                 FROM (SELECT w.version, w.release, min(w.started_at) AS at FROM tenon.worker w GROUP BY w.version, w.release
                       HAVING min(w.started_at) >= (SELECT since FROM span) ORDER BY 3 DESC LIMIT 20) r))::text
FROM step;
