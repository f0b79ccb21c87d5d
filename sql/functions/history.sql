-- History: the partitions of tenon.history and of the tables that are partitioned like it, and what is deleted when its time is over.

-- The partitions: when rows began to go there (NULL = not yet), and about how many rows each has. Until a partition has been
-- analyzed, the statistics count its rows. A crash loses those counts; then its size tells, at as many rows a page as in the
-- partitions that were analyzed, else 40.
CREATE OR REPLACE FUNCTION tenon.partitions() RETURNS TABLE (parent text, part integer, begun_at timestamptz, n bigint)
LANGUAGE sql STABLE AS $$
    WITH child AS (
        SELECT h.relname AS parent, substring(c.relname FROM '[0-9]+$')::integer AS part, c.relpages, c.reltuples,
               c.relpages > 0 AND c.reltuples > 0 AS is_analyzed, pg_stat_get_live_tuples(c.oid) AS live,
               pg_relation_size(c.oid) / current_setting('block_size')::integer AS pages
          FROM pg_inherits i JOIN pg_class h ON h.oid = i.inhparent JOIN pg_class c ON c.oid = i.inhrelid
         WHERE i.inhparent IN ('tenon.history'::regclass, 'tenon.attempt'::regclass, 'tenon.message_sent'::regclass,
                              'tenon.log_line'::regclass)
           AND c.relname ~ '^(history|attempt|message_sent|log_line)_[0-9]{1,9}$'
    ), known AS (
        SELECT k.parent, sum(k.reltuples)::float8 / sum(k.relpages) AS rows_of_a_page FROM child k WHERE k.is_analyzed GROUP BY k.parent
    )
    SELECT c.parent, c.part, p.begun_at,
           CASE WHEN c.is_analyzed THEN c.reltuples::float8 / c.relpages * c.pages
                WHEN c.live > 0 THEN c.live
                ELSE coalesce(k.rows_of_a_page, 40) * c.pages END::bigint
      FROM child c
      LEFT JOIN known k ON k.parent = c.parent
      LEFT JOIN tenon.partition p ON p.parent = c.parent AND p.part = c.part
$$;

-- A plain table that is attached then, which stops no finish.
CREATE OR REPLACE FUNCTION tenon.make_partition(parent text, part integer) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    name text := parent || '_' || part;
BEGIN
    EXECUTE format('CREATE TABLE tenon.%I (LIKE tenon.%I INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', name, parent);
    EXECUTE format('ALTER TABLE tenon.%I REPLICA IDENTITY FULL', name);
    EXECUTE format('ALTER TABLE tenon.%I ATTACH PARTITION tenon.%I FOR VALUES IN (%s)', parent, name, part);
END $$;

-- From now on, rows go to this partition.
CREATE OR REPLACE FUNCTION tenon.begin_partition(parent text, part integer) RETURNS void
LANGUAGE sql AS $$
    INSERT INTO tenon.partition AS p (parent, part, begun_at) VALUES ($1, $2, clock_timestamp())
        ON CONFLICT ON CONSTRAINT partition_pkey DO UPDATE SET begun_at = excluded.begun_at;
    SELECT setval(format('tenon.%I', $1 || '_part'), $2);
$$;

-- Begins the next partition when the current one is full, or is not empty and older than `age`; and keeps one more ready. That one
-- was committed before it is begun: the sequence is seen at once. Full ones still take rows while there are 100 partitions, since
-- a reader then keeps the oldest from being dropped, and a query by id looks into each. Returns how many were made.
CREATE OR REPLACE FUNCTION tenon.make_partitions_of(parent text, age interval, rows_max bigint) RETURNS integer
LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    partitions_max constant integer := 100;
    current integer;
    made    integer := 0;
    seen    record;
