-- The tables of the schema tenon. COMMENTs say what columns mean (docs/sql.md is printed from them); docs/states.md has the life of
-- a task. Setup runs sql/before.sql first, then this file once, then sql/functions/ and sql/after.sql each time.
--
--   table          a row for each                                       written by
--   setting        (one row) the settings                               operators
--   queue          queue with defaults                                  operators
--   kind           kind with defaults                                   operators
--   paused         what is paused                                       operators
--   producer       role confined to some queues or kinds                tenon setup
--   home           (one row) the database where the schema was set up   tenon setup, tenon adopt
--   audit          act of an operator                                   the functions that operators call
--   task           unfinished task                                      producers; workers claim; what ends a task deletes its row
--   task_step      step of an unfinished task                           tenon.step, workers, settle; what ends a task deletes its rows
--   suspect        unfinished task that has crashed                     requeue and recover
--   history        task done, cancelled or expired                      what ends a task
--   dead           task that failed for good                            requeue and recover
--   attempt        attempt that did not end well                        requeue and recover
--   log_line       line that a handler logged                           workers, tenon.log_message
--   partition      partition of history, attempt and the like           make_partitions, drop_history
--   unique_hold    key enqueued with unique_for                         producers
--   again          enqueue that waits for the holder of its key         producers; settle
--   again_note     key whose holder has ended                           what ends a task; settle
--   flow           flow or batch                                        producers; settle
--   flow_task      task of a flow                                       producers; settle
--   flow_wait      parent that a blocked task waits for                 producers; settle
--   flow_note      task or flow that settle must look at                what ends a task; settle
--   limit          limit                                                operators
--   limit_task     limit key of an unfinished task                      producers; settle
--   limit_start    start that counts against a rate                     settle, take_limit
--   limit_due      key that settle must look at when its time comes     settle
--   limit_turn     fair key with tasks in line                          settle
--   limit_event    end or change that settle must look at               what enqueues, ends or requeues a task; settle
--   signal         signal that was sent                                 tenon.signal; settle
--   waiting        task that waits for a signal                         wait_signal; settle
--   schedule       schedule                                             operators; cleaners
--   worker         start of a worker process                            the worker; cleaners
--   minute         minute of a queue, a kind and a worker, with counts  the worker; cleaners
--   depth          queue and kind with tasks, counted by state          the leading cleaner
--   depth_count    (one row) when that was counted                      the leading cleaner
--   chore_failure  chore that keeps failing                             cleaners
--   publisher      role confined to some exchanges                      tenon setup
--   message        message that RabbitMQ does not have yet              tenon.publish; the relay
--   message_sent   message that was sent, for outbox_keep               the relay
--   relay          (one row) token of the session that relays           the relay
--   seen           message that a consumer has seen                     tenon.once, tenon intake
--   stream_place   stream of RabbitMQ that tenon intake reads           tenon intake
--   intake         queue or stream of a running tenon intake            tenon intake; cleaners
--   settler        (one row) locked by the session that settles         nobody
--   set_aside      row or part of settle that was too slow, left out    settle, recover
--
-- And tenon.migration, which setup makes itself. Views are with the functions of their subject. There are no foreign keys, because they
-- would cost every task: a task_id may be that of a task in history or dead. A limit key finds its limit by its whole text or by the
-- part before the colon; a row of again finds the holder of its key by (unique_key, kind).

-- --- settings, defaults, rights -----------------------------------------------------------------------------------

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
    outbox_keep       interval NOT NULL DEFAULT '0'
                               CHECK (tenon.is_span(outbox_keep, 0, 0) OR tenon.is_span(outbox_keep, 3600, 31536000000)),
    once_keep         interval NOT NULL DEFAULT '7 days' CHECK (tenon.is_span(once_keep, 3600, 31536000000)),
    log_keep          interval NOT NULL DEFAULT '7 days'
                               CHECK (tenon.is_span(log_keep, 0, 0) OR tenon.is_span(log_keep, 3600, 31536000000)),
    leader_key        bigint   NOT NULL DEFAULT tenon.random_key(),
    sleeper_key       bigint   NOT NULL DEFAULT tenon.random_key()
);
COMMENT ON TABLE tenon.setting IS 'The settings: one row, which operators change with `tenon.set_settings`.';
COMMENT ON COLUMN tenon.setting.one IS 'Always true: there is one row.';
COMMENT ON COLUMN tenon.setting.payload_bytes_max IS 'Yours to set: the largest payload that may be enqueued, in bytes of its text.';
COMMENT ON COLUMN tenon.setting.history_keep IS 'Yours to set: how long ended tasks stay in `tenon.history`, at least an hour; they are deleted in portions, each within a 24th of this time more. With 0, tasks that ended well leave no trace.';
COMMENT ON COLUMN tenon.setting.exchange IS 'Yours to set, before anything else runs: the exchange in RabbitMQ, of a-z 0-9 _ -. Databases that share a virtual host have one each.';
COMMENT ON COLUMN tenon.setting.cancel_own_only IS 'Yours to set: while true, only the role that enqueued a task, an operator or the owner may cancel it, or change it through its unique key. Confined producers (`tenon.producer`) may do so only to their own tasks, whatever this setting is.';
COMMENT ON COLUMN tenon.setting.attempt_keep IS 'Yours to set: how long attempts that did not end well stay in `tenon.attempt`, at least an hour; they are deleted in portions, each within a 24th of this time more.';
COMMENT ON COLUMN tenon.setting.dead_keep IS 'Yours to set: how long dead tasks stay in `tenon.dead`, at least an hour.';
COMMENT ON COLUMN tenon.setting.on_dead IS 'Yours to set: the kind of the task that is enqueued when a task dies whose kind has no `on_dead` of its own, for instance to tell an operator; NULL = none.';
COMMENT ON COLUMN tenon.setting.confined IS 'Internal: true while `tenon.producer` has rows.';
COMMENT ON COLUMN tenon.setting.signal_keep IS 'Yours to set: how long a signal is kept after it was sent, for tasks that wait for it later; at least an hour.';
COMMENT ON COLUMN tenon.setting.audit_keep IS 'The owner''s to set: how long rows stay in `tenon.audit`.';
COMMENT ON COLUMN tenon.setting.outbox_keep IS 'Yours to set: how long messages that were sent to RabbitMQ stay in `tenon.message_sent`, from where `tenon outbox replay` publishes them again. 0, the default, keeps none; otherwise at least an hour. They are deleted in portions, each within a 24th of this time more.';
COMMENT ON COLUMN tenon.setting.once_keep IS 'Yours to set: how long `tenon.once` and `tenon intake` remember a message at least, unless the call gives `keep`; at least an hour. Set it longer than the longest time after which a message can be delivered again.';
COMMENT ON COLUMN tenon.setting.log_keep IS 'Yours to set: how long the lines that handlers logged stay in `tenon.log_line`, at least an hour; they are deleted in portions, each within a 24th of this time more. With 0, no lines are stored.';
COMMENT ON COLUMN tenon.setting.leader_key IS 'Internal: the session that holds this advisory lock leads, if it may (`tenon.lock`).';
COMMENT ON COLUMN tenon.setting.sleeper_key IS 'Internal: while it holds this advisory lock it sleeps, and an enqueue wakes it by NOTIFY.';
COMMENT ON COLUMN tenon.setting.history_rows_max IS 'Yours to set: the maximum number of rows of each of `tenon.history`, `tenon.attempt`, `tenon.log_line` and `tenon.message_sent`. At about a twentieth more, the oldest are deleted, whatever their age.';

