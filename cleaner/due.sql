-- Delayed tasks whose moment has come: from now on they are ordinary ones. Their run_at is set to now,
-- so that the order of claims is the order in which rows became ready; that of a started one stays.
--   $1 interval  how far back to look; a bound keeps dead index entries out of the way
--   $2 integer   how many
-- Index: task_delayed.
WITH d AS MATERIALIZED (
    SELECT id
    FROM tenon.task
    WHERE delayed
      AND run_at <= statement_timestamp()
      AND run_at >= statement_timestamp() - $1::interval
    ORDER BY run_at
    LIMIT $2::integer
    FOR UPDATE SKIP LOCKED
)
UPDATE tenon.task t
SET delayed = false, run_at = CASE WHEN t.start_time IS NULL THEN clock_timestamp() ELSE t.run_at END
FROM d
WHERE t.id = d.id
RETURNING t.id, t.queue,
          t.start_time IS NULL AND t.queue NOT IN (SELECT name FROM tenon.queue WHERE paused) AS wanted;
