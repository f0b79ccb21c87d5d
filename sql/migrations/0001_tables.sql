-- The tables. What a column means says its COMMENT, from which docs/sql.md is printed; docs/states.md has the life
-- of a task.

-- The key of a session advisory lock: 64 random bits, which nobody can take before they are known.
CREATE FUNCTION tenon.random_key() RETURNS bigint
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT ('x' || left(u, 8) || right(u, 8))::bit(64)::bigint FROM CAST(gen_random_uuid() AS text) u
$$;

-- Is it a time of so many seconds? No part of it may be negative: '-1 month 30 days 1 s' has one second, but an hour
-- before a moment and a time that long after it may be days or millennia apart, or beyond what PostgreSQL can say.
CREATE FUNCTION tenon.is_span(span interval, least_s numeric, most_s numeric) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
RETURN extract(epoch FROM span) >= least_s AND extract(epoch FROM span) <= most_s AND date_trunc('month', span) >= '0'
   AND extract(day FROM span) >= 0 AND span - date_trunc('day', span) >= '0';
REVOKE ALL ON FUNCTION tenon.random_key, tenon.is_span FROM PUBLIC;

CREATE TABLE tenon.setting (
    one               boolean  PRIMARY KEY DEFAULT true CHECK (one),
    payload_bytes_max integer  NOT NULL DEFAULT 1048576 CHECK (payload_bytes_max > 0),
    history_keep      interval NOT NULL DEFAULT '24 hours'
                               CHECK (tenon.is_span(history_keep, 0, 0) OR tenon.is_span(history_keep, 3600, 31536000000)),
    history_rows_max  bigint   NOT NULL DEFAULT 10000000 CHECK (history_rows_max > 0),
    exchange          text     NOT NULL DEFAULT 'tenon'  -- in RabbitMQ: another one for each database on a virtual host
                               CHECK (exchange ~ '^[a-z0-9_][a-z0-9_-]{0,62}$'),
    cancel_own_only   boolean  NOT NULL DEFAULT true,
    attempt_keep      interval NOT NULL DEFAULT '7 days' CHECK (tenon.is_span(attempt_keep, 3600, 31536000000)),
    dead_keep         interval NOT NULL DEFAULT '90 days' CHECK (tenon.is_span(dead_keep, 3600, 31536000000)),
    on_dead           text     CHECK (on_dead ~ '^[A-Za-z0-9_.:-]{1,100}$'),
    confined          boolean  NOT NULL DEFAULT false,
    signal_keep       interval NOT NULL DEFAULT '7 days' CHECK (tenon.is_span(signal_keep, 3600, 31536000000)),
    audit_keep        interval NOT NULL DEFAULT '90 days' CHECK (tenon.is_span(audit_keep, 0.000001, 31536000000)),
    paused            boolean  NOT NULL DEFAULT false,
    paused_by         text,
    paused_at         timestamptz,
    paused_why        text     CHECK (length(paused_why) <= 1000),
    leader_key        bigint   NOT NULL DEFAULT tenon.random_key(),
    sleeper_key       bigint   NOT NULL DEFAULT tenon.random_key()
);
INSERT INTO tenon.setting DEFAULT VALUES;
COMMENT ON TABLE tenon.setting IS 'The settings: one row, which operators change with `tenon.set_settings`.';
COMMENT ON COLUMN tenon.setting.one IS 'Always true: there is one row.';
COMMENT ON COLUMN tenon.setting.payload_bytes_max IS 'Yours to set: the largest payload that may be enqueued, in bytes of its text.';
COMMENT ON COLUMN tenon.setting.history_keep IS 'Yours to set: how long ended tasks stay in `tenon.finished`, at least an hour; whole days go. With 0, tasks that ended well leave no trace.';
COMMENT ON COLUMN tenon.setting.exchange IS 'Yours to set, before anything else runs: the exchange in RabbitMQ, of a-z 0-9 _ -. Databases that share a virtual host have one each.';
COMMENT ON COLUMN tenon.setting.cancel_own_only IS 'Yours to set: while true, only the role that enqueued a task, an operator or the owner may cancel it, or change it through its unique key. Confined producers (`tenon.producer`) may do so only to their own tasks, whatever this setting is.';
COMMENT ON COLUMN tenon.setting.attempt_keep IS 'Yours to set: how long attempts that did not end well stay in `tenon.attempt`, at least an hour; whole days go.';
COMMENT ON COLUMN tenon.setting.dead_keep IS 'Yours to set: how long dead tasks stay in `tenon.dead`, at least an hour.';
COMMENT ON COLUMN tenon.setting.on_dead IS 'Yours to set: the kind of the task that is enqueued when a task dies whose kind has no `on_dead` of its own, for instance to tell an operator; NULL = none.';
COMMENT ON COLUMN tenon.setting.confined IS 'tenon''s own: `tenon.producer` has rows.';
COMMENT ON COLUMN tenon.setting.signal_keep IS 'Yours to set: how long a signal is kept after it was sent, for those who wait for it later; at least an hour.';
COMMENT ON COLUMN tenon.setting.audit_keep IS 'The owner''s to set: how long rows stay in `tenon.audit`.';
COMMENT ON COLUMN tenon.setting.paused IS 'While true, no worker claims anything (`tenon.pause`). What runs goes on.';
COMMENT ON COLUMN tenon.setting.paused_by IS 'The role that paused it; NULL = it is not paused, or not by `tenon.pause`.';
COMMENT ON COLUMN tenon.setting.paused_at IS 'When that was.';
COMMENT ON COLUMN tenon.setting.paused_why IS 'And why, as that role said.';
COMMENT ON COLUMN tenon.setting.leader_key IS 'The cleaners'' own: the session that holds this advisory lock leads, if it may (`tenon.lock`).';
COMMENT ON COLUMN tenon.setting.sleeper_key IS 'The leader''s own: while it holds this advisory lock it sleeps, and an enqueue wakes it by NOTIFY.';
COMMENT ON COLUMN tenon.setting.history_rows_max IS 'Yours to set: when `tenon.finished` or `tenon.attempt` has more rows, its oldest days go.';

-- The settings, or a clear error if their row is missing: a dump without data was restored, or somebody emptied all tables.
CREATE FUNCTION tenon.settings() RETURNS tenon.setting
LANGUAGE plpgsql STABLE AS $$
DECLARE
    s tenon.setting;
BEGIN
    SELECT * INTO s FROM tenon.setting;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'tenon: the table tenon.setting is empty'
            USING ERRCODE = 'invalid_schema_name',
                  HINT = 'A dump without data was restored, or all tables were emptied. Run tenon setup: it restores the row.';
    END IF;
    RETURN s;
END $$;
REVOKE ALL ON FUNCTION tenon.settings FROM PUBLIC;

-- The parts of a retry policy: curve, first delay, longest delay, and how much of it chance may add (NULL with `sidekiq`, which
-- has a jitter of its own, if not given). NULLs: it is none, or longer than a policy may be.
CREATE FUNCTION tenon.retry_parts(policy text, OUT curve text, OUT first_s double precision, OUT cap_s double precision,
    OUT jitter double precision)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    retry_chars_max constant integer := 100;
    part text[];
BEGIN
    IF length(policy) <= retry_chars_max THEN
        part := coalesce(regexp_match(policy, '^(exponential|linear|constant)\(([^,()%]+)(?:,([^,()%]+))?(?:,\s*(\d{1,3}) ?%)?\)$'),
                         regexp_match(policy, '^(sidekiq)()(?:\(([^,()%]+)(?:,\s*(\d{1,3}) ?%)?\))?$'));
    END IF;
    IF part[1] IS NULL THEN
        RETURN;
    END IF;
    first_s := extract(epoch FROM coalesce(nullif(part[2], ''), '1 ms')::interval);
    cap_s := extract(epoch FROM coalesce(part[3]::interval, interval '30 days'));
    jitter := coalesce(part[4]::integer, CASE WHEN part[1] <> 'sidekiq' THEN 10 END) / 100.0;
    IF first_s BETWEEN 0.001 AND cap_s AND cap_s <= 2592000 AND coalesce(jitter, 0) <= 1 THEN
        curve := part[1];
    END IF;
