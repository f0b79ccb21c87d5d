-- What every cleaner asks once a second: who leads, and is there anything to do for the other chores?
--   $1 bigint   rows above this id are fresh                   NULL = not asked
--   $2 bigint   delayed rows are published up to this run_at, microseconds since 1970; NULL = not asked
--   $3 bigint   notes up to this id are settled
-- suspect: a worker whose row says alive does not hold its lock (workers.sql says which). led: a session that may holds
-- the leader's lock. disturbed: somebody else has the sleeper's lock as only the leader may, or waits for it.
WITH held AS MATERIALIZED (SELECT * FROM tenon.lock)
SELECT (extract(epoch FROM now()) * 1000000)::bigint AS now_us,
       EXISTS (SELECT FROM tenon.task WHERE id > $1::bigint) AS fresh,
       (SELECT ceil(extract(epoch FROM run_at - now()) * 1000)::bigint
        FROM tenon.task
        WHERE delayed
          AND run_at > timestamptz 'epoch' + $2::bigint * interval '1 microsecond'
        ORDER BY run_at
        LIMIT 1) AS due_ms,
       (SELECT ceil(extract(epoch FROM due_at - now()) * 1000)::bigint
        FROM tenon.schedule
        WHERE due_at < 'infinity'
        ORDER BY due_at
        LIMIT 1) AS schedule_ms,
       EXISTS (SELECT FROM tenon.worker w
               WHERE w.ended_at IS NULL AND w.lock_key NOT IN (SELECT h.key FROM held h WHERE h.counts)) AS suspect,
       least(tenon.limits_due_ms(),
             CASE WHEN tenon.has_unsettled($3::bigint) THEN 0
                  ELSE least((SELECT ceil(extract(epoch FROM until - now()) * 1000)::bigint FROM tenon.waiting ORDER BY until LIMIT 1),
                       (SELECT ceil(extract(epoch FROM start_before - now()) * 1000)::bigint
                        FROM tenon.task
                        WHERE start_before < now() + interval '1 second'
                          AND start_time IS NULL
                        ORDER BY start_before
                        LIMIT 1)) END) AS settle_ms,
       tenon.messages_wait() AS messages,
       s.leader_key,
       EXISTS (SELECT FROM held h WHERE h.key = s.leader_key AND h.counts) AS led,
       EXISTS (SELECT FROM held h
               WHERE h.key = s.sleeper_key AND h.exclusive AND h.pid <> pg_backend_pid()) AS disturbed
FROM tenon.settings() s;
