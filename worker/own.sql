-- Every task this worker has claimed: asked once after a lost connection. There is no index on
-- worker_id, because it would make every claim write to it.
-- scans
--   $1 uuid  worker
SELECT id, claims, claim_key
FROM tenon.task
WHERE worker_id = $1::uuid;
