-- What is to be done about old history, as commands, in the order in which they may run:
--   finalize  a DETACH that did not come to its end, which stops every other
--   drop      a partition that is detached already
--   detach    one that is older than history_keep, or beyond history_rows_max counted from the newest
-- A day's partition is named finished_YYYYMMDD. Yesterday's is made ahead, so an empty one stays.
WITH part AS (
    SELECT c.oid, c.relname, c.relispartition, i.inhdetachpending,
           to_date(right(c.relname, 8), 'YYYYMMDD') + 1 AS ends,
           CASE WHEN c.reltuples > 0 AND c.relpages > 0
                THEN c.reltuples / c.relpages * (pg_relation_size(c.oid) / current_setting('block_size')::integer)
                ELSE pg_relation_size(c.oid) / 200.0 END AS n
    FROM pg_class c
    LEFT JOIN pg_inherits i ON i.inhrelid = c.oid AND i.inhparent = 'tenon.finished'::regclass
    WHERE c.relnamespace = 'tenon'::regnamespace
      AND c.relkind = 'r'
      AND c.relname ~ '^finished_[0-9]{8}$'
), old AS (
    SELECT p.*, sum(p.n) OVER (ORDER BY p.ends DESC) AS n_newer
    FROM part p
), command AS (
    SELECT 1 AS step, relname, format('ALTER TABLE tenon.finished DETACH PARTITION tenon.%I FINALIZE', relname) AS text
    FROM old
    WHERE inhdetachpending
    UNION ALL
    SELECT 2, relname, format('DROP TABLE tenon.%I', relname)
    FROM old
    WHERE NOT relispartition AND inhdetachpending IS NULL AND ends <= current_date
    UNION ALL
    SELECT 3, o.relname, format('ALTER TABLE tenon.finished DETACH PARTITION tenon.%I CONCURRENTLY', o.relname)
    FROM old o
    CROSS JOIN tenon.setting s
    WHERE NOT o.inhdetachpending
      AND o.ends <= now() - interval '1 hour'
      AND (o.ends <= now() - s.history_keep OR o.n_newer > s.history_rows_max)
      AND (o.ends < current_date OR pg_relation_size(o.oid) > 0)
)
SELECT step, relname, text
FROM command
ORDER BY step, relname;
