-- Take the lock that says this worker is alive. The two process ids differ behind a pooler.
--   $1 integer  lock_key
SELECT pg_try_advisory_lock(1952804463, $1::integer), pg_backend_pid();
