/* label: e2e */
/* timeout: 120 */
/* The JSON API of `tenon ui`: what it shows, what it changes, and hostile payloads. */
#include "tests/support/held.h"
#include "tests/support/rows.h"
#include "tests/support/web.h"

#include <stdio.h>

static const char *text(const json_t *o, const char *key)
{
    const char *value = json_string_value(json_object_get(o, key));
    return value ? value : "(none)";
}

static json_int_t number(const json_t *o, const char *key)
{
    const json_t *value = json_object_get(o, key);
    if (!json_is_integer(value)) {
        fail_msg("\"%s\" is no number", key);
    }
    return json_integer_value(value);
}

static const json_t *list(const json_t *o, const char *key, size_t n)
{
    const json_t *value = json_object_get(o, key);
    assert_true(json_is_array(value));
    assert_int_equal(json_array_size(value), n);
    return value;
}

/* --- reading -------------------------------------------------------------------------------- */

static void test_overview(void **state)
{
    struct fixture *fx = *state;
    struct web w;
    test_sql(fx, "SELECT tenon.enqueue('mail') FROM generate_series(1, 3);"
                 "SELECT tenon.enqueue('mail', queue => 'slow', delay => '1 h');"
                 "SELECT tenon.pause('slow', why => 'it burns')");
    rows_dead(fx, "pay", 2, "Timeout: it");
    WEB_OPEN(fx, &w, NULL);
    json_t *o = web_get(&w, 200, "/api/overview");
    const json_t *queues = list(o, "queues", 2);
    const json_t *q = json_array_get(queues, 0), *slow = json_array_get(queues, 1);
    assert_int_equal(number(q, "ready"), 3);
    assert_int_equal(number(q, "dead"), 2);
    assert_true(number(q, "oldest_ready_s") >= 0);
    assert_int_equal(number(slow, "scheduled"), 1);
    assert_true(json_is_true(json_object_get(slow, "paused")));
    assert_string_equal(text(json_array_get(list(o, "paused", 1), 0), "paused_why"), "it burns");
    assert_int_equal(number(json_array_get(list(o, "unhandled", 1), 0), "ready"), 3);
    const json_t *now = json_object_get(o, "now");
    assert_int_equal(number(now, "ready"), 3);
    assert_int_equal(number(now, "workers"), 0);
    assert_true(number(now, "at_ms") > 0);
    json_decref(o);
    web_close(&w);
}

static void test_tasks_are_found(void **state)
{
    struct fixture *fx = *state;
    struct web w;
    rows_dead(fx, "mail", 60, "Timeout: it");
    int64_t id = test_sql_int(fx, "SELECT tenon.enqueue('pay', '{\"to\": \"ann\", \"n\": 7}')");
    WEB_OPEN(fx, &w, NULL);
    json_t *o =
        web_get(&w, 200,
                "/api/tasks?filter=%7B%22payload%22%3A%22%24.to%20%3D%3D%20%5C%22ann%5C%22%22%7D");
    const json_t *task = json_array_get(list(o, "tasks", 1), 0);
    assert_int_equal(number(task, "id"), id);
    assert_string_equal(text(task, "state"), "ready");
    assert_string_equal(text(task, "payload"), "{\"n\": 7, \"to\": \"ann\"}");
    json_decref(o);
    o = web_get(&w, 200, "/api/tasks?filter=%7B%22state%22%3A%22dead%22%7D");
    (void)list(o, "tasks", 50);
    char path[128];
    (void)snprintf(path, sizeof path,
                   "/api/tasks?filter=%%7B%%22state%%22%%3A%%22dead%%22%%7D&cursor=%lld",
                   (long long)number(o, "next"));
    json_decref(o);
    o = web_get(&w, 200, path);
    (void)list(o, "tasks", 10);
    assert_true(json_number_value(json_object_get(o, "share")) == 1);
    json_decref(o);
    o = web_get(&w, 200, "/api/tasks?limit=1&oldest=true");
    assert_int_equal(number(json_array_get(list(o, "tasks", 1), 0), "id"), 1);
    json_decref(o);
    json_decref(web_get(&w, 400, "/api/tasks?filter=%7B%22stat%22%3A1%7D"));
    json_decref(web_get(&w, 400, "/api/tasks?filter=%7B"));
    json_decref(web_get(&w, 400, "/api/tasks?limit=201"));
    json_decref(web_get(&w, 400, "/api/tasks?cursor=x"));
    json_decref(web_get(&w, 400, "/api/tasks/x"));
    json_decref(web_get(&w, 404, "/api/tasks/999999"));
    o = web_get(&w, 200, "/api/dead");
    const json_t *group = json_array_get(list(o, "groups", 1), 0);
    assert_int_equal(number(group, "n"), 60);
    assert_string_equal(text(group, "error_class"), "Timeout");
    json_decref(o);
    web_close(&w);
}

