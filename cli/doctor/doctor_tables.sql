-- Problems of tenon's tables: level, subject, finding, what to do.
SELECT * FROM (
    SELECT 'error', 'index', format('the index tenon.%s is missing or not valid: claims and polls read the whole table', i.name),
           format('create it as in sql/tables.sql; if it is not valid: REINDEX INDEX tenon.%s', i.name)
      FROM unnest('{task_pkey,task_order,task_delayed,task_unique_key,task_start_before}'::text[]) AS i (name)
     WHERE NOT EXISTS (SELECT FROM pg_index x WHERE x.indexrelid = to_regclass('tenon.' || i.name) AND x.indisvalid)
    UNION ALL
    SELECT 'warning', 'index', format('the index %s names a column that each claim changes: claims are no longer HOT updates, and cost about twice as much', i.indexrelid::regclass),
           format('DROP INDEX CONCURRENTLY %s', i.indexrelid::regclass)
      FROM pg_index i
     WHERE i.indrelid = 'tenon.task'::regclass
       AND EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = i.indrelid AND a.attname IN ('start_time', 'claim_key', 'worker_id', 'claims')
                      AND (a.attnum = ANY (i.indkey) OR pg_get_indexdef(i.indexrelid) ~ ('\m' || a.attname || '\M')))
    UNION ALL
    SELECT 'warning', 'trigger', format('the trigger %s of tenon.task is not part of tenon: it runs for each task', t.tgname),
           format('if nobody needs it: DROP TRIGGER %I ON tenon.task', t.tgname)
      FROM pg_trigger t
     WHERE t.tgrelid = 'tenon.task'::regclass AND NOT t.tgisinternal
    UNION ALL
    SELECT 'warning', 'foreign key', format('%s has a foreign key to tenon.task, whose rows are deleted when they end: each end of a task locks and searches there', c.conrelid::regclass),
           format('keep the id without it: ALTER TABLE %s DROP CONSTRAINT %I', c.conrelid::regclass, c.conname)
      FROM pg_constraint c WHERE c.contype = 'f' AND c.confrelid = 'tenon.task'::regclass
    UNION ALL
    SELECT 'error', 'publication', format('nothing can be deleted from tenon.%s, which the publication %s publishes: it has no replica identity', t.tablename, t.pubname),
           format('ALTER TABLE tenon.%I REPLICA IDENTITY FULL', t.tablename)
      FROM pg_publication_tables t JOIN pg_class c ON c.oid = to_regclass(format('%I.%I', t.schemaname, t.tablename))
     WHERE t.schemaname = 'tenon' AND (c.relreplident = 'n' OR c.relreplident = 'd' AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary))
    UNION ALL
    SELECT 'warning', 'publication', format('the publication %s has tenon''s tables: each claim and each end of a task is sent to its subscribers, who must not run them again', p.pubname),
           'list the tables of your own: CREATE PUBLICATION ... FOR TABLE, or FOR TABLES IN SCHEMA'
      FROM pg_publication p
     WHERE EXISTS (SELECT FROM pg_publication_tables t WHERE t.pubname = p.pubname AND t.schemaname = 'tenon')
    UNION ALL
    SELECT 'error', 'vacuum', format('autovacuum is switched off for tenon.%s: it grows without end', c.relname),
           format('ALTER TABLE tenon.%s RESET (autovacuum_enabled)', c.relname)
      FROM pg_class c
     WHERE c.oid IN ('tenon.task'::regclass, 'tenon.task_step'::regclass)
       AND c.reloptions && '{autovacuum_enabled=false,autovacuum_enabled=off,autovacuum_enabled=0}'::text[]
    UNION ALL
    SELECT 'warning', 'fillfactor', 'tenon.task does not leave room for a second version of each row (fillfactor): claims are no longer HOT updates',
           'ALTER TABLE tenon.task SET (fillfactor = 43); VACUUM FULL tenon.task when nothing runs'
      FROM pg_class c
     WHERE c.oid = 'tenon.task'::regclass
       AND NOT EXISTS (SELECT FROM unnest(c.reloptions) o WHERE o ~ '^fillfactor=' AND split_part(o, '=', 2)::integer <= 50)
    UNION ALL
    SELECT 'warning', 'updates', format('only %s of %s updates of tenon.task were HOT: the others write every index', s.n_tup_hot_upd, s.n_tup_upd),
           'see whether an index or the fillfactor is in the way, or a transaction holds old rows; then SELECT pg_stat_reset_single_table_counters(''tenon.task''::regclass)'
      FROM pg_stat_user_tables s
     WHERE s.relid = 'tenon.task'::regclass AND s.n_tup_upd > 10000 AND s.n_tup_hot_upd < s.n_tup_upd / 2
    UNION ALL
    SELECT 'warning', 'dead rows', format('tenon.task has %s dead rows and %s live ones', s.n_dead_tup, s.n_live_tup),
           'see whether a transaction holds them (old transaction); VACUUM tenon.task'
      FROM pg_stat_user_tables s
     WHERE s.relid = 'tenon.task'::regclass AND s.n_dead_tup > 1000000 + 3 * s.n_live_tup
    UNION ALL
    SELECT 'error', 'partitions', format('tenon.%s has no partition: ended tasks cannot be stored', p.parent),
           'start a cleaner or a worker, which makes one; or SELECT tenon.make_partitions()'
      FROM unnest('{history,attempt}'::text[]) AS p (parent)
     WHERE NOT EXISTS (SELECT FROM pg_inherits i  -- a partition that was detached does not count
                        WHERE i.inhparent = to_regclass('tenon.' || p.parent)
                          AND i.inhrelid = to_regclass(format('tenon.%s_%s', p.parent, (SELECT max(t.part) FROM tenon.partition t WHERE t.parent = p.parent))))
    UNION ALL
    SELECT 'warning', 'partitions', format('tenon.%s has %s partitions: old ones cannot be dropped while a session reads them', p.parent, x.n),
           'end the sessions that hold locks on it (pg_locks), or let a cleaner run'
      FROM unnest('{history,attempt}'::text[]) AS p (parent)
     CROSS JOIN LATERAL (SELECT count(*) AS n FROM pg_inherits i WHERE i.inhparent = to_regclass('tenon.' || p.parent)) x
     WHERE x.n >= 100
    UNION ALL
    SELECT 'error', 'rights', format('every role that can log in may %s %s', g.privilege_type, c.oid::regclass),
           format('REVOKE ALL ON %s FROM PUBLIC', c.oid::regclass)
      FROM pg_class c
     CROSS JOIN LATERAL aclexplode(c.relacl) g
     WHERE c.relnamespace = 'tenon'::regnamespace AND g.grantee = 0 AND c.relkind IN ('r', 'p', 'v')
    UNION ALL
    SELECT 'error', 'rights', format('every role that can log in may create objects in the schema tenon'), 'REVOKE ALL ON SCHEMA tenon FROM PUBLIC'
      FROM pg_namespace n
     CROSS JOIN LATERAL aclexplode(n.nspacl) g
     WHERE n.nspname = 'tenon' AND g.grantee = 0 AND g.privilege_type = 'CREATE'
    UNION ALL
    SELECT 'error', 'copy', c.sentence, 'if tasks may run in this copy: tenon adopt'
      FROM (SELECT tenon.copied() AS sentence) c WHERE c.sentence IS NOT NULL
) f (level, subject, finding, advice);
