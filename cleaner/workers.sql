-- Workers that are alive by their row, and whose lock nobody holds who may.
SELECT w.id
FROM tenon.worker w
WHERE w.ended_at IS NULL
  AND w.state IN ('alive', 'draining')
  AND w.lock_key NOT IN (SELECT l.key FROM tenon.lock l WHERE l.counts);
