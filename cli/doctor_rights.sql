-- What is wrong with rights in the schema: level, subject, finding, what to do. A role that has two thirds of what a part does besides
-- reading was granted that part, and lacks the rest; reading is what others may as well. At most 100 roles are looked at.
WITH part (part, privilege, kind, objects, columns) AS (VALUES
    ('worker', 'USAGE', 'schema', '{tenon}'::text[], NULL::text[]),
    ('worker', 'SELECT', 'table', '{migration,setting,queue,kind,task,suspect,worker}', NULL),
    ('worker', 'UPDATE', 'column', '{task}', '{claims,claim_key,start_time,worker_id,progress,timeout_ms}'),
    ('worker', 'UPDATE', 'column', '{worker}', '{lock_key,state,ended_at,backing_off,rounds_failing,broker_away,starting,alone_since}'),
    ('worker', 'DELETE', 'table', '{task}', NULL),
    ('worker', 'INSERT', 'table', '{finished,worker}', NULL),
    ('worker', 'SELECT', 'column', '{finished}', '{id,claims,worker_id,outcome}'),
    ('worker', 'SELECT', 'column', '{dead}', '{id,claims,worker_id}'),
    ('worker', 'EXECUTE', 'function', '{copied,requeue,needs_note,note_end,note_ended,progress_kept,printed_bytes,record_steps,make_partitions,random_key,paused_kinds,settings,take_turn,claim_alone}', NULL),
    ('cleaner', 'USAGE', 'schema', '{tenon}', NULL),
    ('cleaner', 'SELECT', 'table', '{migration,setting,queue,kind,task,worker,lock}', NULL),
    ('cleaner', 'SELECT', 'sequence', '{task_id_seq}', NULL),
    ('cleaner', 'SELECT', 'table', '{chore_failure}', NULL),
    ('cleaner', 'INSERT', 'table', '{chore_failure}', NULL),
    ('cleaner', 'UPDATE', 'table', '{chore_failure}', NULL),
    ('cleaner', 'DELETE', 'table', '{chore_failure,worker}', NULL),
    ('cleaner', 'UPDATE', 'column', '{task}', '{run_at}'),
    ('cleaner', 'UPDATE', 'column', '{worker}', '{state,ended_at}'),
    ('cleaner', 'UPDATE', 'column', '{setting}', '{leader_key,sleeper_key}'),
    ('cleaner', 'SELECT', 'column', '{again}', '{taken}'),
    ('cleaner', 'SELECT', 'column', '{again_note,flow_note}', '{id}'),
    ('cleaner', 'SELECT', 'column', '{set_aside}', '{part,id,until}'),
    ('cleaner', 'SELECT', 'column', '{waiting}', '{settled,until}'),
    ('cleaner', 'SELECT', 'column', '{signal}', '{settled}'),
    ('cleaner', 'SELECT', 'column', '{suspect}', '{alone,claims}'),
    ('cleaner', 'SELECT', 'column', '{schedule}', '{due_at}'),
    ('cleaner', 'SELECT', 'column', '{finished}', '{ctid,id,queue,kind,created_at,run_at,start_time,finished_at}'),
    ('cleaner', 'SELECT', 'column', '{dead}', '{queue,dead_at}'),
    ('cleaner', 'SELECT', 'column', '{limit}', '{name,paused,strict,running}'),
    ('cleaner', 'SELECT', 'column', '{limit_task}', '{key,state}'),
    ('cleaner', 'SELECT', 'column', '{flow_wait}', '{task}'),
    ('cleaner', 'SELECT', 'column', '{flow}', '{ended_at}'),
    ('cleaner', 'EXECUTE', 'function', '{copied,run_schedules,recover,settle,settle_all,limits_due_ms,make_partitions,drop_history,purge,random_key,is_span,queue_names,ended_tids,settings}', NULL)
), need AS MATERIALIZED (
    SELECT p.part, p.privilege, p.kind, o.object, c.col, CASE WHEN p.kind IN ('table', 'column', 'sequence') THEN to_regclass('tenon.' || quote_ident(o.object)) END AS relation
      FROM part p CROSS JOIN LATERAL unnest(p.objects) AS o (object) LEFT JOIN LATERAL unnest(p.columns) AS c (col) ON true
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
           CASE n.kind WHEN 'schema' THEN has_schema_privilege(r.oid, n.object, n.privilege)
                       WHEN 'table' THEN has_table_privilege(r.oid, n.relation, n.privilege)
                       WHEN 'sequence' THEN has_sequence_privilege(r.oid, n.relation, n.privilege)
                       WHEN 'column' THEN has_column_privilege(r.oid, n.relation, n.col, n.privilege)
                       ELSE (SELECT bool_and(has_function_privilege(r.oid, f.oid, n.privilege)) FROM pg_proc f
                              WHERE f.pronamespace = 'tenon'::regnamespace AND f.proname = n.object) END AS has
      FROM role r CROSS JOIN need n
), lacks AS (
    SELECT rolname, part, string_agg(concat_ws(' ', privilege, 'on', object || '.' || col, CASE WHEN col IS NULL THEN object END), ', ') FILTER (WHERE NOT has) AS what
      FROM held GROUP BY rolname, part
    HAVING count(*) FILTER (WHERE has AND privilege <> 'SELECT') * 3 >= count(*) FILTER (WHERE privilege <> 'SELECT') * 2
)
SELECT * FROM (
    SELECT 'error', 'rights', format('the role %s has most rights of a %s, and lacks %s', l.rolname, l.part, left(l.what, 200)),
           format('tenon setup --grant-%s %s', l.part, l.rolname)
      FROM lacks l WHERE l.what IS NOT NULL
    UNION ALL
    (SELECT 'error', 'owner', format('%s belongs to %s, and the schema tenon to %s: functions of the one may not use what is the other''s',
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
