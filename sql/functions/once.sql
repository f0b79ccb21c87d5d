-- What consumers have seen: exactly once for messages that come more than once.

-- The unique index decides: a second call of the same message waits for the first one's transaction, and the row is only there if that commits.
-- `intake:` is what tenon intake puts in front of its own consumers (intake.sql).
CREATE OR REPLACE FUNCTION tenon.once(consumer text, message_id text, keep interval DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
    IF (length(consumer) BETWEEN 1 AND 200 AND consumer NOT LIKE 'intake:%') IS NOT TRUE THEN
        PERFORM tenon.refuse('consumer', quote_literal(consumer), '1 to 200 characters, and does not begin with intake:');
    ELSIF (octet_length(message_id) BETWEEN 1 AND 255) IS NOT TRUE THEN
        PERFORM tenon.refuse('message_id', quote_literal(message_id), '1 to 255 bytes');
    ELSIF extract(epoch FROM keep) NOT BETWEEN 1 AND 315576000 THEN
        PERFORM tenon.refuse('keep', keep::text, '1 second to 10 years');
    END IF;
    INSERT INTO tenon.seen (message_id, consumer, until)
    VALUES (message_id, consumer, clock_timestamp() + coalesce(tenon.seconds(keep), (tenon.settings()).once_keep))
    ON CONFLICT DO NOTHING;
    RETURN FOUND;
END $$;

COMMENT ON FUNCTION tenon.once IS $$Returns true if no committed transaction has called it with this consumer and message id, and false otherwise. A consumer of RabbitMQ or any other queue calls it in the transaction of a message's effect, and skips the effect if it returns false: messages that are delivered again then have no second effect ([intake.md](intake.md#a-consumer-of-your-own)). If the transaction rolls back, the message counts as not seen. While another transaction that has called it for the same message is in progress, it waits for its end.

- `consumer`: 1 to 200 characters that name the consumer. Each consumer sees each message once. Names that begin with `intake:` are those of `tenon intake`.
- `message_id`: 1 to 255 bytes.
- `keep`: how long the message is remembered at least, 1 second to 10 years; default: `once_keep` in `tenon.setting`, a week.

In a transaction with isolation level REPEATABLE READ or SERIALIZABLE, it raises SQLSTATE 40001 instead of returning false if the other transaction committed after the snapshot was taken; run the transaction again.$$;
