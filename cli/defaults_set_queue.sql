-- Set defaults of a queue.
--   $1 text  which    $2 jsonb  the changes
SELECT tenon.set_queue($1, $2::jsonb);
