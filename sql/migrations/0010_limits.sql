-- Limits: how many tasks of a key run at once, how many start in a time, in which order, and whose turn it is.
-- docs/limits.md is for users, docs/decisions/0030-limits.md says why it is done so.

-- --- the tables ---

-- What may be a key, and the name of a limit. Byte order, so that the keys behind a prefix are a range.
CREATE FUNCTION tenon.is_limit_key(key text) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$ SELECT key ~ '^[^[:space:][:cntrl:]]+$' AND length(key) <= 200 $$;
REVOKE ALL ON FUNCTION tenon.is_limit_key FROM PUBLIC;

CREATE TABLE tenon.limit (
    name       text COLLATE "C" PRIMARY KEY CHECK (name ~ '^[^[:space:][:cntrl:]]+$' AND length(name) <= 200),
    running    integer  CHECK (running BETWEEN 1 AND 1000000),
    rate       integer  CHECK (rate BETWEEN 1 AND 10000),
    per        interval CHECK (tenon.is_span(per, 0.1, 2678400)),
    strict     boolean,
    on_dead    text     CHECK (on_dead IN ('block', 'skip')),
    fair       boolean,
    weight     integer  CHECK (weight BETWEEN 1 AND 1000),
    until      timestamptz,
    paused     boolean  NOT NULL DEFAULT false,
    paused_by  text,
    paused_at  timestamptz,
    paused_why text,
    CHECK ((rate IS NULL) = (per IS NULL))
);
CREATE INDEX limit_until ON tenon.limit (until) WHERE until IS NOT NULL;
COMMENT ON TABLE tenon.limit IS 'The limits: set them by `tenon.set_limit`. A key takes each column from the row of its own name or, where that is NULL or missing, from the row of its part before the first colon.';
COMMENT ON COLUMN tenon.limit.name IS 'A key such as `tenant:42`; the part of keys before the colon, `tenant`; `kind/NAME`; or `queue/NAME`.';
COMMENT ON COLUMN tenon.limit.running IS 'So many tasks of a key are ready or running at once, at most.';
COMMENT ON COLUMN tenon.limit.rate IS 'So many tasks of a key start within `per`, at most, wherever that time begins.';
COMMENT ON COLUMN tenon.limit.per IS 'The time of `rate`.';
COMMENT ON COLUMN tenon.limit.strict IS 'One at a time, in the order of ids; a task that failed keeps its place.';
COMMENT ON COLUMN tenon.limit.on_dead IS 'What a dead task does to those behind it, if `strict`: `block`, until it is retried or deleted; or `skip`.';
COMMENT ON COLUMN tenon.limit.fair IS 'The keys with this part before the colon take turns.';
COMMENT ON COLUMN tenon.limit.weight IS 'So many tasks at each turn.';
COMMENT ON COLUMN tenon.limit.until IS 'The row goes at this moment, or, while it is paused, all of it but the pause; NULL = it stays.';
COMMENT ON COLUMN tenon.limit.paused IS 'While true, nothing more of the key is let go (`tenon.pause_limit`).';
COMMENT ON COLUMN tenon.limit.paused_by IS 'The role that paused it; NULL = it is not paused.';
COMMENT ON COLUMN tenon.limit.paused_at IS 'When that was.';
COMMENT ON COLUMN tenon.limit.paused_why IS 'And why, as that role said.';

