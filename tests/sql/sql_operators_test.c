/* label: sql */
/* timeout: 180 */
/* The hands of an operator, as SQL: which tasks a filter finds, what each act does to them and
 * leaves, what it may not do; pausing; defaults. The acts' states are in sql_states_test. */
#include "tests/support/held.h"
#include "tests/support/rows.h"

#include "cleaner/statements.h"
#include "cli/statements.h"
#include "core/db/db.h"
#include "worker/statements.h"

#include <stdio.h>

/* --- tasks in every state ------------------------------------------------------------------- */

/* Each is named by one letter, the key "n" of its payload. */
static int64_t place(struct fixture *fx, char name, const char *kind, const char *arguments)
{
    return test_sql_int(fx, "SELECT tenon.enqueue('%s', '{\"n\": \"%c\", \"tags\": [\"%c\"]}'%s)",
                        kind, name, name, arguments);
}

static int64_t end_as(struct fixture *fx, char name, const char *kind, const char *reason,
                      const char *error)
{
    struct held c;
    char worker[UUID_BYTES];
    worker_make(fx, worker);
    int64_t id = place(fx, name, kind, "");
    assert_true(held_take(fx, worker, id, &c));
    if (strcmp(reason, "done") == 0) {
        assert_true(held_finish(fx, &sql_finish, &c, "{}"));
    } else {
        free(held_requeue(fx, &c, reason, error, NULL));
    }
    return id;
}

/* s scheduled, r ready, u running, t retrying, d done, c cancelled, x and y dead. */
static void place_all(struct fixture *fx)
{
    struct held c;
    char worker[UUID_BYTES];
    (void)place(fx, 's', "a", ", delay => '1 h'");
    (void)place(fx, 'r', "b",
                ", queue => 'mail', unique_key => 'key', trace => "
                "'00-00000000000000000000000000000001-0000000000000001-01'");
    worker_make(fx, worker);
    assert_true(held_take(fx, worker, place(fx, 'u', "a", ""), &c));
    (void)end_as(fx, 't', "mail", "failed", "Timeout: slow");
    test_sql(fx, "UPDATE tenon.task SET run_at = now() + interval '1 h' WHERE kind = 'mail'");
    (void)end_as(fx, 'd', "a", "done", NULL);
    test_sql(fx, "SELECT tenon.cancel(%lld)", (long long)place(fx, 'c', "a", ""));
    (void)end_as(fx, 'x', "a", "dead", "Timeout gone");
    (void)end_as(fx, 'y', "b", "dead", "Refused: no");
    test_sql(fx, "UPDATE tenon.dead SET dead_at = now() - interval '2 days' WHERE kind = 'b'");
    test_sql(fx, "UPDATE tenon.task SET created_at = now() - interval '3 h' WHERE kind = 'b'");
}

/* --- filters -------------------------------------------------------------------------------- */

static const struct {
    const char *filter, *names;
} filters[] = {
    {"{}", "cdrstuxy"},
    {"{\"state\": \"ready\"}", "r"},
    {"{\"state\": \"scheduled\"}", "s"},
    {"{\"state\": \"running\"}", "u"},
    {"{\"state\": \"retrying\"}", "t"},
    {"{\"state\": \"done\"}", "d"},
    {"{\"state\": \"cancelled\"}", "c"},
    {"{\"state\": \"dead\"}", "xy"},
    {"{\"state\": [\"dead\", \"ready\", \"done\"]}", "drxy"},
    {"{\"queue\": \"mail\"}", "r"},
    {"{\"queue\": [\"mail\", \"default\"]}", "cdrstuxy"},
    {"{\"queue\": \"none\"}", ""},
    {"{\"kind\": \"b\"}", "ry"},
    {"{\"kind\": [\"b\", \"mail\"]}", "rty"},
    {"{\"kind\": \"b\", \"state\": \"dead\"}", "y"},
    {"{\"error\": \"Timeout\"}", "tx"},
    {"{\"error\": [\"Timeout\", \"Refused\"], \"state\": \"dead\"}", "xy"},
    {"{\"error\": \"Time\"}", ""},
    {"{\"older_than\": \"1 h\"}", "ry"},
    {"{\"older_than\": \"1 day\"}", "y"},
    {"{\"older_than\": \"1 week\"}", ""},
    {"{\"unique_key\": \"key\"}", "r"},
    {"{\"unique_key\": \"key\", \"state\": \"ready\"}", "r"},
    {"{\"unique_key\": \"key\", \"state\": \"dead\"}", ""},
    {"{\"trace\": \"00-00000000000000000000000000000001-0000000000000001-01\"}", "r"},
    {"{\"enqueued_by\": \"nobody\"}", ""},
    {"{\"payload\": \"$.n == \\\"x\\\"\"}", "x"},
    {"{\"payload\": \"$.n > \\\"t\\\"\", \"state\": \"dead\"}", "xy"},
    {"{\"payload\": \"exists($.tags[*] ? (@ == \\\"u\\\"))\"}", "u"},
    {"{\"payload\": \"$.none == 1\"}", ""},
    {"{\"ids\": 2}", "r"},
    {"{\"ids\": [1, 2, 99]}", "rs"},
    {"{\"ids\": [1, 2], \"state\": \"ready\"}", "r"},
    {"{\"flow\": 1}", ""},
    {"{\"limit_key\": \"t:1\"}", ""},
};

