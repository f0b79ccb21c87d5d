/* label: sql */
/* timeout: 120 */
/* only: all */
/* A plan that was made while tenon.task held one row, in a session that goes on while the table
 * fills. PostgreSQL keeps a generic plan until the table is analyzed again, and with one row every
 * way to read it costs the same: one may be chosen that reads the whole table for every batch. Here
 * every statement that runs often is planned in that moment, 20,000 rows arrive, nothing is
 * analyzed, and the plan must not read more rows and pages than its ten tasks need. */
#include "tests/support/polls.h"

#include "cleaner/statements.h"
#include "core/base/buf.h"
#include "core/db/db.h"
#include "worker/statements.h"

#include <stdio.h>

enum {
    ROWS = 20000,
    TASKS = 10,
    ROWS_PER_TASK =
        12, /* a row is found, locked, changed; one of its worker, its kind, its queue */
    PAGES_PER_TASK = 60,
    TRIES = 4,
    PLANNED_AFTER = 6, /* executions after which every plan is the generic one */
    PARAMS_MAX = POLL_PARAMS,
};

/* Where a statement runs: in a session as the round's (db_session_hot), or without settings. */
static const char plain[] = "SET search_path = pg_catalog";

#define WORKER "00000000-0000-0000-0000-000000000001"
#define ALL_BLOCKS "(0,0)", "(100000,0)"
#define CLAIM "id || '/1/' || lpad(to_hex(id), 16, '0')"
#define FENCE "$ids", "$keys"

static const struct statement finish_inside = {"test_finish", "SELECT tenon.finish(" CLAIM
                                                              ") FROM unnest($1::bigint[]) id"};
static const struct statement finish_many_inside = {
    "test_finish_many",
    "SELECT unnest(tenon.finish_many((SELECT array_agg(" CLAIM ") FROM unnest($1::bigint[]) id)))"};
static const struct statement cancel = {"test_cancel",
                                        "SELECT tenon.cancel(id) FROM unnest($1::bigint[]) id"};
static const struct statement progress_inside = {"test_progress",
                                                 "SELECT tenon.progress(" CLAIM
                                                 ", '1') FROM unnest($1::bigint[]) id"};
static const struct statement extend_inside = {"test_extend",
                                               "SELECT tenon.extend(" CLAIM
                                               ", '1 h') FROM unnest($1::bigint[]) id"};
static const struct statement enqueue_again = {
    "test_enqueue_again",
    "SELECT tenon.enqueue('a', unique_key => 'k' || id) FROM unnest($1::bigint[]) id"};

static const struct statement enqueue_join = {
    "test_enqueue_join",
    "SELECT tenon.join_holder(ROW(0, now(), now(), NULL, 1, 1, 1, 4, false, 'default', 'a', '1',"
    " 'k' || id, NULL, NULL, session_user, NULL, NULL, 'replace', NULL, NULL, false, "
    "NULL)::tenon.again,"
    " NULL) FROM unnest($1::bigint[]) id"};

