-- Attempts started and failed, and tasks done and dead, in the last hours by step; and the mean wait of started tasks in seconds.
-- Steps without any are left out.
--   $1 integer  minutes of a step    $2 integer  how many steps    $3 text  the queue; NULL = all
WITH span AS MATERIALIZED (  -- to the end of this minute
    SELECT date_trunc('minute', statement_timestamp()) + interval '1 min' - $1::integer * $2::integer * interval '1 min' AS since
), step AS MATERIALIZED (
    SELECT (extract(epoch FROM m.minute - s.since) / 60)::integer / $1::integer AS step, sum(m.started) AS started, sum(m.done) AS done,
           sum(m.failed) AS failed, sum(m.dead) AS dead, sum(m.wait_us) AS wait_us
    FROM tenon.minute m, span s
    WHERE m.minute >= s.since AND ($3::text IS NULL OR m.queue = $3::text)
    GROUP BY 1
)
SELECT json_build_object('since', (SELECT since FROM span), 'step_s', $1::integer * 60, 'steps', $2::integer,
    'started', coalesce(json_object_agg(step, started) FILTER (WHERE started > 0), '{}'),
    'done', coalesce(json_object_agg(step, done) FILTER (WHERE done > 0), '{}'),
    'failed', coalesce(json_object_agg(step, failed) FILTER (WHERE failed > 0), '{}'),
    'dead', coalesce(json_object_agg(step, dead) FILTER (WHERE dead > 0), '{}'),
    'wait_s', coalesce(json_object_agg(step, round(wait_us / started / 1e6, 6)) FILTER (WHERE started > 0), '{}'))::text
FROM step;