static void test_filters(void **state)
{
    struct fixture *fx = *state;
    place_all(fx);
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++) {
        char *got = rows_named(fx, filters[i].filter);
        if (strcmp(got, filters[i].names) != 0) {
            fail_msg("%s finds \"%s\" and not \"%s\"", filters[i].filter, got, filters[i].names);
        }
        free(got);
        assert_int_equal(test_sql_int(fx, "SELECT n FROM tenon.count_tasks('%s')",
                                      filters[i].filter),
                         strlen(filters[i].names));
    }
    char *by = test_sql_text(fx, "SELECT string_agg(payload ->> 'n', '') FROM tenon.list("
                                 "jsonb_build_object('enqueued_by', session_user, 'ids', 3))");
    assert_string_equal(by, "u");
    free(by);
}

/* Also while it is a row of tenon.task; but what is done to one that expired waits for settle. */
static void test_expired_ones_before_and_after_settle(void **state)
{
    struct fixture *fx = *state;
    int64_t moved = place(fx, 'e', "a", "");
    test_sql(fx, "UPDATE tenon.task SET start_before = now(); SELECT tenon.settle()");
    int64_t unmoved = place(fx, 'f', "a", "");
    test_sql(fx, "UPDATE tenon.task SET start_before = now()");
    (void)place(fx, 'r', "a", "");
    static const struct {
        const char *filter, *names;
    } found[] = {
        {"{\"state\": \"expired\"}", "ef"},
        {"{\"state\": \"ready\"}", "r"},
        {"{\"state\": [\"expired\", \"ready\"]}", "efr"},
        {"{\"state\": \"expired\", \"kind\": \"b\"}", ""},
        {"{\"state\": [\"cancelled\", \"done\"]}", ""},
    };
    for (size_t i = 0; i < sizeof found / sizeof *found; i++) {
        char *got = rows_named(fx, found[i].filter);
        assert_string_equal(got, found[i].names);
        free(got);
        assert_int_equal(test_sql_int(fx, "SELECT n FROM tenon.count_tasks('%s')", found[i].filter),
                         strlen(found[i].names));
    }
    assert_int_equal(test_sql_int(fx, "SELECT tenon.retry_where('{\"state\": \"expired\"}')"), 1);
    assert_state(fx, moved, "ready");
    test_sql(fx, "SELECT tenon.settle()");
    assert_state(fx, unmoved, "expired");
    assert_int_equal(test_sql_int(fx, "SELECT tenon.delete_where('{\"state\": \"expired\"}')"), 1);
}

static const struct {
    const char *filter, *says;
} bad[] = {
    {"{\"flow\": \"x\"}", "flow \"x\"|the number of a flow"},
    {"{\"flow\": null}", "flow null"},
    {"{\"limit_key\": 1}", "limit_key 1|a key of limits"},
    {"[]", "filter [] is not allowed|a JSON object"},
    {"{\"colour\": \"red\"}", "filter key 'colour'|state, queue, kind"},
    {"{\"state\": \"bored\"}", "state bored|scheduled, ready, running"},
    {"{\"state\": 1}", "state 1|an array of them"},
    {"{\"state\": []}", "state []"},
    {"{\"state\": null}", "state null"},
    {"{\"kind\": {}}", "kind {}"},
    {"{\"older_than\": \"long ago\"}", "older_than \"long ago\"|such as \"2 hours\""},
    {"{\"unique_key\": 1}", "unique_key 1|a text"},
    {"{\"payload\": \"$.to ==\"}", "payload \"$.to ==\"|a predicate of SQL/JSON path"},
    {"{\"payload\": \"$.to\"}", "payload \"$.to\"|a predicate"},
    {"{\"payload\": \"$.tags[*] ? (@ == 1)\"}", "payload|exists("},
    {"{\"ids\": \"17\"}", "ids \"17\"|a number"},
    {"{\"ids\": [1.5]}", "ids [1.5]"},
    {"{\"ids\": []}", "ids []"},
};

