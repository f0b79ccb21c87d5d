/* label: sql */
/* Sessions: what each trouble is called, what a failed batch leaves, and that nobody hangs. */
#include "tests/support/fixture.h"

#include "core/base/now.h"
#include "core/db/db.h"

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

static struct db *open_session(struct fixture *fx, enum db_kind kind)
{
    struct db *db = NULL;
    struct fault f = {0};
    assert_ok(db_open(fx->database_url, kind, "test", &db, &f), &f);
    return db;
}

/* Run one statement without parameters; its fault. A session knows what it has prepared by the
 * statement's address, so each call has one of its own. */
static struct fault run(struct db *db, const char *text)
{
    static struct {
        struct statement st;
        char name[16];
    } used[100];
    static int n;
    struct fault f = {0};
    assert_true(n < 100);
    (void)snprintf(used[n].name, sizeof used[n].name, "test%d", n);
    used[n].st = (struct statement){used[n].name, text};
    if (!db_exec(db, &used[n++].st, NULL, 0, NULL, &f)) {
        assert_int_not_equal(f.code, FAULT_NONE);
    }
    return f;
}

static void fault_is(const struct fault *f, enum fault_code code, const char *state)
{
    if (f->code != code || strcmp(f->sqlstate, state) != 0) {
        fail_msg("fault %s %s \"%s\", not %s %s", fault_word(f->code), f->sqlstate, f->text,
                 fault_word(code), state);
    }
}

static void opening_fails(const char *url, enum fault_code code, const char *state,
                          const char *part)
{
    struct db *db = NULL;
    struct fault f = {0};
    assert_false(db_open(url, DB_PLAIN, "test", &db, &f));
    assert_null(db);
    fault_is(&f, code, state);
    assert_contains(f.text, part);
    assert_null(strchr(f.text, '\n'));
}

static void test_bad_url(void **state)
{
    (void)state;
    opening_fails("postgresql://[::1", FAULT_CONFIG, "", "the database URL cannot be read");
    opening_fails("nonsense", FAULT_CONFIG, "", "the database URL cannot be read");
    opening_fails("postgresql://h/d?unknown_option=1", FAULT_CONFIG, "", "libpq's parameters only");
}

static void test_login_refused(void **state)
{
    struct fixture *fx = *state;
    char url[600], host[256];
    db_url_mask(fx->database_url, host, sizeof host);
    (void)snprintf(url, sizeof url, "%s password=wrong", host);
    opening_fails(url, FAULT_CONFIG, "28P01", "password authentication failed");
    url_with_path(fx->database_url, "no_such_database", url, sizeof url);
    opening_fails(url, FAULT_CONFIG, "3D000", "\"no_such_database\" does not exist");
}

