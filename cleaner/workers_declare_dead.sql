-- A worker is dead, unless somebody was faster, or it took its lock in the last moment.
--   $1 uuid  worker
UPDATE tenon.worker w
SET state = 'dead', ended_at = clock_timestamp()
WHERE w.id = $1::uuid
  AND w.ended_at IS NULL
  AND NOT EXISTS (SELECT FROM tenon.lock l WHERE l.key = w.lock_key AND l.counts)
RETURNING w.host, w.pid;
