-- A run that did not end well: how long to wait, what to keep of the error, and requeue, the one act that makes a task unstarted again.

-- How long after its n-th failure a task waits. Without a policy, and with `polynomial`: n^4 + 15 s, at most 30 days, and up to
-- 10 n s of jitter. The curve is Sidekiq's, which people know: 25 attempts take about three weeks.
CREATE OR REPLACE FUNCTION tenon.retry_delay(failures integer, policy text DEFAULT NULL) RETURNS interval
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT make_interval(secs => CASE p.curve
               WHEN 'exponential' THEN least(p.cap_s, p.first_s * power(2, least(failures - 1, 60))) * (1 + p.jitter * random())
               WHEN 'linear' THEN least(p.cap_s, p.first_s * failures) * (1 + p.jitter * random())
               WHEN 'constant' THEN p.first_s * (1 + p.jitter * random())
               ELSE least(coalesce(p.cap_s, 2592000), power(failures, 4) + 15) * (1 + coalesce(p.jitter, 0) * random())
                    + CASE WHEN p.jitter IS NULL THEN random() * 10 * failures ELSE 0 END END)
      FROM tenon.retry_parts(policy) p
$$;

-- How a handler's process ended: the beginning of the worker's error. Handlers may write the same words with any number, so
-- only what is an integer in ASCII digits counts.
CREATE OR REPLACE FUNCTION tenon.ended_by(error text, OUT exit_code integer, OUT signal integer)
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT m[1]::integer, m[2]::integer
      FROM regexp_match(error, '^(?:the handler ended without an answer: )?(?:exit status ([0-9]{1,9})|killed by signal ([0-9]{1,9}))\M') m
$$;

