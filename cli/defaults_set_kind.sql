-- Set defaults of a kind.
--   $1 text  which    $2 jsonb  the changes
SELECT tenon.set_kind($1, $2::jsonb);