static void test_one_task(void **state)
{
    struct fixture *fx = *state;
    struct web w;
    struct held c;
    char path[64];
    held_new(fx, &c);
    free(held_requeue(fx, &c, "failed", "Boom: it broke", "0"));
    test_sql(fx, "UPDATE tenon.task SET progress = '{\"at\": 5}'");
    test_sql(fx, "INSERT INTO tenon.log_line (task_id, attempt, level, message, fields)"
                 " SELECT 1, 1, 'info', 'line ' || n, '{\"n\": 1}' FROM generate_series(1, 120) n");
    WEB_OPEN(fx, &w, NULL);
    (void)snprintf(path, sizeof path, "/api/tasks/%lld", (long long)c.id);
    json_t *o = web_get(&w, 200, path);
    const json_t *task = json_object_get(o, "task");
    assert_string_equal(text(json_array_get(list(task, "attempts", 1), 0), "error"),
                        "Boom: it broke");
    const json_t *line = json_array_get(list(o, "logs", 100), 0);
    assert_string_equal(text(line, "message"), "line 21");
    assert_int_equal(number(json_object_get(line, "fields"), "n"), 1);
    assert_string_equal(text(json_object_get(o, "texts"), "progress"), "{\"at\": 5}");
    assert_true(strlen(text(json_object_get(o, "why"), "sentence")) > 10);
    json_decref(o);
    web_close(&w);
}

/* What waits for a parent and what waits for a limit: counted, listed, and each says why. */
static void test_blocked_tasks(void **state)
{
    struct fixture *fx = *state;
    static const char *const says[] = {"It waits for the limit t:1 (1 at once, 1 taken), behind 0",
                                       "It waits for a parent: 1 (a, ready). Of task 1: No"};
    struct web w;
    test_sql(fx,
             "SELECT tenon.set_limit('t', max_running => 1), tenon.flow('f');"
             "SELECT tenon.enqueue('a', flow => 1, limit_keys => '{t:1}');"
             "SELECT tenon.enqueue('a', limit_keys => '{t:1}');"
             "SELECT tenon.enqueue('a', flow => 1, depends_on => '{1}'); SELECT tenon.settle()");
    WEB_OPEN(fx, &w, NULL);
    json_t *o = web_get(&w, 200, "/api/overview");
    assert_int_equal(number(json_array_get(list(o, "queues", 1), 0), "blocked"), 2);
    json_decref(o);
    o = web_get(&w, 200, "/api/tasks?filter=%7B%22state%22%3A%22blocked%22%7D");
    assert_string_equal(text(json_array_get(list(o, "tasks", 2), 0), "state"), "blocked");
    json_decref(o);
    for (int i = 0; i < 2; i++) {
        char path[64];
        (void)snprintf(path, sizeof path, "/api/tasks/%d", 2 + i);
        o = web_get(&w, 200, path);
        assert_string_equal(text(json_object_get(o, "task"), "state"), "blocked");
        assert_contains(text(json_object_get(o, "why"), "sentence"), says[i]);
        json_decref(o);
    }
    web_close(&w);
}

/* --- tasks together ------------------------------------------------------------------------- */

#define HOSTILE "<img src=x onerror=struck=1>"

