-- Which handlers of this worker do not start, and why.
--   $1 uuid  worker    $2 text  NULL = all start
UPDATE tenon.worker SET backing_off = $2 WHERE id = $1::uuid;
