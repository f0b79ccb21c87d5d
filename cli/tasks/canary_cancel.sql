-- Nobody waits for the canary any more.
--   $1 bigint  its id
SELECT tenon.cancel($1::bigint);
