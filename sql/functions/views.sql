-- The views that show tasks, locks and failures. Other views are with the functions of their subject.

-- Advisory locks are open to everybody who may log in: one counts only if whoever logged in to its session may act for
-- tenon: a worker, a cleaner or the owner. pg_stat_activity names the role that logged in, even after SET ROLE.
CREATE OR REPLACE VIEW tenon.lock AS
SELECT (l.classid::bigint << 32) | l.objid::bigint AS key, l.pid, a.usesysid AS role, l.mode = 'ExclusiveLock' AS exclusive,
       l.granted AND l.mode = 'ExclusiveLock'
       AND has_any_column_privilege(a.usesysid, 'tenon.worker'::regclass, 'UPDATE') AS counts
  FROM pg_locks l
  JOIN pg_stat_activity a ON a.pid = l.pid
 WHERE l.locktype = 'advisory' AND l.objsubid = 1
   AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database());
COMMENT ON VIEW tenon.lock IS 'The advisory locks of this database with keys of 64 bits, those of workers and cleaners among them.';
COMMENT ON COLUMN tenon.lock.key IS 'The key, for instance `tenon.worker.lock_key`.';
COMMENT ON COLUMN tenon.lock.pid IS 'The backend that holds it, or waits for it.';
COMMENT ON COLUMN tenon.lock.role IS 'The oid of the role that logged in there.';
COMMENT ON COLUMN tenon.lock.exclusive IS 'Not shared.';
COMMENT ON COLUMN tenon.lock.counts IS 'It is held, not shared, and the role may act for tenon: it may update `tenon.worker`.';

-- How old the oldest transaction is that holds a snapshot or an id in this database, in milliseconds; 0: there is none. As long as it
-- lasts, rows of ended tasks stay. For cleaners, whose role may not see the sessions of others: the owner may if it is a superuser or
-- in pg_read_all_stats. NULL: it may not.
CREATE OR REPLACE FUNCTION tenon.oldest_transaction_ms() RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT (extract(epoch FROM greatest(clock_timestamp() - min(t.begun), interval '0')) * 1000)::bigint
      FROM (SELECT a.xact_start AS begun FROM pg_stat_activity a
             WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND a.backend_type = 'client backend'
               AND (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL)
            UNION ALL
            SELECT p.prepared FROM pg_prepared_xacts p WHERE p.database = current_database()
            UNION ALL
            SELECT clock_timestamp()) t
    HAVING pg_has_role('pg_read_all_stats', 'USAGE')
$$;

-- What "ready" means. Every statement that claims or publishes is held against this view by a test.
CREATE OR REPLACE VIEW tenon.ready AS
    SELECT t.*
    FROM tenon.task t
    WHERE t.start_time IS NULL
      AND t.run_at <= clock_timestamp()
      AND coalesce(t.start_before > clock_timestamp(), true)
      AND NOT EXISTS (SELECT FROM tenon.paused p WHERE p.what = 'queue' AND p.name = t.queue)
      AND NOT EXISTS (SELECT FROM tenon.paused p WHERE p.what = 'kind' AND p.name = t.kind)
      AND NOT EXISTS (SELECT FROM tenon.paused p WHERE p.what = 'everything');
COMMENT ON VIEW tenon.ready IS 'The tasks that may start now: not started, `run_at` has come, `start_before` has not, and neither the queue nor the kind nor everything is paused.';

