-- Limits: how many tasks of a key run at once, how many start within a time, in which order, and whose turn it is.
-- docs/limits.md is for users, docs/decisions/0030-limits.md gives the reasons.

-- The keys as they are stored in the task's row; NULL = none.
CREATE OR REPLACE FUNCTION tenon.check_limit_keys(limit_keys text[]) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    k text;
BEGIN
    IF cardinality(limit_keys) > 4 OR array_ndims(limit_keys) > 1 THEN
        PERFORM tenon.refuse('limit_keys', limit_keys::text, 'an array of 1 to 4 keys');
    END IF;
    IF cardinality(limit_keys) > 0 AND tenon.is_confined() THEN
        RAISE EXCEPTION 'tenon: role % may not use limit_keys', session_user
            USING ERRCODE = 'insufficient_privilege', HINT = 'It is confined to some queues or kinds (tenon.producer), but keys are shared by all.';
    END IF;
    FOREACH k IN ARRAY coalesce(limit_keys, '{}') LOOP
        IF tenon.is_limit_key(k) IS NOT TRUE OR k ~ '^(kind|queue)/' THEN
            PERFORM tenon.refuse('limit_keys', quote_nullable(k),
                                 '1 to 4 keys of 1 to 200 characters without spaces, not beginning with kind/ or queue/');
        END IF;
    END LOOP;
    RETURN (SELECT array_agg(d.key ORDER BY d.place)
              FROM (SELECT u.key, min(u.place) AS place FROM unnest(limit_keys) WITH ORDINALITY u (key, place) GROUP BY u.key) d);
END $$;

-- Puts blocked tasks with limit_keys and without unfinished parents into the lines of their keys. Returns whether
-- tenon.settle() should be called at once. A retried task may still have a row, because its end is not settled yet or because it
-- blocks others: only tenon.settle() changes rows that exist.
CREATE OR REPLACE FUNCTION tenon.queue_limits(ids bigint[]) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    WITH wanted AS MATERIALIZED (
        SELECT k.key, k.key = f.first AS first, t.id, t.limit_keys, t.priority, t.wanted_at
          FROM tenon.task t
         CROSS JOIN LATERAL (SELECT CASE WHEN cardinality(t.limit_keys) = 1 THEN t.limit_keys[1] ELSE tenon.limit_first(t.limit_keys) END AS first OFFSET 0) f
         CROSS JOIN unnest(t.limit_keys) k (key)
         WHERE t.id = ANY (ids) AND t.wanted_at IS NOT NULL
    ), entered AS (
        INSERT INTO tenon.limit_task (key, task_id, state, alone, priority, wanted_at)
        SELECT w.key, w.id, CASE WHEN NOT w.first THEN 'elsewhere' WHEN w.wanted_at > clock_timestamp() THEN 'later' ELSE 'waits' END,
               cardinality(w.limit_keys) = 1, w.priority, w.wanted_at
          FROM wanted w
        ON CONFLICT DO NOTHING
        RETURNING key, task_id)
    INSERT INTO tenon.limit_event (keys, task_id, enters)
    SELECT array_agg(DISTINCT w.key), NULL, NULL::boolean FROM wanted w HAVING count(*) > 0
    UNION ALL
    SELECT w.limit_keys, w.id, true FROM wanted w
     WHERE (SELECT count(*) FROM entered) < (SELECT count(*) FROM wanted) AND w.first;
    RETURN true;
END $$;

-- Notes blocked tasks that were changed: their place in a line may be different.
CREATE OR REPLACE FUNCTION tenon.limited_changed(ids bigint[]) RETURNS void
LANGUAGE sql AS $$
    INSERT INTO tenon.limit_event (keys, task_id)
    SELECT t.limit_keys, t.id FROM tenon.task t WHERE t.id = ANY ($1) AND t.limit_keys IS NOT NULL AND t.wanted_at IS NOT NULL
$$;

-- The names of the rows that may decide what a key allows, now or at any other time.
CREATE OR REPLACE FUNCTION tenon.limit_names(key text) RETURNS text[]
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN starts_with($1, 'kind/') OR starts_with($1, 'queue/') THEN ARRAY[$1] ELSE ARRAY[$1, split_part($1, ':', 1)] END
$$;