/* A socket on a free port of 127.0.0.1; with `backlog` connections are accepted by the kernel. */
static int local_socket(bool listening, int *ret_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_true(!listening || listen(fd, 4) == 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    *ret_port = ntohs(address.sin_port);
    return fd;
}

/* A server whose messages nobody here can read. It answers until its socket is shut down. */
static void *refuse_in_german(void *fd)
{
    static const char startup[] = "S"
                                  "SCHWERWIEGEND\0"
                                  "VFATAL\0"
                                  "C28P01\0"
                                  "MPasswort-Authentifizierung fehlgeschlagen\0";
    char asked[1024];
    for (int peer; (peer = accept(*(int *)fd, NULL, NULL)) >= 0; (void)close(peer)) {
        uint32_t bytes = htonl(sizeof startup + 4);
        (void)!recv(peer, asked, sizeof asked, 0);
        (void)!send(peer, "E", 1, MSG_NOSIGNAL | MSG_MORE);
        (void)!send(peer, &bytes, sizeof bytes, MSG_NOSIGNAL | MSG_MORE);
        (void)!send(peer, startup, sizeof startup, MSG_NOSIGNAL);
    }
    return NULL;
}

static void test_login_refused_in_german(void **state)
{
    (void)state;
    int port;
    char url[128];
    pthread_t thread;
    int fd = local_socket(true, &port);
    assert_int_equal(pthread_create(&thread, NULL, refuse_in_german, &fd), 0);
    (void)snprintf(url, sizeof url, "postgresql://u@127.0.0.1:%d/d?sslmode=disable", port);
    opening_fails(url, FAULT_CONFIG, "28P01", "SCHWERWIEGEND:  Passwort-Authentifizierung");
    (void)shutdown(fd, SHUT_RDWR);
    (void)pthread_join(thread, NULL);
    (void)close(fd);
}

/* Nor is a root certificate that is not there, and no password, told by words. */
static void test_login_that_lacks_something(void **state)
{
    struct fixture *fx = *state;
    char url[600], host[256];
    db_url_mask(fx->database_url, host, sizeof host);
    (void)snprintf(url, sizeof url, "%s passfile=%s/none", host, fx->dir);
    opening_fails(url, FAULT_CONFIG, "", "no password supplied");
    (void)snprintf(url, sizeof url, "%s sslmode=verify-full sslrootcert=%s/none", host, fx->dir);
    opening_fails(url, FAULT_CONFIG, "", "/none\" cannot be read");
}

static void test_server_away(void **state)
{
    (void)state;
    int port;
    char url[128];
    int fd = local_socket(false, &port);
    (void)snprintf(url, sizeof url, "postgresql://u@127.0.0.1:%d/d", port);
    opening_fails(url, FAULT_RETRY, "", "Connection refused");
    (void)close(fd);
}

/* The kernel accepts the connection and nobody ever answers. */
static void test_server_that_never_answers(void **state)
{
    (void)state;
    int port;
    char url[128];
    int fd = local_socket(true, &port);
    (void)snprintf(url, sizeof url, "postgresql://u@127.0.0.1:%d/d", port);
    int64_t start_ms = now_ms();
    opening_fails(url, FAULT_RETRY, "", "timeout expired");
    assert_took(start_ms, (DB_CONNECT_LIMIT_S + 3) * 1000);
    (void)close(fd);
}

static void test_settings_of_a_session(void **state)
{
    struct fixture *fx = *state;
    static const char settings[] =
        "SELECT concat_ws(' ', current_setting('TimeZone'), current_setting('search_path'),"
        " current_setting('transaction_isolation'), current_setting('statement_timeout'),"
        " current_setting('lock_timeout'), current_setting('enable_seqscan'),"
        " current_setting('plan_cache_mode'),"
        " current_setting('idle_session_timeout'), current_setting('application_name'))";
    static const char *const want[] = {
        [DB_HOT] = "UTC pg_catalog read committed 15s 100ms off force_generic_plan 0 test",
        [DB_PLAIN] = "UTC pg_catalog read committed 15s 100ms on auto 0 test",
        [DB_PRESENCE] = "UTC pg_catalog read committed 15s 100ms on auto 30s test",
    };
    test_sql(fx, "ALTER DATABASE %s SET default_transaction_isolation = 'serializable'",
             fx->database);
    test_sql(fx, "ALTER DATABASE %s SET timezone = 'Asia/Tokyo'", fx->database);
    for (int kind = DB_HOT; kind <= DB_PRESENCE; kind++) {
        struct db *db = open_session(fx, (enum db_kind)kind);
        struct statement st = {"settings", settings};
        struct rows *rows = NULL;
        struct fault f = {0};
        assert_ok(db_exec(db, &st, NULL, 0, &rows, &f), &f);
        assert_string_equal(rows_text(rows, 0, 0), want[kind]);
        rows_free(rows);
        db_close(db);
    }
}

static void test_rows(void **state)
{
    struct fixture *fx = *state;
    struct db *db = open_session(fx, DB_PLAIN);
    static const struct statement st = {
        "values", "SELECT $1::bigint, $2::text, true, false, NULL::bigint,"
                  " NULL::boolean UNION ALL SELECT 2, 'two', true, true, 1, true"};
    const char *const params[] = {"-9223372036854775808", NULL};
    struct rows *rows = NULL;
    struct fault f = {0};
    for (int again = 0; again < 2; again++) { /* prepared, and prepared before */
        assert_ok(db_exec(db, &st, params, 2, &rows, &f), &f);
        assert_int_equal(rows_count(rows), 2);
        assert_true(rows_int(rows, 0, 0) == INT64_MIN);
        assert_true(rows_is_null(rows, 0, 1));
        assert_null(rows_text(rows, 0, 1));
        assert_true(rows_bool(rows, 0, 2));
        assert_false(rows_bool(rows, 0, 3));
        assert_int_equal(rows_int(rows, 0, 4), 0);
        assert_false(rows_bool(rows, 0, 5));
        assert_string_equal(rows_text(rows, 1, 1), "two");
        assert_int_equal(rows_bytes(rows, 1, 1), 3);
        rows_free(rows);
    }
    rows_free(NULL);
    db_close(db);
    db_close(NULL);
}

static void test_classes_of_errors(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "CREATE TABLE public.t (n integer PRIMARY KEY CHECK (n > 0));"
                 " INSERT INTO public.t VALUES (1);"
                 "CREATE FUNCTION public.state(text) RETURNS void LANGUAGE plpgsql AS"
                 " $$ BEGIN RAISE 'made' USING ERRCODE = $1; END $$");
    static const struct {
        const char *text, *state;
        enum fault_code code;
    } cases[] = {
        {"SELECT ('x' || current_user)::integer", "22P02", FAULT_ROW},
        {"INSERT INTO public.t VALUES (1)", "23505", FAULT_ROW},
        {"INSERT INTO public.t VALUES (-1)", "23514", FAULT_ROW},
        {"SELECT 1/(SELECT 0)", "22012", FAULT_ROW},
        {"SELECT public.state('40001')", "40001", FAULT_AGAIN},
        {"SELECT public.state('40P01')", "40P01", FAULT_AGAIN},
        {"SELECT public.state('55P03')", "55P03", FAULT_AGAIN},
        {"SELECT public.state('57014')", "57014", FAULT_AGAIN},
        {"SELECT public.state('53100')", "53100", FAULT_RETRY},
        {"SELECT public.state('42501')", "42501", FAULT_CONFIG},
        {"SELECT nothing FROM public.nowhere", "42P01", FAULT_BUG},
        {"SELECT FROM FROM", "42601", FAULT_BUG},
        {"SELECT public.state('55000')", "55000", FAULT_BUG},
        {"SELECT public.state('XX000')", "XX000", FAULT_BUG},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct db *db = open_session(fx, DB_HOT);
        struct fault f = run(db, cases[i].text);
        fault_is(&f, cases[i].code, cases[i].state);
        /* the server answered: the session goes on */
        assert_true(db_is_open(db));
        f = run(db, "SELECT 1");
        fault_is(&f, FAULT_NONE, "");
        db_close(db);
    }
}

