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

CREATE FUNCTION tenon.check_enqueue(kind text, queue text, priority integer, run_at timestamp with time zone, delay interval, max_attempts integer, timeout interval, trace text) RETURNS boolean
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

CREATE FUNCTION tenon.check_refused(kind text, queue text, payload jsonb) RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
    d record;
BEGIN
    SELECT * INTO d FROM tenon.defaults(kind, queue);
    PERFORM tenon.check_payload(payload, d.payload_bytes_max);
    IF EXISTS (SELECT FROM tenon.producer) AND NOT tenon.may_enqueue(d.queue, kind) THEN
        RAISE EXCEPTION 'tenon: role % may not enqueue kind % to queue %', session_user, kind, d.queue
            USING ERRCODE = 'insufficient_privilege',
                  HINT = 'Another queue or kind, or ask the owner of the schema (tenon.producer).';
    END IF;
END $$;

CREATE FUNCTION tenon.defaults(kind text, queue text) RETURNS TABLE(queue text, priority smallint, max_attempts integer, timeout_ms bigint, payload_bytes_max integer)
    LANGUAGE sql STABLE
    AS $_$
    SELECT coalesce($2, k.queue, 'default'), coalesce(k.priority, q.priority, 4::smallint),
           coalesce(k.max_attempts, q.max_attempts, 25), coalesce(k.timeout_ms, q.timeout_ms, 3600000),
           s.payload_bytes_max
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
        SELECT c.oid, c.relname, to_date(right(c.relname, 8), 'YYYYMMDD') + 1 AS ends,
               CASE WHEN c.reltuples > 0 AND c.relpages > 0
                    THEN c.reltuples / c.relpages * (pg_relation_size(c.oid) / current_setting('block_size')::integer)
                    ELSE pg_relation_size(c.oid) / 200.0 END AS n
          FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
         WHERE i.inhparent = 'tenon.finished'::regclass AND c.relname ~ '^finished_[0-9]{8}$'
    ), old AS (
        SELECT d.*, sum(d.n) OVER (ORDER BY d.ends DESC) AS n_newer FROM day d
    )
    SELECT o.relname INTO part
      FROM old o CROSS JOIN tenon.setting s
     WHERE o.ends <= now() - interval '1 hour'
       AND (o.ends <= now() - s.history_keep OR o.n_newer > s.history_rows_max)
       AND (o.ends < current_date OR pg_relation_size(o.oid) > 0)
     ORDER BY o.ends LIMIT 1;
    IF part IS NOT NULL THEN
        EXECUTE format('DROP TABLE IF EXISTS tenon.%I', part);  -- two at once
    END IF;
    RETURN part;
END $_$;

CREATE FUNCTION tenon.enqueue(kind text, payload anycompatible DEFAULT '{}'::jsonb, queue text DEFAULT NULL::text, priority integer DEFAULT NULL::integer, run_at timestamp with time zone DEFAULT NULL::timestamp with time zone, delay interval DEFAULT NULL::interval, unique_key text DEFAULT NULL::text, max_attempts integer DEFAULT NULL::integer, timeout interval DEFAULT NULL::interval, trace text DEFAULT NULL::text, notify boolean DEFAULT true, announced boolean DEFAULT false) RETURNS bigint
    LANGUAGE sql
    AS $$
    SELECT (tenon.enqueue_routed(kind, payload, queue, priority, run_at, delay, unique_key, max_attempts, timeout,
                                 trace, notify, announced)).id
$$;

