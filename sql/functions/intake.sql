-- tenon intake: messages of RabbitMQ's queues become tasks. docs/decisions/0057 says why by tenon.seen and not by unique keys.

-- A session of tenon intake begins to take from a queue: how large a payload may be, and from which offset a stream continues (NULL = it
-- has none yet, or is not a stream).
CREATE OR REPLACE FUNCTION tenon.intake_begin(queue text, OUT payload_bytes_max integer, OUT next_offset bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    payload_bytes_max := (tenon.settings()).payload_bytes_max;
    SELECT p.next_offset INTO next_offset FROM tenon.stream_place p WHERE p.stream = queue;
END $$;

-- Enqueues the messages of one piece that were not seen before, and remembers them. `keys` are what messages are recognized by; one without
-- a key is always new. `offsets` are those of a stream: what is before the place that another transaction has reached was seen, too;
-- `up_to` is the last offset of the piece, with those of messages that were left out. Keys are inserted in their order, so that two pieces with the same keys
-- never wait for each other in a circle. Kinds one after the other; within a kind in the messages' order.
-- All messages are new, as a rule: a plain INSERT costs two thirds of one with ON CONFLICT.
CREATE OR REPLACE FUNCTION tenon.take_in(queue text, keys text[], kinds text[], payloads jsonb[], traces text[], offsets bigint[], up_to bigint,
    task_queue text, priority integer, OUT taken integer, OUT payload_bytes_max integer)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    s       tenon.setting := tenon.settings();
    until   timestamptz := clock_timestamp() + s.once_keep;
    seen_by text := 'intake:' || queue;
    place   bigint := 0;
    all_new boolean := true;
    k       record;
BEGIN
    payload_bytes_max := s.payload_bytes_max;
    IF up_to IS NOT NULL THEN
        INSERT INTO tenon.stream_place (stream) VALUES (queue) ON CONFLICT DO NOTHING;
        SELECT p.next_offset INTO place FROM tenon.stream_place p WHERE p.stream = queue FOR UPDATE;
        UPDATE tenon.stream_place p SET next_offset = up_to + 1, taken_at = clock_timestamp() WHERE p.stream = queue AND p.next_offset <= up_to;
        all_new := offsets[1] >= place IS NOT FALSE;
    END IF;
    IF all_new THEN
        BEGIN
            INSERT INTO tenon.seen (message_id, consumer, until)
            SELECT u.key, seen_by, until FROM unnest(keys) u (key) WHERE u.key IS NOT NULL ORDER BY u.key COLLATE "C";
        EXCEPTION WHEN unique_violation THEN
            all_new := false;
        END;
    END IF;
    IF NOT all_new THEN
        WITH message AS MATERIALIZED (
            SELECT m.*, m.key IS NULL OR row_number() OVER (PARTITION BY m.key ORDER BY m.place) = 1 AS is_first
              FROM unnest(keys, kinds, payloads, traces, offsets) WITH ORDINALITY m (key, kind, payload, trace, at, place)
             WHERE m.at >= place IS NOT FALSE
        ), new AS (
            INSERT INTO tenon.seen (message_id, consumer, until)
            SELECT m.key, seen_by, until FROM message m WHERE m.is_first AND m.key IS NOT NULL ORDER BY m.key COLLATE "C"
            ON CONFLICT DO NOTHING
            RETURNING message_id
        )
        SELECT array_agg(m.kind ORDER BY m.place), array_agg(m.payload ORDER BY m.place), array_agg(m.trace ORDER BY m.place)
          INTO kinds, payloads, traces
          FROM message m LEFT JOIN new ON new.message_id = m.key
         WHERE m.is_first AND (m.key IS NULL OR new.message_id IS NOT NULL);
    END IF;
    taken := coalesce(cardinality(payloads), 0);
    FOR k IN SELECT kinds[1] AS kind, payloads AS payloads, traces AS traces WHERE taken > 0 AND kinds[1] = ALL (kinds)
             UNION ALL
             SELECT m.kind, array_agg(m.payload ORDER BY m.place), array_agg(m.trace ORDER BY m.place)
               FROM unnest(kinds, payloads, traces) WITH ORDINALITY m (kind, payload, trace, place)
              WHERE NOT kinds[1] = ALL (kinds) GROUP BY m.kind LOOP
        PERFORM tenon.enqueue_many_jsonb(k.kind, k.payloads, task_queue, priority, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
                                         NULL, NULL, NULL, NULL, NULL, NULL, true, false, NULL, NULL, NULL, k.traces);
    END LOOP;
END $$;

-- Writes the rows of one process of tenon intake, which calls it every 10 s and when it starts or stops taking messages. `sources` is an
-- array of objects with the columns of tenon.intake; it is empty when the process ends. `up_ms` is how long the process has been running.
-- Also deletes rows of these queues that a killed process has left, if this process started after they were written and they are over a
-- minute old; a cleaner deletes the others (tenon.purge). A restarted container may have the host and pid of the one before: then the
-- counts begin at 0 again.
CREATE OR REPLACE FUNCTION tenon.intake_note(host text, pid integer, version text, up_ms bigint, sources jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    at      timestamptz := clock_timestamp();
    started timestamptz := at - up_ms * interval '1 ms';
    queues  text[] := ARRAY(SELECT s ->> 'queue' FROM jsonb_array_elements(sources) s);
BEGIN
    DELETE FROM tenon.intake i
     WHERE i.host = host AND i.pid = pid AND i.queue <> ALL (queues)
        OR i.queue = ANY (queues) AND i.seen_at < least(started, at - interval '1 min');
    INSERT INTO tenon.intake AS i (queue, host, pid, is_stream, version, started_at, seen_at, taken, repeated, rejected, kept, unkeyed,
                                   rejected_at, unkeyed_at, error, error_since)
    SELECT s.queue, host, pid, s.is_stream, left(version, 100), started, at, s.taken, s.repeated, s.rejected, s.kept, s.unkeyed,
           CASE WHEN s.rejected > 0 THEN at END, CASE WHEN s.unkeyed > 0 THEN at END, left(s.error, 1000), CASE WHEN s.error IS NOT NULL THEN at END
      FROM jsonb_to_recordset(sources) s (queue text, is_stream boolean, taken bigint, repeated bigint, rejected bigint, kept bigint,
                                          unkeyed bigint, error text)
     ORDER BY s.queue
        ON CONFLICT ON CONSTRAINT intake_pkey DO UPDATE
       SET is_stream = excluded.is_stream, version = excluded.version, started_at = excluded.started_at, seen_at = excluded.seen_at,
           taken = excluded.taken, repeated = excluded.repeated, rejected = excluded.rejected, kept = excluded.kept, unkeyed = excluded.unkeyed,
           rejected_at = CASE WHEN excluded.rejected > i.rejected OR i.seen_at < started THEN excluded.rejected_at ELSE i.rejected_at END,
           unkeyed_at = CASE WHEN excluded.unkeyed > i.unkeyed OR i.seen_at < started THEN excluded.unkeyed_at ELSE i.unkeyed_at END,
           error = excluded.error, error_since = CASE WHEN excluded.error IS NOT NULL THEN coalesce(i.error_since, at) END;
END $$;

COMMENT ON FUNCTION tenon.intake_note IS $$Internal: `tenon intake` calls it.$$;
COMMENT ON FUNCTION tenon.take_in IS $$Internal: `tenon intake` calls it.$$;
COMMENT ON FUNCTION tenon.intake_begin IS $$Internal: `tenon intake` calls it.$$;
