-- Names that the search completes: queues, kinds, classes of errors, tags.
--   $1 bigint  how many tasks to read for each    $2 integer  how many names of each
-- scans
WITH died AS MATERIALIZED (
    SELECT kind, queue, error_class, tags FROM tenon.dead ORDER BY dead_at DESC LIMIT $1::bigint
), live AS MATERIALIZED (
    SELECT kind, queue, error_class, tags FROM tenon.task ORDER BY id DESC LIMIT $1::bigint
), both_ AS MATERIALIZED (
    SELECT * FROM died UNION ALL SELECT * FROM live
)
SELECT json_build_object(
    'queues', (SELECT coalesce(json_agg(q ORDER BY q), '[]') FROM (
        SELECT queue AS q FROM tenon.queue_names($2::bigint) AS queue UNION SELECT queue FROM died LIMIT $2::integer) n),
    'kinds', (SELECT coalesce(json_agg(k ORDER BY k), '[]') FROM (
        SELECT kind AS k FROM both_ UNION SELECT name FROM tenon.kind
        UNION SELECT unnest(kinds) FROM tenon.worker WHERE ended_at IS NULL LIMIT $2::integer) n),
    'errors', (SELECT coalesce(json_agg(e ORDER BY e), '[]') FROM (
        SELECT error_class AS e FROM both_ WHERE error_class IS NOT NULL GROUP BY 1 ORDER BY count(*) DESC LIMIT $2::integer) n),
    'tags', (SELECT coalesce(json_agg(t ORDER BY t), '[]') FROM (
        SELECT unnest(tags) AS t FROM both_ WHERE tags IS NOT NULL GROUP BY 1 ORDER BY count(*) DESC LIMIT $2::integer) n))::text;
