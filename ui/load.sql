-- The last hour of each queue and each kind, by the minute: attempts started, ended and failed, tasks done and dead. And how long the
-- newest ended tasks waited and ran: the median and the 95th percentile in seconds, of how many. And the slots of the workers that serve each queue.
--   $1 bigint  how many ended tasks to read    $2 integer  how many queues, and kinds
-- scans
WITH span AS MATERIALIZED (
    SELECT date_trunc('minute', statement_timestamp()) - interval '59 min' AS since
), counted AS MATERIALIZED (
    SELECT (extract(epoch FROM m.minute - s.since) / 60)::integer AS step, m.queue, m.kind, sum(m.started) AS started, sum(m.ended) AS ended,
           sum(m.done) AS done, sum(m.failed) AS failed, sum(m.dead) AS dead
    FROM tenon.minute m, span s WHERE m.minute >= s.since GROUP BY 1, 2, 3
), steps AS MATERIALIZED (
    SELECT CASE WHEN GROUPING(c.queue) = 0 THEN 'queue' ELSE 'kind' END AS what, coalesce(c.queue, c.kind) AS name, c.step, sum(c.started) AS started,
           sum(c.ended) AS ended, sum(c.done) AS done, sum(c.failed) AS failed, sum(c.dead) AS dead
    FROM counted c GROUP BY GROUPING SETS ((c.queue, c.step), (c.kind, c.step))
), newest AS MATERIALIZED (
    SELECT h.queue, h.kind, greatest(extract(epoch FROM h.start_time - h.run_at), 0) AS wait_s, extract(epoch FROM h.finished_at - h.start_time) AS run_s
    FROM tenon.history h ORDER BY h.id DESC LIMIT $1::bigint
), spans AS MATERIALIZED (
    SELECT CASE WHEN GROUPING(n.queue) = 0 THEN 'queue' ELSE 'kind' END AS what, coalesce(n.queue, n.kind) AS name, count(*) AS n,
           percentile_cont('{0.5,0.95}'::float8[]) WITHIN GROUP (ORDER BY n.wait_s::float8) AS wait_s,
           percentile_cont('{0.5,0.95}'::float8[]) WITHIN GROUP (ORDER BY n.run_s::float8) AS run_s
    FROM newest n WHERE n.run_s IS NOT NULL GROUP BY GROUPING SETS ((n.queue), (n.kind))
), drawn AS MATERIALIZED (  -- once for all names: to look for the steps of each in turn is quadratic
    SELECT t.what, t.name,
           coalesce(json_object_agg(t.step, t.started) FILTER (WHERE t.started > 0), '{}') AS started,
           coalesce(json_object_agg(t.step, t.ended) FILTER (WHERE t.ended > 0), '{}') AS ended,
           coalesce(json_object_agg(t.step, t.done) FILTER (WHERE t.done > 0), '{}') AS done,
           coalesce(json_object_agg(t.step, t.failed) FILTER (WHERE t.failed > 0), '{}') AS failed,
           coalesce(json_object_agg(t.step, t.dead) FILTER (WHERE t.dead > 0), '{}') AS dead
    FROM (SELECT what, name, step, started, ended, done, failed, dead FROM steps
          UNION ALL SELECT what, name, NULL, 0, 0, 0, 0, 0 FROM spans) t (what, name, step, started, ended, done, failed, dead)
    GROUP BY 1, 2
), numbered AS MATERIALIZED (
    SELECT *, row_number() OVER (PARTITION BY what ORDER BY name) AS place FROM drawn
)
SELECT json_build_object('since', (SELECT since FROM span), 'step_s', 60, 'steps', 60,
    'slots', (SELECT coalesce(json_object_agg(q.queue, q.slots), '{}') FROM (
        SELECT q.queue, sum(w.slots) AS slots FROM tenon.worker w CROSS JOIN unnest(w.queues) q (queue) WHERE w.ended_at IS NULL GROUP BY 1) q),
    'now_s', extract(epoch FROM statement_timestamp() - date_trunc('minute', statement_timestamp()))::integer,
    'load', coalesce(json_agg(json_build_object('what', n.what, 'name', n.name,
        'started', n.started, 'ended', n.ended, 'done', n.done, 'failed', n.failed, 'dead', n.dead,
        'n', coalesce(s.n, 0), 'wait_s', s.wait_s, 'run_s', s.run_s) ORDER BY n.what, n.name), '[]'))::text
FROM numbered n
LEFT JOIN spans s ON s.what = n.what AND s.name = n.name
WHERE n.place <= $2::integer;
