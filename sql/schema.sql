-- The schema after all of sql/migrations, for reading; printed by script/dump-schema, do not edit.
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;

CREATE SCHEMA tenon;

CREATE TYPE tenon.enqueued AS (
	id bigint,
	exchange text,
	routing_key text
);

CREATE FUNCTION tenon.cancel(id bigint) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
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

CREATE FUNCTION tenon.check_allowed(kind text, queue text, payload jsonb) RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
    d record;
BEGIN
    SELECT * INTO d FROM tenon.defaults(kind, queue);
    PERFORM tenon.check_payload(payload, d.payload_bytes_max);
    IF d.confined AND NOT tenon.may_enqueue(d.queue, kind) THEN
        RAISE EXCEPTION 'tenon: role % may not enqueue kind % to queue %', session_user, kind, d.queue
            USING ERRCODE = 'insufficient_privilege',
                  HINT = 'Another queue or kind, or ask the owner of the schema (tenon.producer).';
    END IF;
END $$;

CREATE FUNCTION tenon.check_enqueue(kind text, queue text, priority integer, run_at timestamp with time zone, delay interval, start_before timestamp with time zone, max_attempts integer, timeout interval, retry text, trace text) RETURNS boolean
    LANGUAGE plpgsql
    AS $_$
DECLARE
    least_ms bigint;
BEGIN
    IF tenon.is_kind(kind) IS NOT TRUE THEN
        PERFORM tenon.refuse('kind', quote_literal(kind), '1 to 100 of A-Z a-z 0-9 _ . : -');
    END IF;
    IF queue !~ '^[a-z0-9_][a-z0-9_.-]*$' OR length(queue) > 63 THEN
        PERFORM tenon.refuse('queue', quote_literal(queue), '1 to 63 of a-z 0-9 _ . - and does not start with . or -');
    END IF;
    IF priority NOT BETWEEN 0 AND 9 THEN
        PERFORM tenon.refuse('priority', priority::text, '0 to 9, higher first');
    END IF;
    IF max_attempts NOT BETWEEN 1 AND 1000 THEN
        PERFORM tenon.refuse('max_attempts', max_attempts::text, '1 to 1000');
    END IF;
    -- the milliseconds, not the interval: '-1 year 361 days' is longer than nothing and ends before it begins
    IF extract(epoch FROM timeout) * 1000 NOT BETWEEN 1 AND 2592000000 THEN
        PERFORM tenon.refuse('timeout', timeout::text, '1 millisecond to 30 days');
    END IF;
    IF timeout IS NOT NULL THEN
        SELECT k.timeout_min_ms INTO least_ms FROM tenon.kind k WHERE k.name = check_enqueue.kind;
        IF extract(epoch FROM timeout) * 1000 < least_ms THEN
            PERFORM tenon.refuse('timeout', timeout::text, format('at least %s ms for %s (timeout_min_ms in tenon.kind)', least_ms, kind));
        END IF;
    END IF;
    IF run_at IS NOT NULL AND delay IS NOT NULL THEN
        PERFORM tenon.refuse('delay', delay::text, 'given alone, not together with run_at');
    END IF;
    IF run_at IS NOT NULL AND (NOT isfinite(run_at) OR run_at > clock_timestamp() + interval '10 years') THEN
        PERFORM tenon.refuse('run_at', run_at::text, 'a moment at most 10 years ahead');
    END IF;
    IF delay IS NOT NULL AND (delay NOT BETWEEN interval '0' AND interval '10 years' OR extract(epoch FROM delay) < 0) THEN
        PERFORM tenon.refuse('delay', delay::text, '0 to 10 years');
    END IF;
    IF start_before IS NOT NULL AND (NOT isfinite(start_before)
                                     OR start_before <= greatest(coalesce(run_at, clock_timestamp() + delay), clock_timestamp())) THEN
        PERFORM tenon.refuse('start_before', start_before::text, 'a moment that is still to come, and after run_at');
    END IF;
    IF NOT tenon.is_retry(retry) THEN
        PERFORM tenon.refuse('retry', quote_literal(retry), 'sidekiq, or exponential(10 s, 1 h, 10 %), linear(...), constant(...) with a first delay of 1 ms to 30 days');
    END IF;
    IF trace IS NOT NULL AND trace !~ '^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$' THEN
        PERFORM tenon.refuse('trace', quote_literal(trace), 'a W3C traceparent, such as 00-<32 hex>-<16 hex>-01');
    END IF;
    RETURN true;
END $_$;

CREATE FUNCTION tenon.check_payload(payload jsonb, bytes_max integer) RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
    bytes integer := octet_length(payload::text);
BEGIN
    IF payload IS NULL THEN
        PERFORM tenon.refuse('payload', NULL, 'a JSON value; use ''null''::jsonb for JSON''s null');
    ELSIF bytes > bytes_max THEN
        PERFORM tenon.refuse('payload', format('of %s bytes', bytes),
                             format('at most %s bytes as text (payload_bytes_max in tenon.setting)', bytes_max));
    END IF;
END $$;

CREATE FUNCTION tenon.check_unique(unique_key text, on_conflict text, unique_for interval, debounce interval, debounce_max interval, run_at timestamp with time zone, delay interval) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF length(unique_key) NOT BETWEEN 1 AND 200 THEN
        PERFORM tenon.refuse('unique_key', quote_literal(unique_key), '1 to 200 characters long');
    END IF;
    IF unique_key IS NULL AND num_nonnulls(on_conflict, unique_for, debounce, debounce_max) > 0 THEN
        PERFORM tenon.refuse('unique_key', NULL, 'given together with on_conflict, unique_for, debounce and debounce_max');
    END IF;
    IF on_conflict NOT IN ('keep', 'replace', 'merge') THEN
        PERFORM tenon.refuse('on_conflict', quote_literal(on_conflict), 'keep, replace or merge');
    END IF;
    IF extract(epoch FROM unique_for) NOT BETWEEN 0.001 AND 31536000 THEN
        PERFORM tenon.refuse('unique_for', unique_for::text, '1 millisecond to 365 days');
    END IF;
    IF extract(epoch FROM debounce) NOT BETWEEN 0.001 AND 2592000 OR (debounce IS NOT NULL AND num_nonnulls(run_at, delay) > 0) THEN
        PERFORM tenon.refuse('debounce', debounce::text, '1 millisecond to 30 days, and given without run_at and delay');
    END IF;
    IF debounce_max IS NOT NULL AND (debounce IS NULL OR debounce_max < debounce) THEN
        PERFORM tenon.refuse('debounce_max', debounce_max::text, 'given with debounce, and no shorter');
    END IF;
    RETURN true;
END $$;

CREATE FUNCTION tenon.claim_must_hold(claim text, holds boolean, worker_id uuid) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF worker_id = '00000000-0000-0000-0000-000000000000' THEN
        RAISE NOTICE 'tenon: a handler is tried by hand (tenon worker --run-one): nothing is written';
    ELSIF NOT holds THEN
        RAISE EXCEPTION 'tenon: the claim % is not valid any more', quote_literal(claim)
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = 'The task was recovered, cancelled or finished; roll back and stop.';
    END IF;
END $$;

CREATE FUNCTION tenon.defaults(kind text, queue text) RETURNS TABLE(queue text, priority smallint, max_attempts integer, timeout_ms bigint, payload_bytes_max integer, confined boolean, exchange text, sleeper_key bigint)
    LANGUAGE sql STABLE
    AS $_$
    SELECT coalesce($2, k.queue, 'default'), coalesce(k.priority, q.priority, 4::smallint),
           coalesce(k.max_attempts, q.max_attempts, 25), coalesce(k.timeout_ms, q.timeout_ms, 3600000),
           s.payload_bytes_max, s.confined, s.exchange, s.sleeper_key
      FROM tenon.setting s
      LEFT JOIN tenon.kind k ON k.name = $1
      LEFT JOIN tenon.queue q ON q.name = coalesce($2, k.queue, 'default')
$_$;

CREATE FUNCTION tenon.drop_history() RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET "TimeZone" TO 'UTC'
    SET lock_timeout TO '100 ms'
    AS $_$
DECLARE
    part text;
BEGIN
    WITH day AS (
        SELECT c.oid, c.relname, i.inhparent, to_date(right(c.relname, 8), 'YYYYMMDD') + 1 AS ends,
               CASE WHEN c.reltuples > 0 AND c.relpages > 0
                    THEN c.reltuples / c.relpages * (pg_relation_size(c.oid) / current_setting('block_size')::integer)
                    ELSE pg_relation_size(c.oid) / 200.0 END AS n
          FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
         WHERE i.inhparent IN ('tenon.finished'::regclass, 'tenon.attempt'::regclass)
           AND c.relname ~ '^(finished|attempt)_[0-9]{8}$'
    ), old AS (
        SELECT d.*, sum(d.n) OVER (PARTITION BY d.inhparent ORDER BY d.ends DESC) AS n_newer FROM day d
    )
    SELECT o.relname INTO part
      FROM old o CROSS JOIN tenon.setting s
     WHERE o.ends <= now() - interval '1 hour'
       AND (o.ends <= now() - CASE WHEN o.inhparent = 'tenon.attempt'::regclass THEN s.attempt_keep ELSE s.history_keep END
            OR o.n_newer > s.history_rows_max)
       AND (o.ends < current_date OR pg_relation_size(o.oid) > 0)
     ORDER BY o.ends LIMIT 1;
    IF part IS NOT NULL THEN
        EXECUTE format('DROP TABLE IF EXISTS tenon.%I', part);  -- two at once
    END IF;
    RETURN part;
END $_$;

CREATE FUNCTION tenon.ended_by(error text, OUT exit_code integer, OUT signal integer) RETURNS record
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT m[1]::integer, m[2]::integer
      FROM regexp_match(error, '^(?:the handler ended without an answer: )?(?:exit status (\d+)|killed by signal (\d+))') m
