-- The sleeper's lock: while the leader holds it, tenon.publisher_sleeps() sends a NOTIFY. Refused: a
-- producer's transaction is open, which holds it shared.
--   $1 bigint  sleeper_key
SELECT pg_try_advisory_lock($1::bigint);
