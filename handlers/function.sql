-- A function of one jsonb argument by its name, in the form that a statement uses; one that returns void has no result.
--   $1 text   the name, with or without its schema
SELECT format('%I.%I', n.nspname, p.proname) AS name, p.prorettype = 'void'::regtype AS is_void
  FROM pg_catalog.pg_proc p
  JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
 WHERE p.oid = ($1 || '(pg_catalog.jsonb)')::regprocedure
   AND p.prokind = 'f' AND NOT p.proretset
