-- Every text that a producer, a handler or an operator can write has a limit (tests/sql/sql_texts_test.c runs this). The catalog
-- says what there is: each argument of each function that one of them may call is given three megabytes, in several forms,
-- and then no column of any table may hold more than the longest that is documented; the columns that they may write
-- themselves are given them, too. What is not known here fails: a new function, a new argument, a new column.
-- tenon_test.claim is a valid claim, tenon_test.role the beginning of the names of the roles.

-- A call that is allowed, an argument an element; and other values for some of them.
CREATE TEMP TABLE allowed (function text, arguments text[], more text[] DEFAULT '{}');
INSERT INTO allowed VALUES ('backlog_seen', '{"queue => ''q''"}');
INSERT INTO allowed VALUES ('batch', '{"on_end => ''a''"}');
INSERT INTO allowed VALUES ('cancel_where', ARRAY['filter => ''{"kind": "zz"}''']);
INSERT INTO allowed VALUES ('change', ARRAY['act => ''cancel''', 'filter => ''{"kind": "a"}'''],
     ARRAY['filter => jsonb_build_object(''kind'', jsonb_build_array(''a'', :long))',
           'filter => jsonb_build_object(''kind'', ''a'', ''older_than'', ''0 s'' || :blank)',
           'filter => jsonb_build_object(''kind'', ''a'', ''payload'', ''$ == $'' || :blank)']);
INSERT INTO allowed VALUES ('count_tasks', '{}');
INSERT INTO allowed VALUES ('delete_where', ARRAY['filter => ''{"kind": "zz"}''']);
INSERT INTO allowed VALUES ('demand', '{"queue => ''q''"}');
INSERT INTO allowed VALUES ('remove_limit', '{"name => ''l''"}');
INSERT INTO allowed VALUES ('remove_schedule', '{"name => ''s''"}');
INSERT INTO allowed VALUES ('enqueue', '{"kind => ''a''", "unique_key => ''k''"}',
     ARRAY['retry => ''constant(1 s'' || :blank || '')''', 'retry => ''polynomial(1 day, 10'' || :blank || ''%)''']);
INSERT INTO allowed VALUES ('enqueue_many', '{"kind => ''a''", "payloads => ''{1,2}''::jsonb[]"}',
     ARRAY['unique_keys => ARRAY[''k'', :long]', 'payloads => ARRAY[''1'', to_jsonb(:long)]',
           'retry => ''constant(1 s'' || :blank || '')''']);
INSERT INTO allowed VALUES ('enqueue_routed', '{"kind => ''a''", "unique_key => ''k''"}', ARRAY['retry => ''constant(1 s'' || :blank || '')''']);
INSERT INTO allowed VALUES ('enqueue_jsonb', '{"kind => ''a''", "payload => ''1''", "unique_key => ''k''"}', ARRAY['retry => ''constant(1 s'' || :blank || '')''']);
INSERT INTO allowed VALUES ('enqueue_many_jsonb', '{"kind => ''a''", "payloads => ''{1,2}''"}', ARRAY['retry => ''constant(1 s'' || :blank || '')''']);
INSERT INTO allowed VALUES ('error_line', '{"error => ''x''"}');
INSERT INTO allowed VALUES ('extend', '{"claim => :claim", "by => ''1 h''"}');
INSERT INTO allowed VALUES ('find', ARRAY['filter => ''{"kind": "a"}''']);
INSERT INTO allowed VALUES ('finish', '{"claim => :claim"}');
INSERT INTO allowed VALUES ('finish_many', '{"claims => ARRAY[:claim]"}', ARRAY['results => ARRAY[to_jsonb(:long)]']);
INSERT INTO allowed VALUES ('flow', '{}',
     ARRAY['description => jsonb_build_object(''tasks'', :tasks, ''payload'', :long)',
           'description => jsonb_build_object(''tasks'', :tasks, ''name'', :long)',
           'description => jsonb_build_object(''tasks'', jsonb_build_array(jsonb_build_object(''kind'', ''a'', ''name'', :long)))',
           'description => jsonb_build_object(''tasks'', jsonb_build_array(jsonb_build_object(''kind'', ''a'', ''trace'', :long)))',
           'description => jsonb_build_object(''tasks'', jsonb_build_array(jsonb_build_object(''kind'', ''a'', ''retry'', ''constant(1 s'' || :blank || '')'')))']);
