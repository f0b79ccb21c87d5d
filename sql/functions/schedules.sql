-- Schedules: tasks that are enqueued again and again, by a cron expression or at an interval. No part of a task's life
-- knows of them: what comes of a tick is an ordinary task.

CREATE OR REPLACE VIEW tenon.schedules AS
    SELECT s.name, s.cron, s.every_ms * interval '1 ms' AS every, s.zone, s.kind, s.payload, s.queue, s.priority,
           s.max_attempts, s.timeout_ms, s.catch_up, s.overlap,
           CASE WHEN p.name IS NOT NULL THEN 'paused' WHEN s.last_error IS NOT NULL THEN 'failing' ELSE 'active' END AS state,
           CASE WHEN p.name IS NULL THEN s.next_at END AS next_at, s.last_at, s.last_task,
           (SELECT t.state FROM tenon.tasks t WHERE t.id = s.last_task) AS last_state,
           s.skipped, s.last_error, s.source, s.set_by, s.set_at, p.paused_by, p.paused_at, p.paused_why
      FROM tenon.schedule s LEFT JOIN tenon.paused p ON p.what = 'schedule' AND p.name = s.name;
COMMENT ON VIEW tenon.schedules IS 'The schedules, and what became of their last tasks.';
COMMENT ON COLUMN tenon.schedules.every IS 'How often it ticks; NULL: by `cron`.';
COMMENT ON COLUMN tenon.schedules.state IS '`active`; `paused`; `failing`: `last_error` says why its ticks make no tasks.';
COMMENT ON COLUMN tenon.schedules.next_at IS 'The next tick; NULL while it is paused.';
COMMENT ON COLUMN tenon.schedules.last_state IS 'The state of the last task; NULL: its history was deleted, or there was none.';

