-- What a session asks before it takes anything: the largest payload that is allowed, and from which offset a stream continues.
--   $1 text  the queue in RabbitMQ
SELECT b.payload_bytes_max, b.next_offset FROM tenon.intake_begin($1::text) b;