INSERT INTO allowed VALUES ('handled', '{"queue => ''q''", "kind => ''a''"}');
INSERT INTO allowed VALUES ('is_retry', '{"policy => ''polynomial''"}');
INSERT INTO allowed VALUES ('limit_rule', '{"key => ''k''"}');
INSERT INTO allowed VALUES ('take_limit', '{"key => ''k''"}');
INSERT INTO allowed VALUES ('list', '{}');
INSERT INTO allowed VALUES ('next_tick', '{"cron => ''@daily''", "zone => ''UTC''", "after => now()"}');
INSERT INTO allowed VALUES ('parent_results', '{"claim => :claim"}');
INSERT INTO allowed VALUES ('drain', '{"worker => gen_random_uuid()"}');
INSERT INTO allowed VALUES ('pause', '{"queue => ''q''"}');
INSERT INTO allowed VALUES ('pause_limit', '{"name => ''l''"}');
INSERT INTO allowed VALUES ('pause_schedule', '{"name => ''s''"}');
INSERT INTO allowed VALUES ('log_message', '{"claim => :claim", "message => ''m''"}');
INSERT INTO allowed VALUES ('progress', '{"claim => :claim", "value => ''1''"}');
INSERT INTO allowed VALUES ('rate_seen', '{"queue => ''q''"}');
INSERT INTO allowed VALUES ('resume', '{"queue => ''paused''"}');
INSERT INTO allowed VALUES ('resume_limit', '{"name => ''paused''"}');
INSERT INTO allowed VALUES ('resume_schedule', '{"name => ''s''"}');
INSERT INTO allowed VALUES ('undo_retry_where', ARRAY['filter => ''{"kind": "zz"}''']);
INSERT INTO allowed VALUES ('retry_where', ARRAY['filter => ''{"kind": "zz"}''']);
INSERT INTO allowed VALUES ('retry_parts', '{"policy => ''polynomial''"}');
INSERT INTO allowed VALUES ('delete', '{"id => 0"}');
INSERT INTO allowed VALUES ('retry', '{"id => 0"}');
INSERT INTO allowed VALUES ('steps_before', '{"steps => ''{}''"}');
INSERT INTO allowed VALUES ('run_now', '{"id => 0"}');
INSERT INTO allowed VALUES ('publish', '{"exchange => ''x''", "routing_key => ''k''", "body => ''b''::text"}',
     ARRAY['headers => jsonb_build_object(''h'', :long)', 'headers => jsonb_build_object(:long, 1)', 'properties => jsonb_build_object(''type'', :long)']);
INSERT INTO allowed VALUES ('publish_many', '{"exchange => ''x''", "routing_key => ''k''", "bodies => ''{b}''::text[]"}');
INSERT INTO allowed VALUES ('publish_bodies', '{"exchange => ''x''", "routing_key => ''k''", "bodies => ''{b}''::text[]", "form => ''text''"}');
INSERT INTO allowed VALUES ('once', '{"consumer => ''c''", "message_id => ''m''"}');
INSERT INTO allowed VALUES ('retry_messages', '{"exchange => ''x''"}');
INSERT INTO allowed VALUES ('delete_messages', '{"exchange => ''x''"}');
INSERT INTO allowed VALUES ('replay_messages', '{"since => now()"}');
INSERT INTO allowed VALUES ('route_of', '{"kind => ''a''"}');
INSERT INTO allowed VALUES ('run_now_where', ARRAY['filter => ''{"kind": "zz"}''']);
INSERT INTO allowed VALUES ('run_schedule_now', '{"name => ''s''"}');
INSERT INTO allowed VALUES ('set_where', ARRAY['filter => ''{"kind": "a"}''', 'changes => ''{"priority": 1}'''],
     ARRAY['changes => jsonb_build_object(''priority'', 1, ''run_at'', ''now'' || :blank)']);
INSERT INTO allowed VALUES ('set_kind', '{"name => ''a''", "priority => 1"}',
     ARRAY['queue => :long', 'retry => ''constant(1 s'' || :blank || '')''', 'on_dead => :long']);
INSERT INTO allowed VALUES ('set_limit', '{"name => ''l''", "max_running => 1"}');
INSERT INTO allowed VALUES ('set_queue', '{"name => ''q''", "priority => 1"}',
     ARRAY['retry => ''constant(1 s'' || :blank || '')''']);
INSERT INTO allowed VALUES ('set_schedule', '{"name => ''s''", "cron => ''@daily''", "kind => ''a''"}',
     ARRAY['cron => ''* * * * *'' || :blank', 'cron => ''* * * *  '' || :blank || ''*''',
           'cron => repeat(''1,'', 1500000) || ''1 * * * *''']);
INSERT INTO allowed VALUES ('set_schedule_jsonb', ARRAY['name => ''s''', 'cron => ''@daily''', 'kind => ''a''', 'payload => ''1''', 'zone => ''UTC''', 'catch_up => ''last''', 'overlap => ''allow''']);
INSERT INTO allowed VALUES ('set_settings', ARRAY['changes => ''{"dead_keep": "1 day"}'''],
     ARRAY['changes => jsonb_build_object(''dead_keep'', ''1 day'' || :blank)', 'changes => jsonb_build_object(''on_dead'', :long)']);
