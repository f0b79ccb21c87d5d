-- In how many milliseconds the next delayed task is due; no row when there is none.
--   $1 interval  how far back, as in due.sql
SELECT ceil(extract(epoch FROM run_at - statement_timestamp()) * 1000)::bigint
FROM tenon.task
WHERE delayed
  AND run_at >= statement_timestamp() - $1::interval
ORDER BY run_at
LIMIT 1;
