-- The leader is awake again and looks by itself.
SELECT pg_advisory_unlock(1952804463, 2);
