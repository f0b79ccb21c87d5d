-- The error classes of the tasks that match a filter except for its error: the ten with the most tasks, in one
-- text, NULL when there is none. What is read is bounded by number and time.
--   $1 jsonb  the filter    $2 text  the act, or NULL
WITH f AS MATERIALIZED ( -- an act takes no filter that any task fits
    SELECT ids, next FROM tenon.find('{"older_than": "0 s"}' || ($1::jsonb - 'error'), $2, NULL, 10000, 500)
), classes AS (
    SELECT array_agg(format('%s %s', c.class, c.n) ORDER BY c.n DESC, c.class) AS list
      FROM (SELECT t.error_class AS class, count(*) AS n
              FROM f
             CROSS JOIN LATERAL unnest(f.ids) AS i (id)
             CROSS JOIN LATERAL (SELECT error_class FROM tenon.tasks WHERE id = i.id LIMIT 1) t
             WHERE t.error_class IS NOT NULL
             GROUP BY t.error_class) c)
SELECT array_to_string(c.list[1:10], ', ') || CASE WHEN cardinality(c.list) > 10 THEN ' and others' ELSE '' END
       || CASE WHEN f.next IS NOT NULL THEN format(' (of the first %s)', cardinality(f.ids)) ELSE '' END
FROM f, classes c;
