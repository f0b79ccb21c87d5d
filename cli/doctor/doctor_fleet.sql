-- Problems of workers, cleaners and tasks: level, subject, finding, what to do, and the names that it is about, as a JSON object.
--   $1 bigint  how long a cleaner may be silent and a task overdue, in seconds    $2 bigint  how many rows to count now, in all
--   $3 bigint  how many queues, and kinds of dead tasks
WITH leader AS MATERIALIZED (
    SELECT k.pid FROM tenon.setting s JOIN tenon.lock k ON k.key = s.leader_key AND k.counts
), depth AS MATERIALIZED (
    SELECT d.*, CASE WHEN d.at_least THEN 'at least ' ELSE '' END AS bound,
           CASE WHEN d.counted_at < statement_timestamp() THEN format(' (as of %s ago)', date_trunc('second', statement_timestamp() - d.counted_at))
                ELSE '' END AS as_of,
           EXISTS (SELECT FROM tenon.paused p
                    WHERE p.what = 'everything' OR p.what = 'queue' AND p.name = d.queue OR p.what = 'kind' AND p.name = d.kind) AS paused
      FROM tenon.queue_depth($2::bigint, $3::bigint) d
), last_dead AS MATERIALIZED (
    SELECT DISTINCT ON (r.kind) r.kind, r.last_error
      FROM (SELECT kind, dead_at, last_error FROM tenon.dead ORDER BY dead_at DESC LIMIT 10000) r ORDER BY r.kind, r.dead_at DESC
)
SELECT * FROM (
    SELECT 'error', 'cleaner', 'no cleaner leads: lost wake-ups are not replaced, and the tasks of dead workers are not recovered',
           'run tenon cleaner, one or more', NULL::jsonb
     WHERE NOT EXISTS (SELECT FROM leader)
    UNION ALL
    SELECT 'error', 'cleaner', format('the leading cleaner (session %s) has sent no query for %s', l.pid, date_trunc('second', clock_timestamp() - a.state_change)),
           'restart it; another one leads within seconds', NULL
      FROM leader l JOIN pg_stat_activity a ON a.pid = l.pid
     WHERE a.state_change < clock_timestamp() - make_interval(secs => $1::bigint)
    UNION ALL
    SELECT 'error', 'workers', 'no worker is alive', 'run tenon worker', NULL
     WHERE NOT EXISTS (SELECT FROM tenon.worker w WHERE w.ended_at IS NULL)
    UNION ALL
    SELECT 'warning', 'workers', format('the worker on %s, pid %s, no longer holds its lock: it is dead, or cannot reach the server', w.host, w.pid),
           'see its log; a cleaner requeues its tasks', NULL
      FROM tenon.worker w
     WHERE w.ended_at IS NULL AND NOT EXISTS (SELECT FROM tenon.lock k WHERE k.key = w.lock_key AND k.counts)
    UNION ALL
    SELECT CASE f.what WHEN 'chore' THEN 'error' WHEN 'rounds' THEN 'error' ELSE 'warning' END, CASE f.what WHEN 'chore' THEN 'cleaner' WHEN 'rounds' THEN 'workers' ELSE f.what END, f.sentence,
           CASE f.what WHEN 'handler' THEN 'run it by hand as the worker''s user, and see its log'
                       WHEN 'set_aside' THEN 'nothing: the other rows are processed meanwhile, and this one is tried again at that time'
                       WHEN 'broker' THEN 'tasks run meanwhile, and start later; start RabbitMQ, or correct --amqp-url'
                       ELSE 'fix the error that PostgreSQL reports; it is retried automatically' END, NULL
      FROM tenon.failing f
    UNION ALL
    SELECT 'warning', 'paused', tenon.pause_sentence(p), 'once the reason is gone: ' || tenon.pause_advice(p), jsonb_build_object('what', p.what, 'name', p.name)
      FROM tenon.paused p WHERE p.what IN ('everything', 'queue', 'kind')
    UNION ALL
    SELECT 'error', 'unhandled', format('%s%s of kind %s in queue %s%s: no worker has a handler for that', d.bound,
                                       CASE WHEN d.ready = 1 AND NOT d.at_least THEN 'a due task' ELSE d.ready || ' due tasks' END, d.kind, d.queue, d.as_of),
           'start a worker that serves both, or check the names for a typing error', jsonb_build_object('queue', d.queue, 'kind', d.kind)
      FROM depth d
     WHERE d.ready > 0 AND d.kind <> '(other)' AND NOT d.paused AND EXISTS (SELECT FROM tenon.worker w WHERE w.ended_at IS NULL)
       AND NOT EXISTS (SELECT FROM tenon.worker w WHERE w.ended_at IS NULL AND d.queue = ANY (w.queues) AND d.kind = ANY (w.kinds))
    UNION ALL
    SELECT 'warning', 'latency', format('the oldest ready task of kind %s in queue %s has waited for %s%s', d.kind, d.queue, date_trunc('second', d.counted_at - d.oldest_ready), d.as_of),
           'add workers or slots, or make the handler faster; tenon status shows which slots are taken', jsonb_build_object('queue', d.queue, 'kind', d.kind)
      FROM depth d
     WHERE NOT d.paused AND d.oldest_ready < d.counted_at - make_interval(secs => $1::bigint)
       AND EXISTS (SELECT FROM tenon.worker w WHERE w.ended_at IS NULL AND d.queue = ANY (w.queues) AND d.kind = ANY (w.kinds))
    UNION ALL
    SELECT 'warning', 'paused', format('%s%s of kind %s in queue %s because that is paused%s', d.bound,
                                        CASE WHEN d.ready = 1 AND NOT d.at_least THEN 'a due task waits' ELSE d.ready || ' due tasks wait' END, d.kind, d.queue, d.as_of),
           'once the reason is gone: tenon resume', jsonb_build_object('queue', d.queue, 'kind', d.kind)
      FROM depth d WHERE d.ready > 0 AND d.paused
    UNION ALL
    (SELECT 'warning', 'dead tasks', format('%s of kind %s %s dead%s%s', CASE WHEN d.n = 1 AND NOT d.at_least THEN 'a task' ELSE d.bound || d.n || ' tasks' END, d.kind,
                                           CASE WHEN d.n = 1 AND NOT d.at_least THEN 'is' ELSE 'are' END, d.as_of, ', last: ' || left(tenon.error_line(l.last_error), 100)),
            'tenon list --state dead' || CASE d.kind WHEN '(other)' THEN '' ELSE ' --kind ' || d.kind END || '; then tenon retry, or tenon delete',
            CASE WHEN d.kind <> '(other)' THEN jsonb_build_object('kind', d.kind) END
       FROM (SELECT kind, sum(dead) AS n, bool_or(at_least) AS at_least, max(bound) AS bound, max(as_of) AS as_of
               FROM depth WHERE dead > 0 GROUP BY kind) d
       LEFT JOIN last_dead l ON l.kind = d.kind
      ORDER BY d.n DESC, d.kind LIMIT $3::bigint)
    UNION ALL
    SELECT 'error', 'schedule', format('the schedule %s should have ticked at %s%s', s.name, date_trunc('second', s.due_at), coalesce(', and failed: ' || s.last_error, '')),
           format('tenon schedule show %s', s.name), jsonb_build_object('schedule', s.name)
      FROM tenon.schedule s WHERE s.due_at < clock_timestamp() - make_interval(secs => $1::bigint)
) f (level, subject, finding, advice, about);
