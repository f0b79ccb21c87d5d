-- Let a role enqueue.
--   $1 text  its name
SELECT tenon.grant_producer($1);
