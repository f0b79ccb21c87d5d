-- What follows from commits and from the ends of tasks (tenon.settle has the rules): how many were settled, how many were
-- let go, in how many milliseconds there may be more to do (NULL = when something happens), and who was let go.
--   $1 integer  how many at most
--   $2 integer  when more than so many are let go, workers are told by NOTIFY, and poll
SELECT n, cardinality(freed), due_ms, freed FROM tenon.settle_all($1::integer, $2::integer);
