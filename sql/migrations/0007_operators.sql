-- The hands of an operator: find tasks, change many at once, pause and resume, set defaults; and who did what.

-- --- the audit ---

CREATE TABLE tenon.audit (
    id      bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    who     text        NOT NULL DEFAULT session_user,
    act     text        NOT NULL,
    what    jsonb       NOT NULL,
    n       bigint      NOT NULL,
    skipped bigint      NOT NULL DEFAULT 0
);
CREATE INDEX audit_at ON tenon.audit (at);
COMMENT ON TABLE tenon.audit IS 'What operators did: one row for each act that changed something, kept for `audit_keep` (`tenon.setting`).';
COMMENT ON COLUMN tenon.audit.id IS 'The number of the act.';
COMMENT ON COLUMN tenon.audit.at IS 'When it began.';
COMMENT ON COLUMN tenon.audit.who IS 'The role that had logged in.';
COMMENT ON COLUMN tenon.audit.act IS '`retry`, `cancel`, `close`, `cancel_flow`, `delete`, `run_now`, `set`, `pause`, `resume`, `set_queue`, `set_kind`, `set_settings`, `set_schedule`, `drop_schedule`, `pause_schedule`, `resume_schedule`, `run_schedule_now`, `set_limit`, `drop_limit`, `pause_limit`, `resume_limit` or `adopt`.';
COMMENT ON COLUMN tenon.audit.what IS 'The filter, the changes, and why, as far as they were given. `web_user`: who had logged in to `tenon ui`, as its session says in `tenon.web_user`.';
COMMENT ON COLUMN tenon.audit.n IS 'How many tasks, queues or kinds it changed.';
COMMENT ON COLUMN tenon.audit.skipped IS 'How many it found and left as they were: somebody else had them locked, or another task holds their unique key.';

CREATE FUNCTION tenon.note_audit(act text, what jsonb, n bigint, skipped bigint DEFAULT 0) RETURNS bigint
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO tenon.audit (act, what, n, skipped)
    SELECT $1, jsonb_object_agg(e.key, e.value), $3, $4
      FROM jsonb_each($2 || jsonb_build_object('web_user', NULLIF(left(current_setting('tenon.web_user', true), 200), ''))) e
     WHERE e.value <> 'null'
    RETURNING id
$$;

-- --- the filter ---

-- A filter as it was read; NULL = any.
CREATE TYPE tenon.filter AS (states text[], queues text[], kinds text[], errors text[], before timestamptz,
    unique_key text, payload jsonpath, ids bigint[], trace text, enqueued_by text, flow bigint, limit_key text);

CREATE FUNCTION tenon.filter_keys() RETURNS TABLE (key text, allowed text)
LANGUAGE sql IMMUTABLE AS $$
    VALUES ('state', 'a state, or an array of them: blocked, scheduled, ready, running, retrying, done, cancelled, expired, dead'),
           ('queue', 'a queue, or an array of them'),
           ('kind', 'a kind, or an array of them'),
           ('error', 'a class of errors (error_class), or an array of them'),
           ('older_than', 'a time that has passed since the task was enqueued or, if it has ended, since then, such as "2 hours"'),
           ('unique_key', 'a text'),
           ('payload', 'a predicate of SQL/JSON path, such as $.to == "ann@example.com" or exists($.tags[*] ? (@ == "new"))'),
           ('ids', 'a number, or an array of at most 100000'),
           ('trace', 'a text'),
           ('enqueued_by', 'a role'),
           ('flow', 'the number of a flow'),
           ('limit_key', 'a key of limits, such as "tenant:42"')
$$;

