-- For `tenon cleaner --once`: what is ready and nobody has started, the oldest first. Nobody else may be there to
-- publish it, and so it is published again each time. In the order of ids, which is about that of time and has an index.
-- scans
--   $1 integer  how many
SELECT id, queue, kind
FROM tenon.task
WHERE start_time IS NULL
  AND run_at <= statement_timestamp()
  AND queue NOT IN (SELECT name FROM tenon.paused WHERE what = 'queue')
  AND kind NOT IN (SELECT name FROM tenon.paused WHERE what = 'kind')
  AND NOT EXISTS (SELECT FROM tenon.paused WHERE what = 'everything')
  AND coalesce(start_before > statement_timestamp(), true)
ORDER BY id
LIMIT $1::integer;
