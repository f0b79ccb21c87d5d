-- The rest of a task's life: requeue, finish, cancel. The worker's own statements for claiming and
-- finishing many tasks at once stand beside the worker.

-- How long after its n-th failure a task waits: n^4 + 15 s, and up to 10 n s of jitter.
-- The curve is Sidekiq's, which people know: 25 attempts take about three weeks.
CREATE FUNCTION tenon.retry_delay(failures integer) RETURNS interval
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
RETURN make_interval(secs => power(failures, 4) + 15 + random() * 10 * failures);

-- Make started tasks unstarted again, or dead: the one place where that happens.
--   ids, claims, starts_us  the fence, element by element, with `worker`; starts_us is start_time in
--               microseconds since 1970
--   reasons     failed    the handler failed: charged, waits retry_delay
--               later     the handler asked for a later run: not charged, waits delays_ms
--               released  the worker could not run it: not charged, ready at once, and its run_at stays
--                         as it was, so that it does not go to the end of a backlog
--               crashed   its worker died: counted as a crash, ready at once; the third is the last
--               timed_out it ran past its timeout: charged, waits retry_delay, or dead if on_timeout of its kind says so
--               dead      the handler says that it can never work
--   errors      what went wrong, or NULL to keep the last error. Of one that is too long the middle is left out: its
--               beginning says what failed, its end why
--   delays_ms   how long to wait instead, or NULL
-- Returns the new state of each row that was changed. A row that is missing here either is no longer
-- this claim's, or is locked by somebody else at the moment: ask again later. `= ANY (ARRAY[...])` and not `=`:
-- each row is looked up by its id, whatever the table held when the plan was made.
CREATE FUNCTION tenon.requeue(ids bigint[], claims integer[], starts_us bigint[], worker uuid,
    reasons text[], errors text[], delays_ms bigint[]) RETURNS TABLE (id bigint, state text)
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    WITH given AS MATERIALIZED (
        SELECT g.* FROM unnest($1, $2, $3, $5, $6, $7) AS g (id, claims, start_us, reason, error, delay_ms)
    ), mine AS MATERIALIZED (
        SELECT t.id, t.failures + (g.reason IN ('failed', 'timed_out'))::integer AS failures,
               t.crashes + (g.reason = 'crashed')::integer AS crashes,
               t.max_attempts, t.kind, g.reason, g.delay_ms,
               CASE WHEN length(g.error) > 8192 THEN left(g.error, 2048) || ' ... ' || right(g.error, 6139)
                    ELSE coalesce(g.error, t.last_error) END AS error
          FROM given g JOIN tenon.task t ON t.id = ANY (ARRAY[g.id])
         WHERE t.claims = g.claims AND t.worker_id = $4
           AND t.start_time = timestamptz 'epoch' + g.start_us * interval '1 microsecond'
         ORDER BY g.id
           FOR UPDATE OF t SKIP LOCKED
    ), judged AS MATERIALIZED (
        SELECT m.*, CASE WHEN m.reason = 'dead' THEN 'handler'
                         WHEN m.reason = 'timed_out'
                              AND EXISTS (SELECT FROM tenon.kind k WHERE k.name = m.kind AND k.on_timeout = 'dead') THEN 'timeout'
                         WHEN m.reason = 'crashed' AND m.crashes >= 3 THEN 'crashes'
                         WHEN m.reason IN ('failed', 'timed_out') AND m.failures >= m.max_attempts THEN 'failures'
                    END AS dead_of
          FROM mine m
    ), gone AS (
        DELETE FROM tenon.task t USING judged j WHERE t.id = ANY (ARRAY[j.id]) AND j.dead_of IS NOT NULL
        RETURNING t.*, j.failures AS failures_now, j.crashes AS crashes_now, j.dead_of, j.error
    ), died AS (
        INSERT INTO tenon.dead (dead_at, id, run_at, start_time, created_at, worker_id, timeout_ms, claims,
                                failures, crashes, max_attempts, priority, reason, queue, kind, payload,
                                unique_key, trace, last_error, enqueued_by)
        SELECT clock_timestamp(), g.id, run_at, start_time, created_at, worker_id, timeout_ms, claims,
               failures_now, crashes_now, max_attempts, priority, dead_of, queue, kind, payload,
               unique_key, trace, error, enqueued_by
          FROM gone g
        RETURNING dead.id
    ), back AS (
        UPDATE tenon.task t
           SET start_time = NULL, worker_id = NULL, failures = j.failures, crashes = j.crashes,
               last_error = j.error,
               delayed = t.delayed OR j.reason <> 'released' OR j.delay_ms IS NOT NULL,
               run_at = CASE
                   WHEN j.delay_ms IS NOT NULL THEN clock_timestamp() + make_interval(secs => j.delay_ms / 1000.0)
                   WHEN j.reason IN ('failed', 'timed_out') THEN clock_timestamp() + tenon.retry_delay(j.failures)
                   WHEN j.reason = 'released' THEN t.run_at
                   ELSE clock_timestamp() END
          FROM judged j WHERE t.id = ANY (ARRAY[j.id]) AND j.dead_of IS NULL
        RETURNING t.id, t.failures + t.crashes AS failed, t.run_at
    )
    SELECT d.id, 'dead' FROM died d
    UNION ALL
    SELECT b.id, CASE WHEN b.run_at <= clock_timestamp() THEN 'ready'
                      WHEN b.failed > 0 THEN 'retrying' ELSE 'scheduled' END FROM back b