-- A text or an array of texts.
CREATE FUNCTION tenon.filter_texts(value jsonb) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    texts text[];
BEGIN
    SELECT array_agg(e #>> '{}') INTO texts
      FROM jsonb_array_elements(CASE jsonb_typeof(value) WHEN 'array' THEN value ELSE jsonb_build_array(value) END) e
    HAVING bool_and(jsonb_typeof(e) = 'string');
    IF texts IS NULL THEN
        RAISE data_exception;
    END IF;
    RETURN texts;
END $$;

CREATE FUNCTION tenon.filter_text(value jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF jsonb_typeof(value) <> 'string' THEN
        RAISE data_exception;
    END IF;
    RETURN value #>> '{}';
END $$;

-- A path that is no predicate would find nothing, silently.
CREATE FUNCTION tenon.filter_path(value jsonb) RETURNS jsonpath
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    path jsonpath := tenon.filter_text(value)::jsonpath;
BEGIN
    IF coalesce(jsonb_typeof(jsonb_path_query_first('{}', path, '{}', true)), '') NOT IN ('boolean', 'null') THEN
        RAISE data_exception;
    END IF;
    RETURN path;
END $$;

CREATE FUNCTION tenon.filter_ids(value jsonb) RETURNS bigint[]
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    ids bigint[] := (SELECT array_agg(e::text::bigint)
                       FROM jsonb_array_elements(CASE jsonb_typeof(value) WHEN 'array' THEN value
                                                                          ELSE jsonb_build_array(value) END) e);
BEGIN
    IF ids IS NULL OR cardinality(ids) > 100000 THEN
        RAISE data_exception;
    END IF;
    RETURN ids;
END $$;

-- The states that an act may change; NULL: of a list, any.
CREATE FUNCTION tenon.act_states(act text) RETURNS text[]
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE act WHEN 'retry' THEN '{dead,cancelled,expired}'::text[]
                    WHEN 'delete' THEN '{dead,done,cancelled,expired}'
                    WHEN 'cancel' THEN '{blocked,scheduled,ready,running,retrying}'
                    WHEN 'run_now' THEN '{scheduled,retrying}'
                    WHEN 'set' THEN '{blocked,scheduled,ready,retrying}' END
$$;

-- One key of a filter. What it cannot read raises something of class 22 or 42.
CREATE FUNCTION tenon.filter_with(f tenon.filter, key text, value jsonb) RETURNS tenon.filter
LANGUAGE plpgsql STABLE AS $$
BEGIN
    CASE key
        WHEN 'state' THEN f.states := tenon.filter_texts(value);
        WHEN 'queue' THEN f.queues := tenon.filter_texts(value);
        WHEN 'kind' THEN f.kinds := tenon.filter_texts(value);
        WHEN 'error' THEN f.errors := tenon.filter_texts(value);
        WHEN 'older_than' THEN f.before := clock_timestamp() - tenon.seconds(tenon.filter_text(value)::interval);
        WHEN 'unique_key' THEN f.unique_key := tenon.filter_text(value);
        WHEN 'payload' THEN f.payload := tenon.filter_path(value);
        WHEN 'ids' THEN f.ids := tenon.filter_ids(value);
        WHEN 'trace' THEN f.trace := tenon.filter_text(value);
        WHEN 'enqueued_by' THEN f.enqueued_by := tenon.filter_text(value);
        WHEN 'flow' THEN f.flow := coalesce(value #>> '{}', '')::bigint;  -- NULL would be any
        WHEN 'limit_key' THEN f.limit_key := tenon.filter_text(value);
    END CASE;
    RETURN f;
END $$;

-- Which states it is about. Without a word on it, retry and delete mean what is dead, but of tasks that are given by
-- their ids whatever they can change; and a list by a key of limits those that have not ended, which stand in its line.
CREATE FUNCTION tenon.filter_states(f tenon.filter, act text) RETURNS text[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    may text[] := coalesce(tenon.act_states(act), '{blocked,scheduled,ready,running,retrying,done,cancelled,expired,dead}');
BEGIN
    IF act IS NOT NULL AND tenon.act_states(act) IS NULL THEN
        PERFORM tenon.check_act(act, NULL);
    ELSIF NOT f.states <@ may THEN
        PERFORM tenon.refuse('state', array_to_string(f.states, ', '),
                             array_to_string(may, ', ') || coalesce(' for ' || act, ''));
    END IF;
    RETURN CASE WHEN f.states IS NOT NULL THEN f.states
                WHEN f.ids IS NULL AND act IN ('retry', 'delete') THEN '{dead}'
                WHEN act IS NOT NULL THEN may
                WHEN f.limit_key IS NOT NULL AND f.ids IS NULL THEN tenon.act_states('cancel') END;
END $$;

CREATE FUNCTION tenon.read_filter(filter jsonb, act text) RETURNS tenon.filter
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f       tenon.filter;
    k       text;
    v       jsonb;
    allowed text;
BEGIN
    IF coalesce(jsonb_typeof(filter), '') <> 'object' THEN
        PERFORM tenon.refuse('filter', filter::text, 'a JSON object, such as {"state": "dead", "kind": "mail"}');
    ELSIF octet_length((filter - 'ids')::text) > 65536 THEN
        PERFORM tenon.refuse('filter', format('of %s bytes', octet_length((filter - 'ids')::text)), 'at most 65536 bytes long as text, without its ids');
    ELSIF filter = '{}' AND act IS NOT NULL THEN
        PERFORM tenon.refuse('filter', '{}', 'an object with at least one key for ' || act || '; {"state": "dead"} is all that is dead');
    END IF;
    FOR k, v IN SELECT e.key, e.value FROM jsonb_each(filter) e LOOP
        allowed := (SELECT a.allowed FROM tenon.filter_keys() a WHERE a.key = k);
        IF allowed IS NULL THEN
            PERFORM tenon.refuse('filter key', quote_literal(k), 'one of ' || (SELECT string_agg(a.key, ', ') FROM tenon.filter_keys() a));
        END IF;
        BEGIN
            f := tenon.filter_with(f, k, v);
        EXCEPTION WHEN data_exception OR syntax_error_or_access_rule_violation THEN
            PERFORM tenon.refuse(k, v::text, allowed);
        END;
    END LOOP;
    f.states := tenon.filter_states(f, act);
    RETURN f;
END $$;

-- --- finding ---

-- What a filter asks about. All columns come from the tables as they are, and have one type in all three (a domain is
-- another), so that the rows can be read in the order of ids; `since`: when it was enqueued or, if it has ended, ended.
CREATE VIEW tenon.anywhere AS
    SELECT 'task' AS place, id, NULL AS ended, start_time, run_at, failures + crashes AS failed, created_at AS since,
           queue, kind, unique_key, trace, error_class, enqueued_by, payload, start_before, wanted_at, limit_keys
      FROM tenon.task
    UNION ALL
    SELECT 'finished', id, outcome::text, start_time, run_at, failures + crashes, finished_at,
           queue, kind, unique_key, trace, NULL, enqueued_by, payload, NULL, NULL, limit_keys
      FROM tenon.finished
    UNION ALL
    SELECT 'dead', id, 'dead', start_time, run_at, failures + crashes, dead_at,
           queue, kind, unique_key, trace, error_class, enqueued_by, payload, NULL, NULL, limit_keys
      FROM tenon.dead;

COMMENT ON VIEW tenon.anywhere IS 'Every task there is, as the filters of operators read it; `tenon.tasks` is for all others.';
COMMENT ON COLUMN tenon.anywhere.place IS '`task`, `finished` or `dead`: the table.';
COMMENT ON COLUMN tenon.anywhere.ended IS 'The state of one that has ended; NULL before.';
COMMENT ON COLUMN tenon.anywhere.failed IS 'Failures and crashes.';
COMMENT ON COLUMN tenon.anywhere.since IS 'When it was enqueued or, if it has ended, ended.';
DO $$
DECLARE
    c record;
BEGIN
    FOR c IN SELECT o.attname, col_description(t.attrelid, t.attnum) AS text
               FROM pg_attribute o JOIN pg_attribute t USING (attname)
              WHERE o.attrelid = 'tenon.anywhere'::regclass AND t.attrelid = 'tenon.task'::regclass AND t.attnum > 0 LOOP
        EXECUTE format('COMMENT ON COLUMN tenon.anywhere.%I IS %L', c.attname, c.text);
    END LOOP;
END $$;

-- Where tasks of these states stand.
CREATE FUNCTION tenon.places(states text[]) RETURNS text[]
LANGUAGE sql IMMUTABLE AS $$
    SELECT ARRAY(SELECT p FROM (VALUES ('task', '{blocked,scheduled,ready,running,retrying,expired}'::text[]),
                                       ('finished', '{done,cancelled,expired}'), ('dead', '{dead}')) v (p, s)
                  WHERE states IS NULL OR s && states)
$$;

-- The ids that were given; the next `most` of a flow, or of the unfinished tasks that may have a key of limits, in its line or
-- before it, as they wait for parents or a signal; NULL: no index tells.
CREATE FUNCTION tenon.candidates(f tenon.filter, places text[], newest boolean, after bigint, most integer) RETURNS bigint[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off SET plan_cache_mode = force_custom_plan AS $$
BEGIN
    IF f.ids IS NOT NULL THEN
        RETURN CASE WHEN f.flow IS NULL THEN f.ids
                    ELSE ARRAY(SELECT m.id FROM tenon.flow_task m WHERE m.id = ANY (f.ids) AND m.flow = f.flow) END;
    ELSIF f.flow IS NOT NULL THEN
        RETURN ARRAY(SELECT m.id FROM (SELECT x.id FROM tenon.flow_task x
                                        WHERE x.flow = f.flow AND CASE WHEN newest THEN x.id < after ELSE x.id > after END OFFSET 0) m
                      ORDER BY CASE WHEN newest THEN -m.id ELSE m.id END LIMIT most);
    ELSIF f.limit_key IS NULL OR places <> '{task}' THEN
        RETURN NULL;
    ELSIF newest THEN
        RETURN ARRAY(SELECT c.id FROM (
            (SELECT l.task_id AS id FROM tenon.limit_task l WHERE l.key = f.limit_key AND l.task_id < after ORDER BY 1 DESC LIMIT most)
            UNION (SELECT DISTINCT w.task FROM tenon.flow_wait w WHERE w.task < after ORDER BY 1 DESC LIMIT most)
            UNION (SELECT w.task_id FROM tenon.waiting w WHERE w.task_id < after ORDER BY 1 DESC LIMIT most)) c
            ORDER BY c.id DESC LIMIT most);
    END IF;
    RETURN ARRAY(SELECT c.id FROM (
        (SELECT l.task_id AS id FROM tenon.limit_task l WHERE l.key = f.limit_key AND l.task_id > after ORDER BY 1 LIMIT most)
        UNION (SELECT DISTINCT w.task FROM tenon.flow_wait w WHERE w.task > after ORDER BY 1 LIMIT most)
        UNION (SELECT w.task_id FROM tenon.waiting w WHERE w.task_id > after ORDER BY 1 LIMIT most)) c
        ORDER BY c.id LIMIT most);
END $$;

-- The ids of up to `most` tasks, from behind the id `after` on: the newest first for lists, else the oldest. It reads in
-- pieces, in the order of ids, and stops with the piece after which `limit_ms` milliseconds have passed (NULL: never); pieces grow
-- in the first quarter of that time only. `next`: where to go on; NULL: that was all. With each call's own plan, in which what was not asked for is left out.
CREATE FUNCTION tenon.search(f tenon.filter, newest boolean, after bigint, most integer, limit_ms integer,
    OUT ids bigint[], OUT next bigint)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off SET plan_cache_mode = force_custom_plan AS $$
DECLARE
    places text[] := tenon.places(f.states);
    moment timestamptz := clock_timestamp();
    piece  integer := CASE WHEN limit_ms < 100 THEN 100 ELSE 1000 END;
    given  bigint[];
    fits   bigint[];
    n      bigint;
BEGIN
    IF f.unique_key IS NOT NULL AND f.ids IS NULL AND places = '{task}' THEN  -- by its index
        f.ids := ARRAY(SELECT t.id FROM tenon.task t WHERE t.unique_key = f.unique_key);
    END IF;
    ids := '{}';
    next := coalesce(after, CASE WHEN newest THEN 9223372036854775807 ELSE 0 END);
    LOOP
        given := tenon.candidates(f, places, newest, next, piece);
        SELECT coalesce(array_agg(c.id ORDER BY CASE WHEN newest THEN -c.id ELSE c.id END) FILTER (WHERE
                   (f.states IS NULL OR CASE WHEN c.ended IS NOT NULL THEN c.ended
                                             WHEN c.start_time IS NOT NULL THEN 'running'
                                             WHEN c.start_before <= moment THEN 'expired'
                                             WHEN c.run_at = 'infinity' THEN 'blocked'
                                             WHEN c.run_at <= moment THEN 'ready'
                                             WHEN c.failed > 0 THEN 'retrying' ELSE 'scheduled' END = ANY (f.states))
                   AND (f.queues IS NULL OR c.queue = ANY (f.queues))
                   AND (f.kinds IS NULL OR c.kind = ANY (f.kinds))
                   AND (f.before IS NULL OR c.since < f.before)
                   AND (f.unique_key IS NULL OR c.unique_key = f.unique_key)
                   AND (f.trace IS NULL OR c.trace = f.trace)
                   AND (f.enqueued_by IS NULL OR c.enqueued_by = f.enqueued_by)
                   AND (f.errors IS NULL OR c.error_class = ANY (f.errors))
                   AND (f.limit_key IS NULL OR f.limit_key = ANY (c.limit_keys))
                   AND (f.payload IS NULL OR c.payload @@ f.payload)), '{}'),
               count(*), coalesce(CASE WHEN newest THEN min(c.id) ELSE max(c.id) END, next)
          INTO fits, n, next
          FROM ((SELECT * FROM tenon.anywhere a
                  WHERE newest AND given IS NULL AND a.id < next AND a.place = ANY (places) ORDER BY a.id DESC LIMIT piece)
                UNION ALL
                (SELECT * FROM tenon.anywhere a
                  WHERE NOT newest AND given IS NULL AND a.id > next AND a.place = ANY (places) ORDER BY a.id LIMIT piece)
                UNION ALL
                (SELECT * FROM tenon.anywhere a
                  WHERE given IS NOT NULL AND a.id = ANY (given) AND a.place = ANY (places)
                    AND (newest AND a.id < next OR NOT newest AND a.id > next))) c;
        n := CASE WHEN f.ids IS NULL THEN coalesce(cardinality(given), n) ELSE 0 END;
        next := coalesce(given[n], next);
        IF cardinality(ids) + cardinality(fits) > most THEN
            ids := ids || fits[1:most - cardinality(ids)];
            next := ids[most];
            RETURN;
        END IF;
        ids := ids || fits;
        next := CASE WHEN n = piece THEN next END;
        EXIT WHEN next IS NULL OR cardinality(ids) = most OR clock_timestamp() >= moment + limit_ms * interval '1 ms';
        IF coalesce(clock_timestamp() < moment + limit_ms * interval '0.25 ms', true) THEN
            piece := least(piece * 2, 20000);
        END IF;
    END LOOP;
END $$;

CREATE FUNCTION tenon.check_most(most integer) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF coalesce(most, 0) NOT BETWEEN 1 AND 100000 THEN
        PERFORM tenon.refuse('most', most::text, '1 to 100000');
    END IF;
END $$;

CREATE FUNCTION tenon.find(filter jsonb, act text DEFAULT NULL, after bigint DEFAULT NULL, most integer DEFAULT 100,
    limit_ms integer DEFAULT NULL, OUT ids bigint[], OUT next bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM tenon.check_most(most);
    SELECT s.ids, s.next INTO ids, next
      FROM tenon.search(tenon.read_filter(filter, act), act IS NULL, after, most, limit_ms) s;
END $$;

CREATE FUNCTION tenon.list(filter jsonb DEFAULT '{}', after bigint DEFAULT NULL, most integer DEFAULT 100) RETURNS SETOF tenon.tasks
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    found_ids bigint[] := (SELECT f.ids FROM tenon.find(filter, NULL, after, most) f);
BEGIN
    RETURN QUERY SELECT t.*
      FROM unnest(found_ids) WITH ORDINALITY i (id, place)
     CROSS JOIN LATERAL (SELECT * FROM tenon.tasks a WHERE a.id = i.id LIMIT 1) t  -- by the index
     ORDER BY i.place;
END $$;

CREATE FUNCTION tenon.count_tasks(filter jsonb DEFAULT '{}', most integer DEFAULT 10000, OUT n bigint, OUT at_least boolean)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT cardinality(f.ids), f.next IS NOT NULL FROM tenon.find(filter, NULL, NULL, most, 500) f
$$;

-- --- changing many tasks ---

-- Those of the ids that nobody else has locked, locked in their order until the transaction ends. Workers skip them.
CREATE FUNCTION tenon.lock_found(act text, ids bigint[]) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF act IN ('retry', 'delete') THEN
        RETURN ARRAY(SELECT l.id FROM (SELECT d.id FROM tenon.dead d WHERE d.id = ANY (ids) ORDER BY d.id FOR UPDATE SKIP LOCKED) l)
            || ARRAY(SELECT l.id FROM (SELECT e.id FROM tenon.finished e WHERE e.id = ANY (ids) ORDER BY e.id FOR UPDATE SKIP LOCKED) l);
    END IF;
    RETURN ARRAY(SELECT l.id FROM (SELECT t.id FROM tenon.task t WHERE t.id = ANY (ids) ORDER BY t.id FOR UPDATE SKIP LOCKED) l);
END $$;

-- Workers that serve one of these poll, if it is ready now: a task starts within milliseconds. Many words make one that
-- means anything.
CREATE FUNCTION tenon.wake(ids bigint[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    words text;
BEGIN
    SELECT string_agg(DISTINCT t.queue || '/' || t.kind, ' ') INTO words
      FROM tenon.task t WHERE t.id = ANY (ids) AND t.start_time IS NULL AND t.run_at <= clock_timestamp();
    IF words IS NOT NULL THEN
        PERFORM pg_notify('tenon_wakeup', CASE WHEN length(words) < 7000 THEN words ELSE '' END);
    END IF;
END $$;

-- Ended tasks are unfinished again, ready, under their ids, with all that they were enqueued with and had said, and all attempts before them;
-- claims never go down. One
-- whose unique key another task has taken meanwhile, or whose flow was cancelled, stays as it is. Keys are taken in the order in
-- which tenon.enqueue_many takes them. `delayed`: if the NOTIFY is lost, the cleaner finds them by run_at.
CREATE FUNCTION tenon.retry_ids(ids bigint[]) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    again   bigint[];
    limited bigint[];
BEGIN
    ids := tenon.may_retry(ids);
    WITH ended AS (
        SELECT d.id, d.created_at, d.timeout_ms, d.claims, d.max_attempts, d.priority, d.queue, d.kind, d.payload,
               d.unique_key, d.retry, d.trace, d.last_error, d.error_class, d.enqueued_by, d.compensates, d.limit_keys, d.steps,
               d.progress, d.max_crashes
          FROM tenon.dead d WHERE d.id = ANY (ids)
        UNION ALL
        SELECT e.id, e.created_at, e.timeout_ms, e.claims, e.max_attempts, e.priority, e.queue, e.kind, e.payload,
               e.unique_key, e.retry, e.trace, e.last_error, NULL, e.enqueued_by, NULL, e.limit_keys, e.steps, e.progress, e.max_crashes
          FROM tenon.finished e
         WHERE e.id = ANY (ids) AND e.outcome IN ('cancelled', 'expired')
           AND NOT EXISTS (SELECT FROM tenon.limit_task l  -- its handler may still run, and counts at its limits
                            WHERE l.key = ANY (e.limit_keys) AND l.task_id = e.id
                              AND (l.state = 'ending' OR l.state = 'held' AND e.start_time IS NOT NULL))
    ), new AS (
        INSERT INTO tenon.task (id, run_at, created_at, timeout_ms, claims, max_attempts, payload_bytes, priority,
                                delayed, announced, queue, kind, payload, unique_key, retry, trace, last_error, error_class, enqueued_by,
                                compensates, flow, limit_keys, wanted_at, steps, progress, max_crashes)
        OVERRIDING SYSTEM VALUE
        SELECT e.id, CASE WHEN e.limit_keys IS NULL THEN clock_timestamp() ELSE 'infinity' END, e.created_at, e.timeout_ms, e.claims,
               e.max_attempts, octet_length(e.payload::text) + coalesce(octet_length(e.steps::text), 0), e.priority, e.limit_keys IS NULL, false, e.queue, e.kind, e.payload,
               e.unique_key, e.retry, e.trace, e.last_error, e.error_class, e.enqueued_by, e.compensates, m.flow, e.limit_keys,
               CASE WHEN e.limit_keys IS NOT NULL THEN clock_timestamp() END, e.steps, e.progress, e.max_crashes
          FROM ended e LEFT JOIN tenon.flow_task m ON m.id = e.id ORDER BY e.unique_key COLLATE "C", e.kind COLLATE "C", e.id
        ON CONFLICT DO NOTHING
        RETURNING task.id, task.flow, task.limit_keys), noted AS (
        INSERT INTO tenon.flow_note (flow, task) SELECT new.flow, new.id FROM new WHERE new.flow IS NOT NULL)
    SELECT array_agg(new.id), array_agg(new.id) FILTER (WHERE new.limit_keys IS NOT NULL) INTO again, limited FROM new;
    IF limited IS NOT NULL THEN
        PERFORM tenon.queue_limits(limited);
        PERFORM pg_notify('tenon', 'settle');
    END IF;
    DELETE FROM tenon.dead d WHERE d.id = ANY (again);
    DELETE FROM tenon.finished e WHERE e.id = ANY (again) AND e.outcome IN ('cancelled', 'expired');
    RETURN again;
END $$;

-- A task of a flow stays until tenon.settle() has seen how it ended: what waits for it would take it for done.
CREATE FUNCTION tenon.delete_ids(ids bigint[]) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    seen bigint[] := ARRAY(SELECT i FROM unnest(ids) i
                            WHERE NOT EXISTS (SELECT FROM tenon.flow_task m WHERE m.id = i AND m.state IS NULL)
                              AND NOT EXISTS (SELECT FROM tenon.flow_note n WHERE n.task = i));
    gone bigint[];
BEGIN
    WITH dead AS (DELETE FROM tenon.dead d WHERE d.id = ANY (seen) RETURNING d.id),
         ended AS (DELETE FROM tenon.finished e WHERE e.id = ANY (seen) RETURNING e.id)
    SELECT array_agg(g.id) INTO gone FROM (SELECT id FROM dead UNION ALL SELECT id FROM ended) g;
    RETURN gone;
END $$;

CREATE FUNCTION tenon.cancel_ids(ids bigint[]) RETURNS bigint[]
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT array_agg(i) FILTER (WHERE tenon.cancel_one(i) IS NOT NULL) FROM unnest(ids) i
$$;

-- A suspect that its limits have released is still blocked: its run_at stays, and suspect.due_at is set instead.
CREATE FUNCTION tenon.set_ids(ids bigint[], priority smallint, run_at timestamptz, max_crashes integer) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    changed bigint[];
    limited boolean;
BEGIN
    WITH new AS (
        UPDATE tenon.task t
           SET priority = coalesce(priority, t.priority),
               max_crashes = coalesce(max_crashes, t.max_crashes),
               run_at = CASE WHEN t.run_at = 'infinity' THEN t.run_at
                             WHEN t.limit_keys IS NOT NULL AND run_at > clock_timestamp() THEN 'infinity'  -- others go first
                             ELSE coalesce(run_at, t.run_at) END,
               wanted_at = CASE WHEN t.wanted_at = 'infinity' THEN t.wanted_at  -- it waits for a signal
                                WHEN t.wanted_at IS NOT NULL THEN coalesce(run_at, t.wanted_at)
                                WHEN t.limit_keys IS NOT NULL AND run_at > clock_timestamp() THEN run_at END,
               delayed = t.run_at < 'infinity' AND (t.delayed OR run_at IS NOT NULL)
                         AND NOT (t.limit_keys IS NOT NULL AND coalesce(run_at > clock_timestamp(), false))
         WHERE t.id = ANY (ids) AND t.start_time IS NULL RETURNING t.id, t.limit_keys)
    SELECT array_agg(new.id), bool_or(new.limit_keys IS NOT NULL) INTO changed, limited FROM new;
    UPDATE tenon.suspect s SET due_at = run_at WHERE s.task_id = ANY (changed) AND s.due_at IS NOT NULL AND run_at IS NOT NULL;
    IF limited THEN
        PERFORM tenon.limited_changed(changed);
        PERFORM pg_notify('tenon', 'settle');
    END IF;
    RETURN changed;
END $$;

-- An object that has only these keys.
CREATE FUNCTION tenon.check_changes(changes jsonb, keys text[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF coalesce(jsonb_typeof(changes), '') <> 'object' OR changes = '{}'
       OR NOT ARRAY(SELECT jsonb_object_keys(changes)) <@ keys THEN
        PERFORM tenon.refuse('changes', changes::text, 'an object with at least one of ' || array_to_string(keys, ', '));
    END IF;
    PERFORM tenon.check_length('changes', changes::text, 4096);
END $$;

-- A value among changes as a type of its own, or what is allowed.
CREATE FUNCTION tenon.changed_integer(changes jsonb, key text, lowest integer, highest integer) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF (changes ->> key) !~ '^-?[0-9]{1,9}$' OR (changes ->> key)::integer NOT BETWEEN lowest AND highest THEN
        PERFORM tenon.refuse(key, changes ->> key, format('%s to %s', lowest, highest));
    END IF;
    RETURN (changes ->> key)::integer;
END $$;

CREATE FUNCTION tenon.changed_run_at(changes jsonb) RETURNS timestamptz
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    run_at timestamptz;
BEGIN
    BEGIN
        run_at := changes ->> 'run_at';
    EXCEPTION WHEN data_exception THEN
        run_at := 'infinity';
    END;
    IF NOT isfinite(run_at) OR run_at > clock_timestamp() + interval '10 years' THEN
        PERFORM tenon.refuse('run_at', changes ->> 'run_at', 'a moment at most 10 years ahead');
    END IF;
    RETURN greatest(run_at, CASE WHEN run_at IS NOT NULL THEN clock_timestamp() END);
END $$;

CREATE FUNCTION tenon.check_act(act text, changes jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF tenon.act_states(act) IS NULL THEN
        PERFORM tenon.refuse('act', quote_literal(act), 'retry, cancel, delete, run_now or set');
    ELSIF act = 'set' THEN
        PERFORM tenon.check_changes(changes, '{priority,run_at,max_crashes}');
    ELSIF changes IS NOT NULL THEN
        PERFORM tenon.refuse('changes', changes::text, 'for set');
    END IF;
END $$;

-- What one call did, into the audit's row of an act that goes on, or a new one.
CREATE FUNCTION tenon.note_change(audit bigint, act text, what jsonb, n bigint, skipped bigint) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
    IF n + skipped = 0 THEN
        RETURN audit;
    ELSIF audit IS NULL THEN
        RETURN tenon.note_audit(act, what, n, skipped);
    END IF;
    UPDATE tenon.audit a SET n = a.n + n, skipped = a.skipped + skipped
     WHERE a.id = audit AND a.who = session_user AND a.act = act;
    IF NOT FOUND THEN
        PERFORM tenon.refuse('audit', audit::text, format('the number of a %s of role %s', act, session_user));
    END IF;
    RETURN audit;
END $$;

CREATE FUNCTION tenon.change(act text, filter jsonb, changes jsonb DEFAULT NULL, most integer DEFAULT 1000,
    after bigint DEFAULT NULL, why text DEFAULT NULL, audit bigint DEFAULT NULL, limit_ms integer DEFAULT NULL,
    OUT n bigint, OUT skipped bigint, OUT next bigint, OUT audit_id bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off SET plan_cache_mode = force_custom_plan AS $$
DECLARE
    f        tenon.filter;
    wanted   bigint[];
    done     bigint[];
    priority smallint;
    run_at   timestamptz;
BEGIN
    PERFORM tenon.check_most(most);
    PERFORM tenon.check_act(act, changes);
    PERFORM tenon.check_length('why', why, 1000);
    f := tenon.read_filter(filter, act);
    priority := tenon.changed_integer(changes, 'priority', 0, 9);
    run_at := CASE act WHEN 'run_now' THEN clock_timestamp() ELSE tenon.changed_run_at(changes) END;
    SELECT s.ids, s.next INTO wanted, next FROM tenon.search(f, false, after, most, limit_ms) s;
    f.ids := tenon.lock_found(act, wanted);
    SELECT s.ids INTO f.ids FROM tenon.search(f, false, NULL, most, NULL) s;  -- as they are now that they are locked
    IF act = 'retry' AND filter ? 'ids' AND tenon.may_retry(f.ids) = '{}' THEN
        PERFORM tenon.check_retry(f.ids);
    END IF;
    done := CASE act WHEN 'retry' THEN tenon.retry_ids(f.ids)
                     WHEN 'cancel' THEN tenon.cancel_ids(f.ids)
                     WHEN 'delete' THEN tenon.delete_ids(f.ids)
                     ELSE tenon.set_ids(f.ids, priority, run_at, tenon.changed_integer(changes, 'max_crashes', 2, 100)) END;
    PERFORM tenon.wake(done);
    n := coalesce(cardinality(done), 0);
    skipped := cardinality(wanted) - n;
    audit_id := tenon.note_change(audit, act, jsonb_build_object('filter', filter, 'changes', changes, 'why', why), n, skipped);
END $$;

-- Plain SQL: it becomes a call of tenon.change when PostgreSQL plans the statement.
CREATE FUNCTION tenon.retry(filter jsonb, most integer DEFAULT 10000, why text DEFAULT NULL) RETURNS bigint
LANGUAGE sql AS $$ SELECT c.n FROM tenon.change('retry', filter, most => most, why => why) c $$;

CREATE FUNCTION tenon.cancel_all(filter jsonb, most integer DEFAULT 10000, why text DEFAULT NULL) RETURNS bigint
LANGUAGE sql AS $$ SELECT c.n FROM tenon.change('cancel', filter, most => most, why => why) c $$;

CREATE FUNCTION tenon.delete(filter jsonb, most integer DEFAULT 10000, why text DEFAULT NULL) RETURNS bigint
LANGUAGE sql AS $$ SELECT c.n FROM tenon.change('delete', filter, most => most, why => why) c $$;

CREATE FUNCTION tenon.run_now(filter jsonb, most integer DEFAULT 10000, why text DEFAULT NULL) RETURNS bigint
LANGUAGE sql AS $$ SELECT c.n FROM tenon.change('run_now', filter, most => most, why => why) c $$;

CREATE FUNCTION tenon.set(filter jsonb, changes jsonb, most integer DEFAULT 10000, why text DEFAULT NULL) RETURNS bigint
LANGUAGE sql AS $$ SELECT c.n FROM tenon.change('set', filter, changes, most => most, why => why) c $$;

-- --- pausing ---

-- What to pause or resume: a queue, a kind, or everything; and names that are such.
CREATE FUNCTION tenon.check_target(queue text, kind text, everything boolean) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF num_nonnulls(queue, kind) + coalesce(everything, false)::integer <> 1 THEN
        PERFORM tenon.refuse('the target', concat_ws(' and ', queue, kind, CASE WHEN everything THEN 'everything' END),
                             'one queue, one kind, or everything => true');
    END IF;
    PERFORM tenon.check_enqueue(coalesce(kind, 'a'), queue, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
    PERFORM tenon.settings();
END $$;

-- Workers hear of kinds and of everything by this NOTIFY. Of queues their next claim knows; when one is resumed they
-- poll.
CREATE FUNCTION tenon.tell_paused(queue text, paused boolean) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF queue IS NULL THEN
        PERFORM pg_notify('tenon_wakeup', 'pause');
    ELSIF NOT paused THEN
        PERFORM pg_notify('tenon_wakeup', '');
    END IF;
END $$;

CREATE FUNCTION tenon.pause(queue text DEFAULT NULL, kind text DEFAULT NULL, everything boolean DEFAULT false,
    why text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    at timestamptz := clock_timestamp();
BEGIN
    PERFORM tenon.check_target(queue, kind, everything);
    PERFORM tenon.check_length('why', why, 1000);
    IF queue IS NOT NULL THEN
        INSERT INTO tenon.queue AS q (name, paused, paused_by, paused_at, paused_why)
        VALUES (queue, true, session_user, at, why)
        ON CONFLICT (name) DO UPDATE SET paused = true, paused_by = session_user, paused_at = at, paused_why = why;
    ELSIF kind IS NOT NULL THEN
        INSERT INTO tenon.kind AS k (name, paused, paused_by, paused_at, paused_why)
        VALUES (kind, true, session_user, at, why)
        ON CONFLICT (name) DO UPDATE SET paused = true, paused_by = session_user, paused_at = at, paused_why = why;
    ELSE
        UPDATE tenon.setting SET paused = true, paused_by = session_user, paused_at = at, paused_why = why;
    END IF;
    PERFORM tenon.tell_paused(queue, true);
    PERFORM tenon.note_audit('pause', jsonb_build_object('queue', queue, 'kind', kind, 'why', why,
                                                         'everything', NULLIF(everything, false)), 1);
END $$;

CREATE FUNCTION tenon.resume(queue text DEFAULT NULL, kind text DEFAULT NULL, everything boolean DEFAULT false,
    why text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    n integer;
BEGIN
    PERFORM tenon.check_target(queue, kind, everything);
    PERFORM tenon.check_length('why', why, 1000);
    IF queue IS NOT NULL THEN
        UPDATE tenon.queue q SET paused = false, paused_by = NULL, paused_at = NULL, paused_why = NULL
         WHERE q.name = queue AND q.paused;
    ELSIF kind IS NOT NULL THEN
        UPDATE tenon.kind k SET paused = false, paused_by = NULL, paused_at = NULL, paused_why = NULL
         WHERE k.name = kind AND k.paused;
    ELSE
        UPDATE tenon.setting s SET paused = false, paused_by = NULL, paused_at = NULL, paused_why = NULL WHERE s.paused;
    END IF;
    GET DIAGNOSTICS n = ROW_COUNT;
    IF n > 0 THEN
        DELETE FROM tenon.queue q  -- which says nothing else: not set up, but paused, perhaps a name that was mistyped
         WHERE q.name = queue AND jsonb_strip_nulls(to_jsonb(q)) = jsonb_build_object('name', queue, 'limited', false, 'paused', false);
        PERFORM tenon.tell_paused(queue, false);
        PERFORM tenon.note_audit('resume', jsonb_build_object('queue', queue, 'kind', kind, 'why', why,
                                                              'everything', NULLIF(everything, false)), 1);
    END IF;
    RETURN n > 0;
END $$;

-- Which of these kinds are paused: "a,b"; "*" = everything is, or may be, because the settings are missing; NULL = none. Plain
-- SQL, so that it is inlined into the statements of a worker's presence.
CREATE FUNCTION tenon.paused_kinds(kinds text[]) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN coalesce((SELECT s.paused FROM tenon.setting s), true) THEN '*'
                ELSE (SELECT string_agg(k.name, ',') FROM tenon.kind k WHERE k.paused AND k.name = ANY ($1)) END
$$;

-- What is paused.
CREATE VIEW tenon.paused AS
    SELECT p.*, concat(CASE p.what WHEN 'everything' THEN 'everything' ELSE 'the ' || p.what || ' ' || p.name END, ' is paused', ' by ' || p.paused_by,
                       to_char(p.paused_at AT TIME ZONE 'UTC', '" since "YYYY-MM-DD HH24:MI:SS "UTC"'), ': ' || p.paused_why) AS sentence,
           'tenon resume ' || CASE p.what WHEN 'everything' THEN '--all' WHEN 'kind' THEN '--kind ' || p.name ELSE p.name END AS advice
      FROM (SELECT 'everything' AS what, NULL AS name, paused_by, paused_at, paused_why FROM tenon.setting WHERE paused
            UNION ALL
            SELECT 'queue', name, paused_by, paused_at, paused_why FROM tenon.queue WHERE paused
            UNION ALL
            SELECT 'kind', name, paused_by, paused_at, paused_why FROM tenon.kind WHERE paused) p;
COMMENT ON VIEW tenon.paused IS 'What is paused, by whom, since when and why.';
COMMENT ON COLUMN tenon.paused.what IS '`everything`, `queue` or `kind`.';
COMMENT ON COLUMN tenon.paused.name IS 'Which queue or kind.';
COMMENT ON COLUMN tenon.paused.paused_by IS 'The role that paused it; NULL = it was not `tenon.pause`.';
COMMENT ON COLUMN tenon.paused.paused_at IS 'When that was.';
COMMENT ON COLUMN tenon.paused.paused_why IS 'And why, as that role said.';
COMMENT ON COLUMN tenon.paused.sentence IS 'The row as a sentence.';
COMMENT ON COLUMN tenon.paused.advice IS 'The command that ends it.';

-- --- defaults of queues and kinds ---

CREATE FUNCTION tenon.changed_ms(changes jsonb, key text) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ms numeric;
BEGIN
    BEGIN
        ms := extract(epoch FROM (changes ->> key)::interval) * 1000;
    EXCEPTION WHEN data_exception THEN
        ms := 0;
    END;
    IF ms NOT BETWEEN 1 AND 2592000000 THEN
        PERFORM tenon.refuse(key, changes ->> key, '1 millisecond to 30 days');
    END IF;
    RETURN ms::bigint;
END $$;

-- The new value of a column: what is among the changes, where null means none, else the old one.
CREATE FUNCTION tenon.or_old(changes jsonb, key text, new bigint, old bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$ SELECT CASE WHEN changes ? key THEN new ELSE old END $$;

CREATE FUNCTION tenon.set_queue(name text, changes jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    priority integer;
    attempts integer;
    ms       bigint;
BEGIN
    PERFORM tenon.check_target(coalesce(name, ''), NULL, false);
    PERFORM tenon.check_changes(changes, '{priority,max_attempts,timeout,retry}');
    PERFORM tenon.check_enqueue('a', NULL, NULL, NULL, NULL, NULL, NULL, NULL, changes ->> 'retry', NULL);
    priority := tenon.changed_integer(changes, 'priority', 0, 9);
    attempts := tenon.changed_integer(changes, 'max_attempts', 1, 1000);
    ms := tenon.changed_ms(changes, 'timeout');
    INSERT INTO tenon.queue AS q (name, priority, max_attempts, timeout_ms, retry)
    VALUES (name, priority, attempts, ms, changes ->> 'retry')
    ON CONFLICT ON CONSTRAINT queue_pkey DO UPDATE
       SET priority = tenon.or_old(changes, 'priority', priority, q.priority),
           max_attempts = tenon.or_old(changes, 'max_attempts', attempts, q.max_attempts),
           timeout_ms = tenon.or_old(changes, 'timeout', ms, q.timeout_ms),
           retry = CASE WHEN changes ? 'retry' THEN changes ->> 'retry' ELSE q.retry END;
    PERFORM tenon.note_audit('set_queue', jsonb_build_object('queue', name, 'changes', changes), 1);
END $$;

CREATE FUNCTION tenon.set_kind(name text, changes jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    priority integer;
    attempts integer;
    ms       bigint;
    least_ms bigint;
    crashes  integer;
    outcome  text := changes ->> 'on_timeout';
BEGIN
    PERFORM tenon.check_target(NULL, coalesce(name, ''), false);
    PERFORM tenon.check_changes(changes, '{queue,priority,max_attempts,max_crashes,timeout,timeout_min,on_timeout,retry,on_dead}');
    PERFORM tenon.check_enqueue(name, changes ->> 'queue', NULL, NULL, NULL, NULL, NULL, NULL, changes ->> 'retry', NULL);
    priority := tenon.changed_integer(changes, 'priority', 0, 9);
    attempts := tenon.changed_integer(changes, 'max_attempts', 1, 1000);
    crashes := tenon.changed_integer(changes, 'max_crashes', 2, 100);
    ms := tenon.changed_ms(changes, 'timeout');
    least_ms := coalesce(tenon.changed_ms(changes, 'timeout_min'), 1);
    IF outcome NOT IN ('retry', 'dead') THEN
        PERFORM tenon.refuse('on_timeout', quote_literal(outcome), 'retry or dead');
    END IF;
    IF NOT tenon.is_kind(changes ->> 'on_dead') THEN
        PERFORM tenon.refuse('on_dead', quote_literal(changes ->> 'on_dead'), 'a kind: 1 to 100 of A-Z a-z 0-9 _ . : -');
    END IF;
    INSERT INTO tenon.kind AS k (name, queue, priority, max_attempts, max_crashes, timeout_ms, timeout_min_ms, on_timeout, retry, on_dead)
    VALUES (name, changes ->> 'queue', priority, attempts, crashes, ms, least_ms, coalesce(outcome, 'retry'), changes ->> 'retry', changes ->> 'on_dead')
    ON CONFLICT ON CONSTRAINT kind_pkey DO UPDATE
       SET queue = CASE WHEN changes ? 'queue' THEN changes ->> 'queue' ELSE k.queue END,
           priority = tenon.or_old(changes, 'priority', priority, k.priority),
           max_attempts = tenon.or_old(changes, 'max_attempts', attempts, k.max_attempts),
           max_crashes = tenon.or_old(changes, 'max_crashes', crashes, k.max_crashes),
           timeout_ms = tenon.or_old(changes, 'timeout', ms, k.timeout_ms),
           timeout_min_ms = tenon.or_old(changes, 'timeout_min', least_ms, k.timeout_min_ms),
           on_timeout = CASE WHEN changes ? 'on_timeout' THEN coalesce(outcome, 'retry') ELSE k.on_timeout END,
           retry = CASE WHEN changes ? 'retry' THEN changes ->> 'retry' ELSE k.retry END,
           on_dead = CASE WHEN changes ? 'on_dead' THEN changes ->> 'on_dead' ELSE k.on_dead END;
    PERFORM tenon.note_audit('set_kind', jsonb_build_object('kind', name, 'changes', changes), 1);
END $$;

-- --- settings ---

-- One key after the other, so that an error can name the key.
CREATE FUNCTION tenon.set_settings(changes jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    span constant text := '1 hour to 1000 years';
    k    text;
BEGIN
    PERFORM tenon.check_changes(changes, '{payload_bytes_max,history_keep,history_rows_max,exchange,cancel_own_only,attempt_keep,dead_keep,signal_keep,on_dead}');
    PERFORM tenon.settings();
    FOR k IN SELECT jsonb_object_keys(changes) LOOP
        BEGIN
            UPDATE tenon.setting s
               SET (payload_bytes_max, history_keep, history_rows_max, exchange, cancel_own_only, attempt_keep, dead_keep, signal_keep, on_dead) =
                   (SELECT n.payload_bytes_max, n.history_keep, n.history_rows_max, n.exchange, n.cancel_own_only, n.attempt_keep,
                           n.dead_keep, n.signal_keep, n.on_dead
                      FROM jsonb_populate_record(s, jsonb_build_object(k, changes -> k)) n);
        EXCEPTION WHEN data_exception OR check_violation OR not_null_violation THEN
            PERFORM tenon.refuse(k, changes ->> k,
                CASE k WHEN 'exchange' THEN '1 to 63 of a-z 0-9 _ - and does not start with -'
                       WHEN 'cancel_own_only' THEN 'true or false'
                       WHEN 'on_dead' THEN 'a kind: 1 to 100 of A-Z a-z 0-9 _ . : -, or null'
                       WHEN 'history_keep' THEN '0, or ' || span
                       WHEN 'payload_bytes_max' THEN 'a number of bytes, at least 1'
                       WHEN 'history_rows_max' THEN 'a number of rows, at least 1' ELSE span END);
        END;
    END LOOP;
    PERFORM tenon.note_audit('set_settings', jsonb_build_object('changes', changes), 1);
END $$;

-- --- rights ---

CREATE FUNCTION tenon.grant_lists(role text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    EXECUTE format('GRANT EXECUTE ON FUNCTION tenon.find, tenon.list, tenon.count_tasks, tenon.error_line, tenon.why, tenon.why_of, tenon.starting_of, tenon.handled, tenon.demand, tenon.slots_wanted, tenon.ended_tids, tenon.rate_seen, tenon.backlog_seen TO %I', role);
END $$;

CREATE FUNCTION tenon.grant_acts(role text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    EXECUTE format('GRANT EXECUTE ON FUNCTION tenon.change, tenon.retry, tenon.cancel_all, tenon.delete, tenon.run_now, tenon.set, tenon.pause, tenon.resume, tenon.set_queue, tenon.set_kind, tenon.set_settings TO %I', role);
END $$;

REVOKE ALL ON FUNCTION tenon.note_audit, tenon.filter_keys, tenon.filter_texts, tenon.filter_text,
    tenon.filter_path, tenon.filter_ids, tenon.act_states, tenon.filter_with, tenon.filter_states, tenon.read_filter,
    tenon.places, tenon.candidates, tenon.search, tenon.check_most, tenon.find, tenon.list, tenon.count_tasks, tenon.lock_found, tenon.wake,
    tenon.retry_ids, tenon.delete_ids, tenon.cancel_ids, tenon.set_ids, tenon.check_changes, tenon.changed_integer,
    tenon.changed_run_at, tenon.check_act, tenon.note_change, tenon.change, tenon.retry, tenon.cancel_all, tenon.delete,
    tenon.run_now, tenon.set, tenon.check_target, tenon.tell_paused, tenon.pause, tenon.resume, tenon.paused_kinds, tenon.changed_ms,
    tenon.or_old, tenon.set_queue, tenon.set_kind, tenon.set_settings, tenon.grant_lists, tenon.grant_acts FROM PUBLIC;

COMMENT ON FUNCTION tenon.list IS $$Tasks that fit a filter, the newest first. The next page begins after the id of the last row: `tenon.list(filter, after => 17)`.

A filter is a JSON object; a task must fit all of its keys, and an unknown key is refused.

- `state`, `queue`, `kind`, `error`: one, or an array of them. The error is its class: as the handler says, else the exception that the last error names, how the process ended, or its first word.
- `older_than`: so much time has passed since it was enqueued or, if it has ended, since then: `"2 hours"`.
- `payload`: a predicate of SQL/JSON path, such as `$.to == "ann@example.com"` or `exists($.tags[*] ? (@ == "new"))`.
- `ids`: one, or an array of at most 100,000.
- `unique_key`, `trace`, `enqueued_by`: as in `tenon.tasks`.
- `flow`: the number of a flow, for as long as that is kept.
- `limit_key`: one of its `limit_keys`. Without `state` a list then means what has not ended, and finds it by the line of that key; of what has ended, a done one has no keys any more.

At most `most` rows, up to 100,000. It reads in the order of ids until it has found so many: a filter that few tasks fit reads far.$$;

COMMENT ON FUNCTION tenon.count_tasks IS $$How many tasks fit a filter (`tenon.list`), up to `most`; it stops after half a second. `at_least`: there may be more.$$;

COMMENT ON FUNCTION tenon.find IS $$The ids of tasks that fit a filter (`tenon.list`), and `next`: where to go on (`after`), or NULL when that was all. It stops with the piece of its reading after which `limit_ms` milliseconds have passed, found or not. With `act`, those that `tenon.change` would take, the oldest first. For programs that show pages.$$;

COMMENT ON FUNCTION tenon.retry IS $$Retries tasks that fit a filter (`tenon.list`, at least one key): dead ones or, if `state` says so or they are given by their ids, cancelled and expired ones; a `start_before` holds no more. Each is ready under its own id, as if it had never failed. Returns how many.

At most `most` in one transaction, the oldest first: call it again until it returns 0. One that somebody else has locked, or whose unique key another task has taken, stays as it is, and is counted as `skipped` in `tenon.audit`. A worker starts them within milliseconds.$$;

COMMENT ON FUNCTION tenon.cancel_all IS $$Cancels tasks that fit a filter (`tenon.list`, at least one key) and have not ended, as `tenon.cancel` does; returns how many. At most `most`, as for `tenon.retry`.$$;

COMMENT ON FUNCTION tenon.delete IS $$Deletes tasks that have ended and fit a filter (`tenon.list`, at least one key), without a trace but in `tenon.audit`: dead ones or, if `state` says so or they are given by their ids, done, cancelled and expired ones. Returns how many. At most `most`, as for `tenon.retry`. What has not ended is cancelled first; a task of a flow stays until a cleaner has seen its end.$$;

COMMENT ON FUNCTION tenon.run_now IS $$Makes scheduled and retrying tasks that fit a filter (`tenon.list`, at least one key) ready at once; returns how many. At most `most`, as for `tenon.retry`.$$;

COMMENT ON FUNCTION tenon.set IS $$Changes tasks that fit a filter (`tenon.list`, at least one key) and are not running: `changes` has `priority` (0 to 9), `run_at` (at most 10 years ahead) or `max_crashes` (2 to 100), or several of these. Returns how many it changed. At most `most`, as for `tenon.retry`.$$;

COMMENT ON FUNCTION tenon.change IS $$One piece of an act of many: `retry`, `cancel`, `delete`, `run_now` or `set`. For programs that go through many tasks piece by piece, as `tenon retry --rate` does: they hand `next` back as `after`, and `audit_id` as `audit`, so that the act has one row there, until `next` is NULL.

- `n`, `skipped`: changed, and found but left as they were.
- `limit_ms`: stop looking after so many milliseconds, found or not.$$;

COMMENT ON FUNCTION tenon.pause IS $$Pauses a queue, a kind, or with `everything => true` all of them, also those that nobody knows yet; who, when and why stand in `tenon.paused`. Workers claim none of it from then on: of a queue at once, else within a second after the commit. What runs goes on, and tasks may be enqueued.$$;

COMMENT ON FUNCTION tenon.resume IS $$Ends what `tenon.pause` began; returns whether it was paused. What was paused by another name stays so: `everything => true` resumes no queue that was paused by itself. A row of `tenon.queue` that says nothing else goes.$$;

COMMENT ON FUNCTION tenon.set_queue IS $$Sets defaults of a queue (`tenon.queue`): `changes` has `priority`, `max_attempts`, `timeout` (`"10 min"`) or `retry` (as for `tenon.enqueue`); a null takes the default away. They hold for what is enqueued from then on.$$;

COMMENT ON FUNCTION tenon.set_kind IS $$Sets defaults of a kind (`tenon.kind`): `changes` has `queue`, `priority`, `max_attempts`, `max_crashes` (2 to 100), `timeout`, `timeout_min` (`"10 min"`), `on_timeout` (`retry`, `dead`), `retry` (as for `tenon.enqueue`) or `on_dead` (a kind); a null removes the default. They apply to tasks that are enqueued from then on.$$;

COMMENT ON FUNCTION tenon.set_settings IS $$Changes settings (`tenon.setting`); `changes` has any of `payload_bytes_max`, `history_keep`, `history_rows_max`, `exchange`, `cancel_own_only`, `attempt_keep`, `dead_keep`, `signal_keep` and `on_dead` (null removes it): `{"history_keep": "7 days", "on_dead": "tell_ops"}`. Leaves a row in `tenon.audit`. For operators. Only the owner of the schema can set `audit_keep`, with UPDATE.$$;
