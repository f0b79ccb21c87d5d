-- The schema after all of sql/migrations, for reading; printed by script/dump-schema, do not edit.
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;

CREATE SCHEMA tenon;

CREATE TYPE tenon.cron AS (
	minutes bigint,
	hours bigint,
	days bigint,
	months bigint,
	weekdays bigint,
	either boolean
);

CREATE TYPE tenon.enqueued AS (
	id bigint,
	exchange text,
	routing_key text
);

CREATE TYPE tenon.filter AS (
	states text[],
	queues text[],
	kinds text[],
	errors text[],
	before timestamp with time zone,
	unique_key text,
	payload jsonpath,
	ids bigint[],
	trace text,
	enqueued_by text,
	flow bigint,
	limit_key text
);

CREATE TYPE tenon.limit_head AS (
	key text,
	task_id bigint,
	alone boolean,
	priority smallint,
	wanted_at timestamp with time zone
);

CREATE TYPE tenon.limit_room AS (
	key text,
	room integer,
	strict boolean,
	share text,
	weight integer,
	due_at timestamp with time zone,
	why text
);

CREATE DOMAIN tenon.outcome AS text
	CONSTRAINT outcome_check CHECK ((VALUE = ANY (ARRAY['done'::text, 'cancelled'::text, 'expired'::text])));

CREATE DOMAIN tenon.run_ms AS bigint
	CONSTRAINT run_ms_check CHECK (((VALUE >= 1) AND (VALUE <= '2592000000'::bigint)));

CREATE FUNCTION tenon.act_states(act text) RETURNS text[]
    LANGUAGE sql IMMUTABLE
    AS $$
    SELECT CASE act WHEN 'retry' THEN '{dead,cancelled,expired}'::text[]
                    WHEN 'delete' THEN '{dead,done,cancelled,expired}'
                    WHEN 'cancel' THEN '{blocked,scheduled,ready,running,retrying}'
                    WHEN 'run_now' THEN '{scheduled,retrying}'
                    WHEN 'set' THEN '{blocked,scheduled,ready,retrying}' END
$$;

CREATE FUNCTION tenon.adopt() RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    here   tenon.home := tenon.home_here();
    before text := (SELECT tenon.home_text(h) FROM tenon.home h FOR UPDATE);
BEGIN
    IF before IS NOT DISTINCT FROM tenon.home_text(here) THEN
        RETURN false;
    END IF;
    DELETE FROM tenon.home;
    INSERT INTO tenon.home SELECT here.*;
    PERFORM tenon.note_audit('adopt', jsonb_build_object('before', before, 'now', tenon.home_text(here)), 1);
    RETURN true;
END $$;

CREATE TABLE tenon.task (
    id bigint NOT NULL,
    run_at timestamp with time zone NOT NULL,
    created_at timestamp with time zone NOT NULL,
    timeout_ms tenon.run_ms NOT NULL,
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
    claims integer DEFAULT 0 NOT NULL,
    start_time timestamp with time zone,
    start_before timestamp with time zone,
    worker_id uuid,
    unique_key text,
    retry text,
    trace text,
    progress jsonb,
    last_error text,
    error_class text,
    enqueued_by text,
    compensates bigint,
    again bigint,
    wanted_at timestamp with time zone,
    flow bigint,
    limit_keys text[],
    awaited boolean,
    steps jsonb
)
WITH (fillfactor='45', autovacuum_vacuum_scale_factor='0.01', autovacuum_vacuum_cost_delay='0', autovacuum_vacuum_insert_scale_factor='0.2');

CREATE FUNCTION tenon.ahead_of(t tenon.task, kinds text[], most integer, OUT n bigint, OUT higher bigint, OUT more boolean) RETURNS record
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET jit TO 'off'
    AS $_$
    SELECT count(*) FILTER (WHERE a.kind = ANY ($2)), count(*) FILTER (WHERE a.kind = ANY ($2) AND a.priority > ($1).priority), count(*) = $3
      FROM (SELECT p.priority, o.kind
              FROM generate_series(9, ($1).priority, -1) AS p (priority)
             CROSS JOIN LATERAL (
                   SELECT CASE WHEN p.priority > ($1).priority THEN statement_timestamp() ELSE ($1).run_at END AS run_at OFFSET 0) e
             CROSS JOIN LATERAL (
                   (SELECT o.kind FROM tenon.task o
                     WHERE o.queue = ($1).queue AND o.priority = p.priority AND o.start_time IS NULL AND o.run_at < e.run_at
                     ORDER BY o.run_at LIMIT $3)
                   UNION ALL
                   (SELECT o.kind FROM tenon.task o
                     WHERE o.queue = ($1).queue AND o.priority = p.priority AND o.start_time IS NULL AND o.run_at = e.run_at
                       AND o.id + 0 < ($1).id
                     ORDER BY o.id + 0 LIMIT $3)) o
             LIMIT $3) a
$_$;

CREATE FUNCTION tenon.is_span(span interval, least_s numeric, most_s numeric) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    RETURN ((EXTRACT(epoch FROM span) >= least_s) AND (EXTRACT(epoch FROM span) <= most_s) AND (date_trunc('month'::text, span) >= '00:00:00'::interval) AND (EXTRACT(day FROM span) >= (0)::numeric) AND ((span - date_trunc('day'::text, span)) >= '00:00:00'::interval));

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
    limit_keys text[],
    on_conflict text NOT NULL,
    debounce interval,
    debounce_max interval,
    taken boolean NOT NULL,
    failed text,
    CONSTRAINT again_check CHECK ((isfinite(run_at) AND isfinite(created_at) AND ((timeout_ms >= 1) AND (timeout_ms <= '2592000000'::bigint)))),
    CONSTRAINT again_debounce_check CHECK (tenon.is_span(debounce, 0.001, (2592000)::numeric)),
    CONSTRAINT again_debounce_max_check CHECK (tenon.is_span(debounce_max, 0.001, (31536000)::numeric))
);

CREATE FUNCTION tenon.as_again(t tenon.task) RETURNS tenon.again
    LANGUAGE sql STABLE
    AS $_$
    SELECT ROW(0, coalesce(($1).wanted_at, ($1).run_at), ($1).created_at, ($1).start_before, ($1).timeout_ms, ($1).max_attempts,
               ($1).payload_bytes, ($1).priority, ($1).delayed, ($1).queue, ($1).kind, ($1).payload, ($1).unique_key, ($1).retry,
               ($1).trace, ($1).enqueued_by, ($1).limit_keys, 'keep', NULL, NULL, false, NULL)::tenon.again
$_$;

CREATE FUNCTION tenon.await(id bigint, OUT state text, OUT result jsonb, OUT error text) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    SET lock_timeout TO '50 ms'
    AS $$
#variable_conflict use_variable
BEGIN
    BEGIN
        UPDATE tenon.task t SET awaited = true WHERE t.id = id AND t.awaited IS NOT TRUE AND tenon.may_see(t.enqueued_by);
    EXCEPTION WHEN lock_not_available THEN
        NULL;
    END;
    SELECT r.* INTO state, result, error FROM tenon.result(id) r;
END $$;

CREATE FUNCTION tenon.backlog_seen(queue text, OUT ready bigint, OUT running bigint, OUT oldest_s double precision, OUT running_s double precision) RETURNS record
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $_$
    WITH paused AS MATERIALIZED (
        SELECT coalesce(bool_or(p.what = 'everything' OR (p.what = 'queue' AND p.name = $1)), false) AS whole,
               coalesce(array_agg(p.name) FILTER (WHERE p.what = 'kind'), '{}') AS kinds
          FROM tenon.paused p
    )
    SELECT count(*) FILTER (WHERE d.start_time IS NULL AND NOT d.held), count(d.start_time),
           extract(epoch FROM clock_timestamp() - min(d.run_at) FILTER (WHERE d.start_time IS NULL AND NOT d.held)),
           avg(extract(epoch FROM clock_timestamp() - d.start_time))
      FROM (SELECT t.start_time, t.run_at, p.whole OR t.kind = ANY (p.kinds) AS held
              FROM paused p, generate_series(9, 0, -1) AS level (priority)
             CROSS JOIN LATERAL (SELECT o.start_time, o.run_at, o.kind FROM tenon.task o
                                  WHERE o.queue = $1 AND o.priority = level.priority AND o.run_at <= clock_timestamp()
                                  ORDER BY o.run_at LIMIT 10000) t
             LIMIT 10000) d
$_$;

CREATE FUNCTION tenon.batch(on_done text DEFAULT NULL::text, on_dead text DEFAULT NULL::text, on_end text DEFAULT NULL::text, payload jsonb DEFAULT '{}'::jsonb, name text DEFAULT NULL::text) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    IF num_nonnulls(on_done, on_dead, on_end) = 0 THEN
        PERFORM tenon.refuse('on_end', NULL, 'a kind, or on_done or on_dead is; without a callback tenon.flow(name) is enough');
    END IF;
    PERFORM tenon.check_callbacks(on_done, on_dead, on_end, payload);
    RETURN tenon.make_flow(name, true, on_done, on_dead, on_end, payload);
END $$;

CREATE FUNCTION tenon.behind_text(n bigint, more boolean) RETURNS text
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT format('behind %s%s %s', CASE WHEN more THEN 'at least ' END, n, CASE n WHEN 1 THEN 'task' ELSE 'tasks' END)
$$;

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
    WITH gone AS (
        DELETE FROM tenon.task t WHERE t.id = id AND tenon.may_cancel(t.enqueued_by)
        RETURNING t.*, CASE WHEN tenon.needs_note(t) THEN tenon.note_ended(t, true) END)
    INSERT INTO tenon.finished (finished_at, id, run_at, start_time, created_at, worker_id, claims, failures,
                                crashes, priority, outcome, queue, kind, payload, unique_key, trace, last_error, enqueued_by, limit_keys, steps,
                                timeout_ms, max_attempts, retry, progress)
    SELECT moment, g.id, coalesce(wanted_at, run_at), start_time, created_at, worker_id, claims, failures, crashes,
           priority, 'cancelled', queue, kind, payload, unique_key, trace, 'cancelled by ' || session_user, enqueued_by, limit_keys, steps,
           timeout_ms, max_attempts, retry, progress
      FROM gone g;
    GET DIAGNOSTICS n = ROW_COUNT;
    IF n = 0 AND EXISTS (SELECT FROM tenon.task t WHERE t.id = id AND NOT tenon.may_cancel(t.enqueued_by)) THEN
        RAISE EXCEPTION 'tenon: role % may not cancel task %', session_user, id
            USING ERRCODE = 'insufficient_privilege',
                  HINT = 'Another role enqueued it, and cancel_own in tenon.setting is true: ask an operator.';
    END IF;
    RETURN n > 0;
END $$;

CREATE FUNCTION tenon.cancel_all(filter jsonb, most integer DEFAULT 10000, why text DEFAULT NULL::text) RETURNS bigint
    LANGUAGE sql
    AS $$ SELECT c.n FROM tenon.change('cancel', filter, most => most, why => why) c $$;

CREATE FUNCTION tenon.cancel_flow(flow bigint) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_variable
DECLARE
    f tenon.flow := tenon.hold_flow(flow);
    first boolean;
    n integer;
BEGIN
    IF f.ended_at IS NOT NULL THEN  -- it may have got another task since, or one of its dead may have been retried
        PERFORM FROM tenon.flow w WHERE w.id = flow FOR UPDATE SKIP LOCKED;
        IF FOUND AND NOT tenon.has_tasks(flow) THEN  -- and nobody is about to add one
            RETURN 0;
        END IF;
    END IF;
    UPDATE tenon.flow w SET cancelled_by = session_user, cancelled_at = clock_timestamp()
     WHERE w.id = flow AND w.cancelled_at IS NULL;
    first := FOUND;
    INSERT INTO tenon.flow_note (flow) VALUES (flow);
    PERFORM pg_notify('tenon', 'settle');
    n := (tenon.cancel_members(flow, session_user, 10000)).n;
    IF first OR n > 0 THEN
        PERFORM tenon.note_audit('cancel_flow', jsonb_build_object('flow', flow), n);
    END IF;
    RETURN n;
END $$;

CREATE FUNCTION tenon.cancel_ids(ids bigint[]) RETURNS bigint[]
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT array_agg(i) FILTER (WHERE tenon.cancel(i)) FROM unnest(ids) i
$$;

CREATE FUNCTION tenon.cancel_members(flow bigint, by text, most integer, OUT n integer, OUT more boolean) RETURNS record
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
#variable_conflict use_variable
DECLARE
    here bigint[] := ARRAY(SELECT t.id FROM tenon.flow_task m
                            CROSS JOIN LATERAL (SELECT k.id FROM tenon.task k WHERE k.id = m.id LIMIT 1) t
                            WHERE m.flow = flow AND m.state IS NULL LIMIT most);
    ours bigint[] := ARRAY(SELECT t.id FROM tenon.task t WHERE t.id = ANY (here) ORDER BY t.id FOR UPDATE SKIP LOCKED);
BEGIN
    n := cardinality(ours);
    more := cardinality(here) = most OR n < cardinality(here);
    PERFORM tenon.end_cancelled(ours, 'cancelled by ' || by || ', with its flow');
END $$;

CREATE FUNCTION tenon.candidates(f tenon.filter, places text[], newest boolean, after bigint, most integer) RETURNS bigint[]
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_custom_plan'
    AS $$
BEGIN
    IF f.ids IS NOT NULL THEN
        RETURN CASE WHEN f.flow IS NULL THEN f.ids
                    ELSE ARRAY(SELECT m.id FROM tenon.flow_task m WHERE m.id = ANY (f.ids) AND m.flow = f.flow) END;
    ELSIF f.flow IS NOT NULL THEN
        RETURN ARRAY(SELECT m.id FROM (SELECT x.id FROM tenon.flow_task x
                                        WHERE x.flow = f.flow AND CASE WHEN newest THEN x.id < after ELSE x.id > after END OFFSET 0) m
                      ORDER BY CASE WHEN newest THEN -m.id ELSE m.id END LIMIT most);
    ELSIF f.limit_key IS NULL OR places <> '{task}' THEN
        RETURN NULL;
    ELSIF newest THEN
        RETURN ARRAY(SELECT c.id FROM (
            (SELECT l.task_id AS id FROM tenon.limit_task l WHERE l.key = f.limit_key AND l.task_id < after ORDER BY 1 DESC LIMIT most)
            UNION (SELECT DISTINCT w.task FROM tenon.flow_wait w WHERE w.task < after ORDER BY 1 DESC LIMIT most)
            UNION (SELECT w.task_id FROM tenon.waiting w WHERE w.task_id < after ORDER BY 1 DESC LIMIT most)) c
            ORDER BY c.id DESC LIMIT most);
    END IF;
    RETURN ARRAY(SELECT c.id FROM (
        (SELECT l.task_id AS id FROM tenon.limit_task l WHERE l.key = f.limit_key AND l.task_id > after ORDER BY 1 LIMIT most)
        UNION (SELECT DISTINCT w.task FROM tenon.flow_wait w WHERE w.task > after ORDER BY 1 LIMIT most)
        UNION (SELECT w.task_id FROM tenon.waiting w WHERE w.task_id > after ORDER BY 1 LIMIT most)) c
        ORDER BY c.id LIMIT most);
END $$;

CREATE FUNCTION tenon.change(act text, filter jsonb, changes jsonb DEFAULT NULL::jsonb, most integer DEFAULT 1000, after bigint DEFAULT NULL::bigint, why text DEFAULT NULL::text, audit bigint DEFAULT NULL::bigint, limit_ms integer DEFAULT NULL::integer, OUT n bigint, OUT skipped bigint, OUT next bigint, OUT audit_id bigint) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_custom_plan'
    AS $$
DECLARE
    f        tenon.filter;
    wanted   bigint[];
    done     bigint[];
    priority smallint;
    run_at   timestamptz;
BEGIN
    PERFORM tenon.check_most(most);
    PERFORM tenon.check_act(act, changes);
    f := tenon.read_filter(filter, act);
    priority := tenon.changed_integer(changes, 'priority', 0, 9);
    run_at := CASE act WHEN 'run_now' THEN clock_timestamp() ELSE tenon.changed_run_at(changes) END;
    SELECT s.ids, s.next INTO wanted, next FROM tenon.search(f, false, after, most, limit_ms) s;
    f.ids := tenon.lock_found(act, wanted);
    SELECT s.ids INTO f.ids FROM tenon.search(f, false, NULL, most, NULL) s;  -- as they are now that they are locked
    IF act = 'retry' AND filter ? 'ids' THEN
        PERFORM tenon.check_retry(f.ids);
    END IF;
    done := CASE act WHEN 'retry' THEN tenon.retry_ids(f.ids)
                     WHEN 'cancel' THEN tenon.cancel_ids(f.ids)
                     WHEN 'delete' THEN tenon.delete_ids(f.ids)
                     ELSE tenon.set_ids(f.ids, priority, run_at) END;
    PERFORM tenon.wake(done);
    n := coalesce(cardinality(done), 0);
    skipped := cardinality(wanted) - n;
    audit_id := tenon.note_change(audit, act, jsonb_build_object('filter', filter, 'changes', changes, 'why', why), n, skipped);
END $$;

CREATE FUNCTION tenon.changed_integer(changes jsonb, key text, lowest integer, highest integer) RETURNS integer
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
BEGIN
    IF (changes ->> key) !~ '^-?[0-9]{1,9}$' OR (changes ->> key)::integer NOT BETWEEN lowest AND highest THEN
        PERFORM tenon.refuse(key, changes ->> key, format('%s to %s', lowest, highest));
    END IF;
    RETURN (changes ->> key)::integer;
END $_$;

CREATE FUNCTION tenon.changed_ms(changes jsonb, key text) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    ms numeric;
BEGIN
    BEGIN
        ms := extract(epoch FROM (changes ->> key)::interval) * 1000;
    EXCEPTION WHEN data_exception THEN
        ms := 0;
    END;
    IF ms NOT BETWEEN 1 AND 2592000000 THEN
        PERFORM tenon.refuse(key, changes ->> key, '1 millisecond to 30 days');
    END IF;
    RETURN ms::bigint;
END $$;

CREATE FUNCTION tenon.changed_run_at(changes jsonb) RETURNS timestamp with time zone
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    run_at timestamptz;
BEGIN
    BEGIN
        run_at := changes ->> 'run_at';
    EXCEPTION WHEN data_exception THEN
        run_at := 'infinity';
    END;
    IF NOT isfinite(run_at) OR run_at > clock_timestamp() + interval '10 years' THEN
        PERFORM tenon.refuse('run_at', changes ->> 'run_at', 'a moment at most 10 years ahead');
    END IF;
    RETURN greatest(run_at, CASE WHEN run_at IS NOT NULL THEN clock_timestamp() END);
END $$;

CREATE FUNCTION tenon.check_act(act text, changes jsonb) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    IF tenon.act_states(act) IS NULL THEN
        PERFORM tenon.refuse('act', quote_literal(act), 'retry, cancel, delete, run_now or set');
    ELSIF act = 'set' THEN
        PERFORM tenon.check_changes(changes, '{priority,run_at}');
    ELSIF changes IS NOT NULL THEN
        PERFORM tenon.refuse('changes', changes::text, 'for set');
    END IF;
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

CREATE FUNCTION tenon.check_callbacks(on_done text, on_dead text, on_end text, payload jsonb) RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
    k text;
BEGIN
    FOREACH k IN ARRAY ARRAY[on_done, on_dead, on_end] LOOP
        IF NOT tenon.is_kind(k) THEN
            PERFORM tenon.refuse('callback', quote_literal(k), 'a kind: 1 to 100 of A-Z a-z 0-9 _ . : -');
        ELSIF k IS NOT NULL THEN
            PERFORM tenon.check_allowed(k, NULL, payload);
        END IF;
    END LOOP;
END $$;

CREATE FUNCTION tenon.check_changes(changes jsonb, keys text[]) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    IF coalesce(jsonb_typeof(changes), '') <> 'object' OR changes = '{}'
       OR NOT ARRAY(SELECT jsonb_object_keys(changes)) <@ keys THEN
        PERFORM tenon.refuse('changes', changes::text, 'an object with at least one of ' || array_to_string(keys, ', '));
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
    IF delay IS NOT NULL AND (delay NOT BETWEEN interval '0' AND interval '10 years' OR extract(epoch FROM delay) < 0
                              OR now() + delay NOT BETWEEN now() AND now() + interval '10 years') THEN
        PERFORM tenon.refuse('delay', delay::text, '0 to 10 years');
    END IF;
    IF start_before IS NOT NULL AND (NOT isfinite(start_before)
                                     OR start_before <= greatest(coalesce(run_at, clock_timestamp() + delay), clock_timestamp())) THEN
        PERFORM tenon.refuse('start_before', start_before::text, 'a moment that is still to come, and after run_at');
    END IF;
    IF NOT tenon.is_retry(retry) THEN
        PERFORM tenon.refuse('retry', quote_literal(retry), 'sidekiq, sidekiq(1 day, 10 %), or exponential(10 s, 1 h, 10 %), linear(...), constant(...), with delays of 1 ms to 30 days');
    END IF;
    IF trace IS NOT NULL AND trace !~ '^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$' THEN
        PERFORM tenon.refuse('trace', quote_literal(trace), 'a W3C traceparent, such as 00-<32 hex>-<16 hex>-01');
    END IF;
    RETURN true;
END $_$;

