-- The leader is awake again and reads by itself.
--   $1 bigint  sleeper_key
SELECT pg_advisory_unlock($1::bigint);
