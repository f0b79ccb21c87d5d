-- What of tenon is in this database?
SELECT to_regnamespace('tenon') IS NOT NULL, to_regclass('tenon.migration') IS NOT NULL;
