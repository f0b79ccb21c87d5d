-- Steps: what a task remembers from one attempt to the next.

-- All steps of a task as one object, for those whose step_count is not NULL. VOLATILE, so that it sees what was committed before the
-- caller locked the task, whenever the caller's own snapshot was taken.
CREATE OR REPLACE FUNCTION tenon.steps_of(task_id bigint) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
    RETURN (SELECT jsonb_object_agg(s.name, s.value) FROM tenon.task_step s WHERE s.task_id = task_id);
END $$;

-- How much longer the object of all steps becomes by one: `"name": value` and a comma, or the first one the braces.
CREATE OR REPLACE FUNCTION tenon.added_bytes(name text, value_bytes bigint) RETURNS bigint
LANGUAGE sql STABLE AS $$ SELECT octet_length(to_json(name)::text) + value_bytes + 4 $$;

-- What is recorded under this name; NULL: nothing, and it may be recorded. Refuses what exceeds a limit. Only functions with a
-- search_path of their own call it.
CREATE OR REPLACE FUNCTION tenon.recorded_step(task_id bigint, step_count integer, step_bytes integer, name text, value jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_variable
DECLARE
    step_name_bytes_max constant integer := 100;
    steps_max           constant integer := 1000;
    steps_bytes_max     constant integer := 1048576;
    kept  jsonb;
    bytes bigint;
BEGIN
    IF coalesce(octet_length(name), 0) NOT BETWEEN 1 AND step_name_bytes_max THEN
        PERFORM tenon.refuse('name', quote_literal(name), format('1 to %s bytes', step_name_bytes_max));
    END IF;
    IF step_count IS NOT NULL THEN
        SELECT s.value INTO kept FROM tenon.task_step s WHERE s.task_id = task_id AND s.name = name;
        IF FOUND THEN
            RETURN kept;
        END IF;
    END IF;
    bytes := coalesce(step_bytes, 0) + tenon.added_bytes(name, tenon.printed_bytes(value));
    IF bytes > steps_bytes_max THEN
        PERFORM tenon.refuse_call(format('the steps of the task would have %s bytes as text', bytes),
                                  format('All steps of a task may have %s bytes: store large values in a table, and their key in the step.', steps_bytes_max));
    END IF;
    IF step_count >= steps_max THEN
        PERFORM tenon.refuse_call(format('the task has %s steps already', steps_max), 'Record fewer steps, for instance one for many items.');
    END IF;
    RETURN NULL;
END $$;

-- Records a step of a task that the caller has locked, under a name that has none. The first one removes rows that are left of a task
-- with this id, if somebody emptied tenon.task by hand and its numbers began again.
CREATE OR REPLACE FUNCTION tenon.put_step(id bigint, name text, value jsonb) RETURNS void
LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    n integer;
BEGIN
    UPDATE tenon.task t
       SET step_count = coalesce(t.step_count, 0) + 1,
           step_bytes = coalesce(t.step_bytes, 0) + tenon.added_bytes(name, octet_length(value::text))
     WHERE t.id = id RETURNING t.step_count INTO n;
    IF n = 1 THEN
        DELETE FROM tenon.task_step s WHERE s.task_id = id;
    END IF;
    INSERT INTO tenon.task_step (task_id, position, name, value) VALUES (id, n, name, value);
END $$;

CREATE OR REPLACE FUNCTION tenon.step(claim text, name text, value jsonb DEFAULT NULL) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    fence record;
    held  record;
    kept  jsonb;
BEGIN
    fence := tenon.read_claim(claim);
    SELECT t.queue, t.kind, t.step_count, t.step_bytes INTO held FROM tenon.task t WHERE t.id = fence.id AND t.claim_key = fence.key FOR UPDATE;
    PERFORM tenon.claim_must_hold(claim, fence.key, held.queue, held.kind);
    value := coalesce(value, 'null');
    kept := tenon.recorded_step(fence.id, held.step_count, held.step_bytes, name, value);
    PERFORM tenon.put_step(fence.id, name, value) WHERE kept IS NULL AND fence.key <> 0;
    RETURN coalesce(kept, value);
END $$;

COMMENT ON FUNCTION tenon.step IS $$Records a step of a running task, in a transaction of its own or in the handler's. Returns the value that is recorded under the name, which is the first one if the name was recorded before. Every later attempt gets all recorded steps (`steps` of the task line, `tenon.steps`) and can skip them: [steps.md](steps.md).

- `claim`: the text of `TENON_TASK_CLAIM`, or `claim` of the task line; anything else raises SQLSTATE 22023.
- `name`: 1 to 100 bytes; at most 1,000 names a task, else SQLSTATE 22023.
- `value`: JSON; NULL = null. All steps of a task with their names are at most 1 MiB as text, else SQLSTATE 22023.

Raises SQLSTATE 55000 when the claim is no longer valid, because the task was recovered, cancelled or finished: roll back and stop; 42501 when the role is confined to other queues or kinds (`tenon.producer`).$$;

CREATE OR REPLACE FUNCTION tenon.steps(claim text) RETURNS jsonb
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    fence record;
    held  record;
BEGIN
    fence := tenon.read_claim(claim);
    SELECT t.queue, t.kind, t.step_count INTO held FROM tenon.task t WHERE t.id = fence.id AND t.claim_key = fence.key;
    PERFORM tenon.claim_must_hold(claim, fence.key, held.queue, held.kind);
    RETURN coalesce(CASE WHEN held.step_count IS NOT NULL THEN tenon.steps_of(fence.id) END, '{}');
END $$;

COMMENT ON FUNCTION tenon.steps IS $$Returns the recorded steps of a running task: an object with a key for each name. Arguments and errors are those of `tenon.step`.$$;

-- The step in a handler's line, and whether it must be recorded: false = its name has a value; NULL = it exceeds a limit, or PostgreSQL
-- cannot store it, so that one bad value fails nothing else in its round. Nothing is written here: catching an error costs a
-- subtransaction, and one that writes has a number of its own.
CREATE OR REPLACE FUNCTION tenon.step_in(line text, task_id bigint, step_count integer, step_bytes integer,
    OUT name text, OUT value jsonb, OUT is_new boolean)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    value := line::jsonb -> 'step';
    name := value ->> 'name';
    value := coalesce(value -> 'value', 'null');
    is_new := tenon.recorded_step(task_id, step_count, step_bytes, name, value) IS NULL;
EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
    is_new := NULL;
END $$;

-- Records steps of pool children for their worker (worker/step.sql). One row for each that was written or is refused; a missing one is
-- not this claim's any more, or another session has locked the task.
CREATE OR REPLACE FUNCTION tenon.record_steps(ids bigint[], keys bigint[], lines text[])
RETURNS TABLE (place integer, recorded boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    held record;
    step record;
BEGIN
    FOR i IN 1 .. cardinality(ids) LOOP
        SELECT t.step_count, t.step_bytes INTO held FROM tenon.task t
         WHERE t.id = ids[i] AND t.claim_key = keys[i] FOR UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        step := tenon.step_in(lines[i], ids[i], held.step_count, held.step_bytes);
        IF step.is_new THEN
            PERFORM tenon.put_step(ids[i], step.name, step.value);
        END IF;
        place := i;
        recorded := step.is_new IS NOT NULL;
        RETURN NEXT;
    END LOOP;
END $$;