/* The hostile names are as they were given: the page makes text of them. */
static void test_what_a_task_has_to_do_with_others(void **state)
{
    struct fixture *fx = *state;
    struct web w;
    test_sql(fx, "SELECT tenon.set_limit('t', max_running => 1, max_starts => 5, per => '1 min'),"
                 " tenon.flow('{\"name\": \"" HOSTILE "\", \"tasks\": [{\"name\": \"a\","
                 " \"kind\": \"k\"}, {\"name\": \"" HOSTILE "\", \"kind\": \"k\", \"depends_on\":"
                 " [\"a\"], \"limit_keys\": [\"t:<b>\"]}]}');"
                 "SELECT tenon.put_step(2, '" HOSTILE "', '12345678901234567890.5');"
                 "SELECT tenon.put_step(2, 'a signal', '{\"n\": 1}');"
                 "SELECT tenon.signal('a signal', '{\"n\": 1}'), tenon.signal('" HOSTILE "');"
                 "INSERT INTO tenon.waiting VALUES (2, '" HOSTILE "', now())");
    WEB_OPEN(fx, &w, NULL);
    json_t *o = web_get(&w, 200, "/api/tasks/2");
    const json_t *r = json_object_get(o, "relations");
    assert_string_equal(text(r, "name"), HOSTILE);
    assert_string_equal(text(json_object_get(r, "flow"), "name"), HOSTILE);
    const json_t *parent = json_array_get(list(r, "parents", 1), 0);
    assert_int_equal(number(parent, "id"), 1);
    assert_string_equal(text(parent, "state"), "ready");
    assert_true(json_is_null(json_object_get(parent, "end_time")));
    const json_t *step = json_array_get(list(r, "steps", 2), 0);
    assert_string_equal(text(step, "name"), HOSTILE);
    assert_true(json_is_null(json_object_get(step, "sent_at"))); /* another payload */
    step = json_array_get(json_object_get(r, "steps"), 1);
    assert_string_equal(text(step, "name"), "a signal");
    assert_true(json_is_string(json_object_get(step, "sent_at")));
    assert_string_equal(text(json_object_get(r, "signal"), "name"), HOSTILE);
    const json_t *limit = json_array_get(list(r, "limits", 1), 0);
    assert_string_equal(text(limit, "key"), "t:<b>");
    assert_string_equal(text(limit, "rule"), "t");
    assert_int_equal(number(limit, "max_running"), 1);
    assert_int_equal(number(limit, "per_ms"), 60000);
    assert_string_equal(text(json_object_get(o, "texts"), "steps"),
                        "{\"" HOSTILE "\": 12345678901234567890.5, \"a signal\": {\"n\": 1}}");
    json_decref(o);
    o = web_get(&w, 200, "/api/tasks/1");
    r = json_object_get(o, "relations");
    (void)list(r, "parents", 0);
    assert_int_equal(number(json_array_get(list(r, "children", 1), 0), "id"), 2);
    assert_int_equal(number(r, "children_n"), 1);
    json_decref(o);
    web_close(&w);
}

