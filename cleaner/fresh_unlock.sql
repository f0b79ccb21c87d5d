-- The leader is awake again and reads by itself.
SELECT pg_advisory_unlock(1952804463, 2);