$$;

CREATE FUNCTION tenon.enqueue(kind text, payload anycompatible DEFAULT '{}'::jsonb, queue text DEFAULT NULL::text, priority integer DEFAULT NULL::integer, run_at timestamp with time zone DEFAULT NULL::timestamp with time zone, delay interval DEFAULT NULL::interval, unique_key text DEFAULT NULL::text, on_conflict text DEFAULT NULL::text, unique_for interval DEFAULT NULL::interval, debounce interval DEFAULT NULL::interval, debounce_max interval DEFAULT NULL::interval, start_before timestamp with time zone DEFAULT NULL::timestamp with time zone, max_attempts integer DEFAULT NULL::integer, timeout interval DEFAULT NULL::interval, retry text DEFAULT NULL::text, trace text DEFAULT NULL::text, notify boolean DEFAULT true, announced boolean DEFAULT false) RETURNS bigint
    LANGUAGE sql
    AS $$
    SELECT (tenon.enqueue_routed(kind, payload, queue, priority, run_at, delay, unique_key, on_conflict, unique_for,
                                 debounce, debounce_max, start_before, max_attempts, timeout, retry, trace, notify,
                                 announced)).id
$$;

CREATE TABLE tenon.again (
    id bigint NOT NULL,
    run_at timestamp with time zone NOT NULL,
    created_at timestamp with time zone NOT NULL,
    start_before timestamp with time zone,
    timeout_ms bigint NOT NULL,
    max_attempts integer NOT NULL,
    payload_bytes integer NOT NULL,
    priority smallint NOT NULL,
    delayed boolean NOT NULL,
    queue text NOT NULL,
    kind text NOT NULL,
    payload jsonb NOT NULL,
    unique_key text NOT NULL,
    retry text,
    trace text,
    enqueued_by text,
    on_conflict text NOT NULL,
    debounce interval,
    debounce_max interval,
    taken boolean NOT NULL
);

CREATE FUNCTION tenon.enqueue_again(a tenon.again, notify boolean) RETURNS tenon.enqueued
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    held tenon.enqueued := tenon.holder(a.kind, a.unique_key);
BEGIN
    IF held.id IS NULL OR tenon.join_holder(a, interval '1 second') THEN
        RETURN held;
    END IF;
    INSERT INTO tenon.again OVERRIDING USER VALUE SELECT a.*;
    IF notify THEN
        PERFORM pg_notify('tenon', 'settle');
    END IF;
    RETURN held;
END $$;

CREATE FUNCTION tenon.enqueue_many(kind text, payloads anycompatiblearray, queue text DEFAULT NULL::text, priority integer DEFAULT NULL::integer, run_at timestamp with time zone DEFAULT NULL::timestamp with time zone, delay interval DEFAULT NULL::interval, unique_keys text[] DEFAULT NULL::text[], on_conflict text DEFAULT NULL::text, unique_for interval DEFAULT NULL::interval, debounce interval DEFAULT NULL::interval, debounce_max interval DEFAULT NULL::interval, start_before timestamp with time zone DEFAULT NULL::timestamp with time zone, max_attempts integer DEFAULT NULL::integer, timeout interval DEFAULT NULL::interval, retry text DEFAULT NULL::text, trace text DEFAULT NULL::text, notify boolean DEFAULT true, announced boolean DEFAULT false) RETURNS bigint[]
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_variable
DECLARE
    checked boolean := tenon.check_enqueue(kind, queue, priority, run_at, delay, start_before, max_attempts, timeout, retry, trace);
    documents jsonb[] := payloads;
    at      timestamptz := clock_timestamp();
    due     timestamptz := coalesce(run_at, at + delay);
    d       record;
    ids     bigint[];
BEGIN
    IF payloads IS NULL OR cardinality(payloads) > 100000 THEN
        PERFORM tenon.refuse('payloads', 'of ' || cardinality(payloads) || ' elements', 'an array of 0 to 100000 JSON values');
    END IF;
    IF unique_keys IS NOT NULL THEN
        IF cardinality(unique_keys) <> cardinality(payloads) THEN
            PERFORM tenon.refuse('unique_keys', format('of %s elements', cardinality(unique_keys)),
                                 format('as long as payloads, %s elements', cardinality(payloads)));
        END IF;
        SELECT coalesce(array_agg(tenon.enqueue(kind, p, queue, priority, run_at, delay, u, on_conflict, unique_for, debounce,
                                                debounce_max, start_before, max_attempts, timeout, retry, trace, notify,
                                                announced) ORDER BY o), '{}')
          INTO ids FROM unnest(documents, unique_keys) WITH ORDINALITY AS a (p, u, o);
        RETURN ids;
    END IF;
    checked := tenon.check_unique(NULL, on_conflict, unique_for, debounce, debounce_max, run_at, delay);
    SELECT * INTO d FROM tenon.defaults(kind, queue);
    IF d.confined THEN
        PERFORM tenon.check_allowed(kind, queue, '{}');
    END IF;
    WITH new AS (
        INSERT INTO tenon.task (run_at, created_at, start_before, timeout_ms, max_attempts, priority, delayed, announced,
                                queue, kind, payload, payload_bytes, retry, trace, enqueued_by)
        SELECT CASE WHEN due > at THEN due ELSE clock_timestamp() END, clock_timestamp(), start_before,
               coalesce((extract(epoch FROM timeout) * 1000)::bigint, d.timeout_ms),
               coalesce(max_attempts, d.max_attempts), coalesce(priority, d.priority), coalesce(due > at, false),
               coalesce(announced, false) AND coalesce(due <= at, true), d.queue, kind, p, bytes, retry, trace, session_user
          FROM (SELECT p, o, octet_length(p::text) AS bytes FROM unnest(documents) WITH ORDINALITY AS a (p, o) OFFSET 0) a
         WHERE bytes <= d.payload_bytes_max ORDER BY o
        RETURNING id)
    SELECT coalesce(array_agg(id ORDER BY id), '{}') INTO ids FROM new;
    IF cardinality(ids) < cardinality(payloads) THEN
        PERFORM tenon.check_payload(p, d.payload_bytes_max) FROM unnest(documents) p;
    END IF;
    IF coalesce(notify, true) AND NOT coalesce(announced, false) AND ids <> '{}' THEN
        IF tenon.publisher_sleeps(d.sleeper_key) THEN
            PERFORM pg_notify('tenon', '');
        END IF;
    END IF;
    RETURN ids;
END $$;

CREATE FUNCTION tenon.enqueue_routed(kind text, payload anycompatible DEFAULT '{}'::jsonb, queue text DEFAULT NULL::text, priority integer DEFAULT NULL::integer, run_at timestamp with time zone DEFAULT NULL::timestamp with time zone, delay interval DEFAULT NULL::interval, unique_key text DEFAULT NULL::text, on_conflict text DEFAULT NULL::text, unique_for interval DEFAULT NULL::interval, debounce interval DEFAULT NULL::interval, debounce_max interval DEFAULT NULL::interval, start_before timestamp with time zone DEFAULT NULL::timestamp with time zone, max_attempts integer DEFAULT NULL::integer, timeout interval DEFAULT NULL::interval, retry text DEFAULT NULL::text, trace text DEFAULT NULL::text, notify boolean DEFAULT true, announced boolean DEFAULT true) RETURNS tenon.enqueued
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_variable
DECLARE
    document jsonb := payload;
    bytes   integer := octet_length(document::text);
    at      timestamptz := clock_timestamp();
    due     timestamptz;
    tries   integer := 0;
    checked boolean;  -- assigned only because an expression costs less than a PERFORM, which is a query
    added   tenon.enqueued;
    again   tenon.again;
    d       record;
BEGIN
    -- most calls give a kind and a payload: then there is nothing else to check
    IF num_nonnulls(queue, priority, run_at, delay, unique_key, on_conflict, unique_for, debounce, debounce_max, start_before,
                    max_attempts, timeout, retry, trace) > 0
       OR tenon.is_kind(kind) IS NOT TRUE THEN
        checked := tenon.check_enqueue(kind, queue, priority, run_at, delay, start_before, max_attempts, timeout, retry, trace);
        checked := tenon.check_unique(unique_key, on_conflict, unique_for, debounce, debounce_max, run_at, delay);
    END IF;
    due := greatest(coalesce(run_at, at + coalesce(delay, debounce)), at);
    announced := coalesce(announced, false) AND due <= at;
    SELECT * INTO d FROM tenon.defaults(kind, queue);
    IF d.confined OR bytes > d.payload_bytes_max OR bytes IS NULL THEN
        PERFORM tenon.check_allowed(kind, queue, document);
    END IF;
    IF unique_for IS NOT NULL THEN
        added.id := tenon.hold_key(kind, unique_key, at + unique_for);
        IF added.id IS NOT NULL THEN
            RETURN ROW(added.id, d.exchange, d.queue || '/' || kind)::tenon.enqueued;
        END IF;
    END IF;
    LOOP
        INSERT INTO tenon.task (run_at, created_at, start_before, timeout_ms, max_attempts, priority, delayed,
                                announced, queue, kind, payload, payload_bytes, unique_key, retry, trace,
                                enqueued_by)
        VALUES (due, at, start_before, coalesce((extract(epoch FROM timeout) * 1000)::bigint, d.timeout_ms),
                coalesce(max_attempts, d.max_attempts), coalesce(priority, d.priority), due > at,
                announced, d.queue, kind, document, bytes, unique_key, retry, trace,
                session_user)
        ON CONFLICT DO NOTHING  -- unique_key is the only thing that can conflict
        RETURNING task.id INTO added.id;
        EXIT WHEN FOUND;
        again := ROW(0, due, at, start_before, coalesce((extract(epoch FROM timeout) * 1000)::bigint, d.timeout_ms),
                     coalesce(max_attempts, d.max_attempts), bytes, coalesce(priority, d.priority), due > at, d.queue, kind,
                     document, unique_key, retry, trace, session_user,
                     coalesce(on_conflict, CASE WHEN debounce IS NULL THEN 'keep' ELSE 'replace' END), debounce, debounce_max,
                     false);
        added := tenon.enqueue_again(again, coalesce(notify, true));
        EXIT WHEN added.id IS NOT NULL;
        -- the holder may have finished between the two statements: once more, which is enough in practice
        tries := tries + 1;
        IF tries = 100 THEN
            RAISE EXCEPTION 'tenon: the task that holds unique_key % cannot be seen', quote_literal(unique_key)
                USING ERRCODE = 'serialization_failure', HINT = 'Run the transaction again.';
        END IF;
    END LOOP;
    added.exchange := d.exchange;
    added.routing_key := coalesce(added.routing_key, d.queue || '/' || kind);
    IF unique_for IS NOT NULL THEN
        UPDATE tenon.unique_hold h SET id = added.id WHERE h.kind = kind AND h.unique_key = unique_key AND h.id IS NULL;
    END IF;
    IF coalesce(notify, true) AND NOT announced THEN
        IF tenon.publisher_sleeps(d.sleeper_key) THEN
            PERFORM pg_notify('tenon', '');
        END IF;
    END IF;
    RETURN added;
