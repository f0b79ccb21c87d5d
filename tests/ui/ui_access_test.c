/* label: e2e */
/* timeout: 120 */
/* only: all */
/* Who gets into `tenon ui`, from where, and what he may do there: tokens, passwords, roles; pages
 * of others, in frames or behind names that were made to lead here; the headers of every answer. */
#include "core/base/now.h"
#include "tests/support/patience.h"
#include "tests/support/web.h"

#include <arpa/inet.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <unistd.h>

enum { LIMIT_MS = 30000, TRIES = 10, LINE_BYTES = 400 };

/* --- helpers -------------------------------------------------------------------------------- */

static void write_file(struct fixture *fx, const char *name, const char *text, char path[300])
{
    (void)snprintf(path, 300, "%s/%s", fx->dir, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* It must not start, and says why. */
static void assert_refuses(struct fixture *fx, const char *says, const char *const *args)
{
    struct process *p = tenon_spawn(fx, args, NULL);
    assert_int_equal(process_wait(p, LIMIT_MS), 2);
    char *log = file_text(p->log);
    assert_contains(log, says);
    free(log);
}
#define REFUSES(fx, says, ...)                                                                     \
    assert_refuses(fx, says, (const char *const[]){"ui", __VA_ARGS__, NULL})

/* The header line of a name and a password. */
static void basic(const char *name, const char *password, char line[LINE_BYTES])
{
    char pair[200], coded[300];
    (void)snprintf(pair, sizeof pair, "%s:%s", name, password);
    (void)EVP_EncodeBlock((unsigned char *)coded, (const unsigned char *)pair, (int)strlen(pair));
    (void)snprintf(line, LINE_BYTES, "Authorization: Basic %s\r\n", coded);
}

static int get(const struct web *w, const char *path, const char *headers)
{
    return web_status(w, "GET", path, headers, "");
}

/* --- the token ------------------------------------------------------------------------------ */

static void test_nobody_gets_in_without_the_token(void **state)
{
    static const char *const paths[] = {"session", "overview", "rates",     "tasks",
                                        "tasks/1", "dead",     "flows",     "flows/1",
                                        "limits",  "workers",  "schedules", "audit"};
    struct fixture *fx = *state;
    struct web w;
    char path[64], line[LINE_BYTES];
    WEB_OPEN(fx, &w, NULL);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        (void)snprintf(path, sizeof path, "/api/%s", paths[i]);
        assert_int_equal(get(&w, path, ""), 401);
    }
    assert_int_equal(get(&w, path, "Authorization: Bearer 0123456789abcdef\r\n"), 401);
    assert_int_equal(get(&w, path, "Authorization: Bearer \r\n"), 401);
    assert_int_equal(get(&w, path, "Authorization: Bearer\r\n"), 401);
    basic("", w.token, line);
    assert_int_equal(get(&w, path, line), 401);
    assert_int_equal(web_status(&w, "POST", "/api/act", web_posting, "{\"act\": \"retry\"}"), 401);
    (void)snprintf(line, sizeof line, "Authorization: bearer %s\r\n", w.token);
    assert_int_equal(get(&w, "/api/overview", line), 200);
    (void)snprintf(line, sizeof line, "Authorization: Bearer %s0\r\n", w.token);
    assert_int_equal(get(&w, "/api/overview", line), 401);
    char *log = file_text(w.process->log);
    assert_null(strstr(log, w.token));
    free(log);
    web_close(&w);
}

static void test_nobody_guesses(void **state)
{
    struct fixture *fx = *state;
    struct web w;
    char right[200];
    WEB_OPEN(fx, &w, NULL);
    int status = 0;
    (void)snprintf(right, sizeof right, "Authorization: Bearer %s\r\n", w.token);
    for (int i = 0; i < TRIES + 5; i++) {
        assert_int_equal(get(&w, "/api/overview", right), i < TRIES ? 200 : 429);
        status = get(&w, "/api/overview", "Authorization: Bearer 0123456789abcdef\r\n");
    }
    assert_int_equal(status, 429);
    assert_int_equal(process_lines(w.process, "event=ui_login_failed"), TRIES);
    web_close(&w);
}

/* --- other pages ---------------------------------------------------------------------------- */

static int post_with(const struct web *w, const char *lines)
{
    char headers[512];
    (void)snprintf(headers, sizeof headers, "Authorization: Bearer %s\r\n%s", w->token, lines);
    return web_status(w, "POST", "/api/pause", headers, "{\"queue\": \"mail\"}");
}

#define JSON_LINE "Content-Type: application/json\r\n"

static void test_other_pages_can_do_nothing(void **state)
{
    struct fixture *fx = *state;
    struct web w;
    char lines[256];
    WEB_OPEN(fx, &w, NULL);
    assert_int_equal(post_with(&w, JSON_LINE), 403);
    assert_int_equal(post_with(&w, JSON_LINE "X-Tenon: 1\r\nOrigin: http://evil.example\r\n"), 403);
    assert_int_equal(post_with(&w, JSON_LINE "X-Tenon: 1\r\nOrigin: null\r\n"), 403);
    assert_int_equal(post_with(&w, JSON_LINE "X-Tenon: 1\r\nSec-Fetch-Site: same-site\r\n"), 403);
    assert_int_equal(post_with(&w, "X-Tenon: 1\r\nContent-Type: text/plain\r\n"), 400);
    (void)snprintf(lines, sizeof lines, "X-Tenon: 1\r\nOrigin: http://127.0.0.1:%d\r\n",
                   w.port + 1);
    assert_int_equal(post_with(&w, lines), 403);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.paused"), 0);
    (void)snprintf(lines, sizeof lines,
                   JSON_LINE "X-Tenon: 1\r\nOrigin: http://127.0.0.1:%d\r\n"
                             "Sec-Fetch-Site: same-origin\r\n",
                   w.port);
    assert_int_equal(post_with(&w, lines), 200);
    assert_int_equal(get(&w, "/api/pause?queue=mail", ""), 404);
    (void)snprintf(lines, sizeof lines, "Authorization: Bearer %s\r\nSec-Fetch-Site: %s\r\n",
                   w.token, "cross-site");
    assert_int_equal(get(&w, "/api/session", lines), 403);
    (void)snprintf(lines, sizeof lines, "Authorization: Bearer %s\r\nSec-Fetch-Site: %s\r\n",
                   w.token, "none"); /* typed as an address */
    assert_int_equal(get(&w, "/api/session", lines), 200);
}

static void test_a_name_that_was_made_to_lead_here(void **state)
{
    struct fixture *fx = *state;
    struct web w, known;
    WEB_OPEN(fx, &w, NULL);
    assert_int_equal(get(&w, "/", "Host: evil.example\r\n"), 421);
    assert_int_equal(get(&w, "/api/session", "Host: evil.example:7070\r\n"), 421);
    assert_int_equal(get(&w, "/", "Host: 127.0.0.1.evil.example\r\n"), 421);
    assert_int_equal(get(&w, "/", "Host: \r\n"), 421);
    assert_int_equal(get(&w, "/", "Host: localhost:7070\r\n"), 200);
    assert_int_equal(get(&w, "/", "Host: [::1]:7070\r\n"), 200);
    WEB_OPEN(fx, &known, "--hosts", "tasks.example.org,other.example");
    assert_int_equal(get(&known, "/", "Host: Tasks.example.org\r\n"), 200);
    assert_int_equal(get(&known, "/", "Host: evil.example\r\n"), 421);
}

/* A proxy and the page must not read two different requests. */
static void test_a_request_can_be_read_in_one_way(void **state)
{
    static const char *const wrong[] = {"Content-Length : 2\r\n", "X-Tenon\t: 1\r\n",
                                        "Content-Length: 0\r\n", "Host: a\r\nHost: b\r\n",
                                        "Origin: a\r\nOrigin: b\r\n"};
    struct fixture *fx = *state;
    struct web w;
    struct web_answer a;
    WEB_OPEN(fx, &w, NULL);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        web_request(&w, "GET", "/", wrong[i], "", &a);
        assert_int_equal(a.status, 400);
        assert_contains(a.head, "Connection: close");
        web_clear(&a);
    }
    web_request(&w, "POST", "/api/act", "Transfer-Encoding: chunked\r\n", "0\r\n\r\n", &a);
    assert_int_equal(a.status, 400);
    assert_contains(a.body, "the body has two lengths");
    web_clear(&a);
    assert_int_equal(get(&w, "/", "Host: \r\n"), 421);
    web_close(&w);
}

