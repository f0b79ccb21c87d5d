-- A page of flows, the newest first, each as JSON; of each at most this many tasks are counted, from the index alone.
--   $1 bigint  only numbers below this one; NULL = all    $2 integer  how many    $3 integer  how many tasks to count of each
SELECT json_build_object(
    'id', f.id, 'name', f.name,
    'state', CASE WHEN f.open AND f.cancelled_at IS NULL THEN 'open' WHEN g.goes_on THEN 'running'
                  WHEN f.cancelled_at IS NOT NULL THEN 'cancelled' ELSE 'ended' END,
    'tasks', c.tasks, 'ended', c.ended, 'not_done', c.not_done, 'at_least', c.tasks >= $3::integer,
    'made_by', f.made_by, 'made_at', f.made_at, 'ended_at', CASE WHEN NOT g.goes_on THEN f.ended_at END)::text
FROM (SELECT * FROM tenon.flow WHERE id < coalesce($1::bigint, 9223372036854775807) ORDER BY id DESC LIMIT $2::integer) f
CROSS JOIN LATERAL (
    SELECT count(*) AS tasks, count(m.state) AS ended, count(*) FILTER (WHERE m.state <> 'done') AS not_done
    FROM (SELECT state FROM tenon.flow_task WHERE flow = f.id LIMIT $3::integer) m) c
CROSS JOIN LATERAL (
    SELECT (SELECT m.flow FROM tenon.flow_task m WHERE m.flow = f.id AND m.state IS NULL LIMIT 1) IS NOT NULL AS goes_on) g
ORDER BY f.id DESC;