END $$;

CREATE FUNCTION tenon.error_class(reason text, error text) RETURNS text
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT CASE WHEN reason = 'timed_out' THEN 'timeout'
                WHEN reason = 'crashed' THEN 'crash'
                ELSE left(coalesce('exit_' || e.exit_code, 'signal_' || e.signal, substring(error from '[^\s:,;(]+')), 100) END
      FROM tenon.ended_by(error) e
$$;

CREATE FUNCTION tenon.extend(claim text, by interval) RETURNS timestamp with time zone
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    AS $$
#variable_conflict use_variable
DECLARE
    timeout_max_ms constant bigint := 2592000000;
    by_ms    numeric := extract(epoch FROM by) * 1000;
    deadline timestamptz;
    fence    record;
BEGIN
    fence := tenon.read_claim(claim);
    IF (by_ms BETWEEN 1 AND timeout_max_ms) IS NOT TRUE THEN
        PERFORM tenon.refuse('by', by::text, '1 millisecond to 30 days');
    END IF;
    deadline := clock_timestamp() + by;
    UPDATE tenon.task t
       SET timeout_ms = greatest(t.timeout_ms, least(timeout_max_ms, ceil(extract(epoch FROM deadline - t.start_time) * 1000)))
     WHERE t.id = fence.id AND t.claims = fence.claims AND t.worker_id = fence.worker_id AND t.start_time = fence.start_time
    RETURNING t.start_time + make_interval(secs => t.timeout_ms / 1000.0) INTO deadline;
    PERFORM tenon.claim_must_hold(claim, FOUND, fence.worker_id);
    RETURN deadline;
END $$;

CREATE FUNCTION tenon.finish(claim text, result jsonb DEFAULT NULL::jsonb) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $_$
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
END $_$;

