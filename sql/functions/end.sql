-- The end of a task: finish, cancel, and the notes that an end leaves for settle. The statement by which workers finish many
-- tasks is beside the worker (worker/finish.sql).

-- When a task ends, this leaves notes for what waits for the end, and tenon.settle() does the rest after the commit. It waits for no
-- lock but that of a settler which is at the same key. (A session that writes a row of tenon.waiting has locked the task, like the deleting
-- session now.) Every statement that deletes a task calls it with the deleted row (sql_statements_test checks that): a trigger would fetch
-- each row again, a thirtieth of the cost of a plain task. needs_note is asked first, because it is inlined. It deletes the task's steps,
-- and returns them if the caller keeps them.
CREATE OR REPLACE FUNCTION tenon.needs_note(t tenon.task) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT t.again IS NOT NULL OR t.flow IS NOT NULL OR t.limit_keys IS NOT NULL OR t.awaited OR t.wanted_at IS NOT NULL OR t.crashes > 0
        OR t.step_count IS NOT NULL
$$;

CREATE OR REPLACE FUNCTION tenon.record_end(id bigint, kind text, start_time timestamptz, unique_key text, again bigint, wanted_at timestamptz,
    flow bigint, limit_keys text[], awaited boolean, crashes integer, step_count integer, was_cancelled boolean, keeps_steps boolean)
    RETURNS tenon.kept_steps
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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

-- The same of a row; it becomes a call of that one when PostgreSQL plans the statement.
CREATE OR REPLACE FUNCTION tenon.record_end_of(t tenon.task, was_cancelled boolean DEFAULT false, keeps_steps boolean DEFAULT false)
    RETURNS tenon.kept_steps
LANGUAGE sql AS $$
    SELECT tenon.record_end(t.id, t.kind, t.start_time, t.unique_key, t.again, t.wanted_at, t.flow, t.limit_keys, t.awaited, t.crashes,
                            t.step_count, was_cancelled, keeps_steps)
$$;

-- Ends tasks that are not done: `outcome` is cancelled or expired. The caller has locked them, and only functions with a search_path
-- of their own call it. The history keeps what a retry needs.
CREATE OR REPLACE FUNCTION tenon.end_tasks(ids bigint[], outcome text, moment timestamptz, why text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql AS $$
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

-- A result of a few bytes may print as a gigabyte, which no pg_dump can read: [1e-16383] is 16 KB. A result longer than 2 MiB
-- as text is replaced by a note that says so; a worker measures the results of its handlers.
CREATE OR REPLACE FUNCTION tenon.result_kept(result jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF result IS NULL OR octet_length(result::text) <= 2097152 THEN
        RETURN result;
    END IF;
    RETURN to_jsonb('tenon: the result was not kept, it is longer than 2 MiB as text'::text);
EXCEPTION WHEN program_limit_exceeded THEN  -- longer than 1 GB
    RETURN to_jsonb('tenon: the result was not kept, it is longer than 2 MiB as text'::text);
END $$;

-- The same for many. To catch an error costs a subtransaction, so all of them are measured in one.
CREATE OR REPLACE FUNCTION tenon.results_kept(results jsonb[]) RETURNS jsonb[]
LANGUAGE plpgsql IMMUTABLE AS $$
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

-- For one claim: a third of what finish_many costs.
CREATE OR REPLACE FUNCTION tenon.finish(claim text, result jsonb DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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

COMMENT ON FUNCTION tenon.finish IS $$Finishes a task inside the handler's own transaction: its effects and its end commit together, exactly once.

- `claim`: the text of `TENON_TASK_CLAIM`, or `claim` of the task line; anything else raises SQLSTATE 22023.
- `result`: kept in `tenon.history`. A result of more than 2 MiB as text is replaced by a note.

Raises SQLSTATE 55000 when the claim is no longer valid, because the task was recovered, cancelled or finished: roll back and stop; 42501 when the role is confined to other queues or kinds (`tenon.producer`).$$;

-- For many claims: one statement reads them all and deletes their rows, in sorted order, so that two sessions that
-- finish the same tasks cannot deadlock. `ANY (ARRAY[g.id])`: each row is looked up by its id, whatever
-- the table held when the plan was made (docs/decisions/0014-plans-that-stay-good.md).
CREATE OR REPLACE FUNCTION tenon.finish_many(claims text[], results jsonb[] DEFAULT NULL, skip_lost boolean DEFAULT false) RETURNS boolean[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
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

COMMENT ON FUNCTION tenon.finish_many IS $$Finishes many tasks as `tenon.finish` does, in one statement, for handlers that write the effects of many tasks in one transaction. This costs a fraction of a call for each task. Returns for each claim whether the task is finished now, in the order of `claims`.

- `claims`: 0 to 10,000 texts of `TENON_TASK_CLAIM`, or `claim` of the task lines; anything else raises SQLSTATE 22023.
- `results`: one for each claim, or NULL; kept in `tenon.history`. A result of more than 2 MiB as text is replaced by a note.
- `skip_lost`: false, the default: one claim that is no longer valid, because its task was recovered, cancelled or finished, raises SQLSTATE 55000, so that no effect of its task is committed: roll back, and finish the others without it. True: the others are finished, and for this one the function returns false. Its effects must not be committed: call the function first, and write the effects of the tasks for which it returned true.

A claim that is given twice counts the second time as no longer valid. A claim of a task that the role may not run, because it is confined to other queues or kinds (`tenon.producer`), raises SQLSTATE 42501, even with `skip_lost`.$$;

-- May the session's role cancel the tasks of this role?
CREATE OR REPLACE FUNCTION tenon.may_cancel(enqueued_by text) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT enqueued_by = session_user OR tenon.is_operator() OR NOT (tenon.settings()).cancel_own_only AND NOT tenon.is_confined()
$$;

-- Cancels a task; returns the role that had enqueued it, or NULL if there is no such task. A task that the role may not cancel is
-- not locked. For tenon.cancel, and for acts on many tasks.
CREATE OR REPLACE FUNCTION tenon.cancel_one(id bigint) RETURNS text
LANGUAGE plpgsql AS $$
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

CREATE OR REPLACE FUNCTION tenon.cancel(id bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s     tenon.setting := tenon.settings();
    owner text := tenon.cancel_one(id);
BEGIN
    IF owner <> session_user THEN
        PERFORM tenon.note_audit('cancel', jsonb_build_object('filter', jsonb_build_object('ids', id)), 1);
    END IF;
    RETURN owner IS NOT NULL;
END $$;

COMMENT ON FUNCTION tenon.cancel IS $$Cancels a task that has not ended; returns whether there was one. A running task is cancelled too: its worker loses the claim and stops its handler within seconds. For a producer, another role's task raises SQLSTATE 42501, unless `cancel_own_only` in `tenon.setting` is false and the producer is not confined. If an operator cancels another role's task, that leaves a row in `tenon.audit`.$$;