static void test_every_answer_is_guarded(void **state)
{
    static const char *const paths[] = {"/", "/static/app.js", "/api/session", "/nowhere"};
    struct fixture *fx = *state;
    struct web w;
    struct web_answer a;
    char headers[128] = "";
    WEB_OPEN(fx, &w, NULL);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        web_request(&w, "GET", paths[i], "", "", &a);
        assert_contains(a.head, "Content-Security-Policy: default-src 'none'; script-src 'self';");
        assert_contains(a.head, "frame-ancestors 'none'");
        assert_null(strstr(a.head, "unsafe"));
        assert_contains(a.head, "X-Frame-Options: DENY");
        assert_contains(a.head, "X-Content-Type-Options: nosniff");
        assert_contains(a.head, "Referrer-Policy: no-referrer");
        assert_contains(a.head, i == 2 ? "Cache-Control: no-store" : "Cross-Origin");
        web_clear(&a);
    }
    web_request(&w, "GET", "/static/app.js", "", "", &a);
    const char *etag = strstr(a.head, "ETag: ");
    assert_non_null(etag);
    (void)snprintf(headers, sizeof headers, "If-None-Match: %.*s\r\n", (int)strcspn(etag + 6, "\r"),
                   etag + 6);
    web_clear(&a);
    assert_int_equal(get(&w, "/static/app.js", headers), 304);
    assert_int_equal(get(&w, "/static/../ui.c", ""), 404);
    assert_int_equal(get(&w, "/tasks/17", ""), 200);
    assert_int_equal(web_status(&w, "DELETE", "/", "", ""), 404);
}

