/* label: e2e */
/* timeout: 200 */
/* What an operator does from the page: by its API, and in a real Chromium, which
 * tests/browser/acts.py drives. */
#include "tests/support/rows.h"
#include "tests/support/web.h"

#include <stdio.h>
#include <unistd.h>

enum { LIMIT_MS = 150000 };

static void test_drain(void **state)
{
    struct fixture *fx = *state;
    struct web w;
    char body[128];
    struct process *worker = TENON(fx, "worker", "--release", "r-42", "--handler", "a=true",
                                   "--queues", "default");
    process_await_line(worker, "event=worker_ready", LIMIT_MS);
    char *id = test_sql_text(fx, "SELECT id FROM tenon.worker");
    WEB_OPEN(fx, &w, NULL);
    json_t *o = web_get(&w, 200, "/api/workers");
    const json_t *one = json_array_get(json_object_get(o, "workers"), 0);
    assert_string_equal(json_string_value(json_object_get(one, "release")), "r-42");
    assert_string_equal(json_string_value(json_object_get(one, "version")), TENON_VERSION);
    json_decref(o);
    test_sql(fx, "INSERT INTO tenon.minute SELECT date_trunc('hour', now(), 'UTC')"
                 " - interval '71 h', 'q', 'a', gen_random_uuid(), 4, 4, 4");
    o = web_get(&w, 200, "/api/rates?hours=72");
    assert_int_equal(json_integer_value(json_object_get(json_object_get(o, "done"), "0")), 4);
    one = json_array_get(json_object_get(o, "releases"), 0);
    assert_string_equal(json_string_value(json_object_get(one, "release")), "r-42");
    json_decref(o);
    json_decref(web_get(&w, 400, "/api/rates?hours=48"));
    json_decref(web_post(&w, 400, "/api/drain", "{}"));
    json_decref(web_post(&w, 400, "/api/drain", "{\"worker\": \"nobody\"}"));
    (void)snprintf(body, sizeof body, "{\"worker\": \"%s\", \"why\": \"a new disk\"}", id);
    json_decref(web_post(&w, 200, "/api/drain", body));
    assert_int_equal(process_wait(worker, LIMIT_MS), 0);
    json_decref(web_post(&w, 404, "/api/drain", body));
    assert_true(test_sql_bool(fx,
                              "SELECT count(*) = 1 AND bool_and(what->>'worker' = '%s' AND"
                              " what->>'why' = 'a new disk') FROM tenon.audit WHERE act = 'drain'",
                              id));
    free(id);
    web_close(&w);
}

static void act(struct web *w, const char *name, const char *filter, int n)
{
    char body[200];
    (void)snprintf(body, sizeof body, "{\"act\": \"%s\", \"filter\": %s}", name, filter);
    json_t *o = web_post(w, 200, "/api/act", body);
    assert_int_equal(json_integer_value(json_object_get(o, "n")), n);
    json_decref(o);
}

/* Of two schedules of one kind, each has its own, by the tag of its tasks. */
static void test_outcomes_of_schedules(void **state)
{
    struct fixture *fx = *state;
    struct web w;
    test_sql(fx, "SELECT tenon.set_schedule('day', every => '1 d', kind => 'a'),"
                 " tenon.set_schedule('hour', every => '1 h', kind => 'a')");
    test_sql(fx, "SELECT tenon.run_schedule_now('day'), tenon.run_schedule_now('hour')");
    test_sql(fx, "SELECT tenon.cancel(id) FROM tenon.list('{\"tag\": \"day\"}')");
    WEB_OPEN(fx, &w, NULL);
    json_t *o = web_get(&w, 200, "/api/schedules");
    const json_t *all = json_object_get(o, "outcomes"), *one = json_array_get(all, 0);
    assert_int_equal(json_array_size(all), 1);
    assert_string_equal(json_string_value(json_object_get(one, "name")), "day");
    one = json_array_get(json_object_get(one, "outcomes"), 0);
    assert_string_equal(json_string_value(json_object_get(one, "state")), "cancelled");
    json_decref(o);
    web_close(&w);
}

static void test_undo(void **state)
{
    struct fixture *fx = *state;
    struct web w;
    rows_dead(fx, "z", 3, "Boom: it");
    WEB_OPEN(fx, &w, NULL);
    act(&w, "undo", "{\"kind\": \"z\"}", 0);
    act(&w, "retry", "{\"state\": \"dead\", \"kind\": \"z\"}", 3);
    test_sql(fx, "UPDATE tenon.task SET claims = claims + 1 WHERE id = 1"); /* and was released */
    json_t *o = web_post(&w, 200, "/api/preview",
                         "{\"act\": \"undo\", \"filter\": {\"kind\": \"z\"}}");
    assert_int_equal(json_integer_value(json_object_get(o, "n")), 2);
    json_decref(o);
    act(&w, "undo", "{\"kind\": \"z\", \"error\": \"Boom\"}", 2);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.dead"), 2);
    web_close(&w);
}

static bool there_is_a_browser(void)
{
    return access("/usr/bin/chromium", X_OK) == 0 && access("/usr/bin/chromedriver", X_OK) == 0 &&
           access("/usr/lib/python3/dist-packages/selenium", R_OK) == 0;
}

static void test_in_the_browser(void **state)
{
    struct fixture *fx = *state;
    struct web w;
    char url[128], script[300], profile[300], home[320];
    if (!there_is_a_browser() && !getenv("TEST_NO_SKIP")) {
        print_message(
            "skipped: there is no browser; script/bootstrap --with-browser installs it\n");
        return;
    }
    for (int i = 0; i < 2; i++) {
        struct process *worker = TENON(fx, "worker", "--release", "r-42", "--handler", "a=true");
        process_await_line(worker, "event=worker_ready", LIMIT_MS);
    }
    rows_dead(fx, "z", 3, "Boom: it");
    WEB_OPEN(fx, &w, NULL);
    (void)snprintf(url, sizeof url, "http://127.0.0.1:%d/#token=%s", w.port, w.token);
    (void)snprintf(script, sizeof script, "%s/tests/browser/acts.py", repository);
    (void)snprintf(profile, sizeof profile, "%s/profile", fx->dir);
    (void)snprintf(home, sizeof home, "HOME=%s", fx->dir);
    const char *const args[] = {"/usr/bin/python3", script, url, profile, NULL};
    struct process *p = process_spawn(fx, args, (const char *const[]){home, NULL});
    int code = process_wait(p, LIMIT_MS);
    char *log = file_text(p->log);
    if (code != 0) {
        (void)fputs(log, stderr); /* whole: fail_msg() cuts it */
        fail_msg("acts.py ended with %d", code);
    }
    free(log);
    web_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {WITH_DATABASE(test_drain),
                                       WITH_DATABASE(test_outcomes_of_schedules),
                                       WITH_DATABASE(test_undo),
                                       WITH_DATABASE(test_in_the_browser)};
    return RUN_GROUP(tests);
}
