-- Pausing; defaults of queues and kinds; settings.

CREATE OR REPLACE FUNCTION tenon.pause_sentence(p tenon.paused) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT concat(CASE p.what WHEN 'everything' THEN 'everything' ELSE format('the %s %s', p.what, p.name) END, ' is paused by ', p.paused_by,
                  to_char(p.paused_at AT TIME ZONE 'UTC', '" since "YYYY-MM-DD HH24:MI:SS "UTC"'), ': ' || p.paused_why)
$$;

-- The command that ends the pause.
CREATE OR REPLACE FUNCTION tenon.pause_advice(p tenon.paused) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE p.what WHEN 'everything' THEN 'tenon resume --all' WHEN 'kind' THEN 'tenon resume --kind ' || p.name
                       WHEN 'queue' THEN 'tenon resume ' || p.name ELSE format('tenon %s resume %s', p.what, p.name) END
$$;

CREATE OR REPLACE FUNCTION tenon.pause_one(what text, name text, why text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM tenon.check_length('why', why, 1000);
    INSERT INTO tenon.paused AS p (what, name, paused_by, paused_at, paused_why)
    VALUES (pause_one.what, pause_one.name, session_user, clock_timestamp(), why)
    ON CONFLICT ON CONSTRAINT paused_pkey DO UPDATE
       SET paused_by = excluded.paused_by, paused_at = excluded.paused_at, paused_why = excluded.paused_why;
END $$;

-- Returns whether it was paused.
CREATE OR REPLACE FUNCTION tenon.resume_one(what text, name text) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM tenon.paused p WHERE p.what = resume_one.what AND p.name = resume_one.name;
    RETURN FOUND;
END $$;

-- What to pause or resume: a queue, a kind, or everything; and names that are such.
CREATE OR REPLACE FUNCTION tenon.check_target(queue text, kind text, everything boolean) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF num_nonnulls(queue, kind) + coalesce(everything, false)::integer <> 1 THEN
        PERFORM tenon.refuse_call(CASE WHEN num_nonnulls(queue, kind) + coalesce(everything, false)::integer = 0 THEN 'no queue or kind is given'
                                       ELSE 'more than one of queue, kind and everything is given' END,
                                  'Give one queue, one kind, or everything => true.');
    END IF;
    PERFORM tenon.check_enqueue(coalesce(kind, 'a'), queue, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
    PERFORM tenon.settings();
END $$;

-- Workers hear of kinds and of everything by this NOTIFY. Of queues their next claim knows; when one is resumed they
-- poll.
CREATE OR REPLACE FUNCTION tenon.tell_paused(queue text, paused boolean) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF queue IS NULL THEN
        PERFORM pg_notify('tenon_wakeup', 'pause');
    ELSIF NOT paused THEN
        PERFORM pg_notify('tenon_wakeup', '');
    END IF;
END $$;

CREATE OR REPLACE FUNCTION tenon.pause(queue text DEFAULT NULL, kind text DEFAULT NULL, everything boolean DEFAULT false,
    why text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM tenon.check_target(queue, kind, everything);
    PERFORM tenon.pause_one(CASE WHEN everything THEN 'everything' WHEN queue IS NULL THEN 'kind' ELSE 'queue' END, coalesce(queue, kind, ''), why);
    PERFORM tenon.tell_paused(queue, true);
    PERFORM tenon.note_audit('pause', jsonb_build_object('queue', queue, 'kind', kind, 'why', why,
                                                         'everything', NULLIF(everything, false)), 1);
END $$;

COMMENT ON FUNCTION tenon.pause IS $$Pauses a queue, a kind, or with `everything => true` every queue and kind, including future ones. `tenon.paused` shows who paused it, when and why. After the commit workers claim no more of its tasks: of a queue at once, of a kind or of everything when they receive the NOTIFY, or within 5 s if they miss it. Running tasks continue, and tasks can be enqueued.$$;

CREATE OR REPLACE FUNCTION tenon.resume(queue text DEFAULT NULL, kind text DEFAULT NULL, everything boolean DEFAULT false,
    why text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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

COMMENT ON FUNCTION tenon.resume IS $$Ends a pause; returns whether there was one. `everything => true` does not resume a queue or kind that was paused by its own name.$$;

-- Its next claim finds that it is not alive, and its next ping that it drains.
CREATE OR REPLACE FUNCTION tenon.drain(worker uuid, why text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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

COMMENT ON FUNCTION tenon.drain IS $$Drains a worker, as SIGTERM does: after the commit it claims no more tasks, gives its running tasks up to `--drain-limit` to finish, and ends with status 0. It hears of it by NOTIFY, or within 5 s if it misses that. Returns whether the worker (`id` of `tenon.worker`) was alive and not draining. A service manager that restarts workers starts another one: to take a machine out of use, stop the service there.$$;

-- Which of these kinds are paused: "a,b"; "*" = everything is, or may be, because the settings are missing; NULL = none. Plain
-- SQL, so that it is inlined into the statements of a worker's presence.
CREATE OR REPLACE FUNCTION tenon.paused_kinds(kinds text[]) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN NOT EXISTS (SELECT FROM tenon.setting) OR EXISTS (SELECT FROM tenon.paused p WHERE p.what = 'everything') THEN '*'
                ELSE (SELECT string_agg(p.name, ',') FROM tenon.paused p WHERE p.what = 'kind' AND p.name = ANY ($1)) END
$$;

CREATE OR REPLACE FUNCTION tenon.run_ms_of(argument text, span interval) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ms numeric := extract(epoch FROM span) * 1000;
BEGIN
    IF ms NOT BETWEEN 1 AND 2592000000 THEN
        PERFORM tenon.refuse(argument, span::text, '1 millisecond to 30 days');
    END IF;
    RETURN ms::bigint;
END $$;

-- Something must be set or unset, and only these defaults can be unset.
CREATE OR REPLACE FUNCTION tenon.check_unset(unset text[], allowed text[], given integer) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF cardinality(unset) > 20 OR NOT unset <@ allowed THEN
        PERFORM tenon.refuse('unset', left(unset::text, 100), 'an array of ' || array_to_string(allowed, ', '));
    ELSIF given + cardinality(unset) = 0 THEN
        PERFORM tenon.refuse_call('nothing is set or unset', 'Give a default, or unset with any of ' || array_to_string(allowed, ', ') || '.');
    END IF;
END $$;

CREATE OR REPLACE FUNCTION tenon.set_queue(name text, priority integer DEFAULT NULL, max_attempts integer DEFAULT NULL,
    timeout interval DEFAULT NULL, retry text DEFAULT NULL, unset text[] DEFAULT '{}') RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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

COMMENT ON FUNCTION tenon.set_queue IS $$Sets defaults of a queue (`tenon.queue`): those that are given, for instance `timeout => '10 min'`; `retry` as for `tenon.enqueue`. `unset` names defaults to remove: `unset => '{priority}'`. They apply to tasks that are enqueued later.$$;

CREATE OR REPLACE FUNCTION tenon.set_kind(name text, queue text DEFAULT NULL, priority integer DEFAULT NULL, max_attempts integer DEFAULT NULL,
    max_crashes integer DEFAULT NULL, timeout interval DEFAULT NULL, timeout_min interval DEFAULT NULL, on_timeout text DEFAULT NULL,
    retry text DEFAULT NULL, on_dead text DEFAULT NULL, limit_keys text[] DEFAULT NULL,
    history_keep interval DEFAULT NULL, dead_keep interval DEFAULT NULL, unset text[] DEFAULT '{}') RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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

COMMENT ON FUNCTION tenon.set_kind IS $$Sets defaults of a kind (`tenon.kind`): those that are given. `max_crashes` is 2 to 100, `on_timeout` is `retry` or `dead`, `retry` as for `tenon.enqueue`, `on_dead` a kind. No task of it can be enqueued with a `timeout` below `timeout_min`. Tasks that are enqueued without `limit_keys` get those of their kind. `unset` names defaults to remove: `unset => '{retry,on_dead}'`. They apply to tasks that are enqueued later.

`history_keep` and `dead_keep`, an hour to 1,000 years, are how long its ended and its dead tasks are kept, whenever they were enqueued: [operations.md](operations.md#retention). A kind cannot have 0.$$;

-- One key after the other, so that an error can name the key.
CREATE OR REPLACE FUNCTION tenon.set_settings(changes jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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

COMMENT ON FUNCTION tenon.set_settings IS $$Changes settings (`tenon.setting`); `changes` has any of `payload_bytes_max`, `history_keep`, `history_rows_max`, `exchange`, `cancel_own_only`, `attempt_keep`, `dead_keep`, `signal_keep`, `outbox_keep`, `once_keep`, `log_keep` and `on_dead` (null removes it): `{"history_keep": "7 days", "on_dead": "tell_ops"}`. Leaves a row in `tenon.audit`. For operators. Only the owner of the schema can set `audit_keep`, with UPDATE.$$;