static void test_bad_filters_are_refused(void **state)
{
    struct fixture *fx = *state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        test_sql_fails(fx, "22023", bad[i].says, "SELECT * FROM tenon.list('%s')", bad[i].filter);
        test_sql_fails(fx, "22023", bad[i].says, "SELECT tenon.cancel_where('%s')", bad[i].filter);
    }
    test_sql_fails(fx, "22023", "filter NULL", "SELECT * FROM tenon.list(NULL)");
    test_sql_fails(fx, "22023", "most 0|1 to 100000", "SELECT * FROM tenon.list(most => 0)");
}

/* Every task once, whichever way; and where it stopped for the time, it says where to go on. */
static void test_pages(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "SELECT tenon.enqueue_many('a', array_fill('1'::jsonb, '{5000}'))");
    test_sql(fx, "SELECT tenon.cancel_where('{\"ids\": [10, 20, 4000]}')");
    test_sql(fx, "CREATE TABLE public.seen (id bigint PRIMARY KEY, page integer)");
    for (int page = 0;; page++) {
        int64_t n = test_sql_int(fx,
                                 "WITH p AS (INSERT INTO public.seen SELECT id, %d FROM tenon.list("
                                 "'{}', (SELECT min(id) FROM public.seen), 700) RETURNING 1) "
                                 "SELECT count(*) FROM p",
                                 page);
        if (n < 700) {
            break;
        }
    }
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM public.seen"), 5000);
    assert_int_equal(
        test_sql_int(fx, "SELECT next FROM tenon.find('{\"kind\": \"a\"}', 'cancel', 3, 5)"), 8);
    assert_int_equal(
        test_sql_int(fx, "SELECT ids[1] FROM tenon.find('{\"kind\": \"a\"}', 'cancel', 9)"), 11);
    assert_true(test_sql_bool(fx, "SELECT ids = '{}' AND next = 4901 FROM tenon.find("
                                  "'{\"kind\": \"b\"}', limit_ms => 0)"));
    assert_true(test_sql_bool(fx, "SELECT ids = '{}' AND next IS NULL FROM tenon.find("
                                  "'{\"kind\": \"b\"}')"));
    assert_true(test_sql_bool(fx, "SELECT n = 100 AND at_least FROM tenon.count_tasks('{}', 100)"));
    assert_true(
        test_sql_bool(fx, "SELECT n = 5000 AND NOT at_least FROM tenon.count_tasks('{}', 5000)"));
}

/* --- acts ----------------------------------------------------------------------------------- */

static void test_acts_want_a_filter_and_their_states(void **state)
{
    struct fixture *fx = *state;
    place_all(fx);
    test_sql_fails(fx, "22023", "an empty filter would match every task|at least one key",
                   "SELECT tenon.retry_where('{}')");
    test_sql_fails(fx, "22023", "an empty filter", "SELECT tenon.delete_where('{}')");
    test_sql_fails(fx, "22023", "state running|dead, cancelled, expired for retry",
                   "SELECT tenon.retry_where('{\"state\": \"running\"}')");
    test_sql_fails(fx, "22023", "state ready|dead, done, cancelled, expired for delete",
                   "SELECT tenon.delete_where('{\"state\": \"ready\"}')");
    test_sql_fails(fx, "22023", "act 'forget'",
                   "SELECT tenon.change('forget', '{\"kind\": \"a\"}')");
    test_sql_fails(fx, "22023", "act 'forget'", "SELECT tenon.find('{\"kind\": \"a\"}', 'forget')");
    test_sql_fails(fx, "22023", "changes|priority, run_at",
                   "SELECT tenon.set_where('{\"kind\": \"a\"}', '{\"queue\": \"x\"}')");
    test_sql_fails(fx, "22023", "priority 10|0 to 9",
                   "SELECT tenon.set_where('{\"kind\": \"a\"}', '{\"priority\": 10}')");
    test_sql_fails(fx, "22023", "run_at soon|10 years ahead",
                   "SELECT tenon.set_where('{\"kind\": \"a\"}', '{\"run_at\": \"soon\"}')");
    test_sql_fails(fx, "22023", "run_at infinity",
                   "SELECT tenon.set_where('{\"kind\": \"a\"}', '{\"run_at\": \"infinity\"}')");
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.audit"), 0);
    /* what is cancelled, or done, only if somebody says so */
    assert_int_equal(test_sql_int(fx, "SELECT tenon.delete_where('{\"kind\": \"a\"}')"), 1);
    char *left = rows_named(fx, "{}");
    assert_string_equal(left, "cdrstuy");
    free(left);
    assert_int_equal(
        test_sql_int(fx, "SELECT tenon.retry_where('{\"state\": [\"dead\", \"cancelled\"]}')"), 2);
    left = rows_named(fx, "{\"state\": \"ready\"}");
    assert_string_equal(left, "cry");
    free(left);
}

