/* label: e2e */
/* `tenon canary`: a task through the whole way, timed; and why it did not come through. */
#include "tests/support/working.h"

#include <jansson.h>
#include <string.h>

static json_t *canary(struct fixture *fx, int code, const char *timeout)
{
    char *out = TENON_RUN(fx, code, "canary", "--json", "--timeout", timeout);
    json_t *said = json_loads(out, 0, NULL);
    assert_non_null(said);
    free(out);
    return said;
}

static const char *text(const json_t *said, const char *key)
{
    const char *value = json_string_value(json_object_get(said, key));
    return value ? value : "";
}

static void test_a_canary_comes_through(void **state)
{
    struct fixture *fx = *state;
    struct process *worker = TENON(fx, "worker", "--slots", "1", "--handler", "canary=true");
    struct process *cleaner = TENON(fx, "cleaner");
    process_await_line(worker, "event=worker_ready", LIMIT_MS);
    json_t *said = canary(fx, 0, "30s");
    double start = json_real_value(json_object_get(said, "start_ms"));
    double end = json_real_value(json_object_get(said, "end_ms"));
    assert_string_equal(text(said, "state"), "done");
    assert_string_equal(text(said, "queue"), "default");
    assert_true(start > 0 && end >= start);
    assert_true(json_is_null(json_object_get(said, "why")));
    json_decref(said);
    char *out = TENON_RUN(fx, 0, "canary", "--timeout", "30s");
    assert_contains(out, "committed after ms");
    assert_contains(out, "ended after ms");
    free(out);
    end_well(worker);
    end_well(cleaner);
}

/* It says why, is called back, and leaves what was there alone. */
static void test_nobody_runs_it(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "SELECT tenon.enqueue('canary'), tenon.enqueue('other')");
    json_t *said = canary(fx, 1, "50ms");
    assert_string_equal(text(said, "state"), "ready");
    assert_non_null(strstr(text(said, "why"), "No living worker handles the kind canary"));
    assert_true(json_is_null(json_object_get(said, "start_ms")));
    json_decref(said);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task"), 2);
    assert_true(test_sql_bool(fx, "SELECT outcome = 'cancelled' FROM tenon.history"));
    const char *const args[] = {"canary", "--timeout", "50ms", "--kind", "k", "--queue", "q", NULL};
    struct process *p = tenon_spawn(fx, args, NULL);
    assert_int_equal(process_wait(p, LIMIT_MS), 1);
    char *log = file_text(p->log);
    assert_contains(
        log, "has not ended within 50 ms: No living worker handles the kind k in the queue q");
    free(log);
}

static void test_its_handler_fails(void **state)
{
    struct fixture *fx = *state;
    struct process *worker = TENON(fx, "worker", "--slots", "1", "--handler",
                                   "canary=echo no >&2; exit 1");
    process_await_line(worker, "event=worker_ready", LIMIT_MS);
    json_t *said = canary(fx, 1, "30s");
    assert_string_equal(text(said, "state"), "dead");
    assert_non_null(strstr(text(said, "why"), "failed"));
    json_decref(said);
    end_well(worker);
}

/* Then its row is gone when it has ended. */
static void test_without_a_history(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "UPDATE tenon.setting SET history_keep = '0'");
    struct process *worker = TENON(fx, "worker", "--slots", "1", "--handler", "canary=true");
    process_await_line(worker, "event=worker_ready", LIMIT_MS);
    json_t *said = canary(fx, 0, "30s");
    assert_string_equal(text(said, "state"), "done");
    json_decref(said);
    end_well(worker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVERS(test_a_canary_comes_through),
        WITH_DATABASE(test_nobody_runs_it),
        WITH_DATABASE(test_its_handler_fails),
        WITH_DATABASE(test_without_a_history),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
