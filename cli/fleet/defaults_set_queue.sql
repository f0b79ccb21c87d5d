-- Set defaults of a queue; NULL = as it is.
--   $1 text  which    $2 integer  priority    $3 integer  max_attempts    $4 interval  timeout    $5 text  retry
--   $6 text[]  the defaults to remove
SELECT tenon.set_queue($1, priority => $2::integer, max_attempts => $3::integer, timeout => $4::interval, retry => $5, unset => $6::text[]);
