-- Make the schedules of a file those that it names; what was added, changed and removed, the last column as JSON.
--   $1 text  the name of the file    $2 jsonb  its lines, for tenon.sync_schedules
SELECT name, act, json_build_object('name', name, 'act', act)
FROM tenon.sync_schedules($1, $2::jsonb)
ORDER BY name;
