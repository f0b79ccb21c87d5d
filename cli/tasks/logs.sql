-- The lines that handlers logged for a task, in their order: as columns for people, and as JSON.
--   $1 bigint   the task           $2 bigint   only lines after this one
--   $3 integer  levels up to this: 0 error, 1 warning, 2 info, 3 debug        $4 integer  the maximum number of lines
SELECT l.id, to_char(l.at, 'YYYY-MM-DD HH24:MI:SS.MS "UTC"'), l.attempt, l.level, l.message, l.fields::text,
       json_build_object('at', l.at, 'attempt', l.attempt, 'level', l.level, 'message', l.message, 'fields', l.fields)::text
FROM tenon.log_line l
WHERE l.task_id = $1::bigint AND l.id > $2::bigint
  AND array_position('{error,warning,info,debug}'::text[], l.level) <= $3::integer + 1
ORDER BY l.id
LIMIT $4::integer;
