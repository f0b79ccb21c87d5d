-- For `tenon cleaner --once`: what is ready and nobody has started, the oldest first. Nobody else may be there to
-- publish it, and so it is published again each time. In the order of ids, which is about that of time and has an index.
-- scans
--   $1 integer  how many
SELECT id, queue, kind
FROM tenon.task
WHERE start_time IS NULL
  AND run_at <= statement_timestamp()
  AND queue NOT IN (SELECT name FROM tenon.queue WHERE paused)
  AND kind NOT IN (SELECT name FROM tenon.kind WHERE paused)
  AND NOT (SELECT paused FROM tenon.setting)
  AND coalesce(start_before > statement_timestamp(), true)
ORDER BY id
LIMIT $1::integer;