-- One row for each key of each unfinished task. Of a task with several keys only one row `waits` at a time: in the line
-- of the key that stopped it last. `alone`: its task has no other key.
CREATE TABLE tenon.limit_task (
    key       text COLLATE "C",
    task_id   bigint,
    state     text        NOT NULL CHECK (state IN ('later', 'waits', 'parked', 'elsewhere', 'held', 'ending', 'dead')),
    alone     boolean     NOT NULL,
    priority  smallint    NOT NULL,
    wanted_at timestamptz NOT NULL,
    PRIMARY KEY (key, task_id)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX limit_task_line ON tenon.limit_task (key, priority DESC, wanted_at, task_id) WHERE state = 'waits';
CREATE INDEX limit_task_held ON tenon.limit_task (key, task_id) WHERE state IN ('held', 'ending');
CREATE INDEX limit_task_parked ON tenon.limit_task (key) WHERE state = 'parked';
CREATE INDEX limit_task_dead ON tenon.limit_task (key, task_id) WHERE state = 'dead';
CREATE INDEX limit_task_later ON tenon.limit_task (wanted_at) WHERE state IN ('later', 'ending');
COMMENT ON TABLE tenon.limit_task IS 'The keys of unfinished tasks, a row for each.';
COMMENT ON COLUMN tenon.limit_task.key IS 'The key.';
COMMENT ON COLUMN tenon.limit_task.task_id IS 'The task.';
COMMENT ON COLUMN tenon.limit_task.state IS '`waits`: in the line of this key; `later`: its `run_at` has not come; `elsewhere`: in the line of another of its keys; `parked`: that too, after it was first in this one; `held`: it is ready or running; `ending`: it was cancelled while it ran, and its handler may still run; `dead`: it died, and blocks those behind it.';
COMMENT ON COLUMN tenon.limit_task.alone IS 'The task has no other key.';
COMMENT ON COLUMN tenon.limit_task.priority IS 'As of the task.';
COMMENT ON COLUMN tenon.limit_task.wanted_at IS 'Its place in the line; until when it waits, of one that is `later` or `ending`.';

-- The starts of the last `per`, but for those of tasks that still hold their key: of each the row is tenon.task's.
CREATE TABLE tenon.limit_start (
    key text COLLATE "C" NOT NULL,
    at  timestamptz NOT NULL,
    n   integer     NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE tenon.limit_start REPLICA IDENTITY FULL;  -- see tenon.finished
CREATE INDEX limit_start_key ON tenon.limit_start (key, at);
CREATE INDEX limit_start_at ON tenon.limit_start (at);
COMMENT ON TABLE tenon.limit_start IS 'What counts against rates: starts of tasks that have ended since, and what `tenon.limit_take` took.';
COMMENT ON COLUMN tenon.limit_start.key IS 'The key.';
COMMENT ON COLUMN tenon.limit_start.at IS 'When.';
COMMENT ON COLUMN tenon.limit_start.n IS 'How many.';

-- Keys that are to be looked at again at some time.
CREATE TABLE tenon.limit_due (
    key    text COLLATE "C" PRIMARY KEY,
    due_at timestamptz NOT NULL,
    why    text
);
CREATE INDEX limit_due_at ON tenon.limit_due (due_at);
COMMENT ON TABLE tenon.limit_due IS 'When `tenon.settle` sees to a key again though nothing ends.';
COMMENT ON COLUMN tenon.limit_due.key IS 'The key.';
COMMENT ON COLUMN tenon.limit_due.due_at IS 'When.';
COMMENT ON COLUMN tenon.limit_due.why IS 'What was in the way; NULL = a rate.';

-- Whose turn it is among fair keys: `pass` grows by 1 / weight with each task, and the lowest comes first.
CREATE TABLE tenon.limit_turn (
    key    text COLLATE "C" PRIMARY KEY,
    share  text COLLATE "C" NOT NULL,
    pass   double precision NOT NULL,
    active boolean NOT NULL
);
CREATE INDEX limit_turn_active ON tenon.limit_turn (share, pass) WHERE active;
COMMENT ON TABLE tenon.limit_turn IS 'The fair keys that have tasks in their line, and whose turn it is.';
COMMENT ON COLUMN tenon.limit_turn.key IS 'The key.';
COMMENT ON COLUMN tenon.limit_turn.share IS 'What they share: the part before the colon.';
COMMENT ON COLUMN tenon.limit_turn.pass IS 'How much it has had; the lowest is next.';
COMMENT ON COLUMN tenon.limit_turn.active IS 'When it was seen to last, its own limits let it have more.';

CREATE TYPE tenon.limit_room AS (key text, room integer, strict boolean, share text, weight integer, due_at timestamptz, why text);
CREATE TYPE tenon.limit_head AS (key text, task_id bigint, alone boolean, priority smallint, wanted_at timestamptz);

-- --- into the line ---

-- The keys as the task's row keeps them; NULL: none.
CREATE FUNCTION tenon.check_limit_keys(limit_keys text[]) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    k text;
BEGIN
    IF cardinality(limit_keys) > 4 OR array_ndims(limit_keys) > 1 THEN
        PERFORM tenon.refuse('limit_keys', limit_keys::text, 'an array of 1 to 4 keys');
    END IF;
    IF cardinality(limit_keys) > 0 AND tenon.is_confined() THEN
        RAISE EXCEPTION 'tenon: role % may not use limit_keys', session_user
            USING ERRCODE = 'insufficient_privilege', HINT = 'It is confined to some queues or kinds (tenon.producer), and keys are shared by all.';
    END IF;
    FOREACH k IN ARRAY coalesce(limit_keys, '{}') LOOP
        IF tenon.is_limit_key(k) IS NOT TRUE OR k ~ '^(kind|queue)/' THEN
            PERFORM tenon.refuse('limit_keys', quote_nullable(k),
                                 '1 to 4 keys of 1 to 200 characters without spaces, that do not begin with kind/ or queue/');
        END IF;
    END LOOP;
    RETURN (SELECT array_agg(d.key ORDER BY d.place)
              FROM (SELECT u.key, min(u.place) AS place FROM unnest(limit_keys) WITH ORDINALITY u (key, place) GROUP BY u.key) d);
END $$;

-- Tasks that are blocked, wait for no parent and have limit_keys begin to wait for what their keys allow. Returns
-- whether tenon.settle() shall be called at once. One that had ended and is retried may have a row still, as nobody has seen
-- its end yet, or it blocks others: only tenon.settle() touches what is there.
CREATE FUNCTION tenon.queue_limits(ids bigint[]) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
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

-- Blocked tasks that changed may have another place.
CREATE FUNCTION tenon.limited_changed(ids bigint[]) RETURNS void
LANGUAGE sql AS $$
    INSERT INTO tenon.limit_event (keys, task_id)
    SELECT t.limit_keys, t.id FROM tenon.task t WHERE t.id = ANY ($1) AND t.limit_keys IS NOT NULL AND t.wanted_at IS NOT NULL
$$;

-- Those behind a dead task that blocks them go on when it is deleted; when it is retried it has its old place.
CREATE FUNCTION tenon.limited_deleted() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO tenon.limit_event (keys, task_id) VALUES (OLD.limit_keys, OLD.id);
    PERFORM pg_notify('tenon', 'settle');
    RETURN NULL;
END $$;
CREATE TRIGGER limited_deleted AFTER DELETE ON tenon.dead FOR EACH ROW WHEN (OLD.limit_keys IS NOT NULL)
    EXECUTE FUNCTION tenon.limited_deleted();

-- --- what a key allows ---

-- The rule of a key: of each column what its own row says, else what the row of its part before the colon says. Plain
-- SQL, so that it becomes a part of the statement that asks. `share`: whose turn it is, if it is fair.
CREATE FUNCTION tenon.limit_rule(key text)
RETURNS TABLE (rule text, running integer, rate integer, per interval, strict boolean, on_dead text,
    share text, weight integer, paused boolean, until timestamptz)
LANGUAGE sql STABLE AS $$
    SELECT coalesce(o.name, b.name), CASE WHEN coalesce(o.strict, b.strict) THEN 1 ELSE coalesce(o.running, b.running) END,
           coalesce(o.rate, b.rate), coalesce(o.per, b.per),
           coalesce(o.strict, b.strict, false), coalesce(o.on_dead, b.on_dead, 'block'),
           CASE WHEN coalesce(o.fair, b.fair) THEN split_part(k.key, ':', 1) END, coalesce(o.weight, b.weight, 1),
           coalesce(o.paused, false) OR coalesce(b.paused, false), o.until
      FROM (SELECT $1 AS key) k
      LEFT JOIN tenon.limit o ON o.name = k.key AND (coalesce(o.until > statement_timestamp(), true) OR o.paused)
      LEFT JOIN tenon.limit b ON b.name = split_part(k.key, ':', 1) AND b.name <> k.key AND NOT starts_with(k.key, 'kind/') AND NOT starts_with(k.key, 'queue/')
                             AND (coalesce(b.until > statement_timestamp(), true) OR b.paused)
$$;

-- The names of the rows that may have a say in what a key allows, now or at any time.
CREATE FUNCTION tenon.limit_names(key text) RETURNS text[]
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN starts_with($1, 'kind/') OR starts_with($1, 'queue/') THEN ARRAY[$1] ELSE ARRAY[$1, split_part($1, ':', 1)] END
$$;

-- How long starts of a key are kept: for the longest `per` of these rows. That of an exception which ends may be the shorter one.
CREATE FUNCTION tenon.limit_kept(key text) RETURNS interval
LANGUAGE sql STABLE AS $$ SELECT max(l.per) FROM tenon.limit l WHERE l.name = ANY (tenon.limit_names($1)) $$;

-- In which line a task waits first: that of the key that lets the fewest run at once.
CREATE FUNCTION tenon.limit_first(keys text[]) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN cardinality($1) = 1 THEN $1[1]
                ELSE (SELECT k.key FROM unnest($1) WITH ORDINALITY k (key, place) CROSS JOIN LATERAL tenon.limit_rule(k.key) r
                       ORDER BY r.running, k.place LIMIT 1) END
$$;

-- What counts against the rate of a key: all starts since then, which is `per` ago, and what was let go and has not started
-- (`at` is NULL), because that may start at any time. (A moment and not `per`: the index finds what is younger than a moment,
-- and what is older is not read, though an old snapshot keeps it all.)
CREATE FUNCTION tenon.limit_used(key text, since timestamptz) RETURNS TABLE (at timestamptz, n integer)
LANGUAGE sql STABLE AS $$
    SELECT s.at, s.n FROM tenon.limit_start s WHERE s.key = $1 AND s.at > $2
    UNION ALL
    SELECT t.start_time, 1 FROM tenon.limit_task l LEFT JOIN LATERAL (SELECT o.start_time FROM tenon.task o WHERE o.id = l.task_id OFFSET 0) t ON true
     WHERE l.key = $1 AND l.state IN ('held', 'ending') AND l.state = 'held'
       AND coalesce(t.start_time > $2, true)
$$;

-- How many more tasks of each key may be let go, and when there may be more. `mine`: the rows of rules with
-- a rate that this transaction has locked.
CREATE FUNCTION tenon.limit_rooms(keys text[], mine text[]) RETURNS SETOF tenon.limit_room
LANGUAGE sql STABLE AS $$
    SELECT k.key, CASE WHEN r.paused OR o.taken IS NOT NULL THEN 0 ELSE greatest(0, least(100000, r.running - h.n, r.rate - u.n)) END::integer,
           r.strict, r.share, r.weight,
           CASE WHEN o.taken IS NOT NULL THEN clock_timestamp() + interval '20 ms'
                WHEN r.rate IS NOT NULL THEN greatest(least(u.first, clock_timestamp()) + r.per, clock_timestamp() + interval '10 ms') END,
           'another transaction has locked the limit ' || o.taken
      FROM unnest(keys) k (key)
     CROSS JOIN LATERAL tenon.limit_rule(k.key) r
     CROSS JOIN LATERAL (SELECT min(l.name) AS taken FROM tenon.limit l
                          WHERE r.rate IS NOT NULL AND l.name = ANY (tenon.limit_names(k.key)) AND l.name <> ALL (mine)) o
     CROSS JOIN LATERAL (SELECT count(*) AS n FROM tenon.limit_task l
                          WHERE r.running IS NOT NULL AND l.key = k.key AND l.state IN ('held', 'ending')) h
     CROSS JOIN LATERAL (SELECT clock_timestamp() - r.per AS since OFFSET 0) w
     CROSS JOIN LATERAL (SELECT coalesce(sum(x.n), 0) AS n, min(x.at) AS first FROM tenon.limit_used(k.key, w.since) x
                          WHERE r.rate IS NOT NULL) u
$$;

-- The rows of the rules with a rate for these keys, locked until the transaction ends: then nobody takes from them
-- meanwhile (tenon.limit_take). Those that somebody has locked are left out. Of a key all rows are locked, not only the
-- one whose rate holds now: an exception that begins or ends meanwhile changes which one that is.
CREATE FUNCTION tenon.lock_rates(keys text[]) RETURNS text[]
LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM tenon.limit l WHERE l.rate IS NOT NULL) THEN
        RETURN '{}';
    END IF;
    RETURN ARRAY(SELECT m.name FROM (
        SELECT l.name FROM tenon.limit l
         WHERE l.name = ANY (ARRAY(SELECT unnest(tenon.limit_names(k.key)) FROM unnest(keys) k (key) CROSS JOIN LATERAL tenon.limit_rule(k.key) r
                                WHERE r.rate IS NOT NULL))
         ORDER BY l.name FOR NO KEY UPDATE SKIP LOCKED) m);
END $$;

-- --- letting go ---

-- Who is next in the line of each key, as many as there is room for. Of a strict key it is the lowest id there is, and
-- nobody if that one waits for something else. No more than 100 of them wait in other lines at a time, so that a backlog
-- does not wander from line to line.
CREATE FUNCTION tenon.limit_heads(rooms tenon.limit_room[]) RETURNS SETOF tenon.limit_head
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

-- Look at these keys again, then or before. (Not in SQL, which would be planned anew with each call.)
CREATE FUNCTION tenon.limit_again(keys text[], at timestamptz, why text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO tenon.limit_due AS d (key, due_at, why) SELECT DISTINCT k, limit_again.at, limit_again.why FROM unnest(keys) k
    ON CONFLICT ON CONSTRAINT limit_due_pkey DO UPDATE SET due_at = least(d.due_at, excluded.due_at), why = excluded.why;
END $$;

-- Lets a task with several keys go, if all of them have room; else it waits in the line of one that has none. It holds
-- nothing while it waits, so that no two can wait for each other. Returns it if it goes.
CREATE FUNCTION tenon.limit_admit_several(head tenon.limit_head) RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
    keys    text[] := (SELECT t.limit_keys FROM tenon.task t WHERE t.id = head.task_id);
    mine    text[] := tenon.lock_rates(keys);  -- by itself: the next statement sees what was committed before
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

-- Lets these go, but for those that somebody has locked; returns which. Rows are found by their key and task one by
-- one, and changed by where they lie, whatever the table held when the plan was made.
CREATE FUNCTION tenon.limit_admit_heads(heads tenon.limit_head[]) RETURNS bigint[]
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

-- How many more tasks of keys that share may be let go: as many as keep all slots busy while the next are let go, and
-- not more, because those that were let go start in that order.
CREATE FUNCTION tenon.limit_free(share text) RETURNS integer
LANGUAGE sql STABLE AS $$
    SELECT greatest(0, 8 + 2 * (SELECT coalesce(sum(w.slots), 0) FROM tenon.worker w WHERE w.ended_at IS NULL AND w.state = 'alive')
                       - (SELECT count(*) FROM tenon.limit_task l CROSS JOIN LATERAL (SELECT o.start_time FROM tenon.task o WHERE o.id = l.task_id OFFSET 0) t
                           WHERE l.state IN ('held', 'ending') AND l.key >= $1 AND l.key < $1 || ';' AND split_part(l.key, ':', 1) = $1
                             AND t.start_time IS NULL))::integer
$$;

-- Keys that share and have room take part; those without do not, until something of theirs ends. New ones take part in
-- the next round: else ever new keys, a task each, would always come before those that wait. One that comes back is at
-- most a round behind the others, who may have begun anew at 0 while nobody waited for a turn.
CREATE FUNCTION tenon.limit_take_part(share text, rooms tenon.limit_room[]) RETURNS void
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

-- When keys that still have a line are to be seen to again.
CREATE FUNCTION tenon.limit_note_due(rooms tenon.limit_room[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO tenon.limit_due AS d (key, due_at, why)
    SELECT r.key, r.due_at, r.why FROM unnest(rooms) r
     WHERE r.due_at IS NOT NULL AND (SELECT l.task_id FROM tenon.limit_task l WHERE l.key = r.key AND l.state = 'waits' LIMIT 1) IS NOT NULL
    ON CONFLICT (key) DO UPDATE SET due_at = least(d.due_at, excluded.due_at), why = excluded.why;
END $$;

-- Keys whose line is empty now, or whose own limits let them have no more, wait for no turn; returns how many these are.
CREATE FUNCTION tenon.limit_leave(rooms tenon.limit_room[]) RETURNS integer
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

-- Lets tasks of keys that share go, round robin: `weight` of each key at its turn. Only the keys whose turn it is are
-- read, however many wait.
CREATE FUNCTION tenon.limit_admit_share(share text, rooms tenon.limit_room[]) RETURNS bigint[]
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
    -- others' turn, if these did not take all; and again in a second, should no end tell
    INSERT INTO tenon.limit_event (keys)
    SELECT ARRAY[t.key] FROM tenon.limit_turn t
     WHERE t.share = limit_admit_share.share AND t.active AND left_ > 0 AND cardinality(freed) < free ORDER BY t.pass LIMIT 1;
    PERFORM tenon.limit_again(ARRAY(SELECT t.key FROM tenon.limit_turn t WHERE t.share = limit_admit_share.share AND t.active LIMIT 1),
                              clock_timestamp() + interval '1 second', NULL);
    RETURN freed;
END $$;

-- Lets go what these keys allow, about `most` tasks and what fair keys take; returns which.
CREATE FUNCTION tenon.limit_admit(keys text[], most integer) RETURNS bigint[]
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
    heads := ARRAY(SELECT h FROM tenon.limit_heads(free) h);  -- with a variable it becomes a part of the statement
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

-- --- what has happened ---

-- Where the rows of these tasks lie, found by key and task one by one.
CREATE FUNCTION tenon.limit_rows(events tenon.limit_event[])
RETURNS TABLE (at tid, key text, keys text[], task_id bigint, state text, wanted_at timestamptz, hold_until timestamptz)
LANGUAGE sql STABLE AS $$
    SELECT l.ctid, k.key, e.keys, e.task_id, l.state, l.wanted_at, e.hold_until
      FROM unnest($1) e CROSS JOIN LATERAL unnest(e.keys) k (key)
     CROSS JOIN LATERAL (SELECT t.ctid, t.state, t.wanted_at FROM tenon.limit_task t
                          WHERE t.key = k.key AND t.task_id = e.task_id OFFSET 0) l
$$;

-- A run that has ended counts as a start from here on. What is older than its rate's time counts no more, and goes, but
-- for what a tenon.limit_take() in an open transaction has locked.
CREATE FUNCTION tenon.limit_count_starts(events tenon.limit_event[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO tenon.limit_start (key, at, n)
    SELECT k.key, e.start_time, 1 FROM unnest(events) e CROSS JOIN LATERAL unnest(e.keys) k (key) CROSS JOIN LATERAL tenon.limit_rule(k.key) r
     WHERE e.start_time IS NOT NULL AND r.rate IS NOT NULL;
    DELETE FROM tenon.limit_start WHERE ctid = ANY (ARRAY(
        SELECT o.ctid FROM (SELECT DISTINCT u.key FROM unnest(events) e CROSS JOIN LATERAL unnest(e.keys) u (key)) k
         CROSS JOIN LATERAL tenon.limit_rule(k.key) r
         CROSS JOIN LATERAL (SELECT clock_timestamp() - tenon.limit_kept(k.key) AS old OFFSET 0) w
         CROSS JOIN LATERAL (SELECT s.ctid FROM tenon.limit_start s WHERE s.key = k.key AND s.at < w.old LIMIT 1000 FOR UPDATE SKIP LOCKED) o
         WHERE r.rate IS NOT NULL));
END $$;

-- What is blocked again, or has changed, waits as its task's row says; what is not to wait for its time keeps its place.
-- A retried one enters; if its handler may still run, after that.
CREATE FUNCTION tenon.limit_back(events tenon.limit_event[]) RETURNS void
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

-- The rows of tasks that have ended go, and those that are blocked again wait again: as the tables say now, whatever
-- happened when. A dead task at a strict key may stay as its head.
CREATE FUNCTION tenon.limit_settle_ends(events tenon.limit_event[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    gone tid[];
BEGIN
    IF EXISTS (SELECT FROM tenon.limit r WHERE r.rate IS NOT NULL) THEN
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
             WHERE r.strict AND r.on_dead = 'block' AND (SELECT d.id FROM tenon.dead d WHERE d.id = o.task_id) IS NOT NULL)
        UPDATE tenon.limit_task l SET state = 'dead' FROM old o WHERE l.ctid = o.at;
    END IF;
    gone := ARRAY(SELECT o.at FROM tenon.limit_rows(events) o
                   WHERE o.state <> 'ending' AND (SELECT t.id FROM tenon.task t WHERE t.id = o.task_id) IS NULL
                     AND (o.state <> 'dead' OR (SELECT d.id FROM tenon.dead d WHERE d.id = o.task_id) IS NULL
                          OR (SELECT r.strict AND r.on_dead = 'block' FROM tenon.limit_rule(o.key) r LIMIT 1) IS NOT TRUE));
    DELETE FROM tenon.limit_task l WHERE l.ctid = ANY (gone);
    IF cardinality(gone) < (SELECT sum(cardinality(e.keys)) FROM unnest(events) e) THEN
        PERFORM tenon.limit_back(events);
    END IF;
END $$;

-- The waiting keys under the name of a limit, by skipping from one to the next; those beyond that key.
CREATE FUNCTION tenon.limit_keys_of(name text, beyond text) RETURNS SETOF text
LANGUAGE sql STABLE AS $$
    WITH RECURSIVE k AS (
        (SELECT l.key FROM tenon.limit_task l WHERE l.state = 'waits' AND l.key >= $1 AND l.key > coalesce($2, '') ORDER BY l.key LIMIT 1)
        UNION ALL
        SELECT (SELECT l.key FROM tenon.limit_task l WHERE l.state = 'waits' AND l.key > k.key ORDER BY l.key LIMIT 1)
          FROM k WHERE k.key < $1 || ';')
    SELECT k.key FROM k WHERE k.key = $1 OR split_part(k.key, ':', 1) = $1 AND $1 !~ '^(kind|queue)/'
$$;

-- A limit was changed: the keys that wait under it, up to `most`, and the dead ones that may not block any more, are to be
-- seen to. That is found out now, when everybody sees the change, and not by whoever made it: his commit may be late, and
-- what came meanwhile was seen to by the limit as it was.
CREATE FUNCTION tenon.limit_spread(name text, beyond text, most integer) RETURNS void
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

-- The keys of what was left to see to, up to `most` notes, and as many of what a change of a limit brings.
CREATE FUNCTION tenon.limit_ended(most integer) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    events tenon.limit_event[];
    keys   text[];
BEGIN
    WITH gone AS (
        DELETE FROM tenon.limit_event WHERE id = ANY (ARRAY(SELECT v.id FROM tenon.limit_event v ORDER BY v.id LIMIT most)) RETURNING *)
    SELECT array_agg(ROW(g.*)::tenon.limit_event ORDER BY g.id) INTO events FROM gone g;
    IF EXISTS (SELECT FROM unnest(events) e WHERE e.task_id IS NOT NULL) THEN
        PERFORM tenon.limit_settle_ends(ARRAY(SELECT e FROM unnest(events) e WHERE e.task_id IS NOT NULL));
    END IF;
    keys := ARRAY(SELECT DISTINCT k.key FROM unnest(events) e CROSS JOIN unnest(e.keys) k (key));
    IF EXISTS (SELECT FROM unnest(events) e WHERE e.changed) THEN
        PERFORM tenon.limit_spread(e.keys[1], e.keys[2], most) FROM unnest(events) e WHERE e.changed;
        keys := keys || tenon.limit_ended(most);
    END IF;
    RETURN keys;
END $$;

-- Locks the row of the kind or queue that a limit is of. False: somebody else has locked it.
CREATE FUNCTION tenon.lock_limited(name text) RETURNS boolean
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

-- Limits whose end has come go, but for those that somebody has locked, who may take his time: they hold no more anyway.
-- Of one that is paused the pause stays.
CREATE FUNCTION tenon.limit_end() RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    ended text;
BEGIN
    FOR ended IN SELECT l.name FROM tenon.limit l WHERE l.until <= clock_timestamp() FOR UPDATE SKIP LOCKED LOOP
        IF tenon.lock_limited(ended) THEN
            DELETE FROM tenon.limit l WHERE l.name = ended AND NOT l.paused;
            PERFORM tenon.limit_changed(ended, NOT FOUND);
            UPDATE tenon.limit l SET running = NULL, rate = NULL, per = NULL, strict = NULL, on_dead = NULL, fair = NULL, weight = NULL, until = NULL
             WHERE l.name = ended;
        END IF;
    END LOOP;
END $$;

-- The keys for which the time has come, up to `most` of each sort.
CREATE FUNCTION tenon.limit_came_due(most integer) RETURNS text[]
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

-- In how many milliseconds tenon.settle() is to see to limits again, 0 = now; NULL: when something ends or is enqueued.
-- `ended` = false: as if limits whose end has come were gone: it may be that somebody has locked them.
CREATE FUNCTION tenon.limits_due_ms(ended boolean DEFAULT true) RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    due timestamptz;
BEGIN
    IF EXISTS (SELECT FROM tenon.limit_event) THEN
        RETURN 0;
    END IF;
    due := least((SELECT l.wanted_at FROM tenon.limit_task l WHERE l.state IN ('later', 'ending') AND l.wanted_at < 'infinity' ORDER BY l.wanted_at LIMIT 1),
                 (SELECT d.due_at FROM tenon.limit_due d ORDER BY d.due_at LIMIT 1),
                 (SELECT min(l.until) FROM tenon.limit l WHERE l.until > CASE WHEN ended THEN '-infinity' ELSE clock_timestamp() END));
    RETURN CASE WHEN due IS NOT NULL THEN greatest(0, ceil(extract(epoch FROM due - clock_timestamp()) * 1000)) END;
END $$;

-- Lets tasks go that their limits allow; returns how much was done, and which tasks go. One at a time; what he counts needs
-- a snapshot that is newer than his lock.
CREATE FUNCTION tenon.settle_limits(most integer, OUT n integer, OUT freed bigint[])
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_hashjoin = off
    SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    keys text[];
BEGIN
    n := 0;
    freed := '{}';
    IF coalesce(tenon.limits_due_ms(), 1) > 0 OR current_setting('transaction_isolation') <> 'read committed' THEN
        RETURN;
    END IF;
    IF NOT tenon.hold_settler() THEN
        RETURN;
    END IF;
    PERFORM tenon.limit_end();
    keys := tenon.limit_ended(most) || tenon.limit_came_due(most);
    keys := ARRAY(SELECT DISTINCT k FROM unnest(keys) k ORDER BY k);
    freed := tenon.limit_admit(keys, most);
    n := cardinality(freed) + cardinality(keys);
END $$;

-- --- for handlers ---

-- When n more may be taken, should nothing else start: so many milliseconds from now.
CREATE FUNCTION tenon.limit_wait_ms(key text, rate integer, per interval, n integer, since timestamptz) RETURNS integer
LANGUAGE sql STABLE AS $$
    SELECT coalesce((SELECT least(2147483647, greatest(1, ceil(extract(epoch FROM o.at + $3 - clock_timestamp()) * 1000)))::integer
                       FROM (SELECT u.at, sum(u.n) OVER (ORDER BY u.at DESC NULLS FIRST) AS newer FROM tenon.limit_used($1, $5) u) o
                      WHERE o.at IS NOT NULL AND o.newer > $2 - $4 ORDER BY o.at DESC LIMIT 1),
                    least(1000, extract(epoch FROM $3) * 1000)::integer)
$$;

CREATE FUNCTION tenon.limit_take(key text, n integer DEFAULT 1) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off SET lock_timeout = '1 s' AS $$
#variable_conflict use_variable
DECLARE
    r      record;
    moment timestamptz;
    kept   interval;
    used   bigint;
BEGIN
    PERFORM tenon.check_limit_keys(ARRAY[key]);
    SELECT * INTO r FROM tenon.limit_rule(key);
    IF n IS NULL OR n NOT BETWEEN 1 AND coalesce(r.rate, 10000) THEN
        PERFORM tenon.refuse('n', n::text, format('1 to %s, the rate of %s', coalesce(r.rate, 10000), key));
    ELSIF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'tenon: limit_take in a transaction that is %', current_setting('transaction_isolation')
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Call it by itself, in a transaction of its own that is READ COMMITTED.';
    ELSIF r.paused THEN
        RETURN 1000;
    ELSIF r.rate IS NULL THEN
        RETURN 0;
    END IF;
    PERFORM FROM tenon.limit l WHERE l.name = ANY (tenon.limit_names(key)) ORDER BY l.name FOR NO KEY UPDATE;
    SELECT * INTO r FROM tenon.limit_rule(key);  -- as it is now that nobody changes it
    moment := clock_timestamp();
    used := (SELECT coalesce(sum(u.n), 0) FROM tenon.limit_used(key, moment - r.per) u);
    IF r.rate IS NOT NULL AND used > r.rate - n THEN
        RETURN tenon.limit_wait_ms(key, r.rate, r.per, n, moment - r.per);
    END IF;
    -- What is not kept any more goes, and a few more go than come. As long as takes follow each other it is never older than
    -- this: so what has gone, and an old snapshot keeps, is not read. The first after a pause reads all.
    kept := tenon.limit_kept(key);
    DELETE FROM tenon.limit_start WHERE ctid = ANY (ARRAY(
        SELECT s.ctid FROM tenon.limit_start s
         WHERE s.key = key AND s.at < moment - kept
           AND s.at > CASE WHEN used = 0 THEN '-infinity' ELSE moment - kept - greatest(kept, interval '1 s') END
         ORDER BY s.at LIMIT CASE WHEN used = 0 THEN 10000 ELSE 100 END FOR UPDATE SKIP LOCKED));
    INSERT INTO tenon.limit_start (key, at, n) VALUES (key, clock_timestamp(), n);
    RETURN 0;
EXCEPTION WHEN lock_not_available OR deadlock_detected THEN  -- of who sets several rows in another order
    RETURN 100;
END $$;

-- --- for operators ---

-- The row of a kind or queue says that it has a limit: without it the limit would hold nothing back any more.
CREATE FUNCTION tenon.limited_stays() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'tenon: % has a limit, and so its row in % stays', quote_literal(OLD.name), TG_RELID::regclass
        USING ERRCODE = 'object_not_in_prerequisite_state',
              HINT = format('Set its other columns to NULL, or first SELECT tenon.drop_limit(%L).', TG_TABLE_NAME || '/' || OLD.name);
END $$;
CREATE TRIGGER limited_stays BEFORE DELETE ON tenon.kind FOR EACH ROW WHEN (OLD.limited) EXECUTE FUNCTION tenon.limited_stays();
CREATE TRIGGER limited_named BEFORE UPDATE OF name ON tenon.kind FOR EACH ROW WHEN (OLD.limited AND OLD.name <> NEW.name)
    EXECUTE FUNCTION tenon.limited_stays();
CREATE TRIGGER limited_stays BEFORE DELETE ON tenon.queue FOR EACH ROW WHEN (OLD.limited) EXECUTE FUNCTION tenon.limited_stays();
CREATE TRIGGER limited_named BEFORE UPDATE OF name ON tenon.queue FOR EACH ROW WHEN (OLD.limited AND OLD.name <> NEW.name)
    EXECUTE FUNCTION tenon.limited_stays();

-- All that waits under a limit that was set or dropped is seen to again, and what is enqueued to its kind or queue
-- from now on gets its key, or not.
CREATE FUNCTION tenon.limit_changed(name text, there boolean) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    target text := substr(name, strpos(name, '/') + 1);
BEGIN
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
    PERFORM pg_notify('tenon', 'settle');
END $$;

CREATE FUNCTION tenon.check_limit_name(name text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF tenon.is_limit_key(name) IS NOT TRUE THEN
        PERFORM tenon.refuse('name', quote_nullable(name), 'a key, its part before the colon, kind/NAME or queue/NAME: 1 to 200 characters without spaces');
    ELSIF name LIKE 'kind/%' THEN
        PERFORM tenon.check_target(NULL, substr(name, 6), false);
    ELSIF name LIKE 'queue/%' THEN
        PERFORM tenon.check_target(substr(name, 7), NULL, false);
    END IF;
END $$;

CREATE FUNCTION tenon.check_limit(running integer, rate integer, per interval, weight integer, until timestamptz, on_dead text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF running NOT BETWEEN 1 AND 1000000 THEN
        PERFORM tenon.refuse('running', running::text, '1 to 1000000; to stop all of it pause it');
    ELSIF rate NOT BETWEEN 1 AND 10000 THEN
        PERFORM tenon.refuse('rate', rate::text, '1 to 10000; of more, give what may start in a shorter time');
    ELSIF (rate IS NULL) <> (per IS NULL) OR NOT tenon.is_span(per, 0.1, 2678400) THEN
        PERFORM tenon.refuse('per', per::text, 'the time of rate, given together with it: 100 ms to 31 days');
    ELSIF weight NOT BETWEEN 1 AND 1000 THEN
        PERFORM tenon.refuse('weight', weight::text, '1 to 1000');
    ELSIF NOT isfinite(until) OR until <= clock_timestamp() THEN
        PERFORM tenon.refuse('until', until::text, 'a moment that is still to come');
    ELSIF on_dead NOT IN ('block', 'skip') THEN
        PERFORM tenon.refuse('on_dead', quote_literal(on_dead), 'block or skip');
    END IF;
END $$;

CREATE FUNCTION tenon.set_limit(name text, running integer DEFAULT NULL, rate integer DEFAULT NULL, per interval DEFAULT NULL,
    strict boolean DEFAULT NULL, fair boolean DEFAULT NULL, weight integer DEFAULT NULL, paused boolean DEFAULT NULL,
    until timestamptz DEFAULT NULL, on_dead text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
    PERFORM tenon.check_limit_name(name);
    PERFORM tenon.check_limit(running, rate, per, weight, until, on_dead);
    per := tenon.seconds(per);
    INSERT INTO tenon.limit AS l (name, running, rate, per, strict, on_dead, fair, weight, until)
    VALUES (name, running, rate, per, strict, on_dead, fair, weight, until)
    ON CONFLICT ON CONSTRAINT limit_pkey DO UPDATE
       SET running = excluded.running, rate = excluded.rate, per = excluded.per, strict = excluded.strict,
           on_dead = excluded.on_dead, fair = excluded.fair, weight = excluded.weight, until = excluded.until;
    UPDATE tenon.limit l
       SET paused = set_limit.paused, paused_by = CASE WHEN set_limit.paused THEN session_user END,
           paused_at = CASE WHEN set_limit.paused THEN clock_timestamp() END, paused_why = NULL
     WHERE l.name = set_limit.name AND l.paused <> set_limit.paused;
    PERFORM tenon.limit_changed(name, true);
    PERFORM tenon.note_audit('set_limit', jsonb_build_object('limit', name, 'running', running, 'rate', rate, 'per', per, 'strict', strict,
        'on_dead', on_dead, 'fair', fair, 'weight', weight, 'paused', paused, 'until', until), 1);
END $$;

CREATE FUNCTION tenon.drop_limit(name text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM tenon.limit l WHERE l.name = drop_limit.name;
    IF FOUND THEN
        PERFORM tenon.limit_changed(name, false);
        PERFORM tenon.note_audit('drop_limit', jsonb_build_object('limit', name), 1);
        RETURN true;
    END IF;
    RETURN false;
END $$;

CREATE FUNCTION tenon.pause_limit(name text, why text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
    PERFORM tenon.check_limit_name(name);
    PERFORM tenon.check_length('why', why, 1000);
    INSERT INTO tenon.limit AS l (name, paused, paused_by, paused_at, paused_why)
    VALUES (name, true, session_user, clock_timestamp(), why)
    ON CONFLICT ON CONSTRAINT limit_pkey DO UPDATE
       SET paused = true, paused_by = excluded.paused_by, paused_at = excluded.paused_at, paused_why = excluded.paused_why;
    PERFORM tenon.limit_changed(name, true);
    PERFORM tenon.note_audit('pause_limit', jsonb_build_object('limit', name, 'why', why), 1);
END $$;

-- A row that says nothing else goes.
CREATE FUNCTION tenon.resume_limit(name text, why text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
    PERFORM tenon.check_length('why', why, 1000);
    UPDATE tenon.limit r SET paused = false, paused_by = NULL, paused_at = NULL, paused_why = NULL
     WHERE r.name = resume_limit.name AND r.paused;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    DELETE FROM tenon.limit r WHERE r.name = resume_limit.name AND num_nonnulls(r.running, r.rate, r.strict, r.fair, r.weight, r.until, r.on_dead) = 0;
    PERFORM tenon.limit_changed(name, EXISTS (SELECT FROM tenon.limit r WHERE r.name = resume_limit.name));
    PERFORM tenon.note_audit('resume_limit', jsonb_build_object('limit', name, 'why', why), 1);
    RETURN true;
END $$;

-- --- what is to be seen ---

CREATE VIEW tenon.limits AS
    SELECT k.key, r.rule, r.running AS running_max, r.rate, r.per, r.strict, r.share IS NOT NULL AS fair, r.weight,
           coalesce(n.running, 0) AS running, coalesce(n.ready, 0) AS ready, coalesce(n.waiting, 0) AS waiting,
           coalesce(n.dead, 0) AS dead, r.paused, r.until
      FROM (SELECT name AS key FROM tenon.limit UNION SELECT key FROM tenon.limit_task) k
     CROSS JOIN LATERAL tenon.limit_rule(k.key) r
      LEFT JOIN (SELECT l.key, count(*) FILTER (WHERE t.start_time IS NOT NULL OR l.state = 'ending') AS running,
                        count(*) FILTER (WHERE l.state = 'held' AND t.start_time IS NULL) AS ready,
                        count(*) FILTER (WHERE l.state IN ('waits', 'later', 'elsewhere', 'parked')) AS waiting,
                        count(*) FILTER (WHERE l.state = 'dead') AS dead
                   FROM tenon.limit_task l LEFT JOIN tenon.task t ON t.id = l.task_id AND l.state = 'held'
                  GROUP BY l.key) n ON n.key = k.key;
COMMENT ON VIEW tenon.limits IS 'Every limit, and every key that unfinished tasks have: what holds for it, and how it stands. It counts all that waits.';
COMMENT ON COLUMN tenon.limits.key IS 'The key, or the name of the limit.';
COMMENT ON COLUMN tenon.limits.rule IS 'The row of `tenon.limit` that holds for it; NULL = none does.';
COMMENT ON COLUMN tenon.limits.running_max IS 'So many are ready or running at once, at most; NULL = any.';
COMMENT ON COLUMN tenon.limits.running IS 'How many run, with those that were cancelled and whose handlers may still run.';
COMMENT ON COLUMN tenon.limits.ready IS 'How many were let go, and have not started.';
COMMENT ON COLUMN tenon.limits.waiting IS 'How many wait: for this key, for another of theirs, or for their time.';
COMMENT ON COLUMN tenon.limits.dead IS 'How many dead ones block it (`strict`).';
COMMENT ON COLUMN tenon.limits.until IS 'When the row of its own name goes; NULL = it stays, or there is none.';
DO $$
DECLARE
    c record;
BEGIN
    FOR c IN SELECT o.attname, col_description(t.attrelid, t.attnum) AS text
               FROM pg_attribute o JOIN pg_attribute t USING (attname)
              WHERE o.attrelid = 'tenon.limits'::regclass AND t.attrelid = 'tenon.limit'::regclass AND t.attnum > 0
                AND col_description(o.attrelid, o.attnum) IS NULL LOOP
        EXECUTE format('COMMENT ON COLUMN tenon.limits.%I IS %L', c.attname, c.text);
    END LOOP;
END $$;

-- The command that sets a key's limit anew, with twice the number that is in the way: at once, or else of starts. NULL:
-- it has none, or says what no option says.
CREATE FUNCTION tenon.limit_raised(key text, running integer) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
    SELECT concat_ws(' ', 'tenon limit set', l.name,
               '--running ' || CASE WHEN l.is_full THEN least(l.running * 2, 1000000) ELSE l.running END,
               '--starts ' || CASE WHEN l.is_full THEN l.rate ELSE least(l.rate * 2, 10000) END || CASE WHEN l.ms % 1000 = 0 THEN format('/%ss', l.ms / 1000) ELSE format('/%sms', l.ms) END,
               CASE WHEN l.fair THEN '--fair' END, '--weight ' || l.weight,
               '--until ' || to_char(l.until AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'))
      FROM (SELECT r.*, h.is_full, (extract(epoch FROM r.per) * 1000)::bigint AS ms
              FROM (SELECT count(*) >= $2 AS is_full
                      FROM (SELECT FROM tenon.limit_task h WHERE h.key = $1 AND h.state IN ('held', 'ending') LIMIT coalesce($2, 0)) h) h
             CROSS JOIN tenon.limit r
             WHERE r.name = ANY (tenon.limit_names($1)) AND CASE WHEN h.is_full THEN r.running IS NOT NULL ELSE r.rate IS NOT NULL END
               AND coalesce(r.until > statement_timestamp(), true)
             ORDER BY r.name = $1 DESC LIMIT 1) l
     WHERE num_nonnulls(l.strict, l.on_dead) = 0 AND l.fair IS NOT FALSE
$$;

-- What of a key's limit is in the way.
CREATE FUNCTION tenon.limit_in_way(key text, OUT paused boolean, OUT has_room boolean, OUT sentence text, OUT advice text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
    SELECT r.paused, NOT r.paused AND d.why IS NULL AND NOT r.strict AND r.rate IS NULL AND h.n < r.running,
           CASE WHEN r.paused THEN format('it is paused%s%s', ' by ' || p.paused_by, ': ' || p.paused_why)
                WHEN d.why IS NOT NULL THEN d.why
                WHEN r.strict THEN concat_ws(', ', 'its tasks run one after the other', 'and the dead task ' || x.dead || ' blocks them', e.ending)
                ELSE concat_ws(', ', r.running || ' at once, ' || h.n || ' taken', r.rate || ' per ' || r.per,
                               CASE WHEN r.share IS NOT NULL THEN 'fair to all ' || r.share || ' keys' END, e.ending) END,
           CASE WHEN r.paused THEN format('tenon limit resume %s', p.name)
                WHEN x.dead IS NOT NULL THEN format('tenon retry %s, or tenon delete %s', x.dead, x.dead)
                WHEN r.strict THEN format('tenon limit show %s', $1)
                ELSE format('tenon limit show %s', $1) || coalesce('; to let more go: ' || tenon.limit_raised($1, r.running), '') END
      FROM tenon.limit_rule($1) r
      CROSS JOIN LATERAL (SELECT CASE WHEN r.strict AND r.on_dead = 'block' THEN (
           SELECT l.task_id FROM tenon.limit_task l WHERE l.key = $1 AND l.state = 'dead' ORDER BY l.task_id LIMIT 1) END AS dead) x
      CROSS JOIN LATERAL (
           SELECT count(*) AS n FROM (SELECT FROM tenon.limit_task l WHERE l.key = $1 AND l.state IN ('held', 'ending') LIMIT coalesce(r.running, 0)) l) h
      CROSS JOIN LATERAL (
           SELECT CASE WHEN count(*) > 0 THEN format('%s of them cancelled, counted until %s', count(*), to_char(max(l.wanted_at) AT TIME ZONE 'UTC', 'HH24:MI:SS "UTC"')) END AS ending
             FROM tenon.limit_task l WHERE r.running IS NOT NULL AND l.key = $1 AND l.state IN ('held', 'ending') AND l.state = 'ending') e
      LEFT JOIN tenon.limit p ON p.paused AND p.name IN ($1, split_part($1, ':', 1))
      LEFT JOIN tenon.limit_due d ON d.key = $1
     LIMIT 1
$$;

-- Which key a task waits for, and behind how many; NULLs: none. As in tenon.why_blocked.
CREATE FUNCTION tenon.why_limited(task_id bigint, keys text[], OUT code text, OUT sentence text, OUT advice text)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
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
        advice := format('tenon set %s --run-at now, if it shall not wait', w.task_id);
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
        advice := coalesce(instead, CASE WHEN r.has_room AND n = 0 THEN 'nothing: it is let go within a second; else tenon doctor' END, r.advice);
    END IF;
END $$;

-- --- rights ---

CREATE FUNCTION tenon.grant_limits(role text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    EXECUTE format('GRANT EXECUTE ON FUNCTION tenon.set_limit, tenon.drop_limit, tenon.pause_limit, tenon.resume_limit, tenon.limit_take TO %I', role);
END $$;

REVOKE ALL ON FUNCTION tenon.check_limit_keys, tenon.limit_first, tenon.queue_limits, tenon.limited_changed, tenon.limited_deleted,
    tenon.limit_rule, tenon.limit_names, tenon.limit_kept, tenon.limit_used, tenon.limit_rooms, tenon.lock_rates, tenon.limit_heads, tenon.limit_again, tenon.limit_admit_several,
    tenon.limit_admit_heads, tenon.limit_free, tenon.limit_take_part, tenon.limit_admit_share, tenon.limit_note_due, tenon.limit_leave,
    tenon.limit_admit, tenon.limit_rows, tenon.limit_count_starts, tenon.limit_back, tenon.limit_settle_ends, tenon.limit_ended, tenon.lock_limited, tenon.limit_end,
    tenon.limit_came_due, tenon.limited_stays, tenon.limit_spread,
    tenon.limits_due_ms, tenon.settle_limits, tenon.limit_wait_ms, tenon.limit_take, tenon.limit_keys_of, tenon.limit_changed,
    tenon.check_limit_name, tenon.check_limit, tenon.set_limit, tenon.drop_limit, tenon.pause_limit, tenon.resume_limit,
    tenon.limit_raised, tenon.limit_in_way, tenon.why_limited, tenon.grant_limits FROM PUBLIC;

COMMENT ON FUNCTION tenon.set_limit IS $$Sets a limit, or sets it anew; what is not given is none. [limits.md](limits.md) tells more.

- `name`: a key such as `tenant:42`; or the part of keys before the first colon, `tenant`, which holds for each of them by itself, as far as its own row does not say it; `kind/NAME` or `queue/NAME`, which holds for all that is enqueued to it from then on.
- `running`: so many tasks of a key are ready or running at once, at most, 1 to 1,000,000.
- `rate`, `per`: so many of its tasks start within that time, at most, wherever it begins: 1 to 10,000 within 100 ms to 31 days.
- `strict`: one at a time, in the order of ids; one that failed keeps its place.
- `fair`: the keys with this part before the colon take turns.
- `weight`: so many tasks of a fair key at its turn, 1 to 1,000; default 1.
- `paused`: nothing more of it is let go; NULL leaves that as it is.
- `until`: the row goes at this moment; one that is paused keeps the pause.
- `on_dead`: what a dead task does to those behind it, if `strict`: `block`, the default, until it is retried or deleted; or `skip`.

An argument that is not allowed raises SQLSTATE 22023.$$;

COMMENT ON FUNCTION tenon.drop_limit IS $$Drops a limit: what waited for it goes on; returns whether there was one.$$;

COMMENT ON FUNCTION tenon.pause_limit IS $$Lets nothing more of a key, or of all keys with this part before the colon, go; what was let go starts, what runs goes on.$$;

COMMENT ON FUNCTION tenon.resume_limit IS $$Ends what `tenon.pause_limit` began; returns whether it was paused.$$;

COMMENT ON FUNCTION tenon.limit_take IS $$For handlers that call a limited service themselves: takes `n` from the rate of a key, which the starts of its tasks are taken from, too. Returns 0 when they are taken; else nothing is taken, and it may be worth to ask again after so many milliseconds. A key without a rate always gives.

Call it by itself, outside of longer transactions: until yours ends, nobody else gets anything of that limit. In a transaction that is not READ COMMITTED it raises SQLSTATE 55000.$$;
