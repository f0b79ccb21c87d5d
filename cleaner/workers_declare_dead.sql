-- Workers are dead, except those that somebody else declared dead first, or that took their lock in the last moment.
--   $1 uuid[]  workers
UPDATE tenon.worker w
SET state = 'dead', ended_at = clock_timestamp()
WHERE w.id = ANY (ARRAY(SELECT o.id FROM tenon.worker o
                        WHERE o.id = ANY ($1::uuid[])
                          AND o.ended_at IS NULL
                          AND o.lock_key NOT IN (SELECT l.key FROM tenon.lock l WHERE l.counts)
                        FOR UPDATE SKIP LOCKED))
RETURNING w.id, w.host, w.pid;