$$;

-- The history's partition for a moment is there afterwards. Cleaners and workers make them for days ahead;
-- when none of them ran for a week, tenon.finish and tenon.cancel make what is missing. Only they call it, and
-- so it needs no search_path of its own.
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

CREATE FUNCTION tenon.finish(claim text, result jsonb DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
#variable_conflict use_variable
DECLARE
    part   text[] := string_to_array(claim, '/');
    moment timestamptz := clock_timestamp();
    n      integer;
BEGIN
    IF claim IS NULL OR claim !~ '^[0-9]{1,18}/[0-9]{1,9}/[0-9]{1,17}/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN
        PERFORM tenon.refuse('claim', quote_literal(claim), 'the text of TENON_TASK_CLAIM');
    END IF;
    IF part[4]::uuid = '00000000-0000-0000-0000-000000000000' THEN
        RAISE NOTICE 'tenon: a handler is tried by hand (tenon worker --run-one): no task is finished';
        RETURN;
    END IF;
    IF result IS NOT NULL THEN
        result := tenon.result_kept(result);
    END IF;
    PERFORM tenon.need_partition(moment);
    WITH gone AS (
        DELETE FROM tenon.task t
         WHERE t.id = part[1]::bigint AND t.claims = part[2]::integer AND t.worker_id = part[4]::uuid
           AND t.start_time = timestamptz 'epoch' + part[3]::bigint * interval '1 microsecond'
        RETURNING t.*)
    INSERT INTO tenon.finished (finished_at, id, run_at, start_time, created_at, worker_id, claims, failures,
                                crashes, priority, outcome, queue, kind, payload, unique_key, trace,
                                last_error, result, enqueued_by)
    SELECT moment, id, run_at, start_time, created_at, worker_id, claims, failures, crashes,
           priority, 'done', queue, kind, payload, unique_key, trace, last_error, result, enqueued_by
      FROM gone;
    GET DIAGNOSTICS n = ROW_COUNT;
    IF n = 0 THEN
        RAISE EXCEPTION 'tenon: the claim % is not valid any more', quote_literal(claim)
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = 'The task was recovered, cancelled or finished; roll back and stop.';
    END IF;
END $$;

-- May whoever logged in cancel what this role enqueued? An operator is who may change queues.
CREATE FUNCTION tenon.may_cancel(enqueued_by text) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT NOT s.cancel_own OR enqueued_by = session_user OR has_table_privilege(session_user, 'tenon.queue', 'UPDATE')
      FROM tenon.setting s
$$;

CREATE FUNCTION tenon.cancel(id bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
#variable_conflict use_variable
DECLARE
    moment timestamptz := clock_timestamp();
    n      integer;
BEGIN
    PERFORM tenon.need_partition(moment);
    WITH gone AS (DELETE FROM tenon.task t WHERE t.id = id AND tenon.may_cancel(t.enqueued_by) RETURNING t.*)
    INSERT INTO tenon.finished (finished_at, id, run_at, start_time, created_at, worker_id, claims, failures,
                                crashes, priority, outcome, queue, kind, payload, unique_key, trace, last_error, enqueued_by)
    SELECT moment, g.id, run_at, start_time, created_at, worker_id, claims, failures, crashes,
           priority, 'cancelled', queue, kind, payload, unique_key, trace, last_error, enqueued_by
      FROM gone g;
    GET DIAGNOSTICS n = ROW_COUNT;
    IF n = 0 AND EXISTS (SELECT FROM tenon.task t WHERE t.id = id AND NOT tenon.may_cancel(t.enqueued_by)) THEN
        RAISE EXCEPTION 'tenon: role % may not cancel task %', session_user, id
            USING ERRCODE = 'insufficient_privilege',
                  HINT = 'Another role enqueued it, and cancel_own in tenon.setting is true: ask an operator.';
    END IF;
    RETURN n > 0;
END $$;

-- At most so many queues that have tasks or a row in tenon.queue: first those that somebody set up or serves, then the
-- others by name. A producer may make up as many names as he likes; here they cost what is asked for and no more.
CREATE FUNCTION tenon.queue_names(most bigint) RETURNS SETOF text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
    WITH RECURSIVE named AS (
        (SELECT queue FROM tenon.task ORDER BY queue LIMIT 1)
        UNION ALL
        SELECT (SELECT t.queue FROM tenon.task t WHERE t.queue > n.queue ORDER BY t.queue LIMIT 1)
          FROM named n WHERE n.queue IS NOT NULL
    ), every AS (
        SELECT name AS queue, true AS known FROM tenon.queue
        UNION ALL
        SELECT q, true FROM tenon.worker w CROSS JOIN unnest(w.queues) q
         WHERE w.ended_at IS NULL AND EXISTS (SELECT FROM tenon.task t WHERE t.queue = q)
        UNION ALL
        (SELECT queue, false FROM named WHERE queue IS NOT NULL LIMIT $1)
    )
    SELECT queue FROM every GROUP BY queue ORDER BY bool_or(known) DESC, queue LIMIT $1
$$;

-- It may see the schema's version, so that its programs can tell whether they fit.
CREATE FUNCTION tenon.grant_producer(role text, queues text[] DEFAULT NULL, kinds text[] DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA tenon TO %I', role);
    EXECUTE format('GRANT SELECT ON tenon.migration TO %I', role);
    EXECUTE format('GRANT EXECUTE ON FUNCTION tenon.enqueue, tenon.enqueue_routed, tenon.enqueue_many, tenon.route_of, tenon.cancel, tenon.finish TO %I', role);
    DELETE FROM tenon.producer p WHERE p.role = role;
    IF queues IS NOT NULL OR kinds IS NOT NULL THEN
        INSERT INTO tenon.producer VALUES (role, queues, kinds);
    END IF;
END $$;

-- What every part but a producer may read.
CREATE FUNCTION tenon.grant_reader(role text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA tenon TO %I', role);
    EXECUTE format('GRANT SELECT ON ALL TABLES IN SCHEMA tenon TO %I', role);
    EXECUTE format('GRANT EXECUTE ON FUNCTION tenon.queue_names TO %I', role);
END $$;

-- And set what the columns that are yours to set say, retry and cancel.
CREATE FUNCTION tenon.grant_operator(role text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM tenon.grant_reader(role);
    EXECUTE format('GRANT INSERT, UPDATE, DELETE ON tenon.queue, tenon.kind TO %I', role);
    EXECUTE format('GRANT UPDATE (payload_bytes_max, history_keep, history_rows_max, exchange, cancel_own) ON tenon.setting TO %I', role);
    EXECUTE format('GRANT DELETE ON tenon.dead TO %I', role);
    EXECUTE format('GRANT EXECUTE ON FUNCTION tenon.enqueue, tenon.enqueue_routed, tenon.enqueue_many, tenon.route_of, tenon.cancel TO %I', role);
END $$;

-- What its statements need, and no more: it can neither enqueue nor change a setting, nor read what has ended.
CREATE FUNCTION tenon.grant_worker(role text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA tenon TO %I', role);
    EXECUTE format('GRANT SELECT ON tenon.migration, tenon.setting, tenon.queue, tenon.kind TO %I', role);
    EXECUTE format('GRANT SELECT, UPDATE, DELETE ON tenon.task TO %I', role);
    EXECUTE format('GRANT INSERT ON tenon.finished, tenon.dead TO %I', role);
    EXECUTE format('GRANT SELECT (id, claims, worker_id, outcome) ON tenon.finished TO %I', role);
    EXECUTE format('GRANT SELECT (id, claims, worker_id) ON tenon.dead TO %I', role);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE ON tenon.worker TO %I', role);
    EXECUTE format('GRANT EXECUTE ON FUNCTION tenon.requeue, tenon.retry_delay, tenon.make_partitions, tenon.random_key TO %I', role);
END $$;

-- What its statements need, and no more. It reads tasks whole, as who makes one dead copies it.
CREATE FUNCTION tenon.grant_cleaner(role text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA tenon TO %I', role);
    EXECUTE format('GRANT SELECT ON tenon.migration, tenon.setting, tenon.queue, tenon.kind TO %I', role);
    EXECUTE format('GRANT SELECT ON SEQUENCE %s TO %I', pg_get_serial_sequence('tenon.task', 'id'), role);
    EXECUTE format('GRANT SELECT, DELETE, UPDATE (run_at, start_time, worker_id, failures, crashes, delayed, last_error) ON tenon.task TO %I', role);
    EXECUTE format('GRANT INSERT, SELECT (id) ON tenon.dead TO %I', role);
    EXECUTE format('GRANT SELECT, DELETE, UPDATE (state, ended_at) ON tenon.worker TO %I', role);
    EXECUTE format('GRANT SELECT ON tenon.lock TO %I', role);
    EXECUTE format('GRANT UPDATE (leader_key, sleeper_key) ON tenon.setting TO %I', role);
    EXECUTE format('GRANT EXECUTE ON FUNCTION tenon.requeue, tenon.retry_delay, tenon.make_partitions, tenon.drop_history, tenon.random_key TO %I', role);
END $$;

REVOKE ALL ON FUNCTION tenon.retry_delay, tenon.requeue, tenon.need_partition, tenon.result_kept, tenon.finish, tenon.may_cancel, tenon.cancel, tenon.queue_names, tenon.grant_producer, tenon.grant_reader,
    tenon.grant_operator, tenon.grant_worker, tenon.grant_cleaner FROM PUBLIC;

COMMENT ON FUNCTION tenon.finish IS $$Finishes a task inside the handler's own transaction: its effects and its end commit together, so they happen exactly once.

- `claim`: the text of `TENON_TASK_CLAIM`, or `claim` of the task line; anything else raises SQLSTATE 22023.
- `result`: kept in `tenon.finished`; of one that is longer than 2 MiB as text only a note is kept.

Raises SQLSTATE 55000 when the claim is not valid any more, because the task was recovered, cancelled or finished: roll back and stop.$$;

COMMENT ON FUNCTION tenon.cancel IS $$Cancels a task that has not ended; returns whether there was one. One that runs is cancelled too: its worker loses the claim and stops its handler within seconds. While `cancel_own` in `tenon.setting` is true, another role's task raises SQLSTATE 42501.$$;

COMMENT ON FUNCTION tenon.grant_producer IS $$Lets a role enqueue, cancel and finish tasks, and nothing else; as `tenon setup --grant-producer ROLE`. With `queues` or `kinds` it may enqueue to those only (`tenon.producer`); without, to all. For the owner of the schema.$$;

COMMENT ON FUNCTION tenon.grant_reader IS $$Lets a role read everything: `tenon status`, `tenon show`, the views; as `tenon setup --grant-reader ROLE`. For the owner of the schema.$$;

COMMENT ON FUNCTION tenon.grant_operator IS $$Lets a role read everything, pause queues and set defaults and settings, cancel and enqueue any task, delete dead ones; as `tenon setup --grant-operator ROLE`. For the owner of the schema.$$;

COMMENT ON FUNCTION tenon.grant_worker IS $$Lets a role run `tenon worker`, and nothing else; as `tenon setup --grant-worker ROLE`. For the owner of the schema.$$;

COMMENT ON FUNCTION tenon.grant_cleaner IS $$Lets a role run `tenon cleaner`, and nothing else; as `tenon setup --grant-cleaner ROLE`. For the owner of the schema.$$;
