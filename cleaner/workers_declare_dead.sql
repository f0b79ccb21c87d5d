-- A worker is dead, unless somebody was faster, or it took its lock in the last moment.
--   $1 uuid  worker
UPDATE tenon.worker w
SET state = 'dead', ended_at = clock_timestamp()
WHERE w.id = $1::uuid
  AND w.ended_at IS NULL
  AND NOT EXISTS (
      SELECT FROM pg_locks l
      WHERE l.locktype = 'advisory' AND l.classid = 1952804463 AND l.objsubid = 2 AND l.granted
        AND l.objid::bigint = w.lock_key
        AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()))
RETURNING w.host, w.pid;
