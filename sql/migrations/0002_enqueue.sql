-- Enqueueing, from any language, inside the caller's own transaction.

-- Refuse a bad argument: which, its value, and what is allowed.
CREATE FUNCTION tenon.refuse(argument text, value text, allowed text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'tenon: % % is not allowed', argument, coalesce(left(value, 100), 'NULL')
        USING ERRCODE = 'invalid_parameter_value', HINT = format('%s is %s.', argument, allowed);
END $$;

-- The values that every enqueue needs, checked, with the defaults of kind and queue filled in.
CREATE TYPE tenon.checked AS (
    queue text, priority smallint, max_attempts integer, timeout_ms bigint,
    run_at timestamptz, delayed boolean, payload_bytes_max integer);

CREATE FUNCTION tenon.check_enqueue(kind text, queue text, priority integer, run_at timestamptz,
    delay interval, max_attempts integer, timeout interval, trace text) RETURNS tenon.checked
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    c   tenon.checked;
    at  timestamptz := clock_timestamp();
BEGIN
    IF kind IS NULL OR kind !~ '^[A-Za-z0-9_.:-]{1,100}$' THEN
        PERFORM tenon.refuse('kind', quote_literal(kind), '1 to 100 of A-Z a-z 0-9 _ . : -');
    END IF;
    IF queue IS NOT NULL AND queue !~ '^[a-z0-9_][a-z0-9_.-]{0,62}$' THEN
        PERFORM tenon.refuse('queue', quote_literal(queue), '1 to 63 of a-z 0-9 _ . - and does not start with . or -');
    END IF;
    IF priority NOT BETWEEN 0 AND 9 THEN
        PERFORM tenon.refuse('priority', priority::text, '0 to 9, higher first');
    END IF;
    IF max_attempts NOT BETWEEN 1 AND 1000 THEN
        PERFORM tenon.refuse('max_attempts', max_attempts::text, '1 to 1000');
    END IF;
    IF timeout NOT BETWEEN interval '1 millisecond' AND interval '30 days' THEN
        PERFORM tenon.refuse('timeout', timeout::text, '1 millisecond to 30 days');
    END IF;
    IF run_at IS NOT NULL AND delay IS NOT NULL THEN
        PERFORM tenon.refuse('delay', delay::text, 'given alone, not together with run_at');
    END IF;
    IF run_at IS NOT NULL AND (NOT isfinite(run_at) OR run_at > at + interval '10 years') THEN
        PERFORM tenon.refuse('run_at', run_at::text, 'a moment at most 10 years ahead');
    END IF;
    IF delay IS NOT NULL AND delay NOT BETWEEN interval '0' AND interval '10 years' THEN
        PERFORM tenon.refuse('delay', delay::text, '0 to 10 years');
    END IF;
    IF trace IS NOT NULL AND trace !~ '^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$' THEN
        PERFORM tenon.refuse('trace', quote_literal(trace), 'a W3C traceparent, such as 00-<32 hex>-<16 hex>-01');
    END IF;
    SELECT coalesce(queue, k.queue, 'default'),
           coalesce(priority, k.priority, q.priority, 4),
           coalesce(max_attempts, k.max_attempts, q.max_attempts, 25),
           coalesce((extract(epoch FROM timeout) * 1000)::bigint, k.timeout_ms, q.timeout_ms, 3600000),
           greatest(coalesce(run_at, at + delay), at),
           coalesce(run_at, at + delay) > at,
           s.payload_bytes_max
      INTO c
      FROM tenon.setting s
      LEFT JOIN tenon.kind k ON k.name = kind
      LEFT JOIN tenon.queue q ON q.name = coalesce(queue, k.queue, 'default');
    c.delayed := coalesce(c.delayed, false);
    RETURN c;
END $$;

CREATE FUNCTION tenon.check_payload(payload jsonb, bytes_max integer) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    bytes integer := octet_length(payload::text);
BEGIN
    IF payload IS NULL THEN
        PERFORM tenon.refuse('payload', NULL, 'a JSON value; use ''null''::jsonb for JSON''s null');
    ELSIF bytes > bytes_max THEN
        PERFORM tenon.refuse('payload', format('of %s bytes', bytes),
                             format('at most %s bytes as text (payload_bytes_max in tenon.setting)', bytes_max));
    END IF;
END $$;

CREATE FUNCTION tenon.check_unique_key(unique_key text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF length(unique_key) NOT BETWEEN 1 AND 200 THEN
        PERFORM tenon.refuse('unique_key', quote_literal(unique_key), '1 to 200 characters long');
    END IF;
END $$;

-- Wake the publisher, but only when it sleeps: awake it looks by itself and holds no lock, asleep it
-- holds (1952804463, 2) exclusively. A NOTIFY in every commit would make all commits wait in line.
CREATE FUNCTION tenon.wake_publisher() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT pg_try_advisory_xact_lock_shared(1952804463, 2) THEN
        PERFORM pg_notify('tenon', '');
    END IF;
END $$;

-- Enqueue one task; returns its id, or the id of the unfinished task that holds unique_key.
--   announced  the caller publishes the id to RabbitMQ itself, near its commit
--   notify     false in a transaction that will be PREPAREd: it can neither NOTIFY nor hold the lock
CREATE FUNCTION tenon.enqueue(kind text, payload jsonb DEFAULT '{}', queue text DEFAULT NULL,
    priority integer DEFAULT NULL, run_at timestamptz DEFAULT NULL, delay interval DEFAULT NULL,
    unique_key text DEFAULT NULL, max_attempts integer DEFAULT NULL, timeout interval DEFAULT NULL,
    trace text DEFAULT NULL, notify boolean DEFAULT true, announced boolean DEFAULT false) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    c   tenon.checked := tenon.check_enqueue(kind, queue, priority, run_at, delay, max_attempts, timeout, trace);
    new bigint;
BEGIN
    PERFORM tenon.check_payload(payload, c.payload_bytes_max);
    PERFORM tenon.check_unique_key(unique_key);
    -- twice at most in practice: the holder of the key may finish between the two statements
    FOR try IN 1..100 LOOP
        INSERT INTO tenon.task (run_at, created_at, timeout_ms, max_attempts, priority, delayed,
                                announced, queue, kind, payload, unique_key, trace)
        VALUES (c.run_at, clock_timestamp(), c.timeout_ms, c.max_attempts, c.priority, c.delayed,
                coalesce(announced, false) AND NOT c.delayed, c.queue, kind, payload, unique_key, trace)
        ON CONFLICT DO NOTHING  -- unique_key is the only thing that can conflict
        RETURNING id INTO new;
        IF new IS NULL THEN
            SELECT id INTO new FROM tenon.task t WHERE t.unique_key = unique_key;
            CONTINUE WHEN new IS NULL;
            RETURN new;
        END IF;
        IF coalesce(notify, true) AND NOT coalesce(announced, false) THEN
            PERFORM tenon.wake_publisher();
        END IF;
        RETURN new;
    END LOOP;
    RAISE EXCEPTION 'tenon: the task that holds unique_key % cannot be seen', quote_literal(unique_key)
        USING ERRCODE = 'serialization_failure', HINT = 'Run the transaction again.';
END $$;

-- Enqueue one task per payload, all of one kind; returns their ids in the order of `payloads`.
CREATE FUNCTION tenon.enqueue_many(kind text, payloads jsonb[], queue text DEFAULT NULL,
    priority integer DEFAULT NULL, run_at timestamptz DEFAULT NULL, delay interval DEFAULT NULL,
    unique_keys text[] DEFAULT NULL, max_attempts integer DEFAULT NULL, timeout interval DEFAULT NULL,
    trace text DEFAULT NULL, notify boolean DEFAULT true, announced boolean DEFAULT false) RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    c    tenon.checked := tenon.check_enqueue(kind, queue, priority, run_at, delay, max_attempts, timeout, trace);
    ids  bigint[];
BEGIN
    IF payloads IS NULL OR cardinality(payloads) > 100000 THEN
        PERFORM tenon.refuse('payloads', 'of ' || cardinality(payloads) || ' elements', 'an array of 0 to 100000 JSON values');
    END IF;
    IF unique_keys IS NOT NULL THEN
        IF cardinality(unique_keys) <> cardinality(payloads) THEN
            PERFORM tenon.refuse('unique_keys', format('of %s elements', cardinality(unique_keys)),
                                 format('as long as payloads, %s elements', cardinality(payloads)));
        END IF;
        SELECT coalesce(array_agg(tenon.enqueue(kind, p, queue, priority, run_at, delay, u, max_attempts, timeout,
                                                trace, notify, announced) ORDER BY o), '{}')
          INTO ids FROM unnest(payloads, unique_keys) WITH ORDINALITY AS a (p, u, o);
        RETURN ids;
    END IF;
    PERFORM tenon.check_payload(p, c.payload_bytes_max)
       FROM unnest(payloads) p WHERE p IS NULL OR octet_length(p::text) > c.payload_bytes_max;
    WITH new AS (
        INSERT INTO tenon.task (run_at, created_at, timeout_ms, max_attempts, priority, delayed, announced,
                                queue, kind, payload, trace)
        SELECT CASE WHEN c.delayed THEN c.run_at ELSE clock_timestamp() END, clock_timestamp(), c.timeout_ms,
               c.max_attempts, c.priority, c.delayed, coalesce(announced, false) AND NOT c.delayed,
               c.queue, kind, p, trace
          FROM unnest(payloads) WITH ORDINALITY AS a (p, o) ORDER BY o
        RETURNING id)
    SELECT coalesce(array_agg(id ORDER BY id), '{}') INTO ids FROM new;
    IF coalesce(notify, true) AND NOT coalesce(announced, false) AND ids <> '{}' THEN
        PERFORM tenon.wake_publisher();
    END IF;
    RETURN ids;
END $$;

-- The queue of a task that is enqueued without one; for producers that publish ids themselves.
CREATE FUNCTION tenon.queue_of(kind text) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce((SELECT k.queue FROM tenon.kind k WHERE k.name = $1), 'default')
$$;

REVOKE ALL ON FUNCTION tenon.refuse, tenon.check_enqueue, tenon.check_payload, tenon.check_unique_key,
    tenon.wake_publisher, tenon.enqueue, tenon.enqueue_many, tenon.queue_of FROM PUBLIC;