#define OWN_STILL                                                                                  \
    "SELECT max_attempts = 7 AND timeout_ms = 1234 AND retry = 'constant(9 s)'"                    \
    " AND progress = '[3]' FROM tenon.task"

static void test_what_is_retried_is_as_new(void **state)
{
    struct fixture *fx = *state;
    int64_t id = end_as(fx, 'x', "a", "dead", "Timeout: gone");
    test_sql(fx, "UPDATE tenon.dead SET failures = 25, crashes = 2, max_attempts = 7,"
                 " timeout_ms = 1234, priority = 6, retry = 'constant(9 s)', progress = '[3]'");
    assert_int_equal(test_sql_int(fx, "SELECT tenon.retry_where('{\"error\": \"Timeout\"}')"), 1);
    assert_true(test_sql_bool(
        fx,
        "SELECT failures = 0 AND crashes = 0 AND claims = 1 AND max_attempts = 7 AND priority = 6"
        " AND timeout_ms = 1234 AND start_time IS NULL AND worker_id IS NULL AND delayed"
        " AND last_error = 'Timeout: gone' AND run_at > created_at AND run_at <= clock_timestamp()"
        " AND payload_bytes = octet_length(payload::text) FROM tenon.task WHERE id = %lld",
        (long long)id));
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.dead"), 0);
    assert_true(test_sql_bool(fx, OWN_STILL));
    /* and so is one that was cancelled, whatever its kind's defaults are */
    test_sql(fx, "SELECT tenon.set_kind('a', max_attempts => 3), tenon.cancel(%lld)",
             (long long)id);
    assert_int_equal(test_sql_int(fx, "SELECT tenon.retry_where('{\"ids\": %lld}')", (long long)id),
                     1);
    assert_true(test_sql_bool(fx, OWN_STILL));
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.history"), 0);
}

/* Of several dead tasks with one key the first is retried; of one whose key is taken, none. */
static void test_a_unique_key_that_is_taken(void **state)
{
    struct fixture *fx = *state;
    for (int i = 0; i < 3; i++) {
        (void)end_as(fx, 'x', "a", "dead", "x");
    }
    test_sql(fx, "UPDATE tenon.dead SET unique_key = 'k'");
    int64_t holder = place(fx, 'h', "a", ", unique_key => 'k'");
    assert_true(test_sql_bool(fx, "SELECT n = 0 AND skipped = 3 AND next IS NULL"
                                  " FROM tenon.change('retry', '{\"state\": \"dead\"}')"));
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.dead"), 3);
    test_sql(fx, "SELECT tenon.cancel(%lld)", (long long)holder);
    assert_int_equal(test_sql_int(fx, "SELECT tenon.retry_where('{\"state\": \"dead\"}')"), 1);
    assert_int_equal(test_sql_int(fx, "SELECT min(id) FROM tenon.task"), 1);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.dead"), 2);
    assert_true(
        test_sql_bool(fx,
                      "SELECT (array_agg((n, skipped) ORDER BY id))"
                      " = ARRAY[(0::bigint, 3::bigint), (1::bigint, 2::bigint)] FROM tenon.audit"));
}

