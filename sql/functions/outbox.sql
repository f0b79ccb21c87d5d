-- The outbox: messages for any exchange of RabbitMQ, in the caller's transaction. The relay sends them after the commit (relay.sql).

-- May the role that logged in publish to this exchange? tenon.publisher names the roles that are confined.
CREATE OR REPLACE FUNCTION tenon.may_publish(exchange text) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT coalesce(bool_or($1 = ANY (p.exchanges)), true)
      FROM tenon.publisher p
      JOIN pg_roles r ON r.oid = p.role
     WHERE pg_has_role(session_user, r.oid, 'MEMBER')
       AND NOT (SELECT u.rolsuper FROM pg_roles u WHERE u.rolname = session_user)
$$;

-- Refuse a text that AMQP cannot carry as a short string.
CREATE OR REPLACE FUNCTION tenon.check_short(argument text, value text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF octet_length(value) > 255 THEN
        PERFORM tenon.refuse(argument, format('of %s bytes', octet_length(value)), 'at most 255 bytes of UTF-8');
    END IF;
END $$;

-- Refuse a name that no exchange can have.
CREATE OR REPLACE FUNCTION tenon.check_exchange(exchange text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF octet_length(exchange) > 127 THEN
        PERFORM tenon.refuse('exchange', format('of %s bytes', octet_length(exchange)), 'a text of at most 127 bytes; an empty one is the default exchange');
    END IF;
END $$;

-- Checks what all messages of a call share. Headers and properties go in one frame of at most 131,072 bytes.
CREATE OR REPLACE FUNCTION tenon.check_publish(exchange text, routing_key text, headers jsonb, content_type text, order_key text,
    expires interval, properties jsonb, trace text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    headers_bytes_max constant integer := 16384;
    own               constant text[] := '{type,app_id,correlation_id,reply_to,content_encoding}';
    k                 text;
BEGIN
    PERFORM tenon.check_exchange(exchange);
    IF exchange IS NULL THEN
        PERFORM tenon.refuse('exchange', NULL, 'a text of at most 127 bytes; an empty one is the default exchange');
    ELSIF routing_key IS NULL THEN
        PERFORM tenon.refuse('routing_key', NULL, 'a text, which may be empty');
    ELSIF order_key = '' OR length(order_key) > 200 THEN
        PERFORM tenon.refuse('order_key', quote_literal(order_key), '1 to 200 characters');
    ELSIF expires NOT BETWEEN interval '1 millisecond' AND interval '365 days' THEN
        PERFORM tenon.refuse('expires', expires::text, '1 millisecond to 365 days');
    END IF;
    PERFORM tenon.check_short('routing_key', routing_key);
    PERFORM tenon.check_short('content_type', content_type);
    IF trace !~ '^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$' THEN
        PERFORM tenon.refuse('trace', quote_literal(trace), 'a W3C traceparent, such as 00-<32 hex>-<16 hex>-01');
    ELSIF jsonb_typeof(headers) <> 'object' OR octet_length(headers::text) > headers_bytes_max THEN
        PERFORM tenon.refuse('headers', headers::text, format('an object of at most %s bytes of JSON', headers_bytes_max));
    END IF;
    FOR k IN SELECT jsonb_object_keys(headers) LOOP
        IF octet_length(k) NOT BETWEEN 1 AND 128 OR k LIKE 'tenon-%' THEN
            PERFORM tenon.refuse('the name of a header', quote_literal(k), '1 to 128 bytes, and does not begin with tenon-');
        END IF;
    END LOOP;
    IF properties IS NOT NULL THEN
        PERFORM tenon.check_object('properties', properties, own || '{priority}');
        FOREACH k IN ARRAY own LOOP
            IF jsonb_typeof(properties -> k) <> 'string' THEN
                PERFORM tenon.refuse('properties.' || k, (properties -> k)::text, 'a text');
            END IF;
            PERFORM tenon.check_short('properties.' || k, properties ->> k);
        END LOOP;
        IF jsonb_typeof(properties -> 'priority') <> 'number' OR (properties ->> 'priority')::numeric NOT IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9) THEN
            PERFORM tenon.refuse('properties.priority', (properties -> 'priority')::text, '0 to 9');
        END IF;
    END IF;
    IF NOT tenon.may_publish(exchange) THEN
        RAISE EXCEPTION 'tenon: role % may not publish to exchange %', session_user, quote_literal(exchange)
            USING ERRCODE = 'insufficient_privilege',
                  HINT = 'The role is confined to other exchanges (tenon.publisher); the owner of the schema can change that with tenon setup --grant-publisher.';
    END IF;
END $$;

-- The lock of an order key, which this transaction keeps until its end. A hash, so that rarely two keys share one, which costs only time.
CREATE OR REPLACE FUNCTION tenon.lock_order(order_key text) RETURNS void
LANGUAGE sql AS $$ SELECT pg_advisory_xact_lock(hashtextextended('tenon order ' || $1, 0)) $$;

-- Inserts the messages. `bodies` are what PostgreSQL prints; `form` says of what: `bytea`, `json` or `text`. The lock of the order key comes
-- before the ids, so that these are in the order of the commits. `notify`: as in tenon.enqueue_jsonb.
CREATE OR REPLACE FUNCTION tenon.publish_bodies(exchange text, routing_key text, bodies text[], form text, headers jsonb, message_ids text[],
    content_type text, order_key text, expires interval, properties jsonb, trace text, notify boolean) RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    body_bytes_max constant integer := 16777216;
    at      timestamptz;
    too_big integer;
    ids     bigint[];
BEGIN
    PERFORM tenon.check_publish(exchange, routing_key, headers, content_type, order_key, tenon.seconds(expires), properties, trace);
    IF bodies IS NULL OR cardinality(bodies) > 100000 OR array_position(bodies, NULL) IS NOT NULL THEN
        PERFORM tenon.refuse('the body', coalesce('of ' || cardinality(bodies) || ' elements', 'NULL'),
                             'a text, JSON or bytea; of tenon.publish_many an array of 0 to 100000 of them');
    ELSIF cardinality(message_ids) <> cardinality(bodies) THEN
        PERFORM tenon.refuse('message_ids', format('of %s elements', cardinality(message_ids)),
                             format('as long as bodies, %s elements', cardinality(bodies)));
    END IF;
    PERFORM tenon.check_short('message_id', m) FROM unnest(message_ids) m;
    too_big := (SELECT max(octet_length(b)) FROM unnest(bodies) b);
    IF too_big > body_bytes_max AND form <> 'bytea' OR too_big > 4 * body_bytes_max THEN  -- as PostgreSQL prints it, a byte has up to four characters
        PERFORM tenon.refuse('the body', format('of %s bytes', too_big), format('at most %s bytes long', body_bytes_max));
    END IF;
    IF order_key IS NOT NULL THEN
        PERFORM tenon.lock_order(order_key);
    END IF;
    at := clock_timestamp();
    WITH new AS (
        INSERT INTO tenon.message (created_at, expires_at, exchange, routing_key, order_key, message_id, content_type, headers, properties, trace,
                                   published_by, body)
        SELECT at, at + tenon.seconds(expires), exchange, routing_key, order_key, coalesce(b.message_id, gen_random_uuid()::text),
               coalesce(content_type, CASE form WHEN 'json' THEN 'application/json' WHEN 'bytea' THEN 'application/octet-stream' ELSE 'text/plain' END),
               headers, properties, trace, session_user, b.bytes
          FROM (SELECT m.message_id, CASE form WHEN 'bytea' THEN m.body::bytea ELSE convert_to(m.body, 'UTF8') END AS bytes
                  FROM unnest(bodies, message_ids) WITH ORDINALITY m (body, message_id, place) ORDER BY m.place OFFSET 0) b
         WHERE octet_length(b.bytes) <= body_bytes_max
        RETURNING id)
    SELECT coalesce(array_agg(id ORDER BY id), '{}') INTO ids FROM new;
    IF cardinality(ids) < cardinality(bodies) THEN
        PERFORM tenon.refuse('the body', 'of more bytes', format('at most %s bytes long', body_bytes_max));
    END IF;
    IF coalesce(notify, true) AND ids <> '{}' THEN
        PERFORM tenon.call_relay();
    END IF;
    RETURN ids;
END $$;

COMMENT ON FUNCTION tenon.publish_bodies IS $$Internal: `tenon.publish` and `tenon.publish_many` print the bodies, and call it.$$;

-- What a body is, by the type that the caller's statement gives it.
CREATE OR REPLACE FUNCTION tenon.form_of(type regtype) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN $1 IN ('pg_catalog.json'::pg_catalog.regtype, 'pg_catalog.jsonb'::pg_catalog.regtype,
                            'pg_catalog.json[]'::pg_catalog.regtype, 'pg_catalog.jsonb[]'::pg_catalog.regtype) THEN 'json'
                WHEN $1 IN ('pg_catalog.bytea'::pg_catalog.regtype, 'pg_catalog.bytea[]'::pg_catalog.regtype) THEN 'bytea' ELSE 'text' END
$$;

-- As tenon.enqueue: the conversion runs as the caller. A bytea's text reads back as the same bytes, whatever bytea_output says.
CREATE OR REPLACE FUNCTION tenon.publish(exchange text, routing_key text, body anycompatible, headers jsonb DEFAULT NULL,
    message_id text DEFAULT NULL, content_type text DEFAULT NULL, order_key text DEFAULT NULL, expires interval DEFAULT NULL,
    properties jsonb DEFAULT NULL, trace text DEFAULT NULL, notify boolean DEFAULT true) RETURNS bigint
LANGUAGE sql AS $$
    SELECT (tenon.publish_bodies(exchange, routing_key, ARRAY[body::pg_catalog.text], tenon.form_of(pg_catalog.pg_typeof(body)), headers,
                                 ARRAY[message_id], content_type, order_key, expires, properties, trace, notify))[1]
$$;

COMMENT ON FUNCTION tenon.publish IS $$Publishes one message to RabbitMQ in the caller's transaction and returns its number in `tenon.outbox`. It is sent after the commit, at least once and with the same message id each time, and never if the transaction rolls back ([outbox.md](outbox.md)).

- `exchange`: at most 127 bytes; an empty text is the default exchange, which routes to the queue that `routing_key` names.
- `routing_key`: at most 255 bytes.
- `body`: `jsonb` or `json`, `bytea`, or a text, which is sent in UTF-8; at most 16,777,216 bytes.
- `headers`: an object of at most 16,384 bytes. Numbers without a fraction become 64-bit integers, other numbers doubles; objects, arrays, true, false and null stay what they are. Names do not begin with `tenon-`.
- `message_id`: the AMQP property message-id, at most 255 bytes; default: a random UUID.
- `content_type`: default: `application/json` for JSON, `application/octet-stream` for `bytea`, else `text/plain`.
- `order_key`: 1 to 200 characters. Messages with the same key are sent one after the other, in the order of their commits. A transaction that gives the key waits for those that gave it before and have not ended. If you give several keys, give them in the same order everywhere; otherwise PostgreSQL may find a deadlock.
- `expires`: 1 millisecond to 365 days. After that time, it is not sent any more, and RabbitMQ discards it.
- `properties`: an object with any of `type`, `app_id`, `correlation_id`, `reply_to`, `content_encoding` (texts of at most 255 bytes) and `priority` (0 to 9).
- `trace`: a W3C traceparent, which becomes the header `traceparent`.
- `notify`: false in a transaction that will be prepared (`PREPARE TRANSACTION`).

An argument that is not allowed raises SQLSTATE 22023. An exchange that the role may not publish to (`tenon.publisher`) raises 42501.$$;

CREATE OR REPLACE FUNCTION tenon.publish_many(exchange text, routing_key text, bodies anycompatiblearray, headers jsonb DEFAULT NULL,
    message_ids text[] DEFAULT NULL, content_type text DEFAULT NULL, order_key text DEFAULT NULL, expires interval DEFAULT NULL,
    properties jsonb DEFAULT NULL, trace text DEFAULT NULL, notify boolean DEFAULT true) RETURNS bigint[]
LANGUAGE sql AS $$
    SELECT tenon.publish_bodies(exchange, routing_key, bodies::pg_catalog.text[], tenon.form_of(pg_catalog.pg_typeof(bodies)), headers,
                                message_ids, content_type, order_key, expires, properties, trace, notify)
$$;

COMMENT ON FUNCTION tenon.publish_many IS $$Like `tenon.publish`, for an array of at most 100,000 bodies, and with `message_ids` as many ids. Returns their numbers, in the order of the bodies.$$;

CREATE OR REPLACE VIEW tenon.outbox AS
SELECT m.id, CASE WHEN m.expires_at = '-infinity' THEN 'deleted'
                  WHEN m.failed_at IS NOT NULL THEN 'refused'
                  WHEN m.expires_at <= statement_timestamp() THEN 'expired'
                  WHEN m.held THEN 'held' ELSE 'waiting' END AS state,
       m.created_at, m.expires_at, m.failed_at, m.retry_at, m.tries, m.error, m.exchange, m.routing_key, m.order_key, m.message_id,
       m.content_type, m.headers, m.properties, m.trace, m.published_by, m.body
  FROM tenon.message m;
COMMENT ON VIEW tenon.outbox IS 'The messages that RabbitMQ does not have yet.';
COMMENT ON COLUMN tenon.outbox.state IS '`waiting` for the relay; `held` behind another message of its order key; `refused` by RabbitMQ; `expired`, or `deleted` by an operator: the relay removes it.';

-- How many messages wait and how many were refused, of the newest `most`, and whether there are more; and how old the oldest is that the relay has to
-- send, in milliseconds (NULL = none). For /metrics, tenon doctor and the page.
CREATE OR REPLACE FUNCTION tenon.outbox_depth(most bigint, OUT waiting bigint, OUT refused bigint, OUT at_least boolean, OUT oldest_ms bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    SELECT count(*) FILTER (WHERE m.failed_at IS NULL), count(*) FILTER (WHERE m.failed_at IS NOT NULL), count(*) = most
      INTO waiting, refused, at_least
      FROM (SELECT o.failed_at FROM tenon.message o ORDER BY o.id DESC LIMIT most) m;
    refused := greatest(refused, (SELECT count(*) FROM (SELECT FROM tenon.message o WHERE o.failed_at IS NOT NULL LIMIT most) f));
    SELECT greatest(0, (extract(epoch FROM clock_timestamp() - m.created_at) * 1000)::bigint) INTO oldest_ms
      FROM (SELECT o.created_at FROM tenon.message o WHERE NOT o.held AND o.failed_at IS NULL ORDER BY o.id LIMIT 1) m;
END $$;

-- As tenon.mine, which has the reason for the arithmetic.
CREATE OR REPLACE FUNCTION tenon.mine_published() RETURNS SETOF tenon.outbox
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT o.*
      FROM tenon.message m
      CROSS JOIN LATERAL (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS near) s
      CROSS JOIN LATERAL (SELECT ((m.xmin::text::bigint - s.near) & 4294967295) AS ahead) x
      JOIN tenon.outbox o ON o.id = m.id
     WHERE m.created_at >= now()
       AND m.published_by = session_user
       AND CASE WHEN m.created_at >= now()
                THEN pg_xact_status((s.near + CASE WHEN x.ahead < 2147483648 THEN x.ahead ELSE x.ahead - 4294967296 END)::text::xid8) END = 'in progress'
     ORDER BY m.id
$$;

COMMENT ON FUNCTION tenon.mine_published IS $$Returns the messages that this transaction has published so far and not rolled back to a savepoint, in the form of `tenon.outbox`. For tests of an application, which check them and then roll back. It reads the whole outbox.$$;

-- Locks up to 100,000 messages, those with these ids or all refused ones of an exchange, and returns their ids. It locks them in the order
-- of their ids, as the relay does. Called by tenon.retry_messages and tenon.delete_messages.
CREATE OR REPLACE FUNCTION tenon.lock_messages(ids bigint[], exchange text, only_refused boolean) RETURNS bigint[]
LANGUAGE plpgsql AS $$
#variable_conflict use_variable
BEGIN
    PERFORM tenon.check_exchange(exchange);
    IF num_nonnulls(ids, exchange) <> 1 THEN
        PERFORM tenon.refuse_call('neither or both of ids and exchange are given', 'Give the numbers of messages, or an exchange for all that it refused.');
    END IF;
    IF cardinality(ids) > 100000 THEN
        PERFORM tenon.refuse('ids', format('of %s elements', cardinality(ids)), 'at most 100000 numbers');
    END IF;
    RETURN ARRAY(SELECT m.id FROM tenon.message m
                  WHERE (m.id = ANY (ids) OR ids IS NULL AND m.exchange = exchange) AND (m.failed_at IS NOT NULL OR NOT only_refused)
                  ORDER BY m.id LIMIT 100000 FOR UPDATE);
END $$;

CREATE OR REPLACE FUNCTION tenon.retry_messages(ids bigint[] DEFAULT NULL, exchange text DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    picked bigint[] := tenon.lock_messages(ids, exchange, true);
    n integer := cardinality(picked);
BEGIN
    UPDATE tenon.message m SET retry_at = clock_timestamp() WHERE m.id = ANY (picked);
    PERFORM tenon.note_audit('retry_messages', jsonb_strip_nulls(jsonb_build_object('ids', ids, 'exchange', exchange)), n);
    PERFORM tenon.call_relay();
    RETURN n;
END $$;

COMMENT ON FUNCTION tenon.retry_messages IS $$Lets the relay send refused messages again: those with these numbers, or all of an exchange, at most 100,000 at once. Returns how many. Leaves a row in `tenon.audit`. For operators.$$;

-- A time to retry makes the relay look at messages that it has passed already (tenon.relay_watch). It deletes them, and lets what is behind them go: it alone knows what it has sent.
CREATE OR REPLACE FUNCTION tenon.delete_messages(ids bigint[] DEFAULT NULL, exchange text DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    picked bigint[] := tenon.lock_messages(ids, exchange, ids IS NULL);
    n integer := cardinality(picked);
BEGIN
    UPDATE tenon.message m SET expires_at = '-infinity', retry_at = CASE WHEN m.failed_at IS NOT NULL THEN clock_timestamp() END WHERE m.id = ANY (picked);
    PERFORM tenon.note_audit('delete_messages', jsonb_strip_nulls(jsonb_build_object('ids', ids, 'exchange', exchange)), n);
    PERFORM tenon.call_relay();
    RETURN n;
END $$;

COMMENT ON FUNCTION tenon.delete_messages IS $$Deletes messages that RabbitMQ does not have yet: those with these numbers, or all refused ones of an exchange, at most 100,000 at once. The relay removes them when it reaches them; a message that it is sending at that moment is still sent. Commit soon: while your transaction locks a message that was just sent, the relay cannot remove it, and may send it again. Returns how many. Leaves a row in `tenon.audit`. For operators.$$;

CREATE OR REPLACE FUNCTION tenon.replay_messages(since timestamptz, until timestamptz DEFAULT NULL, exchange text DEFAULT NULL,
    most integer DEFAULT 100000) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    n integer;
BEGIN
    PERFORM tenon.check_exchange(exchange);
    IF since IS NULL THEN
        PERFORM tenon.refuse('since', NULL, 'a time');
    END IF;
    PERFORM tenon.lock_order(k) FROM (SELECT DISTINCT s.order_key COLLATE "C" AS k FROM tenon.message_sent s
                                       WHERE s.sent_at >= since AND s.sent_at < coalesce(until, now()) AND s.order_key IS NOT NULL
                                         AND s.exchange = coalesce(exchange, s.exchange) ORDER BY 1) o;
    INSERT INTO tenon.message (created_at, exchange, routing_key, order_key, message_id, content_type, headers, properties, trace, published_by, body)
    SELECT clock_timestamp(), s.exchange, s.routing_key, s.order_key, s.message_id, s.content_type, s.headers, s.properties, s.trace, s.published_by, s.body
      FROM (SELECT * FROM tenon.message_sent s
             WHERE s.sent_at >= since AND s.sent_at < coalesce(until, now()) AND s.exchange = coalesce(exchange, s.exchange)
             ORDER BY s.sent_at, s.id LIMIT most OFFSET 0) s
     ORDER BY s.id;
    GET DIAGNOSTICS n = ROW_COUNT;
    PERFORM tenon.note_audit('replay_messages', jsonb_strip_nulls(jsonb_build_object('since', since, 'until', until, 'exchange', exchange)), n);
    PERFORM tenon.call_relay();
    RETURN n;
END $$;

COMMENT ON FUNCTION tenon.replay_messages IS $$Publishes messages again that were sent at `since` or later and before `until` (default: now), of all exchanges or of one, with the same message ids and in the same order; at most `most`, the oldest first. Only what is in `tenon.message_sent` can be replayed: set `outbox_keep`. Returns how many. Leaves a row in `tenon.audit`. For operators.$$;
