/* label: sql */
/* What each part is granted, all of it: a new function, table or column is given to nobody
 * unnoticed. That the rights are also asked for, sql_rights_test tries. */
#include "tests/support/fixture.h"

#include <stdio.h>

/* Functions by name; tables, views and sequences by right, with the columns where it is not all of
 * them. */
static const struct {
    const char *part, *schema, *functions, *relations;
} grants[] = {
    {"stranger", "", "", ""},
    {"producer", "USAGE",
     "await batch cancel cancel_flow close count_tasks enqueue enqueue_jsonb enqueue_many "
     "enqueue_many_jsonb enqueue_routed extend finish finish_many flow list log_message mine "
     "once "
     "parent_results progress result route_of signal step steps take_limit wait_signal why why_of",
     "SELECT migration"},
    {"publisher", "USAGE", "form_of mine_published publish publish_bodies publish_many",
     "SELECT migration"},
    {"intake", "USAGE", "copied intake_begin intake_note take_in", "SELECT migration"},
    {"reader", "USAGE",
     "await backlog_seen copied count_tasks demand depth_fresh error_line find handled "
     "limit_rule list next_tick outbox_depth parent_results pause_advice "
     "pause_sentence queue_depth "
     "queue_names rate_seen "
     "result rights "
     "slots_wanted starting_of why why_of",
     "SELECT again again_note anywhere attempt audit chore_failure dead depth depth_count failing "
     "flow flow_note flow_task flow_wait "
     "flows history home intake kind limit limit_due limit_event limit_start limit_task limit_turn "
     "limits "
     "lock log_line message message_sent migration minute outbox partition paused producer "
     "publisher queue ready relay schedule schedules seen "
     "set_aside setting settler signal stream_place "
     "suspect task task_step tasks unique_hold waiting worker"},
    {"operator", "USAGE",
     "adopt await backlog_seen batch cancel cancel_flow cancel_where change close "
     "copied count_tasks delete delete_messages delete_where demand depth_fresh drain enqueue "
     "enqueue_jsonb enqueue_many enqueue_many_jsonb enqueue_routed error_line find flow handled "
     "limit_rule list mine next_tick outbox_depth parent_results pause pause_advice pause_limit "
     "pause_schedule "
     "pause_sentence "
     "queue_depth queue_names rate_seen remove_limit remove_schedule replay_messages result resume "
     "resume_limit "
     "resume_schedule retry retry_messages retry_where rights route_of run_now run_now_where "
     "run_schedule_now set_kind set_limit set_queue set_schedule set_schedule_jsonb "
     "set_settings set_where signal slots_wanted starting_of sync sync_schedules take_limit "
     "undo_retry_where why why_of",
     "SELECT again again_note anywhere attempt audit chore_failure dead depth depth_count failing "
     "flow flow_note flow_task flow_wait "
     "flows history home intake kind limit limit_due limit_event limit_start limit_task limit_turn "
     "limits "
     "lock log_line message message_sent migration minute outbox partition paused producer "
     "publisher queue ready relay schedule schedules seen "
     "set_aside setting settler signal stream_place "
     "suspect task task_step tasks unique_hold waiting worker"},
    {"worker", "USAGE",
     "add_counts claim_alone copied log_fields_kept make_partitions needs_note paused_kinds "
     "printed_bytes progress_kept random_key record_end record_end_of record_steps requeue "
     "settings steps_of take_turn",
     "DELETE task\n"
     "INSERT history log_line minute worker\n"
     "SELECT dead(claims id worker_id)\n"
     "SELECT history(claims id outcome worker_id)\n"
     "SELECT history_part\n"
     "SELECT kind(history_keep)\n"
     "SELECT log_line_part\n"
     "SELECT migration minute paused setting suspect task worker\n"
     "UPDATE minute\n"
     "UPDATE task(claim_key claims progress start_time timeout_ms worker_id)\n"
     "UPDATE worker(alone_since backing_off broker_away ended_at lock_key rounds_failing "
     "starting state)"},
    {"cleaner", "USAGE",
     "copied count_depth depth_fresh drop_history fold_minutes has_notes "
     "has_unsettled is_span limits_due_ms "
     "make_partitions messages_wait newest_message oldest_transaction_ms outbox_depth purge "
     "queue_depth queue_names random_key recover relay_begin relay_done relay_failed relay_read "
     "relay_watch run_schedules settings settle settle_all",
     "DELETE chore_failure depth worker\n"
     "INSERT chore_failure depth depth_count\n"
     "SELECT chore_failure depth depth_count lock migration paused queue setting task worker\n"
     "SELECT dead(dead_at kind queue)\n"
     "SELECT flow(ended_at)\n"
     "SELECT flow_wait(task)\n"
     "SELECT limit(max_running name strict)\n"
     "SELECT limit_task(key state)\n"
     "SELECT note_id\n"
     "SELECT schedule(due_at)\n"
     "SELECT set_aside(id part until)\n"
     "SELECT suspect(alone claims)\n"
     "SELECT task_id_seq\n"
     "SELECT waiting(until)\n"
     "UPDATE chore_failure depth depth_count\n"
     "UPDATE setting(leader_key sleeper_key)\n"
     "UPDATE task(run_at)\n"
     "UPDATE worker(ended_at state)"},
};

