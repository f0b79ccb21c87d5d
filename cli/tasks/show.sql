-- All about one task: in the first row one JSON object, with the payload in the form that PostgreSQL prints (numbers
-- keep all their digits); then what people read, line by line: its name and its text, NULL where there is none.
--   $1 bigint  the id
WITH known AS MATERIALIZED (
    SELECT t.*, o.ordered, w.host, w.pid, w.state AS worker_state, y.code AS why, y.sentence, y.advice,
           (tenon.handled(t.queue, t.kind)).backs_off AS backing_off,
           x.max_attempts, x.timeout_ms, d.reason AS dead_reason,
           date_trunc('milliseconds', coalesce(t.end_time, statement_timestamp()) - t.start_time) AS ran,
           'YYYY-MM-DD HH24:MI:SS.MS "UTC"' AS form
    FROM tenon.tasks t
    LEFT JOIN tenon.worker w ON w.id = t.worker_id
    LEFT JOIN tenon.dead d ON d.id = t.id AND t.state = 'dead'
    LEFT JOIN LATERAL (
        SELECT max_attempts, timeout_ms FROM tenon.task WHERE id = t.id
        UNION ALL
        SELECT max_attempts, timeout_ms FROM tenon.dead WHERE id = t.id
        LIMIT 1) x ON true
    CROSS JOIN LATERAL tenon.why_of(t.id) y
    CROSS JOIN LATERAL (  -- in the order in which they were recorded
        SELECT ('{' || string_agg(to_json(s.key) || ': ' || s.value, ', ' ORDER BY n.position) || '}')::json AS ordered
        FROM jsonb_each(t.steps) s
        LEFT JOIN unnest(t.step_names) WITH ORDINALITY n (name, position) ON n.name = s.key) o
    WHERE t.id = $1::bigint
    LIMIT 1
)
SELECT l.name, l.text
FROM known j
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
        'start_before', start_before, 'compensates', compensates, 'flow', flow, 'limit_keys', limit_keys, 'tags', tags, 'steps', ordered,
        'step_times', (SELECT json_object_agg(s.name, s.at ORDER BY s.position) FROM unnest(step_names, step_times) WITH ORDINALITY s (name, at, position)),
        'next_runs', (SELECT count(*) FROM tenon.again g WHERE g.unique_key = j.unique_key AND g.kind = j.kind AND g.failed IS NULL AND j.end_time IS NULL),
        'attempts', (SELECT coalesce(json_agg(json_build_object(
             'attempt', a.attempt, 'outcome', a.outcome, 'error_class', a.error_class, 'error', a.error,
             'started_at', a.started_at, 'ended_at', a.ended_at, 'worker', a.worker_id, 'host', a.host,
             'exit_code', a.exit_code, 'signal', a.signal) ORDER BY a.ended_at), '[]')
             FROM tenon.attempt a WHERE a.task_id = j.id),
        'backing_off', CASE WHEN why = 'handler_backs_off' THEN backing_off END)::text),
    ('task', id::text),
    ('state', state),
    ('why', CASE WHEN why <> 'ended' OR advice IS NOT NULL THEN sentence END),
    ('what to do', advice),
    ('reason', dead_reason),
    ('kind', kind),
    ('queue', queue),
    ('priority', priority::text),
    ('attempts', format('%s (failures %s%s, crashes %s), claimed %s',
                        attempt, failures, ' of ' || max_attempts, crashes, CASE claims WHEN 1 THEN 'once' ELSE claims || ' times' END)),
    ('created', to_char(created_at, form)),
    ('run at', to_char(run_at, form)),
    ('start before', to_char(start_before, form)),
    ('compensates', 'task ' || compensates),
    ('flow', flow::text),
    ('limits', array_to_string(limit_keys, ', ')),
    ('timeout', make_interval(secs => timeout_ms / 1000.0)::text),
    ('started', to_char(start_time, form)),
    ('ended', to_char(end_time, form) || coalesce(' (ran ' || ran || ')', '')),
    ('worker', worker_id || coalesce(format(' on %s, pid %s, %s', host, pid, worker_state), '')),
    ('unique key', unique_key),
    ('tags', array_to_string(tags, ', ')),
    ('trace', trace),
    ('last error', CASE WHEN EXISTS (SELECT FROM tenon.attempt a WHERE a.task_id = j.id) THEN tenon.error_line(last_error) ELSE last_error END),
    ('error class', error_class),
    ('progress', progress::text),
    ('steps', ordered::text),
    ('result', result::text),
    ('payload', payload::text)) AS l (name, text)
UNION ALL
-- The attempts and the newest 20 steps, in the order of time. An attempt has a line of its own, then the lines of its error: if there are
-- more than ten, the first four and the last five, because some languages begin a stack trace with the failure, and others end with it.
(SELECT l.name, l.text
 FROM known j
 CROSS JOIN LATERAL (
    SELECT a.ended_at AS at, a.attempt AS place, l.*
    FROM tenon.attempt a
    CROSS JOIN LATERAL (
        SELECT 0 AS line, 'attempt ' || a.attempt AS name,
               format('%s to %s: %s%s after %s%s, worker %s', to_char(a.started_at, j.form), to_char(a.ended_at, j.form), a.outcome,
                      ' (' || nullif(concat_ws(', ', a.error_class, 'exit ' || a.exit_code, 'signal ' || a.signal), '') || ')',
                      date_trunc('milliseconds', a.ended_at - a.started_at), ' on ' || a.host, a.worker_id) AS text
        UNION ALL
        SELECT e.line, '', CASE WHEN e.n > 10 AND e.line = 5 THEN format('... %s more lines (--json shows all)', e.n - 9) ELSE left(e.text, 1000) END
        FROM (SELECT s.text, s.line, count(*) OVER () AS n
              FROM regexp_split_to_table(rtrim(a.error, E' \n'), '\n') WITH ORDINALITY AS s (text, line)) e
        WHERE e.n <= 10 OR e.line <= 5 OR e.line > e.n - 5) l
    WHERE a.task_id = $1::bigint
    UNION ALL
    SELECT s.at, s.position, 0, 'step', to_char(s.at, j.form) || ': ' || s.name
    FROM (SELECT * FROM unnest(j.step_names, j.step_times) WITH ORDINALITY s (name, at, position) ORDER BY s.position DESC LIMIT 20) s) l
 ORDER BY l.at, l.place, l.line)
UNION ALL
-- The last ten log lines.
(SELECT l.name, l.text
 FROM known j
 CROSS JOIN LATERAL (
    SELECT 'log, attempt ' || g.attempt AS name, concat_ws(' ', to_char(g.at, 'HH24:MI:SS.MS'), g.level, left(g.message, 1000), g.fields) AS text,
           g.id
    FROM (SELECT * FROM tenon.log_line WHERE task_id = $1::bigint ORDER BY id DESC LIMIT 10) g) l
 ORDER BY l.id);
