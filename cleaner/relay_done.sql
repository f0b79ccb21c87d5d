-- What became of messages; the next of their keys are let go. Returns the first and the last of those that are to be read.
--   $1 bigint  token   $2 bigint[]  confirmed   $3 bigint[]  expired   $4 text[]  keys whose next message we have
SELECT first, last FROM tenon.relay_done($1::bigint, $2::bigint[], $3::bigint[], $4::text[]);
