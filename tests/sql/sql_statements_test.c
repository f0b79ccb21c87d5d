/* label: sql */
/* Every embedded statement on a fresh database: it can be prepared, hot ones are planned without a
 * scan even when the table looks empty, and claims stay HOT updates. */
#include "tests/support/polls.h"

#include "cleaner/statements.h"
#include "cli/statements.h"
#include "core/base/buf.h"
#include "core/base/now.h"
#include "core/db/db.h"
#include "core/statements.h"
#include "enqueue/statements.h"
#include "handlers/statements.h"
#include "intake/statements.h"
#include "ui/statements.h"
#include "worker/decide/decider.h"
#include "worker/statements.h"

#include <stdio.h>

static const struct {
    const char *dir;
    const struct statement *const *all;
    bool hot; /* they run in a session of kind DB_HOT, but for those that say "-- scans" */
} parts[] = {
    {"core", sql_core_all, false},    {"enqueue", sql_enqueue_all, false},
    {"worker", sql_worker_all, true}, {"cleaner", sql_cleaner_all, true},
    {"cli", sql_cli_all, false},      {"handlers", sql_handlers_all, false},
    {"ui", sql_ui_all, true},         {"intake", sql_intake_all, false},
};

/* A connection with the very settings that db_open() gives a session of this kind. */
static PGconn *connect_as(struct fixture *fx, enum db_kind kind)
{
    struct db *db = NULL;
    struct fault f = {0};
    struct rows *rows = NULL;
    static const struct statement settings = {
        "settings", "SELECT format('SET SESSION %I = %L', name, setting) FROM pg_settings"
                    " WHERE source = 'session'"};
    assert_ok(db_open(fx->database_url, kind, "test", &db, &f), &f);
    assert_ok(db_exec(db, &settings, NULL, 0, &rows, &f), &f);
    PGconn *conn = sql_connect(fx->database_url);
    for (size_t i = 0; i < rows_count(rows); i++) {
        sql_run(conn, "%s", rows_text(rows, i, 0));
    }
    rows_free(rows);
    db_close(db);
    return conn;
}

static bool scans(const struct statement *st)
{
    return strstr(st->text, "\n-- scans\n") || strncmp(st->text, "-- scans\n", 9) == 0;
}

/* Prepared under its name; how many parameters it takes. */
static int prepare(PGconn *conn, const char *dir, const struct statement *st)
{
    PGresult *result = PQprepare(conn, st->name, st->text, 0, NULL);
    if (PQresultStatus(result) != PGRES_COMMAND_OK) {
        fail_msg("%s/%s.sql: %s", dir, st->name, PQresultErrorMessage(result));
    }
    PQclear(result);
    result = PQdescribePrepared(conn, st->name);
    int n = PQnparams(result);
    PQclear(result);
    return n;
}

static void test_every_statement_prepares(void **state)
{
    struct fixture *fx = *state;
    size_t count = 0;
    for (size_t p = 0; p < sizeof parts / sizeof *parts; p++) {
        PGconn *conn = connect_as(fx, parts[p].hot ? DB_HOT : DB_PLAIN);
        for (const struct statement *const *st = parts[p].all; *st; st++) {
            (void)prepare(conn, parts[p].dir, *st);
            count++;
        }
        PQfinish(conn);
    }
    assert_true(count > 20);
}

/* A table through which rows have gone, and that statistics call empty. */
static void make_empty_and_analyzed(struct fixture *fx)
{
    struct held c;
    test_sql(fx, "SELECT tenon.enqueue_many('a', array_fill('1'::jsonb, ARRAY[3000])), "
                 "tenon.enqueue_many('a', array_fill('1'::jsonb, ARRAY[3000]), delay => '1 h')");
    held_new(fx, &c);
    assert_true(held_finish(fx, &sql_finish, &c, "{}"));
    test_sql(fx, "DELETE FROM tenon.task; DELETE FROM tenon.history");
    /* autovacuum's own transactions may keep the rows, or the lock that cutting the file needs */
    int64_t deadline_ms = patience_end_ms(30000);
    do {
        assert_true(now_ms() < deadline_ms);
        test_sql(fx, "VACUUM ANALYZE tenon.task, tenon.history, tenon.dead, tenon.worker,"
                     " tenon.queue, tenon.kind");
    } while (test_sql_int(fx, "SELECT relpages FROM pg_class WHERE oid = 'tenon.task'::regclass"));
}

