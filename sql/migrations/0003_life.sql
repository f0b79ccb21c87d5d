-- The rest of a task's life: requeue, finish, cancel. The worker's own statements for claiming and
-- finishing many tasks at once stand beside the worker.

-- How long after its n-th failure a task waits. Without a policy, and with `sidekiq`: n^4 + 15 s, at most 30 days, and up to
-- 10 n s of jitter. The curve is Sidekiq's, which people know: 25 attempts take about three weeks.
CREATE FUNCTION tenon.retry_delay(failures integer, policy text DEFAULT NULL) RETURNS interval
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT make_interval(secs => CASE p.curve
               WHEN 'exponential' THEN least(p.cap_s, p.first_s * power(2, least(failures - 1, 60))) * (1 + p.jitter * random())
               WHEN 'linear' THEN least(p.cap_s, p.first_s * failures) * (1 + p.jitter * random())
               WHEN 'constant' THEN p.first_s * (1 + p.jitter * random())
               ELSE least(coalesce(p.cap_s, 2592000), power(failures, 4) + 15) * (1 + coalesce(p.jitter, 0) * random())
                    + CASE WHEN p.jitter IS NULL THEN random() * 10 * failures ELSE 0 END END)
      FROM tenon.retry_parts(policy) p
$$;

-- How a handler's process ended, as the worker's error begins. Handlers may write the same words with any number, so
-- only what is an integer in ASCII digits counts.
CREATE FUNCTION tenon.ended_by(error text, OUT exit_code integer, OUT signal integer)
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT m[1]::integer, m[2]::integer
      FROM regexp_match(error, '^(?:the handler ended without an answer: )?(?:exit status ([0-9]{1,9})|killed by signal ([0-9]{1,9}))\M') m
$$;

