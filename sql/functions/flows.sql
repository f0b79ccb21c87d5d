-- Flows: tasks that wait for others, their parents; and batches: flows that enqueue a task when all of theirs have ended.

-- The flows and their states.
CREATE OR REPLACE VIEW tenon.flows AS
    SELECT f.id, f.name,
           CASE WHEN f.open AND f.cancelled_at IS NULL THEN 'open'
                WHEN c.ended < c.tasks THEN 'running'
                WHEN f.cancelled_at IS NOT NULL THEN 'cancelled' ELSE 'ended' END AS state,
           c.tasks, c.blocked, c.waiting, c.running, c.done, c.dead, c.cancelled, c.expired,
           f.made_by, f.made_at, CASE WHEN c.ended = c.tasks THEN f.ended_at END AS ended_at, f.cancelled_by, f.cancelled_at,
           f.on_done, f.on_dead, f.on_end, f.payload, f.done_task, f.dead_task, f.end_task
      FROM tenon.flow f
     CROSS JOIN LATERAL (
           SELECT count(*) AS tasks, count(*) FILTER (WHERE s.state IN ('done', 'dead', 'cancelled', 'expired')) AS ended,
                  count(*) FILTER (WHERE s.state = 'blocked') AS blocked,
                  count(*) FILTER (WHERE s.state IN ('scheduled', 'ready', 'retrying')) AS waiting,
                  count(*) FILTER (WHERE s.state = 'running') AS running, count(*) FILTER (WHERE s.state = 'done') AS done,
                  count(*) FILTER (WHERE s.state = 'dead') AS dead, count(*) FILTER (WHERE s.state = 'cancelled') AS cancelled,
                  count(*) FILTER (WHERE s.state = 'expired') AS expired
             FROM tenon.flow_task m
            CROSS JOIN LATERAL (SELECT coalesce(m.state, (SELECT t.state FROM tenon.tasks t WHERE t.id = m.id LIMIT 1), 'done') AS state) s
            WHERE m.flow = f.id) c;
COMMENT ON VIEW tenon.flows IS 'Flows and batches, and how many of their tasks are in which state.';
COMMENT ON COLUMN tenon.flows.state IS '`open`: a batch before `tenon.close`; `running`: some of its tasks have not ended; `ended`; `cancelled`, and all have ended.';
COMMENT ON COLUMN tenon.flows.tasks IS 'How many tasks it has; those of its callbacks are not among them.';
COMMENT ON COLUMN tenon.flows.blocked IS 'How many are blocked.';
COMMENT ON COLUMN tenon.flows.waiting IS 'How many are scheduled, ready or retrying.';
COMMENT ON COLUMN tenon.flows.running IS 'How many run.';
COMMENT ON COLUMN tenon.flows.done IS 'How many are done.';
COMMENT ON COLUMN tenon.flows.dead IS 'How many are dead.';
COMMENT ON COLUMN tenon.flows.cancelled IS 'How many are cancelled.';
COMMENT ON COLUMN tenon.flows.expired IS 'How many are expired.';

-- May the session's role see this flow, add to it, and cancel it? The role that made it may, and operators.
CREATE OR REPLACE FUNCTION tenon.may_flow(made_by text) RETURNS boolean
LANGUAGE sql STABLE AS $$ SELECT made_by = session_user OR tenon.is_operator() $$;

-- The flow, if the session's role may change it. It can neither end nor be purged before the commit; other sessions may still add
-- to it, close it and cancel it.
CREATE OR REPLACE FUNCTION tenon.hold_flow(flow bigint) RETURNS tenon.flow
LANGUAGE plpgsql AS $$
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

CREATE OR REPLACE FUNCTION tenon.results_of(task bigint) RETURNS TABLE (id bigint, name text, state text, result jsonb)
LANGUAGE sql STABLE AS $$
    SELECT p.id, m.name, s.state,
           CASE WHEN s.state = 'done' THEN coalesce(m.result, (SELECT f.result FROM tenon.history f WHERE f.id = p.id AND f.outcome = 'done' LIMIT 1)) END
      FROM tenon.flow_task c
     CROSS JOIN LATERAL unnest(c.parents) WITH ORDINALITY p (id, o)
      LEFT JOIN tenon.flow_task m ON m.id = ANY (ARRAY[p.id])
     CROSS JOIN LATERAL (SELECT coalesce(m.state, (SELECT t.state FROM tenon.tasks t WHERE t.id = p.id LIMIT 1), 'done') AS state) s
     WHERE c.id = $1
     ORDER BY p.o
$$;

-- The payload of a task with the results of its parents; NULL = too long. It stops reading results at that length.
CREATE OR REPLACE FUNCTION tenon.with_parents(task bigint, payload jsonb, bytes_max integer) RETURNS jsonb
LANGUAGE plpgsql STABLE AS $$
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