EXCEPTION WHEN invalid_datetime_format OR datetime_field_overflow OR interval_field_overflow THEN
    RETURN;
END $$;

CREATE FUNCTION tenon.is_retry(policy text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
RETURN policy IS NULL OR (tenon.retry_parts(policy)).curve IS NOT NULL;
REVOKE ALL ON FUNCTION tenon.retry_parts, tenon.is_retry FROM PUBLIC;

CREATE TABLE tenon.queue (
    name         text     PRIMARY KEY CHECK (name ~ '^[a-z0-9_][a-z0-9_.-]{0,62}$'),
    priority     smallint CHECK (priority BETWEEN 0 AND 9),
    max_attempts integer  CHECK (max_attempts BETWEEN 1 AND 1000),
    timeout_ms   bigint   CHECK (timeout_ms BETWEEN 1 AND 2592000000),
    retry        text     CHECK (tenon.is_retry(retry)),
    limited      boolean  NOT NULL DEFAULT false,
    paused       boolean  NOT NULL DEFAULT false,
    paused_by    text     CHECK (length(paused_by) <= 63),
    paused_at    timestamptz,
    paused_why   text     CHECK (length(paused_why) <= 1000)
);
COMMENT ON TABLE tenon.queue IS 'Defaults of queues, and whether they are paused; operators change them with `tenon.set_queue` and `tenon.pause`. A queue needs no row. Defaults are copied into a task when it is enqueued.';
COMMENT ON COLUMN tenon.queue.name IS 'The queue: 1 to 63 of `a-z 0-9 _ . -`, not beginning with `.` or `-`.';
COMMENT ON COLUMN tenon.queue.priority IS 'Yours to set: priority of its tasks, 0 to 9, higher first; NULL = 4.';
COMMENT ON COLUMN tenon.queue.max_attempts IS 'Yours to set: with so many failures a task of it is dead, 1 to 1,000; NULL = 25.';
COMMENT ON COLUMN tenon.queue.timeout_ms IS 'Yours to set: how long one run of its tasks may take, in milliseconds, at most 30 days; NULL = one hour.';
COMMENT ON COLUMN tenon.queue.retry IS 'Yours to set: how long a task of it waits after a failure: `sidekiq`, or `exponential(10 s, 1 h, 10 %)`, `linear(...)`, `constant(...)`: the first delay, and if you like the longest (30 days) and how much chance may add (10 %); or `sidekiq(1 day, 10 %)`: the longest (30 days) and chance (10 n s); NULL = `sidekiq`, n^4 + 15 s.';
COMMENT ON COLUMN tenon.queue.limited IS 'tenon''s own: there is a limit `queue/NAME` (`tenon.set_limit`), and what is enqueued to it gets that key.';
COMMENT ON COLUMN tenon.queue.paused IS 'Set it with `tenon.pause`: while true, no worker claims tasks from the queue. Running tasks continue.';
COMMENT ON COLUMN tenon.queue.paused_by IS 'The role that paused it; NULL = it is not paused, or not by `tenon.pause`.';
COMMENT ON COLUMN tenon.queue.paused_at IS 'When that was.';
COMMENT ON COLUMN tenon.queue.paused_why IS 'And why, as that role said.';

CREATE TABLE tenon.kind (
    name         text     PRIMARY KEY CHECK (name ~ '^[A-Za-z0-9_.:-]{1,100}$'),
    queue        text     CHECK (queue ~ '^[a-z0-9_][a-z0-9_.-]{0,62}$'),
    priority     smallint CHECK (priority BETWEEN 0 AND 9),
    max_attempts integer  CHECK (max_attempts BETWEEN 1 AND 1000),
    timeout_ms   bigint   CHECK (timeout_ms BETWEEN 1 AND 2592000000),
    retry        text     CHECK (tenon.is_retry(retry)),
    on_timeout   text     NOT NULL DEFAULT 'retry' CHECK (on_timeout IN ('retry', 'dead')),
    on_dead      text     CHECK (on_dead ~ '^[A-Za-z0-9_.:-]{1,100}$'),
    max_crashes  integer  CHECK (max_crashes BETWEEN 2 AND 100),
    timeout_min_ms bigint NOT NULL DEFAULT 1 CHECK (timeout_min_ms BETWEEN 1 AND 2592000000),
    limited      boolean  NOT NULL DEFAULT false,
    paused       boolean  NOT NULL DEFAULT false,
    paused_by    text     CHECK (length(paused_by) <= 63),
    paused_at    timestamptz,
    paused_why   text     CHECK (length(paused_why) <= 1000)
);
CREATE INDEX kind_paused ON tenon.kind (name) WHERE paused;
COMMENT ON TABLE tenon.kind IS 'Defaults of kinds, which override those of the queue; operators change them with `tenon.set_kind` and `tenon.pause`. A kind needs no row. Defaults are copied into a task when it is enqueued.';
COMMENT ON COLUMN tenon.kind.name IS 'The kind: 1 to 100 of `A-Z a-z 0-9 _ . : -`.';
COMMENT ON COLUMN tenon.kind.queue IS 'Yours to set: the queue of its tasks; NULL = `default`.';
COMMENT ON COLUMN tenon.kind.priority IS 'Yours to set: priority of its tasks, 0 to 9, higher first; NULL = that of the queue.';
COMMENT ON COLUMN tenon.kind.max_attempts IS 'Yours to set: with so many failures a task of it is dead, 1 to 1,000; NULL = that of the queue.';
COMMENT ON COLUMN tenon.kind.timeout_ms IS 'Yours to set: how long one run of its tasks may take, in milliseconds, at most 30 days; NULL = that of the queue.';
COMMENT ON COLUMN tenon.kind.timeout_min_ms IS 'Yours to set: no task of it may be enqueued with a shorter `timeout`, in milliseconds.';
COMMENT ON COLUMN tenon.kind.retry IS 'Yours to set: how long a task of it waits after a failure: `sidekiq`, or `exponential(10 s, 1 h, 10 %)`, `linear(...)`, `constant(...)`: the first delay, and if you like the longest (30 days) and how much chance may add (10 %); or `sidekiq(1 day, 10 %)`: the longest (30 days) and chance (10 n s); NULL = that of the queue.';
COMMENT ON COLUMN tenon.kind.on_dead IS 'Yours to set: the kind of the task that is enqueued in the moment when a task of it dies, with the dead one whole as its payload; NULL = that of `tenon.setting`. When such a task dies itself, none is enqueued.';
COMMENT ON COLUMN tenon.kind.max_crashes IS 'Yours to set: a task of this kind is dead after this many crashes in a row, 2 to 100; NULL = 3. Before the last one it runs alone.';
COMMENT ON COLUMN tenon.kind.limited IS 'tenon''s own: there is a limit `kind/NAME` (`tenon.set_limit`), and what is enqueued of it gets that key.';
COMMENT ON COLUMN tenon.kind.paused IS 'Set it by `tenon.pause`: while true, no worker claims tasks of it. Workers hear of it by NOTIFY at once, or, if they miss that, within 5 s. What runs goes on.';
COMMENT ON COLUMN tenon.kind.paused_by IS 'The role that paused it; NULL = it is not paused, or not by `tenon.pause`.';
COMMENT ON COLUMN tenon.kind.paused_at IS 'When that was.';
COMMENT ON COLUMN tenon.kind.paused_why IS 'And why, as that role said.';
COMMENT ON COLUMN tenon.kind.on_timeout IS 'Yours to set: what becomes of a task that ran out of time: `retry` counts a failure, `dead` ends it.';

CREATE TABLE tenon.producer (
    role   regrole PRIMARY KEY,
    queues text[],
    kinds  text[]
);
COMMENT ON TABLE tenon.producer IS 'Roles that are confined to some queues or kinds; `tenon setup --grant-producer ROLE --queues ... --kinds ...` writes it. It holds for the role that logged in and for those it is a member of: of several rows one must allow it. A superuser is not confined.';
COMMENT ON COLUMN tenon.producer.role IS 'The role; it stays this one when it is renamed.';
COMMENT ON COLUMN tenon.producer.queues IS 'The queues that it may enqueue to and whose tasks it may run; NULL = all.';
COMMENT ON COLUMN tenon.producer.kinds IS 'The kinds that it may enqueue and whose tasks it may run; NULL = all.';

-- So that who enqueues need not ask.
CREATE FUNCTION tenon.note_confined() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM FROM tenon.setting FOR UPDATE;  -- by itself: the next statement sees what was committed meanwhile
    IF NOT FOUND AND EXISTS (SELECT FROM tenon.producer) THEN
        PERFORM tenon.settings();
    END IF;
    UPDATE tenon.setting s SET confined = EXISTS (SELECT FROM tenon.producer);
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION tenon.note_confined FROM PUBLIC;
CREATE TRIGGER note_confined AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON tenon.producer
    FOR EACH STATEMENT EXECUTE FUNCTION tenon.note_confined();

-- Every enqueue reads three of these. Before its first ANALYZE a table passes for ten pages, and they would be hashed.
ANALYZE tenon.setting, tenon.queue, tenon.kind, tenon.producer;

-- One row per start of a worker process. Its session takes a random key first and writes it here then: no stranger can
-- have taken it before, and a session holds one key.
CREATE TABLE tenon.worker (
    id         uuid        PRIMARY KEY DEFAULT gen_random_uuid(),
    lock_key   bigint      NOT NULL DEFAULT tenon.random_key(),
    host       text        NOT NULL,
    pid        integer     NOT NULL,
    slots      integer     NOT NULL,
    queues     text[]      NOT NULL,
    kinds      text[]      NOT NULL,
    state      text        NOT NULL DEFAULT 'alive' CHECK (state IN ('alive', 'draining', 'left', 'dead')),
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at   timestamptz,
    backing_off    text,
    starting       text,
    rounds_failing text,
    broker_away    text,
    alone_since    timestamptz
);
COMMENT ON TABLE tenon.worker IS 'One row per start of a worker process; kept for a week after it ended.';
COMMENT ON COLUMN tenon.worker.id IS 'Its name in the claims of tasks.';
COMMENT ON COLUMN tenon.worker.lock_key IS 'It is alive while its session holds the advisory lock of this key (`tenon.lock`); each session takes another one.';
COMMENT ON COLUMN tenon.worker.host IS 'The machine it runs on.';
COMMENT ON COLUMN tenon.worker.pid IS 'Its process there.';
COMMENT ON COLUMN tenon.worker.slots IS 'How many handler processes it may run at once.';
COMMENT ON COLUMN tenon.worker.queues IS 'The queues it serves.';
COMMENT ON COLUMN tenon.worker.kinds IS 'The kinds it has handlers for.';
COMMENT ON COLUMN tenon.worker.state IS '`alive`; `draining`: it finishes what runs; `left`: it ended in good order; `dead`: a cleaner saw its lock free, and recovers its tasks.';
COMMENT ON COLUMN tenon.worker.started_at IS 'When it started.';
COMMENT ON COLUMN tenon.worker.ended_at IS 'When it left, or was declared dead; NULL before.';
COMMENT ON COLUMN tenon.worker.backing_off IS '`kind,kind: why`, a line for each handler that does not start; NULL = all start.';
COMMENT ON COLUMN tenon.worker.starting IS '`kind,kind: MS TEXT`, a line for each handler whose first child has been starting for a second or more: since when, in milliseconds since 1970, and what it says that it is doing, if anything; NULL = none.';
COMMENT ON COLUMN tenon.worker.rounds_failing IS 'The reason why its transactions with PostgreSQL keep failing; NULL = they do not.';
COMMENT ON COLUMN tenon.worker.broker_away IS 'The reason why it is not connected to RabbitMQ; NULL = it is connected, or works without RabbitMQ.';
COMMENT ON COLUMN tenon.worker.alone_since IS 'Since when it has the turn to run suspects (`tenon.suspect`), one at a time and nothing else; NULL = it does not have the turn.';
CREATE INDEX worker_alive ON tenon.worker (started_at) WHERE ended_at IS NULL;

-- Advisory locks are open to everybody who may log in: one counts only if whoever logged in to its session may act for
-- tenon, as a worker, a cleaner or the owner. pg_stat_activity names who logged in, whatever SET ROLE said since.
CREATE VIEW tenon.lock AS
SELECT (l.classid::bigint << 32) | l.objid::bigint AS key, l.pid, a.usesysid AS role, l.mode = 'ExclusiveLock' AS exclusive,
       l.granted AND l.mode = 'ExclusiveLock'
       AND has_any_column_privilege(a.usesysid, 'tenon.worker'::regclass, 'UPDATE') AS counts
  FROM pg_locks l
  JOIN pg_stat_activity a ON a.pid = l.pid
 WHERE l.locktype = 'advisory' AND l.objsubid = 1
   AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database());
