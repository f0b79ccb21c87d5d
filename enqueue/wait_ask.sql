-- Wait for a task's end, or only ask for it.
--   $1 bigint  the id    $2 boolean  its end is to be told
SELECT r.state, r.result, r.error
FROM (SELECT a.* FROM tenon.await($1::bigint) a WHERE $2::boolean
      UNION ALL
      SELECT q.* FROM tenon.result($1::bigint) q WHERE NOT $2::boolean) r;