static void test_a_body_has_a_limit(void **state)
{
    enum { BYTES = 300000 };
    struct fixture *fx = *state;
    struct web w;
    char *body = malloc(BYTES + 1);
    assert_non_null(body);
    memset(body, '[', BYTES);
    body[BYTES] = '\0';
    WEB_OPEN(fx, &w, NULL);
    assert_int_equal(web_status(&w, "POST", "/api/act", web_posting, body), 413);
    body[10000] = '\0';
    json_decref(web_post(&w, 400, "/api/act", body));
    free(body);
    web_close(&w);
}

/* --- passwords ------------------------------------------------------------------------------ */

/* ann: secret; bob: hidden. As "openssl passwd -6" makes them. */
static const char passwords[] =
    "# two people\n"
    "ann:$6$tenontest$4XBunPmlnlAonrGYySHEN5P0eirZcKWKFa6l.0hwcgm67JiJgryrK1a1eAZQbG9R95785k1NYbZe"
    "h40o2dGgQ0\n"
    "bob:$6$tenonbob$oS3c/UrGnz8nMdAdUw1O3zy.nIJYt.t2Snt6ZOuzjBqBqibTdwxWjeJ5NWxDp2cyhy2QUU334BHxPX"
    "Jqku1qP0:read-only\n";

static int try(const struct web *w, const char *name, const char *password)
{
    char line[LINE_BYTES];
    basic(name, password, line);
    return get(w, "/api/overview", line);
}