INSERT INTO allowed VALUES ('starting_of', '{"starting => ''a''"}');
INSERT INTO allowed VALUES ('signal', '{"name => ''s''"}');
INSERT INTO allowed VALUES ('step', '{"claim => :claim", "name => ''s''"}');
INSERT INTO allowed VALUES ('steps', '{"claim => :claim"}');
INSERT INTO allowed VALUES ('sync', ARRAY['description => ''{"kinds": {"a": {}}}'''],
     ARRAY['description => jsonb_build_object(''kinds'', jsonb_build_object(''a'', jsonb_build_object(''retry'', :long)))',
           'description => jsonb_build_object(''kinds'', jsonb_build_object(''a'', jsonb_build_object(''limit_keys'', jsonb_build_array(:long))))',
           'description => jsonb_build_object(''kinds'', jsonb_build_object(:long, jsonb_build_object(''priority'', 1)))',
           'description => jsonb_build_object(''limits'', jsonb_build_object(:long, jsonb_build_object(''max_running'', 1)))',
           'description => jsonb_build_object(''source'', :long, ''schedules'', jsonb_build_object(''s3'', jsonb_build_object(''kind'', ''a'', ''cron'', ''@daily'')))']);
INSERT INTO allowed VALUES ('sync_schedules', '{"source => ''f''", "schedules => ''[]''"}',
     ARRAY['schedules => jsonb_build_array(jsonb_build_object(''line'', 1, ''name'', ''s2'', ''kind'', ''a'', ''cron'', ''@daily'' || :blank))',
           'schedules => jsonb_build_array(jsonb_build_object(''line'', 1, ''name'', ''s2'', ''kind'', ''a'', ''every'', ''1 h'' || :blank))']);
INSERT INTO allowed VALUES ('wait_signal', '{"claim => :claim", "signal => ''s''"}');

-- The first column that holds too much. Texts have at most 8,192 characters, documents 2 MiB and what stands around them.
CREATE FUNCTION pg_temp.too_long() RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    c     record;
    bytes bigint;
BEGIN
    FOR c IN SELECT a.attrelid::regclass AS relation, a.attname, y.typname = 'jsonb' AS document
               FROM pg_attribute a JOIN pg_class r ON r.oid = a.attrelid JOIN pg_type y ON y.oid = a.atttypid
              WHERE r.relnamespace = 'tenon'::regnamespace AND r.relkind IN ('r', 'p') AND NOT r.relispartition
                AND a.attnum > 0 AND NOT a.attisdropped
                AND (y.typname IN ('jsonb', 'json', 'bytea') OR y.typcategory IN ('S', 'A')) LOOP
        EXECUTE format('SELECT max(octet_length(x.%I::text)) FROM %s x', c.attname, c.relation) INTO bytes;
        CONTINUE WHEN c.attname = 'body';  -- a body may have 16 MiB
        IF bytes > (CASE WHEN c.document THEN 2300000 ELSE 33000 END) THEN
            RETURN format('%s.%s holds %s bytes', c.relation, c.attname, bytes);
        END IF;
    END LOOP;
    RETURN NULL;
END $$;

