-- How many slots a queue wants, for whatever starts and ends workers.

-- The arithmetic. Arriving tasks keep rate x run time slots busy (Little's law), plus a fifth to spare; each running task keeps its
-- slot; waiting tasks are to start within the latency, with one slot each at most. Tasks that are late, or whose run time is unknown,
-- are to start within a quarter of the latency. A waiting task wants at least one slot.
CREATE OR REPLACE FUNCTION tenon.slots_wanted(tasks_per_s double precision, run_s double precision, ready bigint, running bigint, oldest_s double precision,
                                   latency_s double precision) RETURNS integer
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT least(1000000, greatest(sign(ready), ceil(greatest(coalesce(tasks_per_s * run_s / 0.8, 0), running)
                               + ready * least(1, coalesce(run_s / greatest(latency_s - oldest_s, latency_s / 4), 1)))))::integer
$$;

COMMENT ON FUNCTION tenon.slots_wanted IS $$The formula of `tenon.demand`, applied to numbers.$$;

-- The attempts of the queue started per second in the last two to three minutes, and their mean run time; if none has ended
-- since, the mean run time of the last day.
CREATE OR REPLACE FUNCTION tenon.rate_seen(queue text, OUT tasks_per_s double precision, OUT run_s double precision)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    WITH span AS (
        SELECT date_trunc('minute', clock_timestamp()) - interval '2 min' AS since
    ), lately AS (
        SELECT sum(m.started) AS started, sum(m.run_us) / nullif(sum(m.ended), 0) AS run_us
          FROM tenon.minute m WHERE m.minute >= (SELECT since FROM span) AND m.queue = $1
    )
    SELECT coalesce(l.started / extract(epoch FROM clock_timestamp() - s.since), 0)::double precision,
           (coalesce(l.run_us, (SELECT sum(m.run_us) / nullif(sum(m.ended), 0) FROM tenon.minute m WHERE m.queue = $1)) / 1e6)::double precision
      FROM lately l, span s
$$;

-- What is ready and what runs, of the first 10,000 due rows: those that run and those that are next. Where there are more, by the leading
-- cleaner's count.
CREATE OR REPLACE FUNCTION tenon.backlog_seen(queue text, OUT ready bigint, OUT running bigint, OUT oldest_s double precision, OUT running_s double precision)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    WITH paused AS MATERIALIZED (
        SELECT coalesce(bool_or(p.what = 'everything' OR (p.what = 'queue' AND p.name = $1)), false) AS whole,
               coalesce(array_agg(p.name) FILTER (WHERE p.what = 'kind'), '{}') AS kinds
          FROM tenon.paused p
    ), seen AS MATERIALIZED (
        SELECT count(*) AS n, count(*) FILTER (WHERE d.start_time IS NULL AND NOT d.held) AS ready, count(d.start_time) AS running,
               extract(epoch FROM clock_timestamp() - min(d.run_at) FILTER (WHERE d.start_time IS NULL AND NOT d.held)) AS oldest_s,
               avg(extract(epoch FROM clock_timestamp() - d.start_time)) AS running_s
          FROM (SELECT t.start_time, t.run_at, p.whole OR t.kind = ANY (p.kinds) AS held
                  FROM paused p, generate_series(9, 0, -1) AS level (priority)
                 CROSS JOIN LATERAL (SELECT o.start_time, o.run_at, o.kind FROM tenon.task o
                                      WHERE o.queue = $1 AND o.priority = level.priority AND o.run_at <= clock_timestamp()
                                      ORDER BY o.run_at LIMIT 10000) t
                 LIMIT 10000) d
    ), counted AS MATERIALIZED (
        SELECT sum(d.ready) FILTER (WHERE NOT (p.whole OR d.kind = ANY (p.kinds))) AS ready, sum(d.running) AS running
          FROM paused p, tenon.depth d
         WHERE d.queue = $1 AND (SELECT n FROM seen) >= 10000 AND EXISTS (SELECT FROM tenon.depth_fresh())
    )
    SELECT greatest(s.ready, c.ready), greatest(s.running, c.running), s.oldest_s, s.running_s FROM seen s, counted c
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

COMMENT ON FUNCTION tenon.demand IS $$Returns how many slots the queue needs so that its tasks start within the latency. It is calculated from the starts and run times of the last minutes and from the waiting and running tasks; beyond 10,000 of these, from the leading cleaner's count (`tenon.depth`). 0: no tasks wait, run or arrive. A slot counts as one task at a time: where handlers take several (`in_flight`), fewer slots do. For readers; `tenon scaler` and KEDA call it.$$;