/* Does a plan read all of a table that can be large? */
static bool plan_scans(const char *plan)
{
    static const char *const large[] = {"Seq Scan on tenon.task",      "Seq Scan on task",
                                        "Seq Scan on tenon.dead",      "Seq Scan on dead",
                                        "Seq Scan on history",         "Seq Scan on tenon.history",
                                        "Seq Scan on tenon.history_1", "Seq Scan on history_1"};
    for (size_t i = 0; i < sizeof large / sizeof *large; i++) {
        if (strstr(plan, large[i])) {
            return true;
        }
    }
    return false;
}

static char *explain(PGconn *conn, const char *dir, const struct statement *st)
{
    char arguments[256] = "";
    int n = prepare(conn, dir, st);
    for (int i = 0; i < n; i++) {
        size_t len = strlen(arguments);
        (void)snprintf(arguments + len, sizeof arguments - len, "%sNULL", i ? ", " : "(");
    }
    PGresult *result = PQexec(conn, "BEGIN");
    PQclear(result);
    char sql[512];
    (void)snprintf(sql, sizeof sql, "EXPLAIN EXECUTE %s%s%s", st->name, arguments, n ? ")" : "");
    result = PQexec(conn, sql);
    if (PQresultStatus(result) != PGRES_TUPLES_OK) {
        fail_msg("%s/%s.sql: %s", dir, st->name, PQresultErrorMessage(result));
    }
    struct buf plan;
    buf_init(&plan, 1 << 20);
    for (int i = 0; i < PQntuples(result); i++) {
        buf_printf(&plan, "%s\n", PQgetvalue(result, i, 0));
    }
    assert_false(plan.failed);
    char *text = strdup(buf_text(&plan));
    buf_clear(&plan);
    PQclear(result);
    sql_run(conn, "ROLLBACK");
    return text;
}

/* EXPLAIN is only for what has a plan. */
static bool has_plan(const struct statement *st)
{
    const char *text = st->text;
    while (strncmp(text, "--", 2) == 0) {
        text = strchr(text, '\n') + 1;
    }
    static const char *const words[] = {"SELECT", "WITH", "INSERT", "UPDATE", "DELETE", "VALUES"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strncmp(text, words[i], strlen(words[i])) == 0) {
            return true;
        }
    }
    return false;
}

/* EXPLAIN asks for the rights that a run needs, but for those inside of functions. */
/* Those of core/ that readers and the cleaner share. */
static bool is_of_status(const struct statement *st)
{
    return st == &sql_status_queues || st == &sql_status_unhandled;
}

static void test_each_part_may_run_its_statements(void **state)
{
    static const struct {
        const char *part, *dir;
        const struct statement *const *all;
    } rights[] = {{"producer", "enqueue", sql_enqueue_all}, {"intake", "intake", sql_intake_all},
                  {"worker", "worker", sql_worker_all},     {"worker", "core", sql_core_all},
                  {"cleaner", "cleaner", sql_cleaner_all},  {"cleaner", "core", sql_core_all}};
    struct fixture *fx = *state;
    for (size_t i = 0; i < sizeof rights / sizeof *rights; i++) {
        bool is_worker = strcmp(rights[i].part, "worker") == 0;
        test_sql(fx, "CREATE ROLE %s_p; SELECT tenon.grant_%s('%s_p')", fx->database,
                 rights[i].part, fx->database);
        test_sql(fx, "SELECT tenon.grant_publisher('%s_p') WHERE '%s' = 'producer'", fx->database,
                 rights[i].part); /* libtenon publishes, too */
        PGconn *conn = connect_as(fx, DB_PLAIN);
        sql_run(conn, "SET SESSION AUTHORIZATION %s_p", fx->database);
        for (const struct statement *const *st = rights[i].all; *st; st++) {
            if (has_plan(*st) && !(is_worker && is_of_status(*st))) {
                free(explain(conn, rights[i].dir, *st));
            }
        }
        PQfinish(conn);
        test_sql(fx, "DROP OWNED BY %s_p; DROP ROLE %s_p", fx->database, fx->database);
    }
}

