-- Send a signal. One row: is it the first of its name?
--   $1 text  name    $2 jsonb  what it carries, NULL = true
SELECT tenon.signal($1::text, coalesce($2::jsonb, 'true'));
