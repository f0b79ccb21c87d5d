-- Delayed tasks whose moment came since they were read last and that nobody has started yet.
--   $1 bigint   up to where that was, microseconds since 1970    $2 integer  how many
-- Nothing is written: a row that is due is claimed as it is. now() is that of due_next.sql in the same
-- transaction. Index: task_delayed.
SELECT id, queue, kind
FROM tenon.task
WHERE delayed
  AND run_at > timestamptz 'epoch' + $1::bigint * interval '1 microsecond'
  AND run_at <= now()
  AND start_time IS NULL
  AND queue NOT IN (SELECT name FROM tenon.paused WHERE what = 'queue')
ORDER BY run_at
LIMIT $2::integer;
