-- Depth: how many tasks of each queue and kind are in each state. Small queues are counted when somebody asks; large ones by the
-- leading cleaner, from time to time, into tenon.depth.

-- Up to `most` queues, by name: first those with defaults, a pause or a living worker, then those that only have tasks. However
-- many names producers make up, only `most` are read.
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
        SELECT name, true FROM tenon.paused WHERE what = 'queue'
        UNION ALL
        SELECT q, true FROM tenon.worker w CROSS JOIN unnest(w.queues) q WHERE w.ended_at IS NULL
        UNION ALL
        (SELECT queue, false FROM named WHERE queue IS NOT NULL LIMIT $1)
    )
    SELECT queue FROM every GROUP BY queue ORDER BY bool_or(known) DESC, queue LIMIT $1
$$;

-- Counts all tasks, for the leading cleaner (cleaner/depth.c): one pass over tenon.task and one over tenon.dead, by one process. Both
-- are read from end to end, which leaves the cache of a large table alone; it locks nothing that others write. The 1,000 largest queues
-- have rows of their own, and so do the kinds among the 1,000 largest pairs; other kinds of such a queue are `(other)`, so that the sum
-- of a queue is always all of it. Rows that are as before are not written. Returns whether any row has changed.
CREATE OR REPLACE FUNCTION tenon.count_depth() RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = on SET enable_indexscan = off SET enable_bitmapscan = off
    SET max_parallel_workers_per_gather = 0 SET jit = off AS $$
DECLARE
    begun timestamptz := statement_timestamp();
    changed bigint;
BEGIN
    WITH counted AS (
        SELECT t.queue, t.kind,
               count(*) FILTER (WHERE t.start_time IS NULL AND t.run_at <= begun) AS ready,
               count(t.start_time) AS running,
               count(*) FILTER (WHERE t.start_time IS NULL AND t.run_at > begun AND t.run_at < 'infinity' AND t.failures + t.crashes = 0) AS scheduled,
               count(*) FILTER (WHERE t.start_time IS NULL AND t.run_at > begun AND t.run_at < 'infinity' AND t.failures + t.crashes > 0) AS retrying,
               count(*) FILTER (WHERE t.start_time IS NULL AND t.run_at = 'infinity') AS blocked,
               0 AS dead, min(t.run_at) FILTER (WHERE t.start_time IS NULL AND t.run_at <= begun) AS oldest_ready
          FROM tenon.task t GROUP BY t.queue, t.kind
        UNION ALL
        SELECT d.queue, d.kind, 0, 0, 0, 0, 0, count(*), NULL FROM tenon.dead d GROUP BY d.queue, d.kind
    ), pair AS (
        SELECT c.queue, c.kind, sum(c.ready) AS ready, sum(c.running) AS running, sum(c.scheduled) AS scheduled, sum(c.retrying) AS retrying,
               sum(c.blocked) AS blocked, sum(c.dead) AS dead, min(c.oldest_ready) AS oldest_ready,
               sum(c.ready + c.running + c.scheduled + c.retrying + c.blocked + c.dead) AS n
          FROM counted c GROUP BY c.queue, c.kind
    ), placed AS (
        SELECT p.*, row_number() OVER (ORDER BY p.n DESC, p.queue, p.kind) <= 1000 AS named, q.named AS queue_named
          FROM pair p JOIN (SELECT queue, row_number() OVER (ORDER BY sum(n) DESC, queue) <= 1000 AS named FROM pair GROUP BY queue) q USING (queue)
    ), folded AS (
        SELECT CASE WHEN p.queue_named THEN p.queue ELSE '(other)' END AS queue, CASE WHEN p.queue_named AND p.named THEN p.kind ELSE '(other)' END AS kind,
               sum(p.ready) AS ready, sum(p.running) AS running, sum(p.scheduled) AS scheduled, sum(p.retrying) AS retrying,
               sum(p.blocked) AS blocked, sum(p.dead) AS dead, min(p.oldest_ready) AS oldest_ready
          FROM placed p GROUP BY 1, 2
    ), gone AS (
        DELETE FROM tenon.depth d WHERE NOT EXISTS (SELECT FROM folded r WHERE r.queue = d.queue AND r.kind = d.kind) RETURNING 1
    ), written AS (
        INSERT INTO tenon.depth AS d SELECT * FROM folded r ORDER BY r.queue, r.kind
        ON CONFLICT ON CONSTRAINT depth_pkey DO UPDATE
        SET (ready, running, scheduled, retrying, blocked, dead, oldest_ready)
          = (EXCLUDED.ready, EXCLUDED.running, EXCLUDED.scheduled, EXCLUDED.retrying, EXCLUDED.blocked, EXCLUDED.dead, EXCLUDED.oldest_ready)
        WHERE d.* IS DISTINCT FROM EXCLUDED.* RETURNING 1
    )
    SELECT (SELECT count(*) FROM gone) + (SELECT count(*) FROM written) INTO changed;
    INSERT INTO tenon.depth_count AS c (counted_at, took_ms) VALUES (begun, ceil(extract(epoch FROM clock_timestamp() - begun) * 1000))
    ON CONFLICT (one) DO UPDATE SET counted_at = EXCLUDED.counted_at, took_ms = EXCLUDED.took_ms;
    RETURN changed > 0;
