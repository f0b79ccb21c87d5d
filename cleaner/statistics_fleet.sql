-- For /metrics: how many tasks were ever inserted, the workers, schedules whose tick is over a minute late, whether
-- everything is paused, how long ago all tasks were counted (NULL: never), and how old the oldest transaction is that keeps rows of
-- ended tasks (NULL: the schema's owner cannot see it), in milliseconds; then the messages that wait and those that were refused,
-- counted in the newest, and how old the oldest is that waits, in milliseconds (NULL: none does).
--   $1 bigint  how many messages to count
SELECT pg_stat_get_tuples_inserted('tenon.task'::regclass), w.alive, w.draining, w.slots, s.late, s.late_ms,
       EXISTS (SELECT FROM tenon.paused WHERE what = 'everything'),
       (SELECT (extract(epoch FROM statement_timestamp() - counted_at) * 1000)::bigint FROM tenon.depth_count),
       tenon.oldest_transaction_ms(), o.waiting, o.refused, o.oldest_ms
FROM (SELECT count(*) FILTER (WHERE state = 'alive') AS alive, count(*) FILTER (WHERE state = 'draining') AS draining,
             coalesce(sum(slots) FILTER (WHERE state = 'alive'), 0) AS slots
      FROM tenon.worker WHERE ended_at IS NULL) w,
     (SELECT count(*) AS late, coalesce((extract(epoch FROM statement_timestamp() - min(due_at)) * 1000)::bigint, 0) AS late_ms
      FROM (SELECT due_at FROM tenon.schedule
            WHERE due_at < statement_timestamp() - interval '1 minute'
            ORDER BY due_at LIMIT 1000) d) s,
     tenon.outbox_depth($1::bigint) o;
