-- A database full of tasks, in one statement: as many as the setting test.tasks says, of 30 kinds in 5 queues. Of 100 tasks 40 are
-- ready, 12 snoozed or scheduled, 5 retrying, 1 blocked, 40 ended and 2 dead, of 12 error classes; 1 in 500 runs, on 40 workers that
-- are gone. And a day of tenon.minute. For ui_many_test, and for ui_browser_test's long variant.
WITH n AS MATERIALIZED (
    SELECT i, 'kind_' || i % 30 AS kind, 'queue_' || i % 5 AS queue, i / 7 % 100 AS part, (i / 11 % 10)::smallint AS priority,
           jsonb_build_object('n', i, 'to', format('user%s@example.org', i % 1000)) AS payload,
           statement_timestamp() - (i % 80000) * interval '1 s' AS at, ('00000000-0000-0000-0000-' || lpad((i % 40)::text, 12, '0'))::uuid AS worker
    FROM generate_series(1, current_setting('test.tasks')::bigint) i
), error AS MATERIALIZED (
    SELECT c, (ARRAY['Timeout', 'ConnectionRefused', 'TypeError', 'KeyError', 'OutOfMemory', 'Refused', 'NotFound', 'Forbidden', 'Deadlock', 'Conflict',
                     'Smtp550', 'a::very.long/Name::of-an_error::that-nobody-wants-to-read'])[c + 1] AS class
    FROM generate_series(0, 11) c
), worker AS (
    INSERT INTO tenon.worker (id, host, pid, slots, queues, kinds, started_at)
    SELECT ('00000000-0000-0000-0000-' || lpad(w::text, 12, '0'))::uuid, 'host' || w / 8, 1000 + w, 60, ARRAY['queue_' || w % 5],
           ARRAY(SELECT 'kind_' || k FROM generate_series(w % 5, 29, 5) k), statement_timestamp() - w * interval '1 h' FROM generate_series(0, 39) w
), unfinished AS (
    INSERT INTO tenon.task (run_at, created_at, timeout_ms, failures, max_attempts, payload_bytes, priority, delayed, announced, queue, kind, payload,
                            claims, start_time, claim_key, worker_id, last_error, error_class, tags, unique_key)
    SELECT CASE WHEN part < 40 THEN at WHEN part < 57 THEN at + interval '25 h' ELSE 'infinity' END, at, 3600000,
           CASE WHEN part BETWEEN 52 AND 56 THEN 1 ELSE 0 END, 25, 40, priority, part BETWEEN 40 AND 56, true, queue, kind, payload,
           CASE WHEN part < 40 AND i % 200 = 0 THEN 1 ELSE 0 END, CASE WHEN part < 40 AND i % 200 = 0 THEN at + interval '1 s' END,
           CASE WHEN part < 40 AND i % 200 = 0 THEN i END, CASE WHEN part < 40 AND i % 200 = 0 THEN worker END,
           CASE WHEN part BETWEEN 52 AND 56 THEN 'Timeout: no answer within 30 s' END, CASE WHEN part BETWEEN 52 AND 56 THEN 'Timeout' END,
           CASE WHEN i % 50 = 0 THEN ARRAY['import-' || i % 9] END, CASE WHEN i % 20 = 0 THEN 'order-' || i END
    FROM n WHERE part < 58
), ended AS (
    INSERT INTO tenon.history (finished_at, id, run_at, start_time, created_at, worker_id, claims, failures, crashes, priority, outcome, queue, kind, payload)
    SELECT at + interval '2 s', nextval('tenon.task_id_seq'), at, at + interval '1 s', at, worker, 1, 0, 0, priority,
           (CASE WHEN part < 96 THEN 'done' WHEN part = 96 THEN 'cancelled' ELSE 'expired' END)::tenon.outcome, queue, kind, payload
    FROM n WHERE part BETWEEN 58 AND 97
), died AS (
    INSERT INTO tenon.dead (dead_at, id, run_at, start_time, created_at, worker_id, timeout_ms, claims, failures, crashes, max_attempts, priority, reason,
                            queue, kind, payload, last_error, error_class)
    SELECT at + interval '2 s', nextval('tenon.task_id_seq'), at, at + interval '1 s', at, worker, 3600000, 1, 1, 0, 1, priority, 'failures', queue, kind,
           payload, e.class || ': it did not work out, the ' || i || 'th time', e.class
    FROM n JOIN error e ON e.c = n.i / 700 % 12 WHERE part > 97 RETURNING id, start_time, worker_id, queue, kind, error_class, last_error
), attempt AS (
    INSERT INTO tenon.attempt (ended_at, task_id, attempt, claims, started_at, worker_id, host, outcome, queue, kind, error_class, error, exit_code)
    SELECT start_time + interval '1 s', id, 1, 1, start_time, worker_id, 'host', 'failed', queue, kind, error_class, last_error, 1 FROM died
)
INSERT INTO tenon.minute (minute, queue, kind, worker_id, started, ended, done, failed, dead, wait_us, run_us)
SELECT date_trunc('minute', statement_timestamp()) - m * interval '1 min', 'queue_' || k % 5, 'kind_' || k,
       ('00000000-0000-0000-0000-' || lpad((k + 30 * w)::text, 12, '0'))::uuid, 40, 40, 36, 4, 1, 40000000, 4000000
FROM generate_series(0, 1439) m, generate_series(0, 29) k, generate_series(0, 1) w;

-- And of the others so many that a list of all would be too long: a flow of 500 tasks, 200 limits with 2,000 tasks in line, 2,000
-- messages, 300 schedules.
SELECT tenon.flow(jsonb_build_object('name', 'nightly import', 'tasks', jsonb_agg(jsonb_build_object('name', 't' || i, 'kind', 'kind_' || i % 30)
           || CASE WHEN i > 1 THEN jsonb_build_object('depends_on', jsonb_build_array('t' || i / 2)) ELSE '{}' END ORDER BY i)))
FROM generate_series(1, 500) i;
SELECT tenon.set_limit('tenant:' || i, max_running => 1) FROM generate_series(1, 200) i;
SELECT tenon.enqueue('kind_1', queue => 'queue_1', limit_keys => ARRAY['tenant:' || i % 200 + 1]) FROM generate_series(1, 2000) i;
SELECT tenon.publish('events', 'user.created', '{}') FROM generate_series(1, 2000) i;
SELECT tenon.set_schedule('nightly-' || i, cron => '0 3 * * *', kind => 'kind_' || i % 30) FROM generate_series(1, 300) i;
SELECT tenon.settle();
ANALYZE;
