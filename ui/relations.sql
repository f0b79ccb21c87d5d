-- The relations of a task to others, in JSON: its flow, the tasks that it depends on and those that depend on it,
-- its steps, the signal that it waits for, and its keys with their limits.
--   $1 bigint  the task    $2 integer  the maximum number of parents, and of children
--   $3 integer  how many tasks of its flow to read for children
WITH me AS MATERIALIZED (
    SELECT t.id, t.limit_keys, t.steps, t.step_names, t.step_times, m.flow, m.name, m.parents
    FROM tenon.tasks t LEFT JOIN tenon.flow_task m ON m.id = t.id WHERE t.id = $1::bigint LIMIT 1
), parent AS MATERIALIZED (
    SELECT p.id, p.place FROM me CROSS JOIN LATERAL unnest(me.parents) WITH ORDINALITY p (id, place) ORDER BY p.place LIMIT $2::integer
), child AS MATERIALIZED (
    SELECT w.task AS id FROM (SELECT task FROM tenon.flow_wait WHERE parent = $1::bigint LIMIT $3::integer) w
    UNION
    SELECT c.id FROM me CROSS JOIN LATERAL (
        SELECT id, parents FROM tenon.flow_task WHERE flow = me.flow LIMIT $3::integer) c
    WHERE $1::bigint = ANY (c.parents)
), other AS MATERIALIZED (
    SELECT o.is_parent, o.place, json_build_object('id', o.id, 'name', m.name, 'kind', t.kind, 'state', coalesce(t.state, m.state, 'done'),
                                                     'end_time', t.end_time) AS row
    FROM (SELECT true AS is_parent, id, place FROM parent
          UNION ALL SELECT false, id, id FROM (SELECT id FROM child ORDER BY id LIMIT $2::integer) c) o
    LEFT JOIN LATERAL (SELECT kind, state, end_time FROM tenon.tasks WHERE id = o.id LIMIT 1) t ON true
    LEFT JOIN LATERAL (SELECT name, state FROM tenon.flow_task WHERE id = o.id LIMIT 1) m ON true
)
SELECT json_build_object(
    'name', me.name,
    'flow', (SELECT json_build_object('id', f.id, 'name', f.name) FROM tenon.flow f WHERE f.id = me.flow),
    'parents', (SELECT coalesce(json_agg(row ORDER BY place), '[]') FROM other WHERE is_parent),
    'parents_n', coalesce(cardinality(me.parents), 0),
    'children', (SELECT coalesce(json_agg(row ORDER BY place), '[]') FROM other WHERE NOT is_parent),
    'children_n', (SELECT count(*) FROM child),
    -- A step with the name and the payload of a signal is that signal. Each signal is looked up by its name: OFFSET 0.
    'steps', (SELECT coalesce(json_agg(json_build_object('name', n.name, 'at', n.at, 'sent_at', s.sent_at) ORDER BY n.place), '[]')
              FROM unnest(me.step_names, me.step_times) WITH ORDINALITY n (name, at, place)
              JOIN jsonb_each(me.steps) e ON e.key = n.name
              LEFT JOIN LATERAL (SELECT sent_at, payload FROM tenon.signal WHERE name = n.name OFFSET 0) s ON s.payload = e.value),
    'signal', (SELECT json_build_object('name', w.signal, 'until', w.until) FROM tenon.waiting w WHERE w.task_id = me.id),
    'limits', (SELECT coalesce(json_agg(json_build_object(
                   'key', k.key, 'rule', r.rule, 'max_running', r.max_running, 'max_starts', r.max_starts,
                   'per_ms', (extract(epoch FROM r.per) * 1000)::bigint, 'strict', r.strict, 'fair', r.share IS NOT NULL,
                   'weight', r.weight, 'paused', r.paused, 'until', r.until,
                   'state', (SELECT l.state FROM tenon.limit_task l WHERE l.key = k.key AND l.task_id = me.id)) ORDER BY k.place), '[]')
               FROM unnest(me.limit_keys) WITH ORDINALITY k (key, place) CROSS JOIN LATERAL tenon.limit_rule(k.key) r))::text
FROM me;
