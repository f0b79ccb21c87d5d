-- What the cleaner thinks of this worker, asked over the session that holds its lock.
--   $1 uuid  worker
SELECT state FROM tenon.worker WHERE id = $1::uuid;
