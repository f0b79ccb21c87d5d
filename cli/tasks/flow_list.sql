-- Flows and batches, the newest first. The last column is the row as JSON.
--   $1 bigint  only numbers below this one; NULL = all    $2 integer  how many
SELECT f.id, f.name, f.state, f.tasks, f.blocked, f.waiting, f.running, f.done, f.dead, f.cancelled + f.expired,
       to_char(f.made_at, 'YYYY-MM-DD HH24:MI:SS'), row_to_json(f)::text
FROM tenon.flows f
WHERE f.id < coalesce($1::bigint, 9223372036854775807)
ORDER BY f.id DESC
LIMIT $2::integer;
