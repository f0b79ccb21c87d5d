-- Unique keys: what happens to an enqueue whose key is taken. docs/decisions/0028 says why it may have to wait for settle.

-- The unfinished task of this kind that holds unique_key; NULLs = none. It uses the index even in a session that planned it when
-- there were only a few tasks.
CREATE OR REPLACE FUNCTION tenon.holder(kind text, unique_key text) RETURNS tenon.enqueued
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    held tenon.enqueued;
BEGIN
    SELECT t.id, s.exchange, t.queue || '/' || t.kind INTO held FROM tenon.task t, tenon.setting s
     WHERE t.unique_key = holder.unique_key AND t.kind = holder.kind;
    RETURN held;
END $$;

-- Joins two enqueues with the same key: returns `b`, the earlier one, changed by `a`. NULL: they cannot be joined, because the
-- role of `a` may not change the task of another role or may not enqueue there, because `b` has missed start_before, or because
-- the merged payload would be too large.
CREATE OR REPLACE FUNCTION tenon.joined(a tenon.again, b tenon.again) RETURNS tenon.again
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s    tenon.setting := tenon.settings();
    held timestamptz := b.run_at;
BEGIN
    IF (s.cancel_own_only OR s.confined) AND a.enqueued_by <> b.enqueued_by OR s.confined AND a.queue <> b.queue
       OR b.start_before <= clock_timestamp() THEN
        RETURN NULL;
    END IF;
    IF a.on_conflict = 'replace' THEN
        b.payload := a.payload;
        b.payload_bytes := a.payload_bytes;
        -- a task that is due keeps its place: a task that is replaced again and again would otherwise never start
        b.run_at := CASE WHEN a.run_at <= a.created_at THEN least(held, a.run_at) ELSE a.run_at END;
        b.start_before := a.start_before;
    ELSIF a.on_conflict = 'merge' THEN
        b.payload := b.payload || a.payload;
        b.payload_bytes := octet_length(b.payload::text);
        IF b.payload_bytes > s.payload_bytes_max THEN
            RETURN NULL;
        END IF;
    END IF;
    IF a.on_conflict <> 'replace' THEN  -- the later of the two; NULL is latest
        b.start_before := CASE WHEN a.start_before IS NOT NULL AND b.start_before IS NOT NULL THEN greatest(b.start_before, a.start_before) END;
    END IF;
    IF a.debounce IS NOT NULL THEN
        b.run_at := a.run_at;
    END IF;
    IF a.debounce_max IS NOT NULL THEN  -- past debounce_max it is due now, or keeps its place; it does not overtake others
        b.run_at := least(a.run_at, greatest(b.created_at + a.debounce_max, least(held, a.created_at)));
    END IF;
    RETURN b;
END $$;

-- A task as a row of tenon.again.
CREATE OR REPLACE FUNCTION tenon.as_again(t tenon.task) RETURNS tenon.again
LANGUAGE sql STABLE AS $$
    SELECT ROW(0, coalesce(($1).wanted_at, ($1).run_at), ($1).created_at, ($1).start_before, ($1).timeout_ms, ($1).max_attempts,
               ($1).payload_bytes, ($1).priority, ($1).delayed, ($1).queue, ($1).kind, ($1).payload, ($1).unique_key, ($1).retry,
               ($1).trace, ($1).enqueued_by, ($1).limit_keys, ($1).tags, 'keep', NULL, NULL, false, NULL)::tenon.again
$$;

-- Updates the waiting task that holds the key by an enqueue with that key. The task stays locked until the commit, so it starts
-- after that. False: they cannot be joined (tenon.joined); the task is running, locked or gone; or it is overdue by more than
-- `patience` and is left to the workers, which skip locked rows.
CREATE OR REPLACE FUNCTION tenon.join_holder(a tenon.again, patience interval) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    held tenon.task;
    b    tenon.again;
    blocks boolean;
