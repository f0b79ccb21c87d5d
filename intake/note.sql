-- Write the rows of tenon.intake of this process (sql/functions/intake.sql).
--   $1 text    its host    $2 integer  its pid    $3 text  its version    $4 bigint  how long it has been running, in ms
--   $5 jsonb   an array with an object for each queue or stream; empty: the process ends
SELECT tenon.intake_note($1::text, $2::integer, $3::text, $4::bigint, $5::jsonb);
