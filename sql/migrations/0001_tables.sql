-- The tables. What a column means stands beside it; docs/states.md has the life of a task.

CREATE TABLE tenon.setting (
    one               boolean  PRIMARY KEY DEFAULT true CHECK (one),
    payload_bytes_max integer  NOT NULL DEFAULT 1048576 CHECK (payload_bytes_max > 0),
    history_keep      interval NOT NULL DEFAULT '24 hours'  -- 0 = done tasks leave no trace
                               CHECK (history_keep = '0' OR history_keep >= '1 hour'),
    history_rows_max  bigint   NOT NULL DEFAULT 10000000 CHECK (history_rows_max > 0)
);
INSERT INTO tenon.setting DEFAULT VALUES;

-- Defaults of a queue, copied into a task when it is enqueued. A queue without a row is fine.
CREATE TABLE tenon.queue (
    name         text     PRIMARY KEY CHECK (name ~ '^[a-z0-9_][a-z0-9_.-]{0,62}$'),
    priority     smallint CHECK (priority BETWEEN 0 AND 9),
    max_attempts integer  CHECK (max_attempts BETWEEN 1 AND 1000),
    timeout_ms   bigint   CHECK (timeout_ms BETWEEN 1 AND 2592000000),
    paused       boolean  NOT NULL DEFAULT false  -- workers claim nothing from it
);

-- Defaults of a kind; they go before those of the queue. A kind without a row is fine.
CREATE TABLE tenon.kind (
    name         text     PRIMARY KEY CHECK (name ~ '^[A-Za-z0-9_.:-]{1,100}$'),
    queue        text     CHECK (queue ~ '^[a-z0-9_][a-z0-9_.-]{0,62}$'),
    priority     smallint CHECK (priority BETWEEN 0 AND 9),
    max_attempts integer  CHECK (max_attempts BETWEEN 1 AND 1000),
    timeout_ms   bigint   CHECK (timeout_ms BETWEEN 1 AND 2592000000),
    on_expired   text     NOT NULL DEFAULT 'retry' CHECK (on_expired IN ('retry', 'dead'))
);

-- Every enqueue reads these three. Before its first ANALYZE a table passes for ten pages, and they would be hashed.
ANALYZE tenon.setting, tenon.queue, tenon.kind;

-- One row per start of a worker process. It is alive while it holds the session advisory lock
-- (1952804463, lock_key); 1952804463 spells 'teno'.
CREATE TABLE tenon.worker (
    id         uuid        PRIMARY KEY DEFAULT gen_random_uuid(),
    lock_key   integer     GENERATED ALWAYS AS IDENTITY (START WITH 1000 CYCLE) UNIQUE,
    host       text        NOT NULL,
    pid        integer     NOT NULL,
    slots      integer     NOT NULL,
    queues     text[]      NOT NULL,
    kinds      text[]      NOT NULL,
    state      text        NOT NULL DEFAULT 'alive' CHECK (state IN ('alive', 'draining', 'left', 'dead')),
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at   timestamptz,
    backing_off    text  -- kinds whose handler does not start, and why; NULL = none
);
CREATE INDEX worker_alive ON tenon.worker (started_at) WHERE ended_at IS NULL;

-- The hot table: unfinished tasks only. A claim changes start_time, worker_id and claims; no index
-- and no index predicate may name those three, so that claims stay HOT updates.
-- A claim makes a row 24 bytes longer, so that less than a half of each page may be filled: 45 % leave
-- room for a second version of every row, even of the smallest.
CREATE TABLE tenon.task (
    id           bigint      GENERATED ALWAYS AS IDENTITY,
    run_at       timestamptz NOT NULL,            -- not before this moment
    start_time   timestamptz,                     -- NULL = not started; else when it was claimed
    created_at   timestamptz NOT NULL,
    worker_id    uuid,                            -- who claimed it
    timeout_ms   bigint      NOT NULL,            -- how long one run may take
    claims      integer     NOT NULL DEFAULT 0,  -- how often it was claimed; never goes down
    failures     integer     NOT NULL DEFAULT 0,  -- charged against max_attempts
    crashes      integer     NOT NULL DEFAULT 0,  -- workers that died with it
    max_attempts integer     NOT NULL,
    priority     smallint    NOT NULL,            -- 0..9, higher first
    delayed      boolean     NOT NULL,            -- the cleaner wakes it up when run_at has come
    announced    boolean     NOT NULL,            -- the producer publishes it itself
    queue        text        NOT NULL,
    kind         text        NOT NULL,
    payload      jsonb       NOT NULL,
    unique_key   text,
    trace        text,                            -- W3C traceparent
    progress     jsonb,
    last_error   text,
    PRIMARY KEY (id),
    CHECK ((start_time IS NULL) = (worker_id IS NULL))
) WITH (fillfactor = 45, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0,
        autovacuum_vacuum_insert_scale_factor = 0.2);
