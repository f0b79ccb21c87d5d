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
	enqueued_by text
);

CREATE FUNCTION tenon.act_states(act text) RETURNS text[]
    LANGUAGE sql IMMUTABLE
    AS $$
    SELECT CASE act WHEN 'retry' THEN '{dead,cancelled,expired}'::text[]
                    WHEN 'delete' THEN '{dead,done,cancelled,expired}'
                    WHEN 'cancel' THEN '{scheduled,ready,running,retrying}'
                    WHEN 'run_now' THEN '{scheduled,retrying}'
                    WHEN 'set' THEN '{scheduled,ready,retrying}' END
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

CREATE FUNCTION tenon.ahead_of(t tenon.task, most integer, OUT n bigint, OUT higher bigint) RETURNS record
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $_$
    SELECT count(*), count(*) FILTER (WHERE a.priority > ($1).priority)
      FROM (SELECT o.priority FROM tenon.task o
             WHERE o.queue = ($1).queue AND o.priority >= ($1).priority AND o.start_time IS NULL
               AND o.run_at <= clock_timestamp()
               AND (o.priority > ($1).priority OR (o.run_at, o.id + 0) < (($1).run_at, ($1).id))
             ORDER BY o.queue, o.priority DESC, o.run_at, o.id + 0 LIMIT $2) a
$_$;

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

CREATE FUNCTION tenon.as_again(t tenon.task) RETURNS tenon.again
    LANGUAGE sql STABLE
    AS $_$
    SELECT ROW(0, ($1).run_at, ($1).created_at, ($1).start_before, ($1).timeout_ms, ($1).max_attempts, ($1).payload_bytes, ($1).priority,
               ($1).delayed, ($1).queue, ($1).kind, ($1).payload, ($1).unique_key, ($1).retry, ($1).trace, ($1).enqueued_by, 'keep',
               NULL, NULL, false)::tenon.again
$_$;

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
           priority, 'cancelled', queue, kind, payload, unique_key, trace, 'cancelled by ' || session_user, enqueued_by
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

CREATE FUNCTION tenon.cancel_ids(ids bigint[]) RETURNS bigint[]
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT array_agg(i) FILTER (WHERE tenon.cancel(i)) FROM unnest(ids) i
$$;

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

CREATE FUNCTION tenon.check_most(most integer) RETURNS void
    LANGUAGE plpgsql IMMUTABLE
    AS $$
BEGIN
    IF coalesce(most, 0) NOT BETWEEN 1 AND 100000 THEN
        PERFORM tenon.refuse('most', most::text, '1 to 100000');
    END IF;
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
    IF debounce_max IS NOT NULL AND (debounce IS NULL OR debounce_max < debounce) THEN
        PERFORM tenon.refuse('debounce_max', debounce_max::text, 'given with debounce, and no shorter');
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

CREATE FUNCTION tenon.copied() RETURNS text
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT format('the schema tenon was copied to this database: it is at home in %s, and this is %s',
                  tenon.home_text(h), tenon.home_text(here))
      FROM (SELECT tenon.home_here() AS here OFFSET 0) n
      LEFT JOIN tenon.home h ON true
     WHERE (h.database, h.relation) IS DISTINCT FROM ((n.here).database, (n.here).relation)
        OR h.name <> coalesce((n.here).name, '')
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

CREATE FUNCTION tenon.delete(filter jsonb, most integer DEFAULT 10000, why text DEFAULT NULL::text) RETURNS bigint
    LANGUAGE sql
    AS $$ SELECT c.n FROM tenon.change('delete', filter, most => most, why => why) c $$;

CREATE FUNCTION tenon.delete_ids(ids bigint[]) RETURNS bigint[]
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    WITH dead AS (DELETE FROM tenon.dead d WHERE d.id = ANY (ids) RETURNING d.id),
         ended AS (DELETE FROM tenon.finished e WHERE e.id = ANY (ids) RETURNING e.id)
    SELECT array_agg(id) FROM (SELECT id FROM dead UNION ALL SELECT id FROM ended) gone
