-- Which kinds rest because their handler does not start, and why.
--   $1 uuid  worker    $2 text  NULL = none
UPDATE tenon.worker SET backing_off = $2 WHERE id = $1::uuid;
