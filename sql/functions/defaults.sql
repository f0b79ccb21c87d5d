-- Pausing; defaults of queues and kinds; settings.

-- What is paused.
CREATE OR REPLACE VIEW tenon.paused AS
    SELECT p.*, concat(CASE p.what WHEN 'everything' THEN 'everything' ELSE 'the ' || p.what || ' ' || p.name END, ' is paused', ' by ' || p.paused_by,
                       to_char(p.paused_at AT TIME ZONE 'UTC', '" since "YYYY-MM-DD HH24:MI:SS "UTC"'), ': ' || p.paused_why) AS sentence,
           'tenon resume ' || CASE p.what WHEN 'everything' THEN '--all' WHEN 'kind' THEN '--kind ' || p.name ELSE p.name END AS advice
      FROM (SELECT 'everything' AS what, NULL AS name, paused_by, paused_at, paused_why FROM tenon.setting WHERE paused
            UNION ALL
            SELECT 'queue', name, paused_by, paused_at, paused_why FROM tenon.queue WHERE paused
            UNION ALL
            SELECT 'kind', name, paused_by, paused_at, paused_why FROM tenon.kind WHERE paused) p;
COMMENT ON VIEW tenon.paused IS 'What is paused, by whom, since when and why.';
COMMENT ON COLUMN tenon.paused.what IS '`everything`, `queue` or `kind`.';
COMMENT ON COLUMN tenon.paused.name IS 'Which queue or kind.';
COMMENT ON COLUMN tenon.paused.paused_by IS 'The role that paused it; NULL = it was not `tenon.pause`.';
COMMENT ON COLUMN tenon.paused.paused_at IS 'When that was.';
COMMENT ON COLUMN tenon.paused.paused_why IS 'And why, as that role said.';
COMMENT ON COLUMN tenon.paused.sentence IS 'The row as a sentence.';
COMMENT ON COLUMN tenon.paused.advice IS 'The command that ends it.';

-- What to pause or resume: a queue, a kind, or everything; and names that are such.
CREATE OR REPLACE FUNCTION tenon.check_target(queue text, kind text, everything boolean) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF num_nonnulls(queue, kind) + coalesce(everything, false)::integer <> 1 THEN
        PERFORM tenon.refuse('the target', concat_ws(' and ', queue, kind, CASE WHEN everything THEN 'everything' END),
                             'one queue, one kind, or everything => true');
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
#variable_conflict use_variable
DECLARE
    at timestamptz := clock_timestamp();
BEGIN
    PERFORM tenon.check_target(queue, kind, everything);
    PERFORM tenon.check_length('why', why, 1000);
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

COMMENT ON FUNCTION tenon.pause IS $$Pauses a queue, a kind, or with `everything => true` all of them, also those that nobody knows yet; who, when and why stand in `tenon.paused`. Workers claim none of it from then on: of a queue at once, else within a second after the commit. What runs goes on, and tasks may be enqueued.$$;

