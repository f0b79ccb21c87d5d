-- A look has failed, and its session may still hold what keeps other looks waiting.
SELECT pg_advisory_unlock_all();
