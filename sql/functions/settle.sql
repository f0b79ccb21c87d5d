-- Settle: what follows from commits and from the ends of tasks, done after the commit by one session at a time, each part bounded
-- by its cost.

-- Unblocks blocked tasks, except locked ones, and suspects, which now wait only for their turn to run alone. Returns the
-- unblocked ones, for which the caller wakes workers. Rows are locked first only if another session has locked one: a lock leaves a
-- mark in the new version of a row, and polls pass over marked rows until their next sweep (worker/poll.sql).
CREATE OR REPLACE FUNCTION tenon.unblock(ids bigint[]) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET lock_timeout = '10 ms' AS $$
DECLARE
    free bigint[];
BEGIN
    FOR i IN 1..2 LOOP
        BEGIN
            WITH new AS (
                UPDATE tenon.task t SET run_at = CASE WHEN t.crashes > 0 AND EXISTS (SELECT FROM tenon.suspect s WHERE s.task_id = t.id AND s.alone)
                                                      THEN 'infinity' ELSE greatest(t.wanted_at, clock_timestamp()) END,
                                        wanted_at = NULL, delayed = t.wanted_at > clock_timestamp()
                 WHERE t.id = ANY (ids) AND t.wanted_at IS NOT NULL
                RETURNING t.id),
            suspects AS (
                UPDATE tenon.suspect s SET due_at = clock_timestamp() FROM new WHERE s.task_id = ANY (ARRAY[new.id]) AND s.alone)
            SELECT coalesce(array_agg(new.id), '{}') INTO free FROM new;
            RETURN free;
        EXCEPTION WHEN lock_not_available THEN
            ids := ARRAY(SELECT b.id FROM tenon.task b WHERE b.id = ANY (ids) AND b.wanted_at IS NOT NULL
                          ORDER BY b.id FOR UPDATE SKIP LOCKED);
        END;
    END LOOP;
    RETURN '{}';
END $$;

-- Has a turn that began at this moment used its 250 ms? Callers do the first piece in any case.
CREATE OR REPLACE FUNCTION tenon.turn_is_over(begun timestamptz) RETURNS boolean
LANGUAGE sql VOLATILE AS $$ SELECT clock_timestamp() > $1 + interval '250 ms' $$;

-- The first of these tasks, with at most 8 MB of payloads and steps together, each step with 100 bytes for its row; at least one.
CREATE OR REPLACE FUNCTION tenon.first_bytes(ids bigint[]) RETURNS bigint[]
LANGUAGE sql STABLE AS $$
    SELECT ARRAY(SELECT b.id
                   FROM (SELECT i.id, i.place, sum(t.bytes) OVER (ORDER BY i.place) - t.bytes AS before
                           FROM unnest($1) WITH ORDINALITY i (id, place)
                          CROSS JOIN LATERAL (SELECT k.payload_bytes + coalesce(k.step_bytes + 100 * k.step_count, 0) AS bytes
                                               FROM tenon.task k WHERE k.id = i.id OFFSET 0) t) b
                  WHERE b.before < 8388608 ORDER BY b.place)
$$;

-- Where a turn begins, and where the next one continues.
CREATE OR REPLACE FUNCTION tenon.place_of(cursor regclass) RETURNS bigint
LANGUAGE sql VOLATILE AS $$ SELECT coalesce(pg_sequence_last_value($1), 0) $$;

