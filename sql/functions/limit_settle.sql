-- What settle does for limits: it counts the tasks that have ended and releases waiting ones.

-- Notes that these keys must be looked at again at `at`, or earlier. (PL/pgSQL, because each call of an SQL function is planned again.)
CREATE OR REPLACE FUNCTION tenon.limit_again(keys text[], at timestamptz, why text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO tenon.limit_due AS d (key, due_at, why) SELECT DISTINCT k, limit_again.at, limit_again.why FROM unnest(keys) k
    ON CONFLICT ON CONSTRAINT limit_due_pkey DO UPDATE SET due_at = least(d.due_at, excluded.due_at), why = excluded.why;
END $$;

-- Releases a task with several keys if all of them have room. Otherwise the task moves to the line of a key that has none. It
-- holds no key while it waits, so two tasks cannot wait for each other. Returns the task if it was released.
CREATE OR REPLACE FUNCTION tenon.limit_admit_several(head tenon.limit_head) RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
    keys    text[] := (SELECT t.limit_keys FROM tenon.task t WHERE t.id = head.task_id);
    mine    text[] := tenon.lock_rates(keys);  -- a statement of its own: the next one sees what was committed before the lock
    stopped tenon.limit_room;
BEGIN
    SELECT r.* INTO stopped FROM tenon.limit_rooms(keys, mine) r
     WHERE r.room = 0
        OR r.strict AND head.task_id <> (SELECT l.task_id FROM tenon.limit_task l WHERE l.key = r.key ORDER BY l.task_id LIMIT 1)
        OR r.share IS NOT NULL AND r.key <> head.key AND tenon.limit_free(r.share) = 0
     ORDER BY r.key <> head.key LIMIT 1;
    IF stopped.key IS NULL THEN
        IF tenon.unblock(ARRAY[head.task_id]) <> '{}' THEN
            UPDATE tenon.limit_task l SET state = 'held' WHERE l.key = ANY (keys) AND l.task_id = head.task_id;
            RETURN ARRAY[head.task_id];
        END IF;
        PERFORM tenon.limit_again(ARRAY[head.key], clock_timestamp() + interval '50 ms', format('another transaction has locked task %s', head.task_id));
    ELSIF stopped.key <> head.key THEN
        UPDATE tenon.limit_task l
           SET state = CASE WHEN l.key = stopped.key THEN 'waits' WHEN l.key = tenon.limit_first(keys) THEN 'parked' ELSE 'elsewhere' END
         WHERE l.key IN (stopped.key, head.key) AND l.task_id = head.task_id;
        INSERT INTO tenon.limit_event (keys) VALUES (ARRAY[stopped.key]), (ARRAY[head.key]);
    END IF;
    RETURN '{}';
END $$;

-- Releases these tasks, except locked ones; returns those it released. Each row is looked up by its key and task and updated by
-- its ctid, so the plan is good even if it was made when the table was empty.
CREATE OR REPLACE FUNCTION tenon.limit_admit_heads(heads tenon.limit_head[]) RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
    free   bigint[] := tenon.unblock(ARRAY(SELECT h.task_id FROM unnest(heads) h WHERE h.alone));
    locked text[] := ARRAY(SELECT h.key FROM unnest(heads) h WHERE h.alone AND h.task_id <> ALL (free));
    h      tenon.limit_head;
BEGIN
    UPDATE tenon.limit_task SET state = 'held' WHERE ctid = ANY (ARRAY(
        SELECT l.ctid FROM unnest(heads) d
         CROSS JOIN LATERAL (SELECT t.ctid FROM tenon.limit_task t WHERE t.key = d.key AND t.task_id = d.task_id OFFSET 0) l
         WHERE d.alone AND d.task_id = ANY (free)));
    IF locked <> '{}' THEN
        PERFORM tenon.limit_again(locked, clock_timestamp() + interval '50 ms', 'another transaction has locked its first task');
    END IF;
    FOR h IN SELECT * FROM unnest(heads) d WHERE NOT d.alone LOOP
        free := free || tenon.limit_admit_several(h);
    END LOOP;
    RETURN free;
END $$;

-- How many more tasks of fair keys may be released: enough to keep all slots busy until the next turn, and no more, because
-- tasks start in the order in which they were released.
CREATE OR REPLACE FUNCTION tenon.limit_free(share text) RETURNS integer
LANGUAGE sql STABLE AS $$
    SELECT greatest(0, 8 + 2 * (SELECT coalesce(sum(w.slots), 0) FROM tenon.worker w WHERE w.ended_at IS NULL AND w.state = 'alive')
                       - (SELECT count(*) FROM tenon.limit_task l CROSS JOIN LATERAL (SELECT o.start_time FROM tenon.task o WHERE o.id = l.task_id OFFSET 0) t
                           WHERE l.state IN ('held', 'ending') AND l.key >= $1 AND l.key < $1 || ';' AND split_part(l.key, ':', 1) = $1
                             AND t.start_time IS NULL))::integer
$$;

-- Fair keys with room take part in the round robin; a key without room takes part again when one of its tasks ends. A new key
-- starts in the next round: otherwise a stream of new keys with one task each would always come first. A key that returns is
-- at most one round behind the others, because their passes may have restarted at 0 meanwhile.
CREATE OR REPLACE FUNCTION tenon.limit_take_part(share text, rooms tenon.limit_room[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    now_pass double precision := (SELECT t.pass FROM tenon.limit_turn t WHERE t.share = limit_take_part.share AND t.active ORDER BY t.pass LIMIT 1);
BEGIN
    INSERT INTO tenon.limit_turn AS t (key, share, pass, active)
    SELECT r.key, r.share, coalesce(floor(now_pass) + 1, 0), true FROM unnest(rooms) r
     WHERE r.share = limit_take_part.share AND r.room > 0
    ON CONFLICT (key) DO UPDATE SET share = excluded.share, active = true,
        pass = CASE WHEN now_pass IS NULL THEN 0 ELSE greatest(now_pass, least(t.pass, now_pass + 1)) END
     WHERE NOT t.active OR t.share <> excluded.share;
    UPDATE tenon.limit_turn t SET active = false
     WHERE t.key = ANY (ARRAY(SELECT r.key FROM unnest(rooms) r WHERE r.share = limit_take_part.share AND r.room = 0));
END $$;

-- Notes when keys with waiting tasks must be looked at again.
CREATE OR REPLACE FUNCTION tenon.limit_note_due(rooms tenon.limit_room[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO tenon.limit_due AS d (key, due_at, why)
    SELECT r.key, r.due_at, r.why FROM unnest(rooms) r
     WHERE r.due_at IS NOT NULL AND (SELECT l.task_id FROM tenon.limit_task l WHERE l.key = r.key AND l.state = 'waits' LIMIT 1) IS NOT NULL
    ON CONFLICT (key) DO UPDATE SET due_at = least(d.due_at, excluded.due_at), why = excluded.why;
END $$;

-- Removes keys from the round robin: those with no waiting task, and those whose own limit is used up. Returns how many.
CREATE OR REPLACE FUNCTION tenon.limit_leave(rooms tenon.limit_room[]) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    gone text[];
    full_ text[];
BEGIN
    gone := ARRAY(SELECT r.key FROM unnest(rooms) r
                   WHERE (SELECT l.task_id FROM tenon.limit_task l WHERE l.key = r.key AND l.state = 'waits' LIMIT 1) IS NULL);
    full_ := ARRAY(SELECT r.key FROM unnest(rooms) r WHERE r.room = 0 AND r.key <> ALL (gone));
    DELETE FROM tenon.limit_turn t WHERE t.key = ANY (gone);
    UPDATE tenon.limit_turn t SET active = false WHERE t.key = ANY (full_);
    RETURN cardinality(gone) + cardinality(full_);
END $$;

-- Releases tasks of fair keys, round robin: `weight` tasks of each key at its turn. It reads only the keys whose turn it is,
-- however many wait.
CREATE OR REPLACE FUNCTION tenon.limit_admit_share(share text, rooms tenon.limit_room[]) RETURNS bigint[]
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    free  integer := tenon.limit_free(limit_admit_share.share);
    next  text[];
    mine  text[];
    heads tenon.limit_head[];
    freed bigint[];
    left_ integer;
BEGIN
    PERFORM tenon.limit_take_part(limit_admit_share.share, rooms);
    next := ARRAY(SELECT t.key FROM tenon.limit_turn t WHERE t.share = limit_admit_share.share AND t.active ORDER BY t.pass LIMIT free);
    mine := tenon.lock_rates(next);
    rooms := ARRAY(SELECT ROW(r.key, least(r.room, free), r.strict, r.share, r.weight, r.due_at, r.why)::tenon.limit_room
                     FROM tenon.limit_rooms(next, mine) r);
    heads := ARRAY(SELECT ROW(h.key, h.task_id, h.alone, h.priority, h.wanted_at)::tenon.limit_head
                     FROM (SELECT i.*, row_number() OVER (PARTITION BY i.key ORDER BY i.priority DESC, i.wanted_at, i.task_id) AS nth
                             FROM tenon.limit_heads(rooms) i) h
                     JOIN unnest(rooms) r ON r.key = h.key
                    CROSS JOIN LATERAL (SELECT u.pass FROM tenon.limit_turn u WHERE u.key = h.key OFFSET 0) t
                    ORDER BY t.pass + h.nth::double precision / r.weight, h.key LIMIT free);
    freed := tenon.limit_admit_heads(heads);
    UPDATE tenon.limit_turn t
       SET pass = t.pass + (SELECT count(*)::double precision / min(r.weight) FROM unnest(heads) d JOIN unnest(rooms) r ON r.key = d.key WHERE d.key = t.key)
     WHERE t.key = ANY (ARRAY(SELECT d.key FROM unnest(heads) d));
    PERFORM tenon.limit_note_due(rooms);
    left_ := tenon.limit_leave(rooms);
    -- the turn passes to other keys if these did not use all slots; and it is looked at again in a second even if no task ends
    INSERT INTO tenon.limit_event (keys)
    SELECT ARRAY[t.key] FROM tenon.limit_turn t
     WHERE t.share = limit_admit_share.share AND t.active AND left_ > 0 AND cardinality(freed) < free ORDER BY t.pass LIMIT 1;
    PERFORM tenon.limit_again(ARRAY(SELECT t.key FROM tenon.limit_turn t WHERE t.share = limit_admit_share.share AND t.active LIMIT 1),
                              clock_timestamp() + interval '1 second', NULL);
    RETURN freed;
END $$;

-- Releases the tasks that these keys allow: about `most`, and those of fair keys. Returns them.
CREATE OR REPLACE FUNCTION tenon.limit_admit(keys text[], most integer) RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
    mine  text[] := tenon.lock_rates(keys);
    rooms tenon.limit_room[];
    free  tenon.limit_room[];
    heads tenon.limit_head[];
    each  integer := greatest(1, most / greatest(1, cardinality(keys)));
    s     text;
    freed bigint[];
BEGIN
    rooms := ARRAY(SELECT r FROM tenon.limit_rooms(keys, mine) r);
    free := ARRAY(SELECT ROW(r.key, least(r.room, each), r.strict, r.share, r.weight, r.due_at, r.why)::tenon.limit_room
                    FROM unnest(rooms) r WHERE r.share IS NULL AND r.room > 0);
    heads := ARRAY(SELECT h FROM tenon.limit_heads(free) h);  -- inlined, because the argument is a variable
    freed := tenon.limit_admit_heads(heads);
    IF freed <> '{}' AND EXISTS (SELECT FROM unnest(rooms) r WHERE r.room > each AND r.share IS NULL) THEN
        INSERT INTO tenon.limit_event (keys)
        SELECT array_agg(d.key) FROM (SELECT h.key FROM unnest(heads) h JOIN unnest(rooms) r ON r.key = h.key AND r.room > each
                                       GROUP BY h.key HAVING count(*) = each) d HAVING count(*) > 0;
    END IF;
    PERFORM tenon.limit_note_due(rooms);
    IF EXISTS (SELECT FROM tenon.limit_turn) OR EXISTS (SELECT FROM unnest(rooms) r WHERE r.share IS NOT NULL) THEN
        DELETE FROM tenon.limit_turn t WHERE t.key = ANY (ARRAY(SELECT r.key FROM unnest(rooms) r WHERE r.share IS NULL));
        FOR s IN SELECT DISTINCT r.share FROM unnest(rooms) r WHERE r.share IS NOT NULL ORDER BY 1 LOOP
            freed := freed || tenon.limit_admit_share(s, rooms);
        END LOOP;
    END IF;
    RETURN freed;
END $$;

-- The rows of these events' tasks in tenon.limit_task, each looked up by key and task.
CREATE OR REPLACE FUNCTION tenon.limit_rows(events tenon.limit_event[])
RETURNS TABLE (at tid, key text, keys text[], task_id bigint, state text, wanted_at timestamptz, hold_until timestamptz)
LANGUAGE sql STABLE AS $$
    SELECT l.ctid, k.key, e.keys, e.task_id, l.state, l.wanted_at, e.hold_until
      FROM unnest($1) e CROSS JOIN LATERAL unnest(e.keys) k (key)
     CROSS JOIN LATERAL (SELECT t.ctid, t.state, t.wanted_at FROM tenon.limit_task t
                          WHERE t.key = k.key AND t.task_id = e.task_id OFFSET 0) l
$$;

-- Records the starts of attempts that have ended, for limits with a rate, and deletes starts older than `per`. Rows locked by a
-- tenon.take_limit() in an open transaction stay.
CREATE OR REPLACE FUNCTION tenon.limit_count_starts(events tenon.limit_event[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO tenon.limit_start (key, at, n)
    SELECT k.key, e.start_time, 1 FROM unnest(events) e CROSS JOIN LATERAL unnest(e.keys) k (key) CROSS JOIN LATERAL tenon.limit_rule(k.key) r
     WHERE e.start_time IS NOT NULL AND r.max_starts IS NOT NULL;
    DELETE FROM tenon.limit_start WHERE ctid = ANY (ARRAY(
        SELECT o.ctid FROM (SELECT DISTINCT u.key FROM unnest(events) e CROSS JOIN LATERAL unnest(e.keys) u (key)) k
         CROSS JOIN LATERAL tenon.limit_rule(k.key) r
         CROSS JOIN LATERAL (SELECT clock_timestamp() - tenon.limit_kept(k.key) AS old OFFSET 0) w
         CROSS JOIN LATERAL (SELECT s.ctid FROM tenon.limit_start s WHERE s.key = k.key AND s.at < w.old LIMIT 1000 FOR UPDATE SKIP LOCKED) o
         WHERE r.max_starts IS NOT NULL));
END $$;

-- Tasks that are blocked again or have changed wait as their rows in tenon.task say; a task that is already due keeps its place.
-- A retried task gets a row; if its handler may still run, it waits until that is over.
CREATE OR REPLACE FUNCTION tenon.limit_back(events tenon.limit_event[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO tenon.limit_task (key, task_id, state, alone, priority, wanted_at)
    SELECT k, t.id, 'elsewhere', cardinality(e.keys) = 1, t.priority, t.wanted_at
      FROM unnest(events) e CROSS JOIN LATERAL unnest(e.keys) k CROSS JOIN LATERAL (SELECT * FROM tenon.task t WHERE t.id = e.task_id OFFSET 0) t
     WHERE e.enters AND t.wanted_at IS NOT NULL
    ON CONFLICT DO NOTHING;
    WITH old AS MATERIALIZED (
        SELECT DISTINCT o.at, o.key = tenon.limit_first(o.keys) AS first, t.priority,
               CASE WHEN o.state = 'ending' THEN greatest(o.wanted_at, t.wanted_at)
                    WHEN t.wanted_at > clock_timestamp() THEN t.wanted_at ELSE least(o.wanted_at, t.wanted_at) END AS wanted_at
          FROM tenon.limit_rows(events) o
         CROSS JOIN LATERAL (SELECT * FROM tenon.task t WHERE t.id = o.task_id AND t.wanted_at IS NOT NULL OFFSET 0) t)
    UPDATE tenon.limit_task l
       SET state = CASE WHEN NOT o.first THEN 'elsewhere' WHEN o.wanted_at > clock_timestamp() THEN 'later' ELSE 'waits' END,
           priority = o.priority, wanted_at = o.wanted_at
      FROM old o WHERE l.ctid = o.at;
END $$;

-- Deletes the rows of tasks that have ended, and lets tasks that are blocked again wait again. It goes by the state of the tables
-- now, not by the order of events. A dead task of a strict key may stay as its head.
CREATE OR REPLACE FUNCTION tenon.limit_settle_ends(events tenon.limit_event[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    gone tid[];
BEGIN
    IF EXISTS (SELECT FROM tenon.limit r WHERE r.max_starts IS NOT NULL) THEN
        PERFORM tenon.limit_count_starts(events);
    END IF;
    IF EXISTS (SELECT FROM unnest(events) e WHERE e.hold_until IS NOT NULL) THEN
        WITH old AS MATERIALIZED (SELECT * FROM tenon.limit_rows(events) o WHERE o.state = 'held' AND o.hold_until IS NOT NULL)
        UPDATE tenon.limit_task l SET state = 'ending', wanted_at = greatest(o.hold_until, clock_timestamp() + interval '45 s')  -- its commit may be late
          FROM old o WHERE l.ctid = o.at;
    END IF;
    IF EXISTS (SELECT FROM tenon.limit r WHERE r.strict) THEN
        WITH old AS MATERIALIZED (
            SELECT o.at FROM tenon.limit_rows(events) o CROSS JOIN LATERAL tenon.limit_rule(o.key) r
             WHERE r.strict AND r.when_dead = 'block' AND (SELECT d.id FROM tenon.dead d WHERE d.id = o.task_id) IS NOT NULL)
        UPDATE tenon.limit_task l SET state = 'dead' FROM old o WHERE l.ctid = o.at;
    END IF;
    gone := ARRAY(SELECT o.at FROM tenon.limit_rows(events) o
                   WHERE o.state <> 'ending' AND (SELECT t.id FROM tenon.task t WHERE t.id = o.task_id) IS NULL
                     AND (o.state <> 'dead' OR (SELECT d.id FROM tenon.dead d WHERE d.id = o.task_id) IS NULL
                          OR (SELECT r.strict AND r.when_dead = 'block' FROM tenon.limit_rule(o.key) r LIMIT 1) IS NOT TRUE));
    DELETE FROM tenon.limit_task l WHERE l.ctid = ANY (gone);
    IF cardinality(gone) < (SELECT sum(cardinality(e.keys)) FROM unnest(events) e) THEN
        PERFORM tenon.limit_back(events);
    END IF;
END $$;

-- The keys under the name of a limit that have waiting tasks, after the key `beyond`. It skips from key to key.
CREATE OR REPLACE FUNCTION tenon.limit_keys_of(name text, beyond text) RETURNS SETOF text
LANGUAGE sql STABLE AS $$
    WITH RECURSIVE k AS (
        (SELECT l.key FROM tenon.limit_task l WHERE l.state = 'waits' AND l.key >= $1 AND l.key > coalesce($2, '') ORDER BY l.key LIMIT 1)
        UNION ALL
        SELECT (SELECT l.key FROM tenon.limit_task l WHERE l.state = 'waits' AND l.key > k.key ORDER BY l.key LIMIT 1)
          FROM k WHERE k.key < $1 || ';')
    SELECT k.key FROM k WHERE k.key = $1 OR split_part(k.key, ':', 1) = $1 AND $1 !~ '^(kind|queue)/'
$$;

-- After a change of a limit: notes up to `most` of its waiting keys, and its dead tasks, which may not block any more, so that
-- they are looked at again. Settle does this, after the commit of the change: tasks that were enqueued before that commit were
-- judged by the old limit.
CREATE OR REPLACE FUNCTION tenon.limit_spread(name text, beyond text, most integer) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    keys text[] := ARRAY(SELECT k FROM tenon.limit_keys_of(name, beyond) k LIMIT most);
BEGIN
    INSERT INTO tenon.limit_event (keys) SELECT ARRAY[k] FROM unnest(keys) k;
    IF cardinality(keys) = most THEN
        INSERT INTO tenon.limit_event (keys, changed) VALUES (ARRAY[name, keys[most]], true);
    END IF;
    INSERT INTO tenon.limit_event (keys, task_id)
    SELECT ARRAY[l.key], l.task_id FROM tenon.limit_task l
     WHERE beyond IS NULL AND l.state = 'dead' AND l.key >= name AND l.key < name || ';'
       AND (l.key = name OR split_part(l.key, ':', 1) = name AND name !~ '^(kind|queue)/');
END $$;

-- Reads up to `most` events whose ids are above `settled`, and as many that a change of a limit adds; returns their keys.
CREATE OR REPLACE FUNCTION tenon.take_limit_events(most integer, settled bigint) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    events tenon.limit_event[];
    keys   text[];
BEGIN
    WITH gone AS (
        DELETE FROM tenon.limit_event WHERE id = ANY (ARRAY(SELECT v.id FROM tenon.limit_event v WHERE v.id > settled ORDER BY v.id LIMIT most)) RETURNING *)
    SELECT array_agg(ROW(g.*)::tenon.limit_event ORDER BY g.id) INTO events FROM gone g;
    IF EXISTS (SELECT FROM unnest(events) e WHERE e.task_id IS NOT NULL) THEN
        PERFORM tenon.limit_settle_ends(ARRAY(SELECT e FROM unnest(events) e WHERE e.task_id IS NOT NULL));
    END IF;
    keys := ARRAY(SELECT DISTINCT k.key FROM unnest(events) e CROSS JOIN unnest(e.keys) k (key));
    IF EXISTS (SELECT FROM unnest(events) e WHERE e.changed) THEN
        PERFORM tenon.limit_spread(e.keys[1], e.keys[2], most) FROM unnest(events) e WHERE e.changed;
        keys := keys || tenon.take_limit_events(most, settled);
    END IF;
    RETURN keys;
END $$;

-- Locks the row of the kind or queue that a limit belongs to. False: another session has locked it.
CREATE OR REPLACE FUNCTION tenon.lock_limited(name text) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    target text := substr(name, strpos(name, '/') + 1);
BEGIN
    IF name LIKE 'kind/%' AND EXISTS (SELECT FROM tenon.kind k WHERE k.name = target) THEN
        PERFORM FROM tenon.kind k WHERE k.name = target FOR NO KEY UPDATE SKIP LOCKED;
        RETURN FOUND;
    ELSIF name LIKE 'queue/%' AND EXISTS (SELECT FROM tenon.queue q WHERE q.name = target) THEN
        PERFORM FROM tenon.queue q WHERE q.name = target FOR NO KEY UPDATE SKIP LOCKED;
        RETURN FOUND;
    END IF;
    RETURN true;
END $$;

-- Deletes limits whose `until` has passed, except locked ones: those have no effect any more and are deleted later.
CREATE OR REPLACE FUNCTION tenon.remove_ended_limits() RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    ended text;
BEGIN
    FOR ended IN SELECT l.name FROM tenon.limit l WHERE l.until <= clock_timestamp() FOR UPDATE SKIP LOCKED LOOP
        IF tenon.lock_limited(ended) THEN
            DELETE FROM tenon.limit l WHERE l.name = ended;
            PERFORM tenon.limit_changed(ended);
        END IF;
    END LOOP;
END $$;

-- The keys that are due: up to `most` of each sort.
CREATE OR REPLACE FUNCTION tenon.limit_came_due(most integer) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    moment timestamptz := clock_timestamp();
    keys   text[];
BEGIN
    WITH due AS (
        SELECT l.ctid AS at, l.state FROM tenon.limit_task l
         WHERE l.state IN ('later', 'ending') AND l.wanted_at <= moment ORDER BY l.wanted_at LIMIT most
    ), came AS (
        UPDATE tenon.limit_task l SET state = 'waits' WHERE l.ctid = ANY (ARRAY(SELECT d.at FROM due d WHERE d.state = 'later')) RETURNING l.key
    ), over AS (
        DELETE FROM tenon.limit_task l WHERE l.ctid = ANY (ARRAY(SELECT d.at FROM due d WHERE d.state = 'ending')) RETURNING l.key
    ), again AS (
        DELETE FROM tenon.limit_due WHERE key = ANY (ARRAY(
            SELECT d.key FROM tenon.limit_due d WHERE d.due_at <= moment ORDER BY d.due_at LIMIT most)) RETURNING key
    )
    SELECT array_agg(c.key) INTO keys FROM (SELECT key FROM came UNION SELECT key FROM over UNION SELECT key FROM again) c;
    RETURN coalesce(keys, '{}');
END $$;

-- In how many milliseconds tenon.settle() must look at limits again because of the time; 0 = now; NULL = when a task ends or is
-- enqueued. `ended` = false: ignores limits whose `until` has passed, because they may be locked.
CREATE OR REPLACE FUNCTION tenon.limits_due_ms(ended boolean DEFAULT true) RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    due timestamptz;
BEGIN
    due := least((SELECT l.wanted_at FROM tenon.limit_task l WHERE l.state IN ('later', 'ending') AND l.wanted_at < 'infinity' ORDER BY l.wanted_at LIMIT 1),
                 (SELECT d.due_at FROM tenon.limit_due d ORDER BY d.due_at LIMIT 1),
                 (SELECT min(l.until) FROM tenon.limit l WHERE l.until > CASE WHEN ended THEN '-infinity' ELSE clock_timestamp() END));
    RETURN CASE WHEN due IS NOT NULL THEN greatest(0, ceil(extract(epoch FROM due - clock_timestamp()) * 1000)) END;
END $$;

-- Releases tasks that their limits allow; returns how much was done, and the released tasks. One session at a time, and READ
-- COMMITTED only: its counts need a snapshot taken after its lock.
CREATE OR REPLACE FUNCTION tenon.settle_limits(most integer, settled bigint, OUT n integer, OUT freed bigint[])
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_hashjoin = off
    SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    keys text[];
BEGIN
    n := 0;
    freed := '{}';
    IF (NOT EXISTS (SELECT FROM tenon.limit_event e WHERE e.id > settled) AND coalesce(tenon.limits_due_ms(), 1) > 0)
       OR current_setting('transaction_isolation') <> 'read committed' THEN
        RETURN;
    END IF;
    IF NOT tenon.hold_settler() THEN
        RETURN;
    END IF;
    PERFORM tenon.remove_ended_limits();
    keys := tenon.take_limit_events(most, settled) || tenon.limit_came_due(most);
    keys := ARRAY(SELECT DISTINCT k FROM unnest(keys) k ORDER BY k);
    freed := tenon.limit_admit(keys, most);
    n := cardinality(freed) + cardinality(keys);
END $$;