COMMENT ON VIEW tenon.lock IS 'The advisory locks of this database with keys of 64 bits, those of workers and cleaners among them.';
COMMENT ON COLUMN tenon.lock.key IS 'The key, as in `tenon.worker.lock_key`.';
COMMENT ON COLUMN tenon.lock.pid IS 'The backend that holds it, or waits for it.';
COMMENT ON COLUMN tenon.lock.role IS 'The oid of the role that logged in there.';
COMMENT ON COLUMN tenon.lock.exclusive IS 'Not shared.';
COMMENT ON COLUMN tenon.lock.counts IS 'It is held, not shared, and the role may act for tenon: who may update `tenon.worker`.';

-- Failures of cleaners: a row for each chore that has failed several times in a row, and one for RabbitMQ while it is away. A
-- cleaner renews its rows every ten seconds, and deletes them when the chore succeeds.
CREATE TABLE tenon.chore_failure (
    chore text        PRIMARY KEY,
    since timestamptz NOT NULL DEFAULT clock_timestamp(),
    at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    host  text        NOT NULL,
    pid   integer     NOT NULL,
    error text        NOT NULL CHECK (length(error) <= 1000)
);
COMMENT ON TABLE tenon.chore_failure IS 'Chores of cleaners that keep failing. The view `tenon.failing` shows only rows of the last minute.';
COMMENT ON COLUMN tenon.chore_failure.chore IS 'The chore, or `broker`: the connection with RabbitMQ.';
COMMENT ON COLUMN tenon.chore_failure.since IS 'When the row was first written.';
COMMENT ON COLUMN tenon.chore_failure.at IS 'When it failed last.';
COMMENT ON COLUMN tenon.chore_failure.host IS 'The machine of the cleaner.';
COMMENT ON COLUMN tenon.chore_failure.pid IS 'Its process there.';
COMMENT ON COLUMN tenon.chore_failure.error IS 'What PostgreSQL or RabbitMQ said.';

-- Domains, as a CHECK of a table is parsed anew by each statement that writes to it (docs/decisions/0017).
CREATE DOMAIN tenon.run_ms AS bigint CHECK (VALUE BETWEEN 1 AND 2592000000);
CREATE DOMAIN tenon.outcome AS text CHECK (VALUE IN ('done', 'cancelled', 'expired'));

