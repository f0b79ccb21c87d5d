-- What is set for queues.
--   $1 text  one queue; NULL = all
-- scans
SELECT q.name, NULL, q.priority, q.max_attempts, NULL, make_interval(secs => q.timeout_ms / 1000.0), q.retry, NULL,
       CASE WHEN q.paused THEN concat('paused', ' by ' || q.paused_by, ': ' || q.paused_why) END, row_to_json(q)::text
FROM tenon.queue q
WHERE $1::text IS NULL OR q.name = $1
ORDER BY q.name;
