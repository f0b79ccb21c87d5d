-- The next messages (sql/functions/relay.sql). The first row has none: it says up to where the others reach, and whether there are more.
--   $1 bigint   token             $2 bigint  beyond this id   $3 bigint  up to this one   $4 integer  how many at most
--   $5 boolean  the newest ones   $6 bigint[]  ids that we have   $7 text[]  keys that we have messages of
SELECT id, order_key, exchange, routing_key, message_id, content_type, headers, properties, trace, created_s, left_ms, body, place, more
FROM tenon.relay_read($1::bigint, $2::bigint, $3::bigint, $4::integer, $5::boolean, $6::bigint[], $7::text[]);
