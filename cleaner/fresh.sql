-- Rows that became visible since they were read last: those above the watermark, and the gaps below it.
--   $1 bigint    the watermark    $2 bigint[]  gaps    $3 integer  how many above the watermark
-- `wanted`: ready, and its producer does not publish it. All transactions below `xmin` are over; `next` is the
-- next to begin (a snapshot's xmax is not: it says how far transactions have ended). In the order of ids.
SELECT t.id, t.queue, t.kind, t.delayed, t.announced,
       NOT t.announced AND t.start_time IS NULL AND t.run_at <= statement_timestamp()
       AND t.queue NOT IN (SELECT name FROM tenon.queue WHERE paused) AS wanted,
       s.xmin, s.next
FROM (SELECT xmin8::text::bigint AS xmin, xmin8::text::bigint + age(xmin8::xid) AS next
      FROM pg_snapshot_xmin(pg_current_snapshot()) AS xmin8 OFFSET 0) s, (
    (SELECT * FROM tenon.task WHERE id > $1::bigint ORDER BY id LIMIT $3::integer)
    UNION ALL
    SELECT * FROM tenon.task WHERE id = ANY ($2::bigint[])
) t
ORDER BY t.id;