-- The hot table: unfinished tasks only. A claim changes start_time, claim_key, worker_id and claims; no index
-- and no index predicate may name those four, so that claims stay HOT updates.
-- A claim makes a row 32 bytes longer, so that less than a half of each page may be filled: 43 % leave
-- room for a second version of every row, even of the smallest.
-- What has no NULLs stands first, and what is seldom set last: so PostgreSQL finds a column without walking over others.
-- claims stands beside start_time, as a claim logs all that lies between the columns that it changes.
-- start_time, claim_key and worker_id are NULL together; the tests check that (tests/support/fixture.c), because a CHECK costs a tenth
-- of an enqueue.
CREATE TABLE tenon.task (
    id           bigint      GENERATED ALWAYS AS IDENTITY,
    run_at       timestamptz NOT NULL,
    created_at   timestamptz NOT NULL,
    timeout_ms   tenon.run_ms NOT NULL,
    failures     integer     NOT NULL DEFAULT 0,
    crashes      integer     NOT NULL DEFAULT 0,
    max_attempts integer     NOT NULL,
    payload_bytes integer    NOT NULL DEFAULT 0,
    priority     smallint    NOT NULL,
    delayed      boolean     NOT NULL,
    announced    boolean     NOT NULL,
    queue        text        NOT NULL,
    kind         text        NOT NULL,
    payload      jsonb       NOT NULL,
    claims       integer     NOT NULL DEFAULT 0,
    start_time   timestamptz,
    claim_key    bigint,
    start_before timestamptz,
    worker_id    uuid,
    unique_key   text,
    retry        text,
    trace        text,
    progress     jsonb,
    last_error   text,
    error_class  text,
    enqueued_by  text,
    compensates  bigint,
    again        bigint,
    wanted_at    timestamptz,
    flow         bigint,
    limit_keys   text[],
    awaited      boolean,
    steps        jsonb,
    max_crashes  integer,
    PRIMARY KEY (id)
) WITH (fillfactor = 43, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0,
        autovacuum_vacuum_insert_scale_factor = 0.2);
COMMENT ON TABLE tenon.task IS 'Unfinished tasks. Read it as you like; change it by functions only: nobody who waits hears of the end of a row that is deleted by hand.';
COMMENT ON COLUMN tenon.task.id IS 'The number of the task.';
COMMENT ON COLUMN tenon.task.run_at IS 'It does not start before this moment; `infinity` while it is blocked.';
COMMENT ON COLUMN tenon.task.start_time IS 'When it was last claimed; NULL = not started.';
COMMENT ON COLUMN tenon.task.created_at IS 'When it was enqueued.';
COMMENT ON COLUMN tenon.task.start_before IS 'It does not start at or after this moment, but is `expired`; NULL = whenever.';
COMMENT ON COLUMN tenon.task.claim_key IS 'The key of its last claim, 64 random bits: anyone who knows the key and the id may finish the task and record its steps and progress; NULL = not started.';
COMMENT ON COLUMN tenon.task.worker_id IS 'The worker that claimed it last.';
COMMENT ON COLUMN tenon.task.timeout_ms IS 'How long one run may take, in milliseconds.';
COMMENT ON COLUMN tenon.task.claims IS 'How often it was claimed; never goes down.';
COMMENT ON COLUMN tenon.task.failures IS 'Attempts that failed or ran out of time.';
COMMENT ON COLUMN tenon.task.crashes IS 'Attempts during which its worker died, or its child died while it had other tasks too.';
COMMENT ON COLUMN tenon.task.max_attempts IS 'With so many failures it is dead.';
COMMENT ON COLUMN tenon.task.max_crashes IS 'It is dead after this many crashes in a row; NULL = as its kind says at that time.';
COMMENT ON COLUMN tenon.task.priority IS '0 to 9, higher first.';
COMMENT ON COLUMN tenon.task.delayed IS 'The cleaner publishes its wake-up when `run_at` has come.';
COMMENT ON COLUMN tenon.task.announced IS 'Its producer publishes its wake-up.';
COMMENT ON COLUMN tenon.task.queue IS 'Where it waits.';
COMMENT ON COLUMN tenon.task.kind IS 'What it is about; picks the handler.';
COMMENT ON COLUMN tenon.task.payload IS 'What its handler gets.';
COMMENT ON COLUMN tenon.task.payload_bytes IS 'Of its payload as text, so that a claim need not read it to know.';
COMMENT ON COLUMN tenon.task.unique_key IS 'No two unfinished tasks of a kind have the same.';
COMMENT ON COLUMN tenon.task.retry IS 'How long it waits after a failure, as in `tenon.kind`; NULL = as its kind or queue says then.';
COMMENT ON COLUMN tenon.task.trace IS 'A W3C traceparent.';
COMMENT ON COLUMN tenon.task.progress IS 'How far it is, as its handler said last (`tenon.progress`); given to the next attempt.';
COMMENT ON COLUMN tenon.task.awaited IS 'Somebody waits for its end (`tenon.await`).';
COMMENT ON COLUMN tenon.task.steps IS 'The steps that it has recorded (`tenon.step`), and the signals that it has got: an object, a key for each name; given to the next attempt.';
COMMENT ON COLUMN tenon.task.last_error IS 'What went wrong the last time, at most 8,192 characters.';
COMMENT ON COLUMN tenon.task.error_class IS 'What kind of error that was: as the handler says, else the exception that the error names, how the process ended, or its first word.';
COMMENT ON COLUMN tenon.task.enqueued_by IS 'The role that had logged in to enqueue it.';
COMMENT ON COLUMN tenon.task.compensates IS 'The dead task because of which this one was enqueued (`on_dead`).';
COMMENT ON COLUMN tenon.task.again IS 'A row of `tenon.again`: something waits there for its end.';
COMMENT ON COLUMN tenon.task.wanted_at IS 'While it is blocked: the `run_at` that it gets when it is not any more; NULL = it is not blocked.';
COMMENT ON COLUMN tenon.task.flow IS 'The flow that it belongs to; NULL = none.';
COMMENT ON COLUMN tenon.task.limit_keys IS 'The keys whose limits hold for it; NULL = none.';
-- id + 0 and not id, so that no plan looks a task up here by its id.
CREATE INDEX task_order ON tenon.task (queue, priority DESC, run_at, (id + 0));
CREATE INDEX task_delayed ON tenon.task (run_at) WHERE delayed;
CREATE UNIQUE INDEX task_unique_key ON tenon.task (unique_key, kind) WHERE unique_key IS NOT NULL;
CREATE INDEX task_start_before ON tenon.task (start_before) WHERE start_before IS NOT NULL;

-- The unfinished tasks that have crashed. A task whose next crash would be its last is a suspect: it is blocked, and
-- tenon.claim_alone() claims it. tenon.requeue() writes these rows; every statement that ends a task deletes its row
-- (tenon.note_ended).
CREATE TABLE tenon.suspect (
    task_id bigint      PRIMARY KEY,
    crashes integer     NOT NULL,
    mark    bigint      NOT NULL,
    alone   boolean     NOT NULL,
    due_at  timestamptz,
    claims  integer
);
CREATE INDEX suspect_due ON tenon.suspect (due_at) WHERE alone AND claims IS NULL;
COMMENT ON TABLE tenon.suspect IS 'The unfinished tasks that have crashed.';
COMMENT ON COLUMN tenon.suspect.task_id IS 'The task.';
COMMENT ON COLUMN tenon.suspect.crashes IS 'Crashes in a row, without a step or progress recorded between them.';
COMMENT ON COLUMN tenon.suspect.mark IS 'A hash of its steps and its progress, as they were at the last crash.';
COMMENT ON COLUMN tenon.suspect.alone IS 'It is a suspect: next it runs alone, with nothing beside it in its worker.';
COMMENT ON COLUMN tenon.suspect.due_at IS 'A suspect does not start before this moment; NULL = not before its limits release it.';
COMMENT ON COLUMN tenon.suspect.claims IS '`claims` of the task in the run that it has alone; NULL = it has no such run.';

