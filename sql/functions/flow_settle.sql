-- What settle does for flows: what follows from the end of a parent and from the end of a flow.

-- Records the states of tasks by their own rows: ended, or unfinished again after a retry. A task without any row was done while no history
-- was kept: tenon.delete_where() leaves a note for those that it deletes. Results are kept for tasks that wait for them.
CREATE OR REPLACE FUNCTION tenon.record_flow_ends(tasks bigint[], since timestamptz) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
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

-- The tasks that may be retried: a task of a cancelled flow may not, because it would be cancelled again.
CREATE OR REPLACE FUNCTION tenon.may_retry(ids bigint[]) RETURNS bigint[]
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT ARRAY(SELECT i FROM unnest($1) i
                  WHERE (SELECT f.id FROM tenon.flow_task m JOIN tenon.flow f ON f.id = m.flow
                          WHERE m.id = i AND f.cancelled_at IS NOT NULL LIMIT 1) IS NULL)
$$;

-- Raises an error if none of these tasks can be retried. Otherwise those that cannot are counted as skipped.
CREATE OR REPLACE FUNCTION tenon.check_retry(ids bigint[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
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

-- What waits for these tasks, or is one of them and waits for others that have ended; of each task up to its share of `most`
-- waits that are over, and of 10,000 parents (from `beyond` on) that are looked at. Those that have more are in `rest`, with the
-- parents up to which they are done. A task that waits for nothing more is unblocked, or begins to wait for its limits; what wants
-- to be is cancelled; as is what is known to be due for it, but was locked by somebody. Returns how many waits are gone;
-- which tasks are unblocked; and those for which the same is due, but that are locked, or too many for now. It is long because its
-- steps pass whole lists of tasks to each other.
CREATE OR REPLACE FUNCTION tenon.end_waits(tasks bigint[], beyond bigint[], anew bigint[], to_cancel bigint[], most integer,
    OUT n integer, OUT rest bigint[], OUT rest_beyond bigint[], OUT freed bigint[], OUT free bigint[], OUT doomed bigint[])
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
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

-- Enqueues the callback of a flow in the name of the role that made the flow: that role was allowed to enqueue it when it made the flow.
CREATE OR REPLACE FUNCTION tenon.enqueue_callback(f tenon.flow, kind text) RETURNS bigint
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
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
$$;

-- The end of a flow whose row the caller has locked: each callback is enqueued once, the first time that its condition holds.
CREATE OR REPLACE FUNCTION tenon.end_flow(f tenon.flow) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
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

-- Cancels up to `most` tasks of a cancelled flow, with payloads of at most 8 MB, except locked tasks; returns how many, and
-- whether there are more.
CREATE OR REPLACE FUNCTION tenon.cancel_members(flow bigint, by text, most integer, OUT n integer, OUT more boolean)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
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

-- Does the flow have a task that has not ended?
CREATE OR REPLACE FUNCTION tenon.has_tasks(flow bigint) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM tenon.flow_task m
                    CROSS JOIN LATERAL (SELECT FROM tenon.task t WHERE t.id = m.id OFFSET 0) t
                    WHERE m.flow = $1)
$$;

-- What has changed about these flows: all their tasks have ended, or not any more, or somebody has cancelled it. Returns
-- those to be looked at once more. Subqueries with a LIMIT: for an EXISTS PostgreSQL would hash all of tenon.flow_task.
CREATE OR REPLACE FUNCTION tenon.look_at_flows(flows bigint[], most integer) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
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

-- Looks at up to `most` notes whose ids are above `settled`; returns how much was done, and which tasks are unblocked. One at a time, and each statement
-- must see what was committed before it began.
CREATE OR REPLACE FUNCTION tenon.settle_flows(most integer, settled bigint, OUT n integer, OUT freed bigint[])
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_hashjoin = off SET enable_mergejoin = off
    SET jit = off SET plan_cache_mode = force_generic_plan AS $$
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
