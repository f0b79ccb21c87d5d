-- What every cleaner asks once a second: may I lead, and is there anything to do for the other chores?
--   $1 boolean  try to lead; the lock of the leader (1952804463, 1) is a session's
--   $2 bigint   rows above this id are fresh                   NULL = not asked
--   $3 bigint   delayed rows are published up to this run_at, microseconds since 1970; NULL = not asked
-- suspect: somebody whose row says alive does not hold his lock (workers.sql says who).
SELECT CASE WHEN $1::boolean THEN pg_try_advisory_lock(1952804463, 1) ELSE false END AS elected,
       (extract(epoch FROM now()) * 1000000)::bigint AS now_us,
       EXISTS (SELECT FROM tenon.task WHERE id > $2::bigint) AS fresh,
       (SELECT ceil(extract(epoch FROM run_at - now()) * 1000)::bigint
        FROM tenon.task
        WHERE delayed
          AND run_at > timestamptz 'epoch' + $3::bigint * interval '1 microsecond'
        ORDER BY run_at
        LIMIT 1) AS due_ms,
       EXISTS (SELECT FROM tenon.worker w
               WHERE w.ended_at IS NULL
                 AND w.lock_key::bigint NOT IN (
                     SELECT l.objid::bigint
                     FROM pg_locks l
                     WHERE l.locktype = 'advisory' AND l.classid = 1952804463 AND l.objsubid = 2 AND l.granted
                       AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()))) AS suspect;
