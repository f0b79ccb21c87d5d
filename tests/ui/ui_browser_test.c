/* label: e2e */
/* timeout: 400 */
/* long: 600 */
/* only: all */
/* The page of `tenon ui` in a real Chromium, which tests/browser/page.py drives; in the long
 * variant beside 1,000,000 tasks that wait, 1,000,000 that have ended and 100,000 dead ones. */
#include "tests/support/load.h"
#include "tests/support/web.h"

#include <stdio.h>
#include <unistd.h>

enum { LIMIT_MS = 380000 };

static bool there_is_a_browser(void)
{
    return access("/usr/bin/chromium", X_OK) == 0 && access("/usr/bin/chromedriver", X_OK) == 0 &&
           access("/usr/lib/python3/dist-packages/selenium", R_OK) == 0;
}

/* A dead task, by the kind and its payload. */
static int64_t die(struct fixture *fx, const char *kind, const char *payload, const char *error)
{
    return test_sql_int(
        fx,
        "INSERT INTO tenon.dead (dead_at, id, run_at, created_at, timeout_ms, claims, failures,"
        " crashes, max_attempts, priority, reason, queue, kind, payload, last_error, error_class)"
        " SELECT now(), nextval('tenon.task_id_seq'), now(), now(), 1000, 1, 1, 0, 1, 4,"
        " 'failures',"
        " 'default', '%s', '%s', '%s', '%s' RETURNING id",
        kind, payload, error, error);
}

/* Five dead tasks, of which one is in mails, a letter, Late and of three hours ago; three are
 * letters in mails, one is a card. And a schedule. */
static void fill_for_filters(struct fixture *fx)
{
    test_sql(
        fx,
        "INSERT INTO tenon.dead (dead_at, id, run_at, created_at, timeout_ms, claims, failures,"
        " crashes, max_attempts, priority, reason, queue, kind, payload, last_error, error_class)"
        " SELECT now() - ago::interval, nextval('tenon.task_id_seq'), now(), now(), 1000, 1, 1, 0,"
        " 1, 4, 'failures', queue, kind, '{}', class || ': a ' || kind || ' of ' || ago, class"
        " FROM (VALUES ('mails', 'letter', 'Late', '3 h'), ('default', 'letter', 'Late', '3 h'),"
        " ('mails', 'card', 'Late', '3 h'), ('mails', 'letter', 'Lost', '3 h'),"
        " ('mails', 'letter', 'Late', '0 h')) AS t (queue, kind, class, ago)");
    test_sql(fx, "SELECT tenon.set_schedule('a-schedule-with-a-long-name', '30 3 * * *',"
                 " kind => 'report', zone => 'Europe/Berlin')");
}

/* Of which only one is looked for. */
static void fill_with_many(struct fixture *fx)
{
    test_sql(fx, "INSERT INTO tenon.dead (dead_at, id, run_at, created_at, timeout_ms, claims,"
                 " failures, crashes, max_attempts, priority, reason, queue, kind, payload,"
                 " last_error, error_class) SELECT now() - interval '2 h',"
                 " nextval('tenon.task_id_seq'), now(), now(), 1000, 1, 1, 0, 1, 4, 'failures',"
                 " 'bulk', 'many', jsonb_build_object('n', i), 'Timeout: it', 'Timeout'"
                 " FROM generate_series(1, 150000) i");
    test_sql(fx, "ANALYZE tenon.dead");
}

static void fill(struct fixture *fx)
{
    test_sql(fx, "INSERT INTO tenon.task (run_at, created_at, timeout_ms, claims, max_attempts,"
                 " payload_bytes, priority, delayed, announced, queue, kind, payload)"
                 " SELECT now(), now(), 60000, 0, 25, 10, 4, false, true, 'bulk', 'mail',"
                 " jsonb_build_object('n', i) FROM generate_series(1, 1000000) i");
    test_sql(fx, "INSERT INTO tenon.history (finished_at, id, run_at, created_at, claims,"
                 " failures, crashes, priority, outcome, queue, kind, payload)"
                 " SELECT now(), nextval('tenon.task_id_seq'), now(), now(), 1, 0, 0, 4, 'done',"
                 " 'bulk', 'mail', '{}' FROM generate_series(1, 1000000)");
    test_sql(fx, "INSERT INTO tenon.dead (dead_at, id, run_at, created_at, timeout_ms, claims,"
                 " failures, crashes, max_attempts, priority, reason, queue, kind, payload,"
                 " last_error, error_class) SELECT now() - interval '1 h',"
                 " nextval('tenon.task_id_seq'), now(), now(), 1000, 1, 1, 0, 1, 4, 'failures',"
                 " 'bulk', 'mail', '{}', 'Timeout: it', 'Timeout' FROM generate_series(1, 100000)");
    test_sql(fx, "ANALYZE");
}