static void test_passwords(void **state)
{
    struct fixture *fx = *state;
    struct web w;
    struct web_answer a;
    char path[300], line[LINE_BYTES], headers[600];
    write_file(fx, "passwords", passwords, path);
    WEB_OPEN(fx, &w, "--password-file", path);
    assert_string_equal(w.token, "");
    web_request(&w, "GET", "/tasks", "", "", &a); /* the browser asks, before there is a page */
    assert_int_equal(a.status, 401);
    assert_contains(a.head, "WWW-Authenticate: Basic realm=\"tenon\"");
    web_clear(&a);
    assert_int_equal(get(&w, "/static/app.js", ""), 200);
    assert_int_equal(try(&w, "ann", "hidden"), 401);
    assert_int_equal(try(&w, "eve", "secret"), 401);
    assert_int_equal(try(&w, "ann", ""), 401);
    assert_int_equal(get(&w, "/api/overview", "Authorization: Basic YW5u\r\n"), 401); /* ann */
    assert_int_equal(get(&w, "/api/overview", "Authorization: Basic %%%%\r\n"), 401);
    assert_int_equal(get(&w, "/api/overview", "Authorization: Basic \r\n"), 401);
    assert_int_equal(get(&w, "/api/overview", "Authorization: Bearer \r\n"), 401);
    assert_int_equal(try(&w, "ann", "secret"), 200);
    assert_int_equal(try(&w, "ann", "secret"), 200); /* from memory */
    assert_int_equal(try(&w, "ann", "secretly"), 401);
    assert_int_equal(try(&w, "bob", "secret"), 401);
    basic("ann", "secret", line);
    assert_int_equal(get(&w, "/tasks", line), 200);
    (void)snprintf(headers, sizeof headers, "%s%s", web_posting, line);
    assert_int_equal(web_status(&w, "POST", "/api/pause", headers,
                                "{\"queue\": \"mail\", \"why\": \"it burns\"}"),
                     200);
    assert_true(test_sql_bool(fx, "SELECT what = '{\"queue\": \"mail\", \"why\": \"it burns\","
                                  " \"web_user\": \"ann\"}' AND who = session_user FROM"
                                  " tenon.audit"));
    test_sql(fx, "SELECT tenon.flow('f'); SELECT tenon.enqueue('a', flow => 1)");
    assert_int_equal(web_status(&w, "POST", "/api/flow", headers,
                                "{\"act\": \"cancel\", \"flow\": 1}"),
                     200);
    assert_true(test_sql_bool(fx, "SELECT count(*) = 1 FROM tenon.audit WHERE act = 'cancel_flow'"
                                  " AND what = '{\"flow\": 1, \"web_user\": \"ann\"}'"));
    basic("bob", "hidden", line);
    (void)snprintf(headers, sizeof headers, "%s%s", web_posting, line);
    assert_int_equal(get(&w, "/api/overview", line), 200);
    assert_int_equal(web_status(&w, "POST", "/api/resume", headers, "{\"queue\": \"mail\"}"), 403);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.paused"), 1);
    char *log = file_text(w.process->log);
    assert_null(strstr(log, "hidden"));
    free(log);
    web_close(&w);
}

static void test_nobody_guesses_a_password(void **state)
{
    struct fixture *fx = *state;
    struct web w;
    char path[300];
    write_file(fx, "passwords", passwords, path);
    WEB_OPEN(fx, &w, "--password-file", path);
    assert_int_equal(try(&w, "ann", "secret"), 200);
    for (int i = 0; i < TRIES; i++) {
        assert_int_equal(try(&w, "ann", "guessed"), 401);
    }
    assert_int_equal(try(&w, "ann", "secret"), 429); /* also what is known to be right */
    assert_int_equal(process_lines(w.process, "event=ui_login_failed"), TRIES);
    web_close(&w);
}

/* --- a proxy -------------------------------------------------------------------------------- */

static json_t *session_of(const struct web *w, const char *headers)
{
    struct web_answer a;
    web_request(w, "GET", "/api/session", headers, "", &a);
    json_t *session = a.status == 200 ? json_loads(a.body, 0, NULL) : NULL;
    web_clear(&a);
    return session;
}

