-- What in the schema belongs to another role than the one that runs setup: the schema itself first, then the oldest thing in it.
-- No row: there is none. The owner of a function or a trigger there could have it run with the rights of others.
WITH schema AS (
    SELECT oid, nspowner FROM pg_namespace WHERE nspname = 'tenon'
), thing AS (
    SELECT 'pg_namespace'::regclass AS catalog, oid, nspowner AS owner, oid AS schema FROM pg_namespace
    UNION ALL SELECT 'pg_class'::regclass, oid, relowner, relnamespace FROM pg_class
    UNION ALL SELECT 'pg_proc'::regclass, oid, proowner, pronamespace FROM pg_proc
    UNION ALL SELECT 'pg_type'::regclass, oid, typowner, typnamespace FROM pg_type
    UNION ALL SELECT 'pg_operator'::regclass, oid, oprowner, oprnamespace FROM pg_operator
    UNION ALL SELECT 'pg_opclass'::regclass, oid, opcowner, opcnamespace FROM pg_opclass
    UNION ALL SELECT 'pg_opfamily'::regclass, oid, opfowner, opfnamespace FROM pg_opfamily
    UNION ALL SELECT 'pg_collation'::regclass, oid, collowner, collnamespace FROM pg_collation
    UNION ALL SELECT 'pg_conversion'::regclass, oid, conowner, connamespace FROM pg_conversion
    UNION ALL SELECT 'pg_statistic_ext'::regclass, oid, stxowner, stxnamespace FROM pg_statistic_ext
    UNION ALL SELECT 'pg_ts_config'::regclass, oid, cfgowner, cfgnamespace FROM pg_ts_config
    UNION ALL SELECT 'pg_ts_dict'::regclass, oid, dictowner, dictnamespace FROM pg_ts_dict
)
SELECT pg_describe_object(t.catalog, t.oid, 0), pg_get_userbyid(t.owner), current_user
FROM thing t JOIN schema s ON s.oid = t.schema
WHERE pg_get_userbyid(t.owner) <> current_user
ORDER BY t.oid <> s.oid, t.oid
LIMIT 1;