CREATE INDEX task_order ON tenon.task (queue, priority DESC, run_at);
CREATE INDEX task_delayed ON tenon.task (run_at) WHERE delayed;
CREATE UNIQUE INDEX task_unique_key ON tenon.task (unique_key) WHERE unique_key IS NOT NULL;

-- How far the workers have got in a backlog, for all of them to see: for each track, which is a hash of a queue, a
-- priority and the kinds that are looked for, the run_at up to which one of them has just claimed what it could. It
-- lies in one of 16 sequences, as what is put into one is seen at once, and leaves no versions for a held snapshot to
-- keep. Only a hint: tracks take each other's place, and tasks that are committed late lie before it
-- (docs/decisions/0023). A value is run_at in milliseconds since 1970, then 21 bits of the track.
-- Only poll.sql calls these functions; so they need no search_path of their own.
DO $$ BEGIN
    FOR i IN 0..15 LOOP
        EXECUTE format('CREATE SEQUENCE tenon.bound_%s', i);
    END LOOP;
END $$;

-- In microseconds since 1970, rounded down to a millisecond; NULL = not known.
CREATE FUNCTION tenon.shared_bound(track bigint) RETURNS bigint
LANGUAGE plpgsql STRICT AS $$
DECLARE
    value bigint := pg_sequence_last_value(('tenon.bound_' || (track & 15))::regclass);
BEGIN
    RETURN CASE WHEN (value & 2097151) = (track >> 4 & 2097151) THEN (value >> 21) * 1000 END;
END $$;

CREATE FUNCTION tenon.tell_bound(track bigint, us bigint) RETURNS void
LANGUAGE plpgsql STRICT AS $$
BEGIN
    IF us >= coalesce(tenon.shared_bound(track), 0) + 1000 THEN
        PERFORM setval(('tenon.bound_' || (track & 15))::regclass, us / 1000 << 21 | (track >> 4 & 2097151));
    END IF;
END $$;

-- One shared look at a time among those who look for the same, from when it reads where the others are until it has told
-- how far it got. A session's lock and not a transaction's, as nobody shall wait for the commit; a session in which a look
-- failed lets go of it. It only saves work: who does not get it in time looks all the same.
--   what    a negative number for queues and kinds; the others are taken
--   result  whether the lock is held
CREATE FUNCTION tenon.lock_looks(what integer) RETURNS boolean
LANGUAGE plpgsql SET lock_timeout = '250ms' AS $$
BEGIN
    PERFORM pg_advisory_lock(1952804463, what);
    RETURN true;
EXCEPTION WHEN lock_not_available THEN
    -- it may have come in the same moment
    RETURN EXISTS (SELECT FROM pg_locks
                   WHERE pid = pg_backend_pid() AND locktype = 'advisory' AND classid = 1952804463
                     AND objid = what::oid AND objsubid = 2 AND granted);
END $$;
REVOKE ALL ON FUNCTION tenon.shared_bound, tenon.tell_bound, tenon.lock_looks FROM PUBLIC;

-- What ended well or was cancelled; append-only, one partition a day.
CREATE TABLE tenon.finished (
    finished_at timestamptz NOT NULL,
    id          bigint      NOT NULL,
    run_at      timestamptz NOT NULL,
    start_time  timestamptz,
    created_at  timestamptz NOT NULL,
    worker_id   uuid,
    claims     integer     NOT NULL,
    failures    integer     NOT NULL,
    crashes     integer     NOT NULL,
    priority    smallint    NOT NULL,
    outcome     text        NOT NULL CHECK (outcome IN ('done', 'cancelled')),
    queue       text        NOT NULL,
    kind        text        NOT NULL,
    payload     jsonb       NOT NULL,
    unique_key  text,
    trace       text,
    last_error  text,
    result      jsonb
) PARTITION BY RANGE (finished_at);
CREATE INDEX finished_id ON tenon.finished (id);

