-- Functions that the tables rest on: defaults, constraints and triggers use them. Setup runs this file before sql/tables.sql.

-- The key of a session advisory lock: 64 random bits, which nobody can take before they are known.
CREATE OR REPLACE FUNCTION tenon.random_key() RETURNS bigint
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT ('x' || left(u, 8) || right(u, 8))::bit(64)::bigint FROM CAST(gen_random_uuid() AS text) u
$$;

-- Is it a time of `least_s` to `most_s` seconds? No part of it may be negative: '-1 month 30 days 1 s' has one second, but an hour
-- before a moment and a time that long after it may be days or millennia apart, or beyond what PostgreSQL can say.
CREATE OR REPLACE FUNCTION tenon.is_span(span interval, least_s numeric, most_s numeric) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
RETURN extract(epoch FROM span) >= least_s AND extract(epoch FROM span) <= most_s AND date_trunc('month', span) >= '0'
   AND extract(day FROM span) >= 0 AND span - date_trunc('day', span) >= '0';

-- The parts of a retry policy: curve, first delay, longest delay, and how much of it chance may add (NULL with `polynomial`, which
-- has a jitter of its own, if not given). NULLs: it is none, or longer than a policy may be.
CREATE OR REPLACE FUNCTION tenon.retry_parts(policy text, OUT curve text, OUT first_s double precision, OUT cap_s double precision,
    OUT jitter double precision)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    retry_chars_max constant integer := 100;
    part text[];
BEGIN
    IF length(policy) <= retry_chars_max THEN
        part := coalesce(regexp_match(policy, '^(exponential|linear|constant)\(([^,()%]+)(?:,([^,()%]+))?(?:,\s*(\d{1,3}) ?%)?\)$'),
                         regexp_match(policy, '^(polynomial)()(?:\(([^,()%]+)(?:,\s*(\d{1,3}) ?%)?\))?$'));
    END IF;
    IF part[1] IS NULL THEN
        RETURN;
    END IF;
    first_s := extract(epoch FROM coalesce(nullif(part[2], ''), '1 ms')::interval);
    cap_s := extract(epoch FROM coalesce(part[3]::interval, interval '30 days'));
    jitter := coalesce(part[4]::integer, CASE WHEN part[1] <> 'polynomial' THEN 10 END) / 100.0;
    IF first_s BETWEEN 0.001 AND cap_s AND cap_s <= 2592000 AND coalesce(jitter, 0) <= 1 THEN
        curve := part[1];
    END IF;
EXCEPTION WHEN invalid_datetime_format OR datetime_field_overflow OR interval_field_overflow THEN
    RETURN;
END $$;

CREATE OR REPLACE FUNCTION tenon.is_retry(policy text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
RETURN policy IS NULL OR (tenon.retry_parts(policy)).curve IS NOT NULL;

-- So that who enqueues need not ask.
CREATE OR REPLACE FUNCTION tenon.note_confined() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM FROM tenon.setting FOR UPDATE;  -- by itself: the next statement sees what was committed meanwhile
    IF NOT FOUND AND EXISTS (SELECT FROM tenon.producer) THEN
        PERFORM tenon.settings();
    END IF;
    UPDATE tenon.setting s SET confined = EXISTS (SELECT FROM tenon.producer);
    RETURN NULL;
END $$;

-- What may be a key, and the name of a limit. Byte order, so that the keys behind a prefix are a range.
CREATE OR REPLACE FUNCTION tenon.is_limit_key(key text) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$ SELECT key ~ '^[^[:space:][:cntrl:]]+$' AND length(key) <= 200 $$;

-- When a dead task that blocks others is deleted, the tasks behind it continue; when it is retried it has its old place.
CREATE OR REPLACE FUNCTION tenon.limited_deleted() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO tenon.limit_event (keys, task_id) VALUES (OLD.limit_keys, OLD.id);
    PERFORM tenon.call_settler();
    RETURN NULL;
END $$;

-- The row of a kind or queue says that it has a limit: without the row the limit would have no effect.
CREATE OR REPLACE FUNCTION tenon.limited_stays() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'tenon: cannot delete or rename % in %: it has a limit', quote_literal(OLD.name), TG_RELID::regclass
        USING ERRCODE = 'object_not_in_prerequisite_state',
              HINT = format('Set its other columns to NULL, or remove the limit first: SELECT tenon.remove_limit(%L).', TG_TABLE_NAME || '/' || OLD.name);
END $$;

-- A task that begins to wait for what has come already is settled at once.
CREATE OR REPLACE FUNCTION tenon.note_waiting() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
BEGIN
    IF EXISTS (SELECT FROM tenon.signal s WHERE s.name = NEW.signal) THEN
        PERFORM pg_notify('tenon', 'settle');
    END IF;
    RETURN NULL;
END $$;