/* Piece by piece; and the act has one row in the audit. */
static void test_pieces_of_one_act(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "SELECT tenon.enqueue_many('a', array_fill('1'::jsonb, '{25}'), delay => '1 h')");
    test_sql(fx,
             "CREATE TABLE public.piece (n bigint, skipped bigint, next bigint, audit_id bigint)");
    for (int i = 0; i < 3; i++) {
        test_sql(fx, "INSERT INTO public.piece SELECT c.* FROM (SELECT max(next) AS next,"
                     " max(audit_id) AS audit FROM public.piece) p, tenon.change('run_now',"
                     " '{\"kind\": \"a\"}', most => 10, cursor => p.next, audit => p.audit,"
                     " why => 'in a hurry') c");
    }
    assert_true(test_sql_bool(fx, "SELECT sum(n) = 25 AND sum(skipped) = 0 AND max(next) = 20 AND"
                                  " count(next) = 2 FROM public.piece"));
    assert_true(test_sql_bool(
        fx,
        "SELECT count(*) = 1 AND min(n) = 25 AND min(act) = 'run_now' AND min(who) = session_user"
        " AND min(what::text) = '{\"why\": \"in a hurry\", \"filter\": {\"kind\": \"a\"}}'"
        " FROM tenon.audit"));
    test_sql_fails(fx, "22023", "audit row 1 is not a cancel of role",
                   "SELECT tenon.change('cancel', '{\"kind\": \"a\"}', audit => 1)");
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task"), 25); /* rolled back */
}

/* Whoever has a row locked is not waited for; and what is no longer what was asked for stays. */
static void test_others_come_first(void **state)
{
    struct fixture *fx = *state;
    int64_t id = place(fx, 'r', "a", "");
    int64_t dead = end_as(fx, 'x', "a", "dead", "x");
    PGconn *other = sql_connect(fx->database_url);
    sql_run(
        other,
        "BEGIN; UPDATE tenon.task SET start_time = clock_timestamp(), claim_key = id, worker_id ="
        " gen_random_uuid(), claims = 1 WHERE id = %lld; SELECT FROM tenon.dead WHERE"
        " id = %lld FOR UPDATE",
        (long long)id, (long long)dead);
    test_sql(fx, "SET lock_timeout = '1 s'");
    assert_true(test_sql_bool(fx, "SELECT n = 0 AND skipped = 1 FROM tenon.change('cancel',"
                                  " '{\"state\": \"ready\"}')"));
    assert_int_equal(test_sql_int(fx, "SELECT tenon.retry_where('{\"state\": \"dead\"}')"), 0);
    assert_int_equal(test_sql_int(fx, "SELECT tenon.delete_where('{\"state\": \"dead\"}')"), 0);
    sql_run(other, "COMMIT");
    assert_int_equal(test_sql_int(fx, "SELECT tenon.cancel_where('{\"state\": \"ready\"}')"), 0);
    assert_state(fx, id, "running");
    assert_int_equal(test_sql_int(fx, "SELECT tenon.cancel_where('{\"ids\": %lld}')",
                                  (long long)id),
                     1);
    assert_state(fx, id, "cancelled");
    PQfinish(other);
}

/* What was ready when it was found, and runs when it is locked, is not cancelled by whoever asked
 * for what is ready. The act stops between the two, at a lock of ours. */
static void test_what_is_claimed_meanwhile_stays(void **state)
{
    struct fixture *fx = *state;
    struct held c;
    char worker[UUID_BYTES];
    PGconn *acting = sql_connect(fx->database_url);
    worker_make(fx, worker);
    int64_t id = place(fx, 'r', "a", ""), other = place(fx, 'o', "a", "");
    test_sql(fx, "ALTER FUNCTION tenon.lock_found RENAME TO lock_found_now;"
                 " CREATE FUNCTION tenon.lock_found(act text, ids bigint[]) RETURNS bigint[]"
                 " LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock(17);"
                 " RETURN tenon.lock_found_now(act, ids); END $$; SELECT pg_advisory_lock(17)");
    assert_int_equal(PQsendQuery(acting, "SELECT n, skipped FROM tenon.change('cancel',"
                                         " '{\"state\": \"ready\"}')"),
                     1);
    test_await(fx, 30000,
               "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND"
               " objid = 17 AND NOT granted)");
    assert_true(held_take(fx, worker, id, &c));
    test_sql(fx, "SELECT pg_advisory_unlock(17)");
    PGresult *result = PQgetResult(acting);
    assert_string_equal(PQgetvalue(result, 0, 0), "1");
    assert_string_equal(PQgetvalue(result, 0, 1), "1");
    PQclear(result);
    PQfinish(acting);
    assert_state(fx, id, "running");
    assert_state(fx, other, "cancelled");
}

