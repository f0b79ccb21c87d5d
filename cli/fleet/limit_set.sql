-- Set a limit, or replace it.
--   $1 text  its name              $2 integer  max_running     $3 text  max_starts, N/TIME      $4 boolean  strict
--   $5 text  what a dead one does  $6 boolean  fair            $7 integer  weight           $8 timestamptz  until
-- All but the name may be NULL. Returns it as JSON.
WITH done AS MATERIALIZED (
    SELECT tenon.set_limit($1, max_running => $2::integer, max_starts => split_part($3, '/', 1)::integer,
                           per => CASE WHEN $3 IS NOT NULL THEN coalesce(nullif(split_part($3, '/', 2), ''), '0')::interval END,
                           strict => $4::boolean, when_dead => $5, fair => $6::boolean, weight => $7::integer, until => $8::timestamptz))
SELECT json_build_object('name', $1::text, 'act', 'set')
FROM done;