CREATE TABLE tenon.queue (
    name         text     PRIMARY KEY CHECK (name ~ '^[a-z0-9_][a-z0-9_.-]{0,62}$'),
    priority     smallint CHECK (priority BETWEEN 0 AND 9),
    max_attempts integer  CHECK (max_attempts BETWEEN 1 AND 1000),
    timeout_ms   bigint   CHECK (timeout_ms BETWEEN 1 AND 2592000000),
    retry        text     CHECK (tenon.is_retry(retry)),
    limited      boolean  NOT NULL DEFAULT false
);
COMMENT ON TABLE tenon.queue IS 'Defaults of queues; operators change them with `tenon.set_queue`. A queue needs no row. Defaults are copied into a task when it is enqueued.';
COMMENT ON COLUMN tenon.queue.name IS 'The queue: 1 to 63 of `a-z 0-9 _ . -`, not beginning with `.` or `-`.';
COMMENT ON COLUMN tenon.queue.priority IS 'Yours to set: priority of its tasks, 0 to 9, higher first; NULL = 4.';
COMMENT ON COLUMN tenon.queue.max_attempts IS 'Yours to set: the number of failures that makes a task of it dead, 1 to 1,000; NULL = 25.';
COMMENT ON COLUMN tenon.queue.timeout_ms IS 'Yours to set: how long one run of its tasks may take, in milliseconds, at most 30 days; NULL = one hour.';
COMMENT ON COLUMN tenon.queue.retry IS 'Yours to set: the delay before a retry: `polynomial`; `exponential(10 s, 1 h, 10 %)`, `linear(...)` or `constant(...)` with the first delay, optionally the longest (30 days) and the random addition (10 %); or `polynomial(1 day, 10 %)` with the longest (30 days) and the random addition (10 n s); NULL = `polynomial`, n^4 + 15 s.';
COMMENT ON COLUMN tenon.queue.limited IS 'Internal: there is a limit `queue/NAME` (`tenon.set_limit`), and tasks that are enqueued to it get that key.';
CREATE TRIGGER limited_stays BEFORE DELETE ON tenon.queue FOR EACH ROW WHEN (OLD.limited) EXECUTE FUNCTION tenon.limited_stays();
CREATE TRIGGER limited_named BEFORE UPDATE OF name ON tenon.queue FOR EACH ROW WHEN (OLD.limited AND OLD.name <> NEW.name)
    EXECUTE FUNCTION tenon.limited_stays();

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
    limit_keys   text[],
    history_keep interval CHECK (tenon.is_span(history_keep, 3600, 31536000000)),
    dead_keep    interval CHECK (tenon.is_span(dead_keep, 3600, 31536000000)),
    limited      boolean  NOT NULL DEFAULT false
);
COMMENT ON TABLE tenon.kind IS 'Defaults of kinds, which override those of the queue; operators change them with `tenon.set_kind`. A kind needs no row. Defaults are copied into a task when it is enqueued.';
COMMENT ON COLUMN tenon.kind.name IS 'The kind: 1 to 100 of `A-Z a-z 0-9 _ . : -`.';
COMMENT ON COLUMN tenon.kind.queue IS 'Yours to set: the queue of its tasks; NULL = `default`.';
COMMENT ON COLUMN tenon.kind.priority IS 'Yours to set: priority of its tasks, 0 to 9, higher first; NULL = that of the queue.';
COMMENT ON COLUMN tenon.kind.max_attempts IS 'Yours to set: the number of failures that makes a task of it dead, 1 to 1,000; NULL = that of the queue.';
COMMENT ON COLUMN tenon.kind.timeout_ms IS 'Yours to set: how long one run of its tasks may take, in milliseconds, at most 30 days; NULL = that of the queue.';
COMMENT ON COLUMN tenon.kind.timeout_min_ms IS 'Yours to set: the minimum `timeout` of its tasks, in milliseconds.';
COMMENT ON COLUMN tenon.kind.retry IS 'Yours to set: the delay before a retry: `polynomial`; `exponential(10 s, 1 h, 10 %)`, `linear(...)` or `constant(...)` with the first delay, optionally the longest (30 days) and the random addition (10 %); or `polynomial(1 day, 10 %)` with the longest (30 days) and the random addition (10 n s); NULL = that of the queue.';
COMMENT ON COLUMN tenon.kind.on_dead IS 'Yours to set: the kind of the task that is enqueued when a task of it dies; its payload is the whole dead task. NULL = that of `tenon.setting`. When such a task dies itself, no further one is enqueued.';
COMMENT ON COLUMN tenon.kind.max_crashes IS 'Yours to set: a task of this kind is dead after this many crashes in a row, 2 to 100; NULL = 3. Before the last one it runs alone.';
COMMENT ON COLUMN tenon.kind.limit_keys IS 'Yours to set: the limit keys of its tasks that are enqueued without limit keys; NULL = none.';
COMMENT ON COLUMN tenon.kind.history_keep IS 'Yours to set: how long its ended tasks stay in `tenon.history`, at least an hour; NULL = `history_keep` of `tenon.setting`.';
COMMENT ON COLUMN tenon.kind.dead_keep IS 'Yours to set: how long its dead tasks stay in `tenon.dead`, at least an hour; NULL = `dead_keep` of `tenon.setting`.';
COMMENT ON COLUMN tenon.kind.limited IS 'Internal: there is a limit `kind/NAME` (`tenon.set_limit`), and tasks of it get that key when they are enqueued.';
COMMENT ON COLUMN tenon.kind.on_timeout IS 'Yours to set: what happens when a run reaches its timeout: `retry` counts a failure, `dead` makes the task dead.';
CREATE TRIGGER limited_stays BEFORE DELETE ON tenon.kind FOR EACH ROW WHEN (OLD.limited) EXECUTE FUNCTION tenon.limited_stays();
CREATE TRIGGER limited_named BEFORE UPDATE OF name ON tenon.kind FOR EACH ROW WHEN (OLD.limited AND OLD.name <> NEW.name)
    EXECUTE FUNCTION tenon.limited_stays();

-- One row pauses something. The names of limits are in byte order, like those in tenon.limit.
CREATE TABLE tenon.paused (
    what       text        NOT NULL CHECK (what IN ('everything', 'queue', 'kind', 'limit', 'schedule')),
    name       text COLLATE "C" NOT NULL CHECK ((name = '') = (what = 'everything')),
    paused_by  text        NOT NULL,
    paused_at  timestamptz NOT NULL,
    paused_why text        CHECK (length(paused_why) <= 1000),
    PRIMARY KEY (what, name)
);
COMMENT ON TABLE tenon.paused IS 'What is paused, by whom, since when and why. Operators change it with `tenon.pause`, `tenon.pause_limit` and `tenon.pause_schedule`, and with the functions that resume. Workers claim no tasks of a paused queue or kind, a paused limit releases no tasks, and a paused schedule does not tick. A paused queue has an effect at once; of a paused kind, or of everything, workers learn by NOTIFY, or within 5 s if they miss it. Running tasks continue.';
COMMENT ON COLUMN tenon.paused.what IS '`everything`, `queue`, `kind`, `limit` or `schedule`.';
COMMENT ON COLUMN tenon.paused.name IS 'Its name; empty with `everything`.';
COMMENT ON COLUMN tenon.paused.paused_by IS 'The role that paused it.';
COMMENT ON COLUMN tenon.paused.paused_at IS 'When that was.';
COMMENT ON COLUMN tenon.paused.paused_why IS 'The reason that this role gave.';

CREATE TABLE tenon.producer (
    role   regrole PRIMARY KEY,
    queues text[],
    kinds  text[]
);
COMMENT ON TABLE tenon.producer IS 'Roles that are confined to some queues or kinds; `tenon setup --grant-producer ROLE --queues ... --kinds ...` writes it. It holds for the role that logged in and for those it is a member of: of several rows one must allow it. A superuser is not confined.';
COMMENT ON COLUMN tenon.producer.role IS 'The role; it stays this one when it is renamed.';
COMMENT ON COLUMN tenon.producer.queues IS 'The queues that it may enqueue to and whose tasks it may run; NULL = all.';
COMMENT ON COLUMN tenon.producer.kinds IS 'The kinds that it may enqueue and whose tasks it may run; NULL = all.';
CREATE TRIGGER note_confined AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON tenon.producer
    FOR EACH STATEMENT EXECUTE FUNCTION tenon.note_confined();

CREATE TABLE tenon.home (
    one         boolean     PRIMARY KEY DEFAULT true CHECK (one),
    system      bigint,
    database    oid         NOT NULL,
    relation    oid         NOT NULL,
    name        text,
    adopted_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    adopted_by  text        NOT NULL DEFAULT session_user
);
COMMENT ON TABLE tenon.home IS 'Where the schema was set up or adopted. In a copy it still names the original, and workers and cleaners refuse to run there until `tenon adopt`.';
COMMENT ON COLUMN tenon.home.one IS 'Always true: there is one row.';
COMMENT ON COLUMN tenon.home.system IS 'The system identifier of the server''s data (`pg_control_system`), for people: `pg_upgrade` changes it. NULL = it may not be read there.';
COMMENT ON COLUMN tenon.home.database IS 'The OID of the database: another one after CREATE DATABASE ... TEMPLATE or a restored dump; `pg_upgrade` keeps it.';
COMMENT ON COLUMN tenon.home.relation IS 'The OID of this table: another one after a restored dump; `pg_upgrade` keeps it.';
COMMENT ON COLUMN tenon.home.name IS 'The server''s setting `tenon.home`, if its configuration has one; NULL = it had none. It tells a copy of the data directory, which has nothing else that differs: where the server has another name, or one while this is NULL, the schema is a copy.';
COMMENT ON COLUMN tenon.home.adopted_at IS 'When that was.';
COMMENT ON COLUMN tenon.home.adopted_by IS 'The role that did it.';

CREATE TABLE tenon.audit (
    id      bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    who     text        NOT NULL DEFAULT session_user,
    act     text        NOT NULL,
    what    jsonb       NOT NULL,
    n       bigint      NOT NULL,
    skipped bigint      NOT NULL DEFAULT 0
);
CREATE INDEX audit_at ON tenon.audit (at);
COMMENT ON TABLE tenon.audit IS 'What operators did: one row for each act that changed something, kept for `audit_keep` (`tenon.setting`).';
COMMENT ON COLUMN tenon.audit.id IS 'The number of the act.';
COMMENT ON COLUMN tenon.audit.at IS 'When it began.';
COMMENT ON COLUMN tenon.audit.who IS 'The role that had logged in.';
COMMENT ON COLUMN tenon.audit.act IS '`retry`, `undo` (of a retry), `drain`, `cancel`, `close`, `cancel_flow`, `delete`, `run_now`, `set`, `pause`, `resume`, `set_queue`, `set_kind`, `set_settings`, `set_schedule`, `remove_schedule`, `pause_schedule`, `resume_schedule`, `run_schedule_now`, `set_limit`, `remove_limit`, `pause_limit`, `resume_limit` or `adopt`.';
COMMENT ON COLUMN tenon.audit.what IS 'The filter, the changes and the reason, if they were given. `web_user`: the user who had logged in to `tenon ui`, from the session''s `tenon.web_user`.';
COMMENT ON COLUMN tenon.audit.n IS 'How many tasks, queues or kinds it changed.';
COMMENT ON COLUMN tenon.audit.skipped IS 'How many it found but did not change: another session had locked them, or another task holds their unique key.';

