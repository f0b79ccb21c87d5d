-- Progress, and more time: what a handler says of its task while it runs. Both under the fence of its claim.

-- The fence in the text of TENON_TASK_CLAIM. Only functions with a search_path of their own call it. A regular expression
-- with {1,18} and the like takes longer to match than all the rest.
CREATE FUNCTION tenon.read_claim(claim text, OUT id bigint, OUT claims integer, OUT start_time timestamptz, OUT worker_id uuid)
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    part text[] := string_to_array(claim, '/');
BEGIN
    IF (translate(claim, '0123456789abcdef', '') = '///----' AND translate(part[1] || part[2] || part[3], '0123456789', '') = ''
        AND length(part[1]) BETWEEN 1 AND 18 AND length(part[2]) BETWEEN 1 AND 9 AND length(part[3]) BETWEEN 1 AND 17
        AND part[4] LIKE '________-____-____-____-____________') IS NOT TRUE THEN
        PERFORM tenon.refuse('claim', quote_literal(claim), 'the text of TENON_TASK_CLAIM');
    END IF;
    id := part[1];
    claims := part[2];
    start_time := timestamptz 'epoch' + part[3]::bigint * interval '1 microsecond';
    worker_id := part[4];
END $$;

-- Was a row written under this claim? A claim of a handler that is tried by hand has none, and needs none.
CREATE FUNCTION tenon.claim_must_hold(claim text, holds boolean, worker_id uuid) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF worker_id = '00000000-0000-0000-0000-000000000000' THEN
        RAISE NOTICE 'tenon: a handler is tried by hand (tenon worker --run-one): nothing is written';
    ELSIF NOT holds THEN
        RAISE EXCEPTION 'tenon: the claim % is not valid any more', quote_literal(claim)
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = 'The task was recovered, cancelled or finished; roll back and stop.';
    END IF;
END $$;

-- How long it is as PostgreSQL prints it, which is what a dump and a task line hold: [1e-16383] is stored in little and
-- printed in 16 KB (tenon.result_kept).
CREATE FUNCTION tenon.printed_bytes(value jsonb) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN octet_length(value::text);
EXCEPTION WHEN program_limit_exceeded THEN  -- longer than 1 GB
    RETURN 1 << 30;
END $$;

CREATE FUNCTION tenon.progress(claim text, value jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_variable
DECLARE
    progress_bytes_max constant integer := 65536;
    bytes bigint := tenon.printed_bytes(value);
    fence record;
BEGIN
    fence := tenon.read_claim(claim);
    IF bytes > progress_bytes_max THEN
        PERFORM tenon.refuse('value', format('of %s bytes', bytes),
                             format('at most %s bytes as text', progress_bytes_max));
    END IF;
    UPDATE tenon.task t SET progress = nullif(value, 'null')
     WHERE t.id = fence.id AND t.claims = fence.claims AND t.worker_id = fence.worker_id AND t.start_time = fence.start_time;
    PERFORM tenon.claim_must_hold(claim, FOUND, fence.worker_id);
END $$;

-- The row's timeout grows, and by it the worker and the cleaner know the deadline. A shorter one than the kind's
-- timeout_min_ms cannot come of it, as it never shrinks.
CREATE FUNCTION tenon.extend(claim text, by interval) RETURNS timestamptz
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_variable
DECLARE
    timeout_max_ms constant bigint := 2592000000;
    by_ms    numeric := extract(epoch FROM by) * 1000;
    deadline timestamptz;
    fence    record;
BEGIN
    fence := tenon.read_claim(claim);
    IF (by_ms BETWEEN 1 AND timeout_max_ms) IS NOT TRUE THEN
        PERFORM tenon.refuse('by', by::text, '1 millisecond to 30 days');
    END IF;
    deadline := clock_timestamp() + make_interval(secs => by_ms / 1000);
    UPDATE tenon.task t
       SET timeout_ms = greatest(t.timeout_ms, least(timeout_max_ms, ceil(extract(epoch FROM deadline - t.start_time) * 1000)))
     WHERE t.id = fence.id AND t.claims = fence.claims AND t.worker_id = fence.worker_id AND t.start_time = fence.start_time
    RETURNING t.start_time + make_interval(secs => t.timeout_ms / 1000.0) INTO deadline;
    PERFORM tenon.claim_must_hold(claim, FOUND, fence.worker_id);
    RETURN deadline;
END $$;

-- The progress in a handler's line, of which its worker knows only that it is JSON; NULL for what cannot be stored (a text
-- with \u0000, a number out of range) or is too long. So one bad value hurts nothing else in its round.
CREATE FUNCTION tenon.progress_kept(line text) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    value jsonb;
BEGIN
    value := line::jsonb -> 'progress';
    RETURN CASE WHEN tenon.printed_bytes(value) <= 65536 THEN value END;
EXCEPTION WHEN others THEN
    RETURN NULL;
END $$;

REVOKE ALL ON FUNCTION tenon.read_claim, tenon.claim_must_hold, tenon.printed_bytes, tenon.progress, tenon.extend,
    tenon.progress_kept FROM PUBLIC;

COMMENT ON FUNCTION tenon.progress IS $$Says how far a task is that runs, in the handler's own transaction if it likes. What was said last is given to the next attempt: it is the checkpoint.

- `claim`: the text of `TENON_TASK_CLAIM`, or `claim` of the task line; anything else raises SQLSTATE 22023.
- `value`: at most 64 KiB as text, else SQLSTATE 22023; NULL = no progress.

It is for a task that says so now and then: each call writes a row. A pool child may write lines instead, as often as it likes. Raises SQLSTATE 55000 when the claim is not valid any more, because the task was recovered, cancelled or finished: roll back and stop.$$;

COMMENT ON FUNCTION tenon.extend IS $$Gives a task that runs more time: its deadline is `by` from now on, if that is later than before, and at most 30 days after its start. Returns the deadline. It must be committed before the old one; the task's timeout has grown, for later attempts too.

- `claim`: the text of `TENON_TASK_CLAIM`, or `claim` of the task line; anything else raises SQLSTATE 22023.
- `by`: 1 millisecond to 30 days, else SQLSTATE 22023.

Raises SQLSTATE 55000 when the claim is not valid any more, because the task was recovered, cancelled or finished: roll back and stop.$$;