-- The rule of a key: each column from the key's own row, else from the row named by the part before the colon. Plain SQL, so that
-- PostgreSQL inlines it. `share`: the name whose keys take turns, if the limit is fair.
CREATE OR REPLACE FUNCTION tenon.limit_rule(key text)
RETURNS TABLE (rule text, max_running integer, max_starts integer, per interval, strict boolean, when_dead text,
    share text, weight integer, paused boolean, until timestamptz)
LANGUAGE sql STABLE AS $$
    SELECT coalesce(o.name, b.name), CASE WHEN coalesce(o.strict, b.strict) THEN 1 ELSE coalesce(o.max_running, b.max_running) END,
           coalesce(o.max_starts, b.max_starts), coalesce(o.per, b.per),
           coalesce(o.strict, b.strict, false), coalesce(o.when_dead, b.when_dead, 'block'),
           CASE WHEN coalesce(o.fair, b.fair) THEN split_part(k.key, ':', 1) END, coalesce(o.weight, b.weight, 1),
           EXISTS (SELECT FROM tenon.paused p WHERE p.what = 'limit' AND p.name IN (k.key, k.part)), o.until
      FROM (SELECT $1 AS key, CASE WHEN starts_with($1, 'kind/') OR starts_with($1, 'queue/') THEN $1 ELSE split_part($1, ':', 1) END AS part) k
      LEFT JOIN tenon.limit o ON o.name = k.key AND coalesce(o.until > statement_timestamp(), true)
      LEFT JOIN tenon.limit b ON b.name = k.part AND b.name <> k.key AND coalesce(b.until > statement_timestamp(), true)
$$;

-- How long starts of a key are kept: for the longest `per` of these rows, because the `per` of an exception that ends may be shorter.
CREATE OR REPLACE FUNCTION tenon.limit_kept(key text) RETURNS interval
LANGUAGE sql STABLE AS $$ SELECT max(l.per) FROM tenon.limit l WHERE l.name = ANY (tenon.limit_names($1)) $$;

-- In which line a task waits first: in that of the key with the smallest limit.
CREATE OR REPLACE FUNCTION tenon.limit_first(keys text[]) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN cardinality($1) = 1 THEN $1[1]
                ELSE (SELECT k.key FROM unnest($1) WITH ORDINALITY k (key, place) CROSS JOIN LATERAL tenon.limit_rule(k.key) r
                       ORDER BY r.max_running, k.place LIMIT 1) END
$$;

-- What counts against the rate of a key: all starts after `since`, which is `per` ago, and tasks that were released and have not
-- started (`at` is NULL), because they may start at any time. (A moment and not `per`: the index finds rows after a moment, and
-- older rows, which an old snapshot may keep, are not read.)
CREATE OR REPLACE FUNCTION tenon.limit_used(key text, since timestamptz) RETURNS TABLE (at timestamptz, n integer)
LANGUAGE sql STABLE AS $$
    SELECT s.at, s.n FROM tenon.limit_start s WHERE s.key = $1 AND s.at > $2
    UNION ALL
    SELECT t.start_time, 1 FROM tenon.limit_task l LEFT JOIN LATERAL (SELECT o.start_time FROM tenon.task o WHERE o.id = l.task_id OFFSET 0) t ON true
     WHERE l.key = $1 AND l.state IN ('held', 'ending') AND l.state = 'held'
       AND coalesce(t.start_time > $2, true)
$$;