static void test_detail_and_hint_are_told(void **state)
{
    struct fixture *fx = *state;
    struct db *db = open_session(fx, DB_PLAIN);
    struct fault f = run(db, "SELECT tenon.enqueue('mail', priority => 12)");
    fault_is(&f, FAULT_ROW, "22023");
    assert_contains(f.text, "priority 12 is not allowed");
    assert_contains(f.text, "0 to 9");
    db_close(db);
}

/* Nothing waits for a lock longer than lock_timeout. */
static void test_lock_is_again(void **state)
{
    struct fixture *fx = *state;
    struct db *db = open_session(fx, DB_HOT);
    PGconn *other = sql_connect(fx->database_url);
    sql_run(other, "CREATE TABLE public.t AS SELECT 1 AS n");
    sql_run(other, "BEGIN; SELECT * FROM public.t FOR UPDATE");
    int64_t start_ms = now_ms();
    struct fault f = run(db, "SELECT n FROM public.t FOR UPDATE");
    int64_t took_ms = now_ms() - start_ms;
    fault_is(&f, FAULT_AGAIN, "55P03");
    assert_in_range(took_ms, DB_LOCK_LIMIT_MS, patience_loaded_ms(5000));
    sql_run(other, "COMMIT");
    f = run(db, "SELECT n FROM public.t FOR UPDATE");
    fault_is(&f, FAULT_NONE, "");
    PQfinish(other);
    db_close(db);
}