$$;

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
    IF NOT EXISTS (SELECT FROM tenon.again g WHERE g.unique_key = a.unique_key AND g.kind = a.kind)
       AND tenon.join_holder(a, interval '1 second') THEN
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
        SELECT coalesce(array_agg(tenon.enqueue(kind, p, queue, priority, run_at, delay, u, CASE WHEN u IS NOT NULL THEN on_conflict END,
                                                CASE WHEN u IS NOT NULL THEN unique_for END, CASE WHEN u IS NOT NULL THEN debounce END,
                                                CASE WHEN u IS NOT NULL THEN debounce_max END, start_before, max_attempts, timeout, retry, trace, notify,
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
          FROM (SELECT p, octet_length(p::text) AS bytes FROM unnest(documents) p OFFSET 0) a  -- in their order
         WHERE bytes <= d.payload_bytes_max
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
        IF added.id IS NOT NULL AND (coalesce(on_conflict, 'keep') = 'keep' AND debounce IS NULL
                                     OR NOT EXISTS (SELECT FROM tenon.task t WHERE t.id = added.id)) THEN
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
    IF unique_for IS NOT NULL THEN
        UPDATE tenon.unique_hold h SET id = added.id WHERE h.kind = kind AND h.unique_key = unique_key AND h.id IS NULL;
    END IF;
    IF added.routing_key IS NOT NULL THEN
        RETURN added;  -- another task's
    END IF;
    added.exchange := d.exchange;
    added.routing_key := d.queue || '/' || kind;
    IF coalesce(notify, true) AND NOT announced THEN
        IF tenon.publisher_sleeps(d.sleeper_key) THEN
            PERFORM pg_notify('tenon', '');
        END IF;
    END IF;
    RETURN added;
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
    AS $$
    SELECT CASE WHEN reason = 'timed_out' THEN 'timeout'
                WHEN reason = 'crashed' THEN 'crash'
                ELSE left(coalesce(substring(tenon.error_line(error) from '^([\w.]*(?:Error|Exception))\M'), 'exit_' || e.exit_code,
                                   'signal_' || e.signal, substring(error from '[^\s:,;(]+')), 100) END
      FROM tenon.ended_by(error) e
$$;

CREATE FUNCTION tenon.error_line(error text) RETURNS text
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
    SELECT coalesce((SELECT m[1]
                       FROM regexp_matches(error, '^(?:[a-z ]*exit status \d+: )?((?:[A-Za-z_][\w.]*)?(?:Error|Exception)\M(?:[:( ].*)?)$', 'gn')
                            WITH ORDINALITY AS r (m, n) ORDER BY n DESC LIMIT 1),
                    substring(error from '[^\s][^\n]*'))
$_$;

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
    deadline := clock_timestamp() + by;
    UPDATE tenon.task t
       SET timeout_ms = greatest(t.timeout_ms, least(timeout_max_ms, ceil(extract(epoch FROM deadline - t.start_time) * 1000)))
     WHERE t.id = fence.id AND t.claims = fence.claims AND t.worker_id = fence.worker_id AND t.start_time = fence.start_time
    RETURNING t.start_time + make_interval(secs => t.timeout_ms / 1000.0) INTO deadline;
    PERFORM tenon.claim_must_hold(claim, FOUND, fence.worker_id);
    RETURN deadline;
END $$;

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
    VALUES ('state', 'a state, or an array of them: scheduled, ready, running, retrying, done, cancelled, expired, dead'),
           ('queue', 'a queue, or an array of them'),
           ('kind', 'a kind, or an array of them'),
           ('error', 'a class of errors (error_class), or an array of them'),
           ('older_than', 'a time that has passed since the task was enqueued or, if it has ended, since then, such as "2 hours"'),
           ('unique_key', 'a text'),
           ('payload', 'a predicate of SQL/JSON path, such as $.to == "ann@example.com" or exists($.tags[*] ? (@ == "new"))'),
           ('ids', 'a number, or an array of at most 100000'),
           ('trace', 'a text'),
           ('enqueued_by', 'a role')
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
    may text[] := coalesce(tenon.act_states(act), '{scheduled,ready,running,retrying,done,cancelled,expired,dead}');
BEGIN
    IF NOT f.states <@ may THEN
        PERFORM tenon.refuse('state', array_to_string(f.states, ', '),
                             array_to_string(may, ', ') || coalesce(' for ' || act, ''));
    END IF;
    RETURN CASE WHEN f.states IS NOT NULL THEN f.states
                WHEN f.ids IS NULL AND act IN ('retry', 'delete') THEN '{dead}'
                WHEN act IS NOT NULL THEN may END;
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
        RETURNING t.*)
    INSERT INTO tenon.finished (finished_at, id, run_at, start_time, created_at, worker_id, claims, failures,
                                crashes, priority, outcome, queue, kind, payload, unique_key, trace,
                                last_error, result, enqueued_by)
    SELECT moment, id, run_at, start_time, created_at, worker_id, claims, failures, crashes,
           priority, 'done', queue, kind, payload, unique_key, trace, last_error, result, enqueued_by
      FROM gone;
    PERFORM tenon.claim_must_hold(claim, FOUND, fence.worker_id);
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
    EXECUTE format('GRANT SELECT ON tenon.lock TO %I', role);
    PERFORM tenon.grant_home(role, false);
    EXECUTE format('GRANT SELECT (due_at) ON tenon.schedule TO %I', role);
    EXECUTE format('GRANT EXECUTE ON FUNCTION tenon.run_schedules TO %I', role);
    EXECUTE format('GRANT UPDATE (leader_key, sleeper_key) ON tenon.setting TO %I', role);
    EXECUTE format('GRANT EXECUTE ON FUNCTION tenon.requeue, tenon.settle, tenon.make_partitions, tenon.drop_history, tenon.purge, tenon.random_key TO %I', role);
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

CREATE FUNCTION tenon.grant_lists(role text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    EXECUTE format('GRANT EXECUTE ON FUNCTION tenon.find, tenon.list, tenon.count_tasks, tenon.error_line, tenon.why, tenon.why_of, tenon.handled TO %I', role);
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
    EXECUTE format('GRANT EXECUTE ON FUNCTION tenon.set_schedule, tenon.drop_schedule, tenon.pause_schedule, tenon.resume_schedule, tenon.run_schedule_now, tenon.sync_schedules TO %I', role);
    PERFORM tenon.grant_acts(role);
    PERFORM tenon.grant_home(role, true);
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
    EXECUTE format('GRANT EXECUTE ON FUNCTION tenon.queue_names, tenon.next_tick TO %I', role);
    PERFORM tenon.grant_lists(role);
    PERFORM tenon.grant_home(role, false);
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
    EXECUTE format('GRANT EXECUTE ON FUNCTION tenon.requeue, tenon.progress_kept, tenon.printed_bytes, tenon.make_partitions, tenon.random_key, tenon.paused_kinds TO %I', role);
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
    held tenon.task;
    b    tenon.again;
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
    IF b.kind IS NULL THEN
        RETURN false;
    END IF;
    IF (b.payload, b.run_at) IS DISTINCT FROM (held.payload, held.run_at) OR b.start_before IS DISTINCT FROM held.start_before THEN
        UPDATE tenon.task t
           SET payload = b.payload, payload_bytes = b.payload_bytes, run_at = b.run_at, delayed = true, start_before = b.start_before
         WHERE t.id = held.id;
    END IF;
    RETURN true;
END $$;

CREATE FUNCTION tenon.joined(a tenon.again, b tenon.again) RETURNS tenon.again
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    s tenon.setting;
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
        b.run_at := least(a.run_at, b.created_at + a.debounce_max);
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

CREATE FUNCTION tenon.mine() RETURNS SETOF tenon.tasks
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT v.*
      FROM tenon.task t
      CROSS JOIN LATERAL (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS next, t.xmin::text::bigint AS low) x
      JOIN tenon.tasks v ON v.id = t.id
     WHERE t.created_at >= now()
       AND t.enqueued_by = session_user
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
    SELECT $1, jsonb_object_agg(e.key, e.value), $3, $4 FROM jsonb_each($2) e WHERE e.value <> 'null'
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

CREATE FUNCTION tenon.note_schedule(act text, name text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    PERFORM tenon.note_audit(act, jsonb_build_object('schedule', name), 1);
END $$;

CREATE FUNCTION tenon.or_old(changes jsonb, key text, new bigint, old bigint) RETURNS bigint
    LANGUAGE sql IMMUTABLE
    AS $$ SELECT CASE WHEN changes ? key THEN new ELSE old END $$;

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
    SELECT ARRAY(SELECT p FROM (VALUES ('task', '{scheduled,ready,running,retrying,expired}'::text[]),
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
BEGIN
    SELECT * INTO s FROM tenon.setting;
    DELETE FROM tenon.dead WHERE id = ANY (ARRAY(
        SELECT d.id FROM tenon.dead d WHERE d.dead_at < now() - s.dead_keep ORDER BY d.dead_at LIMIT most FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS n = ROW_COUNT;
    DELETE FROM tenon.audit WHERE id = ANY (ARRAY(
        SELECT a.id FROM tenon.audit a WHERE a.at < now() - s.audit_keep ORDER BY a.at LIMIT most FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS m = ROW_COUNT;
    DELETE FROM tenon.unique_hold WHERE (unique_key, kind) IN (
        SELECT h.unique_key, h.kind FROM tenon.unique_hold h WHERE h.until < now() ORDER BY h.until LIMIT most FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS k = ROW_COUNT;
    RETURN n + m + k;
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
    ), cut AS (
        SELECT greatest((SELECT min(w.id) FROM waiting w HAVING count(*) = 5000),
                        (SELECT min(e.id) FROM ended e HAVING count(*) = 5000), 0) AS id
    ), arrived AS (
        SELECT a.queue, a.created_at, a.run_at
          FROM (SELECT w.id, w.queue, w.created_at, w.run_at FROM waiting w UNION ALL
                SELECT e.id, e.queue, e.created_at, e.run_at FROM ended e) a, cut
         WHERE a.id >= cut.id AND a.created_at > clock_timestamp() - interval '2 min'
    ), rates AS (
        SELECT count(*) FILTER (WHERE a.queue = $1 AND a.run_at <= clock_timestamp())
               / CASE WHEN (SELECT c.id > 0 FROM cut c)
                      THEN greatest(extract(epoch FROM clock_timestamp() - min(a.created_at)), 1) ELSE 120 END AS arrivals
          FROM arrived a
    ), runs AS (
        SELECT count(*) / CASE WHEN (SELECT count(*) = 5000 FROM ended)
                               THEN greatest(extract(epoch FROM clock_timestamp() - (SELECT min(e.finished_at) FROM ended e
                                                           WHERE e.finished_at > clock_timestamp() - interval '2 min')), 1)
                               ELSE 120 END AS finishes,
               avg(extract(epoch FROM e.finished_at - e.start_time)) AS run_s
          FROM ended e
         WHERE e.queue = $1 AND e.start_time IS NOT NULL AND e.finished_at > clock_timestamp() - interval '2 min'
    )
    SELECT greatest(rates.arrivals, runs.finishes)::double precision, runs.run_s::double precision FROM rates, runs
$_$;

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

CREATE FUNCTION tenon.refuse(argument text, value text, allowed text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    RAISE EXCEPTION 'tenon: % % is not allowed', argument, coalesce(left(value, 100), 'NULL')
        USING ERRCODE = 'invalid_parameter_value', HINT = format('%s is %s.', argument, allowed);
END $$;

CREATE FUNCTION tenon.refuse_cron(field text, word text, why text) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    RAISE EXCEPTION 'tenon: cron: %: % %', field, left(word, 100), why
        USING ERRCODE = 'invalid_parameter_value',
              HINT = 'A cron expression is: minute hour day-of-month month day-of-week, such as 30 3 * * mon-fri; or @daily and its like.';
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
               t.max_attempts, t.queue, t.kind, t.retry, t.unique_key, t.again, t.claims, t.start_time, g.reason, g.delay_ms,
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
        UPDATE tenon.again a SET taken = false FROM judged j
         WHERE j.again IS NOT NULL AND j.dead_of IS NULL AND a.unique_key = j.unique_key AND a.kind = j.kind
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
        PERFORM tenon.tell_paused(queue, false);
        PERFORM tenon.note_audit('resume', jsonb_build_object('queue', queue, 'kind', kind, 'why', why,
                                                              'everything', NULLIF(everything, false)), 1);
    END IF;
    RETURN n > 0;
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
               ELSE power(failures, 4) + 15 + random() * 10 * failures END)
      FROM tenon.retry_parts(policy) p
$$;

CREATE FUNCTION tenon.retry_ids(ids bigint[]) RETURNS bigint[]
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    again bigint[];
BEGIN
    WITH ended AS (
        SELECT d.id, d.created_at, d.timeout_ms, d.claims, d.max_attempts, d.priority, d.queue, d.kind, d.payload,
               d.unique_key, d.retry, d.trace, d.last_error, d.error_class, d.enqueued_by, d.compensates
          FROM tenon.dead d WHERE d.id = ANY (ids)
        UNION ALL
        SELECT e.id, e.created_at, x.timeout_ms, e.claims, x.max_attempts, e.priority, e.queue, e.kind, e.payload,
               e.unique_key, NULL, e.trace, e.last_error, NULL, e.enqueued_by, NULL
          FROM tenon.finished e CROSS JOIN LATERAL tenon.defaults(e.kind, e.queue) x
         WHERE e.id = ANY (ids) AND e.outcome IN ('cancelled', 'expired')
    ), new AS (
        INSERT INTO tenon.task (id, run_at, created_at, timeout_ms, claims, max_attempts, payload_bytes, priority,
                                delayed, announced, queue, kind, payload, unique_key, retry, trace, last_error, error_class, enqueued_by, compensates)
        OVERRIDING SYSTEM VALUE
        SELECT e.id, clock_timestamp(), e.created_at, e.timeout_ms, e.claims, e.max_attempts,
               octet_length(e.payload::text), e.priority, true, false, e.queue, e.kind, e.payload, e.unique_key,
               e.retry, e.trace, e.last_error, e.error_class, e.enqueued_by, e.compensates
          FROM ended e ORDER BY e.id
        ON CONFLICT DO NOTHING
        RETURNING task.id)
    SELECT array_agg(new.id) INTO again FROM new;
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
    piece  integer := CASE WHEN f.ids IS NULL THEN 1000 ELSE 2147483647 END;
    fits   bigint[];
    n      bigint;
BEGIN
    IF f.unique_key IS NOT NULL AND f.ids IS NULL AND places = '{task}' THEN  -- by its index
        f.ids := ARRAY(SELECT t.id FROM tenon.task t WHERE t.unique_key = f.unique_key);
    END IF;
    ids := '{}';
    next := coalesce(after, CASE WHEN newest THEN 9223372036854775807 ELSE 0 END);
    LOOP
        SELECT coalesce(array_agg(c.id ORDER BY CASE WHEN newest THEN -c.id ELSE c.id END) FILTER (WHERE
                   (f.states IS NULL OR CASE WHEN c.ended IS NOT NULL THEN c.ended
                                             WHEN c.start_time IS NOT NULL THEN 'running'
                                             WHEN c.start_before <= moment THEN 'expired'
                                             WHEN c.run_at <= moment THEN 'ready'
                                             WHEN c.failed > 0 THEN 'retrying' ELSE 'scheduled' END = ANY (f.states))
                   AND (f.queues IS NULL OR c.queue = ANY (f.queues))
                   AND (f.kinds IS NULL OR c.kind = ANY (f.kinds))
                   AND (f.before IS NULL OR c.since < f.before)
                   AND (f.unique_key IS NULL OR c.unique_key = f.unique_key)
                   AND (f.trace IS NULL OR c.trace = f.trace)
                   AND (f.enqueued_by IS NULL OR c.enqueued_by = f.enqueued_by)
                   AND (f.errors IS NULL OR c.error_class = ANY (f.errors))
                   AND (f.payload IS NULL OR c.payload @@ f.payload)), '{}'),
               count(*), coalesce(CASE WHEN newest THEN min(c.id) ELSE max(c.id) END, next)
          INTO fits, n, next
          FROM ((SELECT * FROM tenon.anywhere a
                  WHERE newest AND f.ids IS NULL AND a.id < next AND a.place = ANY (places) ORDER BY a.id DESC LIMIT piece)
                UNION ALL
                (SELECT * FROM tenon.anywhere a
                  WHERE NOT newest AND f.ids IS NULL AND a.id > next AND a.place = ANY (places) ORDER BY a.id LIMIT piece)
                UNION ALL
                (SELECT * FROM tenon.anywhere a
                  WHERE f.ids IS NOT NULL AND a.id = ANY (f.ids) AND a.place = ANY (places)
                    AND (newest AND a.id < next OR NOT newest AND a.id > next))) c;
        IF cardinality(ids) + cardinality(fits) > most THEN
            ids := ids || fits[1:most - cardinality(ids)];
            next := ids[most];
            RETURN;
        END IF;
        ids := ids || fits;
        next := CASE WHEN n = piece THEN next END;
        EXIT WHEN next IS NULL OR cardinality(ids) = most OR clock_timestamp() >= moment + limit_ms * interval '1 ms';
        piece := least(piece * 2, 20000);
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
BEGIN
    WITH new AS (
        UPDATE tenon.task t
           SET priority = coalesce(priority, t.priority), run_at = coalesce(run_at, t.run_at),
               delayed = t.delayed OR run_at IS NOT NULL
         WHERE t.id = ANY (ids) AND t.start_time IS NULL RETURNING t.id)
    SELECT array_agg(new.id) INTO changed FROM new;
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
    FOR a IN SELECT * FROM tenon.again g WHERE NOT g.taken ORDER BY g.id FOR UPDATE SKIP LOCKED LOOP
        n := n + tenon.settle_again(a)::integer;
        EXIT WHEN n >= most OR clock_timestamp() > moment + interval '1 second';
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
    IF held.id IS NOT NULL THEN
        SELECT g.* INTO first FROM tenon.again g
         WHERE g.unique_key = a.unique_key AND g.kind = a.kind AND g.taken ORDER BY g.id DESC LIMIT 1;
        first := CASE WHEN first.id IS NOT NULL THEN tenon.joined(a, first) END;
        IF first.id IS NOT NULL THEN
            UPDATE tenon.again g
               SET payload = first.payload, payload_bytes = first.payload_bytes, run_at = first.run_at, start_before = first.start_before
             WHERE g.id = first.id;
            DELETE FROM tenon.again g WHERE g.id = a.id;
        ELSE
            UPDATE tenon.again g SET taken = true WHERE g.id = a.id;
            UPDATE tenon.task t SET again = a.id WHERE t.id = held.id AND t.again IS NULL;
        END IF;
        RETURN true;
    END IF;
    IF EXISTS (SELECT FROM tenon.task t WHERE t.unique_key = a.unique_key AND t.kind = a.kind) THEN
        RETURN false;
    END IF;
    INSERT INTO tenon.task (run_at, created_at, start_before, timeout_ms, max_attempts, priority, delayed, announced,
                            queue, kind, payload, payload_bytes, unique_key, retry, trace, enqueued_by)
    VALUES (greatest(a.run_at, clock_timestamp()), a.created_at, a.start_before, a.timeout_ms, a.max_attempts, a.priority,
            a.run_at > clock_timestamp(), false,
            a.queue, a.kind, a.payload, a.payload_bytes, a.unique_key, a.retry, a.trace, a.enqueued_by)
    ON CONFLICT DO NOTHING;
    IF FOUND THEN
        DELETE FROM tenon.again g WHERE g.id = a.id;
    END IF;
    RETURN true;
EXCEPTION WHEN lock_not_available THEN
    RETURN false;
END $$;

CREATE FUNCTION tenon.slots_wanted(tasks_per_s double precision, run_s double precision, ready bigint, running bigint, oldest_s double precision, latency_s double precision) RETURNS integer
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT least(1000000, greatest(sign(ready), ceil(greatest(coalesce(tasks_per_s * run_s / 0.8, 0), running)
                               + ready * least(1, coalesce(run_s / greatest(latency_s - oldest_s, latency_s / 4), 1)))))::integer
$$;

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

CREATE FUNCTION tenon.task_ended() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    UPDATE tenon.again SET taken = false WHERE unique_key = OLD.unique_key AND kind = OLD.kind;
    PERFORM pg_notify('tenon', 'settle');
    RETURN NULL;
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
            CASE d.reason WHEN 'failures' THEN format('it failed %s times, which is all that it had', d.failures)
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
    ELSE
        SELECT * INTO code, sentence, advice FROM tenon.why_ended(id);
    END IF;
END $$;

CREATE FUNCTION tenon.why_ready(t tenon.task, OUT code text, OUT sentence text, OUT advice text) RETURNS record
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    p record;
    h record := tenon.handled(t.queue, t.kind);
    a record;
BEGIN
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
                    ELSE 'those that live serve ' || left(string_agg(format('%s/%s', array_to_string(w.queues, ','), array_to_string(w.kinds, ',')), ' and ' ORDER BY w.started_at), 300) END
               FROM tenon.worker w WHERE w.ended_at IS NULL AND w.state = 'alive'));
        advice := format('start one: tenon worker --queues %s --handler ''%s=...''', t.queue, t.kind);
    ELSIF h.backs_off IS NOT NULL THEN
        code := 'handler_backs_off';
        sentence := format('The handler of the kind %s does not start and backs off %s.', t.kind, h.backs_off);
        advice := 'mend the handler; the worker tries again by itself';
    ELSE
        a := tenon.ahead_of(t, 10000);
        code := 'no_free_slot';
        sentence := format('It is ready since %s and waits for a free slot, behind %s%s tasks, %s of them of a higher priority.',
                           tenon.time_text(t.run_at), CASE WHEN a.n = 10000 THEN 'at least ' ELSE '' END, a.n, a.higher);
        advice := format('more slots or workers, or tenon set %s --priority 9', t.id);
    END IF;
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
                       THEN 'that worker is gone, and a cleaner gives the task back within a minute: is one running?'
                       ELSE format('tenon cancel %s stops it', t.id) END;
    ELSIF t.start_before <= clock_timestamp() THEN
        code := 'ended';
        sentence := format('It is expired: it had not started before %s.', tenon.time_text(t.start_before));
        advice := 'a cleaner moves it to the history within a second: is one running?';
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
    task.start_before
   FROM tenon.task
UNION ALL
 SELECT 'finished'::text AS place,
    finished.id,
    finished.outcome AS ended,
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
    NULL::timestamp with time zone AS start_before
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
    NULL::timestamp with time zone AS start_before
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
    audit_keep interval DEFAULT '90 days'::interval NOT NULL,
    paused boolean DEFAULT false NOT NULL,
    paused_by text,
    paused_at timestamp with time zone,
    paused_why text,
    leader_key bigint DEFAULT tenon.random_key() NOT NULL,
    sleeper_key bigint DEFAULT tenon.random_key() NOT NULL,
    CONSTRAINT setting_attempt_keep_check CHECK ((EXTRACT(epoch FROM attempt_keep) >= (3600)::numeric)),
    CONSTRAINT setting_audit_keep_check CHECK ((EXTRACT(epoch FROM audit_keep) > (0)::numeric)),
    CONSTRAINT setting_dead_keep_check CHECK ((EXTRACT(epoch FROM dead_keep) >= (3600)::numeric)),
    CONSTRAINT setting_exchange_check CHECK ((exchange ~ '^[a-z0-9_][a-z0-9_-]{0,62}$'::text)),
    CONSTRAINT setting_history_keep_check CHECK (((EXTRACT(epoch FROM history_keep) = (0)::numeric) OR (EXTRACT(epoch FROM history_keep) >= (3600)::numeric))),
    CONSTRAINT setting_history_rows_max_check CHECK ((history_rows_max > 0)),
    CONSTRAINT setting_on_dead_check CHECK ((on_dead ~ '^[A-Za-z0-9_.:-]{1,100}$'::text)),
    CONSTRAINT setting_one_check CHECK (one),
    CONSTRAINT setting_payload_bytes_max_check CHECK ((payload_bytes_max > 0))
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

ALTER TABLE ONLY tenon.audit
    ADD CONSTRAINT audit_pkey PRIMARY KEY (id);

ALTER TABLE ONLY tenon.dead
    ADD CONSTRAINT dead_pkey PRIMARY KEY (id);

ALTER TABLE ONLY tenon.home
    ADD CONSTRAINT home_pkey PRIMARY KEY (one);

ALTER TABLE ONLY tenon.kind
    ADD CONSTRAINT kind_pkey PRIMARY KEY (name);

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

ALTER TABLE ONLY tenon.task
    ADD CONSTRAINT task_pkey PRIMARY KEY (id);

ALTER TABLE ONLY tenon.unique_hold
    ADD CONSTRAINT unique_hold_pkey PRIMARY KEY (unique_key, kind);

ALTER TABLE ONLY tenon.worker
    ADD CONSTRAINT worker_pkey PRIMARY KEY (id);

CREATE INDEX again_key ON tenon.again USING btree (unique_key, kind);

CREATE INDEX again_untaken ON tenon.again USING btree (id) WHERE (NOT taken);

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

CREATE INDEX audit_at ON tenon.audit USING btree (at);

CREATE INDEX dead_at ON tenon.dead USING btree (dead_at);

CREATE INDEX finished_id ON ONLY tenon.finished USING btree (id);

CREATE INDEX kind_paused ON tenon.kind USING btree (name) WHERE paused;

CREATE INDEX schedule_due ON tenon.schedule USING btree (due_at);

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

REVOKE ALL ON FUNCTION tenon.act_states(act text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.adopt() FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.ahead_of(t tenon.task, most integer, OUT n bigint, OUT higher bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.as_again(t tenon.task) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.backlog_seen(queue text, OUT ready bigint, OUT running bigint, OUT oldest_s double precision, OUT running_s double precision) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.cancel(id bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.cancel_all(filter jsonb, most integer, why text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.cancel_ids(ids bigint[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.change(act text, filter jsonb, changes jsonb, most integer, after bigint, why text, audit bigint, limit_ms integer, OUT n bigint, OUT skipped bigint, OUT next bigint, OUT audit_id bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.changed_integer(changes jsonb, key text, lowest integer, highest integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.changed_ms(changes jsonb, key text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.changed_run_at(changes jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.check_act(act text, changes jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.check_allowed(kind text, queue text, payload jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.check_changes(changes jsonb, keys text[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.check_enqueue(kind text, queue text, priority integer, run_at timestamp with time zone, delay interval, start_before timestamp with time zone, max_attempts integer, timeout interval, retry text, trace text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.check_most(most integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.check_payload(payload jsonb, bytes_max integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.check_schedule(name text, cron text, every interval, kind text, document jsonb, queue text, priority integer, max_attempts integer, timeout interval, catch_up text, overlap text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.check_target(queue text, kind text, everything boolean) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.check_unique(unique_key text, on_conflict text, unique_for interval, debounce interval, debounce_max interval, run_at timestamp with time zone, delay interval) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.check_zone(zone text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.claim_must_hold(claim text, holds boolean, worker_id uuid) FROM PUBLIC;

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

REVOKE ALL ON FUNCTION tenon.drop_schedule(name text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.ended_by(error text, OUT exit_code integer, OUT signal integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.enqueue(kind text, payload anycompatible, queue text, priority integer, run_at timestamp with time zone, delay interval, unique_key text, on_conflict text, unique_for interval, debounce interval, debounce_max interval, start_before timestamp with time zone, max_attempts integer, timeout interval, retry text, trace text, notify boolean, announced boolean) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.enqueue_again(a tenon.again, notify boolean) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.enqueue_many(kind text, payloads anycompatiblearray, queue text, priority integer, run_at timestamp with time zone, delay interval, unique_keys text[], on_conflict text, unique_for interval, debounce interval, debounce_max interval, start_before timestamp with time zone, max_attempts integer, timeout interval, retry text, trace text, notify boolean, announced boolean) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.enqueue_routed(kind text, payload anycompatible, queue text, priority integer, run_at timestamp with time zone, delay interval, unique_key text, on_conflict text, unique_for interval, debounce interval, debounce_max interval, start_before timestamp with time zone, max_attempts integer, timeout interval, retry text, trace text, notify boolean, announced boolean) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.enqueue_tick(s tenon.schedule, tick timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.error_class(reason text, error text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.error_line(error text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.extend(claim text, by interval) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.filter_ids(value jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.filter_keys() FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.filter_path(value jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.filter_states(f tenon.filter, act text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.filter_text(value jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.filter_texts(value jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.filter_with(f tenon.filter, key text, value jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.find(filter jsonb, act text, after bigint, most integer, limit_ms integer, OUT ids bigint[], OUT next bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.finish(claim text, result jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.first_tick(s tenon.schedule, moment timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.grant_acts(role text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.grant_cleaner(role text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.grant_home(role text, adopts boolean) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.grant_lists(role text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.grant_operator(role text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.grant_producer(role text, queues text[], kinds text[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.grant_reader(role text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.grant_worker(role text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.handled(queue text, kind text, OUT workers bigint, OUT backs_off text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.hold_key(kind text, unique_key text, until timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.hold_schedule(name text, source text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.holder(kind text, unique_key text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.home_here() FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.home_text(h tenon.home) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.is_kind(kind text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.retry_parts(policy text, OUT curve text, OUT first_s double precision, OUT cap_s double precision, OUT jitter double precision) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.is_retry(policy text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.join_holder(a tenon.again, patience interval) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.joined(a tenon.again, b tenon.again) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.last_tick(s tenon.schedule, moment timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.list(filter jsonb, after bigint, most integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.lock_found(act text, ids bigint[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.make_partitions(days_ahead integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.may_cancel(enqueued_by text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.may_enqueue(queue text, kind text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.mine() FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.need_partition(moment timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.next_tick(cron text, zone text, after timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.next_tick_hourly(c tenon.cron, zone text, after timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.note_audit(act text, what jsonb, n bigint, skipped bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.note_change(audit bigint, act text, what jsonb, n bigint, skipped bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.note_confined() FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.note_schedule(act text, name text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.or_old(changes jsonb, key text, new bigint, old bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.parse_cron(cron text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.pause(queue text, kind text, everything boolean, why text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.pause_schedule(name text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.paused_kinds(kinds text[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.places(states text[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.printed_bytes(value jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.progress(claim text, value jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.progress_kept(line text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.publisher_sleeps(key bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.purge(most integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.queue_names(most bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.random_key() FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.rate_seen(queue text, OUT tasks_per_s double precision, OUT run_s double precision) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.read_claim(claim text, OUT id bigint, OUT claims integer, OUT start_time timestamp with time zone, OUT worker_id uuid) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.read_filter(filter jsonb, act text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.refuse(argument text, value text, allowed text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.refuse_cron(field text, word text, why text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.requeue(ids bigint[], claims integer[], starts_us bigint[], worker uuid, reasons text[], errors text[], delays_ms bigint[], classes text[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.result_kept(result jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.resume(queue text, kind text, everything boolean, why text) FROM PUBLIC;

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

REVOKE ALL ON FUNCTION tenon.set_queue(name text, changes jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.set_schedule(name text, cron text, every interval, kind text, payload anycompatible, zone text, catch_up text, overlap text, queue text, priority integer, max_attempts integer, timeout interval, source text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.settle(most integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.settle_again(a tenon.again) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.slots_wanted(tasks_per_s double precision, run_s double precision, ready bigint, running bigint, oldest_s double precision, latency_s double precision) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.sync_schedules(source text, schedules jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.task_ended() FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.tell_paused(queue text, paused boolean) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.tick_after(s tenon.schedule, after timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.tick_payload(payload jsonb, tick timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.time_text(moment timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.wake(ids bigint[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.wall_moment(zone text, wall timestamp without time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.why(id bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.why_ended(id bigint, OUT code text, OUT sentence text, OUT advice text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.why_of(id bigint, OUT code text, OUT sentence text, OUT advice text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.why_ready(t tenon.task, OUT code text, OUT sentence text, OUT advice text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.why_unfinished(t tenon.task, OUT code text, OUT sentence text, OUT advice text) FROM PUBLIC;

REVOKE ALL ON FUNCTION tenon.zone_offset(zone text, moment timestamp with time zone) FROM PUBLIC;