static void test_flows(void **state)
{
    struct fixture *fx = *state;
    struct web w;
    test_sql(fx, "SELECT tenon.flow('f'); SELECT tenon.batch(on_end => 'z')");
    test_sql(fx,
             "SELECT tenon.enqueue('a', flow => 1); SELECT tenon.enqueue('b', flow => 1, depends_on"
             " => '{1}'); SELECT tenon.enqueue('b')");
    WEB_OPEN(fx, &w, NULL);
    json_t *o = web_get(&w, 200, "/api/flows");
    const json_t *f = json_array_get(list(o, "flows", 2), 1);
    assert_string_equal(text(f, "state"), "running");
    assert_int_equal(number(f, "tasks"), 2);
    assert_string_equal(text(json_array_get(json_object_get(o, "flows"), 0), "state"), "open");
    json_decref(o);
    o = web_get(&w, 200, "/api/flows?cursor=2&limit=5");
    assert_int_equal(number(json_array_get(list(o, "flows", 1), 0), "id"), 1);
    json_decref(o);
    o = web_get(&w, 200, "/api/flows/1");
    assert_int_equal(number(json_object_get(o, "flow"), "blocked"), 1);
    const json_t *child = json_array_get(list(o, "tasks", 2), 1);
    assert_int_equal(json_integer_value(json_array_get(list(child, "parents", 1), 0)), 1);
    json_decref(o);
    o = web_get(&w, 200, "/api/tasks?filter=%7B%22flow%22%3A%221%22%7D");
    (void)list(o, "tasks", 2);
    json_decref(o);
    o = web_post(&w, 200, "/api/flow", "{\"act\": \"cancel\", \"flow\": 1}");
    assert_int_equal(number(o, "cancelled"), 2);
    json_decref(o);
    o = web_post(&w, 200, "/api/flow", "{\"act\": \"close\", \"flow\": 2}");
    assert_true(json_is_true(json_object_get(o, "closed")));
    json_decref(o);
    json_decref(web_post(&w, 404, "/api/flow", "{\"act\": \"cancel\", \"flow\": 9}"));
    json_decref(web_post(&w, 404, "/api/flow", "{\"act\": \"cancel\"}"));
    json_decref(web_post(&w, 400, "/api/flow", "{\"act\": \"open\", \"flow\": 1}"));
    json_decref(web_get(&w, 404, "/api/flows/9"));
    json_decref(web_get(&w, 400, "/api/flows/x"));
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task"), 1);
    web_close(&w);
}

static const json_t *limit_of(const json_t *o, const char *key)
{
    size_t i;
    const json_t *l;
    json_array_foreach(json_object_get(o, "limits"), i, l)
    {
        if (strcmp(text(l, "key"), key) == 0) {
            return l;
        }
    }
    fail_msg("there is no limit %s", key);
    return NULL;
}

static void test_limits(void **state)
{
    struct fixture *fx = *state;
    struct web w;
    test_sql(
        fx,
        "SELECT tenon.set_limit('t', max_running => 2), tenon.set_limit('t:1', max_running => 1,"
        " until => now() + interval '1 h'), tenon.set_limit('u', strict => true),"
        " tenon.set_limit('kind/b', max_running => 1), tenon.set_limit('kind/b:c', max_running"
        " => 1); SELECT tenon.enqueue('b:c') FROM generate_series(1, 5)");
    test_sql(fx, "SELECT tenon.enqueue_many('a', array_fill('1'::jsonb, '{5}'), limit_keys =>"
                 " '{t:1}'), tenon.enqueue_many('a', array_fill('1'::jsonb, '{5}'), limit_keys =>"
                 " '{t:2}'), tenon.enqueue('a', limit_keys => '{free}')");
    test_sql(fx, "SELECT tenon.settle()");
    WEB_OPEN(fx, &w, NULL);
    json_t *o = web_get(&w, 200, "/api/limits");
    (void)list(o, "limits", 7);
    const json_t *t = limit_of(o, "t"), *one = limit_of(o, "t:1"), *two = limit_of(o, "t:2");
    assert_int_equal(number(t, "held"), 3);
    assert_true(json_is_false(json_object_get(t, "is_key")));
    assert_true(json_is_true(json_object_get(one, "is_key")));
    assert_int_equal(number(t, "waiting"), 7);
    assert_int_equal(number(one, "max_running"), 1);
    assert_int_equal(number(one, "held"), 1);
    assert_true(json_is_string(json_object_get(one, "until")));
    assert_int_equal(number(two, "held"), 2);
    assert_string_equal(text(two, "rule"), "t");
    assert_true(json_is_null(json_object_get(limit_of(o, "free"), "rule")));
    assert_true(json_is_true(json_object_get(limit_of(o, "u"), "strict")));
    assert_int_equal(number(limit_of(o, "kind/b"), "waiting"), 0); /* of kind/b:c four do */
    assert_int_equal(number(limit_of(o, "kind/b"), "held"), 0);
    assert_true(json_is_false(json_object_get(o, "more")));
    json_decref(o);
    o = web_get(&w, 200, "/api/limits?key=t%3A");
    (void)list(o, "limits", 2);
    json_decref(o);
    o = web_get(&w, 200, "/api/limits?key=x");
    (void)list(o, "limits", 0);
    json_decref(o);
    json_decref(web_post(&w, 200, "/api/limit",
                         "{\"act\": \"pause\", \"name\": \"t\", \"why\": \"it burns\"}"));
    o = web_get(&w, 200, "/api/limits");
    assert_string_equal(text(limit_of(o, "t"), "paused_why"), "it burns");
    assert_true(json_is_true(json_object_get(limit_of(o, "t:2"), "paused")));
    assert_true(json_is_false(json_object_get(limit_of(o, "t:2"), "paused_here")));
    json_decref(o);
    json_decref(web_post(&w, 200, "/api/limit", "{\"act\": \"resume\", \"name\": \"t\"}"));
    json_decref(web_post(&w, 404, "/api/limit", "{\"act\": \"resume\", \"name\": \"t\"}"));
    o = web_post(&w, 400, "/api/limit", "{\"act\": \"burn\", \"name\": \"t\"}");
    assert_string_equal(json_string_value(json_object_get(o, "error")),
                        "\"act\" must be one of pause resume remove set");
    json_decref(o);
    json_decref(web_post(&w, 400, "/api/limit", "{\"act\": \"pause\"}"));
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.paused WHERE what = 'limit'"), 0);
    o = web_get(&w, 200, "/api/tasks?filter=%7B%22limit_key%22%3A%22t%3A2%22%7D");
    (void)list(o, "tasks", 5);
    json_decref(o);
    web_close(&w);
}

