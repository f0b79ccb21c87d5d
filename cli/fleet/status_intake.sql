-- The queues and streams from which processes of tenon intake take messages: a row as it is printed, why no messages are taken, and the
-- row as JSON. A row that has not been written for a minute is silent.
--   $1 bigint  how many
-- scans
SELECT i.queue, i.host, i.pid,
       CASE l.state WHEN 'silent' THEN format('silent for %s s', l.silent_s) ELSE l.state END, i.taken, i.repeated, i.rejected, l.since,
       CASE l.state WHEN 'waiting' THEN format('%s (%s, pid %s): %s', i.queue, i.host, i.pid, left(tenon.error_line(i.error), 200)) END,
       row_to_json(l)::text
FROM tenon.intake i
CROSS JOIN LATERAL (SELECT extract(epoch FROM statement_timestamp() - i.seen_at)::bigint AS s) silent
CROSS JOIN LATERAL (
    SELECT i.queue, i.is_stream, i.host, i.pid, i.version,
           CASE WHEN silent.s > 60 THEN 'silent' WHEN i.error IS NULL THEN 'taking' ELSE 'waiting' END AS state,
           greatest(silent.s, 0) AS silent_s, i.error, to_char(i.error_since, 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS error_since,
           to_char(i.started_at, 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS since, i.taken, i.repeated, i.rejected, i.kept, i.unkeyed
) l
ORDER BY i.queue, i.host, i.pid
LIMIT $1::bigint;