CREATE OR REPLACE FUNCTION tenon.resume(queue text DEFAULT NULL, kind text DEFAULT NULL, everything boolean DEFAULT false,
    why text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    n integer;
BEGIN
    PERFORM tenon.check_target(queue, kind, everything);
    PERFORM tenon.check_length('why', why, 1000);
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

COMMENT ON FUNCTION tenon.resume IS $$Ends what `tenon.pause` began; returns whether it was paused. What was paused by another name stays so: `everything => true` resumes no queue that was paused by itself. A row of `tenon.queue` that says nothing else goes.$$;

-- Which of these kinds are paused: "a,b"; "*" = everything is, or may be, because the settings are missing; NULL = none. Plain
-- SQL, so that it is inlined into the statements of a worker's presence.
CREATE OR REPLACE FUNCTION tenon.paused_kinds(kinds text[]) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN coalesce((SELECT s.paused FROM tenon.setting s), true) THEN '*'
                ELSE (SELECT string_agg(k.name, ',') FROM tenon.kind k WHERE k.paused AND k.name = ANY ($1)) END
$$;

CREATE OR REPLACE FUNCTION tenon.changed_ms(changes jsonb, key text) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
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

-- The new value of a column: what is among the changes, where null means none, else the old one.
CREATE OR REPLACE FUNCTION tenon.or_old(changes jsonb, key text, new bigint, old bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$ SELECT CASE WHEN changes ? key THEN new ELSE old END $$;

CREATE OR REPLACE FUNCTION tenon.set_queue(name text, changes jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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

COMMENT ON FUNCTION tenon.set_queue IS $$Sets defaults of a queue (`tenon.queue`): `changes` has `priority`, `max_attempts`, `timeout` (`"10 min"`) or `retry` (as for `tenon.enqueue`); a null takes the default away. They hold for what is enqueued from then on.$$;

CREATE OR REPLACE FUNCTION tenon.set_kind(name text, changes jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    priority integer;
    attempts integer;
    ms       bigint;
    least_ms bigint;
    crashes  integer;
    outcome  text := changes ->> 'on_timeout';
BEGIN
    PERFORM tenon.check_target(NULL, coalesce(name, ''), false);
    PERFORM tenon.check_changes(changes, '{queue,priority,max_attempts,max_crashes,timeout,timeout_min,on_timeout,retry,on_dead}');
    PERFORM tenon.check_enqueue(name, changes ->> 'queue', NULL, NULL, NULL, NULL, NULL, NULL, changes ->> 'retry', NULL);
    priority := tenon.changed_integer(changes, 'priority', 0, 9);
    attempts := tenon.changed_integer(changes, 'max_attempts', 1, 1000);
    crashes := tenon.changed_integer(changes, 'max_crashes', 2, 100);
    ms := tenon.changed_ms(changes, 'timeout');
    least_ms := coalesce(tenon.changed_ms(changes, 'timeout_min'), 1);
    IF outcome NOT IN ('retry', 'dead') THEN
        PERFORM tenon.refuse('on_timeout', quote_literal(outcome), 'retry or dead');
    END IF;
    IF NOT tenon.is_kind(changes ->> 'on_dead') THEN
        PERFORM tenon.refuse('on_dead', quote_literal(changes ->> 'on_dead'), 'a kind: 1 to 100 of A-Z a-z 0-9 _ . : -');
    END IF;
    INSERT INTO tenon.kind AS k (name, queue, priority, max_attempts, max_crashes, timeout_ms, timeout_min_ms, on_timeout, retry, on_dead)
    VALUES (name, changes ->> 'queue', priority, attempts, crashes, ms, least_ms, coalesce(outcome, 'retry'), changes ->> 'retry', changes ->> 'on_dead')
    ON CONFLICT ON CONSTRAINT kind_pkey DO UPDATE
       SET queue = CASE WHEN changes ? 'queue' THEN changes ->> 'queue' ELSE k.queue END,
           priority = tenon.or_old(changes, 'priority', priority, k.priority),
           max_attempts = tenon.or_old(changes, 'max_attempts', attempts, k.max_attempts),
           max_crashes = tenon.or_old(changes, 'max_crashes', crashes, k.max_crashes),
           timeout_ms = tenon.or_old(changes, 'timeout', ms, k.timeout_ms),
           timeout_min_ms = tenon.or_old(changes, 'timeout_min', least_ms, k.timeout_min_ms),
           on_timeout = CASE WHEN changes ? 'on_timeout' THEN coalesce(outcome, 'retry') ELSE k.on_timeout END,
           retry = CASE WHEN changes ? 'retry' THEN changes ->> 'retry' ELSE k.retry END,
           on_dead = CASE WHEN changes ? 'on_dead' THEN changes ->> 'on_dead' ELSE k.on_dead END;
    PERFORM tenon.note_audit('set_kind', jsonb_build_object('kind', name, 'changes', changes), 1);
END $$;

COMMENT ON FUNCTION tenon.set_kind IS $$Sets defaults of a kind (`tenon.kind`): `changes` has `queue`, `priority`, `max_attempts`, `max_crashes` (2 to 100), `timeout`, `timeout_min` (`"10 min"`), `on_timeout` (`retry`, `dead`), `retry` (as for `tenon.enqueue`) or `on_dead` (a kind); a null removes the default. They apply to tasks that are enqueued from then on.$$;

-- One key after the other, so that an error can name the key.
CREATE OR REPLACE FUNCTION tenon.set_settings(changes jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    span constant text := '1 hour to 1000 years';
    k    text;
BEGIN
    PERFORM tenon.check_changes(changes, '{payload_bytes_max,history_keep,history_rows_max,exchange,cancel_own_only,attempt_keep,dead_keep,signal_keep,on_dead}');
    PERFORM tenon.settings();
    FOR k IN SELECT jsonb_object_keys(changes) LOOP
        BEGIN
            UPDATE tenon.setting s
               SET (payload_bytes_max, history_keep, history_rows_max, exchange, cancel_own_only, attempt_keep, dead_keep, signal_keep, on_dead) =
                   (SELECT n.payload_bytes_max, n.history_keep, n.history_rows_max, n.exchange, n.cancel_own_only, n.attempt_keep,
                           n.dead_keep, n.signal_keep, n.on_dead
                      FROM jsonb_populate_record(s, jsonb_build_object(k, changes -> k)) n);
        EXCEPTION WHEN data_exception OR check_violation OR not_null_violation THEN
            PERFORM tenon.refuse(k, changes ->> k,
                CASE k WHEN 'exchange' THEN '1 to 63 of a-z 0-9 _ - and does not start with -'
                       WHEN 'cancel_own_only' THEN 'true or false'
                       WHEN 'on_dead' THEN 'a kind: 1 to 100 of A-Z a-z 0-9 _ . : -, or null'
                       WHEN 'history_keep' THEN '0, or ' || span
                       WHEN 'payload_bytes_max' THEN 'a number of bytes, at least 1'
                       WHEN 'history_rows_max' THEN 'a number of rows, at least 1' ELSE span END);
        END;
    END LOOP;
    PERFORM tenon.note_audit('set_settings', jsonb_build_object('changes', changes), 1);
END $$;

COMMENT ON FUNCTION tenon.set_settings IS $$Changes settings (`tenon.setting`); `changes` has any of `payload_bytes_max`, `history_keep`, `history_rows_max`, `exchange`, `cancel_own_only`, `attempt_keep`, `dead_keep`, `signal_keep` and `on_dead` (null removes it): `{"history_keep": "7 days", "on_dead": "tell_ops"}`. Leaves a row in `tenon.audit`. For operators. Only the owner of the schema can set `audit_keep`, with UPDATE.$$;