-- A dead task's last attempt is not among its failures when its handler said that it can never work.
CREATE OR REPLACE VIEW tenon.tasks AS
    SELECT id, queue, kind,
           CASE WHEN start_time IS NOT NULL THEN 'running'
                WHEN start_before <= clock_timestamp() THEN 'expired'
                WHEN run_at = 'infinity' THEN 'blocked'
                WHEN run_at <= clock_timestamp() THEN 'ready'
                WHEN failures + crashes > 0 THEN 'retrying'
                ELSE 'scheduled' END AS state,
           priority, created_at,
           coalesce(wanted_at, nullif(run_at, 'infinity'), (SELECT s.due_at FROM tenon.suspect s WHERE s.task_id = t.id), run_at) AS run_at,
           start_time, NULL::timestamptz AS end_time, worker_id,
           failures + crashes + (start_time IS NOT NULL)::integer AS attempt, claims, failures, crashes,
           payload, progress, NULL::jsonb AS result, unique_key, trace, last_error, error_class, enqueued_by, start_before, compensates,
           flow, limit_keys,
           CASE WHEN step_count IS NOT NULL
                THEN (SELECT jsonb_object_agg(s.name, s.value) FROM tenon.task_step s WHERE s.task_id = t.id) END AS steps,
           CASE WHEN step_count IS NOT NULL
                THEN (SELECT array_agg(s.name COLLATE "default" ORDER BY s.position) FROM tenon.task_step s WHERE s.task_id = t.id)
                END AS step_names, tags,
           CASE WHEN step_count IS NOT NULL
                THEN (SELECT array_agg(s.at ORDER BY s.position) FROM tenon.task_step s WHERE s.task_id = t.id) END AS step_times
    FROM tenon.task t
    UNION ALL
    SELECT id, queue, kind, outcome::text, priority, created_at, run_at, start_time, finished_at, worker_id,
           failures + crashes + (start_time IS NOT NULL)::integer, claims, failures, crashes,
           payload, progress, result, unique_key, trace, last_error, NULL, enqueued_by, NULL, NULL,
           (SELECT m.flow FROM tenon.flow_task m WHERE m.id = f.id), limit_keys, steps, step_names, tags, step_times
    FROM tenon.history f
    UNION ALL
    SELECT id, queue, kind, 'dead', priority, created_at, run_at, start_time, dead_at, worker_id,
           failures + crashes + (reason = 'handler')::integer, claims, failures, crashes,
           payload, progress, NULL, unique_key, trace, last_error, error_class, enqueued_by, start_before, compensates,
           (SELECT m.flow FROM tenon.flow_task m WHERE m.id = d.id), limit_keys, steps, step_names, tags, step_times
    FROM tenon.dead d;
COMMENT ON VIEW tenon.tasks IS 'Every task, unfinished or ended, with the same columns.';
COMMENT ON COLUMN tenon.tasks.state IS '`blocked`, `scheduled`, `ready`, `running`, `retrying`, `done`, `cancelled`, `expired` or `dead` ([states.md](states.md)).';
COMMENT ON COLUMN tenon.tasks.run_at IS 'It does not start before this moment, nor while it is blocked.';
COMMENT ON COLUMN tenon.tasks.limit_keys IS 'The keys whose limits apply to it; NULL = none, or it is done.';
COMMENT ON COLUMN tenon.tasks.end_time IS 'When it ended; NULL before.';
COMMENT ON COLUMN tenon.tasks.attempt IS 'How many attempts were made, including the running one. Released and snoozed runs do not count.';
COMMENT ON COLUMN tenon.tasks.result IS 'What its handler returned.';
COMMENT ON COLUMN tenon.tasks.steps IS 'The steps that it has recorded, and the signals that it has received: an object, a key for each name. NULL = none, or it is done.';
COMMENT ON COLUMN tenon.tasks.step_names IS 'The names of its steps, in the order in which they were recorded.';
COMMENT ON COLUMN tenon.tasks.step_times IS 'When its steps were recorded, in the same order.';

-- What a filter asks about. All columns come from the tables as they are, and have one type in all three (a domain is
-- another), so that the rows can be read in the order of ids; `since`: when it was enqueued or, if it has ended, ended.
CREATE OR REPLACE VIEW tenon.anywhere AS
    SELECT 'task' AS place, id, NULL AS ended, start_time, run_at, failures + crashes AS failed, created_at AS since,
           queue, kind, unique_key, trace, error_class, enqueued_by, payload, start_before, wanted_at, limit_keys, tags,
           claims = (undo->>'claims')::integer AS undo
      FROM tenon.task
    UNION ALL
    SELECT 'history', id, outcome::text, start_time, run_at, failures + crashes, finished_at,
           queue, kind, unique_key, trace, NULL, enqueued_by, payload, NULL, NULL, limit_keys, tags, NULL
      FROM tenon.history
    UNION ALL
    SELECT 'dead', id, 'dead', start_time, run_at, failures + crashes, dead_at,
           queue, kind, unique_key, trace, error_class, enqueued_by, payload, NULL, NULL, limit_keys, tags, NULL
      FROM tenon.dead;
