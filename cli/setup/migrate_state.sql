-- What of tenon is in this database? The last column: the last migration, from the comment on tenon.migration; 0: there is no
-- comment, or there are no tables. It tells when the rows of tenon.migration are missing, for instance after a dump without data.
SELECT to_regnamespace('tenon') IS NOT NULL, to_regclass('tenon.migration') IS NOT NULL, to_regclass('tenon.setting') IS NOT NULL,
       coalesce(substring(obj_description(to_regclass('tenon.migration'), 'pg_class') FROM '([0-9]{1,9})$')::integer, 0);