static void test_workers_and_what_they_run(void **state)
{
    struct fixture *fx = *state;
    struct web w;
    struct held c;
    held_new(fx, &c);
    WEB_OPEN(fx, &w, NULL);
    json_t *o = web_get(&w, 200, "/api/workers");
    const json_t *worker = json_array_get(list(o, "workers", 1), 0);
    const json_t *task = json_array_get(list(o, "running", 1), 0);
    assert_int_equal(number(worker, "running"), 1);
    assert_int_equal(number(task, "id"), c.id);
    assert_string_equal(text(task, "worker"), text(worker, "id"));
    json_decref(o);
    web_close(&w);
}

/* --- the graph ------------------------------------------------------------------------------ */

static double sum(const json_t *steps)
{
    double all = 0;
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)steps, key, value)
    {
        assert_true(strtol(key, NULL, 10) < 72);
        all += json_number_value(value);
    }
    return all;
}

static void test_rates(void **state)
{
    struct fixture *fx = *state;
    struct web w;
    test_sql(fx, "INSERT INTO tenon.minute (minute, queue, kind, worker_id, started, done, failed,"
                 " dead, wait_us, waits) SELECT date_trunc('minute', now() - ago), queue, 'a',"
                 " gen_random_uuid(), n + 1, n, 1, 1, (n + 1) * 1500000,"
                 " CASE queue WHEN 'q' THEN ARRAY[n] ELSE ARRAY[1, 0, n] END FROM (VALUES"
                 " (interval '0', 'q', 3), ('0', 'r', 10), ('4 hours', 'q', 20), ('7 hours', 'q',"
                 " 50)) v (ago, queue, n)");
    WEB_OPEN(fx, &w, NULL);
    json_t *o = web_get(&w, 200, "/api/rates");
    assert_int_equal((int)sum(json_object_get(o, "started")), 36);
    assert_int_equal((int)sum(json_object_get(o, "done")), 33);
    assert_int_equal((int)sum(json_object_get(o, "failed")), 3);
    assert_int_equal((int)sum(json_object_get(o, "dead")), 3);
    assert_int_equal(number(json_object_get(o, "done"), "71"), 13); /* now is the last step */
    assert_true(json_number_value(json_object_get(json_object_get(o, "wait_s"), "71")) == 1.5);
    char *waits = json_dumps(json_object_get(json_object_get(o, "waits"), "71"), JSON_COMPACT);
    assert_string_equal(waits, "[4,0,10]");
    free(waits);
    assert_int_equal(json_array_size(json_object_get(o, "up_to_s")), 19);
    json_decref(o);
    o = web_get(&w, 200, "/api/rates?queue=r");
    assert_int_equal((int)sum(json_object_get(o, "done")), 10);
    json_decref(o);
    o = web_get(&w, 200, "/api/rates?queue=none");
    assert_int_equal((int)sum(json_object_get(o, "done")), 0);
    json_decref(o);
    web_close(&w);
}