CREATE FUNCTION tenon.grant_cleaner(role text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA tenon TO %I', role);
    EXECUTE format('GRANT SELECT ON tenon.migration, tenon.setting, tenon.queue, tenon.kind TO %I', role);
    EXECUTE format('GRANT SELECT ON SEQUENCE %s TO %I', pg_get_serial_sequence('tenon.task', 'id'), role);
    EXECUTE format('GRANT SELECT, UPDATE (run_at) ON tenon.task TO %I', role);  -- UPDATE, because it locks rows
    EXECUTE format('GRANT SELECT, DELETE, UPDATE (state, ended_at) ON tenon.worker TO %I', role);
    EXECUTE format('GRANT SELECT (taken) ON tenon.again TO %I', role);
    EXECUTE format('GRANT SELECT ON tenon.lock TO %I', role);
    EXECUTE format('GRANT UPDATE (leader_key, sleeper_key) ON tenon.setting TO %I', role);
    EXECUTE format('GRANT EXECUTE ON FUNCTION tenon.requeue, tenon.settle, tenon.make_partitions, tenon.drop_history, tenon.purge, tenon.random_key TO %I', role);
END $$;

CREATE FUNCTION tenon.grant_operator(role text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    PERFORM tenon.grant_reader(role);
    EXECUTE format('GRANT INSERT, UPDATE, DELETE ON tenon.queue, tenon.kind TO %I', role);
    EXECUTE format('GRANT EXECUTE ON FUNCTION tenon.is_retry, tenon.retry_parts TO %I', role);  -- of the checks there
    EXECUTE format('GRANT UPDATE (payload_bytes_max, history_keep, history_rows_max, exchange, cancel_own, attempt_keep, dead_keep, on_dead) ON tenon.setting TO %I', role);
    EXECUTE format('GRANT DELETE ON tenon.dead TO %I', role);
    EXECUTE format('GRANT EXECUTE ON FUNCTION tenon.enqueue, tenon.enqueue_routed, tenon.enqueue_many, tenon.route_of, tenon.mine, tenon.cancel TO %I', role);
END $$;

CREATE FUNCTION tenon.grant_producer(role text, queues text[] DEFAULT NULL::text[], kinds text[] DEFAULT NULL::text[]) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_variable
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA tenon TO %I', role);
    EXECUTE format('GRANT SELECT ON tenon.migration TO %I', role);
    EXECUTE format('GRANT EXECUTE ON FUNCTION tenon.enqueue, tenon.enqueue_routed, tenon.enqueue_many, tenon.route_of, tenon.mine, tenon.cancel, tenon.finish, tenon.progress, tenon.extend TO %I', role);
    DELETE FROM tenon.producer p WHERE p.role = role;
    IF queues IS NOT NULL OR kinds IS NOT NULL THEN
        INSERT INTO tenon.producer VALUES (role, queues, kinds);
    END IF;
END $$;

CREATE FUNCTION tenon.grant_reader(role text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA tenon TO %I', role);
    EXECUTE format('GRANT SELECT ON ALL TABLES IN SCHEMA tenon TO %I', role);
    EXECUTE format('GRANT EXECUTE ON FUNCTION tenon.queue_names TO %I', role);
END $$;

CREATE FUNCTION tenon.grant_worker(role text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA tenon TO %I', role);
    EXECUTE format('GRANT SELECT ON tenon.migration, tenon.setting, tenon.queue, tenon.kind TO %I', role);
    EXECUTE format('GRANT SELECT, UPDATE, DELETE ON tenon.task TO %I', role);
    EXECUTE format('GRANT INSERT ON tenon.finished TO %I', role);
    EXECUTE format('GRANT SELECT (id, claims, worker_id, outcome) ON tenon.finished TO %I', role);
    EXECUTE format('GRANT SELECT (id, claims, worker_id) ON tenon.dead TO %I', role);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE ON tenon.worker TO %I', role);
    EXECUTE format('GRANT EXECUTE ON FUNCTION tenon.requeue, tenon.progress_kept, tenon.printed_bytes, tenon.make_partitions, tenon.random_key TO %I', role);
END $$;

CREATE FUNCTION tenon.hold_key(kind text, unique_key text, until timestamp with time zone) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    held bigint;
BEGIN
    INSERT INTO tenon.unique_hold AS h (kind, unique_key, until) VALUES (kind, unique_key, until)
    ON CONFLICT ON CONSTRAINT unique_hold_pkey
    DO UPDATE SET until = excluded.until, id = NULL WHERE h.until <= clock_timestamp();
    IF NOT FOUND THEN
        SELECT h.id INTO held FROM tenon.unique_hold h
         WHERE h.kind = hold_key.kind AND h.unique_key = hold_key.unique_key
           AND NOT EXISTS (SELECT FROM tenon.task t WHERE t.id = h.id);
    END IF;
    RETURN held;
END $$;

CREATE FUNCTION tenon.holder(kind text, unique_key text) RETURNS tenon.enqueued
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    held tenon.enqueued;
BEGIN
    SELECT t.id, s.exchange, t.queue || '/' || t.kind INTO held FROM tenon.task t, tenon.setting s
     WHERE t.unique_key = holder.unique_key AND t.kind = holder.kind;
    RETURN held;
END $$;

CREATE FUNCTION tenon.is_kind(kind text) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    AS $_$ SELECT kind ~ '^[A-Za-z0-9_.:-]+$' AND length(kind) <= 100 $_$;

CREATE FUNCTION tenon.retry_parts(policy text, OUT curve text, OUT first_s double precision, OUT cap_s double precision, OUT jitter double precision) RETURNS record
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
DECLARE
    part text[] := regexp_match(policy, '^(sidekiq|exponential|linear|constant)(?:\(([^,()]+)(?:,([^,()]+))?(?:,\s*(\d{1,3}) ?%)?\))?$');
BEGIN
    IF part[1] IS NULL OR (part[1] <> 'sidekiq') <> (part[2] IS NOT NULL) THEN
        RETURN;
    END IF;
    first_s := extract(epoch FROM coalesce(part[2], '15 s')::interval);
    cap_s := extract(epoch FROM coalesce(part[3]::interval, interval '30 days'));
    jitter := coalesce(part[4]::integer, 10) / 100.0;
    IF first_s BETWEEN 0.001 AND cap_s AND cap_s <= 2592000 AND jitter <= 1 THEN
        curve := part[1];
    END IF;
EXCEPTION WHEN invalid_datetime_format OR datetime_field_overflow OR interval_field_overflow THEN
    RETURN;
END $_$;

CREATE FUNCTION tenon.is_retry(policy text) RETURNS boolean
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    RETURN ((policy IS NULL) OR ((tenon.retry_parts(policy)).curve IS NOT NULL));

CREATE FUNCTION tenon.join_holder(a tenon.again, patience interval) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    held    tenon.task;
    joined  jsonb;
    bytes   integer;
BEGIN
    SELECT t.* INTO held FROM tenon.task t
     WHERE t.unique_key = a.unique_key AND t.kind = a.kind AND t.start_time IS NULL
       AND (patience IS NULL OR t.run_at > clock_timestamp() - patience)
       FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF a.on_conflict = 'keep' AND a.debounce IS NULL THEN
        RETURN true;  -- locked until the commit: so it starts afterwards
    END IF;
    IF held.enqueued_by <> a.enqueued_by AND (SELECT s.cancel_own FROM tenon.setting s) THEN
        RETURN false;
    END IF;
    joined := tenon.joined(a.on_conflict, held.payload, a.payload);
    bytes := octet_length(joined::text);
    IF a.on_conflict = 'merge' AND bytes > (SELECT s.payload_bytes_max FROM tenon.setting s) THEN
        RETURN false;  -- two tasks, then
    END IF;
    UPDATE tenon.task t
       SET payload = joined, payload_bytes = bytes, run_at = tenon.joined_at(a, t.run_at, t.created_at), delayed = true,
           start_before = CASE WHEN a.on_conflict = 'replace' THEN a.start_before ELSE t.start_before END
     WHERE t.id = held.id;
    RETURN true;
END $$;

CREATE FUNCTION tenon.joined(on_conflict text, old jsonb, new jsonb) RETURNS jsonb
    LANGUAGE sql IMMUTABLE
    AS $$ SELECT CASE on_conflict WHEN 'replace' THEN new WHEN 'merge' THEN old || new ELSE old END $$;

CREATE FUNCTION tenon.joined_at(a tenon.again, old timestamp with time zone, created_at timestamp with time zone) RETURNS timestamp with time zone
    LANGUAGE sql STABLE
    AS $$
    SELECT CASE WHEN a.debounce IS NOT NULL THEN least(a.run_at, created_at + a.debounce_max)
                WHEN a.on_conflict = 'replace' THEN a.run_at ELSE old END
$$;

CREATE FUNCTION tenon.make_partitions(days_ahead integer DEFAULT 7) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET "TimeZone" TO 'UTC'
    AS $$
DECLARE
    today  date := (clock_timestamp() AT TIME ZONE 'UTC')::date;
    made   integer := 0;
    parent text;
    day    date;
    part   text;
BEGIN
    FOR parent, day IN SELECT p, today + i FROM unnest('{finished,attempt}'::text[]) p, generate_series(-1, days_ahead) i LOOP
        part := parent || '_' || to_char(day, 'YYYYMMDD');
        CONTINUE WHEN to_regclass(format('tenon.%I', part)) IS NOT NULL;
        EXECUTE format('LOCK TABLE tenon.%I IN SHARE UPDATE EXCLUSIVE MODE', parent);  -- two makers at once; ATTACH takes it anyway
        -- the table itself: to_regclass remembers that there was none, and no lock makes it look again
        CONTINUE WHEN EXISTS (SELECT FROM pg_class WHERE relname = part AND relnamespace = 'tenon'::regnamespace);
        EXECUTE format('CREATE TABLE tenon.%I (LIKE tenon.%I INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', part, parent);
        EXECUTE format('ALTER TABLE tenon.%I ATTACH PARTITION tenon.%I FOR VALUES FROM (%L) TO (%L)',
                       parent, part, day::timestamptz, (day + 1)::timestamptz);
        made := made + 1;
    END LOOP;
    RETURN made;
END $$;

CREATE FUNCTION tenon.may_cancel(enqueued_by text) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$
    SELECT NOT s.cancel_own OR enqueued_by = session_user OR has_table_privilege(session_user, 'tenon.queue', 'UPDATE')
      FROM tenon.setting s
$$;

CREATE FUNCTION tenon.may_enqueue(queue text, kind text) RETURNS boolean
    LANGUAGE sql STABLE
    AS $_$
    SELECT coalesce(bool_or((p.queues IS NULL OR $1 = ANY (p.queues)) AND (p.kinds IS NULL OR $2 = ANY (p.kinds))), true)
      FROM tenon.producer p
      JOIN pg_roles r ON r.rolname = p.role
     WHERE pg_has_role(session_user, r.oid, 'MEMBER')
       AND NOT (SELECT u.rolsuper FROM pg_roles u WHERE u.rolname = session_user)
$_$;

CREATE TABLE tenon.dead (
    dead_at timestamp with time zone NOT NULL,
    id bigint NOT NULL,
    run_at timestamp with time zone NOT NULL,
    start_time timestamp with time zone,
    created_at timestamp with time zone NOT NULL,
    start_before timestamp with time zone,
    worker_id uuid,
    timeout_ms bigint NOT NULL,
    claims integer NOT NULL,
    failures integer NOT NULL,
    crashes integer NOT NULL,
    max_attempts integer NOT NULL,
    priority smallint NOT NULL,
    reason text NOT NULL,
    queue text NOT NULL,
    kind text NOT NULL,
    payload jsonb NOT NULL,
    unique_key text,
    retry text,
    trace text,
    last_error text,
    error_class text,
    enqueued_by text,
    compensates bigint,
    CONSTRAINT dead_reason_check CHECK ((reason = ANY (ARRAY['failures'::text, 'crashes'::text, 'handler'::text, 'timeout'::text])))
);

CREATE TABLE tenon.finished (
    finished_at timestamp with time zone NOT NULL,
    id bigint NOT NULL,
    run_at timestamp with time zone NOT NULL,
    start_time timestamp with time zone,
    created_at timestamp with time zone NOT NULL,
    worker_id uuid,
    claims integer NOT NULL,
    failures integer NOT NULL,
    crashes integer NOT NULL,
    priority smallint NOT NULL,
    outcome text NOT NULL,
    queue text NOT NULL,
    kind text NOT NULL,
    payload jsonb NOT NULL,
    unique_key text,
    trace text,
    last_error text,
    result jsonb,
    enqueued_by text,
    CONSTRAINT finished_outcome_check CHECK ((outcome = ANY (ARRAY['done'::text, 'cancelled'::text, 'expired'::text])))
)
PARTITION BY RANGE (finished_at);

CREATE TABLE tenon.task (
    id bigint NOT NULL,
    run_at timestamp with time zone NOT NULL,
    start_time timestamp with time zone,
    created_at timestamp with time zone NOT NULL,
    start_before timestamp with time zone,
    worker_id uuid,
    timeout_ms bigint NOT NULL,
    claims integer DEFAULT 0 NOT NULL,
    failures integer DEFAULT 0 NOT NULL,
    crashes integer DEFAULT 0 NOT NULL,
    max_attempts integer NOT NULL,
    payload_bytes integer DEFAULT 0 NOT NULL,
    priority smallint NOT NULL,
    delayed boolean NOT NULL,
    announced boolean NOT NULL,
    queue text NOT NULL,
    kind text NOT NULL,
    payload jsonb NOT NULL,
    unique_key text,
    retry text,
    trace text,
    progress jsonb,
    last_error text,
    error_class text,
    enqueued_by text,
    compensates bigint,
    again bigint,
    CONSTRAINT task_check CHECK ((((start_time IS NULL) = (worker_id IS NULL)) AND ((timeout_ms >= 1) AND (timeout_ms <= '2592000000'::bigint))))
)
WITH (fillfactor='45', autovacuum_vacuum_scale_factor='0.01', autovacuum_vacuum_cost_delay='0', autovacuum_vacuum_insert_scale_factor='0.2');

CREATE VIEW tenon.tasks AS
 SELECT task.id,
    task.queue,
    task.kind,
        CASE
            WHEN (task.start_time IS NOT NULL) THEN 'running'::text
            WHEN (task.start_before <= clock_timestamp()) THEN 'expired'::text
            WHEN (task.run_at <= clock_timestamp()) THEN 'ready'::text
            WHEN ((task.failures + task.crashes) > 0) THEN 'retrying'::text
            ELSE 'scheduled'::text
        END AS state,
    task.priority,
    task.created_at,
    task.run_at,
    task.start_time,
    NULL::timestamp with time zone AS end_time,
    task.worker_id,
    ((task.failures + task.crashes) + ((task.start_time IS NOT NULL))::integer) AS attempt,
    task.claims,
    task.failures,
    task.crashes,
    task.payload,
    task.progress,
    NULL::jsonb AS result,
    task.unique_key,
    task.trace,
    task.last_error,
    task.error_class,
    task.enqueued_by,
    task.start_before,
    task.compensates
   FROM tenon.task
UNION ALL
 SELECT finished.id,
    finished.queue,
    finished.kind,
    finished.outcome AS state,
    finished.priority,
    finished.created_at,
    finished.run_at,
    finished.start_time,
    finished.finished_at AS end_time,
    finished.worker_id,
    ((finished.failures + finished.crashes) + ((finished.start_time IS NOT NULL))::integer) AS attempt,
    finished.claims,
    finished.failures,
    finished.crashes,
    finished.payload,
    NULL::jsonb AS progress,
    finished.result,
    finished.unique_key,
    finished.trace,
    finished.last_error,
    NULL::text AS error_class,
    finished.enqueued_by,
    NULL::timestamp with time zone AS start_before,
    NULL::bigint AS compensates
   FROM tenon.finished
UNION ALL
 SELECT dead.id,
    dead.queue,
    dead.kind,
    'dead'::text AS state,
    dead.priority,
    dead.created_at,
    dead.run_at,
    dead.start_time,
    dead.dead_at AS end_time,
    dead.worker_id,
    ((dead.failures + dead.crashes) + ((dead.reason = 'handler'::text))::integer) AS attempt,
    dead.claims,
    dead.failures,
    dead.crashes,
    dead.payload,
    NULL::jsonb AS progress,
    NULL::jsonb AS result,
    dead.unique_key,
    dead.trace,
    dead.last_error,
    dead.error_class,
    dead.enqueued_by,
    dead.start_before,
    dead.compensates
   FROM tenon.dead;

CREATE FUNCTION tenon.mine() RETURNS SETOF tenon.tasks
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT v.*
      FROM tenon.task t
      CROSS JOIN LATERAL (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS next, t.xmin::text::bigint AS low) x
      JOIN tenon.tasks v ON v.id = t.id
     WHERE t.created_at >= now()
       AND pg_xact_status(((x.next - low & ~4294967295) + low)::text::xid8) = 'in progress'
     ORDER BY t.id
$$;

CREATE FUNCTION tenon.need_partition(moment timestamp with time zone) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF to_regclass('tenon.finished_' || to_char(moment AT TIME ZONE 'UTC', 'YYYYMMDD')) IS NULL THEN
        PERFORM tenon.make_partitions();
    END IF;
END $$;

CREATE FUNCTION tenon.note_confined() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    UPDATE tenon.setting s SET confined = EXISTS (SELECT FROM tenon.producer);
    RETURN NULL;
END $$;

CREATE FUNCTION tenon.printed_bytes(value jsonb) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE
    AS $$
BEGIN
    RETURN octet_length(value::text);
EXCEPTION WHEN program_limit_exceeded THEN  -- longer than 1 GB
    RETURN 1 << 30;
END $$;

CREATE FUNCTION tenon.progress(claim text, value jsonb) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    AS $$
#variable_conflict use_variable
DECLARE
    progress_bytes_max constant integer := 65536;
    bytes bigint := tenon.printed_bytes(value);
    fence record;
BEGIN
    fence := tenon.read_claim(claim);
    IF bytes > progress_bytes_max THEN
        PERFORM tenon.refuse('value', format('of %s bytes', bytes),
                             format('at most %s bytes as text', progress_bytes_max));
    END IF;
    UPDATE tenon.task t SET progress = nullif(value, 'null')
     WHERE t.id = fence.id AND t.claims = fence.claims AND t.worker_id = fence.worker_id AND t.start_time = fence.start_time;
    PERFORM tenon.claim_must_hold(claim, FOUND, fence.worker_id);
END $$;

CREATE FUNCTION tenon.progress_kept(line text) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    value jsonb;
BEGIN
    value := line::jsonb -> 'progress';
    RETURN CASE WHEN tenon.printed_bytes(value) <= 65536 THEN value END;
EXCEPTION WHEN others THEN
    RETURN NULL;
END $$;

CREATE FUNCTION tenon.publisher_sleeps(key bigint) RETURNS boolean
    LANGUAGE sql
    AS $$ SELECT NOT pg_catalog.pg_try_advisory_xact_lock_shared(key) $$;

CREATE FUNCTION tenon.purge(most integer) RETURNS integer
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    WITH dead AS (
        DELETE FROM tenon.dead WHERE id IN (
            SELECT d.id FROM tenon.dead d WHERE d.dead_at < now() - (SELECT s.dead_keep FROM tenon.setting s)
             ORDER BY d.dead_at LIMIT most FOR UPDATE SKIP LOCKED) RETURNING 1
    ), held AS (
        DELETE FROM tenon.unique_hold WHERE (unique_key, kind) IN (
            SELECT h.unique_key, h.kind FROM tenon.unique_hold h WHERE h.until < now()
             ORDER BY h.until LIMIT most FOR UPDATE SKIP LOCKED) RETURNING 1
    )
    SELECT ((SELECT count(*) FROM dead) + (SELECT count(*) FROM held))::integer
$$;

CREATE FUNCTION tenon.queue_names(most bigint) RETURNS SETOF text
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $_$
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
$_$;

CREATE FUNCTION tenon.random_key() RETURNS bigint
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT ('x' || left(u, 8) || right(u, 8))::bit(64)::bigint FROM CAST(gen_random_uuid() AS text) u
$$;

CREATE FUNCTION tenon.read_claim(claim text, OUT id bigint, OUT claims integer, OUT start_time timestamp with time zone, OUT worker_id uuid) RETURNS record
    LANGUAGE plpgsql IMMUTABLE
    AS $_$
DECLARE
    part text[] := string_to_array(claim, '/');
BEGIN
    IF claim IS NULL OR claim !~ '^[0-9]{1,18}/[0-9]{1,9}/[0-9]{1,17}/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN
        PERFORM tenon.refuse('claim', quote_literal(claim), 'the text of TENON_TASK_CLAIM');
    END IF;
    id := part[1];
    claims := part[2];
    start_time := timestamptz 'epoch' + part[3]::bigint * interval '1 microsecond';
    worker_id := part[4];
END $_$;

CREATE FUNCTION tenon.refuse(argument text, value text, allowed text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    RAISE EXCEPTION 'tenon: % % is not allowed', argument, coalesce(left(value, 100), 'NULL')
        USING ERRCODE = 'invalid_parameter_value', HINT = format('%s is %s.', argument, allowed);
END $$;

CREATE FUNCTION tenon.requeue(ids bigint[], claims integer[], starts_us bigint[], worker uuid, reasons text[], errors text[], delays_ms bigint[], classes text[] DEFAULT NULL::text[]) RETURNS TABLE(id bigint, state text)
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
    WITH given AS MATERIALIZED (
        SELECT g.* FROM unnest($1, $2, $3, $5, $6, $7, $8) AS g (id, claims, start_us, reason, error, delay_ms, class)
    ), mine AS MATERIALIZED (
        SELECT t.id, t.failures + (g.reason IN ('failed', 'timed_out'))::integer AS failures,
               t.crashes + (g.reason = 'crashed')::integer AS crashes,
               t.max_attempts, t.queue, t.kind, t.retry, t.again, t.claims, t.start_time, g.reason, g.delay_ms,
               CASE WHEN g.reason IN ('failed', 'timed_out', 'crashed', 'dead')
                    THEN coalesce(g.class, tenon.error_class(g.reason, g.error)) ELSE t.error_class END AS class,
               1 + t.failures + t.crashes AS attempt,
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
        RETURNING t.*, j.failures AS failures_now, j.crashes AS crashes_now, j.dead_of, j.error, j.class, j.attempt
    ), died AS (
        INSERT INTO tenon.dead (dead_at, id, run_at, start_time, created_at, start_before, worker_id, timeout_ms, claims,
                                failures, crashes, max_attempts, priority, reason, queue, kind, payload,
                                unique_key, retry, trace, last_error, error_class, enqueued_by, compensates)
        SELECT clock_timestamp(), g.id, run_at, start_time, created_at, start_before, worker_id, timeout_ms, claims,
               failures_now, crashes_now, max_attempts, priority, dead_of, queue, kind, payload,
               unique_key, retry, trace, error, class, enqueued_by, compensates
          FROM gone g
        RETURNING dead.id
    ), compensated AS (
        INSERT INTO tenon.task (run_at, created_at, timeout_ms, max_attempts, priority, delayed, announced, queue, kind,
                                payload, payload_bytes, trace, enqueued_by, compensates)
        SELECT now(), now(), d.timeout_ms, d.max_attempts, d.priority, false, false, d.queue, c.kind,
               c.payload, octet_length(c.payload::text), g.trace, session_user, g.id
          FROM gone g
          JOIN tenon.setting s ON g.compensates IS NULL
          LEFT JOIN tenon.kind k ON k.name = g.kind
         CROSS JOIN LATERAL (
               SELECT coalesce(k.on_dead, s.on_dead) AS kind,
                      jsonb_build_object('id', g.id, 'queue', g.queue, 'kind', g.kind, 'payload', g.payload,
                          'reason', g.dead_of, 'error', g.error, 'error_class', g.class, 'attempt', g.attempt,
                          'failures', g.failures_now, 'crashes', g.crashes_now, 'unique_key', g.unique_key,
                          'trace', g.trace, 'created_at', g.created_at, 'enqueued_by', g.enqueued_by) AS payload) c
         CROSS JOIN LATERAL tenon.defaults(c.kind, NULL) d
         WHERE c.kind IS NOT NULL
    ), attempted AS (
        INSERT INTO tenon.attempt (ended_at, id, attempt, claims, started_at, worker_id, host, outcome, queue, kind,
                                   error_class, error, exit_code, signal)
        SELECT clock_timestamp(), j.id, j.attempt, j.claims, j.start_time, $4,
               (SELECT w.host FROM tenon.worker w WHERE w.id = $4), j.reason, j.queue, j.kind, j.class, j.error,
               e.exit_code, e.signal
          FROM judged j CROSS JOIN tenon.ended_by(j.error) e WHERE j.reason IN ('failed', 'timed_out', 'crashed', 'dead')
    ), settled AS (  -- what waited for its end may join it now
        UPDATE tenon.again a SET taken = false FROM judged j WHERE a.id = j.again AND j.dead_of IS NULL
    ), back AS (
        UPDATE tenon.task t
           SET start_time = NULL, worker_id = NULL, failures = j.failures, crashes = j.crashes, again = NULL,
               last_error = j.error, error_class = j.class,
               delayed = t.delayed OR j.reason <> 'released' OR j.delay_ms IS NOT NULL,
               run_at = CASE
                   WHEN j.delay_ms IS NOT NULL THEN clock_timestamp() + make_interval(secs => j.delay_ms / 1000.0)
                   WHEN j.reason IN ('failed', 'timed_out') THEN clock_timestamp() + tenon.retry_delay(j.failures, coalesce(j.retry,
                       (SELECT k.retry FROM tenon.kind k WHERE k.name = j.kind), (SELECT q.retry FROM tenon.queue q WHERE q.name = j.queue)))
                   WHEN j.reason = 'released' THEN t.run_at
                   ELSE clock_timestamp() END
          FROM judged j WHERE t.id = ANY (ARRAY[j.id]) AND j.dead_of IS NULL
        RETURNING t.id, t.failures + t.crashes AS failed, t.run_at
    )
    SELECT d.id, 'dead' FROM died d
    UNION ALL
    SELECT b.id, CASE WHEN b.run_at <= clock_timestamp() THEN 'ready'
                      WHEN b.failed > 0 THEN 'retrying' ELSE 'scheduled' END FROM back b
$_$;

CREATE FUNCTION tenon.result_kept(result jsonb) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE
    AS $$
BEGIN
    IF result IS NULL OR octet_length(result::text) <= 2097152 THEN
        RETURN result;
    END IF;
    RETURN to_jsonb('tenon: the result was not kept, it is longer than 2 MiB as text'::text);
EXCEPTION WHEN program_limit_exceeded THEN  -- longer than 1 GB
    RETURN to_jsonb('tenon: the result was not kept, it is longer than 2 MiB as text'::text);
END $$;

CREATE FUNCTION tenon.retry_delay(failures integer, policy text DEFAULT NULL::text) RETURNS interval
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT make_interval(secs => CASE p.curve
               WHEN 'exponential' THEN least(p.cap_s, p.first_s * power(2, least(failures - 1, 60))) * (1 + p.jitter * random())
               WHEN 'linear' THEN least(p.cap_s, p.first_s * failures) * (1 + p.jitter * random())
               WHEN 'constant' THEN p.first_s * (1 + p.jitter * random())
               ELSE power(failures, 4) + 15 + random() * 10 * failures END)
      FROM tenon.retry_parts(policy) p
$$;

CREATE FUNCTION tenon.route_of(kind text, queue text DEFAULT NULL::text, OUT exchange text, OUT routing_key text) RETURNS record
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
    SELECT s.exchange, coalesce($2, (SELECT k.queue FROM tenon.kind k WHERE k.name = $1), 'default') || '/' || $1
      FROM tenon.setting s
$_$;

CREATE FUNCTION tenon.settle(most integer DEFAULT 500) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    moment timestamptz := clock_timestamp();
    n      integer;
    a      tenon.again;
BEGIN
    PERFORM tenon.need_partition(moment);
    WITH gone AS (
        DELETE FROM tenon.task WHERE id = ANY (ARRAY(
            SELECT t.id FROM tenon.task t WHERE t.start_before <= moment AND t.start_time IS NULL
             ORDER BY t.start_before LIMIT most FOR UPDATE SKIP LOCKED))
        RETURNING *)
    INSERT INTO tenon.finished (finished_at, id, run_at, start_time, created_at, worker_id, claims, failures,
                                crashes, priority, outcome, queue, kind, payload, unique_key, trace, last_error, enqueued_by)
    SELECT moment, g.id, run_at, start_time, created_at, worker_id, claims, failures, crashes, priority, 'expired', queue,
           kind, payload, unique_key, trace, format('not started before %s', start_before), enqueued_by
      FROM gone g;
    GET DIAGNOSTICS n = ROW_COUNT;
    FOR a IN SELECT * FROM tenon.again g WHERE NOT g.taken ORDER BY g.id LIMIT most FOR UPDATE SKIP LOCKED LOOP
        n := n + tenon.settle_again(a)::integer;
    END LOOP;
    RETURN n;
END $$;

CREATE FUNCTION tenon.settle_again(a tenon.again) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    SET lock_timeout TO '10 ms'
    AS $$
DECLARE
    held  tenon.task;
    first tenon.again;
BEGIN
    IF tenon.join_holder(a, NULL) THEN
        DELETE FROM tenon.again g WHERE g.id = a.id;
        RETURN true;
    END IF;
    SELECT t.* INTO held FROM tenon.task t WHERE t.unique_key = a.unique_key AND t.kind = a.kind FOR UPDATE SKIP LOCKED;
    IF held.id IS NULL THEN
        IF EXISTS (SELECT FROM tenon.task t WHERE t.unique_key = a.unique_key AND t.kind = a.kind) THEN
            RETURN false;
        END IF;
        INSERT INTO tenon.task (run_at, created_at, start_before, timeout_ms, max_attempts, priority, delayed, announced,
                                queue, kind, payload, payload_bytes, unique_key, retry, trace, enqueued_by)
        VALUES (greatest(a.run_at, clock_timestamp()), a.created_at, a.start_before, a.timeout_ms, a.max_attempts, a.priority,
                a.run_at > clock_timestamp(), false,
                a.queue, a.kind, a.payload, a.payload_bytes, a.unique_key, a.retry, a.trace, a.enqueued_by)
        ON CONFLICT DO NOTHING;
        DELETE FROM tenon.again g WHERE g.id = a.id AND FOUND;
    ELSIF held.start_time IS NULL THEN
        RETURN false;
    ELSIF held.again IS NULL THEN
        UPDATE tenon.task t SET again = a.id WHERE t.id = held.id;
        UPDATE tenon.again g SET taken = true WHERE g.id = a.id;
    ELSE
        UPDATE tenon.again g
           SET payload = tenon.joined(a.on_conflict, g.payload, a.payload), run_at = tenon.joined_at(a, g.run_at, g.created_at),
               payload_bytes = octet_length(tenon.joined(a.on_conflict, g.payload, a.payload)::text)
         WHERE g.id = held.again;
        DELETE FROM tenon.again g WHERE g.id = a.id;
    END IF;
    RETURN true;
EXCEPTION WHEN lock_not_available THEN
    RETURN false;
END $$;

CREATE FUNCTION tenon.task_ended() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    UPDATE tenon.again SET taken = false WHERE id = OLD.again;
    PERFORM pg_notify('tenon', 'settle');
    RETURN NULL;
END $$;

ALTER TABLE tenon.again ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME tenon.again_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE tenon.attempt (
    ended_at timestamp with time zone NOT NULL,
    id bigint NOT NULL,
    attempt integer NOT NULL,
    claims integer NOT NULL,
    started_at timestamp with time zone NOT NULL,
    worker_id uuid NOT NULL,
    host text,
    outcome text NOT NULL,
    queue text NOT NULL,
    kind text NOT NULL,
    error_class text,
    error text,
    exit_code integer,
    signal integer,
    CONSTRAINT attempt_outcome_check CHECK ((outcome = ANY (ARRAY['failed'::text, 'timed_out'::text, 'crashed'::text, 'dead'::text])))
)
PARTITION BY RANGE (ended_at);

CREATE TABLE tenon.attempt_20261122 (
    ended_at timestamp with time zone NOT NULL,
    id bigint NOT NULL,
    attempt integer NOT NULL,
    claims integer NOT NULL,
    started_at timestamp with time zone NOT NULL,
    worker_id uuid NOT NULL,
    host text,
    outcome text NOT NULL,
    queue text NOT NULL,
    kind text NOT NULL,
    error_class text,
    error text,
    exit_code integer,
    signal integer,
    CONSTRAINT attempt_outcome_check CHECK ((outcome = ANY (ARRAY['failed'::text, 'timed_out'::text, 'crashed'::text, 'dead'::text])))
);

CREATE TABLE tenon.attempt_20261123 (
    ended_at timestamp with time zone NOT NULL,
    id bigint NOT NULL,
    attempt integer NOT NULL,
    claims integer NOT NULL,
    started_at timestamp with time zone NOT NULL,
    worker_id uuid NOT NULL,
    host text,
    outcome text NOT NULL,
    queue text NOT NULL,
    kind text NOT NULL,
    error_class text,
    error text,
    exit_code integer,
    signal integer,
    CONSTRAINT attempt_outcome_check CHECK ((outcome = ANY (ARRAY['failed'::text, 'timed_out'::text, 'crashed'::text, 'dead'::text])))
);

CREATE TABLE tenon.attempt_20261124 (
    ended_at timestamp with time zone NOT NULL,
    id bigint NOT NULL,
    attempt integer NOT NULL,
    claims integer NOT NULL,
    started_at timestamp with time zone NOT NULL,
    worker_id uuid NOT NULL,
    host text,
    outcome text NOT NULL,
    queue text NOT NULL,
    kind text NOT NULL,
    error_class text,
    error text,
    exit_code integer,
    signal integer,
    CONSTRAINT attempt_outcome_check CHECK ((outcome = ANY (ARRAY['failed'::text, 'timed_out'::text, 'crashed'::text, 'dead'::text])))
);

CREATE TABLE tenon.attempt_20261125 (
    ended_at timestamp with time zone NOT NULL,
    id bigint NOT NULL,
    attempt integer NOT NULL,
    claims integer NOT NULL,
    started_at timestamp with time zone NOT NULL,
    worker_id uuid NOT NULL,
    host text,
    outcome text NOT NULL,
    queue text NOT NULL,
    kind text NOT NULL,
    error_class text,
    error text,
    exit_code integer,
    signal integer,
    CONSTRAINT attempt_outcome_check CHECK ((outcome = ANY (ARRAY['failed'::text, 'timed_out'::text, 'crashed'::text, 'dead'::text])))
);

CREATE TABLE tenon.attempt_20261126 (
    ended_at timestamp with time zone NOT NULL,
    id bigint NOT NULL,
    attempt integer NOT NULL,
    claims integer NOT NULL,
    started_at timestamp with time zone NOT NULL,
    worker_id uuid NOT NULL,
    host text,
    outcome text NOT NULL,
    queue text NOT NULL,
    kind text NOT NULL,
    error_class text,
    error text,
    exit_code integer,
    signal integer,
    CONSTRAINT attempt_outcome_check CHECK ((outcome = ANY (ARRAY['failed'::text, 'timed_out'::text, 'crashed'::text, 'dead'::text])))
);

CREATE TABLE tenon.attempt_20261127 (
    ended_at timestamp with time zone NOT NULL,
    id bigint NOT NULL,
    attempt integer NOT NULL,
    claims integer NOT NULL,
    started_at timestamp with time zone NOT NULL,
    worker_id uuid NOT NULL,
    host text,
    outcome text NOT NULL,
    queue text NOT NULL,
    kind text NOT NULL,
    error_class text,
    error text,
    exit_code integer,
    signal integer,
    CONSTRAINT attempt_outcome_check CHECK ((outcome = ANY (ARRAY['failed'::text, 'timed_out'::text, 'crashed'::text, 'dead'::text])))
);

CREATE TABLE tenon.attempt_20261128 (
    ended_at timestamp with time zone NOT NULL,
    id bigint NOT NULL,
    attempt integer NOT NULL,
    claims integer NOT NULL,
    started_at timestamp with time zone NOT NULL,
    worker_id uuid NOT NULL,
    host text,
    outcome text NOT NULL,
    queue text NOT NULL,
    kind text NOT NULL,
    error_class text,
    error text,
    exit_code integer,
    signal integer,
    CONSTRAINT attempt_outcome_check CHECK ((outcome = ANY (ARRAY['failed'::text, 'timed_out'::text, 'crashed'::text, 'dead'::text])))
);

CREATE TABLE tenon.attempt_20261129 (
    ended_at timestamp with time zone NOT NULL,
    id bigint NOT NULL,
    attempt integer NOT NULL,
    claims integer NOT NULL,
    started_at timestamp with time zone NOT NULL,
    worker_id uuid NOT NULL,
    host text,
    outcome text NOT NULL,
    queue text NOT NULL,
    kind text NOT NULL,
    error_class text,
    error text,
    exit_code integer,
    signal integer,
    CONSTRAINT attempt_outcome_check CHECK ((outcome = ANY (ARRAY['failed'::text, 'timed_out'::text, 'crashed'::text, 'dead'::text])))
);

CREATE TABLE tenon.attempt_20261130 (
    ended_at timestamp with time zone NOT NULL,
    id bigint NOT NULL,
    attempt integer NOT NULL,
    claims integer NOT NULL,
    started_at timestamp with time zone NOT NULL,
    worker_id uuid NOT NULL,
    host text,
    outcome text NOT NULL,
    queue text NOT NULL,
    kind text NOT NULL,
    error_class text,
    error text,
    exit_code integer,
    signal integer,
    CONSTRAINT attempt_outcome_check CHECK ((outcome = ANY (ARRAY['failed'::text, 'timed_out'::text, 'crashed'::text, 'dead'::text])))
);

CREATE TABLE tenon.kind (
    name text NOT NULL,
    queue text,
    priority smallint,
    max_attempts integer,
    timeout_ms bigint,
    retry text,
    on_timeout text DEFAULT 'retry'::text NOT NULL,
    on_dead text,
    timeout_min_ms bigint DEFAULT 1 NOT NULL,
    CONSTRAINT kind_max_attempts_check CHECK (((max_attempts >= 1) AND (max_attempts <= 1000))),
    CONSTRAINT kind_name_check CHECK ((name ~ '^[A-Za-z0-9_.:-]{1,100}$'::text)),
    CONSTRAINT kind_on_dead_check CHECK ((on_dead ~ '^[A-Za-z0-9_.:-]{1,100}$'::text)),
    CONSTRAINT kind_on_timeout_check CHECK ((on_timeout = ANY (ARRAY['retry'::text, 'dead'::text]))),
    CONSTRAINT kind_priority_check CHECK (((priority >= 0) AND (priority <= 9))),
    CONSTRAINT kind_queue_check CHECK ((queue ~ '^[a-z0-9_][a-z0-9_.-]{0,62}$'::text)),
    CONSTRAINT kind_retry_check CHECK (tenon.is_retry(retry)),
    CONSTRAINT kind_timeout_min_ms_check CHECK (((timeout_min_ms >= 1) AND (timeout_min_ms <= '2592000000'::bigint))),
    CONSTRAINT kind_timeout_ms_check CHECK (((timeout_ms >= 1) AND (timeout_ms <= '2592000000'::bigint)))
);

CREATE TABLE tenon.worker (
    id uuid DEFAULT gen_random_uuid() NOT NULL,
    lock_key bigint DEFAULT tenon.random_key() NOT NULL,
    host text NOT NULL,
    pid integer NOT NULL,
    slots integer NOT NULL,
    queues text[] NOT NULL,
    kinds text[] NOT NULL,
    state text DEFAULT 'alive'::text NOT NULL,
    started_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    ended_at timestamp with time zone,
    backing_off text,
    CONSTRAINT worker_state_check CHECK ((state = ANY (ARRAY['alive'::text, 'draining'::text, 'left'::text, 'dead'::text])))
);

CREATE VIEW tenon.lock AS
 SELECT (((l.classid)::bigint << 32) | (l.objid)::bigint) AS key,
    l.pid,
    a.usesysid AS role,
    (l.mode = 'ExclusiveLock'::text) AS exclusive,
    (l.granted AND (l.mode = 'ExclusiveLock'::text) AND has_any_column_privilege(a.usesysid, ('tenon.worker'::regclass)::oid, 'UPDATE'::text)) AS counts
   FROM (pg_locks l
     JOIN pg_stat_activity a ON ((a.pid = l.pid)))
  WHERE ((l.locktype = 'advisory'::text) AND (l.objsubid = 1) AND (l.database = ( SELECT pg_database.oid
           FROM pg_database
          WHERE (pg_database.datname = current_database()))));

CREATE TABLE tenon.migration (
    version integer NOT NULL,
    name text NOT NULL,
    breaking boolean NOT NULL,
    applied_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

CREATE TABLE tenon.producer (
    role text NOT NULL,
    queues text[],
    kinds text[]
);

CREATE TABLE tenon.queue (
    name text NOT NULL,
    priority smallint,
    max_attempts integer,
    timeout_ms bigint,
    retry text,
    paused boolean DEFAULT false NOT NULL,
    CONSTRAINT queue_max_attempts_check CHECK (((max_attempts >= 1) AND (max_attempts <= 1000))),
    CONSTRAINT queue_name_check CHECK ((name ~ '^[a-z0-9_][a-z0-9_.-]{0,62}$'::text)),
    CONSTRAINT queue_priority_check CHECK (((priority >= 0) AND (priority <= 9))),
    CONSTRAINT queue_retry_check CHECK (tenon.is_retry(retry)),
    CONSTRAINT queue_timeout_ms_check CHECK (((timeout_ms >= 1) AND (timeout_ms <= '2592000000'::bigint)))
);

CREATE VIEW tenon.ready AS
 SELECT t.id,
    t.run_at,
    t.start_time,
    t.created_at,
    t.start_before,
    t.worker_id,
    t.timeout_ms,
    t.claims,
    t.failures,
    t.crashes,
    t.max_attempts,
    t.payload_bytes,
    t.priority,
    t.delayed,
    t.announced,
    t.queue,
    t.kind,
    t.payload,
    t.unique_key,
    t.retry,
    t.trace,
    t.progress,
    t.last_error,
    t.error_class,
    t.enqueued_by,
    t.compensates,
    t.again
   FROM tenon.task t
  WHERE ((t.start_time IS NULL) AND (t.run_at <= clock_timestamp()) AND COALESCE((t.start_before > clock_timestamp()), true) AND (NOT (EXISTS ( SELECT
           FROM tenon.queue q
          WHERE ((q.name = t.queue) AND q.paused)))));

CREATE TABLE tenon.setting (
    one boolean DEFAULT true NOT NULL,
    payload_bytes_max integer DEFAULT 1048576 NOT NULL,
    history_keep interval DEFAULT '24:00:00'::interval NOT NULL,
    history_rows_max bigint DEFAULT 10000000 NOT NULL,
    exchange text DEFAULT 'tenon'::text NOT NULL,
    cancel_own boolean DEFAULT false NOT NULL,
    attempt_keep interval DEFAULT '7 days'::interval NOT NULL,
    dead_keep interval DEFAULT '90 days'::interval NOT NULL,
    on_dead text,
    confined boolean DEFAULT false NOT NULL,
    leader_key bigint DEFAULT tenon.random_key() NOT NULL,
    sleeper_key bigint DEFAULT tenon.random_key() NOT NULL,
    CONSTRAINT setting_attempt_keep_check CHECK ((EXTRACT(epoch FROM attempt_keep) >= (3600)::numeric)),
    CONSTRAINT setting_dead_keep_check CHECK ((EXTRACT(epoch FROM dead_keep) >= (3600)::numeric)),
    CONSTRAINT setting_exchange_check CHECK ((exchange ~ '^[a-z0-9_][a-z0-9_-]{0,62}$'::text)),
    CONSTRAINT setting_history_keep_check CHECK (((EXTRACT(epoch FROM history_keep) = (0)::numeric) OR (EXTRACT(epoch FROM history_keep) >= (3600)::numeric))),
    CONSTRAINT setting_history_rows_max_check CHECK ((history_rows_max > 0)),
    CONSTRAINT setting_on_dead_check CHECK ((on_dead ~ '^[A-Za-z0-9_.:-]{1,100}$'::text)),
    CONSTRAINT setting_one_check CHECK (one),
    CONSTRAINT setting_payload_bytes_max_check CHECK ((payload_bytes_max > 0))
);

ALTER TABLE tenon.task ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME tenon.task_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE tenon.unique_hold (
    kind text NOT NULL,
    unique_key text NOT NULL,
    until timestamp with time zone NOT NULL,
    id bigint
);

ALTER TABLE ONLY tenon.attempt ATTACH PARTITION tenon.attempt_20261122 FOR VALUES FROM ('2026-11-22 00:00:00+00') TO ('2026-11-23 00:00:00+00');

ALTER TABLE ONLY tenon.attempt ATTACH PARTITION tenon.attempt_20261123 FOR VALUES FROM ('2026-11-23 00:00:00+00') TO ('2026-11-24 00:00:00+00');

ALTER TABLE ONLY tenon.attempt ATTACH PARTITION tenon.attempt_20261124 FOR VALUES FROM ('2026-11-24 00:00:00+00') TO ('2026-11-25 00:00:00+00');

ALTER TABLE ONLY tenon.attempt ATTACH PARTITION tenon.attempt_20261125 FOR VALUES FROM ('2026-11-25 00:00:00+00') TO ('2026-11-26 00:00:00+00');

ALTER TABLE ONLY tenon.attempt ATTACH PARTITION tenon.attempt_20261126 FOR VALUES FROM ('2026-11-26 00:00:00+00') TO ('2026-11-27 00:00:00+00');

ALTER TABLE ONLY tenon.attempt ATTACH PARTITION tenon.attempt_20261127 FOR VALUES FROM ('2026-11-27 00:00:00+00') TO ('2026-11-28 00:00:00+00');

ALTER TABLE ONLY tenon.attempt ATTACH PARTITION tenon.attempt_20261128 FOR VALUES FROM ('2026-11-28 00:00:00+00') TO ('2026-11-29 00:00:00+00');

ALTER TABLE ONLY tenon.attempt ATTACH PARTITION tenon.attempt_20261129 FOR VALUES FROM ('2026-11-29 00:00:00+00') TO ('2026-11-30 00:00:00+00');

ALTER TABLE ONLY tenon.attempt ATTACH PARTITION tenon.attempt_20261130 FOR VALUES FROM ('2026-11-30 00:00:00+00') TO ('2026-12-01 00:00:00+00');

ALTER TABLE ONLY tenon.again
    ADD CONSTRAINT again_pkey PRIMARY KEY (id);

ALTER TABLE ONLY tenon.dead
    ADD CONSTRAINT dead_pkey PRIMARY KEY (id);

ALTER TABLE ONLY tenon.kind
    ADD CONSTRAINT kind_pkey PRIMARY KEY (name);

ALTER TABLE ONLY tenon.migration
    ADD CONSTRAINT migration_pkey PRIMARY KEY (version);

ALTER TABLE ONLY tenon.producer
    ADD CONSTRAINT producer_pkey PRIMARY KEY (role);

ALTER TABLE ONLY tenon.queue
    ADD CONSTRAINT queue_pkey PRIMARY KEY (name);

ALTER TABLE ONLY tenon.setting
    ADD CONSTRAINT setting_pkey PRIMARY KEY (one);

ALTER TABLE ONLY tenon.task
    ADD CONSTRAINT task_pkey PRIMARY KEY (id);

ALTER TABLE ONLY tenon.unique_hold
    ADD CONSTRAINT unique_hold_pkey PRIMARY KEY (unique_key, kind);

ALTER TABLE ONLY tenon.worker
    ADD CONSTRAINT worker_pkey PRIMARY KEY (id);

CREATE INDEX attempt_id ON ONLY tenon.attempt USING btree (id);

CREATE INDEX attempt_20261122_id_idx ON tenon.attempt_20261122 USING btree (id);

CREATE INDEX attempt_20261123_id_idx ON tenon.attempt_20261123 USING btree (id);

CREATE INDEX attempt_20261124_id_idx ON tenon.attempt_20261124 USING btree (id);

CREATE INDEX attempt_20261125_id_idx ON tenon.attempt_20261125 USING btree (id);

CREATE INDEX attempt_20261126_id_idx ON tenon.attempt_20261126 USING btree (id);

CREATE INDEX attempt_20261127_id_idx ON tenon.attempt_20261127 USING btree (id);

CREATE INDEX attempt_20261128_id_idx ON tenon.attempt_20261128 USING btree (id);

CREATE INDEX attempt_20261129_id_idx ON tenon.attempt_20261129 USING btree (id);

CREATE INDEX attempt_20261130_id_idx ON tenon.attempt_20261130 USING btree (id);

CREATE INDEX dead_at ON tenon.dead USING btree (dead_at);

CREATE INDEX finished_id ON ONLY tenon.finished USING btree (id);

CREATE INDEX task_delayed ON tenon.task USING btree (run_at) WHERE delayed;

CREATE INDEX task_order ON tenon.task USING btree (queue, priority DESC, run_at, ((id + 0)));

CREATE INDEX task_start_before ON tenon.task USING btree (start_before) WHERE (start_before IS NOT NULL);

CREATE UNIQUE INDEX task_unique_key ON tenon.task USING btree (unique_key, kind) WHERE (unique_key IS NOT NULL);

CREATE INDEX unique_hold_until ON tenon.unique_hold USING btree (until);

CREATE INDEX worker_alive ON tenon.worker USING btree (started_at) WHERE (ended_at IS NULL);

ALTER INDEX tenon.attempt_id ATTACH PARTITION tenon.attempt_20261122_id_idx;

ALTER INDEX tenon.attempt_id ATTACH PARTITION tenon.attempt_20261123_id_idx;

ALTER INDEX tenon.attempt_id ATTACH PARTITION tenon.attempt_20261124_id_idx;

ALTER INDEX tenon.attempt_id ATTACH PARTITION tenon.attempt_20261125_id_idx;

ALTER INDEX tenon.attempt_id ATTACH PARTITION tenon.attempt_20261126_id_idx;

ALTER INDEX tenon.attempt_id ATTACH PARTITION tenon.attempt_20261127_id_idx;

ALTER INDEX tenon.attempt_id ATTACH PARTITION tenon.attempt_20261128_id_idx;

ALTER INDEX tenon.attempt_id ATTACH PARTITION tenon.attempt_20261129_id_idx;

ALTER INDEX tenon.attempt_id ATTACH PARTITION tenon.attempt_20261130_id_idx;

CREATE TRIGGER note_confined AFTER INSERT OR DELETE OR UPDATE OR TRUNCATE ON tenon.producer FOR EACH STATEMENT EXECUTE FUNCTION tenon.note_confined();

CREATE TRIGGER task_ended AFTER DELETE ON tenon.task FOR EACH ROW WHEN ((old.again IS NOT NULL)) EXECUTE FUNCTION tenon.task_ended();

REVOKE ALL ON FUNCTION tenon.cancel(id bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.check_allowed(kind text, queue text, payload jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.check_enqueue(kind text, queue text, priority integer, run_at timestamp with time zone, delay interval, start_before timestamp with time zone, max_attempts integer, timeout interval, retry text, trace text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.check_payload(payload jsonb, bytes_max integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.check_unique(unique_key text, on_conflict text, unique_for interval, debounce interval, debounce_max interval, run_at timestamp with time zone, delay interval) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.claim_must_hold(claim text, holds boolean, worker_id uuid) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.defaults(kind text, queue text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.drop_history() FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.ended_by(error text, OUT exit_code integer, OUT signal integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.enqueue(kind text, payload anycompatible, queue text, priority integer, run_at timestamp with time zone, delay interval, unique_key text, on_conflict text, unique_for interval, debounce interval, debounce_max interval, start_before timestamp with time zone, max_attempts integer, timeout interval, retry text, trace text, notify boolean, announced boolean) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.enqueue_again(a tenon.again, notify boolean) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.enqueue_many(kind text, payloads anycompatiblearray, queue text, priority integer, run_at timestamp with time zone, delay interval, unique_keys text[], on_conflict text, unique_for interval, debounce interval, debounce_max interval, start_before timestamp with time zone, max_attempts integer, timeout interval, retry text, trace text, notify boolean, announced boolean) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.enqueue_routed(kind text, payload anycompatible, queue text, priority integer, run_at timestamp with time zone, delay interval, unique_key text, on_conflict text, unique_for interval, debounce interval, debounce_max interval, start_before timestamp with time zone, max_attempts integer, timeout interval, retry text, trace text, notify boolean, announced boolean) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.error_class(reason text, error text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.extend(claim text, by interval) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.finish(claim text, result jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.grant_cleaner(role text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.grant_operator(role text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.grant_producer(role text, queues text[], kinds text[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.grant_reader(role text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.grant_worker(role text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.hold_key(kind text, unique_key text, until timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.holder(kind text, unique_key text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.is_kind(kind text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.retry_parts(policy text, OUT curve text, OUT first_s double precision, OUT cap_s double precision, OUT jitter double precision) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.is_retry(policy text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.join_holder(a tenon.again, patience interval) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.joined(on_conflict text, old jsonb, new jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.joined_at(a tenon.again, old timestamp with time zone, created_at timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.make_partitions(days_ahead integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.may_cancel(enqueued_by text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.may_enqueue(queue text, kind text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.mine() FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.need_partition(moment timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.note_confined() FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.printed_bytes(value jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.progress(claim text, value jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.progress_kept(line text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.publisher_sleeps(key bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.purge(most integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.queue_names(most bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.random_key() FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.read_claim(claim text, OUT id bigint, OUT claims integer, OUT start_time timestamp with time zone, OUT worker_id uuid) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.refuse(argument text, value text, allowed text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.requeue(ids bigint[], claims integer[], starts_us bigint[], worker uuid, reasons text[], errors text[], delays_ms bigint[], classes text[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.result_kept(result jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.retry_delay(failures integer, policy text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.route_of(kind text, queue text, OUT exchange text, OUT routing_key text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.settle(most integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.settle_again(a tenon.again) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.task_ended() FROM PUBLIC;

