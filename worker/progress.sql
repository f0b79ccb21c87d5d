-- Write what handlers said of their tasks: how far they are, and how much time they need.
--   $1 bigint[]  ids                   $3 text[]    lines, of which the key "progress" is kept; NULL = as it is
--   $2 bigint[]  keys of the claims    $4 bigint[]  timeouts in milliseconds, for those that grow; NULL = as it is
-- One row per task that was written: the id, and whether its progress could be stored (if not, the last one stays); whoever watches it is notified. What
-- is missing is not this claim's any more, or locked by somebody else at the moment. `BETWEEN` as in finish.sql.
WITH mine AS MATERIALIZED (
    SELECT t.id, f.line, f.timeout_ms
    FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[]) AS f (id, key, line, timeout_ms)
    JOIN tenon.task t ON t.id BETWEEN f.id AND f.id
    WHERE t.claim_key = f.key
    ORDER BY f.id
    FOR UPDATE OF t SKIP LOCKED
), judged AS MATERIALIZED (
    SELECT m.*, tenon.progress_kept(m.line) AS kept FROM mine m
)
UPDATE tenon.task t
SET progress = CASE WHEN j.kept IS NULL THEN t.progress ELSE nullif(j.kept, 'null') END,
    timeout_ms = greatest(t.timeout_ms, j.timeout_ms)
FROM judged j
WHERE t.id BETWEEN j.id AND j.id
RETURNING t.id, j.line IS NULL OR j.kept IS NOT NULL,
          CASE WHEN t.watched AND j.kept IS NOT NULL THEN pg_notify('tenon_progress', t.id::text) END;
