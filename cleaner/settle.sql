-- What follows from commits and from the ends of tasks (tenon.settle has the rules): how many were settled, how many were
-- let go, in how many milliseconds there may be more to do (NULL = when something happens), who was let go, and what became of
-- a part that ran into the timeout (NULL = none did).
--   $1 integer  how many at most
--   $2 integer  when more than so many are let go, workers are told by NOTIFY, and poll
SELECT n, cardinality(freed), due_ms, freed, slow FROM tenon.settle_all($1::integer, $2::integer);
