-- Make many tasks unstarted again, or dead (tenon.requeue has the rules).
--   $1 uuid  worker    $2 bigint[] ids       $3 integer[] claims    $4 bigint[] start_time, microseconds
--   $5 text[] reasons  $6 text[] errors      $7 bigint[] delays in milliseconds    $8 text[] classes of errors
--   $9 text[] signals to wait for
SELECT id, state
FROM tenon.requeue($2::bigint[], $3::integer[], $4::bigint[], $1::uuid, $5::text[], $6::text[], $7::bigint[],
                   $8::text[], $9::text[]);
