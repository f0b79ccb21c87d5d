-- Where a new leader starts: rows up to here are old. In an empty table it is the last id handed out. And the key of the
-- lock that says that it sleeps.
SELECT coalesce((SELECT max(id) FROM tenon.task),
                pg_sequence_last_value(pg_get_serial_sequence('tenon.task', 'id')::regclass), 0),
       sleeper_key
FROM tenon.settings();
