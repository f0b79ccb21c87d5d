-- What follows from commits and from the ends of tasks (tenon.settle has the rules); how many rows were settled.
--   $1 integer  how many at most
SELECT tenon.settle($1::integer);