static void test_hot_plans(void **state)
{
    struct fixture *fx = *state;
    size_t count = 0;
    make_empty_and_analyzed(fx);
    PGconn *conn = connect_as(fx, DB_HOT);
    for (size_t p = 0; p < sizeof parts / sizeof *parts; p++) {
        for (const struct statement *const *st = parts[p].all; parts[p].hot && *st; st++) {
            if (scans(*st) || !has_plan(*st)) {
                continue;
            }
            sql_run(conn, "DEALLOCATE ALL");
            char *plan = explain(conn, parts[p].dir, *st);
            if (plan_scans(plan)) {
                fail_msg("%s/%s.sql scans:\n%s", parts[p].dir, (*st)->name, plan);
            }
            free(plan);
            count++;
        }
    }
    assert_true(count > 15);
    PQfinish(conn);
}

/* That the settings are what does it, and that the test above can see a scan. */
static void test_without_the_settings_it_would_scan(void **state)
{
    struct fixture *fx = *state;
    make_empty_and_analyzed(fx);
    static const struct statement plain = {
        "plain", "SELECT id FROM tenon.task WHERE start_time IS NULL AND id = ANY ($1::bigint[])"};
    PGconn *conn = connect_as(fx, DB_PLAIN);
    sql_run(conn, "SET plan_cache_mode = force_generic_plan; SET enable_indexscan = off;"
                  " SET enable_bitmapscan = off");
    char *plan = explain(conn, "tests", &plain);
    assert_true(plan_scans(plan));
    free(plan);
    PQfinish(conn);
}

/* The plans inside of functions, as auto_explain reports them. */
static void keep_notice(void *arg, const PGresult *result)
{
    const char *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    buf_put_text(arg, text ? text : "");
}

static void test_plans_inside_of_functions(void **state)
{
    struct fixture *fx = *state;
    struct held c[4];
    static const char *const calls[] = {
        "SELECT tenon.enqueue('a', unique_key => 'k')",
        "SELECT tenon.enqueue('a', unique_key => 'k')", "SELECT tenon.enqueue_many('a', '{1,2,3}')",
        "SELECT tenon.enqueue_many('a', '{1,2}', unique_keys => '{k,l}')"};
    make_empty_and_analyzed(fx);
    for (size_t i = 0; i < 4; i++) {
        held_new(fx, &c[i]);
    }
    fx->conn = (PQfinish(fx->conn), connect_as(fx, DB_HOT));
    struct buf nested;
    buf_init(&nested, 1 << 20);
    (void)PQsetNoticeReceiver(fx->conn, keep_notice, &nested);
    test_sql(fx, "LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0;"
                 " SET auto_explain.log_nested_statements = on;"
                 "SET client_min_messages = log");
    buf_empty(&nested);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        test_sql(fx, "%s", calls[i]);
    }
    free(held_requeue(fx, &c[0], "failed", "x", NULL));
    free(held_requeue(fx, &c[1], "dead", "x", NULL));
    char text[HELD_TEXT_BYTES];
    held_text(&c[2], text);
    test_sql(fx, "SELECT tenon.finish('%s')", text);
    test_sql(fx, "SELECT tenon.cancel(%lld)", (long long)c[3].id);
    assert_false(nested.failed);
    assert_contains(buf_text(&nested), "Index Scan using task_pkey on task");
    if (plan_scans(buf_text(&nested))) {
        fail_msg("a function scans:\n%s", buf_text(&nested));
    }
    buf_clear(&nested);
}

enum { CLAIMS = 1000 };

/* Updates of tenon.task in this transaction that were no HOT updates, and all of them. */
static void updates_of(struct fixture *fx, int64_t *ret_cold, int64_t *ret_all)
{
    static const char sql[] =
        "SELECT %s FROM pg_stat_xact_user_tables WHERE relid = 'tenon.task'::regclass";
    *ret_cold = test_sql_int(fx, sql, "n_tup_upd - n_tup_hot_upd");
    *ret_all = test_sql_int(fx, sql, "n_tup_upd");
}

