-- The plan of the claim, worker/claim.sql, which the session has prepared under this name. It does not run.
EXPLAIN (FORMAT JSON, COSTS off) EXECUTE doctor_claim (NULL, NULL, NULL, NULL, NULL, NULL);
