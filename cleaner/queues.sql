-- Every queue there is: the default one, those of tasks (one index probe each), of tenon.queue, and of
-- live workers.
--   $1 integer  how many at most
WITH RECURSIVE q AS (
    (SELECT queue FROM tenon.task ORDER BY queue LIMIT 1)
    UNION ALL
    SELECT (SELECT t.queue FROM tenon.task t WHERE t.queue > q.queue ORDER BY t.queue LIMIT 1)
    FROM q
    WHERE q.queue IS NOT NULL
)
SELECT 'default' AS queue
UNION
SELECT queue FROM q WHERE queue IS NOT NULL
UNION
SELECT name FROM tenon.queue
UNION
SELECT unnest(queues) FROM tenon.worker WHERE ended_at IS NULL
ORDER BY 1
LIMIT $1::integer;