static void assert_user(const struct web *w, const char *headers, const char *user, bool may_act)
{
    json_t *session = session_of(w, headers);
    assert_non_null(session);
    assert_string_equal(json_string_value(json_object_get(session, "user")), user);
    assert_int_equal(json_is_true(json_object_get(session, "may_act")), may_act);
    json_decref(session);
}

static void test_a_proxy_names_the_user(void **state)
{
    struct fixture *fx = *state;
    struct web w;
    WEB_OPEN(fx, &w, "--user-header", "X-Forwarded-User", "--trusted-proxy",
             "10.0.0.0/8,127.0.0.0/8", "--operators", "ann,kim@example.org");
    assert_string_equal(w.token, "");
    assert_int_equal(get(&w, "/tasks", ""), 200);
    assert_int_equal(get(&w, "/api/session", ""), 401);
    assert_int_equal(get(&w, "/api/session", "X-Forwarded-User: \r\n"), 401);
    assert_int_equal(get(&w, "/api/session", "X-Forwarded-User: eve, ann\r\n"), 401);
    assert_int_equal(get(&w, "/api/session", "X-Forwarded-User: eve\r\nX-Forwarded-User: ann\r\n"),
                     400);
    assert_int_equal(get(&w, "/api/session", "X-Forwarded-User: eve\r\nx-forwarded-user: ann\r\n"),
                     400);
    assert_int_equal(get(&w, "/api/session", "X_Forwarded_User: ann\r\n"), 401);
    assert_int_equal(get(&w, "/api/session", "X-Forwarded-User: \xff\xfe\r\n"), 401);
    assert_user(&w, "X-Forwarded-User: ann\r\n", "ann", true);
    assert_user(&w, "X-Forwarded-User: kim@example.org\r\n", "kim@example.org", true);
    assert_user(&w, "x-forwarded-user: Ann Lee\r\n", "Ann Lee", false);
    char headers[300];
    (void)snprintf(headers, sizeof headers, "%sX-Forwarded-User: ann\r\n", web_posting);
    assert_int_equal(web_status(&w, "POST", "/api/pause", headers, "{\"queue\": \"q\"}"), 200);
    assert_true(test_sql_bool(fx, "SELECT what ->> 'web_user' = 'ann' FROM tenon.audit"));
    (void)snprintf(headers, sizeof headers, "%sX-Forwarded-User: eve\r\n", web_posting);
    assert_int_equal(web_status(&w, "POST", "/api/resume", headers, "{\"queue\": \"q\"}"), 403);
    web_close(&w);
}

static void test_only_a_trusted_proxy_does(void **state)
{
    struct fixture *fx = *state;
    struct web w;
    struct web_answer a;
    REFUSES(fx, "--user-header needs --trusted-proxy", "--user-header", "X-Forwarded-User");
    REFUSES(fx, "--trusted-proxy", "--user-header", "U", "--trusted-proxy", "proxy.example");
    REFUSES(fx, "--trusted-proxy", "--user-header", "U", "--trusted-proxy", "10.0.0.0/33");
    WEB_OPEN(fx, &w, "--user-header", "X-Forwarded-User", "--trusted-proxy", "127.0.0.2,::1");
    web_request(&w, "GET", "/api/session", "X-Forwarded-User: ann\r\n", "", &a);
    assert_int_equal(a.status, 401);
    assert_contains(a.body, "is from 127.0.0.1, which is not in --trusted-proxy");
    web_clear(&a);
    assert_int_equal(get(&w, "/api/session",
                         "X-Forwarded-User: ann\r\nX-Forwarded-For: 127.0.0.2\r\n"),
                     401);
    web_close(&w);
}