static const struct planned {
    const struct statement *st;
    const char *session;
    const char *params[PARAMS_MAX]; /* "$word": see words() */
    bool started;                   /* its tasks have been started */
    bool scans;  /* it reads the table once, by design; the worker of its tasks is dead */
    int answers; /* rows that it returns for ten tasks; of a finish: those that it has not done */
} all[] = {
    {&sql_claim,
     db_session_hot,
     {WORKER, "$ids", "{default}", "{a}", "16777216", "$ids"},
     false,
     false,
     TASKS},
    {&sql_poll, db_session_hot, {WORKER, "{a}", "$n", POLL_HEAD}, false, false, TASKS + 1},
    {&sql_finish, db_session_hot, {FENCE, "$nulls"}, true, false, 0},
    {&sql_finish_forget, db_session_hot, {FENCE, "$nulls"}, true, false, 0},
    {&sql_finish_unlocked, db_session_hot, {FENCE, "$nulls"}, true, false, 0},
    {&sql_verify, db_session_hot, {WORKER, "$ids", "$keys", "$claims"}, true, false, TASKS},
    {&sql_progress, db_session_hot, {FENCE, "$nulls", "$nulls"}, true, false, TASKS},
    {&sql_step, db_session_hot, {FENCE, "$steps"}, true, false, TASKS},
    {&sql_requeue,
     db_session_hot,
     {FENCE, "$failed", "$nulls", "$nulls", "$nulls", "$nulls"},
     true,
     false,
     TASKS},
    {&sql_fresh, db_session_hot, {"$first", "{}", "$n", "0", "0"}, false, false, TASKS + 1},
    {&sql_fresh, db_session_hot, {"1000000000", "$ids", "$n", "0", "0"}, false, false, TASKS + 1},
    {&sql_due, db_session_hot, {"0", "$n"}, false, false, TASKS},
    {&sql_watch, db_session_hot, {"0", "0", "0"}, false, false, 1},
    {&sql_watch, db_session_hot, {"1000000000", "9000000000000000", "0"}, false, false, 1},
    {&sql_ready, db_session_hot, {"$n"}, false, true, TASKS},
    {&finish_inside, plain, {"$ids"}, true, false, TASKS},
    {&finish_many_inside, plain, {"$ids"}, true, false, TASKS},
    {&progress_inside, plain, {"$ids"}, true, false, TASKS},
    {&extend_inside, plain, {"$ids"}, true, false, TASKS},
    {&cancel, plain, {"$ids"}, true, false, TASKS},
    {&enqueue_again, plain, {"$ids"}, false, false, TASKS},
    {&enqueue_join, plain, {"$ids"}, false, false, TASKS},
    {&sql_own, db_session_hot, {WORKER}, true, true, TASKS + 1},
    {&sql_recover, db_session_hot, {ALL_BLOCKS, "0 s", "$n"}, true, true, TASKS + 1},
};
enum { ALL = sizeof all / sizeof *all };

/* A parameter for `n` tasks from id `first` on, as a literal. */
static void put_parameter(struct buf *b, PGconn *conn, const char *word, int first, int n)
{
    static const struct {
        const char *word, *sql;
    } words[] = {
        {"$ids", "array_agg(i)"},
        {"$claims", "array_agg(1)"},
        {"$keys", "array_agg(i)"},
        {"$nulls", "array_agg(NULL::text)"},
        {"$steps", "array_agg(format('{\"step\": {\"name\": \"%s\"}}', i))"},
        {"$failed", "array_agg('failed'::text)"},
        {"$n", "count(*)"},
        {"$first", "min(i) - 1"},
    };
    const char *sql = NULL;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        sql = strcmp(word, words[i].word) == 0 ? words[i].sql : sql;
    }
    if (!sql) {
        buf_printf(b, "'%s'", word);
        return;
    }
    char *text = sql_text(conn, "SELECT quote_literal(%s) FROM generate_series(%d, %d) i", sql,
                          first, first + n - 1);
    buf_put_text(b, text);
    free(text);
}

static void put_execute(struct buf *b, PGconn *conn, const struct planned *p, int first, int n)
{
    buf_printf(b, "EXECUTE %s(", p->st->name);
    for (int i = 0; i < PARAMS_MAX && p->params[i]; i++) {
        buf_put_text(b, i ? ", " : "");
        put_parameter(b, conn, p->params[i], first, n);
    }
    buf_put_text(b, ")");
}

/* Run the statement as it was prepared; its plan, with what it did; free(). */
static char *explain(PGconn *conn, const struct planned *p, int first, int n)
{
    struct buf b;
    buf_init(&b, 1 << 20);
    buf_put_text(&b, "EXPLAIN (ANALYZE, BUFFERS, TIMING off, SUMMARY off) ");
    put_execute(&b, conn, p, first, n);
    PGresult *result = PQexec(conn, buf_text(&b));
    if (PQresultStatus(result) != PGRES_TUPLES_OK) {
        fail_msg("%s: %s", p->st->name, PQresultErrorMessage(result));
    }
    buf_empty(&b);
    for (int i = 0; i < PQntuples(result); i++) {
        buf_printf(&b, "%s\n", PQgetvalue(result, i, 0));
    }
    PQclear(result);
    assert_false(b.failed);
    char *text = strdup(buf_text(&b));
    buf_clear(&b);
    return text;
}

