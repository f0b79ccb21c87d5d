-- Do something to a limit; what was done, for people and as JSON, NULL when there is none of this name, or it was not paused.
--   $1 text  remove, pause or resume    $2 text  the limit    $3 text  why, or NULL
WITH paused AS MATERIALIZED (
    SELECT tenon.pause_limit($2, $3) WHERE $1::text = 'pause'
), done AS MATERIALIZED (
    SELECT CASE $1 WHEN 'pause' THEN EXISTS (SELECT FROM paused)
                   WHEN 'remove' THEN tenon.remove_limit($2)
                   WHEN 'resume' THEN tenon.resume_limit($2, $3) END AS done)
SELECT CASE WHEN done THEN format('%s is %s', $2, CASE $1 WHEN 'remove' THEN 'removed' WHEN 'pause' THEN 'paused; tasks that it had released still run' ELSE 'resumed' END) END,
       json_build_object('name', $2::text, 'act', $1::text)
FROM done;
