-- What an application's code describes, applied at its deploy: queues, kinds, limits and schedules.

-- The texts of an array; NULL = there is none.
CREATE OR REPLACE FUNCTION tenon.texts_in(value jsonb) RETURNS text[]
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN jsonb_typeof($1) = 'array' THEN ARRAY(SELECT jsonb_array_elements_text($1)) WHEN jsonb_typeof($1) <> 'null' THEN ARRAY[$1 #>> '{}'] END
$$;

-- What may be said of each.
CREATE OR REPLACE FUNCTION tenon.sync_keys(what text) RETURNS text[]
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE $1 WHEN 'queue' THEN '{priority,max_attempts,timeout,retry}'::text[]
                   WHEN 'kind' THEN '{queue,priority,max_attempts,max_crashes,timeout,timeout_min,on_timeout,retry,on_dead,limit_keys,history_keep,dead_keep}'
                   WHEN 'limit' THEN '{max_running,max_starts,per,strict,fair,weight,when_dead}'
                   WHEN 'schedule' THEN '{cron,every,kind,payload,zone,catch_up,overlap,queue,priority,max_attempts,timeout}' END
$$;

-- The row as it is, without who set it and when. NULL: there is none.
CREATE OR REPLACE FUNCTION tenon.synced(what text, name text) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT CASE $1 WHEN 'queue' THEN (SELECT to_jsonb(q) FROM tenon.queue q WHERE q.name = $2)
                   WHEN 'kind' THEN (SELECT to_jsonb(k) FROM tenon.kind k WHERE k.name = $2)
                   WHEN 'limit' THEN (SELECT to_jsonb(l) FROM tenon.limit l WHERE l.name = $2)
                   ELSE (SELECT to_jsonb(s) - '{set_by,set_at,next_at,due_at,last_at,last_task,last_error,skipped}'::text[] FROM tenon.schedule s WHERE s.name = $2) END
$$;

-- Sets one of them as `v` says, and clears the rest.
CREATE OR REPLACE FUNCTION tenon.sync_one(what text, name text, v jsonb, source text) RETURNS void
LANGUAGE plpgsql AS $$
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

-- Removes one of them. The row of a queue or kind that has a limit stays, without its defaults.
CREATE OR REPLACE FUNCTION tenon.unsync_one(what text, name text) RETURNS void
LANGUAGE plpgsql AS $$
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

-- Applies one of them; returns what that did, NULL = nothing: then it also leaves no row in the audit.
CREATE OR REPLACE FUNCTION tenon.sync_step(what text, name text, v jsonb, source text) RETURNS text
LANGUAGE plpgsql AS $$
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

-- Checks a description; returns its parts, one row for each thing that it names: first what is removed. An empty `v`: to be cleared.
CREATE OR REPLACE FUNCTION tenon.read_description(description jsonb) RETURNS TABLE (what text, name text, path text, v jsonb)
LANGUAGE plpgsql AS $$
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

CREATE OR REPLACE FUNCTION tenon.sync(description jsonb) RETURNS TABLE (what text, name text, act text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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

COMMENT ON FUNCTION tenon.sync IS $$Applies what an application's code says about its queues, kinds, limits and schedules, in one transaction: all or nothing. Returns what it changed; no rows if nothing had to change. Applications call it at each deploy; `tenon sync FILE` calls it.

- `description`: an object with the keys `queues`, `kinds`, `limits` and `schedules`, each an object with a key for each name: `{"kinds": {"report": {"queue": "slow", "timeout": "20 min"}}}`. The value has the arguments of `tenon.set_queue`, `tenon.set_kind`, `tenon.set_limit` or `tenon.set_schedule` as keys. It is the whole of it: arguments that are omitted or null are cleared. What the description does not name stays unchanged, and so do pauses.
- `remove`, a key of the description: names to remove, `{"schedules": ["weekly"]}`. A name that does not exist is skipped.
- `source`, a key of the description: the source of its schedules, `sync` if omitted. A schedule of another source raises SQLSTATE 55000.
- returns `what`: `queue`, `kind`, `limit` or `schedule`; `name`; and `act`: `added`, `changed` or `removed`.

An unknown key and a value that is not allowed raise SQLSTATE 22023; the message begins with the place in the description. Each change leaves a row in `tenon.audit`.$$;