static int n_params(const struct statement *st)
{
    return st == &sql_claim ? 6 : POLL_PARAMS;
}

/* Claim 1,000 fresh tasks in one transaction, so that nothing is pruned meanwhile, as while an old
 * snapshot is held. `params` may name 100 tasks at a time, or all. */
static void hot_claims(struct fixture *fx, const char *payload, const struct statement *st,
                       const char *const *params)
{
    int64_t claimed = 0, cold_before, all_before, cold, all;
    test_sql(fx, "TRUNCATE tenon.task RESTART IDENTITY");
    test_sql(fx, "SELECT tenon.enqueue_many('a', array_fill(%s::jsonb, ARRAY[%d]))", payload,
             CLAIMS);
    test_sql(fx, "BEGIN");
    updates_of(fx, &cold_before, &all_before);
    while (claimed < CLAIMS) {
        PGresult *result = statement_run(fx->conn, st, params, n_params(st));
        int n = st == &sql_poll ? poll_claimed(result) : PQntuples(result);
        assert_true(n > 0);
        claimed += n;
        PQclear(result);
    }
    updates_of(fx, &cold, &all);
    test_sql(fx, "COMMIT");
    assert_int_equal(all - all_before, CLAIMS);
    if (cold != cold_before) {
        fail_msg("%s.sql, payload %s: %lld of %d claims were no HOT updates", st->name, payload,
                 (long long)(cold - cold_before), CLAIMS);
    }
}

static void test_claims_are_hot(void **state)
{
    struct fixture *fx = *state;
    static const char *const payloads[] = {"'1'", "'{\"n\": 12345}'", "to_jsonb(repeat('x', 300))",
                                           "to_jsonb(repeat('x', 1500))"};
    char worker[UUID_BYTES];
    worker_make(fx, worker);
    char *ids = test_sql_text(fx, "SELECT array_agg(n) FROM generate_series(1, %d) n", CLAIMS);
    const char *const poll[] = {worker, "{a}", "100", POLL_HEAD};
    const char *const claim[] = {worker, ids, "{default}", "{a}", "16777216", ids};
    for (size_t i = 0; i < sizeof payloads / sizeof *payloads; i++) {
        hot_claims(fx, payloads[i], &sql_poll, poll);
        hot_claims(fx, payloads[i], &sql_claim, claim);
    }
    free(ids);
}

/* How many rows one claim of ten tasks looks at, planned when statistics called the table empty. */
static int64_t rows_read(struct fixture *fx, const struct statement *st, const char *const *params)
{
    test_sql(fx, "TRUNCATE tenon.task RESTART IDENTITY; SELECT tenon.enqueue('a');"
                 "ANALYZE tenon.task");
    PGconn *conn = connect_as(fx, DB_HOT);
    (void)prepare(conn, "worker", st);
    PGresult *result = PQexecPrepared(conn, st->name, n_params(st), params, NULL, NULL, 0);
    assert_int_equal(PQntuples(result), 1 + (st == &sql_poll));
    PQclear(result);
    test_sql(fx, "SELECT tenon.enqueue_many('a', array_fill('1'::jsonb, ARRAY[3000]))");
    sql_run(conn, "BEGIN");
    result = PQexecPrepared(conn, st->name, n_params(st), params, NULL, NULL, 0);
    assert_int_equal(PQntuples(result), 10 + (st == &sql_poll));
    PQclear(result);
    int64_t n = sql_int(conn, "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables "
                              "WHERE relid = 'tenon.task'::regclass");
    sql_run(conn, "COMMIT");
    PQfinish(conn);
    return n;
}

static void test_claims_read_no_more_than_they_take(void **state)
{
    struct fixture *fx = *state;
    char worker[UUID_BYTES];
    worker_make(fx, worker);
    const char *const poll[] = {worker, "{a}", "10", POLL_HEAD};
    const char *const claim[] = {worker,      "{1,2,3,4,5,6,7,8,9,10,11}",
                                 "{default}", "{a}",
                                 "16777216",  POLL_KEYS};
    assert_in_range(rows_read(fx, &sql_claim, claim), 10, 40);
    assert_in_range(rows_read(fx, &sql_poll, poll), 10, 40);
}