BEGIN
    SELECT t.* INTO held FROM tenon.task t WHERE t.unique_key = a.unique_key AND t.kind = a.kind;
    b := tenon.joined(a, tenon.as_again(held));
    IF b.kind IS NULL THEN
        RETURN false;  -- not locked either: that would keep another role's task from starting
    END IF;
    SELECT t.* INTO held FROM tenon.task t
     WHERE t.unique_key = a.unique_key AND t.kind = a.kind AND t.start_time IS NULL
       AND (patience IS NULL OR t.run_at > clock_timestamp() - patience)
       FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    b := tenon.joined(a, tenon.as_again(held));
    IF b.kind IS NULL OR held.step_count IS NOT NULL OR (held.run_at = 'infinity' AND held.wanted_at IS NULL) THEN  -- has begun; is a suspect
        RETURN false;
    END IF;
    blocks := held.wanted_at IS NOT NULL OR held.limit_keys IS NOT NULL AND b.run_at > clock_timestamp();
    IF (b.payload, b.run_at) IS DISTINCT FROM (held.payload, coalesce(held.wanted_at, held.run_at))
       OR b.start_before IS DISTINCT FROM held.start_before THEN
        UPDATE tenon.task t
           SET payload = b.payload, payload_bytes = b.payload_bytes, start_before = b.start_before,
               run_at = CASE WHEN blocks THEN 'infinity' ELSE b.run_at END,
               wanted_at = CASE WHEN t.wanted_at = 'infinity' THEN t.wanted_at WHEN blocks THEN b.run_at END, delayed = NOT blocks
         WHERE t.id = held.id;
        IF held.limit_keys IS NOT NULL THEN
            PERFORM tenon.limited_changed(ARRAY[held.id]);
        END IF;
    END IF;
    RETURN true;
END $$;

-- An enqueue with a key that another task holds: updates that task if it can be updated now; otherwise it is left to
-- tenon.settle(). Returns the holder; NULLs = it is gone.
CREATE OR REPLACE FUNCTION tenon.enqueue_again(a tenon.again, notify boolean) RETURNS tenon.enqueued
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    held  tenon.enqueued := tenon.holder(a.kind, a.unique_key);
    waits boolean;
BEGIN
    IF held.id IS NULL THEN
        RETURN held;
    END IF;
    -- not before an earlier enqueue that still waits
    waits := EXISTS (SELECT FROM tenon.again g WHERE g.unique_key = a.unique_key AND g.kind = a.kind AND g.failed IS NULL);
    IF NOT waits AND tenon.join_holder(a, interval '200 ms') THEN
        RETURN held;
    END IF;
    INSERT INTO tenon.again OVERRIDING USER VALUE SELECT a.*;
    IF notify AND NOT waits THEN  -- else the settler is notified already, or when the holder ends, or polls within a second
        PERFORM pg_notify('tenon', 'settle');
    END IF;
    RETURN held;
END $$;

-- The task, ended or not, for which unique_for holds this key. NULL: nobody held the key, and now it is held until `until`. It
-- does not wait for other transactions if the key is held.
CREATE OR REPLACE FUNCTION tenon.hold_key(kind text, unique_key text, until timestamptz) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    held bigint;
BEGIN
    FOR i IN 1..2 LOOP
        SELECT h.id INTO held FROM tenon.unique_hold h
         WHERE h.kind = hold_key.kind AND h.unique_key = hold_key.unique_key AND h.until > clock_timestamp();
        EXIT WHEN FOUND;
        INSERT INTO tenon.unique_hold AS h (kind, unique_key, until) VALUES (kind, unique_key, until)
        ON CONFLICT ON CONSTRAINT unique_hold_pkey
        DO UPDATE SET until = excluded.until, id = NULL WHERE h.until <= clock_timestamp();
        EXIT WHEN FOUND;
    END LOOP;
    RETURN held;
END $$;

