-- The relay's statements (cleaner/relay.c): which messages it reads, and what became of them. Each statement first locks the row of
-- tenon.relay, so that there is one relay at a time, and a relay that has lost its lead does nothing. Messages are locked in the order of
-- their ids, as tenon.lock_messages locks them for operators: the relay's session uses only index scans and nested loops, which keep it.

-- A session begins to relay. From its commit on, the one before is refused.
CREATE OR REPLACE FUNCTION tenon.relay_begin() RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    new bigint := tenon.random_key();
BEGIN
    UPDATE tenon.relay r SET token = new;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'tenon: the table tenon.relay is empty'
            USING ERRCODE = 'invalid_schema_name', HINT = 'Run tenon setup: it restores the row.';
    END IF;
    RETURN new;
END $$;

CREATE OR REPLACE FUNCTION tenon.hold_relay(token bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM tenon.relay r WHERE r.token = hold_relay.token FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'tenon: another session relays' USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
END $$;

-- What became of messages: `done` were confirmed, `expired` are to go unsent; both are deleted, and the next message of each key is released. Returns
-- the first and the last of the released messages whose keys are not busy: the relay reads them then.
CREATE OR REPLACE FUNCTION tenon.relay_done(token bigint, done bigint[], expired bigint[], busy text[], OUT first bigint, OUT last bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    keep  boolean := (tenon.settings()).outbox_keep > interval '0';
    ended bigint[] := done || expired;
    next  bigint[];
BEGIN
    PERFORM tenon.hold_relay(token);
    next := ARRAY(SELECT n.id FROM (SELECT DISTINCT m.order_key AS key FROM tenon.message m WHERE m.id = ANY (ended) AND m.order_key IS NOT NULL) k
                   CROSS JOIN LATERAL (SELECT q.id FROM tenon.message q WHERE q.order_key = k.key AND q.id NOT IN (SELECT unnest(ended))
                                        ORDER BY q.id LIMIT 1) n);
    IF next <> '{}' THEN
        PERFORM FROM tenon.message m WHERE m.id = ANY (ended || next) ORDER BY m.id FOR UPDATE;
    END IF;
    WITH gone AS (
        DELETE FROM tenon.message m WHERE m.id = ANY (ended) RETURNING m.*
    )
    INSERT INTO tenon.message_sent (sent_at, id, created_at, exchange, routing_key, order_key, message_id, content_type, headers, properties,
                                    trace, published_by, body)
    SELECT clock_timestamp(), g.id, g.created_at, g.exchange, g.routing_key, g.order_key, g.message_id, g.content_type, g.headers, g.properties,
           g.trace, g.published_by, g.body
      FROM gone g WHERE keep AND g.id = ANY (done);
    WITH free AS (
        UPDATE tenon.message m SET held = false WHERE m.id = ANY (next) AND m.held RETURNING m.id, m.order_key)
    SELECT min(f.id), max(f.id) INTO first, last FROM free f WHERE f.order_key NOT IN (SELECT unnest(busy));
END $$;

-- RabbitMQ did not take these messages. With `retry`, they are tried again after a second, 2, 4 ... up to 64; else when somebody says so. Those
-- that were deleted meanwhile are read again at once.
CREATE OR REPLACE FUNCTION tenon.relay_failed(token bigint, ids bigint[], errors text[], retries boolean[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    PERFORM tenon.hold_relay(token);
    UPDATE tenon.message m
       SET failed_at = clock_timestamp(), tries = m.tries + 1, error = left(f.error, 8192),
           retry_at = CASE WHEN m.expires_at = '-infinity' THEN clock_timestamp()
                           WHEN f.retry THEN clock_timestamp() + interval '1 second' * power(2, least(m.tries, 6)) END
      FROM (SELECT * FROM unnest(ids, errors, retries) u (id, error, retry) ORDER BY u.id) f
     WHERE m.id = f.id;
END $$;

-- What the relay asks once a second. Messages whose pause is over wait again. Returns the first that waits above `settled`, or below if its pause was
-- over; and what cleaner/decide/settled.h wants to know: the first one above `settled`, the last id handed out, and of transactions the oldest in
-- progress and the next to begin.
CREATE OR REPLACE FUNCTION tenon.relay_watch(token bigint, settled bigint, OUT first bigint, OUT first_above bigint, OUT last bigint, OUT xmin bigint,
    OUT next bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    retried bigint;
BEGIN
    PERFORM tenon.hold_relay(token);
    WITH again AS (
        UPDATE tenon.message m SET failed_at = NULL, retry_at = NULL
         WHERE m.id = ANY (ARRAY(SELECT f.id FROM tenon.message f
                                  WHERE f.retry_at <= clock_timestamp() ORDER BY f.retry_at LIMIT 10000 FOR UPDATE SKIP LOCKED))
        RETURNING m.id)
    SELECT min(a.id) INTO retried FROM again a;
    SELECT m.id INTO first_above FROM tenon.message m WHERE NOT m.held AND m.failed_at IS NULL AND m.id > settled ORDER BY m.id LIMIT 1;
    first := least(retried, first_above);
    SELECT coalesce(pg_sequence_last_value(pg_get_serial_sequence('tenon.message', 'id')::regclass), 0), pg_snapshot_xmin(s)::text::bigint,
           pg_snapshot_xmin(s)::text::bigint + age(pg_snapshot_xmin(s)::xid) INTO last, xmin, next
      FROM pg_current_snapshot() s;
END $$;

-- The next messages: of those that wait with ids above `beyond` and up to `up_to` the first ones, or the newest, at most `most` of them and 8 MB, without
-- those that were sent and not answered. Of a key that is not busy, up to 50 of its messages and 1 MB, from its first one on, and of all keys
-- together 8 MB besides their first ones; what is behind the first one is held from now on. The first row has no message: `place` is the last id that
-- was looked at, `more` whether there are more.
-- NOT IN (SELECT unnest(...)) hashes the array; <> ALL (...) compares each row with each of 1,000 elements.
-- One function picks, holds and returns messages, so that this takes one round trip. Three functions would have to pass arrays to each
-- other, would be longer, and would store all rows twice, up to 16 MB, because PL/pgSQL collects the rows that a function returns.
CREATE OR REPLACE FUNCTION tenon.relay_read(token bigint, beyond bigint, up_to bigint, most integer, newest boolean, sent bigint[], busy text[])
RETURNS TABLE (id bigint, order_key text, exchange text, routing_key text, message_id text, content_type text, headers text, properties text,
    trace text, created_s bigint, left_ms bigint, body text, place bigint, more boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    bytes_max constant integer := 8388608;
    picked bigint[];
    seen   record;
BEGIN
    PERFORM tenon.hold_relay(token);
    IF newest THEN
        picked := ARRAY(SELECT m.id FROM tenon.message m
                         WHERE NOT m.held AND m.failed_at IS NULL AND m.id > beyond AND m.id <= up_to
                           AND m.id NOT IN (SELECT unnest(sent))
                         ORDER BY m.id DESC LIMIT most);
    ELSE
        picked := ARRAY(SELECT m.id FROM tenon.message m
                         WHERE NOT m.held AND m.failed_at IS NULL AND m.id > beyond AND m.id <= up_to
                           AND m.id NOT IN (SELECT unnest(sent))
                         ORDER BY m.id LIMIT most);
    END IF;
    SELECT coalesce(array_agg(b.id) FILTER (WHERE b.order_key IS NULL), '{}') AS plain,
           coalesce(array_agg(b.id) FILTER (WHERE b.order_key IS NOT NULL), '{}') AS ordered,
           coalesce(array_agg(DISTINCT b.order_key) FILTER (WHERE b.order_key IS NOT NULL), '{}') AS keys,
           max(b.id) AS last, count(*) AS n
      INTO seen
      FROM (SELECT m.id, m.order_key, sum(octet_length(m.body)) OVER (ORDER BY p.place) - octet_length(m.body) AS before
              FROM unnest(picked) WITH ORDINALITY p (id, place) JOIN tenon.message m ON m.id = p.id) b
     WHERE b.before < bytes_max;
    UPDATE tenon.message m SET held = true
     WHERE m.id = ANY (seen.ordered)
       AND m.id NOT IN (SELECT f.id FROM unnest(seen.keys) k (key)
                         CROSS JOIN LATERAL (SELECT q.id FROM tenon.message q WHERE q.order_key = k.key ORDER BY q.id LIMIT 1) f);
    place := coalesce(seen.last, 0);
    more := cardinality(picked) = most OR seen.n < cardinality(picked);
    RETURN NEXT;
    RETURN QUERY
    SELECT x.id, x.order_key, x.exchange, x.routing_key, x.message_id, x.content_type, x.headers::text, x.properties::text, x.trace,
           extract(epoch FROM x.created_at)::bigint,
           CASE WHEN x.expires_at IS NULL THEN NULL WHEN x.expires_at = '-infinity' THEN 0
                ELSE greatest(0, ceil(extract(epoch FROM x.expires_at - clock_timestamp()) * 1000))::bigint END,
           encode(x.body, 'hex'), NULL::bigint, NULL::boolean
      FROM (SELECT m.* FROM unnest(seen.plain) p (id) JOIN tenon.message m ON m.id = p.id
            UNION ALL
            SELECT m.*
              FROM (SELECT c.id, c.place, sum(c.bytes) OVER (ORDER BY c.place, c.id) AS sum
                      FROM unnest(seen.keys) k (key)
                     CROSS JOIN LATERAL (SELECT q.id, octet_length(q.body) AS bytes, row_number() OVER w AS place,
                                                sum(octet_length(q.body)) OVER w - octet_length(q.body) AS before,
                                                bool_or(q.failed_at IS NOT NULL) OVER w AS stopped
                                           FROM (SELECT m.id, m.body, m.failed_at FROM tenon.message m
                                                  WHERE m.order_key = k.key ORDER BY m.id LIMIT 50) q
                                         WINDOW w AS (ORDER BY q.id)) c
                     WHERE k.key NOT IN (SELECT unnest(busy)) AND NOT c.stopped AND c.before < 1048576) c
              JOIN tenon.message m ON m.id = c.id
             WHERE c.place = 1 OR c.sum < bytes_max) x
     ORDER BY x.id;
END $$;

-- The newest message above this id that waits; 0 = none. What the awake leader asks with each read of fresh rows.
CREATE OR REPLACE FUNCTION tenon.newest_message(seen bigint) RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    RETURN coalesce((SELECT m.id FROM tenon.message m WHERE m.id > seen AND NOT m.held AND m.failed_at IS NULL ORDER BY m.id DESC LIMIT 1), 0);
END $$;

-- Is there a message for the relay? What the watch asks once a second.
CREATE OR REPLACE FUNCTION tenon.messages_wait() RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    RETURN EXISTS (SELECT FROM tenon.message m WHERE NOT m.held AND m.failed_at IS NULL)
        OR EXISTS (SELECT FROM tenon.message m WHERE m.retry_at <= clock_timestamp());
END $$;