-- How many more tasks of each key may be released, and when there may be more. `mine`: the rows of rules with a rate that this
-- transaction has locked.
CREATE OR REPLACE FUNCTION tenon.limit_rooms(keys text[], mine text[]) RETURNS SETOF tenon.limit_room
LANGUAGE sql STABLE AS $$
    SELECT k.key, CASE WHEN r.paused OR o.taken IS NOT NULL THEN 0 ELSE greatest(0, least(100000, r.max_running - h.n, r.max_starts - u.n)) END::integer,
           r.strict, r.share, r.weight,
           CASE WHEN o.taken IS NOT NULL THEN clock_timestamp() + interval '20 ms'
                WHEN r.max_starts IS NOT NULL THEN greatest(least(u.first, clock_timestamp()) + r.per, clock_timestamp() + interval '10 ms') END,
           'another transaction has locked the limit ' || o.taken
      FROM unnest(keys) k (key)
     CROSS JOIN LATERAL tenon.limit_rule(k.key) r
     CROSS JOIN LATERAL (SELECT min(l.name) AS taken FROM tenon.limit l
                          WHERE r.max_starts IS NOT NULL AND l.name = ANY (tenon.limit_names(k.key)) AND l.name <> ALL (mine)) o
     CROSS JOIN LATERAL (SELECT count(*) AS n FROM tenon.limit_task l
                          WHERE r.max_running IS NOT NULL AND l.key = k.key AND l.state IN ('held', 'ending')) h
     CROSS JOIN LATERAL (SELECT clock_timestamp() - r.per AS since OFFSET 0) w
     CROSS JOIN LATERAL (SELECT coalesce(sum(x.n), 0) AS n, min(x.at) AS first FROM tenon.limit_used(k.key, w.since) x
                          WHERE r.max_starts IS NOT NULL) u
$$;

-- Locks the rows of rules with a rate for these keys until the transaction ends, so that no tenon.take_limit() takes from them
-- meanwhile; returns their names. Rows that another session has locked are skipped. All rows of a key are locked, not only the
-- one that applies now: an exception may begin or end meanwhile.
CREATE OR REPLACE FUNCTION tenon.lock_rates(keys text[]) RETURNS text[]
LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM tenon.limit l WHERE l.max_starts IS NOT NULL) THEN
        RETURN '{}';
    END IF;
    RETURN ARRAY(SELECT m.name FROM (
        SELECT l.name FROM tenon.limit l
         WHERE l.name = ANY (ARRAY(SELECT unnest(tenon.limit_names(k.key)) FROM unnest(keys) k (key) CROSS JOIN LATERAL tenon.limit_rule(k.key) r
                                WHERE r.max_starts IS NOT NULL))
         ORDER BY l.name FOR NO KEY UPDATE SKIP LOCKED) m);
END $$;

-- The next tasks in the line of each key, up to the room that there is. For a strict key it is the task with the lowest id, and
-- none if that task waits for something else. At most 100 tasks of a key wait in other lines at a time, so that a backlog does
-- not move from line to line.
CREATE OR REPLACE FUNCTION tenon.limit_heads(rooms tenon.limit_room[]) RETURNS SETOF tenon.limit_head
LANGUAGE sql STABLE AS $$
    SELECT r.key, c.task_id, c.alone, c.priority, c.wanted_at
      FROM unnest(rooms) r
     CROSS JOIN LATERAL (
           (SELECT l.task_id, l.alone, l.priority, l.wanted_at FROM tenon.limit_task l
             WHERE NOT r.strict AND l.key = r.key AND l.state = 'waits'
             ORDER BY l.priority DESC, l.wanted_at, l.task_id
             LIMIT least(r.room, 100 + r.room - (SELECT count(*) FROM (SELECT FROM tenon.limit_task p WHERE p.key = r.key AND p.state = 'parked'
                                                                        LIMIT 100 + r.room) p)))
           UNION ALL
           (SELECT h.task_id, h.alone, h.priority, h.wanted_at
              FROM (SELECT * FROM tenon.limit_task l WHERE r.strict AND r.room > 0 AND l.key = r.key ORDER BY l.task_id LIMIT 1) h
             WHERE h.state = 'waits')) c
$$;

-- In how many milliseconds n more may be taken, if nothing else starts.
CREATE OR REPLACE FUNCTION tenon.limit_wait_ms(key text, max_starts integer, per interval, n integer, since timestamptz) RETURNS integer
LANGUAGE sql STABLE AS $$
    SELECT coalesce((SELECT least(2147483647, greatest(1, ceil(extract(epoch FROM o.at + $3 - clock_timestamp()) * 1000)))::integer
                       FROM (SELECT u.at, sum(u.n) OVER (ORDER BY u.at DESC NULLS FIRST) AS newer FROM tenon.limit_used($1, $5) u) o
                      WHERE o.at IS NOT NULL AND o.newer > $2 - $4 ORDER BY o.at DESC LIMIT 1),
                    least(1000, extract(epoch FROM $3) * 1000)::integer)
$$;

