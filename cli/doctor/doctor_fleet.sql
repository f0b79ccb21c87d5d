-- What is wrong with workers, cleaners and tasks: level, subject, finding, what to do.
--   $1 bigint  how long a cleaner may be silent and a task overdue, in seconds    $2 bigint  how many queues, and rows of each
WITH leader AS MATERIALIZED (
    SELECT k.pid FROM tenon.setting s JOIN tenon.lock k ON k.key = s.leader_key AND k.counts
), due AS MATERIALIZED (
    SELECT s.queue, l.kind, count(*) AS n, min(l.run_at) AS oldest
      FROM tenon.queue_names($2::bigint) AS s (queue)
     CROSS JOIN LATERAL (
           SELECT t.kind, t.run_at, t.start_time
             FROM generate_series(9, 0, -1) p
            CROSS JOIN LATERAL (SELECT kind, run_at, start_time FROM tenon.task
                                 WHERE queue = s.queue AND priority = p AND run_at <= statement_timestamp()
                                 ORDER BY run_at LIMIT $2::bigint) t
            LIMIT $2::bigint) l
     WHERE l.start_time IS NULL
     GROUP BY s.queue, l.kind
), paused AS MATERIALIZED (
    SELECT d.*, EXISTS (SELECT FROM tenon.paused p
                         WHERE p.what = 'everything' OR p.what = 'queue' AND p.name = d.queue OR p.what = 'kind' AND p.name = d.kind) AS paused
      FROM due d
)
SELECT * FROM (
    SELECT 'error', 'cleaner', 'no cleaner leads: nobody publishes again what was overlooked, nobody recovers the tasks of a dead worker',
           'run tenon cleaner, one or more of them'
     WHERE NOT EXISTS (SELECT FROM leader)
    UNION ALL
    SELECT 'error', 'cleaner', format('the leading cleaner (session %s) has asked nothing for %s', l.pid, date_trunc('second', clock_timestamp() - a.state_change)),
           'restart it; another one leads within seconds'
      FROM leader l JOIN pg_stat_activity a ON a.pid = l.pid
     WHERE a.state_change < clock_timestamp() - make_interval(secs => $1::bigint)
    UNION ALL
    SELECT 'error', 'workers', 'no worker is alive', 'run tenon worker'
     WHERE NOT EXISTS (SELECT FROM tenon.worker w WHERE w.ended_at IS NULL)
    UNION ALL
    SELECT 'warning', 'workers', format('the worker on %s, pid %s, holds its lock no more: it is dead, or cannot reach the server', w.host, w.pid),
           'look at its log; a cleaner gives its tasks to others'
      FROM tenon.worker w
     WHERE w.ended_at IS NULL AND NOT EXISTS (SELECT FROM tenon.lock k WHERE k.key = w.lock_key AND k.counts)
    UNION ALL
    SELECT CASE f.what WHEN 'chore' THEN 'error' WHEN 'rounds' THEN 'error' ELSE 'warning' END, CASE f.what WHEN 'chore' THEN 'cleaner' WHEN 'rounds' THEN 'workers' ELSE f.what END, f.sentence,
           CASE f.what WHEN 'handler' THEN 'run it by hand as the worker''s user, and look at its log'
                       WHEN 'set_aside' THEN 'nothing: the other rows are processed meanwhile, and this one is tried again at that time'
                       WHEN 'broker' THEN 'tasks run meanwhile, and start later; start RabbitMQ, or correct --amqp-url'
                       ELSE 'fix what PostgreSQL complains about; it is tried again automatically' END
      FROM tenon.failing f
    UNION ALL
    SELECT 'warning', 'paused', tenon.pause_sentence(p), 'when the reason is over: ' || tenon.pause_advice(p)
      FROM tenon.paused p WHERE p.what IN ('everything', 'queue', 'kind')
    UNION ALL
    SELECT 'error', 'unhandled', format('%s of kind %s in queue %s: no worker has a handler for that', CASE d.n WHEN 1 THEN 'a due task' ELSE d.n || ' due tasks' END, d.kind, d.queue),
           'start a worker that serves both, or look whether a name is mistyped'
      FROM paused d
     WHERE NOT d.paused AND EXISTS (SELECT FROM tenon.worker w WHERE w.ended_at IS NULL)
       AND NOT EXISTS (SELECT FROM tenon.worker w WHERE w.ended_at IS NULL AND d.queue = ANY (w.queues) AND d.kind = ANY (w.kinds))
    UNION ALL
    SELECT 'warning', 'latency', format('the oldest ready task of kind %s in queue %s has waited for %s', d.kind, d.queue, date_trunc('second', clock_timestamp() - d.oldest)),
           'more workers or slots, or a shorter handler; tenon status shows which slots are taken'
      FROM paused d
     WHERE NOT d.paused AND d.oldest < clock_timestamp() - make_interval(secs => $1::bigint)
       AND EXISTS (SELECT FROM tenon.worker w WHERE w.ended_at IS NULL AND d.queue = ANY (w.queues) AND d.kind = ANY (w.kinds))
    UNION ALL
    SELECT 'warning', 'paused', format('%s of kind %s in queue %s because that is paused', CASE d.n WHEN 1 THEN 'a due task waits' ELSE d.n || ' due tasks wait' END, d.kind, d.queue), 'tenon resume, when the reason is over'
      FROM paused d WHERE d.paused
    UNION ALL
    SELECT 'warning', 'dead tasks', format('%s of kind %s died within a day, last: %s', CASE d.n WHEN 1 THEN 'a task' ELSE d.n || ' tasks' END, d.kind, left(tenon.error_line(d.last_error), 100)),
           format('tenon list --state dead --kind %s', d.kind)
      FROM (SELECT r.kind, count(*) AS n, (array_agg(r.last_error ORDER BY r.dead_at DESC))[1] AS last_error
              FROM (SELECT kind, dead_at, last_error FROM tenon.dead WHERE dead_at > clock_timestamp() - interval '1 day'
                     ORDER BY dead_at DESC LIMIT $2::bigint) r GROUP BY r.kind) d
    UNION ALL
    SELECT 'error', 'schedule', format('the schedule %s should have ticked at %s%s', s.name, date_trunc('second', s.due_at), coalesce(', and failed: ' || s.last_error, '')),
           format('tenon schedule show %s', s.name)
      FROM tenon.schedule s WHERE s.due_at < clock_timestamp() - make_interval(secs => $1::bigint)
) f (level, subject, finding, advice);
