-- The plan of the poll, worker/poll.sql, which the session has prepared under this name. It does not run.
EXPLAIN (FORMAT JSON, COSTS off) EXECUTE doctor_poll (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
