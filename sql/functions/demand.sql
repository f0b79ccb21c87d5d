-- How many slots a queue wants, for whatever starts and ends workers.

-- At most so many queues, by name: those that have a row in tenon.queue or a living worker before those that only have
-- tasks. A producer may make up as many names as he likes; here they cost what is asked for and no more.
CREATE OR REPLACE FUNCTION tenon.queue_names(most bigint) RETURNS SETOF text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    WITH RECURSIVE named AS (
        (SELECT queue FROM tenon.task ORDER BY queue LIMIT 1)
        UNION ALL
        SELECT (SELECT t.queue FROM tenon.task t WHERE t.queue > n.queue ORDER BY t.queue LIMIT 1)
          FROM named n WHERE n.queue IS NOT NULL
    ), every AS (
        SELECT name AS queue, true AS known FROM tenon.queue
        UNION ALL
        SELECT q, true FROM tenon.worker w CROSS JOIN unnest(w.queues) q WHERE w.ended_at IS NULL
        UNION ALL
        (SELECT queue, false FROM named WHERE queue IS NOT NULL LIMIT $1)
    )
    SELECT queue FROM every GROUP BY queue ORDER BY bool_or(known) DESC, queue LIMIT $1
$$;

-- The arithmetic, of numbers alone. What comes keeps rate x run time slots busy (Little's law), and a fifth is to spare;
-- what runs keeps its slot; what waits is to start before it is late, one slot each at most. What is late already, or of
-- unknown run time, is to start within a quarter of the latency. And something that waits wants a slot.
CREATE OR REPLACE FUNCTION tenon.slots_wanted(tasks_per_s double precision, run_s double precision, ready bigint, running bigint, oldest_s double precision,
                                   latency_s double precision) RETURNS integer
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT least(1000000, greatest(sign(ready), ceil(greatest(coalesce(tasks_per_s * run_s / 0.8, 0), running)
                               + ready * least(1, coalesce(run_s / greatest(latency_s - oldest_s, latency_s / 4), 1)))))::integer
$$;

COMMENT ON FUNCTION tenon.slots_wanted IS $$The arithmetic of `tenon.demand`, of numbers alone.$$;

-- Where the rows lie that ended since: of each day, a partition, the last blocks, and so many more that are spread over all
-- of it. Rows lie about in the order of their ends. For TID scans, which need a bound of finished_at besides, or they
-- look there in every day.
CREATE OR REPLACE FUNCTION tenon.ended_tids(since timestamptz, last_blocks integer, spread_blocks integer) RETURNS tid[]
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET jit = off AS $$
    WITH day AS (
        SELECT (pg_relation_size(c.oid) / current_setting('block_size')::integer)::integer AS blocks
          FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
         WHERE i.inhparent = 'tenon.history'::regclass AND c.relname ~ '^history_[0-9]{8}$'
           AND to_date(right(c.relname, 8), 'YYYYMMDD') >= ($1 AT TIME ZONE 'UTC')::date
    ), block AS (
        SELECT b FROM day, generate_series(greatest(blocks - $2, 0), blocks - 1) b
        UNION
        SELECT b FROM day, generate_series(0, blocks - 1, greatest(1, blocks / nullif($3, 0))) b WHERE $3 > 0
    )
    SELECT array_agg(('(' || b || ',' || line || ')')::tid)
      FROM block, generate_series(1, current_setting('block_size')::integer / 102) line  -- no row is so short that there are more
$$;

-- What came and what ended in the last two minutes, as far back as can be seen: the newest 5,000 ids of the unfinished
-- tasks and of the history say what came, above `cut` both are complete; the last 100 blocks of the history say what ended.
-- How long tasks run is said by both, else, of a queue of which they have none, by what ended within a day in 50 blocks of
-- each. Delayed tasks arrive when they end, so the greater of both rates counts.
CREATE OR REPLACE FUNCTION tenon.rate_seen(queue text, OUT tasks_per_s double precision, OUT run_s double precision)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    WITH waiting AS MATERIALIZED (
        SELECT t.id, t.queue, t.created_at, t.run_at FROM tenon.task t ORDER BY t.id DESC LIMIT 5000
    ), ended AS MATERIALIZED (
        SELECT f.id, f.queue, f.created_at, f.run_at, f.start_time, f.finished_at FROM tenon.history f ORDER BY f.id DESC LIMIT 5000
    ), tid AS MATERIALIZED (
        SELECT tenon.ended_tids(statement_timestamp() - interval '2 min', 100, 0) AS tids
    ), last AS MATERIALIZED (
        SELECT f.queue, f.start_time, f.finished_at FROM tenon.history f
         WHERE f.ctid = ANY ((SELECT tids FROM tid)::tid[])
           AND f.finished_at >= date_trunc('day', statement_timestamp() - interval '2 min', 'UTC')
    ), cut AS (
        SELECT greatest((SELECT min(w.id) FROM waiting w HAVING count(*) = 5000),
                        (SELECT min(e.id) FROM ended e HAVING count(*) = 5000), 0) AS id
    ), arrived AS (
        SELECT a.queue, a.created_at, a.run_at
          FROM (SELECT w.id, w.queue, w.created_at, w.run_at FROM waiting w UNION ALL
                SELECT e.id, e.queue, e.created_at, e.run_at FROM ended e) a, cut
         WHERE a.id >= cut.id
    ), seen AS (  -- how far back, in seconds
        SELECT CASE WHEN (SELECT c.id > 0 FROM cut c)
                    THEN (SELECT extract(epoch FROM clock_timestamp() - min(a.created_at)) FROM arrived a) ELSE 120 END AS arrivals_s,
               CASE WHEN (SELECT cardinality(tids) >= 100 * 80 FROM tid)
                    THEN (SELECT extract(epoch FROM clock_timestamp() - min(l.finished_at)) FROM last l) ELSE 120 END AS finishes_s
    ), arrivals AS (
        SELECT count(*) AS n FROM arrived a
         WHERE a.queue = $1 AND a.run_at <= clock_timestamp() AND a.created_at > clock_timestamp() - interval '2 min'
    ), runs AS MATERIALIZED (
        SELECT true AS lately, l.start_time, l.finished_at FROM last l
         WHERE l.queue = $1 AND l.start_time IS NOT NULL AND l.finished_at > clock_timestamp() - interval '2 min'
        UNION ALL
        SELECT false, e.start_time, e.finished_at FROM ended e
         WHERE e.queue = $1 AND e.start_time IS NOT NULL AND e.finished_at > clock_timestamp() - interval '2 min'
    ), earlier AS (
        SELECT avg(extract(epoch FROM f.finished_at - f.start_time)) AS run_s FROM tenon.history f
         WHERE f.ctid = ANY ((SELECT tenon.ended_tids(statement_timestamp() - interval '1 day', 50, 50) WHERE NOT EXISTS (SELECT FROM runs))::tid[])
           AND f.finished_at > statement_timestamp() - interval '1 day' AND f.queue = $1 AND f.start_time IS NOT NULL
    )
    SELECT greatest((SELECT n FROM arrivals) / least(120, greatest(1, s.arrivals_s)),
                    (SELECT count(*) FROM runs WHERE lately) / least(120, greatest(1, s.finishes_s)))::double precision,
           coalesce((SELECT avg(extract(epoch FROM r.finished_at - r.start_time)) FROM runs r), (SELECT run_s FROM earlier))::double precision
      FROM seen s
$$;

-- Of each priority the first 10,000 rows that are due, which are those that run and those that are next.
CREATE OR REPLACE FUNCTION tenon.backlog_seen(queue text, OUT ready bigint, OUT running bigint, OUT oldest_s double precision, OUT running_s double precision)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    WITH paused AS MATERIALIZED (
        SELECT coalesce(bool_or(p.what = 'everything' OR (p.what = 'queue' AND p.name = $1)), false) AS whole,
               coalesce(array_agg(p.name) FILTER (WHERE p.what = 'kind'), '{}') AS kinds
          FROM tenon.paused p
    )
    SELECT count(*) FILTER (WHERE d.start_time IS NULL AND NOT d.held), count(d.start_time),
           extract(epoch FROM clock_timestamp() - min(d.run_at) FILTER (WHERE d.start_time IS NULL AND NOT d.held)),
           avg(extract(epoch FROM clock_timestamp() - d.start_time))
      FROM (SELECT t.start_time, t.run_at, p.whole OR t.kind = ANY (p.kinds) AS held
              FROM paused p, generate_series(9, 0, -1) AS level (priority)
             CROSS JOIN LATERAL (SELECT o.start_time, o.run_at, o.kind FROM tenon.task o
                                  WHERE o.queue = $1 AND o.priority = level.priority AND o.run_at <= clock_timestamp()
                                  ORDER BY o.run_at LIMIT 10000) t
             LIMIT 10000) d
$$;

CREATE OR REPLACE FUNCTION tenon.demand(queue text, latency interval DEFAULT '5 s') RETURNS integer
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    rate record := tenon.rate_seen(queue);
    backlog record := tenon.backlog_seen(queue);
    latency_s double precision := extract(epoch FROM latency);
BEGIN
    IF latency_s IS NULL OR latency_s <= 0 THEN
        RAISE invalid_parameter_value USING MESSAGE = format('latency is %s: it must be longer than nothing', coalesce(latency::text, 'NULL'));
    END IF;
    -- a slow handler has not finished any task yet: running tasks give a lower bound of its time. Suspects need a worker too
    RETURN greatest(tenon.slots_wanted(rate.tasks_per_s, greatest(rate.run_s, backlog.running_s), backlog.ready, backlog.running,
                                       coalesce(backlog.oldest_s, 0), latency_s),
                    EXISTS (SELECT FROM tenon.suspect s JOIN tenon.task t ON t.id = s.task_id
                             WHERE s.alone AND s.claims IS NULL AND s.due_at <= clock_timestamp() AND t.queue = demand.queue
                               AND NOT EXISTS (SELECT FROM tenon.paused p WHERE p.what = 'everything' OR p.what = 'queue' AND p.name = t.queue
                                                                               OR p.what = 'kind' AND p.name = t.kind))::integer);
END $$;

COMMENT ON FUNCTION tenon.demand IS $$How many slots the queue wants, so that tasks start within the latency: by what arrived and ended in the last two minutes, by run times, and by what waits and runs (up to 10,000 tasks). 0: nothing waits, runs or comes. For readers; `tenon scaler` and KEDA ask it.$$;