-- --- tasks --------------------------------------------------------------------------------------------------------
-- Domains, because a CHECK of a table is parsed again by each statement that writes to it (docs/decisions/0017).
CREATE DOMAIN tenon.run_ms AS bigint CHECK (VALUE BETWEEN 1 AND 2592000000);
CREATE DOMAIN tenon.outcome AS text CHECK (VALUE IN ('done', 'cancelled', 'expired'));

-- The hot table: unfinished tasks only. A claim changes start_time, claim_key, worker_id and claims; no index
-- and no index predicate may name those four, so that claims stay HOT updates.
-- A claim makes a row 32 bytes longer, so that less than a half of each page may be filled: 43 % leave
-- room for a second version of every row, even of the smallest.
-- Columns without NULLs come first, and columns that are seldom set last: so PostgreSQL finds a column without walking over others.
-- claims is beside start_time, because a claim logs all bytes between the columns that it changes.
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
    step_count   integer,
    step_bytes   integer,
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
    watched      boolean,
    max_crashes  integer,
    tags         text[],
    undo         jsonb,
    PRIMARY KEY (id)
) WITH (fillfactor = 43, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0,
        autovacuum_vacuum_insert_scale_factor = 0.2);
COMMENT ON TABLE tenon.task IS 'Unfinished tasks. Read it freely, but change it only by functions: if a row is deleted by hand, nothing that waits for the task continues.';
COMMENT ON COLUMN tenon.task.id IS 'The number of the task.';
COMMENT ON COLUMN tenon.task.run_at IS 'It does not start before this moment; `infinity` while it is blocked.';
COMMENT ON COLUMN tenon.task.start_time IS 'When it was last claimed; NULL = not started.';
COMMENT ON COLUMN tenon.task.created_at IS 'When it was enqueued.';
COMMENT ON COLUMN tenon.task.start_before IS 'If it has not started by this time, it is `expired`; NULL = no limit.';
COMMENT ON COLUMN tenon.task.claim_key IS 'The key of its last claim, 64 random bits: anyone who knows the key and the id may finish the task and record its steps and progress; NULL = not started.';
COMMENT ON COLUMN tenon.task.worker_id IS 'The worker that claimed it last.';
COMMENT ON COLUMN tenon.task.timeout_ms IS 'How long one run may take, in milliseconds.';
COMMENT ON COLUMN tenon.task.claims IS 'How often it was claimed; never goes down.';
COMMENT ON COLUMN tenon.task.failures IS 'Attempts that failed or ran out of time.';
COMMENT ON COLUMN tenon.task.crashes IS 'Attempts during which its worker died, or its child died while it had other tasks too.';
COMMENT ON COLUMN tenon.task.max_attempts IS 'The number of failures that makes it dead.';
COMMENT ON COLUMN tenon.task.max_crashes IS 'It is dead after this many crashes in a row; NULL = `max_crashes` of its kind at that time.';
COMMENT ON COLUMN tenon.task.priority IS '0 to 9, higher first.';
COMMENT ON COLUMN tenon.task.delayed IS 'The cleaner publishes its wake-up when `run_at` has come.';
COMMENT ON COLUMN tenon.task.announced IS 'Its producer publishes its wake-up.';
COMMENT ON COLUMN tenon.task.queue IS 'Where it waits.';
COMMENT ON COLUMN tenon.task.kind IS 'What it does; selects the handler.';
COMMENT ON COLUMN tenon.task.payload IS 'The handler''s input.';
COMMENT ON COLUMN tenon.task.payload_bytes IS 'The size of its payload as text, so that a claim need not read the payload.';
COMMENT ON COLUMN tenon.task.unique_key IS 'No two unfinished tasks of a kind have the same.';
COMMENT ON COLUMN tenon.task.retry IS 'The delay before a retry, in the form of `tenon.kind`; NULL = the policy that its kind or queue has at that time.';
COMMENT ON COLUMN tenon.task.trace IS 'A W3C traceparent.';
COMMENT ON COLUMN tenon.task.progress IS 'The progress that its handler recorded last (`tenon.progress`); the next attempt gets it.';
COMMENT ON COLUMN tenon.task.awaited IS 'Somebody waits for its end (`tenon.await`).';
COMMENT ON COLUMN tenon.task.watched IS 'Somebody wants to know of its progress (`tenon.await`).';
COMMENT ON COLUMN tenon.task.tags IS 'The tags that were given when it was enqueued; NULL = none.';
COMMENT ON COLUMN tenon.task.undo IS 'Of a task that was retried when it was dead: what its row in `tenon.dead` had that is lost here, and its claims then. While it has no more claims, the retry can be undone (`tenon.undo_retry_where`). NULL = it was not retried, or that cannot be undone.';
COMMENT ON COLUMN tenon.task.step_count IS 'The number of its rows in `tenon.task_step`; NULL = none.';
COMMENT ON COLUMN tenon.task.step_bytes IS 'The size of its steps in bytes, printed as one object; NULL = none.';
COMMENT ON COLUMN tenon.task.last_error IS 'The last error, at most 8,192 characters.';
COMMENT ON COLUMN tenon.task.error_class IS 'The class of that error: the handler names it; otherwise it is the exception in the error, how the process ended, or the error''s first word.';
COMMENT ON COLUMN tenon.task.enqueued_by IS 'The role that had logged in to enqueue it.';
COMMENT ON COLUMN tenon.task.compensates IS 'The dead task for which this one was enqueued (`on_dead`).';
COMMENT ON COLUMN tenon.task.again IS 'A row of `tenon.again` that waits for its end.';
COMMENT ON COLUMN tenon.task.wanted_at IS 'While it is blocked: the `run_at` that it gets when it is unblocked; NULL = it is not blocked.';
COMMENT ON COLUMN tenon.task.flow IS 'The flow that it belongs to; NULL = none.';
COMMENT ON COLUMN tenon.task.limit_keys IS 'The keys whose limits apply to it; NULL = none.';
-- id + 0 and not id, so that no plan looks a task up here by its id.
CREATE INDEX task_order ON tenon.task (queue, priority DESC, run_at, (id + 0));
CREATE INDEX task_delayed ON tenon.task (run_at) WHERE delayed;
CREATE UNIQUE INDEX task_unique_key ON tenon.task (unique_key, kind) WHERE unique_key IS NOT NULL;
CREATE INDEX task_tags ON tenon.task USING gin (tags) WHERE tags IS NOT NULL;
CREATE INDEX task_start_before ON tenon.task (start_before) WHERE start_before IS NOT NULL;
CREATE INDEX task_error_class ON tenon.task (error_class) WHERE error_class IS NOT NULL;  -- for lists

-- What unfinished tasks have recorded, a row for each step: as one document in the task's row, each step would write all
-- that came before it. Only a session that has locked the task writes here. When the task ends, tenon.record_end() deletes the
-- rows; tenon.history and tenon.dead keep them as one object with the names and times in their order, of which
-- tenon.retry_where() makes rows again.
CREATE TABLE tenon.task_step (
    task_id  bigint,
    at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    position integer NOT NULL,
    name     text COLLATE "C",
    value    jsonb NOT NULL,
    PRIMARY KEY (task_id, name)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);
COMMENT ON TABLE tenon.task_step IS 'The steps that unfinished tasks have recorded (`tenon.step`), and the signals that they have received; the next attempt gets them.';
COMMENT ON COLUMN tenon.task_step.task_id IS 'The task.';
COMMENT ON COLUMN tenon.task_step.at IS 'When it was first recorded.';
COMMENT ON COLUMN tenon.task_step.position IS 'The steps of a task are numbered from 1, in the order in which they were recorded.';
COMMENT ON COLUMN tenon.task_step.name IS 'The name of the step or signal.';
COMMENT ON COLUMN tenon.task_step.value IS 'What was recorded first under the name.';

-- The unfinished tasks that have crashed. A task whose next crash would be its last is a suspect: it is blocked, and
-- tenon.claim_alone() claims it. tenon.requeue() writes these rows; every statement that ends a task deletes its row
-- (tenon.record_end_of).
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
COMMENT ON COLUMN tenon.suspect.mark IS 'A hash of its steps and its progress at the last crash.';
COMMENT ON COLUMN tenon.suspect.alone IS 'It is a suspect: next it runs alone, without other tasks in its worker.';
COMMENT ON COLUMN tenon.suspect.due_at IS 'A suspect does not start before this moment; NULL = not before its limits release it.';
COMMENT ON COLUMN tenon.suspect.claims IS '`claims` of the task in the run that it has alone; NULL = it has no such run.';

-- The partition where new rows of tenon.history go, and of each table that is partitioned like it. A sequence, since a column's default can read it, and
-- no open transaction stops it.
CREATE SEQUENCE tenon.history_part AS integer;
CREATE SEQUENCE tenon.attempt_part AS integer;
CREATE SEQUENCE tenon.message_sent_part AS integer;
CREATE SEQUENCE tenon.log_line_part AS integer;

