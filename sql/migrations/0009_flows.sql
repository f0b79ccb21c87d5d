-- Flows: tasks that wait for others, their parents; and batches: flows that enqueue a task when all of theirs have ended.

CREATE TABLE tenon.flow (
    id           bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name         text,
    made_by      text        NOT NULL DEFAULT session_user,
    made_at      timestamptz NOT NULL DEFAULT now(),
    made_in      xid8        NOT NULL DEFAULT pg_current_xact_id(),
    open         boolean     NOT NULL DEFAULT false,
    cancelled_by text,
    cancelled_at timestamptz,
    ended_at     timestamptz,
    on_done      text,
    on_dead      text,
    on_end       text,
    payload      jsonb,
    done_task    bigint,
    dead_task    bigint,
    end_task     bigint
);
CREATE INDEX flow_ended ON tenon.flow (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX flow_made ON tenon.flow (made_at) WHERE ended_at IS NULL;
COMMENT ON TABLE tenon.flow IS 'Flows and batches.';
COMMENT ON COLUMN tenon.flow.id IS 'The number of the flow.';
COMMENT ON COLUMN tenon.flow.name IS 'As given; NULL = it has none.';
COMMENT ON COLUMN tenon.flow.made_by IS 'The role that had logged in to make it. That one and operators may add to it and cancel it.';
COMMENT ON COLUMN tenon.flow.made_at IS 'When its transaction began.';
COMMENT ON COLUMN tenon.flow.made_in IS 'The transaction.';
COMMENT ON COLUMN tenon.flow.open IS 'Tasks will still be added to it, and so it does not end: a batch before `tenon.close`.';
COMMENT ON COLUMN tenon.flow.cancelled_by IS 'The role that cancelled it.';
COMMENT ON COLUMN tenon.flow.cancelled_at IS 'When that was.';
COMMENT ON COLUMN tenon.flow.ended_at IS 'When it was seen that all its tasks had ended; NULL = some have not, or it is open.';
COMMENT ON COLUMN tenon.flow.on_done IS 'The kind of the task that is enqueued when all are done.';
COMMENT ON COLUMN tenon.flow.on_dead IS 'The kind of the task that is enqueued when all have ended, and some are dead, cancelled or expired.';
COMMENT ON COLUMN tenon.flow.on_end IS 'The kind of the task that is enqueued when all have ended.';
COMMENT ON COLUMN tenon.flow.payload IS 'The payload of these tasks; an object gets the key `flow` as well.';
COMMENT ON COLUMN tenon.flow.done_task IS 'The task of `on_done`; NULL = it was not enqueued yet.';
COMMENT ON COLUMN tenon.flow.dead_task IS 'The task of `on_dead`.';
COMMENT ON COLUMN tenon.flow.end_task IS 'The task of `on_end`.';

-- What a blocked task still waits for: a row for each parent.
CREATE TABLE tenon.flow_wait (
    task    bigint,
    parent  bigint,
    on_dead text NOT NULL,
    PRIMARY KEY (task, parent)
);
CREATE INDEX flow_wait_parent ON tenon.flow_wait (parent, task);
COMMENT ON TABLE tenon.flow_wait IS 'The parents for which blocked tasks still wait.';
COMMENT ON COLUMN tenon.flow_wait.task IS 'The blocked task.';
COMMENT ON COLUMN tenon.flow_wait.parent IS 'A task that is not done, or of which nobody has seen yet that it is.';
COMMENT ON COLUMN tenon.flow_wait.on_dead IS 'What the task does when that one is dead, cancelled or expired: `wait`, `run` or `cancel`.';

-- Append-only: what tenon.settle() has to look at. Whoever ends a task, or makes one that waits for a task which may
-- have ended by now, leaves one, and so he needs no lock.
CREATE TABLE tenon.flow_note (
    id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    flow bigint NOT NULL,
    task bigint
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);
COMMENT ON TABLE tenon.flow_note IS 'The tasks and flows that `tenon.settle` has to look at.';
COMMENT ON COLUMN tenon.flow_note.id IS 'Notes are looked at in this order.';
COMMENT ON COLUMN tenon.flow_note.flow IS 'The flow.';
COMMENT ON COLUMN tenon.flow_note.task IS 'A task of it; NULL = the flow itself.';

-- May whoever logged in see this flow, add to it, and cancel it? Who made it may, and operators, who may change queues.
CREATE FUNCTION tenon.may_flow(made_by text) RETURNS boolean
LANGUAGE sql STABLE AS $$ SELECT made_by = session_user OR has_table_privilege(session_user, 'tenon.queue', 'UPDATE') $$;

-- The flow, if whoever logged in may touch it.
CREATE FUNCTION tenon.flow_of(flow bigint) RETURNS tenon.flow
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f tenon.flow;
BEGIN
    SELECT * INTO f FROM tenon.flow w WHERE w.id = flow;
    IF f.id IS NULL THEN
        PERFORM tenon.refuse('flow', coalesce(flow::text, 'NULL'), 'the number of a flow, of this transaction or a committed one');
    ELSIF NOT tenon.may_flow(f.made_by) THEN
        RAISE EXCEPTION 'tenon: role % may not touch flow %', session_user, flow
            USING ERRCODE = 'insufficient_privilege', HINT = 'Another role made it: ask that one, or an operator.';
    END IF;
    RETURN f;
END $$;

CREATE FUNCTION tenon.settle_flows(most integer) RETURNS integer
LANGUAGE sql AS $$ SELECT 0 $$;

CREATE FUNCTION tenon.check_parents(flow bigint, after bigint[], on_parent_dead text, unique_key text) RETURNS bigint[]
LANGUAGE plpgsql AS $$
BEGIN
    IF num_nonnulls(flow, after, on_parent_dead) > 0 THEN
        PERFORM tenon.refuse('flow', flow::text, 'NULL');
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION tenon.join_flow(ids bigint[], flow bigint, after bigint[], waits bigint[], on_parent_dead text) RETURNS boolean
LANGUAGE sql AS $$ SELECT false $$;

REVOKE ALL ON FUNCTION tenon.may_flow, tenon.flow_of, tenon.settle_flows, tenon.check_parents, tenon.join_flow FROM PUBLIC;
