-- What ended lately, among the newest $1 ids of the history: less than all when that many ended, which
-- the last column says.
--   $1 bigint  how many ids
SELECT count(*) FILTER (WHERE outcome = 'done' AND finished_at > statement_timestamp() - interval '1 hour'),
       count(*) FILTER (WHERE outcome = 'done' AND finished_at > statement_timestamp() - interval '1 day'),
       count(*) FILTER (WHERE outcome = 'cancelled' AND finished_at > statement_timestamp() - interval '1 day'),
       count(*) >= $1::bigint
FROM (SELECT outcome, finished_at FROM tenon.finished ORDER BY id DESC LIMIT $1::bigint) f;
