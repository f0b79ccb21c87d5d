-- Apply what an application's code says; what was added, changed and removed, the last column as JSON.
--   $1 jsonb  the description, for tenon.sync
SELECT what, name, act, json_build_object('what', what, 'name', name, 'act', act)
FROM tenon.sync($1::jsonb);
