-- The last lines that handlers logged for a task, in their order, as a JSON array.
--   $1 bigint  the task    $2 integer  the maximum number of lines
SELECT coalesce(json_agg(json_build_object('at', l.at, 'attempt', l.attempt, 'level', l.level, 'message', l.message, 'fields', l.fields)
                         ORDER BY l.id), '[]')::text
FROM (SELECT * FROM tenon.log_line WHERE task_id = $1::bigint ORDER BY id DESC LIMIT $2::integer) l;