/* Payloads of 1 MB, which compress well or not at all: a claim takes 16 MiB of them. */
static void test_claims_are_bounded_in_bytes(void **state)
{
    struct fixture *fx = *state;
    static const char *const payloads[] = {
        "to_jsonb(repeat('x', 1000000))",
        "(SELECT to_jsonb(string_agg(md5(random()::text), '')) FROM generate_series(1, 31250))"};
    char worker[UUID_BYTES];
    worker_make(fx, worker);
    char *ids = test_sql_text(fx, "SELECT array_agg(n) FROM generate_series(1, 80) n");
    const char *const poll[] = {worker, "{a}", "80", POLL_HEAD};
    const char *const by_ids[] = {worker, ids, "{default}", "{a}", "16777216", ids};
    const char *const *const params[] = {poll, by_ids};
    const struct statement *const all[] = {&sql_poll, &sql_claim};
    for (size_t i = 0; i < 4; i++) {
        const struct statement *st = all[i % 2];
        test_sql(fx, "TRUNCATE tenon.task RESTART IDENTITY");
        test_sql(fx, "SELECT tenon.enqueue_many('a', array_fill(%s, ARRAY[80]))", payloads[i / 2]);
        PGresult *result = statement_run(fx->conn, st, params[i % 2], n_params(st));
        assert_in_range(PQntuples(result), 16, 18);
        PQclear(result);
    }
    free(ids);
}

/* No index and no predicate names what a claim changes, and no second index contains id. */
static void test_indexes_leave_claims_alone(void **state)
{
    struct fixture *fx = *state;
    char *touched = test_sql_text(
        fx, "SELECT string_agg(pg_get_indexdef(x.indexrelid), '; ') FROM pg_index x, pg_attribute a"
            " WHERE x.indrelid = 'tenon.task'::regclass AND a.attrelid = x.indrelid"
            " AND a.attname IN ('start_time', 'worker_id', 'claims')"
            " AND pg_get_indexdef(x.indexrelid) ~ ('\\m' || a.attname || '\\M')");
    if (touched) {
        fail_msg("a claim must change no index: %s", touched);
    }
    char *with_id = test_sql_text(
        fx, "SELECT string_agg(x.indexrelid::regclass::text, ' ') FROM pg_index x, pg_attribute a"
            " WHERE x.indrelid = 'tenon.task'::regclass AND a.attrelid = x.indrelid"
            " AND a.attname = 'id'"
            " AND a.attnum = ANY (x.indkey)");
    assert_contains(with_id, "task_pkey");
    assert_null(strchr(with_id, ' '));
    free(with_id);
    assert_int_equal(
        test_sql_int(fx, "SELECT count(*) FROM pg_index WHERE indrelid = 'tenon.task'::regclass"),
        7);
    /* triggers and foreign keys would cost every claim or end too */
    assert_int_equal(
        test_sql_int(fx, "SELECT count(*) FROM pg_trigger WHERE tgrelid = 'tenon.task'::regclass"),
        0);
}

static size_t count_of(const char *text, const char *part)
{
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, part)); at += strlen(part)) {
        n++;
    }
    return n;
}

/* What waits for the end of a task hears of it from whoever deletes its row. */
static size_t check_ends(const char *name, const char *text)
{
    size_t deletes = count_of(text, "DELETE FROM tenon.task t");
    if (count_of(text, "DELETE FROM tenon.task\n") + count_of(text, "DELETE FROM tenon.task ") +
            count_of(text, "TRUNCATE tenon.task") >
        deletes) {
        fail_msg("%s deletes tasks: write \"DELETE FROM tenon.task t\"", name);
    }
    if (deletes > count_of(text, "tenon.record_end_of(t")) {
        fail_msg("%s deletes tasks and does not return tenon.record_end_of(t) for each", name);
    }
    return deletes;
}