CREATE OR REPLACE FUNCTION tenon.go_on_at(cursor regclass, place bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF place <> tenon.place_of(cursor) THEN
        PERFORM setval(cursor, place);
    END IF;
END $$;

-- Expires tasks that have missed start_before; returns how many.
CREATE OR REPLACE FUNCTION tenon.expire(moment timestamptz, most integer) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    piece constant integer := 16;
    begun timestamptz := clock_timestamp();
    n     integer := 0;
    ids   bigint[];
BEGIN
    WHILE n < most LOOP
        ids := tenon.first_bytes(ARRAY(
            SELECT l.id FROM tenon.task l
             WHERE l.start_before <= moment AND l.start_time IS NULL
               AND NOT EXISTS (SELECT FROM tenon.set_aside s WHERE s.part = 'expire' AND s.id = l.id AND s.until > moment)
             ORDER BY l.start_before LIMIT least(piece, most - n) FOR UPDATE OF l SKIP LOCKED));
        EXIT WHEN ids = '{}';
        PERFORM tenon.end_tasks(ids, 'expired', moment);
        n := n + cardinality(ids);
        EXIT WHEN tenon.turn_is_over(begun);
    END LOOP;
    RETURN n;
END $$;

-- The row that was too slow when a part took it by itself; NULL: unknown.
CREATE OR REPLACE FUNCTION tenon.slow_one(part text) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
    moment timestamptz := clock_timestamp();
BEGIN
    RETURN CASE part
           WHEN 'expire' THEN (SELECT l.id FROM tenon.task l
                                WHERE l.start_before <= moment AND l.start_time IS NULL AND NOT EXISTS (
                                      SELECT FROM tenon.set_aside s WHERE s.part = 'expire' AND s.id = l.id AND s.until > moment)
                                ORDER BY l.start_before LIMIT 1)
           WHEN 'again' THEN (SELECT g.id FROM tenon.again g WHERE g.id = tenon.place_of('tenon.again_cursor'))
           WHEN 'flows' THEN (SELECT o.id FROM tenon.flow_note o
                               WHERE o.id > 0 AND NOT EXISTS (
                                     SELECT FROM tenon.set_aside s WHERE s.part = 'flows' AND s.id = o.id AND s.until > moment)
                               ORDER BY o.id LIMIT 1) END;
END $$;

-- Set a row aside for a minute, or for twice as long as last time, up to a day.
CREATE OR REPLACE FUNCTION tenon.leave_out(part text, id bigint, why text) RETURNS void
LANGUAGE sql AS $$
    INSERT INTO tenon.set_aside AS s (part, id, until, error) VALUES ($1, $2, clock_timestamp() + interval '1 minute', left($3, 8192))
    ON CONFLICT ON CONSTRAINT set_aside_pkey DO UPDATE
       SET tries = s.tries + 1, at = clock_timestamp(), error = excluded.error,
           until = clock_timestamp() + least(interval '1 day', interval '1 minute' * power(2, least(s.tries, 20)))
$$;

-- A part of tenon.settle() ran into the statement's timeout. From now on it takes an eighth of the rows, after a pause as long as
-- the timeout, during which the other parts continue. A row that it took by itself is set aside. Returns a text for the log.
CREATE OR REPLACE FUNCTION tenon.note_slow(part text, most integer, why text) RETURNS text
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    pause interval := clock_timestamp() - statement_timestamp();
    slow  bigint := CASE WHEN most = 1 THEN tenon.slow_one(part) END;
    fewer integer := greatest(1, most / 8);
BEGIN
    INSERT INTO tenon.set_aside AS s (part, id, most, until, error)
    VALUES (note_slow.part, 0, fewer, clock_timestamp() + pause, left(why, 8192))
    ON CONFLICT ON CONSTRAINT set_aside_pkey DO UPDATE
       SET most = fewer, tries = s.tries + 1, at = clock_timestamp(), until = excluded.until, error = excluded.error;
    IF slow IS NULL THEN
        RETURN format('%s took too long, and takes %s rows at a time from now on: %s', part, fewer, why);
    END IF;
    PERFORM tenon.leave_out(part, slow, why);
    IF part = 'again' THEN
        UPDATE tenon.again g SET taken = true, failed = left(why, 8192) WHERE g.id = slow;
    END IF;
    RETURN format('%s set aside row %s, which took too long: %s', part, slow, why);
END $$;

-- Parts that took fewer rows take twice as many, up to the usual number; rows set aside that no longer exist are forgotten.
CREATE OR REPLACE FUNCTION tenon.note_works(most integer) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM tenon.set_aside s WHERE s.id = 0 AND s.until <= clock_timestamp() AND s.most * 2 >= note_works.most;
    UPDATE tenon.set_aside s SET most = s.most * 2 WHERE s.id = 0 AND s.until <= clock_timestamp();
    DELETE FROM tenon.set_aside s
     WHERE s.id > 0 AND CASE s.part WHEN 'expire' THEN NOT EXISTS (SELECT FROM tenon.task t WHERE t.id = s.id)
                                    WHEN 'again' THEN NOT EXISTS (SELECT FROM tenon.again g WHERE g.id = s.id AND g.failed IS NOT NULL)
                                    WHEN 'flows' THEN NOT EXISTS (SELECT FROM tenon.flow_note o WHERE o.id = s.id)
                                    ELSE NOT EXISTS (SELECT FROM tenon.task t WHERE t.id = s.id AND t.start_time IS NOT NULL) END;
END $$;

-- The first note above this id; NULL = there is none.
CREATE OR REPLACE FUNCTION tenon.first_note(settled bigint) RETURNS bigint
LANGUAGE plpgsql STABLE SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    RETURN least((SELECT o.id FROM tenon.again_note o WHERE o.id > settled ORDER BY o.id LIMIT 1),
                 (SELECT o.id FROM tenon.flow_note o WHERE o.id > settled ORDER BY o.id LIMIT 1),
                 (SELECT e.id FROM tenon.limit_event e WHERE e.id > settled ORDER BY e.id LIMIT 1));
END $$;

-- Did an end or an enqueue leave something to settle? What the awake leader asks with each read of fresh rows: notes that a settle left
-- for itself do not count, and whoever leaves anything else notifies.
CREATE OR REPLACE FUNCTION tenon.has_notes(settled bigint) RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    RETURN EXISTS (SELECT FROM tenon.limit_event e WHERE e.id > settled) OR EXISTS (SELECT FROM tenon.again_note o WHERE o.id > settled)
        OR EXISTS (SELECT FROM tenon.flow_note o WHERE o.id > settled AND o.act IS NULL);
END $$;

-- Is there something to settle, besides what becomes due with the time? What is locked, or set aside, counts too.
CREATE OR REPLACE FUNCTION tenon.has_unsettled(settled bigint) RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    RETURN tenon.first_note(settled) IS NOT NULL OR EXISTS (SELECT FROM tenon.again g WHERE NOT g.taken)
        OR EXISTS (SELECT FROM tenon.waiting w WHERE NOT w.settled) OR EXISTS (SELECT FROM tenon.signal s WHERE NOT s.settled);
END $$;

-- Does what follows from commits and ends: expires tasks that have missed start_before, settles enqueues whose unique key was taken,
-- and continues what waited for flows, limits and signals. Up to `most` of each, and 250 ms each. Any session may call it, any number
-- of times: it derives everything from the rows, and leaves locked rows for later. Returns how many; which tasks it released; and in
-- how many milliseconds there may be more to do (NULL: not before a NOTIFY). If it released more than `few`, workers are told to poll;
-- else the caller wakes them. `slow`: what became of a part that ran into the statement's timeout. Notes up to the id `settled` are
-- known to be gone, and are not read; `first_note`: the first that is left above it.
CREATE OR REPLACE FUNCTION tenon.settle_all(most integer, few integer, settled bigint, OUT n integer, OUT freed bigint[], OUT due_ms bigint, OUT slow text,
    OUT first_note bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    moment timestamptz := clock_timestamp();
    fewer  jsonb := (SELECT jsonb_object_agg(s.part, CASE WHEN s.until > moment THEN 0 ELSE s.most END) FROM tenon.set_aside s WHERE s.id = 0);
    parts  constant text[] := '{expire,again,flows,signals,limits}';
    part   text;
    rows_  integer;
    did    record;
    more   boolean := false;
    since  timestamptz;
BEGIN
    PERFORM tenon.settings();
    n := 0;
    freed := '{}';
    FOREACH part IN ARRAY parts LOOP
        rows_ := least(most, (fewer ->> part)::integer);
        CONTINUE WHEN rows_ = 0;
        since := clock_timestamp();
        CASE part
            WHEN 'expire' THEN
                CONTINUE WHEN NOT EXISTS (SELECT FROM tenon.task t WHERE t.start_before <= moment AND t.start_time IS NULL);
                SELECT tenon.expire(moment, rows_) AS n, '{}'::bigint[] AS freed INTO did;
            WHEN 'again' THEN
                CONTINUE WHEN NOT EXISTS (SELECT FROM tenon.again g WHERE NOT g.taken) AND NOT EXISTS (SELECT FROM tenon.again_note o WHERE o.id > settled);
                did := tenon.settle_keys(rows_, settled);
                more := more OR did.more;
            WHEN 'flows' THEN did := tenon.settle_flows(rows_, settled);
            WHEN 'signals' THEN did := tenon.settle_signals(rows_);
            WHEN 'limits' THEN did := tenon.settle_limits(rows_, settled);
        END CASE;
        n := n + did.n;
        freed := freed || did.freed;
        more := more OR did.n > 0 AND (tenon.turn_is_over(since) OR part = 'flows' AND EXISTS (SELECT FROM tenon.flow_note o WHERE o.id > settled AND o.act IS NULL));
    END LOOP;
    IF EXISTS (SELECT FROM tenon.set_aside) THEN
        PERFORM tenon.note_works(most);
    END IF;
    due_ms := CASE WHEN n >= most OR more OR EXISTS (SELECT FROM tenon.limit_event e WHERE e.id > settled) THEN 0
                   ELSE least(tenon.limits_due_ms(false),
                              (SELECT ceil(extract(epoch FROM t.start_before - clock_timestamp()) * 1000)::bigint
                                 FROM tenon.task t
                                WHERE t.start_before > moment AND t.start_before < moment + interval '1 second' AND t.start_time IS NULL
                                ORDER BY t.start_before
                                LIMIT 1)) END;
    first_note := tenon.first_note(settled);
    IF cardinality(freed) > few THEN
        PERFORM tenon.wake(freed);
    END IF;
EXCEPTION WHEN query_canceled THEN
    slow := tenon.note_slow(part, rows_, SQLERRM);
    n := 1;
    freed := '{}';
    due_ms := 0;
    first_note := settled + 1;
END $$;

-- Settling by hand; cleaners call settle_all.
CREATE OR REPLACE FUNCTION tenon.settle(most integer DEFAULT 500) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (tenon.settle_all(most, 0, 0)).n;
END $$;

COMMENT ON FUNCTION tenon.settle IS $$Does what follows from commits and from the ends of tasks: expires tasks that have missed `start_before`, settles enqueues whose unique key was taken, and continues what waited for flows, limits and signals. Up to `most` of each; returns how many. Cleaners do it all the time; another call does no harm.$$;
