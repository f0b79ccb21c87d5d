-- What the cleaner thinks of this worker, asked over the session that holds its lock; and which of its kinds are paused.
--   $1 uuid  worker
SELECT state, tenon.paused_kinds(kinds) FROM tenon.worker WHERE id = $1::uuid;
