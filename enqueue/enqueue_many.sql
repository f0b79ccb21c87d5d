-- payloads one by one: an array of jsonb, read as such, takes three times as long (docs/decisions/0017);
-- names are qualified, because it runs with the application's search_path
SELECT tenon.enqueue_many($1, ARRAY(SELECT pg_catalog.unnest($2::pg_catalog.text[])::pg_catalog.jsonb), $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23),
       r.exchange, r.routing_key
FROM tenon.route_of($1, $3) r;
