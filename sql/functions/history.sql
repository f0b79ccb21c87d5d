-- History: the partitions of tenon.history and tenon.attempt, and what is deleted when its time is over.

-- Partitions of tenon.history and tenon.attempt for today and the days to come. Each is made as a plain table and
-- attached, which stops no finish. Returns how many were made.
CREATE OR REPLACE FUNCTION tenon.make_partitions(days_ahead integer DEFAULT 7) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    today  date := (clock_timestamp() AT TIME ZONE 'UTC')::date;
    made   integer := 0;
    parent text;
    day    date;
    part   text;
BEGIN
    FOR parent, day IN SELECT p, today + i FROM unnest('{history,attempt}'::text[]) p, generate_series(-1, days_ahead) i LOOP
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
CREATE OR REPLACE FUNCTION tenon.drop_history() RETURNS text
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
         WHERE i.inhparent IN ('tenon.history'::regclass, 'tenon.attempt'::regclass)
           AND c.relname ~ '^(history|attempt)_[0-9]{8}$'
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
CREATE OR REPLACE FUNCTION tenon.purge(most integer) RETURNS integer
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

-- The history's partition for a moment is there afterwards. Cleaners and workers make them for days ahead;
-- when none of them ran for a week, tenon.finish, tenon.finish_many and tenon.cancel make what is missing. Only they call
-- it, and so it needs no search_path of its own.
CREATE OR REPLACE FUNCTION tenon.need_partition(moment timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF to_regclass('tenon.history_' || to_char(moment AT TIME ZONE 'UTC', 'YYYYMMDD')) IS NULL THEN
        PERFORM tenon.make_partitions();
    END IF;
END $$;

-- Deletes flows that have ended so long ago, with the rows of about `most` tasks; returns how many rows, and `most` at least if there
-- may be more. A flow that has a task in tenon.dead, or a task for which another waits, stays. Each turn looks at up to 1,000 flows from
-- where the last one stopped, so that those that stay are not looked at over and over. It ends at the first that is too young: those
-- with greater ids are hardly ever older.
CREATE OR REPLACE FUNCTION tenon.purge_flows(before timestamptz, most integer) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    piece constant integer := 1000;
    begun  timestamptz := clock_timestamp();
    place  bigint := tenon.place_of('tenon.flow_cursor');
    looked integer := 0;
    young  boolean := false;
    n      integer := 0;
    m      integer;
    f      record;
BEGIN
    FOR f IN SELECT w.id, w.made_at,
                    (w.ended_at < before
                     OR w.ended_at IS NULL AND NOT w.open AND (SELECT x.id FROM tenon.flow_task x WHERE x.flow = w.id LIMIT 1) IS NULL)
                    AND (SELECT x.id FROM tenon.flow_task x WHERE x.flow = w.id AND x.state IS NULL LIMIT 1) IS NULL
                    AND (SELECT x.id FROM tenon.flow_task x
                          WHERE x.flow = w.id AND x.state IN ('dead', 'cancelled', 'expired')
                            AND ((SELECT true FROM tenon.dead d WHERE d.id = x.id LIMIT 1)
                                 OR (SELECT true FROM tenon.flow_wait v WHERE v.parent = x.id LIMIT 1)) LIMIT 1) IS NULL AS goes
               FROM (SELECT * FROM tenon.flow w WHERE w.id > place ORDER BY w.id LIMIT piece) w ORDER BY w.id LOOP
        young := f.made_at >= before;
        EXIT WHEN young;
        place := f.id;
        looked := looked + 1;
        IF f.goes THEN
            PERFORM FROM tenon.flow w WHERE w.id = f.id FOR UPDATE SKIP LOCKED;
            CONTINUE WHEN NOT FOUND OR EXISTS (SELECT FROM tenon.flow_task x WHERE x.flow = f.id AND x.state IS NULL);  -- added before we had the lock
            DELETE FROM tenon.flow_task WHERE ctid = ANY (ARRAY(SELECT x.ctid FROM tenon.flow_task x WHERE x.flow = f.id LIMIT 10000));
            GET DIAGNOSTICS m = ROW_COUNT;
            DELETE FROM tenon.flow w WHERE w.id = f.id AND m < 10000;
            n := n + m + 1;
            place := CASE WHEN m < 10000 THEN f.id ELSE f.id - 1 END;
        END IF;
        EXIT WHEN n >= most OR tenon.turn_is_over(begun);
    END LOOP;
    IF NOT young AND (looked = piece OR n >= most OR tenon.turn_is_over(begun)) THEN
        PERFORM tenon.go_on_at('tenon.flow_cursor', place);
        RETURN greatest(n, most);
    END IF;
    PERFORM tenon.go_on_at('tenon.flow_cursor', 0);
    RETURN n;
END $$;

-- Adds up workers' rows that are between three minutes and an hour old, and deletes rows older than 25 hours.
CREATE OR REPLACE FUNCTION tenon.fold_minutes() RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH gone AS (
        DELETE FROM tenon.minute m
         WHERE m.minute BETWEEN now() - interval '1 hour' AND now() - interval '3 min' AND m.worker_id <> '00000000-0000-0000-0000-000000000000'
        RETURNING m.*
    )
    INSERT INTO tenon.minute AS m (minute, queue, kind, worker_id, started, ended, done, failed, dead, wait_us, run_us)
    SELECT minute, queue, kind, '00000000-0000-0000-0000-000000000000', sum(started), sum(ended), sum(done), sum(failed), sum(dead),
           sum(wait_us), sum(run_us)
      FROM gone GROUP BY minute, queue, kind ORDER BY minute, queue, kind
    ON CONFLICT (minute, queue, kind, worker_id) DO UPDATE
       SET started = m.started + excluded.started, ended = m.ended + excluded.ended, done = m.done + excluded.done,
           failed = m.failed + excluded.failed, dead = m.dead + excluded.dead, wait_us = m.wait_us + excluded.wait_us,
           run_us = m.run_us + excluded.run_us;
    DELETE FROM tenon.minute WHERE minute < now() - interval '25 hours';
$$;
