-- Make many tasks unstarted again, or dead (tenon.requeue has the rules).
--   $1 bigint[]  ids                   $4 text[]    errors
--   $2 bigint[]  keys of the claims    $5 bigint[]  delays in milliseconds
--   $3 text[]    reasons               $6 text[]    classes of errors
--                                      $7 text[]    signals to wait for
SELECT id, state
FROM tenon.requeue($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::text[], $7::text[]);