/* --- wake-ups ------------------------------------------------------------------------------- */

/* What the next NOTIFY says, "" when there is none; free(). */
static char *notified(PGconn *conn)
{
    sql_run(conn, "SELECT 1");
    PGnotify *n = PQnotifies(conn);
    char *text = strdup(n ? n->extra : "");
    PQfreemem(n);
    return text;
}

static void assert_notified(PGconn *conn, const char *words)
{
    char *text = notified(conn);
    assert_string_equal(text, words);
    free(text);
}

static void test_workers_are_woken(void **state)
{
    struct fixture *fx = *state;
    PGconn *worker = sql_connect(fx->database_url);
    sql_run(worker, "LISTEN tenon_wakeup");
    for (int i = 0; i < 2; i++) {
        (void)end_as(fx, 'x', "a", "dead", "x");
    }
    (void)end_as(fx, 'y', "b", "dead", "x");
    test_sql(fx, "SELECT tenon.retry_where('{\"state\": \"dead\"}')");
    assert_notified(worker, "3 default/a default/b");
    test_sql(fx,
             "SELECT tenon.set_where('{\"state\": \"ready\"}', jsonb_build_object('run_at', now() +"
             " interval '1 h'))");
    assert_notified(worker, "");
    test_sql(fx, "SELECT tenon.run_now_where('{\"kind\": \"b\"}')");
    assert_notified(worker, "1 default/b");
    test_sql(fx, "SELECT tenon.pause(kind => 'b')");
    assert_notified(worker, "pause");
    test_sql(fx, "SELECT tenon.resume(kind => 'b')");
    assert_notified(worker, "pause");
    PQfinish(worker);
}

/* --- pausing -------------------------------------------------------------------------------- */

static bool is_claimed(struct fixture *fx, const char *kind, const char *queue)
{
    struct held c;
    char worker[UUID_BYTES];
    worker_make(fx, worker);
    int64_t id = test_sql_int(fx, "SELECT tenon.enqueue('%s', queue => '%s')", kind, queue);
    bool claimed = held_take(fx, worker, id, &c);
    assert_int_equal(test_sql_bool(fx, "SELECT EXISTS (SELECT FROM tenon.ready WHERE id = %lld)",
                                   (long long)id),
                     !claimed && test_sql_bool(fx, "SELECT NOT EXISTS (SELECT FROM tenon.paused)"));
    test_sql(fx, "SELECT tenon.cancel(%lld)", (long long)id);
    return claimed;
}

static void test_pause_and_resume(void **state)
{
    struct fixture *fx = *state;
    assert_true(is_claimed(fx, "a", "default"));
    test_sql(fx, "SELECT tenon.pause('default', why => 'the mail server is down')");
    assert_false(is_claimed(fx, "a", "default"));
    assert_true(
        test_sql_bool(fx,
                      "SELECT what = 'queue' AND name = 'default' AND paused_by = session_user AND"
                      " paused_why = 'the mail server is down' AND paused_at <= clock_timestamp()"
                      " FROM tenon.paused"));
    assert_true(test_sql_bool(fx, "SELECT tenon.resume('default')"));
    assert_false(test_sql_bool(fx, "SELECT tenon.resume('default')"));
    assert_true(is_claimed(fx, "a", "default"));
    /* workers leave out what they hear of: here the function that tells them */
    test_sql(fx, "SELECT tenon.pause(kind => 'b'), tenon.pause(kind => 'elsewhere')");
    char *kinds = test_sql_text(fx, "SELECT tenon.paused_kinds('{a,b,mail}')");
    assert_string_equal(kinds, "b");
    free(kinds);
    assert_false(test_sql_bool(fx, "SELECT EXISTS (SELECT FROM tenon.ready WHERE kind = 'b')"));
    test_sql(fx, "SELECT tenon.pause(everything => true)");
    kinds = test_sql_text(fx, "SELECT tenon.paused_kinds('{a}')");
    assert_string_equal(kinds, "*");
    free(kinds);
    assert_true(test_sql_bool(fx, "SELECT tenon.resume(everything => true)"));
    assert_true(test_sql_bool(fx, "SELECT count(*) = 2 FROM tenon.paused WHERE what = 'kind'"));
    char *audit = test_sql_text(fx, "SELECT string_agg(act || what::text, ' ' ORDER BY id)"
                                    " FROM tenon.audit WHERE act IN ('pause', 'resume')");
    assert_contains(audit, "pause{\"why\": \"the mail server is down\", \"queue\": \"default\"} "
                           "resume{\"queue\": \"default\"} pause{\"kind\": \"b\"}");
    assert_contains(audit, "pause{\"everything\": true} resume{\"everything\": true}");
    free(audit);
    test_sql_fails(fx, "22023", "no queue or kind is given|one queue, one kind",
                   "SELECT tenon.pause()");
    test_sql_fails(fx, "22023", "more than one of queue, kind and everything is given",
                   "SELECT tenon.pause('q', 'k')");
    test_sql_fails(fx, "22023", "queue 'Big'", "SELECT tenon.pause('Big')");
    test_sql_fails(fx, "22023", "kind 'a b'", "SELECT tenon.resume(kind => 'a b')");
}

