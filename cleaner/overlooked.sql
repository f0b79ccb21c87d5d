-- The oldest ready rows of some queues, for each from where its sweep stands.
--   $1 text[]    queues                     $4 integer[]  how many of the oldest are left out
--   $2 bigint[]  after this run_at (us)     $5 integer[]  how many
--   $3 bigint[]  and this id                $6 interval   ready since so long
-- One bounded range of task_order per queue and priority; rows that lie in the future are never read.
-- The innermost order leaves the id out: a plan made on an empty table would sort the whole range for it,
-- and the index keeps rows of one run_at in the order in which they were written.
SELECT s.place::integer - 1 AS place, r.id, r.run_at_us
FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::integer[], $5::integer[])
     WITH ORDINALITY AS s (queue, after_us, after_id, skip, n, place)
CROSS JOIN LATERAL (
    SELECT t.id, t.run_at, (extract(epoch FROM t.run_at) * 1000000)::bigint AS run_at_us
    FROM generate_series(9, 0, -1) AS p (priority)
    CROSS JOIN LATERAL (
        SELECT id, run_at
        FROM tenon.task
        WHERE queue = s.queue
          AND priority = p.priority
          AND run_at <= statement_timestamp() - $6::interval
          AND run_at >= timestamptz 'epoch' + s.after_us * interval '1 microsecond'
          AND (run_at, id) > (timestamptz 'epoch' + s.after_us * interval '1 microsecond', s.after_id)
          AND start_time IS NULL
        ORDER BY run_at
        LIMIT s.skip + s.n
    ) t
    ORDER BY t.run_at, t.id
    LIMIT s.n OFFSET s.skip
) r
WHERE s.queue NOT IN (SELECT name FROM tenon.queue WHERE paused)
ORDER BY s.place, r.run_at, r.id;