-- Enqueued under a unique_key whose holder was running, or locked, or overdue: tenon.settle() makes it one with the
-- holder, or a task of its own, after the commit. So no producer waits for a worker, nor a worker for a producer.
CREATE TABLE tenon.again (
    id           bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_at       timestamptz NOT NULL,
    created_at   timestamptz NOT NULL,
    start_before timestamptz,
    timeout_ms   bigint      NOT NULL,
    max_attempts integer     NOT NULL,
    payload_bytes integer    NOT NULL,
    priority     smallint    NOT NULL,
    delayed      boolean     NOT NULL,
    queue        text        NOT NULL,
    kind         text        NOT NULL,
    payload      jsonb       NOT NULL,
    unique_key   text        NOT NULL,
    retry        text,
    trace        text,
    enqueued_by  text,
    limit_keys   text[],
    on_conflict  text        NOT NULL,
    debounce     interval    CHECK (tenon.is_span(debounce, 0.001, 2592000)),
    debounce_max interval    CHECK (tenon.is_span(debounce_max, 0.001, 31536000)),
    taken        boolean     NOT NULL,
    failed       text,
    CHECK (isfinite(run_at) AND isfinite(created_at) AND timeout_ms BETWEEN 1 AND 2592000000)
);
CREATE INDEX again_key ON tenon.again (unique_key, kind, id);
CREATE INDEX again_untaken ON tenon.again (id) WHERE NOT taken;
COMMENT ON TABLE tenon.again IS 'What was enqueued under a unique key while the task that holds the key could not take it in; it becomes a task, or part of one, after the commit.';
COMMENT ON COLUMN tenon.again.on_conflict IS 'As given to `tenon.enqueue`.';
COMMENT ON COLUMN tenon.again.debounce IS 'As given to `tenon.enqueue`.';
COMMENT ON COLUMN tenon.again.debounce_max IS 'As given to `tenon.enqueue`.';
COMMENT ON COLUMN tenon.again.taken IS 'It waits for the end of the task that holds the key, which is running or cannot take it in.';
COMMENT ON COLUMN tenon.again.failed IS 'The error because of which it was set aside; others pass by it. It is tried again when a task ends for which others waited.';

-- Append-only: keys whose holder has ended, or will have another attempt, so that the rows of tenon.again may be settled.
-- A statement that ends a task adds a row here, and therefore never waits for a settler that holds those rows.
CREATE TABLE tenon.again_note (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    unique_key text NOT NULL,
    kind       text NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);
COMMENT ON TABLE tenon.again_note IS 'The unique keys whose task has ended while other tasks waited for its end (`tenon.again`).';
COMMENT ON COLUMN tenon.again_note.id IS 'A number that grows with each row.';
COMMENT ON COLUMN tenon.again_note.unique_key IS 'The key.';
COMMENT ON COLUMN tenon.again_note.kind IS 'The kind of the task.';

-- Work through rows that everybody shares is bounded by its cost: a turn stops after 250 ms, or 8 MB, and the next one continues
-- there. If a statement runs into its timeout all the same, that part of tenon.settle() takes an eighth of the rows from then
-- on; a row that is too slow by itself is set aside for a time (tenon.note_slow).
CREATE TABLE tenon.set_aside (
    part  text        NOT NULL CHECK (part IN ('expire', 'again', 'flows', 'signals', 'limits', 'recover')),
    id    bigint      NOT NULL,
    most  integer     CHECK (most > 0),
    tries integer     NOT NULL DEFAULT 1,
    at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    until timestamptz NOT NULL,
    error text        NOT NULL CHECK (length(error) <= 8192),
    PRIMARY KEY (part, id)
);
COMMENT ON TABLE tenon.set_aside IS 'Rows that a cleaner skips for a time, because they ran into the statement timeout or could not be stored; and parts of `tenon.settle` that take fewer rows since they ran into it. So one slow row does not stop the others.';
COMMENT ON COLUMN tenon.set_aside.part IS 'The part: `expire`, tasks that have missed `start_before`; `again`, tasks that were enqueued with a key already in use; `flows`; `signals`; `limits`; `recover`, the tasks of dead workers.';
COMMENT ON COLUMN tenon.set_aside.id IS 'The row that is skipped: the id of a task, or, for `flows`, of a row of `tenon.flow_note`; 0 = none: the part takes fewer rows.';
COMMENT ON COLUMN tenon.set_aside.most IS 'The number of rows that the part takes at a time; doubled after each turn that succeeds.';
COMMENT ON COLUMN tenon.set_aside.tries IS 'How often it was too slow.';
COMMENT ON COLUMN tenon.set_aside.at IS 'When it was last too slow.';
COMMENT ON COLUMN tenon.set_aside.until IS 'When it is tried again: a row after a minute, then after twice as long each time, up to a day.';
COMMENT ON COLUMN tenon.set_aside.error IS 'What PostgreSQL said.';

