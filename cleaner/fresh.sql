-- Rows that became visible since they were read last: those above the watermark, and the gaps below it.
--   $1 bigint    the watermark    $2 bigint[]  gaps    $3 integer  how many above the watermark    $4 bigint  notes up to this id are settled
--   $5 bigint    the relay has seen messages up to this id
-- `wanted`: ready, and its producer does not publish it. `blocked`: settle decides when it continues. In the order of ids, after
-- a row without an id, which tells what was in progress: `running`, of those below `xmax` (up to which some have ended), and
-- `next`, the next to begin; `unsettled`, whether ends or enqueues have left something to settle; and `message`, the newest one.
SELECT t.id, t.queue, t.kind, t.delayed, t.announced,
       NOT t.announced AND t.start_time IS NULL AND t.run_at <= statement_timestamp()
       AND t.queue NOT IN (SELECT name FROM tenon.paused WHERE what = 'queue') AS wanted,
       t.run_at = 'infinity' AS blocked,
       NULL::text AS running, NULL::bigint AS xmax, NULL::bigint AS next, NULL::boolean AS unsettled, NULL::bigint AS message
FROM (
    (SELECT * FROM tenon.task WHERE id > $1::bigint ORDER BY id LIMIT $3::integer)
    UNION ALL
    SELECT * FROM tenon.task WHERE id = ANY ($2::bigint[])
) t
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL,
       (SELECT coalesce(string_agg(x::text, ' '), '') FROM pg_snapshot_xip(s) x),
       pg_snapshot_xmax(s)::text::bigint, pg_snapshot_xmin(s)::text::bigint + age(pg_snapshot_xmin(s)::xid),
       tenon.has_notes($4::bigint), tenon.newest_message($5::bigint)
FROM pg_current_snapshot() s
ORDER BY id NULLS FIRST;