END $$;

COMMENT ON FUNCTION tenon.count_depth IS $$For cleaners: counts all tasks by queue, kind and state into `tenon.depth`. True if a count has changed.$$;

-- When tenon.depth was last counted, if that is not long ago: 5 minutes, or twice the time between two counts. No row otherwise.
CREATE OR REPLACE FUNCTION tenon.depth_fresh() RETURNS SETOF timestamptz
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT counted_at FROM tenon.depth_count
     WHERE counted_at > statement_timestamp() - greatest(interval '5 min', took_ms * interval '40 ms')
$$;

-- How many tasks of each queue and kind are in each state; a queue without tasks has one row, whose kind is NULL.
-- Small queues are counted now: in all, up to rows_max rows that are due are read, the same number that is not due, and of dead ones, each queue
-- having an equal share of them; so a backlog of millions is never read here. Where a count ends at this bound, the numbers of
-- tenon.depth take its place, if they are fresh and not smaller: `counted_at` is then the time of that count. Otherwise the row is a lower bound,
-- and `at_least` is true. One long statement, so that all its numbers are of one snapshot.
CREATE OR REPLACE FUNCTION tenon.queue_depth(rows_max bigint, queues_max bigint)
RETURNS TABLE (queue text, kind text, ready bigint, running bigint, scheduled bigint, retrying bigint, blocked bigint, dead bigint,
               oldest_ready timestamptz, at_least boolean, counted_at timestamptz)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    WITH last AS MATERIALIZED (
        SELECT c.counted_at FROM tenon.depth_fresh() c (counted_at)
    ), died AS MATERIALIZED (
        SELECT d.queue, d.kind, count(*) AS n FROM (SELECT queue, kind FROM tenon.dead ORDER BY dead_at DESC LIMIT $1) d GROUP BY d.queue, d.kind
    ), all_died AS MATERIALIZED (  -- bounded: there may be more
        SELECT coalesce(sum(n), 0) >= $1 AS bounded, coalesce(sum(n), 0) >= $1 AND EXISTS (SELECT FROM last)
               AND (SELECT coalesce(sum(d.dead), 0) FROM tenon.depth d) >= coalesce(sum(n), 0) AS counted FROM died
    ), shown AS MATERIALIZED (
        SELECT n.queue FROM tenon.queue_names($2) AS n (queue)
        UNION (SELECT queue FROM died GROUP BY queue LIMIT $2)
        UNION (SELECT d.queue FROM all_died a JOIN tenon.depth d ON a.counted AND d.dead > 0 AND d.queue <> '(other)' GROUP BY d.queue LIMIT $2)
    ), share AS MATERIALIZED (
        SELECT greatest($1 / greatest(count(*), 1), 100) AS rows FROM shown
    ), live AS MATERIALIZED (
        SELECT s.queue, t.kind, t.due, count(*) AS n, count(t.start_time) AS running,
               count(*) FILTER (WHERE t.start_time IS NULL AND t.due) AS ready,
               count(*) FILTER (WHERE NOT t.due AND t.run_at < 'infinity' AND t.failed = 0) AS scheduled,
               count(*) FILTER (WHERE NOT t.due AND t.run_at < 'infinity' AND t.failed > 0) AS retrying,
               count(*) FILTER (WHERE t.run_at = 'infinity') AS blocked,
               min(t.run_at) FILTER (WHERE t.start_time IS NULL AND t.due) AS oldest_ready
          FROM shown s
         CROSS JOIN LATERAL (
               (SELECT o.kind, true AS due, o.start_time, o.run_at, 0 AS failed
                  FROM generate_series(9, 0, -1) p
                 CROSS JOIN LATERAL (SELECT kind, start_time, run_at FROM tenon.task
                                      WHERE queue = s.queue AND priority = p AND run_at <= statement_timestamp()
                                      ORDER BY run_at LIMIT (SELECT rows FROM share)) o
                 LIMIT (SELECT rows FROM share))
               UNION ALL
               (SELECT o.kind, false, NULL, o.run_at, o.failed
                  FROM generate_series(9, 0, -1) p
                 CROSS JOIN LATERAL (SELECT kind, run_at, failures + crashes AS failed FROM tenon.task
                                      WHERE queue = s.queue AND priority = p AND run_at > statement_timestamp()
                                      ORDER BY run_at LIMIT (SELECT rows FROM share)) o
                 LIMIT (SELECT rows FROM share))) t
         GROUP BY s.queue, t.kind, t.due
    ), seen AS MATERIALIZED (
        SELECT l.queue, sum(l.n) AS n,
               sum(l.n) FILTER (WHERE l.due) >= (SELECT rows FROM share) OR sum(l.n) FILTER (WHERE NOT l.due) >= (SELECT rows FROM share) AS bounded
          FROM live l GROUP BY l.queue
    ), source AS MATERIALIZED (  -- of each queue; counted: take what the cleaner has counted
        SELECT s.queue, coalesce(n.bounded, false) AS bounded,
               coalesce(n.bounded AND EXISTS (SELECT FROM last)
                        AND (SELECT sum(d.ready + d.running + d.scheduled + d.retrying + d.blocked) FROM tenon.depth d WHERE d.queue = s.queue) >= n.n, false) AS counted
          FROM shown s LEFT JOIN seen n USING (queue)
    ), part AS (
        SELECT l.queue, l.kind, l.ready, l.running, l.scheduled, l.retrying, l.blocked, 0 AS dead, l.oldest_ready
          FROM live l JOIN source s ON s.queue = l.queue AND NOT s.counted
        UNION ALL
        SELECT d.queue, d.kind, d.ready, d.running, d.scheduled, d.retrying, d.blocked, 0, d.oldest_ready
          FROM source s JOIN tenon.depth d ON d.queue = s.queue AND s.counted AND d.ready + d.running + d.scheduled + d.retrying + d.blocked > 0
        UNION ALL
        SELECT d.queue, d.kind, 0, 0, 0, 0, 0, d.n, NULL FROM died d JOIN all_died a ON NOT a.counted
        UNION ALL
        SELECT d.queue, d.kind, 0, 0, 0, 0, 0, d.dead, NULL FROM tenon.depth d JOIN all_died a ON a.counted AND d.dead > 0
    )
    SELECT s.queue, p.kind, coalesce(sum(p.ready), 0)::bigint, coalesce(sum(p.running), 0)::bigint, coalesce(sum(p.scheduled), 0)::bigint,
           coalesce(sum(p.retrying), 0)::bigint, coalesce(sum(p.blocked), 0)::bigint, coalesce(sum(p.dead), 0)::bigint, min(p.oldest_ready),
           s.bounded AND NOT s.counted OR a.bounded AND NOT a.counted,
           CASE WHEN s.counted OR a.counted THEN (SELECT counted_at FROM last) ELSE statement_timestamp() END
      FROM source s CROSS JOIN all_died a LEFT JOIN part p ON p.queue = s.queue
     GROUP BY s.queue, p.kind, s.bounded, s.counted, a.bounded, a.counted
$$;

COMMENT ON FUNCTION tenon.queue_depth IS $$How many tasks of each queue and kind are in each state, for `tenon status`, `tenon doctor`, the page and metrics: up to `queues_max` queues, those with settings or workers first. Up to `rows_max` tasks are counted now; for larger queues the leading cleaner's count is shown, of the time `counted_at` (`tenon.depth`). `at_least`: no such count exists, and the numbers are lower bounds. A queue without tasks has one row, whose `kind` is NULL.$$;
