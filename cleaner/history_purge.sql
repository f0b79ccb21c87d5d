-- Delete what has been kept long enough: dead tasks, and keys that were held for a time; how many.
--   $1 integer  how many of each at most
SELECT tenon.purge($1::integer);
