-- A new session of a worker that was registered: no row when it was declared dead meanwhile, or is not known here.
--   $1 uuid  worker    $2 bigint  the key of the session's lock
UPDATE tenon.worker SET lock_key = $2::bigint
WHERE id = $1::uuid AND ended_at IS NULL AND state IN ('alive', 'draining')
RETURNING id, tenon.paused_kinds(kinds);