-- What failed for good; kept until it is retried or pruned.
CREATE TABLE tenon.dead (
    dead_at      timestamptz NOT NULL,
    id           bigint      PRIMARY KEY,
    run_at       timestamptz NOT NULL,
    start_time   timestamptz,
    created_at   timestamptz NOT NULL,
    worker_id    uuid,
    timeout_ms   bigint      NOT NULL,
    claims      integer     NOT NULL,
    failures     integer     NOT NULL,
    crashes      integer     NOT NULL,
    max_attempts integer     NOT NULL,
    priority     smallint    NOT NULL,
    reason       text        NOT NULL CHECK (reason IN ('failures', 'crashes', 'handler', 'deadline')),
    queue        text        NOT NULL,
    kind         text        NOT NULL,
    payload      jsonb       NOT NULL,
    unique_key   text,
    trace        text,
    last_error   text
);
CREATE INDEX dead_at ON tenon.dead (dead_at);

-- What "ready" means. Every statement that claims or publishes is held against this view by a test.
CREATE VIEW tenon.ready AS
    SELECT t.*
    FROM tenon.task t
    WHERE t.start_time IS NULL
      AND t.run_at <= clock_timestamp()
      AND NOT EXISTS (SELECT FROM tenon.queue q WHERE q.name = t.queue AND q.paused);

-- Every task there is, in one shape. `attempt` is how many attempts were made, the one that runs with them: what a
-- release gave back was none. A dead task's last is not among its failures when its handler or kind said that it is over.
CREATE VIEW tenon.tasks AS
    SELECT id, queue, kind,
           CASE WHEN start_time IS NOT NULL THEN 'running'
                WHEN run_at <= clock_timestamp() THEN 'ready'
                WHEN failures + crashes > 0 THEN 'retrying'
                ELSE 'scheduled' END AS state,
           priority, created_at, run_at, start_time, NULL::timestamptz AS end_time, worker_id,
           failures + crashes + (start_time IS NOT NULL)::integer AS attempt, claims, failures, crashes,
           payload, NULL::jsonb AS result, unique_key, trace, last_error
    FROM tenon.task
    UNION ALL
    SELECT id, queue, kind, outcome, priority, created_at, run_at, start_time, finished_at, worker_id,
           failures + crashes + (start_time IS NOT NULL)::integer, claims, failures, crashes,
           payload, result, unique_key, trace, last_error
    FROM tenon.finished
    UNION ALL
    SELECT id, queue, kind, 'dead', priority, created_at, run_at, start_time, dead_at, worker_id,
           failures + crashes + (reason IN ('handler', 'deadline'))::integer, claims, failures, crashes,
           payload, NULL, unique_key, trace, last_error
    FROM tenon.dead;

-- Partitions of tenon.finished for today and the days to come. Each is made as a plain table and
-- attached, which stops no finish. Returns how many were made.
CREATE FUNCTION tenon.make_partitions(days_ahead integer DEFAULT 7) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    today date := (clock_timestamp() AT TIME ZONE 'UTC')::date;
    made  integer := 0;
    day   date;
    part  text;
BEGIN
    FOR i IN -1..days_ahead LOOP
        day := today + i;
        part := 'finished_' || to_char(day, 'YYYYMMDD');
        CONTINUE WHEN to_regclass(format('tenon.%I', part)) IS NOT NULL;
        PERFORM pg_advisory_xact_lock(1952804463, 4);  -- two makers at once
        -- the table itself: to_regclass remembers that there was none, and no lock makes it look again
        CONTINUE WHEN EXISTS (SELECT FROM pg_class WHERE relname = part AND relnamespace = 'tenon'::regnamespace);
        EXECUTE format('CREATE TABLE tenon.%I (LIKE tenon.finished INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', part);
        EXECUTE format('ALTER TABLE tenon.finished ATTACH PARTITION tenon.%I FOR VALUES FROM (%L) TO (%L)',
                       part, day::timestamptz, (day + 1)::timestamptz);
        made := made + 1;
    END LOOP;
    RETURN made;
END $$;
REVOKE ALL ON FUNCTION tenon.make_partitions FROM PUBLIC;
SELECT tenon.make_partitions();
