-- RabbitMQ did not take these messages.
--   $1 bigint  token   $2 bigint[]  ids   $3 text[]  errors   $4 boolean[]  whether they are tried again by themselves
SELECT tenon.relay_failed($1::bigint, $2::bigint[], $3::text[], $4::boolean[]);
