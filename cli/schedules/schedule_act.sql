-- Do something to a schedule; what was done, for people and as JSON, NULL when there is none of this name.
--   $1 text  remove, pause, resume or run-now    $2 text  the schedule    $3 text  why, or NULL
WITH done AS MATERIALIZED (
    SELECT CASE $1::text WHEN 'remove' THEN tenon.remove_schedule($2)
                         WHEN 'pause' THEN tenon.pause_schedule($2, $3)
                         WHEN 'resume' THEN tenon.resume_schedule($2, $3) END AS done,
           CASE WHEN $1 = 'run-now' THEN tenon.run_schedule_now($2) END AS task)
SELECT CASE WHEN done THEN format('%s is %s', $2, CASE $1 WHEN 'remove' THEN 'removed' WHEN 'pause' THEN 'paused' ELSE 'resumed' END)
            ELSE task::text END,
       json_build_object('name', $2::text, 'act', $1::text, 'task', task)
FROM done;