/* --- acts ----------------------------------------------------------------------------------- */

/* How many an act would change, counted as the page does it: piece by piece, with up to three
 * examples. */
static void assert_would_change(const struct web *w, const char *act, const char *filter, int n)
{
    char body[400], after[40] = "null";
    int counted = 0;
    size_t examples = 0;
    for (bool more = true; more;) {
        (void)snprintf(body, sizeof body, "{\"act\": \"%s\", \"filter\": %s, \"cursor\": %s}", act,
                       filter, after);
        json_t *o = web_post(w, 200, "/api/preview", body);
        counted += (int)number(o, "n");
        assert_true(json_array_size(json_object_get(o, "examples")) <= 3);
        examples += json_array_size(json_object_get(o, "examples"));
        more = !json_is_null(json_object_get(o, "next"));
        (void)snprintf(after, sizeof after, "%lld", more ? (long long)number(o, "next") : 0);
        json_decref(o);
    }
    assert_int_equal(counted, n);
    assert_true(examples >= 3);
}

/* How many it would change, with examples; then all of them, in pieces. */
static void assert_all_change(const struct web *w, const char *act, const char *filter, int n)
{
    char body[400], after[100] = "";
    int changed = 0;
    assert_would_change(w, act, filter, n);
    for (bool more = true; more;) {
        (void)snprintf(body, sizeof body,
                       "{\"act\": \"%s\", \"filter\": %s, \"why\": \"it is back\"%s}", act, filter,
                       after);
        json_t *o = web_post(w, 200, "/api/act", body);
        changed += (int)number(o, "n");
        assert_true(number(o, "n") <= 1000);
        more = !json_is_null(json_object_get(o, "next"));
        if (more) {
            (void)snprintf(after, sizeof after, ", \"cursor\": %lld, \"audit\": %lld",
                           (long long)number(o, "next"), (long long)number(o, "audit"));
        }
        json_decref(o);
    }
    assert_int_equal(changed, n);
}

static void test_acts(void **state)
{
    struct fixture *fx = *state;
    struct web w;
    rows_dead(fx, "mail", 1500, "Timeout: it");
    rows_dead(fx, "mail", 3, "Refused: it");
    WEB_OPEN(fx, &w, NULL);
    assert_all_change(&w, "retry", "{\"state\": [\"dead\"], \"error\": \"Timeout\"}", 1500);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task"), 1500);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.dead"), 3);
    json_t *o = web_get(&w, 200, "/api/audit");
    const json_t *act = json_array_get(list(o, "acts", 1), 0);
    assert_int_equal(number(act, "n"), 1500);
    assert_string_equal(text(json_object_get(act, "what"), "why"), "it is back");
    json_decref(o);
    json_decref(web_post(&w, 400, "/api/act", "{\"act\": \"retry\", \"filter\": {}}"));
    json_decref(
        web_post(&w, 400, "/api/act", "{\"act\": \"drop\", \"filter\": {\"kind\": \"mail\"}}"));
    json_decref(web_post(&w, 400, "/api/act", "{\"act\": \"retry\", \"filter\": \"x\"}"));
    json_decref(web_post(&w, 400, "/api/act", "[1]"));
    json_decref(web_post(&w, 200, "/api/act",
                         "{\"act\": \"set\", \"filter\": {\"kind\": \"mail\"}, "
                         "\"changes\": {\"priority\": 9}}"));
    assert_true(test_sql_int(fx, "SELECT count(*) FROM tenon.task WHERE priority = 9") > 0);
    web_close(&w);
}

