-- What setup does last, each time: rights, pinned settings, comments, rows and partitions that must be there.

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA tenon FROM PUBLIC;

-- What a function means does not depend on its caller's settings. With standard_conforming_strings = off a backslash in a text is
-- read differently, and PostgreSQL reads the body of a function by the setting at the time of the call. So every function that
-- pins search_path pins this as well, here for all of them. A function that pins nothing is called only by functions that do, or
-- contains no backslash. sql_strangers_test checks the catalog.
DO $$
DECLARE
    f regprocedure;
BEGIN
    FOR f IN SELECT p.oid FROM pg_proc p
              WHERE p.pronamespace = 'tenon'::regnamespace AND array_to_string(p.proconfig, ' ') LIKE '%search_path=%' LOOP
        EXECUTE format('ALTER FUNCTION %s SET standard_conforming_strings = on', f);
    END LOOP;
END $$;

-- These functions look rows up in tables that are empty when a session plans, and full when it runs: without a statistic a table
-- of ten pages is scanned, and the plan stays (docs/decisions/0014; sql_plans_test plans each at one row and at many). Where a
-- scan is all there is, its price of 10^10 would have the plan compiled.
DO $$
DECLARE
    f regprocedure;
BEGIN
    FOR f IN SELECT p.oid FROM pg_proc p
              WHERE p.pronamespace = 'tenon'::regnamespace AND p.proname = ANY ('{
                        ahead_of,await,may_publish,messages_wait,newest_message,outbox_depth,relay_done,relay_failed,relay_read,relay_watch,backlog_seen,bad_ancestor,cancel,cancel_members,candidates,change,check_parents,
                        claim_alone,enqueue_tasks,extend,few,few_later,finish,finish_many,has_notes,has_tasks,has_unsettled,holder,join_flow,join_holder,
                        join_waiting,last_of_steps,log_message,limit_changed,limit_in_way,limit_raised,list,may_retry,parent_results,progress,purge_flows,
                        queue_limits,queue_depth,queue_names,rate_seen,record_end,record_steps,recover,requeue,result,search,settle_again,settle_all,
                        settle_flows,settle_keys,settle_limits,settle_signals,slots_for,step,steps,steps_of,suspects_due,take_limit,that_recorded,
                        take_turn,unblock,undo_ids,wait_signal,why_alone,why_ended,why_limited,why_one_of,why_parents,why_suspected}'::text[]) LOOP
        EXECUTE format('ALTER FUNCTION %s SET enable_seqscan = off', f);
        EXECUTE format('ALTER FUNCTION %s SET jit = off', f);
    END LOOP;
END $$;

-- Columns of the same name mean the same: a column without a comment has that of the source table.
DO $$
DECLARE
    c record;
BEGIN
    FOR c IN SELECT o.attrelid::regclass AS relation, o.attname, col_description(t.attrelid, t.attnum) AS text
               FROM (VALUES ('tenon.task'::regclass,
                             '{tenon.again,tenon.unique_hold,tenon.history,tenon.dead,tenon.attempt,tenon.flow_task,tenon.ready,tenon.tasks,tenon.anywhere}'::regclass[]),
                            ('tenon.message', '{tenon.message_sent,tenon.outbox}'),
                            ('tenon.schedule', '{tenon.schedules}'), ('tenon.paused', '{tenon.schedules}'), ('tenon.flow', '{tenon.flows}'), ('tenon.limit', '{tenon.limits}')
                    ) s (source, copies)
               JOIN pg_attribute t ON t.attrelid = s.source AND t.attnum > 0 AND NOT t.attisdropped
               JOIN pg_attribute o ON o.attrelid = ANY (s.copies) AND o.attname = t.attname AND (s.source, t.attname) <> ('tenon.paused'::regclass, 'name')
              WHERE col_description(o.attrelid, o.attnum) IS NULL LOOP
        EXECUTE format('COMMENT ON COLUMN %s.%I IS %L', c.relation, c.attname, c.text);
    END LOOP;
END $$;

-- The rows that must be there; they may be missing after a dump without data. Confined roles stay confined. A copy that has tasks
-- is left for tenon adopt.
INSERT INTO tenon.setting (confined) SELECT EXISTS (SELECT FROM tenon.producer) WHERE NOT EXISTS (SELECT FROM tenon.setting);
INSERT INTO tenon.settler SELECT true WHERE NOT EXISTS (SELECT FROM tenon.settler);
INSERT INTO tenon.relay SELECT true WHERE NOT EXISTS (SELECT FROM tenon.relay);
INSERT INTO tenon.home
SELECT h.* FROM tenon.home_here() h WHERE NOT EXISTS (SELECT FROM tenon.home) AND NOT EXISTS (SELECT FROM tenon.task);

-- Every enqueue reads these. Before its first ANALYZE a table passes for ten pages, and they would be hashed.
ANALYZE tenon.setting, tenon.queue, tenon.kind, tenon.paused, tenon.producer, tenon.schedule;
SELECT tenon.make_partitions();
