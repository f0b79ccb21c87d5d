-- What is set for kinds.
--   $1 text  one kind; NULL = all
-- scans
SELECT k.name, k.queue, k.priority, k.max_attempts, k.max_crashes, make_interval(secs => k.timeout_ms / 1000.0), k.retry, k.on_dead,
       CASE WHEN k.paused THEN concat('paused', ' by ' || k.paused_by, ': ' || k.paused_why) END, row_to_json(k)::text
FROM tenon.kind k
WHERE $1::text IS NULL OR k.name = $1
ORDER BY k.name;
