-- What a function means does not depend on its caller's settings. With standard_conforming_strings = off a backslash in a text is
-- read differently, and PostgreSQL reads the body of a function by the setting that holds when it is called. So whatever pins
-- search_path pins this as well, in one place for all; functions that pin nothing are called only by those that do, or have no
-- backslash. sql_strangers_test walks the catalog.
DO $$
DECLARE
    f regprocedure;
BEGIN
    FOR f IN SELECT p.oid FROM pg_proc p
              WHERE p.pronamespace = 'tenon'::regnamespace AND array_to_string(p.proconfig, ' ') LIKE '%search_path=%' LOOP
        EXECUTE format('ALTER FUNCTION %s SET standard_conforming_strings = on', f);
    END LOOP;
END $$;
