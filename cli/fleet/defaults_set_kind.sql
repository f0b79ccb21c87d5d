-- Set defaults of a kind; NULL = as it is.
--   $1 text  which              $2 text  its queue              $3 integer  priority      $4 integer  max_attempts
--   $5 integer  max_crashes     $6 interval  timeout            $7 interval  timeout_min  $8 text  on_timeout
--   $9 text  retry              $10 text  on_dead               $11 text[]  limit_keys  $12 interval  history_keep
--   $13 interval  dead_keep         $14 text[]  the defaults to remove
SELECT tenon.set_kind($1, queue => $2, priority => $3::integer, max_attempts => $4::integer, max_crashes => $5::integer,
                      timeout => $6::interval, timeout_min => $7::interval, on_timeout => $8, retry => $9, on_dead => $10,
                      limit_keys => $11::text[], history_keep => $12::interval, dead_keep => $13::interval, unset => $14::text[]);