static void test_the_page(void **state)
{
    struct fixture *fx = *state;
    struct web w;
    char url[128], script[300], dead[24], hostile[24], profile[300], home[320];
    if (!there_is_a_browser() && !getenv("TEST_NO_SKIP")) {
        print_message(
            "skipped: there is no browser; script/bootstrap --with-browser installs it\n");
        return;
    }
    if (load_is_long()) {
        fill(fx);
    }
    fill_with_many(fx);
    int64_t id = die(fx, "a", "{\"to\": \"ann@example.org\"}", "Boom");
    (void)snprintf(dead, sizeof dead, "%lld", (long long)id);
    id = die(fx, "b",
             "{\"<img src=x onerror=struck=1>\": \"</script><script>struck=1</script>\","
             " \"n\": 123456789012345678901234567890.12345}",
             "<img src=x onerror=struck=1><b>");
    (void)snprintf(hostile, sizeof hostile, "%lld", (long long)id);
    test_sql(
        fx,
        "UPDATE tenon.dead SET payload = payload || jsonb_build_object('as', U&'ann\\202egnp.exe',"
        " 'deep', (repeat('[', 3000) || array_to_string(array_fill(1, ARRAY[330000]), ',')"
        " || repeat(']', 3000))::jsonb) WHERE id = %s",
        dead);
    test_sql(fx, "SELECT tenon.set_limit('t:<b>1</b>', max_running => 1);"
                 "SELECT tenon.enqueue('c', limit_keys => '{t:<b>1</b>}');"
                 "SELECT tenon.flow('{\"name\": \"<img src=x onerror=struck=1>\", \"tasks\": ["
                 "{\"name\": \"<img src=x onerror=struck=1>\", \"kind\": \"c\"},"
                 "{\"name\": \"l\", \"kind\": \"c\", \"depends_on\":"
                 " [\"<img src=x onerror=struck=1>\"]},"
                 "{\"name\": \"r\", \"kind\": \"c\", \"depends_on\":"
                 " [\"<img src=x onerror=struck=1>\"]},"
                 "{\"kind\": \"c\", \"depends_on\": [\"l\", \"r\"]}]}');"
                 "SELECT tenon.settle()");
    fill_for_filters(fx);
    struct process *worker = TENON(fx, "worker", "--handler", "a=true");
    process_await_line(worker, "event=worker_ready", LIMIT_MS);
    WEB_OPEN(fx, &w, NULL);
    (void)snprintf(url, sizeof url, "http://127.0.0.1:%d/#token=%s", w.port, w.token);
    (void)snprintf(script, sizeof script, "%s/tests/browser/page.py", repository);
    (void)snprintf(profile, sizeof profile, "%s/profile", fx->dir);
    (void)snprintf(home, sizeof home, "HOME=%s", fx->dir);
    const char *const args[] = {"/usr/bin/python3", script, url, dead, hostile, profile, NULL};
    struct process *p = process_spawn(fx, args, (const char *const[]){home, NULL});
    int code = process_wait(p, LIMIT_MS);
    char *log = file_text(p->log);
    if (code != 0) {
        (void)fputs(log, stderr); /* whole: fail_msg() cuts it */
        fail_msg("page.py ended with %d", code);
    }
    free(log);
    char *answers = file_text(p->out);
    print_message("%s", answers);
    free(answers);
    assert_int_equal(
        test_sql_int(fx, "SELECT count(*) FROM tenon.audit WHERE act = 'delete' AND n = 3"), 1);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.audit WHERE act = 'delete'"), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {WITH_DATABASE(test_the_page)};
    return RUN_GROUP(tests);
}