/* --- defaults, audit ------------------------------------------------------------------------ */

static void test_defaults(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "SELECT tenon.set_queue('mail', priority => 7, timeout => '2 min')");
    test_sql(fx, "SELECT tenon.set_queue('mail', max_attempts => 3, unset => '{priority}')");
    assert_true(test_sql_bool(fx, "SELECT priority IS NULL AND max_attempts = 3 AND timeout_ms ="
                                  " 120000 FROM tenon.queue WHERE name = 'mail'"));
    test_sql(fx, "SELECT tenon.set_kind('m', queue => 'mail', on_timeout => 'dead',"
                 " timeout_min => '1 s', priority => 2)");
    test_sql(fx, "SELECT tenon.set_kind('m', unset => '{on_timeout,timeout_min}')");
    assert_true(test_sql_bool(fx, "SELECT queue = 'mail' AND priority = 2 AND on_timeout = 'retry'"
                                  " AND timeout_min_ms = 1 FROM tenon.kind"));
    assert_true(test_sql_bool(fx, "SELECT count(*) = 4 AND bool_and(n = 1) FROM tenon.audit"));
    test_sql_fails(fx, "22023", "unset|priority, max_attempts, timeout",
                   "SELECT tenon.set_queue('q', unset => '{queue}')");
    test_sql_fails(fx, "22023", "max_attempts 0|1 to 1000",
                   "SELECT tenon.set_queue('q', max_attempts => 0)");
    test_sql_fails(fx, "22023", "timeout 40 days",
                   "SELECT tenon.set_queue('q', timeout => '40 days')");
    test_sql_fails(fx, "22023", "on_timeout 'x'", "SELECT tenon.set_kind('q', on_timeout => 'x')");
    test_sql_fails(fx, "22023", "history_keep 00:00:00|0 is possible for all kinds",
                   "SELECT tenon.set_kind('q', history_keep => '0')");
    test_sql_fails(fx, "22023", "queue 'Q'", "SELECT tenon.set_kind('q', queue => 'Q')");
    test_sql_fails(fx, "22023", "kind ''", "SELECT tenon.set_kind('', priority => 1)");
}

static void test_audit_is_kept_for_a_while(void **state)
{
    struct fixture *fx = *state;
    for (int i = 0; i < 3; i++) {
        test_sql(fx, "SELECT tenon.pause('q%d')", i);
    }
    test_sql(fx, "UPDATE tenon.audit SET at = now() - interval '91 days' WHERE id < 3");
    assert_int_equal(test_sql_int(fx, "SELECT tenon.purge(10)"), 2);
    assert_int_equal(test_sql_int(fx, "SELECT sum(id) FROM tenon.audit"), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_filters),
        WITH_DATABASE(test_expired_ones_before_and_after_settle),
        WITH_DATABASE(test_bad_filters_are_refused),
        WITH_DATABASE(test_pages),
        WITH_DATABASE(test_acts_want_a_filter_and_their_states),
        WITH_DATABASE(test_what_is_retried_is_as_new),
        WITH_DATABASE(test_a_unique_key_that_is_taken),
        WITH_DATABASE(test_pieces_of_one_act),
        WITH_DATABASE(test_others_come_first),
        WITH_DATABASE(test_what_is_claimed_meanwhile_stays),
        WITH_DATABASE(test_workers_are_woken),
        WITH_DATABASE(test_pause_and_resume),
        WITH_DATABASE(test_defaults),
        WITH_DATABASE(test_audit_is_kept_for_a_while),
    };
    return RUN_GROUP(tests);
}
