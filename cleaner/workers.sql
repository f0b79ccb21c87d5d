-- Workers that are alive by their row, and whose lock nobody holds.
SELECT w.id
FROM tenon.worker w
WHERE w.ended_at IS NULL
  AND w.state IN ('alive', 'draining')
  AND w.lock_key::bigint NOT IN (
      SELECT l.objid::bigint
      FROM pg_locks l
      WHERE l.locktype = 'advisory' AND l.classid = 1952804463 AND l.objsubid = 2 AND l.granted
        AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()));
