-- Where a new leader starts: rows up to here are old. In an empty table it is the last id handed out.
SELECT coalesce(max(id), pg_sequence_last_value(pg_get_serial_sequence('tenon.task', 'id')::regclass), 0)
FROM tenon.task;