CREATE FUNCTION tenon.enqueue_many(kind text, payloads anycompatiblearray, queue text DEFAULT NULL::text, priority integer DEFAULT NULL::integer, run_at timestamp with time zone DEFAULT NULL::timestamp with time zone, delay interval DEFAULT NULL::interval, unique_keys text[] DEFAULT NULL::text[], max_attempts integer DEFAULT NULL::integer, timeout interval DEFAULT NULL::interval, trace text DEFAULT NULL::text, notify boolean DEFAULT true, announced boolean DEFAULT false) RETURNS bigint[]
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_variable
DECLARE
    checked boolean := tenon.check_enqueue(kind, queue, priority, run_at, delay, max_attempts, timeout, trace);
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
        SELECT coalesce(array_agg(tenon.enqueue(kind, p, queue, priority, run_at, delay, u, max_attempts, timeout,
                                                trace, notify, announced) ORDER BY o), '{}')
          INTO ids FROM unnest(documents, unique_keys) WITH ORDINALITY AS a (p, u, o);
        RETURN ids;
    END IF;
    SELECT * INTO d FROM tenon.defaults(kind, queue);
    WITH new AS (
        INSERT INTO tenon.task (run_at, created_at, timeout_ms, max_attempts, priority, delayed, announced,
                                queue, kind, payload, payload_bytes, trace, enqueued_by)
        SELECT CASE WHEN due > at THEN due ELSE clock_timestamp() END, clock_timestamp(),
               coalesce((extract(epoch FROM timeout) * 1000)::bigint, d.timeout_ms),
               coalesce(max_attempts, d.max_attempts), coalesce(priority, d.priority), coalesce(due > at, false),
               coalesce(announced, false) AND coalesce(due <= at, true), d.queue, kind, p, bytes, trace, session_user
          FROM (SELECT p, o, octet_length(p::text) AS bytes FROM unnest(documents) WITH ORDINALITY AS a (p, o) OFFSET 0) a
         WHERE bytes <= d.payload_bytes_max
           AND (NOT EXISTS (SELECT FROM tenon.producer) OR tenon.may_enqueue(d.queue, kind)) ORDER BY o
        RETURNING id)
    SELECT coalesce(array_agg(id ORDER BY id), '{}') INTO ids FROM new;
    IF cardinality(ids) < cardinality(payloads) THEN
        PERFORM tenon.check_refused(kind, queue, p) FROM unnest(documents) p;
        RAISE EXCEPTION 'tenon: what may be enqueued was changed meanwhile'
            USING ERRCODE = 'serialization_failure', HINT = 'Run the transaction again.';
    END IF;
    IF coalesce(notify, true) AND NOT coalesce(announced, false) AND ids <> '{}' THEN
        IF tenon.publisher_sleeps((SELECT s.sleeper_key FROM tenon.setting s)) THEN
            PERFORM pg_notify('tenon', '');
        END IF;
    END IF;
    RETURN ids;
END $$;

CREATE FUNCTION tenon.enqueue_routed(kind text, payload anycompatible DEFAULT '{}'::jsonb, queue text DEFAULT NULL::text, priority integer DEFAULT NULL::integer, run_at timestamp with time zone DEFAULT NULL::timestamp with time zone, delay interval DEFAULT NULL::interval, unique_key text DEFAULT NULL::text, max_attempts integer DEFAULT NULL::integer, timeout interval DEFAULT NULL::interval, trace text DEFAULT NULL::text, notify boolean DEFAULT true, announced boolean DEFAULT true) RETURNS tenon.enqueued
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
    sleeper bigint;
BEGIN
    -- most calls give a kind and a payload: then there is nothing else to check
    IF num_nonnulls(queue, priority, run_at, delay, unique_key, max_attempts, timeout, trace) > 0
       OR tenon.is_kind(kind) IS NOT TRUE THEN
        checked := tenon.check_enqueue(kind, queue, priority, run_at, delay, max_attempts, timeout, trace);
        IF length(unique_key) NOT BETWEEN 1 AND 200 THEN
            PERFORM tenon.refuse('unique_key', quote_literal(unique_key), '1 to 200 characters long');
        END IF;
    END IF;
    due := greatest(coalesce(run_at, at + delay), at);
    LOOP
        INSERT INTO tenon.task (run_at, created_at, timeout_ms, max_attempts, priority, delayed,
                                announced, queue, kind, payload, payload_bytes, unique_key, trace,
                                enqueued_by)
        SELECT due, at, coalesce((extract(epoch FROM timeout) * 1000)::bigint, d.timeout_ms),
               coalesce(max_attempts, d.max_attempts), coalesce(priority, d.priority), due > at,
               coalesce(announced, false) AND due <= at, d.queue, kind, document, bytes, unique_key, trace,
               session_user
          FROM tenon.defaults(kind, queue) d
         WHERE bytes <= d.payload_bytes_max
           AND (NOT EXISTS (SELECT FROM tenon.producer) OR tenon.may_enqueue(d.queue, kind))
        ON CONFLICT DO NOTHING  -- unique_key is the only thing that can conflict
        RETURNING task.id, (SELECT exchange FROM tenon.setting), task.queue || '/' || task.kind,
                  (SELECT sleeper_key FROM tenon.setting)
             INTO added.id, added.exchange, added.routing_key, sleeper;
        EXIT WHEN FOUND;
        PERFORM tenon.check_refused(kind, queue, document);
        added := tenon.holder(kind, unique_key);
        IF added.id IS NOT NULL THEN
            RETURN added;
        END IF;
        -- the holder may have finished between the two statements: once more, which is enough in practice
        tries := tries + 1;
        IF tries = 100 THEN
            RAISE EXCEPTION 'tenon: the task that holds unique_key % cannot be seen', quote_literal(unique_key)
                USING ERRCODE = 'serialization_failure', HINT = 'Run the transaction again.';
        END IF;
    END LOOP;
    IF coalesce(notify, true) AND NOT coalesce(announced, false) THEN
        IF tenon.publisher_sleeps(sleeper) THEN
            PERFORM pg_notify('tenon', '');
        END IF;
    END IF;
    RETURN added;