-- What is wrong after this statement, which is rolled back; NULL: it wrote nothing that is too long, or was refused.
CREATE FUNCTION pg_temp.wrong(statement text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    found text;
BEGIN
    EXECUTE statement;
    found := pg_temp.too_long();
    RAISE SQLSTATE 'TN001';
EXCEPTION
    WHEN SQLSTATE 'TN001' THEN
        RETURN found;
    WHEN data_exception OR object_not_in_prerequisite_state OR check_violation THEN
        RETURN CASE WHEN SQLSTATE IN ('22023', '55000') AND octet_length(SQLERRM) > 1000 THEN format('its message has %s bytes', octet_length(SQLERRM)) END;
    WHEN OTHERS THEN
        RETURN SQLSTATE || ' ' || left(SQLERRM, 200);
END $$;

CREATE FUNCTION pg_temp.written(value text) RETURNS text
LANGUAGE sql AS $$
    SELECT replace(replace(replace(replace(value, ':long', 'repeat(''a'', 3000000)'), ':blank', 'repeat('' '', 3000000)'),
                   ':tasks', '''[{"kind": "a"}]''::jsonb'), ':claim', quote_literal(current_setting('tenon_test.claim')))
$$;

-- The functions that take a text and may be called by a producer or an operator.
CREATE TEMP VIEW callable AS
    SELECT p.oid, p.proname::text AS function, a.name, a.type
      FROM pg_proc p
     CROSS JOIN LATERAL unnest(p.proargnames[1:p.pronargs], p.proargtypes::regtype[]::text[]) a (name, type)
     WHERE p.pronamespace = 'tenon'::regnamespace
       AND (has_function_privilege(current_setting('tenon_test.role') || '_p', p.oid, 'EXECUTE')
            OR has_function_privilege(current_setting('tenon_test.role') || '_o', p.oid, 'EXECUTE'))
       AND a.type NOT IN ('bigint', 'integer', 'smallint', 'boolean', 'interval', 'timestamp with time zone', 'double precision', 'bigint[]',
                          'integer[]', 'timestamp with time zone[]',
                          'tenon.tasks', 'tenon.paused', 'uuid', 'numeric', 'regtype');

CREATE TEMP VIEW trials AS
    SELECT c.function, c.name, v.value
      FROM callable c
      JOIN (VALUES ('text', ':long'), ('text', ':blank'), ('text[]', 'ARRAY[:long]'), ('jsonb', 'to_jsonb(:long)'),
                   ('anycompatible', 'to_jsonb(:long)'), ('jsonb', 'jsonb_build_object(''kind'', :long)'),
                   ('jsonb[]', 'ARRAY[to_jsonb(:long)]'), ('anycompatiblearray', 'ARRAY[to_jsonb(:long)]')) v (type, value)
        ON v.type = c.type
    UNION ALL
    SELECT f.function, split_part(m, ' => ', 1), substr(m, strpos(m, ' => ') + 4) FROM allowed f CROSS JOIN unnest(f.more) m;

CREATE TEMP TABLE wrongs (trial text, says text);

DO $$
DECLARE
    unknown text := (SELECT string_agg(DISTINCT c.function, ', ') FROM callable c
                      WHERE c.function NOT IN (SELECT f.function FROM allowed f)
                         OR c.type NOT IN ('text', 'text[]', 'jsonb', 'jsonb[]', 'anycompatible', 'anycompatiblearray'));
BEGIN
    IF unknown IS NOT NULL THEN
        RAISE EXCEPTION 'no call is known here of: %', unknown;
    END IF;
    PERFORM tenon.pause(queue => 'paused'), tenon.pause_limit('paused'), tenon.set_schedule('s', every => '1 h', kind => 'a');
    INSERT INTO tenon.queue (name) VALUES ('written');
    INSERT INTO tenon.kind (name) VALUES ('written');
END $$;

INSERT INTO wrongs
SELECT c.call, pg_temp.wrong(pg_temp.written(c.call))
  FROM (SELECT format('SELECT tenon.%I(%s)', t.function, concat_ws(', ', format('%I => %s', t.name, t.value),
                      (SELECT string_agg(a, ', ' ORDER BY o) FROM allowed f CROSS JOIN unnest(f.arguments) WITH ORDINALITY u (a, o)
                        WHERE f.function = t.function AND split_part(a, ' => ', 1) <> t.name),
                      -- and NULL where there is no default
                      (SELECT string_agg(format('%I => NULL', n), ', ') FROM pg_proc p CROSS JOIN unnest(p.proargnames[1:p.pronargs]) n
                        WHERE p.pronamespace = 'tenon'::regnamespace AND p.proname = t.function AND p.pronargs > 2 AND p.pronargdefaults = 0
                          AND n <> t.name AND n NOT IN (SELECT split_part(a, ' => ', 1) FROM allowed f CROSS JOIN unnest(f.arguments) a
                                                         WHERE f.function = t.function)))) AS call
          FROM trials t OFFSET 0) c;

-- What they may write themselves.
INSERT INTO wrongs
SELECT c.call, pg_temp.wrong(pg_temp.written(c.call))
  FROM (SELECT DISTINCT format('UPDATE %s SET %I = %s', a.attrelid::regclass, a.attname, v) AS call
          FROM pg_attribute a JOIN pg_class r ON r.oid = a.attrelid JOIN pg_type y ON y.oid = a.atttypid
         CROSS JOIN unnest('{_p,_o}'::text[]) role CROSS JOIN unnest('{:long,''constant(1 s'' || :blank || '')''}'::text[]) v
         WHERE r.relnamespace = 'tenon'::regnamespace AND r.relkind IN ('r', 'p') AND a.attnum > 0 AND NOT a.attisdropped
           AND has_column_privilege(current_setting('tenon_test.role') || role, a.attrelid, a.attnum, 'UPDATE')
           AND (y.typname IN ('jsonb', 'json', 'bytea') OR y.typcategory IN ('S', 'A'))) c;

DO $$
BEGIN
    IF EXISTS (SELECT FROM wrongs w WHERE w.says IS NOT NULL) THEN
        RAISE EXCEPTION '%', (SELECT string_agg(w.trial || ': ' || w.says, E'\n') FROM wrongs w WHERE w.says IS NOT NULL);
    END IF;
END $$;
