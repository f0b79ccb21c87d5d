-- How many tasks were enqueued in the last hours, in steps of time: of those that are still known, unfinished or ended. Of a
-- large table about $2 blocks are read, always the same ones, and each row stands for as many as there are blocks to one:
-- so it is right within about a tenth. And whether all were read.
--   $1 integer  hours    $2 integer  how many blocks of each table    $3 integer  how many steps    $4 text  the queue; NULL = all
WITH span AS MATERIALIZED (
    SELECT statement_timestamp() - make_interval(hours => $1::integer) AS since, $1::integer * 3600.0 / $3::integer AS step_s
), pages AS MATERIALIZED (
    SELECT p.parent, current_setting('block_size')::float8 * $2::integer * 100 / greatest(sum(pg_relation_size(p.part)), 1) AS percent
    FROM (SELECT 'tenon.task'::regclass AS parent, 'tenon.task'::regclass AS part
          UNION ALL SELECT 'tenon.dead'::regclass, 'tenon.dead'::regclass
          UNION ALL
          SELECT i.inhparent, c.oid FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
          WHERE i.inhparent = 'tenon.history'::regclass AND c.relname ~ '^history_[0-9]{8}$'
            AND to_date(right(c.relname, 8), 'YYYYMMDD') >= ((SELECT since FROM span) AT TIME ZONE 'UTC')::date) p
    GROUP BY p.parent
), share AS MATERIALIZED (
    SELECT least(100, max(percent) FILTER (WHERE parent = 'tenon.task'::regclass)) AS task,
           least(100, max(percent) FILTER (WHERE parent = 'tenon.dead'::regclass)) AS dead,
           least(100, max(percent) FILTER (WHERE parent = 'tenon.history'::regclass)) AS history
    FROM pages
), known AS (
    SELECT created_at, queue, 100 / (SELECT task FROM share) AS n
    FROM tenon.task TABLESAMPLE SYSTEM ((SELECT task FROM share)) REPEATABLE (0)
    UNION ALL
    SELECT created_at, queue, 100 / (SELECT dead FROM share)
    FROM tenon.dead TABLESAMPLE SYSTEM ((SELECT dead FROM share)) REPEATABLE (0)
    UNION ALL
    SELECT created_at, queue, 100 / (SELECT history FROM share)
    FROM tenon.history TABLESAMPLE SYSTEM ((SELECT coalesce(history, 0) FROM share)) REPEATABLE (0)
    WHERE finished_at >= (SELECT since FROM span)
)
SELECT coalesce(json_object_agg(a.step, round(a.n::numeric)), '{}')::text, (SELECT least(task, dead, history) >= 100 FROM share)
FROM (SELECT least(floor(extract(epoch FROM k.created_at - s.since) / s.step_s)::integer, $3::integer - 1) AS step, sum(k.n) AS n
      FROM known k, span s
      WHERE k.created_at >= s.since AND k.created_at <= statement_timestamp() AND ($4::text IS NULL OR k.queue = $4::text)
      GROUP BY 1) a;
