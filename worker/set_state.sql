-- The worker drains or has left. A worker that was declared dead stays dead.
--   $1 uuid  worker    $2 text  'draining' or 'left'
UPDATE tenon.worker
SET state = $2, ended_at = CASE WHEN $2 = 'left' THEN clock_timestamp() END
WHERE id = $1::uuid AND state IN ('alive', 'draining');