-- Every act of an operator on a schedule passes here: the place to note who did what.
CREATE OR REPLACE FUNCTION tenon.note_schedule(act text, name text, why text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM tenon.note_audit(act, jsonb_strip_nulls(jsonb_build_object('schedule', name, 'why', why)), 1);
END $$;

-- The name of a time zone as PostgreSQL writes it. Abbreviations such as CET or EST are refused: to PostgreSQL they are
-- an offset that knows no daylight time.
CREATE OR REPLACE FUNCTION tenon.check_zone(zone text) RETURNS text
LANGUAGE plpgsql STABLE AS $$
DECLARE
    known text;
BEGIN
    IF upper(zone COLLATE "C") = 'UTC' THEN
        RETURN 'UTC';
    END IF;
    SELECT z.name INTO known FROM pg_timezone_names z WHERE lower(z.name COLLATE "C") = lower(zone COLLATE "C") AND zone LIKE '%/%';
    IF known IS NULL THEN
        PERFORM tenon.refuse('zone', quote_nullable(zone), 'UTC, or a name from pg_timezone_names with a /, such as Europe/Berlin');
    END IF;
    RETURN known;
END $$;

-- A task of a schedule can tell which tick it is for.
CREATE OR REPLACE FUNCTION tenon.tick_payload(payload jsonb, tick timestamptz) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN jsonb_typeof(payload) = 'object' THEN jsonb_build_object('tick', tick) || payload ELSE payload END
$$;

-- The first tick after a moment. Ticks at an interval are counted from the one that is known.
CREATE OR REPLACE FUNCTION tenon.tick_after(s tenon.schedule, after timestamptz) RETURNS timestamptz
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF s.cron IS NOT NULL THEN
        RETURN tenon.next_tick(s.cron, s.zone, after);
    END IF;
    RETURN s.next_at + (floor(extract(epoch FROM after - s.next_at) * 1000 / s.every_ms) + 1)::float8 * s.every_ms * interval '1 ms';
END $$;

CREATE OR REPLACE FUNCTION tenon.check_schedule(name text, cron text, every interval, kind text, document jsonb, queue text,
    priority integer, max_attempts integer, timeout interval, catch_up text, overlap text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF tenon.is_kind(name) IS NOT TRUE THEN
        PERFORM tenon.refuse('name', quote_nullable(name), '1 to 100 of A-Z a-z 0-9 _ . : -');
    ELSIF num_nonnulls(cron, every) <> 1 THEN
        PERFORM tenon.refuse_call(CASE WHEN cron IS NULL THEN 'neither cron nor every is given' ELSE 'cron and every are given together' END,
                                  'Give exactly one of cron and every.');
    ELSIF every IS NOT NULL AND (date_trunc('month', every) <> '0'
                                 OR extract(epoch FROM every) NOT BETWEEN 1 AND 31622400) THEN
        PERFORM tenon.refuse('every', every::text, '1 second to 366 days, without months or years; for those use cron');
    ELSIF catch_up NOT IN ('none', 'last', 'all') OR catch_up IS NULL THEN
        PERFORM tenon.refuse('catch_up', quote_nullable(catch_up), 'none, last or all');
    ELSIF overlap NOT IN ('allow', 'skip') OR overlap IS NULL THEN
        PERFORM tenon.refuse('overlap', quote_nullable(overlap), 'allow or skip');
    END IF;
    PERFORM tenon.check_length('cron', cron, 1000);
    PERFORM tenon.check_enqueue(kind => kind, queue => queue, priority => priority, run_at => NULL, delay => NULL,
                                start_before => NULL, max_attempts => max_attempts, timeout => timeout, retry => NULL,
                                trace => NULL);
    PERFORM tenon.check_allowed(kind, queue, tenon.tick_payload(document, clock_timestamp()));
END $$;

-- As with tenon.enqueue_jsonb: tenon.set_schedule() converts the payload, and this function checks and acts.
CREATE OR REPLACE FUNCTION tenon.set_schedule_jsonb(name text, cron text, every interval, kind text, payload jsonb, zone text, catch_up text,
    overlap text, queue text, priority integer, max_attempts integer, timeout interval, source text) RETURNS timestamptz
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    moment timestamptz := clock_timestamp();
    s      tenon.schedule;
BEGIN
    PERFORM tenon.check_schedule(name, cron, every, kind, payload, queue, priority, max_attempts, timeout, catch_up, overlap);
    PERFORM tenon.check_length('source', source, 1000);
    zone := tenon.check_zone(zone);
    SELECT * INTO s FROM tenon.schedule t WHERE t.name = name FOR UPDATE;
    IF s.name IS NULL OR (s.cron, s.every_ms, s.zone) IS DISTINCT FROM
                         (cron, (extract(epoch FROM every) * 1000)::bigint, zone) THEN
        moment := greatest(moment, s.last_at);
        s.next_at := CASE WHEN cron IS NULL THEN moment + (extract(epoch FROM every) * 1000)::bigint * interval '1 ms'
                          ELSE tenon.next_tick(cron, zone, moment) END;
    END IF;
    INSERT INTO tenon.schedule AS t (name, cron, every_ms, zone, kind, payload, queue, priority, max_attempts, timeout_ms,
                                     catch_up, overlap, source, set_by, set_at, next_at, due_at)
    VALUES (name, cron, (extract(epoch FROM every) * 1000)::bigint, zone, kind, payload, queue, priority, max_attempts,
            (extract(epoch FROM timeout) * 1000)::bigint, catch_up, overlap, source, session_user, moment, s.next_at, s.next_at)
    ON CONFLICT ON CONSTRAINT schedule_pkey DO UPDATE
       SET cron = excluded.cron, every_ms = excluded.every_ms, zone = excluded.zone, kind = excluded.kind,
           payload = excluded.payload, queue = excluded.queue, priority = excluded.priority,
           max_attempts = excluded.max_attempts, timeout_ms = excluded.timeout_ms, catch_up = excluded.catch_up,
           overlap = excluded.overlap, source = excluded.source, set_by = excluded.set_by, set_at = excluded.set_at,
           next_at = excluded.next_at, last_error = NULL,
           due_at = CASE WHEN t.due_at = 'infinity' THEN 'infinity' ELSE excluded.next_at END
     WHERE (t.cron, t.every_ms, t.zone, t.kind, t.payload, t.queue, t.priority, t.max_attempts, t.timeout_ms, t.catch_up,
            t.overlap, t.source)
           IS DISTINCT FROM
           (excluded.cron, excluded.every_ms, excluded.zone, excluded.kind, excluded.payload, excluded.queue,
            excluded.priority, excluded.max_attempts, excluded.timeout_ms, excluded.catch_up, excluded.overlap, excluded.source);
    IF FOUND THEN
        PERFORM tenon.note_schedule('set_schedule', name);
    END IF;
    RETURN s.next_at;
END $$;

CREATE OR REPLACE FUNCTION tenon.set_schedule(name text, cron text DEFAULT NULL, every interval DEFAULT NULL, kind text DEFAULT NULL,
    payload anycompatible DEFAULT '{}'::jsonb, zone text DEFAULT 'UTC', catch_up text DEFAULT 'last',
    overlap text DEFAULT 'allow', queue text DEFAULT NULL, priority integer DEFAULT NULL, max_attempts integer DEFAULT NULL,
    timeout interval DEFAULT NULL, source text DEFAULT NULL) RETURNS timestamptz
LANGUAGE sql AS $$
    SELECT tenon.set_schedule_jsonb(name, cron, every, kind, payload::pg_catalog.jsonb, zone, catch_up, overlap, queue, priority,
                                    max_attempts, timeout, source)
$$;

COMMENT ON FUNCTION tenon.set_schedule IS $$Sets a schedule, or changes the one of that name; returns its next tick. At each tick a cleaner enqueues one task, with the schedule's name as its tag. While `cron`, `every` and `zone` stay the same, so does the next tick; a paused schedule stays paused.

- `name`: 1 to 100 of `A-Z a-z 0-9 _ . : -`.
- `cron`: a cron expression: minute, hour, day of month, month, day of week ([schedules.md](schedules.md)); or
- `every`: the interval between ticks, 1 second to 366 days; the first tick comes after one interval.
- `kind`, `queue`, `priority`, `max_attempts`, `timeout`: as in `tenon.enqueue`. A role can only schedule what it may enqueue.
- `payload`: as in `tenon.enqueue`; an object gets the key `tick`, the time of the tick, unless it has one.
- `zone`: the time zone of the cron expression, such as `Europe/Berlin`; the only abbreviation is UTC.
- `catch_up`: which ticks get a task when they are more than a minute late because no cleaner ran: `none`, the `last` one (if no later one is due), or `all`.
- `overlap`: what happens at a tick while the previous task has not ended: `allow` another task, or `skip` the tick.
- `source`: the file from which `tenon.sync_schedules` sets it.

An argument that is not allowed raises SQLSTATE 22023; for a cron expression the message names the field.$$;

CREATE OR REPLACE FUNCTION tenon.remove_schedule(name text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
    DELETE FROM tenon.schedule s WHERE s.name = name;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM tenon.resume_one('schedule', name);
    PERFORM tenon.note_schedule('remove_schedule', name);
    RETURN true;
END $$;

COMMENT ON FUNCTION tenon.remove_schedule IS $$Removes a schedule; returns whether there was one. Its tasks stay.$$;

CREATE OR REPLACE FUNCTION tenon.pause_schedule(name text, why text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
    UPDATE tenon.schedule s SET due_at = 'infinity' WHERE s.name = name;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM tenon.pause_one('schedule', name, why);
    PERFORM tenon.note_schedule('pause_schedule', name, why);
    RETURN true;
END $$;

COMMENT ON FUNCTION tenon.pause_schedule IS $$Pauses a schedule until it is resumed; returns whether there is one.$$;

-- What would have ticked meanwhile is not caught up: somebody wanted it not to run.
CREATE OR REPLACE FUNCTION tenon.resume_schedule(name text, why text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    s tenon.schedule;
BEGIN
    PERFORM tenon.check_length('why', why, 1000);
    SELECT * INTO s FROM tenon.schedule t WHERE t.name = name FOR UPDATE;
    IF s.name IS NOT NULL AND tenon.resume_one('schedule', name) THEN
        s.next_at := tenon.tick_after(s, greatest(clock_timestamp(), s.last_at));
        UPDATE tenon.schedule t SET next_at = s.next_at, due_at = s.next_at WHERE t.name = name;
        PERFORM tenon.note_schedule('resume_schedule', name, why);
    END IF;
    RETURN s.name IS NOT NULL;
END $$;

COMMENT ON FUNCTION tenon.resume_schedule IS $$Resumes a paused schedule from its next tick on; ticks during the pause are skipped. Returns whether there is one.$$;

CREATE OR REPLACE FUNCTION tenon.enqueue_tick(s tenon.schedule, tick timestamptz) RETURNS bigint
LANGUAGE sql AS $$
    SELECT tenon.enqueue(s.kind, tenon.tick_payload(s.payload, tick), queue => s.queue, priority => s.priority,
                         max_attempts => s.max_attempts, timeout => s.timeout_ms * interval '1 ms', tags => ARRAY[s.name])
$$;

CREATE OR REPLACE FUNCTION tenon.run_schedule_now(name text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
#variable_conflict use_variable
DECLARE
    s tenon.schedule;
BEGIN
    SELECT * INTO s FROM tenon.schedule t WHERE t.name = name FOR UPDATE;
    IF s.name IS NULL THEN
        RETURN NULL;
    END IF;
    s.last_task := tenon.enqueue_tick(s, clock_timestamp());
    UPDATE tenon.schedule t SET last_task = s.last_task WHERE t.name = name;
    PERFORM tenon.note_schedule('run_schedule_now', name);
    RETURN s.last_task;
END $$;

COMMENT ON FUNCTION tenon.run_schedule_now IS $$Enqueues a task of a schedule now, in addition to its ticks and even while it is paused. Returns its id, or NULL if there is no such schedule.$$;

-- Checks that this source may set the schedule, and returns its row. A file takes over schedules that were set by hand, but none of another file.
CREATE OR REPLACE FUNCTION tenon.hold_schedule(name text, source text) RETURNS tenon.schedule
LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    s tenon.schedule;
BEGIN
    SELECT * INTO s FROM tenon.schedule t WHERE t.name = name FOR UPDATE;
    IF s.source <> source THEN
        RAISE EXCEPTION 'tenon: the schedule % is synced from %', name, quote_literal(s.source)
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Change it there, or remove it from there first.';
    END IF;
    RETURN s;
END $$;

CREATE OR REPLACE FUNCTION tenon.sync_schedules(source text, schedules jsonb) RETURNS TABLE (name text, act text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    e    record;
    old  tenon.schedule;
    hint text;
BEGIN
    IF sync_schedules.source IS NULL THEN
        PERFORM tenon.refuse('source', NULL, 'the name of a file');
    ELSIF jsonb_typeof(schedules) IS DISTINCT FROM 'array' THEN
        PERFORM tenon.refuse('schedules', schedules::text, 'a JSON array');
    END IF;
    PERFORM FROM tenon.schedule s  -- all at once, in sorted order, so that two syncs of one file cannot deadlock
      WHERE s.source = sync_schedules.source OR s.name IN (SELECT d ->> 'name' FROM jsonb_array_elements(schedules) d)
      ORDER BY s.name FOR UPDATE;
    FOR e IN SELECT r.*, count(*) OVER (PARTITION BY r.name) AS n
               FROM jsonb_to_recordset(schedules) AS r (line integer, name text, cron text, every text, kind text,
                    payload text, zone text, queue text, priority text, max_attempts text, timeout text, catch_up text,
                    overlap text)
              ORDER BY r.name, r.line LOOP
        BEGIN
            IF e.n > 1 THEN
                PERFORM tenon.refuse('name', quote_nullable(e.name), 'the name of one schedule, but it appears twice');
            END IF;
            old := tenon.hold_schedule(e.name, sync_schedules.source);
            PERFORM tenon.set_schedule(e.name, e.cron, e.every::interval, e.kind, coalesce(e.payload, '{}')::jsonb,
                coalesce(e.zone, 'UTC'), coalesce(e.catch_up, 'last'), coalesce(e.overlap, 'allow'), e.queue,
                e.priority::integer, e.max_attempts::integer, e.timeout::interval, sync_schedules.source);
        EXCEPTION WHEN OTHERS THEN
            GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
            RAISE EXCEPTION '%:%: %', sync_schedules.source, e.line, SQLERRM USING ERRCODE = SQLSTATE, HINT = hint;
        END;
        IF old.name IS NULL THEN
            RETURN QUERY SELECT e.name, 'added';
        ELSIF old IS DISTINCT FROM (SELECT s FROM tenon.schedule s WHERE s.name = e.name) THEN
            RETURN QUERY SELECT e.name, 'changed';
        END IF;
    END LOOP;
    FOR e IN SELECT s.name FROM tenon.schedule s
              WHERE s.source = sync_schedules.source
                AND s.name NOT IN (SELECT d ->> 'name' FROM jsonb_array_elements(schedules) d) ORDER BY s.name LOOP
        PERFORM tenon.remove_schedule(e.name);
        RETURN QUERY SELECT e.name, 'removed';
    END LOOP;
END $$;

COMMENT ON FUNCTION tenon.sync_schedules IS $$Makes the schedules of one source match those that are given: adds, changes and removes schedules, all or nothing. Returns what it did: `added`, `changed` or `removed`. `tenon schedule sync FILE` calls it.

- `source`: the name of the file. It removes only schedules that came from this file, and takes over schedules that were set by hand. A schedule of another source raises SQLSTATE 55000.
- `schedules`: an array of objects with `line`, `name`, and the arguments of `tenon.set_schedule`, all but `line` as text.$$;

-- The last tick up to a moment, when the next one is before it: by halves, however many there were.
CREATE OR REPLACE FUNCTION tenon.last_tick(s tenon.schedule, moment timestamptz) RETURNS timestamptz
LANGUAGE plpgsql STABLE AS $$
DECLARE
    low  timestamptz := s.next_at;  -- a tick
    high timestamptz := moment;     -- no tick after it
    mid  timestamptz;
    tick timestamptz := tenon.tick_after(s, low);
BEGIN
    WHILE tick <= moment LOOP
        low := tick;
        mid := low + (high - low) / 2;
        tick := tenon.tick_after(s, mid);
        IF tick <= moment THEN
            low := tick;
        ELSE
            high := mid;
        END IF;
        tick := tenon.tick_after(s, low);
    END LOOP;
    RETURN low;
END $$;

-- With which of the due ticks to begin; one that lies ahead: with none. More than a minute late is missed.
CREATE OR REPLACE FUNCTION tenon.first_tick(s tenon.schedule, moment timestamptz) RETURNS timestamptz
LANGUAGE plpgsql STABLE AS $$
DECLARE
    late timestamptz := moment - interval '1 minute';
    tick timestamptz := s.next_at;
BEGIN
    IF s.catch_up <> 'all' AND tick <= late THEN
        tick := tenon.tick_after(s, late);
        IF s.catch_up = 'last' AND tick > moment THEN
            tick := tenon.last_tick(s, moment);
        END IF;
    END IF;
    RETURN tick;
END $$;

-- The due ticks of one schedule, whose row the caller has locked, up to `most`.
CREATE OR REPLACE FUNCTION tenon.run_ticks(s tenon.schedule, moment timestamptz, ticks integer)
RETURNS TABLE (tick timestamptz, outcome text, task bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    at timestamptz := tenon.first_tick(s, moment);
BEGIN
    IF at > s.next_at THEN
        RETURN QUERY SELECT s.next_at, 'missed', NULL::bigint;
    END IF;
    WHILE at <= moment AND ticks > 0 LOOP
        IF s.overlap = 'skip' AND EXISTS (SELECT FROM tenon.task t WHERE t.id = s.last_task) THEN
            s.skipped := s.skipped + 1;
            RETURN QUERY SELECT at, 'skipped', s.last_task;
        ELSE
            s.last_at := at;
            s.last_task := tenon.enqueue_tick(s, at);
            RETURN QUERY SELECT at, 'enqueued', s.last_task;
        END IF;
        at := tenon.tick_after(s, at);
        ticks := ticks - 1;
    END LOOP;
    -- with more that is due, behind the other schedules
    UPDATE tenon.schedule d
       SET next_at = at, due_at = greatest(at, moment), last_at = s.last_at, last_task = s.last_task,
           skipped = s.skipped, last_error = NULL
     WHERE d.name = s.name;
END $$;

-- As of a moment, so that tests need not wait for it; nobody else is granted it.
CREATE OR REPLACE FUNCTION tenon.run_schedules_at(moment timestamptz, schedules integer DEFAULT 100, ticks integer DEFAULT 10)
RETURNS TABLE (name text, tick timestamptz, outcome text, task bigint, error text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
#variable_conflict use_column
DECLARE
    begun timestamptz := clock_timestamp();
    s     tenon.schedule;
BEGIN
    FOR s IN SELECT * FROM tenon.schedule d WHERE d.due_at <= moment ORDER BY d.due_at LIMIT schedules
                FOR UPDATE SKIP LOCKED LOOP
        BEGIN
            RETURN QUERY SELECT s.name, r.tick, r.outcome, r.task, NULL::text FROM tenon.run_ticks(s, moment, ticks) r;
        EXCEPTION
            WHEN lock_not_available OR transaction_rollback THEN
                RAISE;  -- not of this schedule's making: all of it again
            WHEN OTHERS THEN
                UPDATE tenon.schedule d SET due_at = moment + interval '1 minute', last_error = left(SQLERRM, 8192)
                 WHERE d.name = s.name;
                RETURN QUERY SELECT s.name, s.next_at, 'failed', NULL::bigint, SQLERRM;
        END;
        EXIT WHEN tenon.turn_is_over(begun);  -- the rest are due earlier than the next tick of this one
    END LOOP;
END $$;

CREATE OR REPLACE FUNCTION tenon.run_schedules() RETURNS TABLE (name text, tick timestamptz, outcome text, task bigint, error text)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT * FROM tenon.run_schedules_at(clock_timestamp())
$$;

COMMENT ON FUNCTION tenon.run_schedules IS $$Enqueues the tasks of the ticks that have come, in the caller's transaction. A cleaner calls it when a schedule is due; any number of callers share the work, and none waits for another. It takes at most 100 schedules, and 10 ticks of each. Returns what it did with them: `enqueued`; `skipped`, because the previous task has not ended; `missed`, because ticks from this one on were too late for `catch_up`; `failed`, with the `error`, to be retried after a minute.$$;
