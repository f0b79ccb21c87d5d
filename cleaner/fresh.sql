-- Rows that became visible since the last look: those above the watermark, and the gaps below it.
--   $1 bigint    the watermark    $2 bigint[]  gaps    $3 integer  how many above the watermark
-- `wanted`: ready, and its producer does not publish it. In the order of ids.
SELECT t.id, t.queue, t.delayed,
       NOT t.announced AND NOT t.delayed AND t.start_time IS NULL AND t.run_at <= statement_timestamp()
       AND t.queue NOT IN (SELECT name FROM tenon.queue WHERE paused) AS wanted
FROM (
    (SELECT * FROM tenon.task WHERE id > $1::bigint ORDER BY id LIMIT $3::integer)
    UNION ALL
    SELECT * FROM tenon.task WHERE id = ANY ($2::bigint[])
) t
ORDER BY t.id;
