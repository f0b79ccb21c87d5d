-- Rights: one list of what each part may do. tenon setup --grant-... grants by it, and tenon doctor compares with it.

-- What each part may do in the schema tenon: a list for each privilege.
CREATE OR REPLACE FUNCTION tenon.rights() RETURNS TABLE (part text, privilege text, what text, objects text[], columns text[])
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
VALUES
    -- It may see the schema's version, so that its programs can tell whether they fit.
    ('producer', 'USAGE', 'schema', '{tenon}'::text[], NULL::text[]),
    ('producer', 'SELECT', 'table', '{migration}', NULL),
    ('producer', 'EXECUTE', 'function', '{finish,finish_many,progress,extend,log_message,step,steps,wait_signal,await,result,why,why_of,list,count_tasks,once}', NULL),
    -- What producers and operators share.
    ('enqueue', 'EXECUTE', 'function', '{enqueue,enqueue_jsonb,enqueue_many,enqueue_many_jsonb,enqueue_routed,route_of,mine,cancel,signal,flow,batch,close,cancel_flow,parent_results,take_limit}', NULL),
    -- Publishing is a right of its own.
    ('publisher', 'USAGE', 'schema', '{tenon}', NULL),
    ('publisher', 'SELECT', 'table', '{migration}', NULL),
    ('publisher', 'EXECUTE', 'function', '{publish,publish_many,publish_bodies,form_of,mine_published}', NULL),
    -- tenon intake enqueues, and nothing else. Rows of tenon.producer confine it as well.
    ('intake', 'USAGE', 'schema', '{tenon}', NULL),
    ('intake', 'SELECT', 'table', '{migration}', NULL),
    ('intake', 'EXECUTE', 'function', '{intake_begin,take_in,intake_note,copied}', NULL),
    -- Everything may be read.
    ('reader', 'USAGE', 'schema', '{tenon}', NULL),
    ('reader', 'SELECT', 'all tables', '{}', NULL),
    ('reader', 'EXECUTE', 'function', '{why,why_of,find,list,count_tasks,error_line,await,result,parent_results(bigint),next_tick,limit_rule,starting_of,handled,rights,copied}', NULL),
    ('reader', 'EXECUTE', 'function', '{demand,slots_wanted,outbox_depth,queue_names,depth_fresh,queue_depth,rate_seen,backlog_seen,pause_sentence,pause_advice}', NULL),
    -- Acts by functions only, which leave a row in tenon.audit.
    ('operator', 'EXECUTE', 'function', '{change,retry,retry_where,undo_retry_where,cancel_where,delete,delete_where,run_now,run_now_where,set_where,pause,resume,drain,set_queue,set_kind,set_settings,adopt,sync}', NULL),
    ('operator', 'EXECUTE', 'function', '{set_schedule,set_schedule_jsonb,remove_schedule,pause_schedule,resume_schedule,run_schedule_now,sync_schedules}', NULL),
    ('operator', 'EXECUTE', 'function', '{set_limit,remove_limit,pause_limit,resume_limit}', NULL),
    ('operator', 'EXECUTE', 'function', '{retry_messages,delete_messages,replay_messages}', NULL),
    -- What the worker's statements need, and no more: it can neither enqueue nor change a setting, nor read what has ended.
    ('worker', 'USAGE', 'schema', '{tenon}', NULL),
    ('worker', 'SELECT', 'table', '{migration,setting,paused,task,suspect,worker,minute}', NULL),
    ('worker', 'UPDATE', 'table', '{task}', '{claims,claim_key,start_time,worker_id,progress,timeout_ms}'),
    ('worker', 'UPDATE', 'table', '{worker}', '{lock_key,state,ended_at,backing_off,rounds_failing,broker_away,starting,alone_since}'),
    ('worker', 'DELETE', 'table', '{task}', NULL),
    ('worker', 'INSERT', 'table', '{history,worker,minute,log_line}', NULL),
    ('worker', 'UPDATE', 'table', '{minute}', NULL),
    ('worker', 'SELECT', 'table', '{history}', '{id,claims,worker_id,outcome}'),
    ('worker', 'SELECT', 'sequence', '{history_part,log_line_part}', NULL),
    ('worker', 'SELECT', 'table', '{dead}', '{id,claims,worker_id}'),
    ('worker', 'SELECT', 'table', '{kind}', '{history_keep}'),
    ('worker', 'EXECUTE', 'function', '{add_counts,copied,requeue,needs_note,record_end,record_end_of,progress_kept,log_fields_kept,printed_bytes,record_steps,steps_of,make_partitions,random_key,paused_kinds,settings,take_turn,claim_alone}', NULL),
    -- What the cleaner's statements need, and no more. UPDATE on task, because it locks rows.
    ('cleaner', 'USAGE', 'schema', '{tenon}', NULL),
    ('cleaner', 'SELECT', 'table', '{migration,setting,queue,paused,task,worker,lock,chore_failure}', NULL),
    ('cleaner', 'SELECT', 'sequence', '{task_id_seq,note_id}', NULL),
    ('cleaner', 'INSERT', 'table', '{chore_failure}', NULL),
    ('cleaner', 'UPDATE', 'table', '{chore_failure}', NULL),
    ('cleaner', 'DELETE', 'table', '{chore_failure,worker}', NULL),
    ('cleaner', 'UPDATE', 'table', '{task}', '{run_at}'),
    ('cleaner', 'UPDATE', 'table', '{worker}', '{state,ended_at}'),
    ('cleaner', 'UPDATE', 'table', '{setting}', '{leader_key,sleeper_key}'),
    ('cleaner', 'SELECT', 'table', '{set_aside}', '{part,id,until}'),
    ('cleaner', 'SELECT', 'table', '{waiting}', '{until}'),
    ('cleaner', 'SELECT', 'table', '{suspect}', '{alone,claims}'),
    ('cleaner', 'SELECT', 'table', '{schedule}', '{due_at}'),
    ('cleaner', 'EXECUTE', 'function', '{copied,run_schedules,recover,settle,settle_all,has_notes,has_unsettled,newest_message,messages_wait,relay_begin,relay_done,relay_failed,relay_watch,relay_read,limits_due_ms,make_partitions,drop_history,purge,fold_minutes,random_key,is_span,settings}', NULL),
    -- For /metrics: how many, and how long; no payload and no result of what has ended.
    ('cleaner', 'EXECUTE', 'function', '{outbox_depth,queue_names,depth_fresh,queue_depth,count_depth,oldest_transaction_ms}', NULL),
    ('cleaner', 'SELECT', 'table', '{depth,depth_count}', NULL),
    ('cleaner', 'INSERT', 'table', '{depth,depth_count}', NULL),
    ('cleaner', 'UPDATE', 'table', '{depth,depth_count}', NULL),
    ('cleaner', 'DELETE', 'table', '{depth}', NULL),
    ('cleaner', 'SELECT', 'table', '{dead}', '{queue,kind,dead_at}'),
    ('cleaner', 'SELECT', 'table', '{limit}', '{name,strict,max_running}'),
    ('cleaner', 'SELECT', 'table', '{limit_task}', '{key,state}'),
    ('cleaner', 'SELECT', 'table', '{flow_wait}', '{task}'),
    ('cleaner', 'SELECT', 'table', '{flow}', '{ended_at}')