-- The partitions that rows have gone to. Partitions by number and not by time: a new one is begun when one is full, whatever the rate.
CREATE TABLE tenon.partition (
    parent   text        NOT NULL CHECK (parent IN ('history', 'attempt', 'message_sent', 'log_line')),
    part     integer     NOT NULL,
    begun_at timestamptz NOT NULL,
    swept    text[]      NOT NULL DEFAULT '{}',
    PRIMARY KEY (parent, part)
);
COMMENT ON TABLE tenon.partition IS 'The partitions of `tenon.history`, `tenon.attempt`, `tenon.message_sent` and `tenon.log_line` (each is a table named like `history_` and its number): 20 to 50, at most 100, of each. Rows go to the newest one; an old one is dropped when its time has come. `history_0` has no row here: rows of kinds that are kept longer than the others move there.';
COMMENT ON COLUMN tenon.partition.parent IS '`history`, `attempt`, `message_sent` or `log_line`.';
COMMENT ON COLUMN tenon.partition.part IS 'Its number.';
COMMENT ON COLUMN tenon.partition.swept IS 'Kinds with a `history_keep` of their own whose rows were removed from it.';
COMMENT ON COLUMN tenon.partition.begun_at IS 'When rows began to go there: those of the one before are not younger.';

-- Append-only.
CREATE TABLE tenon.history (
    finished_at timestamptz NOT NULL,
    id          bigint      NOT NULL,
    run_at      timestamptz NOT NULL,
    start_time  timestamptz,
    created_at  timestamptz NOT NULL,
    worker_id   uuid,
    claims      integer     NOT NULL,
    failures    integer     NOT NULL,
    crashes     integer     NOT NULL,
    part        integer     NOT NULL DEFAULT pg_sequence_last_value('tenon.history_part'),
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
    step_names  text[],
    step_times  timestamptz[],
    timeout_ms  bigint,
    max_attempts integer,
    retry       text,
    progress    jsonb,
    max_crashes integer,
    tags        text[]
) PARTITION BY LIST (part);
-- Without a replica identity no row can be deleted once a publication FOR ALL TABLES exists.
ALTER TABLE tenon.history REPLICA IDENTITY FULL;
COMMENT ON TABLE tenon.history IS 'Tasks that were done, cancelled or expired. It is partitioned; the oldest partition is dropped after `history_keep` (`tenon.setting`).';
COMMENT ON COLUMN tenon.history.finished_at IS 'When it ended.';
COMMENT ON COLUMN tenon.history.part IS 'The number of its partition (`tenon.partition`).';
COMMENT ON COLUMN tenon.history.outcome IS '`done`, `cancelled` or `expired`.';
COMMENT ON COLUMN tenon.history.last_error IS 'The last error; for a cancelled task who cancelled it, for an expired one what it missed.';
COMMENT ON COLUMN tenon.history.result IS 'What its handler returned.';
COMMENT ON COLUMN tenon.history.limit_keys IS 'Of a cancelled or expired one: the keys whose limits held for it.';
COMMENT ON COLUMN tenon.history.steps IS 'The steps that it had recorded, for one that was cancelled or expired: a retry continues after them.';
COMMENT ON COLUMN tenon.history.step_names IS 'The names of these steps, in the order in which they were recorded.';
COMMENT ON COLUMN tenon.history.step_times IS 'When these steps were recorded, in the same order.';
COMMENT ON COLUMN tenon.history.timeout_ms IS 'Of a cancelled or expired one, for `tenon.retry_where`: how long one run may take.';
COMMENT ON COLUMN tenon.history.max_attempts IS 'The same: the number of failures that makes it dead.';
COMMENT ON COLUMN tenon.history.max_crashes IS 'The same: the number of crashes in a row that makes it dead.';
COMMENT ON COLUMN tenon.history.retry IS 'The same: the delay before a retry.';
COMMENT ON COLUMN tenon.history.progress IS 'The same: the progress that was recorded last; the next attempt gets it.';
CREATE INDEX history_id ON tenon.history (id);
-- For lists. Tasks that are done and have no unique key, which are most, are in neither: an entry costs 1 us (docs/decisions/0043).
CREATE INDEX history_not_done ON tenon.history (outcome) WHERE outcome <> 'done';
CREATE INDEX history_unique_key ON tenon.history (unique_key) WHERE unique_key IS NOT NULL;
CREATE INDEX history_tags ON tenon.history USING gin (tags) WHERE tags IS NOT NULL;

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
    step_names   text[],
    step_times   timestamptz[],
    progress     jsonb,
    max_crashes  integer,
    tags         text[]
);
COMMENT ON TABLE tenon.dead IS 'Tasks that failed for good. `tenon.delete_where` deletes them; a cleaner deletes them after `dead_keep` (`tenon.setting`).';
COMMENT ON COLUMN tenon.dead.dead_at IS 'When it died.';
COMMENT ON COLUMN tenon.dead.steps IS 'The steps that it had recorded: a retry continues after them.';
COMMENT ON COLUMN tenon.dead.step_names IS 'The names of these steps, in the order in which they were recorded.';
COMMENT ON COLUMN tenon.dead.step_times IS 'When these steps were recorded, in the same order.';
COMMENT ON COLUMN tenon.dead.progress IS 'The progress that was recorded last; the attempt after a retry gets it.';
COMMENT ON COLUMN tenon.dead.reason IS '`failures`: it failed `max_attempts` times; `crashes`: it crashed `max_crashes` times in a row; `handler`: its handler said so; `timeout`: it ran past its timeout, and `on_timeout` of its kind is `dead`.';
CREATE INDEX dead_at ON tenon.dead (dead_at);
CREATE INDEX dead_queue ON tenon.dead (queue);
CREATE INDEX dead_kind ON tenon.dead (kind, dead_at);
CREATE INDEX dead_error_class ON tenon.dead (error_class);
CREATE INDEX dead_unique_key ON tenon.dead (unique_key) WHERE unique_key IS NOT NULL;
CREATE INDEX dead_tags ON tenon.dead USING gin (tags) WHERE tags IS NOT NULL;
CREATE TRIGGER limited_deleted AFTER DELETE ON tenon.dead FOR EACH ROW WHEN (OLD.limit_keys IS NOT NULL)
    EXECUTE FUNCTION tenon.limited_deleted();

-- Append-only. A good attempt is the row of tenon.history.
CREATE TABLE tenon.attempt (
    ended_at    timestamptz NOT NULL,
    task_id     bigint      NOT NULL,
    attempt     integer     NOT NULL,
    claims      integer     NOT NULL,
    part        integer     NOT NULL DEFAULT pg_sequence_last_value('tenon.attempt_part'),
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
) PARTITION BY LIST (part);
ALTER TABLE tenon.attempt REPLICA IDENTITY FULL;
COMMENT ON TABLE tenon.attempt IS 'Attempts that were not successful. It is partitioned; the oldest partition is dropped after `attempt_keep` (`tenon.setting`). The successful attempt is the row of `tenon.history`.';
COMMENT ON COLUMN tenon.attempt.ended_at IS 'When it ended.';
COMMENT ON COLUMN tenon.attempt.task_id IS 'The task.';
COMMENT ON COLUMN tenon.attempt.attempt IS 'Which attempt it was, from 1.';
COMMENT ON COLUMN tenon.attempt.claims IS 'How often the task had been claimed, including this time.';
COMMENT ON COLUMN tenon.attempt.part IS 'The number of its partition (`tenon.partition`).';
COMMENT ON COLUMN tenon.attempt.started_at IS 'When the task was claimed for it.';
COMMENT ON COLUMN tenon.attempt.worker_id IS 'The worker (`tenon.worker`, for a week).';
COMMENT ON COLUMN tenon.attempt.host IS 'The machine it ran on.';
COMMENT ON COLUMN tenon.attempt.outcome IS '`failed`, `timed_out`, `crashed`: the worker died; `dead`: the handler said that it can never work.';
COMMENT ON COLUMN tenon.attempt.error IS 'The error, and the last lines on stderr of a process that ended; at most 8,192 characters.';
COMMENT ON COLUMN tenon.attempt.exit_code IS 'The exit code of the handler''s process, if it exited.';
COMMENT ON COLUMN tenon.attempt.signal IS 'The signal that ended it.';
CREATE INDEX attempt_task_id ON tenon.attempt (task_id);

-- Append-only. The id gives the lines of a task their order: a worker writes its lines in the order in which it read them.
CREATE TABLE tenon.log_line (
    id      bigint      GENERATED ALWAYS AS IDENTITY,
    task_id bigint      NOT NULL,
    at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    attempt integer     NOT NULL,
    part    integer     NOT NULL DEFAULT pg_sequence_last_value('tenon.log_line_part'),
    level   text        NOT NULL CHECK (level IN ('error', 'warning', 'info', 'debug')),
    message text        NOT NULL,
    fields  jsonb
) PARTITION BY LIST (part);
ALTER TABLE tenon.log_line REPLICA IDENTITY FULL;
COMMENT ON TABLE tenon.log_line IS 'The lines that handlers logged while their tasks ran: those of pool children, which the worker writes about once a second, and those of `tenon.log_message`. At most 1,000 lines and 256 KiB of each attempt. It is partitioned; the oldest partition is dropped after `log_keep` (`tenon.setting`).';
COMMENT ON COLUMN tenon.log_line.id IS 'The order of the lines of a task.';
COMMENT ON COLUMN tenon.log_line.task_id IS 'The task.';
COMMENT ON COLUMN tenon.log_line.at IS 'When the worker read the line, or when `tenon.log_message` was called.';
COMMENT ON COLUMN tenon.log_line.attempt IS 'Which attempt it was, from 1.';
COMMENT ON COLUMN tenon.log_line.part IS 'The number of its partition (`tenon.partition`).';
COMMENT ON COLUMN tenon.log_line.level IS '`error`, `warning`, `info` or `debug`.';
COMMENT ON COLUMN tenon.log_line.message IS 'The text, at most 4,096 bytes; the middle of a longer one is left out.';
COMMENT ON COLUMN tenon.log_line.fields IS 'What the handler added as an object; NULL = nothing, or more than 2,048 bytes.';
CREATE INDEX log_line_task_id ON tenon.log_line (task_id);

