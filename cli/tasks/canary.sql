-- Enqueue the canary, at the lowest price if it fails: one attempt, and none ten seconds after nobody waits any more.
--   $1 text  kind    $2 text  queue, NULL = that of its kind    $3 bigint  how long somebody waits for it, in milliseconds
SELECT tenon.enqueue($1::text, '{}'::jsonb, queue => $2::text, max_attempts => 1,
                     start_before => clock_timestamp() + $3::bigint * interval '1 ms' + interval '10 s');
