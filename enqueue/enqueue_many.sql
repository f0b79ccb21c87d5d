-- payloads one by one: an array of jsonb, read as such, takes four times as long (docs/decisions/0017)
SELECT tenon.enqueue_many($1, ARRAY(SELECT p::jsonb FROM unnest($2::text[]) p), $3, $4, $5, $6, $7, $8, $9, $10, $11, $12),
       coalesce($3, tenon.queue_of($1));
