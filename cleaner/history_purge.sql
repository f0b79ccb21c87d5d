-- Delete what has been kept long enough: dead tasks, rows of the audit, and keys that were held for a time; how many.
--   $1 integer  how many of each at most
SELECT tenon.purge($1::integer);