/* Failures count against the address that the proxy has added at the end of X-Forwarded-For. */
static void test_behind_a_proxy_each_has_tries_of_their_own(void **state)
{
    struct fixture *fx = *state;
    struct web w;
    char path[300], wrong[LINE_BYTES], right[LINE_BYTES], headers[600];
    write_file(fx, "passwords", passwords, path);
    WEB_OPEN(fx, &w, "--password-file", path, "--trusted-proxy", "127.0.0.1");
    basic("ann", "guessed", wrong);
    basic("ann", "secret", right);
    for (int i = 0; i <= TRIES; i++) {
        (void)snprintf(headers, sizeof headers, "%sX-Forwarded-For: 192.0.2.%d, 192.0.2.7\r\n",
                       wrong, i);
        assert_int_equal(get(&w, "/api/session", headers), i < TRIES ? 401 : 429);
    }
    (void)snprintf(headers, sizeof headers,
                   "%sX-Forwarded-For: 192.0.2.9\r\nX-Forwarded-For: 192.0.2.7\r\n", wrong);
    assert_int_equal(get(&w, "/api/session", headers), 429);
    (void)snprintf(headers, sizeof headers, "%sX-Forwarded-For: 192.0.2.8\r\n", right);
    assert_int_equal(get(&w, "/api/session", headers), 200);
    assert_int_equal(get(&w, "/api/session", right), 200);
    assert_int_equal(process_lines(w.process, "from=192.0.2.7"), TRIES);
    web_close(&w);
}

/* --- who starts and replaces processes ------------------------------------------------------- */

static void test_health(void **state)
{
    struct fixture *fx = *state;
    struct web w;
    struct web_answer a;
    char path[300];
    write_file(fx, "passwords", passwords, path);
    WEB_OPEN(fx, &w, "--password-file", path);
    web_request(&w, "GET", "/healthz", "", "", &a);
    assert_int_equal(a.status, 200);
    assert_string_equal(a.body, "the database answers\n");
    web_clear(&a);
    assert_int_equal(web_status(&w, "POST", "/healthz", "", ""), 404);
    assert_int_equal(get(&w, "/healthz", "Host: evil.example\r\n"), 421);
    sql_run(fx->maintenance, "ALTER DATABASE %s ALLOW_CONNECTIONS false", fx->database);
    test_sql(fx, "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
                 " WHERE datname = current_database() AND application_name = 'tenon ui'");
    const int64_t until_ms = patience_end_ms(LIMIT_MS);
    while (get(&w, "/healthz", "") != 503) { /* asked once in a second */
        assert_true(now_ms() < until_ms);
    }
    sql_run(fx->maintenance, "ALTER DATABASE %s ALLOW_CONNECTIONS true", fx->database);
    while (get(&w, "/healthz", "") != 200) {
        assert_true(now_ms() < until_ms);
    }
    web_close(&w);
}

static void test_others_come_in_only_with_a_secret(void **state)
{
    struct fixture *fx = *state;
    struct web w;
    char path[300];
    REFUSES(fx, "this needs --password-file, --token-file or --user-header", "--listen",
            "0.0.0.0:0");
    REFUSES(fx, "this needs --password-file, --token-file or --user-header", "--listen", "[::]:0");
    write_file(fx, "token", "short\n", path);
    REFUSES(fx, "has 5 characters; 16 to 128 are allowed", "--token-file", path);
    write_file(fx, "passwords", "ann:secret\n", path);
    REFUSES(fx, "passwords:1: the hash is not one of crypt(3)", "--password-file", path);
    REFUSES(fx, "cannot be read", "--token-file", "/nowhere");
    REFUSES(fx, "cannot listen at 192.0.2.1:7070", "--listen", "192.0.2.1:7070");
    write_file(fx, "token", "a-token-of-somebody\n", path);
    const char *const args[] = {"--listen", "0.0.0.0:0", "--token-file", path, NULL};
    web_open(fx, &w, args, NULL);
    process_await_line(w.process, "insecure=\"HTTP not encrypted\"", LIMIT_MS);
    assert_int_equal(get(&w, "/api/session", ""), 401);
    assert_int_equal(get(&w, "/api/session", "Authorization: Bearer a-token-of-somebody\r\n"), 200);
    web_close(&w);
}

/* --- roles ---------------------------------------------------------------------------------- */