BEGIN
    FOR pass IN 1 .. 2 LOOP
        SELECT coalesce(x.last, max(p.part), 1) AS current, coalesce(bool_or(p.part = x.last AND p.begun_at IS NOT NULL), false) AS is_begun,
               coalesce(bool_or(p.part = x.last + 1), false) AS has_next,
               coalesce(bool_or(p.part = x.last AND p.n > 0 AND (p.n >= rows_max OR p.begun_at < clock_timestamp() - age)), false)
               AND count(*) < partitions_max AS is_full
          INTO seen
          FROM (SELECT pg_sequence_last_value(format('tenon.%I', parent || '_part')::regclass) AS last) x
          LEFT JOIN tenon.partitions() p ON p.parent = parent
         GROUP BY x.last;
        IF seen.is_begun AND seen.has_next AND NOT seen.is_full THEN
            RETURN 0;
        ELSIF pass = 1 THEN  -- two makers at once; ATTACH takes the lock anyway
            EXECUTE format('LOCK TABLE tenon.%I IN SHARE UPDATE EXCLUSIVE MODE', parent);
        END IF;
    END LOOP;
    current := seen.current;
    IF NOT EXISTS (SELECT FROM tenon.partitions() p WHERE p.parent = parent AND p.part = current) THEN
        PERFORM tenon.make_partition(parent, current);
        made := 1;
    END IF;
    IF NOT seen.is_begun THEN  -- it is new; or the transaction that began it was rolled back, and only the sequence has advanced
        PERFORM tenon.begin_partition(parent, current);
    ELSIF seen.is_full AND seen.has_next THEN
        current := current + 1;
        PERFORM tenon.begin_partition(parent, current);
    END IF;
    IF NOT EXISTS (SELECT FROM tenon.partitions() p WHERE p.parent = parent AND p.part = current + 1) THEN
        PERFORM tenon.make_partition(parent, current + 1);
        made := made + 1;
    END IF;
    RETURN made;
END $$;

-- A partition takes a twentieth of history_rows_max, or what ends in a 24th of the time for which rows are kept. Hence there are
-- 20 to 50. The leading cleaner calls this every 10 s, and each worker once a minute, so that partitions do not get too large while
-- no cleaner runs. Returns how many were made.
CREATE OR REPLACE FUNCTION tenon.make_partitions() RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s tenon.setting := tenon.settings();
BEGIN
    RETURN tenon.make_partitions_of('history', greatest(s.history_keep, interval '1 hour') / 24, s.history_rows_max / 20)
         + tenon.make_partitions_of('attempt', s.attempt_keep / 24, s.history_rows_max / 20)
         + tenon.make_partitions_of('message_sent', greatest(s.outbox_keep, interval '1 hour') / 24, s.history_rows_max / 20)
         + tenon.make_partitions_of('log_line', greatest(s.log_keep, interval '1 hour') / 24, s.history_rows_max / 20);
END $$;

-- Drops the oldest partition that is due and that tenon.sweep_history() has swept: all its rows are older than the setting of its table says
-- (but at least an hour), or those after it have more than history_rows_max. Returns its name, or NULL when none is due. A reader in the way for
-- 100 ms raises 55P03: every finish waits behind this one, and so it does not stay. It takes the locks of parent and partition one after the
-- other, hence at most twice that.
CREATE OR REPLACE FUNCTION tenon.drop_history() RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '100 ms' AS $$
DECLARE
    s tenon.setting := tenon.settings();
    due record;
BEGIN
    SELECT o.parent, o.part INTO due
      FROM (SELECT p.parent, p.part, min(p.begun_at) OVER newer AS ended_at, sum(p.n) OVER newer AS n_newer
              FROM tenon.partitions() p
             WHERE p.part > 0
            WINDOW newer AS (PARTITION BY p.parent ORDER BY p.part ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING)) o
     WHERE o.part < pg_sequence_last_value(format('tenon.%I', o.parent || '_part')::regclass)
       AND (o.ended_at <= now() - greatest(CASE o.parent WHEN 'history' THEN s.history_keep WHEN 'attempt' THEN s.attempt_keep
                                                         WHEN 'message_sent' THEN s.outbox_keep WHEN 'log_line' THEN s.log_keep END,
                                           interval '1 hour')
            OR o.n_newer > s.history_rows_max)
       AND NOT EXISTS (SELECT FROM tenon.partition q JOIN tenon.kind k ON k.history_keep > s.history_keep AND k.name <> ALL (q.swept)
                        WHERE q.parent = o.parent AND q.part = o.part AND o.parent = 'history')
     ORDER BY o.ended_at, o.part LIMIT 1;
    IF due.part IS NULL THEN
        RETURN NULL;
    END IF;
    EXECUTE format('DROP TABLE IF EXISTS tenon.%I', due.parent || '_' || due.part);  -- two at once
    DELETE FROM tenon.partition p WHERE p.parent = due.parent AND p.part = due.part;
    RETURN due.parent || '_' || due.part;
