-- Steps: what a task remembers from one attempt to the next.

-- The steps with one more. The first of a name stays. Only functions with a search_path of their own call it.
CREATE OR REPLACE FUNCTION tenon.with_step(steps jsonb, name text, value jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    step_name_bytes_max constant integer := 100;
    steps_max           constant integer := 1000;
    steps_bytes_max     constant integer := 1048576;
    bytes bigint;
BEGIN
    IF coalesce(octet_length(name), 0) NOT BETWEEN 1 AND step_name_bytes_max THEN
        PERFORM tenon.refuse('name', quote_literal(name), format('1 to %s bytes', step_name_bytes_max));
    END IF;
    steps := coalesce(steps, '{}');
    IF steps ? name THEN
        RETURN steps;
    END IF;
    value := coalesce(value, 'null');
    bytes := tenon.printed_bytes(steps) + tenon.printed_bytes(value) + octet_length(name);
    IF bytes > steps_bytes_max THEN
        PERFORM tenon.refuse('value', format('that makes steps of %s bytes', bytes),
                             format('at most so large that all steps of a task have %s bytes as text', steps_bytes_max));
    END IF;
    IF (SELECT count(*) FROM jsonb_object_keys(steps)) >= steps_max THEN
        PERFORM tenon.refuse('name', quote_literal(name), format('one of at most %s of a task', steps_max));
    END IF;
    RETURN steps || jsonb_build_object(name, value);
END $$;

-- A claim adds up payload_bytes, so they count the steps as well.
CREATE OR REPLACE FUNCTION tenon.put_steps(id bigint, old jsonb, new jsonb) RETURNS void
LANGUAGE plpgsql AS $$
#variable_conflict use_variable
BEGIN
    IF new IS DISTINCT FROM old THEN
        UPDATE tenon.task t
           SET steps = new,
               payload_bytes = t.payload_bytes + octet_length(new::text) - coalesce(octet_length(old::text), 0)
         WHERE t.id = id;
    END IF;
END $$;

CREATE OR REPLACE FUNCTION tenon.step(claim text, name text, value jsonb DEFAULT NULL) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    fence record;
    held  record;
    steps jsonb;
BEGIN
    fence := tenon.read_claim(claim);
    SELECT t.queue, t.kind, t.steps INTO held FROM tenon.task t WHERE t.id = fence.id AND t.claim_key = fence.key FOR UPDATE;
    PERFORM tenon.claim_must_hold(claim, fence.key, held.queue, held.kind);
    steps := tenon.with_step(held.steps, name, value);
    PERFORM tenon.put_steps(fence.id, held.steps, steps) WHERE fence.key <> 0;
    RETURN steps -> name;
END $$;

COMMENT ON FUNCTION tenon.step IS $$Records a step of a task that runs, in the handler's own transaction if it likes; returns what is recorded under the name: the value, or of a name that was there already the first one. Every later attempt gets all recorded steps (`steps` of the task line, `tenon.steps`), and need not do them again: [steps.md](steps.md).

- `claim`: the text of `TENON_TASK_CLAIM`, or `claim` of the task line; anything else raises SQLSTATE 22023.
- `name`: 1 to 100 bytes; at most 1,000 names a task, else SQLSTATE 22023.
- `value`: all of a task at most 1 MiB as text, with their names, else SQLSTATE 22023; NULL = null.

Raises SQLSTATE 55000 when the claim is not valid any more, because the task was recovered, cancelled or finished: roll back and stop; 42501 when the role is confined to other queues or kinds (`tenon.producer`).$$;

CREATE OR REPLACE FUNCTION tenon.steps(claim text) RETURNS jsonb
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    fence record;
    held  record;
BEGIN
    fence := tenon.read_claim(claim);
    SELECT t.queue, t.kind, t.steps INTO held FROM tenon.task t WHERE t.id = fence.id AND t.claim_key = fence.key;
    PERFORM tenon.claim_must_hold(claim, fence.key, held.queue, held.kind);
    RETURN coalesce(held.steps, '{}');
END $$;

COMMENT ON FUNCTION tenon.steps IS $$The recorded steps of a task that runs: an object, a key for each name. Arguments and errors as of `tenon.step`.$$;

-- The steps and the one in a handler's line; NULL if that exceeds a limit or PostgreSQL cannot store it, so that one bad value fails
-- nothing else in its round.
CREATE OR REPLACE FUNCTION tenon.with_step_of(steps jsonb, line text) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    step jsonb;
BEGIN
    step := line::jsonb -> 'step';
    RETURN tenon.with_step(steps, step ->> 'name', step -> 'value');
EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
    RETURN NULL;
END $$;

-- Records steps of pool children for their worker (worker/step.sql). One row for each that was written or is refused; a missing one is
-- not this claim's any more, or another session has locked the task.
CREATE OR REPLACE FUNCTION tenon.record_steps(ids bigint[], keys bigint[], lines text[])
RETURNS TABLE (place integer, recorded boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    held jsonb;
    new  jsonb;
BEGIN
    FOR i IN 1 .. cardinality(ids) LOOP
        SELECT t.steps INTO held FROM tenon.task t
         WHERE t.id = ids[i] AND t.claim_key = keys[i] FOR UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        new := tenon.with_step_of(held, lines[i]);
        recorded := new IS NOT NULL;
        IF recorded THEN
            PERFORM tenon.put_steps(ids[i], held, new);
        END IF;
        place := i;
        RETURN NEXT;
    END LOOP;
END $$;