-- Shortens an error that is too long by cutting its middle: its beginning says what failed, its end why.
CREATE FUNCTION tenon.error_kept(error text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN length($1) > 8192 THEN left($1, 2048) || ' ... ' || right($1, 6139) ELSE $1 END
$$;

-- The line of an error's text that tells it: of a traceback or a stack trace the exception, of an exec handler's last words
-- "Name: text" or "module.Name: text", else the first. The cost is bounded whatever a handler prints: of the last
-- 400 lines up to 20 that name an exception are tried, and of each the first 1,000 characters.
CREATE FUNCTION tenon.error_line(error text) RETURNS text
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
CREATE FUNCTION tenon.error_class(reason text, error text) RETURNS text
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

-- Why a task may not wait for this signal; NULL: it may. What it is given then becomes one of its steps.
CREATE FUNCTION tenon.wait_refused(steps jsonb, signal text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN coalesce(octet_length(signal), 0) NOT BETWEEN 1 AND 100 THEN 'the name of a signal has 1 to 100 bytes'
                WHEN steps ? signal THEN format('it cannot wait for %s, which is recorded already', signal)
                WHEN octet_length(steps::text) > 1048576 OR (SELECT count(*) FROM jsonb_object_keys(steps)) >= 1000
                THEN 'it cannot wait: it has as many steps as there may be' END
$$;

-- When a task ends, what waits for that is settled at once: a note is left, and tenon.settle() does the rest after the
-- commit. It waits for nobody but a settler that is just at the same key. (Whoever writes a row of tenon.waiting has locked
-- its task before, as the one who deletes that has now.) Every statement that deletes a task calls it with the row, where
-- it returns what it deleted (sql_statements_test holds them to that): a trigger would fetch each row once more, a
-- thirtieth of what a plain task costs. Whether there is anything to note is asked first, which is part of the plan.
CREATE FUNCTION tenon.needs_note(t tenon.task) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT t.again IS NOT NULL OR t.flow IS NOT NULL OR t.limit_keys IS NOT NULL OR t.awaited OR t.wanted_at IS NOT NULL OR t.crashes > 0
$$;
CREATE FUNCTION tenon.note_end(id bigint, kind text, start_time timestamptz, unique_key text, again bigint, wanted_at timestamptz,
    flow bigint, limit_keys text[], awaited boolean, crashes integer, was_cancelled boolean) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_variable
BEGIN
    IF again IS NOT NULL THEN
        INSERT INTO tenon.again_note (unique_key, kind) VALUES (unique_key, kind);
    END IF;
    IF flow IS NOT NULL THEN
        INSERT INTO tenon.flow_note (flow, task) VALUES (flow, id);
    END IF;
    IF limit_keys IS NOT NULL THEN
        -- its worker sees within 5 s that it is cancelled; its child may have 30 s for others, and 5 s to end
        INSERT INTO tenon.limit_event (keys, task_id, start_time, hold_until)
        VALUES (limit_keys, id, start_time,
                CASE WHEN was_cancelled AND start_time IS NOT NULL THEN clock_timestamp() + interval '45 s' END);
    END IF;
    IF wanted_at IS NOT NULL THEN
        DELETE FROM tenon.waiting w WHERE w.task_id = id;
    END IF;
    IF crashes > 0 THEN
        DELETE FROM tenon.suspect s WHERE s.task_id = id;
    END IF;
    IF awaited THEN
        PERFORM pg_notify('tenon_ended', id::text);
    END IF;
    IF num_nonnulls(again, flow, limit_keys) > 0 THEN
        PERFORM pg_notify('tenon', 'settle');
    END IF;
END $$;
-- The same of a row; it becomes a call of that one when PostgreSQL plans the statement.
CREATE FUNCTION tenon.note_ended(t tenon.task, was_cancelled boolean DEFAULT false) RETURNS void
LANGUAGE sql AS $$
    SELECT tenon.note_end(t.id, t.kind, t.start_time, t.unique_key, t.again, t.wanted_at, t.flow, t.limit_keys, t.awaited, t.crashes, was_cancelled)
$$;

-- A hash of a task's steps and progress. While it stays the same, the task has made no progress.
CREATE FUNCTION tenon.progress_mark(t tenon.task) RETURNS bigint
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
RETURN hashtextextended(concat_ws(' ', t.steps, t.progress), 0);

-- Make started tasks unstarted again, or dead: the one place where that happens.
--   ids, keys   the fence, element by element
--   reasons     failed    the handler failed: charged, waits retry_delay
--               later     the handler asked for a later run: not charged, waits delays_ms
--               released  the worker could not run it: not charged, ready at once, and its run_at stays
--                         as it was, so that it does not go to the end of a backlog
--               crashed   its worker died, or its child, which had other tasks too: counted as a crash, ready at once. Before
--                         the one that may be its last (max_crashes, in a row) it becomes a suspect: blocked, until a worker
--                         runs it alone (tenon.claim_alone). Only a crash in such a run is the last
--               timed_out it ran past its timeout: charged, waits retry_delay, or dead if on_timeout of its kind says so
--               dead      the handler says that it can never work
--               wait      blocked until its signal comes, or delays_ms (NULL: 365 days) are over: not charged; failed, if it may not
--   errors      what went wrong, or NULL to keep the last error. Of one that is too long the middle is left out: its
--               beginning says what failed, its end why
--   delays_ms   how long to wait instead, or NULL
--   classes     what kinds of errors they are, or NULL: the first word of each
--   signals     what those with the reason `wait` wait for
-- A task stays a suspect when it fails, is released or crashes, but not when it postpones itself (later, wait).
-- With each death, in the same statement, the task is enqueued that its kind or the settings want then (on_dead).
-- Returns the new state of each row that was changed. A row that is missing here either is no longer
-- this claim's, or is locked by somebody else at the moment: ask again later. `= ANY (ARRAY[...])` and not `=`:
-- each row is looked up by its id, whatever the table held when the plan was made.
CREATE FUNCTION tenon.requeue(ids bigint[], keys bigint[], reasons text[], errors text[], delays_ms bigint[],
    classes text[] DEFAULT NULL, signals text[] DEFAULT NULL)
RETURNS TABLE (id bigint, state text)
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
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
         CROSS JOIN LATERAL (SELECT CASE WHEN g.asked = 'wait' THEN tenon.wait_refused(t.steps, g.signal) END AS refused) w
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
               CASE WHEN m.reason = 'wait' AND m.limit_keys IS NOT NULL THEN 'infinity'  -- it does not stand in their lines
                    WHEN m.reason = 'wait' THEN clock_timestamp()
                    WHEN m.delay_ms IS NOT NULL THEN clock_timestamp() + make_interval(secs => m.delay_ms / 1000.0)
                    WHEN m.reason IN ('failed', 'timed_out') THEN clock_timestamp() + tenon.retry_delay(m.failures, coalesce(m.retry,
                       (SELECT k.retry FROM tenon.kind k WHERE k.name = m.kind), (SELECT q.retry FROM tenon.queue q WHERE q.name = m.queue)))
                    WHEN m.reason = 'released' THEN m.run_at
                    ELSE clock_timestamp() END AS wanted_at
          FROM mine m LEFT JOIN suspected s ON s.id = m.id
    ), gone AS (
        DELETE FROM tenon.task t USING judged j WHERE t.id = ANY (ARRAY[j.id]) AND j.dead_of IS NOT NULL
        RETURNING t.*, j.failures AS failures_now, j.crashes AS crashes_now, j.dead_of, j.error, j.class, j.attempt,
                  CASE WHEN tenon.needs_note(t) THEN tenon.note_ended(t) END
    ), died AS (
        INSERT INTO tenon.dead (dead_at, id, run_at, start_time, created_at, start_before, worker_id, timeout_ms, claims,
                                failures, crashes, max_attempts, priority, reason, queue, kind, payload,
                                unique_key, retry, trace, last_error, error_class, enqueued_by, compensates, limit_keys, steps, progress, max_crashes)
        SELECT clock_timestamp(), g.id, run_at, start_time, created_at, start_before, worker_id, timeout_ms, claims,
               failures_now, crashes_now, max_attempts, priority, dead_of, queue, kind, payload,
               unique_key, retry, trace, error, class, enqueued_by, compensates, limit_keys, steps, progress, max_crashes
          FROM gone g
        RETURNING dead.id
    ), compensated AS (
        INSERT INTO tenon.task (run_at, created_at, timeout_ms, max_attempts, priority, delayed, announced, queue, kind,
                                payload, payload_bytes, trace, enqueued_by, compensates, limit_keys, wanted_at)
        SELECT CASE WHEN d.limits IS NULL THEN now() ELSE 'infinity' END, now(), d.timeout_ms, d.max_attempts, d.priority, false, false,
               d.queue, c.kind, c.payload, octet_length(c.payload::text), g.trace, session_user, g.id, d.limits,
               CASE WHEN d.limits IS NOT NULL THEN now() END
          FROM gone g
          JOIN tenon.setting s ON g.compensates IS NULL
          LEFT JOIN tenon.kind k ON k.name = g.kind
         CROSS JOIN LATERAL (
               SELECT coalesce(k.on_dead, s.on_dead) AS kind,
                      jsonb_build_object('id', g.id, 'queue', g.queue, 'kind', g.kind, 'payload', g.payload,
                          'reason', g.dead_of, 'error', g.error, 'error_class', g.class, 'attempt', g.attempt,
                          'failures', g.failures_now, 'crashes', g.crashes_now, 'unique_key', g.unique_key,
                          'trace', g.trace, 'created_at', g.created_at, 'enqueued_by', g.enqueued_by, 'steps', g.steps) AS payload) c
         CROSS JOIN LATERAL tenon.defaults(c.kind, NULL) d
         WHERE c.kind IS NOT NULL
        RETURNING task.id, task.limit_keys
    ), limited AS (  -- tenon.settle_limits() must let them start
        INSERT INTO tenon.limit_event (keys, task_id, start_time, enters)
        SELECT j.limit_keys, j.id, j.start_time, NULL::boolean FROM judged j WHERE j.limit_keys IS NOT NULL AND j.dead_of IS NULL
        UNION ALL
        SELECT c.limit_keys, c.id, NULL, true FROM compensated c WHERE c.limit_keys IS NOT NULL
        RETURNING pg_notify('tenon', 'settle')
    ), attempted AS (
        INSERT INTO tenon.attempt (ended_at, id, attempt, claims, started_at, worker_id, host, outcome, queue, kind,
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
               delayed = t.limit_keys IS NULL AND j.reason <> 'wait' AND NOT j.alone
                         AND (t.delayed OR j.reason <> 'released' OR j.delay_ms IS NOT NULL),
               run_at = CASE WHEN t.limit_keys IS NULL AND j.reason <> 'wait' AND NOT j.alone THEN j.wanted_at ELSE 'infinity' END,
               wanted_at = CASE WHEN t.limit_keys IS NOT NULL OR j.reason = 'wait' THEN j.wanted_at END  -- its next start must be let go again
          FROM judged j WHERE t.id = ANY (ARRAY[j.id]) AND j.dead_of IS NULL
        RETURNING t.id, t.failures + t.crashes AS failed, t.run_at, t.wanted_at, j.reason, j.signal, j.delay_ms
    ), waits AS (
        INSERT INTO tenon.waiting AS w (task_id, signal, until)
        SELECT b.id, b.signal, clock_timestamp() + make_interval(secs => coalesce(b.delay_ms, 31536000000) / 1000.0)
          FROM back b WHERE b.reason = 'wait'
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

-- For cleaners: the same for the tasks of a dead worker. A task that cannot be requeued, or not in time, is set aside if it is
-- the only one of the call; if there are several, the caller tries again with fewer.
CREATE FUNCTION tenon.recover(ids bigint[], keys bigint[], reasons text[], errors text[])
RETURNS TABLE (id bigint, state text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY SELECT r.id, r.state FROM tenon.requeue(ids, keys, reasons, errors, NULL) r;
EXCEPTION WHEN query_canceled OR data_exception OR integrity_constraint_violation OR program_limit_exceeded THEN
    IF cardinality(ids) > 1 THEN
        RAISE;
    END IF;
    PERFORM tenon.leave_out('recover', ids[1], SQLERRM);
END $$;

-- The history's partition for a moment is there afterwards. Cleaners and workers make them for days ahead;
-- when none of them ran for a week, tenon.finish, tenon.finish_many and tenon.cancel make what is missing. Only they call
-- it, and so it needs no search_path of its own.
CREATE FUNCTION tenon.need_partition(moment timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF to_regclass('tenon.finished_' || to_char(moment AT TIME ZONE 'UTC', 'YYYYMMDD')) IS NULL THEN
        PERFORM tenon.make_partitions();
    END IF;
END $$;

-- A result that can be stored in little may print as a gigabyte, which no pg_dump can read: [1e-16383] is 16 KB. What
-- is longer than 2 MiB as text is replaced by a note that says so; a worker measures what its handlers return.
CREATE FUNCTION tenon.result_kept(result jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF result IS NULL OR octet_length(result::text) <= 2097152 THEN
        RETURN result;
    END IF;
    RETURN to_jsonb('tenon: the result was not kept, it is longer than 2 MiB as text'::text);
EXCEPTION WHEN program_limit_exceeded THEN  -- longer than 1 GB
    RETURN to_jsonb('tenon: the result was not kept, it is longer than 2 MiB as text'::text);
END $$;

-- The same for many. To catch an error costs a subtransaction, so all of them are measured in one.
CREATE FUNCTION tenon.results_kept(results jsonb[]) RETURNS jsonb[]
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    BEGIN
        IF (SELECT bool_and(octet_length(r::text) <= 2097152) FROM unnest(results) r) IS NOT FALSE THEN
            RETURN results;
        END IF;
    EXCEPTION WHEN program_limit_exceeded THEN
        NULL;
    END;
    RETURN ARRAY(SELECT tenon.result_kept(u.r) FROM unnest(results) WITH ORDINALITY u (r, n) ORDER BY u.n);
END $$;

-- What was enqueued under a key, and has been committed: part of the task that holds the key, or a task of its own when
-- nobody holds it; under one that is running, or cannot take it in, it waits for the end, or joins what waits there.
-- False: somebody has locked the holder, or is just making one; later.
CREATE FUNCTION tenon.settle_again(a tenon.again) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off SET lock_timeout = '2 ms' AS $$
DECLARE
    held  tenon.task;
    due   timestamptz := greatest(a.run_at, clock_timestamp());
    made  bigint;
BEGIN
    IF tenon.join_holder(a, NULL) THEN
        DELETE FROM tenon.again g WHERE g.id = a.id;
        RETURN true;
    END IF;
    SELECT t.* INTO held FROM tenon.task t WHERE t.unique_key = a.unique_key AND t.kind = a.kind FOR UPDATE SKIP LOCKED;
    IF held.id IS NOT NULL THEN
        UPDATE tenon.again g SET taken = true, failed = NULL WHERE g.id = a.id;
        UPDATE tenon.task t SET again = a.id WHERE t.id = held.id AND t.again IS NULL;
        RETURN true;
    END IF;
    IF EXISTS (SELECT FROM tenon.task t WHERE t.unique_key = a.unique_key AND t.kind = a.kind) THEN
        RETURN false;
    END IF;
    INSERT INTO tenon.task (run_at, created_at, start_before, timeout_ms, max_attempts, priority, delayed, announced,
                            queue, kind, payload, payload_bytes, unique_key, retry, trace, enqueued_by, limit_keys, wanted_at)
    VALUES (CASE WHEN a.limit_keys IS NULL THEN due ELSE 'infinity' END, a.created_at, a.start_before, a.timeout_ms,
            a.max_attempts, a.priority, a.limit_keys IS NULL AND due > clock_timestamp(), false,
            a.queue, a.kind, a.payload, a.payload_bytes, a.unique_key, a.retry, a.trace, a.enqueued_by, a.limit_keys,
            CASE WHEN a.limit_keys IS NOT NULL THEN due END)
    ON CONFLICT DO NOTHING
    RETURNING task.id INTO made;
    IF FOUND THEN
        DELETE FROM tenon.again g WHERE g.id = a.id;
        IF a.limit_keys IS NOT NULL THEN
            PERFORM tenon.queue_limits(ARRAY[made]);
        END IF;
    END IF;
    RETURN true;
EXCEPTION
    WHEN lock_not_available THEN
        RETURN false;
    WHEN data_exception OR integrity_constraint_violation OR program_limit_exceeded THEN
        -- nothing that enqueues leaves such a row; should there be one, it must not stop all that comes after it, nor take it in
        UPDATE tenon.again g SET taken = true, failed = left(SQLERRM, 8192) WHERE g.id = a.id;
        RAISE WARNING 'tenon: row % of tenon.again, unique_key % of kind %, is set aside: %', a.id, quote_literal(a.unique_key), a.kind, SQLERRM
            USING HINT = 'Delete the row, then enqueue it anew.';
        RETURN true;
END $$;

-- Unblocks blocked tasks, except locked ones, and suspects, which now wait only for their turn to run alone. Returns the
-- unblocked ones; the caller wakes workers for
-- them. The rows are not locked first, if nobody has locked one: that would leave a mark in the new version of a row, and
-- polls pass over what is marked (worker/poll.sql) until their next sweep.
CREATE FUNCTION tenon.unblock(ids bigint[]) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off SET lock_timeout = '10 ms' AS $$
DECLARE
    free bigint[];
BEGIN
    FOR i IN 1..2 LOOP
        BEGIN
            WITH new AS (
                UPDATE tenon.task t SET run_at = CASE WHEN t.crashes > 0 AND EXISTS (SELECT FROM tenon.suspect s WHERE s.task_id = t.id AND s.alone)
                                                      THEN 'infinity' ELSE greatest(t.wanted_at, clock_timestamp()) END,
                                        wanted_at = NULL, delayed = t.wanted_at > clock_timestamp()
                 WHERE t.id = ANY (ids) AND t.wanted_at IS NOT NULL
                RETURNING t.id),
            suspects AS (
                UPDATE tenon.suspect s SET due_at = clock_timestamp() FROM new WHERE s.task_id = new.id AND s.alone)
            SELECT coalesce(array_agg(new.id), '{}') INTO free FROM new;
            RETURN free;
        EXCEPTION WHEN lock_not_available THEN
            ids := ARRAY(SELECT b.id FROM tenon.task b WHERE b.id = ANY (ids) AND b.wanted_at IS NOT NULL
                          ORDER BY b.id FOR UPDATE SKIP LOCKED);
        END;
    END LOOP;
    RETURN '{}';
END $$;

-- Tasks that wait under a key join the row that already waits for the end of the holder, up to `most` at a time. It does
-- not lock the holder, because the worker may be about to finish it. Returns how many.
CREATE FUNCTION tenon.join_waiting(unique_key text, kind text, most integer) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_variable
DECLARE
    first tenon.again;
    one   tenon.again;
    a     tenon.again;
    gone  bigint[] := '{}';
BEGIN
    SELECT g.* INTO first FROM tenon.again g
     WHERE g.unique_key = unique_key AND g.kind = kind AND g.taken AND g.failed IS NULL ORDER BY g.id DESC LIMIT 1 FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    FOR a IN SELECT * FROM tenon.again g WHERE g.unique_key = unique_key AND g.kind = kind AND NOT g.taken
              ORDER BY g.id LIMIT most FOR UPDATE SKIP LOCKED LOOP
        one := tenon.joined(a, first);
        EXIT WHEN one.id IS NULL;
        first := one;
        gone := gone || a.id;
    END LOOP;
    UPDATE tenon.again g
       SET payload = first.payload, payload_bytes = first.payload_bytes, run_at = first.run_at, start_before = first.start_before
     WHERE g.id = first.id AND gone <> '{}';
    DELETE FROM tenon.again g WHERE g.id = ANY (gone);
    RETURN cardinality(gone);
END $$;

-- Has a turn that began at this moment used its 250 ms? Callers do the first piece in any case.
CREATE FUNCTION tenon.turn_is_over(begun timestamptz) RETURNS boolean
LANGUAGE sql VOLATILE AS $$ SELECT clock_timestamp() > $1 + interval '250 ms' $$;

-- The first of these tasks, with at most 8 MB of payloads together; at least one.
CREATE FUNCTION tenon.first_bytes(ids bigint[]) RETURNS bigint[]
LANGUAGE sql STABLE AS $$
    SELECT ARRAY(SELECT b.id
                   FROM (SELECT i.id, i.place, sum(t.payload_bytes) OVER (ORDER BY i.place) - t.payload_bytes AS before
                           FROM unnest($1) WITH ORDINALITY i (id, place)
                          CROSS JOIN LATERAL (SELECT k.payload_bytes FROM tenon.task k WHERE k.id = i.id OFFSET 0) t) b
                  WHERE b.before < 8388608 ORDER BY b.place)
$$;

-- Where a turn begins, and where the next one continues.
CREATE FUNCTION tenon.place_of(cursor regclass) RETURNS bigint
LANGUAGE sql VOLATILE AS $$ SELECT coalesce(pg_sequence_last_value($1), 0) $$;

CREATE FUNCTION tenon.go_on_at(cursor regclass, place bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF place <> tenon.place_of(cursor) THEN
        PERFORM setval(cursor, place);
    END IF;
END $$;

-- Settles the tasks that were enqueued with a key already in use, key by key: up to 100 rows of each, or 20 ms, at a time. A
-- locked key is tried once in a turn, and the next turn continues after it. A task that holds a key and is overdue by 0.2 to 3 s
-- is left to the workers, which skip locked rows. Returns how many; the tasks left in this way, whose workers must be woken; and
-- whether there is more to do at once.
CREATE FUNCTION tenon.settle_keys(most integer, OUT n integer, OUT freed bigint[], OUT more boolean)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    rows_max constant integer := 10000;
    joins_max constant integer := 1000;
    begun timestamptz := clock_timestamp();
    from_ bigint := tenon.place_of('tenon.again_cursor');
    k     record;
    since timestamptz;
    stop  boolean;
    a     tenon.again;
    held  bigint;
    last_ bigint;
    full_ boolean;
BEGIN
    n := 0;
    freed := '{}';
    more := false;
    WITH gone AS (
        DELETE FROM tenon.again_note WHERE id = ANY (ARRAY(SELECT o.id FROM tenon.again_note o ORDER BY o.id LIMIT most FOR UPDATE SKIP LOCKED))
        RETURNING unique_key, kind)
    UPDATE tenon.again w SET taken = false FROM (SELECT DISTINCT o.unique_key, o.kind FROM gone o) e
     WHERE w.unique_key = e.unique_key AND w.kind = e.kind AND w.taken;
    FOR k IN SELECT u.unique_key, u.kind, min(u.id) AS id, max(max(u.id)) OVER () AS last, sum(count(*)) OVER () >= rows_max AS full_
               FROM (SELECT g.id, g.unique_key, g.kind FROM tenon.again g WHERE NOT g.taken AND g.id > from_ ORDER BY g.id LIMIT rows_max) u
              GROUP BY u.unique_key, u.kind ORDER BY min(u.id) LOOP
        IF last_ IS NOT NULL AND (n >= most OR tenon.turn_is_over(begun)) THEN
            last_ := k.id - 1;
            full_ := true;
            more := true;
            EXIT;
        END IF;
        last_ := k.last;
        full_ := k.full_;
        held := (SELECT t.id FROM tenon.task t
                  WHERE t.unique_key = k.unique_key AND t.kind = k.kind AND t.start_time IS NULL
                    AND t.run_at BETWEEN clock_timestamp() - interval '3 s' AND clock_timestamp() - interval '200 ms');
        IF held IS NOT NULL THEN
            freed := freed || held;
            CONTINUE;
        END IF;
        PERFORM tenon.go_on_at('tenon.again_cursor', k.id);  -- in case this one is too slow
        since := clock_timestamp();
        n := n + tenon.join_waiting(k.unique_key, k.kind, joins_max);
        more := more OR n >= joins_max;
        FOR a IN SELECT * FROM tenon.again g WHERE g.unique_key = k.unique_key AND g.kind = k.kind AND NOT g.taken
                  ORDER BY g.id LIMIT 100 FOR UPDATE SKIP LOCKED LOOP
            EXIT WHEN NOT tenon.settle_again(a);
            n := n + 1;
            stop := n >= most OR clock_timestamp() > since + interval '20 ms'  -- the other keys are next
                    OR EXISTS (SELECT FROM tenon.again g WHERE g.id = a.id);   -- it waits now, and the next rows join it
            more := more OR stop;
            EXIT WHEN stop;
        END LOOP;
    END LOOP;
    PERFORM tenon.go_on_at('tenon.again_cursor', CASE WHEN full_ THEN last_ ELSE 0 END);
END $$;

-- --- suspects ---

-- The suspects that a worker of these queues and kinds may run now.
CREATE FUNCTION tenon.suspects_due(queues text[], kinds text[]) RETURNS TABLE (id bigint, queue text, kind text, priority smallint, due_at timestamptz)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
    SELECT t.id, t.queue, t.kind, t.priority, s.due_at
      FROM tenon.suspect s CROSS JOIN LATERAL (SELECT * FROM tenon.task t WHERE t.id = s.task_id OFFSET 0) t
     WHERE s.alone AND s.claims IS NULL AND s.due_at <= statement_timestamp()
       AND t.start_time IS NULL AND t.wanted_at IS NULL AND coalesce(t.start_before > statement_timestamp(), true)
       AND t.queue = ANY ($1) AND t.kind = ANY ($2)
       AND NOT EXISTS (SELECT FROM tenon.queue q WHERE q.name = t.queue AND q.paused)
$$;

-- May this worker run suspects now? If so, it has the turn until it gives it back (alone_since) or has ended. Of the workers
-- that serve the queue and kind of a suspect at most half have the turn, but at least one may; a worker that has it may ask
-- again. Turns are given one at a time, under the lock of the setting's row.
CREATE FUNCTION tenon.take_turn(worker uuid, queues text[], kinds text[]) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_variable
BEGIN
    IF NOT EXISTS (SELECT FROM tenon.suspects_due(queues, kinds)) THEN
        RETURN false;
    END IF;
    PERFORM FROM tenon.setting FOR UPDATE SKIP LOCKED;  -- by itself: the next statement sees what was committed meanwhile
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE tenon.worker w SET alone_since = clock_timestamp()
     WHERE w.id = worker AND w.state = 'alive' AND EXISTS (
           SELECT FROM (SELECT DISTINCT d.queue, d.kind FROM tenon.suspects_due(queues, kinds) d) d
            WHERE (SELECT count(*) FILTER (WHERE o.alone_since IS NOT NULL AND o.id <> worker) < greatest(1, count(*) / 2)
                     FROM tenon.worker o
                    WHERE o.ended_at IS NULL AND o.state = 'alive' AND d.queue = ANY (o.queues) AND d.kind = ANY (o.kinds)));
    RETURN FOUND;
END $$;

-- Claims one suspect for a worker that has the turn and runs nothing. (`infinity` is checked again once the row is locked:
-- another worker may have run it meanwhile, and it may no longer be a suspect.) As in worker/claim.sql, one reading of the clock
-- says whether the task may start and when it does.
CREATE FUNCTION tenon.claim_alone(worker uuid, queues text[], kinds text[]) RETURNS SETOF tenon.task
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
    WITH first AS MATERIALIZED (
        SELECT t.id, d.due_at
          FROM tenon.suspects_due($2, $3) d JOIN tenon.task t ON t.id = ANY (ARRAY[d.id])
         WHERE t.start_time IS NULL AND t.run_at = 'infinity' AND t.wanted_at IS NULL
           AND EXISTS (SELECT FROM tenon.worker w WHERE w.id = $1 AND w.state = 'alive' AND w.alone_since IS NOT NULL)
         ORDER BY d.priority DESC, d.due_at, d.id LIMIT 1 FOR UPDATE OF t SKIP LOCKED
    ), claimed AS (
        UPDATE tenon.task t
           SET start_time = statement_timestamp(), claim_key = tenon.random_key(), worker_id = $1, claims = t.claims + 1, run_at = f.due_at,
               delayed = false
          FROM first f WHERE t.id = ANY (ARRAY[f.id])
        RETURNING t.*
    ), marked AS (
        UPDATE tenon.suspect s SET claims = c.claims FROM claimed c WHERE s.task_id = c.id
    )
    SELECT * FROM claimed
$$;

-- Expires tasks that have missed start_before; returns how many.
CREATE FUNCTION tenon.expire(moment timestamptz, most integer) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    piece constant integer := 16;
    begun timestamptz := clock_timestamp();
    n     integer := 0;
    ids   bigint[];
BEGIN
    PERFORM tenon.need_partition(moment);
    WHILE n < most LOOP
        ids := tenon.first_bytes(ARRAY(
            SELECT l.id FROM tenon.task l
             WHERE l.start_before <= moment AND l.start_time IS NULL
               AND NOT EXISTS (SELECT FROM tenon.set_aside s WHERE s.part = 'expire' AND s.id = l.id AND s.until > moment)
             ORDER BY l.start_before LIMIT least(piece, most - n) FOR UPDATE OF l SKIP LOCKED));
        WITH gone AS (
            DELETE FROM tenon.task t WHERE t.id = ANY (ids)
            RETURNING t.*, CASE WHEN tenon.needs_note(t) THEN tenon.note_ended(t) END)
        INSERT INTO tenon.finished (finished_at, id, run_at, start_time, created_at, worker_id, claims, failures,
                                    crashes, priority, outcome, queue, kind, payload, unique_key, trace, last_error, enqueued_by, limit_keys, steps,
                                    timeout_ms, max_attempts, retry, progress, max_crashes)
        SELECT moment, g.id, coalesce(wanted_at, nullif(run_at, 'infinity'), moment), start_time, created_at, worker_id, claims, failures, crashes, priority,
               'expired', queue, kind, payload, unique_key, trace, format('not started before %s', start_before), enqueued_by, limit_keys, steps,
               timeout_ms, max_attempts, retry, progress, max_crashes
          FROM gone g;
        n := n + cardinality(ids);
        EXIT WHEN ids = '{}' OR tenon.turn_is_over(begun);
    END LOOP;
    RETURN n;
END $$;

-- The row that was too slow when a part took it by itself; NULL: unknown.
CREATE FUNCTION tenon.slow_one(part text) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
    moment timestamptz := clock_timestamp();
BEGIN
    RETURN CASE part
           WHEN 'expire' THEN (SELECT l.id FROM tenon.task l
                                WHERE l.start_before <= moment AND l.start_time IS NULL AND NOT EXISTS (
                                      SELECT FROM tenon.set_aside s WHERE s.part = 'expire' AND s.id = l.id AND s.until > moment)
                                ORDER BY l.start_before LIMIT 1)
           WHEN 'again' THEN (SELECT g.id FROM tenon.again g WHERE g.id = tenon.place_of('tenon.again_cursor'))
           WHEN 'flows' THEN (SELECT o.id FROM tenon.flow_note o
                               WHERE o.id > 0 AND NOT EXISTS (
                                     SELECT FROM tenon.set_aside s WHERE s.part = 'flows' AND s.id = o.id AND s.until > moment)
                               ORDER BY o.id LIMIT 1) END;
END $$;

-- Set a row aside for a minute, or for twice as long as last time, up to a day.
CREATE FUNCTION tenon.leave_out(part text, id bigint, why text) RETURNS void
LANGUAGE sql AS $$
    INSERT INTO tenon.set_aside AS s (part, id, until, error) VALUES ($1, $2, clock_timestamp() + interval '1 minute', left($3, 8192))
    ON CONFLICT ON CONSTRAINT set_aside_pkey DO UPDATE
       SET tries = s.tries + 1, at = clock_timestamp(), error = excluded.error,
           until = clock_timestamp() + least(interval '1 day', interval '1 minute' * power(2, least(s.tries, 20)))
$$;

-- A part of tenon.settle() ran into the statement's timeout. From now on it takes an eighth of the rows, after a pause as long as
-- the timeout, during which the other parts continue. A row that it took by itself is set aside. Returns a text for the log.
CREATE FUNCTION tenon.note_slow(part text, most integer, why text) RETURNS text
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    pause interval := clock_timestamp() - statement_timestamp();
    slow  bigint := CASE WHEN most = 1 THEN tenon.slow_one(part) END;
    fewer integer := greatest(1, most / 8);
BEGIN
    INSERT INTO tenon.set_aside AS s (part, id, most, until, error)
    VALUES (note_slow.part, 0, fewer, clock_timestamp() + pause, left(why, 8192))
    ON CONFLICT ON CONSTRAINT set_aside_pkey DO UPDATE
       SET most = fewer, tries = s.tries + 1, at = clock_timestamp(), until = excluded.until, error = excluded.error;
    IF slow IS NULL THEN
        RETURN format('%s took too long, and takes %s rows at a time from now on: %s', part, fewer, why);
    END IF;
    PERFORM tenon.leave_out(part, slow, why);
    IF part = 'again' THEN
        UPDATE tenon.again g SET taken = true, failed = left(why, 8192) WHERE g.id = slow;
    END IF;
    RETURN format('%s set aside row %s, which took too long: %s', part, slow, why);
END $$;

-- Parts that took fewer rows take twice as many, up to the usual number; rows set aside that no longer exist are forgotten.
CREATE FUNCTION tenon.note_works(most integer) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM tenon.set_aside s WHERE s.id = 0 AND s.until <= clock_timestamp() AND s.most * 2 >= note_works.most;
    UPDATE tenon.set_aside s SET most = s.most * 2 WHERE s.id = 0 AND s.until <= clock_timestamp();
    DELETE FROM tenon.set_aside s
     WHERE s.id > 0 AND CASE s.part WHEN 'expire' THEN NOT EXISTS (SELECT FROM tenon.task t WHERE t.id = s.id)
                                    WHEN 'again' THEN NOT EXISTS (SELECT FROM tenon.again g WHERE g.id = s.id AND g.failed IS NOT NULL)
                                    WHEN 'flows' THEN NOT EXISTS (SELECT FROM tenon.flow_note o WHERE o.id = s.id)
                                    ELSE NOT EXISTS (SELECT FROM tenon.task t WHERE t.id = s.id AND t.start_time IS NOT NULL) END;
END $$;

-- What follows from commits and ends, done afterwards: tasks that have missed start_before are expired, what was
-- enqueued under taken keys finds its place, and what waited for flows, limits and signals goes on. Up to so many of
-- each, and for 250 ms each. It does not matter which session calls it or how often: it derives everything from the rows, and
-- leaves what is locked for later. Returns how many; which it let go; and in how many milliseconds there may be more to do
-- (NULL: when something happens). If it let go more than `few`, workers are told to poll; else the caller wakes them. `slow`:
-- it ran into the timeout of the statement, and this became of it.
CREATE FUNCTION tenon.settle_all(most integer, few integer, OUT n integer, OUT freed bigint[], OUT due_ms bigint, OUT slow text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    moment timestamptz := clock_timestamp();
    fewer  jsonb := (SELECT jsonb_object_agg(s.part, CASE WHEN s.until > moment THEN 0 ELSE s.most END) FROM tenon.set_aside s WHERE s.id = 0);
    parts  constant text[] := '{expire,again,flows,signals,limits}';
    part   text;
    rows_  integer;
    did    record;
    more   boolean := false;
    since  timestamptz;
BEGIN
    PERFORM tenon.settings();
    n := 0;
    freed := '{}';
    FOREACH part IN ARRAY parts LOOP
        rows_ := least(most, (fewer ->> part)::integer);
        CONTINUE WHEN rows_ = 0;
        since := clock_timestamp();
        CASE part
            WHEN 'expire' THEN
                CONTINUE WHEN NOT EXISTS (SELECT FROM tenon.task t WHERE t.start_before <= moment AND t.start_time IS NULL);
                SELECT tenon.expire(moment, rows_) AS n, '{}'::bigint[] AS freed INTO did;
            WHEN 'again' THEN
                CONTINUE WHEN NOT EXISTS (SELECT FROM tenon.again g WHERE NOT g.taken) AND NOT EXISTS (SELECT FROM tenon.again_note);
                did := tenon.settle_keys(rows_);
                more := more OR did.more;
            WHEN 'flows' THEN did := tenon.settle_flows(rows_);
            WHEN 'signals' THEN did := tenon.settle_signals(rows_);
            WHEN 'limits' THEN did := tenon.settle_limits(rows_);
        END CASE;
        n := n + did.n;
        freed := freed || did.freed;
        more := more OR did.n > 0 AND (tenon.turn_is_over(since) OR part = 'flows' AND EXISTS (SELECT FROM tenon.flow_note o WHERE o.id > 0 AND o.act IS NULL));
    END LOOP;
    IF EXISTS (SELECT FROM tenon.set_aside) THEN
        PERFORM tenon.note_works(most);
    END IF;
    due_ms := CASE WHEN n >= most OR more THEN 0
                   ELSE least(tenon.limits_due_ms(false),
                              (SELECT ceil(extract(epoch FROM t.start_before - clock_timestamp()) * 1000)::bigint
                                 FROM tenon.task t
                                WHERE t.start_before > moment AND t.start_before < moment + interval '1 second' AND t.start_time IS NULL
                                ORDER BY t.start_before
                                LIMIT 1)) END;
    IF cardinality(freed) > few THEN
        PERFORM tenon.wake(freed);
    END IF;
EXCEPTION WHEN query_canceled THEN
    slow := tenon.note_slow(part, rows_, SQLERRM);
    n := 1;
    freed := '{}';
    due_ms := 0;
END $$;

-- The same for whoever is no cleaner.
CREATE FUNCTION tenon.settle(most integer DEFAULT 500) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (tenon.settle_all(most, 0)).n;
END $$;

CREATE FUNCTION tenon.finish(claim text, result jsonb DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_variable
DECLARE
    moment timestamptz := clock_timestamp();
    fence  record;
    held   record;
BEGIN
    fence := tenon.read_claim(claim);
    IF result IS NOT NULL THEN
        result := tenon.result_kept(result);
    END IF;
    PERFORM tenon.need_partition(moment);
    WITH gone AS (
        DELETE FROM tenon.task t
         WHERE t.id = fence.id AND t.claim_key = fence.key
        RETURNING t.*, CASE WHEN tenon.needs_note(t) THEN tenon.note_ended(t) END)
    INSERT INTO tenon.finished (finished_at, id, run_at, start_time, created_at, worker_id, claims, failures,
                                crashes, priority, outcome, queue, kind, payload, unique_key, trace,
                                last_error, result, enqueued_by)
    SELECT moment, id, run_at, start_time, created_at, worker_id, claims, failures, crashes,
           priority, 'done', queue, kind, payload, unique_key, trace, last_error, result, enqueued_by
      FROM gone
    RETURNING finished.queue, finished.kind INTO held;
    PERFORM tenon.claim_must_hold(claim, fence.key, held.queue, held.kind);
END $$;

-- tenon.finish for many claims: one statement reads them all and takes their rows away, in sorted order, so that two who
-- finish the same never wait for each other in a circle. `ANY (ARRAY[g.id])`: each row is looked up by its id, whatever
-- the table held when the plan was made (docs/decisions/0014-plans-that-stay-good.md).
CREATE FUNCTION tenon.finish_many(claims text[], results jsonb[] DEFAULT NULL, skip_lost boolean DEFAULT false) RETURNS boolean[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    claims_max constant integer := 10000;
    moment timestamptz := clock_timestamp();
    confined boolean := coalesce((SELECT s.confined FROM tenon.setting s), true);
    done   boolean[];
    refused text[];
    lost   record;
    key    bigint;
BEGIN
    IF claims IS NULL OR cardinality(claims) > claims_max THEN
        PERFORM tenon.refuse('claims', 'of ' || cardinality(claims) || ' elements', format('an array of 0 to %s claims', claims_max));
    ELSIF cardinality(results) <> cardinality(claims) THEN
        PERFORM tenon.refuse('results', format('of %s elements', cardinality(results)),
                             format('as long as claims, %s elements', cardinality(claims)));
    END IF;
    IF results IS NOT NULL THEN
        results := tenon.results_kept(results);
    END IF;
    PERFORM tenon.need_partition(moment);
    WITH given AS MATERIALIZED (
        SELECT f.*, c.result, c.n
          FROM unnest(claims, results) WITH ORDINALITY AS c (claim, result, n) CROSS JOIN LATERAL tenon.read_claim(c.claim) f
         ORDER BY f.id, c.n
    ), gone AS (
        DELETE FROM tenon.task t USING given g
         WHERE t.id = ANY (ARRAY[g.id]) AND t.claim_key = g.key
        RETURNING t.*, g.result, g.n, CASE WHEN tenon.needs_note(t) THEN tenon.note_ended(t) END
    ), kept AS (
        INSERT INTO tenon.finished (finished_at, id, run_at, start_time, created_at, worker_id, claims, failures,
                                    crashes, priority, outcome, queue, kind, payload, unique_key, trace,
                                    last_error, result, enqueued_by)
        SELECT moment, g.id, g.run_at, g.start_time, g.created_at, g.worker_id, g.claims, g.failures, g.crashes,
               g.priority, 'done', g.queue, g.kind, g.payload, g.unique_key, g.trace, g.last_error, g.result, g.enqueued_by
          FROM gone g
    )
    SELECT coalesce(array_agg(g.n IN (SELECT x.n FROM gone x) ORDER BY g.n), '{}'),
           (SELECT ARRAY[x.queue, x.kind] FROM (SELECT DISTINCT y.queue, y.kind FROM gone y WHERE confined) x
             WHERE NOT tenon.may_enqueue(x.queue, x.kind) LIMIT 1)
      INTO done, refused FROM given g;
    PERFORM tenon.check_may_act(refused[1], refused[2]) WHERE refused IS NOT NULL;
    IF true = ALL (done) THEN
        RETURN done;
    END IF;
    FOR lost IN SELECT c.claim, c.n FROM unnest(claims, done) WITH ORDINALITY AS c (claim, is_done, n) WHERE NOT c.is_done LOOP
        key := (tenon.read_claim(lost.claim)).key;
        done[lost.n] := key = 0;  -- tried by hand
        PERFORM tenon.claim_must_hold(lost.claim, key, NULL, NULL) WHERE done[lost.n] OR skip_lost IS NOT TRUE;
    END LOOP;
    RETURN done;
END $$;

-- Is the session's role an operator? A role is one if it may pause.
CREATE FUNCTION tenon.is_operator() RETURNS boolean
LANGUAGE sql STABLE AS $$ SELECT has_function_privilege(session_user, 'tenon.pause(text, text, boolean, text)', 'EXECUTE') $$;

-- May the session's role cancel the tasks of this role?
CREATE FUNCTION tenon.may_cancel(enqueued_by text) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT enqueued_by = session_user OR tenon.is_operator() OR NOT (tenon.settings()).cancel_own_only AND NOT tenon.is_confined()
$$;

-- Cancels a task; returns the role that had enqueued it, or NULL if there is no such task. A task that the role may not cancel is
-- not locked. For tenon.cancel, and for acts on many tasks.
CREATE FUNCTION tenon.cancel_one(id bigint) RETURNS text
LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    moment timestamptz := clock_timestamp();
    owner  text;
BEGIN
    PERFORM tenon.need_partition(moment);
    WITH gone AS (
        DELETE FROM tenon.task t WHERE t.id = id AND tenon.may_cancel(t.enqueued_by)
        RETURNING t.*, CASE WHEN tenon.needs_note(t) THEN tenon.note_ended(t, true) END)
    INSERT INTO tenon.finished (finished_at, id, run_at, start_time, created_at, worker_id, claims, failures,
                                crashes, priority, outcome, queue, kind, payload, unique_key, trace, last_error, enqueued_by, limit_keys, steps,
                                timeout_ms, max_attempts, retry, progress, max_crashes)
    SELECT moment, g.id, coalesce(wanted_at, nullif(run_at, 'infinity'), moment), start_time, created_at, worker_id, claims, failures, crashes,
           priority, 'cancelled', queue, kind, payload, unique_key, trace, 'cancelled by ' || session_user, enqueued_by, limit_keys, steps,
           timeout_ms, max_attempts, retry, progress, max_crashes
      FROM gone g
    RETURNING coalesce(enqueued_by, '') INTO owner;
    IF owner IS NULL AND EXISTS (SELECT FROM tenon.task t WHERE t.id = id AND NOT tenon.may_cancel(t.enqueued_by)) THEN
        RAISE EXCEPTION 'tenon: role % may not cancel task %', session_user, id
            USING ERRCODE = 'insufficient_privilege',
                  HINT = 'Another role enqueued it, and either cancel_own_only in tenon.setting is true or this role is confined (tenon.producer). Ask an operator.';
    END IF;
    RETURN owner;
END $$;

CREATE FUNCTION tenon.cancel(id bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    s     tenon.setting := tenon.settings();
    owner text := tenon.cancel_one(id);
BEGIN
    IF owner <> session_user THEN
        PERFORM tenon.note_audit('cancel', jsonb_build_object('filter', jsonb_build_object('ids', id)), 1);
    END IF;
    RETURN owner IS NOT NULL;
END $$;

-- At most so many queues, by name: those that have a row in tenon.queue or a living worker before those that only have
-- tasks. A producer may make up as many names as he likes; here they cost what is asked for and no more.
CREATE FUNCTION tenon.queue_names(most bigint) RETURNS SETOF text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
    WITH RECURSIVE named AS (
        (SELECT queue FROM tenon.task ORDER BY queue LIMIT 1)
        UNION ALL
        SELECT (SELECT t.queue FROM tenon.task t WHERE t.queue > n.queue ORDER BY t.queue LIMIT 1)
          FROM named n WHERE n.queue IS NOT NULL
    ), every AS (
        SELECT name AS queue, true AS known FROM tenon.queue
        UNION ALL
        SELECT q, true FROM tenon.worker w CROSS JOIN unnest(w.queues) q WHERE w.ended_at IS NULL
        UNION ALL
        (SELECT queue, false FROM named WHERE queue IS NOT NULL LIMIT $1)
    )
    SELECT queue FROM every GROUP BY queue ORDER BY bool_or(known) DESC, queue LIMIT $1
$$;

COMMENT ON FUNCTION tenon.settle IS $$Does what follows from commits and from the ends of tasks: expires what has missed `start_before`, finds a place for what was enqueued under taken keys, and lets go on what waited for flows, limits and signals. Up to `most` of each; returns how many. Cleaners do it all the time; whoever else calls it does no harm.$$;

-- It may see the schema's version, so that its programs can tell whether they fit.
CREATE FUNCTION tenon.grant_producer(role text, queues text[] DEFAULT NULL, kinds text[] DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA tenon TO %I', role);
    EXECUTE format('GRANT SELECT ON tenon.migration TO %I', role);
    EXECUTE format('GRANT EXECUTE ON FUNCTION tenon.enqueue, tenon.enqueue_routed, tenon.enqueue_many, tenon.enqueue_jsonb, tenon.enqueue_many_jsonb, tenon.route_of, tenon.mine, tenon.cancel, tenon.finish, tenon.finish_many, tenon.progress, tenon.extend, tenon.limit_take, tenon.step, tenon.steps, tenon.wait_for, tenon.signal, tenon.await, tenon.result TO %I', role);
    PERFORM tenon.grant_flows(role);
    DELETE FROM tenon.producer p WHERE p.role = quote_ident(role)::regrole;
    IF queues IS NOT NULL OR kinds IS NOT NULL THEN
        INSERT INTO tenon.producer VALUES (quote_ident(role)::regrole, queues, kinds);
    END IF;
END $$;

-- What every part but a producer may read.
CREATE FUNCTION tenon.grant_reader(role text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA tenon TO %I', role);
    EXECUTE format('GRANT SELECT ON ALL TABLES IN SCHEMA tenon TO %I', role);
    EXECUTE format('GRANT EXECUTE ON FUNCTION tenon.queue_names, tenon.next_tick, tenon.limit_rule, tenon.await, tenon.result TO %I', role);
    PERFORM tenon.grant_lists(role);
    PERFORM tenon.grant_home(role, false);
    EXECUTE format('GRANT EXECUTE ON FUNCTION tenon.parent_results(bigint) TO %I', role);
END $$;

-- And act, by functions only, which leave a row in tenon.audit.
CREATE FUNCTION tenon.grant_operator(role text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM tenon.grant_reader(role);
    EXECUTE format('GRANT EXECUTE ON FUNCTION tenon.enqueue, tenon.enqueue_routed, tenon.enqueue_many, tenon.enqueue_jsonb, tenon.enqueue_many_jsonb, tenon.route_of, tenon.mine, tenon.cancel, tenon.signal TO %I', role);
    EXECUTE format('GRANT EXECUTE ON FUNCTION tenon.set_schedule, tenon.set_schedule_jsonb, tenon.drop_schedule, tenon.pause_schedule, tenon.resume_schedule, tenon.run_schedule_now, tenon.sync_schedules TO %I', role);
    PERFORM tenon.grant_acts(role);
    PERFORM tenon.grant_home(role, true);
    PERFORM tenon.grant_flows(role);
    PERFORM tenon.grant_limits(role);
END $$;

-- What its statements need, and no more: it can neither enqueue nor change a setting, nor read what has ended.
CREATE FUNCTION tenon.grant_worker(role text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA tenon TO %I', role);
    EXECUTE format('GRANT SELECT ON tenon.migration, tenon.setting, tenon.queue, tenon.kind TO %I', role);
    EXECUTE format('GRANT SELECT, DELETE, UPDATE (claims, claim_key, start_time, worker_id, progress, timeout_ms) ON tenon.task TO %I', role);
    EXECUTE format('GRANT INSERT ON tenon.finished TO %I', role);
    EXECUTE format('GRANT SELECT (id, claims, worker_id, outcome) ON tenon.finished TO %I', role);
    EXECUTE format('GRANT SELECT (id, claims, worker_id) ON tenon.dead TO %I', role);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE (lock_key, state, ended_at, backing_off, rounds_failing, broker_away, starting, alone_since) ON tenon.worker TO %I', role);
    PERFORM tenon.grant_home(role, false);
    EXECUTE format('GRANT EXECUTE ON FUNCTION tenon.requeue, tenon.needs_note, tenon.note_end, tenon.note_ended, tenon.progress_kept, tenon.printed_bytes, tenon.record_steps, tenon.make_partitions, tenon.random_key, tenon.paused_kinds, tenon.settings, tenon.take_turn, tenon.claim_alone TO %I', role);
    EXECUTE format('GRANT SELECT ON tenon.suspect TO %I', role);
END $$;

-- What its statements need, and no more.
CREATE FUNCTION tenon.grant_cleaner(role text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA tenon TO %I', role);
    EXECUTE format('GRANT SELECT ON tenon.migration, tenon.setting, tenon.queue, tenon.kind TO %I', role);
    EXECUTE format('GRANT SELECT ON SEQUENCE %s TO %I', pg_get_serial_sequence('tenon.task', 'id'), role);
    EXECUTE format('GRANT SELECT, UPDATE (run_at) ON tenon.task TO %I', role);  -- UPDATE, because it locks rows
    EXECUTE format('GRANT SELECT, DELETE, UPDATE (state, ended_at) ON tenon.worker TO %I', role);
    EXECUTE format('GRANT SELECT (taken) ON tenon.again TO %I', role);
    EXECUTE format('GRANT SELECT (id) ON tenon.again_note TO %I', role);
    EXECUTE format('GRANT SELECT (part, id, until) ON tenon.set_aside TO %I', role);
    EXECUTE format('GRANT SELECT (id) ON tenon.flow_note TO %I', role);
    EXECUTE format('GRANT SELECT (settled, until) ON tenon.waiting TO %I', role);
    EXECUTE format('GRANT SELECT (alone, claims) ON tenon.suspect TO %I', role);
    EXECUTE format('GRANT SELECT (settled) ON tenon.signal TO %I', role);
    EXECUTE format('GRANT SELECT ON tenon.lock TO %I', role);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON tenon.chore_failure TO %I', role);
    PERFORM tenon.grant_home(role, false);
    EXECUTE format('GRANT SELECT (due_at) ON tenon.schedule TO %I', role);
    EXECUTE format('GRANT EXECUTE ON FUNCTION tenon.run_schedules TO %I', role);
    EXECUTE format('GRANT UPDATE (leader_key, sleeper_key) ON tenon.setting TO %I', role);
    EXECUTE format('GRANT EXECUTE ON FUNCTION tenon.recover, tenon.settle, tenon.settle_all, tenon.limits_due_ms, tenon.make_partitions, tenon.drop_history, tenon.purge, tenon.random_key, tenon.is_span, tenon.settings TO %I', role);
    -- for /metrics: how many, and how long; no payload and no result of what has ended
    EXECUTE format('GRANT EXECUTE ON FUNCTION tenon.queue_names, tenon.ended_tids TO %I', role);
    EXECUTE format('GRANT SELECT (ctid, id, queue, kind, created_at, run_at, start_time, finished_at) ON tenon.finished TO %I', role);
    EXECUTE format('GRANT SELECT (queue, dead_at) ON tenon.dead TO %I', role);
    EXECUTE format('GRANT SELECT (name, paused, strict, running) ON tenon.limit TO %I', role);
    EXECUTE format('GRANT SELECT (key, state) ON tenon.limit_task TO %I', role);
    EXECUTE format('GRANT SELECT (task) ON tenon.flow_wait TO %I', role);
    EXECUTE format('GRANT SELECT (ended_at) ON tenon.flow TO %I', role);
END $$;

REVOKE ALL ON FUNCTION tenon.join_waiting, tenon.settle_keys, tenon.turn_is_over, tenon.first_bytes, tenon.place_of, tenon.go_on_at, tenon.slow_one, tenon.leave_out, tenon.recover, tenon.note_slow, tenon.note_works, tenon.error_kept, tenon.retry_delay, tenon.ended_by, tenon.error_line, tenon.error_class, tenon.wait_refused, tenon.progress_mark, tenon.requeue, tenon.suspects_due, tenon.take_turn, tenon.claim_alone, tenon.needs_note, tenon.note_end, tenon.note_ended, tenon.settle_again, tenon.unblock, tenon.expire, tenon.settle, tenon.settle_all, tenon.need_partition, tenon.result_kept, tenon.results_kept, tenon.finish, tenon.finish_many, tenon.is_operator, tenon.may_cancel, tenon.cancel_one, tenon.cancel, tenon.queue_names, tenon.grant_producer, tenon.grant_reader,
    tenon.grant_operator, tenon.grant_worker, tenon.grant_cleaner FROM PUBLIC;

COMMENT ON FUNCTION tenon.finish IS $$Finishes a task inside the handler's own transaction: its effects and its end commit together, so they happen exactly once.

- `claim`: the text of `TENON_TASK_CLAIM`, or `claim` of the task line; anything else raises SQLSTATE 22023.
- `result`: kept in `tenon.finished`; of one that is longer than 2 MiB as text only a note is kept.

Raises SQLSTATE 55000 when the claim is not valid any more, because the task was recovered, cancelled or finished: roll back and stop; 42501 when the role is confined to other queues or kinds (`tenon.producer`).$$;

COMMENT ON FUNCTION tenon.finish_many IS $$Finishes many tasks as `tenon.finish` does, in one statement, for handlers that write the effects of many tasks in one transaction: a fraction of the cost of a call for each. Returns for each claim whether the task is finished now, in the order of `claims`.

- `claims`: 0 to 10,000 texts of `TENON_TASK_CLAIM`, or `claim` of the task lines; anything else raises SQLSTATE 22023.
- `results`: one for each claim, or NULL; kept in `tenon.finished`, of one that is longer than 2 MiB as text only a note.
- `skip_lost`: false, the default: one claim that is not valid any more, because its task was recovered, cancelled or finished, raises SQLSTATE 55000, so that no effect of it is committed: roll back, and finish the others without it. True: the others are finished, and for this one false is returned. Then what was done for it must not be committed: call the function first, and write the effects of those that are true.

A claim that is given twice counts the second time as not valid any more. A claim of a task that the role may not run, because it is confined to other queues or kinds (`tenon.producer`), raises SQLSTATE 42501, whatever `skip_lost` says.$$;

COMMENT ON FUNCTION tenon.cancel IS $$Cancels a task that has not ended; returns whether there was one. A running task is cancelled too: its worker loses the claim and stops its handler within seconds. For a producer, another role's task raises SQLSTATE 42501, unless `cancel_own_only` in `tenon.setting` is false and the producer is not confined. If an operator cancels another role's task, that leaves a row in `tenon.audit`.$$;

COMMENT ON FUNCTION tenon.grant_producer IS $$Lets a role enqueue and cancel tasks, wait for their results, send signals, and finish, extend and record the steps and the progress of the tasks that it runs, and nothing else, like `tenon setup --grant-producer ROLE`. With `queues` or `kinds` it may enqueue and run only tasks of those (`tenon.producer`); without them, all tasks. For the owner of the schema.$$;

COMMENT ON FUNCTION tenon.grant_reader IS $$Lets a role read everything: `tenon status`, `tenon list`, `tenon show`, the views; as `tenon setup --grant-reader ROLE`. For the owner of the schema.$$;

COMMENT ON FUNCTION tenon.grant_operator IS $$Lets a role read everything, pause and resume, set defaults and settings, enqueue, cancel, retry, change and delete any task, send signals, make and change schedules; as `tenon setup --grant-operator ROLE`. For the owner of the schema.$$;

COMMENT ON FUNCTION tenon.grant_worker IS $$Lets a role run `tenon worker`, and nothing else; as `tenon setup --grant-worker ROLE`. For the owner of the schema.$$;

COMMENT ON FUNCTION tenon.grant_cleaner IS $$Lets a role run `tenon cleaner`, and nothing else; as `tenon setup --grant-cleaner ROLE`. For the owner of the schema.$$;
