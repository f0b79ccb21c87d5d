-- What a function means does not depend on its caller's settings. With standard_conforming_strings = off a backslash in a text is
-- read differently, and PostgreSQL reads the body of a function by the setting at the time of the call. So every function that
-- pins search_path pins this as well, here for all of them. A function that pins nothing is called only by functions that do, or
-- contains no backslash. sql_strangers_test checks the catalog.
DO $$
DECLARE
    f regprocedure;
BEGIN
    FOR f IN SELECT p.oid FROM pg_proc p
              WHERE p.pronamespace = 'tenon'::regnamespace AND array_to_string(p.proconfig, ' ') LIKE '%search_path=%' LOOP
        EXECUTE format('ALTER FUNCTION %s SET standard_conforming_strings = on', f);
    END LOOP;
END $$;
