-- A chore keeps failing, or still does.
--   $1 text  the chore    $2 text  this machine    $3 integer  this process    $4 text  what was said
INSERT INTO tenon.chore_failure AS f (chore, host, pid, error)
VALUES ($1, $2, $3::integer, left($4, 1000))
ON CONFLICT (chore) DO UPDATE
SET since = CASE WHEN f.at > clock_timestamp() - interval '1 minute' THEN f.since ELSE excluded.since END,
    at = excluded.at, host = excluded.host, pid = excluded.pid, error = excluded.error;
