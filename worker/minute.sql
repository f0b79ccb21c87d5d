-- Adds what this worker has counted since its last write to the current minute.
--   $1 uuid      worker
--   $2 text[]    queues      $3 text[]    kinds: a pair for each element of what follows
--   $4 bigint[]  started     $5 bigint[]  ended      $6 bigint[]  done    $7 bigint[]  failed    $8 bigint[]  dead
--   $9 bigint[]  microseconds waited                 $10 bigint[] microseconds run
--   $11 text[]   integer[]: how many waits of each length           $12 text[]   how many runs of each length
INSERT INTO tenon.minute AS m (minute, queue, kind, worker_id, started, ended, done, failed, dead, wait_us, run_us, waits, runs)
SELECT date_trunc('minute', clock_timestamp()), c.queue, c.kind, $1::uuid, c.started, c.ended, c.done, c.failed, c.dead, c.wait_us, c.run_us,
       c.waits::integer[], c.runs::integer[]
FROM unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[],
            $11::text[], $12::text[]) AS c (queue, kind, started, ended, done, failed, dead, wait_us, run_us, waits, runs)
ON CONFLICT (minute, queue, kind, worker_id) DO UPDATE
SET started = m.started + excluded.started, ended = m.ended + excluded.ended, done = m.done + excluded.done,
    failed = m.failed + excluded.failed, dead = m.dead + excluded.dead, wait_us = m.wait_us + excluded.wait_us,
    run_us = m.run_us + excluded.run_us, waits = tenon.add_counts(m.waits, excluded.waits), runs = tenon.add_counts(m.runs, excluded.runs);