COMMENT ON VIEW tenon.anywhere IS 'Every task, for the filters of operators; `tenon.tasks` is for all others.';
COMMENT ON COLUMN tenon.anywhere.place IS '`task`, `history` or `dead`: the table.';
COMMENT ON COLUMN tenon.anywhere.ended IS 'The state of one that has ended; NULL before.';
COMMENT ON COLUMN tenon.anywhere.failed IS 'Failures and crashes.';
COMMENT ON COLUMN tenon.anywhere.undo IS 'It was retried, and no worker has claimed it since: the retry can be undone.';
COMMENT ON COLUMN tenon.anywhere.since IS 'When it was enqueued or, if it has ended, ended.';

CREATE OR REPLACE VIEW tenon.failing AS
SELECT CASE f.chore WHEN 'broker' THEN 'broker' ELSE 'chore' END AS what, f.chore AS name, f.host, f.pid, f.since, f.error,
       CASE f.chore WHEN 'broker' THEN format('the cleaner on %s, pid %s, has had no RabbitMQ since %s: %s', f.host, f.pid, s.since, f.error)
                    ELSE format('the chore %s of the cleaner on %s, pid %s, has failed since %s: %s', f.chore, f.host, f.pid, s.since, f.error) END AS sentence
  FROM tenon.chore_failure f
 CROSS JOIN LATERAL to_char(f.since AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"') AS s (since)
 WHERE f.at > clock_timestamp() - interval '1 minute'
UNION ALL
SELECT t.what, NULL, w.host, w.pid, NULL, t.error, format(t.sentence, w.host, w.pid, t.error)
  FROM tenon.worker w
 CROSS JOIN LATERAL (VALUES
       ('rounds', w.rounds_failing, 'transactions with PostgreSQL keep failing in the worker on %s, pid %s: %s'),
       ('broker', w.broker_away, 'the worker on %s, pid %s, has no RabbitMQ: %s'),
       ('handler', w.backing_off, 'in the worker on %s, pid %s, a handler does not start: %s')) t (what, error, sentence)
 WHERE w.ended_at IS NULL AND t.error IS NOT NULL
UNION ALL
SELECT 'set_aside', a.part, NULL, NULL, a.at, a.error,
       CASE a.id WHEN 0 THEN format('the part %s of settling takes %s rows at a time, because more took too long: %s', a.part, a.most, a.error)
                 ELSE format('the part %s of settling leaves out the %s %s until %s, because it took too long or could not be stored: %s', a.part,
                             CASE a.part WHEN 'flows' THEN 'row of tenon.flow_note' WHEN 'again' THEN 'row of tenon.again' ELSE 'task' END, a.id,
                             to_char(a.until AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"'), a.error) END
  FROM tenon.set_aside a;
COMMENT ON VIEW tenon.failing IS 'Chores, transactions, connections and handlers that keep failing now, and what is set aside.';
COMMENT ON COLUMN tenon.failing.what IS '`chore`: a chore of a cleaner; `rounds`: the transactions of a worker with PostgreSQL; `broker`: the connection to RabbitMQ; `handler`: a handler that does not start; `set_aside`: what cleaners skip for a time (`tenon.set_aside`).';
COMMENT ON COLUMN tenon.failing.name IS 'The name of the chore, or of the part of settling.';
COMMENT ON COLUMN tenon.failing.host IS 'The machine it runs on.';
COMMENT ON COLUMN tenon.failing.pid IS 'Its process there.';
COMMENT ON COLUMN tenon.failing.since IS 'When the failures began, if known.';
COMMENT ON COLUMN tenon.failing.error IS 'The last error message.';
COMMENT ON COLUMN tenon.failing.sentence IS 'The row as a sentence.';
