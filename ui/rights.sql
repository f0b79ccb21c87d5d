-- The role of the page in the database, and whether it may change anything; the schema's version.
SELECT session_user::text, coalesce(bool_and(has_function_privilege(p.oid, 'EXECUTE')), false)
FROM pg_proc p
WHERE p.pronamespace = 'tenon'::regnamespace AND p.proname IN ('change', 'pause', 'resume');
