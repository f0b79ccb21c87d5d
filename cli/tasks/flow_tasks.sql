-- The tasks of a flow, parents before their children: under which of them each is in the tree, or NULL; the other
-- parents as a text; and the row as JSON.
--   $1 bigint  the flow    $2 integer  how many
SELECT m.id, p.id, coalesce(m.name, '-'), coalesce(t.kind, '-'), s.state,
       (SELECT string_agg(CASE WHEN o.place > 5 THEN '...' ELSE o.id::text END, ', ' ORDER BY o.place)
        FROM unnest(m.parents) WITH ORDINALITY o (id, place)
        WHERE o.id IS DISTINCT FROM p.id AND o.place <= 6),
       json_build_object('id', m.id, 'name', m.name, 'kind', t.kind, 'state', s.state, 'parents', m.parents)::text
FROM (SELECT * FROM (SELECT * FROM tenon.flow_task WHERE flow = $1::bigint OFFSET 0) f  -- by the index of flows
      ORDER BY id LIMIT $2::integer) m
LEFT JOIN LATERAL (SELECT kind, state FROM tenon.tasks WHERE id = m.id LIMIT 1) t ON true
LEFT JOIN LATERAL (
    SELECT u.id
    FROM unnest(m.parents) u (id)
    WHERE (SELECT q.flow FROM tenon.flow_task q WHERE q.id = u.id) = m.flow
    LIMIT 1) p ON true
CROSS JOIN LATERAL (SELECT coalesce(t.state, m.state, 'done') AS state) s
ORDER BY m.id;