static const struct statement insert = {"insert",
                                        "INSERT INTO public.t VALUES ($1::integer) RETURNING n"};
static const struct statement count = {"count", "SELECT count(*) FROM public.t"};
static const struct statement twice = {"twice", "SELECT 2 * $1::integer"};

static struct db_call call_of(const struct statement *st, const char *const *param)
{
    return (struct db_call){.statement = st, .params = param, .n_params = param ? 1 : 0};
}

/* A batch commits as one. What failed is named, and the session still knows which of its statements
 * the server has: each of them works afterwards, in any order. */
static void test_batch_that_fails(void **state)
{
    struct fixture *fx = *state;
    struct db *db = open_session(fx, DB_HOT);
    const char *one = "1", *two = "2";
    test_sql(fx, "CREATE TABLE public.t (n integer PRIMARY KEY)");
    for (size_t bad = 0; bad < 3; bad++) {
        struct db_call calls[] = {call_of(&insert, &one), call_of(&insert, &two),
                                  call_of(&count, NULL)};
        const char *nonsense = "x";
        calls[bad] = call_of(&twice, &nonsense);
        struct fault f = {0};
        size_t failed = 99;
        assert_false(db_batch(db, calls, 3, 10000, &failed, &f));
        fault_is(&f, FAULT_ROW, "22P02");
        assert_int_equal(failed, bad);
        assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM public.t"), 0);
        for (size_t i = 0; i < 3; i++) {
            assert_null(calls[i].rows);
        }
    }
    struct db_call calls[] = {call_of(&count, NULL), call_of(&insert, &one), call_of(&insert, &two),
                              call_of(&count, NULL), call_of(&twice, &two)};
    struct fault f = {0};
    size_t failed = 99;
    assert_ok(db_batch(db, calls, 5, 10000, &failed, &f), &f);
    assert_int_equal(failed, 5);
    static const int64_t want[] = {0, 1, 2, 2, 4};
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(rows_int(calls[i].rows, 0, 0), want[i]);
        rows_free(calls[i].rows);
    }
    db_close(db);
}

/* An error that only the commit finds is not taken for success. */
static void test_commit_that_fails(void **state)
{
    struct fixture *fx = *state;
    struct db *db = open_session(fx, DB_HOT);
    const char *one = "1";
    test_sql(fx, "CREATE TABLE public.t (n integer UNIQUE DEFERRABLE INITIALLY DEFERRED)");
    struct db_call calls[] = {call_of(&insert, &one), call_of(&insert, &one)};
    struct fault f = {0};
    size_t failed = 99;
    assert_false(db_batch(db, calls, 2, 10000, &failed, &f));
    fault_is(&f, FAULT_ROW, "23505");
    assert_int_equal(failed, 2);
    assert_null(calls[0].rows);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM public.t"), 0);
    struct fault after = run(db, "SELECT 1");
    fault_is(&after, FAULT_NONE, "");
    db_close(db);
}

static void test_batch_over_the_limit(void **state)
{
    struct fixture *fx = *state;
    struct db *db = open_session(fx, DB_HOT);
    struct db_call calls[65];
    for (size_t i = 0; i < 65; i++) {
        calls[i] = call_of(&twice, NULL);
    }
    struct fault f = {0};
    assert_false(db_batch(db, calls, 65, 10000, NULL, &f));
    assert_int_equal(f.code, FAULT_BUG);
    assert_contains(f.text, "65");
    db_close(db);
}

