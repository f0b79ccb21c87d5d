-- Delete what has been kept long enough: dead tasks, rows of the audit, keys that were held for a time, starts that count at
-- no limit any more, and flows; how many.
--   $1 integer  how many of each at most
SELECT tenon.purge($1::integer);
