-- Has anything this queue: a task, a schedule, a kind, a worker; or did somebody set it up? And may a limit be meant: its
-- name, or a key that is its or that a task has?
--   $1 text  the name
-- scans
SELECT EXISTS (SELECT FROM tenon.task WHERE queue = $1)
    OR EXISTS (SELECT FROM tenon.queue WHERE name = $1)
    OR EXISTS (SELECT FROM tenon.paused WHERE what = 'queue' AND name = $1)
    OR EXISTS (SELECT FROM tenon.schedule WHERE queue = $1)
    OR EXISTS (SELECT FROM tenon.kind WHERE queue = $1)
    OR EXISTS (SELECT FROM tenon.worker WHERE $1 = ANY (queues)),
       EXISTS (SELECT FROM tenon.limit WHERE name IN ($1, split_part($1, ':', 1)))
    OR EXISTS (SELECT FROM tenon.paused WHERE what = 'limit' AND name IN ($1, split_part($1, ':', 1)))
    OR EXISTS (SELECT FROM tenon.limit_task WHERE key = $1);
