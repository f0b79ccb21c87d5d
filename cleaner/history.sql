-- Drop one partition of the history that is due, and return its name; NULL when none is. Raises 55P03 when a reader is in
-- the way.
SELECT tenon.drop_history();