-- Shortens an error that is too long by cutting its middle: its beginning says what failed, its end why.
CREATE OR REPLACE FUNCTION tenon.error_kept(error text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN length($1) > 8192 THEN left($1, 2048) || ' ... ' || right($1, 6139) ELSE $1 END
$$;

-- The line of an error's text that tells it: of a traceback or a stack trace the exception, of an exec handler's last words
-- "Name: text" or "module.Name: text", else the first. The cost is bounded whatever a handler prints: of the last
-- 400 lines up to 20 that name an exception are tried, and of each the first 1,000 characters.
CREATE OR REPLACE FUNCTION tenon.error_line(error text) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    lines  text[] := string_to_array(error, E'\n');
    n      integer := cardinality(lines);
    tries  integer := 0;
    prefix text;
    m      text[];
BEGIN
    IF error LIKE '%Error%' OR error LIKE '%Exception%' THEN
        FOR i IN REVERSE n..greatest(1, n - 399) LOOP
            CONTINUE WHEN lines[i] NOT LIKE '%Error%' AND lines[i] NOT LIKE '%Exception%';
            m := regexp_match(left(lines[i], 1000), '^(?:[a-z ]*exit status \d+: )?((?:[A-Za-z_][\w.]*)?(?:Error|Exception)\M(?:[:( ].*)?)$');
            tries := tries + 1;
            EXIT WHEN m IS NOT NULL OR tries = 20;
        END LOOP;
        IF m IS NOT NULL THEN
            RETURN m[1];
        END IF;
    END IF;
    prefix := substring(left(error, 200) from '^[a-z :]*exit status \d+: ');
    IF prefix IS NOT NULL THEN
        lines[1] := substr(lines[1], length(prefix) + 1);
        IF left(lines[n], 200) ~ '^(?:[A-Za-z_]\w*\.)*[A-Z]\w*[a-z]\w*: ' THEN
            RETURN lines[n];
        END IF;
    END IF;
    RETURN nullif(split_part(ltrim(error, E' \t\n\r\f\v'), E'\n', 1), '');
END $$;

-- What kind of error this is, for grouping: how the process ended, or the first word of the line that tells it. (Ruby's is
-- "file.rb:1:in 'f': text (Name)".) A word has at most 100 characters, and so it is not looked for in more than 200.
CREATE OR REPLACE FUNCTION tenon.error_class(reason text, error text) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    line text;
    word text;
    e    record;
BEGIN
    IF reason = 'timed_out' THEN
        RETURN 'timeout';
    ELSIF reason = 'crashed' THEN
        RETURN 'crash';
    END IF;
    line := left(tenon.error_line(error), 200);
    word := substring(line from '^([\w.]*(?:Error|Exception))\M');
    IF word IS NULL THEN
        e := tenon.ended_by(error);
        IF e.exit_code IS NOT NULL THEN
            word := substring(line from '^((?:\w+\.)*[A-Z]\w*): ');
            line := split_part(error, E'\n', 1);
            IF word IS NULL AND left(line, 200) ~ '^[a-z :]*exit status \d+: .*\.rb:\d+:in ' THEN
                word := substring(right(line, 200) from ' \(([A-Z][\w:]*)\)$');
            END IF;
        END IF;
        word := coalesce(word, 'exit_' || e.exit_code, 'signal_' || e.signal,
                         substring(left(ltrim(error, E' \t\n\r\f\v:,;('), 200) from '[^\s:,;(]+'));
    END IF;
    RETURN left(word, 100);
END $$;

-- Why a task with this number of steps may not wait for this signal; NULL: it may. The signal's payload becomes one of the task's steps.
CREATE OR REPLACE FUNCTION tenon.wait_refused(id bigint, step_count integer, step_bytes integer, signal text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN coalesce(octet_length(signal), 0) NOT BETWEEN 1 AND 100 THEN 'the name of a signal must have 1 to 100 bytes'
                WHEN step_count IS NOT NULL AND EXISTS (SELECT FROM tenon.task_step s WHERE s.task_id = $1 AND s.name = $4)
                THEN format('the task cannot wait for %s: a step of that name is recorded already', signal)
                WHEN step_bytes > 1048576 OR step_count >= 1000
                THEN 'the task cannot wait: its steps have reached their limit, 1000 steps or 1 MiB' END
$$;

-- A hash of a task's progress and of how many steps it has, which only become more. While it stays the same, the task has made no progress.
CREATE OR REPLACE FUNCTION tenon.progress_mark(t tenon.task) RETURNS bigint
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
RETURN hashtextextended(concat_ws(' ', t.step_count, t.progress), 0);

-- Make started tasks unstarted again, or dead: the one place where that happens.
--   ids, keys   the fence, element by element
--   reasons     failed    the handler failed: charged, waits retry_delay
--               snooze    the handler asked for a later run: not charged, waits delays_ms
--               released  the worker could not run it: not charged, ready at once, and its run_at stays
--                         as it was, so that it does not go to the end of a backlog
--               crashed   its worker died, or its child, which had other tasks too: counted as a crash, ready at once. Before
--                         the one that may be its last (max_crashes, in a row) it becomes a suspect: blocked, until a worker
--                         runs it alone (tenon.claim_alone). Only a crash in such a run is the last
--               timed_out it ran past its timeout: charged, waits retry_delay, or dead if on_timeout of its kind says so
--               dead      the handler says that it can never work
--               wait_signal  blocked until its signal comes, or delays_ms (NULL: 365 days) are over: not charged; failed, if it may not
--   errors      what went wrong, or NULL to keep the last error. Of one that is too long the middle is left out: its
--               beginning says what failed, its end why
--   delays_ms   how long to wait instead, or NULL
--   classes     what kinds of errors they are, or NULL: the first word of each
--   signals     what those with the reason `wait_signal` wait for
-- A task stays a suspect when it fails, is released or crashes, but not when it snoozes itself (snooze, wait_signal).
-- With each death, in the same statement, the task is enqueued that its kind or the settings want then (on_dead).
-- Returns the new state of each row that was changed. A row that is missing here either is no longer
-- this claim's, or is locked by somebody else at the moment: ask again later. `= ANY (ARRAY[...])` and not `=`:
-- each row is looked up by its id, whatever the table held when the plan was made. One long statement, because a worker's
-- transaction is one pipeline, and all of this must see one snapshot.
CREATE OR REPLACE FUNCTION tenon.requeue(ids bigint[], keys bigint[], reasons text[], errors text[], delays_ms bigint[],
    classes text[] DEFAULT NULL, signals text[] DEFAULT NULL)
RETURNS TABLE (id bigint, state text)
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH given AS MATERIALIZED (
        SELECT g.* FROM unnest($1, $2, $3, $4, $5, $6, $7) AS g (id, key, asked, error_given, delay_ms, class, signal)
    ), mine AS MATERIALIZED (
        SELECT t.id, t.failures + (x.reason IN ('failed', 'timed_out'))::integer AS failures,
               t.crashes + (x.reason = 'crashed')::integer AS crashes,
               CASE WHEN x.reason = 'crashed' THEN tenon.progress_mark(t) END AS mark, t.max_crashes,
               t.max_attempts, t.queue, t.kind, t.retry, t.unique_key, t.again, t.claims, t.start_time, t.worker_id, t.run_at, t.limit_keys, x.reason,
               CASE WHEN w.refused IS NULL THEN g.delay_ms END AS delay_ms, g.signal,
               CASE WHEN x.reason IN ('failed', 'timed_out', 'crashed', 'dead')
                    THEN coalesce(left(g.class, 100), tenon.error_class(x.reason, x.error)) ELSE t.error_class END AS class,
               1 + t.failures + t.crashes AS attempt,
               coalesce(x.error, t.last_error) AS error
          FROM given g JOIN tenon.task t ON t.id = ANY (ARRAY[g.id])
         CROSS JOIN LATERAL (SELECT CASE WHEN g.asked = 'wait_signal' THEN tenon.wait_refused(t.id, t.step_count, t.step_bytes, g.signal) END AS refused) w
         CROSS JOIN LATERAL (SELECT CASE WHEN w.refused IS NULL THEN g.asked ELSE 'failed' END AS reason,
                                    tenon.error_kept(coalesce(w.refused, g.error_given)) AS error) x
         WHERE t.claim_key = g.key
         ORDER BY g.id
           FOR UPDATE OF t SKIP LOCKED
    ), suspected AS MATERIALIZED (  -- how often it has crashed in a row, its max_crashes, and whether it ran alone
        SELECT m.id, CASE WHEN m.reason <> 'crashed' THEN s.crashes WHEN s.mark = m.mark THEN s.crashes + 1 ELSE 1 END AS in_a_row,
               coalesce(m.max_crashes, k.max_crashes, 3) AS most, coalesce(m.mark, s.mark) AS mark, s.claims = m.claims AS was_alone
          FROM mine m
          LEFT JOIN tenon.suspect s ON s.task_id = ANY (ARRAY[m.id])
          LEFT JOIN tenon.kind k ON k.name = m.kind
         WHERE m.crashes > 0
    ), judged AS MATERIALIZED (
        SELECT m.*, s.in_a_row, s.mark AS mark_now,
               coalesce(m.reason IN ('crashed', 'failed', 'timed_out', 'released') AND s.in_a_row >= s.most - 1, false) AS alone,
               CASE WHEN m.reason = 'dead' THEN 'handler'
                         WHEN m.reason = 'timed_out'
                              AND EXISTS (SELECT FROM tenon.kind k WHERE k.name = m.kind AND k.on_timeout = 'dead') THEN 'timeout'
                         WHEN m.reason = 'crashed' AND s.was_alone AND s.in_a_row >= s.most THEN 'crashes'
                         WHEN m.reason IN ('failed', 'timed_out') AND m.failures >= m.max_attempts THEN 'failures'
                    END AS dead_of,
               CASE WHEN m.reason = 'wait_signal' AND m.limit_keys IS NOT NULL THEN 'infinity'  -- it is not in their lines
                    WHEN m.reason = 'wait_signal' THEN clock_timestamp()
                    WHEN m.delay_ms IS NOT NULL THEN clock_timestamp() + make_interval(secs => m.delay_ms / 1000.0)
                    WHEN m.reason IN ('failed', 'timed_out') THEN clock_timestamp() + tenon.retry_delay(m.failures, coalesce(m.retry,
                       (SELECT k.retry FROM tenon.kind k WHERE k.name = m.kind), (SELECT q.retry FROM tenon.queue q WHERE q.name = m.queue)))
                    WHEN m.reason = 'released' THEN m.run_at
                    ELSE clock_timestamp() END AS wanted_at
          FROM mine m LEFT JOIN suspected s ON s.id = m.id
    ), gone AS (
        DELETE FROM tenon.task t USING judged j WHERE t.id = ANY (ARRAY[j.id]) AND j.dead_of IS NOT NULL
        RETURNING t.*, j.failures AS failures_now, j.crashes AS crashes_now, j.dead_of, j.error, j.class, j.attempt,
                  CASE WHEN tenon.needs_note(t) THEN tenon.record_end_of(t, keeps_steps => true) END AS kept
    ), died AS (
        INSERT INTO tenon.dead (dead_at, id, run_at, start_time, created_at, start_before, worker_id, timeout_ms, claims,
                                failures, crashes, max_attempts, priority, reason, queue, kind, payload,
                                unique_key, retry, trace, last_error, error_class, enqueued_by, compensates, limit_keys, steps, step_names, step_times,
                                progress, max_crashes, tags)
        SELECT clock_timestamp(), g.id, run_at, start_time, created_at, start_before, worker_id, timeout_ms, claims,
               failures_now, crashes_now, max_attempts, priority, dead_of, queue, kind, payload,
               unique_key, retry, trace, error, class, enqueued_by, compensates, limit_keys, (g.kept).steps, (g.kept).names, (g.kept).times,
               progress, max_crashes, tags
          FROM gone g
        RETURNING dead.id
    ), compensated AS (
        INSERT INTO tenon.task (run_at, created_at, timeout_ms, max_attempts, priority, delayed, announced, queue, kind,
                                payload, payload_bytes, trace, enqueued_by, compensates, limit_keys, wanted_at)
        SELECT CASE WHEN d.limit_keys || d.limits IS NULL THEN now() ELSE 'infinity' END, now(), d.timeout_ms, d.max_attempts, d.priority, false, false,
               d.queue, c.kind, c.payload, octet_length(c.payload::text), g.trace, session_user, g.id, d.limit_keys || d.limits,
               CASE WHEN d.limit_keys || d.limits IS NOT NULL THEN now() END
          FROM gone g
          JOIN tenon.setting s ON g.compensates IS NULL
          LEFT JOIN tenon.kind k ON k.name = g.kind
         CROSS JOIN LATERAL (
               SELECT coalesce(k.on_dead, s.on_dead) AS kind,
                      jsonb_build_object('id', g.id, 'queue', g.queue, 'kind', g.kind, 'payload', g.payload,
                          'reason', g.dead_of, 'error', g.error, 'error_class', g.class, 'attempt', g.attempt,
                          'failures', g.failures_now, 'crashes', g.crashes_now, 'unique_key', g.unique_key,
                          'trace', g.trace, 'created_at', g.created_at, 'enqueued_by', g.enqueued_by, 'steps', (g.kept).steps) AS payload) c
         CROSS JOIN LATERAL tenon.defaults(c.kind, NULL) d
         WHERE c.kind IS NOT NULL
        RETURNING task.id, task.limit_keys
    ), limited AS (  -- tenon.settle_limits() must let them start
        INSERT INTO tenon.limit_event (keys, task_id, start_time, enters)
        SELECT j.limit_keys, j.id, j.start_time, NULL::boolean FROM judged j WHERE j.limit_keys IS NOT NULL AND j.dead_of IS NULL
        UNION ALL
        SELECT c.limit_keys, c.id, NULL, true FROM compensated c WHERE c.limit_keys IS NOT NULL
        RETURNING tenon.call_settler()
    ), attempted AS (
        INSERT INTO tenon.attempt (ended_at, task_id, attempt, claims, started_at, worker_id, host, outcome, queue, kind,
                                   error_class, error, exit_code, signal)
        SELECT clock_timestamp(), j.id, j.attempt, j.claims, j.start_time, j.worker_id,
               (SELECT w.host FROM tenon.worker w WHERE w.id = j.worker_id), j.reason, j.queue, j.kind, j.class, j.error,
               e.exit_code, e.signal
          FROM judged j CROSS JOIN tenon.ended_by(j.error) e WHERE j.reason IN ('failed', 'timed_out', 'crashed', 'dead')
    ), settled AS (  -- what waited for its end may join it now
        INSERT INTO tenon.again_note (unique_key, kind)
        SELECT j.unique_key, j.kind FROM judged j WHERE j.again IS NOT NULL AND j.dead_of IS NULL
    ), back AS (
        UPDATE tenon.task t
           SET start_time = NULL, claim_key = NULL, worker_id = NULL, failures = j.failures, crashes = j.crashes, again = NULL,
               last_error = j.error, error_class = j.class,
               delayed = t.limit_keys IS NULL AND j.reason <> 'wait_signal' AND NOT j.alone
                         AND (t.delayed OR j.reason <> 'released' OR j.delay_ms IS NOT NULL),
               run_at = CASE WHEN t.limit_keys IS NULL AND j.reason <> 'wait_signal' AND NOT j.alone THEN j.wanted_at ELSE 'infinity' END,
               wanted_at = CASE WHEN t.limit_keys IS NOT NULL OR j.reason = 'wait_signal' THEN j.wanted_at END  -- its next start must be let go again
          FROM judged j WHERE t.id = ANY (ARRAY[j.id]) AND j.dead_of IS NULL
        RETURNING t.id, t.failures + t.crashes AS failed, t.run_at, t.wanted_at, j.reason, j.signal, j.delay_ms
    ), waits AS (
        INSERT INTO tenon.waiting AS w (task_id, signal, until)
        SELECT b.id, b.signal, clock_timestamp() + make_interval(secs => coalesce(b.delay_ms, 31536000000) / 1000.0)
          FROM back b WHERE b.reason = 'wait_signal'
        ON CONFLICT (task_id) DO UPDATE SET signal = excluded.signal, until = excluded.until, settled = false
    ), suspects AS (
        INSERT INTO tenon.suspect AS s (task_id, crashes, mark, alone, due_at)
        SELECT j.id, j.in_a_row, j.mark_now, j.alone, CASE WHEN j.alone AND j.limit_keys IS NULL THEN j.wanted_at END
          FROM judged j WHERE j.dead_of IS NULL AND j.in_a_row IS NOT NULL
        ON CONFLICT (task_id) DO UPDATE
           SET crashes = excluded.crashes, mark = excluded.mark, alone = excluded.alone, due_at = excluded.due_at, claims = NULL
    )
    SELECT d.id, 'dead' FROM died d
    UNION ALL
    SELECT b.id, CASE WHEN b.run_at = 'infinity' THEN 'blocked' WHEN b.run_at <= clock_timestamp() THEN 'ready'
                      WHEN b.failed > 0 THEN 'retrying' ELSE 'scheduled' END FROM back b
$$;

-- For cleaners: the same for the tasks of a dead worker, which are counted for it. A task that cannot be requeued, or not in time,
-- is set aside if it is the only one of the call; if there are several, the caller tries again with fewer.
CREATE OR REPLACE FUNCTION tenon.recover(ids bigint[], keys bigint[], reasons text[], errors text[])
RETURNS TABLE (id bigint, state text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH back AS MATERIALIZED (
        SELECT r.id, r.state FROM tenon.requeue(ids, keys, reasons, errors, NULL) r
    ), counted AS (
        INSERT INTO tenon.minute AS m (minute, queue, kind, worker_id, failed, dead)
        SELECT date_trunc('minute', clock_timestamp()), t.queue, t.kind, '00000000-0000-0000-0000-000000000000', count(*),
               count(*) FILTER (WHERE b.state = 'dead')
          FROM back b  -- each row as it was before: of this statement's snapshot
         CROSS JOIN LATERAL (SELECT o.queue, o.kind FROM tenon.task o WHERE o.id = b.id OFFSET 0) t
         GROUP BY t.queue, t.kind ORDER BY t.queue, t.kind
        ON CONFLICT (minute, queue, kind, worker_id) DO UPDATE SET failed = m.failed + excluded.failed, dead = m.dead + excluded.dead
    )
    SELECT b.id, b.state FROM back b;
EXCEPTION WHEN query_canceled OR data_exception OR integrity_constraint_violation OR program_limit_exceeded THEN
    IF cardinality(ids) > 1 THEN
        RAISE;
    END IF;
    PERFORM tenon.leave_out('recover', ids[1], SQLERRM);
END $$;
