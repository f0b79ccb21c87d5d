-- Record the steps that handlers said of their tasks, in their order (tenon.record_steps has the rules).
--   $1 bigint[]  ids    $2 bigint[]  keys of the claims    $3 text[]  lines, of which the key "step" is kept
-- One row per step that was judged: its place among them, from 1, and whether it could be recorded. What is missing is not
-- this claim's any more, or locked by somebody else at the moment.
SELECT place, recorded
FROM tenon.record_steps($1::bigint[], $2::bigint[], $3::text[]);
