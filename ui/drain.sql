-- Drain a worker; whether it was alive and not draining.
--   $1 text  the worker's id    $2 text  why, or NULL
SELECT tenon.drain($1::uuid, $2);