-- Where the payload of a task has the key `parents` with the value null, it gets what the parents returned: for handlers
-- without a database. What would become too long stays null. The caller has written these rows, or locked them.
CREATE OR REPLACE FUNCTION tenon.fill_parents(ids bigint[]) RETURNS void
LANGUAGE sql AS $$
    UPDATE tenon.task t SET payload = p.payload, payload_bytes = tenon.printed_bytes(p.payload)
      FROM (SELECT k.id, tenon.with_parents(k.id, k.payload, s.payload_bytes_max) AS payload
              FROM tenon.setting s, tenon.task k
             WHERE k.id = ANY ($1) AND k.payload -> 'parents' = 'null' OFFSET 0) p
     WHERE t.id = ANY (ARRAY[p.id]) AND p.payload IS NOT NULL
$$;

-- Checks what was given, and returns the parents that the task has to wait for; NULL: none.
CREATE OR REPLACE FUNCTION tenon.check_parents(flow bigint, depends_on bigint[], on_parent_dead text, unique_key text) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
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

-- Adds new tasks to a flow. Parents enqueued in this transaction cannot have ended yet. Other parents may end at any moment: a
-- note makes tenon.settle() look at them after the commit, and the function returns true.
CREATE OR REPLACE FUNCTION tenon.join_flow(ids bigint[], flow bigint, depends_on bigint[], waits bigint[], on_parent_dead text) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
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

CREATE OR REPLACE FUNCTION tenon.check_callbacks(on_done text, on_dead text, on_end text, payload jsonb) RETURNS void
LANGUAGE plpgsql AS $$
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