/* The number after the first of `words` in a plan, which belongs to its topmost node. */
static int64_t number_after(const char *plan, const char *words)
{
    const char *at = strstr(plan, words);
    return at ? strtoll(at + strlen(words), NULL, 10) : 0;
}

/* --- the stage ------------------------------------------------------------------------------- */

/* Tasks `first` to `first + n - 1` are those that the statement is about. */
static void mark_tasks(struct fixture *fx, const struct planned *p, int first, int n)
{
    test_sql(
        fx,
        "UPDATE tenon.task SET delayed = true, unique_key = 'k' || id WHERE id BETWEEN %d AND %d",
        first, first + n - 1);
    if (p->st == &enqueue_again) { /* else it may join the holder, or not, by the time */
        test_sql(fx, "UPDATE tenon.task SET run_at = run_at - interval '10 s'");
    }
    if (p->started) {
        test_sql(fx,
                 "UPDATE tenon.task SET claims = 1, worker_id = '" WORKER "', start_time ="
                 " '2020-01-01Z', claim_key = id WHERE id BETWEEN %d AND %d",
                 first, first + n - 1);
    }
    if (p->st != &enqueue_again && p->st != &enqueue_join) { /* a task with steps joins nothing */
        test_sql(fx,
                 "SELECT tenon.put_step(id, 'first', '1') FROM tenon.task"
                 " WHERE id BETWEEN %d AND %d AND id %% 2 = 1",
                 first, first + n - 1);
    }
}

static void make_one_row(struct fixture *fx, const struct planned *p)
{
    test_sql(fx, "DELETE FROM tenon.worker; INSERT INTO tenon.worker (id, host, pid, slots, queues,"
                 " kinds) VALUES ('" WORKER "', 'host', 1, 1, '{default}', '{a}')");
    if (p->scans) {
        test_sql(fx, "UPDATE tenon.worker SET state = 'dead', ended_at = now()");
    }
    test_sql(fx,
             "TRUNCATE tenon.task RESTART IDENTITY; TRUNCATE tenon.task_step,"
             " tenon.history, tenon.dead; ALTER TABLE tenon.task SET (autovacuum_enabled = off);"
             "ALTER TABLE tenon.task_step SET (autovacuum_enabled = off)");
    test_sql(fx, "SELECT tenon.enqueue('a')");
    mark_tasks(fx, p, 1, 1);
    test_sql(fx, "VACUUM ANALYZE tenon.task, tenon.task_step, tenon.history, tenon.dead,"
                 " tenon.worker, tenon.kind, tenon.queue");
}

/* Its session plans it, for one row, and keeps the plan. */
static PGconn *plan_it(struct fixture *fx, const struct planned *p)
{
    PGconn *conn = sql_connect(fx->database_url);
    sql_run(conn, "%s", p->session);
    PGresult *result = PQprepare(conn, p->st->name, p->st->text, 0, NULL);
    if (PQresultStatus(result) != PGRES_COMMAND_OK) {
        fail_msg("%s: %s", p->st->name, PQresultErrorMessage(result));
    }
    PQclear(result);
    for (int i = 0; i < PLANNED_AFTER; i++) {
        sql_run(conn, "BEGIN");
        free(explain(conn, p, 1, 1));
        sql_run(conn, "ROLLBACK");
    }
    return conn;
}

static void fill(struct fixture *fx, const struct planned *p, int first)
{
    test_sql(fx, "SELECT tenon.enqueue_many('a', array_fill('1'::jsonb, ARRAY[%d]))", ROWS);
    mark_tasks(fx, p, first, TASKS);
    test_sql(
        fx,
        "INSERT INTO tenon.history (finished_at, id, run_at, start_time,"
        " created_at, worker_id, claims, failures, crashes, priority, outcome, queue, kind,"
        " payload) SELECT clock_timestamp(), id + 1000000, run_at, start_time,"
        " created_at, worker_id, claims, failures, crashes, priority, 'done', queue, kind,"
        " payload FROM tenon.task;"
        "INSERT INTO tenon.task_step SELECT id + 1000000, now(), 1, 'first', '1' FROM tenon.task");
}

