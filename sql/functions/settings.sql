-- Small functions that many others use: the settings, checks of arguments, what the session's role may do.

-- The settings, or a clear error if their row is missing: a dump without data was restored, or somebody emptied all tables.
CREATE OR REPLACE FUNCTION tenon.settings() RETURNS tenon.setting
LANGUAGE plpgsql STABLE AS $$
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

-- Refuse a bad argument: which, its value, and what is allowed.
CREATE OR REPLACE FUNCTION tenon.refuse(argument text, value text, allowed text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'tenon: % % is not allowed', argument, coalesce(left(value, 100), 'NULL')
        USING ERRCODE = 'invalid_parameter_value', HINT = format('%s is %s.', argument, allowed);
END $$;

-- Refuse arguments that do not go together: what is wrong, and what to do.
CREATE OR REPLACE FUNCTION tenon.refuse_call(problem text, hint text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'tenon: %', left(problem, 300) USING ERRCODE = 'invalid_parameter_value', HINT = hint;
END $$;

-- Refuse a text that is longer than its limit.
CREATE OR REPLACE FUNCTION tenon.check_length(argument text, value text, chars_max integer) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF length(value) > chars_max THEN
        PERFORM tenon.refuse(argument, format('of %s characters', length(value)), format('at most %s characters long', chars_max));
    END IF;
END $$;

-- Is this a kind's name? Plain SQL, so that it becomes a part of the expression that asks. The length by itself:
-- {1,100} would make matching six times as slow.
CREATE OR REPLACE FUNCTION tenon.is_kind(kind text) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$ SELECT kind ~ '^[A-Za-z0-9_.:-]+$' AND length(kind) <= 100 $$;

-- An interval as a fixed time, which is what is checked and kept: a day has 24 hours, a month 30 days, even if the clocks of the
-- caller's time zone change meanwhile.
CREATE OR REPLACE FUNCTION tenon.seconds(span interval) RETURNS interval
LANGUAGE sql IMMUTABLE AS $$ SELECT make_interval(secs => extract(epoch FROM span)) $$;

-- May the role that logged in enqueue this? Called only while tenon.producer has rows (`confined` of tenon.setting).
CREATE OR REPLACE FUNCTION tenon.may_enqueue(queue text, kind text) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT coalesce(bool_or((p.queues IS NULL OR $1 = ANY (p.queues)) AND (p.kinds IS NULL OR $2 = ANY (p.kinds))), true)
      FROM tenon.producer p
      JOIN pg_roles r ON r.oid = p.role
     WHERE pg_has_role(session_user, r.oid, 'MEMBER')
       AND NOT (SELECT u.rolsuper FROM pg_roles u WHERE u.rolname = session_user)
$$;

-- Is the role confined to some queues or kinds? Then it may not touch rows that others share.
CREATE OR REPLACE FUNCTION tenon.is_confined() RETURNS boolean
LANGUAGE sql STABLE AS $$ SELECT (tenon.settings()).confined AND NOT tenon.may_enqueue('', '') $$;

-- May the session's role see the tasks of this role? Readers see everything.
CREATE OR REPLACE FUNCTION tenon.may_see(enqueued_by text) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT enqueued_by = session_user OR has_table_privilege(session_user, 'tenon.task', 'SELECT')
$$;

CREATE OR REPLACE FUNCTION tenon.must_see(id bigint, enqueued_by text) RETURNS void
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF tenon.may_see(enqueued_by) IS NOT TRUE THEN
        RAISE EXCEPTION 'tenon: permission denied for task %: role % did not enqueue it', id, session_user
            USING ERRCODE = 'insufficient_privilege', HINT = 'Use the role that enqueued it, or a reader.';
    END IF;
END $$;

-- Is the session's role an operator? A role is one if it may pause.
CREATE OR REPLACE FUNCTION tenon.is_operator() RETURNS boolean
LANGUAGE sql STABLE AS $$ SELECT has_function_privilege(session_user, 'tenon.pause(text, text, boolean, text)', 'EXECUTE') $$;

-- Tells the leading cleaner that this transaction leaves a note (tenon.has_notes). By NOTIFY only while it sleeps, when it holds the advisory
-- lock sleeper_key, because commits that NOTIFY wait for each other; awake, it reads by itself (cleaner/fresh.sql). The shared lock, which
-- is taken then, keeps it awake until the commit.
CREATE OR REPLACE FUNCTION tenon.call_settler() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF pg_try_advisory_xact_lock_shared((SELECT s.sleeper_key FROM tenon.setting s)) IS NOT TRUE THEN
        PERFORM pg_notify('tenon', 'settle');
    END IF;
END $$;

-- The same for the relay: this transaction has messages for it.
CREATE OR REPLACE FUNCTION tenon.call_relay() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF pg_try_advisory_xact_lock_shared((SELECT s.sleeper_key FROM tenon.setting s)) IS NOT TRUE THEN
        PERFORM pg_notify('tenon', 'relay');
    END IF;
END $$;

-- Locks the settler's row; false: another session has locked it.
CREATE OR REPLACE FUNCTION tenon.hold_settler() RETURNS boolean
LANGUAGE plpgsql AS $$
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

-- Checks that a value is an object with no keys except these; `path` names it in the message.
CREATE OR REPLACE FUNCTION tenon.check_object(path text, value jsonb, keys text[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF coalesce(jsonb_typeof(value), '') <> 'object' OR value - keys <> '{}' THEN
        PERFORM tenon.refuse(path, value::text, 'an object with no keys except ' || array_to_string(keys, ', '));
    END IF;
END $$;