static void test_all_that_fit(void **state)
{
    struct fixture *fx = *state;
    struct web w;
    test_sql(fx, "SELECT tenon.enqueue_many('a', array_fill('1'::jsonb, '{1100}'), delay => '1 h'),"
                 " tenon.enqueue_many('b', array_fill('1'::jsonb, '{1200}')),"
                 " tenon.enqueue_many('c', array_fill('1'::jsonb, '{7}'), delay => '1 h')");
    rows_dead(fx, "mail", 1500, "Timeout: it");
    rows_dead(fx, "mail", 3, "Refused: it");
    WEB_OPEN(fx, &w, NULL);
    assert_all_change(&w, "run_now", "{\"kind\": \"a\"}", 1100);
    assert_all_change(&w, "cancel", "{\"state\": \"ready\", \"kind\": \"b\"}", 1200);
    assert_all_change(&w, "delete", "{\"state\": \"dead\", \"error\": \"Timeout\"}", 1500);
    char *states = test_sql_text(fx, "SELECT string_agg(s, ' ' ORDER BY s) FROM (SELECT state || '"
                                     "=' || count(*) FROM tenon.tasks GROUP BY state) x (s)");
    assert_string_equal(states, "cancelled=1200 dead=3 ready=1100 scheduled=7");
    free(states);
    json_t *o = web_get(&w, 200, "/api/audit");
    const json_t *act = json_array_get(list(o, "acts", 3), 0);
    assert_string_equal(text(act, "act"), "delete");
    assert_int_equal(number(act, "n"), 1500);
    json_decref(o);
    static const char *const acts[] = {"run_now", "cancel", "delete"};
    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++) { /* never by leaving the filter out */
        char body[64];
        (void)snprintf(body, sizeof body, "{\"act\": \"%s\"}", acts[i]);
        json_decref(web_post(&w, 400, "/api/preview", body));
        json_decref(web_post(&w, 400, "/api/act", body));
    }
    web_close(&w);
}

static void test_pause_and_schedules(void **state)
{
    struct fixture *fx = *state;
    struct web w;
    test_sql(fx, "SELECT tenon.set_schedule('nightly', cron => '0 3 * * *', kind => 'report')");
    WEB_OPEN(fx, &w, NULL);
    json_decref(web_post(&w, 200, "/api/pause", "{\"kind\": \"mail\", \"why\": \"slow\"}"));
    json_decref(web_post(&w, 200, "/api/pause", "{\"everything\": true}"));
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.paused"), 2);
    json_decref(web_post(&w, 200, "/api/resume", "{\"kind\": \"mail\"}"));
    json_decref(web_post(&w, 200, "/api/resume", "{\"everything\": true}"));
    json_decref(web_post(&w, 400, "/api/pause", "{}"));
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.paused"), 0);
    json_decref(web_post(&w, 200, "/api/schedule", "{\"act\": \"pause\", \"name\": \"nightly\"}"));
    json_t *o = web_get(&w, 200, "/api/schedules");
    assert_string_equal(text(json_array_get(list(o, "schedules", 1), 0), "state"), "paused");
    json_decref(o);
    json_decref(web_post(&w, 200, "/api/schedule", "{\"act\": \"resume\", \"name\": \"nightly\"}"));
    o = web_post(&w, 200, "/api/schedule", "{\"act\": \"run-now\", \"name\": \"nightly\"}");
    assert_int_equal(number(o, "task"), test_sql_int(fx, "SELECT id FROM tenon.task"));
    json_decref(o);
    o = web_post(&w, 404, "/api/schedule", "{\"act\": \"pause\", \"name\": \"weekly\"}");
    assert_string_equal(json_string_value(json_object_get(o, "error")),
                        "there is no schedule weekly");
    json_decref(o);
    json_decref(web_post(&w, 400, "/api/schedule", "{\"act\": \"burn\", \"name\": \"nightly\"}"));
    web_close(&w);
}

