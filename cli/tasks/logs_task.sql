-- Is there such a task, and has it ended, so that its worker has written all its lines?
--   $1 bigint  the task
SELECT count(*) > 0, coalesce(bool_and(t.end_time < statement_timestamp() - interval '2 s'), false)
FROM tenon.tasks t
WHERE t.id = $1::bigint;