static const char functions_of[] =
    "SELECT coalesce(string_agg(DISTINCT f.proname, ' ' ORDER BY f.proname), '') FROM pg_proc f"
    " WHERE f.pronamespace = 'tenon'::regnamespace"
    " AND has_function_privilege('%s', f.oid, 'EXECUTE')";

static const char relations_of[] =
    "WITH relation AS (SELECT c.* FROM pg_class c WHERE c.relnamespace = 'tenon'::regnamespace AND"
    " c.relkind IN ('r', 'p', 'v', 'S') AND NOT c.relispartition) SELECT"
    " coalesce(string_agg(l.line, E'\\n' ORDER BY l.line COLLATE \"C\"), '') FROM ("
    "SELECT p || ' ' || string_agg(c.relname, ' ' ORDER BY c.relname) FROM relation c CROSS JOIN"
    " unnest('{SELECT,INSERT,UPDATE,DELETE,TRUNCATE,REFERENCES,TRIGGER}'::text[]) p"
    " WHERE c.relkind <> 'S' AND has_table_privilege('%1$s', c.oid, p) GROUP BY p"
    " UNION ALL "
    "SELECT p || ' ' || c.relname || '(' || string_agg(a.attname, ' ' ORDER BY a.attname) || ')'"
    " FROM relation c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT"
    " a.attisdropped CROSS JOIN unnest('{SELECT,INSERT,UPDATE,REFERENCES}'::text[]) p"
    " WHERE c.relkind <> 'S' AND NOT has_table_privilege('%1$s', c.oid, p)"
    " AND has_column_privilege('%1$s', c.oid, a.attnum, p) GROUP BY p, c.relname"
    " UNION ALL "
    "SELECT p || ' ' || c.relname FROM relation c"
    " CROSS JOIN unnest('{USAGE,SELECT,UPDATE}'::text[]) p"
    " WHERE c.relkind = 'S' AND has_sequence_privilege('%1$s', c.oid, p)) l (line)";

static void assert_granted(const char *part, const char *what, char *got, const char *want)
{
    if (strcmp(got, want) != 0) {
        print_error("%s of a %s are\n%s\nand should be\n%s\n", what, part, got, want);
        fail();
    }
    free(got);
}

static void test_each_part_is_granted_this_and_no_more(void **state)
{
    struct fixture *fx = *state;
    for (size_t i = 0; i < sizeof grants / sizeof *grants; i++) {
        char role[80];
        (void)snprintf(role, sizeof role, "%s_p", fx->database);
        test_sql(fx, "CREATE ROLE %s", role);
        if (*grants[i].schema) {
            test_sql(fx, "SELECT tenon.grant_%s('%s')", grants[i].part, role);
        }
        assert_granted(grants[i].part, "rights in the schema",
                       test_sql_text(fx,
                                     "SELECT concat_ws(' ', CASE WHEN has_schema_privilege('%1$s',"
                                     " 'tenon', 'USAGE') THEN 'USAGE' END, CASE WHEN"
                                     " has_schema_privilege('%1$s', 'tenon', 'CREATE') THEN"
                                     " 'CREATE' END)",
                                     role),
                       grants[i].schema);
        assert_granted(grants[i].part, "functions", test_sql_text(fx, functions_of, role),
                       grants[i].functions);
        assert_granted(grants[i].part, "tables", test_sql_text(fx, relations_of, role),
                       grants[i].relations);
        test_sql(fx, "DROP OWNED BY %s; DROP ROLE %s", role, role);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_each_part_is_granted_this_and_no_more),
    };
    return RUN_GROUP(tests);
}