END $$;

-- The kinds of a table that has an index which begins with kind: one look at the index for each kind.
CREATE OR REPLACE FUNCTION tenon.kinds_in(relation regclass) RETURNS SETOF text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
BEGIN
    RETURN QUERY EXECUTE format('WITH RECURSIVE named AS ('
        ' (SELECT kind FROM %1$s ORDER BY kind LIMIT 1)'
        ' UNION ALL SELECT (SELECT t.kind FROM %1$s t WHERE t.kind > n.kind ORDER BY t.kind LIMIT 1) FROM named n WHERE n.kind IS NOT NULL)'
        ' SELECT kind FROM named WHERE kind IS NOT NULL', relation);
END $$;

-- The partition for rows of kinds that are kept longer than the others. Only it has the index by which tenon.purge_kept() finds them.
CREATE OR REPLACE FUNCTION tenon.need_history_0() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF to_regclass('tenon.history_0') IS NULL THEN
        PERFORM tenon.make_partition('history', 0);
        CREATE INDEX history_0_kept ON tenon.history_0 (kind, finished_at);
    END IF;
END $$;

-- Removes rows of kinds with a history_keep of their own from one partition that takes no more rows, about 10,000 at a time: those that
-- are kept less long than the others are deleted when the youngest of them may go, those that are kept longer move to history_0. That
-- reads the partition once for each such time. Rows move an hour later (until then tenon.settle() may look for an end among the
-- youngest partitions), or sooner when many follow. Returns how many, and `most` at least if there may be more.
CREATE OR REPLACE FUNCTION tenon.sweep_history(most integer) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    piece constant integer := 10000;
    begun timestamptz := clock_timestamp();
    s     tenon.setting := tenon.settings();
    n     integer := 0;
    m     integer;
    due   record;
BEGIN
    SELECT p.part, k.history_keep > s.history_keep AS longer, array_agg(k.name) AS kinds INTO due
      FROM (SELECT q.part, q.swept, lead(q.begun_at) OVER (ORDER BY q.part) AS ended_at, count(*) OVER (ORDER BY q.part DESC) AS nth
              FROM tenon.partition q WHERE q.parent = 'history') p
      JOIN tenon.kind k ON k.history_keep <> s.history_keep AND k.name <> ALL (p.swept)
     WHERE p.ended_at <= now() - CASE WHEN k.history_keep < s.history_keep THEN k.history_keep
                                      WHEN p.nth > 10 THEN interval '0' ELSE interval '1 hour' END
       AND EXISTS (SELECT FROM pg_inherits i WHERE i.inhparent = 'tenon.history'::regclass AND i.inhrelid = to_regclass('tenon.history_' || p.part))
     GROUP BY 1, 2 ORDER BY 1, 2 LIMIT 1;
    IF due.part IS NULL THEN
        RETURN 0;
    ELSIF due.longer THEN
        -- rows of a transaction that still writes there cannot be seen yet: they must move, too
        IF EXISTS (SELECT FROM pg_locks l
                    WHERE l.relation = to_regclass('tenon.history_' || due.part) AND l.mode = 'RowExclusiveLock'
                      AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
                      AND l.pid IS DISTINCT FROM pg_backend_pid()) THEN
            RETURN 0;
        END IF;
        PERFORM tenon.need_history_0();
    END IF;
    LOOP
        EXECUTE format(CASE WHEN due.longer THEN 'WITH gone AS (%1$s RETURNING *) INSERT INTO tenon.history_0 (part, %2$s) SELECT 0, %2$s FROM gone'
                            ELSE '%1$s' END,
                       format('DELETE FROM tenon.%1$I WHERE ctid = ANY (ARRAY(SELECT ctid FROM tenon.%1$I WHERE kind = ANY ($1) LIMIT $2))',
                              'history_' || due.part),
                       (SELECT string_agg(quote_ident(a.attname), ', ') FROM pg_attribute a
                         WHERE a.attrelid = 'tenon.history'::regclass AND a.attnum > 0 AND NOT a.attisdropped AND a.attname <> 'part'))
          USING due.kinds, piece;
        GET DIAGNOSTICS m = ROW_COUNT;
        n := n + m;
        IF m < piece THEN
            UPDATE tenon.partition p SET swept = p.swept || due.kinds WHERE p.parent = 'history' AND p.part = due.part;
            RETURN greatest(n, most);  -- there may be other kinds and partitions
        END IF;
        EXIT WHEN tenon.turn_is_over(begun);
    END LOOP;
    RETURN greatest(n, most);
