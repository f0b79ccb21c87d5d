-- What is wrong with rights in the schema: level, subject, finding, what to do. A role that has two thirds of what a part does besides
-- reading was granted that part, and lacks the rest; reading is what others may as well. At most 100 roles are looked at.
WITH need AS MATERIALIZED (
    SELECT x.part, x.privilege, x.what, o.object, c.col, CASE WHEN x.what IN ('table', 'sequence') THEN to_regclass('tenon.' || quote_ident(o.object)) END AS relation
      FROM tenon.rights() x CROSS JOIN LATERAL unnest(x.objects) AS o (object) LEFT JOIN LATERAL unnest(x.columns) AS c (col) ON true
     WHERE x.part IN ('worker', 'cleaner')
), role AS MATERIALIZED (
    SELECT r.oid, r.rolname
      FROM pg_namespace n
     CROSS JOIN LATERAL (SELECT DISTINCT g.grantee FROM pg_proc f CROSS JOIN LATERAL aclexplode(f.proacl) g
                          WHERE f.pronamespace = n.oid AND f.proname = 'copied' AND g.grantee <> n.nspowner
                          UNION SELECT g.grantee FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) g
                                 WHERE c.oid = 'tenon.worker'::regclass AND g.grantee <> n.nspowner) g
      JOIN pg_roles r ON r.oid = g.grantee AND NOT r.rolsuper
     WHERE n.nspname = 'tenon' ORDER BY r.rolname LIMIT 100
), held AS MATERIALIZED (
    SELECT r.rolname, n.*,
           CASE WHEN n.col IS NOT NULL THEN has_column_privilege(r.oid, n.relation, n.col, n.privilege)
                WHEN n.what = 'schema' THEN has_schema_privilege(r.oid, n.object, n.privilege)
                WHEN n.what = 'table' THEN has_table_privilege(r.oid, n.relation, n.privilege)
                WHEN n.what = 'sequence' THEN has_sequence_privilege(r.oid, n.relation, n.privilege)
                ELSE (SELECT bool_and(has_function_privilege(r.oid, f.oid, n.privilege)) FROM pg_proc f
                       WHERE f.pronamespace = 'tenon'::regnamespace AND f.proname = n.object) END AS has
      FROM role r CROSS JOIN need n
), lacks AS (
    SELECT rolname, part, string_agg(concat_ws(' ', privilege, 'on', object || '.' || col, CASE WHEN col IS NULL THEN object END), ', ') FILTER (WHERE NOT has) AS what
      FROM held GROUP BY rolname, part
    HAVING count(*) FILTER (WHERE has AND privilege <> 'SELECT') * 3 >= count(*) FILTER (WHERE privilege <> 'SELECT') * 2
)
SELECT * FROM (
    SELECT 'error', 'rights', format('the role %s has most rights of a %s, but lacks %s', l.rolname, l.part, left(l.what, 200)),
           format('tenon setup --grant-%s %s', l.part, l.rolname)
      FROM lacks l WHERE l.what IS NOT NULL
    UNION ALL
    (SELECT 'error', 'owner', format('%s belongs to %s, and the schema tenon to %s: functions of one owner may not use objects of the other',
                                     o.name, pg_get_userbyid(o.owner), pg_get_userbyid(n.nspowner)),
            format('ALTER %s %s OWNER TO %I', o.what, o.name, pg_get_userbyid(n.nspowner))
       FROM pg_namespace n
      CROSS JOIN LATERAL (SELECT c.oid::regclass::text AS name, c.relowner AS owner, CASE c.relkind WHEN 'v' THEN 'VIEW' ELSE 'TABLE' END AS what
                            FROM pg_class c WHERE c.relnamespace = n.oid AND c.relkind IN ('r', 'p', 'v')
                           UNION ALL
                          SELECT f.oid::regprocedure::text, f.proowner, 'FUNCTION' FROM pg_proc f WHERE f.pronamespace = n.oid) o
      WHERE n.nspname = 'tenon' AND o.owner <> n.nspowner
      ORDER BY o.name LIMIT 3)
) f (level, subject, finding, advice);