CREATE OR REPLACE FUNCTION tenon.take_limit(key text, n integer DEFAULT 1) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '1 s' AS $$
#variable_conflict use_variable
DECLARE
    r      record;
    moment timestamptz;
    kept   interval;
    used   bigint;
BEGIN
    PERFORM tenon.check_limit_keys(ARRAY[key]);
    SELECT * INTO r FROM tenon.limit_rule(key);
    IF n IS NULL OR n NOT BETWEEN 1 AND coalesce(r.max_starts, 10000) THEN
        PERFORM tenon.refuse('n', n::text, format('1 to %s, the max_starts of %s', coalesce(r.max_starts, 10000), key));
    ELSIF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'tenon: take_limit was called in a % transaction', current_setting('transaction_isolation')
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Call it in a READ COMMITTED transaction of its own.';
    ELSIF r.paused THEN
        RETURN 1000;
    ELSIF r.max_starts IS NULL THEN
        RETURN 0;
    END IF;
    PERFORM FROM tenon.limit l WHERE l.name = ANY (tenon.limit_names(key)) ORDER BY l.name FOR NO KEY UPDATE;
    SELECT * INTO r FROM tenon.limit_rule(key);  -- read again: nobody changes it now
    IF r.paused THEN
        RETURN 1000;
    END IF;
    moment := clock_timestamp();
    used := (SELECT coalesce(sum(u.n), 0) FROM tenon.limit_used(key, moment - r.per) u);
    IF r.max_starts IS NOT NULL AND used > r.max_starts - n THEN
        RETURN tenon.limit_wait_ms(key, r.max_starts, r.per, n, moment - r.per);
    END IF;
    -- Deletes starts that are not kept any more, a few more than are added. While takes follow each other, no start is older than
    -- this bound, so rows that were deleted but kept by an old snapshot are not read. The first take after a pause reads all.
    kept := tenon.limit_kept(key);
    DELETE FROM tenon.limit_start WHERE ctid = ANY (ARRAY(
        SELECT s.ctid FROM tenon.limit_start s
         WHERE s.key = key AND s.at < moment - kept
           AND s.at > CASE WHEN used = 0 THEN '-infinity' ELSE moment - kept - greatest(kept, interval '1 s') END
         ORDER BY s.at LIMIT CASE WHEN used = 0 THEN 10000 ELSE 100 END FOR UPDATE SKIP LOCKED));
    INSERT INTO tenon.limit_start (key, at, n) VALUES (key, clock_timestamp(), n);
    RETURN 0;
EXCEPTION WHEN lock_not_available OR deadlock_detected THEN  -- another session sets several rows in another order
    RETURN 100;
END $$;

COMMENT ON FUNCTION tenon.take_limit IS $$For handlers that call a limited service themselves: takes `n` from the rate of a key; the starts of its tasks are taken from the same rate. Returns 0 if they were taken. Otherwise nothing was taken, and the result is the number of milliseconds after which to ask again. A key without a rate always returns 0.

Call it outside of longer transactions: until yours ends, nobody else gets anything from that limit. In a transaction that is not READ COMMITTED it raises SQLSTATE 55000.$$;

