-- The state of a task that has not ended.
--   $1 bigint  the id
SELECT state FROM tenon.result($1::bigint);