CREATE OR REPLACE FUNCTION tenon.make_flow(name text, open boolean, on_done text DEFAULT NULL, on_dead text DEFAULT NULL,
    on_end text DEFAULT NULL, payload jsonb DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql AS $$
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

CREATE OR REPLACE FUNCTION tenon.batch(on_done text DEFAULT NULL, on_dead text DEFAULT NULL, on_end text DEFAULT NULL,
    payload jsonb DEFAULT '{}', name text DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF num_nonnulls(on_done, on_dead, on_end) = 0 THEN
        PERFORM tenon.refuse_call('a batch needs a callback', 'Give on_done, on_dead or on_end; without a callback use tenon.flow(name).');
    END IF;
    PERFORM tenon.check_callbacks(on_done, on_dead, on_end, payload);
    RETURN tenon.make_flow(name, true, on_done, on_dead, on_end, payload);
END $$;

COMMENT ON FUNCTION tenon.batch IS $$Makes a flow that enqueues tasks when all of its own have ended, and returns its number. It is open, and takes tasks, until `tenon.close`.

- `on_done`: the kind of the task that is enqueued when all are done, including dead tasks that were retried.
- `on_dead`: the kind of the task that is enqueued when all have ended, and at least one is dead, cancelled or expired.
- `on_end`: the kind of the task that is enqueued when all have ended, in any state.
- `payload`: the payload of these tasks; an object gets the key `flow`, the number of the flow, unless it has one.
- `name`: as in `tenon.flow`.

Each is enqueued at most once, even after a fault, and does not belong to the flow itself. A kind that the role may not enqueue raises 42501.$$;

CREATE OR REPLACE FUNCTION tenon.close(flow bigint, notify boolean DEFAULT true) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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

COMMENT ON FUNCTION tenon.close IS $$Closes a batch: all of its tasks have been added, except those that its tasks add themselves. Returns whether it was open. A batch without tasks ends at once, and counts as done. `notify`: false in a transaction that will be prepared (`PREPARE TRANSACTION`).$$;

CREATE OR REPLACE FUNCTION tenon.cancel_flow(flow bigint) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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

COMMENT ON FUNCTION tenon.cancel_flow IS $$Cancels all tasks of a flow that have not ended; returns how many it cancelled at once. They cannot be retried. A cleaner cancels the rest after the commit: tasks that are locked, tasks that an open transaction adds, and tasks beyond 10,000 or beyond 8 MB of payloads. The flow takes no more tasks. A flow that has ended stays unchanged. For the role that made the flow, and for operators; other roles get SQLSTATE 42501.$$;

-- The tasks 1 to n so that parents come first; fewer than n: the others go round in circles. The waits are given in the
-- order of their parents.
CREATE OR REPLACE FUNCTION tenon.flow_order(n integer, child integer[], parent integer[]) RETURNS integer[]
LANGUAGE plpgsql IMMUTABLE AS $$
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

-- Raises an error that shows tasks waiting for each other in a circle; `places` has all other tasks.
CREATE OR REPLACE FUNCTION tenon.refuse_circle(names text[], child integer[], parent integer[], places integer[]) RETURNS void
LANGUAGE plpgsql AS $$
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

-- The names of a description's tasks, and which task waits for which, by numbers from 1, in the order of the parents.
CREATE OR REPLACE FUNCTION tenon.read_tasks(tasks jsonb, OUT names text[], OUT child integer[], OUT parent integer[])
LANGUAGE plpgsql STABLE AS $$
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

-- Enqueues one task of a description.
CREATE OR REPLACE FUNCTION tenon.enqueue_described(task jsonb, flow bigint, depends_on bigint[]) RETURNS bigint
LANGUAGE sql AS $$
    SELECT (tenon.enqueue_routed(
        kind => $1 ->> 'kind', payload => coalesce($1 -> 'payload', '{}'), queue => $1 ->> 'queue', priority => ($1 ->> 'priority')::integer,
        run_at => ($1 ->> 'run_at')::timestamptz, delay => ($1 ->> 'delay')::interval, start_before => ($1 ->> 'start_before')::timestamptz,
        max_attempts => ($1 ->> 'max_attempts')::integer, timeout => ($1 ->> 'timeout')::interval, retry => $1 ->> 'retry',
        limit_keys => CASE WHEN $1 ? 'limit_keys' THEN ARRAY(SELECT jsonb_array_elements_text($1 -> 'limit_keys')) END,
        flow => $2, depends_on => $3, on_parent_dead => $1 ->> 'on_parent_dead',
        tags => CASE WHEN $1 ? 'tags' THEN ARRAY(SELECT jsonb_array_elements_text($1 -> 'tags')) END, trace => $1 ->> 'trace', notify => false, announced => false)).id
$$;

-- Enqueues all tasks of a description, parents first; an error names the task.
CREATE OR REPLACE FUNCTION tenon.enqueue_tasks(flow bigint, tasks jsonb, names text[], child integer[], parent integer[], places integer[])
RETURNS void
LANGUAGE plpgsql AS $$
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

CREATE OR REPLACE FUNCTION tenon.flow(description jsonb, notify boolean DEFAULT true) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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

-- An untyped text that is a JSON object is a description, so that callers need not cast what their driver sends.
CREATE OR REPLACE FUNCTION tenon.flow(name text DEFAULT NULL, notify boolean DEFAULT true) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN CASE WHEN name ~ '^\s*(\[\s*)?{' THEN tenon.flow(name::jsonb, notify) ELSE tenon.make_flow(name, false) END;
END $$;

COMMENT ON FUNCTION tenon.flow(text, boolean) IS $$Makes an empty flow and returns its number, for `flow` of `tenon.enqueue`; tasks may be added to it in any transaction, by the role that made it and by operators. `name`: 1 to 200 characters, or NULL; for people. See [flows.md](flows.md). A text that begins with `{` is a description.$$;

COMMENT ON FUNCTION tenon.flow(jsonb, boolean) IS $$Makes a whole flow, with its tasks, and returns its number. The description is an object:

- `name`: of the flow, for people.
- `tasks`: an array of 1 to 100,000 objects (`flow_tasks_max`). Each has a `kind`; optionally a unique `name` of 1 to 200 characters, and `depends_on`, an array of the names of its parents; and optionally `payload`, `queue`, `priority`, `run_at`, `delay`, `start_before`, `max_attempts`, `timeout`, `retry`, `limit_keys`, `on_parent_dead` and `trace`, which mean the same as in `tenon.enqueue`.
- `on_done`, `on_dead`, `on_end`, `payload`: callbacks, which mean the same as in `tenon.batch`.

`notify`: false in a transaction that will be prepared (`PREPARE TRANSACTION`); a cleaner finds the tasks within a second after its commit.

An unknown key or parent, or tasks that wait for each other in a circle, raise SQLSTATE 22023; the message names the place, such as `tasks[3].depends_on`, or the circle.$$;

CREATE OR REPLACE FUNCTION tenon.parent_results(task bigint) RETURNS TABLE (id bigint, name text, state text, result jsonb)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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

CREATE OR REPLACE FUNCTION tenon.parent_results(claim text) RETURNS TABLE (id bigint, name text, state text, result jsonb)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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
END $$;

COMMENT ON FUNCTION tenon.parent_results(text) IS $$Returns the results of a task's parents: a row for each, in the order of `depends_on`. `claim`: the text of `TENON_TASK_CLAIM`, or `claim` of the task line. A claim that is no longer valid raises SQLSTATE 55000; the claim of a task that the role may not run raises 42501. `name` is the parent's name in the description of the flow, `state` how it ended, `result` what it returned, if it is done and a history is kept.$$;

COMMENT ON FUNCTION tenon.parent_results(bigint) IS $$The same for the task with this id; for the role that made its flow, operators and readers.$$;

-- A task that did not end well among those that this one waits for, directly or not; reads up to 1,000 tasks. NULL = none.
CREATE OR REPLACE FUNCTION tenon.bad_ancestor(task bigint) RETURNS bigint
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    WITH RECURSIVE up (id) AS (
        SELECT f.parent FROM tenon.flow_wait f WHERE f.task = $1
        UNION
        SELECT f.parent FROM up JOIN tenon.flow_wait f ON f.task = up.id
    )
    SELECT m.id FROM (SELECT id FROM up LIMIT 1000) u JOIN tenon.flow_task m ON m.id = ANY (ARRAY[u.id]) WHERE m.state <> 'done' LIMIT 1
$$;
