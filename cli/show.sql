-- All about one task: in the first row one JSON object, in which the payload stands as PostgreSQL prints it (numbers
-- keep all their digits); then what people read, line by line: its name and its text, NULL where there is none.
--   $1 bigint  the id
WITH known AS MATERIALIZED (
    SELECT t.*, p.what AS paused, concat(' by ' || p.paused_by, ': ' || p.paused_why) AS paused_how, w.host, w.pid, w.state AS worker_state,
           h.has_worker, h.backing_off,
           x.max_attempts, x.timeout_ms, d.reason AS dead_reason,
           date_trunc('milliseconds', coalesce(t.end_time, statement_timestamp()) - t.start_time) AS ran,
           date_trunc('milliseconds', statement_timestamp() - t.run_at) AS waited,
           'YYYY-MM-DD HH24:MI:SS.MS "UTC"' AS form
    FROM tenon.tasks t
    LEFT JOIN LATERAL (
        SELECT * FROM tenon.paused
        WHERE (what, name) IN (('queue', t.queue), ('kind', t.kind)) OR what = 'everything'
        LIMIT 1) p ON true
    LEFT JOIN tenon.worker w ON w.id = t.worker_id
    LEFT JOIN tenon.dead d ON d.id = t.id AND t.state = 'dead'
    LEFT JOIN LATERAL (
        SELECT max_attempts, timeout_ms FROM tenon.task WHERE id = t.id
        UNION ALL
        SELECT max_attempts, timeout_ms FROM tenon.dead WHERE id = t.id
        LIMIT 1) x ON true
    CROSS JOIN LATERAL (
        -- who handles it; backing_off: where the handler does not start, if it starts nowhere
        SELECT count(*) > 0 AS has_worker,
               CASE WHEN bool_and(b.why IS NOT NULL)
                    THEN min(format('on worker %s (%s, pid %s): %s', a.id, a.host, a.pid, b.why)) END AS backing_off
        FROM tenon.worker a
        LEFT JOIN LATERAL (
            SELECT substr(line, strpos(line, ': ') + 2) AS why
            FROM unnest(string_to_array(a.backing_off, E'\n')) AS line
            WHERE t.kind = ANY (string_to_array(split_part(line, ': ', 1), ','))) b ON true
        WHERE a.ended_at IS NULL AND a.state = 'alive'
          AND t.queue = ANY (a.queues) AND t.kind = ANY (a.kinds)) h
    WHERE t.id = $1::bigint
    LIMIT 1
), judged AS (
    SELECT k.*, j.*
    FROM known k
    CROSS JOIN LATERAL (
        SELECT CASE WHEN state IN ('scheduled', 'retrying') THEN 'not_due'
                    WHEN state = 'running' THEN 'running'
                    WHEN state <> 'ready' THEN 'ended'
                    WHEN paused IS NOT NULL THEN paused || '_paused'
                    WHEN NOT has_worker THEN 'no_worker'
                    WHEN backing_off IS NOT NULL THEN 'handler_backs_off'
                    ELSE 'no_free_slot' END AS why) j
)
SELECT l.name, l.text
FROM judged j
CROSS JOIN LATERAL (VALUES
    ('json', json_build_object(
        'id', id, 'state', state, 'why', why, 'queue', queue, 'kind', kind, 'priority', priority,
        'payload', payload, 'attempt', attempt, 'claims', claims, 'failures', failures, 'crashes', crashes,
        'max_attempts', max_attempts, 'timeout_ms', timeout_ms, 'created_at', created_at,
        'run_at', run_at, 'start_time', start_time, 'end_time', end_time,
        'worker', CASE WHEN worker_id IS NOT NULL THEN json_build_object(
            'id', worker_id, 'host', host, 'pid', pid, 'state', worker_state) END,
        'unique_key', unique_key, 'trace', trace, 'progress', progress, 'result', result,
        'last_error', last_error, 'error_class', error_class, 'dead_reason', dead_reason,
        'start_before', start_before, 'compensates', compensates,
        'attempts', (SELECT coalesce(json_agg(json_build_object(
             'attempt', a.attempt, 'outcome', a.outcome, 'error_class', a.error_class, 'error', a.error,
             'started_at', a.started_at, 'ended_at', a.ended_at, 'worker', a.worker_id, 'host', a.host,
             'exit_code', a.exit_code, 'signal', a.signal) ORDER BY a.ended_at), '[]')
             FROM tenon.attempt a WHERE a.id = j.id),
        'backing_off', CASE WHEN why = 'handler_backs_off' THEN backing_off END)::text),
    ('task', id::text),
    ('state', state),
    ('why', CASE why
        WHEN 'not_due' THEN format('it is not due before %s (in %s)', to_char(run_at, form), -waited)
        WHEN 'running' THEN format('it runs on %s, pid %s, for %s', coalesce(host, 'an unknown worker'), pid, ran)
        WHEN 'queue_paused' THEN format('the queue %s is paused%s', queue, paused_how)
        WHEN 'kind_paused' THEN format('the kind %s is paused%s', kind, paused_how)
        WHEN 'everything_paused' THEN format('everything is paused%s', paused_how)
        WHEN 'no_worker' THEN format('no living worker handles the kind %s in the queue %s', kind, queue)
        WHEN 'handler_backs_off' THEN format('the handler of the kind %s does not start and backs off %s',
                                             kind, backing_off)
        WHEN 'no_free_slot' THEN format('it is ready and waits for a worker with a free slot, for %s', waited) END),
    ('reason', dead_reason),
    ('kind', kind),
    ('queue', queue),
    ('priority', priority::text),
    ('attempts', format('%s (failures %s%s, crashes %s), claimed %s times',
                        attempt, failures, ' of ' || max_attempts, crashes, claims)),
    ('created', to_char(created_at, form)),
    ('run at', to_char(run_at, form)),
    ('start before', to_char(start_before, form)),
    ('compensates', 'task ' || compensates),
    ('timeout', make_interval(secs => timeout_ms / 1000.0)::text),
    ('started', to_char(start_time, form)),
    ('ended', to_char(end_time, form) || coalesce(format(' (ran %s)', ran), '')),
    ('worker', worker_id || coalesce(format(' on %s, pid %s, %s', host, pid, worker_state), '')),
    ('unique key', unique_key),
    ('trace', trace),
    ('last error', last_error),
    ('progress', progress::text),
    ('result', result::text),
    ('payload', payload::text)) AS l (name, text)
UNION ALL
(SELECT 'attempt ' || a.attempt,
        format('%s, %s after %s on %s%s', to_char(a.started_at, form), a.outcome,
               date_trunc('milliseconds', a.ended_at - a.started_at), coalesce(a.host, a.worker_id::text), ': ' || a.error)
 FROM judged j
 JOIN tenon.attempt a ON a.id = j.id
 WHERE a.id = $1::bigint
 ORDER BY a.ended_at);