CREATE FUNCTION tenon.check_limit(running integer, rate integer, per interval, weight integer, until timestamp with time zone, on_dead text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    IF running NOT BETWEEN 1 AND 1000000 THEN
        PERFORM tenon.refuse('running', running::text, '1 to 1000000; to stop all of it pause it');
    ELSIF rate NOT BETWEEN 1 AND 10000 THEN
        PERFORM tenon.refuse('rate', rate::text, '1 to 10000; of more, give what may start in a shorter time');
    ELSIF (rate IS NULL) <> (per IS NULL) OR NOT tenon.is_span(per, 0.1, 2678400) THEN
        PERFORM tenon.refuse('per', per::text, 'the time of rate, given together with it: 100 ms to 31 days');
    ELSIF weight NOT BETWEEN 1 AND 1000 THEN
        PERFORM tenon.refuse('weight', weight::text, '1 to 1000');
    ELSIF NOT isfinite(until) OR until <= clock_timestamp() THEN
        PERFORM tenon.refuse('until', until::text, 'a moment that is still to come');
    ELSIF on_dead NOT IN ('block', 'skip') THEN
        PERFORM tenon.refuse('on_dead', quote_literal(on_dead), 'block or skip');
    END IF;
END $$;

CREATE FUNCTION tenon.check_limit_keys(limit_keys text[]) RETURNS text[]
    LANGUAGE plpgsql
    AS $$
DECLARE
    k text;
BEGIN
    IF cardinality(limit_keys) > 4 OR array_ndims(limit_keys) > 1 THEN
        PERFORM tenon.refuse('limit_keys', limit_keys::text, 'an array of 1 to 4 keys');
    END IF;
    IF cardinality(limit_keys) > 0 AND (SELECT s.confined FROM tenon.setting s) AND NOT tenon.may_enqueue('', '') THEN
        RAISE EXCEPTION 'tenon: role % may not use limit_keys', session_user
            USING ERRCODE = 'insufficient_privilege', HINT = 'It is confined to some queues or kinds (tenon.producer), and keys are shared by all.';
    END IF;
    FOREACH k IN ARRAY coalesce(limit_keys, '{}') LOOP
        IF tenon.is_limit_key(k) IS NOT TRUE OR k ~ '^(kind|queue)/' THEN
            PERFORM tenon.refuse('limit_keys', quote_nullable(k),
                                 '1 to 4 keys of 1 to 200 characters without spaces, that do not begin with kind/ or queue/');
        END IF;
    END LOOP;
    RETURN (SELECT array_agg(d.key ORDER BY d.place)
              FROM (SELECT u.key, min(u.place) AS place FROM unnest(limit_keys) WITH ORDINALITY u (key, place) GROUP BY u.key) d);
END $$;

CREATE FUNCTION tenon.check_limit_name(name text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    IF tenon.is_limit_key(name) IS NOT TRUE THEN
        PERFORM tenon.refuse('name', quote_nullable(name), 'a key, its part before the colon, kind/NAME or queue/NAME: 1 to 200 characters without spaces');
    ELSIF name LIKE 'kind/%' THEN
        PERFORM tenon.check_target(NULL, substr(name, 6), false);
    ELSIF name LIKE 'queue/%' THEN
        PERFORM tenon.check_target(substr(name, 7), NULL, false);
    END IF;
END $$;

CREATE FUNCTION tenon.check_most(most integer) RETURNS void
    LANGUAGE plpgsql IMMUTABLE
    AS $$
BEGIN
    IF coalesce(most, 0) NOT BETWEEN 1 AND 100000 THEN
        PERFORM tenon.refuse('most', most::text, '1 to 100000');
    END IF;
END $$;

CREATE FUNCTION tenon.check_object(path text, value jsonb, keys text[]) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF coalesce(jsonb_typeof(value), '') <> 'object' OR value - keys <> '{}' THEN
        PERFORM tenon.refuse(path, value::text, 'an object with keys of ' || array_to_string(keys, ', '));
    END IF;
END $$;

CREATE FUNCTION tenon.check_parents(flow bigint, after bigint[], on_parent_dead text, unique_key text) RETURNS bigint[]
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
#variable_conflict use_variable
DECLARE
    f       tenon.flow;
    p       record;
BEGIN
    IF num_nonnulls(flow, after, on_parent_dead) = 0 THEN
        RETURN NULL;
    ELSIF flow IS NULL THEN
        PERFORM tenon.refuse('flow', NULL, 'given together with after and on_parent_dead: tenon.flow(name) makes one');
    ELSIF unique_key IS NOT NULL THEN
        PERFORM tenon.refuse('unique_key', quote_literal(unique_key), 'given without flow');
    ELSIF on_parent_dead NOT IN ('wait', 'run', 'cancel') THEN
        PERFORM tenon.refuse('on_parent_dead', quote_literal(on_parent_dead), 'wait, run or cancel');
    ELSIF cardinality(after) > 100000 THEN
        PERFORM tenon.refuse('after', format('of %s elements', cardinality(after)), 'an array of at most 100000 tasks of flows');
    END IF;
    f := tenon.hold_flow(flow);
    IF f.cancelled_at IS NOT NULL OR f.ended_at IS NOT NULL AND num_nonnulls(f.on_done, f.on_dead, f.on_end) > 0 THEN
        RAISE EXCEPTION 'tenon: flow % takes no more tasks: it %', flow,
            CASE WHEN f.cancelled_at IS NOT NULL THEN 'was cancelled by ' || f.cancelled_by ELSE 'has ended, and its callbacks were enqueued' END
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Make another one.';
    ELSIF after IS NULL THEN
        RETURN NULL;
    END IF;
    SELECT min(coalesce(a.id::text, 'NULL')) FILTER (WHERE m.id IS NULL) AS unknown,
           array_agg(m.id) FILTER (WHERE m.state IS NULL OR m.state <> 'done' AND on_parent_dead IS DISTINCT FROM 'run') AS waits,
           array_agg(DISTINCT m.flow) FILTER (WHERE m.flow <> flow) AS others
      INTO p
      FROM (SELECT DISTINCT u AS id FROM unnest(after) u) a
      LEFT JOIN LATERAL (SELECT * FROM tenon.flow_task t WHERE t.id = a.id LIMIT 1) m ON true;
    IF p.unknown IS NOT NULL THEN
        PERFORM tenon.refuse('parent', p.unknown, 'a task of a flow, enqueued in this transaction or a committed one');
    END IF;
    PERFORM tenon.hold_flow(o) FROM unnest(p.others) o;
    RETURN p.waits;
END $$;

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

CREATE FUNCTION tenon.check_retry(ids bigint[]) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    task bigint := (SELECT min(i) FROM unnest(ids) i WHERE i <> ALL (tenon.may_retry(ids)));
    f    tenon.flow;
BEGIN
    IF task IS NOT NULL THEN
        SELECT w.* INTO f FROM tenon.flow_task m JOIN tenon.flow w ON w.id = m.flow WHERE m.id = task;
        RAISE EXCEPTION 'tenon: task % cannot be retried: its flow % was cancelled by %', task, f.id, f.cancelled_by
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Enqueue it anew, in another flow or without one.';
    END IF;
END $$;

CREATE FUNCTION tenon.check_schedule(name text, cron text, every interval, kind text, document jsonb, queue text, priority integer, max_attempts integer, timeout interval, catch_up text, overlap text) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF tenon.is_kind(name) IS NOT TRUE THEN
        PERFORM tenon.refuse('name', quote_nullable(name), '1 to 100 of A-Z a-z 0-9 _ . : -');
    ELSIF num_nonnulls(cron, every) <> 1 THEN
        PERFORM tenon.refuse('cron', quote_nullable(cron), 'given, or every is, and not both');
    ELSIF every IS NOT NULL AND (date_trunc('month', every) <> '0'
                                 OR extract(epoch FROM every) NOT BETWEEN 1 AND 31622400) THEN
        PERFORM tenon.refuse('every', every::text, 'a time from 1 second to 366 days, without months, which cron has');
    ELSIF catch_up NOT IN ('none', 'last', 'all') OR catch_up IS NULL THEN
        PERFORM tenon.refuse('catch_up', quote_nullable(catch_up), 'none, last or all');
    ELSIF overlap NOT IN ('allow', 'skip') OR overlap IS NULL THEN
        PERFORM tenon.refuse('overlap', quote_nullable(overlap), 'allow or skip');
    END IF;
    PERFORM tenon.check_enqueue(kind => kind, queue => queue, priority => priority, run_at => NULL, delay => NULL,
                                start_before => NULL, max_attempts => max_attempts, timeout => timeout, retry => NULL,
                                trace => NULL);
    PERFORM tenon.check_allowed(kind, queue, tenon.tick_payload(document, clock_timestamp()));
END $$;

CREATE FUNCTION tenon.check_target(queue text, kind text, everything boolean) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    IF num_nonnulls(queue, kind) + coalesce(everything, false)::integer <> 1 THEN
        PERFORM tenon.refuse('the target', concat_ws(' and ', queue, kind, CASE WHEN everything THEN 'everything' END),
                             'one queue, one kind, or everything => true');
    END IF;
    PERFORM tenon.check_enqueue(coalesce(kind, 'a'), queue, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
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
    IF debounce_max IS NOT NULL AND (debounce IS NULL OR extract(epoch FROM debounce_max) NOT BETWEEN extract(epoch FROM debounce) AND 31536000) THEN
        PERFORM tenon.refuse('debounce_max', debounce_max::text, 'given with debounce, no shorter, and at most 365 days');
    END IF;
    RETURN true;
END $$;

CREATE FUNCTION tenon.check_zone(zone text) RETURNS text
    LANGUAGE plpgsql STABLE
    AS $$
DECLARE
    known text;
BEGIN
    IF upper(zone) = 'UTC' THEN
        RETURN 'UTC';
    END IF;
    SELECT z.name INTO known FROM pg_timezone_names z WHERE lower(z.name) = lower(zone) AND zone LIKE '%/%';
    IF known IS NULL THEN
        PERFORM tenon.refuse('zone', quote_nullable(zone), 'UTC, or a name of pg_timezone_names with a /, such as Europe/Berlin');
    END IF;
    RETURN known;
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

CREATE FUNCTION tenon.cleaner_leads() RETURNS boolean
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT EXISTS (SELECT FROM tenon.setting s JOIN tenon.lock k ON k.key = s.leader_key AND k.counts)
$$;

CREATE FUNCTION tenon.close(flow bigint) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_variable
DECLARE
    f tenon.flow := tenon.hold_flow(flow);
BEGIN
    UPDATE tenon.flow w SET open = false WHERE w.id = flow AND w.open;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO tenon.flow_note (flow) VALUES (flow);
    PERFORM pg_notify('tenon', 'settle');
    RETURN true;
END $$;

CREATE FUNCTION tenon.copied() RETURNS text
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT format('the schema tenon was copied to this database: it is at home in %s, and this is %s',
                  tenon.home_text(h), tenon.home_text(here))
      FROM (SELECT tenon.home_here() AS here OFFSET 0) n
      LEFT JOIN tenon.home h ON true
     WHERE (h.database, h.relation) IS DISTINCT FROM ((n.here).database, (n.here).relation)
        OR h.name IS DISTINCT FROM (n.here).name
$$;

CREATE FUNCTION tenon.count_tasks(filter jsonb DEFAULT '{}'::jsonb, most integer DEFAULT 10000, OUT n bigint, OUT at_least boolean) RETURNS record
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT cardinality(f.ids), f.next IS NOT NULL FROM tenon.find(filter, NULL, NULL, most, 500) f
$$;

CREATE FUNCTION tenon.cron_day(c tenon.cron, day date) RETURNS date
    LANGUAGE plpgsql IMMUTABLE
    AS $$
DECLARE
    last     date := day + 41 * 366;
    in_month boolean;
    in_week  boolean;
BEGIN
    WHILE day <= last LOOP
        IF (c.months >> extract(month FROM day)::integer) & 1 = 0 THEN
            day := (date_trunc('month', day::timestamp) + interval '1 month')::date;
            CONTINUE;
        END IF;
        in_month := (c.days >> extract(day FROM day)::integer) & 1 = 1;
        in_week := (c.weekdays >> extract(dow FROM day)::integer) & 1 = 1;
        IF in_month AND in_week OR c.either AND (in_month OR in_week) THEN
            RETURN day;
        END IF;
        day := day + 1;
    END LOOP;
    RETURN NULL;
END $$;

CREATE FUNCTION tenon.cron_field(field text, list text, low integer, high integer, names text[]) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE
    AS $_$
DECLARE
    part  text;
    m     text[];
    first integer;
    last  integer;
    bits  bigint := 0;
BEGIN
    FOREACH part IN ARRAY string_to_array(list, ',') LOOP
        m := regexp_match(part, '^(\*|([^-/*]+)(?:-([^-/*]+))?)(?:/([0-9]{1,9}))?$');
        IF m IS NULL THEN
            PERFORM tenon.refuse_cron(field, quote_literal(part), 'is no number, range, * or step');
        ELSIF m[1] = '*' THEN
            first := low;
            last := high;
        ELSE
            first := tenon.cron_number(field, m[2], low, high, names);
            last := tenon.cron_number(field, coalesce(m[3], m[2]), low, high, names);
            IF last = 0 AND high = 7 AND m[3] IS NOT NULL THEN
                last := 7;  -- sat-sun
            END IF;
        END IF;
        IF last < first THEN
            PERFORM tenon.refuse_cron(field, part, 'is a range that goes down');
        ELSIF m[4]::integer = 0 THEN
            PERFORM tenon.refuse_cron(field, part, 'has a step of 0');
        ELSIF m[4] IS NOT NULL AND m[1] <> '*' AND m[3] IS NULL THEN
            PERFORM tenon.refuse_cron(field, part, 'has a step, which only * and ranges have');
        END IF;
        FOR n IN first..last BY coalesce(m[4]::integer, 1) LOOP
            bits := bits | (1::bigint << n);
        END LOOP;
    END LOOP;
    RETURN bits;
END $_$;

CREATE FUNCTION tenon.cron_next(bits bigint, low integer) RETURNS integer
    LANGUAGE plpgsql IMMUTABLE
    AS $$
BEGIN
    IF bits >> low = 0 THEN
        RETURN NULL;
    END IF;
    WHILE (bits >> low) & 1 = 0 LOOP
        low := low + 1;
    END LOOP;
    RETURN low;
END $$;

CREATE FUNCTION tenon.cron_number(field text, word text, low integer, high integer, names text[]) RETURNS integer
    LANGUAGE plpgsql IMMUTABLE
    AS $_$
DECLARE
    place integer := array_position(names, lower(word));
BEGIN
    IF place IS NOT NULL THEN
        RETURN place - 1 + low;
    END IF;
    IF word !~ '^[0-9]{1,9}$' OR word::integer NOT BETWEEN low AND high THEN
        PERFORM tenon.refuse_cron(field, word, format('is not %s to %s', low, high)
                                  || coalesce(' or ' || names[1] || ' to ' || names[cardinality(names)], ''));
    END IF;
    RETURN word::integer;
END $_$;

CREATE FUNCTION tenon.cron_wall(c tenon.cron, after timestamp without time zone) RETURNS timestamp without time zone
    LANGUAGE plpgsql IMMUTABLE
    AS $$
DECLARE
    low    timestamp := date_trunc('minute', after) + interval '1 minute';
    day    date := tenon.cron_day(c, low::date);
    hour   integer;
    minute integer;
BEGIN
    IF day = low::date THEN
        hour := tenon.cron_next(c.hours, extract(hour FROM low)::integer);
        IF hour = extract(hour FROM low) THEN
            minute := tenon.cron_next(c.minutes, extract(minute FROM low)::integer);
            hour := CASE WHEN minute IS NULL THEN tenon.cron_next(c.hours, hour + 1) ELSE hour END;
        END IF;
        day := CASE WHEN hour IS NULL THEN tenon.cron_day(c, day + 1) ELSE day END;
    END IF;
    RETURN day + make_interval(hours => coalesce(hour, tenon.cron_next(c.hours, 0)),
                               mins => coalesce(minute, tenon.cron_next(c.minutes, 0)));
END $$;

CREATE FUNCTION tenon.defaults(kind text, queue text) RETURNS TABLE(queue text, priority smallint, max_attempts integer, timeout_ms bigint, payload_bytes_max integer, confined boolean, exchange text, sleeper_key bigint, limits text[])
    LANGUAGE sql STABLE
    AS $_$
    SELECT coalesce($2, k.queue, 'default'), coalesce(k.priority, q.priority, 4::smallint),
           coalesce(k.max_attempts, q.max_attempts, 25), coalesce(k.timeout_ms, q.timeout_ms, 3600000),
           s.payload_bytes_max, s.confined, s.exchange, s.sleeper_key,
           CASE WHEN k.limited OR q.limited
                THEN array_remove(ARRAY[CASE WHEN k.limited THEN 'kind/' || k.name END, CASE WHEN q.limited THEN 'queue/' || q.name END], NULL) END
      FROM tenon.setting s
      LEFT JOIN tenon.kind k ON k.name = $1
      LEFT JOIN tenon.queue q ON q.name = coalesce($2, k.queue, 'default')
$_$;

CREATE FUNCTION tenon.delete(filter jsonb, most integer DEFAULT 10000, why text DEFAULT NULL::text) RETURNS bigint
    LANGUAGE sql
    AS $$ SELECT c.n FROM tenon.change('delete', filter, most => most, why => why) c $$;

CREATE FUNCTION tenon.delete_ids(ids bigint[]) RETURNS bigint[]
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    seen bigint[] := ARRAY(SELECT i FROM unnest(ids) i
                            WHERE NOT EXISTS (SELECT FROM tenon.flow_task m WHERE m.id = i AND m.state IS NULL)
                              AND NOT EXISTS (SELECT FROM tenon.flow_note n WHERE n.task = i));
    gone bigint[];
BEGIN
    WITH dead AS (DELETE FROM tenon.dead d WHERE d.id = ANY (seen) RETURNING d.id),
         ended AS (DELETE FROM tenon.finished e WHERE e.id = ANY (seen) RETURNING e.id)
    SELECT array_agg(g.id) INTO gone FROM (SELECT id FROM dead UNION ALL SELECT id FROM ended) g;
    RETURN gone;
END $$;

CREATE FUNCTION tenon.demand(queue text, latency interval DEFAULT '00:00:05'::interval) RETURNS integer
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    rate record := tenon.rate_seen(queue);
    backlog record := tenon.backlog_seen(queue);
    latency_s double precision := extract(epoch FROM latency);
BEGIN
    IF latency_s IS NULL OR latency_s <= 0 THEN
        RAISE invalid_parameter_value USING MESSAGE = format('latency is %s: it must be longer than nothing', coalesce(latency::text, 'NULL'));
    END IF;
    -- a slow handler has not finished anything yet: what runs says how long that takes at least
    RETURN tenon.slots_wanted(rate.tasks_per_s, greatest(rate.run_s, backlog.running_s), backlog.ready, backlog.running,
                              coalesce(backlog.oldest_s, 0), latency_s);
END $$;

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

CREATE FUNCTION tenon.drop_limit(name text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    DELETE FROM tenon.limit l WHERE l.name = drop_limit.name;
    IF FOUND THEN
        PERFORM tenon.limit_changed(name, false);
        PERFORM tenon.note_audit('drop_limit', jsonb_build_object('limit', name), 1);
        RETURN true;
    END IF;
    RETURN false;
END $$;

CREATE FUNCTION tenon.drop_schedule(name text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_variable
BEGIN
    DELETE FROM tenon.schedule s WHERE s.name = name;
    IF FOUND THEN
        PERFORM tenon.note_schedule('drop_schedule', name);
    END IF;
    RETURN FOUND;
END $$;

CREATE FUNCTION tenon.end_cancelled(ids bigint[], why text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    moment timestamptz := clock_timestamp();
BEGIN
    PERFORM tenon.need_partition(moment);
    WITH gone AS (
        DELETE FROM tenon.task t WHERE t.id = ANY (ids)
        RETURNING t.*, CASE WHEN tenon.needs_note(t) THEN tenon.note_ended(t, true) END)
    INSERT INTO tenon.finished (finished_at, id, run_at, start_time, created_at, worker_id, claims, failures,
                                crashes, priority, outcome, queue, kind, payload, unique_key, trace, last_error, enqueued_by, limit_keys, steps,
                                timeout_ms, max_attempts, retry, progress)
    SELECT moment, g.id, coalesce(wanted_at, run_at), start_time, created_at, worker_id, claims, failures, crashes,
           priority, 'cancelled', queue, kind, payload, unique_key, trace, why, enqueued_by, limit_keys, steps,
           timeout_ms, max_attempts, retry, progress
      FROM gone g;
END $$;

CREATE TABLE tenon.flow (
    id bigint NOT NULL,
    name text,
    made_by text DEFAULT SESSION_USER NOT NULL,
    made_at timestamp with time zone DEFAULT now() NOT NULL,
    made_in xid8 DEFAULT pg_current_xact_id() NOT NULL,
    open boolean DEFAULT false NOT NULL,
    cancelled_by text,
    cancelled_at timestamp with time zone,
    ended_at timestamp with time zone,
    on_done text,
    on_dead text,
    on_end text,
    payload jsonb,
    done_task bigint,
    dead_task bigint,
    end_task bigint
);

CREATE FUNCTION tenon.end_flow(f tenon.flow) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    well boolean := NOT EXISTS (SELECT FROM tenon.flow_task m WHERE m.flow = f.id AND m.state IN ('dead', 'cancelled', 'expired'));
BEGIN
    IF well AND f.on_done IS NOT NULL AND f.done_task IS NULL THEN
        f.done_task := tenon.enqueue_callback(f, f.on_done);
    END IF;
    IF NOT well AND f.on_dead IS NOT NULL AND f.dead_task IS NULL THEN
        f.dead_task := tenon.enqueue_callback(f, f.on_dead);
    END IF;
    IF f.on_end IS NOT NULL AND f.end_task IS NULL THEN
        f.end_task := tenon.enqueue_callback(f, f.on_end);
    END IF;
    UPDATE tenon.flow w
       SET ended_at = clock_timestamp(), done_task = f.done_task, dead_task = f.dead_task, end_task = f.end_task
     WHERE w.id = f.id;
END $$;

CREATE FUNCTION tenon.end_wait(task_id bigint, moment timestamp with time zone) RETURNS boolean
    LANGUAGE plpgsql
    SET lock_timeout TO '10 ms'
    AS $$
#variable_conflict use_variable
DECLARE
    t tenon.task;
    w tenon.waiting;
    payload jsonb;
    steps   jsonb;
BEGIN
    BEGIN
        SELECT * INTO t FROM tenon.task x WHERE x.id = task_id AND x.wanted_at IS NOT NULL FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            DELETE FROM tenon.waiting x WHERE x.task_id = task_id
               AND NOT EXISTS (SELECT FROM tenon.task y WHERE y.id = task_id AND y.wanted_at IS NOT NULL);
            RETURN false;
        END IF;
        SELECT * INTO w FROM tenon.waiting x WHERE x.task_id = task_id;
        SELECT s.payload INTO payload FROM tenon.signal s WHERE s.name = w.signal;
        IF w.task_id IS NULL OR (payload IS NULL AND w.until > moment) THEN
            UPDATE tenon.waiting x SET settled = true WHERE x.task_id = task_id AND NOT x.settled;
            RETURN false;
        END IF;
        RAISE SQLSTATE 'TN000';
    EXCEPTION WHEN SQLSTATE 'TN000' THEN
        steps := coalesce(t.steps, '{}') || jsonb_build_object(w.signal, coalesce(payload, 'null'));
    END;
    UPDATE tenon.task x
       SET steps = steps, payload_bytes = x.payload_bytes + octet_length(steps::text) - coalesce(octet_length(t.steps::text), 0),
           run_at = CASE WHEN x.limit_keys IS NULL THEN clock_timestamp() ELSE 'infinity' END,
           wanted_at = CASE WHEN x.limit_keys IS NOT NULL THEN clock_timestamp() END, delayed = false
     WHERE x.id = task_id AND x.wanted_at = t.wanted_at;
    IF FOUND THEN
        DELETE FROM tenon.waiting x WHERE x.task_id = task_id;
        IF t.limit_keys IS NOT NULL THEN  -- now it waits for them
            INSERT INTO tenon.limit_event (keys, task_id) VALUES (t.limit_keys, task_id);
        END IF;
        RETURN true;
    END IF;
    RETURN false;
EXCEPTION WHEN lock_not_available THEN
    RETURN false;
END $$;

CREATE FUNCTION tenon.end_waits(tasks bigint[], anew bigint[], to_cancel bigint[], most integer, OUT n integer, OUT more boolean, OUT freed bigint[], OUT free bigint[], OUT doomed bigint[]) RETURNS record
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    met     record;  -- arrays, a wait each: task, parent, and whether the task is to be cancelled
    ours    bigint[];
    asking  bigint[];  -- for what their parents returned
    limited bigint[];
    stuck   bigint[] := '{}';
BEGIN
    SELECT coalesce(array_agg(e.task), '{}') AS task, coalesce(array_agg(e.parent), '{}') AS parent,
           coalesce(array_agg(DISTINCT e.task) FILTER (WHERE e.cancel), '{}') AS doomed INTO met
      FROM ((SELECT w.task, w.parent, w.cancel
               FROM unnest(tasks) i
              CROSS JOIN LATERAL (SELECT t.state FROM tenon.flow_task t WHERE t.id = i AND t.state IS NOT NULL LIMIT 1) m
              CROSS JOIN LATERAL (SELECT v.task, v.parent, m.state <> 'done' AND v.on_dead = 'cancel' AS cancel FROM tenon.flow_wait v
                                   WHERE v.parent = i AND (m.state = 'done' OR v.on_dead <> 'wait') LIMIT most) w
              LIMIT most)
            UNION
            (SELECT w.task, w.parent, m.state <> 'done' AND w.on_dead = 'cancel'
               FROM unnest(tasks) i
              CROSS JOIN LATERAL (SELECT v.* FROM tenon.flow_wait v WHERE v.task = i) w
              CROSS JOIN LATERAL (SELECT t.state FROM tenon.flow_task t WHERE t.id = w.parent LIMIT 1) m
              WHERE m.state = 'done' OR m.state IS NOT NULL AND w.on_dead <> 'wait'
              LIMIT most)) e;
    n := cardinality(met.task);
    more := n >= most;
    DELETE FROM tenon.flow_wait w USING unnest(met.task, met.parent) o (task, parent)
     WHERE w.task = o.task AND w.parent = o.parent;
    doomed := to_cancel || met.doomed;
    SELECT coalesce(array_agg(t.id) FILTER (WHERE t.limit_keys IS NULL), '{}'),
           coalesce(array_agg(t.id) FILTER (WHERE t.limit_keys IS NOT NULL), '{}'),
           coalesce(array_agg(t.id) FILTER (WHERE t.payload -> 'parents' = 'null'), '{}')
      INTO free, limited, asking
      FROM tenon.task t
     WHERE t.id = ANY (anew || met.task) AND t.wanted_at IS NOT NULL AND t.id <> ALL (doomed)
       -- the last parent first, which mostly ends last: so that it is found at once
       AND (SELECT w.parent FROM tenon.flow_wait w WHERE w.task = t.id ORDER BY w.parent DESC LIMIT 1) IS NULL;
    IF limited <> '{}' THEN
        IF asking && limited THEN
            ours := ARRAY(SELECT t.id FROM tenon.task t WHERE t.id = ANY (limited) ORDER BY t.id FOR UPDATE SKIP LOCKED);
            stuck := ARRAY(SELECT unnest(limited) EXCEPT SELECT unnest(ours));
            limited := ours;
            PERFORM tenon.fill_parents(limited);
        END IF;
        PERFORM tenon.queue_limits(limited);
    END IF;
    freed := '{}';
    IF free <> '{}' THEN
        freed := tenon.unblock(free);
        IF asking && freed THEN
            PERFORM tenon.fill_parents(freed);
        END IF;
        free := CASE WHEN cardinality(freed) < cardinality(free) THEN ARRAY(SELECT unnest(free) EXCEPT SELECT unnest(freed)) ELSE '{}' END;
    END IF;
    free := free || stuck;
    IF doomed <> '{}' THEN
        doomed := ARRAY(SELECT t.id FROM tenon.task t WHERE t.id = ANY (doomed) AND t.wanted_at IS NOT NULL);
        ours := ARRAY(SELECT t.id FROM tenon.task t WHERE t.id = ANY (doomed) ORDER BY t.id FOR UPDATE SKIP LOCKED);
        PERFORM tenon.end_cancelled(ours, 'cancelled: a parent did not end well');
        doomed := ARRAY(SELECT unnest(doomed) EXCEPT SELECT unnest(ours));
    END IF;
END $$;

CREATE FUNCTION tenon.ended_by(error text, OUT exit_code integer, OUT signal integer) RETURNS record
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT m[1]::integer, m[2]::integer
      FROM regexp_match(error, '^(?:the handler ended without an answer: )?(?:exit status (\d+)|killed by signal (\d+))') m
$$;

CREATE FUNCTION tenon.ended_tids(since timestamp with time zone, last_blocks integer, spread_blocks integer) RETURNS tid[]
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET jit TO 'off'
    AS $_$
    WITH day AS (
        SELECT (pg_relation_size(c.oid) / current_setting('block_size')::integer)::integer AS blocks
          FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
         WHERE i.inhparent = 'tenon.finished'::regclass AND c.relname ~ '^finished_[0-9]{8}$'
           AND to_date(right(c.relname, 8), 'YYYYMMDD') >= ($1 AT TIME ZONE 'UTC')::date
    ), block AS (
        SELECT b FROM day, generate_series(greatest(blocks - $2, 0), blocks - 1) b
        UNION
        SELECT b FROM day, generate_series(0, blocks - 1, greatest(1, blocks / nullif($3, 0))) b WHERE $3 > 0
    )
    SELECT array_agg(('(' || b || ',' || line || ')')::tid)
      FROM block, generate_series(1, current_setting('block_size')::integer / 102) line  -- no row is so short that there are more
$_$;

CREATE FUNCTION tenon.enqueue(kind text, payload anycompatible DEFAULT '{}'::jsonb, queue text DEFAULT NULL::text, priority integer DEFAULT NULL::integer, run_at timestamp with time zone DEFAULT NULL::timestamp with time zone, delay interval DEFAULT NULL::interval, unique_key text DEFAULT NULL::text, on_conflict text DEFAULT NULL::text, unique_for interval DEFAULT NULL::interval, debounce interval DEFAULT NULL::interval, debounce_max interval DEFAULT NULL::interval, start_before timestamp with time zone DEFAULT NULL::timestamp with time zone, max_attempts integer DEFAULT NULL::integer, timeout interval DEFAULT NULL::interval, retry text DEFAULT NULL::text, limit_keys text[] DEFAULT NULL::text[], flow bigint DEFAULT NULL::bigint, after bigint[] DEFAULT NULL::bigint[], on_parent_dead text DEFAULT NULL::text, trace text DEFAULT NULL::text, notify boolean DEFAULT true, announced boolean DEFAULT false) RETURNS bigint
    LANGUAGE sql
    AS $$
    SELECT (tenon.enqueue_routed(kind, payload, queue, priority, run_at, delay, unique_key, on_conflict, unique_for,
                                 debounce, debounce_max, start_before, max_attempts, timeout, retry, limit_keys, flow,
                                 after, on_parent_dead, trace, notify, announced)).id
$$;

CREATE FUNCTION tenon.enqueue_again(a tenon.again, notify boolean) RETURNS tenon.enqueued
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    held tenon.enqueued := tenon.holder(a.kind, a.unique_key);
BEGIN
    IF held.id IS NULL THEN
        RETURN held;
    END IF;
    -- what came before and waits still must not come after
    IF NOT EXISTS (SELECT FROM tenon.again g WHERE g.unique_key = a.unique_key AND g.kind = a.kind AND g.failed IS NULL)
       AND tenon.join_holder(a, interval '1 second') THEN
        RETURN held;
    END IF;
    INSERT INTO tenon.again OVERRIDING USER VALUE SELECT a.*;
    IF notify THEN
        PERFORM pg_notify('tenon', 'settle');
    END IF;
    RETURN held;
END $$;

CREATE FUNCTION tenon.enqueue_callback(f tenon.flow, kind text) RETURNS bigint
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
    WITH new AS (
        INSERT INTO tenon.task (run_at, created_at, timeout_ms, max_attempts, priority, delayed, announced, queue, kind,
                                payload, payload_bytes, enqueued_by, limit_keys, wanted_at)
        SELECT CASE WHEN d.limits IS NULL THEN clock_timestamp() ELSE 'infinity' END, clock_timestamp(), d.timeout_ms, d.max_attempts,
               d.priority, false, false, d.queue, $2, p.payload, octet_length(p.payload::text), ($1).made_by, d.limits,
               CASE WHEN d.limits IS NOT NULL THEN clock_timestamp() END
          FROM tenon.defaults($2, NULL) d
         CROSS JOIN LATERAL (SELECT CASE WHEN jsonb_typeof(($1).payload) = 'object' THEN jsonb_build_object('flow', ($1).id) || ($1).payload
                                         ELSE ($1).payload END AS payload) p
        RETURNING id, limit_keys
    ), limited AS (
        INSERT INTO tenon.limit_event (keys, task_id, enters) SELECT n.limit_keys, n.id, true FROM new n WHERE n.limit_keys IS NOT NULL)
    SELECT id FROM new
$_$;

CREATE FUNCTION tenon.enqueue_described(task jsonb, flow bigint, after bigint[]) RETURNS bigint
    LANGUAGE sql
    AS $_$
    SELECT (tenon.enqueue_routed(
        kind => $1 ->> 'kind', payload => coalesce($1 -> 'payload', '{}'), queue => $1 ->> 'queue', priority => ($1 ->> 'priority')::integer,
        run_at => ($1 ->> 'run_at')::timestamptz, delay => ($1 ->> 'delay')::interval, start_before => ($1 ->> 'start_before')::timestamptz,
        max_attempts => ($1 ->> 'max_attempts')::integer, timeout => ($1 ->> 'timeout')::interval, retry => $1 ->> 'retry',
        limit_keys => CASE WHEN $1 ? 'limit_keys' THEN ARRAY(SELECT jsonb_array_elements_text($1 -> 'limit_keys')) END,
        flow => $2, after => $3, on_parent_dead => $1 ->> 'on_parent_dead', trace => $1 ->> 'trace', notify => false, announced => false)).id
$_$;

CREATE FUNCTION tenon.enqueue_many(kind text, payloads anycompatiblearray, queue text DEFAULT NULL::text, priority integer DEFAULT NULL::integer, run_at timestamp with time zone DEFAULT NULL::timestamp with time zone, delay interval DEFAULT NULL::interval, unique_keys text[] DEFAULT NULL::text[], on_conflict text DEFAULT NULL::text, unique_for interval DEFAULT NULL::interval, debounce interval DEFAULT NULL::interval, debounce_max interval DEFAULT NULL::interval, start_before timestamp with time zone DEFAULT NULL::timestamp with time zone, max_attempts integer DEFAULT NULL::integer, timeout interval DEFAULT NULL::interval, retry text DEFAULT NULL::text, limit_keys text[] DEFAULT NULL::text[], flow bigint DEFAULT NULL::bigint, after bigint[] DEFAULT NULL::bigint[], on_parent_dead text DEFAULT NULL::text, trace text DEFAULT NULL::text, notify boolean DEFAULT true, announced boolean DEFAULT false) RETURNS bigint[]
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_variable
DECLARE
    checked boolean := tenon.check_enqueue(kind, queue, priority, run_at, delay, start_before, max_attempts, timeout, retry, trace);
    documents jsonb[] := payloads;
    at      timestamptz := clock_timestamp();
    due     timestamptz := coalesce(run_at, at + delay);
    waits   bigint[];
    blocked boolean := false;
    look    boolean := false;
    d       record;
    ids     bigint[];
BEGIN
    IF num_nonnulls(limit_keys, flow, after, on_parent_dead) > 0 THEN
        limit_keys := tenon.check_limit_keys(limit_keys);
        waits := tenon.check_parents(flow, after, on_parent_dead, (SELECT u FROM unnest(unique_keys) u WHERE u IS NOT NULL LIMIT 1));
        blocked := limit_keys IS NOT NULL OR waits IS NOT NULL;
    END IF;
    IF payloads IS NULL OR cardinality(payloads) > 100000 THEN
        PERFORM tenon.refuse('payloads', 'of ' || cardinality(payloads) || ' elements', 'an array of 0 to 100000 JSON values');
    END IF;
    IF unique_keys IS NOT NULL THEN
        IF cardinality(unique_keys) <> cardinality(payloads) THEN
            PERFORM tenon.refuse('unique_keys', format('of %s elements', cardinality(unique_keys)),
                                 format('as long as payloads, %s elements', cardinality(payloads)));
        END IF;
        SELECT coalesce(array_agg(tenon.enqueue(kind, p, queue, priority, run_at, delay, u, CASE WHEN u IS NOT NULL THEN on_conflict END,
                                                CASE WHEN u IS NOT NULL THEN unique_for END, CASE WHEN u IS NOT NULL THEN debounce END,
                                                CASE WHEN u IS NOT NULL THEN debounce_max END, start_before, max_attempts, timeout, retry,
                                                limit_keys, flow, after, on_parent_dead, trace, notify, announced) ORDER BY o), '{}')
          INTO ids FROM unnest(documents, unique_keys) WITH ORDINALITY AS a (p, u, o);
        RETURN ids;
    END IF;
    checked := tenon.check_unique(NULL, on_conflict, unique_for, debounce, debounce_max, run_at, delay);
    SELECT * INTO d FROM tenon.defaults(kind, queue);
    IF d.confined THEN
        PERFORM tenon.check_allowed(kind, queue, '{}');
    END IF;
    IF d.limits IS NOT NULL THEN
        limit_keys := limit_keys || d.limits;
        blocked := true;
    END IF;
    WITH new AS (
        INSERT INTO tenon.task (run_at, created_at, start_before, timeout_ms, max_attempts, priority, delayed, announced,
                                queue, kind, payload, payload_bytes, retry, trace, enqueued_by, wanted_at, flow, limit_keys)
        SELECT CASE WHEN blocked THEN 'infinity' WHEN due > at THEN due ELSE clock_timestamp() END, clock_timestamp(), start_before,
               coalesce((extract(epoch FROM timeout) * 1000)::bigint, d.timeout_ms),
               coalesce(max_attempts, d.max_attempts), coalesce(priority, d.priority), coalesce(due > at, false) AND NOT blocked,
               coalesce(announced, false) AND coalesce(due <= at, true) AND NOT blocked, d.queue, kind, p, bytes, retry, trace,
               session_user, CASE WHEN blocked THEN greatest(due, at) END, flow, limit_keys
          FROM (SELECT p, octet_length(p::text) AS bytes FROM unnest(documents) p OFFSET 0) a  -- in their order
         WHERE bytes <= d.payload_bytes_max
        RETURNING id)
    SELECT coalesce(array_agg(id ORDER BY id), '{}') INTO ids FROM new;
    IF cardinality(ids) < cardinality(payloads) THEN
        PERFORM tenon.check_payload(p, d.payload_bytes_max) FROM unnest(documents) p;
    END IF;
    IF flow IS NOT NULL THEN
        look := tenon.join_flow(ids, flow, after, waits, on_parent_dead);
    END IF;
    IF blocked AND waits IS NULL THEN
        look := tenon.queue_limits(ids);
    END IF;
    IF coalesce(notify, true) AND look THEN
        PERFORM pg_notify('tenon', 'settle');
    ELSIF coalesce(notify, true) AND NOT coalesce(announced, false) AND NOT blocked AND ids <> '{}' THEN
        IF tenon.publisher_sleeps(d.sleeper_key) THEN
            PERFORM pg_notify('tenon', '');
        END IF;
    END IF;
    RETURN ids;
END $$;

CREATE FUNCTION tenon.enqueue_routed(kind text, payload anycompatible DEFAULT '{}'::jsonb, queue text DEFAULT NULL::text, priority integer DEFAULT NULL::integer, run_at timestamp with time zone DEFAULT NULL::timestamp with time zone, delay interval DEFAULT NULL::interval, unique_key text DEFAULT NULL::text, on_conflict text DEFAULT NULL::text, unique_for interval DEFAULT NULL::interval, debounce interval DEFAULT NULL::interval, debounce_max interval DEFAULT NULL::interval, start_before timestamp with time zone DEFAULT NULL::timestamp with time zone, max_attempts integer DEFAULT NULL::integer, timeout interval DEFAULT NULL::interval, retry text DEFAULT NULL::text, limit_keys text[] DEFAULT NULL::text[], flow bigint DEFAULT NULL::bigint, after bigint[] DEFAULT NULL::bigint[], on_parent_dead text DEFAULT NULL::text, trace text DEFAULT NULL::text, notify boolean DEFAULT true, announced boolean DEFAULT true) RETURNS tenon.enqueued
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
    waits   bigint[];  -- the parents that it waits for
    blocked boolean := false;
    look    boolean := false;  -- it is tenon.settle() that must look whether it waits
    added   tenon.enqueued;
    again   tenon.again;
    d       record;
BEGIN
    -- most calls give a kind and a payload: then there is nothing else to check
    IF num_nonnulls(queue, priority, run_at, delay, unique_key, on_conflict, unique_for, debounce, debounce_max, start_before,
                    max_attempts, timeout, retry, limit_keys, flow, after, on_parent_dead, trace) > 0
       OR tenon.is_kind(kind) IS NOT TRUE THEN
        checked := tenon.check_enqueue(kind, queue, priority, run_at, delay, start_before, max_attempts, timeout, retry, trace);
        checked := tenon.check_unique(unique_key, on_conflict, unique_for, debounce, debounce_max, run_at, delay);
        IF unique_key IS NOT NULL THEN  -- the seconds that were checked, however they were said
            unique_for := make_interval(secs => extract(epoch FROM unique_for));
            debounce := make_interval(secs => extract(epoch FROM debounce));
            debounce_max := make_interval(secs => extract(epoch FROM debounce_max));
        END IF;
        IF num_nonnulls(limit_keys, flow, after, on_parent_dead) > 0 THEN
            limit_keys := tenon.check_limit_keys(limit_keys);
            waits := tenon.check_parents(flow, after, on_parent_dead, unique_key);
            blocked := limit_keys IS NOT NULL OR waits IS NOT NULL;
        END IF;
    END IF;
    due := greatest(coalesce(run_at, at + coalesce(delay, debounce)), at);
    announced := coalesce(announced, false) AND due <= at AND NOT blocked;
    SELECT * INTO d FROM tenon.defaults(kind, queue);
    IF d.confined OR bytes > d.payload_bytes_max OR bytes IS NULL THEN
        PERFORM tenon.check_allowed(kind, queue, document);
    END IF;
    IF d.limits IS NOT NULL THEN
        limit_keys := limit_keys || d.limits;
        blocked := true;
        announced := false;
    END IF;
    IF unique_for IS NOT NULL THEN
        added.id := tenon.hold_key(kind, unique_key, at + unique_for);
        IF added.id IS NOT NULL AND (coalesce(on_conflict, 'keep') = 'keep' AND debounce IS NULL
                                     OR NOT EXISTS (SELECT FROM tenon.task t WHERE t.id = added.id)) THEN
            RETURN ROW(added.id, d.exchange, d.queue || '/' || kind)::tenon.enqueued;
        END IF;
    END IF;
    LOOP
        INSERT INTO tenon.task (run_at, created_at, start_before, timeout_ms, max_attempts, priority, delayed,
                                announced, queue, kind, payload, payload_bytes, unique_key, retry, trace,
                                enqueued_by, wanted_at, flow, limit_keys)
        VALUES (CASE WHEN blocked THEN 'infinity' ELSE due END, at, start_before,
                coalesce((extract(epoch FROM timeout) * 1000)::bigint, d.timeout_ms),
                coalesce(max_attempts, d.max_attempts), coalesce(priority, d.priority), due > at AND NOT blocked,
                announced, d.queue, kind, document, bytes, unique_key, retry, trace,
                session_user, CASE WHEN blocked THEN due END, flow, limit_keys)
        ON CONFLICT DO NOTHING  -- unique_key is the only thing that can conflict
        RETURNING task.id INTO added.id;
        EXIT WHEN FOUND;
        again := ROW(0, due, at, start_before, coalesce((extract(epoch FROM timeout) * 1000)::bigint, d.timeout_ms),
                     coalesce(max_attempts, d.max_attempts), bytes, coalesce(priority, d.priority), due > at, d.queue, kind,
                     document, unique_key, retry, trace, session_user, limit_keys,
                     coalesce(on_conflict, CASE WHEN debounce IS NULL THEN 'keep' ELSE 'replace' END), debounce, debounce_max,
                     false, NULL);
        added := tenon.enqueue_again(again, coalesce(notify, true));
        EXIT WHEN added.id IS NOT NULL;
        -- the holder may have finished between the two statements: once more, which is enough in practice
        tries := tries + 1;
        IF tries = 100 THEN
            RAISE EXCEPTION 'tenon: the task that holds unique_key % cannot be seen', quote_literal(unique_key)
                USING ERRCODE = 'serialization_failure', HINT = 'Run the transaction again.';
        END IF;
    END LOOP;
    IF unique_for IS NOT NULL THEN
        UPDATE tenon.unique_hold h SET id = added.id WHERE h.kind = kind AND h.unique_key = unique_key AND h.id IS NULL;
    END IF;
    IF added.routing_key IS NOT NULL THEN
        RETURN added;  -- another task's
    END IF;
    IF flow IS NOT NULL THEN
        look := tenon.join_flow(ARRAY[added.id], flow, after, waits, on_parent_dead);
    END IF;
    IF blocked AND waits IS NULL THEN
        look := tenon.queue_limits(ARRAY[added.id]);
    END IF;
    added.exchange := d.exchange;
    added.routing_key := d.queue || '/' || kind;
    IF coalesce(notify, true) AND look THEN
        PERFORM pg_notify('tenon', 'settle');
    ELSIF coalesce(notify, true) AND NOT announced AND NOT blocked THEN
        IF tenon.publisher_sleeps(d.sleeper_key) THEN
            PERFORM pg_notify('tenon', '');
        END IF;
    END IF;
    RETURN added;
END $$;

CREATE FUNCTION tenon.enqueue_tasks(flow bigint, tasks jsonb, names text[], child integer[], parent integer[], places integer[]) RETURNS void
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_variable
DECLARE
    ids   bigint[] := array_fill(NULL::bigint, ARRAY[cardinality(names)]);
    first integer[] := array_fill(NULL::integer, ARRAY[cardinality(names)]);
    c     integer[];  -- as child and parent, in the order of children
    p     integer[];
    after bigint[];
    i     integer;
    e     integer;
    hint  text;
BEGIN
    SELECT array_agg(w.c ORDER BY w.c, w.p), array_agg(w.p ORDER BY w.c, w.p) INTO c, p FROM unnest(child, parent) w (c, p);
    FOR e IN REVERSE coalesce(cardinality(c), 0)..1 LOOP
        first[c[e]] := e;
    END LOOP;
    FOREACH i IN ARRAY places LOOP
        after := NULL;
        e := first[i];
        WHILE c[e] = i LOOP
            after := array_append(after, ids[p[e]]);
            e := e + 1;
        END LOOP;
        ids[i] := tenon.enqueue_described(tasks -> (i - 1), flow, after);
    END LOOP;
    UPDATE tenon.flow_task m SET name = n.name FROM unnest(ids, names) n (id, name) WHERE m.id = n.id AND n.name IS NOT NULL;
EXCEPTION WHEN data_exception OR insufficient_privilege THEN
    GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
    RAISE EXCEPTION '% (in tasks[%]%)', SQLERRM, i - 1, coalesce(', ' || quote_literal(names[i]), '')
        USING ERRCODE = SQLSTATE, HINT = coalesce(nullif(hint, ''), 'The keys are the arguments of tenon.enqueue.');
END $$;

CREATE TABLE tenon.schedule (
    name text NOT NULL,
    cron text,
    every_ms bigint,
    zone text NOT NULL,
    kind text NOT NULL,
    payload jsonb NOT NULL,
    queue text,
    priority smallint,
    max_attempts integer,
    timeout_ms bigint,
    catch_up text NOT NULL,
    overlap text NOT NULL,
    source text,
    set_by text NOT NULL,
    set_at timestamp with time zone NOT NULL,
    paused boolean DEFAULT false NOT NULL,
    next_at timestamp with time zone NOT NULL,
    due_at timestamp with time zone NOT NULL,
    last_at timestamp with time zone,
    last_task bigint,
    skipped bigint DEFAULT 0 NOT NULL,
    last_error text,
    CONSTRAINT schedule_catch_up_check CHECK ((catch_up = ANY (ARRAY['none'::text, 'last'::text, 'all'::text]))),
    CONSTRAINT schedule_check CHECK ((num_nonnulls(cron, every_ms) = 1)),
    CONSTRAINT schedule_check1 CHECK ((last_at < next_at)),
    CONSTRAINT schedule_every_ms_check CHECK (((every_ms >= 1000) AND (every_ms <= '31622400000'::bigint))),
    CONSTRAINT schedule_name_check CHECK ((name ~ '^[A-Za-z0-9_.:-]{1,100}$'::text)),
    CONSTRAINT schedule_overlap_check CHECK ((overlap = ANY (ARRAY['allow'::text, 'skip'::text])))
);

CREATE FUNCTION tenon.enqueue_tick(s tenon.schedule, tick timestamp with time zone) RETURNS bigint
    LANGUAGE sql
    AS $$
    SELECT tenon.enqueue(s.kind, tenon.tick_payload(s.payload, tick), queue => s.queue, priority => s.priority,
                         max_attempts => s.max_attempts, timeout => s.timeout_ms * interval '1 ms')
$$;

CREATE FUNCTION tenon.error_class(reason text, error text) RETURNS text
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
    SELECT CASE WHEN reason = 'timed_out' THEN 'timeout'
                WHEN reason = 'crashed' THEN 'crash'
                ELSE left(coalesce(substring(tenon.error_line(error) from '^([\w.]*(?:Error|Exception))\M'),
                                   substring(tenon.error_line(error) from CASE WHEN e.exit_code IS NOT NULL THEN '^((?:\w+\.)*[A-Z]\w*): ' END),
                                   substring(error from '^[a-z :]*exit status \d+: [^\n]*\.rb:\d+:in [^\n]* \(([A-Z][\w:]*)\)(?:\n|$)'),
                                   'exit_' || e.exit_code, 'signal_' || e.signal, substring(error from '[^\s:,;(]+')), 100) END
      FROM tenon.ended_by(error) e
$_$;

CREATE FUNCTION tenon.error_line(error text) RETURNS text
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
    SELECT coalesce((SELECT m[1]
                       FROM regexp_matches(error, '^(?:[a-z ]*exit status \d+: )?((?:[A-Za-z_][\w.]*)?(?:Error|Exception)\M(?:[:( ].*)?)$', 'gn')
                            WITH ORDINALITY AS r (m, n) ORDER BY n DESC LIMIT 1),
                    substring(error from '^[a-z :]*exit status \d+: (?:.*\n)?((?:[A-Za-z_]\w*\.)*[A-Z]\w*[a-z]\w*: [^\n]*)$'),
                    substring(error from '[^\s][^\n]*'))
$_$;

CREATE FUNCTION tenon.expire(moment timestamp with time zone, most integer) RETURNS integer
    LANGUAGE plpgsql
    AS $$
DECLARE
    n integer;
BEGIN
    PERFORM tenon.need_partition(moment);
    WITH gone AS (
        DELETE FROM tenon.task t WHERE t.id = ANY (ARRAY(
            SELECT l.id FROM tenon.task l WHERE l.start_before <= moment AND l.start_time IS NULL
             ORDER BY l.start_before LIMIT most FOR UPDATE SKIP LOCKED))
        RETURNING t.*, CASE WHEN tenon.needs_note(t) THEN tenon.note_ended(t) END)
    INSERT INTO tenon.finished (finished_at, id, run_at, start_time, created_at, worker_id, claims, failures,
                                crashes, priority, outcome, queue, kind, payload, unique_key, trace, last_error, enqueued_by, limit_keys, steps,
                                timeout_ms, max_attempts, retry, progress)
    SELECT moment, g.id, coalesce(wanted_at, run_at), start_time, created_at, worker_id, claims, failures, crashes, priority,
           'expired', queue, kind, payload, unique_key, trace, format('not started before %s', start_before), enqueued_by, limit_keys, steps,
           timeout_ms, max_attempts, retry, progress
      FROM gone g;
    GET DIAGNOSTICS n = ROW_COUNT;
    RETURN n;
END $$;

CREATE FUNCTION tenon.extend(claim text, by interval) RETURNS timestamp with time zone
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
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
    deadline := clock_timestamp() + make_interval(secs => by_ms / 1000);
    UPDATE tenon.task t
       SET timeout_ms = greatest(t.timeout_ms, least(timeout_max_ms, ceil(extract(epoch FROM deadline - t.start_time) * 1000)))
     WHERE t.id = fence.id AND t.claims = fence.claims AND t.worker_id = fence.worker_id AND t.start_time = fence.start_time
    RETURNING t.start_time + make_interval(secs => t.timeout_ms / 1000.0) INTO deadline;
    PERFORM tenon.claim_must_hold(claim, FOUND, fence.worker_id);
    RETURN deadline;
END $$;

CREATE FUNCTION tenon.fill_parents(ids bigint[]) RETURNS void
    LANGUAGE sql
    AS $_$
    UPDATE tenon.task t SET payload = p.payload, payload_bytes = tenon.printed_bytes(p.payload)
      FROM (SELECT k.id, jsonb_set(k.payload, '{parents}', r.results) AS payload
              FROM tenon.task k
             CROSS JOIN LATERAL (SELECT jsonb_object_agg(coalesce(o.name, o.id::text), o.result) AS results FROM tenon.results_of(k.id) o) r
             WHERE k.id = ANY ($1) AND k.payload -> 'parents' = 'null'
               AND (SELECT sum(octet_length(o.result::text)) FROM tenon.results_of(k.id) o) <= (SELECT s.payload_bytes_max FROM tenon.setting s)) p
     WHERE t.id = p.id AND tenon.printed_bytes(p.payload) <= (SELECT s.payload_bytes_max FROM tenon.setting s)
$_$;

CREATE FUNCTION tenon.filter_ids(value jsonb) RETURNS bigint[]
    LANGUAGE plpgsql IMMUTABLE
    AS $$
DECLARE
    ids bigint[] := (SELECT array_agg(e::text::bigint)
                       FROM jsonb_array_elements(CASE jsonb_typeof(value) WHEN 'array' THEN value
                                                                          ELSE jsonb_build_array(value) END) e);
BEGIN
    IF ids IS NULL OR cardinality(ids) > 100000 THEN
        RAISE data_exception;
    END IF;
    RETURN ids;
END $$;

CREATE FUNCTION tenon.filter_keys() RETURNS TABLE(key text, allowed text)
    LANGUAGE sql IMMUTABLE
    AS $_$
    VALUES ('state', 'a state, or an array of them: blocked, scheduled, ready, running, retrying, done, cancelled, expired, dead'),
           ('queue', 'a queue, or an array of them'),
           ('kind', 'a kind, or an array of them'),
           ('error', 'a class of errors (error_class), or an array of them'),
           ('older_than', 'a time that has passed since the task was enqueued or, if it has ended, since then, such as "2 hours"'),
           ('unique_key', 'a text'),
           ('payload', 'a predicate of SQL/JSON path, such as $.to == "ann@example.com" or exists($.tags[*] ? (@ == "new"))'),
           ('ids', 'a number, or an array of at most 100000'),
           ('trace', 'a text'),
           ('enqueued_by', 'a role'),
           ('flow', 'the number of a flow'),
           ('limit_key', 'a key of limits, such as "tenant:42"')
$_$;

CREATE FUNCTION tenon.filter_path(value jsonb) RETURNS jsonpath
    LANGUAGE plpgsql IMMUTABLE
    AS $$
DECLARE
    path jsonpath := tenon.filter_text(value)::jsonpath;
BEGIN
    IF coalesce(jsonb_typeof(jsonb_path_query_first('{}', path, '{}', true)), '') NOT IN ('boolean', 'null') THEN
        RAISE data_exception;
    END IF;
    RETURN path;
END $$;

CREATE FUNCTION tenon.filter_states(f tenon.filter, act text) RETURNS text[]
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    may text[] := coalesce(tenon.act_states(act), '{blocked,scheduled,ready,running,retrying,done,cancelled,expired,dead}');
BEGIN
    IF act IS NOT NULL AND tenon.act_states(act) IS NULL THEN
        PERFORM tenon.check_act(act, NULL);
    ELSIF NOT f.states <@ may THEN
        PERFORM tenon.refuse('state', array_to_string(f.states, ', '),
                             array_to_string(may, ', ') || coalesce(' for ' || act, ''));
    END IF;
    RETURN CASE WHEN f.states IS NOT NULL THEN f.states
                WHEN f.ids IS NULL AND act IN ('retry', 'delete') THEN '{dead}'
                WHEN act IS NOT NULL THEN may
                WHEN f.limit_key IS NOT NULL AND f.ids IS NULL THEN tenon.act_states('cancel') END;
END $$;

CREATE FUNCTION tenon.filter_text(value jsonb) RETURNS text
    LANGUAGE plpgsql IMMUTABLE
    AS $$
BEGIN
    IF jsonb_typeof(value) <> 'string' THEN
        RAISE data_exception;
    END IF;
    RETURN value #>> '{}';
END $$;

CREATE FUNCTION tenon.filter_texts(value jsonb) RETURNS text[]
    LANGUAGE plpgsql IMMUTABLE
    AS $$
DECLARE
    texts text[];
BEGIN
    SELECT array_agg(e #>> '{}') INTO texts
      FROM jsonb_array_elements(CASE jsonb_typeof(value) WHEN 'array' THEN value ELSE jsonb_build_array(value) END) e
    HAVING bool_and(jsonb_typeof(e) = 'string');
    IF texts IS NULL THEN
        RAISE data_exception;
    END IF;
    RETURN texts;
END $$;

CREATE FUNCTION tenon.filter_with(f tenon.filter, key text, value jsonb) RETURNS tenon.filter
    LANGUAGE plpgsql STABLE
    AS $$
BEGIN
    CASE key
        WHEN 'state' THEN f.states := tenon.filter_texts(value);
        WHEN 'queue' THEN f.queues := tenon.filter_texts(value);
        WHEN 'kind' THEN f.kinds := tenon.filter_texts(value);
        WHEN 'error' THEN f.errors := tenon.filter_texts(value);
        WHEN 'older_than' THEN f.before := clock_timestamp() - tenon.filter_text(value)::interval;
        WHEN 'unique_key' THEN f.unique_key := tenon.filter_text(value);
        WHEN 'payload' THEN f.payload := tenon.filter_path(value);
        WHEN 'ids' THEN f.ids := tenon.filter_ids(value);
        WHEN 'trace' THEN f.trace := tenon.filter_text(value);
        WHEN 'enqueued_by' THEN f.enqueued_by := tenon.filter_text(value);
        WHEN 'flow' THEN f.flow := coalesce(value #>> '{}', '')::bigint;  -- NULL would be any
        WHEN 'limit_key' THEN f.limit_key := tenon.filter_text(value);
    END CASE;
    RETURN f;
END $$;

CREATE FUNCTION tenon.find(filter jsonb, act text DEFAULT NULL::text, after bigint DEFAULT NULL::bigint, most integer DEFAULT 100, limit_ms integer DEFAULT NULL::integer, OUT ids bigint[], OUT next bigint) RETURNS record
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    PERFORM tenon.check_most(most);
    SELECT s.ids, s.next INTO ids, next
      FROM tenon.search(tenon.read_filter(filter, act), act IS NULL, after, most, limit_ms) s;
END $$;

CREATE FUNCTION tenon.finish(claim text, result jsonb DEFAULT NULL::jsonb) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
#variable_conflict use_variable
DECLARE
    moment timestamptz := clock_timestamp();
    fence  record;
BEGIN
    fence := tenon.read_claim(claim);
    IF result IS NOT NULL THEN
        result := tenon.result_kept(result);
    END IF;
    PERFORM tenon.need_partition(moment);
    WITH gone AS (
        DELETE FROM tenon.task t
         WHERE t.id = fence.id AND t.claims = fence.claims AND t.worker_id = fence.worker_id AND t.start_time = fence.start_time
        RETURNING t.*, CASE WHEN tenon.needs_note(t) THEN tenon.note_ended(t) END)
    INSERT INTO tenon.finished (finished_at, id, run_at, start_time, created_at, worker_id, claims, failures,
                                crashes, priority, outcome, queue, kind, payload, unique_key, trace,
                                last_error, result, enqueued_by)
    SELECT moment, id, run_at, start_time, created_at, worker_id, claims, failures, crashes,
           priority, 'done', queue, kind, payload, unique_key, trace, last_error, result, enqueued_by
      FROM gone;
    PERFORM tenon.claim_must_hold(claim, FOUND, fence.worker_id);
END $$;

CREATE FUNCTION tenon.finish_many(claims text[], results jsonb[] DEFAULT NULL::jsonb[], skip_lost boolean DEFAULT false) RETURNS boolean[]
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
DECLARE
    claims_max constant integer := 10000;
    moment timestamptz := clock_timestamp();
    done   boolean[];
    lost   record;
    worker uuid;
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
         WHERE t.id = ANY (ARRAY[g.id]) AND t.claims = g.claims AND t.worker_id = g.worker_id AND t.start_time = g.start_time
        RETURNING t.*, g.result, g.n, CASE WHEN tenon.needs_note(t) THEN tenon.note_ended(t) END
    ), kept AS (
        INSERT INTO tenon.finished (finished_at, id, run_at, start_time, created_at, worker_id, claims, failures,
                                    crashes, priority, outcome, queue, kind, payload, unique_key, trace,
                                    last_error, result, enqueued_by)
        SELECT moment, g.id, g.run_at, g.start_time, g.created_at, g.worker_id, g.claims, g.failures, g.crashes,
               g.priority, 'done', g.queue, g.kind, g.payload, g.unique_key, g.trace, g.last_error, g.result, g.enqueued_by
          FROM gone g
    )
    SELECT coalesce(array_agg(g.n IN (SELECT x.n FROM gone x) ORDER BY g.n), '{}') INTO done FROM given g;
    IF true = ALL (done) THEN
        RETURN done;
    END IF;
    FOR lost IN SELECT c.claim, c.n FROM unnest(claims, done) WITH ORDINALITY AS c (claim, is_done, n) WHERE NOT c.is_done LOOP
        worker := (tenon.read_claim(lost.claim)).worker_id;
        done[lost.n] := worker = '00000000-0000-0000-0000-000000000000';  -- tried by hand
        PERFORM tenon.claim_must_hold(lost.claim, false, worker) WHERE done[lost.n] OR skip_lost IS NOT TRUE;
    END LOOP;
    RETURN done;
END $$;

CREATE FUNCTION tenon.first_tick(s tenon.schedule, moment timestamp with time zone) RETURNS timestamp with time zone
    LANGUAGE plpgsql STABLE
    AS $$
DECLARE
    late timestamptz := moment - interval '1 minute';
    tick timestamptz := s.next_at;
BEGIN
    IF s.catch_up <> 'all' AND tick <= late THEN
        tick := tenon.tick_after(s, late);
        IF s.catch_up = 'last' AND tick > moment THEN
            tick := tenon.last_tick(s, moment);
        END IF;
    END IF;
    RETURN tick;
END $$;

CREATE FUNCTION tenon.flow(description jsonb) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    d    jsonb := description;
    t    record;
    made bigint;
    places integer[];
BEGIN
    PERFORM tenon.check_object('description', d, '{name,tasks,on_done,on_dead,on_end,payload}');
    t := tenon.read_tasks(d -> 'tasks');
    places := tenon.flow_order(cardinality(t.names), t.child, t.parent);
    IF cardinality(places) < cardinality(t.names) THEN
        PERFORM tenon.refuse_circle(t.names, t.child, t.parent, places);
    END IF;
    PERFORM tenon.check_callbacks(d ->> 'on_done', d ->> 'on_dead', d ->> 'on_end', coalesce(d -> 'payload', '{}'));
    made := tenon.make_flow(d ->> 'name', false, d ->> 'on_done', d ->> 'on_dead', d ->> 'on_end', coalesce(d -> 'payload', '{}'));
    PERFORM tenon.enqueue_tasks(made, d -> 'tasks', t.names, t.child, t.parent, places);
    IF tenon.publisher_sleeps((SELECT s.sleeper_key FROM tenon.setting s)) THEN
        PERFORM pg_notify('tenon', '');
    END IF;
    PERFORM pg_notify('tenon', 'settle');  -- those with limits wait for that
    RETURN made;
END $$;

CREATE FUNCTION tenon.flow(name text DEFAULT NULL::text) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    RETURN CASE WHEN name ~ '^\s*(\[\s*)?{' THEN tenon.flow(name::jsonb) ELSE tenon.make_flow(name, false) END;
END $$;

CREATE FUNCTION tenon.flow_order(n integer, child integer[], parent integer[]) RETURNS integer[]
    LANGUAGE plpgsql IMMUTABLE
    AS $$
DECLARE
    missing integer[] := array_fill(0, ARRAY[n]);  -- parents without a place
    first   integer[] := array_fill(NULL::integer, ARRAY[n]);  -- the first wait for it
    places  integer[] := '{}';
    at      integer := 1;
    e       integer;
BEGIN
    FOR e IN 1..cardinality(child) LOOP
        missing[child[e]] := missing[child[e]] + 1;
        IF first[parent[e]] IS NULL THEN
            first[parent[e]] := e;
        END IF;
    END LOOP;
    FOR i IN 1..n LOOP
        IF missing[i] = 0 THEN
            places := array_append(places, i);
        END IF;
    END LOOP;
    WHILE at <= cardinality(places) LOOP
        e := first[places[at]];
        WHILE parent[e] = places[at] LOOP
            missing[child[e]] := missing[child[e]] - 1;
            IF missing[child[e]] = 0 THEN
                places := array_append(places, child[e]);
            END IF;
            e := e + 1;
        END LOOP;
        at := at + 1;
    END LOOP;
    RETURN places;
END $$;

CREATE FUNCTION tenon.grant_acts(role text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    EXECUTE format('GRANT EXECUTE ON FUNCTION tenon.change, tenon.retry, tenon.cancel_all, tenon.delete, tenon.run_now, tenon.set, tenon.pause, tenon.resume, tenon.set_queue, tenon.set_kind TO %I', role);
END $$;

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
    EXECUTE format('GRANT SELECT (id) ON tenon.flow_note TO %I', role);
    EXECUTE format('GRANT SELECT (settled, until) ON tenon.waiting TO %I', role);
    EXECUTE format('GRANT SELECT (settled) ON tenon.signal TO %I', role);
    EXECUTE format('GRANT SELECT ON tenon.lock TO %I', role);
    PERFORM tenon.grant_home(role, false);
    EXECUTE format('GRANT SELECT (due_at) ON tenon.schedule TO %I', role);
    EXECUTE format('GRANT EXECUTE ON FUNCTION tenon.run_schedules TO %I', role);
    EXECUTE format('GRANT UPDATE (leader_key, sleeper_key) ON tenon.setting TO %I', role);
    EXECUTE format('GRANT EXECUTE ON FUNCTION tenon.requeue, tenon.settle, tenon.settle_all, tenon.limits_due_ms, tenon.make_partitions, tenon.drop_history, tenon.purge, tenon.random_key, tenon.is_span TO %I', role);
    -- for /metrics: how many, and how long; no payload and no result of what has ended
    EXECUTE format('GRANT EXECUTE ON FUNCTION tenon.queue_names, tenon.ended_tids TO %I', role);
    EXECUTE format('GRANT SELECT (ctid, id, queue, kind, created_at, run_at, start_time, finished_at) ON tenon.finished TO %I', role);
    EXECUTE format('GRANT SELECT (queue, dead_at) ON tenon.dead TO %I', role);
    EXECUTE format('GRANT SELECT (name, paused, strict, running) ON tenon.limit TO %I', role);
    EXECUTE format('GRANT SELECT (key, state) ON tenon.limit_task TO %I', role);
    EXECUTE format('GRANT SELECT (task) ON tenon.flow_wait TO %I', role);
    EXECUTE format('GRANT SELECT (ended_at) ON tenon.flow TO %I', role);
END $$;

CREATE FUNCTION tenon.grant_flows(role text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    EXECUTE format('GRANT EXECUTE ON FUNCTION tenon.flow(text), tenon.flow(jsonb), tenon.batch, tenon.close, tenon.cancel_flow, tenon.parent_results(bigint), tenon.parent_results(text) TO %I', role);
END $$;

CREATE FUNCTION tenon.grant_home(role text, adopts boolean) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    EXECUTE format('GRANT EXECUTE ON FUNCTION tenon.copied TO %I', role);
    IF adopts THEN
        EXECUTE format('GRANT EXECUTE ON FUNCTION tenon.adopt TO %I', role);
    END IF;
END $$;

CREATE FUNCTION tenon.grant_limits(role text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    EXECUTE format('GRANT EXECUTE ON FUNCTION tenon.set_limit, tenon.drop_limit, tenon.pause_limit, tenon.resume_limit, tenon.limit_take TO %I', role);
END $$;

CREATE FUNCTION tenon.grant_lists(role text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    EXECUTE format('GRANT EXECUTE ON FUNCTION tenon.find, tenon.list, tenon.count_tasks, tenon.error_line, tenon.why, tenon.why_of, tenon.handled, tenon.demand, tenon.slots_wanted, tenon.ended_tids, tenon.rate_seen, tenon.backlog_seen TO %I', role);
END $$;

CREATE FUNCTION tenon.grant_operator(role text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    PERFORM tenon.grant_reader(role);
    EXECUTE format('GRANT INSERT, UPDATE, DELETE ON tenon.queue, tenon.kind TO %I', role);
    EXECUTE format('GRANT EXECUTE ON FUNCTION tenon.is_retry, tenon.retry_parts, tenon.is_span TO %I', role);  -- of the checks there
    EXECUTE format('GRANT UPDATE (payload_bytes_max, history_keep, history_rows_max, exchange, cancel_own, attempt_keep, dead_keep, signal_keep, on_dead) ON tenon.setting TO %I', role);
    EXECUTE format('GRANT DELETE ON tenon.dead TO %I', role);
    EXECUTE format('GRANT EXECUTE ON FUNCTION tenon.enqueue, tenon.enqueue_routed, tenon.enqueue_many, tenon.route_of, tenon.mine, tenon.cancel, tenon.signal TO %I', role);
    EXECUTE format('GRANT EXECUTE ON FUNCTION tenon.set_schedule, tenon.drop_schedule, tenon.pause_schedule, tenon.resume_schedule, tenon.run_schedule_now, tenon.sync_schedules TO %I', role);
    PERFORM tenon.grant_acts(role);
    PERFORM tenon.grant_home(role, true);
    PERFORM tenon.grant_flows(role);
    PERFORM tenon.grant_limits(role);
END $$;

CREATE FUNCTION tenon.grant_producer(role text, queues text[] DEFAULT NULL::text[], kinds text[] DEFAULT NULL::text[]) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_variable
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA tenon TO %I', role);
    EXECUTE format('GRANT SELECT ON tenon.migration TO %I', role);
    EXECUTE format('GRANT EXECUTE ON FUNCTION tenon.enqueue, tenon.enqueue_routed, tenon.enqueue_many, tenon.route_of, tenon.mine, tenon.cancel, tenon.finish, tenon.finish_many, tenon.progress, tenon.extend, tenon.limit_take, tenon.step, tenon.steps, tenon.wait_for, tenon.signal, tenon.await, tenon.result TO %I', role);
    PERFORM tenon.grant_flows(role);
    DELETE FROM tenon.producer p WHERE p.role = quote_ident(role)::regrole;
    IF queues IS NOT NULL OR kinds IS NOT NULL THEN
        INSERT INTO tenon.producer VALUES (quote_ident(role)::regrole, queues, kinds);
    END IF;
END $$;

CREATE FUNCTION tenon.grant_reader(role text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA tenon TO %I', role);
    EXECUTE format('GRANT SELECT ON ALL TABLES IN SCHEMA tenon TO %I', role);
    EXECUTE format('GRANT EXECUTE ON FUNCTION tenon.queue_names, tenon.next_tick, tenon.limit_rule, tenon.await, tenon.result TO %I', role);
    PERFORM tenon.grant_lists(role);
    PERFORM tenon.grant_home(role, false);
    EXECUTE format('GRANT EXECUTE ON FUNCTION tenon.parent_results(bigint) TO %I', role);
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
    PERFORM tenon.grant_home(role, false);
    EXECUTE format('GRANT EXECUTE ON FUNCTION tenon.requeue, tenon.needs_note, tenon.note_ended, tenon.progress_kept, tenon.printed_bytes, tenon.record_steps, tenon.make_partitions, tenon.random_key, tenon.paused_kinds TO %I', role);
END $$;

CREATE FUNCTION tenon.handled(queue text, kind text, OUT workers bigint, OUT backs_off text) RETURNS record
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
    SELECT count(*), CASE WHEN bool_and(b.why IS NOT NULL)
                          THEN min(format('on worker %s (%s, pid %s): %s', w.id, w.host, w.pid, b.why)) END
      FROM tenon.worker w
      LEFT JOIN LATERAL (
           SELECT substr(line, strpos(line, ': ') + 2) AS why
             FROM unnest(string_to_array(w.backing_off, E'\n')) AS line
            WHERE $2 = ANY (string_to_array(split_part(line, ': ', 1), ','))) b ON true
     WHERE w.ended_at IS NULL AND w.state = 'alive' AND $1 = ANY (w.queues) AND $2 = ANY (w.kinds)
$_$;

CREATE FUNCTION tenon.has_tasks(flow bigint) RETURNS boolean
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $_$
    SELECT EXISTS (SELECT FROM tenon.flow_task m
                    CROSS JOIN LATERAL (SELECT FROM tenon.task t WHERE t.id = m.id OFFSET 0) t
                    WHERE m.flow = $1)
$_$;

CREATE FUNCTION tenon.hold_flow(flow bigint) RETURNS tenon.flow
    LANGUAGE plpgsql
    AS $$
DECLARE
    f tenon.flow;
BEGIN
    SELECT * INTO f FROM tenon.flow w WHERE w.id = flow FOR KEY SHARE;
    IF f.id IS NULL THEN
        PERFORM tenon.refuse('flow', coalesce(flow::text, 'NULL'), 'the number of a flow, made in this transaction or a committed one');
    ELSIF NOT tenon.may_flow(f.made_by) THEN
        RAISE EXCEPTION 'tenon: role % may not touch flow %', session_user, flow
            USING ERRCODE = 'insufficient_privilege', HINT = 'Another role made it: ask that one, or an operator.';
    END IF;
    RETURN f;
END $$;

CREATE FUNCTION tenon.hold_key(kind text, unique_key text, until timestamp with time zone) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    held bigint;
BEGIN
    FOR i IN 1..2 LOOP
        SELECT h.id INTO held FROM tenon.unique_hold h
         WHERE h.kind = hold_key.kind AND h.unique_key = hold_key.unique_key AND h.until > clock_timestamp();
        EXIT WHEN FOUND;
        INSERT INTO tenon.unique_hold AS h (kind, unique_key, until) VALUES (kind, unique_key, until)
        ON CONFLICT ON CONSTRAINT unique_hold_pkey
        DO UPDATE SET until = excluded.until, id = NULL WHERE h.until <= clock_timestamp();
        EXIT WHEN FOUND;
    END LOOP;
    RETURN held;
END $$;

CREATE FUNCTION tenon.hold_schedule(name text, source text) RETURNS tenon.schedule
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_variable
DECLARE
    s tenon.schedule;
BEGIN
    SELECT * INTO s FROM tenon.schedule t WHERE t.name = name FOR UPDATE;
    IF s.source <> source THEN
        RAISE EXCEPTION 'tenon: the schedule % is kept in step with %', name, quote_literal(s.source)
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Take it out of one of the two, or remove it first.';
    END IF;
    RETURN s;
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

CREATE TABLE tenon.home (
    one boolean DEFAULT true NOT NULL,
    system bigint,
    database oid NOT NULL,
    relation oid NOT NULL,
    name text,
    adopted_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    adopted_by text DEFAULT SESSION_USER NOT NULL,
    CONSTRAINT home_one_check CHECK (one)
);

CREATE FUNCTION tenon.home_here() RETURNS tenon.home
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    here tenon.home;
BEGIN
    here.one := true;
    here.database := (SELECT d.oid FROM pg_database d WHERE d.datname = current_database());
    here.relation := 'tenon.home'::regclass::oid;
    here.name := nullif(current_setting('tenon.home', true), '');
    here.adopted_at := clock_timestamp();
    here.adopted_by := session_user;
    here.system := (SELECT c.system_identifier FROM pg_control_system() c);
    RETURN here;
EXCEPTION WHEN insufficient_privilege THEN
    RETURN here;
END $$;

CREATE FUNCTION tenon.home_text(h tenon.home) RETURNS text
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
    SELECT concat_ws(' ', 'database', ($1).database || '/' || ($1).relation, 'of system', coalesce(($1).system::text, 'unknown'),
                     'named ' || ($1).name)
$_$;

CREATE FUNCTION tenon.is_kind(kind text) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    AS $_$ SELECT kind ~ '^[A-Za-z0-9_.:-]+$' AND length(kind) <= 100 $_$;

CREATE FUNCTION tenon.is_limit_key(key text) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    AS $_$ SELECT key ~ '^[^[:space:][:cntrl:]]+$' AND length(key) <= 200 $_$;

CREATE FUNCTION tenon.retry_parts(policy text, OUT curve text, OUT first_s double precision, OUT cap_s double precision, OUT jitter double precision) RETURNS record
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
DECLARE
    part text[] := coalesce(regexp_match(policy, '^(exponential|linear|constant)\(([^,()%]+)(?:,([^,()%]+))?(?:,\s*(\d{1,3}) ?%)?\)$'),
                            regexp_match(policy, '^(sidekiq)()(?:\(([^,()%]+)(?:,\s*(\d{1,3}) ?%)?\))?$'));
BEGIN
    IF part[1] IS NULL THEN
        RETURN;
    END IF;
    first_s := extract(epoch FROM coalesce(nullif(part[2], ''), '1 ms')::interval);
    cap_s := extract(epoch FROM coalesce(part[3]::interval, interval '30 days'));
    jitter := coalesce(part[4]::integer, CASE WHEN part[1] <> 'sidekiq' THEN 10 END) / 100.0;
    IF first_s BETWEEN 0.001 AND cap_s AND cap_s <= 2592000 AND coalesce(jitter, 0) <= 1 THEN
        curve := part[1];
    END IF;
EXCEPTION WHEN invalid_datetime_format OR datetime_field_overflow OR interval_field_overflow THEN
    RETURN;
END $_$;

CREATE FUNCTION tenon.is_retry(policy text) RETURNS boolean
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    RETURN ((policy IS NULL) OR ((tenon.retry_parts(policy)).curve IS NOT NULL));

CREATE FUNCTION tenon.join_flow(ids bigint[], flow bigint, after bigint[], waits bigint[], on_parent_dead text) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
#variable_conflict use_variable
BEGIN
    INSERT INTO tenon.flow_task (id, flow, parents) SELECT i, flow, nullif(after, '{}') FROM unnest(ids) i;
    IF waits IS NULL THEN
        IF after <> '{}' THEN
            PERFORM tenon.fill_parents(ids);
        END IF;
        RETURN false;
    ELSIF cardinality(ids)::bigint * cardinality(waits) > 1000000 THEN
        PERFORM tenon.refuse('after', format('of %s elements for %s tasks', cardinality(waits), cardinality(ids)),
                             'an array so that tasks times parents are at most 1000000 in one call');
    END IF;
    INSERT INTO tenon.flow_wait (task, parent, on_dead)
    SELECT i, w, coalesce(on_parent_dead, 'wait') FROM unnest(ids) i CROSS JOIN unnest(waits) w;
    IF NOT EXISTS (SELECT FROM unnest(waits) w
                    CROSS JOIN LATERAL (SELECT t.flow FROM tenon.flow_task t WHERE t.id = w LIMIT 1) m
                    CROSS JOIN LATERAL (SELECT f.made_in, f.made_at FROM tenon.flow f WHERE f.id = m.flow LIMIT 1) f
                    WHERE (f.made_in, f.made_at) IS DISTINCT FROM (pg_current_xact_id(), now())) THEN
        RETURN false;
    END IF;
    INSERT INTO tenon.flow_note (flow, task) SELECT flow, i FROM unnest(ids) i;
    RETURN true;
END $$;

CREATE FUNCTION tenon.join_holder(a tenon.again, patience interval) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    held tenon.task;
    b    tenon.again;
    blocks boolean;
BEGIN
    SELECT t.* INTO held FROM tenon.task t WHERE t.unique_key = a.unique_key AND t.kind = a.kind;
    b := tenon.joined(a, tenon.as_again(held));
    IF b.kind IS NULL THEN
        RETURN false;  -- not even locked, which would keep another's task from starting
    END IF;
    SELECT t.* INTO held FROM tenon.task t
     WHERE t.unique_key = a.unique_key AND t.kind = a.kind AND t.start_time IS NULL
       AND (patience IS NULL OR t.run_at > clock_timestamp() - patience)
       FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    b := tenon.joined(a, tenon.as_again(held));
    IF b.kind IS NULL OR held.steps IS NOT NULL THEN
        RETURN false;
    END IF;
    blocks := held.wanted_at IS NOT NULL OR held.limit_keys IS NOT NULL AND b.run_at > clock_timestamp();
    IF (b.payload, b.run_at) IS DISTINCT FROM (held.payload, coalesce(held.wanted_at, held.run_at))
       OR b.start_before IS DISTINCT FROM held.start_before THEN
        UPDATE tenon.task t
           SET payload = b.payload, payload_bytes = b.payload_bytes, start_before = b.start_before,
               run_at = CASE WHEN blocks THEN 'infinity' ELSE b.run_at END,
               wanted_at = CASE WHEN t.wanted_at = 'infinity' THEN t.wanted_at WHEN blocks THEN b.run_at END, delayed = NOT blocks
         WHERE t.id = held.id;
        IF held.limit_keys IS NOT NULL THEN
            PERFORM tenon.limited_changed(ARRAY[held.id]);
        END IF;
    END IF;
    RETURN true;
END $$;

CREATE FUNCTION tenon.joined(a tenon.again, b tenon.again) RETURNS tenon.again
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    s    tenon.setting;
    held timestamptz := b.run_at;
BEGIN
    SELECT * INTO s FROM tenon.setting;
    IF s.cancel_own AND a.enqueued_by <> b.enqueued_by OR s.confined AND a.queue <> b.queue
       OR b.start_before <= clock_timestamp() THEN
        RETURN NULL;
    END IF;
    IF a.on_conflict = 'replace' THEN
        b.payload := a.payload;
        b.payload_bytes := a.payload_bytes;
        b.run_at := a.run_at;
        b.start_before := a.start_before;
    ELSIF a.on_conflict = 'merge' THEN
        b.payload := b.payload || a.payload;
        b.payload_bytes := octet_length(b.payload::text);
        IF b.payload_bytes > s.payload_bytes_max THEN
            RETURN NULL;
        END IF;
    END IF;
    IF a.on_conflict <> 'replace' THEN  -- the later of the two; NULL is latest
        b.start_before := CASE WHEN a.start_before IS NOT NULL AND b.start_before IS NOT NULL THEN greatest(b.start_before, a.start_before) END;
    END IF;
    IF a.debounce IS NOT NULL THEN
        b.run_at := a.run_at;
    END IF;
    IF a.debounce_max IS NOT NULL THEN  -- what is overdue by that comes now, or keeps its place: it does not get ahead of others
        b.run_at := least(a.run_at, greatest(b.created_at + a.debounce_max, least(held, a.created_at)));
    END IF;
    RETURN b;
END $$;

CREATE FUNCTION tenon.last_tick(s tenon.schedule, moment timestamp with time zone) RETURNS timestamp with time zone
    LANGUAGE plpgsql STABLE
    AS $$
DECLARE
    low  timestamptz := s.next_at;  -- a tick
    high timestamptz := moment;     -- no tick after it
    mid  timestamptz;
    tick timestamptz := tenon.tick_after(s, low);
BEGIN
    WHILE tick <= moment LOOP
        low := tick;
        mid := low + (high - low) / 2;
        tick := tenon.tick_after(s, mid);
        IF tick <= moment THEN
            low := tick;
        ELSE
            high := mid;
        END IF;
        tick := tenon.tick_after(s, low);
    END LOOP;
    RETURN low;
END $$;

CREATE FUNCTION tenon.limit_admit(keys text[], most integer) RETURNS bigint[]
    LANGUAGE plpgsql
    AS $$
DECLARE
    mine  text[] := tenon.lock_rates(keys);
    rooms tenon.limit_room[];
    free  tenon.limit_room[];
    heads tenon.limit_head[];
    each  integer := greatest(1, most / greatest(1, cardinality(keys)));
    s     text;
    freed bigint[];
BEGIN
    rooms := ARRAY(SELECT r FROM tenon.limit_rooms(keys, mine) r);
    free := ARRAY(SELECT ROW(r.key, least(r.room, each), r.strict, r.share, r.weight, r.due_at, r.why)::tenon.limit_room
                    FROM unnest(rooms) r WHERE r.share IS NULL AND r.room > 0);
    heads := ARRAY(SELECT h FROM tenon.limit_heads(free) h);  -- with a variable it becomes a part of the statement
    freed := tenon.limit_admit_heads(heads);
    IF freed <> '{}' AND EXISTS (SELECT FROM unnest(rooms) r WHERE r.room > each AND r.share IS NULL) THEN
        INSERT INTO tenon.limit_event (keys)
        SELECT array_agg(d.key) FROM (SELECT h.key FROM unnest(heads) h JOIN unnest(rooms) r ON r.key = h.key AND r.room > each
                                       GROUP BY h.key HAVING count(*) = each) d HAVING count(*) > 0;
    END IF;
    PERFORM tenon.limit_note_due(rooms);
    IF EXISTS (SELECT FROM tenon.limit_turn) OR EXISTS (SELECT FROM unnest(rooms) r WHERE r.share IS NOT NULL) THEN
        DELETE FROM tenon.limit_turn t WHERE t.key = ANY (ARRAY(SELECT r.key FROM unnest(rooms) r WHERE r.share IS NULL));
        FOR s IN SELECT DISTINCT r.share FROM unnest(rooms) r WHERE r.share IS NOT NULL ORDER BY 1 LOOP
            freed := freed || tenon.limit_admit_share(s, rooms);
        END LOOP;
    END IF;
    RETURN freed;
END $$;

CREATE FUNCTION tenon.limit_admit_heads(heads tenon.limit_head[]) RETURNS bigint[]
    LANGUAGE plpgsql
    AS $$
DECLARE
    free   bigint[] := tenon.unblock(ARRAY(SELECT h.task_id FROM unnest(heads) h WHERE h.alone));
    locked text[] := ARRAY(SELECT h.key FROM unnest(heads) h WHERE h.alone AND h.task_id <> ALL (free));
    h      tenon.limit_head;
BEGIN
    UPDATE tenon.limit_task SET state = 'held' WHERE ctid = ANY (ARRAY(
        SELECT l.ctid FROM unnest(heads) d
         CROSS JOIN LATERAL (SELECT t.ctid FROM tenon.limit_task t WHERE t.key = d.key AND t.task_id = d.task_id OFFSET 0) l
         WHERE d.alone AND d.task_id = ANY (free)));
    IF locked <> '{}' THEN
        PERFORM tenon.limit_again(locked, clock_timestamp() + interval '50 ms', 'another transaction has locked its first task');
    END IF;
    FOR h IN SELECT * FROM unnest(heads) d WHERE NOT d.alone LOOP
        free := free || tenon.limit_admit_several(h);
    END LOOP;
    RETURN free;
END $$;

CREATE FUNCTION tenon.limit_admit_several(head tenon.limit_head) RETURNS bigint[]
    LANGUAGE plpgsql
    AS $$
DECLARE
    keys    text[] := (SELECT t.limit_keys FROM tenon.task t WHERE t.id = head.task_id);
    mine    text[] := tenon.lock_rates(keys);  -- by itself: the next statement sees what was committed before
    stopped tenon.limit_room;
BEGIN
    SELECT r.* INTO stopped FROM tenon.limit_rooms(keys, mine) r
     WHERE r.room = 0
        OR r.strict AND head.task_id <> (SELECT l.task_id FROM tenon.limit_task l WHERE l.key = r.key ORDER BY l.task_id LIMIT 1)
        OR r.share IS NOT NULL AND r.key <> head.key AND tenon.limit_free(r.share) = 0
     ORDER BY r.key <> head.key LIMIT 1;
    IF stopped.key IS NULL THEN
        IF tenon.unblock(ARRAY[head.task_id]) <> '{}' THEN
            UPDATE tenon.limit_task l SET state = 'held' WHERE l.key = ANY (keys) AND l.task_id = head.task_id;
            RETURN ARRAY[head.task_id];
        END IF;
        PERFORM tenon.limit_again(ARRAY[head.key], clock_timestamp() + interval '50 ms', format('another transaction has locked task %s', head.task_id));
    ELSIF stopped.key <> head.key THEN
        UPDATE tenon.limit_task l
           SET state = CASE WHEN l.key = stopped.key THEN 'waits' WHEN l.key = tenon.limit_first(keys) THEN 'parked' ELSE 'elsewhere' END
         WHERE l.key IN (stopped.key, head.key) AND l.task_id = head.task_id;
        INSERT INTO tenon.limit_event (keys) VALUES (ARRAY[stopped.key]), (ARRAY[head.key]);
    END IF;
    RETURN '{}';
END $$;

CREATE FUNCTION tenon.limit_admit_share(share text, rooms tenon.limit_room[]) RETURNS bigint[]
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
DECLARE
    free  integer := tenon.limit_free(limit_admit_share.share);
    next  text[];
    mine  text[];
    heads tenon.limit_head[];
    freed bigint[];
    left_ integer;
BEGIN
    PERFORM tenon.limit_take_part(limit_admit_share.share, rooms);
    next := ARRAY(SELECT t.key FROM tenon.limit_turn t WHERE t.share = limit_admit_share.share AND t.active ORDER BY t.pass LIMIT free);
    mine := tenon.lock_rates(next);
    rooms := ARRAY(SELECT ROW(r.key, least(r.room, free), r.strict, r.share, r.weight, r.due_at, r.why)::tenon.limit_room
                     FROM tenon.limit_rooms(next, mine) r);
    heads := ARRAY(SELECT ROW(h.key, h.task_id, h.alone, h.priority, h.wanted_at)::tenon.limit_head
                     FROM (SELECT i.*, row_number() OVER (PARTITION BY i.key ORDER BY i.priority DESC, i.wanted_at, i.task_id) AS nth
                             FROM tenon.limit_heads(rooms) i) h
                     JOIN unnest(rooms) r ON r.key = h.key
                    CROSS JOIN LATERAL (SELECT u.pass FROM tenon.limit_turn u WHERE u.key = h.key OFFSET 0) t
                    ORDER BY t.pass + h.nth::double precision / r.weight, h.key LIMIT free);
    freed := tenon.limit_admit_heads(heads);
    UPDATE tenon.limit_turn t
       SET pass = t.pass + (SELECT count(*)::double precision / min(r.weight) FROM unnest(heads) d JOIN unnest(rooms) r ON r.key = d.key WHERE d.key = t.key)
     WHERE t.key = ANY (ARRAY(SELECT d.key FROM unnest(heads) d));
    PERFORM tenon.limit_note_due(rooms);
    left_ := tenon.limit_leave(rooms);
    -- others' turn, if these did not take all; and again in a second, should no end tell
    INSERT INTO tenon.limit_event (keys)
    SELECT ARRAY[t.key] FROM tenon.limit_turn t
     WHERE t.share = limit_admit_share.share AND t.active AND left_ > 0 AND cardinality(freed) < free ORDER BY t.pass LIMIT 1;
    PERFORM tenon.limit_again(ARRAY(SELECT t.key FROM tenon.limit_turn t WHERE t.share = limit_admit_share.share AND t.active LIMIT 1),
                              clock_timestamp() + interval '1 second', NULL);
    RETURN freed;
END $$;

CREATE FUNCTION tenon.limit_again(keys text[], at timestamp with time zone, why text) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO tenon.limit_due AS d (key, due_at, why) SELECT DISTINCT k, limit_again.at, limit_again.why FROM unnest(keys) k
    ON CONFLICT ON CONSTRAINT limit_due_pkey DO UPDATE SET due_at = least(d.due_at, excluded.due_at), why = excluded.why;
END $$;

CREATE TABLE tenon.limit_event (
    id bigint NOT NULL,
    keys text[] NOT NULL,
    task_id bigint,
    start_time timestamp with time zone,
    hold_until timestamp with time zone,
    enters boolean,
    changed boolean
)
WITH (autovacuum_vacuum_scale_factor='0.01', autovacuum_vacuum_cost_delay='0');

CREATE FUNCTION tenon.limit_back(events tenon.limit_event[]) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO tenon.limit_task (key, task_id, state, alone, priority, wanted_at)
    SELECT k, t.id, 'elsewhere', cardinality(e.keys) = 1, t.priority, t.wanted_at
      FROM unnest(events) e CROSS JOIN LATERAL unnest(e.keys) k CROSS JOIN LATERAL (SELECT * FROM tenon.task t WHERE t.id = e.task_id OFFSET 0) t
     WHERE e.enters AND t.wanted_at IS NOT NULL
    ON CONFLICT DO NOTHING;
    WITH old AS MATERIALIZED (
        SELECT DISTINCT o.at, o.key = tenon.limit_first(o.keys) AS first, t.priority,
               CASE WHEN o.state = 'ending' THEN greatest(o.wanted_at, t.wanted_at)
                    WHEN t.wanted_at > clock_timestamp() THEN t.wanted_at ELSE least(o.wanted_at, t.wanted_at) END AS wanted_at
          FROM tenon.limit_rows(events) o
         CROSS JOIN LATERAL (SELECT * FROM tenon.task t WHERE t.id = o.task_id AND t.wanted_at IS NOT NULL OFFSET 0) t)
    UPDATE tenon.limit_task l
       SET state = CASE WHEN NOT o.first THEN 'elsewhere' WHEN o.wanted_at > clock_timestamp() THEN 'later' ELSE 'waits' END,
           priority = o.priority, wanted_at = o.wanted_at
      FROM old o WHERE l.ctid = o.at;
END $$;

CREATE FUNCTION tenon.limit_came_due(most integer) RETURNS text[]
    LANGUAGE plpgsql
    AS $$
DECLARE
    moment timestamptz := clock_timestamp();
    keys   text[];
BEGIN
    WITH due AS (
        SELECT l.ctid AS at, l.state FROM tenon.limit_task l
         WHERE l.state IN ('later', 'ending') AND l.wanted_at <= moment ORDER BY l.wanted_at LIMIT most
    ), came AS (
        UPDATE tenon.limit_task l SET state = 'waits' WHERE l.ctid = ANY (ARRAY(SELECT d.at FROM due d WHERE d.state = 'later')) RETURNING l.key
    ), over AS (
        DELETE FROM tenon.limit_task l WHERE l.ctid = ANY (ARRAY(SELECT d.at FROM due d WHERE d.state = 'ending')) RETURNING l.key
    ), again AS (
        DELETE FROM tenon.limit_due WHERE key = ANY (ARRAY(
            SELECT d.key FROM tenon.limit_due d WHERE d.due_at <= moment ORDER BY d.due_at LIMIT most)) RETURNING key
    )
    SELECT array_agg(c.key) INTO keys FROM (SELECT key FROM came UNION SELECT key FROM over UNION SELECT key FROM again) c;
    RETURN coalesce(keys, '{}');
END $$;

CREATE FUNCTION tenon.limit_changed(name text, there boolean) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    target text := substr(name, strpos(name, '/') + 1);
BEGIN
    IF name LIKE 'kind/%' AND there THEN
        INSERT INTO tenon.kind AS k (name, limited) VALUES (target, true)
        ON CONFLICT ON CONSTRAINT kind_pkey DO UPDATE SET limited = true WHERE NOT k.limited;
    ELSIF name LIKE 'kind/%' THEN
        UPDATE tenon.kind k SET limited = false WHERE k.name = target AND k.limited;
    ELSIF name LIKE 'queue/%' AND there THEN
        INSERT INTO tenon.queue AS q (name, limited) VALUES (target, true)
        ON CONFLICT ON CONSTRAINT queue_pkey DO UPDATE SET limited = true WHERE NOT q.limited;
    ELSIF name LIKE 'queue/%' THEN
        UPDATE tenon.queue q SET limited = false WHERE q.name = target AND q.limited;
    END IF;
    INSERT INTO tenon.limit_event (keys, changed) VALUES (ARRAY[name], true);
    PERFORM pg_notify('tenon', 'settle');
END $$;

CREATE FUNCTION tenon.limit_count_starts(events tenon.limit_event[]) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO tenon.limit_start (key, at, n)
    SELECT k.key, e.start_time, 1 FROM unnest(events) e CROSS JOIN LATERAL unnest(e.keys) k (key) CROSS JOIN LATERAL tenon.limit_rule(k.key) r
     WHERE e.start_time IS NOT NULL AND r.rate IS NOT NULL;
    DELETE FROM tenon.limit_start WHERE ctid = ANY (ARRAY(
        SELECT o.ctid FROM (SELECT DISTINCT u.key FROM unnest(events) e CROSS JOIN LATERAL unnest(e.keys) u (key)) k
         CROSS JOIN LATERAL tenon.limit_rule(k.key) r
         CROSS JOIN LATERAL (SELECT clock_timestamp() - tenon.limit_kept(k.key) AS old OFFSET 0) w
         CROSS JOIN LATERAL (SELECT s.ctid FROM tenon.limit_start s WHERE s.key = k.key AND s.at < w.old LIMIT 1000 FOR UPDATE SKIP LOCKED) o
         WHERE r.rate IS NOT NULL));
END $$;

CREATE FUNCTION tenon.limit_end() RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
    ended text;
BEGIN
    FOR ended IN SELECT l.name FROM tenon.limit l WHERE l.until <= clock_timestamp() FOR UPDATE SKIP LOCKED LOOP
        IF tenon.lock_limited(ended) THEN
            DELETE FROM tenon.limit l WHERE l.name = ended AND NOT l.paused;
            PERFORM tenon.limit_changed(ended, NOT FOUND);
            UPDATE tenon.limit l SET running = NULL, rate = NULL, per = NULL, strict = NULL, on_dead = NULL, fair = NULL, weight = NULL, until = NULL
             WHERE l.name = ended;
        END IF;
    END LOOP;
END $$;

CREATE FUNCTION tenon.limit_ended(most integer) RETURNS text[]
    LANGUAGE plpgsql
    AS $$
DECLARE
    events tenon.limit_event[];
    keys   text[];
BEGIN
    WITH gone AS (
        DELETE FROM tenon.limit_event WHERE id = ANY (ARRAY(SELECT v.id FROM tenon.limit_event v ORDER BY v.id LIMIT most)) RETURNING *)
    SELECT array_agg(ROW(g.*)::tenon.limit_event ORDER BY g.id) INTO events FROM gone g;
    IF EXISTS (SELECT FROM unnest(events) e WHERE e.task_id IS NOT NULL) THEN
        PERFORM tenon.limit_settle_ends(ARRAY(SELECT e FROM unnest(events) e WHERE e.task_id IS NOT NULL));
    END IF;
    keys := ARRAY(SELECT DISTINCT k.key FROM unnest(events) e CROSS JOIN unnest(e.keys) k (key));
    IF EXISTS (SELECT FROM unnest(events) e WHERE e.changed) THEN
        PERFORM tenon.limit_spread(e.keys[1], e.keys[2], most) FROM unnest(events) e WHERE e.changed;
        keys := keys || tenon.limit_ended(most);
    END IF;
    RETURN keys;
END $$;

CREATE FUNCTION tenon.limit_first(keys text[]) RETURNS text
    LANGUAGE sql STABLE
    AS $_$
    SELECT CASE WHEN cardinality($1) = 1 THEN $1[1]
                ELSE (SELECT k.key FROM unnest($1) WITH ORDINALITY k (key, place) CROSS JOIN LATERAL tenon.limit_rule(k.key) r
                       ORDER BY r.running, k.place LIMIT 1) END
$_$;

CREATE FUNCTION tenon.limit_free(share text) RETURNS integer
    LANGUAGE sql STABLE
    AS $_$
    SELECT greatest(0, 8 + 2 * (SELECT coalesce(sum(w.slots), 0) FROM tenon.worker w WHERE w.ended_at IS NULL AND w.state = 'alive')
                       - (SELECT count(*) FROM tenon.limit_task l CROSS JOIN LATERAL (SELECT o.start_time FROM tenon.task o WHERE o.id = l.task_id OFFSET 0) t
                           WHERE l.state IN ('held', 'ending') AND l.key >= $1 AND l.key < $1 || ';' AND split_part(l.key, ':', 1) = $1
                             AND t.start_time IS NULL))::integer
$_$;

CREATE FUNCTION tenon.limit_heads(rooms tenon.limit_room[]) RETURNS SETOF tenon.limit_head
    LANGUAGE sql STABLE
    AS $$
    SELECT r.key, c.task_id, c.alone, c.priority, c.wanted_at
      FROM unnest(rooms) r
     CROSS JOIN LATERAL (
           (SELECT l.task_id, l.alone, l.priority, l.wanted_at FROM tenon.limit_task l
             WHERE NOT r.strict AND l.key = r.key AND l.state = 'waits'
             ORDER BY l.priority DESC, l.wanted_at, l.task_id
             LIMIT least(r.room, 100 + r.room - (SELECT count(*) FROM (SELECT FROM tenon.limit_task p WHERE p.key = r.key AND p.state = 'parked'
                                                                        LIMIT 100 + r.room) p)))
           UNION ALL
           (SELECT h.task_id, h.alone, h.priority, h.wanted_at
              FROM (SELECT * FROM tenon.limit_task l WHERE r.strict AND r.room > 0 AND l.key = r.key ORDER BY l.task_id LIMIT 1) h
             WHERE h.state = 'waits')) c
$$;

CREATE FUNCTION tenon.limit_in_way(key text, OUT paused boolean, OUT sentence text, OUT advice text) RETURNS record
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $_$
    SELECT r.paused, CASE WHEN r.paused THEN format('it is paused%s%s', ' by ' || p.paused_by, ': ' || p.paused_why)
                WHEN d.why IS NOT NULL THEN d.why
                WHEN r.strict THEN concat_ws(', ', 'its tasks run one after the other', 'and the dead task ' || x.dead || ' blocks them', e.ending)
                ELSE concat_ws(', ', r.running || ' at once', r.rate || ' per ' || r.per,
                               CASE WHEN r.share IS NOT NULL THEN 'fair to all ' || r.share || ' keys' END, e.ending) END,
           CASE WHEN r.paused THEN format('tenon limit resume %s', p.name)
                WHEN x.dead IS NOT NULL THEN format('tenon retry %s, or tenon delete %s', x.dead, x.dead)
                WHEN r.strict THEN format('tenon limit show %s', $1)
                ELSE format('tenon limit show %s', $1) || coalesce('; to let more go: ' || tenon.limit_raised($1, r.running), '') END
      FROM tenon.limit_rule($1) r
      CROSS JOIN LATERAL (SELECT CASE WHEN r.strict AND r.on_dead = 'block' THEN (
           SELECT l.task_id FROM tenon.limit_task l WHERE l.key = $1 AND l.state = 'dead' ORDER BY l.task_id LIMIT 1) END AS dead) x
      CROSS JOIN LATERAL (
           SELECT CASE WHEN count(*) > 0 THEN format('%s of them cancelled, counted until %s', count(*), to_char(max(l.wanted_at) AT TIME ZONE 'UTC', 'HH24:MI:SS "UTC"')) END AS ending
             FROM tenon.limit_task l WHERE r.running IS NOT NULL AND l.key = $1 AND l.state IN ('held', 'ending') AND l.state = 'ending') e
      LEFT JOIN tenon.limit p ON p.paused AND p.name IN ($1, split_part($1, ':', 1))
      LEFT JOIN tenon.limit_due d ON d.key = $1
     LIMIT 1
$_$;

CREATE FUNCTION tenon.limit_kept(key text) RETURNS interval
    LANGUAGE sql STABLE
    AS $_$ SELECT max(l.per) FROM tenon.limit l WHERE l.name = ANY (tenon.limit_names($1)) $_$;

CREATE FUNCTION tenon.limit_keys_of(name text, beyond text) RETURNS SETOF text
    LANGUAGE sql STABLE
    AS $_$
    WITH RECURSIVE k AS (
        (SELECT l.key FROM tenon.limit_task l WHERE l.state = 'waits' AND l.key >= $1 AND l.key > coalesce($2, '') ORDER BY l.key LIMIT 1)
        UNION ALL
        SELECT (SELECT l.key FROM tenon.limit_task l WHERE l.state = 'waits' AND l.key > k.key ORDER BY l.key LIMIT 1)
          FROM k WHERE k.key < $1 || ';')
    SELECT k.key FROM k WHERE k.key = $1 OR split_part(k.key, ':', 1) = $1 AND $1 !~ '^(kind|queue)/'
$_$;

CREATE FUNCTION tenon.limit_leave(rooms tenon.limit_room[]) RETURNS integer
    LANGUAGE plpgsql
    AS $$
DECLARE
    gone text[];
    full_ text[];
BEGIN
    gone := ARRAY(SELECT r.key FROM unnest(rooms) r
                   WHERE (SELECT l.task_id FROM tenon.limit_task l WHERE l.key = r.key AND l.state = 'waits' LIMIT 1) IS NULL);
    full_ := ARRAY(SELECT r.key FROM unnest(rooms) r WHERE r.room = 0 AND r.key <> ALL (gone));
    DELETE FROM tenon.limit_turn t WHERE t.key = ANY (gone);
    UPDATE tenon.limit_turn t SET active = false WHERE t.key = ANY (full_);
    RETURN cardinality(gone) + cardinality(full_);
END $$;

CREATE FUNCTION tenon.limit_names(key text) RETURNS text[]
    LANGUAGE sql IMMUTABLE
    AS $_$
    SELECT CASE WHEN starts_with($1, 'kind/') OR starts_with($1, 'queue/') THEN ARRAY[$1] ELSE ARRAY[$1, split_part($1, ':', 1)] END
$_$;

CREATE FUNCTION tenon.limit_note_due(rooms tenon.limit_room[]) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO tenon.limit_due AS d (key, due_at, why)
    SELECT r.key, r.due_at, r.why FROM unnest(rooms) r
     WHERE r.due_at IS NOT NULL AND (SELECT l.task_id FROM tenon.limit_task l WHERE l.key = r.key AND l.state = 'waits' LIMIT 1) IS NOT NULL
    ON CONFLICT (key) DO UPDATE SET due_at = least(d.due_at, excluded.due_at), why = excluded.why;
END $$;

CREATE FUNCTION tenon.limit_raised(key text, running integer) RETURNS text
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $_$
    SELECT concat_ws(' ', 'tenon limit set', l.name,
               '--running ' || CASE WHEN l.is_full THEN least(l.running * 2, 1000000) ELSE l.running END,
               '--starts ' || CASE WHEN l.is_full THEN l.rate ELSE least(l.rate * 2, 10000) END || CASE WHEN l.ms % 1000 = 0 THEN format('/%ss', l.ms / 1000) ELSE format('/%sms', l.ms) END,
               CASE WHEN l.fair THEN '--fair' END, '--weight ' || l.weight,
               '--until ' || to_char(l.until AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'))
      FROM (SELECT r.*, h.is_full, (extract(epoch FROM r.per) * 1000)::bigint AS ms
              FROM (SELECT count(*) >= $2 AS is_full
                      FROM (SELECT FROM tenon.limit_task h WHERE h.key = $1 AND h.state IN ('held', 'ending') LIMIT coalesce($2, 0)) h) h
             CROSS JOIN tenon.limit r
             WHERE r.name = ANY (tenon.limit_names($1)) AND CASE WHEN h.is_full THEN r.running IS NOT NULL ELSE r.rate IS NOT NULL END
               AND coalesce(r.until > statement_timestamp(), true)
             ORDER BY r.name = $1 DESC LIMIT 1) l
     WHERE num_nonnulls(l.strict, l.on_dead) = 0 AND l.fair IS NOT FALSE
$_$;

CREATE FUNCTION tenon.limit_rooms(keys text[], mine text[]) RETURNS SETOF tenon.limit_room
    LANGUAGE sql STABLE
    AS $$
    SELECT k.key, CASE WHEN r.paused OR o.taken IS NOT NULL THEN 0 ELSE greatest(0, least(100000, r.running - h.n, r.rate - u.n)) END::integer,
           r.strict, r.share, r.weight,
           CASE WHEN o.taken IS NOT NULL THEN clock_timestamp() + interval '20 ms'
                WHEN r.rate IS NOT NULL THEN greatest(least(u.first, clock_timestamp()) + r.per, clock_timestamp() + interval '10 ms') END,
           'another transaction has locked the limit ' || o.taken
      FROM unnest(keys) k (key)
     CROSS JOIN LATERAL tenon.limit_rule(k.key) r
     CROSS JOIN LATERAL (SELECT min(l.name) AS taken FROM tenon.limit l
                          WHERE r.rate IS NOT NULL AND l.name = ANY (tenon.limit_names(k.key)) AND l.name <> ALL (mine)) o
     CROSS JOIN LATERAL (SELECT count(*) AS n FROM tenon.limit_task l
                          WHERE r.running IS NOT NULL AND l.key = k.key AND l.state IN ('held', 'ending')) h
     CROSS JOIN LATERAL (SELECT clock_timestamp() - r.per AS since OFFSET 0) w
     CROSS JOIN LATERAL (SELECT coalesce(sum(x.n), 0) AS n, min(x.at) AS first FROM tenon.limit_used(k.key, w.since) x
                          WHERE r.rate IS NOT NULL) u
$$;

CREATE FUNCTION tenon.limit_rows(events tenon.limit_event[]) RETURNS TABLE(at tid, key text, keys text[], task_id bigint, state text, wanted_at timestamp with time zone, hold_until timestamp with time zone)
    LANGUAGE sql STABLE
    AS $_$
    SELECT l.ctid, k.key, e.keys, e.task_id, l.state, l.wanted_at, e.hold_until
      FROM unnest($1) e CROSS JOIN LATERAL unnest(e.keys) k (key)
     CROSS JOIN LATERAL (SELECT t.ctid, t.state, t.wanted_at FROM tenon.limit_task t
                          WHERE t.key = k.key AND t.task_id = e.task_id OFFSET 0) l
$_$;

CREATE FUNCTION tenon.limit_rule(key text) RETURNS TABLE(rule text, running integer, rate integer, per interval, strict boolean, on_dead text, share text, weight integer, paused boolean, until timestamp with time zone)
    LANGUAGE sql STABLE
    AS $_$
    SELECT coalesce(o.name, b.name), CASE WHEN coalesce(o.strict, b.strict) THEN 1 ELSE coalesce(o.running, b.running) END,
           coalesce(o.rate, b.rate), coalesce(o.per, b.per),
           coalesce(o.strict, b.strict, false), coalesce(o.on_dead, b.on_dead, 'block'),
           CASE WHEN coalesce(o.fair, b.fair) THEN split_part(k.key, ':', 1) END, coalesce(o.weight, b.weight, 1),
           coalesce(o.paused, false) OR coalesce(b.paused, false), o.until
      FROM (SELECT $1 AS key) k
      LEFT JOIN tenon.limit o ON o.name = k.key AND (coalesce(o.until > statement_timestamp(), true) OR o.paused)
      LEFT JOIN tenon.limit b ON b.name = split_part(k.key, ':', 1) AND b.name <> k.key AND NOT starts_with(k.key, 'kind/') AND NOT starts_with(k.key, 'queue/')
                             AND (coalesce(b.until > statement_timestamp(), true) OR b.paused)
$_$;

CREATE FUNCTION tenon.limit_settle_ends(events tenon.limit_event[]) RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
    gone tid[];
BEGIN
    IF EXISTS (SELECT FROM tenon.limit r WHERE r.rate IS NOT NULL) THEN
        PERFORM tenon.limit_count_starts(events);
    END IF;
    IF EXISTS (SELECT FROM unnest(events) e WHERE e.hold_until IS NOT NULL) THEN
        WITH old AS MATERIALIZED (SELECT * FROM tenon.limit_rows(events) o WHERE o.state = 'held' AND o.hold_until IS NOT NULL)
        UPDATE tenon.limit_task l SET state = 'ending', wanted_at = greatest(o.hold_until, clock_timestamp() + interval '45 s')  -- its commit may be late
          FROM old o WHERE l.ctid = o.at;
    END IF;
    IF EXISTS (SELECT FROM tenon.limit r WHERE r.strict) THEN
        WITH old AS MATERIALIZED (
            SELECT o.at FROM tenon.limit_rows(events) o CROSS JOIN LATERAL tenon.limit_rule(o.key) r
             WHERE r.strict AND r.on_dead = 'block' AND (SELECT d.id FROM tenon.dead d WHERE d.id = o.task_id) IS NOT NULL)
        UPDATE tenon.limit_task l SET state = 'dead' FROM old o WHERE l.ctid = o.at;
    END IF;
    gone := ARRAY(SELECT o.at FROM tenon.limit_rows(events) o
                   WHERE o.state <> 'ending' AND (SELECT t.id FROM tenon.task t WHERE t.id = o.task_id) IS NULL
                     AND (o.state <> 'dead' OR (SELECT d.id FROM tenon.dead d WHERE d.id = o.task_id) IS NULL
                          OR (SELECT r.strict AND r.on_dead = 'block' FROM tenon.limit_rule(o.key) r LIMIT 1) IS NOT TRUE));
    DELETE FROM tenon.limit_task l WHERE l.ctid = ANY (gone);
    IF cardinality(gone) < (SELECT sum(cardinality(e.keys)) FROM unnest(events) e) THEN
        PERFORM tenon.limit_back(events);
    END IF;
END $$;

CREATE FUNCTION tenon.limit_spread(name text, beyond text, most integer) RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
    keys text[] := ARRAY(SELECT k FROM tenon.limit_keys_of(name, beyond) k LIMIT most);
BEGIN
    INSERT INTO tenon.limit_event (keys) SELECT ARRAY[k] FROM unnest(keys) k;
    IF cardinality(keys) = most THEN
        INSERT INTO tenon.limit_event (keys, changed) VALUES (ARRAY[name, keys[most]], true);
    END IF;
    INSERT INTO tenon.limit_event (keys, task_id)
    SELECT ARRAY[l.key], l.task_id FROM tenon.limit_task l
     WHERE beyond IS NULL AND l.state = 'dead' AND l.key >= name AND l.key < name || ';'
       AND (l.key = name OR split_part(l.key, ':', 1) = name AND name !~ '^(kind|queue)/');
END $$;

CREATE FUNCTION tenon.limit_take(key text, n integer DEFAULT 1) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    SET lock_timeout TO '1 s'
    AS $$
#variable_conflict use_variable
DECLARE
    r      record;
    moment timestamptz;
    kept   interval;
    used   bigint;
BEGIN
    PERFORM tenon.check_limit_keys(ARRAY[key]);
    SELECT * INTO r FROM tenon.limit_rule(key);
    IF n IS NULL OR n NOT BETWEEN 1 AND coalesce(r.rate, 10000) THEN
        PERFORM tenon.refuse('n', n::text, format('1 to %s, the rate of %s', coalesce(r.rate, 10000), key));
    ELSIF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'tenon: limit_take in a transaction that is %', current_setting('transaction_isolation')
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Call it by itself, in a transaction of its own that is READ COMMITTED.';
    ELSIF r.paused THEN
        RETURN 1000;
    ELSIF r.rate IS NULL THEN
        RETURN 0;
    END IF;
    PERFORM FROM tenon.limit l WHERE l.name = ANY (tenon.limit_names(key)) ORDER BY l.name FOR NO KEY UPDATE;
    SELECT * INTO r FROM tenon.limit_rule(key);  -- as it is now that nobody changes it
    moment := clock_timestamp();
    used := (SELECT coalesce(sum(u.n), 0) FROM tenon.limit_used(key, moment - r.per) u);
    IF r.rate IS NOT NULL AND used > r.rate - n THEN
        RETURN tenon.limit_wait_ms(key, r.rate, r.per, n, moment - r.per);
    END IF;
    -- What is not kept any more goes, and a few more go than come. As long as takes follow each other it is never older than
    -- this: so what has gone, and an old snapshot keeps, is not read. The first after a pause reads all.
    kept := tenon.limit_kept(key);
    DELETE FROM tenon.limit_start WHERE ctid = ANY (ARRAY(
        SELECT s.ctid FROM tenon.limit_start s
         WHERE s.key = key AND s.at < moment - kept
           AND s.at > CASE WHEN used = 0 THEN '-infinity' ELSE moment - kept - greatest(kept, interval '1 s') END
         ORDER BY s.at LIMIT CASE WHEN used = 0 THEN 10000 ELSE 100 END FOR UPDATE SKIP LOCKED));
    INSERT INTO tenon.limit_start (key, at, n) VALUES (key, clock_timestamp(), n);
    RETURN 0;
EXCEPTION WHEN lock_not_available OR deadlock_detected THEN  -- of who sets several rows in another order
    RETURN 100;
END $$;

CREATE FUNCTION tenon.limit_take_part(share text, rooms tenon.limit_room[]) RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
    now_pass double precision := (SELECT t.pass FROM tenon.limit_turn t WHERE t.share = limit_take_part.share AND t.active ORDER BY t.pass LIMIT 1);
BEGIN
    INSERT INTO tenon.limit_turn AS t (key, share, pass, active)
    SELECT r.key, r.share, coalesce(floor(now_pass) + 1, 0), true FROM unnest(rooms) r
     WHERE r.share = limit_take_part.share AND r.room > 0
    ON CONFLICT (key) DO UPDATE SET share = excluded.share, pass = greatest(t.pass, now_pass), active = true
     WHERE NOT t.active OR t.share <> excluded.share;
    UPDATE tenon.limit_turn t SET active = false
     WHERE t.key = ANY (ARRAY(SELECT r.key FROM unnest(rooms) r WHERE r.share = limit_take_part.share AND r.room = 0));
END $$;

CREATE FUNCTION tenon.limit_used(key text, since timestamp with time zone) RETURNS TABLE(at timestamp with time zone, n integer)
    LANGUAGE sql STABLE
    AS $_$
    SELECT s.at, s.n FROM tenon.limit_start s WHERE s.key = $1 AND s.at > $2
    UNION ALL
    SELECT t.start_time, 1 FROM tenon.limit_task l LEFT JOIN LATERAL (SELECT o.start_time FROM tenon.task o WHERE o.id = l.task_id OFFSET 0) t ON true
     WHERE l.key = $1 AND l.state IN ('held', 'ending') AND l.state = 'held'
       AND coalesce(t.start_time > $2, true)
$_$;

CREATE FUNCTION tenon.limit_wait_ms(key text, rate integer, per interval, n integer, since timestamp with time zone) RETURNS integer
    LANGUAGE sql STABLE
    AS $_$
    SELECT coalesce((SELECT least(2147483647, greatest(1, ceil(extract(epoch FROM o.at + $3 - clock_timestamp()) * 1000)))::integer
                       FROM (SELECT u.at, sum(u.n) OVER (ORDER BY u.at DESC NULLS FIRST) AS newer FROM tenon.limit_used($1, $5) u) o
                      WHERE o.at IS NOT NULL AND o.newer > $2 - $4 ORDER BY o.at DESC LIMIT 1),
                    least(1000, extract(epoch FROM $3) * 1000)::integer)
$_$;

CREATE FUNCTION tenon.limited_changed(ids bigint[]) RETURNS void
    LANGUAGE sql
    AS $_$
    INSERT INTO tenon.limit_event (keys, task_id)
    SELECT t.limit_keys, t.id FROM tenon.task t WHERE t.id = ANY ($1) AND t.limit_keys IS NOT NULL AND t.wanted_at IS NOT NULL
$_$;

CREATE FUNCTION tenon.limited_deleted() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    INSERT INTO tenon.limit_event (keys, task_id) VALUES (OLD.limit_keys, OLD.id);
    PERFORM pg_notify('tenon', 'settle');
    RETURN NULL;
END $$;

CREATE FUNCTION tenon.limited_stays() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    RAISE EXCEPTION 'tenon: % has a limit, and so its row in % stays', quote_literal(OLD.name), TG_RELID::regclass
        USING ERRCODE = 'object_not_in_prerequisite_state',
              HINT = format('Set its other columns to NULL, or first SELECT tenon.drop_limit(%L).', TG_TABLE_NAME || '/' || OLD.name);
END $$;

CREATE FUNCTION tenon.limits_due_ms(ended boolean DEFAULT true) RETURNS bigint
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
DECLARE
    due timestamptz;
BEGIN
    IF EXISTS (SELECT FROM tenon.limit_event) THEN
        RETURN 0;
    END IF;
    due := least((SELECT l.wanted_at FROM tenon.limit_task l WHERE l.state IN ('later', 'ending') AND l.wanted_at < 'infinity' ORDER BY l.wanted_at LIMIT 1),
                 (SELECT d.due_at FROM tenon.limit_due d ORDER BY d.due_at LIMIT 1),
                 (SELECT min(l.until) FROM tenon.limit l WHERE l.until > CASE WHEN ended THEN '-infinity' ELSE clock_timestamp() END));
    RETURN CASE WHEN due IS NOT NULL THEN greatest(0, ceil(extract(epoch FROM due - clock_timestamp()) * 1000)) END;
END $$;

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
    limit_keys text[],
    steps jsonb,
    progress jsonb,
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
    outcome tenon.outcome NOT NULL,
    queue text NOT NULL,
    kind text NOT NULL,
    payload jsonb NOT NULL,
    unique_key text,
    trace text,
    last_error text,
    result jsonb,
    enqueued_by text,
    limit_keys text[],
    steps jsonb,
    timeout_ms bigint,
    max_attempts integer,
    retry text,
    progress jsonb
)
PARTITION BY RANGE (finished_at);

CREATE TABLE tenon.flow_task (
    id bigint NOT NULL,
    flow bigint NOT NULL,
    name text,
    parents bigint[],
    state text,
    result jsonb
);

CREATE VIEW tenon.tasks AS
 SELECT task.id,
    task.queue,
    task.kind,
        CASE
            WHEN (task.start_time IS NOT NULL) THEN 'running'::text
            WHEN (task.start_before <= clock_timestamp()) THEN 'expired'::text
            WHEN (task.wanted_at IS NOT NULL) THEN 'blocked'::text
            WHEN (task.run_at <= clock_timestamp()) THEN 'ready'::text
            WHEN ((task.failures + task.crashes) > 0) THEN 'retrying'::text
            ELSE 'scheduled'::text
        END AS state,
    task.priority,
    task.created_at,
    COALESCE(task.wanted_at, task.run_at) AS run_at,
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
    task.compensates,
    task.flow,
    task.limit_keys,
    task.steps
   FROM tenon.task
UNION ALL
 SELECT f.id,
    f.queue,
    f.kind,
    (f.outcome)::text AS state,
    f.priority,
    f.created_at,
    f.run_at,
    f.start_time,
    f.finished_at AS end_time,
    f.worker_id,
    ((f.failures + f.crashes) + ((f.start_time IS NOT NULL))::integer) AS attempt,
    f.claims,
    f.failures,
    f.crashes,
    f.payload,
    f.progress,
    f.result,
    f.unique_key,
    f.trace,
    f.last_error,
    NULL::text AS error_class,
    f.enqueued_by,
    NULL::timestamp with time zone AS start_before,
    NULL::bigint AS compensates,
    ( SELECT m.flow
           FROM tenon.flow_task m
          WHERE (m.id = f.id)) AS flow,
    f.limit_keys,
    f.steps
   FROM tenon.finished f
UNION ALL
 SELECT d.id,
    d.queue,
    d.kind,
    'dead'::text AS state,
    d.priority,
    d.created_at,
    d.run_at,
    d.start_time,
    d.dead_at AS end_time,
    d.worker_id,
    ((d.failures + d.crashes) + ((d.reason = 'handler'::text))::integer) AS attempt,
    d.claims,
    d.failures,
    d.crashes,
    d.payload,
    d.progress,
    NULL::jsonb AS result,
    d.unique_key,
    d.trace,
    d.last_error,
    d.error_class,
    d.enqueued_by,
    d.start_before,
    d.compensates,
    ( SELECT m.flow
           FROM tenon.flow_task m
          WHERE (m.id = d.id)) AS flow,
    d.limit_keys,
    d.steps
   FROM tenon.dead d;

CREATE FUNCTION tenon.list(filter jsonb DEFAULT '{}'::jsonb, after bigint DEFAULT NULL::bigint, most integer DEFAULT 100) RETURNS SETOF tenon.tasks
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    found_ids bigint[] := (SELECT f.ids FROM tenon.find(filter, NULL, after, most) f);
BEGIN
    RETURN QUERY SELECT t.*
      FROM unnest(found_ids) WITH ORDINALITY i (id, place)
     CROSS JOIN LATERAL (SELECT * FROM tenon.tasks a WHERE a.id = i.id LIMIT 1) t  -- by the index
     ORDER BY i.place;
END $$;

CREATE FUNCTION tenon.lock_found(act text, ids bigint[]) RETURNS bigint[]
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    IF act IN ('retry', 'delete') THEN
        RETURN ARRAY(SELECT l.id FROM (SELECT d.id FROM tenon.dead d WHERE d.id = ANY (ids) ORDER BY d.id FOR UPDATE SKIP LOCKED) l)
            || ARRAY(SELECT l.id FROM (SELECT e.id FROM tenon.finished e WHERE e.id = ANY (ids) ORDER BY e.id FOR UPDATE SKIP LOCKED) l);
    END IF;
    RETURN ARRAY(SELECT l.id FROM (SELECT t.id FROM tenon.task t WHERE t.id = ANY (ids) ORDER BY t.id FOR UPDATE SKIP LOCKED) l);
END $$;

CREATE FUNCTION tenon.lock_limited(name text) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
DECLARE
    target text := substr(name, strpos(name, '/') + 1);
BEGIN
    IF name LIKE 'kind/%' AND EXISTS (SELECT FROM tenon.kind k WHERE k.name = target) THEN
        PERFORM FROM tenon.kind k WHERE k.name = target FOR NO KEY UPDATE SKIP LOCKED;
        RETURN FOUND;
    ELSIF name LIKE 'queue/%' AND EXISTS (SELECT FROM tenon.queue q WHERE q.name = target) THEN
        PERFORM FROM tenon.queue q WHERE q.name = target FOR NO KEY UPDATE SKIP LOCKED;
        RETURN FOUND;
    END IF;
    RETURN true;
END $$;

CREATE FUNCTION tenon.lock_rates(keys text[]) RETURNS text[]
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM tenon.limit l WHERE l.rate IS NOT NULL) THEN
        RETURN '{}';
    END IF;
    RETURN ARRAY(SELECT m.name FROM (
        SELECT l.name FROM tenon.limit l
         WHERE l.name = ANY (ARRAY(SELECT unnest(tenon.limit_names(k.key)) FROM unnest(keys) k (key) CROSS JOIN LATERAL tenon.limit_rule(k.key) r
                                WHERE r.rate IS NOT NULL))
         ORDER BY l.name FOR NO KEY UPDATE SKIP LOCKED) m);
END $$;

CREATE FUNCTION tenon.look_at_flows(flows bigint[], most integer) RETURNS bigint[]
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    again bigint[] := '{}';
    ended bigint[];
    ours  bigint[];
    f     tenon.flow;
BEGIN
    FOR f IN SELECT w.* FROM tenon.flow w WHERE w.id = ANY (flows) AND w.cancelled_at IS NOT NULL LOOP
        IF (tenon.cancel_members(f.id, f.cancelled_by, most)).more THEN
            again := again || f.id;
        END IF;
    END LOOP;
    ended := ARRAY(SELECT w.id FROM tenon.flow w
                    WHERE w.id = ANY (flows) AND (NOT w.open OR w.cancelled_at IS NOT NULL)
                      AND (w.ended_at IS NOT NULL
                           OR (SELECT m.id FROM tenon.flow_task m WHERE m.flow = w.id AND m.state IS NULL LIMIT 1) IS NULL));
    ours := ARRAY(SELECT w.id FROM tenon.flow w WHERE w.id = ANY (ended) ORDER BY w.id FOR UPDATE SKIP LOCKED);
    -- now nobody adds a task; what was added before we had the lock is seen from here on
    UPDATE tenon.flow w SET ended_at = NULL
     WHERE w.id = ANY (ours) AND w.ended_at IS NOT NULL
       AND (SELECT m.id FROM tenon.flow_task m WHERE m.flow = w.id AND m.state IS NULL LIMIT 1) IS NOT NULL;
    FOR f IN SELECT w.* FROM tenon.flow w
              WHERE w.id = ANY (ours)
                AND (SELECT m.id FROM tenon.flow_task m WHERE m.flow = w.id AND m.state IS NULL LIMIT 1) IS NULL LOOP
        PERFORM tenon.end_flow(f);
    END LOOP;
    again := again || ARRAY(SELECT unnest(ended) EXCEPT SELECT unnest(ours));
    -- and what was added while a flow was cancelled, and was not seen above
    RETURN again || ARRAY(SELECT w.id FROM tenon.flow w
                           WHERE w.id = ANY (flows) AND w.cancelled_at IS NOT NULL AND w.id <> ALL (again) AND tenon.has_tasks(w.id));
END $$;

CREATE FUNCTION tenon.make_flow(name text, open boolean, on_done text DEFAULT NULL::text, on_dead text DEFAULT NULL::text, on_end text DEFAULT NULL::text, payload jsonb DEFAULT NULL::jsonb) RETURNS bigint
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_variable
DECLARE
    made bigint;
BEGIN
    IF length(name) NOT BETWEEN 1 AND 200 THEN
        PERFORM tenon.refuse('name', quote_literal(left(name, 50)), '1 to 200 characters long');
    END IF;
    INSERT INTO tenon.flow (name, open, on_done, on_dead, on_end, payload) VALUES (name, open, on_done, on_dead, on_end, payload)
    RETURNING flow.id INTO made;
    RETURN made;
END $$;

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
      JOIN pg_roles r ON r.oid = p.role
     WHERE pg_has_role(session_user, r.oid, 'MEMBER')
       AND NOT (SELECT u.rolsuper FROM pg_roles u WHERE u.rolname = session_user)
$_$;

CREATE FUNCTION tenon.may_flow(made_by text) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$ SELECT made_by = session_user OR has_table_privilege(session_user, 'tenon.queue', 'UPDATE') $$;

CREATE FUNCTION tenon.may_retry(ids bigint[]) RETURNS bigint[]
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $_$
    SELECT ARRAY(SELECT i FROM unnest($1) i
                  WHERE (SELECT f.id FROM tenon.flow_task m JOIN tenon.flow f ON f.id = m.flow
                          WHERE m.id = i AND f.cancelled_at IS NOT NULL LIMIT 1) IS NULL)
$_$;

CREATE FUNCTION tenon.may_see(enqueued_by text) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$
    SELECT enqueued_by = session_user OR has_table_privilege(session_user, 'tenon.task', 'SELECT')
$$;

CREATE FUNCTION tenon.mine() RETURNS SETOF tenon.tasks
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT v.*
      FROM tenon.task t
      CROSS JOIN LATERAL (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS near) s
      CROSS JOIN LATERAL (SELECT ((t.xmin::text::bigint - s.near) & 4294967295) AS ahead) x
      JOIN tenon.tasks v ON v.id = t.id
     WHERE t.created_at >= now()
       AND t.enqueued_by = session_user
       AND CASE WHEN t.created_at >= now()
                THEN pg_xact_status((s.near + CASE WHEN x.ahead < 2147483648 THEN x.ahead ELSE x.ahead - 4294967296 END)::text::xid8) END = 'in progress'
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

CREATE FUNCTION tenon.needs_note(t tenon.task) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$
    SELECT t.again IS NOT NULL OR t.flow IS NOT NULL OR t.limit_keys IS NOT NULL OR t.awaited OR t.wanted_at IS NOT NULL
$$;

CREATE FUNCTION tenon.next_tick(cron text, zone text DEFAULT 'UTC'::text, after timestamp with time zone DEFAULT clock_timestamp()) RETURNS timestamp with time zone
    LANGUAGE plpgsql STABLE STRICT SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    c    tenon.cron := tenon.parse_cron(cron);
    wall timestamp := after AT TIME ZONE zone;
    tick timestamptz;
BEGIN
    IF NOT isfinite(after) THEN
        PERFORM tenon.refuse('after', after::text, 'a moment');
    ELSIF c.hours = (1 << 24) - 1 THEN
        tick := tenon.next_tick_hourly(c, zone, after);
    ELSE
        LOOP
            wall := tenon.cron_wall(c, wall);
            tick := tenon.wall_moment(zone, wall);
            EXIT WHEN wall IS NULL OR tick > after;
        END LOOP;
    END IF;
    IF tick IS NULL THEN
        PERFORM tenon.refuse_cron('day of month', cron, 'never comes: no month of it has such a day');
    END IF;
    RETURN tick;
END $$;

CREATE FUNCTION tenon.next_tick_hourly(c tenon.cron, zone text, after timestamp with time zone) RETURNS timestamp with time zone
    LANGUAGE plpgsql STABLE
    AS $$
DECLARE
    wall timestamp := after AT TIME ZONE zone;
    soon timestamptz := after + interval '3 hours';
    tick timestamptz;
    turn timestamptz;
BEGIN
    LOOP
        wall := tenon.cron_wall(c, wall);
        tick := tenon.wall_moment(zone, wall);
        CONTINUE WHEN tick AT TIME ZONE zone <> wall;
        tick := CASE WHEN tick > after THEN tick ELSE wall AT TIME ZONE zone END;
        EXIT WHEN wall IS NULL OR tick > after;
    END LOOP;
    IF tenon.zone_offset(zone, soon) < tenon.zone_offset(zone, after) THEN  -- the clocks go back
        turn := (SELECT min(t) FROM generate_series(date_trunc('minute', after), soon, interval '1 minute') t
                  WHERE tenon.zone_offset(zone, t) < tenon.zone_offset(zone, after));
        tick := least(tick, tenon.cron_wall(c, turn AT TIME ZONE zone - interval '1 minute') AT TIME ZONE zone);
    END IF;
    RETURN tick;
END $$;

CREATE FUNCTION tenon.note_audit(act text, what jsonb, n bigint, skipped bigint DEFAULT 0) RETURNS bigint
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
    INSERT INTO tenon.audit (act, what, n, skipped)
    SELECT $1, jsonb_object_agg(e.key, e.value), $3, $4
      FROM jsonb_each($2 || jsonb_build_object('web_user', NULLIF(current_setting('tenon.web_user', true), ''))) e
     WHERE e.value <> 'null'
    RETURNING id
$_$;

CREATE FUNCTION tenon.note_change(audit bigint, act text, what jsonb, n bigint, skipped bigint) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_variable
BEGIN
    IF n + skipped = 0 THEN
        RETURN audit;
    ELSIF audit IS NULL THEN
        RETURN tenon.note_audit(act, what, n, skipped);
    END IF;
    UPDATE tenon.audit a SET n = a.n + n, skipped = a.skipped + skipped
     WHERE a.id = audit AND a.who = session_user AND a.act = act;
    IF NOT FOUND THEN
        PERFORM tenon.refuse('audit', audit::text, format('the number of a %s of role %s', act, session_user));
    END IF;
    RETURN audit;
END $$;

CREATE FUNCTION tenon.note_confined() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    PERFORM FROM tenon.setting FOR UPDATE;  -- by itself: the next statement sees what was committed meanwhile
    UPDATE tenon.setting s SET confined = EXISTS (SELECT FROM tenon.producer);
    RETURN NULL;
END $$;

CREATE FUNCTION tenon.note_ended(t tenon.task, was_cancelled boolean DEFAULT false) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
BEGIN
    IF t.again IS NOT NULL THEN
        UPDATE tenon.again a SET taken = false WHERE a.unique_key = t.unique_key AND a.kind = t.kind;
    END IF;
    IF t.flow IS NOT NULL THEN
        INSERT INTO tenon.flow_note (flow, task) VALUES (t.flow, t.id);
    END IF;
    IF t.limit_keys IS NOT NULL THEN
        -- its worker sees within 5 s that it is cancelled; its child may have 30 s for others, and 5 s to end
        INSERT INTO tenon.limit_event (keys, task_id, start_time, hold_until)
        VALUES (t.limit_keys, t.id, t.start_time,
                CASE WHEN was_cancelled AND t.start_time IS NOT NULL THEN clock_timestamp() + interval '45 s' END);
    END IF;
    IF t.wanted_at IS NOT NULL THEN
        DELETE FROM tenon.waiting w WHERE w.task_id = t.id;
    END IF;
    IF t.awaited THEN
        PERFORM pg_notify('tenon_ended', t.id::text);
    END IF;
    IF num_nonnulls(t.again, t.flow, t.limit_keys) > 0 THEN
        PERFORM pg_notify('tenon', 'settle');
    END IF;
END $$;

CREATE FUNCTION tenon.note_ends(tasks bigint[], since timestamp with time zone) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    UPDATE tenon.flow_task m
       SET state = s.state,
           result = CASE WHEN s.state = 'done' AND (SELECT true FROM tenon.flow_wait w WHERE w.parent = m.id LIMIT 1) THEN s.result END
      FROM unnest(tasks) i
     CROSS JOIN LATERAL (
           SELECT e.place, e.state, e.result
             FROM (SELECT 1 AS place, NULL AS state, NULL::jsonb AS result FROM tenon.task t WHERE t.id = i
                   UNION ALL
                   SELECT 2, 'dead', NULL FROM tenon.dead d WHERE d.id = i
                   UNION ALL
                   (SELECT 3, f.outcome::text, f.result FROM tenon.finished f
                     WHERE f.id = i AND f.finished_at BETWEEN since - interval '1 hour' AND now() + interval '1 hour'
                     ORDER BY f.finished_at DESC LIMIT 1)
                   UNION ALL
                   SELECT 4, 'done', NULL) e
            ORDER BY e.place LIMIT 1) s
     WHERE m.id = i AND m.state IS DISTINCT FROM s.state;
END $$;

CREATE FUNCTION tenon.note_schedule(act text, name text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    PERFORM tenon.note_audit(act, jsonb_build_object('schedule', name), 1);
END $$;

CREATE FUNCTION tenon.note_waiting() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
BEGIN
    IF EXISTS (SELECT FROM tenon.signal s WHERE s.name = NEW.signal) THEN
        PERFORM pg_notify('tenon', 'settle');
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION tenon.or_old(changes jsonb, key text, new bigint, old bigint) RETURNS bigint
    LANGUAGE sql IMMUTABLE
    AS $$ SELECT CASE WHEN changes ? key THEN new ELSE old END $$;

CREATE FUNCTION tenon.parent_results(task bigint) RETURNS TABLE(id bigint, name text, state text, result jsonb)
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    made_by text := (SELECT f.made_by FROM tenon.flow_task m JOIN tenon.flow f ON f.id = m.flow WHERE m.id = task);
BEGIN
    IF made_by IS NULL THEN
        PERFORM tenon.refuse('task', coalesce(task::text, 'NULL'), 'a task of a flow');
    ELSIF NOT tenon.may_flow(made_by) AND NOT has_table_privilege(session_user, 'tenon.finished', 'SELECT') THEN
        RAISE EXCEPTION 'tenon: role % may not read the results of the parents of task %', session_user, task
            USING ERRCODE = 'insufficient_privilege', HINT = 'Another role made its flow. A handler gives its claim instead of the id.';
    END IF;
    RETURN QUERY SELECT * FROM tenon.results_of(task);
END $$;

CREATE FUNCTION tenon.parent_results(claim text) RETURNS TABLE(id bigint, name text, state text, result jsonb)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $_$
DECLARE
    fence record;
BEGIN
    IF claim ~ '^[0-9]{1,18}$' THEN  -- an untyped number
        RETURN QUERY SELECT * FROM tenon.parent_results(claim::bigint);
        RETURN;
    END IF;
    fence := tenon.read_claim(claim);
    PERFORM FROM tenon.task t
      WHERE t.id = fence.id AND t.claims = fence.claims AND t.worker_id = fence.worker_id AND t.start_time = fence.start_time;
    PERFORM tenon.claim_must_hold(claim, FOUND, fence.worker_id);
    RETURN QUERY SELECT * FROM tenon.results_of(fence.id);
END $_$;

CREATE FUNCTION tenon.parse_cron(cron text) RETURNS tenon.cron
    LANGUAGE plpgsql IMMUTABLE
    AS $$
DECLARE
    c tenon.cron;
    f text[] := regexp_split_to_array(btrim(cron, E' \t'), '[ \t]+');
BEGIN
    IF f[1] LIKE '@%' AND cardinality(f) = 1 THEN
        f := string_to_array(CASE lower(f[1])
            WHEN '@yearly' THEN '0 0 1 1 *' WHEN '@annually' THEN '0 0 1 1 *' WHEN '@monthly' THEN '0 0 1 * *'
            WHEN '@weekly' THEN '0 0 * * 0' WHEN '@daily' THEN '0 0 * * *' WHEN '@midnight' THEN '0 0 * * *'
            WHEN '@hourly' THEN '0 * * * *' END, ' ');
        IF f IS NULL THEN
            PERFORM tenon.refuse_cron('name', cron, 'is not @yearly, @annually, @monthly, @weekly, @daily, @midnight or @hourly');
        END IF;
    END IF;
    IF cardinality(f) IS DISTINCT FROM 5 THEN
        PERFORM tenon.refuse_cron('fields', quote_nullable(cron), format('has %s, not 5', coalesce(cardinality(f), 0)));
    END IF;
    c.minutes := tenon.cron_field('minute', f[1], 0, 59, NULL);
    c.hours := tenon.cron_field('hour', f[2], 0, 23, NULL);
    c.days := tenon.cron_field('day of month', f[3], 1, 31, NULL);
    c.months := tenon.cron_field('month', f[4], 1, 12, '{jan,feb,mar,apr,may,jun,jul,aug,sep,oct,nov,dec}');
    c.weekdays := tenon.cron_field('day of week', f[5], 0, 7, '{sun,mon,tue,wed,thu,fri,sat}');
    c.weekdays := c.weekdays | (c.weekdays >> 7);
    c.either := f[3] NOT LIKE '*%' AND f[5] NOT LIKE '*%';
    RETURN c;
END $$;

CREATE FUNCTION tenon.pause(queue text DEFAULT NULL::text, kind text DEFAULT NULL::text, everything boolean DEFAULT false, why text DEFAULT NULL::text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_variable
DECLARE
    at timestamptz := clock_timestamp();
BEGIN
    PERFORM tenon.check_target(queue, kind, everything);
    IF queue IS NOT NULL THEN
        INSERT INTO tenon.queue AS q (name, paused, paused_by, paused_at, paused_why)
        VALUES (queue, true, session_user, at, why)
        ON CONFLICT (name) DO UPDATE SET paused = true, paused_by = session_user, paused_at = at, paused_why = why;
    ELSIF kind IS NOT NULL THEN
        INSERT INTO tenon.kind AS k (name, paused, paused_by, paused_at, paused_why)
        VALUES (kind, true, session_user, at, why)
        ON CONFLICT (name) DO UPDATE SET paused = true, paused_by = session_user, paused_at = at, paused_why = why;
    ELSE
        UPDATE tenon.setting SET paused = true, paused_by = session_user, paused_at = at, paused_why = why;
    END IF;
    PERFORM tenon.tell_paused(queue, true);
    PERFORM tenon.note_audit('pause', jsonb_build_object('queue', queue, 'kind', kind, 'why', why,
                                                         'everything', NULLIF(everything, false)), 1);
END $$;

CREATE FUNCTION tenon.pause_limit(name text, why text DEFAULT NULL::text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_variable
BEGIN
    PERFORM tenon.check_limit_name(name);
    INSERT INTO tenon.limit AS l (name, paused, paused_by, paused_at, paused_why)
    VALUES (name, true, session_user, clock_timestamp(), why)
    ON CONFLICT ON CONSTRAINT limit_pkey DO UPDATE
       SET paused = true, paused_by = excluded.paused_by, paused_at = excluded.paused_at, paused_why = excluded.paused_why;
    PERFORM tenon.limit_changed(name, true);
    PERFORM tenon.note_audit('pause_limit', jsonb_build_object('limit', name, 'why', why), 1);
END $$;

CREATE FUNCTION tenon.pause_schedule(name text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_variable
BEGIN
    UPDATE tenon.schedule s SET paused = true, due_at = 'infinity' WHERE s.name = name;
    IF FOUND THEN
        PERFORM tenon.note_schedule('pause_schedule', name);
    END IF;
    RETURN FOUND;
END $$;

CREATE FUNCTION tenon.paused_kinds(kinds text[]) RETURNS text
    LANGUAGE sql STABLE
    AS $_$
    SELECT CASE WHEN s.paused THEN '*'
                ELSE (SELECT string_agg(k.name, ',') FROM tenon.kind k WHERE k.paused AND k.name = ANY ($1)) END
      FROM tenon.setting s
$_$;

CREATE FUNCTION tenon.places(states text[]) RETURNS text[]
    LANGUAGE sql IMMUTABLE
    AS $$
    SELECT ARRAY(SELECT p FROM (VALUES ('task', '{blocked,scheduled,ready,running,retrying,expired}'::text[]),
                                       ('finished', '{done,cancelled,expired}'), ('dead', '{dead}')) v (p, s)
                  WHERE states IS NULL OR s && states)
$$;

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
    SET jit TO 'off'
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
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    s tenon.setting;
    n integer;
    m integer;
    k integer;
    starts integer;
BEGIN
    SELECT * INTO s FROM tenon.setting;
    DELETE FROM tenon.dead WHERE id = ANY (ARRAY(
        SELECT d.id FROM tenon.dead d WHERE d.dead_at < now() - s.dead_keep ORDER BY d.dead_at LIMIT most FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS n = ROW_COUNT;
    DELETE FROM tenon.audit WHERE id = ANY (ARRAY(
        SELECT a.id FROM tenon.audit a WHERE a.at < now() - s.audit_keep ORDER BY a.at LIMIT most FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS m = ROW_COUNT;
    DELETE FROM tenon.limit_start WHERE ctid = ANY (ARRAY(  -- of keys that are not used any more
        SELECT l.ctid FROM tenon.limit_start l
         WHERE l.at < now() - coalesce((SELECT max(r.per) FROM tenon.limit r), interval '31 days')
         ORDER BY l.at LIMIT most FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS starts = ROW_COUNT;
    DELETE FROM tenon.unique_hold WHERE (unique_key, kind) IN (
        SELECT h.unique_key, h.kind FROM tenon.unique_hold h WHERE h.until < now() ORDER BY h.until LIMIT most FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS k = ROW_COUNT;
    RETURN n + m + starts + k + tenon.purge_flows(now() - greatest(s.history_keep, interval '1 hour'), most);
END $$;

CREATE FUNCTION tenon.purge_flows(before timestamp with time zone, most integer) RETURNS integer
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    n integer := 0;
    m integer;
    f bigint;
BEGIN
    FOR f IN SELECT w.id FROM tenon.flow w
              WHERE (w.ended_at < before
                     OR w.ended_at IS NULL AND w.made_at < before AND NOT w.open
                        AND (SELECT x.id FROM tenon.flow_task x WHERE x.flow = w.id LIMIT 1) IS NULL)
                AND (SELECT x.id FROM tenon.flow_task x WHERE x.flow = w.id AND x.state IS NULL LIMIT 1) IS NULL
                AND (SELECT x.id FROM tenon.flow_task x
                      WHERE x.flow = w.id AND x.state IN ('dead', 'cancelled', 'expired')
                        AND ((SELECT true FROM tenon.dead d WHERE d.id = x.id LIMIT 1)
                             OR (SELECT true FROM tenon.flow_wait v WHERE v.parent = x.id LIMIT 1)) LIMIT 1) IS NULL
              LIMIT most FOR UPDATE SKIP LOCKED LOOP
        CONTINUE WHEN EXISTS (SELECT FROM tenon.flow_task x WHERE x.flow = f AND x.state IS NULL);  -- added before we had the lock
        DELETE FROM tenon.flow_task x WHERE x.flow = f;
        GET DIAGNOSTICS m = ROW_COUNT;
        DELETE FROM tenon.flow w WHERE w.id = f;
        n := n + m + 1;
        EXIT WHEN n >= most;
    END LOOP;
    RETURN n;
END $$;

CREATE FUNCTION tenon.put_steps(id bigint, old jsonb, new jsonb) RETURNS void
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_variable
BEGIN
    IF new IS DISTINCT FROM old THEN
        UPDATE tenon.task t
           SET steps = new,
               payload_bytes = t.payload_bytes + octet_length(new::text) - coalesce(octet_length(old::text), 0)
         WHERE t.id = id;
    END IF;
END $$;

CREATE FUNCTION tenon.queue_limits(ids bigint[]) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
BEGIN
    WITH wanted AS MATERIALIZED (
        SELECT k.key, k.key = f.first AS first, t.id, t.limit_keys, t.priority, t.wanted_at
          FROM tenon.task t
         CROSS JOIN LATERAL (SELECT CASE WHEN cardinality(t.limit_keys) = 1 THEN t.limit_keys[1] ELSE tenon.limit_first(t.limit_keys) END AS first OFFSET 0) f
         CROSS JOIN unnest(t.limit_keys) k (key)
         WHERE t.id = ANY (ids) AND t.wanted_at IS NOT NULL
    ), entered AS (
        INSERT INTO tenon.limit_task (key, task_id, state, alone, priority, wanted_at)
        SELECT w.key, w.id, CASE WHEN NOT w.first THEN 'elsewhere' WHEN w.wanted_at > clock_timestamp() THEN 'later' ELSE 'waits' END,
               cardinality(w.limit_keys) = 1, w.priority, w.wanted_at
          FROM wanted w
        ON CONFLICT DO NOTHING
        RETURNING key, task_id)
    INSERT INTO tenon.limit_event (keys, task_id, enters)
    SELECT array_agg(DISTINCT w.key), NULL, NULL::boolean FROM wanted w HAVING count(*) > 0
    UNION ALL
    SELECT w.limit_keys, w.id, true FROM wanted w
     WHERE (SELECT count(*) FROM entered) < (SELECT count(*) FROM wanted) AND w.first;
    RETURN true;
END $$;

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
        SELECT q, true FROM tenon.worker w CROSS JOIN unnest(w.queues) q WHERE w.ended_at IS NULL
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

CREATE FUNCTION tenon.rate_seen(queue text, OUT tasks_per_s double precision, OUT run_s double precision) RETURNS record
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $_$
    WITH waiting AS MATERIALIZED (
        SELECT t.id, t.queue, t.created_at, t.run_at FROM tenon.task t ORDER BY t.id DESC LIMIT 5000
    ), ended AS MATERIALIZED (
        SELECT f.id, f.queue, f.created_at, f.run_at, f.start_time, f.finished_at FROM tenon.finished f ORDER BY f.id DESC LIMIT 5000
    ), tid AS MATERIALIZED (
        SELECT tenon.ended_tids(statement_timestamp() - interval '2 min', 100, 0) AS tids
    ), last AS MATERIALIZED (
        SELECT f.queue, f.start_time, f.finished_at FROM tenon.finished f
         WHERE f.ctid = ANY ((SELECT tids FROM tid)::tid[])
           AND f.finished_at >= date_trunc('day', statement_timestamp() - interval '2 min', 'UTC')
    ), cut AS (
        SELECT greatest((SELECT min(w.id) FROM waiting w HAVING count(*) = 5000),
                        (SELECT min(e.id) FROM ended e HAVING count(*) = 5000), 0) AS id
    ), arrived AS (
        SELECT a.queue, a.created_at, a.run_at
          FROM (SELECT w.id, w.queue, w.created_at, w.run_at FROM waiting w UNION ALL
                SELECT e.id, e.queue, e.created_at, e.run_at FROM ended e) a, cut
         WHERE a.id >= cut.id
    ), seen AS (  -- how far back, in seconds
        SELECT CASE WHEN (SELECT c.id > 0 FROM cut c)
                    THEN (SELECT extract(epoch FROM clock_timestamp() - min(a.created_at)) FROM arrived a) ELSE 120 END AS arrivals_s,
               CASE WHEN (SELECT cardinality(tids) >= 100 * 80 FROM tid)
                    THEN (SELECT extract(epoch FROM clock_timestamp() - min(l.finished_at)) FROM last l) ELSE 120 END AS finishes_s
    ), arrivals AS (
        SELECT count(*) AS n FROM arrived a
         WHERE a.queue = $1 AND a.run_at <= clock_timestamp() AND a.created_at > clock_timestamp() - interval '2 min'
    ), runs AS MATERIALIZED (
        SELECT true AS lately, l.start_time, l.finished_at FROM last l
         WHERE l.queue = $1 AND l.start_time IS NOT NULL AND l.finished_at > clock_timestamp() - interval '2 min'
        UNION ALL
        SELECT false, e.start_time, e.finished_at FROM ended e
         WHERE e.queue = $1 AND e.start_time IS NOT NULL AND e.finished_at > clock_timestamp() - interval '2 min'
    ), earlier AS (
        SELECT avg(extract(epoch FROM f.finished_at - f.start_time)) AS run_s FROM tenon.finished f
         WHERE f.ctid = ANY ((SELECT tenon.ended_tids(statement_timestamp() - interval '1 day', 50, 50) WHERE NOT EXISTS (SELECT FROM runs))::tid[])
           AND f.finished_at > statement_timestamp() - interval '1 day' AND f.queue = $1 AND f.start_time IS NOT NULL
    )
    SELECT greatest((SELECT n FROM arrivals) / least(120, greatest(1, s.arrivals_s)),
                    (SELECT count(*) FROM runs WHERE lately) / least(120, greatest(1, s.finishes_s)))::double precision,
           coalesce((SELECT avg(extract(epoch FROM r.finished_at - r.start_time)) FROM runs r), (SELECT run_s FROM earlier))::double precision
      FROM seen s
$_$;

CREATE FUNCTION tenon.read_claim(claim text, OUT id bigint, OUT claims integer, OUT start_time timestamp with time zone, OUT worker_id uuid) RETURNS record
    LANGUAGE plpgsql IMMUTABLE
    AS $$
DECLARE
    part text[] := string_to_array(claim, '/');
BEGIN
    IF (translate(claim, '0123456789abcdef', '') = '///----' AND translate(part[1] || part[2] || part[3], '0123456789', '') = ''
        AND length(part[1]) BETWEEN 1 AND 18 AND length(part[2]) BETWEEN 1 AND 9 AND length(part[3]) BETWEEN 1 AND 17
        AND part[4] LIKE '________-____-____-____-____________') IS NOT TRUE THEN
        PERFORM tenon.refuse('claim', quote_literal(claim), 'the text of TENON_TASK_CLAIM');
    END IF;
    id := part[1];
    claims := part[2];
    start_time := timestamptz 'epoch' + part[3]::bigint * interval '1 microsecond';
    worker_id := part[4];
END $$;

CREATE FUNCTION tenon.read_filter(filter jsonb, act text) RETURNS tenon.filter
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    f       tenon.filter;
    k       text;
    v       jsonb;
    allowed text;
BEGIN
    IF coalesce(jsonb_typeof(filter), '') <> 'object' THEN
        PERFORM tenon.refuse('filter', filter::text, 'a JSON object, such as {"state": "dead", "kind": "mail"}');
    ELSIF filter = '{}' AND act IS NOT NULL THEN
        PERFORM tenon.refuse('filter', '{}', 'an object with at least one key for ' || act || '; {"state": "dead"} is all that is dead');
    END IF;
    FOR k, v IN SELECT e.key, e.value FROM jsonb_each(filter) e LOOP
        allowed := (SELECT a.allowed FROM tenon.filter_keys() a WHERE a.key = k);
        IF allowed IS NULL THEN
            PERFORM tenon.refuse('filter key', quote_literal(k), 'one of ' || (SELECT string_agg(a.key, ', ') FROM tenon.filter_keys() a));
        END IF;
        BEGIN
            f := tenon.filter_with(f, k, v);
        EXCEPTION WHEN data_exception OR syntax_error_or_access_rule_violation THEN
            PERFORM tenon.refuse(k, v::text, allowed);
        END;
    END LOOP;
    f.states := tenon.filter_states(f, act);
    RETURN f;
END $$;

CREATE FUNCTION tenon.read_tasks(tasks jsonb, OUT names text[], OUT child integer[], OUT parent integer[]) RETURNS record
    LANGUAGE plpgsql STABLE
    AS $$
DECLARE
    flow_tasks_max constant integer := 100000;
    bad record;
BEGIN
    IF coalesce(jsonb_typeof(tasks), '') <> 'array' OR jsonb_array_length(tasks) NOT BETWEEN 1 AND flow_tasks_max THEN
        PERFORM tenon.refuse('tasks', CASE WHEN jsonb_typeof(tasks) = 'array' THEN format('of %s elements', jsonb_array_length(tasks))
                                           ELSE tasks::text END,
                             format('an array of 1 to %s objects (flow_tasks_max)', flow_tasks_max));
    END IF;
    PERFORM tenon.check_object(format('tasks[%s]', t.o - 1), t.value, '{name,kind,payload,queue,priority,run_at,delay,start_before,max_attempts,timeout,retry,limit_keys,after,on_parent_dead,trace}')
       FROM jsonb_array_elements(tasks) WITH ORDINALITY t (value, o);
    names := ARRAY(SELECT t.value ->> 'name' FROM jsonb_array_elements(tasks) WITH ORDINALITY t (value, o) ORDER BY t.o);
    SELECT n.name, min(n.o) AS o, count(*) AS n INTO bad FROM unnest(names) WITH ORDINALITY n (name, o)
     WHERE n.name IS NOT NULL GROUP BY n.name HAVING count(*) > 1 OR length(n.name) NOT BETWEEN 1 AND 200 LIMIT 1;
    IF FOUND THEN
        PERFORM tenon.refuse(format('tasks[%s].name', bad.o - 1), quote_literal(left(bad.name, 50)), '1 to 200 characters long, and given once');
    END IF;
    SELECT t.o, t.value -> 'after' AS after INTO bad FROM jsonb_array_elements(tasks) WITH ORDINALITY t (value, o)
     WHERE jsonb_typeof(t.value -> 'after') <> 'array' LIMIT 1;
    IF FOUND THEN
        PERFORM tenon.refuse(format('tasks[%s].after', bad.o - 1), bad.after::text, 'an array of names of tasks of this flow');
    END IF;
    SELECT array_agg(e.child ORDER BY e.parent) AS child, array_agg(e.parent ORDER BY e.parent) AS parent,
           min(e.child) FILTER (WHERE e.parent IS NULL) AS o, min(e.name) FILTER (WHERE e.parent IS NULL) AS name INTO bad
      FROM (SELECT t.o::integer AS child, a.name, n.o::integer AS parent
              FROM jsonb_array_elements(tasks) WITH ORDINALITY t (value, o)
             CROSS JOIN LATERAL (SELECT DISTINCT x FROM jsonb_array_elements_text(t.value -> 'after') x) a (name)
              LEFT JOIN unnest(names) WITH ORDINALITY n (name, o) ON n.name = a.name) e;
    IF bad.o IS NOT NULL THEN
        PERFORM tenon.refuse(format('tasks[%s].after', bad.o - 1), quote_literal(bad.name), 'an array of names of tasks of this flow');
    END IF;
    child := coalesce(bad.child, '{}');
    parent := coalesce(bad.parent, '{}');
END $$;

CREATE FUNCTION tenon.record_steps(worker uuid, ids bigint[], claims integer[], starts_us bigint[], lines text[]) RETURNS TABLE(place integer, recorded boolean)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    held jsonb;
    new  jsonb;
BEGIN
    FOR i IN 1 .. cardinality(ids) LOOP
        SELECT t.steps INTO held FROM tenon.task t
         WHERE t.id = ids[i] AND t.claims = record_steps.claims[i] AND t.worker_id = worker
           AND t.start_time = timestamptz 'epoch' + starts_us[i] * interval '1 microsecond'
           FOR UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        new := tenon.with_step_of(held, lines[i]);
        recorded := new IS NOT NULL;
        IF recorded THEN
            PERFORM tenon.put_steps(ids[i], held, new);
        END IF;
        place := i;
        RETURN NEXT;
    END LOOP;
END $$;

CREATE FUNCTION tenon.refuse(argument text, value text, allowed text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    RAISE EXCEPTION 'tenon: % % is not allowed', argument, coalesce(left(value, 100), 'NULL')
        USING ERRCODE = 'invalid_parameter_value', HINT = format('%s is %s.', argument, allowed);
END $$;

CREATE FUNCTION tenon.refuse_circle(names text[], child integer[], parent integer[], places integer[]) RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
    path integer[] := ARRAY(SELECT c FROM unnest(child) c WHERE c <> ALL (places) ORDER BY c LIMIT 1);
    next integer;
BEGIN
    LOOP  -- whoever has no place has a parent without one
        SELECT min(e.parent) INTO next FROM unnest(child, parent) e (child, parent)
         WHERE e.child = path[cardinality(path)] AND e.parent <> ALL (places);
        EXIT WHEN next = ANY (path) OR cardinality(path) >= 1000;
        path := path || next;
    END LOOP;
    path := path[coalesce(array_position(path, next), 1):] || next;
    PERFORM tenon.refuse('after', (SELECT string_agg(names[p], ' after ' ORDER BY o) FROM unnest(path) WITH ORDINALITY u (p, o)),
                         'without a circle: no task waits for itself, by whatever way');
END $$;

CREATE FUNCTION tenon.refuse_cron(field text, word text, why text) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    RAISE EXCEPTION 'tenon: cron: %: % %', field, left(word, 100), why
        USING ERRCODE = 'invalid_parameter_value',
              HINT = 'A cron expression is: minute hour day-of-month month day-of-week, such as 30 3 * * mon-fri; or @daily and its like.';
END $$;

CREATE FUNCTION tenon.requeue(ids bigint[], claims integer[], starts_us bigint[], worker uuid, reasons text[], errors text[], delays_ms bigint[], classes text[] DEFAULT NULL::text[], signals text[] DEFAULT NULL::text[]) RETURNS TABLE(id bigint, state text)
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $_$
    WITH given AS MATERIALIZED (
        SELECT g.* FROM unnest($1, $2, $3, $5, $6, $7, $8, $9) AS g (id, claims, start_us, asked, error_given, delay_ms, class, signal)
    ), mine AS MATERIALIZED (
        SELECT t.id, t.failures + (x.reason IN ('failed', 'timed_out'))::integer AS failures,
               t.crashes + (x.reason = 'crashed')::integer AS crashes,
               t.max_attempts, t.queue, t.kind, t.retry, t.unique_key, t.again, t.claims, t.start_time, t.run_at, t.limit_keys, x.reason,
               CASE WHEN w.refused IS NULL THEN g.delay_ms END AS delay_ms, g.signal,
               CASE WHEN x.reason IN ('failed', 'timed_out', 'crashed', 'dead')
                    THEN coalesce(g.class, tenon.error_class(x.reason, x.error)) ELSE t.error_class END AS class,
               1 + t.failures + t.crashes AS attempt,
               CASE WHEN length(x.error) > 8192 THEN left(x.error, 2048) || ' ... ' || right(x.error, 6139)
                    ELSE coalesce(x.error, t.last_error) END AS error
          FROM given g JOIN tenon.task t ON t.id = ANY (ARRAY[g.id])
         CROSS JOIN LATERAL (SELECT CASE WHEN g.asked = 'wait' THEN tenon.wait_refused(t.steps, g.signal) END AS refused) w
         CROSS JOIN LATERAL (SELECT CASE WHEN w.refused IS NULL THEN g.asked ELSE 'failed' END AS reason,
                                    coalesce(w.refused, g.error_given) AS error) x
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
                    END AS dead_of,
               CASE WHEN m.reason = 'wait' AND m.limit_keys IS NOT NULL THEN 'infinity'  -- it does not stand in their lines
                    WHEN m.reason = 'wait' THEN clock_timestamp()
                    WHEN m.delay_ms IS NOT NULL THEN clock_timestamp() + make_interval(secs => m.delay_ms / 1000.0)
                    WHEN m.reason IN ('failed', 'timed_out') THEN clock_timestamp() + tenon.retry_delay(m.failures, coalesce(m.retry,
                       (SELECT k.retry FROM tenon.kind k WHERE k.name = m.kind), (SELECT q.retry FROM tenon.queue q WHERE q.name = m.queue)))
                    WHEN m.reason = 'released' THEN m.run_at
                    ELSE clock_timestamp() END AS wanted_at
          FROM mine m
    ), gone AS (
        DELETE FROM tenon.task t USING judged j WHERE t.id = ANY (ARRAY[j.id]) AND j.dead_of IS NOT NULL
        RETURNING t.*, j.failures AS failures_now, j.crashes AS crashes_now, j.dead_of, j.error, j.class, j.attempt,
                  CASE WHEN tenon.needs_note(t) THEN tenon.note_ended(t) END
    ), died AS (
        INSERT INTO tenon.dead (dead_at, id, run_at, start_time, created_at, start_before, worker_id, timeout_ms, claims,
                                failures, crashes, max_attempts, priority, reason, queue, kind, payload,
                                unique_key, retry, trace, last_error, error_class, enqueued_by, compensates, limit_keys, steps, progress)
        SELECT clock_timestamp(), g.id, run_at, start_time, created_at, start_before, worker_id, timeout_ms, claims,
               failures_now, crashes_now, max_attempts, priority, dead_of, queue, kind, payload,
               unique_key, retry, trace, error, class, enqueued_by, compensates, limit_keys, steps, progress
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
        SELECT clock_timestamp(), j.id, j.attempt, j.claims, j.start_time, $4,
               (SELECT w.host FROM tenon.worker w WHERE w.id = $4), j.reason, j.queue, j.kind, j.class, j.error,
               e.exit_code, e.signal
          FROM judged j CROSS JOIN tenon.ended_by(j.error) e WHERE j.reason IN ('failed', 'timed_out', 'crashed', 'dead')
    ), settled AS (  -- what waited for its end may join it now
        UPDATE tenon.again a SET taken = false FROM judged j
         WHERE j.again IS NOT NULL AND j.dead_of IS NULL AND a.unique_key = j.unique_key AND a.kind = j.kind
    ), back AS (
        UPDATE tenon.task t
           SET start_time = NULL, worker_id = NULL, failures = j.failures, crashes = j.crashes, again = NULL,
               last_error = j.error, error_class = j.class,
               delayed = t.limit_keys IS NULL AND j.reason <> 'wait' AND (t.delayed OR j.reason <> 'released' OR j.delay_ms IS NOT NULL),
               run_at = CASE WHEN t.limit_keys IS NULL AND j.reason <> 'wait' THEN j.wanted_at ELSE 'infinity' END,
               wanted_at = CASE WHEN t.limit_keys IS NOT NULL OR j.reason = 'wait' THEN j.wanted_at END  -- its next start must be let go again
          FROM judged j WHERE t.id = ANY (ARRAY[j.id]) AND j.dead_of IS NULL
        RETURNING t.id, t.failures + t.crashes AS failed, t.run_at, t.wanted_at, j.reason, j.signal, j.delay_ms
    ), waits AS (
        INSERT INTO tenon.waiting AS w (task_id, signal, until)
        SELECT b.id, b.signal, clock_timestamp() + make_interval(secs => coalesce(b.delay_ms, 31536000000) / 1000.0)
          FROM back b WHERE b.reason = 'wait'
        ON CONFLICT (task_id) DO UPDATE SET signal = excluded.signal, until = excluded.until, settled = false
    )
    SELECT d.id, 'dead' FROM died d
    UNION ALL
    SELECT b.id, CASE WHEN b.wanted_at IS NOT NULL THEN 'blocked' WHEN b.run_at <= clock_timestamp() THEN 'ready'
                      WHEN b.failed > 0 THEN 'retrying' ELSE 'scheduled' END FROM back b
$_$;

CREATE FUNCTION tenon.result(id bigint, OUT state text, OUT result jsonb, OUT error text) RETURNS record
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
#variable_conflict use_variable
DECLARE
    who text;
BEGIN
    SELECT t.state, t.result, CASE WHEN t.state <> 'done' THEN t.last_error END, t.enqueued_by
      INTO state, result, error, who FROM tenon.tasks t WHERE t.id = id;
    IF NOT FOUND THEN
        error := format('there is no task %s: it was never enqueued, its transaction has not committed or was rolled back, or it ended and left no trace', id);
    ELSIF tenon.may_see(who) IS NOT TRUE THEN
        RAISE EXCEPTION 'tenon: role % may not see the result of task %', session_user, id
            USING ERRCODE = 'insufficient_privilege', HINT = 'Another role enqueued it: ask as that role, or as a reader.';
    END IF;
END $$;

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

CREATE FUNCTION tenon.results_kept(results jsonb[]) RETURNS jsonb[]
    LANGUAGE plpgsql IMMUTABLE
    AS $$
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

CREATE FUNCTION tenon.results_of(task bigint) RETURNS TABLE(id bigint, name text, state text, result jsonb)
    LANGUAGE sql STABLE
    AS $_$
    SELECT p.id, m.name, s.state,
           CASE WHEN s.state = 'done' THEN coalesce(m.result, (SELECT f.result FROM tenon.finished f WHERE f.id = p.id AND f.outcome = 'done' LIMIT 1)) END
      FROM tenon.flow_task c
     CROSS JOIN LATERAL unnest(c.parents) WITH ORDINALITY p (id, o)
      LEFT JOIN tenon.flow_task m ON m.id = p.id
     CROSS JOIN LATERAL (SELECT coalesce(m.state, (SELECT t.state FROM tenon.tasks t WHERE t.id = p.id LIMIT 1), 'done') AS state) s
     WHERE c.id = $1
     ORDER BY p.o
$_$;

CREATE FUNCTION tenon.resume(queue text DEFAULT NULL::text, kind text DEFAULT NULL::text, everything boolean DEFAULT false, why text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_variable
DECLARE
    n integer;
BEGIN
    PERFORM tenon.check_target(queue, kind, everything);
    IF queue IS NOT NULL THEN
        UPDATE tenon.queue q SET paused = false, paused_by = NULL, paused_at = NULL, paused_why = NULL
         WHERE q.name = queue AND q.paused;
    ELSIF kind IS NOT NULL THEN
        UPDATE tenon.kind k SET paused = false, paused_by = NULL, paused_at = NULL, paused_why = NULL
         WHERE k.name = kind AND k.paused;
    ELSE
        UPDATE tenon.setting s SET paused = false, paused_by = NULL, paused_at = NULL, paused_why = NULL WHERE s.paused;
    END IF;
    GET DIAGNOSTICS n = ROW_COUNT;
    IF n > 0 THEN
        DELETE FROM tenon.queue q  -- which says nothing else: not set up, but paused, perhaps a name that was mistyped
         WHERE q.name = queue AND jsonb_strip_nulls(to_jsonb(q)) = jsonb_build_object('name', queue, 'limited', false, 'paused', false);
        PERFORM tenon.tell_paused(queue, false);
        PERFORM tenon.note_audit('resume', jsonb_build_object('queue', queue, 'kind', kind, 'why', why,
                                                              'everything', NULLIF(everything, false)), 1);
    END IF;
    RETURN n > 0;
END $$;

CREATE FUNCTION tenon.resume_limit(name text, why text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_variable
BEGIN
    UPDATE tenon.limit r SET paused = false, paused_by = NULL, paused_at = NULL, paused_why = NULL
     WHERE r.name = resume_limit.name AND r.paused;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    DELETE FROM tenon.limit r WHERE r.name = resume_limit.name AND num_nonnulls(r.running, r.rate, r.strict, r.fair, r.weight, r.until, r.on_dead) = 0;
    PERFORM tenon.limit_changed(name, EXISTS (SELECT FROM tenon.limit r WHERE r.name = resume_limit.name));
    PERFORM tenon.note_audit('resume_limit', jsonb_build_object('limit', name, 'why', why), 1);
    RETURN true;
END $$;

CREATE FUNCTION tenon.resume_schedule(name text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_variable
DECLARE
    s tenon.schedule;
BEGIN
    SELECT * INTO s FROM tenon.schedule t WHERE t.name = name FOR UPDATE;
    IF s.paused THEN
        s.next_at := tenon.tick_after(s, greatest(clock_timestamp(), s.last_at));
        UPDATE tenon.schedule t SET paused = false, next_at = s.next_at, due_at = s.next_at WHERE t.name = name;
        PERFORM tenon.note_schedule('resume_schedule', name);
    END IF;
    RETURN s.name IS NOT NULL;
END $$;

CREATE FUNCTION tenon.retry(filter jsonb, most integer DEFAULT 10000, why text DEFAULT NULL::text) RETURNS bigint
    LANGUAGE sql
    AS $$ SELECT c.n FROM tenon.change('retry', filter, most => most, why => why) c $$;

CREATE FUNCTION tenon.retry_delay(failures integer, policy text DEFAULT NULL::text) RETURNS interval
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT make_interval(secs => CASE p.curve
               WHEN 'exponential' THEN least(p.cap_s, p.first_s * power(2, least(failures - 1, 60))) * (1 + p.jitter * random())
               WHEN 'linear' THEN least(p.cap_s, p.first_s * failures) * (1 + p.jitter * random())
               WHEN 'constant' THEN p.first_s * (1 + p.jitter * random())
               ELSE least(coalesce(p.cap_s, 2592000), power(failures, 4) + 15) * (1 + coalesce(p.jitter, 0) * random())
                    + CASE WHEN p.jitter IS NULL THEN random() * 10 * failures ELSE 0 END END)
      FROM tenon.retry_parts(policy) p
$$;

CREATE FUNCTION tenon.retry_ids(ids bigint[]) RETURNS bigint[]
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    again   bigint[];
    limited bigint[];
BEGIN
    ids := tenon.may_retry(ids);
    WITH ended AS (
        SELECT d.id, d.created_at, d.timeout_ms, d.claims, d.max_attempts, d.priority, d.queue, d.kind, d.payload,
               d.unique_key, d.retry, d.trace, d.last_error, d.error_class, d.enqueued_by, d.compensates, d.limit_keys, d.steps,
               d.progress
          FROM tenon.dead d WHERE d.id = ANY (ids)
        UNION ALL
        SELECT e.id, e.created_at, e.timeout_ms, e.claims, e.max_attempts, e.priority, e.queue, e.kind, e.payload,
               e.unique_key, e.retry, e.trace, e.last_error, NULL, e.enqueued_by, NULL, e.limit_keys, e.steps, e.progress
          FROM tenon.finished e
         WHERE e.id = ANY (ids) AND e.outcome IN ('cancelled', 'expired')
           AND NOT EXISTS (SELECT FROM tenon.limit_task l  -- its handler may still run, and counts at its limits
                            WHERE l.key = ANY (e.limit_keys) AND l.task_id = e.id
                              AND (l.state = 'ending' OR l.state = 'held' AND e.start_time IS NOT NULL))
    ), new AS (
        INSERT INTO tenon.task (id, run_at, created_at, timeout_ms, claims, max_attempts, payload_bytes, priority,
                                delayed, announced, queue, kind, payload, unique_key, retry, trace, last_error, error_class, enqueued_by,
                                compensates, flow, limit_keys, wanted_at, steps, progress)
        OVERRIDING SYSTEM VALUE
        SELECT e.id, CASE WHEN e.limit_keys IS NULL THEN clock_timestamp() ELSE 'infinity' END, e.created_at, e.timeout_ms, e.claims,
               e.max_attempts, octet_length(e.payload::text) + coalesce(octet_length(e.steps::text), 0), e.priority, e.limit_keys IS NULL, false, e.queue, e.kind, e.payload,
               e.unique_key, e.retry, e.trace, e.last_error, e.error_class, e.enqueued_by, e.compensates, m.flow, e.limit_keys,
               CASE WHEN e.limit_keys IS NOT NULL THEN clock_timestamp() END, e.steps, e.progress
          FROM ended e LEFT JOIN tenon.flow_task m ON m.id = e.id ORDER BY e.id
        ON CONFLICT DO NOTHING
        RETURNING task.id, task.flow, task.limit_keys), noted AS (
        INSERT INTO tenon.flow_note (flow, task) SELECT new.flow, new.id FROM new WHERE new.flow IS NOT NULL)
    SELECT array_agg(new.id), array_agg(new.id) FILTER (WHERE new.limit_keys IS NOT NULL) INTO again, limited FROM new;
    IF limited IS NOT NULL THEN
        PERFORM tenon.queue_limits(limited);
        PERFORM pg_notify('tenon', 'settle');
    END IF;
    DELETE FROM tenon.dead d WHERE d.id = ANY (again);
    DELETE FROM tenon.finished e WHERE e.id = ANY (again) AND e.outcome IN ('cancelled', 'expired');
    RETURN again;
END $$;

CREATE FUNCTION tenon.route_of(kind text, queue text DEFAULT NULL::text, OUT exchange text, OUT routing_key text) RETURNS record
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
    SELECT s.exchange, coalesce($2, (SELECT k.queue FROM tenon.kind k WHERE k.name = $1), 'default') || '/' || $1
      FROM tenon.setting s
$_$;

CREATE FUNCTION tenon.run_now(filter jsonb, most integer DEFAULT 10000, why text DEFAULT NULL::text) RETURNS bigint
    LANGUAGE sql
    AS $$ SELECT c.n FROM tenon.change('run_now', filter, most => most, why => why) c $$;

CREATE FUNCTION tenon.run_schedule_now(name text) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET "TimeZone" TO 'UTC'
    AS $$
#variable_conflict use_variable
DECLARE
    s tenon.schedule;
BEGIN
    SELECT * INTO s FROM tenon.schedule t WHERE t.name = name FOR UPDATE;
    IF s.name IS NULL THEN
        RETURN NULL;
    END IF;
    s.last_task := tenon.enqueue_tick(s, clock_timestamp());
    UPDATE tenon.schedule t SET last_task = s.last_task WHERE t.name = name;
    PERFORM tenon.note_schedule('run_schedule_now', name);
    RETURN s.last_task;
END $$;

CREATE FUNCTION tenon.run_schedules() RETURNS TABLE(name text, tick timestamp with time zone, outcome text, task bigint, error text)
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT * FROM tenon.run_schedules_at(clock_timestamp())
$$;

CREATE FUNCTION tenon.run_schedules_at(moment timestamp with time zone, schedules integer DEFAULT 100, ticks integer DEFAULT 10) RETURNS TABLE(name text, tick timestamp with time zone, outcome text, task bigint, error text)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET "TimeZone" TO 'UTC'
    AS $$
#variable_conflict use_column
DECLARE
    s tenon.schedule;
BEGIN
    FOR s IN SELECT * FROM tenon.schedule d WHERE d.due_at <= moment ORDER BY d.due_at LIMIT schedules
                FOR UPDATE SKIP LOCKED LOOP
        BEGIN
            RETURN QUERY SELECT s.name, r.tick, r.outcome, r.task, NULL::text FROM tenon.run_ticks(s, moment, ticks) r;
        EXCEPTION
            WHEN lock_not_available OR transaction_rollback THEN
                RAISE;  -- not of this schedule's making: all of it again
            WHEN OTHERS THEN
                UPDATE tenon.schedule d SET due_at = moment + interval '1 minute', last_error = left(SQLERRM, 8192)
                 WHERE d.name = s.name;
                RETURN QUERY SELECT s.name, s.next_at, 'failed', NULL::bigint, SQLERRM;
        END;
    END LOOP;
END $$;

CREATE FUNCTION tenon.run_ticks(s tenon.schedule, moment timestamp with time zone, ticks integer) RETURNS TABLE(tick timestamp with time zone, outcome text, task bigint)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_variable
DECLARE
    at timestamptz := tenon.first_tick(s, moment);
BEGIN
    IF at > s.next_at THEN
        RETURN QUERY SELECT s.next_at, 'missed', NULL::bigint;
    END IF;
    WHILE at <= moment AND ticks > 0 LOOP
        IF s.overlap = 'skip' AND EXISTS (SELECT FROM tenon.task t WHERE t.id = s.last_task) THEN
            s.skipped := s.skipped + 1;
            RETURN QUERY SELECT at, 'skipped', s.last_task;
        ELSE
            s.last_at := at;
            s.last_task := tenon.enqueue_tick(s, at);
            RETURN QUERY SELECT at, 'enqueued', s.last_task;
        END IF;
        at := tenon.tick_after(s, at);
        ticks := ticks - 1;
    END LOOP;
    -- with more that is due, behind the other schedules
    UPDATE tenon.schedule d
       SET next_at = at, due_at = greatest(at, moment), last_at = s.last_at, last_task = s.last_task,
           skipped = s.skipped, last_error = NULL
     WHERE d.name = s.name;
END $$;

CREATE FUNCTION tenon.search(f tenon.filter, newest boolean, after bigint, most integer, limit_ms integer, OUT ids bigint[], OUT next bigint) RETURNS record
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_custom_plan'
    AS $$
DECLARE
    places text[] := tenon.places(f.states);
    moment timestamptz := clock_timestamp();
    piece  integer := CASE WHEN limit_ms < 100 THEN 100 ELSE 1000 END;
    given  bigint[];
    fits   bigint[];
    n      bigint;
BEGIN
    IF f.unique_key IS NOT NULL AND f.ids IS NULL AND places = '{task}' THEN  -- by its index
        f.ids := ARRAY(SELECT t.id FROM tenon.task t WHERE t.unique_key = f.unique_key);
    END IF;
    ids := '{}';
    next := coalesce(after, CASE WHEN newest THEN 9223372036854775807 ELSE 0 END);
    LOOP
        given := tenon.candidates(f, places, newest, next, piece);
        SELECT coalesce(array_agg(c.id ORDER BY CASE WHEN newest THEN -c.id ELSE c.id END) FILTER (WHERE
                   (f.states IS NULL OR CASE WHEN c.ended IS NOT NULL THEN c.ended
                                             WHEN c.start_time IS NOT NULL THEN 'running'
                                             WHEN c.start_before <= moment THEN 'expired'
                                             WHEN c.wanted_at IS NOT NULL THEN 'blocked'
                                             WHEN c.run_at <= moment THEN 'ready'
                                             WHEN c.failed > 0 THEN 'retrying' ELSE 'scheduled' END = ANY (f.states))
                   AND (f.queues IS NULL OR c.queue = ANY (f.queues))
                   AND (f.kinds IS NULL OR c.kind = ANY (f.kinds))
                   AND (f.before IS NULL OR c.since < f.before)
                   AND (f.unique_key IS NULL OR c.unique_key = f.unique_key)
                   AND (f.trace IS NULL OR c.trace = f.trace)
                   AND (f.enqueued_by IS NULL OR c.enqueued_by = f.enqueued_by)
                   AND (f.errors IS NULL OR c.error_class = ANY (f.errors))
                   AND (f.limit_key IS NULL OR f.limit_key = ANY (c.limit_keys))
                   AND (f.payload IS NULL OR c.payload @@ f.payload)), '{}'),
               count(*), coalesce(CASE WHEN newest THEN min(c.id) ELSE max(c.id) END, next)
          INTO fits, n, next
          FROM ((SELECT * FROM tenon.anywhere a
                  WHERE newest AND given IS NULL AND a.id < next AND a.place = ANY (places) ORDER BY a.id DESC LIMIT piece)
                UNION ALL
                (SELECT * FROM tenon.anywhere a
                  WHERE NOT newest AND given IS NULL AND a.id > next AND a.place = ANY (places) ORDER BY a.id LIMIT piece)
                UNION ALL
                (SELECT * FROM tenon.anywhere a
                  WHERE given IS NOT NULL AND a.id = ANY (given) AND a.place = ANY (places)
                    AND (newest AND a.id < next OR NOT newest AND a.id > next))) c;
        n := CASE WHEN f.ids IS NULL THEN coalesce(cardinality(given), n) ELSE 0 END;
        next := coalesce(given[n], next);
        IF cardinality(ids) + cardinality(fits) > most THEN
            ids := ids || fits[1:most - cardinality(ids)];
            next := ids[most];
            RETURN;
        END IF;
        ids := ids || fits;
        next := CASE WHEN n = piece THEN next END;
        EXIT WHEN next IS NULL OR cardinality(ids) = most OR clock_timestamp() >= moment + limit_ms * interval '1 ms';
        IF coalesce(clock_timestamp() < moment + limit_ms * interval '0.25 ms', true) THEN
            piece := least(piece * 2, 20000);
        END IF;
    END LOOP;
END $$;

CREATE FUNCTION tenon.set(filter jsonb, changes jsonb, most integer DEFAULT 10000, why text DEFAULT NULL::text) RETURNS bigint
    LANGUAGE sql
    AS $$ SELECT c.n FROM tenon.change('set', filter, changes, most => most, why => why) c $$;

CREATE FUNCTION tenon.set_ids(ids bigint[], priority smallint, run_at timestamp with time zone) RETURNS bigint[]
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_variable
DECLARE
    changed bigint[];
    limited boolean;
BEGIN
    WITH new AS (
        UPDATE tenon.task t
           SET priority = coalesce(priority, t.priority),
               run_at = CASE WHEN t.wanted_at IS NOT NULL THEN t.run_at
                             WHEN t.limit_keys IS NOT NULL AND run_at > clock_timestamp() THEN 'infinity'  -- others go first
                             ELSE coalesce(run_at, t.run_at) END,
               wanted_at = CASE WHEN t.wanted_at = 'infinity' THEN t.wanted_at  -- it waits for a signal
                                WHEN t.wanted_at IS NOT NULL THEN coalesce(run_at, t.wanted_at)
                                WHEN t.limit_keys IS NOT NULL AND run_at > clock_timestamp() THEN run_at END,
               delayed = t.wanted_at IS NULL AND (t.delayed OR run_at IS NOT NULL)
                         AND NOT (t.limit_keys IS NOT NULL AND coalesce(run_at > clock_timestamp(), false))
         WHERE t.id = ANY (ids) AND t.start_time IS NULL RETURNING t.id, t.limit_keys)
    SELECT array_agg(new.id), bool_or(new.limit_keys IS NOT NULL) INTO changed, limited FROM new;
    IF limited THEN
        PERFORM tenon.limited_changed(changed);
        PERFORM pg_notify('tenon', 'settle');
    END IF;
    RETURN changed;
END $$;

CREATE FUNCTION tenon.set_kind(name text, changes jsonb) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_variable
DECLARE
    priority integer;
    attempts integer;
    ms       bigint;
    least_ms bigint;
    outcome  text := changes ->> 'on_timeout';
BEGIN
    PERFORM tenon.check_target(NULL, coalesce(name, ''), false);
    PERFORM tenon.check_changes(changes, '{queue,priority,max_attempts,timeout,timeout_min,on_timeout,retry,on_dead}');
    PERFORM tenon.check_enqueue(name, changes ->> 'queue', NULL, NULL, NULL, NULL, NULL, NULL, changes ->> 'retry', NULL);
    priority := tenon.changed_integer(changes, 'priority', 0, 9);
    attempts := tenon.changed_integer(changes, 'max_attempts', 1, 1000);
    ms := tenon.changed_ms(changes, 'timeout');
    least_ms := coalesce(tenon.changed_ms(changes, 'timeout_min'), 1);
    IF outcome NOT IN ('retry', 'dead') THEN
        PERFORM tenon.refuse('on_timeout', quote_literal(outcome), 'retry or dead');
    END IF;
    IF NOT tenon.is_kind(changes ->> 'on_dead') THEN
        PERFORM tenon.refuse('on_dead', quote_literal(changes ->> 'on_dead'), 'a kind: 1 to 100 of A-Z a-z 0-9 _ . : -');
    END IF;
    INSERT INTO tenon.kind AS k (name, queue, priority, max_attempts, timeout_ms, timeout_min_ms, on_timeout, retry, on_dead)
    VALUES (name, changes ->> 'queue', priority, attempts, ms, least_ms, coalesce(outcome, 'retry'), changes ->> 'retry', changes ->> 'on_dead')
    ON CONFLICT ON CONSTRAINT kind_pkey DO UPDATE
       SET queue = CASE WHEN changes ? 'queue' THEN changes ->> 'queue' ELSE k.queue END,
           priority = tenon.or_old(changes, 'priority', priority, k.priority),
           max_attempts = tenon.or_old(changes, 'max_attempts', attempts, k.max_attempts),
           timeout_ms = tenon.or_old(changes, 'timeout', ms, k.timeout_ms),
           timeout_min_ms = tenon.or_old(changes, 'timeout_min', least_ms, k.timeout_min_ms),
           on_timeout = CASE WHEN changes ? 'on_timeout' THEN coalesce(outcome, 'retry') ELSE k.on_timeout END,
           retry = CASE WHEN changes ? 'retry' THEN changes ->> 'retry' ELSE k.retry END,
           on_dead = CASE WHEN changes ? 'on_dead' THEN changes ->> 'on_dead' ELSE k.on_dead END;
    PERFORM tenon.note_audit('set_kind', jsonb_build_object('kind', name, 'changes', changes), 1);
END $$;

CREATE FUNCTION tenon.set_limit(name text, running integer DEFAULT NULL::integer, rate integer DEFAULT NULL::integer, per interval DEFAULT NULL::interval, strict boolean DEFAULT NULL::boolean, fair boolean DEFAULT NULL::boolean, weight integer DEFAULT NULL::integer, paused boolean DEFAULT NULL::boolean, until timestamp with time zone DEFAULT NULL::timestamp with time zone, on_dead text DEFAULT NULL::text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_variable
BEGIN
    PERFORM tenon.check_limit_name(name);
    PERFORM tenon.check_limit(running, rate, per, weight, until, on_dead);
    per := make_interval(secs => extract(epoch FROM per));  -- the seconds that were checked: a month is 30 days, in February as well
    INSERT INTO tenon.limit AS l (name, running, rate, per, strict, on_dead, fair, weight, until)
    VALUES (name, running, rate, per, strict, on_dead, fair, weight, until)
    ON CONFLICT ON CONSTRAINT limit_pkey DO UPDATE
       SET running = excluded.running, rate = excluded.rate, per = excluded.per, strict = excluded.strict,
           on_dead = excluded.on_dead, fair = excluded.fair, weight = excluded.weight, until = excluded.until;
    UPDATE tenon.limit l
       SET paused = set_limit.paused, paused_by = CASE WHEN set_limit.paused THEN session_user END,
           paused_at = CASE WHEN set_limit.paused THEN clock_timestamp() END, paused_why = NULL
     WHERE l.name = set_limit.name AND l.paused <> set_limit.paused;
    PERFORM tenon.limit_changed(name, true);
    PERFORM tenon.note_audit('set_limit', jsonb_build_object('limit', name, 'running', running, 'rate', rate, 'per', per, 'strict', strict,
        'on_dead', on_dead, 'fair', fair, 'weight', weight, 'paused', paused, 'until', until), 1);
END $$;

CREATE FUNCTION tenon.set_queue(name text, changes jsonb) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_variable
DECLARE
    priority integer;
    attempts integer;
    ms       bigint;
BEGIN
    PERFORM tenon.check_target(coalesce(name, ''), NULL, false);
    PERFORM tenon.check_changes(changes, '{priority,max_attempts,timeout,retry}');
    PERFORM tenon.check_enqueue('a', NULL, NULL, NULL, NULL, NULL, NULL, NULL, changes ->> 'retry', NULL);
    priority := tenon.changed_integer(changes, 'priority', 0, 9);
    attempts := tenon.changed_integer(changes, 'max_attempts', 1, 1000);
    ms := tenon.changed_ms(changes, 'timeout');
    INSERT INTO tenon.queue AS q (name, priority, max_attempts, timeout_ms, retry)
    VALUES (name, priority, attempts, ms, changes ->> 'retry')
    ON CONFLICT ON CONSTRAINT queue_pkey DO UPDATE
       SET priority = tenon.or_old(changes, 'priority', priority, q.priority),
           max_attempts = tenon.or_old(changes, 'max_attempts', attempts, q.max_attempts),
           timeout_ms = tenon.or_old(changes, 'timeout', ms, q.timeout_ms),
           retry = CASE WHEN changes ? 'retry' THEN changes ->> 'retry' ELSE q.retry END;
    PERFORM tenon.note_audit('set_queue', jsonb_build_object('queue', name, 'changes', changes), 1);
END $$;

CREATE FUNCTION tenon.set_schedule(name text, cron text DEFAULT NULL::text, every interval DEFAULT NULL::interval, kind text DEFAULT NULL::text, payload anycompatible DEFAULT '{}'::jsonb, zone text DEFAULT 'UTC'::text, catch_up text DEFAULT 'last'::text, overlap text DEFAULT 'allow'::text, queue text DEFAULT NULL::text, priority integer DEFAULT NULL::integer, max_attempts integer DEFAULT NULL::integer, timeout interval DEFAULT NULL::interval, source text DEFAULT NULL::text) RETURNS timestamp with time zone
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_variable
DECLARE
    document jsonb := payload;
    moment   timestamptz := clock_timestamp();
    s        tenon.schedule;
BEGIN
    PERFORM tenon.check_schedule(name, cron, every, kind, document, queue, priority, max_attempts, timeout, catch_up, overlap);
    zone := tenon.check_zone(zone);
    SELECT * INTO s FROM tenon.schedule t WHERE t.name = name FOR UPDATE;
    IF s.name IS NULL OR (s.cron, s.every_ms, s.zone) IS DISTINCT FROM
                         (cron, (extract(epoch FROM every) * 1000)::bigint, zone) THEN
        moment := greatest(moment, s.last_at);
        s.next_at := CASE WHEN cron IS NULL THEN moment + (extract(epoch FROM every) * 1000)::bigint * interval '1 ms'
                          ELSE tenon.next_tick(cron, zone, moment) END;
    END IF;
    INSERT INTO tenon.schedule AS t (name, cron, every_ms, zone, kind, payload, queue, priority, max_attempts, timeout_ms,
                                     catch_up, overlap, source, set_by, set_at, next_at, due_at)
    VALUES (name, cron, (extract(epoch FROM every) * 1000)::bigint, zone, kind, document, queue, priority, max_attempts,
            (extract(epoch FROM timeout) * 1000)::bigint, catch_up, overlap, source, session_user, moment, s.next_at, s.next_at)
    ON CONFLICT ON CONSTRAINT schedule_pkey DO UPDATE
       SET cron = excluded.cron, every_ms = excluded.every_ms, zone = excluded.zone, kind = excluded.kind,
           payload = excluded.payload, queue = excluded.queue, priority = excluded.priority,
           max_attempts = excluded.max_attempts, timeout_ms = excluded.timeout_ms, catch_up = excluded.catch_up,
           overlap = excluded.overlap, source = excluded.source, set_by = excluded.set_by, set_at = excluded.set_at,
           next_at = excluded.next_at, last_error = NULL,
           due_at = CASE WHEN t.paused THEN 'infinity' ELSE excluded.next_at END
     WHERE (t.cron, t.every_ms, t.zone, t.kind, t.payload, t.queue, t.priority, t.max_attempts, t.timeout_ms, t.catch_up,
            t.overlap, t.source)
           IS DISTINCT FROM
           (excluded.cron, excluded.every_ms, excluded.zone, excluded.kind, excluded.payload, excluded.queue,
            excluded.priority, excluded.max_attempts, excluded.timeout_ms, excluded.catch_up, excluded.overlap, excluded.source);
    IF FOUND THEN
        PERFORM tenon.note_schedule('set_schedule', name);
    END IF;
    RETURN s.next_at;
END $$;

CREATE FUNCTION tenon.settle(most integer DEFAULT 500) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    RETURN (tenon.settle_all(most, 0)).n;
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
    due   timestamptz := greatest(a.run_at, clock_timestamp());
    made  bigint;
BEGIN
    IF tenon.join_holder(a, NULL) THEN
        DELETE FROM tenon.again g WHERE g.id = a.id;
        RETURN true;
    END IF;
    SELECT t.* INTO held FROM tenon.task t WHERE t.unique_key = a.unique_key AND t.kind = a.kind FOR UPDATE SKIP LOCKED;
    IF held.id IS NOT NULL THEN
        SELECT g.* INTO first FROM tenon.again g
         WHERE g.unique_key = a.unique_key AND g.kind = a.kind AND g.taken AND g.failed IS NULL ORDER BY g.id DESC LIMIT 1;
        first := CASE WHEN first.id IS NOT NULL THEN tenon.joined(a, first) END;
        IF first.id IS NOT NULL THEN
            UPDATE tenon.again g
               SET payload = first.payload, payload_bytes = first.payload_bytes, run_at = first.run_at, start_before = first.start_before
             WHERE g.id = first.id;
            DELETE FROM tenon.again g WHERE g.id = a.id;
        ELSE
            UPDATE tenon.again g SET taken = true, failed = NULL WHERE g.id = a.id;
            UPDATE tenon.task t SET again = a.id WHERE t.id = held.id AND t.again IS NULL;
        END IF;
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

CREATE FUNCTION tenon.settle_all(most integer, few integer, OUT n integer, OUT freed bigint[], OUT due_ms bigint) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
DECLARE
    moment timestamptz := clock_timestamp();
    part   record;
    a      tenon.again;
BEGIN
    n := CASE WHEN EXISTS (SELECT FROM tenon.task t WHERE t.start_before <= moment AND t.start_time IS NULL) THEN tenon.expire(moment, most) ELSE 0 END;
    FOR a IN SELECT * FROM tenon.again g WHERE NOT g.taken ORDER BY g.id FOR UPDATE SKIP LOCKED LOOP
        n := n + tenon.settle_again(a)::integer;
        EXIT WHEN n >= most OR clock_timestamp() > moment + interval '1 second';
    END LOOP;
    part := tenon.settle_flows(most);
    n := n + part.n;
    freed := part.freed;
    part := tenon.settle_signals(most);
    n := n + part.n;
    freed := freed || part.freed;
    part := tenon.settle_limits(most);
    n := n + part.n;
    freed := freed || part.freed;
    due_ms := CASE WHEN n >= most THEN 0
                   ELSE least(tenon.limits_due_ms(false),
                              (SELECT ceil(extract(epoch FROM t.start_before - clock_timestamp()) * 1000)::bigint
                                 FROM tenon.task t
                                WHERE t.start_before > moment AND t.start_before < moment + interval '1 second' AND t.start_time IS NULL
                                ORDER BY t.start_before
                                LIMIT 1)) END;
    IF cardinality(freed) > few THEN
        PERFORM tenon.wake(freed);
    END IF;
END $$;

CREATE FUNCTION tenon.settle_flows(most integer, OUT n integer, OUT freed bigint[]) RETURNS record
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
DECLARE
    notes record;
    waits record;
    again bigint[];
BEGIN
    n := 0;
    freed := '{}';
    IF NOT EXISTS (SELECT FROM tenon.flow_note o WHERE o.id > 0) OR current_setting('transaction_isolation') <> 'read committed' THEN
        RETURN;
    END IF;
    PERFORM FROM tenon.settler FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT array_agg(o.id) AS ids, min(o.at) AS since, array_agg(DISTINCT o.flow) AS flows,
           coalesce(array_agg(DISTINCT o.task) FILTER (WHERE o.task IS NOT NULL), '{}') AS tasks,
           coalesce(array_agg(o.task) FILTER (WHERE o.act = 'unblock'), '{}') AS again,
           coalesce(array_agg(o.task) FILTER (WHERE o.act = 'cancel'), '{}') AS doomed INTO notes
      FROM (SELECT * FROM tenon.flow_note p WHERE p.id > 0 ORDER BY p.id LIMIT most) o;
    IF notes.ids IS NULL THEN
        RETURN;
    END IF;
    PERFORM tenon.note_ends(notes.tasks, notes.since);
    waits := tenon.end_waits(notes.tasks, notes.again, notes.doomed, most);
    freed := waits.freed;
    DELETE FROM tenon.flow_wait w USING unnest(notes.tasks) i
     WHERE w.task = i AND (SELECT m.state FROM tenon.flow_task m WHERE m.id = i LIMIT 1) IS NOT NULL;
    again := tenon.look_at_flows(notes.flows, most);
    DELETE FROM tenon.flow_note o WHERE o.id = ANY (notes.ids) AND (NOT waits.more OR o.act IS NOT NULL);
    INSERT INTO tenon.flow_note (flow, task, act)
    SELECT m.flow, m.id, CASE WHEN m.id = ANY (waits.free) THEN 'unblock' ELSE 'cancel' END
      FROM tenon.flow_task m WHERE m.id = ANY (waits.free || waits.doomed)
    UNION ALL
    SELECT a, NULL, NULL FROM unnest(again) a WHERE NOT waits.more;
    n := CASE WHEN waits.more THEN waits.n
              ELSE greatest(0, cardinality(notes.ids) + waits.n - cardinality(waits.free || waits.doomed || again)) END;
END $$;

CREATE FUNCTION tenon.settle_limits(most integer, OUT n integer, OUT freed bigint[]) RETURNS record
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
DECLARE
    keys text[];
BEGIN
    n := 0;
    freed := '{}';
    IF coalesce(tenon.limits_due_ms(), 1) > 0 OR current_setting('transaction_isolation') <> 'read committed' THEN
        RETURN;
    END IF;
    PERFORM FROM tenon.settler FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    PERFORM tenon.limit_end();
    keys := tenon.limit_ended(most) || tenon.limit_came_due(most);
    keys := ARRAY(SELECT DISTINCT k FROM unnest(keys) k ORDER BY k);
    freed := tenon.limit_admit(keys, most);
    n := cardinality(freed) + cardinality(keys);
END $$;

CREATE FUNCTION tenon.settle_signals(most integer, OUT n integer, OUT freed bigint[]) RETURNS record
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    moment timestamptz := clock_timestamp();
    sent   text;
    task   bigint;
BEGIN
    freed := '{}';
    FOR task IN SELECT w.task_id FROM tenon.waiting w WHERE NOT w.settled ORDER BY w.task_id LIMIT most LOOP
        IF tenon.end_wait(task, moment) THEN
            freed := freed || task;
        END IF;
    END LOOP;
    FOR sent IN SELECT s.name FROM tenon.signal s WHERE NOT s.settled ORDER BY s.sent_at LIMIT most FOR UPDATE SKIP LOCKED LOOP
        EXIT WHEN cardinality(freed) >= most;
        FOR task IN SELECT w.task_id FROM tenon.waiting w WHERE w.signal = sent ORDER BY w.task_id LIMIT most - cardinality(freed) LOOP
            IF tenon.end_wait(task, moment) THEN
                freed := freed || task;
            END IF;
        END LOOP;
        UPDATE tenon.signal s SET settled = true
         WHERE s.name = sent AND NOT EXISTS (SELECT FROM tenon.waiting w WHERE w.signal = sent);
    END LOOP;
    FOR task IN SELECT w.task_id FROM tenon.waiting w WHERE w.until <= moment ORDER BY w.until LIMIT most LOOP
        IF tenon.end_wait(task, moment) THEN
            freed := freed || task;
        END IF;
    END LOOP;
    DELETE FROM tenon.signal s WHERE s.name = ANY (ARRAY(
        SELECT o.name FROM tenon.signal o WHERE o.settled AND o.sent_at < moment - (SELECT signal_keep FROM tenon.setting)
         ORDER BY o.sent_at LIMIT most FOR UPDATE SKIP LOCKED));
    n := cardinality(freed);
END $$;

CREATE FUNCTION tenon.signal(name text, payload jsonb DEFAULT 'true'::jsonb) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_variable
DECLARE
    signal_name_bytes_max constant integer := 100;
    signal_bytes_max      constant integer := 65536;
BEGIN
    IF coalesce(octet_length(name), 0) NOT BETWEEN 1 AND signal_name_bytes_max THEN
        PERFORM tenon.refuse('name', quote_literal(name), format('1 to %s bytes', signal_name_bytes_max));
    ELSIF coalesce(payload, 'null') = 'null' THEN
        PERFORM tenon.refuse('payload', 'null', 'any JSON but null, which stands for a signal that did not come in time');
    ELSIF tenon.printed_bytes(payload) > signal_bytes_max THEN
        PERFORM tenon.refuse('payload', format('of %s bytes', tenon.printed_bytes(payload)), format('at most %s bytes as text', signal_bytes_max));
    ELSIF (SELECT s.confined FROM tenon.setting s) AND NOT tenon.may_enqueue('', '') THEN
        RAISE EXCEPTION 'tenon: role % may not send signals', session_user
            USING ERRCODE = 'insufficient_privilege', HINT = 'It is confined to some queues or kinds (tenon.producer), and a signal reaches tasks of any.';
    END IF;
    INSERT INTO tenon.signal (name, payload) VALUES (name, payload) ON CONFLICT DO NOTHING;
    IF FOUND THEN
        PERFORM pg_notify('tenon', 'settle');
    END IF;
    RETURN FOUND;
END $$;

CREATE FUNCTION tenon.slots_for(queue text, kind text, OUT slots bigint, OUT running bigint, OUT kinds text[]) RETURNS record
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET jit TO 'off'
    AS $_$
    WITH those AS MATERIALIZED (
        SELECT w.id, w.slots, w.queues, w.kinds FROM tenon.worker w
         WHERE w.ended_at IS NULL AND w.state = 'alive' AND $1 = ANY (w.queues) AND $2 = ANY (w.kinds)
    ), total AS MATERIALIZED (
        SELECT coalesce(sum(h.slots), 0)::bigint AS slots FROM those h
    )
    SELECT n.slots,
           (SELECT count(*) FROM those h JOIN (
                SELECT o.worker_id
                  FROM (SELECT DISTINCT u.name FROM those o CROSS JOIN unnest(o.queues) u (name) ORDER BY u.name LIMIT 20) q
                 CROSS JOIN generate_series(9, 0, -1) p (priority)
                 CROSS JOIN LATERAL (
                       SELECT t.worker_id FROM tenon.task t
                        WHERE t.queue = q.name AND t.priority = p.priority AND t.run_at <= statement_timestamp()
                        ORDER BY t.run_at LIMIT (SELECT least(x.slots, 1000) + 100 FROM total x)) o
                 LIMIT 10000) r ON r.worker_id = h.id),
           ARRAY(SELECT DISTINCT k.name FROM those o CROSS JOIN unnest(o.kinds) k (name)
                  WHERE NOT EXISTS (SELECT FROM tenon.kind d WHERE d.name = k.name AND d.paused))
      FROM total n
$_$;

CREATE FUNCTION tenon.slots_wanted(tasks_per_s double precision, run_s double precision, ready bigint, running bigint, oldest_s double precision, latency_s double precision) RETURNS integer
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT least(1000000, greatest(sign(ready), ceil(greatest(coalesce(tasks_per_s * run_s / 0.8, 0), running)
                               + ready * least(1, coalesce(run_s / greatest(latency_s - oldest_s, latency_s / 4), 1)))))::integer
$$;

CREATE FUNCTION tenon.step(claim text, name text, value jsonb DEFAULT NULL::jsonb) RETURNS jsonb
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
#variable_conflict use_variable
DECLARE
    fence record;
    held  jsonb;
    steps jsonb;
BEGIN
    fence := tenon.read_claim(claim);
    SELECT t.steps INTO held FROM tenon.task t
     WHERE t.id = fence.id AND t.claims = fence.claims AND t.worker_id = fence.worker_id AND t.start_time = fence.start_time
       FOR UPDATE;
    PERFORM tenon.claim_must_hold(claim, FOUND, fence.worker_id);
    steps := tenon.with_step(held, name, value);
    PERFORM tenon.put_steps(fence.id, held, steps) WHERE fence.worker_id <> '00000000-0000-0000-0000-000000000000';
    RETURN steps -> name;
END $$;

CREATE FUNCTION tenon.steps(claim text) RETURNS jsonb
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
#variable_conflict use_variable
DECLARE
    fence record;
    held  jsonb;
BEGIN
    fence := tenon.read_claim(claim);
    SELECT t.steps INTO held FROM tenon.task t
     WHERE t.id = fence.id AND t.claims = fence.claims AND t.worker_id = fence.worker_id AND t.start_time = fence.start_time;
    PERFORM tenon.claim_must_hold(claim, FOUND, fence.worker_id);
    RETURN coalesce(held, '{}');
END $$;

CREATE FUNCTION tenon.sync_schedules(source text, schedules jsonb) RETURNS TABLE(name text, act text)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
    e    record;
    old  tenon.schedule;
    hint text;
BEGIN
    IF sync_schedules.source IS NULL THEN
        PERFORM tenon.refuse('source', NULL, 'the name of a file');
    ELSIF jsonb_typeof(schedules) IS DISTINCT FROM 'array' THEN
        PERFORM tenon.refuse('schedules', schedules::text, 'a JSON array');
    END IF;
    FOR e IN SELECT r.*, count(*) OVER (PARTITION BY r.name) AS n
               FROM jsonb_to_recordset(schedules) AS r (line integer, name text, cron text, every text, kind text,
                    payload text, zone text, queue text, priority text, max_attempts text, timeout text, catch_up text,
                    overlap text)
              ORDER BY r.name, r.line LOOP
        BEGIN
            IF e.n > 1 THEN
                PERFORM tenon.refuse('name', quote_nullable(e.name), 'the name of one schedule; it comes again below');
            END IF;
            old := tenon.hold_schedule(e.name, sync_schedules.source);
            PERFORM tenon.set_schedule(e.name, e.cron, e.every::interval, e.kind, coalesce(e.payload, '{}')::jsonb,
                coalesce(e.zone, 'UTC'), coalesce(e.catch_up, 'last'), coalesce(e.overlap, 'allow'), e.queue,
                e.priority::integer, e.max_attempts::integer, e.timeout::interval, sync_schedules.source);
        EXCEPTION WHEN OTHERS THEN
            GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
            RAISE EXCEPTION '%:%: %', sync_schedules.source, e.line, SQLERRM USING ERRCODE = SQLSTATE, HINT = hint;
        END;
        IF old.name IS NULL THEN
            RETURN QUERY SELECT e.name, 'added';
        ELSIF old IS DISTINCT FROM (SELECT s FROM tenon.schedule s WHERE s.name = e.name) THEN
            RETURN QUERY SELECT e.name, 'changed';
        END IF;
    END LOOP;
    FOR e IN SELECT s.name FROM tenon.schedule s
              WHERE s.source = sync_schedules.source
                AND s.name NOT IN (SELECT d ->> 'name' FROM jsonb_array_elements(schedules) d) ORDER BY s.name LOOP
        PERFORM tenon.drop_schedule(e.name);
        RETURN QUERY SELECT e.name, 'removed';
    END LOOP;
END $$;

CREATE FUNCTION tenon.tell_paused(queue text, paused boolean) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    IF queue IS NULL THEN
        PERFORM pg_notify('tenon_wakeup', 'pause');
    ELSIF NOT paused THEN
        PERFORM pg_notify('tenon_wakeup', '');
    END IF;
END $$;

CREATE FUNCTION tenon.tick_after(s tenon.schedule, after timestamp with time zone) RETURNS timestamp with time zone
    LANGUAGE plpgsql STABLE
    AS $$
BEGIN
    IF s.cron IS NOT NULL THEN
        RETURN tenon.next_tick(s.cron, s.zone, after);
    END IF;
    RETURN s.next_at + (floor(extract(epoch FROM after - s.next_at) * 1000 / s.every_ms) + 1)::float8 * s.every_ms * interval '1 ms';
END $$;

CREATE FUNCTION tenon.tick_payload(payload jsonb, tick timestamp with time zone) RETURNS jsonb
    LANGUAGE sql STABLE
    AS $$
    SELECT CASE WHEN jsonb_typeof(payload) = 'object' THEN jsonb_build_object('tick', tick) || payload ELSE payload END
$$;

CREATE FUNCTION tenon.time_text(moment timestamp with time zone) RETURNS text
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT to_char(moment AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"')
        || format(CASE WHEN moment > clock_timestamp() THEN ' (in %s)' ELSE ' (%s ago)' END,
                  make_interval(secs => round(abs(extract(epoch FROM moment - clock_timestamp())))))
$$;

CREATE FUNCTION tenon.unblock(ids bigint[]) RETURNS bigint[]
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    SET lock_timeout TO '10 ms'
    AS $$
DECLARE
    free bigint[];
BEGIN
    FOR i IN 1..2 LOOP
        BEGIN
            WITH new AS (
                UPDATE tenon.task t SET run_at = greatest(t.wanted_at, clock_timestamp()), wanted_at = NULL,
                                        delayed = t.wanted_at > clock_timestamp()
                 WHERE t.id = ANY (ids) AND t.wanted_at IS NOT NULL
                RETURNING t.id)
            SELECT coalesce(array_agg(new.id), '{}') INTO free FROM new;
            RETURN free;
        EXCEPTION WHEN lock_not_available THEN
            ids := ARRAY(SELECT b.id FROM tenon.task b WHERE b.id = ANY (ids) AND b.wanted_at IS NOT NULL
                          ORDER BY b.id FOR UPDATE SKIP LOCKED);
        END;
    END LOOP;
    RETURN '{}';
END $$;

CREATE FUNCTION tenon.wait_for(claim text, signal text, timeout interval DEFAULT '365 days'::interval, OUT state text, OUT payload jsonb) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
#variable_conflict use_variable
DECLARE
    wait_ms_max constant bigint := 31536000000;
    wait_ms numeric := extract(epoch FROM timeout) * 1000;
    fence   record;
    held    jsonb;
    refused text;
BEGIN
    fence := tenon.read_claim(claim);
    IF (wait_ms BETWEEN 1 AND wait_ms_max) IS NOT TRUE THEN
        PERFORM tenon.refuse('timeout', timeout::text, '1 millisecond to 365 days');
    END IF;
    SELECT t.steps INTO held FROM tenon.task t
     WHERE t.id = fence.id AND t.claims = fence.claims AND t.worker_id = fence.worker_id AND t.start_time = fence.start_time
       FOR UPDATE;
    PERFORM tenon.claim_must_hold(claim, FOUND, fence.worker_id);
    IF NOT coalesce(held ? signal, false) THEN
        refused := tenon.wait_refused(held, signal);
        IF refused IS NOT NULL THEN
            PERFORM tenon.refuse('signal', quote_literal(signal), refused);
        END IF;
        SELECT s.payload INTO payload FROM tenon.signal s WHERE s.name = signal;
        IF NOT FOUND THEN
            PERFORM tenon.requeue(ARRAY[fence.id], ARRAY[fence.claims],
                ARRAY[(extract(epoch FROM fence.start_time) * 1000000)::bigint], fence.worker_id, '{wait}', '{NULL}',
                ARRAY[wait_ms::bigint], '{NULL}', ARRAY[signal]);
            state := 'waits';
            RETURN;
        END IF;
        PERFORM tenon.put_steps(fence.id, held, coalesce(held, '{}') || jsonb_build_object(signal, payload))
          WHERE fence.worker_id <> '00000000-0000-0000-0000-000000000000';
        held := jsonb_build_object(signal, payload);
    END IF;
    payload := nullif(held -> signal, 'null');
    state := CASE WHEN payload IS NULL THEN 'timed_out' ELSE 'came' END;
END $$;

CREATE FUNCTION tenon.wait_refused(steps jsonb, signal text) RETURNS text
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT CASE WHEN coalesce(octet_length(signal), 0) NOT BETWEEN 1 AND 100 THEN 'the name of a signal has 1 to 100 bytes'
                WHEN steps ? signal THEN format('it cannot wait for %s, which is recorded already', signal)
                WHEN octet_length(steps::text) > 1048576 OR (SELECT count(*) FROM jsonb_object_keys(steps)) >= 1000
                THEN 'it cannot wait: it has as many steps as there may be' END
$$;

CREATE FUNCTION tenon.wake(ids bigint[]) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    words text;
BEGIN
    SELECT string_agg(DISTINCT t.queue || '/' || t.kind, ' ') INTO words
      FROM tenon.task t WHERE t.id = ANY (ids) AND t.start_time IS NULL AND t.run_at <= clock_timestamp();
    IF words IS NOT NULL THEN
        PERFORM pg_notify('tenon_wakeup', CASE WHEN length(words) < 7000 THEN words ELSE '' END);
    END IF;
END $$;

CREATE FUNCTION tenon.wall_moment(zone text, wall timestamp without time zone) RETURNS timestamp with time zone
    LANGUAGE plpgsql STABLE
    AS $$
DECLARE
    second timestamptz := wall AT TIME ZONE zone;
    shown  timestamp := second AT TIME ZONE zone;
    first  timestamptz := (wall - tenon.zone_offset(zone, second - interval '4 hours')) AT TIME ZONE 'UTC';
BEGIN
    IF shown > wall THEN
        RETURN (SELECT min(t) FROM generate_series(second - (shown - wall), second, interval '1 minute') t
                 WHERE tenon.zone_offset(zone, t) = tenon.zone_offset(zone, second));
    END IF;
    RETURN CASE WHEN first < second AND first AT TIME ZONE zone = wall THEN first ELSE second END;
END $$;

CREATE FUNCTION tenon.why(id bigint) RETURNS text
    LANGUAGE sql STABLE
    AS $$ SELECT w.sentence || coalesce(' What to do: ' || w.advice || '.', '') FROM tenon.why_of(id) w $$;

CREATE FUNCTION tenon.why_blocked(t tenon.task, OUT code text, OUT sentence text, OUT advice text) RETURNS record
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    SELECT * INTO code, sentence, advice FROM tenon.why_waiting(t);
    IF NOT tenon.cleaner_leads() THEN
        sentence := sentence || ' No cleaner leads, and without one nothing that is blocked goes on.';
        advice := 'start one: tenon cleaner; then ask again';
    END IF;
END $$;

CREATE FUNCTION tenon.why_ended(id bigint, OUT code text, OUT sentence text, OUT advice text) RETURNS record
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    d tenon.dead;
    f tenon.finished;
BEGIN
    code := 'ended';
    SELECT * INTO d FROM tenon.dead x WHERE x.id = why_ended.id;
    IF FOUND THEN
        sentence := format('It is dead since %s: %s%s.', tenon.time_text(d.dead_at),
            CASE d.reason WHEN 'failures' THEN format('it failed %s, which is all that it had', CASE d.failures WHEN 1 THEN 'once' ELSE d.failures || ' times' END)
                          WHEN 'crashes' THEN 'three workers died with it'
                          WHEN 'timeout' THEN 'it ran out of time, and on_timeout of its kind is dead'
                          ELSE 'its handler said that it can never work' END, ': ' || left(tenon.error_line(d.last_error), 200));
        advice := format('when the reason is gone: tenon retry %s', d.id);
        RETURN;
    END IF;
    SELECT * INTO f FROM tenon.finished x WHERE x.id = why_ended.id ORDER BY x.finished_at DESC LIMIT 1;
    IF FOUND THEN
        sentence := format('It %s at %s.', CASE f.outcome WHEN 'done' THEN 'ended well' WHEN 'expired' THEN 'expired: it was ' || f.last_error || '; noticed'
                                                          ELSE 'was ' || coalesce(f.last_error, 'cancelled') END,
                           tenon.time_text(f.finished_at));
        RETURN;
    END IF;
    code := 'absent';
    sentence := format('There is no task %s: it was never enqueued, its transaction has not committed or was rolled back, or its history is over.', id);
    advice := 'the transaction that enqueued it may still be open; ended tasks are kept for history_keep of tenon.setting';
END $$;

CREATE FUNCTION tenon.why_limited(task_id bigint, keys text[], OUT code text, OUT sentence text, OUT advice text) RETURNS record
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    w tenon.limit_task;
    r record;
    n bigint;
    in_way text;
    instead text;
BEGIN
    SELECT * INTO w FROM tenon.limit_task l WHERE l.task_id = why_limited.task_id AND l.key = ANY (keys) AND l.state IN ('waits', 'later');
    IF w.state = 'later' THEN
        code := 'not_due';
        sentence := format('It is due at %s, and waits for the limit %s then.', tenon.time_text(w.wanted_at), w.key);
        advice := format('tenon set %s --run-at now, if it shall not wait', w.task_id);
    ELSIF w.state = 'waits' THEN
        SELECT * INTO r FROM tenon.limit_in_way(w.key);
        n := (SELECT count(*) FROM (  -- two ranges of limit_task_line, in its order: a bitmap would be made of all of them
            SELECT FROM ((SELECT FROM tenon.limit_task l WHERE l.key = w.key AND l.state = 'waits' AND l.priority > w.priority
                           ORDER BY l.priority DESC, l.wanted_at, l.task_id LIMIT 10000)
                   UNION ALL (SELECT FROM tenon.limit_task l WHERE l.key = w.key AND l.state = 'waits' AND l.priority = w.priority
                                 AND (l.wanted_at, l.task_id) < (w.wanted_at, w.task_id)
                               ORDER BY l.wanted_at, l.task_id LIMIT 10000)) r LIMIT 10000) b);
        IF NOT r.paused THEN
            SELECT * INTO in_way, instead FROM tenon.why_one_of(ARRAY(SELECT l.task_id FROM tenon.limit_task l
                WHERE l.key = w.key AND l.state IN ('held', 'ending') AND l.state = 'held' ORDER BY l.task_id LIMIT 20));
        END IF;
        code := CASE WHEN r.paused THEN 'limit_paused' ELSE 'limit' END;
        sentence := format('It waits for the limit %s (%s), %s.%s', w.key, r.sentence, tenon.behind_text(n, n >= 10000), in_way);
        advice := coalesce(instead, r.advice);
    END IF;
END $$;

CREATE FUNCTION tenon.why_next(t tenon.task) RETURNS text
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
    SELECT format(CASE count(*) WHEN 1 THEN ' Another run under its unique key %s waits for its end, since %s.'
                                ELSE ' %3$s other runs under its unique key %1$s wait for its end, the first since %2$s.' END,
                  ($1).unique_key, tenon.time_text(min(g.created_at)), count(*))
      FROM tenon.again g
     WHERE g.unique_key = ($1).unique_key AND g.kind = ($1).kind AND g.failed IS NULL AND (g.taken OR ($1).start_time IS NOT NULL)
    HAVING count(*) > 0
$_$;

CREATE FUNCTION tenon.why_not_taken(t tenon.task, OUT code text, OUT sentence text, OUT advice text) RETURNS record
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    p record;
    h record := tenon.handled(t.queue, t.kind);
BEGIN
    sentence := tenon.copied();
    IF sentence IS NOT NULL THEN
        code := 'copied';
        sentence := format('No worker runs anything here: %s.', sentence);
        advice := 'if tasks are to run in this copy: tenon adopt';
        RETURN;
    END IF;
    SELECT * INTO p FROM tenon.paused v
     WHERE v.what = 'everything' OR v.what = 'queue' AND v.name = t.queue OR v.what = 'kind' AND v.name = t.kind LIMIT 1;
    IF FOUND THEN
        code := p.what || '_paused';
        sentence := format('%s is paused%s%s%s.', CASE p.what WHEN 'everything' THEN 'Everything' ELSE format('The %s %s', p.what, p.name) END,
                           ' by ' || p.paused_by, ' since ' || tenon.time_text(p.paused_at), ': ' || p.paused_why);
        advice := format('tenon resume %s', CASE p.what WHEN 'everything' THEN '--all' WHEN 'kind' THEN '--kind ' || p.name ELSE p.name END);
    ELSIF h.workers = 0 THEN
        code := 'no_worker';
        sentence := format('No living worker handles the kind %s in the queue %s; %s.', t.kind, t.queue,
            (SELECT CASE count(*) WHEN 0 THEN 'none lives at all'
                    ELSE 'those that live serve ' || left(string_agg(format('%s/%s%s', array_to_string(w.queues, ','), array_to_string(w.kinds, ','),
                                                                    CASE w.state WHEN 'draining' THEN ' (and is draining)' END), ' and ' ORDER BY w.started_at), 300) END
               FROM tenon.worker w WHERE w.ended_at IS NULL AND w.state IN ('alive', 'draining')));
        advice := format('start one: tenon worker --queues %s --handler ''%s=...''', t.queue, t.kind);
    ELSIF h.backs_off IS NOT NULL THEN
        code := 'handler_backs_off';
        sentence := format('The handler of the kind %s does not start and backs off %s.', t.kind, h.backs_off);
        advice := 'mend the handler; the worker tries again by itself';
    END IF;
END $$;

CREATE FUNCTION tenon.why_of(id bigint, OUT code text, OUT sentence text, OUT advice text) RETURNS record
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    t tenon.task;
BEGIN
    SELECT * INTO t FROM tenon.task x WHERE x.id = why_of.id;
    IF FOUND THEN
        SELECT * INTO code, sentence, advice FROM tenon.why_unfinished(t);
        sentence := sentence || coalesce(tenon.why_next(t), '');
    ELSE
        SELECT * INTO code, sentence, advice FROM tenon.why_ended(id);
    END IF;
END $$;

CREATE FUNCTION tenon.why_one_of(ids bigint[], OUT sentence text, OUT advice text) RETURNS record
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $_$
    SELECT format(' Of task %s: %s', t.id, y.sentence), y.advice
      FROM tenon.task t CROSS JOIN LATERAL tenon.why_not_taken(t) y
     WHERE t.id = ANY ($1) AND t.start_time IS NULL AND t.wanted_at IS NULL AND t.run_at <= clock_timestamp() AND y.code IS NOT NULL
     ORDER BY t.id LIMIT 1
$_$;

CREATE FUNCTION tenon.why_parents(t tenon.task, OUT code text, OUT sentence text, OUT advice text) RETURNS record
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    p record;
    y record;
BEGIN
    SELECT count(*) AS n, array_agg(w.parent ORDER BY w.place) FILTER (WHERE v.end_time IS NULL AND v.kind IS NOT NULL) AS live, min(w.parent) FILTER (WHERE w.bad) AS bad,
           bool_or(w.bad AND v.kind IS NULL AND w.place <= 3) AS gone,
           string_agg(format('%s (%s)', w.parent, coalesce(v.kind || ', ' || v.state, w.state || ', and gone', 'gone')), ', ' ORDER BY w.place)
               FILTER (WHERE w.place <= 3) AS some
      INTO p
      FROM (SELECT f.parent, m.state, m.state <> 'done' AS bad, row_number() OVER (ORDER BY m.state <> 'done' DESC NULLS LAST, f.parent) AS place
              FROM tenon.flow_wait f LEFT JOIN tenon.flow_task m ON m.id = f.parent WHERE f.task = t.id) w
      LEFT JOIN LATERAL (SELECT k.kind, k.state, k.end_time FROM tenon.tasks k WHERE k.id = w.parent AND w.place <= 3 LIMIT 1) v ON true;
    IF p.n > 0 THEN
        SELECT * INTO y FROM tenon.why_one_of(p.live);
        code := 'waits_for_parents';
        sentence := format('It waits for %s: %s%s.%s', CASE p.n WHEN 1 THEN 'a parent' ELSE p.n || ' parents' END, p.some,
                           CASE WHEN p.n > 3 THEN ' and others' END, y.sentence);
        advice := CASE WHEN p.gone THEN format('tenon cancel %s, as that one cannot be retried any more', t.id)
                       WHEN p.bad IS NOT NULL THEN format('tenon retry %s, or tenon cancel %s', p.bad, t.id)
                       WHEN y.advice IS NOT NULL THEN y.advice
                       WHEN p.live IS NOT NULL THEN format('tenon why %s tells of that one, tenon flow %s of all', p.live[1], t.flow)
                       ELSE format('nothing; tenon flow %s shows all of it', t.flow) END;
    END IF;
END $$;

CREATE FUNCTION tenon.why_ready(t tenon.task, OUT code text, OUT sentence text, OUT advice text) RETURNS record
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    s record;
    a record;
BEGIN
    SELECT * INTO code, sentence, advice FROM tenon.why_not_taken(t);
    IF code IS NOT NULL THEN
        RETURN;
    END IF;
    s := tenon.slots_for(t.queue, t.kind);
    a := tenon.ahead_of(t, s.kinds, 10000);
    code := 'no_free_slot';
    sentence := format('It is ready since %s and waits for a free slot, %s, %s of them of a higher priority%s.',
                       tenon.time_text(t.run_at), tenon.behind_text(a.n, a.more), a.higher,
                       CASE WHEN s.running >= s.slots THEN format('; the workers that take it are full (running %s, slots %s)', s.running, s.slots) END);
    advice := concat(CASE WHEN s.running < s.slots AND a.n = 0 THEN 'nothing, if it starts within a second; else tenon doctor, ' END,
                     'more slots or workers', CASE WHEN a.n > 0 AND t.priority < 9 THEN format(', or tenon set %s --priority 9', t.id) END);
END $$;

CREATE FUNCTION tenon.why_unfinished(t tenon.task, OUT code text, OUT sentence text, OUT advice text) RETURNS record
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    w tenon.worker;
BEGIN
    IF t.start_time IS NOT NULL THEN
        SELECT * INTO w FROM tenon.worker r WHERE r.id = t.worker_id;
        code := 'running';
        sentence := format('It runs on %s%s, claimed %s, and has until %s.', coalesce(w.host, 'an unknown worker'), ', pid ' || w.pid,
                           tenon.time_text(t.start_time), tenon.time_text(t.start_time + t.timeout_ms * interval '1 ms'));
        advice := CASE WHEN w.ended_at IS NOT NULL OR w.id IS NULL
                       THEN 'that worker is gone, and a cleaner gives the task back within a minute' || tenon.without_cleaner()
                       ELSE format('tenon cancel %s stops it', t.id) END;
    ELSIF t.start_before <= clock_timestamp() THEN
        code := 'ended';
        sentence := format('It is expired: it had not started before %s.', tenon.time_text(t.start_before));
        advice := 'a cleaner moves it to the history within a second' || tenon.without_cleaner();
    ELSIF t.wanted_at IS NOT NULL THEN
        SELECT * INTO code, sentence, advice FROM tenon.why_blocked(t);
    ELSIF t.run_at <= clock_timestamp() THEN
        SELECT * INTO code, sentence, advice FROM tenon.why_ready(t);
    ELSE
        code := 'not_due';
        sentence := format('It is due at %s%s.', tenon.time_text(t.run_at),
                           CASE WHEN t.failures > 0 THEN format(', after failure %s of %s: %s', t.failures, t.max_attempts, left(tenon.error_line(t.last_error), 200))
                                WHEN t.crashes > 0 THEN format(', after crash %s of 3: %s', t.crashes, left(tenon.error_line(t.last_error), 200)) END);
        advice := format('tenon run-now %s, if it shall not wait', t.id);
    END IF;
END $$;

CREATE FUNCTION tenon.why_waiting(t tenon.task, OUT code text, OUT sentence text, OUT advice text) RETURNS record
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    w tenon.waiting;
BEGIN
    SELECT * INTO code, sentence, advice FROM tenon.why_parents(t);
    IF code IS NULL AND isfinite(t.wanted_at) THEN  -- else it waits for a signal first
        SELECT * INTO code, sentence, advice FROM tenon.why_limited(t.id, t.limit_keys);
    END IF;
    IF code IS NOT NULL THEN
        RETURN;
    END IF;
    SELECT * INTO w FROM tenon.waiting x WHERE x.task_id = t.id;
    IF FOUND THEN
        code := 'waits_for_signal';
        sentence := format('It is blocked: it waits for the signal %s, until %s.', w.signal, tenon.time_text(w.until));
        advice := format('tenon signal %s sends it', quote_literal(w.signal));
        RETURN;
    END IF;
    code := 'blocked';
    sentence := 'It is blocked, and nothing is known that it waits for.';
    advice := 'a cleaner unblocks it within a second';
END $$;

CREATE FUNCTION tenon.with_step(steps jsonb, name text, value jsonb) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE
    AS $$
DECLARE
    step_name_bytes_max constant integer := 100;
    steps_max           constant integer := 1000;
    steps_bytes_max     constant integer := 1048576;
    bytes bigint;
BEGIN
    IF coalesce(octet_length(name), 0) NOT BETWEEN 1 AND step_name_bytes_max THEN
        PERFORM tenon.refuse('name', quote_literal(name), format('1 to %s bytes', step_name_bytes_max));
    END IF;
    steps := coalesce(steps, '{}');
    IF steps ? name THEN
        RETURN steps;
    END IF;
    value := coalesce(value, 'null');
    bytes := tenon.printed_bytes(steps) + tenon.printed_bytes(value) + octet_length(name);
    IF bytes > steps_bytes_max THEN
        PERFORM tenon.refuse('value', format('that makes steps of %s bytes', bytes),
                             format('at most so large that all steps of a task have %s bytes as text', steps_bytes_max));
    END IF;
    IF (SELECT count(*) FROM jsonb_object_keys(steps)) >= steps_max THEN
        PERFORM tenon.refuse('name', quote_literal(name), format('one of at most %s of a task', steps_max));
    END IF;
    RETURN steps || jsonb_build_object(name, value);
END $$;

CREATE FUNCTION tenon.with_step_of(steps jsonb, line text) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE
    AS $$
DECLARE
    step jsonb;
BEGIN
    step := line::jsonb -> 'step';
    RETURN tenon.with_step(steps, step ->> 'name', step -> 'value');
EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
    RETURN NULL;
END $$;

CREATE FUNCTION tenon.without_cleaner() RETURNS text
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT CASE WHEN tenon.cleaner_leads() THEN '' ELSE ', but none leads; start one: tenon cleaner' END
$$;

CREATE FUNCTION tenon.zone_offset(zone text, moment timestamp with time zone) RETURNS interval
    LANGUAGE sql STABLE
    AS $$ SELECT (moment AT TIME ZONE zone) - (moment AT TIME ZONE 'UTC') $$;

ALTER TABLE tenon.again ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME tenon.again_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE VIEW tenon.anywhere AS
 SELECT 'task'::text AS place,
    task.id,
    NULL::text AS ended,
    task.start_time,
    task.run_at,
    (task.failures + task.crashes) AS failed,
    task.created_at AS since,
    task.queue,
    task.kind,
    task.unique_key,
    task.trace,
    task.error_class,
    task.enqueued_by,
    task.payload,
    task.start_before,
    task.wanted_at,
    task.limit_keys
   FROM tenon.task
UNION ALL
 SELECT 'finished'::text AS place,
    finished.id,
    (finished.outcome)::text AS ended,
    finished.start_time,
    finished.run_at,
    (finished.failures + finished.crashes) AS failed,
    finished.finished_at AS since,
    finished.queue,
    finished.kind,
    finished.unique_key,
    finished.trace,
    NULL::text AS error_class,
    finished.enqueued_by,
    finished.payload,
    NULL::timestamp with time zone AS start_before,
    NULL::timestamp with time zone AS wanted_at,
    finished.limit_keys
   FROM tenon.finished
UNION ALL
 SELECT 'dead'::text AS place,
    dead.id,
    'dead'::text AS ended,
    dead.start_time,
    dead.run_at,
    (dead.failures + dead.crashes) AS failed,
    dead.dead_at AS since,
    dead.queue,
    dead.kind,
    dead.unique_key,
    dead.trace,
    dead.error_class,
    dead.enqueued_by,
    dead.payload,
    NULL::timestamp with time zone AS start_before,
    NULL::timestamp with time zone AS wanted_at,
    dead.limit_keys
   FROM tenon.dead;

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

CREATE TABLE tenon.audit (
    id bigint NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    who text DEFAULT SESSION_USER NOT NULL,
    act text NOT NULL,
    what jsonb NOT NULL,
    n bigint NOT NULL,
    skipped bigint DEFAULT 0 NOT NULL
);

ALTER TABLE tenon.audit ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME tenon.audit_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE tenon.flow ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME tenon.flow_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE tenon.flow_note (
    id bigint NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL,
    flow bigint NOT NULL,
    task bigint,
    act text
)
WITH (autovacuum_vacuum_scale_factor='0.01', autovacuum_vacuum_cost_delay='0');

ALTER TABLE tenon.flow_note ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME tenon.flow_note_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE tenon.flow_wait (
    task bigint NOT NULL,
    parent bigint NOT NULL,
    on_dead text NOT NULL
);

CREATE VIEW tenon.flows AS
 SELECT f.id,
    f.name,
        CASE
            WHEN (f.open AND (f.cancelled_at IS NULL)) THEN 'open'::text
            WHEN (c.ended < c.tasks) THEN 'running'::text
            WHEN (f.cancelled_at IS NOT NULL) THEN 'cancelled'::text
            ELSE 'ended'::text
        END AS state,
    c.tasks,
    c.blocked,
    c.waiting,
    c.running,
    c.done,
    c.dead,
    c.cancelled,
    c.expired,
    f.made_by,
    f.made_at,
        CASE
            WHEN (c.ended = c.tasks) THEN f.ended_at
            ELSE NULL::timestamp with time zone
        END AS ended_at,
    f.cancelled_by,
    f.cancelled_at,
    f.on_done,
    f.on_dead,
    f.on_end,
    f.payload,
    f.done_task,
    f.dead_task,
    f.end_task
   FROM (tenon.flow f
     CROSS JOIN LATERAL ( SELECT count(*) AS tasks,
            count(*) FILTER (WHERE (s.state = ANY (ARRAY['done'::text, 'dead'::text, 'cancelled'::text, 'expired'::text]))) AS ended,
            count(*) FILTER (WHERE (s.state = 'blocked'::text)) AS blocked,
            count(*) FILTER (WHERE (s.state = ANY (ARRAY['scheduled'::text, 'ready'::text, 'retrying'::text]))) AS waiting,
            count(*) FILTER (WHERE (s.state = 'running'::text)) AS running,
            count(*) FILTER (WHERE (s.state = 'done'::text)) AS done,
            count(*) FILTER (WHERE (s.state = 'dead'::text)) AS dead,
            count(*) FILTER (WHERE (s.state = 'cancelled'::text)) AS cancelled,
            count(*) FILTER (WHERE (s.state = 'expired'::text)) AS expired
           FROM (tenon.flow_task m
             CROSS JOIN LATERAL ( SELECT COALESCE(m.state, ( SELECT t.state
                           FROM tenon.tasks t
                          WHERE (t.id = m.id)
                         LIMIT 1), 'done'::text) AS state) s)
          WHERE (m.flow = f.id)) c);

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
    limited boolean DEFAULT false NOT NULL,
    paused boolean DEFAULT false NOT NULL,
    paused_by text,
    paused_at timestamp with time zone,
    paused_why text,
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

CREATE TABLE tenon."limit" (
    name text NOT NULL COLLATE pg_catalog."C",
    running integer,
    rate integer,
    per interval,
    strict boolean,
    on_dead text,
    fair boolean,
    weight integer,
    until timestamp with time zone,
    paused boolean DEFAULT false NOT NULL,
    paused_by text,
    paused_at timestamp with time zone,
    paused_why text,
    CONSTRAINT limit_check CHECK (((rate IS NULL) = (per IS NULL))),
    CONSTRAINT limit_name_check CHECK (((name ~ '^[^[:space:][:cntrl:]]+$'::text) AND (length(name) <= 200))),
    CONSTRAINT limit_on_dead_check CHECK ((on_dead = ANY (ARRAY['block'::text, 'skip'::text]))),
    CONSTRAINT limit_per_check CHECK (tenon.is_span(per, 0.1, (2678400)::numeric)),
    CONSTRAINT limit_rate_check CHECK (((rate >= 1) AND (rate <= 10000))),
    CONSTRAINT limit_running_check CHECK (((running >= 1) AND (running <= 1000000))),
    CONSTRAINT limit_weight_check CHECK (((weight >= 1) AND (weight <= 1000)))
);

CREATE TABLE tenon.limit_due (
    key text NOT NULL COLLATE pg_catalog."C",
    due_at timestamp with time zone NOT NULL,
    why text
);

ALTER TABLE tenon.limit_event ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME tenon.limit_event_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE tenon.limit_start (
    key text NOT NULL COLLATE pg_catalog."C",
    at timestamp with time zone NOT NULL,
    n integer NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0.01', autovacuum_vacuum_cost_delay='0');

CREATE TABLE tenon.limit_task (
    key text NOT NULL COLLATE pg_catalog."C",
    task_id bigint NOT NULL,
    state text NOT NULL,
    alone boolean NOT NULL,
    priority smallint NOT NULL,
    wanted_at timestamp with time zone NOT NULL,
    CONSTRAINT limit_task_state_check CHECK ((state = ANY (ARRAY['later'::text, 'waits'::text, 'parked'::text, 'elsewhere'::text, 'held'::text, 'ending'::text, 'dead'::text])))
)
WITH (autovacuum_vacuum_scale_factor='0.01', autovacuum_vacuum_cost_delay='0');

CREATE TABLE tenon.limit_turn (
    key text NOT NULL COLLATE pg_catalog."C",
    share text NOT NULL COLLATE pg_catalog."C",
    pass double precision NOT NULL,
    active boolean NOT NULL
);

CREATE VIEW tenon.limits AS
 SELECT k.key,
    r.rule,
    r.running AS running_max,
    r.rate,
    r.per,
    r.strict,
    (r.share IS NOT NULL) AS fair,
    r.weight,
    COALESCE(n.running, (0)::bigint) AS running,
    COALESCE(n.ready, (0)::bigint) AS ready,
    COALESCE(n.waiting, (0)::bigint) AS waiting,
    COALESCE(n.dead, (0)::bigint) AS dead,
    r.paused,
    r.until
   FROM ((( SELECT "limit".name AS key
           FROM tenon."limit"
        UNION
         SELECT limit_task.key
           FROM tenon.limit_task) k
     CROSS JOIN LATERAL tenon.limit_rule(k.key) r(rule, running, rate, per, strict, on_dead, share, weight, paused, until))
     LEFT JOIN ( SELECT l.key,
            count(*) FILTER (WHERE ((t.start_time IS NOT NULL) OR (l.state = 'ending'::text))) AS running,
            count(*) FILTER (WHERE ((l.state = 'held'::text) AND (t.start_time IS NULL))) AS ready,
            count(*) FILTER (WHERE (l.state = ANY (ARRAY['waits'::text, 'later'::text, 'elsewhere'::text, 'parked'::text]))) AS waiting,
            count(*) FILTER (WHERE (l.state = 'dead'::text)) AS dead
           FROM (tenon.limit_task l
             LEFT JOIN tenon.task t ON (((t.id = l.task_id) AND (l.state = 'held'::text))))
          GROUP BY l.key) n ON ((n.key = k.key)));

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

CREATE TABLE tenon.queue (
    name text NOT NULL,
    priority smallint,
    max_attempts integer,
    timeout_ms bigint,
    retry text,
    limited boolean DEFAULT false NOT NULL,
    paused boolean DEFAULT false NOT NULL,
    paused_by text,
    paused_at timestamp with time zone,
    paused_why text,
    CONSTRAINT queue_max_attempts_check CHECK (((max_attempts >= 1) AND (max_attempts <= 1000))),
    CONSTRAINT queue_name_check CHECK ((name ~ '^[a-z0-9_][a-z0-9_.-]{0,62}$'::text)),
    CONSTRAINT queue_priority_check CHECK (((priority >= 0) AND (priority <= 9))),
    CONSTRAINT queue_retry_check CHECK (tenon.is_retry(retry)),
    CONSTRAINT queue_timeout_ms_check CHECK (((timeout_ms >= 1) AND (timeout_ms <= '2592000000'::bigint)))
);

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
    signal_keep interval DEFAULT '7 days'::interval NOT NULL,
    audit_keep interval DEFAULT '90 days'::interval NOT NULL,
    paused boolean DEFAULT false NOT NULL,
    paused_by text,
    paused_at timestamp with time zone,
    paused_why text,
    leader_key bigint DEFAULT tenon.random_key() NOT NULL,
    sleeper_key bigint DEFAULT tenon.random_key() NOT NULL,
    CONSTRAINT setting_attempt_keep_check CHECK (tenon.is_span(attempt_keep, (3600)::numeric, ('31536000000'::bigint)::numeric)),
    CONSTRAINT setting_audit_keep_check CHECK (tenon.is_span(audit_keep, 0.000001, ('31536000000'::bigint)::numeric)),
    CONSTRAINT setting_dead_keep_check CHECK (tenon.is_span(dead_keep, (3600)::numeric, ('31536000000'::bigint)::numeric)),
    CONSTRAINT setting_exchange_check CHECK ((exchange ~ '^[a-z0-9_][a-z0-9_-]{0,62}$'::text)),
    CONSTRAINT setting_history_keep_check CHECK ((tenon.is_span(history_keep, (0)::numeric, (0)::numeric) OR tenon.is_span(history_keep, (3600)::numeric, ('31536000000'::bigint)::numeric))),
    CONSTRAINT setting_history_rows_max_check CHECK ((history_rows_max > 0)),
    CONSTRAINT setting_on_dead_check CHECK ((on_dead ~ '^[A-Za-z0-9_.:-]{1,100}$'::text)),
    CONSTRAINT setting_one_check CHECK (one),
    CONSTRAINT setting_payload_bytes_max_check CHECK ((payload_bytes_max > 0)),
    CONSTRAINT setting_signal_keep_check CHECK (tenon.is_span(signal_keep, (3600)::numeric, ('31536000000'::bigint)::numeric))
);

CREATE VIEW tenon.paused AS
 SELECT 'everything'::text AS what,
    NULL::text AS name,
    setting.paused_by,
    setting.paused_at,
    setting.paused_why
   FROM tenon.setting
  WHERE setting.paused
UNION ALL
 SELECT 'queue'::text AS what,
    queue.name,
    queue.paused_by,
    queue.paused_at,
    queue.paused_why
   FROM tenon.queue
  WHERE queue.paused
UNION ALL
 SELECT 'kind'::text AS what,
    kind.name,
    kind.paused_by,
    kind.paused_at,
    kind.paused_why
   FROM tenon.kind
  WHERE kind.paused;

CREATE TABLE tenon.producer (
    role regrole NOT NULL,
    queues text[],
    kinds text[]
);

CREATE VIEW tenon.ready AS
 SELECT t.id,
    t.run_at,
    t.created_at,
    t.timeout_ms,
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
    t.claims,
    t.start_time,
    t.start_before,
    t.worker_id,
    t.unique_key,
    t.retry,
    t.trace,
    t.progress,
    t.last_error,
    t.error_class,
    t.enqueued_by,
    t.compensates,
    t.again,
    t.wanted_at,
    t.flow,
    t.limit_keys,
    t.awaited,
    t.steps
   FROM tenon.task t
  WHERE ((t.start_time IS NULL) AND (t.run_at <= clock_timestamp()) AND COALESCE((t.start_before > clock_timestamp()), true) AND (NOT (EXISTS ( SELECT
           FROM tenon.queue q
          WHERE ((q.name = t.queue) AND q.paused)))) AND (NOT (EXISTS ( SELECT
           FROM tenon.kind k
          WHERE ((k.name = t.kind) AND k.paused)))) AND (NOT ( SELECT s.paused
           FROM tenon.setting s)));

CREATE VIEW tenon.schedules AS
 SELECT s.name,
    s.cron,
    ((s.every_ms)::double precision * '00:00:00.001'::interval) AS every,
    s.zone,
    s.kind,
    s.payload,
    s.queue,
    s.priority,
    s.max_attempts,
    s.timeout_ms,
    s.catch_up,
    s.overlap,
        CASE
            WHEN s.paused THEN 'paused'::text
            WHEN (s.last_error IS NOT NULL) THEN 'failing'::text
            ELSE 'active'::text
        END AS state,
        CASE
            WHEN (NOT s.paused) THEN s.next_at
            ELSE NULL::timestamp with time zone
        END AS next_at,
    s.last_at,
    s.last_task,
    ( SELECT t.state
           FROM tenon.tasks t
          WHERE (t.id = s.last_task)) AS last_state,
    s.skipped,
    s.last_error,
    s.source,
    s.set_by,
    s.set_at
   FROM tenon.schedule s;

CREATE TABLE tenon.settler (
    one boolean DEFAULT true NOT NULL,
    CONSTRAINT settler_one_check CHECK (one)
);

CREATE TABLE tenon.signal (
    name text NOT NULL,
    payload jsonb NOT NULL,
    sent_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    sent_by text DEFAULT SESSION_USER NOT NULL,
    settled boolean DEFAULT false NOT NULL
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

CREATE TABLE tenon.waiting (
    task_id bigint NOT NULL,
    signal text NOT NULL,
    until timestamp with time zone NOT NULL,
    settled boolean DEFAULT false NOT NULL
);

ALTER TABLE ONLY tenon.again
    ADD CONSTRAINT again_pkey PRIMARY KEY (id);

ALTER TABLE ONLY tenon.audit
    ADD CONSTRAINT audit_pkey PRIMARY KEY (id);

ALTER TABLE ONLY tenon.dead
    ADD CONSTRAINT dead_pkey PRIMARY KEY (id);

ALTER TABLE ONLY tenon.flow_note
    ADD CONSTRAINT flow_note_pkey PRIMARY KEY (id);

ALTER TABLE ONLY tenon.flow
    ADD CONSTRAINT flow_pkey PRIMARY KEY (id);

ALTER TABLE ONLY tenon.flow_task
    ADD CONSTRAINT flow_task_pkey PRIMARY KEY (id);

ALTER TABLE ONLY tenon.flow_wait
    ADD CONSTRAINT flow_wait_pkey PRIMARY KEY (task, parent);

ALTER TABLE ONLY tenon.home
    ADD CONSTRAINT home_pkey PRIMARY KEY (one);

ALTER TABLE ONLY tenon.kind
    ADD CONSTRAINT kind_pkey PRIMARY KEY (name);

ALTER TABLE ONLY tenon.limit_due
    ADD CONSTRAINT limit_due_pkey PRIMARY KEY (key);

ALTER TABLE ONLY tenon.limit_event
    ADD CONSTRAINT limit_event_pkey PRIMARY KEY (id);

ALTER TABLE ONLY tenon."limit"
    ADD CONSTRAINT limit_pkey PRIMARY KEY (name);

ALTER TABLE ONLY tenon.limit_task
    ADD CONSTRAINT limit_task_pkey PRIMARY KEY (key, task_id);

ALTER TABLE ONLY tenon.limit_turn
    ADD CONSTRAINT limit_turn_pkey PRIMARY KEY (key);

ALTER TABLE ONLY tenon.migration
    ADD CONSTRAINT migration_pkey PRIMARY KEY (version);

ALTER TABLE ONLY tenon.producer
    ADD CONSTRAINT producer_pkey PRIMARY KEY (role);

ALTER TABLE ONLY tenon.queue
    ADD CONSTRAINT queue_pkey PRIMARY KEY (name);

ALTER TABLE ONLY tenon.schedule
    ADD CONSTRAINT schedule_pkey PRIMARY KEY (name);

ALTER TABLE ONLY tenon.setting
    ADD CONSTRAINT setting_pkey PRIMARY KEY (one);

ALTER TABLE ONLY tenon.settler
    ADD CONSTRAINT settler_pkey PRIMARY KEY (one);

ALTER TABLE ONLY tenon.signal
    ADD CONSTRAINT signal_pkey PRIMARY KEY (name);

ALTER TABLE ONLY tenon.task
    ADD CONSTRAINT task_pkey PRIMARY KEY (id);

ALTER TABLE ONLY tenon.unique_hold
    ADD CONSTRAINT unique_hold_pkey PRIMARY KEY (unique_key, kind);

ALTER TABLE ONLY tenon.waiting
    ADD CONSTRAINT waiting_pkey PRIMARY KEY (task_id);

ALTER TABLE ONLY tenon.worker
    ADD CONSTRAINT worker_pkey PRIMARY KEY (id);

CREATE INDEX again_key ON tenon.again USING btree (unique_key, kind);

CREATE INDEX again_untaken ON tenon.again USING btree (id) WHERE (NOT taken);

CREATE INDEX attempt_id ON ONLY tenon.attempt USING btree (id);

CREATE INDEX audit_at ON tenon.audit USING btree (at);

CREATE INDEX dead_at ON tenon.dead USING btree (dead_at);

CREATE INDEX finished_id ON ONLY tenon.finished USING btree (id);

CREATE INDEX flow_ended ON tenon.flow USING btree (ended_at) WHERE (ended_at IS NOT NULL);

CREATE INDEX flow_made ON tenon.flow USING btree (made_at) WHERE (ended_at IS NULL);

CREATE INDEX flow_task_state ON tenon.flow_task USING btree (flow, state);

CREATE INDEX flow_wait_parent ON tenon.flow_wait USING btree (parent, task);

CREATE INDEX kind_paused ON tenon.kind USING btree (name) WHERE paused;

CREATE INDEX limit_due_at ON tenon.limit_due USING btree (due_at);

CREATE INDEX limit_start_at ON tenon.limit_start USING btree (at);

CREATE INDEX limit_start_key ON tenon.limit_start USING btree (key, at);

CREATE INDEX limit_task_dead ON tenon.limit_task USING btree (key, task_id) WHERE (state = 'dead'::text);

CREATE INDEX limit_task_held ON tenon.limit_task USING btree (key, task_id) WHERE (state = ANY (ARRAY['held'::text, 'ending'::text]));

CREATE INDEX limit_task_later ON tenon.limit_task USING btree (wanted_at) WHERE (state = ANY (ARRAY['later'::text, 'ending'::text]));

CREATE INDEX limit_task_line ON tenon.limit_task USING btree (key, priority DESC, wanted_at, task_id) WHERE (state = 'waits'::text);

CREATE INDEX limit_task_parked ON tenon.limit_task USING btree (key) WHERE (state = 'parked'::text);

CREATE INDEX limit_turn_active ON tenon.limit_turn USING btree (share, pass) WHERE active;

CREATE INDEX limit_until ON tenon."limit" USING btree (until) WHERE (until IS NOT NULL);

CREATE INDEX schedule_due ON tenon.schedule USING btree (due_at);

CREATE INDEX signal_settled ON tenon.signal USING btree (sent_at) WHERE settled;

CREATE INDEX signal_unsettled ON tenon.signal USING btree (sent_at) WHERE (NOT settled);

CREATE INDEX task_delayed ON tenon.task USING btree (run_at) WHERE delayed;

CREATE INDEX task_order ON tenon.task USING btree (queue, priority DESC, run_at, ((id + 0)));

CREATE INDEX task_start_before ON tenon.task USING btree (start_before) WHERE (start_before IS NOT NULL);

CREATE UNIQUE INDEX task_unique_key ON tenon.task USING btree (unique_key, kind) WHERE (unique_key IS NOT NULL);

CREATE INDEX unique_hold_until ON tenon.unique_hold USING btree (until);

CREATE INDEX waiting_signal ON tenon.waiting USING btree (signal, task_id);

CREATE INDEX waiting_unsettled ON tenon.waiting USING btree (task_id) WHERE (NOT settled);

CREATE INDEX waiting_until ON tenon.waiting USING btree (until);

CREATE INDEX worker_alive ON tenon.worker USING btree (started_at) WHERE (ended_at IS NULL);

CREATE TRIGGER limited_deleted AFTER DELETE ON tenon.dead FOR EACH ROW WHEN ((old.limit_keys IS NOT NULL)) EXECUTE FUNCTION tenon.limited_deleted();

CREATE TRIGGER limited_named BEFORE UPDATE OF name ON tenon.kind FOR EACH ROW WHEN ((old.limited AND (old.name <> new.name))) EXECUTE FUNCTION tenon.limited_stays();

CREATE TRIGGER limited_named BEFORE UPDATE OF name ON tenon.queue FOR EACH ROW WHEN ((old.limited AND (old.name <> new.name))) EXECUTE FUNCTION tenon.limited_stays();

CREATE TRIGGER limited_stays BEFORE DELETE ON tenon.kind FOR EACH ROW WHEN (old.limited) EXECUTE FUNCTION tenon.limited_stays();

CREATE TRIGGER limited_stays BEFORE DELETE ON tenon.queue FOR EACH ROW WHEN (old.limited) EXECUTE FUNCTION tenon.limited_stays();

CREATE TRIGGER note_confined AFTER INSERT OR DELETE OR UPDATE OR TRUNCATE ON tenon.producer FOR EACH STATEMENT EXECUTE FUNCTION tenon.note_confined();

CREATE TRIGGER note_waiting AFTER INSERT ON tenon.waiting FOR EACH ROW EXECUTE FUNCTION tenon.note_waiting();

REVOKE ALL ON FUNCTION tenon.act_states(act text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.adopt() FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.ahead_of(t tenon.task, kinds text[], most integer, OUT n bigint, OUT higher bigint, OUT more boolean) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.is_span(span interval, least_s numeric, most_s numeric) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.as_again(t tenon.task) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.await(id bigint, OUT state text, OUT result jsonb, OUT error text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.backlog_seen(queue text, OUT ready bigint, OUT running bigint, OUT oldest_s double precision, OUT running_s double precision) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.batch(on_done text, on_dead text, on_end text, payload jsonb, name text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.behind_text(n bigint, more boolean) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.cancel(id bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.cancel_all(filter jsonb, most integer, why text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.cancel_flow(flow bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.cancel_ids(ids bigint[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.cancel_members(flow bigint, by text, most integer, OUT n integer, OUT more boolean) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.candidates(f tenon.filter, places text[], newest boolean, after bigint, most integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.change(act text, filter jsonb, changes jsonb, most integer, after bigint, why text, audit bigint, limit_ms integer, OUT n bigint, OUT skipped bigint, OUT next bigint, OUT audit_id bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.changed_integer(changes jsonb, key text, lowest integer, highest integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.changed_ms(changes jsonb, key text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.changed_run_at(changes jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.check_act(act text, changes jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.check_allowed(kind text, queue text, payload jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.check_callbacks(on_done text, on_dead text, on_end text, payload jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.check_changes(changes jsonb, keys text[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.check_enqueue(kind text, queue text, priority integer, run_at timestamp with time zone, delay interval, start_before timestamp with time zone, max_attempts integer, timeout interval, retry text, trace text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.check_limit(running integer, rate integer, per interval, weight integer, until timestamp with time zone, on_dead text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.check_limit_keys(limit_keys text[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.check_limit_name(name text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.check_most(most integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.check_object(path text, value jsonb, keys text[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.check_parents(flow bigint, after bigint[], on_parent_dead text, unique_key text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.check_payload(payload jsonb, bytes_max integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.check_retry(ids bigint[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.check_schedule(name text, cron text, every interval, kind text, document jsonb, queue text, priority integer, max_attempts integer, timeout interval, catch_up text, overlap text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.check_target(queue text, kind text, everything boolean) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.check_unique(unique_key text, on_conflict text, unique_for interval, debounce interval, debounce_max interval, run_at timestamp with time zone, delay interval) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.check_zone(zone text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.claim_must_hold(claim text, holds boolean, worker_id uuid) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.cleaner_leads() FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.close(flow bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.copied() FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.count_tasks(filter jsonb, most integer, OUT n bigint, OUT at_least boolean) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.cron_day(c tenon.cron, day date) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.cron_field(field text, list text, low integer, high integer, names text[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.cron_next(bits bigint, low integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.cron_number(field text, word text, low integer, high integer, names text[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.cron_wall(c tenon.cron, after timestamp without time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.defaults(kind text, queue text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.delete(filter jsonb, most integer, why text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.delete_ids(ids bigint[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.demand(queue text, latency interval) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.drop_history() FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.drop_limit(name text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.drop_schedule(name text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.end_cancelled(ids bigint[], why text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.end_flow(f tenon.flow) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.end_wait(task_id bigint, moment timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.end_waits(tasks bigint[], anew bigint[], to_cancel bigint[], most integer, OUT n integer, OUT more boolean, OUT freed bigint[], OUT free bigint[], OUT doomed bigint[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.ended_by(error text, OUT exit_code integer, OUT signal integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.ended_tids(since timestamp with time zone, last_blocks integer, spread_blocks integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.enqueue(kind text, payload anycompatible, queue text, priority integer, run_at timestamp with time zone, delay interval, unique_key text, on_conflict text, unique_for interval, debounce interval, debounce_max interval, start_before timestamp with time zone, max_attempts integer, timeout interval, retry text, limit_keys text[], flow bigint, after bigint[], on_parent_dead text, trace text, notify boolean, announced boolean) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.enqueue_again(a tenon.again, notify boolean) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.enqueue_callback(f tenon.flow, kind text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.enqueue_described(task jsonb, flow bigint, after bigint[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.enqueue_many(kind text, payloads anycompatiblearray, queue text, priority integer, run_at timestamp with time zone, delay interval, unique_keys text[], on_conflict text, unique_for interval, debounce interval, debounce_max interval, start_before timestamp with time zone, max_attempts integer, timeout interval, retry text, limit_keys text[], flow bigint, after bigint[], on_parent_dead text, trace text, notify boolean, announced boolean) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.enqueue_routed(kind text, payload anycompatible, queue text, priority integer, run_at timestamp with time zone, delay interval, unique_key text, on_conflict text, unique_for interval, debounce interval, debounce_max interval, start_before timestamp with time zone, max_attempts integer, timeout interval, retry text, limit_keys text[], flow bigint, after bigint[], on_parent_dead text, trace text, notify boolean, announced boolean) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.enqueue_tasks(flow bigint, tasks jsonb, names text[], child integer[], parent integer[], places integer[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.enqueue_tick(s tenon.schedule, tick timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.error_class(reason text, error text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.error_line(error text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.expire(moment timestamp with time zone, most integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.extend(claim text, by interval) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.fill_parents(ids bigint[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.filter_ids(value jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.filter_keys() FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.filter_path(value jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.filter_states(f tenon.filter, act text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.filter_text(value jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.filter_texts(value jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.filter_with(f tenon.filter, key text, value jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.find(filter jsonb, act text, after bigint, most integer, limit_ms integer, OUT ids bigint[], OUT next bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.finish(claim text, result jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.finish_many(claims text[], results jsonb[], skip_lost boolean) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.first_tick(s tenon.schedule, moment timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.flow(description jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.flow(name text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.flow_order(n integer, child integer[], parent integer[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.grant_acts(role text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.grant_cleaner(role text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.grant_flows(role text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.grant_home(role text, adopts boolean) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.grant_limits(role text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.grant_lists(role text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.grant_operator(role text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.grant_producer(role text, queues text[], kinds text[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.grant_reader(role text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.grant_worker(role text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.handled(queue text, kind text, OUT workers bigint, OUT backs_off text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.has_tasks(flow bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.hold_flow(flow bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.hold_key(kind text, unique_key text, until timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.hold_schedule(name text, source text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.holder(kind text, unique_key text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.home_here() FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.home_text(h tenon.home) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.is_kind(kind text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.is_limit_key(key text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.retry_parts(policy text, OUT curve text, OUT first_s double precision, OUT cap_s double precision, OUT jitter double precision) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.is_retry(policy text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.join_flow(ids bigint[], flow bigint, after bigint[], waits bigint[], on_parent_dead text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.join_holder(a tenon.again, patience interval) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.joined(a tenon.again, b tenon.again) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.last_tick(s tenon.schedule, moment timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.limit_admit(keys text[], most integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.limit_admit_heads(heads tenon.limit_head[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.limit_admit_several(head tenon.limit_head) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.limit_admit_share(share text, rooms tenon.limit_room[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.limit_again(keys text[], at timestamp with time zone, why text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.limit_back(events tenon.limit_event[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.limit_came_due(most integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.limit_changed(name text, there boolean) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.limit_count_starts(events tenon.limit_event[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.limit_end() FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.limit_ended(most integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.limit_first(keys text[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.limit_free(share text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.limit_heads(rooms tenon.limit_room[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.limit_in_way(key text, OUT paused boolean, OUT sentence text, OUT advice text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.limit_kept(key text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.limit_keys_of(name text, beyond text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.limit_leave(rooms tenon.limit_room[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.limit_names(key text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.limit_note_due(rooms tenon.limit_room[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.limit_raised(key text, running integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.limit_rooms(keys text[], mine text[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.limit_rows(events tenon.limit_event[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.limit_rule(key text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.limit_settle_ends(events tenon.limit_event[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.limit_spread(name text, beyond text, most integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.limit_take(key text, n integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.limit_take_part(share text, rooms tenon.limit_room[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.limit_used(key text, since timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.limit_wait_ms(key text, rate integer, per interval, n integer, since timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.limited_changed(ids bigint[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.limited_deleted() FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.limited_stays() FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.limits_due_ms(ended boolean) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.list(filter jsonb, after bigint, most integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.lock_found(act text, ids bigint[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.lock_limited(name text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.lock_rates(keys text[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.look_at_flows(flows bigint[], most integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.make_flow(name text, open boolean, on_done text, on_dead text, on_end text, payload jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.make_partitions(days_ahead integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.may_cancel(enqueued_by text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.may_enqueue(queue text, kind text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.may_flow(made_by text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.may_retry(ids bigint[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.may_see(enqueued_by text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.mine() FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.need_partition(moment timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.needs_note(t tenon.task) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.next_tick(cron text, zone text, after timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.next_tick_hourly(c tenon.cron, zone text, after timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.note_audit(act text, what jsonb, n bigint, skipped bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.note_change(audit bigint, act text, what jsonb, n bigint, skipped bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.note_confined() FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.note_ended(t tenon.task, was_cancelled boolean) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.note_ends(tasks bigint[], since timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.note_schedule(act text, name text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.note_waiting() FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.or_old(changes jsonb, key text, new bigint, old bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.parent_results(task bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.parent_results(claim text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.parse_cron(cron text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.pause(queue text, kind text, everything boolean, why text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.pause_limit(name text, why text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.pause_schedule(name text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.paused_kinds(kinds text[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.places(states text[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.printed_bytes(value jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.progress(claim text, value jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.progress_kept(line text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.publisher_sleeps(key bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.purge(most integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.purge_flows(before timestamp with time zone, most integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.put_steps(id bigint, old jsonb, new jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.queue_limits(ids bigint[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.queue_names(most bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.random_key() FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.rate_seen(queue text, OUT tasks_per_s double precision, OUT run_s double precision) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.read_claim(claim text, OUT id bigint, OUT claims integer, OUT start_time timestamp with time zone, OUT worker_id uuid) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.read_filter(filter jsonb, act text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.read_tasks(tasks jsonb, OUT names text[], OUT child integer[], OUT parent integer[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.record_steps(worker uuid, ids bigint[], claims integer[], starts_us bigint[], lines text[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.refuse(argument text, value text, allowed text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.refuse_circle(names text[], child integer[], parent integer[], places integer[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.refuse_cron(field text, word text, why text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.requeue(ids bigint[], claims integer[], starts_us bigint[], worker uuid, reasons text[], errors text[], delays_ms bigint[], classes text[], signals text[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.result(id bigint, OUT state text, OUT result jsonb, OUT error text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.result_kept(result jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.results_kept(results jsonb[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.results_of(task bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.resume(queue text, kind text, everything boolean, why text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.resume_limit(name text, why text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.resume_schedule(name text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.retry(filter jsonb, most integer, why text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.retry_delay(failures integer, policy text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.retry_ids(ids bigint[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.route_of(kind text, queue text, OUT exchange text, OUT routing_key text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.run_now(filter jsonb, most integer, why text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.run_schedule_now(name text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.run_schedules() FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.run_schedules_at(moment timestamp with time zone, schedules integer, ticks integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.run_ticks(s tenon.schedule, moment timestamp with time zone, ticks integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.search(f tenon.filter, newest boolean, after bigint, most integer, limit_ms integer, OUT ids bigint[], OUT next bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.set(filter jsonb, changes jsonb, most integer, why text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.set_ids(ids bigint[], priority smallint, run_at timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.set_kind(name text, changes jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.set_limit(name text, running integer, rate integer, per interval, strict boolean, fair boolean, weight integer, paused boolean, until timestamp with time zone, on_dead text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.set_queue(name text, changes jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.set_schedule(name text, cron text, every interval, kind text, payload anycompatible, zone text, catch_up text, overlap text, queue text, priority integer, max_attempts integer, timeout interval, source text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.settle(most integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.settle_again(a tenon.again) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.settle_all(most integer, few integer, OUT n integer, OUT freed bigint[], OUT due_ms bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.settle_flows(most integer, OUT n integer, OUT freed bigint[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.settle_limits(most integer, OUT n integer, OUT freed bigint[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.settle_signals(most integer, OUT n integer, OUT freed bigint[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.signal(name text, payload jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.slots_for(queue text, kind text, OUT slots bigint, OUT running bigint, OUT kinds text[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.slots_wanted(tasks_per_s double precision, run_s double precision, ready bigint, running bigint, oldest_s double precision, latency_s double precision) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.step(claim text, name text, value jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.steps(claim text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.sync_schedules(source text, schedules jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.tell_paused(queue text, paused boolean) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.tick_after(s tenon.schedule, after timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.tick_payload(payload jsonb, tick timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.time_text(moment timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.unblock(ids bigint[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.wait_for(claim text, signal text, timeout interval, OUT state text, OUT payload jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.wait_refused(steps jsonb, signal text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.wake(ids bigint[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.wall_moment(zone text, wall timestamp without time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.why(id bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.why_blocked(t tenon.task, OUT code text, OUT sentence text, OUT advice text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.why_ended(id bigint, OUT code text, OUT sentence text, OUT advice text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.why_limited(task_id bigint, keys text[], OUT code text, OUT sentence text, OUT advice text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.why_next(t tenon.task) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.why_not_taken(t tenon.task, OUT code text, OUT sentence text, OUT advice text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.why_of(id bigint, OUT code text, OUT sentence text, OUT advice text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.why_one_of(ids bigint[], OUT sentence text, OUT advice text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.why_parents(t tenon.task, OUT code text, OUT sentence text, OUT advice text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.why_ready(t tenon.task, OUT code text, OUT sentence text, OUT advice text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.why_unfinished(t tenon.task, OUT code text, OUT sentence text, OUT advice text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.why_waiting(t tenon.task, OUT code text, OUT sentence text, OUT advice text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.with_step(steps jsonb, name text, value jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.with_step_of(steps jsonb, line text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.without_cleaner() FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.zone_offset(zone text, moment timestamp with time zone) FROM PUBLIC;

