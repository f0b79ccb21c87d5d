-- Settles what commits and the ends of tasks have left to do (tenon.settle has the rules). Returns the number of settled rows,
-- the number of unblocked tasks, the milliseconds until there may be more to do (NULL = not before something happens), the ids of
-- the unblocked tasks, and a message about a part that ran into the statement timeout (NULL = none did).
--   $1 integer  how many at most
--   $2 integer  when more than so many are let go, workers are told by NOTIFY, and poll
SELECT n, cardinality(freed), due_ms, freed, slow FROM tenon.settle_all($1::integer, $2::integer);