/* More than a socket's buffers hold, in both directions. */
/* Many more statements than any part of tenon has, each prepared once and run twice. */
static void test_a_session_with_many_statements(void **state)
{
    enum { MANY = 200 };
    struct fixture *fx = *state;
    struct db *db = NULL;
    struct fault f = {0};
    static struct statement all[MANY];
    static char texts[MANY][32], names[MANY][16];
    assert_ok(db_open(fx->database_url, DB_PLAIN, "test", &db, &f), &f);
    for (int i = 0; i < 2 * MANY; i++) {
        struct rows *rows = NULL;
        struct statement *st = &all[i % MANY];
        (void)snprintf(texts[i % MANY], sizeof *texts, "SELECT %d", i % MANY);
        (void)snprintf(names[i % MANY], sizeof *names, "s%d", i % MANY);
        *st = (struct statement){names[i % MANY], texts[i % MANY]};
        assert_ok(db_exec(db, st, NULL, 0, &rows, &f), &f);
        assert_int_equal(rows_int(rows, 0, 0), i % MANY);
        rows_free(rows);
    }
    db_close(db);
}

static void test_large_values(void **state)
{
    struct fixture *fx = *state;
    struct db *db = open_session(fx, DB_HOT);
    static const struct statement echo = {"echo", "SELECT $1::text"};
    size_t len = 8 << 20;
    char *text = malloc(len + 1);
    memset(text, 'x', len);
    text[len] = '\0';
    const char *param = text;
    struct db_call calls[8];
    for (size_t i = 0; i < 8; i++) {
        calls[i] = call_of(&echo, &param);
    }
    struct fault f = {0};
    assert_ok(db_batch(db, calls, 8, 30000, NULL, &f), &f);
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(rows_bytes(calls[i].rows, 0, 0), len);
        rows_free(calls[i].rows);
    }
    free(text);
    db_close(db);
}

/* The server is silent: the session is given up at the caller's limit, not the server's. */
static void test_answer_that_does_not_come(void **state)
{
    struct fixture *fx = *state;
    struct db *db = open_session(fx, DB_HOT);
    static const struct statement silence = {"silence", "SELECT pg_sleep(10)"};
    struct db_call call = call_of(&silence, NULL);
    struct fault f = {0};
    int64_t start_ms = now_ms();
    assert_false(db_batch(db, &call, 1, 200, NULL, &f));
    int64_t took_ms = now_ms() - start_ms;
    assert_in_range(took_ms, 200, patience_loaded_ms(3000));
    fault_is(&f, FAULT_RETRY, "");
    assert_contains(f.text, "within the time limit");
    assert_contains(f.text, fx->database);
    assert_false(db_is_open(db));
    struct fault after = run(db, "SELECT 1");
    fault_is(&after, FAULT_RETRY, "");
    assert_contains(after.text, "the session is closed");
    db_close(db);
}

static void *sleep_in_server(void *arg)
{
    static struct fault f;
    f = run(arg, "SELECT pg_sleep(14)");
    return &f;
}

static void test_cut_from_another_thread(void **state)
{
    struct fixture *fx = *state;
    struct db *db = open_session(fx, DB_HOT);
    pthread_t thread;
    void *result = NULL;
    int pid = db_backend_pid(db);
    assert_int_equal(pthread_create(&thread, NULL, sleep_in_server, db), 0);
    test_await(fx, 5000, "SELECT wait_event = 'PgSleep' FROM pg_stat_activity WHERE pid = %d", pid);
    int64_t start_ms = now_ms();
    db_cut(db);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_took(start_ms, 3000);
    fault_is(result, FAULT_RETRY, "");
    assert_false(db_is_open(db));
    db_close(db);
}

static void test_backend_that_is_ended(void **state)
{
    struct fixture *fx = *state;
    struct db *db = open_session(fx, DB_HOT);
    assert_true(test_sql_bool(fx, "SELECT pg_terminate_backend(%d, 5000)", db_backend_pid(db)));
    struct fault f = run(db, "SELECT 1");
    assert_int_equal(f.code, FAULT_RETRY);
    assert_false(db_is_open(db));
    db_close(db);
}

