-- Progress and extensions of the timeout: what a handler reports while its task runs. Both check the fence of its claim.

-- The fence in the text of TENON_TASK_CLAIM, id/claims/key; `claims` only tells people which claim it is. Only functions with a
-- search_path of their own call it. A regular expression with {1,18} and the like would take longer than the rest together.
CREATE OR REPLACE FUNCTION tenon.read_claim(claim text, OUT id bigint, OUT key bigint)
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    part text[] := string_to_array(claim, '/');
BEGIN
    IF (translate(claim, '0123456789abcdef', '') = '//' AND translate(part[1] || part[2], '0123456789', '') = ''
        AND length(part[1]) BETWEEN 1 AND 18 AND length(part[2]) BETWEEN 1 AND 10 AND length(part[3]) = 16) IS NOT TRUE THEN
        PERFORM tenon.refuse('claim', quote_literal(claim), 'the text of TENON_TASK_CLAIM');
    END IF;
    id := part[1];
    key := ('x' || part[3])::bit(64)::bigint;
END $$;

-- A role that is confined to some queues or kinds runs tasks of those only, even if it knows another's claim.
CREATE OR REPLACE FUNCTION tenon.check_may_act(queue text, kind text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF coalesce((SELECT s.confined FROM tenon.setting s), true) AND NOT tenon.may_enqueue(queue, kind) THEN
        RAISE EXCEPTION 'tenon: role % may not run tasks of kind % of queue %', session_user, kind, queue
            USING ERRCODE = 'insufficient_privilege',
                  HINT = 'It is confined to other queues or kinds (tenon.producer); the owner of the schema can change that with tenon setup --grant-producer.';
    END IF;
END $$;

-- Was a row found with this claim (its queue and kind; NULL: no), and may the role act on it? The claim of a handler that is
-- tried by hand has the key 0 and needs no row.
CREATE OR REPLACE FUNCTION tenon.claim_must_hold(claim text, key bigint, queue text, kind text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF key = 0 THEN
        RAISE NOTICE 'tenon: a handler is tried by hand (tenon worker --run-one): nothing is written';
    ELSIF queue IS NULL THEN
        RAISE EXCEPTION 'tenon: claim % is no longer valid', quote_literal(claim)
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = 'The task was recovered, cancelled or finished: roll back and stop.';
    ELSE
        PERFORM tenon.check_may_act(queue, kind);
    END IF;
END $$;

-- The length as PostgreSQL prints it, which is what a dump and a task line contain: [1e-16383] takes a few bytes stored and 16 KB
-- printed (tenon.result_kept).
CREATE OR REPLACE FUNCTION tenon.printed_bytes(value jsonb) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN octet_length(value::text);
EXCEPTION WHEN program_limit_exceeded THEN  -- longer than 1 GB
    RETURN 1 << 30;
END $$;

CREATE OR REPLACE FUNCTION tenon.progress(claim text, value jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    progress_bytes_max constant integer := 65536;
    bytes bigint := tenon.printed_bytes(value);
    fence record;
    held  record;
BEGIN
    fence := tenon.read_claim(claim);
    IF bytes > progress_bytes_max THEN
        PERFORM tenon.refuse('value', format('of %s bytes', bytes),
                             format('at most %s bytes as text', progress_bytes_max));
    END IF;
    UPDATE tenon.task t SET progress = nullif(value, 'null')
     WHERE t.id = fence.id AND t.claim_key = fence.key
    RETURNING t.queue, t.kind, t.watched INTO held;
    PERFORM tenon.claim_must_hold(claim, fence.key, held.queue, held.kind);
    IF held.watched THEN
        PERFORM pg_notify('tenon_progress', fence.id::text);
    END IF;
END $$;

COMMENT ON FUNCTION tenon.progress IS $$Records the progress of a running task, in a transaction of its own or in the handler's. The next attempt gets the last value: it is the checkpoint.

- `claim`: the text of `TENON_TASK_CLAIM`, or `claim` of the task line; anything else raises SQLSTATE 22023.
- `value`: at most 64 KiB as text, else SQLSTATE 22023; NULL = no progress.

Each call updates a row, so call it rarely; a pool handler can write progress lines instead, at any rate. Raises SQLSTATE 55000 when the claim is no longer valid, because the task was recovered, cancelled or finished: roll back and stop; 42501 when the role is confined to other queues or kinds (`tenon.producer`).$$;

-- Raises the row's timeout, which tells the worker and the cleaner the deadline. It never shrinks, so it stays above the kind's
-- timeout_min_ms.
CREATE OR REPLACE FUNCTION tenon.extend(claim text, by interval) RETURNS timestamptz
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    timeout_max_ms constant bigint := 2592000000;
    by_ms    numeric := extract(epoch FROM by) * 1000;
    deadline timestamptz;
    fence    record;
    held     record;
BEGIN
    fence := tenon.read_claim(claim);
    IF (by_ms BETWEEN 1 AND timeout_max_ms) IS NOT TRUE THEN
        PERFORM tenon.refuse('by', by::text, '1 millisecond to 30 days');
    END IF;
    deadline := clock_timestamp() + make_interval(secs => by_ms / 1000);
    UPDATE tenon.task t
       SET timeout_ms = greatest(t.timeout_ms, least(timeout_max_ms, ceil(extract(epoch FROM deadline - t.start_time) * 1000)))
     WHERE t.id = fence.id AND t.claim_key = fence.key
    RETURNING t.queue, t.kind, t.start_time + make_interval(secs => t.timeout_ms / 1000.0) AS deadline INTO held;
    PERFORM tenon.claim_must_hold(claim, fence.key, held.queue, held.kind);
    RETURN held.deadline;
END $$;

COMMENT ON FUNCTION tenon.extend IS $$Gives a running task more time: its deadline becomes the present time plus `by`, if that is later than before, and at most 30 days after its start. Returns the deadline. The call must be committed before the old deadline. The longer timeout also applies to later attempts.

- `claim`: the text of `TENON_TASK_CLAIM`, or `claim` of the task line; anything else raises SQLSTATE 22023.
- `by`: 1 millisecond to 30 days, else SQLSTATE 22023.

Raises SQLSTATE 55000 when the claim is no longer valid, because the task was recovered, cancelled or finished: roll back and stop; 42501 when the role is confined to other queues or kinds (`tenon.producer`).$$;

-- The progress in a handler's line, which its worker knows to be JSON; NULL if it cannot be stored (a text with \u0000, a number out of
-- range) or is too long, so that one bad value fails nothing else in its round.
CREATE OR REPLACE FUNCTION tenon.progress_kept(line text) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    value jsonb;
BEGIN
    value := line::jsonb -> 'progress';
    RETURN CASE WHEN tenon.printed_bytes(value) <= 65536 THEN value END;
EXCEPTION WHEN others THEN
    RETURN NULL;
END $$;