/* --- the verdict ----------------------------------------------------------------------------- */

static int64_t rows_read(PGconn *conn)
{
    return sql_int(conn, "SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))"
                         " FROM pg_stat_xact_user_tables WHERE schemaname = 'tenon'");
}

static const char too_many_pages[] = "it read too many pages";

/* What is wrong with what it did; NULL = nothing. */
static const char *fault_of(const struct planned *p, const char *plan, int64_t rows)
{
    int64_t scanned = p->scans ? ROWS + 1 : 0;
    if (number_after(plan, "(actual rows=") != p->answers) {
        return "it did not do what it should";
    }
    if (rows > scanned + (int64_t)TASKS * ROWS_PER_TASK) {
        return "it read too many rows";
    }
    if (number_after(plan, "shared hit=") > scanned + (int64_t)TASKS * PAGES_PER_TASK) {
        return too_many_pages;
    }
    return NULL;
}

/* ret: false = it read too many pages, and is to be tried again: what other sessions change in the
 * catalog makes this one read it anew. */
static bool try_plan(struct fixture *fx, const struct planned *p, bool last)
{
    int first = ROWS / 2;
    make_one_row(fx, p);
    PGconn *conn = plan_it(fx, p);
    fill(fx, p, first);
    int64_t before = rows_read(conn);
    char *plan = explain(conn, p, first, TASKS);
    int64_t rows = rows_read(conn) - before;
    const char *fault = fault_of(p, plan, rows);
    bool again = fault == too_many_pages && !last;
    if (fault && !again) {
        fail_msg("%s: %s, %lld rows for %d tasks of %d:\n%s", p->st->name, fault, (long long)rows,
                 TASKS, ROWS, plan);
    }
    free(plan);
    PQfinish(conn);
    return !again;
}

static void plan_fill_execute(struct fixture *fx, const struct planned *p)
{
    for (int tries = 1; !try_plan(fx, p, tries == TRIES); tries++) {
    }
}

static void test_plans_of_workers(void **state)
{
    for (int i = 0; i < ALL; i++) {
        if (strcmp(all[i].session, db_session_hot) == 0) {
            plan_fill_execute(*state, &all[i]);
        }
    }
}

static void test_plans_of_applications_and_recovery(void **state)
{
    for (int i = 0; i < ALL; i++) {
        if (strcmp(all[i].session, plain) == 0) {
            plan_fill_execute(*state, &all[i]);
        }
    }
}

/* --- what makes and settles flows, limits and signals ---------------------------------------- */

enum {
    SETTLED_ROWS_PER_TASK = 160, /* a task, its row and wait in a flow, its child's, notes */
    SETTLED_PAGES_PER_TASK = 250,
};

/* What a feature keeps about tasks; `fill` adds rows about tasks that are long gone. */
struct feature {
    const char *tables[4];
    const char *make; /* $n times what waits for something, and what it waits for */
    const char *fill; /* $n rows */
};

static const struct feature flows = {
    {"flow", "flow_task", "flow_wait", "flow_note"},
    "SELECT tenon.flow('{\"tasks\": [{\"name\": \"p\", \"kind\": \"a\"}, {\"name\": \"c\","
    " \"kind\": \"a\", \"depends_on\": [\"p\"], \"on_parent_dead\": \"run\"}]}'::jsonb)"
    " FROM generate_series(1, %d)",
    "INSERT INTO tenon.flow_task (id, flow) SELECT -i, -i FROM generate_series(1, %1$d) i;"
    "INSERT INTO tenon.flow_wait (task, parent, on_dead)"
    " SELECT -i, -i - %1$d, 'wait' FROM generate_series(1, %1$d) i",
};

