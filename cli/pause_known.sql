-- Has anything this queue: a task, a schedule, a kind, a worker; or did somebody set it up?
--   $1 text  the queue
-- scans
SELECT EXISTS (SELECT FROM tenon.task WHERE queue = $1)
    OR EXISTS (SELECT FROM tenon.queue WHERE name = $1)
    OR EXISTS (SELECT FROM tenon.schedule WHERE queue = $1)
    OR EXISTS (SELECT FROM tenon.kind WHERE queue = $1)
    OR EXISTS (SELECT FROM tenon.worker WHERE $1 = ANY (queues));