-- --- unique keys --------------------------------------------------------------------------------------------------

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
    tags         text[],
    on_conflict  text        NOT NULL,
    debounce     interval    CHECK (tenon.is_span(debounce, 0.001, 2592000)),
    debounce_max interval    CHECK (tenon.is_span(debounce_max, 0.001, 31536000)),
    taken        boolean     NOT NULL,
    failed       text,
    CHECK (isfinite(run_at) AND isfinite(created_at) AND timeout_ms BETWEEN 1 AND 2592000000)
);
CREATE INDEX again_key ON tenon.again (unique_key, kind, id);
CREATE INDEX again_untaken ON tenon.again (id) WHERE NOT taken;
COMMENT ON TABLE tenon.again IS 'Tasks that were enqueued with a unique key while the task that holds the key could not be changed. Each becomes a task, or is joined to one, after the commit.';
COMMENT ON COLUMN tenon.again.on_conflict IS 'As given to `tenon.enqueue`.';
COMMENT ON COLUMN tenon.again.debounce IS 'As given to `tenon.enqueue`.';
COMMENT ON COLUMN tenon.again.debounce_max IS 'As given to `tenon.enqueue`.';
COMMENT ON COLUMN tenon.again.taken IS 'It waits for the end of the task that holds the key, which is running or cannot be changed.';
COMMENT ON COLUMN tenon.again.failed IS 'The error because of which it was set aside; other rows are processed. It is tried again when a task with waiting rows ends.';

-- The ids of again_note, flow_note and limit_event, in one order: one number says up to where the leading cleaner has settled them
-- (cleaner/decide/settled.h). Without it, while an old snapshot is held, each settle would read all notes that were deleted since.
CREATE SEQUENCE tenon.note_id;

-- Append-only: keys whose holder has ended, or will have another attempt, so that the rows of tenon.again may be settled.
-- A statement that ends a task adds a row here, and therefore never waits for a settler that holds those rows.
CREATE TABLE tenon.again_note (
    id         bigint DEFAULT nextval('tenon.note_id') PRIMARY KEY,
    unique_key text NOT NULL,
    kind       text NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);
COMMENT ON TABLE tenon.again_note IS 'The unique keys whose task has ended while other tasks waited for its end (`tenon.again`).';
COMMENT ON COLUMN tenon.again_note.id IS 'A number that grows with each row.';
COMMENT ON COLUMN tenon.again_note.unique_key IS 'The key.';
COMMENT ON COLUMN tenon.again_note.kind IS 'The kind of the task.';

-- --- flows --------------------------------------------------------------------------------------------------------

CREATE TABLE tenon.flow (
    id           bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name         text,
    made_by      text        NOT NULL DEFAULT session_user,
    made_at      timestamptz NOT NULL DEFAULT now(),
    made_in      xid8        NOT NULL DEFAULT pg_current_xact_id(),
    open         boolean     NOT NULL DEFAULT false,
    cancelled_by text,
    cancelled_at timestamptz,
    ended_at     timestamptz,
    on_done      text,
    on_dead      text,
    on_end       text,
    payload      jsonb,
    done_task    bigint,
    dead_task    bigint,
    end_task     bigint
);
CREATE INDEX flow_made ON tenon.flow (made_at) WHERE ended_at IS NULL;
COMMENT ON TABLE tenon.flow IS 'Flows and batches; the view `tenon.flows` shows their states.';
COMMENT ON COLUMN tenon.flow.id IS 'The number of the flow.';
COMMENT ON COLUMN tenon.flow.name IS 'The name that was given; NULL = none.';
COMMENT ON COLUMN tenon.flow.made_by IS 'The role that had logged in to make it. This role and operators may add tasks and cancel it.';
COMMENT ON COLUMN tenon.flow.made_at IS 'When its transaction began.';
COMMENT ON COLUMN tenon.flow.made_in IS 'The transaction.';
COMMENT ON COLUMN tenon.flow.open IS 'Tasks may still be added, so it does not end: a batch before `tenon.close`.';
COMMENT ON COLUMN tenon.flow.cancelled_by IS 'The role that cancelled it.';
COMMENT ON COLUMN tenon.flow.cancelled_at IS 'When that was.';
COMMENT ON COLUMN tenon.flow.ended_at IS 'When a cleaner saw that all its tasks had ended; NULL = some have not, or it is open.';
COMMENT ON COLUMN tenon.flow.on_done IS 'The kind of the task that is enqueued when all are done.';
COMMENT ON COLUMN tenon.flow.on_dead IS 'The kind of the task that is enqueued when all have ended, and some are dead, cancelled or expired.';
COMMENT ON COLUMN tenon.flow.on_end IS 'The kind of the task that is enqueued when all have ended.';
COMMENT ON COLUMN tenon.flow.payload IS 'The payload of these tasks; an object gets the key `flow` as well.';
COMMENT ON COLUMN tenon.flow.done_task IS 'The task of `on_done`; NULL = not enqueued yet.';
COMMENT ON COLUMN tenon.flow.dead_task IS 'The task of `on_dead`.';
COMMENT ON COLUMN tenon.flow.end_task IS 'The task of `on_end`.';

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
COMMENT ON COLUMN tenon.flow_task.parents IS 'The tasks on which it depends; NULL = none.';
COMMENT ON COLUMN tenon.flow_task.state IS 'How it ended: `done`, `dead`, `cancelled` or `expired`; NULL = it has not ended, or its end was not processed yet (`tenon.settle`).';
COMMENT ON COLUMN tenon.flow_task.result IS 'What its handler returned, if tasks waited for it.';

-- What a blocked task still waits for: a row for each parent.
CREATE TABLE tenon.flow_wait (
    task    bigint,
    parent  bigint,
    on_dead text NOT NULL,
    PRIMARY KEY (task, parent)
);
CREATE INDEX flow_wait_parent ON tenon.flow_wait (parent);  -- with task behind it, a plan could look for a task there, and read it all
COMMENT ON TABLE tenon.flow_wait IS 'The parents for which blocked tasks still wait.';
COMMENT ON COLUMN tenon.flow_wait.task IS 'The blocked task.';
COMMENT ON COLUMN tenon.flow_wait.parent IS 'A task that is not done, or whose end was not processed yet.';
COMMENT ON COLUMN tenon.flow_wait.on_dead IS 'What happens when the parent is dead, cancelled or expired: `wait`, `run` or `cancel`.';

-- Append-only: notes for tenon.settle(). A transaction that ends a task, or adds one that waits for a task which may
-- have ended by now, leaves a note, and so it needs no lock.
CREATE TABLE tenon.flow_note (
    id   bigint      DEFAULT nextval('tenon.note_id') PRIMARY KEY,
    at   timestamptz NOT NULL DEFAULT now(),
    flow bigint      NOT NULL,
    task bigint,
    act  text,
    beyond bigint
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);
COMMENT ON TABLE tenon.flow_note IS 'The tasks and flows that `tenon.settle` has to look at.';
COMMENT ON COLUMN tenon.flow_note.id IS 'Notes are looked at in this order.';
COMMENT ON COLUMN tenon.flow_note.at IS 'When its transaction began.';
COMMENT ON COLUMN tenon.flow_note.flow IS 'The flow.';
COMMENT ON COLUMN tenon.flow_note.task IS 'A task of it; NULL = the flow itself.';
COMMENT ON COLUMN tenon.flow_note.act IS '`unblock` or `cancel`: what is due for the task, and could not be done because somebody had locked it.';
COMMENT ON COLUMN tenon.flow_note.beyond IS 'Its parents up to this one have been read.';

-- --- limits -------------------------------------------------------------------------------------------------------

CREATE TABLE tenon.limit (
    name       text COLLATE "C" PRIMARY KEY CHECK (name ~ '^[^[:space:][:cntrl:]]+$' AND length(name) <= 200),
    max_running integer CHECK (max_running BETWEEN 1 AND 1000000),
    max_starts integer  CHECK (max_starts BETWEEN 1 AND 10000),
    per        interval CHECK (tenon.is_span(per, 0.1, 2678400)),
    strict     boolean,
    when_dead  text     CHECK (when_dead IN ('block', 'skip')),
    fair       boolean,
    weight     integer  CHECK (weight BETWEEN 1 AND 1000),
    until      timestamptz,
    CHECK ((max_starts IS NULL) = (per IS NULL))
);
CREATE INDEX limit_until ON tenon.limit (until) WHERE until IS NOT NULL;
COMMENT ON TABLE tenon.limit IS 'The limits: set them by `tenon.set_limit`. A key takes each column from the row of its own name or, where that is NULL or missing, from the row of its part before the first colon.';
COMMENT ON COLUMN tenon.limit.name IS 'A key such as `tenant:42`; the part of keys before the colon, `tenant`; `kind/NAME`; or `queue/NAME`.';
COMMENT ON COLUMN tenon.limit.max_running IS 'The maximum number of tasks of a key that are ready or running at once.';
COMMENT ON COLUMN tenon.limit.max_starts IS 'The maximum number of starts of tasks of a key within any period of the length `per`.';
COMMENT ON COLUMN tenon.limit.per IS 'The time of `max_starts`.';
COMMENT ON COLUMN tenon.limit.strict IS 'One at a time, in the order of ids; a task that failed keeps its place.';
COMMENT ON COLUMN tenon.limit.when_dead IS 'What happens behind a dead task, if `strict`: `block` the tasks behind it until it is retried or deleted; or `skip` it.';
COMMENT ON COLUMN tenon.limit.fair IS 'The keys with this part before the colon take turns.';
COMMENT ON COLUMN tenon.limit.weight IS 'How many tasks are released at each turn.';
COMMENT ON COLUMN tenon.limit.until IS 'The row is removed at this time; NULL = never.';

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
COMMENT ON COLUMN tenon.limit_task.state IS '`waits`: in the line of this key; `later`: its `run_at` has not come; `elsewhere`: in the line of another of its keys; `parked`: the same, after it was first in this line; `held`: it is ready or running; `ending`: it was cancelled while it ran, and its handler may still run; `dead`: it died, and blocks those behind it.';
COMMENT ON COLUMN tenon.limit_task.alone IS 'The task has no other key.';
COMMENT ON COLUMN tenon.limit_task.priority IS 'The priority of the task.';
COMMENT ON COLUMN tenon.limit_task.wanted_at IS 'Its place in the line; for `later` and `ending`, the time until which it waits.';