static void assert_may_act(const struct web *w, bool may)
{
    json_t *o = web_get(w, 200, "/api/session");
    assert_true(json_is_boolean(json_object_get(o, "may_act")));
    assert_int_equal(json_is_true(json_object_get(o, "may_act")), may);
    json_decref(o);
    json_decref(web_get(w, 200, "/api/overview"));
    json_decref(web_post(w, may ? 200 : 403, "/api/act",
                         "{\"act\": \"cancel\", \"filter\": {\"kind\": \"mail\"}}"));
    json_decref(web_post(w, may ? 200 : 403, "/api/pause", "{\"queue\": \"mail\"}"));
    json_decref(
        web_post(w, may ? 200 : 403, "/api/schedule", "{\"act\": \"pause\", \"name\": \"s\"}"));
    json_decref(web_post(w, may ? 200 : 403, "/api/flow", "{\"act\": \"cancel\", \"flow\": 1}"));
    json_decref(
        web_post(w, may ? 200 : 403, "/api/limit", "{\"act\": \"pause\", \"name\": \"t\"}"));
}

static void test_the_role_decides(void **state)
{
    struct fixture *fx = *state;
    struct web w;
    char role[80], env[700];
    test_sql(fx, "SELECT tenon.enqueue('mail', flow => tenon.flow('f'), limit_keys => '{t}'),"
                 " tenon.set_schedule('s', every => '1 h', kind => 'a'); SELECT tenon.settle()");
    (void)snprintf(role, sizeof role, "%s_reader", fx->database);
    (void)snprintf(env, sizeof env, "DATABASE_URL=postgresql://%s:word@%s", role,
                   strchr(fx->database_url, '@') + 1);
    test_sql(fx, "CREATE ROLE %s LOGIN PASSWORD 'word'; SELECT tenon.grant_reader('%s')", role,
             role);
    web_open(fx, &w, (const char *const[]){NULL}, (const char *const[]){env, NULL});
    static const char *const paths[] = {"/api/rates",  "/api/tasks",   "/api/tasks/1",
                                        "/api/dead",   "/api/flows",   "/api/flows/1",
                                        "/api/limits", "/api/workers", "/api/schedules",
                                        "/api/audit"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        json_decref(web_get(&w, 200, paths[i]));
    }
    assert_may_act(&w, false);
    assert_true(test_sql_bool(fx, "SELECT state = 'ready' FROM tenon.tasks"));
    test_sql(fx, "SELECT tenon.grant_operator('%s')", role);
    assert_may_act(&w, true);
    process_kill(w.process);
    test_sql(fx, "DROP OWNED BY %s; DROP ROLE %s", role, role);
}

static void test_read_only(void **state)
{
    struct fixture *fx = *state;
    struct web w;
    test_sql(fx, "SELECT tenon.enqueue('mail', flow => tenon.flow('f'))");
    WEB_OPEN(fx, &w, "--read-only");
    assert_may_act(&w, false);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.audit"), 0);
    web_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_nobody_gets_in_without_the_token),
        WITH_DATABASE(test_nobody_guesses),
        WITH_DATABASE(test_other_pages_can_do_nothing),
        WITH_DATABASE(test_a_name_that_was_made_to_lead_here),
        WITH_DATABASE(test_a_request_can_be_read_in_one_way),
        WITH_DATABASE(test_every_answer_is_guarded),
        WITH_DATABASE(test_a_body_has_a_limit),
        WITH_DATABASE(test_passwords),
        WITH_DATABASE(test_nobody_guesses_a_password),
        WITH_DATABASE(test_a_proxy_names_the_user),
        WITH_DATABASE(test_only_a_trusted_proxy_does),
        WITH_DATABASE(test_behind_a_proxy_each_has_tries_of_their_own),
        WITH_DATABASE(test_health),
        WITH_DATABASE(test_others_come_in_only_with_a_secret),
        WITH_DATABASE(test_the_role_decides),
        WITH_DATABASE(test_read_only),
    };
    return RUN_GROUP(tests);
}
