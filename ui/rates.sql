-- How many tasks were done and how many attempts failed in the last hours, in steps of time. Rows lie in the order of
-- their ends, so of a long history every k-th block is read, about $2 of them, and what lies between two of these is
-- spread over the time between. `exact`: every block was read.
--   $1 integer  hours    $2 integer  how many blocks of each table    $3 integer  how many steps
--   $4 text  the queue; NULL = all
WITH span AS MATERIALIZED (
    SELECT statement_timestamp() - make_interval(hours => $1::integer) AS since, statement_timestamp() AS until,
           $1::integer * 3600.0 / $3::integer AS step_s
), pace AS MATERIALIZED (
    SELECT i.inhparent = 'tenon.history'::regclass AS well, max(s.blocks) AS blocks,
           greatest(1, ceil(sum(s.blocks) / $2::numeric))::integer AS k
    FROM pg_inherits i
    JOIN pg_class c ON c.oid = i.inhrelid
    CROSS JOIN LATERAL (SELECT (pg_relation_size(c.oid) / current_setting('block_size')::integer)::integer AS blocks) s
    WHERE i.inhparent IN ('tenon.history'::regclass, 'tenon.attempt'::regclass)
      AND c.relname ~ '^(history|attempt)_[0-9]{8}$'
      AND to_date(right(c.relname, 8), 'YYYYMMDD') >= ((SELECT since FROM span) AT TIME ZONE 'UTC')::date
    GROUP BY 1
), tid AS MATERIALIZED (
    SELECT p.well, array_agg(format('(%s,%s)', b, line)::tid) AS tids
    FROM pace p
    CROSS JOIN LATERAL generate_series(0, p.blocks - 1, p.k) b
    CROSS JOIN LATERAL generate_series(1, 80) line  -- no row is so short that there are more in a block
    GROUP BY p.well
), ended AS MATERIALIZED (
    SELECT true AS well, e.tableoid AS part, (e.ctid::text::point)[0] AS block,
           extract(epoch FROM e.finished_at - (SELECT since FROM span))::float8 / (SELECT step_s FROM span)::float8 AS at
    FROM tenon.history e
    WHERE e.ctid = ANY ((SELECT tids FROM tid WHERE well)::tid[]) AND e.outcome = 'done' AND ($4::text IS NULL OR e.queue = $4::text)
      AND e.finished_at >= (SELECT since FROM span) AND e.finished_at < (SELECT until FROM span)
    UNION ALL
    SELECT false, a.tableoid, (a.ctid::text::point)[0],
           extract(epoch FROM a.ended_at - (SELECT since FROM span))::float8 / (SELECT step_s FROM span)::float8
    FROM tenon.attempt a
    WHERE a.ctid = ANY ((SELECT tids FROM tid WHERE NOT well)::tid[]) AND ($4::text IS NULL OR a.queue = $4::text)
      AND a.ended_at >= (SELECT since FROM span) AND a.ended_at < (SELECT until FROM span)
), block AS MATERIALIZED (
    SELECT b.well, b.n, b.starts, greatest(b.starts + 0.001, coalesce(b.next, $3::integer)) AS ends
    FROM (SELECT e.well, count(*) AS n, min(e.at) AS starts, lead(min(e.at)) OVER (PARTITION BY e.well ORDER BY min(e.at)) AS next
          FROM ended e GROUP BY e.well, e.part, e.block) b
), counted AS (
    SELECT e.well, floor(e.at)::integer AS step, 1.0 AS n
    FROM ended e JOIN pace p ON p.well = e.well AND p.k = 1
    UNION ALL
    SELECT b.well, s.step, b.n * p.k * (least(b.ends, s.step + 1) - greatest(b.starts, s.step)) / (b.ends - b.starts)
    FROM block b JOIN pace p ON p.well = b.well AND p.k > 1
    CROSS JOIN LATERAL generate_series(floor(b.starts)::integer, least(ceil(b.ends)::integer, $3::integer) - 1) s (step)
), summed AS (
    SELECT well, step, round(sum(n)::numeric) AS n FROM counted GROUP BY well, step
)
SELECT json_build_object('since', s.since, 'step_s', s.step_s::integer, 'steps', $3::integer,
    'exact', (SELECT coalesce(bool_and(k = 1), true) FROM pace),
    'done', (SELECT coalesce(json_object_agg(step, n), '{}') FROM summed WHERE well),
    'failed', (SELECT coalesce(json_object_agg(step, n), '{}') FROM summed WHERE NOT well))::text
FROM span s;