$$;

-- A name without arguments means all functions of that name.
CREATE OR REPLACE FUNCTION tenon.grant_parts(parts text[], role text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    r record;
BEGIN
    FOR r IN SELECT x.privilege || coalesce(' (' || array_to_string(x.columns, ', ') || ')', '') AS privileges, x.what,
                    CASE WHEN x.what = 'function' AND position('(' IN o) = 0
                         THEN (SELECT string_agg(f.oid::regprocedure::text, ', ') FROM pg_proc f
                                WHERE f.pronamespace = 'tenon'::regnamespace AND f.proname = o)
                         WHEN x.what = 'schema' THEN o
                         ELSE 'tenon.' || o END AS object
               FROM tenon.rights() x LEFT JOIN LATERAL unnest(x.objects) o ON true
              WHERE x.part = ANY (parts) LOOP
        IF r.what = 'all tables' THEN
            EXECUTE format('GRANT %s ON ALL TABLES IN SCHEMA tenon TO %I', r.privileges, role);
        ELSE
            EXECUTE format('GRANT %s ON %s %s TO %I', r.privileges, r.what, r.object, role);
        END IF;
    END LOOP;
END $$;

CREATE OR REPLACE FUNCTION tenon.grant_producer(role text, queues text[] DEFAULT NULL, kinds text[] DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
    PERFORM tenon.grant_parts('{producer,enqueue}', role);
    DELETE FROM tenon.producer p WHERE p.role = quote_ident(role)::regrole;
    IF queues IS NOT NULL OR kinds IS NOT NULL THEN
        INSERT INTO tenon.producer VALUES (quote_ident(role)::regrole, queues, kinds);
    END IF;
END $$;

COMMENT ON FUNCTION tenon.grant_producer IS $$Lets a role enqueue and cancel tasks, see those that it enqueued and wait for their results, send signals, and finish, extend and record the steps and the progress of the tasks that it runs, and nothing else, like `tenon setup --grant-producer ROLE`. With `queues` or `kinds` it may enqueue and run only tasks of those (`tenon.producer`); without them, all tasks. For the owner of the schema.$$;

CREATE OR REPLACE FUNCTION tenon.grant_publisher(role text, exchanges text[] DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
    PERFORM tenon.grant_parts('{publisher}', role);
    DELETE FROM tenon.publisher p WHERE p.role = quote_ident(role)::regrole;
    IF exchanges IS NOT NULL THEN
        INSERT INTO tenon.publisher VALUES (quote_ident(role)::regrole, exchanges);
    END IF;
END $$;

COMMENT ON FUNCTION tenon.grant_publisher IS $$Lets a role publish messages, to these exchanges or to all, and nothing else; like `tenon setup --grant-publisher ROLE`. For the owner of the schema.$$;

CREATE OR REPLACE FUNCTION tenon.grant_intake(role text) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$ SELECT tenon.grant_parts('{intake}', role) $$;

COMMENT ON FUNCTION tenon.grant_intake IS $$Lets a role run `tenon intake`, and nothing else; like `tenon setup --grant-intake ROLE`. For the owner of the schema.$$;

CREATE OR REPLACE FUNCTION tenon.grant_reader(role text) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$ SELECT tenon.grant_parts('{reader}', role) $$;

COMMENT ON FUNCTION tenon.grant_reader IS $$Lets a role read everything: `tenon status`, `tenon list`, `tenon show`, the views; like `tenon setup --grant-reader ROLE`. For the owner of the schema.$$;

CREATE OR REPLACE FUNCTION tenon.grant_operator(role text) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$ SELECT tenon.grant_parts('{reader,enqueue,operator}', role) $$;

COMMENT ON FUNCTION tenon.grant_operator IS $$Lets a role read everything, pause and resume, set defaults and settings, enqueue, cancel, retry, change and delete any task, send signals, set and change schedules; like `tenon setup --grant-operator ROLE`. For the owner of the schema.$$;

CREATE OR REPLACE FUNCTION tenon.grant_worker(role text) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$ SELECT tenon.grant_parts('{worker}', role) $$;

COMMENT ON FUNCTION tenon.grant_worker IS $$Lets a role run `tenon worker`, and nothing else; like `tenon setup --grant-worker ROLE`. For the owner of the schema.$$;

CREATE OR REPLACE FUNCTION tenon.grant_cleaner(role text) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$ SELECT tenon.grant_parts('{cleaner}', role) $$;

COMMENT ON FUNCTION tenon.grant_cleaner IS $$Lets a role run `tenon cleaner`, and nothing else; like `tenon setup --grant-cleaner ROLE`. For the owner of the schema.$$;
