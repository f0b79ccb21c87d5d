-- Log lines of handlers that have SQL only. Those of pool children are inserted by the worker (worker/log_lines.sql).

-- The fields in a handler's line, which its worker knows to be a JSON object; NULL if PostgreSQL cannot store them (a text with
-- \u0000, a number out of range), so that one bad value loses no line.
CREATE OR REPLACE FUNCTION tenon.log_fields_kept(fields text) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    value jsonb;
BEGIN
    value := fields::jsonb;
    RETURN CASE WHEN tenon.printed_bytes(value) <= 4096 THEN value END;  -- a few bytes of text may print as many: 1e-16383
EXCEPTION WHEN others THEN
    RETURN NULL;
END $$;

-- A longer message loses its middle.
CREATE OR REPLACE FUNCTION tenon.log_text_kept(message text, bytes_max integer) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    n integer := bytes_max / 2 - 5;
BEGIN
    IF octet_length(message) <= bytes_max THEN
        RETURN message;
    END IF;
    -- by characters first, because a very long text is copied otherwise
    WHILE octet_length(left(message, n)) > bytes_max / 2 - 5 OR octet_length(right(message, n)) > bytes_max / 2 - 5 LOOP
        n := n * 3 / 4;
    END LOOP;
    RETURN left(message, n) || ' ... ' || right(message, n);
END $$;

-- What the attempt has logged already is counted in the two newest partitions: older lines of a long attempt count no more.
CREATE OR REPLACE FUNCTION tenon.log_message(claim text, message text, level text DEFAULT 'info', fields jsonb DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    message_bytes_max constant integer := 4096;
    fields_bytes_max  constant integer := 2048;
    lines_max         constant integer := 1000;
    bytes_max         constant integer := 262144;
    rest_left_out     constant text := '1,000 lines or 256 KiB; the rest of this attempt is left out';
    newest integer := pg_sequence_last_value('tenon.log_line_part');
    fence  record;
    held   record;
    logged record;
    fills  boolean;
BEGIN
    fence := tenon.read_claim(claim);
    SELECT t.queue, t.kind, 1 + t.failures + t.crashes AS attempt INTO held FROM tenon.task t WHERE t.id = fence.id AND t.claim_key = fence.key;
    PERFORM tenon.claim_must_hold(claim, fence.key, held.queue, held.kind);
    IF fence.key = 0 OR (tenon.settings()).log_keep = interval '0' THEN
        RETURN;
    END IF;
    SELECT count(*) AS n, coalesce(sum(octet_length(l.message) + coalesce(octet_length(l.fields::text), 0)), 0) AS bytes,
           bool_or(l.message = rest_left_out) IS TRUE AS was_full
      INTO logged
      FROM tenon.log_line l
     WHERE l.task_id = fence.id AND l.attempt = held.attempt AND l.part BETWEEN newest - 1 AND newest;
    IF logged.was_full THEN
        RETURN;
    END IF;
    message := tenon.log_text_kept(coalesce(message, ''), message_bytes_max);
    IF jsonb_typeof(fields) <> 'object' OR tenon.printed_bytes(fields) > fields_bytes_max THEN
        fields := NULL;
    END IF;
    fills := logged.n >= lines_max OR logged.bytes + octet_length(message) + coalesce(octet_length(fields::text), 0) > bytes_max;
    PERFORM tenon.need_partition('log_line');
    INSERT INTO tenon.log_line (task_id, attempt, level, message, fields)
    SELECT fence.id, held.attempt, CASE WHEN fills THEN 'warning' WHEN level IN ('error', 'warning', 'debug') THEN level ELSE 'info' END,
           CASE WHEN fills THEN rest_left_out ELSE message END, CASE WHEN NOT fills THEN fields END;
END $$;

COMMENT ON FUNCTION tenon.log_message IS $$Logs a line of a running task, in a transaction of its own or in the handler's: a line of a transaction that is rolled back is not stored. `tenon logs` and `tenon show` print the lines. A pool handler can write [log lines](protocol.md#log-lines) instead.

- `claim`: the text of `TENON_TASK_CLAIM`, or `claim` of the task line; anything else raises SQLSTATE 22023.
- `message`: the text. At most 4,096 bytes are stored; the middle of a longer one is left out.
- `level`: `error`, `warning`, `info` or `debug`; any other text means `info`.
- `fields`: an object of at most 2,048 bytes as text; other values are not stored.

At most 1,000 lines and 256 KiB of an attempt are stored; one line then says so. Nothing is stored while `log_keep` is 0. Raises SQLSTATE 55000 when the claim is no longer valid, because the task was recovered, cancelled or finished: roll back and stop; 42501 when the role is confined to other queues or kinds (`tenon.producer`).$$;
