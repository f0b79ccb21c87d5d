-- What ended lately, among the newest $1 ids of the history: less than all when that many ended, which
-- `at_least` says.
--   $1 bigint  how many ids
SELECT e.*, row_to_json(e)::text
FROM (
    SELECT count(*) FILTER (WHERE outcome = 'done' AND finished_at > statement_timestamp() - interval '1 hour')
               AS done_last_hour,
           count(*) FILTER (WHERE outcome = 'done' AND finished_at > statement_timestamp() - interval '1 day')
               AS done_last_day,
           count(*) FILTER (WHERE outcome = 'cancelled' AND finished_at > statement_timestamp() - interval '1 day')
               AS cancelled_last_day,
           count(*) >= $1::bigint AS at_least
    FROM (SELECT outcome, finished_at FROM tenon.history ORDER BY id DESC LIMIT $1::bigint) f
) e;