CREATE VIEW tenon.failing AS
SELECT CASE f.chore WHEN 'broker' THEN 'broker' ELSE 'chore' END AS what, f.chore AS name, f.host, f.pid, f.since, f.error,
       CASE f.chore WHEN 'broker' THEN format('the cleaner on %s, pid %s, has had no RabbitMQ since %s: %s', f.host, f.pid, s.since, f.error)
                    ELSE format('the chore %s of the cleaner on %s, pid %s, has failed since %s: %s', f.chore, f.host, f.pid, s.since, f.error) END AS sentence
  FROM tenon.chore_failure f
 CROSS JOIN LATERAL to_char(f.since AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"') AS s (since)
 WHERE f.at > clock_timestamp() - interval '1 minute'
UNION ALL
SELECT t.what, NULL, w.host, w.pid, NULL, t.error, format(t.sentence, w.host, w.pid, t.error)
  FROM tenon.worker w
 CROSS JOIN LATERAL (VALUES
       ('rounds', w.rounds_failing, 'transactions with PostgreSQL keep failing in the worker on %s, pid %s: %s'),
       ('broker', w.broker_away, 'the worker on %s, pid %s, has no RabbitMQ: %s'),
       ('handler', w.backing_off, 'in the worker on %s, pid %s, a handler does not start: %s')) t (what, error, sentence)
 WHERE w.ended_at IS NULL AND t.error IS NOT NULL
UNION ALL
SELECT 'set_aside', a.part, NULL, NULL, a.at, a.error,
       CASE a.id WHEN 0 THEN format('the part %s of settling takes %s rows at a time, because more took too long: %s', a.part, a.most, a.error)
                 ELSE format('the part %s of settling leaves out the %s %s until %s, because it took too long or could not be stored: %s', a.part,
                             CASE a.part WHEN 'flows' THEN 'row of tenon.flow_note' WHEN 'again' THEN 'row of tenon.again' ELSE 'task' END, a.id,
                             to_char(a.until AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"'), a.error) END
  FROM tenon.set_aside a;
COMMENT ON VIEW tenon.failing IS 'Chores, transactions, connections and handlers that keep failing now, and what is set aside.';
COMMENT ON COLUMN tenon.failing.what IS '`chore`: a chore of a cleaner; `rounds`: the transactions of a worker with PostgreSQL; `broker`: the connection to RabbitMQ; `handler`: a handler that does not start; `set_aside`: what cleaners skip for a time (`tenon.set_aside`).';
COMMENT ON COLUMN tenon.failing.name IS 'The name of the chore, or of the part of settling.';
COMMENT ON COLUMN tenon.failing.host IS 'The machine it runs on.';
COMMENT ON COLUMN tenon.failing.pid IS 'Its process there.';
COMMENT ON COLUMN tenon.failing.since IS 'When the failures began, if known.';
COMMENT ON COLUMN tenon.failing.error IS 'The last error message.';
COMMENT ON COLUMN tenon.failing.sentence IS 'The row as a sentence.';

-- Where the next turn continues. Sequences, because the cursor must move on even if the turn is rolled back.
CREATE SEQUENCE tenon.again_cursor MINVALUE 0 START 0;    -- id of tenon.again
CREATE SEQUENCE tenon.waiting_cursor MINVALUE 0 START 0;  -- task_id of tenon.waiting
CREATE SEQUENCE tenon.until_cursor MINVALUE 0 START 0;    -- until of tenon.waiting, in microseconds since 1970
CREATE SEQUENCE tenon.signal_cursor MINVALUE 0 START 0;   -- sent_at of tenon.signal, the same

-- Append-only: keys and tasks that tenon.settle_limits() has to see to. Whoever enqueues, ends or requeues a task leaves one, and so he takes
-- no lock that another may hold.
CREATE TABLE tenon.limit_event (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    keys       text[] NOT NULL,
    task_id    bigint,
    start_time timestamptz,
    hold_until timestamptz,
    enters     boolean,
    changed    boolean
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);
COMMENT ON TABLE tenon.limit_event IS 'What `tenon.settle` has to see to, of limits.';
COMMENT ON COLUMN tenon.limit_event.id IS 'In the order in which they came.';
COMMENT ON COLUMN tenon.limit_event.keys IS 'The keys.';
COMMENT ON COLUMN tenon.limit_event.task_id IS 'A task of theirs that has ended, or changed; NULL = only the keys.';
COMMENT ON COLUMN tenon.limit_event.start_time IS 'When its run that has ended had started.';
COMMENT ON COLUMN tenon.limit_event.hold_until IS 'Its handler may run until then, and for as long after a commit that comes late.';
COMMENT ON COLUMN tenon.limit_event.enters IS 'It was retried while a key had a row of it still.';
COMMENT ON COLUMN tenon.limit_event.changed IS 'A limit was set, dropped, paused or resumed: the first of `keys` is its name, and all keys that wait under it are to be seen to, those beyond the second.';

-- Keys that are kept for a time though their task may have ended.
CREATE TABLE tenon.unique_hold (
    kind       text,
    unique_key text,
    until      timestamptz NOT NULL,
    id         bigint,
    PRIMARY KEY (unique_key, kind)
);
CREATE INDEX unique_hold_until ON tenon.unique_hold (until);
COMMENT ON TABLE tenon.unique_hold IS 'The keys that were enqueued with `unique_for`.';
COMMENT ON COLUMN tenon.unique_hold.until IS 'Until then whoever enqueues with `unique_for` gets this task''s id.';
COMMENT ON COLUMN tenon.unique_hold.id IS 'The task, which may have ended.';

-- Append-only.
CREATE TABLE tenon.finished (
    finished_at timestamptz NOT NULL,
    id          bigint      NOT NULL,
    run_at      timestamptz NOT NULL,
    start_time  timestamptz,
    created_at  timestamptz NOT NULL,
    worker_id   uuid,
    claims      integer     NOT NULL,
    failures    integer     NOT NULL,
    crashes     integer     NOT NULL,
    priority    smallint    NOT NULL,
    outcome     tenon.outcome NOT NULL,
    queue       text        NOT NULL,
    kind        text        NOT NULL,
    payload     jsonb       NOT NULL,
    unique_key  text,
    trace       text,
    last_error  text,
    result      jsonb,
    enqueued_by text,
    limit_keys  text[],
    steps       jsonb,
    timeout_ms  bigint,
    max_attempts integer,
    retry       text,
    progress    jsonb,
    max_crashes integer
) PARTITION BY RANGE (finished_at);
-- Without a replica identity no row can be deleted once a publication FOR ALL TABLES exists.
ALTER TABLE tenon.finished REPLICA IDENTITY FULL;
COMMENT ON TABLE tenon.finished IS 'Tasks that ended well, were cancelled, or expired; a partition a day, which goes when its time has come (`tenon.setting`).';
COMMENT ON COLUMN tenon.finished.finished_at IS 'When it ended.';
COMMENT ON COLUMN tenon.finished.outcome IS '`done`, `cancelled` or `expired`.';
COMMENT ON COLUMN tenon.finished.last_error IS 'What went wrong the last time; of a cancelled task who cancelled it, of an expired one what it missed.';
COMMENT ON COLUMN tenon.finished.result IS 'What its handler returned.';
COMMENT ON COLUMN tenon.finished.limit_keys IS 'Of a cancelled or expired one: the keys whose limits held for it.';
COMMENT ON COLUMN tenon.finished.steps IS 'The steps that it had recorded, for one that was cancelled or expired: `tenon.retry` goes on behind them.';
COMMENT ON COLUMN tenon.finished.timeout_ms IS 'Of a cancelled or expired one, for `tenon.retry`: how long one run may take.';
COMMENT ON COLUMN tenon.finished.max_attempts IS 'The same: with so many failures it is dead.';
COMMENT ON COLUMN tenon.finished.max_crashes IS 'The same: it was to be dead after this many crashes in a row.';
COMMENT ON COLUMN tenon.finished.retry IS 'The same: how long it waits after a failure.';
COMMENT ON COLUMN tenon.finished.progress IS 'The same: what its handler said last; the next attempt gets it.';
CREATE INDEX finished_id ON tenon.finished (id);

CREATE TABLE tenon.dead (
    dead_at      timestamptz NOT NULL,
    id           bigint      PRIMARY KEY,
    run_at       timestamptz NOT NULL,
    start_time   timestamptz,
    created_at   timestamptz NOT NULL,
    start_before timestamptz,
    worker_id    uuid,
    timeout_ms   bigint      NOT NULL,
    claims       integer     NOT NULL,
    failures     integer     NOT NULL,
    crashes      integer     NOT NULL,
    max_attempts integer     NOT NULL,
    priority     smallint    NOT NULL,
    reason       text        NOT NULL CHECK (reason IN ('failures', 'crashes', 'handler', 'timeout')),
    queue        text        NOT NULL,
    kind         text        NOT NULL,
    payload      jsonb       NOT NULL,
    unique_key   text,
    retry        text,
    trace        text,
    last_error   text,
    error_class  text,
    enqueued_by  text,
    compensates  bigint,
    limit_keys   text[],
    steps        jsonb,
    progress     jsonb,
    max_crashes  integer
);
COMMENT ON TABLE tenon.dead IS 'Tasks that failed for good. `tenon.delete` deletes them; a cleaner deletes them after `dead_keep` (`tenon.setting`).';
COMMENT ON COLUMN tenon.dead.dead_at IS 'When it died.';
COMMENT ON COLUMN tenon.dead.steps IS 'The steps that it had recorded: `tenon.retry` goes on behind them.';
COMMENT ON COLUMN tenon.dead.progress IS 'What its handler said last; the attempt after `tenon.retry` gets it.';
COMMENT ON COLUMN tenon.dead.reason IS '`failures`: `max_attempts` of them; `crashes`: three workers died with it; `handler`: its handler said so; `timeout`: it ran out of time, and its kind says `dead`.';
CREATE INDEX dead_at ON tenon.dead (dead_at);

-- Append-only. A good attempt is the row of tenon.finished.
CREATE TABLE tenon.attempt (
    ended_at    timestamptz NOT NULL,
    id          bigint      NOT NULL,
    attempt     integer     NOT NULL,
    claims      integer     NOT NULL,
    started_at  timestamptz NOT NULL,
    worker_id   uuid        NOT NULL,
    host        text,
    outcome     text        NOT NULL CHECK (outcome IN ('failed', 'timed_out', 'crashed', 'dead')),
    queue       text        NOT NULL,
    kind        text        NOT NULL,
    error_class text,
    error       text,
    exit_code   integer,
    signal      integer
) PARTITION BY RANGE (ended_at);
ALTER TABLE tenon.attempt REPLICA IDENTITY FULL;
COMMENT ON TABLE tenon.attempt IS 'Attempts that did not end well; a partition a day, which goes when its time has come (`attempt_keep` in `tenon.setting`). The attempt that ended well is the row of `tenon.finished`.';
COMMENT ON COLUMN tenon.attempt.ended_at IS 'When it ended.';
COMMENT ON COLUMN tenon.attempt.id IS 'The task.';
COMMENT ON COLUMN tenon.attempt.attempt IS 'Which attempt it was, from 1.';
COMMENT ON COLUMN tenon.attempt.claims IS 'How often the task had been claimed, with this one.';
COMMENT ON COLUMN tenon.attempt.started_at IS 'When the task was claimed for it.';
COMMENT ON COLUMN tenon.attempt.worker_id IS 'The worker (`tenon.worker`, for a week).';
COMMENT ON COLUMN tenon.attempt.host IS 'The machine it ran on.';
COMMENT ON COLUMN tenon.attempt.outcome IS '`failed`, `timed_out`, `crashed`: the worker died; `dead`: the handler said that it can never work.';
COMMENT ON COLUMN tenon.attempt.error IS 'What went wrong, with the last words on stderr of a process that ended; at most 8,192 characters.';
COMMENT ON COLUMN tenon.attempt.exit_code IS 'Of the handler''s process, if it ended by itself.';
COMMENT ON COLUMN tenon.attempt.signal IS 'The signal that ended it.';
CREATE INDEX attempt_id ON tenon.attempt (id);

-- The tasks of flows: a row for each, for as long as its flow is kept. Here, because tenon.tasks shows the flow.
CREATE TABLE tenon.flow_task (
    id      bigint PRIMARY KEY,
    flow    bigint NOT NULL,
    name    text,
    parents bigint[],
    state   text,
    result  jsonb
);
CREATE INDEX flow_task_state ON tenon.flow_task (flow, state);
COMMENT ON TABLE tenon.flow_task IS 'The tasks of flows, while the flow is kept.';
COMMENT ON COLUMN tenon.flow_task.name IS 'Its name in the description of the flow; NULL = it has none.';
COMMENT ON COLUMN tenon.flow_task.parents IS 'The tasks that it was to wait for; NULL = none.';
COMMENT ON COLUMN tenon.flow_task.state IS 'How it ended: `done`, `dead`, `cancelled` or `expired`; NULL = it has not ended, or nobody has seen it yet (`tenon.settle`).';
COMMENT ON COLUMN tenon.flow_task.result IS 'What its handler returned, if tasks waited for it.';

-- Signals, and the tasks that wait for one. Here, because tenon.requeue() writes there. `settled`: tenon.settle() has
-- brought it together with what was committed before; whichever of the two commits last is the one that is not yet.
CREATE TABLE tenon.signal (
    name    text        PRIMARY KEY,
    payload jsonb       NOT NULL,
    sent_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    sent_by text        NOT NULL DEFAULT session_user,
    settled boolean     NOT NULL DEFAULT false
);
CREATE INDEX signal_unsettled ON tenon.signal (sent_at) WHERE NOT settled;
CREATE INDEX signal_settled ON tenon.signal (sent_at) WHERE settled;
COMMENT ON TABLE tenon.signal IS 'The signals that were sent (`tenon.signal`), for `signal_keep` of `tenon.setting`.';
COMMENT ON COLUMN tenon.signal.name IS 'Its name, 1 to 100 bytes.';
COMMENT ON COLUMN tenon.signal.payload IS 'What it carries; each task that waits for it gets that.';
COMMENT ON COLUMN tenon.signal.sent_at IS 'When it was sent.';
COMMENT ON COLUMN tenon.signal.sent_by IS 'The role that had logged in to send it.';
COMMENT ON COLUMN tenon.signal.settled IS 'Those that waited for it have got it.';

CREATE TABLE tenon.waiting (
    task_id bigint      PRIMARY KEY,
    signal  text        NOT NULL,
    until   timestamptz NOT NULL,
    settled boolean     NOT NULL DEFAULT false
);
CREATE INDEX waiting_signal ON tenon.waiting (signal, task_id);
CREATE INDEX waiting_until ON tenon.waiting (until);
CREATE INDEX waiting_unsettled ON tenon.waiting (task_id) WHERE NOT settled;
COMMENT ON TABLE tenon.waiting IS 'The blocked tasks that wait for a signal.';
COMMENT ON COLUMN tenon.waiting.task_id IS 'The task.';
COMMENT ON COLUMN tenon.waiting.signal IS 'The name of the signal.';
COMMENT ON COLUMN tenon.waiting.until IS 'Then it goes on without.';
COMMENT ON COLUMN tenon.waiting.settled IS 'The signal had not come when that was looked for.';

-- What "ready" means. Every statement that claims or publishes is held against this view by a test.
CREATE VIEW tenon.ready AS
    SELECT t.*
    FROM tenon.task t
    WHERE t.start_time IS NULL
      AND t.run_at <= clock_timestamp()
      AND coalesce(t.start_before > clock_timestamp(), true)
      AND NOT EXISTS (SELECT FROM tenon.queue q WHERE q.name = t.queue AND q.paused)
      AND NOT EXISTS (SELECT FROM tenon.kind k WHERE k.name = t.kind AND k.paused)
      AND NOT (SELECT s.paused FROM tenon.setting s);

-- A dead task's last attempt is not among its failures when its handler said that it can never work.
CREATE VIEW tenon.tasks AS
    SELECT id, queue, kind,
           CASE WHEN start_time IS NOT NULL THEN 'running'
                WHEN start_before <= clock_timestamp() THEN 'expired'
                WHEN run_at = 'infinity' THEN 'blocked'
                WHEN run_at <= clock_timestamp() THEN 'ready'
                WHEN failures + crashes > 0 THEN 'retrying'
                ELSE 'scheduled' END AS state,
           priority, created_at,
           coalesce(wanted_at, nullif(run_at, 'infinity'), (SELECT s.due_at FROM tenon.suspect s WHERE s.task_id = t.id), run_at) AS run_at,
           start_time, NULL::timestamptz AS end_time, worker_id,
           failures + crashes + (start_time IS NOT NULL)::integer AS attempt, claims, failures, crashes,
           payload, progress, NULL::jsonb AS result, unique_key, trace, last_error, error_class, enqueued_by, start_before, compensates,
           flow, limit_keys, steps
    FROM tenon.task t
    UNION ALL
    SELECT id, queue, kind, outcome::text, priority, created_at, run_at, start_time, finished_at, worker_id,
           failures + crashes + (start_time IS NOT NULL)::integer, claims, failures, crashes,
           payload, progress, result, unique_key, trace, last_error, NULL, enqueued_by, NULL, NULL,
           (SELECT m.flow FROM tenon.flow_task m WHERE m.id = f.id), limit_keys, steps
    FROM tenon.finished f
    UNION ALL
    SELECT id, queue, kind, 'dead', priority, created_at, run_at, start_time, dead_at, worker_id,
           failures + crashes + (reason = 'handler')::integer, claims, failures, crashes,
           payload, progress, NULL, unique_key, trace, last_error, error_class, enqueued_by, start_before, compensates,
           (SELECT m.flow FROM tenon.flow_task m WHERE m.id = d.id), limit_keys, steps
    FROM tenon.dead d;

COMMENT ON VIEW tenon.ready IS 'The tasks that may start now: not started, `run_at` has come, `start_before` has not, and neither the queue nor the kind nor everything is paused.';
COMMENT ON VIEW tenon.tasks IS 'Every task there is, unfinished or ended, in one shape.';
COMMENT ON COLUMN tenon.tasks.state IS '`blocked`, `scheduled`, `ready`, `running`, `retrying`, `done`, `cancelled`, `expired` or `dead` ([states.md](states.md)).';
COMMENT ON COLUMN tenon.tasks.run_at IS 'It does not start before this moment, nor while it is blocked.';
COMMENT ON COLUMN tenon.tasks.limit_keys IS 'The keys whose limits hold for it; NULL = none, or it is done.';
COMMENT ON COLUMN tenon.tasks.end_time IS 'When it ended; NULL before.';
COMMENT ON COLUMN tenon.tasks.attempt IS 'How many attempts were made, with the one that runs. What was released or put off was none.';
COMMENT ON COLUMN tenon.tasks.result IS 'What its handler returned.';
-- Columns of one name mean the same everywhere.
DO $$
DECLARE
    c record;
BEGIN
    FOR c IN SELECT o.attrelid::regclass AS relation, o.attname, col_description(t.attrelid, t.attnum) AS text
               FROM pg_attribute o JOIN pg_attribute t USING (attname)
              WHERE o.attrelid = ANY ('{tenon.again,tenon.unique_hold,tenon.finished,tenon.dead,tenon.attempt,tenon.flow_task,tenon.ready,tenon.tasks}'::regclass[])
                AND t.attrelid = 'tenon.task'::regclass AND t.attnum > 0
                AND col_description(o.attrelid, o.attnum) IS NULL LOOP
        EXECUTE format('COMMENT ON COLUMN %s.%I IS %L', c.relation, c.attname, c.text);
    END LOOP;
END $$;

-- Partitions of tenon.finished and tenon.attempt for today and the days to come. Each is made as a plain table and
-- attached, which stops no finish. Returns how many were made.
CREATE FUNCTION tenon.make_partitions(days_ahead integer DEFAULT 7) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    today  date := (clock_timestamp() AT TIME ZONE 'UTC')::date;
    made   integer := 0;
    parent text;
    day    date;
    part   text;
BEGIN
    FOR parent, day IN SELECT p, today + i FROM unnest('{finished,attempt}'::text[]) p, generate_series(-1, days_ahead) i LOOP
        part := parent || '_' || to_char(day, 'YYYYMMDD');
        CONTINUE WHEN to_regclass(format('tenon.%I', part)) IS NOT NULL;
        EXECUTE format('LOCK TABLE tenon.%I IN SHARE UPDATE EXCLUSIVE MODE', parent);  -- two makers at once; ATTACH takes it anyway
        -- the table itself: to_regclass remembers that there was none, and no lock makes it look again
        CONTINUE WHEN EXISTS (SELECT FROM pg_class WHERE relname = part AND relnamespace = 'tenon'::regnamespace);
        EXECUTE format('CREATE TABLE tenon.%I (LIKE tenon.%I INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', part, parent);
        EXECUTE format('ALTER TABLE tenon.%I REPLICA IDENTITY FULL', part);
        EXECUTE format('ALTER TABLE tenon.%I ATTACH PARTITION tenon.%I FOR VALUES FROM (%L) TO (%L)',
                       parent, part, day::timestamptz, (day + 1)::timestamptz);
        made := made + 1;
    END LOOP;
    RETURN made;
END $$;

-- Drops one day of the history or of the attempts that is due: older than history_keep or attempt_keep, or beyond
-- history_rows_max counted from the newest day. Returns its partition's name, or NULL when none is due. Yesterday's is
-- made ahead, so an empty one stays. A reader in the way for 100 ms raises 55P03: every finish waits behind this one,
-- and so it does not stay. It takes the locks of parent and partition one after the other, hence at most twice that.
CREATE FUNCTION tenon.drop_history() RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET lock_timeout = '100 ms' AS $$
DECLARE
    part text;
BEGIN
    PERFORM tenon.settings();
    WITH day AS (
        SELECT c.oid, c.relname, i.inhparent, to_date(right(c.relname, 8), 'YYYYMMDD') + 1 AS ends,
               CASE WHEN c.reltuples > 0 AND c.relpages > 0
                    THEN c.reltuples / c.relpages * (pg_relation_size(c.oid) / current_setting('block_size')::integer)
                    ELSE pg_relation_size(c.oid) / 200.0 END AS n
          FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
         WHERE i.inhparent IN ('tenon.finished'::regclass, 'tenon.attempt'::regclass)
           AND c.relname ~ '^(finished|attempt)_[0-9]{8}$'
    ), old AS (
        SELECT d.*, sum(d.n) OVER (PARTITION BY d.inhparent ORDER BY d.ends DESC) AS n_newer FROM day d
    )
    SELECT o.relname INTO part
      FROM old o CROSS JOIN tenon.setting s
     WHERE o.ends <= now() - interval '1 hour'
       AND (o.ends <= now() - CASE WHEN o.inhparent = 'tenon.attempt'::regclass THEN s.attempt_keep ELSE s.history_keep END
            OR o.n_newer > s.history_rows_max)
       AND (o.ends < current_date OR pg_relation_size(o.oid) > 0)
     ORDER BY o.ends LIMIT 1;
    IF part IS NOT NULL THEN
        EXECUTE format('DROP TABLE IF EXISTS tenon.%I', part);  -- two at once
    END IF;
    RETURN part;
END $$;

-- Deletes up to so many of each: dead tasks whose dead_keep is over, rows of the audit whose audit_keep is, keys whose
-- unique_for is, starts that are older than the longest `per` of all limits, and flows that ended as long ago as the history
-- is kept, but at least an hour; returns how many, `most` at least if its time was over before it was through.
CREATE FUNCTION tenon.purge(most integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    begun timestamptz := clock_timestamp();
    s tenon.setting := tenon.settings();
    n integer := 0;
    m integer;
    k integer;
    starts integer;
BEGIN
    WHILE n < most LOOP
        DELETE FROM tenon.dead WHERE id = ANY (ARRAY(
            SELECT d.id FROM tenon.dead d WHERE d.dead_at < now() - s.dead_keep ORDER BY d.dead_at LIMIT least(16, most - n) FOR UPDATE SKIP LOCKED));
        GET DIAGNOSTICS m = ROW_COUNT;
        n := n + m;
        EXIT WHEN m = 0;
        IF tenon.turn_is_over(begun) THEN
            n := most;  -- there may be more
        END IF;
    END LOOP;
    DELETE FROM tenon.audit WHERE id = ANY (ARRAY(
        SELECT a.id FROM tenon.audit a WHERE a.at < now() - s.audit_keep ORDER BY a.at LIMIT most FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS m = ROW_COUNT;
    DELETE FROM tenon.limit_start WHERE ctid = ANY (ARRAY(  -- of keys that are not used any more
        SELECT l.ctid FROM tenon.limit_start l
         WHERE l.at < now() - coalesce((SELECT max(r.per) FROM tenon.limit r), interval '31 days')
         ORDER BY l.at LIMIT most FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS starts = ROW_COUNT;
    DELETE FROM tenon.unique_hold WHERE (unique_key, kind) IN (
        SELECT h.unique_key, h.kind FROM tenon.unique_hold h WHERE h.until < now() ORDER BY h.until LIMIT most FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS k = ROW_COUNT;
    RETURN n + m + starts + k + tenon.purge_flows(now() - greatest(s.history_keep, interval '1 hour'), most);
END $$;
REVOKE ALL ON FUNCTION tenon.make_partitions, tenon.drop_history, tenon.purge FROM PUBLIC;
SELECT tenon.make_partitions();
