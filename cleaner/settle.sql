-- What follows from commits and from the ends of tasks (tenon.settle has the rules); how many rows were settled, and
-- when there were none in how many milliseconds limits are to be looked at again; NULL = when something happens.
--   $1 integer  how many at most
SELECT s.n, CASE WHEN s.n = 0 THEN tenon.limits_due_ms() END
FROM (SELECT tenon.settle($1::integer) AS n OFFSET 0) s;