END $$;

-- Deletes up to `most` rows of history_0 whose time is over.
CREATE OR REPLACE FUNCTION tenon.purge_kept(most integer) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    n integer;
BEGIN
    IF to_regclass('tenon.history_0') IS NULL THEN
        RETURN 0;
    END IF;
    EXECUTE 'DELETE FROM tenon.history_0 WHERE ctid = ANY (ARRAY('
        ' SELECT x.ctid FROM tenon.kinds_in(''tenon.history_0'') i (kind) LEFT JOIN tenon.kind k ON k.name = i.kind CROSS JOIN LATERAL ('
        '   SELECT h.ctid FROM tenon.history_0 h WHERE h.kind = i.kind AND h.finished_at < now() - coalesce(k.history_keep, $1)'
        '    ORDER BY h.finished_at LIMIT $2 FOR UPDATE SKIP LOCKED) x LIMIT $2))'
        USING greatest((tenon.settings()).history_keep, interval '1 hour'), most;
    GET DIAGNOSTICS n = ROW_COUNT;
    RETURN n;
END $$;

-- Deletes up to `most` of each of these: dead tasks whose dead_keep is over, tasks of kinds with a history_keep of their own that is over,
-- rows of the audit whose audit_keep is over, keys whose unique_for is over, messages seen whose time is over, rows of tenon.intake that
-- were not written for a day, starts that are older than the longest `per` of all limits, and flows that ended longer ago than the history
-- is kept, and more than an hour ago. Returns how many; at least `most` if its time was over before it was finished.
CREATE OR REPLACE FUNCTION tenon.purge(most integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    begun timestamptz := clock_timestamp();
    s tenon.setting := tenon.settings();
    n integer := 0;
    m integer;
    k integer;
    starts integer;
    seen integer;
    intakes integer;
BEGIN
    WHILE n < most LOOP
        DELETE FROM tenon.dead WHERE id = ANY (ARRAY(
            SELECT x.id
              FROM tenon.kinds_in('tenon.dead') i (kind)
              LEFT JOIN tenon.kind k ON k.name = i.kind
             CROSS JOIN LATERAL (SELECT d.id FROM tenon.dead d WHERE d.kind = i.kind AND d.dead_at < now() - coalesce(k.dead_keep, s.dead_keep)
                                  ORDER BY d.dead_at LIMIT least(16, most - n) FOR UPDATE SKIP LOCKED) x
             LIMIT least(16, most - n)));
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
    DELETE FROM tenon.seen WHERE ctid = ANY (ARRAY(
        SELECT e.ctid FROM tenon.seen e WHERE e.until < now() ORDER BY e.until LIMIT most FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS seen = ROW_COUNT;
    DELETE FROM tenon.intake WHERE ctid = ANY (ARRAY(
        SELECT i.ctid FROM tenon.intake i WHERE i.seen_at < now() - interval '1 day' LIMIT most FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS intakes = ROW_COUNT;
    RETURN n + m + starts + k + seen + intakes + tenon.sweep_history(most) + tenon.purge_kept(most)
         + tenon.purge_flows(now() - greatest(s.history_keep, interval '1 hour'), most);
END $$;

-- The partition where rows of this table go now is there afterwards, even if somebody has dropped it, and this session knows of
-- it. One that has written to the table before in its transaction hears of a partition that was attached since only when it
-- takes a new lock; to_regclass takes one, on the catalog, when it is asked for a name for the first time. tenon.finish,
-- tenon.finish_many, tenon.end_tasks and tenon.log_message call it; so it needs no search_path of its own.
CREATE OR REPLACE FUNCTION tenon.need_partition(parent text DEFAULT 'history') RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF to_regclass(format('tenon.%s_%s', parent, pg_sequence_last_value(format('tenon.%s_part', parent)::regclass))) IS NULL THEN
        PERFORM tenon.make_partitions();
    END IF;
END $$;

-- Deletes flows that ended longer ago than their time, with the rows of about `most` tasks; returns how many rows, and `most` at least if there
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

-- Adds two lists of counts. Zeros are added to the end of the shorter one. Workers and tenon.fold_minutes() call it.
CREATE OR REPLACE FUNCTION tenon.add_counts(one integer[], other integer[]) RETURNS integer[]
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(array_agg(coalesce(u.a, 0) + coalesce(u.b, 0) ORDER BY u.i), '{}') FROM unnest($1, $2) WITH ORDINALITY u (a, b, i)
$$;

-- The beginning of the span by which the counts of a minute are kept: a minute at first; the older the counts, the longer the span. The
-- spans are the steps of the page's graphs (ui/rates.sql).
CREATE OR REPLACE FUNCTION tenon.span_of(minute timestamptz) RETURNS timestamptz
LANGUAGE sql STABLE AS $$
    SELECT date_bin(CASE WHEN minute < now() - interval '25 hours' THEN interval '1 hour' WHEN minute < now() - interval '365 min' THEN interval '20 min'
                         WHEN minute < now() - interval '65 min' THEN interval '5 min' ELSE interval '1 min' END, minute, '2000-01-01 00:00+00')
$$;

-- Adds up rows of all workers that are older than three minutes, by the spans of tenon.span_of(), and deletes rows older than 74 hours.
CREATE OR REPLACE FUNCTION tenon.fold_minutes() RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH gone AS (
        DELETE FROM tenon.minute m
         WHERE m.minute < now() - interval '3 min'
           AND (m.worker_id <> '00000000-0000-0000-0000-000000000000' OR m.minute <> tenon.span_of(m.minute))
        RETURNING tenon.span_of(m.minute) AS begins, m.*
    ), place AS (
        SELECT g.begins, g.queue, g.kind, u.i, sum(u.wait)::integer AS wait, sum(u.run)::integer AS run
          FROM gone g CROSS JOIN LATERAL unnest(g.waits, g.runs) WITH ORDINALITY u (wait, run, i) GROUP BY 1, 2, 3, 4
    ), spread AS (
        SELECT begins, queue, kind, array_agg(coalesce(wait, 0) ORDER BY i) AS waits, array_agg(coalesce(run, 0) ORDER BY i) AS runs
          FROM place GROUP BY 1, 2, 3
    ), summed AS (
        SELECT begins, queue, kind, sum(started) AS started, sum(ended) AS ended, sum(done) AS done, sum(failed) AS failed, sum(dead) AS dead,
               sum(wait_us) AS wait_us, sum(run_us) AS run_us
          FROM gone GROUP BY 1, 2, 3
    )
    INSERT INTO tenon.minute AS m (minute, queue, kind, worker_id, started, ended, done, failed, dead, wait_us, run_us, waits, runs)
    SELECT begins, queue, kind, '00000000-0000-0000-0000-000000000000', t.started, t.ended, t.done, t.failed, t.dead, t.wait_us, t.run_us,
           coalesce(s.waits, '{}'), coalesce(s.runs, '{}')
      FROM summed t LEFT JOIN spread s USING (begins, queue, kind) ORDER BY begins, queue, kind
    ON CONFLICT (minute, queue, kind, worker_id) DO UPDATE
       SET started = m.started + excluded.started, ended = m.ended + excluded.ended, done = m.done + excluded.done,
           failed = m.failed + excluded.failed, dead = m.dead + excluded.dead, wait_us = m.wait_us + excluded.wait_us,
           run_us = m.run_us + excluded.run_us, waits = tenon.add_counts(m.waits, excluded.waits), runs = tenon.add_counts(m.runs, excluded.runs);
    DELETE FROM tenon.minute WHERE minute < now() - interval '74 hours';
$$;