END $$;

CREATE FUNCTION tenon.finish(claim text, result jsonb DEFAULT NULL::jsonb) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
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
    EXECUTE format('GRANT SELECT, DELETE, UPDATE (run_at, start_time, worker_id, failures, crashes, delayed, last_error) ON tenon.task TO %I', role);
    EXECUTE format('GRANT INSERT, SELECT (id) ON tenon.dead TO %I', role);
    EXECUTE format('GRANT SELECT, DELETE, UPDATE (state, ended_at) ON tenon.worker TO %I', role);
    EXECUTE format('GRANT SELECT ON tenon.lock TO %I', role);
    EXECUTE format('GRANT UPDATE (leader_key, sleeper_key) ON tenon.setting TO %I', role);
    EXECUTE format('GRANT EXECUTE ON FUNCTION tenon.requeue, tenon.retry_delay, tenon.make_partitions, tenon.drop_history, tenon.random_key TO %I', role);
END $$;

CREATE FUNCTION tenon.grant_operator(role text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    PERFORM tenon.grant_reader(role);
    EXECUTE format('GRANT INSERT, UPDATE, DELETE ON tenon.queue, tenon.kind TO %I', role);
    EXECUTE format('GRANT UPDATE (payload_bytes_max, history_keep, history_rows_max, exchange, cancel_own) ON tenon.setting TO %I', role);
    EXECUTE format('GRANT DELETE ON tenon.dead TO %I', role);
    EXECUTE format('GRANT EXECUTE ON FUNCTION tenon.enqueue, tenon.enqueue_routed, tenon.enqueue_many, tenon.route_of, tenon.cancel TO %I', role);
END $$;

CREATE FUNCTION tenon.grant_producer(role text, queues text[] DEFAULT NULL::text[], kinds text[] DEFAULT NULL::text[]) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
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
    EXECUTE format('GRANT INSERT ON tenon.finished, tenon.dead TO %I', role);
    EXECUTE format('GRANT SELECT (id, claims, worker_id, outcome) ON tenon.finished TO %I', role);
    EXECUTE format('GRANT SELECT (id, claims, worker_id) ON tenon.dead TO %I', role);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE ON tenon.worker TO %I', role);
    EXECUTE format('GRANT EXECUTE ON FUNCTION tenon.requeue, tenon.retry_delay, tenon.make_partitions, tenon.random_key TO %I', role);
END $$;

CREATE FUNCTION tenon.holder(kind text, unique_key text) RETURNS tenon.enqueued
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
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

CREATE FUNCTION tenon.make_partitions(days_ahead integer DEFAULT 7) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET "TimeZone" TO 'UTC'
    AS $$
DECLARE
    today date := (clock_timestamp() AT TIME ZONE 'UTC')::date;
    made  integer := 0;
    day   date;
    part  text;
BEGIN
    FOR i IN -1..days_ahead LOOP
        day := today + i;
        part := 'finished_' || to_char(day, 'YYYYMMDD');
        CONTINUE WHEN to_regclass(format('tenon.%I', part)) IS NOT NULL;
        LOCK TABLE tenon.finished IN SHARE UPDATE EXCLUSIVE MODE;  -- two makers at once; ATTACH takes it anyway
        -- the table itself: to_regclass remembers that there was none, and no lock makes it look again
        CONTINUE WHEN EXISTS (SELECT FROM pg_class WHERE relname = part AND relnamespace = 'tenon'::regnamespace);
        EXECUTE format('CREATE TABLE tenon.%I (LIKE tenon.finished INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', part);
        EXECUTE format('ALTER TABLE tenon.finished ATTACH PARTITION tenon.%I FOR VALUES FROM (%L) TO (%L)',
                       part, day::timestamptz, (day + 1)::timestamptz);
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

CREATE FUNCTION tenon.need_partition(moment timestamp with time zone) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF to_regclass('tenon.finished_' || to_char(moment AT TIME ZONE 'UTC', 'YYYYMMDD')) IS NULL THEN
        PERFORM tenon.make_partitions();
    END IF;
END $$;

CREATE FUNCTION tenon.publisher_sleeps(key bigint) RETURNS boolean
    LANGUAGE sql
    AS $$ SELECT NOT pg_catalog.pg_try_advisory_xact_lock_shared(key) $$;

CREATE FUNCTION tenon.queue_names(most bigint) RETURNS SETOF text
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
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

CREATE FUNCTION tenon.refuse(argument text, value text, allowed text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    RAISE EXCEPTION 'tenon: % % is not allowed', argument, coalesce(left(value, 100), 'NULL')
        USING ERRCODE = 'invalid_parameter_value', HINT = format('%s is %s.', argument, allowed);
END $$;

CREATE FUNCTION tenon.requeue(ids bigint[], claims integer[], starts_us bigint[], worker uuid, reasons text[], errors text[], delays_ms bigint[]) RETURNS TABLE(id bigint, state text)
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
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

CREATE FUNCTION tenon.retry_delay(failures integer) RETURNS interval
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    RETURN make_interval(secs => ((power((failures)::double precision, (4)::double precision) + (15)::double precision) + ((random() * (10)::double precision) * (failures)::double precision)));

CREATE FUNCTION tenon.route_of(kind text, queue text DEFAULT NULL::text, OUT exchange text, OUT routing_key text) RETURNS record
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
    SELECT s.exchange, coalesce($2, (SELECT k.queue FROM tenon.kind k WHERE k.name = $1), 'default') || '/' || $1
      FROM tenon.setting s
$_$;

CREATE TABLE tenon.dead (
    dead_at timestamp with time zone NOT NULL,
    id bigint NOT NULL,
    run_at timestamp with time zone NOT NULL,
    start_time timestamp with time zone,
    created_at timestamp with time zone NOT NULL,
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
    trace text,
    last_error text,
    enqueued_by text,
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
    CONSTRAINT finished_outcome_check CHECK ((outcome = ANY (ARRAY['done'::text, 'cancelled'::text])))
)
PARTITION BY RANGE (finished_at);

CREATE TABLE tenon.kind (
    name text NOT NULL,
    queue text,
    priority smallint,
    max_attempts integer,
    timeout_ms bigint,
    on_timeout text DEFAULT 'retry'::text NOT NULL,
    timeout_min_ms bigint DEFAULT 1 NOT NULL,
    CONSTRAINT kind_max_attempts_check CHECK (((max_attempts >= 1) AND (max_attempts <= 1000))),
    CONSTRAINT kind_name_check CHECK ((name ~ '^[A-Za-z0-9_.:-]{1,100}$'::text)),
    CONSTRAINT kind_on_timeout_check CHECK ((on_timeout = ANY (ARRAY['retry'::text, 'dead'::text]))),
    CONSTRAINT kind_priority_check CHECK (((priority >= 0) AND (priority <= 9))),
    CONSTRAINT kind_queue_check CHECK ((queue ~ '^[a-z0-9_][a-z0-9_.-]{0,62}$'::text)),
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
    paused boolean DEFAULT false NOT NULL,
    CONSTRAINT queue_max_attempts_check CHECK (((max_attempts >= 1) AND (max_attempts <= 1000))),
    CONSTRAINT queue_name_check CHECK ((name ~ '^[a-z0-9_][a-z0-9_.-]{0,62}$'::text)),
    CONSTRAINT queue_priority_check CHECK (((priority >= 0) AND (priority <= 9))),
    CONSTRAINT queue_timeout_ms_check CHECK (((timeout_ms >= 1) AND (timeout_ms <= '2592000000'::bigint)))
);

CREATE TABLE tenon.task (
    id bigint NOT NULL,
    run_at timestamp with time zone NOT NULL,
    start_time timestamp with time zone,
    created_at timestamp with time zone NOT NULL,
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
    trace text,
    progress jsonb,
    last_error text,
    enqueued_by text,
    CONSTRAINT task_check CHECK ((((start_time IS NULL) = (worker_id IS NULL)) AND ((timeout_ms >= 1) AND (timeout_ms <= '2592000000'::bigint))))
)
WITH (fillfactor='45', autovacuum_vacuum_scale_factor='0.01', autovacuum_vacuum_cost_delay='0', autovacuum_vacuum_insert_scale_factor='0.2');

CREATE VIEW tenon.ready AS
 SELECT t.id,
    t.run_at,
    t.start_time,
    t.created_at,
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
    t.trace,
    t.progress,
    t.last_error,
    t.enqueued_by
   FROM tenon.task t
  WHERE ((t.start_time IS NULL) AND (t.run_at <= clock_timestamp()) AND (NOT (EXISTS ( SELECT
           FROM tenon.queue q
          WHERE ((q.name = t.queue) AND q.paused)))));

CREATE TABLE tenon.setting (
    one boolean DEFAULT true NOT NULL,
    payload_bytes_max integer DEFAULT 1048576 NOT NULL,
    history_keep interval DEFAULT '24:00:00'::interval NOT NULL,
    history_rows_max bigint DEFAULT 10000000 NOT NULL,
    exchange text DEFAULT 'tenon'::text NOT NULL,
    cancel_own boolean DEFAULT false NOT NULL,
    leader_key bigint DEFAULT tenon.random_key() NOT NULL,
    sleeper_key bigint DEFAULT tenon.random_key() NOT NULL,
    CONSTRAINT setting_exchange_check CHECK ((exchange ~ '^[a-z0-9_][a-z0-9_-]{0,62}$'::text)),
    CONSTRAINT setting_history_keep_check CHECK (((EXTRACT(epoch FROM history_keep) = (0)::numeric) OR (EXTRACT(epoch FROM history_keep) >= (3600)::numeric))),
    CONSTRAINT setting_history_rows_max_check CHECK ((history_rows_max > 0)),
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

CREATE VIEW tenon.tasks AS
 SELECT task.id,
    task.queue,
    task.kind,
        CASE
            WHEN (task.start_time IS NOT NULL) THEN 'running'::text
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
    NULL::jsonb AS result,
    task.unique_key,
    task.trace,
    task.last_error,
    task.enqueued_by
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
    finished.result,
    finished.unique_key,
    finished.trace,
    finished.last_error,
    finished.enqueued_by
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
    NULL::jsonb AS result,
    dead.unique_key,
    dead.trace,
    dead.last_error,
    dead.enqueued_by
   FROM tenon.dead;

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

ALTER TABLE ONLY tenon.worker
    ADD CONSTRAINT worker_pkey PRIMARY KEY (id);

CREATE INDEX dead_at ON tenon.dead USING btree (dead_at);

CREATE INDEX finished_id ON ONLY tenon.finished USING btree (id);

CREATE INDEX task_delayed ON tenon.task USING btree (run_at) WHERE delayed;

CREATE INDEX task_order ON tenon.task USING btree (queue, priority DESC, run_at, ((id + 0)));

CREATE UNIQUE INDEX task_unique_key ON tenon.task USING btree (unique_key, kind) WHERE (unique_key IS NOT NULL);

CREATE INDEX worker_alive ON tenon.worker USING btree (started_at) WHERE (ended_at IS NULL);

REVOKE ALL ON FUNCTION tenon.cancel(id bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.check_enqueue(kind text, queue text, priority integer, run_at timestamp with time zone, delay interval, max_attempts integer, timeout interval, trace text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.check_payload(payload jsonb, bytes_max integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.check_refused(kind text, queue text, payload jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.defaults(kind text, queue text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.drop_history() FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.enqueue(kind text, payload anycompatible, queue text, priority integer, run_at timestamp with time zone, delay interval, unique_key text, max_attempts integer, timeout interval, trace text, notify boolean, announced boolean) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.enqueue_many(kind text, payloads anycompatiblearray, queue text, priority integer, run_at timestamp with time zone, delay interval, unique_keys text[], max_attempts integer, timeout interval, trace text, notify boolean, announced boolean) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.enqueue_routed(kind text, payload anycompatible, queue text, priority integer, run_at timestamp with time zone, delay interval, unique_key text, max_attempts integer, timeout interval, trace text, notify boolean, announced boolean) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.finish(claim text, result jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.grant_cleaner(role text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.grant_operator(role text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.grant_producer(role text, queues text[], kinds text[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.grant_reader(role text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.grant_worker(role text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.holder(kind text, unique_key text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.is_kind(kind text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.make_partitions(days_ahead integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.may_cancel(enqueued_by text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.may_enqueue(queue text, kind text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.need_partition(moment timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.publisher_sleeps(key bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.queue_names(most bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.random_key() FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.refuse(argument text, value text, allowed text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.requeue(ids bigint[], claims integer[], starts_us bigint[], worker uuid, reasons text[], errors text[], delays_ms bigint[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.result_kept(result jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.retry_delay(failures integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.route_of(kind text, queue text, OUT exchange text, OUT routing_key text) FROM PUBLIC;

