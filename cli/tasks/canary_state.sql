-- How far the canary is: whether it has ended, its state and queue, and the milliseconds from its insert to its start and end.
--   $1 bigint  its id
SELECT t.end_time IS NOT NULL, t.state, t.queue,
       (extract(epoch FROM t.start_time - t.created_at) * 1000)::numeric(12, 1),
       (extract(epoch FROM t.end_time - t.created_at) * 1000)::numeric(12, 1)
FROM tenon.tasks t WHERE t.id = $1::bigint;
