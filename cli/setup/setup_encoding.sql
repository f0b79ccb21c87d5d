-- The encoding of the database, such as UTF8.
SELECT getdatabaseencoding();
