-- Every worker that is alive by its row, and whether anybody holds its lock.
SELECT w.id, w.host, w.pid,
       w.lock_key::bigint NOT IN (
           SELECT l.objid::bigint
           FROM pg_locks l
           WHERE l.locktype = 'advisory' AND l.classid = 1952804463 AND l.objsubid = 2 AND l.granted
             AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())) AS lock_is_free
FROM tenon.worker w
WHERE w.ended_at IS NULL
  AND w.state IN ('alive', 'draining');
