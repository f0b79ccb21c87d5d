-- In how many milliseconds the next delayed task is due; NULL when there is none.
--   $1 interval  how far back, as in due.sql
SELECT ceil(extract(epoch FROM min(run_at) - statement_timestamp()) * 1000)::bigint
FROM tenon.task
WHERE delayed
  AND run_at >= statement_timestamp() - $1::interval;
