-- Filters, and the search behind every list; the audit.

CREATE OR REPLACE FUNCTION tenon.note_audit(act text, what jsonb, n bigint, skipped bigint DEFAULT 0) RETURNS bigint
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO tenon.audit (act, what, n, skipped)
    SELECT $1, jsonb_object_agg(e.key, e.value), $3, $4
      FROM jsonb_each($2 || jsonb_build_object('web_user', NULLIF(left(current_setting('tenon.web_user', true), 200), ''))) e
     WHERE e.value <> 'null'
    RETURNING id
$$;

CREATE OR REPLACE FUNCTION tenon.filter_keys() RETURNS TABLE (key text, allowed text)
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
           ('limit_key', 'a key of limits, such as "tenant:42"'),
           ('tag', 'a tag, or an array of them, of which the task has at least one')
$$;

-- A text or an array of texts.
CREATE OR REPLACE FUNCTION tenon.filter_texts(value jsonb) RETURNS text[]
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

CREATE OR REPLACE FUNCTION tenon.filter_text(value jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF jsonb_typeof(value) <> 'string' THEN
        RAISE data_exception;
    END IF;
    RETURN value #>> '{}';
END $$;

-- A path that is not a predicate would silently find nothing.
CREATE OR REPLACE FUNCTION tenon.filter_path(value jsonb) RETURNS jsonpath
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    path jsonpath := tenon.filter_text(value)::jsonpath;
BEGIN
    IF coalesce(jsonb_typeof(jsonb_path_query_first('{}', path, '{}', true)), '') NOT IN ('boolean', 'null') THEN
        RAISE data_exception;
    END IF;
    RETURN path;
END $$;

CREATE OR REPLACE FUNCTION tenon.filter_ids(value jsonb) RETURNS bigint[]
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
CREATE OR REPLACE FUNCTION tenon.act_states(act text) RETURNS text[]
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE act WHEN 'retry' THEN '{dead,cancelled,expired}'::text[]
                    WHEN 'delete' THEN '{dead,done,cancelled,expired}'
                    WHEN 'cancel' THEN '{blocked,scheduled,ready,running,retrying}'
                    WHEN 'run_now' THEN '{scheduled,retrying}'
                    WHEN 'undo' THEN '{blocked,scheduled,ready}'
                    WHEN 'set' THEN '{blocked,scheduled,ready,retrying}' END
$$;

-- One key of a filter. What it cannot read raises something of class 22 or 42.
CREATE OR REPLACE FUNCTION tenon.filter_with(f tenon.filter, key text, value jsonb) RETURNS tenon.filter
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
        WHEN 'tag' THEN f.tags := tenon.filter_texts(value);
    END CASE;
    RETURN f;
END $$;

-- The states that a filter selects if it names none: for retry and delete the dead tasks, or, of tasks given by id, all that they can
-- change; for a list by a limit key the unfinished tasks.
CREATE OR REPLACE FUNCTION tenon.filter_states(f tenon.filter, act text) RETURNS text[]
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

CREATE OR REPLACE FUNCTION tenon.read_filter(filter jsonb, act text) RETURNS tenon.filter
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
        PERFORM tenon.refuse_call('an empty filter would match every task',
                                  'Give at least one key, such as {"state": "dead"}.');
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
    f.undo := CASE WHEN act = 'undo' THEN true END;
    RETURN f;
END $$;

-- The tables that hold tasks of these states.
CREATE OR REPLACE FUNCTION tenon.places(states text[]) RETURNS text[]
LANGUAGE sql IMMUTABLE AS $$
    SELECT ARRAY(SELECT p FROM (VALUES ('task', '{blocked,scheduled,ready,running,retrying,expired}'::text[]),
                                       ('history', '{done,cancelled,expired}'), ('dead', '{dead}')) v (p, s)
                  WHERE states IS NULL OR s && states)
$$;

-- The ids that were given; or the next `most` of a flow; or of the unfinished tasks that may have a limit key, which wait at the limit
-- or, before that, for parents or a signal. NULL: no index supports this filter.
CREATE OR REPLACE FUNCTION tenon.candidates(f tenon.filter, places text[], newest boolean, cursor bigint, most integer) RETURNS bigint[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan AS $$
BEGIN
    IF f.ids IS NOT NULL THEN
        RETURN CASE WHEN f.flow IS NULL THEN f.ids
                    ELSE ARRAY(SELECT m.id FROM tenon.flow_task m WHERE m.id = ANY (f.ids) AND m.flow = f.flow) END;
    ELSIF f.flow IS NOT NULL THEN
        RETURN ARRAY(SELECT m.id FROM (SELECT x.id FROM tenon.flow_task x
                                        WHERE x.flow = f.flow AND CASE WHEN newest THEN x.id < cursor ELSE x.id > cursor END OFFSET 0) m
                      ORDER BY CASE WHEN newest THEN -m.id ELSE m.id END LIMIT most);
    ELSIF f.limit_key IS NULL OR places <> '{task}' THEN
        RETURN NULL;
    ELSIF newest THEN
        RETURN ARRAY(SELECT c.id FROM (
            (SELECT l.task_id AS id FROM tenon.limit_task l WHERE l.key = f.limit_key AND l.task_id < cursor ORDER BY 1 DESC LIMIT most)
            UNION (SELECT DISTINCT w.task FROM tenon.flow_wait w WHERE w.task < cursor ORDER BY 1 DESC LIMIT most)
            UNION (SELECT w.task_id FROM tenon.waiting w WHERE w.task_id < cursor ORDER BY 1 DESC LIMIT most)) c
            ORDER BY c.id DESC LIMIT most);
    END IF;
    RETURN ARRAY(SELECT c.id FROM (
        (SELECT l.task_id AS id FROM tenon.limit_task l WHERE l.key = f.limit_key AND l.task_id > cursor ORDER BY 1 LIMIT most)
        UNION (SELECT DISTINCT w.task FROM tenon.flow_wait w WHERE w.task > cursor ORDER BY 1 LIMIT most)
        UNION (SELECT w.task_id FROM tenon.waiting w WHERE w.task_id > cursor ORDER BY 1 LIMIT most)) c
        ORDER BY c.id LIMIT most);
END $$;

-- Those of these queues that wait for a time, a parent, a signal or a limit, or have expired, if their states are asked for.
CREATE OR REPLACE FUNCTION tenon.few_later(states text[], queues text[], moment timestamptz, most integer) RETURNS bigint[]
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT ARRAY((SELECT t.id FROM tenon.task t
                   WHERE t.delayed AND t.run_at > $3 AND t.run_at < 'infinity' AND $1 && '{scheduled,retrying}' LIMIT $4)
                 UNION ALL
                 (SELECT t.id FROM tenon.task t WHERE t.start_before <= $3 AND 'expired' = ANY ($1) LIMIT $4)
                 UNION ALL
                 (SELECT t.id
                    FROM unnest($2) q (name)
                   CROSS JOIN generate_series(0, 9) level (priority)
                   CROSS JOIN LATERAL (SELECT b.id FROM tenon.task b
                                        WHERE b.queue = q.name AND b.priority = level.priority AND b.run_at = 'infinity' LIMIT $4) t
                   WHERE 'blocked' = ANY ($1) LIMIT $4))
$$;

-- The ids of all that may fit in a place, if an index finds them and they are at most 10,000; NULL: that place must be read. The rows
-- that run are in no index, because claims must stay HOT updates; kinds of tasks that are not dead are in none, because that would
-- cost each task more than 2 % (docs/decisions/0043). An index of tags can only be read by a bitmap scan; in a session without these
-- (core/db/db_session.c) a tag would read the whole table.
CREATE OR REPLACE FUNCTION tenon.few(f tenon.filter, place text, moment timestamptz) RETURNS bigint[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan SET enable_bitmapscan = on AS $$
DECLARE
    most   integer := 10000;
    few    bigint[];
    queues text[];
    queues_most integer := 200;
BEGIN
    IF f.unique_key IS NOT NULL THEN
        few := CASE place
            WHEN 'task' THEN ARRAY(SELECT t.id FROM tenon.task t WHERE t.unique_key = f.unique_key LIMIT most + 1)
            WHEN 'dead' THEN ARRAY(SELECT d.id FROM tenon.dead d WHERE d.unique_key = f.unique_key LIMIT most + 1)
            ELSE ARRAY(SELECT h.id FROM tenon.history h WHERE h.unique_key = f.unique_key LIMIT most + 1) END;
    ELSIF f.tags IS NOT NULL THEN
        few := CASE place
            WHEN 'task' THEN ARRAY(SELECT t.id FROM tenon.task t WHERE t.tags && f.tags LIMIT most + 1)
            WHEN 'dead' THEN ARRAY(SELECT d.id FROM tenon.dead d WHERE d.tags && f.tags LIMIT most + 1)
            ELSE ARRAY(SELECT h.id FROM tenon.history h WHERE h.tags && f.tags LIMIT most + 1) END;
    ELSIF place = 'history' AND f.states <@ '{blocked,scheduled,ready,running,retrying,cancelled,expired,dead}' THEN
        few := ARRAY(SELECT h.id FROM tenon.history h WHERE h.outcome <> 'done' AND h.outcome = ANY (f.states) LIMIT most + 1);
    ELSIF place = 'task' AND f.states <@ '{blocked,scheduled,retrying,done,cancelled,expired,dead}' THEN
        queues := coalesce(f.queues, ARRAY(SELECT tenon.queue_names(queues_most + 1)));
        few := CASE WHEN cardinality(queues) <= queues_most OR NOT 'blocked' = ANY (f.states)
                    THEN tenon.few_later(f.states, queues, moment, most + 1) END;
    END IF;
    IF f.errors IS NOT NULL AND place IN ('task', 'dead') AND coalesce(cardinality(few), most + 1) > most THEN
        few := CASE place
            WHEN 'task' THEN ARRAY(SELECT t.id FROM tenon.task t WHERE t.error_class = ANY (f.errors) LIMIT most + 1)
            ELSE ARRAY(SELECT d.id FROM tenon.dead d WHERE d.error_class = ANY (f.errors) LIMIT most + 1) END;
    END IF;
    IF f.kinds IS NOT NULL AND place = 'dead' AND coalesce(cardinality(few), most + 1) > most THEN
        few := ARRAY(SELECT d.id FROM tenon.dead d WHERE d.kind = ANY (f.kinds) LIMIT most + 1);
    END IF;
    IF f.queues IS NOT NULL AND place IN ('task', 'dead') AND coalesce(cardinality(few), most + 1) > most THEN
        few := CASE place
            WHEN 'task' THEN ARRAY(SELECT t.id FROM tenon.task t WHERE t.queue = ANY (f.queues) LIMIT most + 1)
            ELSE ARRAY(SELECT d.id FROM tenon.dead d WHERE d.queue = ANY (f.queues) LIMIT most + 1) END;
    END IF;
    RETURN CASE WHEN cardinality(few) <= most THEN few END;
END $$;

-- The same of several places: the ids that indexes find, and the places that must be read.
CREATE OR REPLACE FUNCTION tenon.few_of(f tenon.filter, places text[], moment timestamptz, OUT few bigint[], OUT scanned text[])
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    place text;
    here  bigint[];
BEGIN
    few := '{}';
    scanned := '{}';
    FOREACH place IN ARRAY places LOOP
        here := tenon.few(f, place, moment);
        IF here IS NULL THEN
            scanned := scanned || place;
        ELSE
            few := few || here;
        END IF;
    END LOOP;
END $$;

-- The ids of up to `most` tasks, from behind the id `cursor` on, the newest or the oldest first. Of places whose tasks an index finds
-- (tenon.few) it reads those; the others it reads in pieces, by ranges of ids, each from the next id that there is, and stops with the
-- piece after which `limit_ms` milliseconds have passed (NULL: never). Pieces grow while one takes less than a tenth of that time.
-- `next`: where to continue; NULL: that was all. Planned again for each call, without the conditions that the filter does not have. It is
-- long because of the list of these conditions.
CREATE OR REPLACE FUNCTION tenon.search(f tenon.filter, newest boolean, cursor bigint, most integer, limit_ms integer,
    OUT ids bigint[], OUT next bigint)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan AS $$
DECLARE
    places text[] := CASE WHEN f.errors IS NULL THEN tenon.places(f.states)
                          ELSE array_remove(tenon.places(f.states), 'history') END;  -- which has no classes of errors
    moment timestamptz := clock_timestamp();
    begun  timestamptz := moment;
    piece  integer := CASE WHEN limit_ms < 100 AND (cursor IS NULL OR f.payload IS NOT NULL) THEN 100 ELSE 1000 END;
    found  record;
    given  bigint[];
    fits   bigint[];
    edge   bigint;
    low    bigint;
    high   bigint;
    last   boolean;
BEGIN
    ids := '{}';
    next := coalesce(cursor, CASE WHEN newest THEN 9223372036854775807 ELSE 0 END);
    SELECT '{}'::bigint[] AS few, '{}'::text[] AS scanned INTO found;
    IF tenon.candidates(f, places, newest, next, 0) IS NULL THEN
        found := tenon.few_of(f, places, moment);
    END IF;
    LOOP
        low := CASE WHEN newest THEN -1 ELSE next END;
        high := CASE WHEN newest THEN next ELSE 9223372036854775807 END;
        given := tenon.candidates(f, places, newest, next, piece);
        IF given IS NULL AND found.scanned = '{}' THEN
            given := ARRAY(SELECT i FROM unnest(found.few) i WHERE i > low AND i < high ORDER BY CASE WHEN newest THEN -i ELSE i END LIMIT piece);
        ELSIF given IS NULL THEN  -- how far this piece goes
            edge := CASE WHEN newest THEN (SELECT a.id FROM tenon.anywhere a WHERE a.place = ANY (found.scanned) AND a.id < high
                                            ORDER BY a.id DESC LIMIT 1)
                         ELSE (SELECT a.id FROM tenon.anywhere a WHERE a.place = ANY (found.scanned) AND a.id > low ORDER BY a.id LIMIT 1) END;
            IF newest THEN
                low := coalesce(edge - piece, low);
            ELSE
                high := coalesce(edge + piece, high);
            END IF;
        END IF;
        last := CASE WHEN given IS NOT NULL THEN f.ids IS NOT NULL OR cardinality(given) < piece
                     WHEN newest THEN edge IS NULL OR low < 1
                     ELSE edge IS NULL OR high > coalesce(pg_sequence_last_value(pg_get_serial_sequence('tenon.task', 'id')), 0) END;
        SELECT coalesce(array_agg(c.id ORDER BY CASE WHEN newest THEN -c.id ELSE c.id END), '{}') INTO fits
          FROM (SELECT * FROM tenon.anywhere a
                 WHERE given IS NULL AND a.id > low AND a.id < high AND a.place = ANY (found.scanned)
                UNION ALL
                SELECT * FROM tenon.anywhere a
                 WHERE coalesce(given, found.few) <> '{}' AND a.place = ANY (places) AND a.place <> ALL (found.scanned)
                   AND a.id = ANY (coalesce(given, ARRAY(SELECT i FROM unnest(found.few) i WHERE i > low AND i < high)))
                   AND a.id > low AND a.id < high) c
         WHERE (c.start_time IS NOT NULL OR coalesce(f.states <> '{running}', true))  -- cheaper than what follows, where most wait
           AND (f.states IS NULL OR CASE WHEN c.ended IS NOT NULL THEN c.ended
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
           AND (f.tags IS NULL OR c.tags && f.tags)
           AND (f.undo IS NULL OR c.undo)
           AND (f.payload IS NULL OR c.payload @@ f.payload);
        next := CASE WHEN given IS NOT NULL THEN coalesce(given[cardinality(given)], next) WHEN newest THEN low + 1 ELSE high - 1 END;
        IF cardinality(ids) + cardinality(fits) > most THEN
            ids := ids || fits[1:most - cardinality(ids)];
            next := ids[most];
            RETURN;
        END IF;
        ids := ids || fits;
        next := CASE WHEN NOT last THEN next END;
        EXIT WHEN last OR cardinality(ids) = most OR clock_timestamp() >= moment + limit_ms * interval '1 ms';
        IF coalesce(clock_timestamp() < begun + limit_ms * interval '0.1 ms', true) THEN
            piece := least(piece * 4, CASE WHEN f.payload IS NULL THEN 50000 ELSE 5000 END);
        END IF;
        begun := clock_timestamp();
    END LOOP;
END $$;

CREATE OR REPLACE FUNCTION tenon.check_most(most integer) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF coalesce(most, 0) NOT BETWEEN 1 AND 100000 THEN
        PERFORM tenon.refuse('most', most::text, '1 to 100000');
    END IF;
END $$;

CREATE OR REPLACE FUNCTION tenon.find(filter jsonb, act text DEFAULT NULL, cursor bigint DEFAULT NULL, most integer DEFAULT 100,
    limit_ms integer DEFAULT NULL, oldest boolean DEFAULT NULL, OUT ids bigint[], OUT next bigint, OUT share double precision)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    newest boolean := NOT coalesce(oldest, act IS NOT NULL);
    f      tenon.filter := tenon.read_filter(filter, act);
BEGIN
    PERFORM tenon.check_most(most);
    IF NOT tenon.may_see('') THEN  -- a producer
        IF f.enqueued_by <> session_user THEN
            ids := '{}';
            RETURN;
        END IF;
        f.enqueued_by := session_user;
    END IF;
    SELECT s.ids, s.next INTO ids, next FROM tenon.search(f, newest, cursor, most, limit_ms) s;
    share := coalesce(least(next::double precision / pg_sequence_last_value(pg_get_serial_sequence('tenon.task', 'id')), 1), 1);
    share := CASE WHEN newest AND next IS NOT NULL THEN 1 - share ELSE share END;
END $$;

COMMENT ON FUNCTION tenon.find IS $$Returns the ids of tasks that match a filter (`tenon.list`), and `next`: the `cursor` with which to continue, or NULL at the end. It reads in pieces and stops after the piece in which `limit_ms` milliseconds have passed, even if it found nothing. `share`: how much of all ids has been read, 0 to 1. The newest first, unless `oldest` is true; with `act`, the tasks that `tenon.change` would change, the oldest first. For programs that show pages.$$;

CREATE OR REPLACE FUNCTION tenon.list(filter jsonb DEFAULT '{}', cursor bigint DEFAULT NULL, most integer DEFAULT 100,
    oldest boolean DEFAULT false) RETURNS SETOF tenon.tasks
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found_ids bigint[] := (SELECT f.ids FROM tenon.find(filter, NULL, cursor, most, NULL, oldest) f);
BEGIN
    RETURN QUERY SELECT t.*
      FROM unnest(found_ids) WITH ORDINALITY i (id, place)
     CROSS JOIN LATERAL (SELECT * FROM tenon.tasks a WHERE a.id = i.id LIMIT 1) t  -- by the index
     ORDER BY i.place;
END $$;

COMMENT ON FUNCTION tenon.list IS $$Returns the tasks that match a filter, the newest first or, with `oldest => true`, the oldest first. The next page begins after the id of the last row: `tenon.list(filter, cursor => 17)`. A producer gets only tasks that its own role enqueued.

A filter is a JSON object; a task must match all of its keys, and an unknown key is refused.

- `state`, `queue`, `kind`, `error`: one, or an array of them. `error` is the class of the last error: the handler names it; otherwise it is the exception in the error, how the process ended, or the error's first word.
- `older_than`: the task ended at least this long ago or, if it has not ended, was enqueued at least this long ago: `"2 hours"`.
- `payload`: a predicate of SQL/JSON path, such as `$.to == "ann@example.com"` or `exists($.tags[*] ? (@ == "new"))`.
- `ids`: one, or an array of at most 100,000.
- `unique_key`, `trace`, `enqueued_by`: as in `tenon.tasks`.
- `flow`: the number of a flow, while the flow is kept.
- `tag`: one of its `tags`, or an array: at least one of them.
- `limit_key`: one of its `limit_keys`. Without `state`, this lists only unfinished tasks, which it finds by the line of that key. Of ended tasks, done ones have no keys any more.

At most `most` rows, up to 100,000. Indexes find: dead tasks by state, queue, kind and error; retrying, scheduled, blocked, cancelled and expired tasks by state; unfinished tasks by queue and error; all by unique key, tag, flow and limit key; if at most 10,000 tasks match. All other filters read tasks in the order of ids until `most` are found, a million in about half a second.$$;

CREATE OR REPLACE FUNCTION tenon.count_tasks(filter jsonb DEFAULT '{}', most integer DEFAULT 10000, OUT n bigint, OUT at_least boolean)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT cardinality(f.ids), f.next IS NOT NULL FROM tenon.find(filter, NULL, NULL, most, 500) f
$$;

COMMENT ON FUNCTION tenon.count_tasks IS $$Counts the tasks that match a filter (`tenon.list`), up to `most`; it stops after half a second. `at_least`: there may be more.$$;