-- Settles a committed enqueue: it updates the task that holds the key, or becomes a task itself if no task holds it. If the holder
-- runs or cannot be updated, it waits for the holder's end, or joins the row that already waits for that. False: another session
-- has locked the holder or is inserting one; try later.
CREATE OR REPLACE FUNCTION tenon.settle_again(a tenon.again) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET lock_timeout = '2 ms' AS $$
DECLARE
    held  tenon.task;
    due   timestamptz := greatest(a.run_at, clock_timestamp());
    made  bigint;
BEGIN
    IF tenon.join_holder(a, NULL) THEN
        DELETE FROM tenon.again g WHERE g.id = a.id;
        RETURN true;
    END IF;
    SELECT t.* INTO held FROM tenon.task t WHERE t.unique_key = a.unique_key AND t.kind = a.kind FOR UPDATE SKIP LOCKED;
    IF held.id IS NOT NULL THEN
        UPDATE tenon.again g SET taken = true, failed = NULL WHERE g.id = a.id;
        UPDATE tenon.task t SET again = a.id WHERE t.id = held.id AND t.again IS NULL;
        RETURN true;
    END IF;
    IF EXISTS (SELECT FROM tenon.task t WHERE t.unique_key = a.unique_key AND t.kind = a.kind) THEN
        RETURN false;
    END IF;
    INSERT INTO tenon.task (run_at, created_at, start_before, timeout_ms, max_attempts, priority, delayed, announced,
                            queue, kind, payload, payload_bytes, unique_key, retry, trace, enqueued_by, limit_keys, wanted_at, tags)
    VALUES (CASE WHEN a.limit_keys IS NULL THEN due ELSE 'infinity' END, a.created_at, a.start_before, a.timeout_ms,
            a.max_attempts, a.priority, a.limit_keys IS NULL AND due > clock_timestamp(), false,
            a.queue, a.kind, a.payload, a.payload_bytes, a.unique_key, a.retry, a.trace, a.enqueued_by, a.limit_keys,
            CASE WHEN a.limit_keys IS NOT NULL THEN due END, a.tags)
    ON CONFLICT DO NOTHING
    RETURNING task.id INTO made;
    IF FOUND THEN
        DELETE FROM tenon.again g WHERE g.id = a.id;
        IF a.limit_keys IS NOT NULL THEN
            PERFORM tenon.queue_limits(ARRAY[made]);
        END IF;
    END IF;
    RETURN true;
EXCEPTION
    WHEN lock_not_available THEN
        RETURN false;
    WHEN data_exception OR integrity_constraint_violation OR program_limit_exceeded THEN
        -- no enqueue leaves such a row; if there is one, it must neither stop the rows after it nor join them
        UPDATE tenon.again g SET taken = true, failed = left(SQLERRM, 8192) WHERE g.id = a.id;
        RAISE WARNING 'tenon: row % of tenon.again, unique_key % of kind %, is set aside: %', a.id, quote_literal(a.unique_key), a.kind, SQLERRM
            USING HINT = 'Delete the row, then enqueue the task again.';
        RETURN true;
END $$;

-- Tasks that wait under a key join the row that already waits for the end of the holder, up to `most` at a time. It does
-- not lock the holder, because the worker may be about to finish it. Returns how many.
CREATE OR REPLACE FUNCTION tenon.join_waiting(unique_key text, kind text, most integer) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    first tenon.again;
    one   tenon.again;
    a     tenon.again;
    gone  bigint[] := '{}';
BEGIN
    SELECT g.* INTO first FROM tenon.again g
     WHERE g.unique_key = unique_key AND g.kind = kind AND g.taken AND g.failed IS NULL ORDER BY g.id DESC LIMIT 1 FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    FOR a IN SELECT * FROM tenon.again g WHERE g.unique_key = unique_key AND g.kind = kind AND NOT g.taken
              ORDER BY g.id LIMIT most FOR UPDATE SKIP LOCKED LOOP
        one := tenon.joined(a, first);
        EXIT WHEN one.id IS NULL;
        first := one;
        gone := gone || a.id;
    END LOOP;
    UPDATE tenon.again g
       SET payload = first.payload, payload_bytes = first.payload_bytes, run_at = first.run_at, start_before = first.start_before
     WHERE g.id = first.id AND gone <> '{}';
    DELETE FROM tenon.again g WHERE g.id = ANY (gone);
    RETURN cardinality(gone);
