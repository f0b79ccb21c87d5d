-- The database of release 1.0.0, by script/keep-release. From the release on it must not change, nor what it has:
-- has sql/tables.sql 2c3a33136e5e60ecf081257c76f21b25d3caeee6f427a7efc672ae4bccc976a2
-- rest b1fb5ed02f5b14774636b0c68f823a4189b40f404b634b1224b5d72305ba70bf

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

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
	limit_key text,
	tags text[],
	undo boolean
);

CREATE TYPE tenon.kept_steps AS (
	steps jsonb,
	names text[],
	times timestamp with time zone[]
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
                    WHEN 'undo' THEN '{blocked,scheduled,ready}'
                    WHEN 'set' THEN '{blocked,scheduled,ready,retrying}' END
$$;

CREATE FUNCTION tenon.add_counts(one integer[], other integer[]) RETURNS integer[]
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $_$
    SELECT coalesce(array_agg(coalesce(u.a, 0) + coalesce(u.b, 0) ORDER BY u.i), '{}') FROM unnest($1, $2) WITH ORDINALITY u (a, b, i)
$_$;

CREATE FUNCTION tenon.added_bytes(name text, value_bytes bigint) RETURNS bigint
    LANGUAGE sql STABLE
    AS $$ SELECT octet_length(to_json(name)::text) + value_bytes + 4 $$;

CREATE FUNCTION tenon.adopt() RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
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

SET default_tablespace = '';

SET default_table_access_method = heap;

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
    claim_key bigint,
    start_before timestamp with time zone,
    worker_id uuid,
    step_count integer,
    step_bytes integer,
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
    watched boolean,
    max_crashes integer,
    tags text[],
    undo jsonb
)
WITH (fillfactor='43', autovacuum_vacuum_scale_factor='0.01', autovacuum_vacuum_cost_delay='0', autovacuum_vacuum_insert_scale_factor='0.2');

CREATE FUNCTION tenon.ahead_of(t tenon.task, kinds text[], most integer, OUT n bigint, OUT higher bigint, OUT more boolean) RETURNS record
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_bitmapscan TO 'off'
    SET jit TO 'off'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
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
    SET standard_conforming_strings TO 'on'
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
    tags text[],
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
               ($1).trace, ($1).enqueued_by, ($1).limit_keys, ($1).tags, 'keep', NULL, NULL, false, NULL)::tenon.again
$_$;

CREATE FUNCTION tenon.await(id bigint, watch boolean DEFAULT false, OUT state text, OUT result jsonb, OUT error text, OUT progress jsonb) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET lock_timeout TO '50 ms'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
#variable_conflict use_variable
BEGIN
    BEGIN
        UPDATE tenon.task t SET awaited = true, watched = CASE WHEN watch THEN true ELSE t.watched END
         WHERE t.id = id AND (t.awaited IS NOT TRUE OR watch AND t.watched IS NOT TRUE) AND tenon.may_see(t.enqueued_by);
    EXCEPTION WHEN lock_not_available THEN
        NULL;
    END;
    SELECT r.* INTO state, result, error, progress FROM tenon.result(id) r;
END $$;

CREATE FUNCTION tenon.backlog_seen(queue text, OUT ready bigint, OUT running bigint, OUT oldest_s double precision, OUT running_s double precision) RETURNS record
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $_$
    WITH paused AS MATERIALIZED (
        SELECT coalesce(bool_or(p.what = 'everything' OR (p.what = 'queue' AND p.name = $1)), false) AS whole,
               coalesce(array_agg(p.name) FILTER (WHERE p.what = 'kind'), '{}') AS kinds
          FROM tenon.paused p
    ), seen AS MATERIALIZED (
        SELECT count(*) AS n, count(*) FILTER (WHERE d.start_time IS NULL AND NOT d.held) AS ready, count(d.start_time) AS running,
               extract(epoch FROM clock_timestamp() - min(d.run_at) FILTER (WHERE d.start_time IS NULL AND NOT d.held)) AS oldest_s,
               avg(extract(epoch FROM clock_timestamp() - d.start_time)) AS running_s
          FROM (SELECT t.start_time, t.run_at, p.whole OR t.kind = ANY (p.kinds) AS held
                  FROM paused p, generate_series(9, 0, -1) AS level (priority)
                 CROSS JOIN LATERAL (SELECT o.start_time, o.run_at, o.kind FROM tenon.task o
                                      WHERE o.queue = $1 AND o.priority = level.priority AND o.run_at <= clock_timestamp()
                                      ORDER BY o.run_at LIMIT 10000) t
                 LIMIT 10000) d
    ), counted AS MATERIALIZED (
        SELECT sum(d.ready) FILTER (WHERE NOT (p.whole OR d.kind = ANY (p.kinds))) AS ready, sum(d.running) AS running
          FROM paused p, tenon.depth d
         WHERE d.queue = $1 AND (SELECT n FROM seen) >= 10000 AND EXISTS (SELECT FROM tenon.depth_fresh())
    )
    SELECT greatest(s.ready, c.ready), greatest(s.running, c.running), s.oldest_s, s.running_s FROM seen s, counted c
$_$;

CREATE FUNCTION tenon.bad_ancestor(task bigint) RETURNS bigint
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $_$
    WITH RECURSIVE up (id) AS (
        SELECT f.parent FROM tenon.flow_wait f WHERE f.task = $1
        UNION
        SELECT f.parent FROM up JOIN tenon.flow_wait f ON f.task = up.id
    )
    SELECT m.id FROM (SELECT id FROM up LIMIT 1000) u JOIN tenon.flow_task m ON m.id = ANY (ARRAY[u.id]) WHERE m.state <> 'done' LIMIT 1
$_$;

CREATE FUNCTION tenon.batch(on_done text DEFAULT NULL::text, on_dead text DEFAULT NULL::text, on_end text DEFAULT NULL::text, payload jsonb DEFAULT '{}'::jsonb, name text DEFAULT NULL::text) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
BEGIN
    IF num_nonnulls(on_done, on_dead, on_end) = 0 THEN
        PERFORM tenon.refuse_call('a batch needs a callback', 'Give on_done, on_dead or on_end; without a callback use tenon.flow(name).');
    END IF;
    PERFORM tenon.check_callbacks(on_done, on_dead, on_end, payload);
    RETURN tenon.make_flow(name, true, on_done, on_dead, on_end, payload);
END $$;

CREATE FUNCTION tenon.begin_partition(parent text, part integer) RETURNS void
    LANGUAGE sql
    AS $_$
    INSERT INTO tenon.partition AS p (parent, part, begun_at) VALUES ($1, $2, clock_timestamp())
        ON CONFLICT ON CONSTRAINT partition_pkey DO UPDATE SET begun_at = excluded.begun_at;
    SELECT setval(format('tenon.%I', $1 || '_part'), $2);
$_$;

CREATE FUNCTION tenon.behind_text(n bigint, more boolean) RETURNS text
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
    SELECT format('behind %s%s %s', CASE WHEN more THEN 'at least ' END, n, CASE n WHEN 1 THEN 'task' ELSE 'tasks' END)
$$;

CREATE FUNCTION tenon.call_relay() RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
BEGIN
    IF pg_try_advisory_xact_lock_shared((SELECT s.sleeper_key FROM tenon.setting s)) IS NOT TRUE THEN
        PERFORM pg_notify('tenon', 'relay');
    END IF;
END $$;

CREATE FUNCTION tenon.call_settler() RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
BEGIN
    IF pg_try_advisory_xact_lock_shared((SELECT s.sleeper_key FROM tenon.setting s)) IS NOT TRUE THEN
        PERFORM pg_notify('tenon', 'settle');
    END IF;
END $$;

CREATE FUNCTION tenon.cancel(id bigint) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    s     tenon.setting := tenon.settings();
    owner text := tenon.cancel_one(id);
BEGIN
    IF owner <> session_user THEN
        PERFORM tenon.note_audit('cancel', jsonb_build_object('filter', jsonb_build_object('ids', id)), 1);
    END IF;
    RETURN owner IS NOT NULL;
END $$;

CREATE FUNCTION tenon.cancel_flow(flow bigint) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
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
    PERFORM tenon.call_settler();
    n := (tenon.cancel_members(flow, session_user, 10000)).n;
    IF first OR n > 0 THEN
        PERFORM tenon.note_audit('cancel_flow', jsonb_build_object('flow', flow), n);
    END IF;
    RETURN n;
END $$;

CREATE FUNCTION tenon.cancel_ids(ids bigint[]) RETURNS bigint[]
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
    SELECT array_agg(i) FILTER (WHERE tenon.cancel_one(i) IS NOT NULL) FROM unnest(ids) i
$$;

CREATE FUNCTION tenon.cancel_members(flow bigint, by text, most integer, OUT n integer, OUT more boolean) RETURNS record
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
#variable_conflict use_variable
DECLARE
    here bigint[] := ARRAY(SELECT t.id FROM tenon.flow_task m
                            CROSS JOIN LATERAL (SELECT k.id FROM tenon.task k WHERE k.id = m.id LIMIT 1) t
                            WHERE m.flow = flow AND m.state IS NULL LIMIT most);
    ours bigint[] := tenon.first_bytes(ARRAY(SELECT t.id FROM tenon.task t WHERE t.id = ANY (here) ORDER BY t.id FOR UPDATE SKIP LOCKED));
BEGIN
    n := cardinality(ours);
    more := cardinality(here) = most OR n < cardinality(here);
    PERFORM tenon.end_tasks(ours, 'cancelled', clock_timestamp(), 'cancelled by ' || by || ', with its flow');
END $$;

CREATE FUNCTION tenon.cancel_one(id bigint) RETURNS text
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_variable
DECLARE
    owner text := (SELECT coalesce(t.enqueued_by, '') FROM tenon.task t WHERE t.id = id AND tenon.may_cancel(t.enqueued_by) FOR UPDATE);
BEGIN
    IF owner IS NOT NULL THEN
        PERFORM tenon.end_tasks(ARRAY[id], 'cancelled', clock_timestamp(), 'cancelled by ' || session_user);
    ELSIF EXISTS (SELECT FROM tenon.task t WHERE t.id = id AND NOT tenon.may_cancel(t.enqueued_by)) THEN
        RAISE EXCEPTION 'tenon: permission denied for task %: role % may not cancel it', id, session_user
            USING ERRCODE = 'insufficient_privilege',
                  HINT = 'Another role enqueued it, and either cancel_own_only in tenon.setting is true or this role is confined (tenon.producer). Ask an operator.';
    END IF;
    RETURN owner;
END $$;

CREATE FUNCTION tenon.cancel_where(filter jsonb, most integer DEFAULT 10000, why text DEFAULT NULL::text) RETURNS bigint
    LANGUAGE sql
    AS $$ SELECT c.n FROM tenon.change('cancel', filter, most => most, why => why) c $$;

CREATE FUNCTION tenon.candidates(f tenon.filter, places text[], newest boolean, cursor bigint, most integer) RETURNS bigint[]
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET plan_cache_mode TO 'force_custom_plan'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
BEGIN
    IF f.ids IS NOT NULL THEN
        RETURN CASE WHEN f.flow IS NULL THEN f.ids
                    ELSE ARRAY(SELECT m.id FROM tenon.flow_task m WHERE m.id = ANY (f.ids) AND m.flow = f.flow) END;
    ELSIF f.flow IS NOT NULL THEN
        RETURN ARRAY(SELECT m.id FROM (SELECT x.id FROM tenon.flow_task x
                                        WHERE x.flow = f.flow AND CASE WHEN newest THEN x.id < cursor ELSE x.id > cursor END OFFSET 0) m
                      ORDER BY CASE WHEN newest THEN -m.id ELSE m.id END LIMIT most);
    ELSIF f.limit_key IS NULL OR places <> '{task}' THEN
        RETURN NULL;
    ELSIF newest THEN
        RETURN ARRAY(SELECT c.id FROM (
            (SELECT l.task_id AS id FROM tenon.limit_task l WHERE l.key = f.limit_key AND l.task_id < cursor ORDER BY 1 DESC LIMIT most)
            UNION (SELECT DISTINCT w.task FROM tenon.flow_wait w WHERE w.task < cursor ORDER BY 1 DESC LIMIT most)
            UNION (SELECT w.task_id FROM tenon.waiting w WHERE w.task_id < cursor ORDER BY 1 DESC LIMIT most)) c
            ORDER BY c.id DESC LIMIT most);
    END IF;
    RETURN ARRAY(SELECT c.id FROM (
        (SELECT l.task_id AS id FROM tenon.limit_task l WHERE l.key = f.limit_key AND l.task_id > cursor ORDER BY 1 LIMIT most)
        UNION (SELECT DISTINCT w.task FROM tenon.flow_wait w WHERE w.task > cursor ORDER BY 1 LIMIT most)
        UNION (SELECT w.task_id FROM tenon.waiting w WHERE w.task_id > cursor ORDER BY 1 LIMIT most)) c
        ORDER BY c.id LIMIT most);
END $$;

CREATE FUNCTION tenon.change(act text, filter jsonb, changes jsonb DEFAULT NULL::jsonb, most integer DEFAULT 1000, cursor bigint DEFAULT NULL::bigint, why text DEFAULT NULL::text, audit bigint DEFAULT NULL::bigint, limit_ms integer DEFAULT NULL::integer, OUT n bigint, OUT skipped bigint, OUT next bigint, OUT audit_id bigint) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET plan_cache_mode TO 'force_custom_plan'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    f        tenon.filter;
    wanted   bigint[];
    done     bigint[];
    priority smallint;
    run_at   timestamptz;
    last     bigint;
BEGIN
    PERFORM tenon.check_most(most);
    PERFORM tenon.check_act(act, changes);
    PERFORM tenon.check_length('why', why, 1000);
    f := tenon.read_filter(filter, act);
    priority := tenon.changed_integer(changes, 'priority', 0, 9);
    run_at := CASE act WHEN 'run_now' THEN clock_timestamp() ELSE tenon.changed_run_at(changes) END;
    SELECT s.ids, s.next INTO wanted, next FROM tenon.search(f, false, cursor, most, limit_ms) s;
    last := tenon.last_of_steps(act, wanted);
    IF last IS NOT NULL THEN
        wanted := ARRAY(SELECT i FROM unnest(wanted) i WHERE i <= last);
        next := last;
    END IF;
    f.ids := tenon.lock_found(act, wanted);
    SELECT s.ids INTO f.ids FROM tenon.search(f, false, NULL, most, NULL) s;  -- as they are now that they are locked
    IF act = 'retry' AND filter ? 'ids' AND tenon.may_retry(f.ids) = '{}' THEN
        PERFORM tenon.check_retry(f.ids);
    END IF;
    IF act = 'retry' AND changes IS NOT NULL THEN
        f.ids := tenon.that_recorded(f.ids, changes ->> 'from_step', named => filter ? 'ids' AND cursor IS NULL);
    END IF;
    done := CASE act WHEN 'retry' THEN tenon.retry_ids(f.ids, changes ->> 'from_step')
                     WHEN 'undo' THEN tenon.undo_ids(f.ids)
                     WHEN 'cancel' THEN tenon.cancel_ids(f.ids)
                     WHEN 'delete' THEN tenon.delete_ids(f.ids)
                     ELSE tenon.set_ids(f.ids, priority, run_at, tenon.changed_integer(changes, 'max_crashes', 2, 100)) END;
    PERFORM tenon.wake(done);
    n := coalesce(cardinality(done), 0);
    skipped := cardinality(wanted) - n;
    audit_id := tenon.note_change(audit, act, jsonb_build_object('filter', filter, 'changes', changes, 'why', why), n, skipped);
END $$;

CREATE FUNCTION tenon.changed_integer(changes jsonb, key text, lowest integer, highest integer) RETURNS integer
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $_$
BEGIN
    IF (changes ->> key) !~ '^-?[0-9]{1,9}$' OR (changes ->> key)::integer NOT BETWEEN lowest AND highest THEN
        PERFORM tenon.refuse(key, changes ->> key, format('%s to %s', lowest, highest));
    END IF;
    RETURN (changes ->> key)::integer;
END $_$;

CREATE FUNCTION tenon.changed_run_at(changes jsonb) RETURNS timestamp with time zone
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
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
        PERFORM tenon.refuse('run_at', changes ->> 'run_at', 'a time at most 10 years ahead');
    END IF;
    RETURN greatest(run_at, CASE WHEN run_at IS NOT NULL THEN clock_timestamp() END);
END $$;

CREATE FUNCTION tenon.check_act(act text, changes jsonb) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
BEGIN
    IF tenon.act_states(act) IS NULL THEN
        PERFORM tenon.refuse('act', quote_literal(act), 'retry, undo, cancel, delete, run_now or set');
    ELSIF act = 'set' THEN
        PERFORM tenon.check_changes(changes, '{priority,run_at,max_crashes}');
    ELSIF act = 'retry' AND changes IS NOT NULL THEN
        PERFORM tenon.check_changes(changes, '{from_step}');
        PERFORM tenon.refuse('from_step', coalesce((changes -> 'from_step')::text, 'NULL'), 'the name of a step')
          WHERE jsonb_typeof(changes -> 'from_step') <> 'string';
    ELSIF changes IS NOT NULL THEN
        PERFORM tenon.refuse_call(format('changes are given for %s', act), 'Omit them: only set and retry take changes.');
    END IF;
END $$;

CREATE FUNCTION tenon.check_allowed(kind text, queue text, payload jsonb) RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
    d record;
BEGIN
    SELECT * INTO d FROM tenon.defaults(kind, queue);
    IF NOT FOUND THEN
        PERFORM tenon.settings();
    END IF;
    PERFORM tenon.check_payload(payload, d.payload_bytes_max);
    IF d.confined AND NOT tenon.may_enqueue(d.queue, kind) THEN
        RAISE EXCEPTION 'tenon: role % may not enqueue kind % to queue %', session_user, kind, d.queue
            USING ERRCODE = 'insufficient_privilege',
                  HINT = 'The role is confined to other queues or kinds (tenon.producer); the owner of the schema can change that with tenon setup --grant-producer.';
    END IF;
END $$;

CREATE FUNCTION tenon.check_callbacks(on_done text, on_dead text, on_end text, payload jsonb) RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
    k text;
BEGIN
    PERFORM tenon.check_payload(payload, s.payload_bytes_max) FROM tenon.setting s;
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
    SET standard_conforming_strings TO 'on'
    AS $$
BEGIN
    IF coalesce(jsonb_typeof(changes), '') <> 'object' OR changes = '{}'
       OR NOT ARRAY(SELECT jsonb_object_keys(changes)) <@ keys THEN
        PERFORM tenon.refuse('changes', changes::text, 'an object with at least one of ' || array_to_string(keys, ', '));
    END IF;
    PERFORM tenon.check_length('changes', changes::text, 4096);
END $$;

CREATE FUNCTION tenon.check_elements(n integer, unique_keys text[], queues text[], priorities integer[], run_ats timestamp with time zone[], start_before timestamp with time zone) RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
    a   record;
    bad text;
BEGIN
    FOR a IN SELECT * FROM (VALUES ('unique_keys', cardinality(unique_keys)), ('queues', cardinality(queues)), ('priorities', cardinality(priorities)),
                                   ('run_ats', cardinality(run_ats))) v (name, n) WHERE v.n <> check_elements.n LOOP
        PERFORM tenon.refuse(a.name, format('of %s elements', a.n), format('as long as payloads, %s elements', check_elements.n));
    END LOOP;
    bad := (SELECT p FROM unnest(priorities) p WHERE p NOT BETWEEN 0 AND 9 LIMIT 1);
    IF bad IS NOT NULL THEN
        PERFORM tenon.refuse('priorities', bad, 'of numbers from 0 to 9, higher first');
    END IF;
    bad := (SELECT r FROM unnest(run_ats) r WHERE NOT isfinite(r) OR r > clock_timestamp() + interval '10 years' OR r >= start_before LIMIT 1);
    IF bad IS NOT NULL THEN
        PERFORM tenon.refuse('run_ats', bad, 'of times at most 10 years ahead, and before start_before');
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
        PERFORM tenon.refuse('queue', quote_literal(queue), '1 to 63 of a-z 0-9 _ . -, the first not . or -');
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
        PERFORM tenon.refuse_call('run_at and delay are given together', 'Give one of them.');
    END IF;
    IF run_at IS NOT NULL AND (NOT isfinite(run_at) OR run_at > clock_timestamp() + interval '10 years') THEN
        PERFORM tenon.refuse('run_at', run_at::text, 'a time at most 10 years ahead');
    END IF;
    IF extract(epoch FROM delay) NOT BETWEEN 0 AND 315576000 THEN
        PERFORM tenon.refuse('delay', delay::text, '0 to 10 years');
    END IF;
    IF start_before IS NOT NULL AND (NOT isfinite(start_before)
                                     OR start_before <= greatest(coalesce(run_at, clock_timestamp() + tenon.seconds(delay)), clock_timestamp())) THEN
        PERFORM tenon.refuse('start_before', start_before::text, 'a time in the future, after run_at');
    END IF;
    IF NOT tenon.is_retry(retry) THEN
        PERFORM tenon.refuse('retry', quote_literal(retry), 'polynomial, polynomial(1 day, 10 %), or exponential(10 s, 1 h, 10 %), linear(...), constant(...), with delays of 1 ms to 30 days, at most 100 characters long');
    END IF;
    IF trace IS NOT NULL THEN
        PERFORM tenon.check_trace(trace);
    END IF;
    RETURN true;
END $_$;

CREATE FUNCTION tenon.check_exchange(exchange text) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF octet_length(exchange) > 127 THEN
        PERFORM tenon.refuse('exchange', format('of %s bytes', octet_length(exchange)), 'a text of at most 127 bytes; an empty one is the default exchange');
    END IF;
END $$;

CREATE FUNCTION tenon.check_length(argument text, value text, chars_max integer) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
BEGIN
    IF length(value) > chars_max THEN
        PERFORM tenon.refuse(argument, format('of %s characters', length(value)), format('at most %s characters long', chars_max));
    END IF;
END $$;

CREATE FUNCTION tenon.check_limit(max_running integer, max_starts integer, per interval, weight integer, until timestamp with time zone, when_dead text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
BEGIN
    IF max_running NOT BETWEEN 1 AND 1000000 THEN
        PERFORM tenon.refuse('max_running', max_running::text, '1 to 1000000; to stop the tasks, pause the limit');
    ELSIF max_starts NOT BETWEEN 1 AND 10000 THEN
        PERFORM tenon.refuse('max_starts', max_starts::text, '1 to 10000; for higher rates shorten per');
    ELSIF (max_starts IS NULL) <> (per IS NULL) THEN
        PERFORM tenon.refuse_call('max_starts and per are given one without the other', 'Give both, or neither.');
    ELSIF NOT tenon.is_span(per, 0.1, 2678400) THEN
        PERFORM tenon.refuse('per', per::text, '100 ms to 31 days');
    ELSIF weight NOT BETWEEN 1 AND 1000 THEN
        PERFORM tenon.refuse('weight', weight::text, '1 to 1000');
    ELSIF NOT isfinite(until) OR until <= clock_timestamp() THEN
        PERFORM tenon.refuse('until', until::text, 'a time in the future');
    ELSIF when_dead NOT IN ('block', 'skip') THEN
        PERFORM tenon.refuse('when_dead', quote_literal(when_dead), 'block or skip');
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
    IF cardinality(limit_keys) > 0 AND tenon.is_confined() THEN
        RAISE EXCEPTION 'tenon: role % may not use limit_keys', session_user
            USING ERRCODE = 'insufficient_privilege', HINT = 'It is confined to some queues or kinds (tenon.producer), but keys are shared by all.';
    END IF;
    FOREACH k IN ARRAY coalesce(limit_keys, '{}') LOOP
        IF tenon.is_limit_key(k) IS NOT TRUE OR k ~ '^(kind|queue)/' THEN
            PERFORM tenon.refuse('limit_keys', quote_nullable(k),
                                 '1 to 4 keys of 1 to 200 characters without spaces, not beginning with kind/ or queue/');
        END IF;
    END LOOP;
    RETURN (SELECT array_agg(d.key ORDER BY d.place)
              FROM (SELECT u.key, min(u.place) AS place FROM unnest(limit_keys) WITH ORDINALITY u (key, place) GROUP BY u.key) d);
END $$;

CREATE FUNCTION tenon.check_limit_name(name text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
BEGIN
    IF tenon.is_limit_key(name) IS NOT TRUE THEN
        PERFORM tenon.refuse('name', quote_nullable(name), 'a key, the part of keys before the colon, kind/NAME or queue/NAME: 1 to 200 characters without spaces');
    ELSIF name LIKE 'kind/%' THEN
        PERFORM tenon.check_target(NULL, substr(name, 6), false);
    ELSIF name LIKE 'queue/%' THEN
        PERFORM tenon.check_target(substr(name, 7), NULL, false);
    END IF;
END $$;

CREATE FUNCTION tenon.check_may_act(queue text, kind text) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF coalesce((SELECT s.confined FROM tenon.setting s), true) AND NOT tenon.may_enqueue(queue, kind) THEN
        RAISE EXCEPTION 'tenon: role % may not run tasks of kind % of queue %', session_user, kind, queue
            USING ERRCODE = 'insufficient_privilege',
                  HINT = 'It is confined to other queues or kinds (tenon.producer); the owner of the schema can change that with tenon setup --grant-producer.';
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
        PERFORM tenon.refuse(path, value::text, 'an object with no keys except ' || array_to_string(keys, ', '));
    END IF;
END $$;

CREATE FUNCTION tenon.check_parents(flow bigint, depends_on bigint[], on_parent_dead text, unique_key text) RETURNS bigint[]
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
#variable_conflict use_variable
DECLARE
    f       tenon.flow;
    p       record;
BEGIN
    IF num_nonnulls(flow, depends_on, on_parent_dead) = 0 THEN
        RETURN NULL;
    ELSIF flow IS NULL THEN
        PERFORM tenon.refuse_call('depends_on and on_parent_dead require flow', 'Make a flow with tenon.flow(name), and give its number as flow.');
    ELSIF unique_key IS NOT NULL THEN
        PERFORM tenon.refuse_call('unique_key and flow are given together', 'Omit unique_key: a task of a flow has none.');
    ELSIF on_parent_dead NOT IN ('wait', 'run', 'cancel') THEN
        PERFORM tenon.refuse('on_parent_dead', quote_literal(on_parent_dead), 'wait, run or cancel');
    ELSIF cardinality(depends_on) > 100000 THEN
        PERFORM tenon.refuse('depends_on', format('of %s elements', cardinality(depends_on)), 'an array of at most 100000 tasks of flows');
    END IF;
    f := tenon.hold_flow(flow);
    IF f.cancelled_at IS NOT NULL OR f.ended_at IS NOT NULL AND num_nonnulls(f.on_done, f.on_dead, f.on_end) > 0 THEN
        RAISE EXCEPTION 'tenon: flow % takes no more tasks: it %', flow,
            CASE WHEN f.cancelled_at IS NOT NULL THEN 'was cancelled by ' || f.cancelled_by ELSE 'has ended, and its callbacks were enqueued' END
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Make another flow.';
    ELSIF depends_on IS NULL THEN
        RETURN NULL;
    END IF;
    SELECT min(coalesce(a.id::text, 'NULL')) FILTER (WHERE m.id IS NULL) AS unknown,
           array_agg(m.id) FILTER (WHERE m.state IS NULL OR m.state <> 'done' AND on_parent_dead IS DISTINCT FROM 'run') AS waits,
           array_agg(DISTINCT m.flow) FILTER (WHERE m.flow <> flow) AS others
      INTO p
      FROM (SELECT DISTINCT u AS id FROM unnest(depends_on) u) a
      LEFT JOIN LATERAL (SELECT * FROM tenon.flow_task t WHERE t.id = a.id LIMIT 1) m ON true;
    IF p.unknown IS NOT NULL THEN
        PERFORM tenon.refuse_call(format('task %s in depends_on belongs to no flow', p.unknown), 'Parents are tasks of flows, of this transaction or of a committed one.');
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

CREATE FUNCTION tenon.check_publish(exchange text, routing_key text, headers jsonb, content_type text, order_key text, expires interval, properties jsonb, trace text) RETURNS void
    LANGUAGE plpgsql
    AS $_$
DECLARE
    headers_bytes_max constant integer := 16384;
    own               constant text[] := '{type,app_id,correlation_id,reply_to,content_encoding}';
    k                 text;
BEGIN
    PERFORM tenon.check_exchange(exchange);
    IF exchange IS NULL THEN
        PERFORM tenon.refuse('exchange', NULL, 'a text of at most 127 bytes; an empty one is the default exchange');
    ELSIF routing_key IS NULL THEN
        PERFORM tenon.refuse('routing_key', NULL, 'a text, which may be empty');
    ELSIF order_key = '' OR length(order_key) > 200 THEN
        PERFORM tenon.refuse('order_key', quote_literal(order_key), '1 to 200 characters');
    ELSIF expires NOT BETWEEN interval '1 millisecond' AND interval '365 days' THEN
        PERFORM tenon.refuse('expires', expires::text, '1 millisecond to 365 days');
    END IF;
    PERFORM tenon.check_short('routing_key', routing_key);
    PERFORM tenon.check_short('content_type', content_type);
    IF trace !~ '^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$' THEN
        PERFORM tenon.refuse('trace', quote_literal(trace), 'a W3C traceparent, such as 00-<32 hex>-<16 hex>-01');
    ELSIF jsonb_typeof(headers) <> 'object' OR octet_length(headers::text) > headers_bytes_max THEN
        PERFORM tenon.refuse('headers', headers::text, format('an object of at most %s bytes of JSON', headers_bytes_max));
    END IF;
    FOR k IN SELECT jsonb_object_keys(headers) LOOP
        IF octet_length(k) NOT BETWEEN 1 AND 128 OR k LIKE 'tenon-%' THEN
            PERFORM tenon.refuse('the name of a header', quote_literal(k), '1 to 128 bytes, and does not begin with tenon-');
        END IF;
    END LOOP;
    IF properties IS NOT NULL THEN
        PERFORM tenon.check_object('properties', properties, own || '{priority}');
        FOREACH k IN ARRAY own LOOP
            IF jsonb_typeof(properties -> k) <> 'string' THEN
                PERFORM tenon.refuse('properties.' || k, (properties -> k)::text, 'a text');
            END IF;
            PERFORM tenon.check_short('properties.' || k, properties ->> k);
        END LOOP;
        IF jsonb_typeof(properties -> 'priority') <> 'number' OR (properties ->> 'priority')::numeric NOT IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9) THEN
            PERFORM tenon.refuse('properties.priority', (properties -> 'priority')::text, '0 to 9');
        END IF;
    END IF;
    IF NOT tenon.may_publish(exchange) THEN
        RAISE EXCEPTION 'tenon: role % may not publish to exchange %', session_user, quote_literal(exchange)
            USING ERRCODE = 'insufficient_privilege',
                  HINT = 'The role is confined to other exchanges (tenon.publisher); the owner of the schema can change that with tenon setup --grant-publisher.';
    END IF;
END $_$;

CREATE FUNCTION tenon.check_retry(ids bigint[]) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
DECLARE
    task bigint := (SELECT min(i) FROM unnest(ids) i WHERE i <> ALL (tenon.may_retry(ids)));
    f    tenon.flow;
BEGIN
    IF task IS NOT NULL THEN
        SELECT w.* INTO f FROM tenon.flow_task m JOIN tenon.flow w ON w.id = m.flow WHERE m.id = task;
        RAISE EXCEPTION 'tenon: task % cannot be retried: its flow % was cancelled by %', task, f.id, f.cancelled_by
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Enqueue a new task in another flow or without one.';
    END IF;
END $$;

CREATE FUNCTION tenon.check_schedule(name text, cron text, every interval, kind text, document jsonb, queue text, priority integer, max_attempts integer, timeout interval, catch_up text, overlap text) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF tenon.is_kind(name) IS NOT TRUE THEN
        PERFORM tenon.refuse('name', quote_nullable(name), '1 to 100 of A-Z a-z 0-9 _ . : -');
    ELSIF num_nonnulls(cron, every) <> 1 THEN
        PERFORM tenon.refuse_call(CASE WHEN cron IS NULL THEN 'neither cron nor every is given' ELSE 'cron and every are given together' END,
                                  'Give exactly one of cron and every.');
    ELSIF every IS NOT NULL AND (date_trunc('month', every) <> '0'
                                 OR extract(epoch FROM every) NOT BETWEEN 1 AND 31622400) THEN
        PERFORM tenon.refuse('every', every::text, '1 second to 366 days, without months or years; for those use cron');
    ELSIF catch_up NOT IN ('none', 'last', 'all') OR catch_up IS NULL THEN
        PERFORM tenon.refuse('catch_up', quote_nullable(catch_up), 'none, last or all');
    ELSIF overlap NOT IN ('allow', 'skip') OR overlap IS NULL THEN
        PERFORM tenon.refuse('overlap', quote_nullable(overlap), 'allow or skip');
    END IF;
    PERFORM tenon.check_length('cron', cron, 1000);
    PERFORM tenon.check_enqueue(kind => kind, queue => queue, priority => priority, run_at => NULL, delay => NULL,
                                start_before => NULL, max_attempts => max_attempts, timeout => timeout, retry => NULL,
                                trace => NULL);
    PERFORM tenon.check_allowed(kind, queue, tenon.tick_payload(document, clock_timestamp()));
END $$;

CREATE FUNCTION tenon.check_short(argument text, value text) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF octet_length(value) > 255 THEN
        PERFORM tenon.refuse(argument, format('of %s bytes', octet_length(value)), 'at most 255 bytes of UTF-8');
    END IF;
END $$;

CREATE FUNCTION tenon.check_tags(tags text[]) RETURNS text[]
    LANGUAGE plpgsql IMMUTABLE
    AS $$
DECLARE
    tags_max constant integer := 10;
    kept text[] := (SELECT array_agg(u.tag ORDER BY u.place) FROM (SELECT t.tag, min(t.place) AS place FROM unnest(tags) WITH ORDINALITY t (tag, place) GROUP BY t.tag) u);
    bad  text := (SELECT coalesce(quote_literal(left(k, 100)), 'NULL') FROM unnest(kept) k WHERE (length(k) BETWEEN 1 AND 100) IS NOT TRUE LIMIT 1);
BEGIN
    IF bad IS NOT NULL OR cardinality(kept) > tags_max THEN
        PERFORM tenon.refuse('tags', coalesce(bad, format('of %s elements', cardinality(kept))), 'an array of up to 10 texts of 1 to 100 characters');
    END IF;
    RETURN kept;
END $$;

CREATE FUNCTION tenon.check_target(queue text, kind text, everything boolean) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
BEGIN
    IF num_nonnulls(queue, kind) + coalesce(everything, false)::integer <> 1 THEN
        PERFORM tenon.refuse_call(CASE WHEN num_nonnulls(queue, kind) + coalesce(everything, false)::integer = 0 THEN 'no queue or kind is given'
                                       ELSE 'more than one of queue, kind and everything is given' END,
                                  'Give one queue, one kind, or everything => true.');
    END IF;
    PERFORM tenon.check_enqueue(coalesce(kind, 'a'), queue, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
    PERFORM tenon.settings();
END $$;

CREATE FUNCTION tenon.check_trace(trace text) RETURNS void
    LANGUAGE plpgsql
    AS $_$
BEGIN
    IF trace !~ '^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$' THEN
        PERFORM tenon.refuse('trace', quote_literal(trace), 'a W3C traceparent, such as 00-<32 hex>-<16 hex>-01');
    END IF;
END $_$;

CREATE FUNCTION tenon.check_unique(unique_key text, on_conflict text, unique_for interval, debounce interval, debounce_max interval, run_at timestamp with time zone, delay interval) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF length(unique_key) NOT BETWEEN 1 AND 200 THEN
        PERFORM tenon.refuse('unique_key', quote_literal(unique_key), '1 to 200 characters long');
    END IF;
    IF unique_key IS NULL AND num_nonnulls(on_conflict, unique_for, debounce, debounce_max) > 0 THEN
        PERFORM tenon.refuse_call('on_conflict, unique_for, debounce and debounce_max require unique_key', 'Give unique_key too, or omit them.');
    END IF;
    IF on_conflict NOT IN ('keep', 'replace', 'merge') THEN
        PERFORM tenon.refuse('on_conflict', quote_literal(on_conflict), 'keep, replace or merge');
    END IF;
    IF extract(epoch FROM unique_for) NOT BETWEEN 0.001 AND 31536000 THEN
        PERFORM tenon.refuse('unique_for', unique_for::text, '1 millisecond to 365 days');
    END IF;
    IF extract(epoch FROM debounce) NOT BETWEEN 0.001 AND 2592000 THEN
        PERFORM tenon.refuse('debounce', debounce::text, '1 millisecond to 30 days');
    END IF;
    IF debounce IS NOT NULL AND num_nonnulls(run_at, delay) > 0 THEN
        PERFORM tenon.refuse_call('debounce is given together with run_at or delay', 'Omit run_at and delay: debounce decides when the task starts.');
    END IF;
    IF debounce_max IS NOT NULL AND debounce IS NULL THEN
        PERFORM tenon.refuse_call('debounce_max requires debounce', 'Give debounce too, or omit debounce_max.');
    END IF;
    IF extract(epoch FROM debounce_max) NOT BETWEEN extract(epoch FROM debounce) AND 31536000 THEN
        PERFORM tenon.refuse('debounce_max', debounce_max::text, 'at least debounce, and at most 365 days');
    END IF;
    RETURN true;
END $$;

CREATE FUNCTION tenon.check_unset(unset text[], allowed text[], given integer) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
BEGIN
    IF cardinality(unset) > 20 OR NOT unset <@ allowed THEN
        PERFORM tenon.refuse('unset', left(unset::text, 100), 'an array of ' || array_to_string(allowed, ', '));
    ELSIF given + cardinality(unset) = 0 THEN
        PERFORM tenon.refuse_call('nothing is set or unset', 'Give a default, or unset with any of ' || array_to_string(allowed, ', ') || '.');
    END IF;
END $$;

CREATE FUNCTION tenon.check_zone(zone text) RETURNS text
    LANGUAGE plpgsql STABLE
    AS $$
DECLARE
    known text;
BEGIN
    IF upper(zone COLLATE "C") = 'UTC' THEN
        RETURN 'UTC';
    END IF;
    SELECT z.name INTO known FROM pg_timezone_names z WHERE lower(z.name COLLATE "C") = lower(zone COLLATE "C") AND zone LIKE '%/%';
    IF known IS NULL THEN
        PERFORM tenon.refuse('zone', quote_nullable(zone), 'UTC, or a name from pg_timezone_names with a /, such as Europe/Berlin');
    END IF;
    RETURN known;
END $$;

CREATE FUNCTION tenon.claim_alone(worker uuid, queues text[], kinds text[]) RETURNS SETOF tenon.task
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $_$
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
        UPDATE tenon.suspect s SET claims = c.claims FROM claimed c WHERE s.task_id = ANY (ARRAY[c.id])
    )
    SELECT * FROM claimed
$_$;

CREATE FUNCTION tenon.claim_must_hold(claim text, key bigint, queue text, kind text) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF key = 0 THEN
        RAISE NOTICE 'tenon: a handler is tried by hand (tenon worker --run-one): nothing is written';
    ELSIF queue IS NULL THEN
        RAISE EXCEPTION 'tenon: claim % is no longer valid', quote_literal(claim)
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = 'The task was recovered, cancelled or finished: roll back and stop.';
    ELSE
        PERFORM tenon.check_may_act(queue, kind);
    END IF;
END $$;

CREATE FUNCTION tenon.cleaner_leads() RETURNS boolean
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
    SELECT EXISTS (SELECT FROM tenon.setting s JOIN tenon.lock k ON k.key = s.leader_key AND k.counts)
$$;

CREATE FUNCTION tenon.close(flow bigint, notify boolean DEFAULT true) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
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
    IF notify IS NOT FALSE THEN
        PERFORM tenon.call_settler();
    END IF;
    IF f.made_by <> session_user THEN
        PERFORM tenon.note_audit('close', jsonb_build_object('flow', flow), 1);
    END IF;
    RETURN true;
END $$;

CREATE FUNCTION tenon.copied() RETURNS text
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
BEGIN
    PERFORM tenon.settings();  -- workers and cleaners call this when they connect: they do not start without settings
    RETURN (SELECT format('the schema tenon was copied to this database: it is at home in %s, and this is %s',
                          tenon.home_text(h), tenon.home_text(here))
              FROM (SELECT tenon.home_here() AS here OFFSET 0) n
              LEFT JOIN tenon.home h ON true
             WHERE (h.database, h.relation) IS DISTINCT FROM ((n.here).database, (n.here).relation)
                OR h.name IS DISTINCT FROM (n.here).name);
END $$;

CREATE FUNCTION tenon.count_depth() RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'on'
    SET enable_indexscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET max_parallel_workers_per_gather TO '0'
    SET jit TO 'off'
    SET standard_conforming_strings TO 'on'
    AS $$
DECLARE
    begun timestamptz := statement_timestamp();
    changed bigint;
BEGIN
    WITH counted AS (
        SELECT t.queue, t.kind,
               count(*) FILTER (WHERE t.start_time IS NULL AND t.run_at <= begun) AS ready,
               count(t.start_time) AS running,
               count(*) FILTER (WHERE t.start_time IS NULL AND t.run_at > begun AND t.run_at < 'infinity' AND t.failures + t.crashes = 0) AS scheduled,
               count(*) FILTER (WHERE t.start_time IS NULL AND t.run_at > begun AND t.run_at < 'infinity' AND t.failures + t.crashes > 0) AS retrying,
               count(*) FILTER (WHERE t.start_time IS NULL AND t.run_at = 'infinity') AS blocked,
               0 AS dead, min(t.run_at) FILTER (WHERE t.start_time IS NULL AND t.run_at <= begun) AS oldest_ready
          FROM tenon.task t GROUP BY t.queue, t.kind
        UNION ALL
        SELECT d.queue, d.kind, 0, 0, 0, 0, 0, count(*), NULL FROM tenon.dead d GROUP BY d.queue, d.kind
    ), pair AS (
        SELECT c.queue, c.kind, sum(c.ready) AS ready, sum(c.running) AS running, sum(c.scheduled) AS scheduled, sum(c.retrying) AS retrying,
               sum(c.blocked) AS blocked, sum(c.dead) AS dead, min(c.oldest_ready) AS oldest_ready,
               sum(c.ready + c.running + c.scheduled + c.retrying + c.blocked + c.dead) AS n
          FROM counted c GROUP BY c.queue, c.kind
    ), placed AS (
        SELECT p.*, row_number() OVER (ORDER BY p.n DESC, p.queue, p.kind) <= 1000 AS named, q.named AS queue_named
          FROM pair p JOIN (SELECT queue, row_number() OVER (ORDER BY sum(n) DESC, queue) <= 1000 AS named FROM pair GROUP BY queue) q USING (queue)
    ), folded AS (
        SELECT CASE WHEN p.queue_named THEN p.queue ELSE '(other)' END AS queue, CASE WHEN p.queue_named AND p.named THEN p.kind ELSE '(other)' END AS kind,
               sum(p.ready) AS ready, sum(p.running) AS running, sum(p.scheduled) AS scheduled, sum(p.retrying) AS retrying,
               sum(p.blocked) AS blocked, sum(p.dead) AS dead, min(p.oldest_ready) AS oldest_ready
          FROM placed p GROUP BY 1, 2
    ), gone AS (
        DELETE FROM tenon.depth d WHERE NOT EXISTS (SELECT FROM folded r WHERE r.queue = d.queue AND r.kind = d.kind) RETURNING 1
    ), written AS (
        INSERT INTO tenon.depth AS d SELECT * FROM folded r ORDER BY r.queue, r.kind
        ON CONFLICT ON CONSTRAINT depth_pkey DO UPDATE
        SET (ready, running, scheduled, retrying, blocked, dead, oldest_ready)
          = (EXCLUDED.ready, EXCLUDED.running, EXCLUDED.scheduled, EXCLUDED.retrying, EXCLUDED.blocked, EXCLUDED.dead, EXCLUDED.oldest_ready)
        WHERE d.* IS DISTINCT FROM EXCLUDED.* RETURNING 1
    )
    SELECT (SELECT count(*) FROM gone) + (SELECT count(*) FROM written) INTO changed;
    INSERT INTO tenon.depth_count AS c (counted_at, took_ms) VALUES (begun, ceil(extract(epoch FROM clock_timestamp() - begun) * 1000))
    ON CONFLICT (one) DO UPDATE SET counted_at = EXCLUDED.counted_at, took_ms = EXCLUDED.took_ms;
    RETURN changed > 0;
END $$;

CREATE FUNCTION tenon.count_tasks(filter jsonb DEFAULT '{}'::jsonb, most integer DEFAULT 10000, OUT n bigint, OUT at_least boolean) RETURNS record
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
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
            PERFORM tenon.refuse_cron(field, quote_literal(part), 'is not a number, range, * or step');
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
    place integer := array_position(names, lower(word COLLATE "C"));
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

CREATE FUNCTION tenon.defaults(kind text, queue text) RETURNS TABLE(queue text, priority smallint, max_attempts integer, timeout_ms bigint, payload_bytes_max integer, confined boolean, exchange text, sleeper_key bigint, limits text[], limit_keys text[])
    LANGUAGE sql STABLE
    AS $_$
    SELECT coalesce($2, k.queue, 'default'), coalesce(k.priority, q.priority, 4::smallint),
           coalesce(k.max_attempts, q.max_attempts, 25), coalesce(k.timeout_ms, q.timeout_ms, 3600000),
           s.payload_bytes_max, s.confined, s.exchange, s.sleeper_key,
           CASE WHEN k.limited OR q.limited
                THEN array_remove(ARRAY[CASE WHEN k.limited THEN 'kind/' || k.name END, CASE WHEN q.limited THEN 'queue/' || q.name END], NULL) END,
           k.limit_keys
      FROM tenon.setting s
      LEFT JOIN tenon.kind k ON k.name = $1
      LEFT JOIN tenon.queue q ON q.name = coalesce($2, k.queue, 'default')
$_$;

CREATE FUNCTION tenon.delete(id bigint, why text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE sql
    AS $$ SELECT c.n > 0 FROM tenon.change('delete', jsonb_build_object('ids', id), why => why) c $$;

CREATE FUNCTION tenon.delete_ids(ids bigint[]) RETURNS bigint[]
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
DECLARE
    seen bigint[] := ARRAY(SELECT i FROM unnest(ids) i
                            WHERE NOT EXISTS (SELECT FROM tenon.flow_task m WHERE m.id = i AND m.state IS NULL)
                              AND NOT EXISTS (SELECT FROM tenon.flow_note n WHERE n.task = i));
    gone bigint[];
BEGIN
    WITH dead AS (DELETE FROM tenon.dead d WHERE d.id = ANY (seen) RETURNING d.id),
         ended AS (DELETE FROM tenon.history e WHERE e.id = ANY (seen) RETURNING e.id)
    SELECT array_agg(g.id) INTO gone FROM (SELECT id FROM dead UNION ALL SELECT id FROM ended) g;
    RETURN gone;
END $$;

CREATE FUNCTION tenon.delete_messages(ids bigint[] DEFAULT NULL::bigint[], exchange text DEFAULT NULL::text) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
#variable_conflict use_variable
DECLARE
    picked bigint[] := tenon.lock_messages(ids, exchange, ids IS NULL);
    n integer := cardinality(picked);
BEGIN
    UPDATE tenon.message m SET expires_at = '-infinity', retry_at = CASE WHEN m.failed_at IS NOT NULL THEN clock_timestamp() END WHERE m.id = ANY (picked);
    PERFORM tenon.note_audit('delete_messages', jsonb_strip_nulls(jsonb_build_object('ids', ids, 'exchange', exchange)), n);
    PERFORM tenon.call_relay();
    RETURN n;
END $$;

CREATE FUNCTION tenon.delete_where(filter jsonb, most integer DEFAULT 10000, why text DEFAULT NULL::text) RETURNS bigint
    LANGUAGE sql
    AS $$ SELECT c.n FROM tenon.change('delete', filter, most => most, why => why) c $$;

CREATE FUNCTION tenon.demand(queue text, latency interval DEFAULT '00:00:05'::interval) RETURNS integer
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
DECLARE
    rate record := tenon.rate_seen(queue);
    backlog record := tenon.backlog_seen(queue);
    latency_s double precision := extract(epoch FROM latency);
BEGIN
    IF latency_s IS NULL OR latency_s <= 0 THEN
        RAISE invalid_parameter_value USING MESSAGE = format('latency is %s: it must be longer than nothing', coalesce(latency::text, 'NULL'));
    END IF;
    -- a slow handler has not finished any task yet: running tasks give a lower bound of its time. Suspects need a worker too
    RETURN greatest(tenon.slots_wanted(rate.tasks_per_s, greatest(rate.run_s, backlog.running_s), backlog.ready, backlog.running,
                                       coalesce(backlog.oldest_s, 0), latency_s),
                    EXISTS (SELECT FROM tenon.suspect s JOIN tenon.task t ON t.id = s.task_id
                             WHERE s.alone AND s.claims IS NULL AND s.due_at <= clock_timestamp() AND t.queue = demand.queue
                               AND NOT EXISTS (SELECT FROM tenon.paused p WHERE p.what = 'everything' OR p.what = 'queue' AND p.name = t.queue
                                                                               OR p.what = 'kind' AND p.name = t.kind))::integer);
END $$;

CREATE FUNCTION tenon.depth_fresh() RETURNS SETOF timestamp with time zone
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
    SELECT counted_at FROM tenon.depth_count
     WHERE counted_at > statement_timestamp() - greatest(interval '5 min', took_ms * interval '40 ms')
$$;

CREATE FUNCTION tenon.drain(worker uuid, why text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
DECLARE
    told text;
BEGIN
    PERFORM tenon.check_length('why', why, 1000);
    UPDATE tenon.worker w SET state = 'draining' WHERE w.id = drain.worker AND w.state = 'alive' AND w.ended_at IS NULL
    RETURNING format('%s, pid %s', w.host, w.pid) INTO told;
    IF told IS NULL THEN
        RETURN false;
    END IF;
    PERFORM pg_notify('tenon_wakeup', 'pause');
    PERFORM tenon.note_audit('drain', jsonb_build_object('worker', drain.worker, 'on', told, 'why', why), 1);
    RETURN true;
END $$;

CREATE FUNCTION tenon.drop_history() RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET lock_timeout TO '100 ms'
    SET standard_conforming_strings TO 'on'
    AS $$
DECLARE
    s tenon.setting := tenon.settings();
    due record;
BEGIN
    SELECT o.parent, o.part INTO due
      FROM (SELECT p.parent, p.part, min(p.begun_at) OVER newer AS ended_at, sum(p.n) OVER newer AS n_newer
              FROM tenon.partitions() p
             WHERE p.part > 0
            WINDOW newer AS (PARTITION BY p.parent ORDER BY p.part ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING)) o
     WHERE o.part < pg_sequence_last_value(format('tenon.%I', o.parent || '_part')::regclass)
       AND (o.ended_at <= now() - greatest(CASE o.parent WHEN 'history' THEN s.history_keep WHEN 'attempt' THEN s.attempt_keep
                                                         WHEN 'message_sent' THEN s.outbox_keep WHEN 'log_line' THEN s.log_keep END,
                                           interval '1 hour')
            OR o.n_newer > s.history_rows_max)
       AND NOT EXISTS (SELECT FROM tenon.partition q JOIN tenon.kind k ON k.history_keep > s.history_keep AND k.name <> ALL (q.swept)
                        WHERE q.parent = o.parent AND q.part = o.part AND o.parent = 'history')
     ORDER BY o.ended_at, o.part LIMIT 1;
    IF due.part IS NULL THEN
        RETURN NULL;
    END IF;
    EXECUTE format('DROP TABLE IF EXISTS tenon.%I', due.parent || '_' || due.part);  -- two at once
    DELETE FROM tenon.partition p WHERE p.parent = due.parent AND p.part = due.part;
    RETURN due.parent || '_' || due.part;
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
    SET standard_conforming_strings TO 'on'
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

CREATE FUNCTION tenon.end_tasks(ids bigint[], outcome text, moment timestamp with time zone, why text DEFAULT NULL::text) RETURNS void
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
BEGIN
    PERFORM tenon.need_partition();
    WITH gone AS (
        DELETE FROM tenon.task t WHERE t.id = ANY (ids)
        RETURNING t.*, CASE WHEN tenon.needs_note(t) THEN tenon.record_end_of(t, end_tasks.outcome = 'cancelled', true) END AS kept)
    INSERT INTO tenon.history (finished_at, id, run_at, start_time, created_at, worker_id, claims, failures, crashes, priority, outcome,
                               queue, kind, payload, unique_key, trace, last_error, enqueued_by, limit_keys, steps, step_names, step_times, timeout_ms,
                               max_attempts, retry, progress, max_crashes, tags)
    SELECT moment, g.id, coalesce(wanted_at, nullif(run_at, 'infinity'), moment), start_time, created_at, worker_id, claims, failures,
           crashes, priority, end_tasks.outcome, queue, kind, payload, unique_key, trace,
           coalesce(why, format('not started before %s', start_before)), enqueued_by, limit_keys, (g.kept).steps, (g.kept).names,
           (g.kept).times, timeout_ms, max_attempts, retry, progress, max_crashes, tags
      FROM gone g;
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
        NULL;
    END;
    UPDATE tenon.task x
       SET run_at = CASE WHEN x.limit_keys IS NULL THEN clock_timestamp() ELSE 'infinity' END,
           wanted_at = CASE WHEN x.limit_keys IS NOT NULL THEN clock_timestamp() END, delayed = false
     WHERE x.id = task_id AND x.wanted_at = t.wanted_at;
    IF FOUND THEN
        PERFORM tenon.put_step(task_id, w.signal, coalesce(payload, 'null'))
          WHERE t.step_count IS NULL OR NOT EXISTS (SELECT FROM tenon.task_step s WHERE s.task_id = task_id AND s.name = w.signal);
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

CREATE FUNCTION tenon.end_waits(tasks bigint[], beyond bigint[], anew bigint[], to_cancel bigint[], most integer, OUT n integer, OUT rest bigint[], OUT rest_beyond bigint[], OUT freed bigint[], OUT free bigint[], OUT doomed bigint[]) RETURNS record
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
DECLARE
    parents_max constant integer := 10000;
    share   integer := greatest(2, most / greatest(1, cardinality(tasks)));
    look_at integer := greatest(20, parents_max / greatest(1, cardinality(tasks)));
    begun   timestamptz := clock_timestamp();
    met     record;  -- arrays, a wait each: task and parent; and what is to be cancelled
    ours    bigint[];
    asking  bigint[];  -- for what their parents returned
    limited bigint[];
    one     bigint;
BEGIN
    WITH noted AS (
        SELECT * FROM unnest(tasks, beyond) i (id, beyond)
    ), child AS MATERIALIZED (
        SELECT i.id AS noted, w.task, w.parent, w.cancel
          FROM noted i
         CROSS JOIN LATERAL (SELECT t.state FROM tenon.flow_task t WHERE t.id = i.id AND t.state IS NOT NULL LIMIT 1) m
         CROSS JOIN LATERAL (SELECT v.task, v.parent, m.state <> 'done' AND v.on_dead = 'cancel' AS cancel FROM tenon.flow_wait v
                              WHERE v.parent = i.id AND (m.state = 'done' OR v.on_dead <> 'wait') LIMIT share + 1) w
    ), looked AS MATERIALIZED (
        SELECT i.id AS noted, w.parent, w.on_dead, o.state AS own
          FROM noted i
         CROSS JOIN LATERAL (SELECT v.parent, v.on_dead FROM tenon.flow_wait v
                              WHERE v.task = ANY (ARRAY[i.id]) AND v.parent > i.beyond ORDER BY v.task, v.parent LIMIT look_at + 1) w
          LEFT JOIN LATERAL (SELECT t.state FROM tenon.flow_task t WHERE t.id = i.id LIMIT 1) o ON true
    ), over AS (
        SELECT c.task, c.parent, c.cancel FROM child c
        UNION
        SELECT l.noted, l.parent, l.own IS NULL AND m.state <> 'done' AND l.on_dead = 'cancel'
          FROM looked l
         CROSS JOIN LATERAL (SELECT t.state FROM tenon.flow_task t WHERE t.id = l.parent LIMIT 1) m
         WHERE l.own IS NOT NULL OR m.state = 'done' OR m.state IS NOT NULL AND l.on_dead <> 'wait'
    ), more AS (
        SELECT x.noted, max(x.parent) AS parent
          FROM (SELECT c.noted, NULL AS parent FROM child c GROUP BY c.noted HAVING count(*) > share
                UNION ALL
                SELECT l.noted, max(l.parent) FROM looked l GROUP BY l.noted HAVING count(*) > look_at) x
         GROUP BY x.noted)
    SELECT coalesce(array_agg(e.task), '{}') AS task, coalesce(array_agg(e.parent), '{}') AS parent,
           coalesce(array_agg(DISTINCT e.task) FILTER (WHERE e.cancel), '{}') AS doomed,
           (SELECT coalesce(array_agg(r.noted ORDER BY r.noted), '{}') FROM more r) AS rest,
           (SELECT coalesce(array_agg(coalesce(r.parent, i.beyond) ORDER BY r.noted), '{}') FROM more r JOIN noted i ON i.id = r.noted) AS rest_beyond
      INTO met FROM over e;
    n := cardinality(met.task);
    rest := met.rest;
    rest_beyond := met.rest_beyond;
    DELETE FROM tenon.flow_wait w USING unnest(met.task, met.parent) o (task, parent)
     WHERE w.task = ANY (ARRAY[o.task]) AND w.parent = ANY (ARRAY[o.parent]);
    doomed := to_cancel || met.doomed;
    SELECT coalesce(array_agg(t.id) FILTER (WHERE t.limit_keys IS NULL), '{}'),
           coalesce(array_agg(t.id) FILTER (WHERE t.limit_keys IS NOT NULL), '{}'),
           coalesce(array_agg(t.id) FILTER (WHERE t.payload -> 'parents' = 'null'), '{}')
      INTO free, limited, asking
      FROM tenon.task t
     WHERE t.id = ANY (anew || met.task) AND t.wanted_at IS NOT NULL AND t.id <> ALL (doomed)
       -- the last parent first, which mostly ends last: so that it is found at once; in the order of the primary key, the only index for it
       AND (SELECT w.parent FROM tenon.flow_wait w WHERE w.task = ANY (ARRAY[t.id]) ORDER BY w.task DESC, w.parent DESC LIMIT 1) IS NULL;
    ours := ARRAY(SELECT unnest(limited) EXCEPT SELECT unnest(asking));
    freed := CASE WHEN free <> '{}' THEN tenon.unblock(ARRAY(SELECT unnest(free) EXCEPT SELECT unnest(asking))) ELSE '{}' END;
    FOREACH one IN ARRAY asking LOOP
        IF one = ANY (free) THEN
            met.task := tenon.unblock(ARRAY[one]);
            freed := freed || met.task;
        ELSE
            met.task := ARRAY(SELECT t.id FROM tenon.task t WHERE t.id = one FOR UPDATE SKIP LOCKED);
            ours := ours || met.task;
        END IF;
        PERFORM tenon.fill_parents(met.task);
        EXIT WHEN tenon.turn_is_over(begun);
    END LOOP;
    IF ours <> '{}' THEN
        PERFORM tenon.queue_limits(ours);
    END IF;
    free := ARRAY(SELECT unnest(free || limited) EXCEPT SELECT unnest(freed || ours));
    IF doomed <> '{}' THEN
        doomed := ARRAY(SELECT t.id FROM tenon.task t WHERE t.id = ANY (doomed) AND t.wanted_at IS NOT NULL);
        ours := tenon.first_bytes(ARRAY(SELECT t.id FROM tenon.task t WHERE t.id = ANY (doomed) ORDER BY t.id FOR UPDATE SKIP LOCKED));
        PERFORM tenon.end_tasks(ours, 'cancelled', clock_timestamp(), 'cancelled: a parent did not end well');
        doomed := ARRAY(SELECT unnest(doomed) EXCEPT SELECT unnest(ours));
    END IF;
END $$;

CREATE FUNCTION tenon.ended_by(error text, OUT exit_code integer, OUT signal integer) RETURNS record
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
    SELECT m[1]::integer, m[2]::integer
      FROM regexp_match(error, '^(?:the handler ended without an answer: )?(?:exit status ([0-9]{1,9})|killed by signal ([0-9]{1,9}))\M') m
$$;

CREATE FUNCTION tenon.enqueue(kind text, payload anycompatible DEFAULT '{}'::jsonb, queue text DEFAULT NULL::text, priority integer DEFAULT NULL::integer, run_at timestamp with time zone DEFAULT NULL::timestamp with time zone, delay interval DEFAULT NULL::interval, unique_key text DEFAULT NULL::text, on_conflict text DEFAULT NULL::text, unique_for interval DEFAULT NULL::interval, debounce interval DEFAULT NULL::interval, debounce_max interval DEFAULT NULL::interval, start_before timestamp with time zone DEFAULT NULL::timestamp with time zone, max_attempts integer DEFAULT NULL::integer, timeout interval DEFAULT NULL::interval, retry text DEFAULT NULL::text, limit_keys text[] DEFAULT NULL::text[], flow bigint DEFAULT NULL::bigint, depends_on bigint[] DEFAULT NULL::bigint[], on_parent_dead text DEFAULT NULL::text, tags text[] DEFAULT NULL::text[], trace text DEFAULT NULL::text, notify boolean DEFAULT true, announced boolean DEFAULT false) RETURNS bigint
    LANGUAGE sql
    AS $$
    SELECT (tenon.enqueue_jsonb(kind, payload::pg_catalog.jsonb, queue, priority, run_at, delay, unique_key, on_conflict,
                                unique_for, debounce, debounce_max, start_before, max_attempts, timeout, retry, limit_keys,
                                flow, depends_on, on_parent_dead, tags, trace, notify, announced)).id
$$;

CREATE FUNCTION tenon.enqueue_again(a tenon.again, notify boolean) RETURNS tenon.enqueued
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
DECLARE
    held  tenon.enqueued := tenon.holder(a.kind, a.unique_key);
    waits boolean;
BEGIN
    IF held.id IS NULL THEN
        RETURN held;
    END IF;
    -- not before an earlier enqueue that still waits
    waits := EXISTS (SELECT FROM tenon.again g WHERE g.unique_key = a.unique_key AND g.kind = a.kind AND g.failed IS NULL);
    IF NOT waits AND tenon.join_holder(a, interval '200 ms') THEN
        RETURN held;
    END IF;
    INSERT INTO tenon.again OVERRIDING USER VALUE SELECT a.*;
    IF notify AND NOT waits THEN  -- else the settler is notified already, or when the holder ends, or polls within a second
        PERFORM pg_notify('tenon', 'settle');
    END IF;
    RETURN held;
END $$;

CREATE FUNCTION tenon.enqueue_callback(f tenon.flow, kind text) RETURNS bigint
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
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

CREATE FUNCTION tenon.enqueue_described(task jsonb, flow bigint, depends_on bigint[]) RETURNS bigint
    LANGUAGE sql
    AS $_$
    SELECT (tenon.enqueue_routed(
        kind => $1 ->> 'kind', payload => coalesce($1 -> 'payload', '{}'), queue => $1 ->> 'queue', priority => ($1 ->> 'priority')::integer,
        run_at => ($1 ->> 'run_at')::timestamptz, delay => ($1 ->> 'delay')::interval, start_before => ($1 ->> 'start_before')::timestamptz,
        max_attempts => ($1 ->> 'max_attempts')::integer, timeout => ($1 ->> 'timeout')::interval, retry => $1 ->> 'retry',
        limit_keys => CASE WHEN $1 ? 'limit_keys' THEN ARRAY(SELECT jsonb_array_elements_text($1 -> 'limit_keys')) END,
        flow => $2, depends_on => $3, on_parent_dead => $1 ->> 'on_parent_dead',
        tags => CASE WHEN $1 ? 'tags' THEN ARRAY(SELECT jsonb_array_elements_text($1 -> 'tags')) END, trace => $1 ->> 'trace', notify => false, announced => false)).id
$_$;

CREATE FUNCTION tenon.enqueue_jsonb(kind text, payload jsonb, queue text, priority integer, run_at timestamp with time zone, delay interval, unique_key text, on_conflict text, unique_for interval, debounce interval, debounce_max interval, start_before timestamp with time zone, max_attempts integer, timeout interval, retry text, limit_keys text[], flow bigint, depends_on bigint[], on_parent_dead text, tags text[], trace text, notify boolean, announced boolean) RETURNS tenon.enqueued
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
#variable_conflict use_variable
DECLARE
    bytes   integer := octet_length(payload::text);
    at      timestamptz := clock_timestamp();
    due     timestamptz;
    tries   integer := 0;
    checked boolean;  -- assigned only because an expression costs less than a PERFORM, which is a query
    waits   bigint[];  -- the parents that it waits for
    blocked boolean := false;
    look    boolean := false;  -- tenon.settle() must decide whether it waits
    added   tenon.enqueued;
    again   tenon.again;
    d       record;
BEGIN
    -- most calls give a kind and a payload: then there is nothing else to check
    IF num_nonnulls(queue, priority, run_at, delay, unique_key, on_conflict, unique_for, debounce, debounce_max, start_before,
                    max_attempts, timeout, retry, limit_keys, flow, depends_on, on_parent_dead, tags, trace) > 0
       OR tenon.is_kind(kind) IS NOT TRUE THEN
        checked := tenon.check_enqueue(kind, queue, priority, run_at, delay, start_before, max_attempts, timeout, retry, trace);
        checked := tenon.check_unique(unique_key, on_conflict, unique_for, debounce, debounce_max, run_at, delay);
        delay := tenon.seconds(delay);
        IF unique_key IS NOT NULL THEN
            unique_for := tenon.seconds(unique_for);
            debounce := tenon.seconds(debounce);
            debounce_max := tenon.seconds(debounce_max);
        END IF;
        IF tags IS NOT NULL THEN
            tags := tenon.check_tags(tags);
        END IF;
        IF num_nonnulls(limit_keys, flow, depends_on, on_parent_dead) > 0 THEN
            limit_keys := tenon.check_limit_keys(limit_keys);
            waits := tenon.check_parents(flow, depends_on, on_parent_dead, unique_key);
            blocked := limit_keys IS NOT NULL OR waits IS NOT NULL;
        END IF;
    END IF;
    due := greatest(coalesce(run_at, at + coalesce(delay, debounce)), at);
    announced := coalesce(announced, false) AND due <= at AND NOT blocked;
    SELECT * INTO d FROM tenon.defaults(kind, queue);
    IF NOT FOUND THEN
        PERFORM tenon.settings();
    END IF;
    IF d.confined OR bytes > d.payload_bytes_max OR bytes IS NULL THEN
        PERFORM tenon.check_allowed(kind, queue, payload);
    END IF;
    IF d.limits IS NOT NULL OR d.limit_keys IS NOT NULL AND limit_keys IS NULL THEN
        limit_keys := coalesce(limit_keys, d.limit_keys) || d.limits;
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
                                enqueued_by, wanted_at, flow, limit_keys, tags)
        VALUES (CASE WHEN blocked THEN 'infinity' ELSE due END, at, start_before,
                coalesce((extract(epoch FROM timeout) * 1000)::bigint, d.timeout_ms),
                coalesce(max_attempts, d.max_attempts), coalesce(priority, d.priority), due > at AND NOT blocked,
                announced, d.queue, kind, payload, bytes, unique_key, retry, trace,
                session_user, CASE WHEN blocked THEN due END, flow, limit_keys, tags)
        ON CONFLICT DO NOTHING  -- unique_key is the only thing that can conflict
        RETURNING task.id INTO added.id;
        EXIT WHEN FOUND;
        again := ROW(0, due, at, start_before, coalesce((extract(epoch FROM timeout) * 1000)::bigint, d.timeout_ms),
                     coalesce(max_attempts, d.max_attempts), bytes, coalesce(priority, d.priority), due > at, d.queue, kind,
                     payload, unique_key, retry, trace, session_user, limit_keys, tags,
                     coalesce(on_conflict, CASE WHEN debounce IS NULL THEN 'keep' ELSE 'replace' END), debounce, debounce_max,
                     false, NULL);
        added := tenon.enqueue_again(again, coalesce(notify, true));
        EXIT WHEN added.id IS NOT NULL;
        -- the holder may have finished between the two statements: once more, which is enough in practice
        tries := tries + 1;
        IF tries = 100 THEN
            RAISE EXCEPTION 'tenon: could not serialize on unique_key %', quote_literal(unique_key)
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
        look := tenon.join_flow(ARRAY[added.id], flow, depends_on, waits, on_parent_dead);
    END IF;
    IF blocked AND waits IS NULL THEN
        look := tenon.queue_limits(ARRAY[added.id]);
    END IF;
    added.exchange := d.exchange;
    added.routing_key := d.queue || '/' || kind;
    IF coalesce(notify, true) AND (look OR NOT announced AND NOT blocked) THEN
        IF tenon.publisher_sleeps(d.sleeper_key) THEN
            PERFORM pg_notify('tenon', '');
        END IF;
    END IF;
    RETURN added;
END $$;

CREATE FUNCTION tenon.enqueue_many(kind text, payloads anycompatiblearray, queue text DEFAULT NULL::text, priority integer DEFAULT NULL::integer, run_at timestamp with time zone DEFAULT NULL::timestamp with time zone, delay interval DEFAULT NULL::interval, unique_keys text[] DEFAULT NULL::text[], on_conflict text DEFAULT NULL::text, unique_for interval DEFAULT NULL::interval, debounce interval DEFAULT NULL::interval, debounce_max interval DEFAULT NULL::interval, start_before timestamp with time zone DEFAULT NULL::timestamp with time zone, max_attempts integer DEFAULT NULL::integer, timeout interval DEFAULT NULL::interval, retry text DEFAULT NULL::text, limit_keys text[] DEFAULT NULL::text[], flow bigint DEFAULT NULL::bigint, depends_on bigint[] DEFAULT NULL::bigint[], on_parent_dead text DEFAULT NULL::text, tags text[] DEFAULT NULL::text[], trace text DEFAULT NULL::text, notify boolean DEFAULT true, announced boolean DEFAULT false, queues text[] DEFAULT NULL::text[], priorities integer[] DEFAULT NULL::integer[], run_ats timestamp with time zone[] DEFAULT NULL::timestamp with time zone[]) RETURNS bigint[]
    LANGUAGE sql
    AS $$
    SELECT tenon.enqueue_many_jsonb(kind, payloads::pg_catalog.jsonb[], queue, priority, run_at, delay, unique_keys, on_conflict,
                                    unique_for, debounce, debounce_max, start_before, max_attempts, timeout, retry, limit_keys,
                                    flow, depends_on, on_parent_dead, tags, trace, notify, announced, queues, priorities, run_ats, NULL)
$$;

CREATE FUNCTION tenon.enqueue_many_jsonb(kind text, payloads jsonb[], queue text, priority integer, run_at timestamp with time zone, delay interval, unique_keys text[], on_conflict text, unique_for interval, debounce interval, debounce_max interval, start_before timestamp with time zone, max_attempts integer, timeout interval, retry text, limit_keys text[], flow bigint, depends_on bigint[], on_parent_dead text, tags text[], trace text, notify boolean, announced boolean, queues text[], priorities integer[], run_ats timestamp with time zone[], traces text[]) RETURNS bigint[]
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
#variable_conflict use_variable
DECLARE
    checked boolean := tenon.check_enqueue(kind, queue, priority, run_at, delay, start_before, max_attempts, timeout, retry, trace);
    at      timestamptz := clock_timestamp();
    due     timestamptz := coalesce(run_at, at + tenon.seconds(delay));
    waits   bigint[];
    blocked boolean := false;
    look    boolean := false;
    d       record;
    e       record;
    ids     bigint[];
    these   bigint[];
BEGIN
    IF payloads IS NULL OR cardinality(payloads) > 100000 THEN
        PERFORM tenon.refuse('payloads', 'of ' || cardinality(payloads) || ' elements', 'an array of 0 to 100000 JSON values');
    END IF;
    IF num_nonnulls(unique_keys, queues, priorities, run_ats) > 0 THEN
        PERFORM tenon.check_elements(cardinality(payloads), unique_keys, queues, priorities, run_ats, start_before);
    END IF;
    IF traces IS NOT NULL THEN
        PERFORM tenon.check_trace(t) FROM unnest(traces) t WHERE t IS NOT NULL;
    END IF;
    IF num_nonnulls(unique_keys, queues) > 0 THEN
        ids := array_fill(NULL::bigint, ARRAY[cardinality(payloads)]);
    END IF;
    IF unique_keys IS NOT NULL THEN
        -- in sorted order, so that no two calls wait for each other's keys in a circle
        FOR e IN SELECT * FROM unnest(payloads, unique_keys, queues, priorities, run_ats) WITH ORDINALITY a (p, u, q, level, start, place)
                  ORDER BY u COLLATE "C", place LOOP
            ids[e.place] := (tenon.enqueue_jsonb(kind, e.p, coalesce(e.q, queue), coalesce(e.level, priority), coalesce(e.start, run_at),
                                                 CASE WHEN e.start IS NULL THEN delay END, e.u, CASE WHEN e.u IS NOT NULL THEN on_conflict END,
                                                 CASE WHEN e.u IS NOT NULL THEN unique_for END, CASE WHEN e.u IS NOT NULL THEN debounce END,
                                                 CASE WHEN e.u IS NOT NULL THEN debounce_max END, start_before, max_attempts, timeout, retry,
                                                 limit_keys, flow, depends_on, on_parent_dead, tags, trace, notify, announced)).id;
        END LOOP;
        RETURN ids;
    END IF;
    IF queues IS NOT NULL THEN
        FOR e IN SELECT coalesce(a.q, queue) AS q, array_agg(a.p ORDER BY a.place) AS p, array_agg(a.level ORDER BY a.place) AS levels,
                        array_agg(a.start ORDER BY a.place) AS starts, array_agg(a.place ORDER BY a.place) AS places
                   FROM unnest(payloads, queues, priorities, run_ats) WITH ORDINALITY a (p, q, level, start, place) GROUP BY 1 ORDER BY 1 LOOP
            these := tenon.enqueue_many_jsonb(kind, e.p, e.q, priority, run_at, delay, NULL, on_conflict, unique_for, debounce, debounce_max,
                                             start_before, max_attempts, timeout, retry, limit_keys, flow, depends_on, on_parent_dead, tags, trace,
                                             notify, announced, NULL, e.levels, e.starts, NULL);
            FOR i IN 1..cardinality(these) LOOP
                ids[e.places[i]] := these[i];
            END LOOP;
        END LOOP;
        RETURN ids;
    END IF;
    IF num_nonnulls(limit_keys, flow, depends_on, on_parent_dead) > 0 THEN
        limit_keys := tenon.check_limit_keys(limit_keys);
        waits := tenon.check_parents(flow, depends_on, on_parent_dead, NULL);
        blocked := limit_keys IS NOT NULL OR waits IS NOT NULL;
    END IF;
    checked := tenon.check_unique(NULL, on_conflict, unique_for, debounce, debounce_max, run_at, delay);
    tags := tenon.check_tags(tags);
    SELECT * INTO d FROM tenon.defaults(kind, queue);
    IF NOT FOUND THEN
        PERFORM tenon.settings();
    END IF;
    IF d.confined THEN
        PERFORM tenon.check_allowed(kind, queue, '{}');
    END IF;
    IF d.limits IS NOT NULL OR d.limit_keys IS NOT NULL AND limit_keys IS NULL THEN
        limit_keys := coalesce(limit_keys, d.limit_keys) || d.limits;
        blocked := true;
    END IF;
    WITH new AS (
        INSERT INTO tenon.task (run_at, created_at, start_before, timeout_ms, max_attempts, priority, delayed, announced,
                                queue, kind, payload, payload_bytes, retry, trace, enqueued_by, wanted_at, flow, limit_keys, tags)
        SELECT CASE WHEN blocked THEN 'infinity' WHEN a.start > at THEN a.start ELSE clock_timestamp() END, clock_timestamp(), start_before,
               coalesce((extract(epoch FROM timeout) * 1000)::bigint, d.timeout_ms),
               coalesce(max_attempts, d.max_attempts), coalesce(a.level, priority, d.priority), coalesce(a.start > at, false) AND NOT blocked,
               coalesce(announced, false) AND coalesce(a.start <= at, true) AND NOT blocked, d.queue, kind, a.p, a.bytes, retry, coalesce(a.trace, trace),
               session_user, CASE WHEN blocked THEN greatest(a.start, at) END, flow, limit_keys, tags
          FROM (SELECT u.p, u.level, coalesce(u.start, due) AS start, u.trace, octet_length(u.p::text) AS bytes
                  FROM unnest(payloads, priorities, run_ats, traces) u (p, level, start, trace) OFFSET 0) a  -- in their order
         WHERE a.bytes <= d.payload_bytes_max
        RETURNING id)
    SELECT coalesce(array_agg(id ORDER BY id), '{}') INTO ids FROM new;
    IF cardinality(ids) < cardinality(payloads) THEN
        PERFORM tenon.check_payload(p, d.payload_bytes_max) FROM unnest(payloads) p;
    END IF;
    IF flow IS NOT NULL THEN
        look := tenon.join_flow(ids, flow, depends_on, waits, on_parent_dead);
    END IF;
    IF blocked AND waits IS NULL THEN
        look := tenon.queue_limits(ids);
    END IF;
    IF coalesce(notify, true) AND (look OR NOT coalesce(announced, false) AND NOT blocked AND ids <> '{}') THEN
        IF tenon.publisher_sleeps(d.sleeper_key) THEN
            PERFORM pg_notify('tenon', '');
        END IF;
    END IF;
    RETURN ids;
END $$;

CREATE FUNCTION tenon.enqueue_routed(kind text, payload anycompatible DEFAULT '{}'::jsonb, queue text DEFAULT NULL::text, priority integer DEFAULT NULL::integer, run_at timestamp with time zone DEFAULT NULL::timestamp with time zone, delay interval DEFAULT NULL::interval, unique_key text DEFAULT NULL::text, on_conflict text DEFAULT NULL::text, unique_for interval DEFAULT NULL::interval, debounce interval DEFAULT NULL::interval, debounce_max interval DEFAULT NULL::interval, start_before timestamp with time zone DEFAULT NULL::timestamp with time zone, max_attempts integer DEFAULT NULL::integer, timeout interval DEFAULT NULL::interval, retry text DEFAULT NULL::text, limit_keys text[] DEFAULT NULL::text[], flow bigint DEFAULT NULL::bigint, depends_on bigint[] DEFAULT NULL::bigint[], on_parent_dead text DEFAULT NULL::text, tags text[] DEFAULT NULL::text[], trace text DEFAULT NULL::text, notify boolean DEFAULT true, announced boolean DEFAULT true) RETURNS tenon.enqueued
    LANGUAGE sql
    AS $$
    SELECT tenon.enqueue_jsonb(kind, payload::pg_catalog.jsonb, queue, priority, run_at, delay, unique_key, on_conflict,
                               unique_for, debounce, debounce_max, start_before, max_attempts, timeout, retry, limit_keys,
                               flow, depends_on, on_parent_dead, tags, trace, notify, announced)
$$;

CREATE FUNCTION tenon.enqueue_tasks(flow bigint, tasks jsonb, names text[], child integer[], parent integer[], places integer[]) RETURNS void
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
#variable_conflict use_variable
DECLARE
    ids   bigint[] := array_fill(NULL::bigint, ARRAY[cardinality(names)]);
    first integer[] := array_fill(NULL::integer, ARRAY[cardinality(names)]);
    c     integer[];  -- as child and parent, in the order of children
    p     integer[];
    depends_on bigint[];
    i     integer;
    e     integer;
    hint  text;
BEGIN
    SELECT array_agg(w.c ORDER BY w.c, w.p), array_agg(w.p ORDER BY w.c, w.p) INTO c, p FROM unnest(child, parent) w (c, p);
    FOR e IN REVERSE coalesce(cardinality(c), 0)..1 LOOP
        first[c[e]] := e;
    END LOOP;
    FOREACH i IN ARRAY places LOOP
        depends_on := NULL;
        e := first[i];
        WHILE c[e] = i LOOP
            depends_on := array_append(depends_on, ids[p[e]]);
            e := e + 1;
        END LOOP;
        ids[i] := tenon.enqueue_described(tasks -> (i - 1), flow, depends_on);
    END LOOP;
    UPDATE tenon.flow_task m SET name = n.name FROM unnest(ids, names) n (id, name) WHERE m.id = ANY (ARRAY[n.id]) AND n.name IS NOT NULL;
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
                         max_attempts => s.max_attempts, timeout => s.timeout_ms * interval '1 ms', tags => ARRAY[s.name])
$$;

CREATE FUNCTION tenon.error_class(reason text, error text) RETURNS text
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $_$
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
END $_$;

CREATE FUNCTION tenon.error_kept(error text) RETURNS text
    LANGUAGE sql IMMUTABLE
    AS $_$
    SELECT CASE WHEN length($1) > 8192 THEN left($1, 2048) || ' ... ' || right($1, 6139) ELSE $1 END
$_$;

CREATE FUNCTION tenon.error_line(error text) RETURNS text
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $_$
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
END $_$;

CREATE FUNCTION tenon.expire(moment timestamp with time zone, most integer) RETURNS integer
    LANGUAGE plpgsql
    AS $$
DECLARE
    piece constant integer := 16;
    begun timestamptz := clock_timestamp();
    n     integer := 0;
    ids   bigint[];
BEGIN
    WHILE n < most LOOP
        ids := tenon.first_bytes(ARRAY(
            SELECT l.id FROM tenon.task l
             WHERE l.start_before <= moment AND l.start_time IS NULL
               AND NOT EXISTS (SELECT FROM tenon.set_aside s WHERE s.part = 'expire' AND s.id = l.id AND s.until > moment)
             ORDER BY l.start_before LIMIT least(piece, most - n) FOR UPDATE OF l SKIP LOCKED));
        EXIT WHEN ids = '{}';
        PERFORM tenon.end_tasks(ids, 'expired', moment);
        n := n + cardinality(ids);
        EXIT WHEN tenon.turn_is_over(begun);
    END LOOP;
    RETURN n;
END $$;

CREATE FUNCTION tenon.extend(claim text, by interval) RETURNS timestamp with time zone
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
#variable_conflict use_variable
DECLARE
    timeout_max_ms constant bigint := 2592000000;
    by_ms    numeric := extract(epoch FROM by) * 1000;
    deadline timestamptz;
    fence    record;
    held     record;
BEGIN
    fence := tenon.read_claim(claim);
    IF (by_ms BETWEEN 1 AND timeout_max_ms) IS NOT TRUE THEN
        PERFORM tenon.refuse('by', by::text, '1 millisecond to 30 days');
    END IF;
    deadline := clock_timestamp() + make_interval(secs => by_ms / 1000);
    UPDATE tenon.task t
       SET timeout_ms = greatest(t.timeout_ms, least(timeout_max_ms, ceil(extract(epoch FROM deadline - t.start_time) * 1000)))
     WHERE t.id = fence.id AND t.claim_key = fence.key
    RETURNING t.queue, t.kind, t.start_time + make_interval(secs => t.timeout_ms / 1000.0) AS deadline INTO held;
    PERFORM tenon.claim_must_hold(claim, fence.key, held.queue, held.kind);
    RETURN held.deadline;
END $$;

CREATE FUNCTION tenon.failing_chores(VARIADIC chores text[]) RETURNS text
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
    SELECT string_agg(f.sentence, '; ')
      FROM tenon.failing f WHERE f.what = 'chore' AND f.name = ANY (chores)
$$;

CREATE FUNCTION tenon.few(f tenon.filter, place text, moment timestamp with time zone) RETURNS bigint[]
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET plan_cache_mode TO 'force_custom_plan'
    SET enable_bitmapscan TO 'on'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    most   integer := 10000;
    few    bigint[];
    queues text[];
    queues_most integer := 200;
BEGIN
    IF f.unique_key IS NOT NULL THEN
        few := CASE place
            WHEN 'task' THEN ARRAY(SELECT t.id FROM tenon.task t WHERE t.unique_key = f.unique_key LIMIT most + 1)
            WHEN 'dead' THEN ARRAY(SELECT d.id FROM tenon.dead d WHERE d.unique_key = f.unique_key LIMIT most + 1)
            ELSE ARRAY(SELECT h.id FROM tenon.history h WHERE h.unique_key = f.unique_key LIMIT most + 1) END;
    ELSIF f.tags IS NOT NULL THEN
        few := CASE place
            WHEN 'task' THEN ARRAY(SELECT t.id FROM tenon.task t WHERE t.tags && f.tags LIMIT most + 1)
            WHEN 'dead' THEN ARRAY(SELECT d.id FROM tenon.dead d WHERE d.tags && f.tags LIMIT most + 1)
            ELSE ARRAY(SELECT h.id FROM tenon.history h WHERE h.tags && f.tags LIMIT most + 1) END;
    ELSIF place = 'history' AND f.states <@ '{blocked,scheduled,ready,running,retrying,cancelled,expired,dead}' THEN
        few := ARRAY(SELECT h.id FROM tenon.history h WHERE h.outcome <> 'done' AND h.outcome = ANY (f.states) LIMIT most + 1);
    ELSIF place = 'task' AND f.states <@ '{blocked,scheduled,retrying,done,cancelled,expired,dead}' THEN
        queues := coalesce(f.queues, ARRAY(SELECT tenon.queue_names(queues_most + 1)));
        few := CASE WHEN cardinality(queues) <= queues_most OR NOT 'blocked' = ANY (f.states)
                    THEN tenon.few_later(f.states, queues, moment, most + 1) END;
    END IF;
    IF f.errors IS NOT NULL AND place IN ('task', 'dead') AND coalesce(cardinality(few), most + 1) > most THEN
        few := CASE place
            WHEN 'task' THEN ARRAY(SELECT t.id FROM tenon.task t WHERE t.error_class = ANY (f.errors) LIMIT most + 1)
            ELSE ARRAY(SELECT d.id FROM tenon.dead d WHERE d.error_class = ANY (f.errors) LIMIT most + 1) END;
    END IF;
    IF f.kinds IS NOT NULL AND place = 'dead' AND coalesce(cardinality(few), most + 1) > most THEN
        few := ARRAY(SELECT d.id FROM tenon.dead d WHERE d.kind = ANY (f.kinds) LIMIT most + 1);
    END IF;
    IF f.queues IS NOT NULL AND place IN ('task', 'dead') AND coalesce(cardinality(few), most + 1) > most THEN
        few := CASE place
            WHEN 'task' THEN ARRAY(SELECT t.id FROM tenon.task t WHERE t.queue = ANY (f.queues) LIMIT most + 1)
            ELSE ARRAY(SELECT d.id FROM tenon.dead d WHERE d.queue = ANY (f.queues) LIMIT most + 1) END;
    END IF;
    RETURN CASE WHEN cardinality(few) <= most THEN few END;
END $$;

CREATE FUNCTION tenon.few_later(states text[], queues text[], moment timestamp with time zone, most integer) RETURNS bigint[]
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $_$
    SELECT ARRAY((SELECT t.id FROM tenon.task t
                   WHERE t.delayed AND t.run_at > $3 AND t.run_at < 'infinity' AND $1 && '{scheduled,retrying}' LIMIT $4)
                 UNION ALL
                 (SELECT t.id FROM tenon.task t WHERE t.start_before <= $3 AND 'expired' = ANY ($1) LIMIT $4)
                 UNION ALL
                 (SELECT t.id
                    FROM unnest($2) q (name)
                   CROSS JOIN generate_series(0, 9) level (priority)
                   CROSS JOIN LATERAL (SELECT b.id FROM tenon.task b
                                        WHERE b.queue = q.name AND b.priority = level.priority AND b.run_at = 'infinity' LIMIT $4) t
                   WHERE 'blocked' = ANY ($1) LIMIT $4))
$_$;

CREATE FUNCTION tenon.few_of(f tenon.filter, places text[], moment timestamp with time zone, OUT few bigint[], OUT scanned text[]) RETURNS record
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
DECLARE
    place text;
    here  bigint[];
BEGIN
    few := '{}';
    scanned := '{}';
    FOREACH place IN ARRAY places LOOP
        here := tenon.few(f, place, moment);
        IF here IS NULL THEN
            scanned := scanned || place;
        ELSE
            few := few || here;
        END IF;
    END LOOP;
END $$;

CREATE FUNCTION tenon.fill_parents(ids bigint[]) RETURNS void
    LANGUAGE sql
    AS $_$
    UPDATE tenon.task t SET payload = p.payload, payload_bytes = tenon.printed_bytes(p.payload)
      FROM (SELECT k.id, tenon.with_parents(k.id, k.payload, s.payload_bytes_max) AS payload
              FROM tenon.setting s, tenon.task k
             WHERE k.id = ANY ($1) AND k.payload -> 'parents' = 'null' OFFSET 0) p
     WHERE t.id = ANY (ARRAY[p.id]) AND p.payload IS NOT NULL
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
           ('limit_key', 'a key of limits, such as "tenant:42"'),
           ('tag', 'a tag, or an array of them, of which the task has at least one')
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
    SET standard_conforming_strings TO 'on'
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
        WHEN 'older_than' THEN f.before := clock_timestamp() - tenon.seconds(tenon.filter_text(value)::interval);
        WHEN 'unique_key' THEN f.unique_key := tenon.filter_text(value);
        WHEN 'payload' THEN f.payload := tenon.filter_path(value);
        WHEN 'ids' THEN f.ids := tenon.filter_ids(value);
        WHEN 'trace' THEN f.trace := tenon.filter_text(value);
        WHEN 'enqueued_by' THEN f.enqueued_by := tenon.filter_text(value);
        WHEN 'flow' THEN f.flow := coalesce(value #>> '{}', '')::bigint;  -- NULL would be any
        WHEN 'limit_key' THEN f.limit_key := tenon.filter_text(value);
        WHEN 'tag' THEN f.tags := tenon.filter_texts(value);
    END CASE;
    RETURN f;
END $$;

CREATE FUNCTION tenon.find(filter jsonb, act text DEFAULT NULL::text, cursor bigint DEFAULT NULL::bigint, most integer DEFAULT 100, limit_ms integer DEFAULT NULL::integer, oldest boolean DEFAULT NULL::boolean, OUT ids bigint[], OUT next bigint, OUT share double precision) RETURNS record
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
DECLARE
    newest boolean := NOT coalesce(oldest, act IS NOT NULL);
    f      tenon.filter := tenon.read_filter(filter, act);
BEGIN
    PERFORM tenon.check_most(most);
    IF NOT tenon.may_see('') THEN  -- a producer
        IF f.enqueued_by <> session_user THEN
            ids := '{}';
            RETURN;
        END IF;
        f.enqueued_by := session_user;
    END IF;
    SELECT s.ids, s.next INTO ids, next FROM tenon.search(f, newest, cursor, most, limit_ms) s;
    share := coalesce(least(next::double precision / pg_sequence_last_value(pg_get_serial_sequence('tenon.task', 'id')), 1), 1);
    share := CASE WHEN newest AND next IS NOT NULL THEN 1 - share ELSE share END;
END $$;

CREATE FUNCTION tenon.finish(claim text, result jsonb DEFAULT NULL::jsonb) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
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
    PERFORM tenon.need_partition();
    WITH gone AS (
        DELETE FROM tenon.task t
         WHERE t.id = fence.id AND t.claim_key = fence.key
        RETURNING t.*, CASE WHEN tenon.needs_note(t) THEN tenon.record_end_of(t) END)
    INSERT INTO tenon.history (finished_at, id, run_at, start_time, created_at, worker_id, claims, failures,
                                crashes, priority, outcome, queue, kind, payload, unique_key, trace,
                                last_error, result, enqueued_by, tags)
    SELECT moment, id, run_at, start_time, created_at, worker_id, claims, failures, crashes,
           priority, 'done', queue, kind, payload, unique_key, trace, last_error, result, enqueued_by, tags
      FROM gone
    RETURNING history.queue, history.kind INTO held;
    PERFORM tenon.claim_must_hold(claim, fence.key, held.queue, held.kind);
END $$;

CREATE FUNCTION tenon.finish_many(claims text[], results jsonb[] DEFAULT NULL::jsonb[], skip_lost boolean DEFAULT false) RETURNS boolean[]
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
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
                             format('an array of %s elements, like claims', cardinality(claims)));
    END IF;
    IF results IS NOT NULL THEN
        results := tenon.results_kept(results);
    END IF;
    PERFORM tenon.need_partition();
    WITH given AS MATERIALIZED (
        SELECT f.*, c.result, c.n
          FROM unnest(claims, results) WITH ORDINALITY AS c (claim, result, n) CROSS JOIN LATERAL tenon.read_claim(c.claim) f
         ORDER BY f.id, c.n
    ), gone AS (
        DELETE FROM tenon.task t USING given g
         WHERE t.id = ANY (ARRAY[g.id]) AND t.claim_key = g.key
        RETURNING t.*, g.result, g.n, CASE WHEN tenon.needs_note(t) THEN tenon.record_end_of(t) END
    ), kept AS (
        INSERT INTO tenon.history (finished_at, id, run_at, start_time, created_at, worker_id, claims, failures,
                                    crashes, priority, outcome, queue, kind, payload, unique_key, trace,
                                    last_error, result, enqueued_by, tags)
        SELECT moment, g.id, g.run_at, g.start_time, g.created_at, g.worker_id, g.claims, g.failures, g.crashes,
               g.priority, 'done', g.queue, g.kind, g.payload, g.unique_key, g.trace, g.last_error, g.result, g.enqueued_by, g.tags
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

CREATE FUNCTION tenon.first_bytes(ids bigint[]) RETURNS bigint[]
    LANGUAGE sql STABLE
    AS $_$
    SELECT ARRAY(SELECT b.id
                   FROM (SELECT i.id, i.place, sum(t.bytes) OVER (ORDER BY i.place) - t.bytes AS before
                           FROM unnest($1) WITH ORDINALITY i (id, place)
                          CROSS JOIN LATERAL (SELECT k.payload_bytes + coalesce(k.step_bytes + 100 * k.step_count, 0) AS bytes
                                               FROM tenon.task k WHERE k.id = i.id OFFSET 0) t) b
                  WHERE b.before < 8388608 ORDER BY b.place)
$_$;

CREATE FUNCTION tenon.first_note(settled bigint) RETURNS bigint
    LANGUAGE plpgsql STABLE
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
BEGIN
    RETURN least((SELECT o.id FROM tenon.again_note o WHERE o.id > settled ORDER BY o.id LIMIT 1),
                 (SELECT o.id FROM tenon.flow_note o WHERE o.id > settled ORDER BY o.id LIMIT 1),
                 (SELECT e.id FROM tenon.limit_event e WHERE e.id > settled ORDER BY e.id LIMIT 1));
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

CREATE FUNCTION tenon.flow(description jsonb, notify boolean DEFAULT true) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
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
    IF notify IS NOT FALSE THEN
        IF tenon.publisher_sleeps((tenon.settings()).sleeper_key) THEN
            PERFORM pg_notify('tenon', '');
        END IF;
    END IF;
    RETURN made;
END $$;

CREATE FUNCTION tenon.flow(name text DEFAULT NULL::text, notify boolean DEFAULT true) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
BEGIN
    RETURN CASE WHEN name ~ '^\s*(\[\s*)?{' THEN tenon.flow(name::jsonb, notify) ELSE tenon.make_flow(name, false) END;
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

CREATE FUNCTION tenon.fold_minutes() RETURNS void
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
    WITH gone AS (
        DELETE FROM tenon.minute m
         WHERE m.minute < now() - interval '3 min'
           AND (m.worker_id <> '00000000-0000-0000-0000-000000000000' OR m.minute <> tenon.span_of(m.minute))
        RETURNING tenon.span_of(m.minute) AS begins, m.*
    ), place AS (
        SELECT g.begins, g.queue, g.kind, u.i, sum(u.wait)::integer AS wait, sum(u.run)::integer AS run
          FROM gone g CROSS JOIN LATERAL unnest(g.waits, g.runs) WITH ORDINALITY u (wait, run, i) GROUP BY 1, 2, 3, 4
    ), spread AS (
        SELECT begins, queue, kind, array_agg(coalesce(wait, 0) ORDER BY i) AS waits, array_agg(coalesce(run, 0) ORDER BY i) AS runs
          FROM place GROUP BY 1, 2, 3
    ), summed AS (
        SELECT begins, queue, kind, sum(started) AS started, sum(ended) AS ended, sum(done) AS done, sum(failed) AS failed, sum(dead) AS dead,
               sum(wait_us) AS wait_us, sum(run_us) AS run_us
          FROM gone GROUP BY 1, 2, 3
    )
    INSERT INTO tenon.minute AS m (minute, queue, kind, worker_id, started, ended, done, failed, dead, wait_us, run_us, waits, runs)
    SELECT begins, queue, kind, '00000000-0000-0000-0000-000000000000', t.started, t.ended, t.done, t.failed, t.dead, t.wait_us, t.run_us,
           coalesce(s.waits, '{}'), coalesce(s.runs, '{}')
      FROM summed t LEFT JOIN spread s USING (begins, queue, kind) ORDER BY begins, queue, kind
    ON CONFLICT (minute, queue, kind, worker_id) DO UPDATE
       SET started = m.started + excluded.started, ended = m.ended + excluded.ended, done = m.done + excluded.done,
           failed = m.failed + excluded.failed, dead = m.dead + excluded.dead, wait_us = m.wait_us + excluded.wait_us,
           run_us = m.run_us + excluded.run_us, waits = tenon.add_counts(m.waits, excluded.waits), runs = tenon.add_counts(m.runs, excluded.runs);
    DELETE FROM tenon.minute WHERE minute < now() - interval '74 hours';
$$;

CREATE FUNCTION tenon.form_of(type regtype) RETURNS text
    LANGUAGE sql IMMUTABLE
    AS $_$
    SELECT CASE WHEN $1 IN ('pg_catalog.json'::pg_catalog.regtype, 'pg_catalog.jsonb'::pg_catalog.regtype,
                            'pg_catalog.json[]'::pg_catalog.regtype, 'pg_catalog.jsonb[]'::pg_catalog.regtype) THEN 'json'
                WHEN $1 IN ('pg_catalog.bytea'::pg_catalog.regtype, 'pg_catalog.bytea[]'::pg_catalog.regtype) THEN 'bytea' ELSE 'text' END
$_$;

CREATE FUNCTION tenon.go_on_at(cursor regclass, place bigint) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF place <> tenon.place_of(cursor) THEN
        PERFORM setval(cursor, place);
    END IF;
END $$;

CREATE FUNCTION tenon.grant_cleaner(role text) RETURNS void
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$ SELECT tenon.grant_parts('{cleaner}', role) $$;

CREATE FUNCTION tenon.grant_intake(role text) RETURNS void
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$ SELECT tenon.grant_parts('{intake}', role) $$;

CREATE FUNCTION tenon.grant_operator(role text) RETURNS void
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$ SELECT tenon.grant_parts('{reader,enqueue,operator}', role) $$;

CREATE FUNCTION tenon.grant_parts(parts text[], role text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
DECLARE
    r record;
BEGIN
    FOR r IN SELECT x.privilege || coalesce(' (' || array_to_string(x.columns, ', ') || ')', '') AS privileges, x.what,
                    CASE WHEN x.what = 'function' AND position('(' IN o) = 0
                         THEN (SELECT string_agg(f.oid::regprocedure::text, ', ') FROM pg_proc f
                                WHERE f.pronamespace = 'tenon'::regnamespace AND f.proname = o)
                         WHEN x.what = 'schema' THEN o
                         ELSE 'tenon.' || o END AS object
               FROM tenon.rights() x LEFT JOIN LATERAL unnest(x.objects) o ON true
              WHERE x.part = ANY (parts) LOOP
        IF r.what = 'all tables' THEN
            EXECUTE format('GRANT %s ON ALL TABLES IN SCHEMA tenon TO %I', r.privileges, role);
        ELSE
            EXECUTE format('GRANT %s ON %s %s TO %I', r.privileges, r.what, r.object, role);
        END IF;
    END LOOP;
END $$;

CREATE FUNCTION tenon.grant_producer(role text, queues text[] DEFAULT NULL::text[], kinds text[] DEFAULT NULL::text[]) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
#variable_conflict use_variable
BEGIN
    PERFORM tenon.grant_parts('{producer,enqueue}', role);
    DELETE FROM tenon.producer p WHERE p.role = quote_ident(role)::regrole;
    IF queues IS NOT NULL OR kinds IS NOT NULL THEN
        INSERT INTO tenon.producer VALUES (quote_ident(role)::regrole, queues, kinds);
    END IF;
END $$;

CREATE FUNCTION tenon.grant_publisher(role text, exchanges text[] DEFAULT NULL::text[]) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
#variable_conflict use_variable
BEGIN
    PERFORM tenon.grant_parts('{publisher}', role);
    DELETE FROM tenon.publisher p WHERE p.role = quote_ident(role)::regrole;
    IF exchanges IS NOT NULL THEN
        INSERT INTO tenon.publisher VALUES (quote_ident(role)::regrole, exchanges);
    END IF;
END $$;

CREATE FUNCTION tenon.grant_reader(role text) RETURNS void
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$ SELECT tenon.grant_parts('{reader}', role) $$;

CREATE FUNCTION tenon.grant_worker(role text) RETURNS void
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$ SELECT tenon.grant_parts('{worker}', role) $$;

CREATE FUNCTION tenon.handled(queue text, kind text, OUT workers bigint, OUT backs_off text, OUT starts text, OUT fails text) RETURNS record
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $_$
    SELECT count(*), CASE WHEN bool_and(b.why IS NOT NULL)
                          THEN min(format('on worker %s (%s, pid %s): %s', w.id, w.host, w.pid, b.why)) END,
           CASE WHEN bool_and(b.why IS NOT NULL OR s.text IS NOT NULL)
                THEN min(format('%s, on worker %s (%s, pid %s)', s.text, w.id, w.host, w.pid)) END,
           CASE WHEN bool_and(w.rounds_failing IS NOT NULL) THEN min(format('%s, pid %s: %s', w.host, w.pid, w.rounds_failing)) END
      FROM tenon.worker w
      LEFT JOIN LATERAL (SELECT o.text FROM tenon.starting_of(w.starting) o WHERE $2 = ANY (o.kinds)) s ON true
      LEFT JOIN LATERAL (
           SELECT substr(line, strpos(line, ': ') + 2) AS why
             FROM unnest(string_to_array(w.backing_off, E'\n')) AS line
            WHERE $2 = ANY (string_to_array(split_part(line, ': ', 1), ','))) b ON true
     WHERE w.ended_at IS NULL AND w.state = 'alive' AND $1 = ANY (w.queues) AND $2 = ANY (w.kinds)
$_$;

CREATE FUNCTION tenon.has_notes(settled bigint) RETURNS boolean
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
BEGIN
    RETURN EXISTS (SELECT FROM tenon.limit_event e WHERE e.id > settled) OR EXISTS (SELECT FROM tenon.again_note o WHERE o.id > settled)
        OR EXISTS (SELECT FROM tenon.flow_note o WHERE o.id > settled AND o.act IS NULL);
END $$;

CREATE FUNCTION tenon.has_tasks(flow bigint) RETURNS boolean
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $_$
    SELECT EXISTS (SELECT FROM tenon.flow_task m
                    CROSS JOIN LATERAL (SELECT FROM tenon.task t WHERE t.id = m.id OFFSET 0) t
                    WHERE m.flow = $1)
$_$;

CREATE FUNCTION tenon.has_unsettled(settled bigint) RETURNS boolean
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
BEGIN
    RETURN tenon.first_note(settled) IS NOT NULL OR EXISTS (SELECT FROM tenon.again g WHERE NOT g.taken)
        OR EXISTS (SELECT FROM tenon.waiting w WHERE NOT w.settled) OR EXISTS (SELECT FROM tenon.signal s WHERE NOT s.settled);
END $$;

CREATE FUNCTION tenon.hold_flow(flow bigint) RETURNS tenon.flow
    LANGUAGE plpgsql
    AS $$
DECLARE
    f tenon.flow;
BEGIN
    SELECT * INTO f FROM tenon.flow w WHERE w.id = flow FOR KEY SHARE;
    IF f.id IS NULL THEN
        PERFORM tenon.refuse_call(format('there is no flow %s', coalesce(flow::text, 'NULL')), 'Give the number of a flow of this transaction or of a committed one.');
    ELSIF NOT tenon.may_flow(f.made_by) THEN
        RAISE EXCEPTION 'tenon: permission denied for flow %: role % did not make it', flow, session_user
            USING ERRCODE = 'insufficient_privilege', HINT = 'Use the role that made it, or an operator.';
    END IF;
    RETURN f;
END $$;

CREATE FUNCTION tenon.hold_key(kind text, unique_key text, until timestamp with time zone) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
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

CREATE FUNCTION tenon.hold_relay(token bigint) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    PERFORM FROM tenon.relay r WHERE r.token = hold_relay.token FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'tenon: another session relays' USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
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
        RAISE EXCEPTION 'tenon: the schedule % is synced from %', name, quote_literal(s.source)
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Change it there, or remove it from there first.';
    END IF;
    RETURN s;
END $$;

CREATE FUNCTION tenon.hold_settler() RETURNS boolean
    LANGUAGE plpgsql
    AS $$
BEGIN
    PERFORM FROM tenon.settler FOR UPDATE SKIP LOCKED;
    IF FOUND THEN
        RETURN true;
    ELSIF NOT EXISTS (SELECT FROM tenon.settler) THEN
        RAISE EXCEPTION 'tenon: the table tenon.settler is empty'
            USING ERRCODE = 'invalid_schema_name', HINT = 'Run tenon setup: it restores the row.';
    END IF;
    RETURN false;
END $$;

CREATE FUNCTION tenon.holder(kind text, unique_key text) RETURNS tenon.enqueued
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
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
    SET standard_conforming_strings TO 'on'
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
    SET standard_conforming_strings TO 'on'
    AS $_$
    SELECT concat_ws(' ', 'database', ($1).database || '/' || ($1).relation, 'of system', coalesce(($1).system::text, 'unknown'),
                     'named ' || ($1).name)
$_$;

CREATE FUNCTION tenon.intake_begin(queue text, OUT payload_bytes_max integer, OUT next_offset bigint) RETURNS record
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
BEGIN
    payload_bytes_max := (tenon.settings()).payload_bytes_max;
    SELECT p.next_offset INTO next_offset FROM tenon.stream_place p WHERE p.stream = queue;
END $$;

CREATE FUNCTION tenon.intake_note(host text, pid integer, version text, up_ms bigint, sources jsonb) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
#variable_conflict use_variable
DECLARE
    at      timestamptz := clock_timestamp();
    started timestamptz := at - up_ms * interval '1 ms';
    queues  text[] := ARRAY(SELECT s ->> 'queue' FROM jsonb_array_elements(sources) s);
BEGIN
    DELETE FROM tenon.intake i
     WHERE i.host = host AND i.pid = pid AND i.queue <> ALL (queues)
        OR i.queue = ANY (queues) AND i.seen_at < least(started, at - interval '1 min');
    INSERT INTO tenon.intake AS i (queue, host, pid, is_stream, version, started_at, seen_at, taken, repeated, rejected, kept, unkeyed,
                                   rejected_at, unkeyed_at, error, error_since)
    SELECT s.queue, host, pid, s.is_stream, left(version, 100), started, at, s.taken, s.repeated, s.rejected, s.kept, s.unkeyed,
           CASE WHEN s.rejected > 0 THEN at END, CASE WHEN s.unkeyed > 0 THEN at END, left(s.error, 1000), CASE WHEN s.error IS NOT NULL THEN at END
      FROM jsonb_to_recordset(sources) s (queue text, is_stream boolean, taken bigint, repeated bigint, rejected bigint, kept bigint,
                                          unkeyed bigint, error text)
     ORDER BY s.queue
        ON CONFLICT ON CONSTRAINT intake_pkey DO UPDATE
       SET is_stream = excluded.is_stream, version = excluded.version, started_at = excluded.started_at, seen_at = excluded.seen_at,
           taken = excluded.taken, repeated = excluded.repeated, rejected = excluded.rejected, kept = excluded.kept, unkeyed = excluded.unkeyed,
           rejected_at = CASE WHEN excluded.rejected > i.rejected OR i.seen_at < started THEN excluded.rejected_at ELSE i.rejected_at END,
           unkeyed_at = CASE WHEN excluded.unkeyed > i.unkeyed OR i.seen_at < started THEN excluded.unkeyed_at ELSE i.unkeyed_at END,
           error = excluded.error, error_since = CASE WHEN excluded.error IS NOT NULL THEN coalesce(i.error_since, at) END;
END $$;

CREATE FUNCTION tenon.is_confined() RETURNS boolean
    LANGUAGE sql STABLE
    AS $$ SELECT (tenon.settings()).confined AND NOT tenon.may_enqueue('', '') $$;

CREATE FUNCTION tenon.is_kind(kind text) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    AS $_$ SELECT kind ~ '^[A-Za-z0-9_.:-]+$' AND length(kind) <= 100 $_$;

CREATE FUNCTION tenon.is_limit_key(key text) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    AS $_$ SELECT key ~ '^[^[:space:][:cntrl:]]+$' AND length(key) <= 200 $_$;

CREATE FUNCTION tenon.is_operator() RETURNS boolean
    LANGUAGE sql STABLE
    AS $$ SELECT has_function_privilege(session_user, 'tenon.pause(text, text, boolean, text)', 'EXECUTE') $$;

CREATE FUNCTION tenon.retry_parts(policy text, OUT curve text, OUT first_s double precision, OUT cap_s double precision, OUT jitter double precision) RETURNS record
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $_$
DECLARE
    retry_chars_max constant integer := 100;
    part text[];
BEGIN
    IF length(policy) <= retry_chars_max THEN
        part := coalesce(regexp_match(policy, '^(exponential|linear|constant)\(([^,()%]+)(?:,([^,()%]+))?(?:,\s*(\d{1,3}) ?%)?\)$'),
                         regexp_match(policy, '^(polynomial)()(?:\(([^,()%]+)(?:,\s*(\d{1,3}) ?%)?\))?$'));
    END IF;
    IF part[1] IS NULL THEN
        RETURN;
    END IF;
    first_s := extract(epoch FROM coalesce(nullif(part[2], ''), '1 ms')::interval);
    cap_s := extract(epoch FROM coalesce(part[3]::interval, interval '30 days'));
    jitter := coalesce(part[4]::integer, CASE WHEN part[1] <> 'polynomial' THEN 10 END) / 100.0;
    IF first_s BETWEEN 0.001 AND cap_s AND cap_s <= 2592000 AND coalesce(jitter, 0) <= 1 THEN
        curve := part[1];
    END IF;
EXCEPTION WHEN invalid_datetime_format OR datetime_field_overflow OR interval_field_overflow THEN
    RETURN;
END $_$;

CREATE FUNCTION tenon.is_retry(policy text) RETURNS boolean
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    RETURN ((policy IS NULL) OR ((tenon.retry_parts(policy)).curve IS NOT NULL));

CREATE FUNCTION tenon.join_flow(ids bigint[], flow bigint, depends_on bigint[], waits bigint[], on_parent_dead text) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
#variable_conflict use_variable
BEGIN
    INSERT INTO tenon.flow_task (id, flow, parents) SELECT i, flow, nullif(depends_on, '{}') FROM unnest(ids) i;
    IF waits IS NULL THEN
        IF depends_on <> '{}' THEN
            PERFORM tenon.fill_parents(ids);
        END IF;
        RETURN false;
    ELSIF cardinality(ids)::bigint * cardinality(waits) > 1000000 THEN
        PERFORM tenon.refuse('depends_on', format('of %s elements for %s tasks', cardinality(waits), cardinality(ids)),
                             'an array of at most 1000000 elements, divided by the number of tasks in the call');
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
    SET standard_conforming_strings TO 'on'
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
        RETURN false;  -- not locked either: that would keep another role's task from starting
    END IF;
    SELECT t.* INTO held FROM tenon.task t
     WHERE t.unique_key = a.unique_key AND t.kind = a.kind AND t.start_time IS NULL
       AND (patience IS NULL OR t.run_at > clock_timestamp() - patience)
       FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    b := tenon.joined(a, tenon.as_again(held));
    IF b.kind IS NULL OR held.step_count IS NOT NULL OR (held.run_at = 'infinity' AND held.wanted_at IS NULL) THEN  -- has begun; is a suspect
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

CREATE FUNCTION tenon.join_waiting(unique_key text, kind text, most integer) RETURNS integer
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
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

CREATE FUNCTION tenon.joined(a tenon.again, b tenon.again) RETURNS tenon.again
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
DECLARE
    s    tenon.setting := tenon.settings();
    held timestamptz := b.run_at;
BEGIN
    IF (s.cancel_own_only OR s.confined) AND a.enqueued_by <> b.enqueued_by OR s.confined AND a.queue <> b.queue
       OR b.start_before <= clock_timestamp() THEN
        RETURN NULL;
    END IF;
    IF a.on_conflict = 'replace' THEN
        b.payload := a.payload;
        b.payload_bytes := a.payload_bytes;
        -- a task that is due keeps its place: a task that is replaced again and again would otherwise never start
        b.run_at := CASE WHEN a.run_at <= a.created_at THEN least(held, a.run_at) ELSE a.run_at END;
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
    IF a.debounce_max IS NOT NULL THEN  -- past debounce_max it is due now, or keeps its place; it does not overtake others
        b.run_at := least(a.run_at, greatest(b.created_at + a.debounce_max, least(held, a.created_at)));
    END IF;
    RETURN b;
END $$;

CREATE FUNCTION tenon.kinds_in(relation regclass) RETURNS SETOF text
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    SET standard_conforming_strings TO 'on'
    AS $_$
BEGIN
    RETURN QUERY EXECUTE format('WITH RECURSIVE named AS ('
        ' (SELECT kind FROM %1$s ORDER BY kind LIMIT 1)'
        ' UNION ALL SELECT (SELECT t.kind FROM %1$s t WHERE t.kind > n.kind ORDER BY t.kind LIMIT 1) FROM named n WHERE n.kind IS NOT NULL)'
        ' SELECT kind FROM named WHERE kind IS NOT NULL', relation);
END $_$;

CREATE FUNCTION tenon.last_of_steps(act text, ids bigint[]) RETURNS bigint
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    steps_most constant integer := 100000;
    moved bigint := 0;
    before bigint;
    held  record;
BEGIN
    FOR held IN SELECT t.id, t.step_count + t.step_bytes / 1000 AS n, NULL::jsonb AS steps FROM tenon.task t
                 WHERE act IN ('cancel', 'undo') AND t.id = ANY (ids) AND t.step_count IS NOT NULL
                UNION ALL
                SELECT d.id, pg_column_size(d.steps) / 1000, d.steps FROM tenon.dead d
                 WHERE act = 'retry' AND d.id = ANY (ids) AND d.steps IS NOT NULL
                UNION ALL
                SELECT e.id, pg_column_size(e.steps) / 1000, e.steps FROM tenon.history e
                 WHERE act = 'retry' AND e.id = ANY (ids) AND e.steps IS NOT NULL
                 ORDER BY id LOOP
        moved := moved + held.n + (SELECT count(*) FROM jsonb_object_keys(held.steps));
        IF moved > steps_most AND before IS NOT NULL THEN
            RETURN before;
        END IF;
        before := held.id;
    END LOOP;
    RETURN NULL;
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

CREATE FUNCTION tenon.leave_out(part text, id bigint, why text) RETURNS void
    LANGUAGE sql
    AS $_$
    INSERT INTO tenon.set_aside AS s (part, id, until, error) VALUES ($1, $2, clock_timestamp() + interval '1 minute', left($3, 8192))
    ON CONFLICT ON CONSTRAINT set_aside_pkey DO UPDATE
       SET tries = s.tries + 1, at = clock_timestamp(), error = excluded.error,
           until = clock_timestamp() + least(interval '1 day', interval '1 minute' * power(2, least(s.tries, 20)))
$_$;

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
    heads := ARRAY(SELECT h FROM tenon.limit_heads(free) h);  -- inlined, because the argument is a variable
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
    mine    text[] := tenon.lock_rates(keys);  -- a statement of its own: the next one sees what was committed before the lock
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
    -- the turn passes to other keys if these did not use all slots; and it is looked at again in a second even if no task ends
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

CREATE SEQUENCE tenon.note_id
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE TABLE tenon.limit_event (
    id bigint DEFAULT nextval('tenon.note_id'::regclass) NOT NULL,
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

CREATE FUNCTION tenon.limit_changed(name text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    target text := substr(name, strpos(name, '/') + 1);
    there  boolean;
BEGIN
    IF name LIKE 'kind/%' THEN
        PERFORM FROM tenon.kind k WHERE k.name = target FOR NO KEY UPDATE;
    ELSIF name LIKE 'queue/%' THEN
        PERFORM FROM tenon.queue q WHERE q.name = target FOR NO KEY UPDATE;
    END IF;
    there := EXISTS (SELECT FROM tenon.limit l WHERE l.name = limit_changed.name)
          OR EXISTS (SELECT FROM tenon.paused p WHERE p.what = 'limit' AND p.name = limit_changed.name);
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
    PERFORM tenon.call_settler();
END $$;

CREATE FUNCTION tenon.limit_count_starts(events tenon.limit_event[]) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO tenon.limit_start (key, at, n)
    SELECT k.key, e.start_time, 1 FROM unnest(events) e CROSS JOIN LATERAL unnest(e.keys) k (key) CROSS JOIN LATERAL tenon.limit_rule(k.key) r
     WHERE e.start_time IS NOT NULL AND r.max_starts IS NOT NULL;
    DELETE FROM tenon.limit_start WHERE ctid = ANY (ARRAY(
        SELECT o.ctid FROM (SELECT DISTINCT u.key FROM unnest(events) e CROSS JOIN LATERAL unnest(e.keys) u (key)) k
         CROSS JOIN LATERAL tenon.limit_rule(k.key) r
         CROSS JOIN LATERAL (SELECT clock_timestamp() - tenon.limit_kept(k.key) AS old OFFSET 0) w
         CROSS JOIN LATERAL (SELECT s.ctid FROM tenon.limit_start s WHERE s.key = k.key AND s.at < w.old LIMIT 1000 FOR UPDATE SKIP LOCKED) o
         WHERE r.max_starts IS NOT NULL));
END $$;

CREATE FUNCTION tenon.limit_first(keys text[]) RETURNS text
    LANGUAGE sql STABLE
    AS $_$
    SELECT CASE WHEN cardinality($1) = 1 THEN $1[1]
                ELSE (SELECT k.key FROM unnest($1) WITH ORDINALITY k (key, place) CROSS JOIN LATERAL tenon.limit_rule(k.key) r
                       ORDER BY r.max_running, k.place LIMIT 1) END
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

CREATE FUNCTION tenon.limit_in_way(key text, OUT paused boolean, OUT has_room boolean, OUT sentence text, OUT advice text) RETURNS record
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $_$
    SELECT r.paused, NOT r.paused AND d.why IS NULL AND NOT r.strict AND r.max_starts IS NULL AND h.n < r.max_running,
           CASE WHEN r.paused THEN format('it is paused%s%s', ' by ' || p.paused_by, ': ' || p.paused_why)
                WHEN d.why IS NOT NULL THEN d.why
                WHEN r.strict THEN concat_ws(', ', 'its tasks run one after the other', 'and the dead task ' || x.dead || ' blocks them', e.ending)
                ELSE concat_ws(', ', r.max_running || ' at once, ' || h.n || ' taken', r.max_starts || ' per ' || r.per,
                               CASE WHEN r.share IS NOT NULL THEN 'fair to all ' || r.share || ' keys' END, e.ending) END,
           CASE WHEN r.paused THEN format('tenon limit resume %s', p.name)
                WHEN x.dead IS NOT NULL THEN format('tenon retry %s, or tenon delete %s', x.dead, x.dead)
                WHEN r.strict THEN format('tenon limit show %s', $1)
                ELSE format('tenon limit show %s', $1) || coalesce('; to release more: ' || tenon.limit_raised($1, r.max_running), '') END
      FROM tenon.limit_rule($1) r
      CROSS JOIN LATERAL (SELECT CASE WHEN r.strict AND r.when_dead = 'block' THEN (
           SELECT l.task_id FROM tenon.limit_task l WHERE l.key = $1 AND l.state = 'dead' ORDER BY l.task_id LIMIT 1) END AS dead) x
      CROSS JOIN LATERAL (
           SELECT count(*) AS n FROM (SELECT FROM tenon.limit_task l WHERE l.key = $1 AND l.state IN ('held', 'ending') LIMIT coalesce(r.max_running, 0)) l) h
      CROSS JOIN LATERAL (
           SELECT CASE WHEN count(*) > 0 THEN format('%s of them cancelled, counted until %s', count(*), to_char(max(l.wanted_at) AT TIME ZONE 'UTC', 'HH24:MI:SS "UTC"')) END AS ending
             FROM tenon.limit_task l WHERE r.max_running IS NOT NULL AND l.key = $1 AND l.state IN ('held', 'ending') AND l.state = 'ending') e
      LEFT JOIN tenon.paused p ON p.what = 'limit' AND p.name = ANY (tenon.limit_names($1))
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

CREATE FUNCTION tenon.limit_raised(key text, max_running integer) RETURNS text
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $_$
    SELECT concat_ws(' ', 'tenon limit set', l.name,
               '--max-running ' || CASE WHEN l.is_full THEN least(l.max_running * 2, 1000000) ELSE l.max_running END,
               '--max-starts ' || CASE WHEN l.is_full THEN l.max_starts ELSE least(l.max_starts * 2, 10000) END || CASE WHEN l.ms % 1000 = 0 THEN format('/%ss', l.ms / 1000) ELSE format('/%sms', l.ms) END,
               CASE WHEN l.fair THEN '--fair' END, '--weight ' || l.weight,
               '--until ' || to_char(l.until AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'))
      FROM (SELECT r.*, h.is_full, (extract(epoch FROM r.per) * 1000)::bigint AS ms
              FROM (SELECT count(*) >= $2 AS is_full
                      FROM (SELECT FROM tenon.limit_task h WHERE h.key = $1 AND h.state IN ('held', 'ending') LIMIT coalesce($2, 0)) h) h
             CROSS JOIN tenon.limit r
             WHERE r.name = ANY (tenon.limit_names($1)) AND CASE WHEN h.is_full THEN r.max_running IS NOT NULL ELSE r.max_starts IS NOT NULL END
               AND coalesce(r.until > statement_timestamp(), true)
             ORDER BY r.name = $1 DESC LIMIT 1) l
     WHERE num_nonnulls(l.strict, l.when_dead) = 0 AND l.fair IS NOT FALSE
$_$;

CREATE FUNCTION tenon.limit_rooms(keys text[], mine text[]) RETURNS SETOF tenon.limit_room
    LANGUAGE sql STABLE
    AS $$
    SELECT k.key, CASE WHEN r.paused OR o.taken IS NOT NULL THEN 0 ELSE greatest(0, least(100000, r.max_running - h.n, r.max_starts - u.n)) END::integer,
           r.strict, r.share, r.weight,
           CASE WHEN o.taken IS NOT NULL THEN clock_timestamp() + interval '20 ms'
                WHEN r.max_starts IS NOT NULL THEN greatest(least(u.first, clock_timestamp()) + r.per, clock_timestamp() + interval '10 ms') END,
           'another transaction has locked the limit ' || o.taken
      FROM unnest(keys) k (key)
     CROSS JOIN LATERAL tenon.limit_rule(k.key) r
     CROSS JOIN LATERAL (SELECT min(l.name) AS taken FROM tenon.limit l
                          WHERE r.max_starts IS NOT NULL AND l.name = ANY (tenon.limit_names(k.key)) AND l.name <> ALL (mine)) o
     CROSS JOIN LATERAL (SELECT count(*) AS n FROM tenon.limit_task l
                          WHERE r.max_running IS NOT NULL AND l.key = k.key AND l.state IN ('held', 'ending')) h
     CROSS JOIN LATERAL (SELECT clock_timestamp() - r.per AS since OFFSET 0) w
     CROSS JOIN LATERAL (SELECT coalesce(sum(x.n), 0) AS n, min(x.at) AS first FROM tenon.limit_used(k.key, w.since) x
                          WHERE r.max_starts IS NOT NULL) u
$$;

CREATE FUNCTION tenon.limit_rows(events tenon.limit_event[]) RETURNS TABLE(at tid, key text, keys text[], task_id bigint, state text, wanted_at timestamp with time zone, hold_until timestamp with time zone)
    LANGUAGE sql STABLE
    AS $_$
    SELECT l.ctid, k.key, e.keys, e.task_id, l.state, l.wanted_at, e.hold_until
      FROM unnest($1) e CROSS JOIN LATERAL unnest(e.keys) k (key)
     CROSS JOIN LATERAL (SELECT t.ctid, t.state, t.wanted_at FROM tenon.limit_task t
                          WHERE t.key = k.key AND t.task_id = e.task_id OFFSET 0) l
$_$;

CREATE FUNCTION tenon.limit_rule(key text) RETURNS TABLE(rule text, max_running integer, max_starts integer, per interval, strict boolean, when_dead text, share text, weight integer, paused boolean, until timestamp with time zone)
    LANGUAGE sql STABLE
    AS $_$
    SELECT coalesce(o.name, b.name), CASE WHEN coalesce(o.strict, b.strict) THEN 1 ELSE coalesce(o.max_running, b.max_running) END,
           coalesce(o.max_starts, b.max_starts), coalesce(o.per, b.per),
           coalesce(o.strict, b.strict, false), coalesce(o.when_dead, b.when_dead, 'block'),
           CASE WHEN coalesce(o.fair, b.fair) THEN split_part(k.key, ':', 1) END, coalesce(o.weight, b.weight, 1),
           EXISTS (SELECT FROM tenon.paused p WHERE p.what = 'limit' AND p.name IN (k.key, k.part)), o.until
      FROM (SELECT $1 AS key, CASE WHEN starts_with($1, 'kind/') OR starts_with($1, 'queue/') THEN $1 ELSE split_part($1, ':', 1) END AS part) k
      LEFT JOIN tenon.limit o ON o.name = k.key AND coalesce(o.until > statement_timestamp(), true)
      LEFT JOIN tenon.limit b ON b.name = k.part AND b.name <> k.key AND coalesce(b.until > statement_timestamp(), true)
$_$;

CREATE FUNCTION tenon.limit_settle_ends(events tenon.limit_event[]) RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
    gone tid[];
BEGIN
    IF EXISTS (SELECT FROM tenon.limit r WHERE r.max_starts IS NOT NULL) THEN
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
             WHERE r.strict AND r.when_dead = 'block' AND (SELECT d.id FROM tenon.dead d WHERE d.id = o.task_id) IS NOT NULL)
        UPDATE tenon.limit_task l SET state = 'dead' FROM old o WHERE l.ctid = o.at;
    END IF;
    gone := ARRAY(SELECT o.at FROM tenon.limit_rows(events) o
                   WHERE o.state <> 'ending' AND (SELECT t.id FROM tenon.task t WHERE t.id = o.task_id) IS NULL
                     AND (o.state <> 'dead' OR (SELECT d.id FROM tenon.dead d WHERE d.id = o.task_id) IS NULL
                          OR (SELECT r.strict AND r.when_dead = 'block' FROM tenon.limit_rule(o.key) r LIMIT 1) IS NOT TRUE));
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

CREATE FUNCTION tenon.limit_take_part(share text, rooms tenon.limit_room[]) RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
    now_pass double precision := (SELECT t.pass FROM tenon.limit_turn t WHERE t.share = limit_take_part.share AND t.active ORDER BY t.pass LIMIT 1);
BEGIN
    INSERT INTO tenon.limit_turn AS t (key, share, pass, active)
    SELECT r.key, r.share, coalesce(floor(now_pass) + 1, 0), true FROM unnest(rooms) r
     WHERE r.share = limit_take_part.share AND r.room > 0
    ON CONFLICT (key) DO UPDATE SET share = excluded.share, active = true,
        pass = CASE WHEN now_pass IS NULL THEN 0 ELSE greatest(now_pass, least(t.pass, now_pass + 1)) END
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

CREATE FUNCTION tenon.limit_wait_ms(key text, max_starts integer, per interval, n integer, since timestamp with time zone) RETURNS integer
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
    SET standard_conforming_strings TO 'on'
    AS $$
BEGIN
    INSERT INTO tenon.limit_event (keys, task_id) VALUES (OLD.limit_keys, OLD.id);
    PERFORM tenon.call_settler();
    RETURN NULL;
END $$;

CREATE FUNCTION tenon.limited_stays() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    RAISE EXCEPTION 'tenon: cannot delete or rename % in %: it has a limit', quote_literal(OLD.name), TG_RELID::regclass
        USING ERRCODE = 'object_not_in_prerequisite_state',
              HINT = format('Set its other columns to NULL, or remove the limit first: SELECT tenon.remove_limit(%L).', TG_TABLE_NAME || '/' || OLD.name);
END $$;

CREATE FUNCTION tenon.limits_due_ms(ended boolean DEFAULT true) RETURNS bigint
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET standard_conforming_strings TO 'on'
    AS $$
DECLARE
    due timestamptz;
BEGIN
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
    step_names text[],
    step_times timestamp with time zone[],
    progress jsonb,
    max_crashes integer,
    tags text[],
    CONSTRAINT dead_reason_check CHECK ((reason = ANY (ARRAY['failures'::text, 'crashes'::text, 'handler'::text, 'timeout'::text])))
);

CREATE TABLE tenon.flow_task (
    id bigint NOT NULL,
    flow bigint NOT NULL,
    name text,
    parents bigint[],
    state text,
    result jsonb
);

CREATE SEQUENCE tenon.history_part
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE TABLE tenon.history (
    finished_at timestamp with time zone NOT NULL,
    id bigint NOT NULL,
    run_at timestamp with time zone NOT NULL,
    start_time timestamp with time zone,
    created_at timestamp with time zone NOT NULL,
    worker_id uuid,
    claims integer NOT NULL,
    failures integer NOT NULL,
    crashes integer NOT NULL,
    part integer DEFAULT pg_sequence_last_value('tenon.history_part'::regclass) NOT NULL,
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
    step_names text[],
    step_times timestamp with time zone[],
    timeout_ms bigint,
    max_attempts integer,
    retry text,
    progress jsonb,
    max_crashes integer,
    tags text[]
)
PARTITION BY LIST (part);

ALTER TABLE ONLY tenon.history REPLICA IDENTITY FULL;

CREATE TABLE tenon.suspect (
    task_id bigint NOT NULL,
    crashes integer NOT NULL,
    mark bigint NOT NULL,
    alone boolean NOT NULL,
    due_at timestamp with time zone,
    claims integer
);

CREATE TABLE tenon.task_step (
    task_id bigint NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    "position" integer NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    value jsonb NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0.01', autovacuum_vacuum_cost_delay='0');

CREATE VIEW tenon.tasks AS
 SELECT t.id,
    t.queue,
    t.kind,
        CASE
            WHEN (t.start_time IS NOT NULL) THEN 'running'::text
            WHEN (t.start_before <= clock_timestamp()) THEN 'expired'::text
            WHEN (t.run_at = 'infinity'::timestamp with time zone) THEN 'blocked'::text
            WHEN (t.run_at <= clock_timestamp()) THEN 'ready'::text
            WHEN ((t.failures + t.crashes) > 0) THEN 'retrying'::text
            ELSE 'scheduled'::text
        END AS state,
    t.priority,
    t.created_at,
    COALESCE(t.wanted_at, NULLIF(t.run_at, 'infinity'::timestamp with time zone), ( SELECT s.due_at
           FROM tenon.suspect s
          WHERE (s.task_id = t.id)), t.run_at) AS run_at,
    t.start_time,
    NULL::timestamp with time zone AS end_time,
    t.worker_id,
    ((t.failures + t.crashes) + ((t.start_time IS NOT NULL))::integer) AS attempt,
    t.claims,
    t.failures,
    t.crashes,
    t.payload,
    t.progress,
    NULL::jsonb AS result,
    t.unique_key,
    t.trace,
    t.last_error,
    t.error_class,
    t.enqueued_by,
    t.start_before,
    t.compensates,
    t.flow,
    t.limit_keys,
        CASE
            WHEN (t.step_count IS NOT NULL) THEN ( SELECT jsonb_object_agg(s.name, s.value) AS jsonb_object_agg
               FROM tenon.task_step s
              WHERE (s.task_id = t.id))
            ELSE NULL::jsonb
        END AS steps,
        CASE
            WHEN (t.step_count IS NOT NULL) THEN ( SELECT array_agg((s.name COLLATE "default") ORDER BY s."position") AS array_agg
               FROM tenon.task_step s
              WHERE (s.task_id = t.id))
            ELSE NULL::text[]
        END AS step_names,
    t.tags,
        CASE
            WHEN (t.step_count IS NOT NULL) THEN ( SELECT array_agg(s.at ORDER BY s."position") AS array_agg
               FROM tenon.task_step s
              WHERE (s.task_id = t.id))
            ELSE NULL::timestamp with time zone[]
        END AS step_times
   FROM tenon.task t
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
    f.steps,
    f.step_names,
    f.tags,
    f.step_times
   FROM tenon.history f
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
    d.steps,
    d.step_names,
    d.tags,
    d.step_times
   FROM tenon.dead d;

CREATE FUNCTION tenon.list(filter jsonb DEFAULT '{}'::jsonb, cursor bigint DEFAULT NULL::bigint, most integer DEFAULT 100, oldest boolean DEFAULT false) RETURNS SETOF tenon.tasks
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    found_ids bigint[] := (SELECT f.ids FROM tenon.find(filter, NULL, cursor, most, NULL, oldest) f);
BEGIN
    RETURN QUERY SELECT t.*
      FROM unnest(found_ids) WITH ORDINALITY i (id, place)
     CROSS JOIN LATERAL (SELECT * FROM tenon.tasks a WHERE a.id = i.id LIMIT 1) t  -- by the index
     ORDER BY i.place;
END $$;

CREATE FUNCTION tenon.lock_found(act text, ids bigint[]) RETURNS bigint[]
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
BEGIN
    IF act IN ('retry', 'delete') THEN
        RETURN ARRAY(SELECT l.id FROM (SELECT d.id FROM tenon.dead d WHERE d.id = ANY (ids) ORDER BY d.id FOR UPDATE SKIP LOCKED) l)
            || ARRAY(SELECT l.id FROM (SELECT e.id FROM tenon.history e WHERE e.id = ANY (ids) ORDER BY e.id FOR UPDATE SKIP LOCKED) l);
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

CREATE FUNCTION tenon.lock_messages(ids bigint[], exchange text, only_refused boolean) RETURNS bigint[]
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_variable
BEGIN
    PERFORM tenon.check_exchange(exchange);
    IF num_nonnulls(ids, exchange) <> 1 THEN
        PERFORM tenon.refuse_call('neither or both of ids and exchange are given', 'Give the numbers of messages, or an exchange for all that it refused.');
    END IF;
    IF cardinality(ids) > 100000 THEN
        PERFORM tenon.refuse('ids', format('of %s elements', cardinality(ids)), 'at most 100000 numbers');
    END IF;
    RETURN ARRAY(SELECT m.id FROM tenon.message m
                  WHERE (m.id = ANY (ids) OR ids IS NULL AND m.exchange = exchange) AND (m.failed_at IS NOT NULL OR NOT only_refused)
                  ORDER BY m.id LIMIT 100000 FOR UPDATE);
END $$;

CREATE FUNCTION tenon.lock_order(order_key text) RETURNS void
    LANGUAGE sql
    AS $_$ SELECT pg_advisory_xact_lock(hashtextextended('tenon order ' || $1, 0)) $_$;

CREATE FUNCTION tenon.lock_rates(keys text[]) RETURNS text[]
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM tenon.limit l WHERE l.max_starts IS NOT NULL) THEN
        RETURN '{}';
    END IF;
    RETURN ARRAY(SELECT m.name FROM (
        SELECT l.name FROM tenon.limit l
         WHERE l.name = ANY (ARRAY(SELECT unnest(tenon.limit_names(k.key)) FROM unnest(keys) k (key) CROSS JOIN LATERAL tenon.limit_rule(k.key) r
                                WHERE r.max_starts IS NOT NULL))
         ORDER BY l.name FOR NO KEY UPDATE SKIP LOCKED) m);
END $$;

CREATE FUNCTION tenon.log_fields_kept(fields text) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
DECLARE
    value jsonb;
BEGIN
    value := fields::jsonb;
    RETURN CASE WHEN tenon.printed_bytes(value) <= 4096 THEN value END;  -- a few bytes of text may print as many: 1e-16383
EXCEPTION WHEN others THEN
    RETURN NULL;
END $$;

CREATE FUNCTION tenon.log_message(claim text, message text, level text DEFAULT 'info'::text, fields jsonb DEFAULT NULL::jsonb) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
#variable_conflict use_variable
DECLARE
    message_bytes_max constant integer := 4096;
    fields_bytes_max  constant integer := 2048;
    lines_max         constant integer := 1000;
    bytes_max         constant integer := 262144;
    rest_left_out     constant text := '1,000 lines or 256 KiB; the rest of this attempt is left out';
    newest integer := pg_sequence_last_value('tenon.log_line_part');
    fence  record;
    held   record;
    logged record;
    fills  boolean;
BEGIN
    fence := tenon.read_claim(claim);
    SELECT t.queue, t.kind, 1 + t.failures + t.crashes AS attempt INTO held FROM tenon.task t WHERE t.id = fence.id AND t.claim_key = fence.key;
    PERFORM tenon.claim_must_hold(claim, fence.key, held.queue, held.kind);
    IF fence.key = 0 OR (tenon.settings()).log_keep = interval '0' THEN
        RETURN;
    END IF;
    SELECT count(*) AS n, coalesce(sum(octet_length(l.message) + coalesce(octet_length(l.fields::text), 0)), 0) AS bytes,
           bool_or(l.message = rest_left_out) IS TRUE AS was_full
      INTO logged
      FROM tenon.log_line l
     WHERE l.task_id = fence.id AND l.attempt = held.attempt AND l.part BETWEEN newest - 1 AND newest;
    IF logged.was_full THEN
        RETURN;
    END IF;
    message := tenon.log_text_kept(coalesce(message, ''), message_bytes_max);
    IF jsonb_typeof(fields) <> 'object' OR tenon.printed_bytes(fields) > fields_bytes_max THEN
        fields := NULL;
    END IF;
    fills := logged.n >= lines_max OR logged.bytes + octet_length(message) + coalesce(octet_length(fields::text), 0) > bytes_max;
    PERFORM tenon.need_partition('log_line');
    INSERT INTO tenon.log_line (task_id, attempt, level, message, fields)
    SELECT fence.id, held.attempt, CASE WHEN fills THEN 'warning' WHEN level IN ('error', 'warning', 'debug') THEN level ELSE 'info' END,
           CASE WHEN fills THEN rest_left_out ELSE message END, CASE WHEN NOT fills THEN fields END;
END $$;

CREATE FUNCTION tenon.log_text_kept(message text, bytes_max integer) RETURNS text
    LANGUAGE plpgsql IMMUTABLE
    AS $$
DECLARE
    n integer := bytes_max / 2 - 5;
BEGIN
    IF octet_length(message) <= bytes_max THEN
        RETURN message;
    END IF;
    -- by characters first, because a very long text is copied otherwise
    WHILE octet_length(left(message, n)) > bytes_max / 2 - 5 OR octet_length(right(message, n)) > bytes_max / 2 - 5 LOOP
        n := n * 3 / 4;
    END LOOP;
    RETURN left(message, n) || ' ... ' || right(message, n);
END $$;

CREATE FUNCTION tenon.look_at_flows(flows bigint[], most integer) RETURNS bigint[]
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
DECLARE
    begun timestamptz := clock_timestamp();
    over  boolean := false;
    again bigint[] := '{}';
    ended bigint[];
    ours  bigint[];
    f     tenon.flow;
BEGIN
    FOR f IN SELECT w.* FROM tenon.flow w WHERE w.id = ANY (flows) AND w.cancelled_at IS NOT NULL LOOP
        IF over OR (tenon.cancel_members(f.id, f.cancelled_by, most)).more THEN
            again := again || f.id;
        END IF;
        over := over OR tenon.turn_is_over(begun);
    END LOOP;
    ended := ARRAY(SELECT w.id FROM tenon.flow w
                    WHERE w.id = ANY (flows) AND (NOT w.open OR w.cancelled_at IS NOT NULL)
                      AND (w.ended_at IS NOT NULL
                           OR (SELECT m.id FROM tenon.flow_task m WHERE m.flow = w.id AND m.state IS NULL LIMIT 1) IS NULL));
    ours := ARRAY(SELECT w.id FROM tenon.flow w WHERE w.id = ANY (ended) ORDER BY w.id FOR UPDATE SKIP LOCKED);
    -- with the lock held nobody adds a task; tasks added before the lock are visible from here on
    UPDATE tenon.flow w SET ended_at = NULL
     WHERE w.id = ANY (ours) AND w.ended_at IS NOT NULL
       AND (SELECT m.id FROM tenon.flow_task m WHERE m.flow = w.id AND m.state IS NULL LIMIT 1) IS NOT NULL;
    FOR f IN SELECT w.* FROM tenon.flow w
              WHERE w.id = ANY (ours)
                AND (SELECT m.id FROM tenon.flow_task m WHERE m.flow = w.id AND m.state IS NULL LIMIT 1) IS NULL LOOP
        PERFORM tenon.end_flow(f);
    END LOOP;
    again := again || ARRAY(SELECT unnest(ended) EXCEPT SELECT unnest(ours));
    -- and tasks that were added while the flow was cancelled and were not visible above
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

CREATE FUNCTION tenon.make_partition(parent text, part integer) RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
    name text := parent || '_' || part;
BEGIN
    EXECUTE format('CREATE TABLE tenon.%I (LIKE tenon.%I INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', name, parent);
    EXECUTE format('ALTER TABLE tenon.%I REPLICA IDENTITY FULL', name);
    EXECUTE format('ALTER TABLE tenon.%I ATTACH PARTITION tenon.%I FOR VALUES IN (%s)', parent, name, part);
END $$;

CREATE FUNCTION tenon.make_partitions() RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
DECLARE
    s tenon.setting := tenon.settings();
BEGIN
    RETURN tenon.make_partitions_of('history', greatest(s.history_keep, interval '1 hour') / 24, s.history_rows_max / 20)
         + tenon.make_partitions_of('attempt', s.attempt_keep / 24, s.history_rows_max / 20)
         + tenon.make_partitions_of('message_sent', greatest(s.outbox_keep, interval '1 hour') / 24, s.history_rows_max / 20)
         + tenon.make_partitions_of('log_line', greatest(s.log_keep, interval '1 hour') / 24, s.history_rows_max / 20);
END $$;

CREATE FUNCTION tenon.make_partitions_of(parent text, age interval, rows_max bigint) RETURNS integer
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_variable
DECLARE
    partitions_max constant integer := 100;
    current integer;
    made    integer := 0;
    seen    record;
BEGIN
    FOR pass IN 1 .. 2 LOOP
        SELECT coalesce(x.last, max(p.part), 1) AS current, coalesce(bool_or(p.part = x.last AND p.begun_at IS NOT NULL), false) AS is_begun,
               coalesce(bool_or(p.part = x.last + 1), false) AS has_next,
               coalesce(bool_or(p.part = x.last AND p.n > 0 AND (p.n >= rows_max OR p.begun_at < clock_timestamp() - age)), false)
               AND count(*) < partitions_max AS is_full
          INTO seen
          FROM (SELECT pg_sequence_last_value(format('tenon.%I', parent || '_part')::regclass) AS last) x
          LEFT JOIN tenon.partitions() p ON p.parent = parent
         GROUP BY x.last;
        IF seen.is_begun AND seen.has_next AND NOT seen.is_full THEN
            RETURN 0;
        ELSIF pass = 1 THEN  -- two makers at once; ATTACH takes the lock anyway
            EXECUTE format('LOCK TABLE tenon.%I IN SHARE UPDATE EXCLUSIVE MODE', parent);
        END IF;
    END LOOP;
    current := seen.current;
    IF NOT EXISTS (SELECT FROM tenon.partitions() p WHERE p.parent = parent AND p.part = current) THEN
        PERFORM tenon.make_partition(parent, current);
        made := 1;
    END IF;
    IF NOT seen.is_begun THEN  -- it is new; or the transaction that began it was rolled back, and only the sequence has advanced
        PERFORM tenon.begin_partition(parent, current);
    ELSIF seen.is_full AND seen.has_next THEN
        current := current + 1;
        PERFORM tenon.begin_partition(parent, current);
    END IF;
    IF NOT EXISTS (SELECT FROM tenon.partitions() p WHERE p.parent = parent AND p.part = current + 1) THEN
        PERFORM tenon.make_partition(parent, current + 1);
        made := made + 1;
    END IF;
    RETURN made;
END $$;

CREATE FUNCTION tenon.may_cancel(enqueued_by text) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$
    SELECT enqueued_by = session_user OR tenon.is_operator() OR NOT (tenon.settings()).cancel_own_only AND NOT tenon.is_confined()
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
    AS $$ SELECT made_by = session_user OR tenon.is_operator() $$;

CREATE FUNCTION tenon.may_publish(exchange text) RETURNS boolean
    LANGUAGE sql STABLE
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $_$
    SELECT coalesce(bool_or($1 = ANY (p.exchanges)), true)
      FROM tenon.publisher p
      JOIN pg_roles r ON r.oid = p.role
     WHERE pg_has_role(session_user, r.oid, 'MEMBER')
       AND NOT (SELECT u.rolsuper FROM pg_roles u WHERE u.rolname = session_user)
$_$;

CREATE FUNCTION tenon.may_retry(ids bigint[]) RETURNS bigint[]
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
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

CREATE FUNCTION tenon.messages_wait() RETURNS boolean
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
BEGIN
    RETURN EXISTS (SELECT FROM tenon.message m WHERE NOT m.held AND m.failed_at IS NULL)
        OR EXISTS (SELECT FROM tenon.message m WHERE m.retry_at <= clock_timestamp());
END $$;

CREATE FUNCTION tenon.mine() RETURNS SETOF tenon.tasks
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
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

CREATE TABLE tenon.message (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone,
    failed_at timestamp with time zone,
    retry_at timestamp with time zone,
    tries integer DEFAULT 0 NOT NULL,
    held boolean DEFAULT false NOT NULL,
    exchange text NOT NULL,
    routing_key text NOT NULL,
    order_key text,
    message_id text NOT NULL,
    content_type text NOT NULL,
    headers jsonb,
    properties jsonb,
    trace text,
    published_by text NOT NULL,
    error text,
    body bytea NOT NULL,
    CONSTRAINT message_error_check CHECK ((length(error) <= 8192))
);

CREATE VIEW tenon.outbox AS
 SELECT m.id,
        CASE
            WHEN (m.expires_at = '-infinity'::timestamp with time zone) THEN 'deleted'::text
            WHEN (m.failed_at IS NOT NULL) THEN 'refused'::text
            WHEN (m.expires_at <= statement_timestamp()) THEN 'expired'::text
            WHEN m.held THEN 'held'::text
            ELSE 'waiting'::text
        END AS state,
    m.created_at,
    m.expires_at,
    m.failed_at,
    m.retry_at,
    m.tries,
    m.error,
    m.exchange,
    m.routing_key,
    m.order_key,
    m.message_id,
    m.content_type,
    m.headers,
    m.properties,
    m.trace,
    m.published_by,
    m.body
   FROM tenon.message m;

CREATE FUNCTION tenon.mine_published() RETURNS SETOF tenon.outbox
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
    SELECT o.*
      FROM tenon.message m
      CROSS JOIN LATERAL (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS near) s
      CROSS JOIN LATERAL (SELECT ((m.xmin::text::bigint - s.near) & 4294967295) AS ahead) x
      JOIN tenon.outbox o ON o.id = m.id
     WHERE m.created_at >= now()
       AND m.published_by = session_user
       AND CASE WHEN m.created_at >= now()
                THEN pg_xact_status((s.near + CASE WHEN x.ahead < 2147483648 THEN x.ahead ELSE x.ahead - 4294967296 END)::text::xid8) END = 'in progress'
     ORDER BY m.id
$$;

CREATE FUNCTION tenon.must_see(id bigint, enqueued_by text) RETURNS void
    LANGUAGE plpgsql STABLE
    AS $$
BEGIN
    IF tenon.may_see(enqueued_by) IS NOT TRUE THEN
        RAISE EXCEPTION 'tenon: permission denied for task %: role % did not enqueue it', id, session_user
            USING ERRCODE = 'insufficient_privilege', HINT = 'Use the role that enqueued it, or a reader.';
    END IF;
END $$;

CREATE FUNCTION tenon.need_history_0() RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
BEGIN
    IF to_regclass('tenon.history_0') IS NULL THEN
        PERFORM tenon.make_partition('history', 0);
        CREATE INDEX history_0_kept ON tenon.history_0 (kind, finished_at);
    END IF;
END $$;

CREATE FUNCTION tenon.need_partition(parent text DEFAULT 'history'::text) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF to_regclass(format('tenon.%s_%s', parent, pg_sequence_last_value(format('tenon.%s_part', parent)::regclass))) IS NULL THEN
        PERFORM tenon.make_partitions();
    END IF;
END $$;

CREATE FUNCTION tenon.needs_note(t tenon.task) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$
    SELECT t.again IS NOT NULL OR t.flow IS NOT NULL OR t.limit_keys IS NOT NULL OR t.awaited OR t.wanted_at IS NOT NULL OR t.crashes > 0
        OR t.step_count IS NOT NULL
$$;

CREATE FUNCTION tenon.newest_message(seen bigint) RETURNS bigint
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
BEGIN
    RETURN coalesce((SELECT m.id FROM tenon.message m WHERE m.id > seen AND NOT m.held AND m.failed_at IS NULL ORDER BY m.id DESC LIMIT 1), 0);
END $$;

CREATE FUNCTION tenon.next_tick(cron text, zone text DEFAULT 'UTC'::text, after timestamp with time zone DEFAULT clock_timestamp()) RETURNS timestamp with time zone
    LANGUAGE plpgsql STABLE STRICT SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
DECLARE
    c    tenon.cron := tenon.parse_cron(cron);
    wall timestamp := after AT TIME ZONE zone;
    tick timestamptz;
BEGIN
    IF NOT isfinite(after) THEN
        PERFORM tenon.refuse('after', after::text, 'a time');
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
    SET standard_conforming_strings TO 'on'
    AS $_$
    INSERT INTO tenon.audit (act, what, n, skipped)
    SELECT $1, jsonb_object_agg(e.key, e.value), $3, $4
      FROM jsonb_each($2 || jsonb_build_object('web_user', NULLIF(left(current_setting('tenon.web_user', true), 200), ''))) e
     WHERE e.value <> 'null'
    RETURNING id
$_$;

CREATE FUNCTION tenon.note_change(audit bigint, act text, what jsonb, n bigint, skipped bigint) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
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
        PERFORM tenon.refuse_call(format('audit row %s is not a %s of role %s', audit, act, session_user), 'Give the number that the first call of this act returned.');
    END IF;
    RETURN audit;
END $$;

CREATE FUNCTION tenon.note_confined() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
BEGIN
    PERFORM FROM tenon.setting FOR UPDATE;  -- by itself: the next statement sees what was committed meanwhile
    IF NOT FOUND AND EXISTS (SELECT FROM tenon.producer) THEN
        PERFORM tenon.settings();
    END IF;
    UPDATE tenon.setting s SET confined = EXISTS (SELECT FROM tenon.producer);
    RETURN NULL;
END $$;

CREATE FUNCTION tenon.note_schedule(act text, name text, why text DEFAULT NULL::text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
BEGIN
    PERFORM tenon.note_audit(act, jsonb_strip_nulls(jsonb_build_object('schedule', name, 'why', why)), 1);
END $$;

CREATE FUNCTION tenon.note_slow(part text, most integer, why text) RETURNS text
    LANGUAGE plpgsql
    AS $$
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

CREATE FUNCTION tenon.note_waiting() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    SET standard_conforming_strings TO 'on'
    AS $$
BEGIN
    IF EXISTS (SELECT FROM tenon.signal s WHERE s.name = NEW.signal) THEN
        PERFORM pg_notify('tenon', 'settle');
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION tenon.note_works(most integer) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    DELETE FROM tenon.set_aside s WHERE s.id = 0 AND s.until <= clock_timestamp() AND s.most * 2 >= note_works.most;
    UPDATE tenon.set_aside s SET most = s.most * 2 WHERE s.id = 0 AND s.until <= clock_timestamp();
    DELETE FROM tenon.set_aside s
     WHERE s.id > 0 AND CASE s.part WHEN 'expire' THEN NOT EXISTS (SELECT FROM tenon.task t WHERE t.id = s.id)
                                    WHEN 'again' THEN NOT EXISTS (SELECT FROM tenon.again g WHERE g.id = s.id AND g.failed IS NOT NULL)
                                    WHEN 'flows' THEN NOT EXISTS (SELECT FROM tenon.flow_note o WHERE o.id = s.id)
                                    ELSE NOT EXISTS (SELECT FROM tenon.task t WHERE t.id = s.id AND t.start_time IS NOT NULL) END;
END $$;

CREATE FUNCTION tenon.oldest_transaction_ms() RETURNS bigint
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
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

CREATE FUNCTION tenon.once(consumer text, message_id text, keep interval DEFAULT NULL::interval) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
#variable_conflict use_variable
BEGIN
    IF (length(consumer) BETWEEN 1 AND 200 AND consumer NOT LIKE 'intake:%') IS NOT TRUE THEN
        PERFORM tenon.refuse('consumer', quote_literal(consumer), '1 to 200 characters, and does not begin with intake:');
    ELSIF (octet_length(message_id) BETWEEN 1 AND 255) IS NOT TRUE THEN
        PERFORM tenon.refuse('message_id', quote_literal(message_id), '1 to 255 bytes');
    ELSIF extract(epoch FROM keep) NOT BETWEEN 1 AND 315576000 THEN
        PERFORM tenon.refuse('keep', keep::text, '1 second to 10 years');
    END IF;
    INSERT INTO tenon.seen (message_id, consumer, until)
    VALUES (message_id, consumer, clock_timestamp() + coalesce(tenon.seconds(keep), (tenon.settings()).once_keep))
    ON CONFLICT DO NOTHING;
    RETURN FOUND;
END $$;

CREATE FUNCTION tenon.outbox_depth(most bigint, OUT waiting bigint, OUT refused bigint, OUT at_least boolean, OUT oldest_ms bigint) RETURNS record
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
BEGIN
    SELECT count(*) FILTER (WHERE m.failed_at IS NULL), count(*) FILTER (WHERE m.failed_at IS NOT NULL), count(*) = most
      INTO waiting, refused, at_least
      FROM (SELECT o.failed_at FROM tenon.message o ORDER BY o.id DESC LIMIT most) m;
    refused := greatest(refused, (SELECT count(*) FROM (SELECT FROM tenon.message o WHERE o.failed_at IS NOT NULL LIMIT most) f));
    SELECT greatest(0, (extract(epoch FROM clock_timestamp() - m.created_at) * 1000)::bigint) INTO oldest_ms
      FROM (SELECT o.created_at FROM tenon.message o WHERE NOT o.held AND o.failed_at IS NULL ORDER BY o.id LIMIT 1) m;
END $$;

CREATE FUNCTION tenon.parent_results(task bigint) RETURNS TABLE(id bigint, name text, state text, result jsonb)
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    made_by text := (SELECT f.made_by FROM tenon.flow_task m JOIN tenon.flow f ON f.id = m.flow WHERE m.id = task);
BEGIN
    IF made_by IS NULL THEN
        PERFORM tenon.refuse('task', coalesce(task::text, 'NULL'), 'a task of a flow');
    ELSIF NOT tenon.may_flow(made_by) AND NOT has_table_privilege(session_user, 'tenon.history', 'SELECT') THEN
        RAISE EXCEPTION 'tenon: role % may not read the results of the parents of task %', session_user, task
            USING ERRCODE = 'insufficient_privilege', HINT = 'Another role made its flow. A handler gives its claim instead of the id.';
    END IF;
    RETURN QUERY SELECT * FROM tenon.results_of(task);
END $$;

CREATE FUNCTION tenon.parent_results(claim text) RETURNS TABLE(id bigint, name text, state text, result jsonb)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $_$
DECLARE
    fence record;
    held  record;
BEGIN
    IF claim ~ '^[0-9]{1,18}$' THEN  -- an untyped number
        RETURN QUERY SELECT * FROM tenon.parent_results(claim::bigint);
        RETURN;
    END IF;
    fence := tenon.read_claim(claim);
    SELECT t.queue, t.kind INTO held FROM tenon.task t WHERE t.id = fence.id AND t.claim_key = fence.key;
    PERFORM tenon.claim_must_hold(claim, fence.key, held.queue, held.kind);
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
        f := string_to_array(CASE lower(f[1] COLLATE "C")
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

CREATE FUNCTION tenon.partitions() RETURNS TABLE(parent text, part integer, begun_at timestamp with time zone, n bigint)
    LANGUAGE sql STABLE
    AS $_$
    WITH child AS (
        SELECT h.relname AS parent, substring(c.relname FROM '[0-9]+$')::integer AS part, c.relpages, c.reltuples,
               c.relpages > 0 AND c.reltuples > 0 AS is_analyzed, pg_stat_get_live_tuples(c.oid) AS live,
               pg_relation_size(c.oid) / current_setting('block_size')::integer AS pages
          FROM pg_inherits i JOIN pg_class h ON h.oid = i.inhparent JOIN pg_class c ON c.oid = i.inhrelid
         WHERE i.inhparent IN ('tenon.history'::regclass, 'tenon.attempt'::regclass, 'tenon.message_sent'::regclass,
                              'tenon.log_line'::regclass)
           AND c.relname ~ '^(history|attempt|message_sent|log_line)_[0-9]{1,9}$'
    ), known AS (
        SELECT k.parent, sum(k.reltuples)::float8 / sum(k.relpages) AS rows_of_a_page FROM child k WHERE k.is_analyzed GROUP BY k.parent
    )
    SELECT c.parent, c.part, p.begun_at,
           CASE WHEN c.is_analyzed THEN c.reltuples::float8 / c.relpages * c.pages
                WHEN c.live > 0 THEN c.live
                ELSE coalesce(k.rows_of_a_page, 40) * c.pages END::bigint
      FROM child c
      LEFT JOIN known k ON k.parent = c.parent
      LEFT JOIN tenon.partition p ON p.parent = c.parent AND p.part = c.part
$_$;

CREATE FUNCTION tenon.pause(queue text DEFAULT NULL::text, kind text DEFAULT NULL::text, everything boolean DEFAULT false, why text DEFAULT NULL::text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
BEGIN
    PERFORM tenon.check_target(queue, kind, everything);
    PERFORM tenon.pause_one(CASE WHEN everything THEN 'everything' WHEN queue IS NULL THEN 'kind' ELSE 'queue' END, coalesce(queue, kind, ''), why);
    PERFORM tenon.tell_paused(queue, true);
    PERFORM tenon.note_audit('pause', jsonb_build_object('queue', queue, 'kind', kind, 'why', why,
                                                         'everything', NULLIF(everything, false)), 1);
END $$;

CREATE TABLE tenon.paused (
    what text NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    paused_by text NOT NULL,
    paused_at timestamp with time zone NOT NULL,
    paused_why text,
    CONSTRAINT paused_check CHECK (((name = ''::text) = (what = 'everything'::text))),
    CONSTRAINT paused_paused_why_check CHECK ((length(paused_why) <= 1000)),
    CONSTRAINT paused_what_check CHECK ((what = ANY (ARRAY['everything'::text, 'queue'::text, 'kind'::text, 'limit'::text, 'schedule'::text])))
);

CREATE FUNCTION tenon.pause_advice(p tenon.paused) RETURNS text
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
    SELECT CASE p.what WHEN 'everything' THEN 'tenon resume --all' WHEN 'kind' THEN 'tenon resume --kind ' || p.name
                       WHEN 'queue' THEN 'tenon resume ' || p.name ELSE format('tenon %s resume %s', p.what, p.name) END
$$;

CREATE FUNCTION tenon.pause_limit(name text, why text DEFAULT NULL::text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
#variable_conflict use_variable
BEGIN
    PERFORM tenon.check_limit_name(name);
    PERFORM FROM tenon.limit l WHERE l.name = pause_limit.name FOR NO KEY UPDATE;  -- nobody is about to take from its rate
    PERFORM tenon.pause_one('limit', name, why);
    PERFORM tenon.limit_changed(name);
    PERFORM tenon.note_audit('pause_limit', jsonb_build_object('limit', name, 'why', why), 1);
END $$;

CREATE FUNCTION tenon.pause_one(what text, name text, why text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
BEGIN
    PERFORM tenon.check_length('why', why, 1000);
    INSERT INTO tenon.paused AS p (what, name, paused_by, paused_at, paused_why)
    VALUES (pause_one.what, pause_one.name, session_user, clock_timestamp(), why)
    ON CONFLICT ON CONSTRAINT paused_pkey DO UPDATE
       SET paused_by = excluded.paused_by, paused_at = excluded.paused_at, paused_why = excluded.paused_why;
END $$;

CREATE FUNCTION tenon.pause_schedule(name text, why text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
#variable_conflict use_variable
BEGIN
    UPDATE tenon.schedule s SET due_at = 'infinity' WHERE s.name = name;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM tenon.pause_one('schedule', name, why);
    PERFORM tenon.note_schedule('pause_schedule', name, why);
    RETURN true;
END $$;

CREATE FUNCTION tenon.pause_sentence(p tenon.paused) RETURNS text
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
    SELECT concat(CASE p.what WHEN 'everything' THEN 'everything' ELSE format('the %s %s', p.what, p.name) END, ' is paused by ', p.paused_by,
                  to_char(p.paused_at AT TIME ZONE 'UTC', '" since "YYYY-MM-DD HH24:MI:SS "UTC"'), ': ' || p.paused_why)
$$;

CREATE FUNCTION tenon.paused_kinds(kinds text[]) RETURNS text
    LANGUAGE sql STABLE
    AS $_$
    SELECT CASE WHEN NOT EXISTS (SELECT FROM tenon.setting) OR EXISTS (SELECT FROM tenon.paused p WHERE p.what = 'everything') THEN '*'
                ELSE (SELECT string_agg(p.name, ',') FROM tenon.paused p WHERE p.what = 'kind' AND p.name = ANY ($1)) END
$_$;

CREATE FUNCTION tenon.place_of(cursor regclass) RETURNS bigint
    LANGUAGE sql
    AS $_$ SELECT coalesce(pg_sequence_last_value($1), 0) $_$;

CREATE FUNCTION tenon.places(states text[]) RETURNS text[]
    LANGUAGE sql IMMUTABLE
    AS $$
    SELECT ARRAY(SELECT p FROM (VALUES ('task', '{blocked,scheduled,ready,running,retrying,expired}'::text[]),
                                       ('history', '{done,cancelled,expired}'), ('dead', '{dead}')) v (p, s)
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
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
#variable_conflict use_variable
DECLARE
    progress_bytes_max constant integer := 65536;
    bytes bigint := tenon.printed_bytes(value);
    fence record;
    held  record;
BEGIN
    fence := tenon.read_claim(claim);
    IF bytes > progress_bytes_max THEN
        PERFORM tenon.refuse('value', format('of %s bytes', bytes),
                             format('at most %s bytes as text', progress_bytes_max));
    END IF;
    UPDATE tenon.task t SET progress = nullif(value, 'null')
     WHERE t.id = fence.id AND t.claim_key = fence.key
    RETURNING t.queue, t.kind, t.watched INTO held;
    PERFORM tenon.claim_must_hold(claim, fence.key, held.queue, held.kind);
    IF held.watched THEN
        PERFORM pg_notify('tenon_progress', fence.id::text);
    END IF;
END $$;

CREATE FUNCTION tenon.progress_kept(line text) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
DECLARE
    value jsonb;
BEGIN
    value := line::jsonb -> 'progress';
    RETURN CASE WHEN tenon.printed_bytes(value) <= 65536 THEN value END;
EXCEPTION WHEN others THEN
    RETURN NULL;
END $$;

CREATE FUNCTION tenon.progress_mark(t tenon.task) RETURNS bigint
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    RETURN hashtextextended(concat_ws(' '::text, (t).step_count, (t).progress), (0)::bigint);

CREATE FUNCTION tenon.publish(exchange text, routing_key text, body anycompatible, headers jsonb DEFAULT NULL::jsonb, message_id text DEFAULT NULL::text, content_type text DEFAULT NULL::text, order_key text DEFAULT NULL::text, expires interval DEFAULT NULL::interval, properties jsonb DEFAULT NULL::jsonb, trace text DEFAULT NULL::text, notify boolean DEFAULT true) RETURNS bigint
    LANGUAGE sql
    AS $$
    SELECT (tenon.publish_bodies(exchange, routing_key, ARRAY[body::pg_catalog.text], tenon.form_of(pg_catalog.pg_typeof(body)), headers,
                                 ARRAY[message_id], content_type, order_key, expires, properties, trace, notify))[1]
$$;

CREATE FUNCTION tenon.publish_bodies(exchange text, routing_key text, bodies text[], form text, headers jsonb, message_ids text[], content_type text, order_key text, expires interval, properties jsonb, trace text, notify boolean) RETURNS bigint[]
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
#variable_conflict use_variable
DECLARE
    body_bytes_max constant integer := 16777216;
    at      timestamptz;
    too_big integer;
    ids     bigint[];
BEGIN
    PERFORM tenon.check_publish(exchange, routing_key, headers, content_type, order_key, tenon.seconds(expires), properties, trace);
    IF bodies IS NULL OR cardinality(bodies) > 100000 OR array_position(bodies, NULL) IS NOT NULL THEN
        PERFORM tenon.refuse('the body', coalesce('of ' || cardinality(bodies) || ' elements', 'NULL'),
                             'a text, JSON or bytea; of tenon.publish_many an array of 0 to 100000 of them');
    ELSIF cardinality(message_ids) <> cardinality(bodies) THEN
        PERFORM tenon.refuse('message_ids', format('of %s elements', cardinality(message_ids)),
                             format('as long as bodies, %s elements', cardinality(bodies)));
    END IF;
    PERFORM tenon.check_short('message_id', m) FROM unnest(message_ids) m;
    too_big := (SELECT max(octet_length(b)) FROM unnest(bodies) b);
    IF too_big > body_bytes_max AND form <> 'bytea' OR too_big > 4 * body_bytes_max THEN  -- as PostgreSQL prints it, a byte has up to four characters
        PERFORM tenon.refuse('the body', format('of %s bytes', too_big), format('at most %s bytes long', body_bytes_max));
    END IF;
    IF order_key IS NOT NULL THEN
        PERFORM tenon.lock_order(order_key);
    END IF;
    at := clock_timestamp();
    WITH new AS (
        INSERT INTO tenon.message (created_at, expires_at, exchange, routing_key, order_key, message_id, content_type, headers, properties, trace,
                                   published_by, body)
        SELECT at, at + tenon.seconds(expires), exchange, routing_key, order_key, coalesce(b.message_id, gen_random_uuid()::text),
               coalesce(content_type, CASE form WHEN 'json' THEN 'application/json' WHEN 'bytea' THEN 'application/octet-stream' ELSE 'text/plain' END),
               headers, properties, trace, session_user, b.bytes
          FROM (SELECT m.message_id, CASE form WHEN 'bytea' THEN m.body::bytea ELSE convert_to(m.body, 'UTF8') END AS bytes
                  FROM unnest(bodies, message_ids) WITH ORDINALITY m (body, message_id, place) ORDER BY m.place OFFSET 0) b
         WHERE octet_length(b.bytes) <= body_bytes_max
        RETURNING id)
    SELECT coalesce(array_agg(id ORDER BY id), '{}') INTO ids FROM new;
    IF cardinality(ids) < cardinality(bodies) THEN
        PERFORM tenon.refuse('the body', 'of more bytes', format('at most %s bytes long', body_bytes_max));
    END IF;
    IF coalesce(notify, true) AND ids <> '{}' THEN
        PERFORM tenon.call_relay();
    END IF;
    RETURN ids;
END $$;

CREATE FUNCTION tenon.publish_many(exchange text, routing_key text, bodies anycompatiblearray, headers jsonb DEFAULT NULL::jsonb, message_ids text[] DEFAULT NULL::text[], content_type text DEFAULT NULL::text, order_key text DEFAULT NULL::text, expires interval DEFAULT NULL::interval, properties jsonb DEFAULT NULL::jsonb, trace text DEFAULT NULL::text, notify boolean DEFAULT true) RETURNS bigint[]
    LANGUAGE sql
    AS $$
    SELECT tenon.publish_bodies(exchange, routing_key, bodies::pg_catalog.text[], tenon.form_of(pg_catalog.pg_typeof(bodies)), headers,
                                message_ids, content_type, order_key, expires, properties, trace, notify)
$$;

CREATE FUNCTION tenon.publisher_sleeps(key bigint) RETURNS boolean
    LANGUAGE sql
    AS $$ SELECT NOT pg_catalog.pg_try_advisory_xact_lock_shared(key) $$;

CREATE FUNCTION tenon.purge(most integer) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
DECLARE
    begun timestamptz := clock_timestamp();
    s tenon.setting := tenon.settings();
    n integer := 0;
    m integer;
    k integer;
    starts integer;
    seen integer;
    intakes integer;
BEGIN
    WHILE n < most LOOP
        DELETE FROM tenon.dead WHERE id = ANY (ARRAY(
            SELECT x.id
              FROM tenon.kinds_in('tenon.dead') i (kind)
              LEFT JOIN tenon.kind k ON k.name = i.kind
             CROSS JOIN LATERAL (SELECT d.id FROM tenon.dead d WHERE d.kind = i.kind AND d.dead_at < now() - coalesce(k.dead_keep, s.dead_keep)
                                  ORDER BY d.dead_at LIMIT least(16, most - n) FOR UPDATE SKIP LOCKED) x
             LIMIT least(16, most - n)));
        GET DIAGNOSTICS m = ROW_COUNT;
        n := n + m;
        EXIT WHEN m = 0;
        IF tenon.turn_is_over(begun) THEN
            n := most;  -- there may be more
        END IF;
    END LOOP;
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
    DELETE FROM tenon.seen WHERE ctid = ANY (ARRAY(
        SELECT e.ctid FROM tenon.seen e WHERE e.until < now() ORDER BY e.until LIMIT most FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS seen = ROW_COUNT;
    DELETE FROM tenon.intake WHERE ctid = ANY (ARRAY(
        SELECT i.ctid FROM tenon.intake i WHERE i.seen_at < now() - interval '1 day' LIMIT most FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS intakes = ROW_COUNT;
    RETURN n + m + starts + k + seen + intakes + tenon.sweep_history(most) + tenon.purge_kept(most)
         + tenon.purge_flows(now() - greatest(s.history_keep, interval '1 hour'), most);
END $$;

CREATE FUNCTION tenon.purge_flows(before timestamp with time zone, most integer) RETURNS integer
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    piece constant integer := 1000;
    begun  timestamptz := clock_timestamp();
    place  bigint := tenon.place_of('tenon.flow_cursor');
    looked integer := 0;
    young  boolean := false;
    n      integer := 0;
    m      integer;
    f      record;
BEGIN
    FOR f IN SELECT w.id, w.made_at,
                    (w.ended_at < before
                     OR w.ended_at IS NULL AND NOT w.open AND (SELECT x.id FROM tenon.flow_task x WHERE x.flow = w.id LIMIT 1) IS NULL)
                    AND (SELECT x.id FROM tenon.flow_task x WHERE x.flow = w.id AND x.state IS NULL LIMIT 1) IS NULL
                    AND (SELECT x.id FROM tenon.flow_task x
                          WHERE x.flow = w.id AND x.state IN ('dead', 'cancelled', 'expired')
                            AND ((SELECT true FROM tenon.dead d WHERE d.id = x.id LIMIT 1)
                                 OR (SELECT true FROM tenon.flow_wait v WHERE v.parent = x.id LIMIT 1)) LIMIT 1) IS NULL AS goes
               FROM (SELECT * FROM tenon.flow w WHERE w.id > place ORDER BY w.id LIMIT piece) w ORDER BY w.id LOOP
        young := f.made_at >= before;
        EXIT WHEN young;
        place := f.id;
        looked := looked + 1;
        IF f.goes THEN
            PERFORM FROM tenon.flow w WHERE w.id = f.id FOR UPDATE SKIP LOCKED;
            CONTINUE WHEN NOT FOUND OR EXISTS (SELECT FROM tenon.flow_task x WHERE x.flow = f.id AND x.state IS NULL);  -- added before we had the lock
            DELETE FROM tenon.flow_task WHERE ctid = ANY (ARRAY(SELECT x.ctid FROM tenon.flow_task x WHERE x.flow = f.id LIMIT 10000));
            GET DIAGNOSTICS m = ROW_COUNT;
            DELETE FROM tenon.flow w WHERE w.id = f.id AND m < 10000;
            n := n + m + 1;
            place := CASE WHEN m < 10000 THEN f.id ELSE f.id - 1 END;
        END IF;
        EXIT WHEN n >= most OR tenon.turn_is_over(begun);
    END LOOP;
    IF NOT young AND (looked = piece OR n >= most OR tenon.turn_is_over(begun)) THEN
        PERFORM tenon.go_on_at('tenon.flow_cursor', place);
        RETURN greatest(n, most);
    END IF;
    PERFORM tenon.go_on_at('tenon.flow_cursor', 0);
    RETURN n;
END $$;

CREATE FUNCTION tenon.purge_kept(most integer) RETURNS integer
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    SET standard_conforming_strings TO 'on'
    AS $_$
DECLARE
    n integer;
BEGIN
    IF to_regclass('tenon.history_0') IS NULL THEN
        RETURN 0;
    END IF;
    EXECUTE 'DELETE FROM tenon.history_0 WHERE ctid = ANY (ARRAY('
        ' SELECT x.ctid FROM tenon.kinds_in(''tenon.history_0'') i (kind) LEFT JOIN tenon.kind k ON k.name = i.kind CROSS JOIN LATERAL ('
        '   SELECT h.ctid FROM tenon.history_0 h WHERE h.kind = i.kind AND h.finished_at < now() - coalesce(k.history_keep, $1)'
        '    ORDER BY h.finished_at LIMIT $2 FOR UPDATE SKIP LOCKED) x LIMIT $2))'
        USING greatest((tenon.settings()).history_keep, interval '1 hour'), most;
    GET DIAGNOSTICS n = ROW_COUNT;
    RETURN n;
END $_$;

CREATE FUNCTION tenon.put_step(id bigint, name text, value jsonb) RETURNS void
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_variable
DECLARE
    n integer;
BEGIN
    UPDATE tenon.task t
       SET step_count = coalesce(t.step_count, 0) + 1,
           step_bytes = coalesce(t.step_bytes, 0) + tenon.added_bytes(name, octet_length(value::text))
     WHERE t.id = id RETURNING t.step_count INTO n;
    IF n = 1 THEN
        DELETE FROM tenon.task_step s WHERE s.task_id = id;
    END IF;
    INSERT INTO tenon.task_step (task_id, position, name, value) VALUES (id, n, name, value);
END $$;

CREATE FUNCTION tenon.queue_depth(rows_max bigint, queues_max bigint) RETURNS TABLE(queue text, kind text, ready bigint, running bigint, scheduled bigint, retrying bigint, blocked bigint, dead bigint, oldest_ready timestamp with time zone, at_least boolean, counted_at timestamp with time zone)
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $_$
    WITH last AS MATERIALIZED (
        SELECT c.counted_at FROM tenon.depth_fresh() c (counted_at)
    ), died AS MATERIALIZED (
        SELECT d.queue, d.kind, count(*) AS n FROM (SELECT queue, kind FROM tenon.dead ORDER BY dead_at DESC LIMIT $1) d GROUP BY d.queue, d.kind
    ), all_died AS MATERIALIZED (  -- bounded: there may be more
        SELECT coalesce(sum(n), 0) >= $1 AS bounded, coalesce(sum(n), 0) >= $1 AND EXISTS (SELECT FROM last)
               AND (SELECT coalesce(sum(d.dead), 0) FROM tenon.depth d) >= coalesce(sum(n), 0) AS counted FROM died
    ), shown AS MATERIALIZED (
        SELECT n.queue FROM tenon.queue_names($2) AS n (queue)
        UNION (SELECT queue FROM died GROUP BY queue LIMIT $2)
        UNION (SELECT d.queue FROM all_died a JOIN tenon.depth d ON a.counted AND d.dead > 0 AND d.queue <> '(other)' GROUP BY d.queue LIMIT $2)
    ), share AS MATERIALIZED (
        SELECT greatest($1 / greatest(count(*), 1), 100) AS rows FROM shown
    ), live AS MATERIALIZED (
        SELECT s.queue, t.kind, t.due, count(*) AS n, count(t.start_time) AS running,
               count(*) FILTER (WHERE t.start_time IS NULL AND t.due) AS ready,
               count(*) FILTER (WHERE NOT t.due AND t.run_at < 'infinity' AND t.failed = 0) AS scheduled,
               count(*) FILTER (WHERE NOT t.due AND t.run_at < 'infinity' AND t.failed > 0) AS retrying,
               count(*) FILTER (WHERE t.run_at = 'infinity') AS blocked,
               min(t.run_at) FILTER (WHERE t.start_time IS NULL AND t.due) AS oldest_ready
          FROM shown s
         CROSS JOIN LATERAL (
               (SELECT o.kind, true AS due, o.start_time, o.run_at, 0 AS failed
                  FROM generate_series(9, 0, -1) p
                 CROSS JOIN LATERAL (SELECT kind, start_time, run_at FROM tenon.task
                                      WHERE queue = s.queue AND priority = p AND run_at <= statement_timestamp()
                                      ORDER BY run_at LIMIT (SELECT rows FROM share)) o
                 LIMIT (SELECT rows FROM share))
               UNION ALL
               (SELECT o.kind, false, NULL, o.run_at, o.failed
                  FROM generate_series(9, 0, -1) p
                 CROSS JOIN LATERAL (SELECT kind, run_at, failures + crashes AS failed FROM tenon.task
                                      WHERE queue = s.queue AND priority = p AND run_at > statement_timestamp()
                                      ORDER BY run_at LIMIT (SELECT rows FROM share)) o
                 LIMIT (SELECT rows FROM share))) t
         GROUP BY s.queue, t.kind, t.due
    ), seen AS MATERIALIZED (
        SELECT l.queue, sum(l.n) AS n,
               sum(l.n) FILTER (WHERE l.due) >= (SELECT rows FROM share) OR sum(l.n) FILTER (WHERE NOT l.due) >= (SELECT rows FROM share) AS bounded
          FROM live l GROUP BY l.queue
    ), source AS MATERIALIZED (  -- of each queue; counted: take what the cleaner has counted
        SELECT s.queue, coalesce(n.bounded, false) AS bounded,
               coalesce(n.bounded AND EXISTS (SELECT FROM last)
                        AND (SELECT sum(d.ready + d.running + d.scheduled + d.retrying + d.blocked) FROM tenon.depth d WHERE d.queue = s.queue) >= n.n, false) AS counted
          FROM shown s LEFT JOIN seen n USING (queue)
    ), part AS (
        SELECT l.queue, l.kind, l.ready, l.running, l.scheduled, l.retrying, l.blocked, 0 AS dead, l.oldest_ready
          FROM live l JOIN source s ON s.queue = l.queue AND NOT s.counted
        UNION ALL
        SELECT d.queue, d.kind, d.ready, d.running, d.scheduled, d.retrying, d.blocked, 0, d.oldest_ready
          FROM source s JOIN tenon.depth d ON d.queue = s.queue AND s.counted AND d.ready + d.running + d.scheduled + d.retrying + d.blocked > 0
        UNION ALL
        SELECT d.queue, d.kind, 0, 0, 0, 0, 0, d.n, NULL FROM died d JOIN all_died a ON NOT a.counted
        UNION ALL
        SELECT d.queue, d.kind, 0, 0, 0, 0, 0, d.dead, NULL FROM tenon.depth d JOIN all_died a ON a.counted AND d.dead > 0
    )
    SELECT s.queue, p.kind, coalesce(sum(p.ready), 0)::bigint, coalesce(sum(p.running), 0)::bigint, coalesce(sum(p.scheduled), 0)::bigint,
           coalesce(sum(p.retrying), 0)::bigint, coalesce(sum(p.blocked), 0)::bigint, coalesce(sum(p.dead), 0)::bigint, min(p.oldest_ready),
           s.bounded AND NOT s.counted OR a.bounded AND NOT a.counted,
           CASE WHEN s.counted OR a.counted THEN (SELECT counted_at FROM last) ELSE statement_timestamp() END
      FROM source s CROSS JOIN all_died a LEFT JOIN part p ON p.queue = s.queue
     GROUP BY s.queue, p.kind, s.bounded, s.counted, a.bounded, a.counted
$_$;

CREATE FUNCTION tenon.queue_limits(ids bigint[]) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
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
    SET standard_conforming_strings TO 'on'
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
        SELECT name, true FROM tenon.paused WHERE what = 'queue'
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
    SET standard_conforming_strings TO 'on'
    AS $$
    SELECT ('x' || left(u, 8) || right(u, 8))::bit(64)::bigint FROM CAST(gen_random_uuid() AS text) u
$$;

CREATE FUNCTION tenon.rate_seen(queue text, OUT tasks_per_s double precision, OUT run_s double precision) RETURNS record
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $_$
    WITH span AS (
        SELECT date_trunc('minute', clock_timestamp()) - interval '2 min' AS since
    ), lately AS (
        SELECT sum(m.started) AS started, sum(m.run_us) / nullif(sum(m.ended), 0) AS run_us
          FROM tenon.minute m WHERE m.minute >= (SELECT since FROM span) AND m.queue = $1
    )
    SELECT coalesce(l.started / extract(epoch FROM clock_timestamp() - s.since), 0)::double precision,
           (coalesce(l.run_us, (SELECT sum(m.run_us) / nullif(sum(m.ended), 0) FROM tenon.minute m WHERE m.queue = $1)) / 1e6)::double precision
      FROM lately l, span s
$_$;

CREATE FUNCTION tenon.read_claim(claim text, OUT id bigint, OUT key bigint) RETURNS record
    LANGUAGE plpgsql IMMUTABLE
    AS $$
DECLARE
    part text[] := string_to_array(claim, '/');
BEGIN
    IF (translate(claim, '0123456789abcdef', '') = '//' AND translate(part[1] || part[2], '0123456789', '') = ''
        AND length(part[1]) BETWEEN 1 AND 18 AND length(part[2]) BETWEEN 1 AND 10 AND length(part[3]) = 16) IS NOT TRUE THEN
        PERFORM tenon.refuse('claim', quote_literal(claim), 'the text of TENON_TASK_CLAIM');
    END IF;
    id := part[1];
    key := ('x' || part[3])::bit(64)::bigint;
END $$;

CREATE FUNCTION tenon.read_description(description jsonb) RETURNS TABLE(what text, name text, path text, v jsonb)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
DECLARE
    things_max constant integer := 10000;
    sections constant text[] := '{queues,kinds,limits,schedules}';
    s text;
BEGIN
    PERFORM tenon.check_object('description', description, sections || '{remove,source}'::text[]);
    PERFORM tenon.check_object('remove', coalesce(description -> 'remove', '{}'), sections);
    FOREACH s IN ARRAY sections LOOP
        IF coalesce(jsonb_typeof(description #> ARRAY['remove', s]), 'array') <> 'array' THEN
            PERFORM tenon.refuse('remove.' || s, description #>> ARRAY['remove', s], 'an array of names');
        ELSIF coalesce(jsonb_typeof(description -> s), 'object') <> 'object' THEN
            PERFORM tenon.refuse(s, description ->> s, 'an object with a key for each name');
        END IF;
        RETURN QUERY SELECT rtrim(s, 's'), n, 'remove.' || s, NULL::jsonb FROM jsonb_array_elements_text(description #> ARRAY['remove', s]) n;
        RETURN QUERY SELECT rtrim(s, 's'), e.key, s || '.' || e.key, e.value FROM jsonb_each(description -> s) e;
        PERFORM tenon.check_object(s || '.' || left(e.key, 100), e.value, tenon.sync_keys(rtrim(s, 's'))) FROM jsonb_each(description -> s) e;
        IF (SELECT count(*) FROM jsonb_each(description -> s)) > things_max THEN
            PERFORM tenon.refuse(s, 'of too many keys', format('an object with at most %s keys', things_max));
        END IF;
    END LOOP;
END $$;

CREATE FUNCTION tenon.read_filter(filter jsonb, act text) RETURNS tenon.filter
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
DECLARE
    f       tenon.filter;
    k       text;
    v       jsonb;
    allowed text;
BEGIN
    IF coalesce(jsonb_typeof(filter), '') <> 'object' THEN
        PERFORM tenon.refuse('filter', filter::text, 'a JSON object, such as {"state": "dead", "kind": "mail"}');
    ELSIF octet_length((filter - 'ids')::text) > 65536 THEN
        PERFORM tenon.refuse('filter', format('of %s bytes', octet_length((filter - 'ids')::text)), 'at most 65536 bytes long as text, without its ids');
    ELSIF filter = '{}' AND act IS NOT NULL THEN
        PERFORM tenon.refuse_call('an empty filter would match every task',
                                  'Give at least one key, such as {"state": "dead"}.');
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
    f.undo := CASE WHEN act = 'undo' THEN true END;
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
    PERFORM tenon.check_object(format('tasks[%s]', t.o - 1), t.value, '{name,kind,payload,queue,priority,run_at,delay,start_before,max_attempts,timeout,retry,limit_keys,depends_on,on_parent_dead,tags,trace}')
       FROM jsonb_array_elements(tasks) WITH ORDINALITY t (value, o);
    names := ARRAY(SELECT t.value ->> 'name' FROM jsonb_array_elements(tasks) WITH ORDINALITY t (value, o) ORDER BY t.o);
    SELECT n.name, min(n.o) AS o, count(*) AS n INTO bad FROM unnest(names) WITH ORDINALITY n (name, o)
     WHERE n.name IS NOT NULL GROUP BY n.name HAVING count(*) > 1 OR length(n.name) NOT BETWEEN 1 AND 200 LIMIT 1;
    IF FOUND THEN
        PERFORM tenon.refuse(format('tasks[%s].name', bad.o - 1), quote_literal(left(bad.name, 50)), '1 to 200 characters long, and different from the other names');
    END IF;
    SELECT t.o, t.value -> 'depends_on' AS depends_on INTO bad FROM jsonb_array_elements(tasks) WITH ORDINALITY t (value, o)
     WHERE jsonb_typeof(t.value -> 'depends_on') <> 'array' LIMIT 1;
    IF FOUND THEN
        PERFORM tenon.refuse(format('tasks[%s].depends_on', bad.o - 1), bad.depends_on::text, 'an array of names of tasks of this flow');
    END IF;
    SELECT array_agg(e.child ORDER BY e.parent) AS child, array_agg(e.parent ORDER BY e.parent) AS parent,
           min(e.child) FILTER (WHERE e.parent IS NULL) AS o, min(e.name) FILTER (WHERE e.parent IS NULL) AS name INTO bad
      FROM (SELECT t.o::integer AS child, a.name, n.o::integer AS parent
              FROM jsonb_array_elements(tasks) WITH ORDINALITY t (value, o)
             CROSS JOIN LATERAL (SELECT DISTINCT x FROM jsonb_array_elements_text(t.value -> 'depends_on') x) a (name)
              LEFT JOIN unnest(names) WITH ORDINALITY n (name, o) ON n.name = a.name) e;
    IF bad.o IS NOT NULL THEN
        PERFORM tenon.refuse(format('tasks[%s].depends_on', bad.o - 1), quote_literal(bad.name), 'an array of names of tasks of this flow');
    END IF;
    child := coalesce(bad.child, '{}');
    parent := coalesce(bad.parent, '{}');
END $$;

CREATE FUNCTION tenon.record_end(id bigint, kind text, start_time timestamp with time zone, unique_key text, again bigint, wanted_at timestamp with time zone, flow bigint, limit_keys text[], awaited boolean, crashes integer, step_count integer, was_cancelled boolean, keeps_steps boolean) RETURNS tenon.kept_steps
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
#variable_conflict use_variable
DECLARE
    kept tenon.kept_steps;
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
    IF step_count IS NOT NULL THEN
        IF keeps_steps THEN
            SELECT jsonb_object_agg(s.name, s.value), array_agg(s.name ORDER BY s.position), array_agg(s.at ORDER BY s.position)
              INTO kept.steps, kept.names, kept.times
              FROM tenon.task_step s WHERE s.task_id = id;
        END IF;
        DELETE FROM tenon.task_step s WHERE s.task_id = id;
    END IF;
    IF awaited THEN
        PERFORM pg_notify('tenon_ended', id::text);
    END IF;
    IF num_nonnulls(again, flow, limit_keys) > 0 THEN
        PERFORM tenon.call_settler();
    END IF;
    RETURN kept;
END $$;

CREATE FUNCTION tenon.record_end_of(t tenon.task, was_cancelled boolean DEFAULT false, keeps_steps boolean DEFAULT false) RETURNS tenon.kept_steps
    LANGUAGE sql
    AS $$
    SELECT tenon.record_end(t.id, t.kind, t.start_time, t.unique_key, t.again, t.wanted_at, t.flow, t.limit_keys, t.awaited, t.crashes,
                            t.step_count, was_cancelled, keeps_steps)
$$;

CREATE FUNCTION tenon.record_flow_ends(tasks bigint[], since timestamp with time zone) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
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
                   (SELECT 3, f.outcome::text, f.result FROM tenon.history f
                     WHERE f.id = i
                       AND f.part >= (SELECT coalesce(max(p.part), 0) FROM tenon.partition p  -- not in all partitions
                                       WHERE p.parent = 'history' AND p.begun_at <= since - interval '1 hour')
                     ORDER BY f.finished_at DESC LIMIT 1)
                   UNION ALL
                   SELECT 4, 'done', NULL) e
            ORDER BY e.place LIMIT 1) s
     WHERE m.id = ANY (ARRAY[i]) AND m.state IS DISTINCT FROM s.state;  -- looked up, whatever the table held when this was planned
END $$;

CREATE FUNCTION tenon.record_steps(ids bigint[], keys bigint[], lines text[]) RETURNS TABLE(place integer, recorded boolean)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    held record;
    step record;
BEGIN
    FOR i IN 1 .. cardinality(ids) LOOP
        SELECT t.step_count, t.step_bytes INTO held FROM tenon.task t
         WHERE t.id = ids[i] AND t.claim_key = keys[i] FOR UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        step := tenon.step_in(lines[i], ids[i], held.step_count, held.step_bytes);
        IF step.is_new THEN
            PERFORM tenon.put_step(ids[i], step.name, step.value);
        END IF;
        place := i;
        recorded := step.is_new IS NOT NULL;
        RETURN NEXT;
    END LOOP;
END $$;

CREATE FUNCTION tenon.recorded_step(task_id bigint, step_count integer, step_bytes integer, name text, value jsonb) RETURNS jsonb
    LANGUAGE plpgsql STABLE
    AS $$
#variable_conflict use_variable
DECLARE
    step_name_bytes_max constant integer := 100;
    steps_max           constant integer := 1000;
    steps_bytes_max     constant integer := 1048576;
    kept  jsonb;
    bytes bigint;
BEGIN
    IF coalesce(octet_length(name), 0) NOT BETWEEN 1 AND step_name_bytes_max THEN
        PERFORM tenon.refuse('name', quote_literal(name), format('1 to %s bytes', step_name_bytes_max));
    END IF;
    IF step_count IS NOT NULL THEN
        SELECT s.value INTO kept FROM tenon.task_step s WHERE s.task_id = task_id AND s.name = name;
        IF FOUND THEN
            RETURN kept;
        END IF;
    END IF;
    bytes := coalesce(step_bytes, 0) + tenon.added_bytes(name, tenon.printed_bytes(value));
    IF bytes > steps_bytes_max THEN
        PERFORM tenon.refuse_call(format('the steps of the task would have %s bytes as text', bytes),
                                  format('All steps of a task may have %s bytes: store large values in a table, and their key in the step.', steps_bytes_max));
    END IF;
    IF step_count >= steps_max THEN
        PERFORM tenon.refuse_call(format('the task has %s steps already', steps_max), 'Record fewer steps, for instance one for many items.');
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION tenon.recover(ids bigint[], keys bigint[], reasons text[], errors text[]) RETURNS TABLE(id bigint, state text)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
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

CREATE FUNCTION tenon.refuse(argument text, value text, allowed text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
BEGIN
    RAISE EXCEPTION 'tenon: % % is not allowed', argument, coalesce(left(value, 100), 'NULL')
        USING ERRCODE = 'invalid_parameter_value', HINT = format('%s is %s.', argument, allowed);
END $$;

CREATE FUNCTION tenon.refuse_call(problem text, hint text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
BEGIN
    RAISE EXCEPTION 'tenon: %', left(problem, 300) USING ERRCODE = 'invalid_parameter_value', HINT = hint;
END $$;

CREATE FUNCTION tenon.refuse_circle(names text[], child integer[], parent integer[], places integer[]) RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
    path integer[] := ARRAY(SELECT c FROM unnest(child) c WHERE c <> ALL (places) ORDER BY c LIMIT 1);
    next integer;
BEGIN
    LOOP  -- a task without a place has a parent without one
        SELECT min(e.parent) INTO next FROM unnest(child, parent) e (child, parent)
         WHERE e.child = path[cardinality(path)] AND e.parent <> ALL (places);
        EXIT WHEN next = ANY (path) OR cardinality(path) >= 1000;
        path := path || next;
    END LOOP;
    path := path[coalesce(array_position(path, next), 1):] || next;
    PERFORM tenon.refuse_call('tasks depend on each other in a circle: ' ||
                              (SELECT string_agg(names[p], ' after ' ORDER BY o) FROM unnest(path) WITH ORDINALITY u (p, o)),
                              'Remove one of these names from depends_on.');
END $$;

CREATE FUNCTION tenon.refuse_cron(field text, word text, why text) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    RAISE EXCEPTION 'tenon: cron: %: % %', field, left(word, 100), why
        USING ERRCODE = 'invalid_parameter_value',
              HINT = 'A cron expression is minute hour day-of-month month day-of-week, such as 30 3 * * mon-fri, or a name such as @daily.';
END $$;

CREATE FUNCTION tenon.relay_begin() RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
DECLARE
    new bigint := tenon.random_key();
BEGIN
    UPDATE tenon.relay r SET token = new;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'tenon: the table tenon.relay is empty'
            USING ERRCODE = 'invalid_schema_name', HINT = 'Run tenon setup: it restores the row.';
    END IF;
    RETURN new;
END $$;

CREATE FUNCTION tenon.relay_done(token bigint, done bigint[], expired bigint[], busy text[], OUT first bigint, OUT last bigint) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    keep  boolean := (tenon.settings()).outbox_keep > interval '0';
    ended bigint[] := done || expired;
    next  bigint[];
BEGIN
    PERFORM tenon.hold_relay(token);
    next := ARRAY(SELECT n.id FROM (SELECT DISTINCT m.order_key AS key FROM tenon.message m WHERE m.id = ANY (ended) AND m.order_key IS NOT NULL) k
                   CROSS JOIN LATERAL (SELECT q.id FROM tenon.message q WHERE q.order_key = k.key AND q.id NOT IN (SELECT unnest(ended))
                                        ORDER BY q.id LIMIT 1) n);
    IF next <> '{}' THEN
        PERFORM FROM tenon.message m WHERE m.id = ANY (ended || next) ORDER BY m.id FOR UPDATE;
    END IF;
    WITH gone AS (
        DELETE FROM tenon.message m WHERE m.id = ANY (ended) RETURNING m.*
    )
    INSERT INTO tenon.message_sent (sent_at, id, created_at, exchange, routing_key, order_key, message_id, content_type, headers, properties,
                                    trace, published_by, body)
    SELECT clock_timestamp(), g.id, g.created_at, g.exchange, g.routing_key, g.order_key, g.message_id, g.content_type, g.headers, g.properties,
           g.trace, g.published_by, g.body
      FROM gone g WHERE keep AND g.id = ANY (done);
    WITH free AS (
        UPDATE tenon.message m SET held = false WHERE m.id = ANY (next) AND m.held RETURNING m.id, m.order_key)
    SELECT min(f.id), max(f.id) INTO first, last FROM free f WHERE f.order_key NOT IN (SELECT unnest(busy));
END $$;

CREATE FUNCTION tenon.relay_failed(token bigint, ids bigint[], errors text[], retries boolean[]) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
BEGIN
    PERFORM tenon.hold_relay(token);
    UPDATE tenon.message m
       SET failed_at = clock_timestamp(), tries = m.tries + 1, error = left(f.error, 8192),
           retry_at = CASE WHEN m.expires_at = '-infinity' THEN clock_timestamp()
                           WHEN f.retry THEN clock_timestamp() + interval '1 second' * power(2, least(m.tries, 6)) END
      FROM (SELECT * FROM unnest(ids, errors, retries) u (id, error, retry) ORDER BY u.id) f
     WHERE m.id = f.id;
END $$;

CREATE FUNCTION tenon.relay_read(token bigint, beyond bigint, up_to bigint, most integer, newest boolean, sent bigint[], busy text[]) RETURNS TABLE(id bigint, order_key text, exchange text, routing_key text, message_id text, content_type text, headers text, properties text, trace text, created_s bigint, left_ms bigint, body text, place bigint, more boolean)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
    bytes_max constant integer := 8388608;
    picked bigint[];
    seen   record;
BEGIN
    PERFORM tenon.hold_relay(token);
    IF newest THEN
        picked := ARRAY(SELECT m.id FROM tenon.message m
                         WHERE NOT m.held AND m.failed_at IS NULL AND m.id > beyond AND m.id <= up_to
                           AND m.id NOT IN (SELECT unnest(sent))
                         ORDER BY m.id DESC LIMIT most);
    ELSE
        picked := ARRAY(SELECT m.id FROM tenon.message m
                         WHERE NOT m.held AND m.failed_at IS NULL AND m.id > beyond AND m.id <= up_to
                           AND m.id NOT IN (SELECT unnest(sent))
                         ORDER BY m.id LIMIT most);
    END IF;
    SELECT coalesce(array_agg(b.id) FILTER (WHERE b.order_key IS NULL), '{}') AS plain,
           coalesce(array_agg(b.id) FILTER (WHERE b.order_key IS NOT NULL), '{}') AS ordered,
           coalesce(array_agg(DISTINCT b.order_key) FILTER (WHERE b.order_key IS NOT NULL), '{}') AS keys,
           max(b.id) AS last, count(*) AS n
      INTO seen
      FROM (SELECT m.id, m.order_key, sum(octet_length(m.body)) OVER (ORDER BY p.place) - octet_length(m.body) AS before
              FROM unnest(picked) WITH ORDINALITY p (id, place) JOIN tenon.message m ON m.id = p.id) b
     WHERE b.before < bytes_max;
    UPDATE tenon.message m SET held = true
     WHERE m.id = ANY (seen.ordered)
       AND m.id NOT IN (SELECT f.id FROM unnest(seen.keys) k (key)
                         CROSS JOIN LATERAL (SELECT q.id FROM tenon.message q WHERE q.order_key = k.key ORDER BY q.id LIMIT 1) f);
    place := coalesce(seen.last, 0);
    more := cardinality(picked) = most OR seen.n < cardinality(picked);
    RETURN NEXT;
    RETURN QUERY
    SELECT x.id, x.order_key, x.exchange, x.routing_key, x.message_id, x.content_type, x.headers::text, x.properties::text, x.trace,
           extract(epoch FROM x.created_at)::bigint,
           CASE WHEN x.expires_at IS NULL THEN NULL WHEN x.expires_at = '-infinity' THEN 0
                ELSE greatest(0, ceil(extract(epoch FROM x.expires_at - clock_timestamp()) * 1000))::bigint END,
           encode(x.body, 'hex'), NULL::bigint, NULL::boolean
      FROM (SELECT m.* FROM unnest(seen.plain) p (id) JOIN tenon.message m ON m.id = p.id
            UNION ALL
            SELECT m.*
              FROM (SELECT c.id, c.place, sum(c.bytes) OVER (ORDER BY c.place, c.id) AS sum
                      FROM unnest(seen.keys) k (key)
                     CROSS JOIN LATERAL (SELECT q.id, octet_length(q.body) AS bytes, row_number() OVER w AS place,
                                                sum(octet_length(q.body)) OVER w - octet_length(q.body) AS before,
                                                bool_or(q.failed_at IS NOT NULL) OVER w AS stopped
                                           FROM (SELECT m.id, m.body, m.failed_at FROM tenon.message m
                                                  WHERE m.order_key = k.key ORDER BY m.id LIMIT 50) q
                                         WINDOW w AS (ORDER BY q.id)) c
                     WHERE k.key NOT IN (SELECT unnest(busy)) AND NOT c.stopped AND c.before < 1048576) c
              JOIN tenon.message m ON m.id = c.id
             WHERE c.place = 1 OR c.sum < bytes_max) x
     ORDER BY x.id;
END $$;

CREATE FUNCTION tenon.relay_watch(token bigint, settled bigint, OUT first bigint, OUT first_above bigint, OUT last bigint, OUT xmin bigint, OUT next bigint) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    retried bigint;
BEGIN
    PERFORM tenon.hold_relay(token);
    WITH again AS (
        UPDATE tenon.message m SET failed_at = NULL, retry_at = NULL
         WHERE m.id = ANY (ARRAY(SELECT f.id FROM tenon.message f
                                  WHERE f.retry_at <= clock_timestamp() ORDER BY f.retry_at LIMIT 10000 FOR UPDATE SKIP LOCKED))
        RETURNING m.id)
    SELECT min(a.id) INTO retried FROM again a;
    SELECT m.id INTO first_above FROM tenon.message m WHERE NOT m.held AND m.failed_at IS NULL AND m.id > settled ORDER BY m.id LIMIT 1;
    first := least(retried, first_above);
    SELECT coalesce(pg_sequence_last_value(pg_get_serial_sequence('tenon.message', 'id')::regclass), 0), pg_snapshot_xmin(s)::text::bigint,
           pg_snapshot_xmin(s)::text::bigint + age(pg_snapshot_xmin(s)::xid) INTO last, xmin, next
      FROM pg_current_snapshot() s;
END $$;

CREATE FUNCTION tenon.remove_ended_limits() RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
    ended text;
BEGIN
    FOR ended IN SELECT l.name FROM tenon.limit l WHERE l.until <= clock_timestamp() FOR UPDATE SKIP LOCKED LOOP
        IF tenon.lock_limited(ended) THEN
            DELETE FROM tenon.limit l WHERE l.name = ended;
            PERFORM tenon.limit_changed(ended);
        END IF;
    END LOOP;
END $$;

CREATE FUNCTION tenon.remove_limit(name text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
BEGIN
    DELETE FROM tenon.limit l WHERE l.name = remove_limit.name;
    IF tenon.resume_one('limit', name) OR FOUND THEN
        PERFORM tenon.limit_changed(name);
        PERFORM tenon.note_audit('remove_limit', jsonb_build_object('limit', name), 1);
        RETURN true;
    END IF;
    RETURN false;
END $$;

CREATE FUNCTION tenon.remove_schedule(name text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
#variable_conflict use_variable
BEGIN
    DELETE FROM tenon.schedule s WHERE s.name = name;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM tenon.resume_one('schedule', name);
    PERFORM tenon.note_schedule('remove_schedule', name);
    RETURN true;
END $$;

CREATE FUNCTION tenon.replay_messages(since timestamp with time zone, until timestamp with time zone DEFAULT NULL::timestamp with time zone, exchange text DEFAULT NULL::text, most integer DEFAULT 100000) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
#variable_conflict use_variable
DECLARE
    n integer;
BEGIN
    PERFORM tenon.check_exchange(exchange);
    IF since IS NULL THEN
        PERFORM tenon.refuse('since', NULL, 'a time');
    END IF;
    PERFORM tenon.lock_order(k) FROM (SELECT DISTINCT s.order_key COLLATE "C" AS k FROM tenon.message_sent s
                                       WHERE s.sent_at >= since AND s.sent_at < coalesce(until, now()) AND s.order_key IS NOT NULL
                                         AND s.exchange = coalesce(exchange, s.exchange) ORDER BY 1) o;
    INSERT INTO tenon.message (created_at, exchange, routing_key, order_key, message_id, content_type, headers, properties, trace, published_by, body)
    SELECT clock_timestamp(), s.exchange, s.routing_key, s.order_key, s.message_id, s.content_type, s.headers, s.properties, s.trace, s.published_by, s.body
      FROM (SELECT * FROM tenon.message_sent s
             WHERE s.sent_at >= since AND s.sent_at < coalesce(until, now()) AND s.exchange = coalesce(exchange, s.exchange)
             ORDER BY s.sent_at, s.id LIMIT most OFFSET 0) s
     ORDER BY s.id;
    GET DIAGNOSTICS n = ROW_COUNT;
    PERFORM tenon.note_audit('replay_messages', jsonb_strip_nulls(jsonb_build_object('since', since, 'until', until, 'exchange', exchange)), n);
    PERFORM tenon.call_relay();
    RETURN n;
END $$;

CREATE FUNCTION tenon.requeue(ids bigint[], keys bigint[], reasons text[], errors text[], delays_ms bigint[], classes text[] DEFAULT NULL::text[], signals text[] DEFAULT NULL::text[]) RETURNS TABLE(id bigint, state text)
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $_$
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
$_$;

CREATE FUNCTION tenon.result(id bigint, OUT state text, OUT result jsonb, OUT error text, OUT progress jsonb) RETURNS record
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
#variable_conflict use_variable
DECLARE
    who text;
BEGIN
    SELECT t.state, t.result, CASE WHEN t.state <> 'done' THEN t.last_error END, t.progress, t.enqueued_by
      INTO state, result, error, progress, who FROM tenon.tasks t WHERE t.id = id;
    IF NOT FOUND THEN
        error := format('there is no task %s: it was never enqueued, its transaction has not committed or was rolled back, or it ended and left no trace', id);
    ELSE
        PERFORM tenon.must_see(id, who);
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
           CASE WHEN s.state = 'done' THEN coalesce(m.result, (SELECT f.result FROM tenon.history f WHERE f.id = p.id AND f.outcome = 'done' LIMIT 1)) END
      FROM tenon.flow_task c
     CROSS JOIN LATERAL unnest(c.parents) WITH ORDINALITY p (id, o)
      LEFT JOIN tenon.flow_task m ON m.id = ANY (ARRAY[p.id])
     CROSS JOIN LATERAL (SELECT coalesce(m.state, (SELECT t.state FROM tenon.tasks t WHERE t.id = p.id LIMIT 1), 'done') AS state) s
     WHERE c.id = $1
     ORDER BY p.o
$_$;

CREATE FUNCTION tenon.resume(queue text DEFAULT NULL::text, kind text DEFAULT NULL::text, everything boolean DEFAULT false, why text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
BEGIN
    PERFORM tenon.check_target(queue, kind, everything);
    PERFORM tenon.check_length('why', why, 1000);
    IF NOT tenon.resume_one(CASE WHEN everything THEN 'everything' WHEN queue IS NULL THEN 'kind' ELSE 'queue' END, coalesce(queue, kind, '')) THEN
        RETURN false;
    END IF;
    PERFORM tenon.tell_paused(queue, false);
    PERFORM tenon.note_audit('resume', jsonb_build_object('queue', queue, 'kind', kind, 'why', why,
                                                          'everything', NULLIF(everything, false)), 1);
    RETURN true;
END $$;

CREATE FUNCTION tenon.resume_limit(name text, why text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
#variable_conflict use_variable
BEGIN
    PERFORM tenon.check_length('why', why, 1000);
    IF NOT tenon.resume_one('limit', name) THEN
        RETURN false;
    END IF;
    PERFORM tenon.limit_changed(name);
    PERFORM tenon.note_audit('resume_limit', jsonb_build_object('limit', name, 'why', why), 1);
    RETURN true;
END $$;

CREATE FUNCTION tenon.resume_one(what text, name text) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
BEGIN
    DELETE FROM tenon.paused p WHERE p.what = resume_one.what AND p.name = resume_one.name;
    RETURN FOUND;
END $$;

CREATE FUNCTION tenon.resume_schedule(name text, why text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
#variable_conflict use_variable
DECLARE
    s tenon.schedule;
BEGIN
    PERFORM tenon.check_length('why', why, 1000);
    SELECT * INTO s FROM tenon.schedule t WHERE t.name = name FOR UPDATE;
    IF s.name IS NOT NULL AND tenon.resume_one('schedule', name) THEN
        s.next_at := tenon.tick_after(s, greatest(clock_timestamp(), s.last_at));
        UPDATE tenon.schedule t SET next_at = s.next_at, due_at = s.next_at WHERE t.name = name;
        PERFORM tenon.note_schedule('resume_schedule', name, why);
    END IF;
    RETURN s.name IS NOT NULL;
END $$;

CREATE FUNCTION tenon.retry(id bigint, why text DEFAULT NULL::text, from_step text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE sql
    AS $$
    SELECT c.n > 0 FROM tenon.change('retry', jsonb_build_object('ids', id), 
           CASE WHEN from_step IS NOT NULL THEN jsonb_build_object('from_step', from_step) END, why => why) c
$$;

CREATE FUNCTION tenon.retry_delay(failures integer, policy text DEFAULT NULL::text) RETURNS interval
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
    SELECT make_interval(secs => CASE p.curve
               WHEN 'exponential' THEN least(p.cap_s, p.first_s * power(2, least(failures - 1, 60))) * (1 + p.jitter * random())
               WHEN 'linear' THEN least(p.cap_s, p.first_s * failures) * (1 + p.jitter * random())
               WHEN 'constant' THEN p.first_s * (1 + p.jitter * random())
               ELSE least(coalesce(p.cap_s, 2592000), power(failures, 4) + 15) * (1 + coalesce(p.jitter, 0) * random())
                    + CASE WHEN p.jitter IS NULL THEN random() * 10 * failures ELSE 0 END END)
      FROM tenon.retry_parts(policy) p
$$;

CREATE FUNCTION tenon.retry_ids(ids bigint[], from_step text) RETURNS bigint[]
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
DECLARE
    again   bigint[];
    limited bigint[];
BEGIN
    ids := tenon.may_retry(ids);
    WITH ended AS (
        SELECT d.id, d.created_at, d.timeout_ms, d.claims, d.max_attempts, d.priority, d.queue, d.kind, d.payload,
               d.unique_key, d.retry, d.trace, d.last_error, d.error_class, d.enqueued_by, d.compensates, d.limit_keys,
               tenon.steps_before(d.steps, d.step_names, from_step) AS steps, d.step_names, d.step_times,
               d.progress, d.max_crashes, d.tags,
               CASE WHEN d.unique_key IS NULL AND from_step IS NULL  -- an enqueue may join a key; undo_ids() restores no step that was forgotten
                    THEN jsonb_build_object('claims', d.claims, 'dead_at', d.dead_at, 'reason', d.reason, 'failures', d.failures,
                                            'crashes', d.crashes, 'run_at', d.run_at, 'start_time', d.start_time,
                                            'start_before', d.start_before, 'worker_id', d.worker_id) END AS undo
          FROM tenon.dead d WHERE d.id = ANY (ids)
        UNION ALL
        SELECT e.id, e.created_at, e.timeout_ms, e.claims, e.max_attempts, e.priority, e.queue, e.kind, e.payload,
               e.unique_key, e.retry, e.trace, e.last_error, NULL, e.enqueued_by, NULL, e.limit_keys,
               tenon.steps_before(e.steps, e.step_names, from_step), e.step_names, e.step_times, e.progress, e.max_crashes, e.tags, NULL
          FROM tenon.history e
         WHERE e.id = ANY (ids) AND e.outcome IN ('cancelled', 'expired')
           AND NOT EXISTS (SELECT FROM tenon.limit_task l  -- its handler may still run, and counts at its limits
                            WHERE l.key = ANY (e.limit_keys) AND l.task_id = e.id
                              AND (l.state = 'ending' OR l.state = 'held' AND e.start_time IS NOT NULL))
    ), new AS (
        INSERT INTO tenon.task (id, run_at, created_at, timeout_ms, claims, max_attempts, payload_bytes, priority,
                                delayed, announced, queue, kind, payload, unique_key, retry, trace, last_error, error_class, enqueued_by,
                                compensates, flow, limit_keys, wanted_at, step_count, step_bytes, progress, max_crashes, tags,
                                undo)
        OVERRIDING SYSTEM VALUE
        SELECT e.id, CASE WHEN e.limit_keys IS NULL THEN clock_timestamp() ELSE 'infinity' END, e.created_at, e.timeout_ms, e.claims,
               e.max_attempts, octet_length(e.payload::text), e.priority, e.limit_keys IS NULL, false, e.queue, e.kind, e.payload,
               e.unique_key, e.retry, e.trace, e.last_error, e.error_class, e.enqueued_by, e.compensates, m.flow, e.limit_keys,
               CASE WHEN e.limit_keys IS NOT NULL THEN clock_timestamp() END, (SELECT nullif(count(*), 0) FROM jsonb_object_keys(e.steps)),
               octet_length(e.steps::text), CASE WHEN from_step IS NULL THEN e.progress END, e.max_crashes, e.tags, e.undo
          FROM ended e LEFT JOIN tenon.flow_task m ON m.id = e.id ORDER BY e.unique_key COLLATE "C", e.kind COLLATE "C", e.id
        ON CONFLICT DO NOTHING
        RETURNING task.id, task.flow, task.limit_keys
    ), stepped AS (
        INSERT INTO tenon.task_step (task_id, at, position, name, value)
        SELECT new.id, s.at, s.position, s.key, s.value
          FROM new JOIN ended e ON e.id = new.id
         CROSS JOIN LATERAL (
               SELECT row_number() OVER (ORDER BY n.position) AS position, coalesce(n.at, now()) AS at, s.key, s.value
                 FROM jsonb_each(e.steps) s
                 LEFT JOIN unnest(e.step_names, e.step_times) WITH ORDINALITY n (name, at, position) ON n.name = s.key) s
    ), noted AS (
        INSERT INTO tenon.flow_note (flow, task) SELECT new.flow, new.id FROM new WHERE new.flow IS NOT NULL)
    SELECT array_agg(new.id), array_agg(new.id) FILTER (WHERE new.limit_keys IS NOT NULL) INTO again, limited FROM new;
    IF limited IS NOT NULL THEN
        PERFORM tenon.queue_limits(limited);
        PERFORM tenon.call_settler();
    END IF;
    DELETE FROM tenon.dead d WHERE d.id = ANY (again);
    DELETE FROM tenon.history e WHERE e.id = ANY (again) AND e.outcome IN ('cancelled', 'expired');
    RETURN again;
END $$;

CREATE FUNCTION tenon.retry_messages(ids bigint[] DEFAULT NULL::bigint[], exchange text DEFAULT NULL::text) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
#variable_conflict use_variable
DECLARE
    picked bigint[] := tenon.lock_messages(ids, exchange, true);
    n integer := cardinality(picked);
BEGIN
    UPDATE tenon.message m SET retry_at = clock_timestamp() WHERE m.id = ANY (picked);
    PERFORM tenon.note_audit('retry_messages', jsonb_strip_nulls(jsonb_build_object('ids', ids, 'exchange', exchange)), n);
    PERFORM tenon.call_relay();
    RETURN n;
END $$;

CREATE FUNCTION tenon.retry_where(filter jsonb, most integer DEFAULT 10000, why text DEFAULT NULL::text, from_step text DEFAULT NULL::text) RETURNS bigint
    LANGUAGE sql
    AS $$
    SELECT c.n FROM tenon.change('retry', filter, CASE WHEN from_step IS NOT NULL THEN jsonb_build_object('from_step', from_step) END, most, why => why) c
$$;

CREATE FUNCTION tenon.rights() RETURNS TABLE(part text, privilege text, what text, objects text[], columns text[])
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
VALUES
    -- It may see the schema's version, so that its programs can tell whether they fit.
    ('producer', 'USAGE', 'schema', '{tenon}'::text[], NULL::text[]),
    ('producer', 'SELECT', 'table', '{migration}', NULL),
    ('producer', 'EXECUTE', 'function', '{finish,finish_many,progress,extend,log_message,step,steps,wait_signal,await,result,why,why_of,list,count_tasks,once}', NULL),
    -- What producers and operators share.
    ('enqueue', 'EXECUTE', 'function', '{enqueue,enqueue_jsonb,enqueue_many,enqueue_many_jsonb,enqueue_routed,route_of,mine,cancel,signal,flow,batch,close,cancel_flow,parent_results,take_limit}', NULL),
    -- Publishing is a right of its own.
    ('publisher', 'USAGE', 'schema', '{tenon}', NULL),
    ('publisher', 'SELECT', 'table', '{migration}', NULL),
    ('publisher', 'EXECUTE', 'function', '{publish,publish_many,publish_bodies,form_of,mine_published}', NULL),
    -- tenon intake enqueues, and nothing else. Rows of tenon.producer confine it as well.
    ('intake', 'USAGE', 'schema', '{tenon}', NULL),
    ('intake', 'SELECT', 'table', '{migration}', NULL),
    ('intake', 'EXECUTE', 'function', '{intake_begin,take_in,intake_note,copied}', NULL),
    -- Everything may be read.
    ('reader', 'USAGE', 'schema', '{tenon}', NULL),
    ('reader', 'SELECT', 'all tables', '{}', NULL),
    ('reader', 'EXECUTE', 'function', '{why,why_of,find,list,count_tasks,error_line,await,result,parent_results(bigint),next_tick,limit_rule,starting_of,handled,rights,copied}', NULL),
    ('reader', 'EXECUTE', 'function', '{demand,slots_wanted,outbox_depth,queue_names,depth_fresh,queue_depth,rate_seen,backlog_seen,pause_sentence,pause_advice}', NULL),
    -- Acts by functions only, which leave a row in tenon.audit.
    ('operator', 'EXECUTE', 'function', '{change,retry,retry_where,undo_retry_where,cancel_where,delete,delete_where,run_now,run_now_where,set_where,pause,resume,drain,set_queue,set_kind,set_settings,adopt,sync}', NULL),
    ('operator', 'EXECUTE', 'function', '{set_schedule,set_schedule_jsonb,remove_schedule,pause_schedule,resume_schedule,run_schedule_now,sync_schedules}', NULL),
    ('operator', 'EXECUTE', 'function', '{set_limit,remove_limit,pause_limit,resume_limit}', NULL),
    ('operator', 'EXECUTE', 'function', '{retry_messages,delete_messages,replay_messages}', NULL),
    -- What the worker's statements need, and no more: it can neither enqueue nor change a setting, nor read what has ended.
    ('worker', 'USAGE', 'schema', '{tenon}', NULL),
    ('worker', 'SELECT', 'table', '{migration,setting,paused,task,suspect,worker,minute}', NULL),
    ('worker', 'UPDATE', 'table', '{task}', '{claims,claim_key,start_time,worker_id,progress,timeout_ms}'),
    ('worker', 'UPDATE', 'table', '{worker}', '{lock_key,state,ended_at,backing_off,rounds_failing,broker_away,starting,alone_since}'),
    ('worker', 'DELETE', 'table', '{task}', NULL),
    ('worker', 'INSERT', 'table', '{history,worker,minute,log_line}', NULL),
    ('worker', 'UPDATE', 'table', '{minute}', NULL),
    ('worker', 'SELECT', 'table', '{history}', '{id,claims,worker_id,outcome}'),
    ('worker', 'SELECT', 'sequence', '{history_part,log_line_part}', NULL),
    ('worker', 'SELECT', 'table', '{dead}', '{id,claims,worker_id}'),
    ('worker', 'SELECT', 'table', '{kind}', '{history_keep}'),
    ('worker', 'EXECUTE', 'function', '{add_counts,copied,requeue,needs_note,record_end,record_end_of,progress_kept,log_fields_kept,printed_bytes,record_steps,steps_of,make_partitions,random_key,paused_kinds,settings,take_turn,claim_alone}', NULL),
    -- What the cleaner's statements need, and no more. UPDATE on task, because it locks rows.
    ('cleaner', 'USAGE', 'schema', '{tenon}', NULL),
    ('cleaner', 'SELECT', 'table', '{migration,setting,queue,paused,task,worker,lock,chore_failure}', NULL),
    ('cleaner', 'SELECT', 'sequence', '{task_id_seq,note_id}', NULL),
    ('cleaner', 'INSERT', 'table', '{chore_failure}', NULL),
    ('cleaner', 'UPDATE', 'table', '{chore_failure}', NULL),
    ('cleaner', 'DELETE', 'table', '{chore_failure,worker}', NULL),
    ('cleaner', 'UPDATE', 'table', '{task}', '{run_at}'),
    ('cleaner', 'UPDATE', 'table', '{worker}', '{state,ended_at}'),
    ('cleaner', 'UPDATE', 'table', '{setting}', '{leader_key,sleeper_key}'),
    ('cleaner', 'SELECT', 'table', '{set_aside}', '{part,id,until}'),
    ('cleaner', 'SELECT', 'table', '{waiting}', '{until}'),
    ('cleaner', 'SELECT', 'table', '{suspect}', '{alone,claims}'),
    ('cleaner', 'SELECT', 'table', '{schedule}', '{due_at}'),
    ('cleaner', 'EXECUTE', 'function', '{copied,run_schedules,recover,settle,settle_all,has_notes,has_unsettled,newest_message,messages_wait,relay_begin,relay_done,relay_failed,relay_watch,relay_read,limits_due_ms,make_partitions,drop_history,purge,fold_minutes,random_key,is_span,settings}', NULL),
    -- For /metrics: how many, and how long; no payload and no result of what has ended.
    ('cleaner', 'EXECUTE', 'function', '{outbox_depth,queue_names,depth_fresh,queue_depth,count_depth,oldest_transaction_ms}', NULL),
    ('cleaner', 'SELECT', 'table', '{depth,depth_count}', NULL),
    ('cleaner', 'INSERT', 'table', '{depth,depth_count}', NULL),
    ('cleaner', 'UPDATE', 'table', '{depth,depth_count}', NULL),
    ('cleaner', 'DELETE', 'table', '{depth}', NULL),
    ('cleaner', 'SELECT', 'table', '{dead}', '{queue,kind,dead_at}'),
    ('cleaner', 'SELECT', 'table', '{limit}', '{name,strict,max_running}'),
    ('cleaner', 'SELECT', 'table', '{limit_task}', '{key,state}'),
    ('cleaner', 'SELECT', 'table', '{flow_wait}', '{task}'),
    ('cleaner', 'SELECT', 'table', '{flow}', '{ended_at}')
$$;

CREATE FUNCTION tenon.route_of(kind text, queue text DEFAULT NULL::text, OUT exchange text, OUT routing_key text) RETURNS record
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $_$
    SELECT s.exchange, coalesce($2, (SELECT k.queue FROM tenon.kind k WHERE k.name = $1), 'default') || '/' || $1
      FROM tenon.settings() s
$_$;

CREATE FUNCTION tenon.run_ms_of(argument text, span interval) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
DECLARE
    ms numeric := extract(epoch FROM span) * 1000;
BEGIN
    IF ms NOT BETWEEN 1 AND 2592000000 THEN
        PERFORM tenon.refuse(argument, span::text, '1 millisecond to 30 days');
    END IF;
    RETURN ms::bigint;
END $$;

CREATE FUNCTION tenon.run_now(id bigint, why text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE sql
    AS $$ SELECT c.n > 0 FROM tenon.change('run_now', jsonb_build_object('ids', id), why => why) c $$;

CREATE FUNCTION tenon.run_now_where(filter jsonb, most integer DEFAULT 10000, why text DEFAULT NULL::text) RETURNS bigint
    LANGUAGE sql
    AS $$ SELECT c.n FROM tenon.change('run_now', filter, most => most, why => why) c $$;

CREATE FUNCTION tenon.run_schedule_now(name text) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET "TimeZone" TO 'UTC'
    SET standard_conforming_strings TO 'on'
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
    SET standard_conforming_strings TO 'on'
    AS $$
    SELECT * FROM tenon.run_schedules_at(clock_timestamp())
$$;

CREATE FUNCTION tenon.run_schedules_at(moment timestamp with time zone, schedules integer DEFAULT 100, ticks integer DEFAULT 10) RETURNS TABLE(name text, tick timestamp with time zone, outcome text, task bigint, error text)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET "TimeZone" TO 'UTC'
    SET standard_conforming_strings TO 'on'
    AS $$
#variable_conflict use_column
DECLARE
    begun timestamptz := clock_timestamp();
    s     tenon.schedule;
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
        EXIT WHEN tenon.turn_is_over(begun);  -- the rest are due earlier than the next tick of this one
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

CREATE FUNCTION tenon.search(f tenon.filter, newest boolean, cursor bigint, most integer, limit_ms integer, OUT ids bigint[], OUT next bigint) RETURNS record
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET plan_cache_mode TO 'force_custom_plan'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    places text[] := CASE WHEN f.errors IS NULL THEN tenon.places(f.states)
                          ELSE array_remove(tenon.places(f.states), 'history') END;  -- which has no classes of errors
    moment timestamptz := clock_timestamp();
    begun  timestamptz := moment;
    piece  integer := CASE WHEN limit_ms < 100 AND (cursor IS NULL OR f.payload IS NOT NULL) THEN 100 ELSE 1000 END;
    found  record;
    given  bigint[];
    fits   bigint[];
    edge   bigint;
    low    bigint;
    high   bigint;
    last   boolean;
BEGIN
    ids := '{}';
    next := coalesce(cursor, CASE WHEN newest THEN 9223372036854775807 ELSE 0 END);
    SELECT '{}'::bigint[] AS few, '{}'::text[] AS scanned INTO found;
    IF tenon.candidates(f, places, newest, next, 0) IS NULL THEN
        found := tenon.few_of(f, places, moment);
    END IF;
    LOOP
        low := CASE WHEN newest THEN -1 ELSE next END;
        high := CASE WHEN newest THEN next ELSE 9223372036854775807 END;
        given := tenon.candidates(f, places, newest, next, piece);
        IF given IS NULL AND found.scanned = '{}' THEN
            given := ARRAY(SELECT i FROM unnest(found.few) i WHERE i > low AND i < high ORDER BY CASE WHEN newest THEN -i ELSE i END LIMIT piece);
        ELSIF given IS NULL THEN  -- how far this piece goes
            edge := CASE WHEN newest THEN (SELECT a.id FROM tenon.anywhere a WHERE a.place = ANY (found.scanned) AND a.id < high
                                            ORDER BY a.id DESC LIMIT 1)
                         ELSE (SELECT a.id FROM tenon.anywhere a WHERE a.place = ANY (found.scanned) AND a.id > low ORDER BY a.id LIMIT 1) END;
            IF newest THEN
                low := coalesce(edge - piece, low);
            ELSE
                high := coalesce(edge + piece, high);
            END IF;
        END IF;
        last := CASE WHEN given IS NOT NULL THEN f.ids IS NOT NULL OR cardinality(given) < piece
                     WHEN newest THEN edge IS NULL OR low < 1
                     ELSE edge IS NULL OR high > coalesce(pg_sequence_last_value(pg_get_serial_sequence('tenon.task', 'id')), 0) END;
        SELECT coalesce(array_agg(c.id ORDER BY CASE WHEN newest THEN -c.id ELSE c.id END), '{}') INTO fits
          FROM (SELECT * FROM tenon.anywhere a
                 WHERE given IS NULL AND a.id > low AND a.id < high AND a.place = ANY (found.scanned)
                UNION ALL
                SELECT * FROM tenon.anywhere a
                 WHERE coalesce(given, found.few) <> '{}' AND a.place = ANY (places) AND a.place <> ALL (found.scanned)
                   AND a.id = ANY (coalesce(given, ARRAY(SELECT i FROM unnest(found.few) i WHERE i > low AND i < high)))
                   AND a.id > low AND a.id < high) c
         WHERE (c.start_time IS NOT NULL OR coalesce(f.states <> '{running}', true))  -- cheaper than what follows, where most wait
           AND (f.states IS NULL OR CASE WHEN c.ended IS NOT NULL THEN c.ended
                                         WHEN c.start_time IS NOT NULL THEN 'running'
                                         WHEN c.start_before <= moment THEN 'expired'
                                         WHEN c.run_at = 'infinity' THEN 'blocked'
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
           AND (f.tags IS NULL OR c.tags && f.tags)
           AND (f.undo IS NULL OR c.undo)
           AND (f.payload IS NULL OR c.payload @@ f.payload);
        next := CASE WHEN given IS NOT NULL THEN coalesce(given[cardinality(given)], next) WHEN newest THEN low + 1 ELSE high - 1 END;
        IF cardinality(ids) + cardinality(fits) > most THEN
            ids := ids || fits[1:most - cardinality(ids)];
            next := ids[most];
            RETURN;
        END IF;
        ids := ids || fits;
        next := CASE WHEN NOT last THEN next END;
        EXIT WHEN last OR cardinality(ids) = most OR clock_timestamp() >= moment + limit_ms * interval '1 ms';
        IF coalesce(clock_timestamp() < begun + limit_ms * interval '0.1 ms', true) THEN
            piece := least(piece * 4, CASE WHEN f.payload IS NULL THEN 50000 ELSE 5000 END);
        END IF;
        begun := clock_timestamp();
    END LOOP;
END $$;

CREATE FUNCTION tenon.seconds(span interval) RETURNS interval
    LANGUAGE sql IMMUTABLE
    AS $$ SELECT make_interval(secs => extract(epoch FROM span)) $$;

CREATE FUNCTION tenon.set_ids(ids bigint[], priority smallint, run_at timestamp with time zone, max_crashes integer) RETURNS bigint[]
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
#variable_conflict use_variable
DECLARE
    changed bigint[];
    limited boolean;
BEGIN
    WITH new AS (
        UPDATE tenon.task t
           SET priority = coalesce(priority, t.priority),
               max_crashes = coalesce(max_crashes, t.max_crashes),
               run_at = CASE WHEN t.run_at = 'infinity' THEN t.run_at
                             WHEN t.limit_keys IS NOT NULL AND run_at > clock_timestamp() THEN 'infinity'  -- others go first
                             ELSE coalesce(run_at, t.run_at) END,
               wanted_at = CASE WHEN t.wanted_at = 'infinity' THEN t.wanted_at  -- it waits for a signal
                                WHEN t.wanted_at IS NOT NULL THEN coalesce(run_at, t.wanted_at)
                                WHEN t.limit_keys IS NOT NULL AND run_at > clock_timestamp() THEN run_at END,
               delayed = t.run_at < 'infinity' AND (t.delayed OR run_at IS NOT NULL)
                         AND NOT (t.limit_keys IS NOT NULL AND coalesce(run_at > clock_timestamp(), false))
         WHERE t.id = ANY (ids) AND t.start_time IS NULL RETURNING t.id, t.limit_keys)
    SELECT array_agg(new.id), bool_or(new.limit_keys IS NOT NULL) INTO changed, limited FROM new;
    UPDATE tenon.suspect s SET due_at = run_at WHERE s.task_id = ANY (changed) AND s.due_at IS NOT NULL AND run_at IS NOT NULL;
    IF limited THEN
        PERFORM tenon.limited_changed(changed);
        PERFORM tenon.call_settler();
    END IF;
    RETURN changed;
END $$;

CREATE FUNCTION tenon.set_kind(name text, queue text DEFAULT NULL::text, priority integer DEFAULT NULL::integer, max_attempts integer DEFAULT NULL::integer, max_crashes integer DEFAULT NULL::integer, timeout interval DEFAULT NULL::interval, timeout_min interval DEFAULT NULL::interval, on_timeout text DEFAULT NULL::text, retry text DEFAULT NULL::text, on_dead text DEFAULT NULL::text, limit_keys text[] DEFAULT NULL::text[], history_keep interval DEFAULT NULL::interval, dead_keep interval DEFAULT NULL::interval, unset text[] DEFAULT '{}'::text[]) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
#variable_conflict use_variable
DECLARE
    keys     text[] := tenon.check_limit_keys(limit_keys);
    ms       bigint := tenon.run_ms_of('timeout', timeout);
    least_ms bigint := tenon.run_ms_of('timeout_min', timeout_min);
    old      tenon.kind;
BEGIN
    PERFORM tenon.check_target(NULL, coalesce(name, ''), false);
    PERFORM tenon.check_unset(unset, '{queue,priority,max_attempts,max_crashes,timeout,timeout_min,on_timeout,retry,on_dead,limit_keys,history_keep,dead_keep}',
        num_nonnulls(queue, priority, max_attempts, max_crashes, timeout, timeout_min, on_timeout, retry, on_dead, keys, history_keep, dead_keep));
    PERFORM tenon.check_enqueue(name, queue, priority, NULL, NULL, NULL, max_attempts, NULL, retry, NULL);
    IF max_crashes NOT BETWEEN 2 AND 100 THEN
        PERFORM tenon.refuse('max_crashes', max_crashes::text, '2 to 100');
    ELSIF on_timeout NOT IN ('retry', 'dead') THEN
        PERFORM tenon.refuse('on_timeout', quote_literal(on_timeout), 'retry or dead');
    ELSIF NOT tenon.is_span(history_keep, 3600, 31536000000) THEN
        PERFORM tenon.refuse('history_keep', history_keep::text, '1 hour to 1000 years for a kind; 0 is possible for all kinds at once, by tenon.set_settings');
    ELSIF NOT tenon.is_span(dead_keep, 3600, 31536000000) THEN
        PERFORM tenon.refuse('dead_keep', dead_keep::text, '1 hour to 1000 years');
    ELSIF NOT tenon.is_kind(on_dead) THEN
        PERFORM tenon.refuse('on_dead', quote_literal(on_dead), 'a kind: 1 to 100 of A-Z a-z 0-9 _ . : -');
    END IF;
    INSERT INTO tenon.kind (name) VALUES (name) ON CONFLICT ON CONSTRAINT kind_pkey DO NOTHING;
    SELECT * INTO old FROM tenon.kind k WHERE k.name = name FOR NO KEY UPDATE;
    UPDATE tenon.kind k
       SET queue = coalesce(queue, CASE WHEN 'queue' <> ALL (unset) THEN old.queue END),
           priority = coalesce(priority, CASE WHEN 'priority' <> ALL (unset) THEN old.priority END),
           max_attempts = coalesce(max_attempts, CASE WHEN 'max_attempts' <> ALL (unset) THEN old.max_attempts END),
           max_crashes = coalesce(max_crashes, CASE WHEN 'max_crashes' <> ALL (unset) THEN old.max_crashes END),
           timeout_ms = coalesce(ms, CASE WHEN 'timeout' <> ALL (unset) THEN old.timeout_ms END),
           timeout_min_ms = coalesce(least_ms, CASE WHEN 'timeout_min' <> ALL (unset) THEN old.timeout_min_ms END, 1),
           on_timeout = coalesce(on_timeout, CASE WHEN 'on_timeout' <> ALL (unset) THEN old.on_timeout END, 'retry'),
           retry = coalesce(retry, CASE WHEN 'retry' <> ALL (unset) THEN old.retry END),
           on_dead = coalesce(on_dead, CASE WHEN 'on_dead' <> ALL (unset) THEN old.on_dead END),
           limit_keys = coalesce(keys, CASE WHEN 'limit_keys' <> ALL (unset) THEN old.limit_keys END),
           history_keep = coalesce(history_keep, CASE WHEN 'history_keep' <> ALL (unset) THEN old.history_keep END),
           dead_keep = coalesce(dead_keep, CASE WHEN 'dead_keep' <> ALL (unset) THEN old.dead_keep END)
     WHERE k.name = name;
    PERFORM tenon.note_audit('set_kind', jsonb_strip_nulls(jsonb_build_object('kind', name, 'queue', queue, 'priority', priority,
        'max_attempts', max_attempts, 'max_crashes', max_crashes, 'timeout', timeout, 'timeout_min', timeout_min, 'on_timeout', on_timeout,
        'retry', retry, 'on_dead', on_dead, 'limit_keys', keys, 'history_keep', history_keep,
        'dead_keep', dead_keep, 'unset', nullif(unset, '{}'))), 1);
END $$;

CREATE FUNCTION tenon.set_limit(name text, max_running integer DEFAULT NULL::integer, max_starts integer DEFAULT NULL::integer, per interval DEFAULT NULL::interval, strict boolean DEFAULT NULL::boolean, fair boolean DEFAULT NULL::boolean, weight integer DEFAULT NULL::integer, paused boolean DEFAULT NULL::boolean, until timestamp with time zone DEFAULT NULL::timestamp with time zone, when_dead text DEFAULT NULL::text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
#variable_conflict use_variable
BEGIN
    PERFORM tenon.check_limit_name(name);
    PERFORM tenon.check_limit(max_running, max_starts, per, weight, until, when_dead);
    per := tenon.seconds(per);
    INSERT INTO tenon.limit AS l (name, max_running, max_starts, per, strict, when_dead, fair, weight, until)
    VALUES (name, max_running, max_starts, per, strict, when_dead, fair, weight, until)
    ON CONFLICT ON CONSTRAINT limit_pkey DO UPDATE
       SET max_running = excluded.max_running, max_starts = excluded.max_starts, per = excluded.per, strict = excluded.strict,
           when_dead = excluded.when_dead, fair = excluded.fair, weight = excluded.weight, until = excluded.until;
    IF paused AND NOT EXISTS (SELECT FROM tenon.paused p WHERE p.what = 'limit' AND p.name = set_limit.name) THEN
        PERFORM tenon.pause_one('limit', name, NULL);
    ELSIF NOT paused THEN
        PERFORM tenon.resume_one('limit', name);
    END IF;
    PERFORM tenon.limit_changed(name);
    PERFORM tenon.note_audit('set_limit', jsonb_build_object('limit', name, 'max_running', max_running, 'max_starts', max_starts, 'per', per, 'strict', strict,
        'when_dead', when_dead, 'fair', fair, 'weight', weight, 'paused', paused, 'until', until), 1);
END $$;

CREATE FUNCTION tenon.set_queue(name text, priority integer DEFAULT NULL::integer, max_attempts integer DEFAULT NULL::integer, timeout interval DEFAULT NULL::interval, retry text DEFAULT NULL::text, unset text[] DEFAULT '{}'::text[]) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
#variable_conflict use_variable
DECLARE
    ms  bigint := tenon.run_ms_of('timeout', timeout);
    old tenon.queue;
BEGIN
    PERFORM tenon.check_target(coalesce(name, ''), NULL, false);
    PERFORM tenon.check_unset(unset, '{priority,max_attempts,timeout,retry}', num_nonnulls(priority, max_attempts, timeout, retry));
    PERFORM tenon.check_enqueue('a', NULL, priority, NULL, NULL, NULL, max_attempts, NULL, retry, NULL);
    INSERT INTO tenon.queue (name) VALUES (name) ON CONFLICT ON CONSTRAINT queue_pkey DO NOTHING;
    SELECT * INTO old FROM tenon.queue q WHERE q.name = name FOR NO KEY UPDATE;
    UPDATE tenon.queue q
       SET priority = coalesce(priority, CASE WHEN 'priority' <> ALL (unset) THEN old.priority END),
           max_attempts = coalesce(max_attempts, CASE WHEN 'max_attempts' <> ALL (unset) THEN old.max_attempts END),
           timeout_ms = coalesce(ms, CASE WHEN 'timeout' <> ALL (unset) THEN old.timeout_ms END),
           retry = coalesce(retry, CASE WHEN 'retry' <> ALL (unset) THEN old.retry END)
     WHERE q.name = name;
    PERFORM tenon.note_audit('set_queue', jsonb_strip_nulls(jsonb_build_object('queue', name, 'priority', priority, 'max_attempts', max_attempts,
        'timeout', timeout, 'retry', retry, 'unset', nullif(unset, '{}'))), 1);
END $$;

CREATE FUNCTION tenon.set_schedule(name text, cron text DEFAULT NULL::text, every interval DEFAULT NULL::interval, kind text DEFAULT NULL::text, payload anycompatible DEFAULT '{}'::jsonb, zone text DEFAULT 'UTC'::text, catch_up text DEFAULT 'last'::text, overlap text DEFAULT 'allow'::text, queue text DEFAULT NULL::text, priority integer DEFAULT NULL::integer, max_attempts integer DEFAULT NULL::integer, timeout interval DEFAULT NULL::interval, source text DEFAULT NULL::text) RETURNS timestamp with time zone
    LANGUAGE sql
    AS $$
    SELECT tenon.set_schedule_jsonb(name, cron, every, kind, payload::pg_catalog.jsonb, zone, catch_up, overlap, queue, priority,
                                    max_attempts, timeout, source)
$$;

CREATE FUNCTION tenon.set_schedule_jsonb(name text, cron text, every interval, kind text, payload jsonb, zone text, catch_up text, overlap text, queue text, priority integer, max_attempts integer, timeout interval, source text) RETURNS timestamp with time zone
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
#variable_conflict use_variable
DECLARE
    moment timestamptz := clock_timestamp();
    s      tenon.schedule;
BEGIN
    PERFORM tenon.check_schedule(name, cron, every, kind, payload, queue, priority, max_attempts, timeout, catch_up, overlap);
    PERFORM tenon.check_length('source', source, 1000);
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
    VALUES (name, cron, (extract(epoch FROM every) * 1000)::bigint, zone, kind, payload, queue, priority, max_attempts,
            (extract(epoch FROM timeout) * 1000)::bigint, catch_up, overlap, source, session_user, moment, s.next_at, s.next_at)
    ON CONFLICT ON CONSTRAINT schedule_pkey DO UPDATE
       SET cron = excluded.cron, every_ms = excluded.every_ms, zone = excluded.zone, kind = excluded.kind,
           payload = excluded.payload, queue = excluded.queue, priority = excluded.priority,
           max_attempts = excluded.max_attempts, timeout_ms = excluded.timeout_ms, catch_up = excluded.catch_up,
           overlap = excluded.overlap, source = excluded.source, set_by = excluded.set_by, set_at = excluded.set_at,
           next_at = excluded.next_at, last_error = NULL,
           due_at = CASE WHEN t.due_at = 'infinity' THEN 'infinity' ELSE excluded.next_at END
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

CREATE FUNCTION tenon.set_settings(changes jsonb) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
DECLARE
    span constant text := '1 hour to 1000 years';
    k    text;
BEGIN
    PERFORM tenon.check_changes(changes, '{payload_bytes_max,history_keep,history_rows_max,exchange,cancel_own_only,attempt_keep,dead_keep,signal_keep,outbox_keep,once_keep,log_keep,on_dead}');
    PERFORM tenon.settings();
    FOR k IN SELECT jsonb_object_keys(changes) LOOP
        BEGIN
            UPDATE tenon.setting s
               SET (payload_bytes_max, history_keep, history_rows_max, exchange, cancel_own_only, attempt_keep, dead_keep, signal_keep, outbox_keep, once_keep,
                    log_keep, on_dead) =
                   (SELECT n.payload_bytes_max, n.history_keep, n.history_rows_max, n.exchange, n.cancel_own_only, n.attempt_keep,
                           n.dead_keep, n.signal_keep, n.outbox_keep, n.once_keep, n.log_keep, n.on_dead
                      FROM jsonb_populate_record(s, jsonb_build_object(k, changes -> k)) n);
        EXCEPTION WHEN data_exception OR check_violation OR not_null_violation THEN
            PERFORM tenon.refuse(k, changes ->> k,
                CASE k WHEN 'exchange' THEN '1 to 63 of a-z 0-9 _ -, the first not -'
                       WHEN 'cancel_own_only' THEN 'true or false'
                       WHEN 'on_dead' THEN 'a kind: 1 to 100 of A-Z a-z 0-9 _ . : -, or null'
                       WHEN 'history_keep' THEN '0, or ' || span WHEN 'outbox_keep' THEN '0, or ' || span WHEN 'log_keep' THEN '0, or ' || span
                       WHEN 'payload_bytes_max' THEN 'a number of bytes, at least 1'
                       WHEN 'history_rows_max' THEN 'a number of rows, at least 1' ELSE span END);
        END;
    END LOOP;
    PERFORM tenon.note_audit('set_settings', jsonb_build_object('changes', changes), 1);
END $$;

CREATE FUNCTION tenon.set_where(filter jsonb, changes jsonb, most integer DEFAULT 10000, why text DEFAULT NULL::text) RETURNS bigint
    LANGUAGE sql
    AS $$ SELECT c.n FROM tenon.change('set', filter, changes, most => most, why => why) c $$;

CREATE TABLE tenon.setting (
    one boolean DEFAULT true NOT NULL,
    payload_bytes_max integer DEFAULT 1048576 NOT NULL,
    history_keep interval DEFAULT '24:00:00'::interval NOT NULL,
    history_rows_max bigint DEFAULT 10000000 NOT NULL,
    exchange text DEFAULT 'tenon'::text NOT NULL,
    cancel_own_only boolean DEFAULT true NOT NULL,
    attempt_keep interval DEFAULT '7 days'::interval NOT NULL,
    dead_keep interval DEFAULT '90 days'::interval NOT NULL,
    on_dead text,
    confined boolean DEFAULT false NOT NULL,
    signal_keep interval DEFAULT '7 days'::interval NOT NULL,
    audit_keep interval DEFAULT '90 days'::interval NOT NULL,
    outbox_keep interval DEFAULT '00:00:00'::interval NOT NULL,
    once_keep interval DEFAULT '7 days'::interval NOT NULL,
    log_keep interval DEFAULT '7 days'::interval NOT NULL,
    leader_key bigint DEFAULT tenon.random_key() NOT NULL,
    sleeper_key bigint DEFAULT tenon.random_key() NOT NULL,
    CONSTRAINT setting_attempt_keep_check CHECK (tenon.is_span(attempt_keep, (3600)::numeric, ('31536000000'::bigint)::numeric)),
    CONSTRAINT setting_audit_keep_check CHECK (tenon.is_span(audit_keep, 0.000001, ('31536000000'::bigint)::numeric)),
    CONSTRAINT setting_dead_keep_check CHECK (tenon.is_span(dead_keep, (3600)::numeric, ('31536000000'::bigint)::numeric)),
    CONSTRAINT setting_exchange_check CHECK ((exchange ~ '^[a-z0-9_][a-z0-9_-]{0,62}$'::text)),
    CONSTRAINT setting_history_keep_check CHECK ((tenon.is_span(history_keep, (0)::numeric, (0)::numeric) OR tenon.is_span(history_keep, (3600)::numeric, ('31536000000'::bigint)::numeric))),
    CONSTRAINT setting_history_rows_max_check CHECK ((history_rows_max > 0)),
    CONSTRAINT setting_log_keep_check CHECK ((tenon.is_span(log_keep, (0)::numeric, (0)::numeric) OR tenon.is_span(log_keep, (3600)::numeric, ('31536000000'::bigint)::numeric))),
    CONSTRAINT setting_on_dead_check CHECK ((on_dead ~ '^[A-Za-z0-9_.:-]{1,100}$'::text)),
    CONSTRAINT setting_once_keep_check CHECK (tenon.is_span(once_keep, (3600)::numeric, ('31536000000'::bigint)::numeric)),
    CONSTRAINT setting_one_check CHECK (one),
    CONSTRAINT setting_outbox_keep_check CHECK ((tenon.is_span(outbox_keep, (0)::numeric, (0)::numeric) OR tenon.is_span(outbox_keep, (3600)::numeric, ('31536000000'::bigint)::numeric))),
    CONSTRAINT setting_payload_bytes_max_check CHECK ((payload_bytes_max > 0)),
    CONSTRAINT setting_signal_keep_check CHECK (tenon.is_span(signal_keep, (3600)::numeric, ('31536000000'::bigint)::numeric))
);

CREATE FUNCTION tenon.settings() RETURNS tenon.setting
    LANGUAGE plpgsql STABLE
    AS $$
DECLARE
    s tenon.setting;
BEGIN
    SELECT * INTO s FROM tenon.setting;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'tenon: the table tenon.setting is empty'
            USING ERRCODE = 'invalid_schema_name',
                  HINT = 'A dump without data was restored, or all tables were emptied. Run tenon setup: it restores the row.';
    END IF;
    RETURN s;
END $$;

CREATE FUNCTION tenon.settle(most integer DEFAULT 500) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
BEGIN
    RETURN (tenon.settle_all(most, 0, 0)).n;
END $$;

CREATE FUNCTION tenon.settle_again(a tenon.again) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET lock_timeout TO '2 ms'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
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
                            queue, kind, payload, payload_bytes, unique_key, retry, trace, enqueued_by, limit_keys, wanted_at, tags)
    VALUES (CASE WHEN a.limit_keys IS NULL THEN due ELSE 'infinity' END, a.created_at, a.start_before, a.timeout_ms,
            a.max_attempts, a.priority, a.limit_keys IS NULL AND due > clock_timestamp(), false,
            a.queue, a.kind, a.payload, a.payload_bytes, a.unique_key, a.retry, a.trace, a.enqueued_by, a.limit_keys,
            CASE WHEN a.limit_keys IS NOT NULL THEN due END, a.tags)
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
        -- no enqueue leaves such a row; if there is one, it must neither stop the rows after it nor join them
        UPDATE tenon.again g SET taken = true, failed = left(SQLERRM, 8192) WHERE g.id = a.id;
        RAISE WARNING 'tenon: row % of tenon.again, unique_key % of kind %, is set aside: %', a.id, quote_literal(a.unique_key), a.kind, SQLERRM
            USING HINT = 'Delete the row, then enqueue the task again.';
        RETURN true;
END $$;

CREATE FUNCTION tenon.settle_all(most integer, few integer, settled bigint, OUT n integer, OUT freed bigint[], OUT due_ms bigint, OUT slow text, OUT first_note bigint) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
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
                CONTINUE WHEN NOT EXISTS (SELECT FROM tenon.again g WHERE NOT g.taken) AND NOT EXISTS (SELECT FROM tenon.again_note o WHERE o.id > settled);
                did := tenon.settle_keys(rows_, settled);
                more := more OR did.more;
            WHEN 'flows' THEN did := tenon.settle_flows(rows_, settled);
            WHEN 'signals' THEN did := tenon.settle_signals(rows_);
            WHEN 'limits' THEN did := tenon.settle_limits(rows_, settled);
        END CASE;
        n := n + did.n;
        freed := freed || did.freed;
        more := more OR did.n > 0 AND (tenon.turn_is_over(since) OR part = 'flows' AND EXISTS (SELECT FROM tenon.flow_note o WHERE o.id > settled AND o.act IS NULL));
    END LOOP;
    IF EXISTS (SELECT FROM tenon.set_aside) THEN
        PERFORM tenon.note_works(most);
    END IF;
    due_ms := CASE WHEN n >= most OR more OR EXISTS (SELECT FROM tenon.limit_event e WHERE e.id > settled) THEN 0
                   ELSE least(tenon.limits_due_ms(false),
                              (SELECT ceil(extract(epoch FROM t.start_before - clock_timestamp()) * 1000)::bigint
                                 FROM tenon.task t
                                WHERE t.start_before > moment AND t.start_before < moment + interval '1 second' AND t.start_time IS NULL
                                ORDER BY t.start_before
                                LIMIT 1)) END;
    first_note := tenon.first_note(settled);
    IF cardinality(freed) > few THEN
        PERFORM tenon.wake(freed);
    END IF;
EXCEPTION WHEN query_canceled THEN
    slow := tenon.note_slow(part, rows_, SQLERRM);
    n := 1;
    freed := '{}';
    due_ms := 0;
    first_note := settled + 1;
END $$;

CREATE FUNCTION tenon.settle_flows(most integer, settled bigint, OUT n integer, OUT freed bigint[]) RETURNS record
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    AS $$
DECLARE
    notes record;
    waits record;
    again bigint[];
BEGIN
    n := 0;
    freed := '{}';
    IF NOT EXISTS (SELECT FROM tenon.flow_note o WHERE o.id > settled) OR current_setting('transaction_isolation') <> 'read committed' THEN
        RETURN;
    END IF;
    IF NOT tenon.hold_settler() THEN
        RETURN;
    END IF;
    SELECT array_agg(o.id) AS ids, min(o.at) AS since, array_agg(DISTINCT o.flow) AS flows,
           coalesce(array_agg(o.task) FILTER (WHERE o.task IS NOT NULL AND o.first), '{}') AS tasks,
           coalesce(array_agg(o.from_) FILTER (WHERE o.task IS NOT NULL AND o.first), '{}') AS beyond,
           coalesce(array_agg(o.task) FILTER (WHERE o.act = 'unblock'), '{}') AS again,
           coalesce(array_agg(o.task) FILTER (WHERE o.act = 'cancel'), '{}') AS doomed INTO notes
      FROM (SELECT q.*, min(coalesce(q.beyond, 0)) OVER (PARTITION BY q.task) AS from_, row_number() OVER (PARTITION BY q.task) = 1 AS first
              FROM (SELECT * FROM tenon.flow_note p
                     WHERE p.id > settled AND NOT EXISTS (SELECT FROM tenon.set_aside s WHERE s.part = 'flows' AND s.id = p.id AND s.until > clock_timestamp())
                     ORDER BY p.id LIMIT most) q) o;
    IF notes.ids IS NULL THEN
        RETURN;
    END IF;
    PERFORM tenon.record_flow_ends(notes.tasks, notes.since);
    waits := tenon.end_waits(notes.tasks, notes.beyond, notes.again, notes.doomed, most);
    freed := waits.freed;
    again := tenon.look_at_flows(notes.flows, most);
    DELETE FROM tenon.flow_note o WHERE o.id = ANY (notes.ids);
    INSERT INTO tenon.flow_note (at, flow, task, act, beyond)
    SELECT now(), m.flow, m.id, CASE WHEN m.id = ANY (waits.free) THEN 'unblock' ELSE 'cancel' END, NULL
      FROM tenon.flow_task m WHERE m.id = ANY (waits.free || waits.doomed)
    UNION ALL
    SELECT notes.since, m.flow, m.id, NULL, r.beyond
      FROM unnest(waits.rest, waits.rest_beyond) r (id, beyond) JOIN tenon.flow_task m ON m.id = ANY (ARRAY[r.id])
    UNION ALL
    SELECT now(), a, NULL, NULL, NULL FROM unnest(again) a;
    n := greatest(0, cardinality(notes.ids) + waits.n - cardinality(waits.free || waits.doomed || again));
END $$;

CREATE FUNCTION tenon.settle_keys(most integer, settled bigint, OUT n integer, OUT freed bigint[], OUT more boolean) RETURNS record
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
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
        DELETE FROM tenon.again_note WHERE id = ANY (ARRAY(SELECT o.id FROM tenon.again_note o WHERE o.id > settled ORDER BY o.id LIMIT most FOR UPDATE SKIP LOCKED))
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

CREATE FUNCTION tenon.settle_limits(most integer, settled bigint, OUT n integer, OUT freed bigint[]) RETURNS record
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    AS $$
DECLARE
    keys text[];
BEGIN
    n := 0;
    freed := '{}';
    IF (NOT EXISTS (SELECT FROM tenon.limit_event e WHERE e.id > settled) AND coalesce(tenon.limits_due_ms(), 1) > 0)
       OR current_setting('transaction_isolation') <> 'read committed' THEN
        RETURN;
    END IF;
    IF NOT tenon.hold_settler() THEN
        RETURN;
    END IF;
    PERFORM tenon.remove_ended_limits();
    keys := tenon.take_limit_events(most, settled) || tenon.limit_came_due(most);
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
    begun  timestamptz := moment;
    place  bigint := tenon.place_of('tenon.waiting_cursor');
    looked integer := 0;
    sent   record;
    wait   record;
BEGIN
    freed := '{}';
    FOR wait IN SELECT w.task_id FROM tenon.waiting w WHERE NOT w.settled AND w.task_id > place ORDER BY w.task_id LIMIT most LOOP
        freed := freed || CASE WHEN tenon.end_wait(wait.task_id, moment) THEN ARRAY[wait.task_id] END;
        place := wait.task_id;
        looked := looked + 1;
        EXIT WHEN tenon.turn_is_over(begun);
    END LOOP;
    PERFORM tenon.go_on_at('tenon.waiting_cursor', CASE WHEN looked = most OR tenon.turn_is_over(begun) THEN place ELSE 0 END);
    place := tenon.place_of('tenon.signal_cursor');
    begun := clock_timestamp();
    looked := 0;
    FOR sent IN SELECT s.name, s.sent_at FROM tenon.signal s
                 WHERE NOT s.settled AND s.sent_at > timestamptz 'epoch' + place * interval '1 microsecond'
                 ORDER BY s.sent_at LIMIT most FOR UPDATE SKIP LOCKED LOOP
        FOR wait IN SELECT w.task_id FROM tenon.waiting w WHERE w.signal = sent.name ORDER BY w.task_id LOOP
            freed := freed || CASE WHEN tenon.end_wait(wait.task_id, moment) THEN ARRAY[wait.task_id] END;
            EXIT WHEN cardinality(freed) >= most OR tenon.turn_is_over(begun);
        END LOOP;
        UPDATE tenon.signal s SET settled = true
         WHERE s.name = sent.name AND NOT EXISTS (SELECT FROM tenon.waiting w WHERE w.signal = sent.name);
        place := extract(epoch FROM sent.sent_at) * 1000000;
        looked := looked + 1;
        EXIT WHEN cardinality(freed) >= most OR tenon.turn_is_over(begun);
    END LOOP;
    PERFORM tenon.go_on_at('tenon.signal_cursor', CASE WHEN looked = most OR tenon.turn_is_over(begun) THEN place ELSE 0 END);
    place := tenon.place_of('tenon.until_cursor');
    begun := clock_timestamp();
    looked := 0;
    FOR wait IN SELECT w.task_id, w.until FROM tenon.waiting w
                 WHERE w.until <= moment AND w.until > timestamptz 'epoch' + place * interval '1 microsecond' ORDER BY w.until LIMIT most LOOP
        freed := freed || CASE WHEN tenon.end_wait(wait.task_id, moment) THEN ARRAY[wait.task_id] END;
        place := extract(epoch FROM wait.until) * 1000000;
        looked := looked + 1;
        EXIT WHEN tenon.turn_is_over(begun);
    END LOOP;
    PERFORM tenon.go_on_at('tenon.until_cursor', CASE WHEN looked = most OR tenon.turn_is_over(begun) THEN place ELSE 0 END);
    DELETE FROM tenon.signal s WHERE s.name = ANY (ARRAY(
        SELECT o.name FROM tenon.signal o WHERE o.settled AND o.sent_at < moment - (SELECT signal_keep FROM tenon.setting)
         ORDER BY o.sent_at LIMIT most FOR UPDATE SKIP LOCKED));
    n := cardinality(freed);
END $$;

CREATE FUNCTION tenon.signal(name text, payload jsonb DEFAULT 'true'::jsonb, notify boolean DEFAULT true) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
#variable_conflict use_variable
DECLARE
    signal_name_bytes_max constant integer := 100;
    signal_bytes_max      constant integer := 65536;
BEGIN
    IF coalesce(octet_length(name), 0) NOT BETWEEN 1 AND signal_name_bytes_max THEN
        PERFORM tenon.refuse('name', quote_literal(name), format('1 to %s bytes', signal_name_bytes_max));
    ELSIF coalesce(payload, 'null') = 'null' THEN
        PERFORM tenon.refuse('payload', 'null', 'any JSON value except null, which means that no signal came in time');
    ELSIF tenon.printed_bytes(payload) > signal_bytes_max THEN
        PERFORM tenon.refuse('payload', format('of %s bytes', tenon.printed_bytes(payload)), format('at most %s bytes as text', signal_bytes_max));
    ELSIF tenon.is_confined() THEN
        RAISE EXCEPTION 'tenon: role % may not send signals', session_user
            USING ERRCODE = 'insufficient_privilege', HINT = 'It is confined to some queues or kinds (tenon.producer), but a signal reaches tasks of all.';
    END IF;
    INSERT INTO tenon.signal (name, payload) VALUES (name, payload) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM pg_notify('tenon', 'settle') WHERE notify IS NOT FALSE;
    RETURN true;
END $$;

CREATE FUNCTION tenon.slots_for(queue text, kind text, OUT slots bigint, OUT running bigint, OUT kinds text[]) RETURNS record
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_bitmapscan TO 'off'
    SET jit TO 'off'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
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
                  WHERE NOT EXISTS (SELECT FROM tenon.paused p WHERE p.what = 'kind' AND p.name = k.name))
      FROM total n
$_$;

CREATE FUNCTION tenon.slots_wanted(tasks_per_s double precision, run_s double precision, ready bigint, running bigint, oldest_s double precision, latency_s double precision) RETURNS integer
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
    SELECT least(1000000, greatest(sign(ready), ceil(greatest(coalesce(tasks_per_s * run_s / 0.8, 0), running)
                               + ready * least(1, coalesce(run_s / greatest(latency_s - oldest_s, latency_s / 4), 1)))))::integer
$$;

CREATE FUNCTION tenon.slow_one(part text) RETURNS bigint
    LANGUAGE plpgsql STABLE
    AS $$
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

CREATE FUNCTION tenon.span_of(minute timestamp with time zone) RETURNS timestamp with time zone
    LANGUAGE sql STABLE
    AS $$
    SELECT date_bin(CASE WHEN minute < now() - interval '25 hours' THEN interval '1 hour' WHEN minute < now() - interval '365 min' THEN interval '20 min'
                         WHEN minute < now() - interval '65 min' THEN interval '5 min' ELSE interval '1 min' END, minute, '2000-01-01 00:00+00')
$$;

CREATE FUNCTION tenon.starting_of(starting text, OUT kinds text[], OUT text text) RETURNS SETOF record
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
    SELECT string_to_array(split_part(line, ': ', 1), ','),
           format('for %s s%s', greatest(round(extract(epoch FROM clock_timestamp()) - split_part(h.how, ' ', 1)::bigint / 1000.0), 0),
                  ': ' || nullif(substr(h.how, strpos(h.how, ' ') + 1), ''))
      FROM unnest(string_to_array(starting, E'\n')) AS line
     CROSS JOIN LATERAL (SELECT substr(line, strpos(line, ': ') + 2)) AS h (how)
$$;

CREATE FUNCTION tenon.step(claim text, name text, value jsonb DEFAULT NULL::jsonb) RETURNS jsonb
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
#variable_conflict use_variable
DECLARE
    fence record;
    held  record;
    kept  jsonb;
BEGIN
    fence := tenon.read_claim(claim);
    SELECT t.queue, t.kind, t.step_count, t.step_bytes INTO held FROM tenon.task t WHERE t.id = fence.id AND t.claim_key = fence.key FOR UPDATE;
    PERFORM tenon.claim_must_hold(claim, fence.key, held.queue, held.kind);
    value := coalesce(value, 'null');
    kept := tenon.recorded_step(fence.id, held.step_count, held.step_bytes, name, value);
    PERFORM tenon.put_step(fence.id, name, value) WHERE kept IS NULL AND fence.key <> 0;
    RETURN coalesce(kept, value);
END $$;

CREATE FUNCTION tenon.step_in(line text, task_id bigint, step_count integer, step_bytes integer, OUT name text, OUT value jsonb, OUT is_new boolean) RETURNS record
    LANGUAGE plpgsql STABLE
    AS $$
BEGIN
    value := line::jsonb -> 'step';
    name := value ->> 'name';
    value := coalesce(value -> 'value', 'null');
    is_new := tenon.recorded_step(task_id, step_count, step_bytes, name, value) IS NULL;
EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
    is_new := NULL;
END $$;

CREATE FUNCTION tenon.steps(claim text) RETURNS jsonb
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
#variable_conflict use_variable
DECLARE
    fence record;
    held  record;
BEGIN
    fence := tenon.read_claim(claim);
    SELECT t.queue, t.kind, t.step_count INTO held FROM tenon.task t WHERE t.id = fence.id AND t.claim_key = fence.key;
    PERFORM tenon.claim_must_hold(claim, fence.key, held.queue, held.kind);
    RETURN coalesce(CASE WHEN held.step_count IS NOT NULL THEN tenon.steps_of(fence.id) END, '{}');
END $$;

CREATE FUNCTION tenon.steps_before(steps jsonb, names text[], from_step text) RETURNS jsonb
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $_$
    SELECT CASE WHEN $3 IS NULL THEN $1 ELSE nullif($1 - $2[array_position($2, $3):], '{}') END
$_$;

CREATE FUNCTION tenon.steps_of(task_id bigint) RETURNS jsonb
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
#variable_conflict use_variable
BEGIN
    RETURN (SELECT jsonb_object_agg(s.name, s.value) FROM tenon.task_step s WHERE s.task_id = task_id);
END $$;

CREATE FUNCTION tenon.suspects_due(queues text[], kinds text[]) RETURNS TABLE(id bigint, queue text, kind text, priority smallint, due_at timestamp with time zone)
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $_$
    SELECT t.id, t.queue, t.kind, t.priority, s.due_at
      FROM tenon.suspect s CROSS JOIN LATERAL (SELECT * FROM tenon.task t WHERE t.id = s.task_id OFFSET 0) t
     WHERE s.alone AND s.claims IS NULL AND s.due_at <= statement_timestamp()
       AND t.start_time IS NULL AND t.wanted_at IS NULL AND coalesce(t.start_before > statement_timestamp(), true)
       AND t.queue = ANY ($1) AND t.kind = ANY ($2)
       AND NOT EXISTS (SELECT FROM tenon.paused p WHERE p.what = 'queue' AND p.name = t.queue)
$_$;

CREATE FUNCTION tenon.sweep_history(most integer) RETURNS integer
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $_$
#variable_conflict use_column
DECLARE
    piece constant integer := 10000;
    begun timestamptz := clock_timestamp();
    s     tenon.setting := tenon.settings();
    n     integer := 0;
    m     integer;
    due   record;
BEGIN
    SELECT p.part, k.history_keep > s.history_keep AS longer, array_agg(k.name) AS kinds INTO due
      FROM (SELECT q.part, q.swept, lead(q.begun_at) OVER (ORDER BY q.part) AS ended_at, count(*) OVER (ORDER BY q.part DESC) AS nth
              FROM tenon.partition q WHERE q.parent = 'history') p
      JOIN tenon.kind k ON k.history_keep <> s.history_keep AND k.name <> ALL (p.swept)
     WHERE p.ended_at <= now() - CASE WHEN k.history_keep < s.history_keep THEN k.history_keep
                                      WHEN p.nth > 10 THEN interval '0' ELSE interval '1 hour' END
       AND EXISTS (SELECT FROM pg_inherits i WHERE i.inhparent = 'tenon.history'::regclass AND i.inhrelid = to_regclass('tenon.history_' || p.part))
     GROUP BY 1, 2 ORDER BY 1, 2 LIMIT 1;
    IF due.part IS NULL THEN
        RETURN 0;
    ELSIF due.longer THEN
        -- rows of a transaction that still writes there cannot be seen yet: they must move, too
        IF EXISTS (SELECT FROM pg_locks l
                    WHERE l.relation = to_regclass('tenon.history_' || due.part) AND l.mode = 'RowExclusiveLock'
                      AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
                      AND l.pid IS DISTINCT FROM pg_backend_pid()) THEN
            RETURN 0;
        END IF;
        PERFORM tenon.need_history_0();
    END IF;
    LOOP
        EXECUTE format(CASE WHEN due.longer THEN 'WITH gone AS (%1$s RETURNING *) INSERT INTO tenon.history_0 (part, %2$s) SELECT 0, %2$s FROM gone'
                            ELSE '%1$s' END,
                       format('DELETE FROM tenon.%1$I WHERE ctid = ANY (ARRAY(SELECT ctid FROM tenon.%1$I WHERE kind = ANY ($1) LIMIT $2))',
                              'history_' || due.part),
                       (SELECT string_agg(quote_ident(a.attname), ', ') FROM pg_attribute a
                         WHERE a.attrelid = 'tenon.history'::regclass AND a.attnum > 0 AND NOT a.attisdropped AND a.attname <> 'part'))
          USING due.kinds, piece;
        GET DIAGNOSTICS m = ROW_COUNT;
        n := n + m;
        IF m < piece THEN
            UPDATE tenon.partition p SET swept = p.swept || due.kinds WHERE p.parent = 'history' AND p.part = due.part;
            RETURN greatest(n, most);  -- there may be other kinds and partitions
        END IF;
        EXIT WHEN tenon.turn_is_over(begun);
    END LOOP;
    RETURN greatest(n, most);
END $_$;

CREATE FUNCTION tenon.sync(description jsonb) RETURNS TABLE(what text, name text, act text)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
#variable_conflict use_column
DECLARE
    e    record;
    done text;
    hint text;
    given jsonb;
BEGIN
    FOR e IN SELECT d.* FROM tenon.read_description(description) d
              ORDER BY d.v IS NOT NULL, array_position('{queue,kind,limit,schedule}', d.what), d.name COLLATE "C" LOOP
        given := CASE WHEN e.v IS NOT NULL THEN coalesce((SELECT jsonb_object_agg(k.key, k.value) FROM jsonb_each(e.v) k WHERE k.value <> 'null' OR k.key = 'payload'), '{}') END;
        BEGIN
            done := tenon.sync_step(e.what, e.name, given, coalesce(description ->> 'source', 'sync'));
        EXCEPTION WHEN OTHERS THEN
            GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
            RAISE EXCEPTION 'tenon: %: %', left(e.path, 120), regexp_replace(SQLERRM, '^tenon: ', '') USING ERRCODE = SQLSTATE, HINT = hint;
        END;
        IF done IS NOT NULL THEN
            RETURN QUERY SELECT e.what, e.name, done;
        END IF;
    END LOOP;
END $$;

CREATE FUNCTION tenon.sync_keys(what text) RETURNS text[]
    LANGUAGE sql IMMUTABLE
    AS $_$
    SELECT CASE $1 WHEN 'queue' THEN '{priority,max_attempts,timeout,retry}'::text[]
                   WHEN 'kind' THEN '{queue,priority,max_attempts,max_crashes,timeout,timeout_min,on_timeout,retry,on_dead,limit_keys,history_keep,dead_keep}'
                   WHEN 'limit' THEN '{max_running,max_starts,per,strict,fair,weight,when_dead}'
                   WHEN 'schedule' THEN '{cron,every,kind,payload,zone,catch_up,overlap,queue,priority,max_attempts,timeout}' END
$_$;

CREATE FUNCTION tenon.sync_one(what text, name text, v jsonb, source text) RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
    others text[] := ARRAY(SELECT k FROM unnest(tenon.sync_keys(what)) k WHERE NOT v ? k);
BEGIN
    CASE what
    WHEN 'queue' THEN
        PERFORM tenon.set_queue(name, priority => (v ->> 'priority')::integer, max_attempts => (v ->> 'max_attempts')::integer,
                                timeout => (v ->> 'timeout')::interval, retry => v ->> 'retry', unset => others);
    WHEN 'kind' THEN
        PERFORM tenon.set_kind(name, queue => v ->> 'queue', priority => (v ->> 'priority')::integer, max_attempts => (v ->> 'max_attempts')::integer,
                               max_crashes => (v ->> 'max_crashes')::integer, timeout => (v ->> 'timeout')::interval,
                               timeout_min => (v ->> 'timeout_min')::interval, on_timeout => v ->> 'on_timeout', retry => v ->> 'retry',
                               on_dead => v ->> 'on_dead', limit_keys => tenon.texts_in(v -> 'limit_keys'),
                               history_keep => (v ->> 'history_keep')::interval, dead_keep => (v ->> 'dead_keep')::interval, unset => others);
    WHEN 'limit' THEN
        PERFORM tenon.set_limit(name, max_running => (v ->> 'max_running')::integer, max_starts => (v ->> 'max_starts')::integer,
                                per => (v ->> 'per')::interval, strict => (v ->> 'strict')::boolean, fair => (v ->> 'fair')::boolean,
                                weight => (v ->> 'weight')::integer, when_dead => v ->> 'when_dead');
    WHEN 'schedule' THEN
        PERFORM tenon.hold_schedule(name, source);
        PERFORM tenon.set_schedule_jsonb(name, v ->> 'cron', (v ->> 'every')::interval, v ->> 'kind', coalesce(v -> 'payload', '{}'),
                                         coalesce(v ->> 'zone', 'UTC'), coalesce(v ->> 'catch_up', 'last'), coalesce(v ->> 'overlap', 'allow'),
                                         v ->> 'queue', (v ->> 'priority')::integer, (v ->> 'max_attempts')::integer, (v ->> 'timeout')::interval, source);
    END CASE;
END $$;

CREATE FUNCTION tenon.sync_schedules(source text, schedules jsonb) RETURNS TABLE(name text, act text)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
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
    PERFORM FROM tenon.schedule s  -- all at once, in sorted order, so that two syncs of one file cannot deadlock
      WHERE s.source = sync_schedules.source OR s.name IN (SELECT d ->> 'name' FROM jsonb_array_elements(schedules) d)
      ORDER BY s.name FOR UPDATE;
    FOR e IN SELECT r.*, count(*) OVER (PARTITION BY r.name) AS n
               FROM jsonb_to_recordset(schedules) AS r (line integer, name text, cron text, every text, kind text,
                    payload text, zone text, queue text, priority text, max_attempts text, timeout text, catch_up text,
                    overlap text)
              ORDER BY r.name, r.line LOOP
        BEGIN
            IF e.n > 1 THEN
                PERFORM tenon.refuse('name', quote_nullable(e.name), 'the name of one schedule, but it appears twice');
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
        PERFORM tenon.remove_schedule(e.name);
        RETURN QUERY SELECT e.name, 'removed';
    END LOOP;
END $$;

CREATE FUNCTION tenon.sync_step(what text, name text, v jsonb, source text) RETURNS text
    LANGUAGE plpgsql
    AS $$
DECLARE
    before jsonb := tenon.synced(what, name);
    after  jsonb;
BEGIN
    BEGIN
        IF v IS NULL THEN
            PERFORM tenon.unsync_one(what, name);
        ELSIF v <> '{}' OR before IS NOT NULL OR what IN ('limit', 'schedule') THEN
            PERFORM tenon.sync_one(what, name, v, source);
        END IF;
        after := tenon.synced(what, name);
        IF after IS NOT DISTINCT FROM before THEN
            RAISE SQLSTATE 'TN000';
        END IF;
    EXCEPTION WHEN SQLSTATE 'TN000' THEN
        RETURN NULL;
    END;
    RETURN CASE WHEN v IS NULL THEN 'removed' WHEN before IS NULL THEN 'added' ELSE 'changed' END;
END $$;

CREATE FUNCTION tenon.synced(what text, name text) RETURNS jsonb
    LANGUAGE sql STABLE
    AS $_$
    SELECT CASE $1 WHEN 'queue' THEN (SELECT to_jsonb(q) FROM tenon.queue q WHERE q.name = $2)
                   WHEN 'kind' THEN (SELECT to_jsonb(k) FROM tenon.kind k WHERE k.name = $2)
                   WHEN 'limit' THEN (SELECT to_jsonb(l) FROM tenon.limit l WHERE l.name = $2)
                   ELSE (SELECT to_jsonb(s) - '{set_by,set_at,next_at,due_at,last_at,last_task,last_error,skipped}'::text[] FROM tenon.schedule s WHERE s.name = $2) END
$_$;

CREATE FUNCTION tenon.take_in(queue text, keys text[], kinds text[], payloads jsonb[], traces text[], offsets bigint[], up_to bigint, task_queue text, priority integer, OUT taken integer, OUT payload_bytes_max integer) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
#variable_conflict use_variable
DECLARE
    s       tenon.setting := tenon.settings();
    until   timestamptz := clock_timestamp() + s.once_keep;
    seen_by text := 'intake:' || queue;
    place   bigint := 0;
    all_new boolean := true;
    k       record;
BEGIN
    payload_bytes_max := s.payload_bytes_max;
    IF up_to IS NOT NULL THEN
        INSERT INTO tenon.stream_place (stream) VALUES (queue) ON CONFLICT DO NOTHING;
        SELECT p.next_offset INTO place FROM tenon.stream_place p WHERE p.stream = queue FOR UPDATE;
        UPDATE tenon.stream_place p SET next_offset = up_to + 1, taken_at = clock_timestamp() WHERE p.stream = queue AND p.next_offset <= up_to;
        all_new := offsets[1] >= place IS NOT FALSE;
    END IF;
    IF all_new THEN
        BEGIN
            INSERT INTO tenon.seen (message_id, consumer, until)
            SELECT u.key, seen_by, until FROM unnest(keys) u (key) WHERE u.key IS NOT NULL ORDER BY u.key COLLATE "C";
        EXCEPTION WHEN unique_violation THEN
            all_new := false;
        END;
    END IF;
    IF NOT all_new THEN
        WITH message AS MATERIALIZED (
            SELECT m.*, m.key IS NULL OR row_number() OVER (PARTITION BY m.key ORDER BY m.place) = 1 AS is_first
              FROM unnest(keys, kinds, payloads, traces, offsets) WITH ORDINALITY m (key, kind, payload, trace, at, place)
             WHERE m.at >= place IS NOT FALSE
        ), new AS (
            INSERT INTO tenon.seen (message_id, consumer, until)
            SELECT m.key, seen_by, until FROM message m WHERE m.is_first AND m.key IS NOT NULL ORDER BY m.key COLLATE "C"
            ON CONFLICT DO NOTHING
            RETURNING message_id
        )
        SELECT array_agg(m.kind ORDER BY m.place), array_agg(m.payload ORDER BY m.place), array_agg(m.trace ORDER BY m.place)
          INTO kinds, payloads, traces
          FROM message m LEFT JOIN new ON new.message_id = m.key
         WHERE m.is_first AND (m.key IS NULL OR new.message_id IS NOT NULL);
    END IF;
    taken := coalesce(cardinality(payloads), 0);
    FOR k IN SELECT kinds[1] AS kind, payloads AS payloads, traces AS traces WHERE taken > 0 AND kinds[1] = ALL (kinds)
             UNION ALL
             SELECT m.kind, array_agg(m.payload ORDER BY m.place), array_agg(m.trace ORDER BY m.place)
               FROM unnest(kinds, payloads, traces) WITH ORDINALITY m (kind, payload, trace, place)
              WHERE NOT kinds[1] = ALL (kinds) GROUP BY m.kind LOOP
        PERFORM tenon.enqueue_many_jsonb(k.kind, k.payloads, task_queue, priority, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
                                         NULL, NULL, NULL, NULL, NULL, NULL, true, false, NULL, NULL, NULL, k.traces);
    END LOOP;
END $$;

CREATE FUNCTION tenon.take_limit(key text, n integer DEFAULT 1) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET lock_timeout TO '1 s'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
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
    IF n IS NULL OR n NOT BETWEEN 1 AND coalesce(r.max_starts, 10000) THEN
        PERFORM tenon.refuse('n', n::text, format('1 to %s, the max_starts of %s', coalesce(r.max_starts, 10000), key));
    ELSIF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'tenon: take_limit was called in a % transaction', current_setting('transaction_isolation')
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Call it in a READ COMMITTED transaction of its own.';
    ELSIF r.paused THEN
        RETURN 1000;
    ELSIF r.max_starts IS NULL THEN
        RETURN 0;
    END IF;
    PERFORM FROM tenon.limit l WHERE l.name = ANY (tenon.limit_names(key)) ORDER BY l.name FOR NO KEY UPDATE;
    SELECT * INTO r FROM tenon.limit_rule(key);  -- read again: nobody changes it now
    IF r.paused THEN
        RETURN 1000;
    END IF;
    moment := clock_timestamp();
    used := (SELECT coalesce(sum(u.n), 0) FROM tenon.limit_used(key, moment - r.per) u);
    IF r.max_starts IS NOT NULL AND used > r.max_starts - n THEN
        RETURN tenon.limit_wait_ms(key, r.max_starts, r.per, n, moment - r.per);
    END IF;
    -- Deletes starts that are not kept any more, a few more than are added. While takes follow each other, no start is older than
    -- this bound, so rows that were deleted but kept by an old snapshot are not read. The first take after a pause reads all.
    kept := tenon.limit_kept(key);
    DELETE FROM tenon.limit_start WHERE ctid = ANY (ARRAY(
        SELECT s.ctid FROM tenon.limit_start s
         WHERE s.key = key AND s.at < moment - kept
           AND s.at > CASE WHEN used = 0 THEN '-infinity' ELSE moment - kept - greatest(kept, interval '1 s') END
         ORDER BY s.at LIMIT CASE WHEN used = 0 THEN 10000 ELSE 100 END FOR UPDATE SKIP LOCKED));
    INSERT INTO tenon.limit_start (key, at, n) VALUES (key, clock_timestamp(), n);
    RETURN 0;
EXCEPTION WHEN lock_not_available OR deadlock_detected THEN  -- another session sets several rows in another order
    RETURN 100;
END $$;

CREATE FUNCTION tenon.take_limit_events(most integer, settled bigint) RETURNS text[]
    LANGUAGE plpgsql
    AS $$
DECLARE
    events tenon.limit_event[];
    keys   text[];
BEGIN
    WITH gone AS (
        DELETE FROM tenon.limit_event WHERE id = ANY (ARRAY(SELECT v.id FROM tenon.limit_event v WHERE v.id > settled ORDER BY v.id LIMIT most)) RETURNING *)
    SELECT array_agg(ROW(g.*)::tenon.limit_event ORDER BY g.id) INTO events FROM gone g;
    IF EXISTS (SELECT FROM unnest(events) e WHERE e.task_id IS NOT NULL) THEN
        PERFORM tenon.limit_settle_ends(ARRAY(SELECT e FROM unnest(events) e WHERE e.task_id IS NOT NULL));
    END IF;
    keys := ARRAY(SELECT DISTINCT k.key FROM unnest(events) e CROSS JOIN unnest(e.keys) k (key));
    IF EXISTS (SELECT FROM unnest(events) e WHERE e.changed) THEN
        PERFORM tenon.limit_spread(e.keys[1], e.keys[2], most) FROM unnest(events) e WHERE e.changed;
        keys := keys || tenon.take_limit_events(most, settled);
    END IF;
    RETURN keys;
END $$;

CREATE FUNCTION tenon.take_turn(worker uuid, queues text[], kinds text[]) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
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

CREATE FUNCTION tenon.tell_paused(queue text, paused boolean) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
BEGIN
    IF queue IS NULL THEN
        PERFORM pg_notify('tenon_wakeup', 'pause');
    ELSIF NOT paused THEN
        PERFORM pg_notify('tenon_wakeup', '');
    END IF;
END $$;

CREATE FUNCTION tenon.texts_in(value jsonb) RETURNS text[]
    LANGUAGE sql IMMUTABLE
    AS $_$
    SELECT CASE WHEN jsonb_typeof($1) = 'array' THEN ARRAY(SELECT jsonb_array_elements_text($1)) WHEN jsonb_typeof($1) <> 'null' THEN ARRAY[$1 #>> '{}'] END
$_$;

CREATE FUNCTION tenon.that_recorded(ids bigint[], from_step text, named boolean, OUT chosen bigint[]) RETURNS bigint[]
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    first record;
BEGIN
    WITH ended AS (
        SELECT d.id, d.step_names FROM tenon.dead d WHERE d.id = ANY (ids)
        UNION ALL
        SELECT e.id, e.step_names FROM tenon.history e WHERE e.id = ANY (ids)
    )
    SELECT ARRAY(SELECT e.id FROM ended e WHERE from_step = ANY (e.step_names) ORDER BY e.id) AS ids, f.id, f.step_names INTO first
      FROM (SELECT e.id, e.step_names FROM ended e ORDER BY e.id LIMIT 1) f;
    chosen := coalesce(first.ids, '{}');
    IF chosen = '{}' AND first.id IS NOT NULL AND named THEN
        PERFORM tenon.refuse_call(
            format('task %s has no step %L', first.id, left(from_step, 100)),
            coalesce('Its steps, in the order in which they were recorded: ' || left(array_to_string(first.step_names, ', '), 2000) || '.',
                     'It has recorded no steps: retry it without from_step.'));
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
    SET standard_conforming_strings TO 'on'
    AS $$
    SELECT to_char(moment AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"')
        || format(CASE WHEN moment > clock_timestamp() THEN ' (in %s)' ELSE ' (%s ago)' END,
                  make_interval(secs => round(abs(extract(epoch FROM moment - clock_timestamp())))))
$$;

CREATE FUNCTION tenon.turn_is_over(begun timestamp with time zone) RETURNS boolean
    LANGUAGE sql
    AS $_$ SELECT clock_timestamp() > $1 + interval '250 ms' $_$;

CREATE FUNCTION tenon.unblock(ids bigint[]) RETURNS bigint[]
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET lock_timeout TO '10 ms'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
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
                UPDATE tenon.suspect s SET due_at = clock_timestamp() FROM new WHERE s.task_id = ANY (ARRAY[new.id]) AND s.alone)
            SELECT coalesce(array_agg(new.id), '{}') INTO free FROM new;
            RETURN free;
        EXCEPTION WHEN lock_not_available THEN
            ids := ARRAY(SELECT b.id FROM tenon.task b WHERE b.id = ANY (ids) AND b.wanted_at IS NOT NULL
                          ORDER BY b.id FOR UPDATE SKIP LOCKED);
        END;
    END LOOP;
    RETURN '{}';
END $$;

CREATE FUNCTION tenon.undo_ids(ids bigint[]) RETURNS bigint[]
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $_$
    WITH gone AS (
        DELETE FROM tenon.task t
         WHERE t.id = ANY ($1) AND t.start_time IS NULL AND t.claims = (t.undo->>'claims')::integer
        RETURNING t.*, CASE WHEN tenon.needs_note(t) THEN tenon.record_end_of(t, keeps_steps => true) END AS kept
    ), died AS (
        INSERT INTO tenon.dead (dead_at, id, run_at, start_time, created_at, start_before, worker_id, timeout_ms, claims, failures, crashes,
                                max_attempts, priority, reason, queue, kind, payload, retry, trace, last_error, error_class, enqueued_by,
                                compensates, limit_keys, steps, step_names, step_times, progress, max_crashes, tags)
        SELECT u.dead_at, g.id, u.run_at, u.start_time, g.created_at, u.start_before, u.worker_id, g.timeout_ms, g.claims, u.failures, u.crashes,
               g.max_attempts, g.priority, u.reason, g.queue, g.kind, g.payload, g.retry, g.trace, g.last_error, g.error_class, g.enqueued_by,
               g.compensates, g.limit_keys, (g.kept).steps, (g.kept).names, (g.kept).times, g.progress, g.max_crashes, g.tags
          FROM gone g
         CROSS JOIN LATERAL jsonb_to_record(g.undo) u (dead_at timestamptz, reason text, failures integer, crashes integer, run_at timestamptz,
                                                       start_time timestamptz, start_before timestamptz, worker_id uuid)
        RETURNING dead.id)
    SELECT array_agg(d.id) FROM died d
$_$;

CREATE FUNCTION tenon.undo_retry_where(filter jsonb, most integer DEFAULT 10000, why text DEFAULT NULL::text) RETURNS bigint
    LANGUAGE sql
    AS $$ SELECT c.n FROM tenon.change('undo', filter, most => most, why => why) c $$;

CREATE FUNCTION tenon.unsync_one(what text, name text) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF tenon.synced(what, name) IS NULL THEN
        RETURN;
    END IF;
    CASE what
    WHEN 'queue' THEN
        PERFORM tenon.sync_one(what, name, '{}', NULL);
        DELETE FROM tenon.queue q WHERE q.name = unsync_one.name AND NOT q.limited;
    WHEN 'kind' THEN
        PERFORM tenon.sync_one(what, name, '{}', NULL);
        DELETE FROM tenon.kind k WHERE k.name = unsync_one.name AND NOT k.limited;
    WHEN 'limit' THEN
        PERFORM tenon.remove_limit(name);
    WHEN 'schedule' THEN
        PERFORM tenon.remove_schedule(name);
    END CASE;
END $$;

CREATE FUNCTION tenon.wait_refused(id bigint, step_count integer, step_bytes integer, signal text) RETURNS text
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $_$
    SELECT CASE WHEN coalesce(octet_length(signal), 0) NOT BETWEEN 1 AND 100 THEN 'the name of a signal must have 1 to 100 bytes'
                WHEN step_count IS NOT NULL AND EXISTS (SELECT FROM tenon.task_step s WHERE s.task_id = $1 AND s.name = $4)
                THEN format('the task cannot wait for %s: a step of that name is recorded already', signal)
                WHEN step_bytes > 1048576 OR step_count >= 1000
                THEN 'the task cannot wait: its steps have reached their limit, 1000 steps or 1 MiB' END
$_$;

CREATE FUNCTION tenon.wait_signal(claim text, signal text, timeout interval DEFAULT '365 days'::interval, OUT state text, OUT payload jsonb) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
#variable_conflict use_variable
DECLARE
    wait_ms_max constant bigint := 31536000000;
    wait_ms numeric := extract(epoch FROM timeout) * 1000;
    fence   record;
    held    record;
    refused text;
BEGIN
    fence := tenon.read_claim(claim);
    IF (wait_ms BETWEEN 1 AND wait_ms_max) IS NOT TRUE THEN
        PERFORM tenon.refuse('timeout', timeout::text, '1 millisecond to 365 days');
    END IF;
    SELECT t.queue, t.kind, t.step_count, t.step_bytes INTO held FROM tenon.task t
     WHERE t.id = fence.id AND t.claim_key = fence.key FOR UPDATE;
    PERFORM tenon.claim_must_hold(claim, fence.key, held.queue, held.kind);
    SELECT s.value INTO payload FROM tenon.task_step s
     WHERE held.step_count IS NOT NULL AND s.task_id = fence.id AND s.name = signal;
    IF NOT FOUND THEN
        refused := tenon.wait_refused(fence.id, held.step_count, held.step_bytes, signal);
        IF refused IS NOT NULL THEN
            PERFORM tenon.refuse_call(format('signal %s: %s', quote_nullable(left(signal, 100)), refused),
                                      CASE WHEN octet_length(signal) BETWEEN 1 AND 100 THEN 'Record fewer or smaller steps before: the signal becomes a step too.'
                                           ELSE 'Use a name of 1 to 100 bytes.' END);
        END IF;
        SELECT s.payload INTO payload FROM tenon.signal s WHERE s.name = signal;
        IF NOT FOUND THEN
            PERFORM tenon.requeue(ARRAY[fence.id], ARRAY[fence.key], '{wait_signal}', '{NULL}', ARRAY[wait_ms::bigint], '{NULL}', ARRAY[signal]);
            state := 'waits';
            RETURN;
        END IF;
        PERFORM tenon.put_step(fence.id, signal, payload) WHERE fence.key <> 0;
    END IF;
    payload := nullif(payload, 'null');
    state := CASE WHEN payload IS NULL THEN 'timed_out' ELSE 'came' END;
END $$;

CREATE FUNCTION tenon.wake(ids bigint[]) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
DECLARE
    ready bigint;
    words text;
BEGIN
    SELECT count(*), string_agg(DISTINCT t.queue || '/' || t.kind, ' ') INTO ready, words
      FROM tenon.task t WHERE t.id = ANY (ids) AND t.start_time IS NULL AND t.run_at <= clock_timestamp();
    IF words IS NOT NULL THEN
        PERFORM pg_notify('tenon_wakeup', CASE WHEN length(words) < 7000 THEN ready || ' ' || words ELSE ready::text END);
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

CREATE FUNCTION tenon.why_alone(t tenon.task, OUT code text, OUT sentence text, OUT advice text) RETURNS record
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    s tenon.suspect;
    ahead bigint;
BEGIN
    SELECT * INTO s FROM tenon.suspect x WHERE x.task_id = t.id;
    SELECT y.sentence, y.advice INTO sentence, advice FROM tenon.why_not_taken(t) y;
    code := 'suspected';
    IF sentence IS NULL AND s.due_at > clock_timestamp() THEN
        sentence := format('It is due at %s.', tenon.time_text(s.due_at));
        advice := format('to run it now: tenon set %s --run-at now', t.id);
    ELSIF sentence IS NULL THEN
        ahead := (SELECT count(*) FROM tenon.suspect o WHERE o.alone AND o.claims IS NULL AND o.due_at < s.due_at);
        sentence := format('It waits until the worker whose turn it is to run suspects has no other running task%s.',
                           CASE WHEN ahead > 0 THEN format('; suspects before it: %s', ahead) END);
        advice := 'nothing; if many tasks are suspects, fix what crashes, or start more workers';
    END IF;
    sentence := concat(tenon.why_suspected(t), ', without other tasks in its worker, so that a crash can only be its own (the last crash: ',
                       left(tenon.error_line(t.last_error), 200), '). ', sentence);
END $$;

CREATE FUNCTION tenon.why_blocked(t tenon.task, OUT code text, OUT sentence text, OUT advice text) RETURNS record
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
DECLARE
    failing text;
BEGIN
    SELECT * INTO code, sentence, advice FROM tenon.why_waiting(t);
    IF NOT tenon.cleaner_leads() THEN
        sentence := sentence || ' No cleaner leads, and without one blocked tasks stay blocked.';
        advice := 'start one: tenon cleaner; then ask again';
        RETURN;
    END IF;
    failing := tenon.failing_chores('settle');
    IF failing IS NOT NULL THEN
        sentence := format('%s Blocked tasks stay blocked until a cleaner can settle: %s.', sentence, failing);
        advice := 'fix the error that PostgreSQL reports; the cleaner retries by itself';
    END IF;
END $$;

CREATE FUNCTION tenon.why_ended(id bigint, OUT code text, OUT sentence text, OUT advice text) RETURNS record
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    d tenon.dead;
    f tenon.history;
BEGIN
    code := 'ended';
    SELECT * INTO d FROM tenon.dead x WHERE x.id = why_ended.id;
    IF FOUND THEN
        sentence := format('Dead since %s: %s%s.', tenon.time_text(d.dead_at),
            CASE d.reason WHEN 'failures' THEN format('failed %s (max_attempts %s)', CASE d.failures WHEN 1 THEN 'once' ELSE d.failures || ' times' END, d.max_attempts)
                          WHEN 'crashes' THEN format('crashed %s times, the last time without other tasks in its worker', d.crashes)
                          WHEN 'timeout' THEN 'it ran past its timeout, and on_timeout of its kind is dead'
                          ELSE 'the handler said that it can never work' END, ': ' || left(tenon.error_line(d.last_error), 200));
        advice := format('once the cause is fixed: tenon retry %s', d.id);
        RETURN;
    END IF;
    SELECT * INTO f FROM tenon.history x WHERE x.id = why_ended.id ORDER BY x.finished_at DESC LIMIT 1;
    IF FOUND THEN
        sentence := format('It %s at %s.', CASE f.outcome WHEN 'done' THEN 'ended well' WHEN 'expired' THEN 'expired: it was ' || f.last_error || '; noticed'
                                                          ELSE 'was ' || coalesce(f.last_error, 'cancelled') END,
                           tenon.time_text(f.finished_at));
        RETURN;
    END IF;
    code := 'absent';
    sentence := format('There is no task %s: it was never enqueued, its transaction has not committed or was rolled back, or it ended and its history was deleted.', id);
    advice := 'the transaction that enqueued it may still be open; ended tasks are kept for history_keep of tenon.setting';
END $$;

CREATE FUNCTION tenon.why_limited(task_id bigint, keys text[], OUT code text, OUT sentence text, OUT advice text) RETURNS record
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
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
        advice := format('to run it now: tenon set %s --run-at now', w.task_id);
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
        advice := coalesce(instead, CASE WHEN r.has_room AND n = 0 THEN 'nothing: it is released within a second; otherwise run tenon doctor' END, r.advice);
    END IF;
END $$;

CREATE FUNCTION tenon.why_next(t tenon.task) RETURNS text
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
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
    SET standard_conforming_strings TO 'on'
    AS $$
DECLARE
    p tenon.paused;
    h record := tenon.handled(t.queue, t.kind);
BEGIN
    sentence := tenon.copied();
    IF sentence IS NOT NULL THEN
        code := 'copied';
        sentence := format('No worker claims tasks here: %s.', sentence);
        advice := 'if tasks should run in this copy: tenon adopt';
        RETURN;
    END IF;
    SELECT * INTO p FROM tenon.paused v
     WHERE v.what = 'everything' OR v.what = 'queue' AND v.name = t.queue OR v.what = 'kind' AND v.name = t.kind
     ORDER BY array_position('{everything,queue,kind}', v.what) LIMIT 1;
    IF FOUND THEN
        code := p.what || '_paused';
        sentence := tenon.pause_sentence(p);
        sentence := upper(left(sentence, 1)) || substr(sentence, 2) || '.';
        advice := tenon.pause_advice(p);
    ELSIF h.workers = 0 THEN
        code := 'no_worker';
        sentence := format('No living worker handles the kind %s in the queue %s; %s.', t.kind, t.queue,
            (SELECT CASE count(*) WHEN 0 THEN 'no worker is alive'
                    ELSE 'the living workers serve ' || left(string_agg(format('%s/%s%s', array_to_string(w.queues, ','), array_to_string(w.kinds, ','),
                                                                    CASE w.state WHEN 'draining' THEN ' (draining)' END), ' and ' ORDER BY w.started_at), 300) END
               FROM tenon.worker w WHERE w.ended_at IS NULL AND w.state IN ('alive', 'draining')));
        advice := format('start one: tenon worker --queues %s --handler ''%s=...''', t.queue, t.kind);
    ELSIF h.backs_off IS NOT NULL THEN
        code := 'handler_backs_off';
        sentence := format('The handler of the kind %s does not start and backs off %s.', t.kind, h.backs_off);
        advice := 'fix the handler; the worker retries by itself';
    ELSIF h.fails IS NOT NULL THEN
        code := 'worker_fails';
        sentence := format('No worker that handles the kind %s can claim it: transactions with PostgreSQL keep failing on %s.', t.kind, h.fails);
        advice := 'fix the error that PostgreSQL reports; the workers retry by themselves';
    ELSIF h.starts IS NOT NULL THEN
        code := 'handler_starting';
        sentence := format('It waits for a child of its handler, which has been starting %s.', h.starts);
        advice := 'nothing, if this is normal for the application; the limit is start_limit of the handlers file, or --start-limit';
    END IF;
END $$;

CREATE FUNCTION tenon.why_of(id bigint, OUT code text, OUT sentence text, OUT advice text) RETURNS record
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
DECLARE
    t tenon.task;
BEGIN
    SELECT * INTO t FROM tenon.task x WHERE x.id = why_of.id;
    PERFORM tenon.must_see(id, coalesce(t.enqueued_by, (SELECT k.enqueued_by FROM tenon.tasks k WHERE k.id = why_of.id LIMIT 1)))
      WHERE NOT tenon.may_see(coalesce(t.enqueued_by, ''));
    IF t.id IS NOT NULL THEN
        SELECT * INTO code, sentence, advice FROM tenon.why_unfinished(t);
        sentence := sentence || coalesce(tenon.why_next(t), '')
            || coalesce((SELECT format(' Cleaners leave it out until %s: %s.', tenon.time_text(a.until), a.error)
                           FROM tenon.set_aside a WHERE a.id = t.id AND a.part IN ('expire', 'recover')), '');
    ELSE
        SELECT * INTO code, sentence, advice FROM tenon.why_ended(id);
    END IF;
END $$;

CREATE FUNCTION tenon.why_one_of(ids bigint[], OUT sentence text, OUT advice text) RETURNS record
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
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
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    p record;
    y record;
    root bigint;
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
        IF p.bad IS NULL THEN
            root := tenon.bad_ancestor(t.id);
        END IF;
        code := 'waits_for_parents';
        sentence := format('It waits for %s: %s%s.%s', CASE p.n WHEN 1 THEN 'a parent' ELSE p.n || ' parents' END, p.some,
                           CASE WHEN p.n > 3 THEN ' and others' END, CASE WHEN root IS NULL THEN y.sentence ELSE format(' Before them, task %s did not end well.', root) END);
        advice := CASE WHEN p.gone THEN format('tenon cancel %s, because that parent can no longer be retried', t.id)
                       WHEN p.bad IS NOT NULL THEN format('tenon retry %s, or tenon cancel %s', p.bad, t.id)
                       WHEN root IS NOT NULL THEN format('see tenon why %s; then tenon retry %s, or tenon flow cancel %s', root, root, t.flow)
                       WHEN y.advice IS NOT NULL THEN y.advice
                       WHEN p.live IS NOT NULL THEN format('tenon why %s explains that parent, tenon flow %s shows the whole flow', p.live[1], t.flow)
                       ELSE format('nothing; tenon flow %s shows the whole flow', t.flow) END;
    END IF;
END $$;

CREATE FUNCTION tenon.why_ready(t tenon.task, OUT code text, OUT sentence text, OUT advice text) RETURNS record
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
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
    sentence := format('It has been ready since %s and waits for a free slot, %s, %s of them with a higher priority%s.',
                       tenon.time_text(t.run_at), tenon.behind_text(a.n, a.more), a.higher,
                       CASE WHEN s.running >= s.slots THEN format('; the workers that serve it run %s tasks in %s slots', s.running, s.slots) END);
    advice := concat(CASE WHEN s.running < s.slots AND a.n = 0 THEN 'nothing, if it starts within a second; otherwise run tenon doctor, ' END,
                     'add slots or workers', CASE WHEN a.n > 0 AND t.priority < 9 THEN format(', or tenon set %s --priority 9', t.id) END);
END $$;

CREATE FUNCTION tenon.why_suspected(t tenon.task) RETURNS text
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $_$
    SELECT format('It is suspected: it has crashed %s %s%s; %s', s.crashes, CASE s.crashes WHEN 1 THEN 'time' ELSE 'times' END,
                  CASE WHEN s.crashes > 1 THEN ' in a row' END,
                  CASE WHEN s.claims IS NULL THEN 'it runs alone next' ELSE 'it runs alone now' END)
      FROM tenon.suspect s WHERE s.task_id = ($1).id AND s.alone
$_$;

CREATE FUNCTION tenon.why_unfinished(t tenon.task, OUT code text, OUT sentence text, OUT advice text) RETURNS record
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
DECLARE
    w tenon.worker;
    starts text;
BEGIN
    IF t.start_time IS NOT NULL THEN
        SELECT * INTO w FROM tenon.worker r WHERE r.id = t.worker_id;
        starts := (SELECT s.text FROM tenon.starting_of(w.starting) s WHERE w.ended_at IS NULL AND t.kind = ANY (s.kinds));
        code := CASE WHEN starts IS NULL THEN 'running' ELSE 'handler_starting' END;
        sentence := format(CASE WHEN starts IS NULL THEN 'It runs on %s%s, claimed %s, and must end by %s.'
                                ELSE format('It does not run yet: %%s%%s, claimed it %%s, and a child of its handler has been starting there %s.', replace(starts, '%', '%%')) END, coalesce(w.host, 'an unknown worker'), ', pid ' || w.pid,
                           tenon.time_text(t.start_time), tenon.time_text(t.start_time + t.timeout_ms * interval '1 ms'));
        advice := CASE WHEN w.ended_at IS NOT NULL OR w.id IS NULL
                       THEN 'that worker is gone; a cleaner requeues the task within a minute' || tenon.without_cleaner('recover')
                       ELSE format('tenon cancel %s stops it', t.id) END;
        sentence := concat_ws(' ', sentence, tenon.why_suspected(t) || '.');
    ELSIF t.start_before <= clock_timestamp() THEN
        code := 'ended';
        sentence := format('It has expired: it did not start before %s.', tenon.time_text(t.start_before));
        advice := 'a cleaner moves it to the history within a second' || tenon.without_cleaner('settle');
    ELSIF t.wanted_at IS NOT NULL THEN
        SELECT * INTO code, sentence, advice FROM tenon.why_blocked(t);
        sentence := concat_ws(' ', sentence, tenon.why_suspected(t) || '.',
                              CASE WHEN t.failures > 0 THEN format('It has failed before (%s of %s): %s.', t.failures, t.max_attempts,
                                                                   left(tenon.error_line(t.last_error), 200)) END);
    ELSIF t.run_at = 'infinity' THEN
        SELECT * INTO code, sentence, advice FROM tenon.why_alone(t);
    ELSIF t.run_at <= clock_timestamp() THEN
        SELECT * INTO code, sentence, advice FROM tenon.why_ready(t);
    ELSE
        code := 'not_due';
        sentence := format('It is due at %s%s.', tenon.time_text(t.run_at),
                           CASE WHEN t.failures > 0 THEN format(', after failure %s of %s: %s', t.failures, t.max_attempts, left(tenon.error_line(t.last_error), 200))
                                WHEN t.crashes > 0 THEN format(', after a crash: %s', left(tenon.error_line(t.last_error), 200)) END);
        advice := format('to run it now: tenon run-now %s', t.id);
    END IF;
END $$;

CREATE FUNCTION tenon.why_waiting(t tenon.task, OUT code text, OUT sentence text, OUT advice text) RETURNS record
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
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
    sentence := 'It is blocked, but no parent, limit or signal is recorded that it waits for.';
    advice := 'a cleaner unblocks it within a second';
END $$;

CREATE FUNCTION tenon.with_parents(task bigint, payload jsonb, bytes_max integer) RETURNS jsonb
    LANGUAGE plpgsql STABLE
    AS $$
DECLARE
    names   text[] := '{}';
    results jsonb[] := '{}';
    bytes   bigint := 0;
    r       record;
BEGIN
    FOR r IN SELECT coalesce(o.name, o.id::text) AS name, o.result FROM tenon.results_of(task) o LOOP
        bytes := bytes + octet_length(r.name) + coalesce(octet_length(r.result::text), 4);
        IF bytes > bytes_max THEN
            RETURN NULL;
        END IF;
        names := names || r.name;
        results := results || r.result;
    END LOOP;
    payload := jsonb_set(payload, '{parents}', (SELECT jsonb_object_agg(u.n, u.r) FROM unnest(names, results) u (n, r)));
    RETURN CASE WHEN tenon.printed_bytes(payload) <= bytes_max THEN payload END;
END $$;

CREATE FUNCTION tenon.without_cleaner(VARIADIC chores text[]) RETURNS text
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
    SELECT CASE WHEN tenon.cleaner_leads() THEN coalesce(', but ' || tenon.failing_chores(VARIADIC chores), '')
                ELSE ', but none leads; start one: tenon cleaner' END
$$;

CREATE FUNCTION tenon.zone_offset(zone text, moment timestamp with time zone) RETURNS interval
    LANGUAGE sql STABLE
    AS $$ SELECT (moment AT TIME ZONE zone) - (moment AT TIME ZONE 'UTC') $$;

CREATE SEQUENCE tenon.again_cursor
    START WITH 0
    INCREMENT BY 1
    MINVALUE 0
    NO MAXVALUE
    CACHE 1;

ALTER TABLE tenon.again ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME tenon.again_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE tenon.again_note (
    id bigint DEFAULT nextval('tenon.note_id'::regclass) NOT NULL,
    unique_key text NOT NULL,
    kind text NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0.01', autovacuum_vacuum_cost_delay='0');

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
    task.limit_keys,
    task.tags,
    (task.claims = ((task.undo ->> 'claims'::text))::integer) AS undo
   FROM tenon.task
UNION ALL
 SELECT 'history'::text AS place,
    history.id,
    (history.outcome)::text AS ended,
    history.start_time,
    history.run_at,
    (history.failures + history.crashes) AS failed,
    history.finished_at AS since,
    history.queue,
    history.kind,
    history.unique_key,
    history.trace,
    NULL::text AS error_class,
    history.enqueued_by,
    history.payload,
    NULL::timestamp with time zone AS start_before,
    NULL::timestamp with time zone AS wanted_at,
    history.limit_keys,
    history.tags,
    NULL::boolean AS undo
   FROM tenon.history
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
    dead.limit_keys,
    dead.tags,
    NULL::boolean AS undo
   FROM tenon.dead;

CREATE SEQUENCE tenon.attempt_part
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE TABLE tenon.attempt (
    ended_at timestamp with time zone NOT NULL,
    task_id bigint NOT NULL,
    attempt integer NOT NULL,
    claims integer NOT NULL,
    part integer DEFAULT pg_sequence_last_value('tenon.attempt_part'::regclass) NOT NULL,
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
PARTITION BY LIST (part);

ALTER TABLE ONLY tenon.attempt REPLICA IDENTITY FULL;

CREATE TABLE tenon.attempt_1 (
    ended_at timestamp with time zone NOT NULL,
    task_id bigint NOT NULL,
    attempt integer NOT NULL,
    claims integer NOT NULL,
    part integer DEFAULT pg_sequence_last_value('tenon.attempt_part'::regclass) NOT NULL,
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

ALTER TABLE ONLY tenon.attempt_1 REPLICA IDENTITY FULL;

CREATE TABLE tenon.attempt_2 (
    ended_at timestamp with time zone NOT NULL,
    task_id bigint NOT NULL,
    attempt integer NOT NULL,
    claims integer NOT NULL,
    part integer DEFAULT pg_sequence_last_value('tenon.attempt_part'::regclass) NOT NULL,
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

ALTER TABLE ONLY tenon.attempt_2 REPLICA IDENTITY FULL;

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

CREATE TABLE tenon.chore_failure (
    chore text NOT NULL,
    since timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    host text NOT NULL,
    pid integer NOT NULL,
    error text NOT NULL,
    CONSTRAINT chore_failure_error_check CHECK ((length(error) <= 1000))
);

CREATE TABLE tenon.depth (
    queue text NOT NULL,
    kind text NOT NULL,
    ready bigint NOT NULL,
    running bigint NOT NULL,
    scheduled bigint NOT NULL,
    retrying bigint NOT NULL,
    blocked bigint NOT NULL,
    dead bigint NOT NULL,
    oldest_ready timestamp with time zone
);

CREATE TABLE tenon.depth_count (
    one boolean DEFAULT true NOT NULL,
    counted_at timestamp with time zone NOT NULL,
    took_ms bigint NOT NULL,
    CONSTRAINT depth_count_one_check CHECK (one)
);

CREATE TABLE tenon.set_aside (
    part text NOT NULL,
    id bigint NOT NULL,
    most integer,
    tries integer DEFAULT 1 NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    until timestamp with time zone NOT NULL,
    error text NOT NULL,
    CONSTRAINT set_aside_error_check CHECK ((length(error) <= 8192)),
    CONSTRAINT set_aside_most_check CHECK ((most > 0)),
    CONSTRAINT set_aside_part_check CHECK ((part = ANY (ARRAY['expire'::text, 'again'::text, 'flows'::text, 'signals'::text, 'limits'::text, 'recover'::text])))
);

CREATE TABLE tenon.worker (
    id uuid DEFAULT gen_random_uuid() NOT NULL,
    lock_key bigint DEFAULT tenon.random_key() NOT NULL,
    host text NOT NULL,
    pid integer NOT NULL,
    slots integer NOT NULL,
    queues text[] NOT NULL,
    kinds text[] NOT NULL,
    version text DEFAULT ''::text NOT NULL,
    release text,
    state text DEFAULT 'alive'::text NOT NULL,
    started_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    ended_at timestamp with time zone,
    backing_off text,
    starting text,
    rounds_failing text,
    broker_away text,
    alone_since timestamp with time zone,
    CONSTRAINT worker_state_check CHECK ((state = ANY (ARRAY['alive'::text, 'draining'::text, 'left'::text, 'dead'::text])))
);

CREATE VIEW tenon.failing AS
 SELECT
        CASE f.chore
            WHEN 'broker'::text THEN 'broker'::text
            ELSE 'chore'::text
        END AS what,
    f.chore AS name,
    f.host,
    f.pid,
    f.since,
    f.error,
        CASE f.chore
            WHEN 'broker'::text THEN format('the cleaner on %s, pid %s, has had no RabbitMQ since %s: %s'::text, f.host, f.pid, s.since, f.error)
            ELSE format('the chore %s of the cleaner on %s, pid %s, has failed since %s: %s'::text, f.chore, f.host, f.pid, s.since, f.error)
        END AS sentence
   FROM (tenon.chore_failure f
     CROSS JOIN LATERAL to_char((f.since AT TIME ZONE 'UTC'::text), 'YYYY-MM-DD HH24:MI:SS "UTC"'::text) s(since))
  WHERE (f.at > (clock_timestamp() - '00:01:00'::interval))
UNION ALL
 SELECT t.what,
    NULL::text AS name,
    w.host,
    w.pid,
    NULL::timestamp with time zone AS since,
    t.error,
    format(t.sentence, w.host, w.pid, t.error) AS sentence
   FROM (tenon.worker w
     CROSS JOIN LATERAL ( VALUES ('rounds'::text,w.rounds_failing,'transactions with PostgreSQL keep failing in the worker on %s, pid %s: %s'::text), ('broker'::text,w.broker_away,'the worker on %s, pid %s, has no RabbitMQ: %s'::text), ('handler'::text,w.backing_off,'in the worker on %s, pid %s, a handler does not start: %s'::text)) t(what, error, sentence))
  WHERE ((w.ended_at IS NULL) AND (t.error IS NOT NULL))
UNION ALL
 SELECT 'set_aside'::text AS what,
    a.part AS name,
    NULL::text AS host,
    NULL::integer AS pid,
    a.at AS since,
    a.error,
        CASE a.id
            WHEN 0 THEN format('the part %s of settling takes %s rows at a time, because more took too long: %s'::text, a.part, a.most, a.error)
            ELSE format('the part %s of settling leaves out the %s %s until %s, because it took too long or could not be stored: %s'::text, a.part,
            CASE a.part
                WHEN 'flows'::text THEN 'row of tenon.flow_note'::text
                WHEN 'again'::text THEN 'row of tenon.again'::text
                ELSE 'task'::text
            END, a.id, to_char((a.until AT TIME ZONE 'UTC'::text), 'YYYY-MM-DD HH24:MI:SS "UTC"'::text), a.error)
        END AS sentence
   FROM tenon.set_aside a;

CREATE SEQUENCE tenon.flow_cursor
    START WITH 0
    INCREMENT BY 1
    MINVALUE 0
    NO MAXVALUE
    CACHE 1;

ALTER TABLE tenon.flow ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME tenon.flow_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE tenon.flow_note (
    id bigint DEFAULT nextval('tenon.note_id'::regclass) NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL,
    flow bigint NOT NULL,
    task bigint,
    act text,
    beyond bigint
)
WITH (autovacuum_vacuum_scale_factor='0.01', autovacuum_vacuum_cost_delay='0');

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

CREATE TABLE tenon.history_1 (
    finished_at timestamp with time zone NOT NULL,
    id bigint NOT NULL,
    run_at timestamp with time zone NOT NULL,
    start_time timestamp with time zone,
    created_at timestamp with time zone NOT NULL,
    worker_id uuid,
    claims integer NOT NULL,
    failures integer NOT NULL,
    crashes integer NOT NULL,
    part integer DEFAULT pg_sequence_last_value('tenon.history_part'::regclass) NOT NULL,
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
    step_names text[],
    step_times timestamp with time zone[],
    timeout_ms bigint,
    max_attempts integer,
    retry text,
    progress jsonb,
    max_crashes integer,
    tags text[]
);

ALTER TABLE ONLY tenon.history_1 REPLICA IDENTITY FULL;

CREATE TABLE tenon.history_2 (
    finished_at timestamp with time zone NOT NULL,
    id bigint NOT NULL,
    run_at timestamp with time zone NOT NULL,
    start_time timestamp with time zone,
    created_at timestamp with time zone NOT NULL,
    worker_id uuid,
    claims integer NOT NULL,
    failures integer NOT NULL,
    crashes integer NOT NULL,
    part integer DEFAULT pg_sequence_last_value('tenon.history_part'::regclass) NOT NULL,
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
    step_names text[],
    step_times timestamp with time zone[],
    timeout_ms bigint,
    max_attempts integer,
    retry text,
    progress jsonb,
    max_crashes integer,
    tags text[]
);

ALTER TABLE ONLY tenon.history_2 REPLICA IDENTITY FULL;

CREATE TABLE tenon.intake (
    queue text NOT NULL,
    host text NOT NULL,
    pid integer NOT NULL,
    is_stream boolean NOT NULL,
    version text NOT NULL,
    started_at timestamp with time zone NOT NULL,
    seen_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    taken bigint NOT NULL,
    repeated bigint NOT NULL,
    rejected bigint NOT NULL,
    kept bigint NOT NULL,
    unkeyed bigint NOT NULL,
    rejected_at timestamp with time zone,
    unkeyed_at timestamp with time zone,
    error text,
    error_since timestamp with time zone
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
    max_crashes integer,
    timeout_min_ms bigint DEFAULT 1 NOT NULL,
    limit_keys text[],
    history_keep interval,
    dead_keep interval,
    limited boolean DEFAULT false NOT NULL,
    CONSTRAINT kind_dead_keep_check CHECK (tenon.is_span(dead_keep, (3600)::numeric, ('31536000000'::bigint)::numeric)),
    CONSTRAINT kind_history_keep_check CHECK (tenon.is_span(history_keep, (3600)::numeric, ('31536000000'::bigint)::numeric)),
    CONSTRAINT kind_max_attempts_check CHECK (((max_attempts >= 1) AND (max_attempts <= 1000))),
    CONSTRAINT kind_max_crashes_check CHECK (((max_crashes >= 2) AND (max_crashes <= 100))),
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
    max_running integer,
    max_starts integer,
    per interval,
    strict boolean,
    when_dead text,
    fair boolean,
    weight integer,
    until timestamp with time zone,
    CONSTRAINT limit_check CHECK (((max_starts IS NULL) = (per IS NULL))),
    CONSTRAINT limit_max_running_check CHECK (((max_running >= 1) AND (max_running <= 1000000))),
    CONSTRAINT limit_max_starts_check CHECK (((max_starts >= 1) AND (max_starts <= 10000))),
    CONSTRAINT limit_name_check CHECK (((name ~ '^[^[:space:][:cntrl:]]+$'::text) AND (length(name) <= 200))),
    CONSTRAINT limit_per_check CHECK (tenon.is_span(per, 0.1, (2678400)::numeric)),
    CONSTRAINT limit_weight_check CHECK (((weight >= 1) AND (weight <= 1000))),
    CONSTRAINT limit_when_dead_check CHECK ((when_dead = ANY (ARRAY['block'::text, 'skip'::text])))
);

CREATE TABLE tenon.limit_due (
    key text NOT NULL COLLATE pg_catalog."C",
    due_at timestamp with time zone NOT NULL,
    why text
);

CREATE TABLE tenon.limit_start (
    key text NOT NULL COLLATE pg_catalog."C",
    at timestamp with time zone NOT NULL,
    n integer NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0.01', autovacuum_vacuum_cost_delay='0');

ALTER TABLE ONLY tenon.limit_start REPLICA IDENTITY FULL;

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
    r.max_running,
    r.max_starts,
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
         SELECT paused.name
           FROM tenon.paused
          WHERE (paused.what = 'limit'::text)
        UNION
         SELECT limit_task.key
           FROM tenon.limit_task) k
     CROSS JOIN LATERAL tenon.limit_rule(k.key) r(rule, max_running, max_starts, per, strict, when_dead, share, weight, paused, until))
     LEFT JOIN ( SELECT l.key,
            count(*) FILTER (WHERE ((t.start_time IS NOT NULL) OR (l.state = 'ending'::text))) AS running,
            count(*) FILTER (WHERE ((l.state = 'held'::text) AND (t.start_time IS NULL))) AS ready,
            count(*) FILTER (WHERE (l.state = ANY (ARRAY['waits'::text, 'later'::text, 'elsewhere'::text, 'parked'::text]))) AS waiting,
            count(*) FILTER (WHERE (l.state = 'dead'::text)) AS dead
           FROM (tenon.limit_task l
             LEFT JOIN tenon.task t ON (((t.id = l.task_id) AND (l.state = 'held'::text))))
          GROUP BY l.key) n ON ((n.key = k.key)));

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

CREATE SEQUENCE tenon.log_line_part
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE TABLE tenon.log_line (
    id bigint NOT NULL,
    task_id bigint NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    attempt integer NOT NULL,
    part integer DEFAULT pg_sequence_last_value('tenon.log_line_part'::regclass) NOT NULL,
    level text NOT NULL,
    message text NOT NULL,
    fields jsonb,
    CONSTRAINT log_line_level_check CHECK ((level = ANY (ARRAY['error'::text, 'warning'::text, 'info'::text, 'debug'::text])))
)
PARTITION BY LIST (part);

ALTER TABLE ONLY tenon.log_line REPLICA IDENTITY FULL;

CREATE TABLE tenon.log_line_1 (
    id bigint NOT NULL,
    task_id bigint NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    attempt integer NOT NULL,
    part integer DEFAULT pg_sequence_last_value('tenon.log_line_part'::regclass) NOT NULL,
    level text NOT NULL,
    message text NOT NULL,
    fields jsonb,
    CONSTRAINT log_line_level_check CHECK ((level = ANY (ARRAY['error'::text, 'warning'::text, 'info'::text, 'debug'::text])))
);

ALTER TABLE ONLY tenon.log_line_1 REPLICA IDENTITY FULL;

CREATE TABLE tenon.log_line_2 (
    id bigint NOT NULL,
    task_id bigint NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    attempt integer NOT NULL,
    part integer DEFAULT pg_sequence_last_value('tenon.log_line_part'::regclass) NOT NULL,
    level text NOT NULL,
    message text NOT NULL,
    fields jsonb,
    CONSTRAINT log_line_level_check CHECK ((level = ANY (ARRAY['error'::text, 'warning'::text, 'info'::text, 'debug'::text])))
);

ALTER TABLE ONLY tenon.log_line_2 REPLICA IDENTITY FULL;

ALTER TABLE tenon.log_line ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME tenon.log_line_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE tenon.message ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME tenon.message_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE SEQUENCE tenon.message_sent_part
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE TABLE tenon.message_sent (
    sent_at timestamp with time zone NOT NULL,
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    part integer DEFAULT pg_sequence_last_value('tenon.message_sent_part'::regclass) NOT NULL,
    exchange text NOT NULL,
    routing_key text NOT NULL,
    order_key text,
    message_id text NOT NULL,
    content_type text NOT NULL,
    headers jsonb,
    properties jsonb,
    trace text,
    published_by text NOT NULL,
    body bytea NOT NULL
)
PARTITION BY LIST (part);

ALTER TABLE ONLY tenon.message_sent REPLICA IDENTITY FULL;

CREATE TABLE tenon.message_sent_1 (
    sent_at timestamp with time zone NOT NULL,
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    part integer DEFAULT pg_sequence_last_value('tenon.message_sent_part'::regclass) NOT NULL,
    exchange text NOT NULL,
    routing_key text NOT NULL,
    order_key text,
    message_id text NOT NULL,
    content_type text NOT NULL,
    headers jsonb,
    properties jsonb,
    trace text,
    published_by text NOT NULL,
    body bytea NOT NULL
);

ALTER TABLE ONLY tenon.message_sent_1 REPLICA IDENTITY FULL;

CREATE TABLE tenon.message_sent_2 (
    sent_at timestamp with time zone NOT NULL,
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    part integer DEFAULT pg_sequence_last_value('tenon.message_sent_part'::regclass) NOT NULL,
    exchange text NOT NULL,
    routing_key text NOT NULL,
    order_key text,
    message_id text NOT NULL,
    content_type text NOT NULL,
    headers jsonb,
    properties jsonb,
    trace text,
    published_by text NOT NULL,
    body bytea NOT NULL
);

ALTER TABLE ONLY tenon.message_sent_2 REPLICA IDENTITY FULL;

CREATE TABLE tenon.migration (
    version integer NOT NULL,
    name text NOT NULL,
    breaking boolean NOT NULL,
    applied_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

CREATE TABLE tenon.minute (
    minute timestamp with time zone NOT NULL,
    queue text NOT NULL,
    kind text NOT NULL,
    worker_id uuid NOT NULL,
    started bigint DEFAULT 0 NOT NULL,
    ended bigint DEFAULT 0 NOT NULL,
    done bigint DEFAULT 0 NOT NULL,
    failed bigint DEFAULT 0 NOT NULL,
    dead bigint DEFAULT 0 NOT NULL,
    wait_us bigint DEFAULT 0 NOT NULL,
    run_us bigint DEFAULT 0 NOT NULL,
    waits integer[] DEFAULT '{}'::integer[] NOT NULL,
    runs integer[] DEFAULT '{}'::integer[] NOT NULL
);

CREATE TABLE tenon.partition (
    parent text NOT NULL,
    part integer NOT NULL,
    begun_at timestamp with time zone NOT NULL,
    swept text[] DEFAULT '{}'::text[] NOT NULL,
    CONSTRAINT partition_parent_check CHECK ((parent = ANY (ARRAY['history'::text, 'attempt'::text, 'message_sent'::text, 'log_line'::text])))
);

CREATE TABLE tenon.producer (
    role regrole NOT NULL,
    queues text[],
    kinds text[]
);

CREATE TABLE tenon.publisher (
    role regrole NOT NULL,
    exchanges text[] NOT NULL
);

CREATE TABLE tenon.queue (
    name text NOT NULL,
    priority smallint,
    max_attempts integer,
    timeout_ms bigint,
    retry text,
    limited boolean DEFAULT false NOT NULL,
    CONSTRAINT queue_max_attempts_check CHECK (((max_attempts >= 1) AND (max_attempts <= 1000))),
    CONSTRAINT queue_name_check CHECK ((name ~ '^[a-z0-9_][a-z0-9_.-]{0,62}$'::text)),
    CONSTRAINT queue_priority_check CHECK (((priority >= 0) AND (priority <= 9))),
    CONSTRAINT queue_retry_check CHECK (tenon.is_retry(retry)),
    CONSTRAINT queue_timeout_ms_check CHECK (((timeout_ms >= 1) AND (timeout_ms <= '2592000000'::bigint)))
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
    t.claim_key,
    t.start_before,
    t.worker_id,
    t.step_count,
    t.step_bytes,
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
    t.watched,
    t.max_crashes,
    t.tags,
    t.undo
   FROM tenon.task t
  WHERE ((t.start_time IS NULL) AND (t.run_at <= clock_timestamp()) AND COALESCE((t.start_before > clock_timestamp()), true) AND (NOT (EXISTS ( SELECT
           FROM tenon.paused p
          WHERE ((p.what = 'queue'::text) AND (p.name = t.queue))))) AND (NOT (EXISTS ( SELECT
           FROM tenon.paused p
          WHERE ((p.what = 'kind'::text) AND (p.name = t.kind))))) AND (NOT (EXISTS ( SELECT
           FROM tenon.paused p
          WHERE (p.what = 'everything'::text)))));

CREATE TABLE tenon.relay (
    one boolean DEFAULT true NOT NULL,
    token bigint DEFAULT 0 NOT NULL,
    CONSTRAINT relay_one_check CHECK (one)
);

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
            WHEN (p.name IS NOT NULL) THEN 'paused'::text
            WHEN (s.last_error IS NOT NULL) THEN 'failing'::text
            ELSE 'active'::text
        END AS state,
        CASE
            WHEN (p.name IS NULL) THEN s.next_at
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
    s.set_at,
    p.paused_by,
    p.paused_at,
    p.paused_why
   FROM (tenon.schedule s
     LEFT JOIN tenon.paused p ON (((p.what = 'schedule'::text) AND (p.name = s.name))));

CREATE TABLE tenon.seen (
    message_id text NOT NULL COLLATE pg_catalog."C",
    consumer text NOT NULL COLLATE pg_catalog."C",
    until timestamp with time zone NOT NULL
);

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

CREATE SEQUENCE tenon.signal_cursor
    START WITH 0
    INCREMENT BY 1
    MINVALUE 0
    NO MAXVALUE
    CACHE 1;

CREATE TABLE tenon.stream_place (
    stream text NOT NULL,
    next_offset bigint DEFAULT 0 NOT NULL,
    taken_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
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

CREATE SEQUENCE tenon.until_cursor
    START WITH 0
    INCREMENT BY 1
    MINVALUE 0
    NO MAXVALUE
    CACHE 1;

CREATE TABLE tenon.waiting (
    task_id bigint NOT NULL,
    signal text NOT NULL,
    until timestamp with time zone NOT NULL,
    settled boolean DEFAULT false NOT NULL
);

CREATE SEQUENCE tenon.waiting_cursor
    START WITH 0
    INCREMENT BY 1
    MINVALUE 0
    NO MAXVALUE
    CACHE 1;

ALTER TABLE ONLY tenon.attempt ATTACH PARTITION tenon.attempt_1 FOR VALUES IN (1);

ALTER TABLE ONLY tenon.attempt ATTACH PARTITION tenon.attempt_2 FOR VALUES IN (2);

ALTER TABLE ONLY tenon.history ATTACH PARTITION tenon.history_1 FOR VALUES IN (1);

ALTER TABLE ONLY tenon.history ATTACH PARTITION tenon.history_2 FOR VALUES IN (2);

ALTER TABLE ONLY tenon.log_line ATTACH PARTITION tenon.log_line_1 FOR VALUES IN (1);

ALTER TABLE ONLY tenon.log_line ATTACH PARTITION tenon.log_line_2 FOR VALUES IN (2);

ALTER TABLE ONLY tenon.message_sent ATTACH PARTITION tenon.message_sent_1 FOR VALUES IN (1);

ALTER TABLE ONLY tenon.message_sent ATTACH PARTITION tenon.message_sent_2 FOR VALUES IN (2);

INSERT INTO tenon.again OVERRIDING SYSTEM VALUE VALUES (1, '2026-11-28 18:38:36.721082+00', '2026-11-28 18:38:36.721082+00', NULL, 3600000, 25, 2, 4, false, 'default', 'stuck', '{}', 'held by a run', NULL, NULL, 'tenon', NULL, NULL, 'keep', NULL, NULL, false, NULL);

INSERT INTO tenon.attempt_1 VALUES ('2026-11-28 18:38:31.764732+00', 4, 1, 1, 1, '2026-11-28 18:38:31.702841+00', 'becb76c1-9423-4243-9956-ab22f417e1f4', 'vm', 'dead', 'default', 'bad', 'exit_65', 'exit status 65', 65, NULL);
INSERT INTO tenon.attempt_1 VALUES ('2026-11-28 18:38:31.764969+00', 14, 1, 1, 1, '2026-11-28 18:38:31.702841+00', 'becb76c1-9423-4243-9956-ab22f417e1f4', 'vm', 'failed', 'default', 'flaky', 'exit_1', 'exit status 1', 1, NULL);

INSERT INTO tenon.audit OVERRIDING SYSTEM VALUE VALUES (1, '2026-11-28 18:38:31.4936+00', 'tenon', 'set_settings', '{"changes": {"dead_keep": "900 years", "signal_keep": "900 years", "attempt_keep": "900 years", "history_keep": "900 years"}}', 1, 0);
INSERT INTO tenon.audit OVERRIDING SYSTEM VALUE VALUES (2, '2026-11-28 18:38:31.499834+00', 'tenon', 'set_queue', '{"queue": "slow", "retry": "exponential(10 s, 1 h)", "timeout": "00:10:00", "priority": 2}', 1, 0);
INSERT INTO tenon.audit OVERRIDING SYSTEM VALUE VALUES (3, '2026-11-28 18:38:31.506858+00', 'tenon', 'set_kind', '{"kind": "flaky", "retry": "constant(30 days)"}', 1, 0);
INSERT INTO tenon.audit OVERRIDING SYSTEM VALUE VALUES (4, '2026-11-28 18:38:31.508307+00', 'tenon', 'set_kind', '{"kind": "bad", "on_dead": "idle"}', 1, 0);
INSERT INTO tenon.audit OVERRIDING SYSTEM VALUE VALUES (5, '2026-11-28 18:38:31.512984+00', 'tenon', 'set_limit', '{"limit": "one", "max_running": 1}', 1, 0);
INSERT INTO tenon.audit OVERRIDING SYSTEM VALUE VALUES (6, '2026-11-28 18:38:31.513696+00', 'tenon', 'set_limit', '{"per": "744:00:00", "limit": "rare", "max_starts": 1}', 1, 0);
INSERT INTO tenon.audit OVERRIDING SYSTEM VALUE VALUES (7, '2026-11-28 18:38:31.51441+00', 'tenon', 'set_limit', '{"fair": true, "limit": "tenant", "max_running": 5}', 1, 0);
INSERT INTO tenon.audit OVERRIDING SYSTEM VALUE VALUES (8, '2026-11-28 18:38:31.515305+00', 'tenon', 'set_limit', '{"limit": "line", "strict": true}', 1, 0);
INSERT INTO tenon.audit OVERRIDING SYSTEM VALUE VALUES (9, '2026-11-28 18:38:31.520398+00', 'tenon', 'set_schedule', '{"schedule": "yearly"}', 1, 0);
INSERT INTO tenon.audit OVERRIDING SYSTEM VALUE VALUES (10, '2026-11-28 18:38:31.522155+00', 'tenon', 'pause', '{"why": "kept", "queue": "held"}', 1, 0);

INSERT INTO tenon.dead VALUES ('2026-11-28 18:38:31.759377+00', 4, '2026-11-28 18:38:31.527491+00', '2026-11-28 18:38:31.702841+00', '2026-11-28 18:38:31.527491+00', NULL, 'becb76c1-9423-4243-9956-ab22f417e1f4', 3600000, 1, 0, 0, 25, 4, 'handler', 'default', 'bad', '{"to": "nobody"}', NULL, NULL, NULL, 'exit status 65', 'exit_65', 'tenon', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);

INSERT INTO tenon.depth VALUES ('default', 'bad', 0, 0, 0, 0, 0, 1, NULL);
INSERT INTO tenon.depth VALUES ('default', 'done', 0, 0, 0, 0, 1, 0, NULL);
INSERT INTO tenon.depth VALUES ('default', 'flaky', 0, 0, 0, 1, 0, 0, NULL);
INSERT INTO tenon.depth VALUES ('default', 'idle', 8, 0, 2, 0, 3, 0, '2026-11-28 18:38:31.537878+00');
INSERT INTO tenon.depth VALUES ('default', 'stepped', 0, 1, 0, 0, 0, 0, NULL);
INSERT INTO tenon.depth VALUES ('default', 'stuck', 0, 3, 0, 0, 2, 0, NULL);
INSERT INTO tenon.depth VALUES ('slow', 'idle', 1, 0, 0, 0, 0, 0, '2026-11-28 18:38:31.540015+00');
INSERT INTO tenon.depth VALUES ('default', 'waits', 0, 0, 0, 0, 1, 0, NULL);
INSERT INTO tenon.depth VALUES ('held', 'idle', 1, 0, 0, 0, 0, 0, '2026-11-28 18:38:31.539843+00');

INSERT INTO tenon.depth_count VALUES (true, '2026-11-28 18:38:35.839179+00', 2);

INSERT INTO tenon.flow OVERRIDING SYSTEM VALUE VALUES (1, 'kept', 'tenon', '2026-11-28 18:38:31.562761+00', '752', false, NULL, NULL, NULL, 'idle', NULL, NULL, '{}', NULL, NULL, NULL);
INSERT INTO tenon.flow OVERRIDING SYSTEM VALUE VALUES (2, NULL, 'tenon', '2026-11-28 18:38:31.572464+00', '754', false, NULL, NULL, NULL, 'idle', NULL, NULL, '{}', NULL, NULL, NULL);
INSERT INTO tenon.flow OVERRIDING SYSTEM VALUE VALUES (3, 'open', 'tenon', '2026-11-28 18:38:31.574508+00', '755', true, NULL, NULL, NULL, NULL, NULL, 'idle', '{}', NULL, NULL, NULL);

INSERT INTO tenon.flow_task VALUES (29, 1, 'second', '{28}', NULL, NULL);
INSERT INTO tenon.flow_task VALUES (30, 1, 'third', '{29}', NULL, NULL);
INSERT INTO tenon.flow_task VALUES (31, 2, NULL, NULL, NULL, NULL);
INSERT INTO tenon.flow_task VALUES (32, 2, NULL, NULL, 'done', NULL);
INSERT INTO tenon.flow_task VALUES (33, 3, NULL, NULL, 'done', NULL);
INSERT INTO tenon.flow_task VALUES (28, 1, 'first', NULL, 'done', '1');

INSERT INTO tenon.flow_wait VALUES (30, 29, 'wait');

INSERT INTO tenon.history_1 VALUES ('2026-11-28 18:38:31.530385+00', 5, '2026-11-28 18:38:31.528759+00', NULL, '2026-11-28 18:38:31.528759+00', NULL, 0, 0, 0, 1, 4, 'cancelled', 'default', 'idle', '{}', NULL, NULL, 'cancelled by tenon', NULL, 'tenon', NULL, NULL, NULL, NULL, 3600000, 25, NULL, NULL, NULL, NULL);
INSERT INTO tenon.history_1 VALUES ('2026-11-28 18:38:31.741389+00', 1, '2026-11-28 18:38:31.523513+00', '2026-11-28 18:38:31.702841+00', '2026-11-28 18:38:31.523513+00', 'becb76c1-9423-4243-9956-ab22f417e1f4', 1, 0, 0, 1, 4, 'done', 'default', 'done', '{"n": 1}', NULL, NULL, NULL, '1', 'tenon', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO tenon.history_1 VALUES ('2026-11-28 18:38:31.741438+00', 2, '2026-11-28 18:38:31.525717+00', '2026-11-28 18:38:31.702841+00', '2026-11-28 18:38:31.525717+00', 'becb76c1-9423-4243-9956-ab22f417e1f4', 1, 0, 0, 1, 4, 'done', 'default', 'done', '{"n": 2}', NULL, NULL, NULL, '1', 'tenon', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO tenon.history_1 VALUES ('2026-11-28 18:38:31.741446+00', 3, '2026-11-28 18:38:31.526338+00', '2026-11-28 18:38:31.702841+00', '2026-11-28 18:38:31.526338+00', 'becb76c1-9423-4243-9956-ab22f417e1f4', 1, 0, 0, 1, 4, 'done', 'default', 'done', '{"n": 3}', NULL, NULL, NULL, '1', 'tenon', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO tenon.history_1 VALUES ('2026-11-28 18:38:31.783601+00', 32, '2026-11-28 18:38:31.573585+00', '2026-11-28 18:38:31.765365+00', '2026-11-28 18:38:31.573585+00', 'becb76c1-9423-4243-9956-ab22f417e1f4', 1, 0, 0, 1, 4, 'done', 'default', 'done', '{}', NULL, NULL, NULL, '1', 'tenon', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO tenon.history_1 VALUES ('2026-11-28 18:38:31.783689+00', 33, '2026-11-28 18:38:31.57506+00', '2026-11-28 18:38:31.765365+00', '2026-11-28 18:38:31.57506+00', 'becb76c1-9423-4243-9956-ab22f417e1f4', 1, 0, 0, 1, 4, 'done', 'default', 'done', '{}', NULL, NULL, NULL, '1', 'tenon', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO tenon.history_1 VALUES ('2026-11-28 18:38:31.7848+00', 28, '2026-11-28 18:38:31.568143+00', '2026-11-28 18:38:31.765365+00', '2026-11-28 18:38:31.568143+00', 'becb76c1-9423-4243-9956-ab22f417e1f4', 1, 0, 0, 1, 4, 'done', 'default', 'done', '{}', NULL, NULL, NULL, '1', 'tenon', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO tenon.history_1 VALUES ('2026-11-28 18:38:31.806567+00', 23, '2026-11-28 18:38:31.729062+00', '2026-11-28 18:38:31.765365+00', '2026-11-28 18:38:31.555167+00', 'becb76c1-9423-4243-9956-ab22f417e1f4', 1, 0, 0, 1, 4, 'done', 'default', 'done', '{}', NULL, NULL, NULL, '1', 'tenon', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO tenon.history_1 VALUES ('2026-11-28 18:38:32.535176+00', 6, '2026-11-28 18:38:31.534124+00', NULL, '2026-11-28 18:38:31.534124+00', NULL, 0, 0, 0, 1, 4, 'expired', 'held', 'idle', '{}', NULL, NULL, 'not started before 2026-11-28 18:38:32.534047+00', NULL, 'tenon', NULL, NULL, NULL, NULL, 3600000, 25, NULL, NULL, NULL, NULL);

INSERT INTO tenon.home VALUES (true, 7713293585294971793, 13572, 16495, NULL, '2026-11-28 18:38:31.398241+00', 'tenon');

INSERT INTO tenon.kind VALUES ('flaky', NULL, NULL, NULL, NULL, 'constant(30 days)', 'retry', NULL, NULL, 1, NULL, NULL, NULL, false);
INSERT INTO tenon.kind VALUES ('bad', NULL, NULL, NULL, NULL, NULL, 'retry', 'idle', NULL, 1, NULL, NULL, NULL, false);

INSERT INTO tenon."limit" VALUES ('one', 1, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO tenon."limit" VALUES ('rare', NULL, 1, '744:00:00', NULL, NULL, NULL, NULL, NULL);
INSERT INTO tenon."limit" VALUES ('tenant', 5, NULL, NULL, NULL, NULL, true, NULL, NULL);
INSERT INTO tenon."limit" VALUES ('line', NULL, NULL, NULL, true, NULL, NULL, NULL, NULL);

INSERT INTO tenon.limit_due VALUES ('rare', '2026-12-29 18:38:31.725747+00', NULL);

INSERT INTO tenon.limit_start VALUES ('rare', '2026-11-28 18:38:31.765365+00', 1);

INSERT INTO tenon.limit_task VALUES ('one', 21, 'waits', true, 4, '2026-11-28 18:38:31.552709+00');
INSERT INTO tenon.limit_task VALUES ('one', 22, 'waits', true, 4, '2026-11-28 18:38:31.553669+00');
INSERT INTO tenon.limit_task VALUES ('rare', 24, 'waits', true, 4, '2026-11-28 18:38:31.556109+00');
INSERT INTO tenon.limit_task VALUES ('tenant:2', 26, 'elsewhere', false, 4, '2026-11-28 18:38:31.56021+00');
INSERT INTO tenon.limit_task VALUES ('line', 26, 'waits', false, 4, '2026-11-28 18:38:31.56021+00');
INSERT INTO tenon.limit_task VALUES ('tenant:3', 27, 'elsewhere', false, 4, '2026-11-28 18:38:31.56131+00');
INSERT INTO tenon.limit_task VALUES ('line', 27, 'waits', false, 4, '2026-11-28 18:38:31.56131+00');
INSERT INTO tenon.limit_task VALUES ('one', 20, 'held', true, 4, '2026-11-28 18:38:31.549397+00');
INSERT INTO tenon.limit_task VALUES ('line', 25, 'held', false, 4, '2026-11-28 18:38:31.557587+00');
INSERT INTO tenon.limit_task VALUES ('tenant:1', 25, 'held', false, 4, '2026-11-28 18:38:31.557587+00');

INSERT INTO tenon.migration VALUES (1, 'tables', false, '2026-11-28 18:38:31.290765+00');

INSERT INTO tenon.minute VALUES ('2026-11-28 18:38:00+00', 'default', 'done', 'becb76c1-9423-4243-9956-ab22f417e1f4', 7, 7, 7, 0, 0, 1148565, 140000, '{0,0,0,1,0,6}', '{0,2,4,1}');
INSERT INTO tenon.minute VALUES ('2026-11-28 18:38:00+00', 'default', 'bad', 'becb76c1-9423-4243-9956-ab22f417e1f4', 1, 1, 0, 1, 1, 175350, 24000, '{0,0,0,0,0,1}', '{0,0,1}');
INSERT INTO tenon.minute VALUES ('2026-11-28 18:38:00+00', 'default', 'flaky', 'becb76c1-9423-4243-9956-ab22f417e1f4', 1, 1, 0, 1, 0, 158237, 24000, '{0,0,0,0,0,1}', '{0,0,1}');
INSERT INTO tenon.minute VALUES ('2026-11-28 18:38:00+00', 'default', 'stuck', 'becb76c1-9423-4243-9956-ab22f417e1f4', 3, 0, 0, 0, 0, 195892, 0, '{1,0,0,1,0,1}', '{}');
INSERT INTO tenon.minute VALUES ('2026-11-28 18:38:00+00', 'default', 'stepped', 'becb76c1-9423-4243-9956-ab22f417e1f4', 1, 0, 0, 0, 0, 158043, 0, '{0,0,0,0,0,1}', '{}');
INSERT INTO tenon.minute VALUES ('2026-11-28 18:38:00+00', 'default', 'waits', 'becb76c1-9423-4243-9956-ab22f417e1f4', 1, 1, 1, 0, 0, 157928, 186000, '{0,0,0,0,0,1}', '{0,0,0,0,0,1}');

INSERT INTO tenon.partition VALUES ('history', 1, '2026-11-28 18:38:31.40843+00', '{}');
INSERT INTO tenon.partition VALUES ('attempt', 1, '2026-11-28 18:38:31.419243+00', '{}');
INSERT INTO tenon.partition VALUES ('message_sent', 1, '2026-11-28 18:38:31.430739+00', '{}');
INSERT INTO tenon.partition VALUES ('log_line', 1, '2026-11-28 18:38:31.440841+00', '{}');

INSERT INTO tenon.paused VALUES ('queue', 'held', 'tenon', '2026-11-28 18:38:31.521615+00', 'kept');

INSERT INTO tenon.queue VALUES ('slow', 2, NULL, 600000, 'exponential(10 s, 1 h)', false);

INSERT INTO tenon.relay VALUES (true, 0);

INSERT INTO tenon.schedule VALUES ('yearly', NULL, 31622400000, 'UTC', 'idle', '{}', NULL, NULL, NULL, NULL, 'last', 'allow', NULL, 'tenon', '2026-11-28 18:38:31.516371+00', '2027-11-29 18:38:31.516371+00', '2027-11-29 18:38:31.516371+00', NULL, NULL, 0, NULL);

INSERT INTO tenon.setting VALUES (true, 1048576, '900 years', 10000000, 'tenon', true, '900 years', '900 years', NULL, false, '900 years', '900 years', '00:00:00', '7 days', '7 days', 1737358909921641335, -8582715627815071935);

INSERT INTO tenon.settler VALUES (true);

INSERT INTO tenon.signal VALUES ('early', '{"amount": 30}', '2026-11-28 18:38:31.53697+00', 'tenon', true);

INSERT INTO tenon.task OVERRIDING SYSTEM VALUE VALUES (7, '2026-11-28 18:38:31.537878+00', '2026-11-28 18:38:31.537878+00', 3600000, 0, 0, 25, 31, 9, false, false, 'default', 'idle', '{"big": 12345678901234567890.5}', 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', NULL, NULL, NULL, 'tenon', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO tenon.task OVERRIDING SYSTEM VALUE VALUES (8, '2026-12-28 18:38:31.539406+00', '2026-11-28 18:38:31.539406+00', 3600000, 0, 0, 25, 2, 4, true, false, 'default', 'idle', '{}', 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'tenon', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO tenon.task OVERRIDING SYSTEM VALUE VALUES (9, '2026-11-28 18:38:31.539843+00', '2026-11-28 18:38:31.539843+00', 3600000, 0, 0, 25, 2, 4, false, false, 'held', 'idle', '{}', 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'tenon', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO tenon.task OVERRIDING SYSTEM VALUE VALUES (10, '2026-11-28 18:38:31.540015+00', '2026-11-28 18:38:31.540015+00', 600000, 0, 0, 25, 2, 2, false, false, 'slow', 'idle', '{}', 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'tenon', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO tenon.task OVERRIDING SYSTEM VALUE VALUES (11, '2026-11-28 18:38:31.543485+00', '2026-11-28 18:38:31.543485+00', 3600000, 0, 0, 25, 1, 4, false, false, 'default', 'idle', '1', 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'tenon', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO tenon.task OVERRIDING SYSTEM VALUE VALUES (12, '2026-11-28 18:38:31.543546+00', '2026-11-28 18:38:31.543546+00', 3600000, 0, 0, 25, 5, 4, false, false, 'default', 'idle', '"two"', 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'tenon', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO tenon.task OVERRIDING SYSTEM VALUE VALUES (13, '2026-11-28 18:38:31.543561+00', '2026-11-28 18:38:31.543561+00', 3600000, 0, 0, 25, 4, 4, false, false, 'default', 'idle', 'null', 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'tenon', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO tenon.task OVERRIDING SYSTEM VALUE VALUES (18, '2026-11-28 18:38:31.546583+00', '2026-11-28 18:38:31.546583+00', 3600000, 0, 0, 25, 2, 4, false, false, 'default', 'idle', '{}', 0, NULL, NULL, NULL, NULL, NULL, NULL, 'mail', NULL, NULL, NULL, NULL, NULL, 'tenon', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO tenon.task OVERRIDING SYSTEM VALUE VALUES (19, '2026-11-29 18:38:31.548521+00', '2026-11-28 18:38:31.548521+00', 3600000, 0, 0, 25, 2, 4, true, false, 'default', 'idle', '{}', 0, NULL, NULL, NULL, NULL, NULL, NULL, 'bell', NULL, NULL, NULL, NULL, NULL, 'tenon', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO tenon.task OVERRIDING SYSTEM VALUE VALUES (21, 'infinity', '2026-11-28 18:38:31.552709+00', 3600000, 0, 0, 25, 2, 4, false, false, 'default', 'stuck', '{}', 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'tenon', NULL, NULL, '2026-11-28 18:38:31.552709+00', NULL, '{one}', NULL, NULL, NULL, NULL, NULL);
INSERT INTO tenon.task OVERRIDING SYSTEM VALUE VALUES (22, 'infinity', '2026-11-28 18:38:31.553669+00', 3600000, 0, 0, 25, 2, 4, false, false, 'default', 'stuck', '{}', 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'tenon', NULL, NULL, '2026-11-28 18:38:31.553669+00', NULL, '{one}', NULL, NULL, NULL, NULL, NULL);
INSERT INTO tenon.task OVERRIDING SYSTEM VALUE VALUES (24, 'infinity', '2026-11-28 18:38:31.556109+00', 3600000, 0, 0, 25, 2, 4, false, false, 'default', 'done', '{}', 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'tenon', NULL, NULL, '2026-11-28 18:38:31.556109+00', NULL, '{rare}', NULL, NULL, NULL, NULL, NULL);
INSERT INTO tenon.task OVERRIDING SYSTEM VALUE VALUES (15, '2026-11-28 18:38:31.544798+00', '2026-11-28 18:38:31.544798+00', 3600000, 0, 0, 25, 2, 4, false, false, 'default', 'stepped', '{}', 1, '2026-11-28 18:38:31.702841+00', -971412897529347536, NULL, 'becb76c1-9423-4243-9956-ab22f417e1f4', 1, 12, NULL, NULL, NULL, NULL, NULL, NULL, 'tenon', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO tenon.task OVERRIDING SYSTEM VALUE VALUES (16, 'infinity', '2026-11-28 18:38:31.544913+00', 3600000, 0, 0, 25, 2, 4, false, false, 'default', 'waits', '{}', 1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'tenon', NULL, NULL, '2026-11-28 18:38:31.896094+00', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO tenon.task OVERRIDING SYSTEM VALUE VALUES (17, '2026-11-28 18:38:31.545547+00', '2026-11-28 18:38:31.545547+00', 3600000, 0, 0, 25, 2, 4, false, false, 'default', 'stuck', '{}', 1, '2026-11-28 18:38:31.702841+00', 2749457983151074044, NULL, 'becb76c1-9423-4243-9956-ab22f417e1f4', NULL, NULL, 'held by a run', NULL, NULL, NULL, NULL, NULL, 'tenon', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO tenon.task OVERRIDING SYSTEM VALUE VALUES (14, '2026-12-30 10:19:07.339228+00', '2026-11-28 18:38:31.544604+00', 3600000, 1, 0, 25, 2, 4, true, false, 'default', 'flaky', '{}', 1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'exit status 1', 'exit_1', 'tenon', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO tenon.task OVERRIDING SYSTEM VALUE VALUES (20, '2026-11-28 18:38:31.729007+00', '2026-11-28 18:38:31.549397+00', 3600000, 0, 0, 25, 2, 4, false, false, 'default', 'stuck', '{}', 1, '2026-11-28 18:38:31.765365+00', 9110426270200514493, NULL, 'becb76c1-9423-4243-9956-ab22f417e1f4', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'tenon', NULL, NULL, NULL, NULL, '{one}', NULL, NULL, NULL, NULL, NULL);
INSERT INTO tenon.task OVERRIDING SYSTEM VALUE VALUES (26, 'infinity', '2026-11-28 18:38:31.56021+00', 3600000, 0, 0, 25, 2, 4, false, false, 'default', 'idle', '{}', 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'tenon', NULL, NULL, '2026-11-28 18:38:31.56021+00', NULL, '{tenant:2,line}', NULL, NULL, NULL, NULL, NULL);
INSERT INTO tenon.task OVERRIDING SYSTEM VALUE VALUES (27, 'infinity', '2026-11-28 18:38:31.56131+00', 3600000, 0, 0, 25, 2, 4, false, false, 'default', 'idle', '{}', 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'tenon', NULL, NULL, '2026-11-28 18:38:31.56131+00', NULL, '{tenant:3,line}', NULL, NULL, NULL, NULL, NULL);
INSERT INTO tenon.task OVERRIDING SYSTEM VALUE VALUES (30, 'infinity', '2026-11-28 18:38:31.571622+00', 3600000, 0, 0, 25, 2, 4, false, false, 'default', 'idle', '{}', 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'tenon', NULL, NULL, '2026-11-28 18:38:31.571622+00', 1, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO tenon.task OVERRIDING SYSTEM VALUE VALUES (31, '2026-11-28 18:38:31.57331+00', '2026-11-28 18:38:31.57331+00', 3600000, 0, 0, 25, 2, 4, false, false, 'default', 'idle', '{}', 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'tenon', NULL, NULL, NULL, 2, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO tenon.task OVERRIDING SYSTEM VALUE VALUES (25, '2026-11-28 18:38:31.734167+00', '2026-11-28 18:38:31.557587+00', 3600000, 0, 0, 25, 2, 4, false, false, 'default', 'idle', '{}', 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'tenon', NULL, NULL, NULL, NULL, '{tenant:1,line}', NULL, NULL, NULL, NULL, NULL);
INSERT INTO tenon.task OVERRIDING SYSTEM VALUE VALUES (34, '2026-11-28 18:38:31.740319+00', '2026-11-28 18:38:31.740319+00', 3600000, 0, 0, 25, 314, 4, false, false, 'default', 'idle', '{"id": 4, "kind": "bad", "error": "exit status 65", "queue": "default", "steps": null, "trace": null, "reason": "handler", "attempt": 1, "crashes": 0, "payload": {"to": "nobody"}, "failures": 0, "created_at": "2026-11-28T18:38:31.527491+00:00", "unique_key": null, "enqueued_by": "tenon", "error_class": "exit_65"}', 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'tenon', 4, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO tenon.task OVERRIDING SYSTEM VALUE VALUES (29, '2026-11-28 18:38:31.78994+00', '2026-11-28 18:38:31.570005+00', 3600000, 0, 0, 25, 2, 4, false, false, 'default', 'stuck', '{}', 1, '2026-11-28 18:38:31.79218+00', 4543401072655661036, NULL, 'becb76c1-9423-4243-9956-ab22f417e1f4', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'tenon', NULL, NULL, NULL, 1, NULL, NULL, NULL, NULL, NULL, NULL);

INSERT INTO tenon.task_step VALUES (15, '2026-11-28 18:38:31.891537+00', 1, 'first', '1');

INSERT INTO tenon.unique_hold VALUES ('idle', 'mail', '2027-09-24 18:38:31.546583+00', 18);

INSERT INTO tenon.waiting VALUES (16, 'go', '2027-11-28 18:38:31.896213+00', true);

INSERT INTO tenon.worker VALUES ('becb76c1-9423-4243-9956-ab22f417e1f4', -6446122835802665930, 'vm', 17429, 8, '{default}', '{done,bad,flaky,stuck,stepped,waits}', '1.0.0', NULL, 'alive', '2026-11-28 18:38:31.613971+00', NULL, NULL, NULL, NULL, NULL, NULL);

SELECT pg_catalog.setval('tenon.again_cursor', 0, false);

SELECT pg_catalog.setval('tenon.again_id_seq', 1, true);

SELECT pg_catalog.setval('tenon.attempt_part', 1, true);

SELECT pg_catalog.setval('tenon.audit_id_seq', 10, true);

SELECT pg_catalog.setval('tenon.flow_cursor', 0, false);

SELECT pg_catalog.setval('tenon.flow_id_seq', 3, true);

SELECT pg_catalog.setval('tenon.history_part', 1, true);

SELECT pg_catalog.setval('tenon.log_line_id_seq', 1, false);

SELECT pg_catalog.setval('tenon.log_line_part', 1, true);

SELECT pg_catalog.setval('tenon.message_id_seq', 1, false);

SELECT pg_catalog.setval('tenon.message_sent_part', 1, true);

SELECT pg_catalog.setval('tenon.note_id', 20, true);

SELECT pg_catalog.setval('tenon.signal_cursor', 0, false);

SELECT pg_catalog.setval('tenon.task_id_seq', 35, true);

SELECT pg_catalog.setval('tenon.until_cursor', 0, false);

SELECT pg_catalog.setval('tenon.waiting_cursor', 0, false);

ALTER TABLE ONLY tenon.again_note
    ADD CONSTRAINT again_note_pkey PRIMARY KEY (id);

ALTER TABLE ONLY tenon.again
    ADD CONSTRAINT again_pkey PRIMARY KEY (id);

ALTER TABLE ONLY tenon.audit
    ADD CONSTRAINT audit_pkey PRIMARY KEY (id);

ALTER TABLE ONLY tenon.chore_failure
    ADD CONSTRAINT chore_failure_pkey PRIMARY KEY (chore);

ALTER TABLE ONLY tenon.dead
    ADD CONSTRAINT dead_pkey PRIMARY KEY (id);

ALTER TABLE ONLY tenon.depth_count
    ADD CONSTRAINT depth_count_pkey PRIMARY KEY (one);

ALTER TABLE ONLY tenon.depth
    ADD CONSTRAINT depth_pkey PRIMARY KEY (queue, kind);

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

ALTER TABLE ONLY tenon.intake
    ADD CONSTRAINT intake_pkey PRIMARY KEY (queue, host, pid);

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

ALTER TABLE ONLY tenon.message
    ADD CONSTRAINT message_pkey PRIMARY KEY (id);

ALTER TABLE ONLY tenon.migration
    ADD CONSTRAINT migration_pkey PRIMARY KEY (version);

ALTER TABLE ONLY tenon.minute
    ADD CONSTRAINT minute_pkey PRIMARY KEY (minute, queue, kind, worker_id);

ALTER TABLE ONLY tenon.partition
    ADD CONSTRAINT partition_pkey PRIMARY KEY (parent, part);

ALTER TABLE ONLY tenon.paused
    ADD CONSTRAINT paused_pkey PRIMARY KEY (what, name);

ALTER TABLE ONLY tenon.producer
    ADD CONSTRAINT producer_pkey PRIMARY KEY (role);

ALTER TABLE ONLY tenon.publisher
    ADD CONSTRAINT publisher_pkey PRIMARY KEY (role);

ALTER TABLE ONLY tenon.queue
    ADD CONSTRAINT queue_pkey PRIMARY KEY (name);

ALTER TABLE ONLY tenon.relay
    ADD CONSTRAINT relay_pkey PRIMARY KEY (one);

ALTER TABLE ONLY tenon.schedule
    ADD CONSTRAINT schedule_pkey PRIMARY KEY (name);

ALTER TABLE ONLY tenon.seen
    ADD CONSTRAINT seen_pkey PRIMARY KEY (message_id, consumer);

ALTER TABLE ONLY tenon.set_aside
    ADD CONSTRAINT set_aside_pkey PRIMARY KEY (part, id);

ALTER TABLE ONLY tenon.setting
    ADD CONSTRAINT setting_pkey PRIMARY KEY (one);

ALTER TABLE ONLY tenon.settler
    ADD CONSTRAINT settler_pkey PRIMARY KEY (one);

ALTER TABLE ONLY tenon.signal
    ADD CONSTRAINT signal_pkey PRIMARY KEY (name);

ALTER TABLE ONLY tenon.stream_place
    ADD CONSTRAINT stream_place_pkey PRIMARY KEY (stream);

ALTER TABLE ONLY tenon.suspect
    ADD CONSTRAINT suspect_pkey PRIMARY KEY (task_id);

ALTER TABLE ONLY tenon.task
    ADD CONSTRAINT task_pkey PRIMARY KEY (id);

ALTER TABLE ONLY tenon.task_step
    ADD CONSTRAINT task_step_pkey PRIMARY KEY (task_id, name);

ALTER TABLE ONLY tenon.unique_hold
    ADD CONSTRAINT unique_hold_pkey PRIMARY KEY (unique_key, kind);

ALTER TABLE ONLY tenon.waiting
    ADD CONSTRAINT waiting_pkey PRIMARY KEY (task_id);

ALTER TABLE ONLY tenon.worker
    ADD CONSTRAINT worker_pkey PRIMARY KEY (id);

CREATE INDEX again_key ON tenon.again USING btree (unique_key, kind, id);

CREATE INDEX again_untaken ON tenon.again USING btree (id) WHERE (NOT taken);

CREATE INDEX attempt_task_id ON ONLY tenon.attempt USING btree (task_id);

CREATE INDEX attempt_1_task_id_idx ON tenon.attempt_1 USING btree (task_id);

CREATE INDEX attempt_2_task_id_idx ON tenon.attempt_2 USING btree (task_id);

CREATE INDEX audit_at ON tenon.audit USING btree (at);

CREATE INDEX dead_at ON tenon.dead USING btree (dead_at);

CREATE INDEX dead_error_class ON tenon.dead USING btree (error_class);

CREATE INDEX dead_kind ON tenon.dead USING btree (kind, dead_at);

CREATE INDEX dead_queue ON tenon.dead USING btree (queue);

CREATE INDEX dead_tags ON tenon.dead USING gin (tags) WHERE (tags IS NOT NULL);

CREATE INDEX dead_unique_key ON tenon.dead USING btree (unique_key) WHERE (unique_key IS NOT NULL);

CREATE INDEX flow_made ON tenon.flow USING btree (made_at) WHERE (ended_at IS NULL);

CREATE INDEX flow_task_state ON tenon.flow_task USING btree (flow, state);

CREATE INDEX flow_wait_parent ON tenon.flow_wait USING btree (parent);

CREATE INDEX history_id ON ONLY tenon.history USING btree (id);

CREATE INDEX history_1_id_idx ON tenon.history_1 USING btree (id);

CREATE INDEX history_not_done ON ONLY tenon.history USING btree (outcome) WHERE ((outcome)::text <> 'done'::text);

CREATE INDEX history_1_outcome_idx ON tenon.history_1 USING btree (outcome) WHERE ((outcome)::text <> 'done'::text);

CREATE INDEX history_tags ON ONLY tenon.history USING gin (tags) WHERE (tags IS NOT NULL);

CREATE INDEX history_1_tags_idx ON tenon.history_1 USING gin (tags) WHERE (tags IS NOT NULL);

CREATE INDEX history_unique_key ON ONLY tenon.history USING btree (unique_key) WHERE (unique_key IS NOT NULL);

CREATE INDEX history_1_unique_key_idx ON tenon.history_1 USING btree (unique_key) WHERE (unique_key IS NOT NULL);

CREATE INDEX history_2_id_idx ON tenon.history_2 USING btree (id);

CREATE INDEX history_2_outcome_idx ON tenon.history_2 USING btree (outcome) WHERE ((outcome)::text <> 'done'::text);

CREATE INDEX history_2_tags_idx ON tenon.history_2 USING gin (tags) WHERE (tags IS NOT NULL);

CREATE INDEX history_2_unique_key_idx ON tenon.history_2 USING btree (unique_key) WHERE (unique_key IS NOT NULL);

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

CREATE INDEX log_line_task_id ON ONLY tenon.log_line USING btree (task_id);

CREATE INDEX log_line_1_task_id_idx ON tenon.log_line_1 USING btree (task_id);

CREATE INDEX log_line_2_task_id_idx ON tenon.log_line_2 USING btree (task_id);

CREATE INDEX message_failed ON tenon.message USING btree (id) WHERE (failed_at IS NOT NULL);

CREATE INDEX message_order ON tenon.message USING btree (order_key, id) WHERE (order_key IS NOT NULL);

CREATE INDEX message_retry ON tenon.message USING btree (retry_at) WHERE (retry_at IS NOT NULL);

CREATE INDEX message_sent_sent_at_idx ON ONLY tenon.message_sent USING btree (sent_at);

CREATE INDEX message_sent_1_sent_at_idx ON tenon.message_sent_1 USING btree (sent_at);

CREATE INDEX message_sent_2_sent_at_idx ON tenon.message_sent_2 USING btree (sent_at);

CREATE INDEX message_waiting ON tenon.message USING btree (id) WHERE ((NOT held) AND (failed_at IS NULL));

CREATE INDEX schedule_due ON tenon.schedule USING btree (due_at);

CREATE INDEX seen_until ON tenon.seen USING btree (until);

CREATE INDEX signal_settled ON tenon.signal USING btree (sent_at) WHERE settled;

CREATE INDEX signal_unsettled ON tenon.signal USING btree (sent_at) WHERE (NOT settled);

CREATE INDEX suspect_due ON tenon.suspect USING btree (due_at) WHERE (alone AND (claims IS NULL));

CREATE INDEX task_delayed ON tenon.task USING btree (run_at) WHERE delayed;

CREATE INDEX task_error_class ON tenon.task USING btree (error_class) WHERE (error_class IS NOT NULL);

CREATE INDEX task_order ON tenon.task USING btree (queue, priority DESC, run_at, ((id + 0)));

CREATE INDEX task_start_before ON tenon.task USING btree (start_before) WHERE (start_before IS NOT NULL);

CREATE INDEX task_tags ON tenon.task USING gin (tags) WHERE (tags IS NOT NULL);

CREATE UNIQUE INDEX task_unique_key ON tenon.task USING btree (unique_key, kind) WHERE (unique_key IS NOT NULL);

CREATE INDEX unique_hold_until ON tenon.unique_hold USING btree (until);

CREATE INDEX waiting_signal ON tenon.waiting USING btree (signal, task_id);

CREATE INDEX waiting_unsettled ON tenon.waiting USING btree (task_id) WHERE (NOT settled);

CREATE INDEX waiting_until ON tenon.waiting USING btree (until);

CREATE INDEX worker_alive ON tenon.worker USING btree (started_at) WHERE (ended_at IS NULL);

ALTER INDEX tenon.attempt_task_id ATTACH PARTITION tenon.attempt_1_task_id_idx;

ALTER INDEX tenon.attempt_task_id ATTACH PARTITION tenon.attempt_2_task_id_idx;

ALTER INDEX tenon.history_id ATTACH PARTITION tenon.history_1_id_idx;

ALTER INDEX tenon.history_not_done ATTACH PARTITION tenon.history_1_outcome_idx;

ALTER INDEX tenon.history_tags ATTACH PARTITION tenon.history_1_tags_idx;

ALTER INDEX tenon.history_unique_key ATTACH PARTITION tenon.history_1_unique_key_idx;

ALTER INDEX tenon.history_id ATTACH PARTITION tenon.history_2_id_idx;

ALTER INDEX tenon.history_not_done ATTACH PARTITION tenon.history_2_outcome_idx;

ALTER INDEX tenon.history_tags ATTACH PARTITION tenon.history_2_tags_idx;

ALTER INDEX tenon.history_unique_key ATTACH PARTITION tenon.history_2_unique_key_idx;

ALTER INDEX tenon.log_line_task_id ATTACH PARTITION tenon.log_line_1_task_id_idx;

ALTER INDEX tenon.log_line_task_id ATTACH PARTITION tenon.log_line_2_task_id_idx;

ALTER INDEX tenon.message_sent_sent_at_idx ATTACH PARTITION tenon.message_sent_1_sent_at_idx;

ALTER INDEX tenon.message_sent_sent_at_idx ATTACH PARTITION tenon.message_sent_2_sent_at_idx;

CREATE TRIGGER limited_deleted AFTER DELETE ON tenon.dead FOR EACH ROW WHEN ((old.limit_keys IS NOT NULL)) EXECUTE FUNCTION tenon.limited_deleted();

CREATE TRIGGER limited_named BEFORE UPDATE OF name ON tenon.kind FOR EACH ROW WHEN ((old.limited AND (old.name <> new.name))) EXECUTE FUNCTION tenon.limited_stays();

CREATE TRIGGER limited_named BEFORE UPDATE OF name ON tenon.queue FOR EACH ROW WHEN ((old.limited AND (old.name <> new.name))) EXECUTE FUNCTION tenon.limited_stays();

CREATE TRIGGER limited_stays BEFORE DELETE ON tenon.kind FOR EACH ROW WHEN (old.limited) EXECUTE FUNCTION tenon.limited_stays();

CREATE TRIGGER limited_stays BEFORE DELETE ON tenon.queue FOR EACH ROW WHEN (old.limited) EXECUTE FUNCTION tenon.limited_stays();

CREATE TRIGGER note_confined AFTER INSERT OR DELETE OR UPDATE OR TRUNCATE ON tenon.producer FOR EACH STATEMENT EXECUTE FUNCTION tenon.note_confined();

CREATE TRIGGER note_waiting AFTER INSERT ON tenon.waiting FOR EACH ROW EXECUTE FUNCTION tenon.note_waiting();