static void test_hostile_payloads(void **state)
{
    struct fixture *fx = *state;
    struct web w;
    char path[64];
    int64_t id =
        test_sql_int(fx,
                     "SELECT tenon.enqueue('mail', '{\"</script><script>alert(1)</script>\":"
                     " \"<img src=x onerror=alert(1)>\", \"turn\": \"\\u202e\\u2028\\u0001\","
                     " \"n\": 123456789012345678901234567890.12345, \"quote\": \"\\\"\\\\\"}')");
    test_sql(fx, "UPDATE tenon.task SET error_class = '<i>',"
                 " last_error = E'<b>\\x1b[31m\"\\\\ \\u2028</b>'");
    WEB_OPEN(fx, &w, NULL);
    (void)snprintf(path, sizeof path, "/api/tasks/%lld", (long long)id);
    json_t *o = web_get(&w, 200, path);
    assert_contains(text(json_object_get(o, "texts"), "payload"),
                    "123456789012345678901234567890.12345");
    assert_contains(text(json_object_get(o, "texts"), "payload"), "<img src=x onerror=alert(1)>");
    assert_contains(text(json_object_get(o, "task"), "last_error"), "<b>\x1b[31m\"\\ ");
    json_decref(o);
    json_decref(web_get(&w, 200, "/api/tasks"));
    /* 1 MB is shown whole on its task's page; lists show the beginning of a payload, or its size */
    test_sql(fx, "SELECT tenon.enqueue('mail', jsonb_build_object('long', repeat('x', 1000)))");
    id = test_sql_int(
        fx, "SELECT tenon.enqueue('mail', jsonb_build_object('long', repeat('x', 1000000)))");
    o = web_get(&w, 200, "/api/tasks");
    assert_string_equal(text(json_array_get(list(o, "tasks", 3), 0), "payload"), "(11 kB)");
    assert_int_equal(strlen(text(json_array_get(list(o, "tasks", 3), 1), "payload")), 200);
    json_decref(o);
    (void)snprintf(path, sizeof path, "/api/tasks/%lld", (long long)id);
    json_decref(web_get(&w, 200, path));
    web_close(&w);
}
#define END_SESSIONS                                                                               \
    "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"                                \
    " WHERE datname = current_database() AND application_name = 'tenon ui'"

static void test_lost_sessions(void **state)
{
    struct fixture *fx = *state;
    struct web w;
    WEB_OPEN(fx, &w, NULL);
    json_decref(web_get(&w, 200, "/api/overview"));
    assert_true(
        test_sql_int(fx, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE"
                         " datname = current_database() AND application_name = 'tenon ui'") >= 1);
    json_decref(web_get(&w, 200, "/api/overview"));
    sql_run(fx->maintenance, "ALTER DATABASE %s ALLOW_CONNECTIONS false", fx->database);
    test_sql(fx, END_SESSIONS);
    json_decref(web_get(&w, 503, "/api/overview"));
    json_decref(web_post(&w, 503, "/api/pause", "{\"queue\": \"mail\"}"));
    sql_run(fx->maintenance, "ALTER DATABASE %s ALLOW_CONNECTIONS true", fx->database);
    json_decref(web_post(&w, 200, "/api/pause", "{\"queue\": \"mail\"}"));
    web_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_overview),
        WITH_DATABASE(test_tasks_are_found),
        WITH_DATABASE(test_one_task),
        WITH_DATABASE(test_blocked_tasks),
        WITH_DATABASE(test_what_a_task_has_to_do_with_others),
        WITH_DATABASE(test_flows),
        WITH_DATABASE(test_limits),
        WITH_DATABASE(test_workers_and_what_they_run),
        WITH_DATABASE(test_rates),
        WITH_DATABASE(test_acts),
        WITH_DATABASE(test_all_that_fit),
        WITH_DATABASE(test_pause_and_schedules),
        WITH_DATABASE(test_hostile_payloads),
        WITH_DATABASE(test_lost_sessions),
    };
    return RUN_GROUP(tests);
}