static const struct feature limits = {
    {"limit_task", "limit_start", "limit_due", "limit_event"},
    "SELECT tenon.enqueue('a', limit_keys => ARRAY['x:' || i]) FROM generate_series(1, %d) i,"
    " generate_series(1, 2)",
    "INSERT INTO tenon.limit_task (key, task_id, state, alone, priority, wanted_at)"
    " SELECT 'x:' || 1000 + i %% 1000, -i, 'waits', true, 4, now() FROM generate_series(1, %d) i",
};

static void for_tables(struct fixture *fx, const struct feature *of, const char *what)
{
    for (size_t i = 0; i < sizeof of->tables / sizeof *of->tables; i++) {
        test_sql(fx, what, of->tables[i]);
    }
}

/* Run it; how many pages it read. */
static int64_t pages_of(PGconn *conn, const char *statement, int n)
{
    char text[1024];
    (void)snprintf(text, sizeof text, statement, n);
    char *plan = sql_text(conn, "EXPLAIN (ANALYZE, BUFFERS, TIMING off, FORMAT json) %s", text);
    int64_t pages = number_after(plan, "\"Shared Hit Blocks\": ");
    free(plan);
    return pages;
}

/* What is ready ends, and what waited for it becomes ready. */
static int64_t make_and_settle(PGconn *conn, const char *make, int n)
{
    int64_t pages = pages_of(conn, make, n);
    for (int i = 0; i < 3; i++) {
        pages += pages_of(conn, "SELECT tenon.settle()", 0);
        sql_run(conn, "SELECT tenon.cancel(id) FROM tenon.task WHERE run_at < 'infinity'");
        pages += pages_of(conn, "SELECT tenon.settle()", 0);
    }
    return pages;
}

static void plan_empty_fill_settle(struct fixture *fx, const struct feature *of)
{
    PGconn *conn = sql_connect(fx->database_url);
    for_tables(fx, of, "TRUNCATE tenon.%s");
    for_tables(fx, of, "ALTER TABLE tenon.%s SET (autovacuum_enabled = off)");
    for_tables(fx, of, "VACUUM ANALYZE tenon.%s");
    for (int i = 0; i < PLANNED_AFTER; i++) {
        (void)make_and_settle(conn, of->make, 1);
    }
    test_sql(fx, of->fill, ROWS);
    sql_run(conn, "BEGIN");
    int64_t before = rows_read(conn);
    int64_t pages = make_and_settle(conn, of->make, TASKS);
    int64_t rows = rows_read(conn) - before;
    sql_run(conn, "COMMIT");
    PQfinish(conn);
    assert_in_range(rows, 1, TASKS * SETTLED_ROWS_PER_TASK);
    assert_in_range(pages, 1, TASKS * SETTLED_PAGES_PER_TASK);
}

static void test_plans_of_flows(void **state)
{
    plan_empty_fill_settle(*state, &flows);
}

static void test_plans_of_limits(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "SELECT tenon.set_limit('x', max_running => 1)");
    plan_empty_fill_settle(fx, &limits);
}

/* That a plan is kept, and that this test can see what that costs. */
static void test_a_plan_is_kept(void **state)
{
    static const struct statement joined = {
        "joined", "SELECT t.id FROM tenon.task t, unnest($1::bigint[]) i (id) WHERE t.id = i.id"};
    static const struct planned p = {&joined, db_session_hot, {"$ids"}, false, false, TASKS};
    struct fixture *fx = *state;
    make_one_row(fx, &p);
    PGconn *conn = plan_it(fx, &p);
    fill(fx, &p, 1000);
    int64_t before = rows_read(conn);
    free(explain(conn, &p, 1000, TASKS));
    assert_true(rows_read(conn) - before > ROWS);
    PQfinish(conn);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_plans_of_workers),
        WITH_DATABASE(test_plans_of_applications_and_recovery),
        WITH_DATABASE(test_plans_of_flows),
        WITH_DATABASE(test_plans_of_limits),
        WITH_DATABASE(test_a_plan_is_kept),
    };
    return RUN_GROUP(tests);
}
