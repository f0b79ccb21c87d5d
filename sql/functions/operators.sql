-- What operators do with many tasks at once: retry, cancel, delete, run now, change.

-- Those of the ids that nobody else has locked, locked in their order until the transaction ends. Workers skip them.
CREATE OR REPLACE FUNCTION tenon.lock_found(act text, ids bigint[]) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF act IN ('retry', 'delete') THEN
        RETURN ARRAY(SELECT l.id FROM (SELECT d.id FROM tenon.dead d WHERE d.id = ANY (ids) ORDER BY d.id FOR UPDATE SKIP LOCKED) l)
            || ARRAY(SELECT l.id FROM (SELECT e.id FROM tenon.history e WHERE e.id = ANY (ids) ORDER BY e.id FOR UPDATE SKIP LOCKED) l);
    END IF;
    RETURN ARRAY(SELECT l.id FROM (SELECT t.id FROM tenon.task t WHERE t.id = ANY (ids) ORDER BY t.id FOR UPDATE SKIP LOCKED) l);
END $$;

-- Makes workers that serve one of these poll, if a task is ready now, so that it starts within milliseconds (cleaner/wake.sql). Too
-- many names: none is sent, which means any.
CREATE OR REPLACE FUNCTION tenon.wake(ids bigint[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
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

-- The steps that a retry keeps: all, or those that were recorded before this one; NULL = none.
CREATE OR REPLACE FUNCTION tenon.steps_before(steps jsonb, names text[], from_step text) RETURNS jsonb
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN $3 IS NULL THEN $1 ELSE nullif($1 - $2[array_position($2, $3):], '{}') END
$$;

-- Of these ended tasks, those that have recorded this step. If there are none and the tasks were named, it is
-- an error that lists the steps of the first.
CREATE OR REPLACE FUNCTION tenon.that_recorded(ids bigint[], from_step text, named boolean, OUT chosen bigint[])
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
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

-- Ended tasks are unfinished again, ready, under their ids, with all that they were enqueued with and had said, and all attempts before them;
-- claims never go down. With `from_step`, that step and those recorded after it are forgotten, and the progress. One whose unique key another task has taken meanwhile, or whose flow was cancelled, stays as it is. Keys are taken in the order in
-- which tenon.enqueue_many takes them. `delayed`: if the NOTIFY is lost, the cleaner finds them by run_at.
CREATE OR REPLACE FUNCTION tenon.retry_ids(ids bigint[], from_step text) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
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

-- Dead again as they were, if no worker has claimed them since a retry: claims never go down. One statement: a claim comes before it or
-- finds no row. It is not a new death: no task of on_dead is enqueued, and no attempt is added.
CREATE OR REPLACE FUNCTION tenon.undo_ids(ids bigint[]) RETURNS bigint[]
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
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
$$;

-- A task of a flow is not deleted before tenon.settle() has seen how it ended: else its children would take it for done.
CREATE OR REPLACE FUNCTION tenon.delete_ids(ids bigint[]) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
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

CREATE OR REPLACE FUNCTION tenon.cancel_ids(ids bigint[]) RETURNS bigint[]
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT array_agg(i) FILTER (WHERE tenon.cancel_one(i) IS NOT NULL) FROM unnest(ids) i
$$;

-- A suspect that its limits have released is still blocked: its run_at stays, and suspect.due_at is set instead.
CREATE OR REPLACE FUNCTION tenon.set_ids(ids bigint[], priority smallint, run_at timestamptz, max_crashes integer) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
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

-- Checks that `changes` is an object with no keys except these.
CREATE OR REPLACE FUNCTION tenon.check_changes(changes jsonb, keys text[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF coalesce(jsonb_typeof(changes), '') <> 'object' OR changes = '{}'
       OR NOT ARRAY(SELECT jsonb_object_keys(changes)) <@ keys THEN
        PERFORM tenon.refuse('changes', changes::text, 'an object with at least one of ' || array_to_string(keys, ', '));
    END IF;
    PERFORM tenon.check_length('changes', changes::text, 4096);
END $$;

-- A value of `changes` as its column's type; refuses it with what is allowed.
CREATE OR REPLACE FUNCTION tenon.changed_integer(changes jsonb, key text, lowest integer, highest integer) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF (changes ->> key) !~ '^-?[0-9]{1,9}$' OR (changes ->> key)::integer NOT BETWEEN lowest AND highest THEN
        PERFORM tenon.refuse(key, changes ->> key, format('%s to %s', lowest, highest));
    END IF;
    RETURN (changes ->> key)::integer;
END $$;

CREATE OR REPLACE FUNCTION tenon.changed_run_at(changes jsonb) RETURNS timestamptz
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
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

CREATE OR REPLACE FUNCTION tenon.check_act(act text, changes jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
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

-- Adds what one call did to the audit row of an act that takes several calls, or writes a new row.
CREATE OR REPLACE FUNCTION tenon.note_change(audit bigint, act text, what jsonb, n bigint, skipped bigint) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
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

-- Where a piece of an act must end, so that it moves at most about 100,000 steps, which takes about half a second: retry makes rows of
-- them, cancel and undo an object. A thousand bytes count as one more step. NULL: all of these ids, which are in their order. Nothing is read
-- of tasks without steps.
CREATE OR REPLACE FUNCTION tenon.last_of_steps(act text, ids bigint[]) RETURNS bigint
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
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

CREATE OR REPLACE FUNCTION tenon.change(act text, filter jsonb, changes jsonb DEFAULT NULL, most integer DEFAULT 1000,
    cursor bigint DEFAULT NULL, why text DEFAULT NULL, audit bigint DEFAULT NULL, limit_ms integer DEFAULT NULL,
    OUT n bigint, OUT skipped bigint, OUT next bigint, OUT audit_id bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan AS $$
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

COMMENT ON FUNCTION tenon.change IS $$Does one piece of an act on many tasks: `retry`, `undo`, `cancel`, `delete`, `run_now` or `set`. For programs that change many tasks piece by piece, like `tenon retry --rate`: until `next` is NULL, they call it again with `next` as `cursor`, and with `audit_id` as `audit`, so that the act has one row in the audit.

- `n`, `skipped`: how many tasks were changed, and how many were found but not changed.
- `limit_ms`: stop searching after this many milliseconds, even if nothing was found.$$;

-- Acts on one task, which call the acts on many below. The owner's search_path does not matter: they are inlined.
CREATE OR REPLACE FUNCTION tenon.retry(id bigint, why text DEFAULT NULL, from_step text DEFAULT NULL) RETURNS boolean
LANGUAGE sql AS $$
    SELECT c.n > 0 FROM tenon.change('retry', jsonb_build_object('ids', id), 
           CASE WHEN from_step IS NOT NULL THEN jsonb_build_object('from_step', from_step) END, why => why) c
$$;

COMMENT ON FUNCTION tenon.retry IS $$Retries a dead, cancelled or expired task under its own id; its failures no longer count. Returns whether it did. See `tenon.retry_where`.

- `from_step`: the task forgets this step, all steps and signals recorded after it, and its progress, and keeps the steps recorded before it; SQLSTATE 22023 if it has no such step: [steps.md](steps.md#retrying-from-a-step).$$;

CREATE OR REPLACE FUNCTION tenon.delete(id bigint, why text DEFAULT NULL) RETURNS boolean
LANGUAGE sql AS $$ SELECT c.n > 0 FROM tenon.change('delete', jsonb_build_object('ids', id), why => why) c $$;

COMMENT ON FUNCTION tenon.delete IS $$Deletes a task that has ended; returns whether it did. See `tenon.delete_where`.$$;

CREATE OR REPLACE FUNCTION tenon.run_now(id bigint, why text DEFAULT NULL) RETURNS boolean
LANGUAGE sql AS $$ SELECT c.n > 0 FROM tenon.change('run_now', jsonb_build_object('ids', id), why => why) c $$;

COMMENT ON FUNCTION tenon.run_now IS $$Makes a scheduled or retrying task ready at once; returns whether it did.$$;

-- Plain SQL: it becomes a call of tenon.change when PostgreSQL plans the statement.
CREATE OR REPLACE FUNCTION tenon.retry_where(filter jsonb, most integer DEFAULT 10000, why text DEFAULT NULL, from_step text DEFAULT NULL)
    RETURNS bigint
LANGUAGE sql AS $$
    SELECT c.n FROM tenon.change('retry', filter, CASE WHEN from_step IS NOT NULL THEN jsonb_build_object('from_step', from_step) END, most, why => why) c
$$;

COMMENT ON FUNCTION tenon.retry_where IS $$Retries tasks that match a filter (`tenon.list`, at least one key): dead ones and, if `state` or `ids` name them, cancelled and expired ones. Each becomes ready under its own id, its failures no longer count, and its `start_before` no longer applies. Returns how many.

At most `most` in one transaction, and fewer if they have more than 100,000 steps, the oldest first: call it again until it returns 0. A task that another session has locked, or whose unique key another task has taken, is not changed, and counts as `skipped` in `tenon.audit`. A worker starts them within milliseconds.

- `from_step`: as for `tenon.retry`. Tasks that have not recorded that step are not changed, and count as `skipped`.$$;

CREATE OR REPLACE FUNCTION tenon.undo_retry_where(filter jsonb, most integer DEFAULT 10000, why text DEFAULT NULL) RETURNS bigint
LANGUAGE sql AS $$ SELECT c.n FROM tenon.change('undo', filter, most => most, why => why) c $$;

COMMENT ON FUNCTION tenon.undo_retry_where IS $$Undoes the retry of tasks that match a filter (`tenon.list`, at least one key), that were dead, and that no worker has claimed since: each is dead again, with the failures, the error and the time of death that it had. Returns how many. At most `most`, like `tenon.retry_where`. The filter is about the tasks as they wait now: `{"kind": "mail", "error": "Timeout"}`.

A retry with `from_step` cannot be undone, nor one of a task that has a unique key, because an enqueue may have joined it meanwhile: cancel these.$$;

CREATE OR REPLACE FUNCTION tenon.cancel_where(filter jsonb, most integer DEFAULT 10000, why text DEFAULT NULL) RETURNS bigint
LANGUAGE sql AS $$ SELECT c.n FROM tenon.change('cancel', filter, most => most, why => why) c $$;

COMMENT ON FUNCTION tenon.cancel_where IS $$Cancels the unfinished tasks that match a filter (`tenon.list`, at least one key), like `tenon.cancel`; returns how many. At most `most`, like `tenon.retry_where`.$$;

CREATE OR REPLACE FUNCTION tenon.delete_where(filter jsonb, most integer DEFAULT 10000, why text DEFAULT NULL) RETURNS bigint
LANGUAGE sql AS $$ SELECT c.n FROM tenon.change('delete', filter, most => most, why => why) c $$;

COMMENT ON FUNCTION tenon.delete_where IS $$Deletes the ended tasks that match a filter (`tenon.list`, at least one key): dead ones and, if `state` or `ids` name them, done, cancelled and expired ones. The only trace of them is in `tenon.audit`. Returns how many. At most `most`, like `tenon.retry_where`. Cancel unfinished tasks first; a task of a flow can be deleted once a cleaner has seen its end.$$;

CREATE OR REPLACE FUNCTION tenon.run_now_where(filter jsonb, most integer DEFAULT 10000, why text DEFAULT NULL) RETURNS bigint
LANGUAGE sql AS $$ SELECT c.n FROM tenon.change('run_now', filter, most => most, why => why) c $$;

COMMENT ON FUNCTION tenon.run_now_where IS $$Makes the scheduled and retrying tasks that match a filter (`tenon.list`, at least one key) ready at once; returns how many. At most `most`, like `tenon.retry_where`.$$;

CREATE OR REPLACE FUNCTION tenon.set_where(filter jsonb, changes jsonb, most integer DEFAULT 10000, why text DEFAULT NULL) RETURNS bigint
LANGUAGE sql AS $$ SELECT c.n FROM tenon.change('set', filter, changes, most => most, why => why) c $$;

COMMENT ON FUNCTION tenon.set_where IS $$Changes the tasks that match a filter (`tenon.list`, at least one key) and are not running: `changes` has `priority` (0 to 9), `run_at` (at most 10 years ahead) or `max_crashes` (2 to 100), or several of these. Returns how many it changed. At most `most`, like `tenon.retry_where`.$$;