static void test_script(void **state)
{
    struct fixture *fx = *state;
    struct db *db = open_session(fx, DB_PLAIN);
    struct fault f = {0};
    assert_ok(
        db_script(db,
                  "CREATE TABLE public.t (n integer); INSERT INTO public.t VALUES (1); SELECT 1",
                  &f),
        &f);
    assert_false(db_script(db,
                           "INSERT INTO public.t VALUES (2); INSERT INTO public.nowhere VALUES (1)",
                           &f));
    fault_is(&f, FAULT_BUG, "42P01");
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM public.t"), 1);
    fault_clear(&f);
    assert_ok(db_script(db, "BEGIN; INSERT INTO public.t VALUES (2)", &f), &f);
    assert_ok(db_script(db, "COMMIT", &f), &f);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM public.t"), 2);
    db_close(db);
}

static void test_notifications(void **state)
{
    struct fixture *fx = *state;
    struct db *db = open_session(fx, DB_HOT);
    struct fault f = {0};
    char text[DB_NOTIFIED_BYTES];
    assert_ok(db_script(db, "LISTEN tenon", &f), &f);
    assert_false(db_next_notified(db, text));
    test_sql(fx, "NOTIFY tenon");
    struct pollfd pfd = {.fd = db_fd(db), .events = POLLIN};
    assert_int_equal(poll(&pfd, 1, 5000), 1);
    assert_true(db_next_notified(db, text));
    assert_false(db_next_notified(db, text));
    /* one that comes while a statement runs is not lost */
    test_sql(fx, "NOTIFY tenon");
    f = run(db, "SELECT 1");
    fault_is(&f, FAULT_NONE, "");
    assert_true(db_next_notified(db, text));
    db_close(db);
}

static void test_no_secret_is_shown(void **state)
{
    struct fixture *fx = *state;
    char text[256], small[12];
    db_url_mask("postgresql://me:topsecret@db.example:5433/app?sslmode=require", text, sizeof text);
    assert_string_equal(text, "user=me dbname=app host=db.example port=5433");
    db_url_mask("postgresql://me:topsecret@db.example:5433/app", small, sizeof small);
    assert_true(strlen(small) < sizeof small);
    db_url_mask("postgresql://[", text, sizeof text);
    assert_string_equal(text, "");
    db_url_mask(NULL, text, sizeof text);
    struct db *db = open_session(fx, DB_PLAIN);
    PQconninfoOption *options = PQconninfoParse(fx->database_url, NULL);
    for (PQconninfoOption *o = options; o->keyword; o++) {
        if (strcmp(o->keyword, "password") == 0 && o->val) {
            assert_null(strstr(db_where(db), o->val));
        }
    }
    PQconninfoFree(options);
    assert_contains(db_where(db), fx->database);
    db_close(db);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_url),
        WITH_DATABASE(test_login_refused),
        cmocka_unit_test(test_login_refused_in_german),
        WITH_DATABASE(test_login_that_lacks_something),
        cmocka_unit_test(test_server_away),
        cmocka_unit_test(test_server_that_never_answers),
        WITH_DATABASE(test_settings_of_a_session),
        WITH_DATABASE(test_rows),
        WITH_DATABASE(test_classes_of_errors),
        WITH_DATABASE(test_detail_and_hint_are_told),
        WITH_DATABASE(test_lock_is_again),
        WITH_DATABASE(test_batch_that_fails),
        WITH_DATABASE(test_commit_that_fails),
        WITH_DATABASE(test_batch_over_the_limit),
        WITH_DATABASE(test_a_session_with_many_statements),
        WITH_DATABASE(test_large_values),
        WITH_DATABASE(test_answer_that_does_not_come),
        WITH_DATABASE(test_cut_from_another_thread),
        WITH_DATABASE(test_backend_that_is_ended),
        WITH_DATABASE(test_script),
        WITH_DATABASE(test_notifications),
        WITH_DATABASE(test_no_secret_is_shown),
    };
    return RUN_GROUP(tests);
}
