-- What follows from commits and from the ends of tasks (tenon.settle has the rules).
--   $1 integer  how many at most
--   $2 integer  when more than so many are let go, workers are told by NOTIFY, and poll
-- The first row: how many were settled, how many were let go, and in how many milliseconds there may be more to do; NULL =
-- when something happens. After it those for which somebody must be woken: id, queue, kind; and whether they are due.
WITH settled AS MATERIALIZED (SELECT * FROM tenon.settle_all($1::integer, $2::integer))
SELECT NULL::bigint, NULL, NULL, NULL::boolean, n, cardinality(freed), due_ms
FROM settled
UNION ALL
SELECT t.id, t.queue, t.kind, t.due, NULL, NULL, NULL
FROM settled
CROSS JOIN unnest(settled.freed) AS f (id)
CROSS JOIN LATERAL (
    SELECT id, queue, kind, wanted_at <= clock_timestamp() AS due  -- the row as it was before
    FROM tenon.task
    WHERE id = f.id
    OFFSET 0
) t
WHERE cardinality(settled.freed) <= $2::integer OR NOT t.due;