-- The starts of the last `per`, except those of tasks that still hold their key: of each the row is tenon.task's.
CREATE TABLE tenon.limit_start (
    key text COLLATE "C" NOT NULL,
    at  timestamptz NOT NULL,
    n   integer     NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE tenon.limit_start REPLICA IDENTITY FULL;  -- see tenon.history
CREATE INDEX limit_start_key ON tenon.limit_start (key, at);
CREATE INDEX limit_start_at ON tenon.limit_start (at);
COMMENT ON TABLE tenon.limit_start IS 'What counts against rates: starts of tasks that have ended since, and what `tenon.take_limit` took.';
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

-- Append-only: keys and tasks that tenon.settle_limits() has to process. A transaction that enqueues, ends or requeues a task leaves a
-- row, and so it takes no lock that another may hold.
CREATE TABLE tenon.limit_event (
    id         bigint DEFAULT nextval('tenon.note_id') PRIMARY KEY,
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

-- --- signals ------------------------------------------------------------------------------------------------------

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
COMMENT ON COLUMN tenon.signal.payload IS 'Its payload, which each task that waits for it gets.';
COMMENT ON COLUMN tenon.signal.sent_at IS 'When it was sent.';
COMMENT ON COLUMN tenon.signal.sent_by IS 'The role that had logged in to send it.';
COMMENT ON COLUMN tenon.signal.settled IS 'The tasks that waited for it have got it.';

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
COMMENT ON COLUMN tenon.waiting.until IS 'When it continues without the signal.';
COMMENT ON COLUMN tenon.waiting.settled IS 'A cleaner has checked that the signal had not come before.';
CREATE TRIGGER note_waiting AFTER INSERT ON tenon.waiting FOR EACH ROW EXECUTE FUNCTION tenon.note_waiting();

-- --- schedules ----------------------------------------------------------------------------------------------------

CREATE TABLE tenon.schedule (
    name         text        PRIMARY KEY CHECK (name ~ '^[A-Za-z0-9_.:-]{1,100}$'),
    cron         text,
    every_ms     bigint      CHECK (every_ms BETWEEN 1000 AND 31622400000),
    zone         text        NOT NULL,
    kind         text        NOT NULL,
    payload      jsonb       NOT NULL,
    queue        text,
    priority     smallint,
    max_attempts integer,
    timeout_ms   bigint,
    catch_up     text        NOT NULL CHECK (catch_up IN ('none', 'last', 'all')),
    overlap      text        NOT NULL CHECK (overlap IN ('allow', 'skip')),
    source       text,
    set_by       text        NOT NULL,
    set_at       timestamptz NOT NULL,
    next_at      timestamptz NOT NULL,
    due_at       timestamptz NOT NULL,
    last_at      timestamptz,
    last_task    bigint,
    skipped      bigint      NOT NULL DEFAULT 0,
    last_error   text,
    CHECK (num_nonnulls(cron, every_ms) = 1),
    CHECK (last_at < next_at)  -- no tick comes twice, whoever writes here
);
CREATE INDEX schedule_due ON tenon.schedule (due_at);
COMMENT ON TABLE tenon.schedule IS 'The schedules. Read it freely, but change it only by functions.';
COMMENT ON COLUMN tenon.schedule.name IS 'The schedule: 1 to 100 of `A-Z a-z 0-9 _ . : -`.';
COMMENT ON COLUMN tenon.schedule.cron IS 'The cron expression that says when it ticks; NULL: every `every_ms`.';
COMMENT ON COLUMN tenon.schedule.every_ms IS 'The interval between ticks in milliseconds; NULL: by `cron`.';
COMMENT ON COLUMN tenon.schedule.zone IS 'The time zone of the cron expression.';
COMMENT ON COLUMN tenon.schedule.kind IS 'The kind of its tasks.';
COMMENT ON COLUMN tenon.schedule.payload IS 'The payload of its tasks; an object gets the key `tick` as well.';
COMMENT ON COLUMN tenon.schedule.queue IS 'The queue of its tasks; NULL = that of the kind.';
COMMENT ON COLUMN tenon.schedule.priority IS 'The priority of its tasks; NULL = that of the kind or queue.';
COMMENT ON COLUMN tenon.schedule.max_attempts IS 'The number of failures that makes a task of it dead; NULL = that of the kind or queue.';
COMMENT ON COLUMN tenon.schedule.timeout_ms IS 'How long one run of its tasks may take, in milliseconds; NULL = that of the kind or queue.';
COMMENT ON COLUMN tenon.schedule.catch_up IS 'Which ticks get a task when they are more than a minute late: `none`, the `last`, or `all`.';
COMMENT ON COLUMN tenon.schedule.overlap IS 'Whether a tick makes a task while the last one has not ended: `allow`, or `skip` the tick.';
COMMENT ON COLUMN tenon.schedule.source IS 'The file from which it is synced (`tenon schedule sync`); NULL: none.';
COMMENT ON COLUMN tenon.schedule.set_by IS 'The role that had logged in to set it.';
COMMENT ON COLUMN tenon.schedule.set_at IS 'When it was set.';
COMMENT ON COLUMN tenon.schedule.next_at IS 'The next tick.';
COMMENT ON COLUMN tenon.schedule.due_at IS 'Internal: when the cleaners process it next. Usually `next_at`; later after an error, never while it is paused.';
COMMENT ON COLUMN tenon.schedule.last_at IS 'The last tick that made a task; NULL: none.';
COMMENT ON COLUMN tenon.schedule.last_task IS 'The last task that was made; NULL: none.';
COMMENT ON COLUMN tenon.schedule.skipped IS 'How many ticks made no task because the last one had not ended.';
COMMENT ON COLUMN tenon.schedule.last_error IS 'Why the next tick could not make its task, which is retried every minute; NULL: no error.';

-- --- the outbox ---------------------------------------------------------------------------------------------------

CREATE TABLE tenon.publisher (
    role      regrole PRIMARY KEY,
    exchanges text[]  NOT NULL
);
COMMENT ON TABLE tenon.publisher IS 'Roles that may publish to some exchanges only; `tenon setup --grant-publisher ROLE --exchanges ...` writes it. It holds for the role that logged in and for those it is a member of: of several rows one must allow it. A superuser is not confined.';
COMMENT ON COLUMN tenon.publisher.role IS 'The role; it stays this one when it is renamed.';
COMMENT ON COLUMN tenon.publisher.exchanges IS 'The exchanges that it may publish to; an empty text is the default exchange.';

-- A message is inserted, sent and deleted; nothing claims it. `held` keeps what is behind the first message of its key out of the index
-- that the relay reads: a million messages of one key are in nobody's way. Only the relay deletes rows and changes `held`, so that the
-- first message of a key is never held (sql/functions/relay.sql).
CREATE TABLE tenon.message (
    id           bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    created_at   timestamptz NOT NULL,
    expires_at   timestamptz,
    failed_at    timestamptz,
    retry_at     timestamptz,
    tries        integer     NOT NULL DEFAULT 0,
    held         boolean     NOT NULL DEFAULT false,
    exchange     text        NOT NULL,
    routing_key  text        NOT NULL,
    order_key    text,
    message_id   text        NOT NULL,
    content_type text        NOT NULL,
    headers      jsonb,
    properties   jsonb,
    trace        text,
    published_by text        NOT NULL,
    error        text        CHECK (length(error) <= 8192),
    body         bytea       NOT NULL
);
COMMENT ON TABLE tenon.message IS 'Messages that were published in a transaction and that RabbitMQ has not confirmed yet; `tenon.outbox` shows them. The relay of the leading cleaner deletes a row when RabbitMQ has confirmed it.';
COMMENT ON COLUMN tenon.message.id IS 'Its number. Messages with the same order key have ascending numbers in the order of their commits.';
COMMENT ON COLUMN tenon.message.created_at IS 'When it was published in its transaction.';
COMMENT ON COLUMN tenon.message.expires_at IS 'From then on it is not sent, and RabbitMQ discards it. NULL = never.';
COMMENT ON COLUMN tenon.message.failed_at IS 'When RabbitMQ refused it. NULL = it was not refused, or is being tried again.';
COMMENT ON COLUMN tenon.message.retry_at IS 'When the relay tries it again. NULL = not before `tenon.retry_messages`.';
COMMENT ON COLUMN tenon.message.tries IS 'How often RabbitMQ refused it.';
COMMENT ON COLUMN tenon.message.held IS 'Internal: it is behind another message of its order key, and the relay does not look at it yet.';
COMMENT ON COLUMN tenon.message.exchange IS 'The exchange. An empty text is the default exchange, which routes to the queue that the routing key names.';
COMMENT ON COLUMN tenon.message.routing_key IS 'The routing key.';
COMMENT ON COLUMN tenon.message.order_key IS 'Messages with the same order key are sent one after the other, in the order of their commits. NULL = in any order.';
COMMENT ON COLUMN tenon.message.message_id IS 'The AMQP property message-id: the same each time the message is sent.';
COMMENT ON COLUMN tenon.message.content_type IS 'The AMQP property content-type.';
COMMENT ON COLUMN tenon.message.headers IS 'The headers, an object. NULL = none.';
COMMENT ON COLUMN tenon.message.properties IS 'Other AMQP properties: `type`, `app_id`, `correlation_id`, `reply_to`, `content_encoding`, `priority`. NULL = none.';
COMMENT ON COLUMN tenon.message.trace IS 'A W3C traceparent, sent as the header `traceparent`.';
COMMENT ON COLUMN tenon.message.published_by IS 'The role that published it.';
COMMENT ON COLUMN tenon.message.error IS 'Why RabbitMQ refused it last.';
COMMENT ON COLUMN tenon.message.body IS 'The body.';
CREATE INDEX message_waiting ON tenon.message (id) WHERE NOT held AND failed_at IS NULL;
CREATE INDEX message_order ON tenon.message (order_key, id) WHERE order_key IS NOT NULL;
CREATE INDEX message_failed ON tenon.message (id) WHERE failed_at IS NOT NULL;
CREATE INDEX message_retry ON tenon.message (retry_at) WHERE retry_at IS NOT NULL;

-- Append-only.
CREATE TABLE tenon.message_sent (
    sent_at      timestamptz NOT NULL,
    id           bigint      NOT NULL,
    created_at   timestamptz NOT NULL,
    part         integer     NOT NULL DEFAULT pg_sequence_last_value('tenon.message_sent_part'),
    exchange     text        NOT NULL,
    routing_key  text        NOT NULL,
    order_key    text,
    message_id   text        NOT NULL,
    content_type text        NOT NULL,
    headers      jsonb,
    properties   jsonb,
    trace        text,
    published_by text        NOT NULL,
    body         bytea       NOT NULL
) PARTITION BY LIST (part);
ALTER TABLE tenon.message_sent REPLICA IDENTITY FULL;
COMMENT ON TABLE tenon.message_sent IS 'Messages that RabbitMQ has confirmed, while `outbox_keep` lasts (`tenon.setting`). It is partitioned as `tenon.history` is.';
COMMENT ON COLUMN tenon.message_sent.sent_at IS 'When RabbitMQ had confirmed it.';
COMMENT ON COLUMN tenon.message_sent.part IS 'The number of its partition (`tenon.partition`).';
CREATE INDEX ON tenon.message_sent (sent_at);

CREATE TABLE tenon.relay (
    one   boolean PRIMARY KEY DEFAULT true CHECK (one),
    token bigint  NOT NULL DEFAULT 0
);
COMMENT ON TABLE tenon.relay IS 'One row: the token of the session that relays. Each statement of the relay locks this row, and does nothing if another session has taken over.';
COMMENT ON COLUMN tenon.relay.one IS 'Always true: there is one row.';
COMMENT ON COLUMN tenon.relay.token IS 'Internal: a random number of the session that relays.';

-- The key decides whether a message was seen; the other index is for the purge. Ids first: consumers are few.
CREATE TABLE tenon.seen (
    message_id text COLLATE "C",
    consumer   text COLLATE "C",
    until      timestamptz NOT NULL,
    PRIMARY KEY (message_id, consumer)
);
CREATE INDEX seen_until ON tenon.seen (until);
COMMENT ON TABLE tenon.seen IS 'The messages that consumers have seen (`tenon.once`, `tenon intake`).';
COMMENT ON COLUMN tenon.seen.message_id IS 'The message.';
COMMENT ON COLUMN tenon.seen.consumer IS 'Who has seen it: the name that `tenon.once` got, or `intake:` and the name of a queue in RabbitMQ.';
COMMENT ON COLUMN tenon.seen.until IS 'When the row may be deleted. Until a cleaner deletes it, the message counts as seen.';

CREATE TABLE tenon.stream_place (
    stream      text PRIMARY KEY,
    next_offset bigint NOT NULL DEFAULT 0,
    taken_at    timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE tenon.stream_place IS 'How far `tenon intake` has read the streams of RabbitMQ. The owner of the schema deletes a row to have a stream read again, or changes its offset.';
COMMENT ON COLUMN tenon.stream_place.stream IS 'The stream.';
COMMENT ON COLUMN tenon.stream_place.next_offset IS 'The offset from which it continues: all messages before it have become tasks, or were rejected.';
COMMENT ON COLUMN tenon.stream_place.taken_at IS 'When the last messages were taken.';

-- For tenon status and tenon doctor. Only tenon.intake_note writes it.
CREATE TABLE tenon.intake (
    queue       text        NOT NULL,
    host        text        NOT NULL,
    pid         integer     NOT NULL,
    is_stream   boolean     NOT NULL,
    version     text        NOT NULL,
    started_at  timestamptz NOT NULL,
    seen_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    taken       bigint      NOT NULL,
    repeated    bigint      NOT NULL,
    rejected    bigint      NOT NULL,
    kept        bigint      NOT NULL,
    unkeyed     bigint      NOT NULL,
    rejected_at timestamptz,
    unkeyed_at  timestamptz,
    error       text,
    error_since timestamptz,
    PRIMARY KEY (queue, host, pid)
);
COMMENT ON TABLE tenon.intake IS 'The queues and streams of RabbitMQ from which the running processes of `tenon intake` take messages. A process writes its rows every 10 s, and deletes them when it ends. If a process was killed, one that was started later and takes messages from the same queue deletes the row after a minute; otherwise a cleaner deletes it after a day.';
COMMENT ON COLUMN tenon.intake.queue IS 'The queue or stream in RabbitMQ.';
COMMENT ON COLUMN tenon.intake.host IS 'The host on which the process runs.';
COMMENT ON COLUMN tenon.intake.pid IS 'Its process id.';
COMMENT ON COLUMN tenon.intake.is_stream IS 'Whether it is a stream.';
COMMENT ON COLUMN tenon.intake.version IS 'The version of the program.';
COMMENT ON COLUMN tenon.intake.started_at IS 'When the process began.';
COMMENT ON COLUMN tenon.intake.seen_at IS 'When the process wrote the row.';
COMMENT ON COLUMN tenon.intake.taken IS 'How many messages have become tasks since the process began.';
COMMENT ON COLUMN tenon.intake.repeated IS 'How many messages had been seen before.';
COMMENT ON COLUMN tenon.intake.rejected IS 'How many messages were invalid.';
COMMENT ON COLUMN tenon.intake.kept IS 'How many invalid messages became tasks with their body as base64 (`--on-invalid keep`).';
COMMENT ON COLUMN tenon.intake.unkeyed IS 'How many messages became tasks but cannot be recognized if they are delivered again.';
COMMENT ON COLUMN tenon.intake.rejected_at IS 'When `rejected` last grew.';
COMMENT ON COLUMN tenon.intake.unkeyed_at IS 'When `unkeyed` last grew.';
COMMENT ON COLUMN tenon.intake.error IS 'Why no messages are taken; NULL = they are.';
COMMENT ON COLUMN tenon.intake.error_since IS 'Since when no messages have been taken.';

-- --- workers and cleaners -----------------------------------------------------------------------------------------

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
    version    text        NOT NULL DEFAULT '',
    release    text,
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
COMMENT ON COLUMN tenon.worker.version IS 'The version of tenon.';
COMMENT ON COLUMN tenon.worker.release IS 'The release of your code that its handlers are from, as `--release` names it; NULL = not named.';
COMMENT ON COLUMN tenon.worker.state IS '`alive`; `draining`: it claims no more tasks, finishes those that run, and ends; `left`: it ended normally; `dead`: a cleaner saw its lock free, and recovers its tasks.';
COMMENT ON COLUMN tenon.worker.started_at IS 'When it started.';
COMMENT ON COLUMN tenon.worker.ended_at IS 'When it left, or was declared dead; NULL before.';
COMMENT ON COLUMN tenon.worker.backing_off IS '`kind,kind: why`, a line for each handler that does not start; NULL = all start.';
COMMENT ON COLUMN tenon.worker.starting IS '`kind,kind: MS TEXT`, a line for each handler whose first child has been starting for a second or more: since when, in milliseconds since 1970, and what it says that it is doing, if anything; NULL = none.';
COMMENT ON COLUMN tenon.worker.rounds_failing IS 'The reason why its transactions with PostgreSQL keep failing; NULL = they do not.';
COMMENT ON COLUMN tenon.worker.broker_away IS 'The reason why it is not connected to RabbitMQ; NULL = it is connected, or works without RabbitMQ.';
COMMENT ON COLUMN tenon.worker.alone_since IS 'Since when it has the turn to run suspects (`tenon.suspect`), one at a time and nothing else; NULL = it does not have the turn.';
CREATE INDEX worker_alive ON tenon.worker (started_at) WHERE ended_at IS NULL;

-- Counts of each minute. Each worker updates its own rows every 5 s, so that no worker waits for another; the leading cleaner adds
-- up the rows of all workers after three minutes, later by longer spans (tenon.fold_minutes), and keeps the sums for three days.
CREATE TABLE tenon.minute (
    minute    timestamptz NOT NULL,
    queue     text        NOT NULL,
    kind      text        NOT NULL,
    worker_id uuid        NOT NULL,
    started   bigint      NOT NULL DEFAULT 0,
    ended     bigint      NOT NULL DEFAULT 0,
    done      bigint      NOT NULL DEFAULT 0,
    failed    bigint      NOT NULL DEFAULT 0,
    dead      bigint      NOT NULL DEFAULT 0,
    wait_us   bigint      NOT NULL DEFAULT 0,
    run_us    bigint      NOT NULL DEFAULT 0,
    waits     integer[]   NOT NULL DEFAULT '{}',
    runs      integer[]   NOT NULL DEFAULT '{}',
    PRIMARY KEY (minute, queue, kind, worker_id)
);
COMMENT ON TABLE tenon.minute IS 'How many attempts were started and how they ended, by minute, queue, kind and worker. The counts are kept for three days: by the minute until they are 65 minutes old, by 5 minutes until they are six hours old, by 20 minutes until they are 25 hours old, and then by the hour. A worker writes its counts every 5 s and when it stops; after kill -9 the last 5 s are missing.';
COMMENT ON COLUMN tenon.minute.minute IS 'The beginning of the minute in which the counts were written; for older counts, the beginning of their 5 minutes, 20 minutes or hour (UTC).';
COMMENT ON COLUMN tenon.minute.queue IS 'The queue. A worker counts its first 200 pairs of queue and kind separately, and all others as `(other)`.';
COMMENT ON COLUMN tenon.minute.kind IS 'The kind of the tasks.';
COMMENT ON COLUMN tenon.minute.worker_id IS 'The worker; 00000000-0000-0000-0000-000000000000: the cleaners, and after three minutes the sum of all workers.';
COMMENT ON COLUMN tenon.minute.started IS 'Attempts started.';
COMMENT ON COLUMN tenon.minute.ended IS 'Attempts ended, except those that were released or whose claim was lost.';
COMMENT ON COLUMN tenon.minute.done IS 'Tasks done.';
COMMENT ON COLUMN tenon.minute.failed IS 'Attempts that failed, timed out, or crashed.';
COMMENT ON COLUMN tenon.minute.dead IS 'Tasks dead; their last attempts also count in `failed`.';
COMMENT ON COLUMN tenon.minute.wait_us IS 'Sum of the times that started tasks had been ready, in microseconds.';
COMMENT ON COLUMN tenon.minute.run_us IS 'Sum of the run times of ended attempts, in microseconds.';
COMMENT ON COLUMN tenon.minute.waits IS 'The started tasks, counted by how long they had been ready, in ranges that end at 5, 10, 25, 50, 100, 250, 500 ms, 1, 2.5, 5, 10, 30 s, 1, 2, 5, 10, 30 min, 2 and 24 h; the last range has no end. Zeros at the end are left out.';
COMMENT ON COLUMN tenon.minute.runs IS 'The ended attempts, counted by how long they ran, in the same ranges.';

-- What tenon.count_depth() counted; tenon.queue_depth() reads it where a queue is too large to be counted at once.
CREATE TABLE tenon.depth (
    queue        text   NOT NULL,
    kind         text   NOT NULL,
    ready        bigint NOT NULL,
    running      bigint NOT NULL,
    scheduled    bigint NOT NULL,
    retrying     bigint NOT NULL,
    blocked      bigint NOT NULL,
    dead         bigint NOT NULL,
    oldest_ready timestamptz,
    PRIMARY KEY (queue, kind)
);
COMMENT ON TABLE tenon.depth IS 'How many tasks of each queue and kind are in each state, at the leading cleaner''s last count (`tenon.depth_count`). It counts all tasks from time to time, using at most a twentieth of a processor. `tenon.queue_depth` also counts small queues at once.';
COMMENT ON COLUMN tenon.depth.queue IS 'The queue: the 1,000 with most tasks; `(other)`: all others together.';
COMMENT ON COLUMN tenon.depth.kind IS 'The kind: those of the 1,000 pairs of queue and kind with most tasks; `(other)`: the other kinds of the queue together.';
COMMENT ON COLUMN tenon.depth.ready IS 'Tasks that are ready, in paused queues too.';
COMMENT ON COLUMN tenon.depth.running IS 'Tasks that are running.';
COMMENT ON COLUMN tenon.depth.scheduled IS 'Tasks that are not due, and have not failed.';
COMMENT ON COLUMN tenon.depth.retrying IS 'Tasks that are not due, and have failed before.';
COMMENT ON COLUMN tenon.depth.blocked IS 'Tasks that are blocked.';
COMMENT ON COLUMN tenon.depth.dead IS 'Dead tasks.';
COMMENT ON COLUMN tenon.depth.oldest_ready IS 'The earliest `run_at` of the ready ones.';

CREATE TABLE tenon.depth_count (
    one        boolean     PRIMARY KEY DEFAULT true CHECK (one),
    counted_at timestamptz NOT NULL,
    took_ms    bigint      NOT NULL
);
COMMENT ON TABLE tenon.depth_count IS 'When `tenon.depth` was counted last. No row: never.';
COMMENT ON COLUMN tenon.depth_count.one IS 'Always true: there is at most one row.';
COMMENT ON COLUMN tenon.depth_count.counted_at IS 'When the count began: its numbers are those of that moment.';
COMMENT ON COLUMN tenon.depth_count.took_ms IS 'How long it took, in milliseconds. The next count begins 20 times as long after its end.';

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

-- One row, which whoever settles flows or limits locks. Two at once would each see the other's half of what a task waits for;
-- one would take the event of a cancelled task whose place in a line the other has made, and not committed; and what is
-- counted stays true until the commit.
CREATE TABLE tenon.settler (one boolean PRIMARY KEY DEFAULT true CHECK (one));
COMMENT ON TABLE tenon.settler IS 'The lock of whoever settles flows or limits.';
COMMENT ON COLUMN tenon.settler.one IS 'Always true: there is one row.';

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
COMMENT ON COLUMN tenon.set_aside.part IS 'The part: `expire`, tasks that have missed `start_before`; `again`, tasks that were enqueued with a key already in use; `flows`; `signals`; `limits`; `recover`, tasks of dead workers and past their deadline.';
COMMENT ON COLUMN tenon.set_aside.id IS 'The row that is skipped: the id of a task, or, for `flows`, of a row of `tenon.flow_note`; 0 = none: the part takes fewer rows.';
COMMENT ON COLUMN tenon.set_aside.most IS 'The number of rows that the part takes at a time; doubled after each turn that succeeds.';
COMMENT ON COLUMN tenon.set_aside.tries IS 'How often it was too slow.';
COMMENT ON COLUMN tenon.set_aside.at IS 'When it was last too slow.';
COMMENT ON COLUMN tenon.set_aside.until IS 'When it is tried again: a row after a minute, then after twice as long each time, up to a day.';
COMMENT ON COLUMN tenon.set_aside.error IS 'The error of PostgreSQL.';
-- Where the next turn continues. Sequences, because the cursor must move on even if the turn is rolled back.
CREATE SEQUENCE tenon.again_cursor MINVALUE 0 START 0;    -- id of tenon.again
CREATE SEQUENCE tenon.waiting_cursor MINVALUE 0 START 0;  -- task_id of tenon.waiting
CREATE SEQUENCE tenon.until_cursor MINVALUE 0 START 0;    -- until of tenon.waiting, in microseconds since 1970
CREATE SEQUENCE tenon.signal_cursor MINVALUE 0 START 0;   -- sent_at of tenon.signal, the same
CREATE SEQUENCE tenon.flow_cursor MINVALUE 0 START 0;     -- id of tenon.flow, for the purge

-- --- types that functions pass to each other ----------------------------------------------------------------------
-- A task that is there now, the new one or the unfinished one that holds its unique_key, and where its wake-up goes.
CREATE TYPE tenon.enqueued AS (id bigint, exchange text, routing_key text);
-- The sets of a cron expression: bit n is set when n is in it; Sunday is 0. either: days of the month and of the week
-- are both restricted, and one of them is enough.
CREATE TYPE tenon.cron AS (minutes bigint, hours bigint, days bigint, months bigint, weekdays bigint, either boolean);
-- A filter as it was read; NULL = any.
CREATE TYPE tenon.filter AS (states text[], queues text[], kinds text[], errors text[], before timestamptz,
    unique_key text, payload jsonpath, ids bigint[], trace text, enqueued_by text, flow bigint, limit_key text, tags text[], undo boolean);
-- The steps of a task that has ended, and their names and times in the order in which they were recorded.
CREATE TYPE tenon.kept_steps AS (steps jsonb, names text[], times timestamptz[]);
CREATE TYPE tenon.limit_room AS (key text, room integer, strict boolean, share text, weight integer, due_at timestamptz, why text);
CREATE TYPE tenon.limit_head AS (key text, task_id bigint, alone boolean, priority smallint, wanted_at timestamptz);
