-- Attempts started, ended and failed, and tasks done and dead, in the last hours by step; the mean wait of started attempts and the mean
-- run time of ended ones, in seconds; how many waited and ran for the times up to each of $5; when workers started, the newest 20; and when
-- a version of tenon or a release of the handlers first ran, the newest 20. Steps without any tasks are left out.
--   $1 integer  minutes of a step    $2 integer  how many steps    $3 text  the queue; NULL = all    $4 text  the kind; NULL = all
--   $5 json     the longest time that is counted at each place of `waits` and `runs`, in seconds; the place after them counts longer ones
WITH span AS MATERIALIZED (  -- whole steps, because old counts are kept by steps (tenon.span_of)
    SELECT date_bin($1::integer * interval '1 min', statement_timestamp(), '2000-01-01 00:00+00') - ($2::integer - 1) * $1::integer * interval '1 min' AS since
), seen AS MATERIALIZED (
    SELECT (extract(epoch FROM m.minute - s.since) / 60)::integer / $1::integer AS step, m.started, m.ended, m.done, m.failed, m.dead, m.wait_us, m.run_us,
           m.waits, m.runs
    FROM tenon.minute m, span s
    WHERE m.minute >= s.since AND ($3::text IS NULL OR m.queue = $3::text) AND ($4::text IS NULL OR m.kind = $4::text)
), step AS MATERIALIZED (
    SELECT step, sum(started) AS started, sum(ended) AS ended, sum(done) AS done, sum(failed) AS failed, sum(dead) AS dead,
           sum(wait_us) AS wait_us, sum(run_us) AS run_us
    FROM seen GROUP BY 1
), spread AS MATERIALIZED (
    SELECT p.step, json_agg(p.wait ORDER BY p.i) AS waits, json_agg(p.run ORDER BY p.i) AS runs
    FROM (SELECT s.step, u.i, coalesce(sum(u.wait), 0) AS wait, coalesce(sum(u.run), 0) AS run
          FROM seen s CROSS JOIN LATERAL unnest(s.waits, s.runs) WITH ORDINALITY u (wait, run, i) GROUP BY 1, 2) p
    GROUP BY 1
)
SELECT json_build_object('since', (SELECT since FROM span), 'step_s', $1::integer * 60, 'steps', $2::integer,
    'now_s', (SELECT extract(epoch FROM statement_timestamp() - s.since)::integer - ($2::integer - 1) * $1::integer * 60 FROM span s),
    'started', coalesce(json_object_agg(step, started) FILTER (WHERE started > 0), '{}'),
    'done', coalesce(json_object_agg(step, done) FILTER (WHERE done > 0), '{}'),
    'failed', coalesce(json_object_agg(step, failed) FILTER (WHERE failed > 0), '{}'),
    'dead', coalesce(json_object_agg(step, dead) FILTER (WHERE dead > 0), '{}'),
    'wait_s', coalesce(json_object_agg(step, round(wait_us / started / 1e6, 6)) FILTER (WHERE started > 0), '{}'),
    'run_s', coalesce(json_object_agg(step, round(run_us / ended / 1e6, 6)) FILTER (WHERE ended > 0), '{}'),
    'up_to_s', $5::json,
    'waits', coalesce(json_object_agg(step, waits) FILTER (WHERE waits IS NOT NULL), '{}'),
    'runs', coalesce(json_object_agg(step, runs) FILTER (WHERE runs IS NOT NULL), '{}'),
    'workers', (SELECT coalesce(json_agg(json_build_object('at', w.started_at, 'host', w.host, 'pid', w.pid) ORDER BY w.started_at), '[]')
                FROM (SELECT w.started_at, w.host, w.pid FROM tenon.worker w, span s
                      WHERE w.started_at >= s.since ORDER BY w.started_at DESC LIMIT 20) w),
    'releases', (SELECT coalesce(json_agg(json_build_object('at', r.at, 'version', r.version, 'release', r.release) ORDER BY r.at), '[]')
                 FROM (SELECT w.version, w.release, min(w.started_at) AS at FROM tenon.worker w GROUP BY w.version, w.release
                       HAVING min(w.started_at) >= (SELECT since FROM span) ORDER BY 3 DESC LIMIT 20) r))::text
FROM step LEFT JOIN spread USING (step);
