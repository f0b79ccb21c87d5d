-- Enqueue the messages of one piece that were not seen before, and remember them (sql/functions/intake.sql).
--   $1 text      the queue in RabbitMQ         $2 text[]  keys, NULL = none     $3 text[]    kinds
--   $4 jsonb[]   payloads                      $5 text[]  traces, NULL = none   $6 bigint[]  offsets, NULL = not a stream
--   $7 bigint    the last offset of the piece  $8 text    the tasks' queue      $9 integer   their priority
-- One row: how many became tasks, and the largest payload that is allowed.
SELECT t.taken, t.payload_bytes_max
  FROM tenon.take_in($1::text, $2::text[], $3::text[], $4::jsonb[], $5::text[], $6::bigint[], $7::bigint, $8::text, $9::integer) t;
