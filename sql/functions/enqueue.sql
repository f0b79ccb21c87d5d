-- Enqueueing, from any language, inside the caller's own transaction.

-- The checks of what is enqueued. Without a search_path of their own: only functions that have one call them, and to
-- set it costs more than the checks.
CREATE OR REPLACE FUNCTION tenon.check_trace(trace text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF trace !~ '^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$' THEN
        PERFORM tenon.refuse('trace', quote_literal(trace), 'a W3C traceparent, such as 00-<32 hex>-<16 hex>-01');
    END IF;
END $$;

CREATE OR REPLACE FUNCTION tenon.check_enqueue(kind text, queue text, priority integer, run_at timestamptz,
    delay interval, start_before timestamptz, max_attempts integer, timeout interval, retry text, trace text)
RETURNS boolean
LANGUAGE plpgsql AS $$
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
END $$;

-- Tags as they are kept: each once, in their order; NULL = none.
CREATE OR REPLACE FUNCTION tenon.check_tags(tags text[]) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE AS $$
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

-- The checks of what is given with a unique_key.
CREATE OR REPLACE FUNCTION tenon.check_unique(unique_key text, on_conflict text, unique_for interval, debounce interval,
    debounce_max interval, run_at timestamptz, delay interval) RETURNS boolean
LANGUAGE plpgsql AS $$
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

CREATE OR REPLACE FUNCTION tenon.check_payload(payload jsonb, bytes_max integer) RETURNS void
LANGUAGE plpgsql AS $$
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

-- The defaults of a task: the kind's, else the queue's, else the built-in ones. One row; plain SQL, so that PostgreSQL inlines it.
CREATE OR REPLACE FUNCTION tenon.defaults(kind text, queue text)
RETURNS TABLE (queue text, priority smallint, max_attempts integer, timeout_ms bigint, payload_bytes_max integer,
    confined boolean, exchange text, sleeper_key bigint, limits text[], limit_keys text[])
LANGUAGE sql STABLE AS $$
    SELECT coalesce($2, k.queue, 'default'), coalesce(k.priority, q.priority, 4::smallint),
           coalesce(k.max_attempts, q.max_attempts, 25), coalesce(k.timeout_ms, q.timeout_ms, 3600000),
           s.payload_bytes_max, s.confined, s.exchange, s.sleeper_key,
           CASE WHEN k.limited OR q.limited
                THEN array_remove(ARRAY[CASE WHEN k.limited THEN 'kind/' || k.name END, CASE WHEN q.limited THEN 'queue/' || q.name END], NULL) END,
           k.limit_keys
      FROM tenon.setting s
      LEFT JOIN tenon.kind k ON k.name = $1
      LEFT JOIN tenon.queue q ON q.name = coalesce($2, k.queue, 'default')
$$;

-- Raises what is wrong with the task, if anything is.
CREATE OR REPLACE FUNCTION tenon.check_allowed(kind text, queue text, payload jsonb) RETURNS void
LANGUAGE plpgsql AS $$
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

-- Must the leading cleaner be woken, to publish a task, or to settle one that is blocked? Only while it sleeps, and then it holds the
-- advisory lock sleeper_key of tenon.setting.
-- (A NOTIFY in every commit would serialize all commits.)
CREATE OR REPLACE FUNCTION tenon.publisher_sleeps(key bigint) RETURNS boolean
LANGUAGE sql AS $$ SELECT NOT pg_catalog.pg_try_advisory_xact_lock_shared(key) $$;

-- Checks a task and enqueues it. It takes base types only: to convert a value of the caller's own type here would run the
-- caller's code as the schema's owner. `notify`: a transaction that is PREPAREd can neither NOTIFY nor hold the publisher's
-- lock. One long function, because each call of another one costs every enqueue some microseconds.
CREATE OR REPLACE FUNCTION tenon.enqueue_jsonb(kind text, payload jsonb, queue text, priority integer, run_at timestamptz, delay interval,
    unique_key text, on_conflict text, unique_for interval, debounce interval, debounce_max interval, start_before timestamptz,
    max_attempts integer, timeout interval, retry text, limit_keys text[], flow bigint, depends_on bigint[], on_parent_dead text,
    tags text[], trace text, notify boolean, announced boolean) RETURNS tenon.enqueued
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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

COMMENT ON FUNCTION tenon.enqueue_jsonb IS $$Internal: `tenon.enqueue` and `tenon.enqueue_routed` convert the payload, and call it.$$;

-- The functions that producers call only convert the payload: as the caller, and in plain SQL, which becomes a call
-- of tenon.enqueue_jsonb when PostgreSQL plans the statement. `payload` is of any type, so that producers need not cast what
-- their driver sends; an untyped one is a text. libtenon calls enqueue_routed by position, because PostgreSQL must resolve the
-- call each time.
CREATE OR REPLACE FUNCTION tenon.enqueue_routed(kind text, payload anycompatible DEFAULT '{}'::jsonb, queue text DEFAULT NULL,
    priority integer DEFAULT NULL, run_at timestamptz DEFAULT NULL, delay interval DEFAULT NULL,
    unique_key text DEFAULT NULL, on_conflict text DEFAULT NULL, unique_for interval DEFAULT NULL,
    debounce interval DEFAULT NULL, debounce_max interval DEFAULT NULL, start_before timestamptz DEFAULT NULL,
    max_attempts integer DEFAULT NULL, timeout interval DEFAULT NULL, retry text DEFAULT NULL, limit_keys text[] DEFAULT NULL,
    flow bigint DEFAULT NULL, depends_on bigint[] DEFAULT NULL, on_parent_dead text DEFAULT NULL, tags text[] DEFAULT NULL,
    trace text DEFAULT NULL, notify boolean DEFAULT true, announced boolean DEFAULT true) RETURNS tenon.enqueued
LANGUAGE sql AS $$
    SELECT tenon.enqueue_jsonb(kind, payload::pg_catalog.jsonb, queue, priority, run_at, delay, unique_key, on_conflict,
                               unique_for, debounce, debounce_max, start_before, max_attempts, timeout, retry, limit_keys,
                               flow, depends_on, on_parent_dead, tags, trace, notify, announced)
$$;

COMMENT ON FUNCTION tenon.enqueue_routed IS $$Like `tenon.enqueue`, for producers that publish the wake-up themselves, near their commit. Returns the id, and the exchange and the routing key to publish it with. `announced` is true by default.$$;

CREATE OR REPLACE FUNCTION tenon.enqueue(kind text, payload anycompatible DEFAULT '{}'::jsonb, queue text DEFAULT NULL,
    priority integer DEFAULT NULL, run_at timestamptz DEFAULT NULL, delay interval DEFAULT NULL,
    unique_key text DEFAULT NULL, on_conflict text DEFAULT NULL, unique_for interval DEFAULT NULL,
    debounce interval DEFAULT NULL, debounce_max interval DEFAULT NULL, start_before timestamptz DEFAULT NULL,
    max_attempts integer DEFAULT NULL, timeout interval DEFAULT NULL, retry text DEFAULT NULL, limit_keys text[] DEFAULT NULL,
    flow bigint DEFAULT NULL, depends_on bigint[] DEFAULT NULL, on_parent_dead text DEFAULT NULL, tags text[] DEFAULT NULL,
    trace text DEFAULT NULL, notify boolean DEFAULT true, announced boolean DEFAULT false) RETURNS bigint
LANGUAGE sql AS $$
    SELECT (tenon.enqueue_jsonb(kind, payload::pg_catalog.jsonb, queue, priority, run_at, delay, unique_key, on_conflict,
                                unique_for, debounce, debounce_max, start_before, max_attempts, timeout, retry, limit_keys,
                                flow, depends_on, on_parent_dead, tags, trace, notify, announced)).id
$$;

COMMENT ON FUNCTION tenon.enqueue IS $$Enqueues one task in the caller's transaction and returns its id. The task runs if the transaction commits, and never if it rolls back.

- `kind`: 1 to 100 of `A-Z a-z 0-9 _ . : -`; selects the handler.
- `payload`: the handler's input: `json`, `jsonb` or a text that is JSON, at most 1 MB (`payload_bytes_max` in `tenon.setting`). Other text is refused with SQLSTATE 22P02.
- `queue`: 1 to 63 of `a-z 0-9 _ . -`; default: that of the kind in `tenon.kind`, else `default`.
- `priority`: 0 to 9, higher first; default: that of the kind, else of the queue, else 4.
- `run_at`, `delay`: start at this time, or after this time has passed (a day is 24 hours, a month 30 days, in every time zone), at most 10 years ahead. Give one of them, not both. Default: at once.
- `unique_key`: 1 to 200 characters. While a task of the kind holds the key and has not started, no task is added, and the holder's id is returned. If the holder is running, one more task follows when it ends, so that a run always starts after your commit.
- `on_conflict`: what happens to the holder if it has not started: `keep` it unchanged, the default; `replace` its payload, `run_at` and `start_before`; or `merge` the payloads with the operator `||`.
- `unique_for`: reserves the key for this time, even after its task has ended. Another enqueue that gives `unique_for` returns that task's id and adds no run. While the task has not ended, `replace`, `merge` and `debounce` still change it or add a run after it.
- `debounce`: start when this time has passed without another enqueue under the key, but at the latest `debounce_max` (at most 365 days) after the first. `on_conflict` is then `replace` by default.
- `start_before`: if the task, or a retry of it, has not started by this time, it is `expired`.
- `max_attempts`: the number of failures that makes the task dead, 1 to 1,000; default: that of the kind, else of the queue, else 25.
- `timeout`: the time limit of one run, 1 ms to 30 days, and at least `timeout_min_ms` of the kind; default: that of the kind, else of the queue, else one hour.
- `retry`: the delay before a retry, in at most 100 characters: `polynomial`, `polynomial(1 day, 10 %)`, or `exponential(10 s, 1 h, 10 %)`, `linear(...)`, `constant(...)`, with the first delay, the longest delay (at most and by default 30 days) and the random addition (default 10 %); default: that of the kind, else of the queue, else `polynomial`.
- `limit_keys`: 1 to 4 keys, such as `{tenant:42,openai}`. The limits of these keys apply to the task: it is `blocked` until they release it ([limits.md](limits.md)). Default: those of the kind.
- `flow`: the flow to which the task is added ([flows.md](flows.md)); not together with `unique_key`.
- `depends_on`: tasks of flows, the parents: the task is `blocked` until they are done.
- `on_parent_dead`: what happens when a parent is dead, cancelled or expired: `wait`, the default, until it is retried and done; `run` the task nevertheless; or `cancel` the task.
- `tags`: up to 10 texts of 1 to 100 characters, by which tasks are found (`tenon.list`), such as `{import-7}`. They change nothing else.
- `trace`: a W3C traceparent, which the handler gets.
- `notify`: false in a transaction that will be prepared (`PREPARE TRANSACTION`).
- `announced`: true if the caller publishes the wake-up itself.

An argument that is not allowed raises SQLSTATE 22023; the message names the argument and its value, the hint what is allowed. A queue or kind that the role may not use (`tenon.producer`) raises 42501.$$;

-- Checks the arrays of tenon.enqueue_many that have one element for each payload.
CREATE OR REPLACE FUNCTION tenon.check_elements(n integer, unique_keys text[], queues text[], priorities integer[], run_ats timestamptz[],
    start_before timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
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

-- The same for many tasks, in one statement, which is why it is long. With keys, each by itself; with queues, queue by queue, because
-- they have different defaults. `traces` are for tenon.take_in, without keys and queues: one for each payload.
CREATE OR REPLACE FUNCTION tenon.enqueue_many_jsonb(kind text, payloads jsonb[], queue text, priority integer, run_at timestamptz, delay interval,
    unique_keys text[], on_conflict text, unique_for interval, debounce interval, debounce_max interval, start_before timestamptz,
    max_attempts integer, timeout interval, retry text, limit_keys text[], flow bigint, depends_on bigint[], on_parent_dead text,
    tags text[], trace text, notify boolean, announced boolean, queues text[], priorities integer[], run_ats timestamptz[],
    traces text[]) RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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

COMMENT ON FUNCTION tenon.enqueue_many_jsonb IS $$Internal: `tenon.enqueue_many` converts the payloads, and calls it.$$;

CREATE OR REPLACE FUNCTION tenon.enqueue_many(kind text, payloads anycompatiblearray, queue text DEFAULT NULL,
    priority integer DEFAULT NULL, run_at timestamptz DEFAULT NULL, delay interval DEFAULT NULL,
    unique_keys text[] DEFAULT NULL, on_conflict text DEFAULT NULL, unique_for interval DEFAULT NULL,
    debounce interval DEFAULT NULL, debounce_max interval DEFAULT NULL, start_before timestamptz DEFAULT NULL,
    max_attempts integer DEFAULT NULL, timeout interval DEFAULT NULL, retry text DEFAULT NULL, limit_keys text[] DEFAULT NULL,
    flow bigint DEFAULT NULL, depends_on bigint[] DEFAULT NULL, on_parent_dead text DEFAULT NULL, tags text[] DEFAULT NULL,
    trace text DEFAULT NULL, notify boolean DEFAULT true, announced boolean DEFAULT false, queues text[] DEFAULT NULL,
    priorities integer[] DEFAULT NULL, run_ats timestamptz[] DEFAULT NULL) RETURNS bigint[]
LANGUAGE sql AS $$
    SELECT tenon.enqueue_many_jsonb(kind, payloads::pg_catalog.jsonb[], queue, priority, run_at, delay, unique_keys, on_conflict,
                                    unique_for, debounce, debounce_max, start_before, max_attempts, timeout, retry, limit_keys,
                                    flow, depends_on, on_parent_dead, tags, trace, notify, announced, queues, priorities, run_ats, NULL)
$$;

COMMENT ON FUNCTION tenon.enqueue_many IS $$Enqueues one task per element of `payloads` (an array of `json`, `jsonb` or text, at most 100,000), all of one kind; returns their ids in the same order.

- `unique_keys`, `queues`, `priorities`, `run_ats`: NULL, or an array with one element for each payload. Where an element is NULL, the task has no key, and the `queue`, `priority` and `run_at` or `delay` of the call.
- The other arguments are those of `tenon.enqueue`, and apply to all tasks.

Keys are locked in sorted order, so that two calls never deadlock. (A transaction that calls it several times locks the keys of each call after those of the previous call.) An array of another length raises SQLSTATE 22023.$$;

-- Where the wake-up of such a task is published; for producers of many that publish ids themselves.
CREATE OR REPLACE FUNCTION tenon.route_of(kind text, queue text DEFAULT NULL, OUT exchange text, OUT routing_key text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT s.exchange, coalesce($2, (SELECT k.queue FROM tenon.kind k WHERE k.name = $1), 'default') || '/' || $1
      FROM tenon.settings() s
$$;

COMMENT ON FUNCTION tenon.route_of IS $$Returns the exchange and the routing key with which a task of this kind and queue (default: that of the kind) is published; for producers that use `tenon.enqueue_many`.$$;

-- What this transaction has enqueued so far, savepoints included: a row that I can see though the transaction that wrote
-- it is in progress. pg_xact_status() wants 64 bits, of which xmin is the lower half: those for which it is nearest to the
-- snapshot's xmax; a transaction of mine may be above that.
CREATE OR REPLACE FUNCTION tenon.mine() RETURNS SETOF tenon.tasks
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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

COMMENT ON FUNCTION tenon.mine IS $$Returns the tasks that this transaction has enqueued so far and not rolled back to a savepoint, in the form of `tenon.tasks`. For tests of an application, which check them and then roll back. It reads the whole table of unfinished tasks.$$;
