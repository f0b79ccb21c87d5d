-- How many messages of the outbox wait and how many were refused, counted in the newest; whether there are more; and the age of the
-- oldest that waits, in seconds.
--   $1 bigint  how many to count
SELECT d.waiting, d.refused, d.at_least, floor(d.oldest_ms / 1000.0)::bigint
FROM tenon.outbox_depth($1::bigint) d;
