-- One cleaner leads: it holds this session lock.
SELECT pg_try_advisory_lock(1952804463, 1);