END $$;

-- Settles the tasks that were enqueued with a key already in use, key by key: up to 100 rows of each, or 20 ms, at a time. A
-- locked key is tried once in a turn, and the next turn continues after it. A task that holds a key and is overdue by 0.2 to 3 s
-- is left to the workers, which skip locked rows. Returns how many; the tasks left in this way, whose workers must be woken; and
-- whether there is more to do at once.
CREATE OR REPLACE FUNCTION tenon.settle_keys(most integer, settled bigint, OUT n integer, OUT freed bigint[], OUT more boolean)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    rows_max constant integer := 10000;
    joins_max constant integer := 1000;
    begun timestamptz := clock_timestamp();
    from_ bigint := tenon.place_of('tenon.again_cursor');
    k     record;
    since timestamptz;
    stop  boolean;
    a     tenon.again;
    held  bigint;
    last_ bigint;
    full_ boolean;
BEGIN
    n := 0;
    freed := '{}';
    more := false;
    WITH gone AS (
        DELETE FROM tenon.again_note WHERE id = ANY (ARRAY(SELECT o.id FROM tenon.again_note o WHERE o.id > settled ORDER BY o.id LIMIT most FOR UPDATE SKIP LOCKED))
        RETURNING unique_key, kind)
    UPDATE tenon.again w SET taken = false FROM (SELECT DISTINCT o.unique_key, o.kind FROM gone o) e
     WHERE w.unique_key = e.unique_key AND w.kind = e.kind AND w.taken;
    FOR k IN SELECT u.unique_key, u.kind, min(u.id) AS id, max(max(u.id)) OVER () AS last, sum(count(*)) OVER () >= rows_max AS full_
               FROM (SELECT g.id, g.unique_key, g.kind FROM tenon.again g WHERE NOT g.taken AND g.id > from_ ORDER BY g.id LIMIT rows_max) u
              GROUP BY u.unique_key, u.kind ORDER BY min(u.id) LOOP
        IF last_ IS NOT NULL AND (n >= most OR tenon.turn_is_over(begun)) THEN
            last_ := k.id - 1;
            full_ := true;
            more := true;
            EXIT;
        END IF;
        last_ := k.last;
        full_ := k.full_;
        held := (SELECT t.id FROM tenon.task t
                  WHERE t.unique_key = k.unique_key AND t.kind = k.kind AND t.start_time IS NULL
                    AND t.run_at BETWEEN clock_timestamp() - interval '3 s' AND clock_timestamp() - interval '200 ms');
        IF held IS NOT NULL THEN
            freed := freed || held;
            CONTINUE;
        END IF;
        PERFORM tenon.go_on_at('tenon.again_cursor', k.id);  -- in case this one is too slow
        since := clock_timestamp();
        n := n + tenon.join_waiting(k.unique_key, k.kind, joins_max);
        more := more OR n >= joins_max;
        FOR a IN SELECT * FROM tenon.again g WHERE g.unique_key = k.unique_key AND g.kind = k.kind AND NOT g.taken
                  ORDER BY g.id LIMIT 100 FOR UPDATE SKIP LOCKED LOOP
            EXIT WHEN NOT tenon.settle_again(a);
            n := n + 1;
            stop := n >= most OR clock_timestamp() > since + interval '20 ms'  -- the other keys are next
                    OR EXISTS (SELECT FROM tenon.again g WHERE g.id = a.id);   -- it waits now, and the next rows join it
            more := more OR stop;
            EXIT WHEN stop;
        END LOOP;
    END LOOP;
    PERFORM tenon.go_on_at('tenon.again_cursor', CASE WHEN full_ THEN last_ ELSE 0 END);
END $$;
