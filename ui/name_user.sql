-- Set the user who logged in to the page, for the audit's rows of this transaction.
--   $1 text  the name; NULL = a user with the token
SELECT set_config('tenon.web_user', coalesce($1::text, ''), true);