-- After a limit was set, removed, paused or resumed: its waiting tasks are looked at again, and tasks enqueued to its kind or queue
-- get its key while it has a limit or a pause. That is read once the row of the kind or queue is locked: two sessions may
-- change the limit and its pause at once.
CREATE OR REPLACE FUNCTION tenon.limit_changed(name text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    target text := substr(name, strpos(name, '/') + 1);
    there  boolean;
BEGIN
    IF name LIKE 'kind/%' THEN
        PERFORM FROM tenon.kind k WHERE k.name = target FOR NO KEY UPDATE;
    ELSIF name LIKE 'queue/%' THEN
        PERFORM FROM tenon.queue q WHERE q.name = target FOR NO KEY UPDATE;
    END IF;
    there := EXISTS (SELECT FROM tenon.limit l WHERE l.name = limit_changed.name)
          OR EXISTS (SELECT FROM tenon.paused p WHERE p.what = 'limit' AND p.name = limit_changed.name);
    IF name LIKE 'kind/%' AND there THEN
        INSERT INTO tenon.kind AS k (name, limited) VALUES (target, true)
        ON CONFLICT ON CONSTRAINT kind_pkey DO UPDATE SET limited = true WHERE NOT k.limited;
    ELSIF name LIKE 'kind/%' THEN
        UPDATE tenon.kind k SET limited = false WHERE k.name = target AND k.limited;
    ELSIF name LIKE 'queue/%' AND there THEN
        INSERT INTO tenon.queue AS q (name, limited) VALUES (target, true)
        ON CONFLICT ON CONSTRAINT queue_pkey DO UPDATE SET limited = true WHERE NOT q.limited;
    ELSIF name LIKE 'queue/%' THEN
        UPDATE tenon.queue q SET limited = false WHERE q.name = target AND q.limited;
    END IF;
    INSERT INTO tenon.limit_event (keys, changed) VALUES (ARRAY[name], true);
    PERFORM tenon.call_settler();
END $$;

CREATE OR REPLACE FUNCTION tenon.check_limit_name(name text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF tenon.is_limit_key(name) IS NOT TRUE THEN
        PERFORM tenon.refuse('name', quote_nullable(name), 'a key, the part of keys before the colon, kind/NAME or queue/NAME: 1 to 200 characters without spaces');
    ELSIF name LIKE 'kind/%' THEN
        PERFORM tenon.check_target(NULL, substr(name, 6), false);
    ELSIF name LIKE 'queue/%' THEN
        PERFORM tenon.check_target(substr(name, 7), NULL, false);
    END IF;
END $$;

CREATE OR REPLACE FUNCTION tenon.check_limit(max_running integer, max_starts integer, per interval, weight integer, until timestamptz, when_dead text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF max_running NOT BETWEEN 1 AND 1000000 THEN
        PERFORM tenon.refuse('max_running', max_running::text, '1 to 1000000; to stop the tasks, pause the limit');
    ELSIF max_starts NOT BETWEEN 1 AND 10000 THEN
        PERFORM tenon.refuse('max_starts', max_starts::text, '1 to 10000; for higher rates shorten per');
    ELSIF (max_starts IS NULL) <> (per IS NULL) THEN
        PERFORM tenon.refuse_call('max_starts and per are given one without the other', 'Give both, or neither.');
    ELSIF NOT tenon.is_span(per, 0.1, 2678400) THEN
        PERFORM tenon.refuse('per', per::text, '100 ms to 31 days');
    ELSIF weight NOT BETWEEN 1 AND 1000 THEN
        PERFORM tenon.refuse('weight', weight::text, '1 to 1000');
    ELSIF NOT isfinite(until) OR until <= clock_timestamp() THEN
        PERFORM tenon.refuse('until', until::text, 'a time in the future');
    ELSIF when_dead NOT IN ('block', 'skip') THEN
        PERFORM tenon.refuse('when_dead', quote_literal(when_dead), 'block or skip');
    END IF;
END $$;

CREATE OR REPLACE FUNCTION tenon.set_limit(name text, max_running integer DEFAULT NULL, max_starts integer DEFAULT NULL, per interval DEFAULT NULL,
    strict boolean DEFAULT NULL, fair boolean DEFAULT NULL, weight integer DEFAULT NULL, paused boolean DEFAULT NULL,
    until timestamptz DEFAULT NULL, when_dead text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
    PERFORM tenon.check_limit_name(name);
    PERFORM tenon.check_limit(max_running, max_starts, per, weight, until, when_dead);
    per := tenon.seconds(per);
    INSERT INTO tenon.limit AS l (name, max_running, max_starts, per, strict, when_dead, fair, weight, until)
    VALUES (name, max_running, max_starts, per, strict, when_dead, fair, weight, until)
    ON CONFLICT ON CONSTRAINT limit_pkey DO UPDATE
       SET max_running = excluded.max_running, max_starts = excluded.max_starts, per = excluded.per, strict = excluded.strict,
           when_dead = excluded.when_dead, fair = excluded.fair, weight = excluded.weight, until = excluded.until;
    IF paused AND NOT EXISTS (SELECT FROM tenon.paused p WHERE p.what = 'limit' AND p.name = set_limit.name) THEN
        PERFORM tenon.pause_one('limit', name, NULL);
    ELSIF NOT paused THEN
        PERFORM tenon.resume_one('limit', name);
    END IF;
    PERFORM tenon.limit_changed(name);
    PERFORM tenon.note_audit('set_limit', jsonb_build_object('limit', name, 'max_running', max_running, 'max_starts', max_starts, 'per', per, 'strict', strict,
        'when_dead', when_dead, 'fair', fair, 'weight', weight, 'paused', paused, 'until', until), 1);
END $$;

COMMENT ON FUNCTION tenon.set_limit IS $$Sets a limit, or replaces it: omitted arguments are cleared. See [limits.md](limits.md).

- `name`: a key such as `tenant:42`; or the part of keys before the first colon, `tenant`, which applies to each of these keys separately, unless the key has its own row; or `kind/NAME` or `queue/NAME`, which applies to all tasks that are enqueued to it from then on.
- `max_running`: the maximum number of tasks of a key that are ready or running at once, 1 to 1,000,000.
- `max_starts`, `per`: the maximum number of starts of tasks of a key within any period of this length: 1 to 10,000 within 100 ms to 31 days.
- `strict`: one task of a key at a time, in the order of ids; a failed task keeps its place.
- `fair`: the keys with this part before the colon take turns.
- `weight`: how many tasks of a fair key are released at its turn, 1 to 1,000; default 1.
- `paused`: true pauses the limit, so that no more tasks are released; false resumes it; NULL changes nothing.
- `until`: the limit is removed at this time; a pause stays.
- `when_dead`: what happens behind a dead task, if `strict`: `block`, the default: the tasks behind it wait until it is retried or deleted; or `skip`: they pass it.

An argument that is not allowed raises SQLSTATE 22023.$$;

CREATE OR REPLACE FUNCTION tenon.remove_limit(name text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM tenon.limit l WHERE l.name = remove_limit.name;
    IF tenon.resume_one('limit', name) OR FOUND THEN
        PERFORM tenon.limit_changed(name);
        PERFORM tenon.note_audit('remove_limit', jsonb_build_object('limit', name), 1);
        RETURN true;
    END IF;
    RETURN false;
END $$;

COMMENT ON FUNCTION tenon.remove_limit IS $$Removes a limit, and releases the tasks that waited for it; returns whether there was one.$$;

CREATE OR REPLACE FUNCTION tenon.pause_limit(name text, why text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
    PERFORM tenon.check_limit_name(name);
    PERFORM FROM tenon.limit l WHERE l.name = pause_limit.name FOR NO KEY UPDATE;  -- nobody is about to take from its rate
    PERFORM tenon.pause_one('limit', name, why);
    PERFORM tenon.limit_changed(name);
    PERFORM tenon.note_audit('pause_limit', jsonb_build_object('limit', name, 'why', why), 1);
END $$;

COMMENT ON FUNCTION tenon.pause_limit IS $$Releases no more tasks of a key, or of all keys with this part before the colon; released tasks start, and running tasks continue.$$;

CREATE OR REPLACE FUNCTION tenon.resume_limit(name text, why text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
    PERFORM tenon.check_length('why', why, 1000);
    IF NOT tenon.resume_one('limit', name) THEN
        RETURN false;
    END IF;
    PERFORM tenon.limit_changed(name);
    PERFORM tenon.note_audit('resume_limit', jsonb_build_object('limit', name, 'why', why), 1);
    RETURN true;
END $$;

COMMENT ON FUNCTION tenon.resume_limit IS $$Ends a pause of `tenon.pause_limit`; returns whether it was paused.$$;

CREATE OR REPLACE VIEW tenon.limits AS
    SELECT k.key, r.rule, r.max_running, r.max_starts, r.per, r.strict, r.share IS NOT NULL AS fair, r.weight,
           coalesce(n.running, 0) AS running, coalesce(n.ready, 0) AS ready, coalesce(n.waiting, 0) AS waiting,
           coalesce(n.dead, 0) AS dead, r.paused, r.until
      FROM (SELECT name AS key FROM tenon.limit UNION SELECT name FROM tenon.paused WHERE what = 'limit' UNION SELECT key FROM tenon.limit_task) k
     CROSS JOIN LATERAL tenon.limit_rule(k.key) r
      LEFT JOIN (SELECT l.key, count(*) FILTER (WHERE t.start_time IS NOT NULL OR l.state = 'ending') AS running,
                        count(*) FILTER (WHERE l.state = 'held' AND t.start_time IS NULL) AS ready,
                        count(*) FILTER (WHERE l.state IN ('waits', 'later', 'elsewhere', 'parked')) AS waiting,
                        count(*) FILTER (WHERE l.state = 'dead') AS dead
                   FROM tenon.limit_task l LEFT JOIN tenon.task t ON t.id = l.task_id AND l.state = 'held'
                  GROUP BY l.key) n ON n.key = k.key;
COMMENT ON VIEW tenon.limits IS 'Every limit, and every key that unfinished tasks have: its rule, and how many tasks run and wait. It counts all waiting tasks.';
COMMENT ON COLUMN tenon.limits.key IS 'The key, or the name of the limit.';
COMMENT ON COLUMN tenon.limits.rule IS 'The row of `tenon.limit` that applies to it; NULL = none.';
COMMENT ON COLUMN tenon.limits.max_running IS 'The maximum number that is ready or running at once; NULL = any.';
COMMENT ON COLUMN tenon.limits.running IS 'How many run, including cancelled tasks whose handlers may still run.';
COMMENT ON COLUMN tenon.limits.ready IS 'How many were released, and have not started.';
COMMENT ON COLUMN tenon.limits.waiting IS 'How many wait: for this key, for another of theirs, or for their time.';
COMMENT ON COLUMN tenon.limits.dead IS 'How many dead tasks block it (`strict`).';
COMMENT ON COLUMN tenon.limits.paused IS 'It is paused, by its own name or by the part before the colon (`tenon.paused`).';
COMMENT ON COLUMN tenon.limits.until IS 'When the row of its own name is removed; NULL = never, or there is none.';

-- The command that sets a key's limit with twice the number that is in the way: max_running, or else max_starts. NULL: the key
-- has no limit, or no option can express it.
CREATE OR REPLACE FUNCTION tenon.limit_raised(key text, max_running integer) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT concat_ws(' ', 'tenon limit set', l.name,
               '--max-running ' || CASE WHEN l.is_full THEN least(l.max_running * 2, 1000000) ELSE l.max_running END,
               '--max-starts ' || CASE WHEN l.is_full THEN l.max_starts ELSE least(l.max_starts * 2, 10000) END || CASE WHEN l.ms % 1000 = 0 THEN format('/%ss', l.ms / 1000) ELSE format('/%sms', l.ms) END,
               CASE WHEN l.fair THEN '--fair' END, '--weight ' || l.weight,
               '--until ' || to_char(l.until AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'))
      FROM (SELECT r.*, h.is_full, (extract(epoch FROM r.per) * 1000)::bigint AS ms
              FROM (SELECT count(*) >= $2 AS is_full
                      FROM (SELECT FROM tenon.limit_task h WHERE h.key = $1 AND h.state IN ('held', 'ending') LIMIT coalesce($2, 0)) h) h
             CROSS JOIN tenon.limit r
             WHERE r.name = ANY (tenon.limit_names($1)) AND CASE WHEN h.is_full THEN r.max_running IS NOT NULL ELSE r.max_starts IS NOT NULL END
               AND coalesce(r.until > statement_timestamp(), true)
             ORDER BY r.name = $1 DESC LIMIT 1) l
     WHERE num_nonnulls(l.strict, l.when_dead) = 0 AND l.fair IS NOT FALSE
$$;

-- Which part of a key's limit holds tasks back.
CREATE OR REPLACE FUNCTION tenon.limit_in_way(key text, OUT paused boolean, OUT has_room boolean, OUT sentence text, OUT advice text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT r.paused, NOT r.paused AND d.why IS NULL AND NOT r.strict AND r.max_starts IS NULL AND h.n < r.max_running,
           CASE WHEN r.paused THEN format('it is paused%s%s', ' by ' || p.paused_by, ': ' || p.paused_why)
                WHEN d.why IS NOT NULL THEN d.why
                WHEN r.strict THEN concat_ws(', ', 'its tasks run one after the other', 'and the dead task ' || x.dead || ' blocks them', e.ending)
                ELSE concat_ws(', ', r.max_running || ' at once, ' || h.n || ' taken', r.max_starts || ' per ' || r.per,
                               CASE WHEN r.share IS NOT NULL THEN 'fair to all ' || r.share || ' keys' END, e.ending) END,
           CASE WHEN r.paused THEN format('tenon limit resume %s', p.name)
                WHEN x.dead IS NOT NULL THEN format('tenon retry %s, or tenon delete %s', x.dead, x.dead)
                WHEN r.strict THEN format('tenon limit show %s', $1)
                ELSE format('tenon limit show %s', $1) || coalesce('; to release more: ' || tenon.limit_raised($1, r.max_running), '') END
      FROM tenon.limit_rule($1) r
      CROSS JOIN LATERAL (SELECT CASE WHEN r.strict AND r.when_dead = 'block' THEN (
           SELECT l.task_id FROM tenon.limit_task l WHERE l.key = $1 AND l.state = 'dead' ORDER BY l.task_id LIMIT 1) END AS dead) x
      CROSS JOIN LATERAL (
           SELECT count(*) AS n FROM (SELECT FROM tenon.limit_task l WHERE l.key = $1 AND l.state IN ('held', 'ending') LIMIT coalesce(r.max_running, 0)) l) h
      CROSS JOIN LATERAL (
           SELECT CASE WHEN count(*) > 0 THEN format('%s of them cancelled, counted until %s', count(*), to_char(max(l.wanted_at) AT TIME ZONE 'UTC', 'HH24:MI:SS "UTC"')) END AS ending
             FROM tenon.limit_task l WHERE r.max_running IS NOT NULL AND l.key = $1 AND l.state IN ('held', 'ending') AND l.state = 'ending') e
      LEFT JOIN tenon.paused p ON p.what = 'limit' AND p.name = ANY (tenon.limit_names($1))
      LEFT JOIN tenon.limit_due d ON d.key = $1
     LIMIT 1
$$;

-- The key that a task waits for, and how many tasks are before it; NULLs = none. Columns as in tenon.why_blocked.
CREATE OR REPLACE FUNCTION tenon.why_limited(task_id bigint, keys text[], OUT code text, OUT sentence text, OUT advice text)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    w tenon.limit_task;
    r record;
    n bigint;
    in_way text;
    instead text;
BEGIN
    SELECT * INTO w FROM tenon.limit_task l WHERE l.task_id = why_limited.task_id AND l.key = ANY (keys) AND l.state IN ('waits', 'later');
    IF w.state = 'later' THEN
        code := 'not_due';
        sentence := format('It is due at %s, and waits for the limit %s then.', tenon.time_text(w.wanted_at), w.key);
        advice := format('to run it now: tenon set %s --run-at now', w.task_id);
    ELSIF w.state = 'waits' THEN
        SELECT * INTO r FROM tenon.limit_in_way(w.key);
        n := (SELECT count(*) FROM (  -- two ranges of limit_task_line, in its order: a bitmap would be made of all of them
            SELECT FROM ((SELECT FROM tenon.limit_task l WHERE l.key = w.key AND l.state = 'waits' AND l.priority > w.priority
                           ORDER BY l.priority DESC, l.wanted_at, l.task_id LIMIT 10000)
                   UNION ALL (SELECT FROM tenon.limit_task l WHERE l.key = w.key AND l.state = 'waits' AND l.priority = w.priority
                                 AND (l.wanted_at, l.task_id) < (w.wanted_at, w.task_id)
                               ORDER BY l.wanted_at, l.task_id LIMIT 10000)) r LIMIT 10000) b);
        IF NOT r.paused THEN
            SELECT * INTO in_way, instead FROM tenon.why_one_of(ARRAY(SELECT l.task_id FROM tenon.limit_task l
                WHERE l.key = w.key AND l.state IN ('held', 'ending') AND l.state = 'held' ORDER BY l.task_id LIMIT 20));
        END IF;
        code := CASE WHEN r.paused THEN 'limit_paused' ELSE 'limit' END;
        sentence := format('It waits for the limit %s (%s), %s.%s', w.key, r.sentence, tenon.behind_text(n, n >= 10000), in_way);
        advice := coalesce(instead, CASE WHEN r.has_room AND n = 0 THEN 'nothing: it is released within a second; otherwise run tenon doctor' END, r.advice);
    END IF;
END $$;
