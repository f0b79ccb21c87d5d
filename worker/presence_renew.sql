-- Go on as a registered worker with a new session; the answer is that of presence_ping.sql. No row when the worker was
-- declared dead meanwhile, or is not known in this database.
--   $1 uuid  worker    $2 bigint  the key of the session's lock
UPDATE tenon.worker SET lock_key = $2::bigint
WHERE id = $1::uuid AND ended_at IS NULL AND state IN ('alive', 'draining')
RETURNING state, tenon.paused_kinds(kinds);
