/* label: e2e */
/* timeout: 120 */
/* long: 600 */
/* only: all */
/* What `tenon ui` answers beside 50,000 tasks of all states (tests/ui/many.sql), in the long
 * variant 1,000,000: each answer comes in time, and no statement reads a table of tasks from end to
 * end. */
#include "tests/support/load.h"
#include "tests/support/patience.h"
#include "tests/support/web.h"

#include "core/base/now.h"

#include <stdio.h>
#include <stdlib.h>

enum { TASKS = 50000, TASKS_LONG = 1000000, ANSWER_MS = 400, GONE_MS = 5000 };

static const char *const paths[] = {
    "session",
    "overview",
    "doctor",
    "load",
    "kinds",
    "names",
    "rates",
    "rates?hours=24",
    "rates?hours=24&queue=queue_1",
    "rates?hours=24&kind=kind_1",
    "dead",
    "flows",
    "flows/1",
    "limits",
    "limits?key=tenant:1",
    "schedules",
    "workers",
    "audit",
    "outbox",
    "outbox?state=refused",
    "outbox?exchange=none",
};

/* A task of each state; of a flow, of a limit. */
static const char *const tasks[] = {
    "SELECT id FROM tenon.task WHERE run_at < now() AND start_time IS NULL AND flow IS NULL"
    " ORDER BY id LIMIT 1",
    "SELECT id FROM tenon.task WHERE start_time IS NOT NULL LIMIT 1",
    "SELECT id FROM tenon.task WHERE failures > 0 LIMIT 1",
    "SELECT max(id) FROM tenon.task WHERE flow IS NOT NULL",
    "SELECT min(id) FROM tenon.task WHERE flow IS NOT NULL",
    "SELECT max(id) FROM tenon.task WHERE limit_keys IS NOT NULL",
    "SELECT max(id) FROM tenon.dead",
    "SELECT max(id) FROM tenon.history",
};

static const char *const filters[] = {
    "{}",
    "{\"state\":\"ready\"}",
    "{\"state\":\"running\"}",
    "{\"state\":\"scheduled\"}",
    "{\"state\":\"retrying\"}",
    "{\"state\":\"blocked\"}",
    "{\"state\":\"done\"}",
    "{\"state\":\"cancelled\"}",
    "{\"state\":\"expired\"}",
    "{\"state\":\"dead\"}",
    "{\"state\":\"running\",\"queue\":\"queue_2\"}",
    "{\"state\":\"dead\",\"queue\":\"queue_2\"}",
    "{\"state\":\"done\",\"kind\":\"kind_7\"}",
    "{\"state\":\"dead\",\"kind\":\"kind_7\",\"error\":\"Timeout\"}",
    "{\"kind\":\"kind_7\"}",
    "{\"kind\":\"none\"}",
    "{\"queue\":\"queue_2\"}",
    "{\"error\":\"Timeout\"}",
    "{\"error\":\"none\"}",
    "{\"tag\":\"import-3\"}",
    "{\"tag\":\"none\"}",
    "{\"unique_key\":\"order-20\"}",
    "{\"unique_key\":\"none\"}",
    "{\"limit_key\":\"tenant:7\"}",
    "{\"flow\":1}",
    "{\"older_than\":\"2h\"}",
    "{\"older_than\":\"90d\"}",
    "{\"payload\":\"$.n==17\"}",
    "{\"state\":\"dead\",\"payload\":\"$.n==0\"}",
};

/* What an act would change; the counts go on from a cursor. */
static const char *const previews[] = {
    "{\"act\":\"retry\",\"filter\":{\"state\":\"dead\"}}",
    "{\"act\":\"retry\",\"filter\":{\"error\":\"TypeError\",\"kind\":\"kind_7\"}}",
    "{\"act\":\"cancel\",\"filter\":{\"kind\":\"kind_7\"}}",
    "{\"act\":\"cancel\",\"filter\":{\"state\":\"running\"}}",
    "{\"act\":\"delete\",\"filter\":{\"state\":\"done\"}}",
    "{\"act\":\"run_now\",\"filter\":{\"state\":\"scheduled\"}}",
    "{\"act\":\"set\",\"filter\":{\"tag\":\"import-3\"}}",
};

struct slowest {
    int64_t ms;
    char what[600];
    int answers;
};

/* NULL: GET. The second answer counts: the first one plans. */
static void ask(const struct web *w, struct slowest *s, const char *path, const char *body)
{
    char whole[400];
    int64_t ms = 0;
    (void)snprintf(whole, sizeof whole, "/api/%s", path);
    for (int i = 0; i < 2; i++) {
        int64_t begun = now_ms();
        json_decref(body ? web_post(w, 200, whole, body) : web_get(w, 200, whole));
        ms = now_ms() - begun;
    }
    if (ms > patience_loaded_ms(ANSWER_MS)) {
        fail_msg("%s %s: %lld ms", whole, body ? body : "", (long long)ms);
    }
    s->answers++;
    if (ms > s->ms) {
        s->ms = ms;
        (void)snprintf(s->what, sizeof s->what, "%s %s", whole, body ? body : "");
    }
}

static void ask_for_all(struct fixture *fx, const struct web *w, struct slowest *s)
{
    char path[400];
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        ask(w, s, paths[i], NULL);
    }
    for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++) {
        (void)snprintf(path, sizeof path, "tasks/%lld",
                       (long long)test_sql_int(fx, "%s", tasks[i]));
        ask(w, s, path, NULL);
    }
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++) {
        (void)snprintf(path, sizeof path, "tasks?filter=%s", filters[i]);
        ask(w, s, path, NULL);
        (void)snprintf(path, sizeof path, "tasks?filter=%s&oldest=true", filters[i]);
        ask(w, s, path, NULL);
    }
    for (size_t i = 0; i < sizeof previews / sizeof *previews; i++) {
        ask(w, s, "preview", previews[i]);
    }
}

/* Rows of tasks that sequential scans have read, by others than this session. */
static int64_t scanned(struct fixture *fx)
{
    test_await(fx, GONE_MS,
               "SELECT count(*) = 0, string_agg(application_name, ',') FROM pg_stat_activity"
               " WHERE datname = current_database() AND pid <> pg_backend_pid()"
               " AND backend_type = 'client backend'");
    test_flush_statistics(fx);
    return test_sql_int(fx, "SELECT sum(seq_tup_read) FROM pg_stat_user_tables"
                            " WHERE schemaname = 'tenon' AND relname ~"
                            " '^(task|dead|(history|attempt)_[0-9]+)$'");
}

static void test_answers_come_soon(void **state)
{
    struct fixture *fx = *state;
    struct web w;
    struct slowest s = {0};
    int n = load_is_long() ? TASKS_LONG : TASKS;
    int64_t begun = now_ms();
    test_sql(fx, "SET test.tasks = %d", n);
    test_sql_file(fx, "tests/ui/many.sql");
    int64_t filled = now_ms(), before = scanned(fx);
    WEB_OPEN(fx, &w, NULL);
    ask_for_all(fx, &w, &s);
    web_close(&w);
    int64_t rows = scanned(fx) - before;
    print_message("%d tasks in %lld ms; %d answers in %lld ms, the slowest %lld ms: %s; %lld rows"
                  " by sequential scans\n",
                  n, (long long)(filled - begun), s.answers, (long long)(now_ms() - filled),
                  (long long)s.ms, s.what, (long long)rows);
    assert_true(rows < n / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {WITH_DATABASE(test_answers_come_soon)};
    return RUN_GROUP(tests);
}
