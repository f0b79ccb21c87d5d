-- Record the steps that handlers said of their tasks, in their order (tenon.record_steps has the rules).
--   $1 uuid       worker             $4 bigint[]  start_time in microseconds since 1970
--   $2 bigint[]   ids                $5 text[]    lines, of which the key "step" is kept
--   $3 integer[]  claims
-- One row per step that was judged: its place among them, from 1, and whether it could be recorded. What is missing is not
-- this claim's any more, or locked by somebody else at the moment.
SELECT place, recorded
FROM tenon.record_steps($1::uuid, $2::bigint[], $3::integer[], $4::bigint[], $5::text[]);