static void test_who_deletes_a_task_notes_its_end(void **state)
{
    struct fixture *fx = *state;
    size_t n = 0;
    for (size_t p = 0; p < sizeof parts / sizeof *parts; p++) {
        for (const struct statement *const *st = parts[p].all; *st; st++) {
            n += check_ends((*st)->name, (*st)->text);
        }
    }
    PGresult *functions = PQexec(fx->conn,
                                 "SELECT proname, prosrc FROM pg_proc"
                                 " WHERE pronamespace = 'tenon'::regnamespace AND prosrc <> ''");
    for (int i = 0; i < PQntuples(functions); i++) {
        n += check_ends(PQgetvalue(functions, i, 0), PQgetvalue(functions, i, 1));
    }
    PQclear(functions);
    assert_true(n >= 6);
}

/* Whatever tenon.record_end() does something for. */
static void test_what_needs_a_note(void **state)
{
    struct fixture *fx = *state;
    static const char *const with[] = {"{\"again\": 1}",
                                       "{\"flow\": 1}",
                                       "{\"limit_keys\": [\"k\"]}",
                                       "{\"awaited\": true}",
                                       "{\"wanted_at\": \"infinity\"}",
                                       "{\"crashes\": 1}",
                                       "{\"step_count\": 1}"};
    static const char needs[] = "SELECT tenon.needs_note(jsonb_populate_record(NULL::tenon.task,"
                                " '%s')) IS TRUE";
    assert_false(test_sql_bool(fx, needs, "{\"id\": 1, \"unique_key\": \"k\"}"));
    for (size_t i = 0; i < sizeof with / sizeof *with; i++) {
        assert_true(test_sql_bool(fx, needs, with[i]));
    }
    assert_int_equal(
        test_sql_int(
            fx, "SELECT count(*) FROM regexp_matches((SELECT prosrc FROM pg_proc WHERE oid"
                " = 'tenon.record_end'::regproc), '\\mIF ([a-z_]+ IS NOT NULL|awaited|crashes)',"
                " 'g')"),
        7);
}

/* A role that is called tenon has the schema in its search_path: there `count` must stay count. */
static void test_no_function_hides_one_of_postgresql(void **state)
{
    struct fixture *fx = *state;
    char *names = test_sql_text(
        fx,
        "SELECT string_agg(DISTINCT t.proname, ' ') FROM pg_proc t JOIN pg_proc p USING (proname)"
        " WHERE t.pronamespace = 'tenon'::regnamespace"
        " AND p.pronamespace = 'pg_catalog'::regnamespace");
    if (names) {
        fail_msg("these are functions of PostgreSQL as well: %s", names);
    }
}

/* A forbidden scan counts as so dear that PostgreSQL would compile the plan: 0.1 s each time. */
static void test_no_function_is_compiled(void **state)
{
    struct fixture *fx = *state;
    char *compiled = test_sql_text(
        fx, "SELECT string_agg(oid::regprocedure::text, ' ') FROM pg_proc"
            " WHERE pronamespace = 'tenon'::regnamespace AND 'enable_seqscan=off' = ANY (proconfig)"
            " AND NOT 'jit=off' = ANY (proconfig)");
    if (compiled) {
        fail_msg("SET jit = off is missing: %s", compiled);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_every_statement_prepares),
        WITH_DATABASE(test_each_part_may_run_its_statements),
        WITH_DATABASE(test_hot_plans),
        WITH_DATABASE(test_without_the_settings_it_would_scan),
        WITH_DATABASE(test_plans_inside_of_functions),
        WITH_DATABASE(test_claims_are_hot),
        WITH_DATABASE(test_claims_read_no_more_than_they_take),
        WITH_DATABASE(test_claims_are_bounded_in_bytes),
        WITH_DATABASE(test_indexes_leave_claims_alone),
        WITH_DATABASE(test_who_deletes_a_task_notes_its_end),
        WITH_DATABASE(test_what_needs_a_note),
        WITH_DATABASE(test_no_function_is_compiled),
        WITH_DATABASE(test_no_function_hides_one_of_postgresql),
    };
    return RUN_GROUP(tests);
}
