/* label: e2e */
/* timeout: 180 */
/* long: 300 */
/* `--http`: what worker and cleaner count is what happened; /ready and /live turn when something
 * fails; nothing is asked of PostgreSQL unless somebody scrapes. */
#include "tests/support/proxy.h"
#include "tests/support/scrape.h"
#include "tests/support/working.h"

#include "core/base/point.h"

#include <signal.h>
#include <stdio.h>

#define FREE_PORT "--http", "127.0.0.1:0"

static struct process *three_kinds(struct fixture *fx)
{
    return TENON(fx, "worker", FREE_PORT, "--slots", "3", "--handler", "good=exec true",
                 "--handler", "bad=exec false", "--handler", "slow=exec sleep 0.3");
}

static struct process *leader(struct fixture *fx)
{
    struct process *p = TENON(fx, "cleaner", FREE_PORT);
    process_await_line(p, "event=leader", LIMIT_MS);
    return p;
}

enum { NO_PROMTOOL = 99 };

/* Ask promtool, where there is one (Debian's package prometheus): "$0" is the file. At night there
 * must be. */
static void promtool(struct fixture *fx, const char *check, const char *path)
{
    char command[128];
    (void)snprintf(command, sizeof command,
                   "command -v promtool > /dev/null || exit 99; promtool %s", check);
    const char *const argv[] = {"sh", "-c", command, path, NULL};
    struct process *p = process_spawn(fx, argv, NULL);
    int code = process_wait(p, LIMIT_MS);
    if (code == NO_PROMTOOL && !getenv("TEST_NO_SKIP")) {
        print_message("promtool is not here (script/bootstrap --with-promtool): %s, not checked\n",
                      check);
    } else if (code != 0) {
        char *log = file_text(p->log), *out = file_text(p->out);
        fail_msg("promtool: %d, %s%s", code, log, out);
    }
}

static void check_with_promtool(struct fixture *fx, const char *page)
{
    char path[300];
    (void)snprintf(path, sizeof path, "%s/metrics", fx->dir);
    file_write(path, page);
    promtool(fx, "check metrics < \"$0\"", path);
}

static void test_the_alert_rules(void **state)
{
    char path[300];
    (void)snprintf(path, sizeof path, "%s/monitoring/alerts.yaml", repository);
    promtool(*state, "check rules \"$0\"", path);
    (void)snprintf(path, sizeof path, "%s/monitoring/alerts_test.yaml", repository);
    promtool(*state, "test rules \"$0\"", path);
}

#define ENDED(kind, outcome)                                                                       \
    "tenon_attempts_total{queue=\"default\",kind=\"" kind "\",outcome=\"" outcome "\"}"
#define RAN(kind, end, more)                                                                       \
    "tenon_task_runtime_seconds_" end "{queue=\"default\",kind=\"" kind "\"" more "}"

/* 20 good tasks, 3 that fail, 2 that are dead with it, 4 that take 0.3 s. */
static void test_a_worker_counts_what_happened(void **state)
{
    struct fixture *fx = *state;
    struct process *p = three_kinds(fx);
    struct web w = scrape_at(p);
    scrape_await_probe(&w, "/ready", 200, "", LIMIT_MS);
    char *before = scrape(&w); /* what is to come is an increase */
    assert_true(scrape_value(before, ENDED("good", "done")) == 0);
    assert_true(scrape_value(before, ENDED("bad", "dead")) == 0);
    free(before);
    test_sql(fx, "SELECT tenon.enqueue('good') FROM generate_series(1, 20);"
                 "SELECT tenon.enqueue('bad') FROM generate_series(1, 3);"
                 "SELECT tenon.enqueue('bad', max_attempts => 1) FROM generate_series(1, 2);"
                 "SELECT tenon.enqueue('slow') FROM generate_series(1, 4)");
    scrape_await(&w, ENDED("good", "done"), 20, LIMIT_MS);
    scrape_await(&w, ENDED("bad", "failed"), 3, LIMIT_MS);
    scrape_await(&w, ENDED("bad", "dead"), 2, LIMIT_MS);
    scrape_await(&w, ENDED("slow", "done"), 4, LIMIT_MS);
    scrape_await(&w, "tenon_worker_slots{state=\"busy\"}", 0, LIMIT_MS);
    char *page = scrape(&w);
    assert_true(scrape_value(page, RAN("good", "count", "")) == 20);
    assert_true(scrape_value(page, RAN("bad", "count", "")) == 5);
    assert_true(scrape_value(page, RAN("slow", "count", "")) == 4);
    assert_true(scrape_value(page, RAN("slow", "bucket", ",le=\"0.25\"")) == 0);
    assert_true(scrape_value(page, RAN("slow", "sum", "")) >= 4 * 0.3);
    assert_true(scrape_value(page, "tenon_worker_slots{state=\"free\"}") == 3);
    assert_true(scrape_value(page, "tenon_worker_tasks{state=\"running\"}") == 0);
    assert_true(scrape_value(page, "tenon_database_up") == 1);
    assert_true(scrape_value(page, "tenon_broker_up") == 1);
    assert_true(scrape_value(page, ENDED("good", "failed")) == 0);
    check_with_promtool(fx, page);
    free(page);
    end_well(p);
}

/* Tasks that were ready for 20 s before there was a worker, and others. */
static void test_waits(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "SELECT tenon.enqueue('good') FROM generate_series(1, 5);"
                 "SELECT tenon.enqueue('slow') FROM generate_series(1, 2);"
                 "UPDATE tenon.task SET created_at = now() - interval '20 s',"
                 " run_at = now() - interval '20 s' WHERE kind = 'slow'");
    struct process *p = three_kinds(fx);
    struct web w = scrape_at(p);
#define WAITED(kind, end, more)                                                                    \
    "tenon_task_wait_seconds_" end "{queue=\"default\",kind=\"" kind "\"" more "}"
    scrape_await(&w, WAITED("good", "count", ""), 5, LIMIT_MS);
    scrape_await(&w, WAITED("slow", "count", ""), 2, LIMIT_MS);
    char *page = scrape(&w);
    assert_true(scrape_value(page, WAITED("slow", "bucket", ",le=\"10\"")) == 0);
    assert_true(scrape_value(page, WAITED("slow", "sum", "")) >= 40);
    free(page);
    end_well(p);
}

/* Released tasks count, and have no run time; while it drains it is alive, and not ready. */
static void test_a_drain(void **state)
{
    struct fixture *fx = *state;
    struct process *p = TENON(fx, "worker", FREE_PORT, "--slots", "1", "--drain-limit", "3s",
                              "--handler", "good=exec sleep 600");
    struct web w = scrape_at(p);
    test_sql(fx, "SELECT tenon.enqueue('good')");
    scrape_await(&w, "tenon_worker_slots{state=\"busy\"}", 1, LIMIT_MS);
    process_signal(p, SIGTERM);
    scrape_await_probe(&w, "/ready", 503, "it drains", LIMIT_MS);
    assert_int_equal(web_status(&w, "GET", "/live", "", ""), 200);
    assert_int_equal(process_wait(p, LIMIT_MS), 0);
}

static void test_ready_while_the_database_is_away(void **state)
{
    struct fixture *fx = *state;
    struct proxy proxy;
    char url[600];
    proxy_open(&proxy, fx->database_url);
    (void)snprintf(url, sizeof url, "DATABASE_URL=%s", proxy.url);
    const char *const worker[] = {"worker", FREE_PORT, "--handler", "a=exec true", NULL};
    const char *const cleaner[] = {"cleaner", FREE_PORT, NULL};
    const char *const env[] = {url, NULL};
    struct web both[] = {scrape_at(tenon_spawn(fx, worker, env)),
                         scrape_at(tenon_spawn(fx, cleaner, env))};
    for (int i = 0; i < 2; i++) {
        scrape_await_probe(&both[i], "/ready", 200, "", LIMIT_MS);
    }
    proxy_door(&proxy, PROXY_RESETS);
    proxy_break(&proxy, PROXY_RESET);
    scrape_await_probe(&both[0], "/ready", 503, "its presence is not held", LIMIT_MS);
    scrape_await_probe(&both[1], "/ready", 503, "it has no session", LIMIT_MS);
    for (int i = 0; i < 2; i++) { /* nobody is to restart them for that */
        assert_int_equal(web_status(&both[i], "GET", "/live", "", ""), 200);
        char *page = scrape(&both[i]);
        assert_true(scrape_value(page, "tenon_database_up") == 0);
        free(page);
    }
    scrape_await(&both[0], "tenon_worker_presence_held", 0, LIMIT_MS);
    proxy_door(&proxy, PROXY_SERVES);
    for (int i = 0; i < 2; i++) {
        scrape_await_probe(&both[i], "/ready", 200, "", LIMIT_MS);
        if (i == 0) {
            scrape_await(&both[i], "tenon_worker_presence_held", 1, LIMIT_MS);
        }
        end_well(both[i].process);
    }
    proxy_close(&proxy);
}

/* A pool whose children end before they say hello, and a handler that is well. */
static void test_a_handler_that_does_not_start(void **state)
{
    struct fixture *fx = *state;
    struct process *p = TENON(fx, "worker", FREE_PORT, "--handler", "x=pool:exec false",
                              "--handler", "good=exec true");
    struct web w = scrape_at(p);
    test_sql(fx, "SELECT tenon.enqueue('x'), tenon.enqueue('good')");
    scrape_await(&w, "tenon_worker_handlers_backing_off", 1, LIMIT_MS);
    end_well(p);
}

/* A worker that waits for its database at the start is alive, and not ready. */
static void test_before_the_start(void **state)
{
    struct fixture *fx = *state;
    struct proxy proxy;
    char url[600];
    proxy_open(&proxy, fx->database_url);
    proxy_door(&proxy, PROXY_RESETS);
    (void)snprintf(url, sizeof url, "DATABASE_URL=%s", proxy.url);
    const char *const args[] = {"worker", FREE_PORT, "--handler", "a=exec true", NULL};
    struct process *p = tenon_spawn(fx, args, (const char *const[]){url, NULL});
    struct web w = scrape_at(p);
    scrape_await_probe(&w, "/ready", 503, "it starts", LIMIT_MS);
    scrape_await_probe(&w, "/live", 200, "it starts", LIMIT_MS);
    proxy_door(&proxy, PROXY_SERVES);
    scrape_await_probe(&w, "/ready", 200, "RabbitMQ", LIMIT_MS);
    end_well(p);
    proxy_close(&proxy);
}

/* The main loop alone stands still, for less than it takes the worker to end itself. */
static void test_live_while_the_main_loop_stands_still(void **state)
{
#ifdef TENON_POINTS
    struct fixture *fx = *state;
    const char *const args[] = {"worker", FREE_PORT, "--handler", "a=exec true", NULL};
    struct process *p = tenon_spawn(fx, args,
                                    (const char *const[]){"TENON_POINT=task_claimed:1:sleep=22000",
                                                          NULL});
    struct web w = scrape_at(p);
    scrape_await_probe(&w, "/ready", 200, "", LIMIT_MS);
    scrape_await_probe(&w, "/live", 200, "moves", LIMIT_MS);
    test_sql(fx, "SELECT tenon.enqueue('a')");
    scrape_await_probe(&w, "/live", 503, "the main loop has not moved for", LIMIT_MS);
    scrape_await_probe(&w, "/ready", 503, "the main loop has not moved for", LIMIT_MS);
    scrape_await_probe(&w, "/live", 200, "moves", LIMIT_MS);
    scrape_await(&w, "tenon_attempts_total{queue=\"default\",kind=\"a\",outcome=\"done\"}", 1,
                 LIMIT_MS);
    end_well(p);
#else
    (void)state;
    skip();
#endif
}

#define IN(state) "tenon_queue_tasks{queue=\"q\",state=\"" state "\"}"

/* Queues in every state, a late schedule, a limit, kinds that nobody handles. */
static void fill(struct fixture *fx)
{
    test_sql(fx, "SELECT tenon.set_limit('k', max_running => 1);"
                 "SELECT tenon.enqueue('nobody', queue => 'q') FROM generate_series(1, 7);"
                 "SELECT tenon.enqueue('nobody', queue => 'q', delay => '1 h') FROM"
                 " generate_series(1, 3);"
                 "UPDATE tenon.task SET run_at = now() - interval '90 s',"
                 " created_at = now() - interval '90 s' WHERE id = 1;"
                 "SELECT tenon.enqueue('good', queue => 'p');"
                 "SELECT tenon.enqueue('good', queue => 'p', limit_keys => '{k}') FROM"
                 " generate_series(1, 2);"
                 "SELECT tenon.flow('f'), tenon.batch(on_end => 'good');"
                 "SELECT tenon.enqueue('good', queue => 'r', flow => 1);"
                 "SELECT tenon.enqueue('good', queue => 'r', flow => 1, depends_on => ARRAY[(SELECT"
                 " max(id) FROM tenon.task)]) FROM generate_series(1, 3);"
                 "SELECT tenon.enqueue('good', queue => 'r', limit_keys => '{k}', delay => '1 h');"
                 "SELECT tenon.enqueue('sleeper', queue => 'r');"
                 "UPDATE tenon.task SET run_at = 'infinity', wanted_at = 'infinity' WHERE kind ="
                 " 'sleeper';"
                 "INSERT INTO tenon.waiting SELECT id, 's', now() + interval '1 h' FROM tenon.task"
                 " WHERE kind = 'sleeper';"
                 "SELECT tenon.set_limit('kind/mail', max_running => 1);"
                 "SELECT tenon.set_limit('kind/mail:urgent', max_running => 1);"
                 "SELECT tenon.enqueue('mail:urgent', queue => 'm') FROM generate_series(1, 5);"
                 "SELECT tenon.settle();"
                 "SELECT tenon.pause(queue => 'p')");
}

static void test_the_leader_tells_what_the_database_has(void **state)
{
    struct fixture *fx = *state;
    fill(fx);
    struct process *first = leader(fx);
    struct web w = scrape_at(first);
    struct process *second = TENON(fx, "cleaner", FREE_PORT);
    struct web standby = scrape_at(second);
    scrape_await_probe(&w, "/ready", 200, "it leads", LIMIT_MS);
    scrape_await_probe(&standby, "/ready", 200, "it stands by", LIMIT_MS);
    scrape_await(&w, IN("ready"), 7, LIMIT_MS);
    char *page = scrape(&w);
    assert_true(scrape_value(page, IN("scheduled")) == 3);
    assert_true(scrape_value(page, IN("running")) == 0);
    assert_true(scrape_value(page, IN("dead")) == 0);
    assert_true(scrape_value(page, "tenon_queue_latency_seconds{queue=\"q\"}") >= 90);
    assert_true(scrape_value(page, "tenon_queue_paused{queue=\"p\"}") == 1);
    assert_true(scrape_value(page, "tenon_queue_paused{queue=\"q\"}") == 0);
    assert_true(scrape_value(page, "tenon_unhandled_tasks{queue=\"q\",kind=\"nobody\"}") == 7);
    assert_true(scrape_value(page, "tenon_limit_waiting{limit=\"k\"}") == 1);
    assert_true(scrape_value(page, "tenon_limit_paused{limit=\"k\"}") == 0);
    assert_true(scrape_value(page, "tenon_limit_held{limit=\"k\"}") == 1);
    assert_true(scrape_value(page, "tenon_limit_max_running{limit=\"k\"}") == 1);
    assert_true(scrape_value(page, "tenon_blocked_tasks{reason=\"parent\"}") == 3);
    assert_true(scrape_value(page, "tenon_limit_waiting{limit=\"kind/mail:urgent\"}") == 4);
    assert_true(scrape_value(page, "tenon_limit_waiting{limit=\"kind/mail\"}") == 0);
    assert_true(scrape_value(page, "tenon_limit_held{limit=\"kind/mail\"}") == 0);
    assert_true(scrape_value(page, "tenon_blocked_tasks{reason=\"limit\"}") == 5);
    assert_true(scrape_value(page, "tenon_blocked_tasks{reason=\"time\"}") == 1);
    assert_true(scrape_value(page, "tenon_blocked_tasks{reason=\"signal\"}") == 1);
    assert_true(scrape_value(page, "tenon_flows_unfinished") == 2);
    assert_true(scrape_value(page, "tenon_queue_tasks{queue=\"p\",state=\"blocked\"}") == 1);
    assert_true(scrape_value(page, "tenon_cleaner_leads") == 1);
    assert_true(scrape_value(page, "tenon_leader_present") == 1);
    assert_true(scrape_value(page, "tenon_statistics_up") == 1);
    assert_true(scrape_value(page, "tenon_schedules_late") == 0);
    assert_true(scrape_value(page, "tenon_everything_paused") == 0);
    assert_true(scrape_value(page, "tenon_oldest_pause_seconds{what=\"everything\"}") == 0);
    assert_true(scrape_value(page, "tenon_oldest_pause_seconds{what=\"queue\"}") > 0);
    assert_in_range((uintmax_t)scrape_value(page, "tenon_oldest_transaction_seconds"), 0, 3600);
    check_with_promtool(fx, page);
    free(page);
    free(TENON_RUN(fx, 0, "pause", "--all"));
    scrape_await(&w, "tenon_everything_paused", 1, LIMIT_MS);
    test_sql(fx, "UPDATE tenon.paused SET paused_at = now() - interval '2 h' WHERE name = 'p'");
    scrape_await_least(&w, "tenon_oldest_pause_seconds{what=\"queue\"}", 7200, LIMIT_MS);
    scrape_await_least(&w, "tenon_oldest_pause_seconds{what=\"everything\"}", 0.001, LIMIT_MS);
    page = scrape(&standby);
    assert_true(scrape_value(page, "tenon_cleaner_leads") == 0);
    assert_true(scrape_value(page, "tenon_leader_present") == 1);
    assert_null(strstr(page, "tenon_queue_tasks"));
    check_with_promtool(fx, page);
    free(page);
    end_well(second);
    end_well(first);
}

/* Which holds a snapshot, of another session; the cleaner's role sees it by the schema's owner. */
static void test_an_old_transaction(void **state)
{
    struct fixture *fx = *state;
    static const char metric[] = "tenon_oldest_transaction_seconds";
    PGconn *other = sql_connect(fx->database_url);
    sql_run(other, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
    struct process *p = leader(fx);
    struct web w = scrape_at(p);
    scrape_await_least(&w, metric, 3, LIMIT_MS);
    PQfinish(other);
    test_await(fx, LIMIT_MS, "SELECT tenon.oldest_transaction_ms() < 3000");
    test_sql(fx,
             "CREATE ROLE %1$s_o; ALTER FUNCTION tenon.oldest_transaction_ms OWNER TO %1$s_o;"
             "GRANT EXECUTE ON FUNCTION tenon.oldest_transaction_ms TO %1$s_o",
             fx->database);
    scrape_await(&w, metric, -1, LIMIT_MS); /* it may not see it, and does not say that it is 0 */
    test_sql(fx, "GRANT pg_read_all_stats TO %s_o", fx->database);
    scrape_await_least(&w, metric, 0, LIMIT_MS);
    end_well(p);
    test_sql(fx, "DROP OWNED BY %1$s_o; DROP ROLE %1$s_o", fx->database);
}

static const char asked[] = "SELECT count(*) FROM pg_stat_activity WHERE datname = '%s' AND"
                            " application_name = 'tenon cleaner statistics'";

/* No scrape, no session; no --http, no port. */
static void test_nobody_asks_nobody_gathers(void **state)
{
    struct fixture *fx = *state;
    struct process *p = leader(fx);
    struct web w = scrape_at(p);
    scrape_await_probe(&w, "/ready", 200, "it leads", LIMIT_MS);
    assert_int_equal(sql_int(fx->maintenance, asked, fx->database), 0);
    free(scrape(&w));
    assert_int_equal(sql_int(fx->maintenance, asked, fx->database), 1);
    assert_int_equal(web_status(&w, "POST", "/metrics", "", ""), 405);
    assert_int_equal(web_status(&w, "GET", "/", "", ""), 404);
    struct process *closed = TENON(fx, "cleaner");
    process_await_line(closed, "event=cleaner_started", LIMIT_MS);
    assert_int_equal(process_lines(closed, "event=http_ready"), 0);
    end_well(closed);
    end_well(p);
}

/* What `tenon setup --grant-cleaner` grants is enough, and no payload of the history is in it. */
static void test_the_rights_of_a_cleaner(void **state)
{
    struct fixture *fx = *state;
    char url[700];
    test_sql(fx, "CREATE ROLE %s_c LOGIN PASSWORD 'word'", fx->database);
    (void)snprintf(url, sizeof url, "%s_c", fx->database);
    free(TENON_RUN(fx, 0, "setup", "--grant-cleaner", url));
    (void)snprintf(url, sizeof url, "DATABASE_URL=postgresql://%s_c:word@%s", fx->database,
                   strchr(fx->database_url, '@') + 1);
    fill(fx);
    const char *const args[] = {"cleaner", FREE_PORT, NULL};
    struct process *p = tenon_spawn(fx, args, (const char *const[]){url, NULL});
    struct web w = scrape_at(p);
    scrape_await(&w, IN("ready"), 7, LIMIT_MS);
    assert_int_equal(process_lines(p, "event=statistics_failed"), 0);
    test_await(fx, LIMIT_MS, "SELECT count(*) = 1 FROM tenon.depth_count");
    assert_int_equal(process_lines(p, "event=depth_failed"), 0);
    PGconn *conn = sql_connect(strchr(url, '=') + 1);
    sql_fails(conn, "42501", "permission denied", "SELECT payload FROM tenon.history");
    sql_fails(conn, "42501", "permission denied", "SELECT payload FROM tenon.dead");
    PQfinish(conn);
    end_well(p);
    test_sql(fx, "DROP OWNED BY %s_c; DROP ROLE %s_c", fx->database, fx->database);
}

/* 3,000 queues: as many are told of as status tells. A large one is told of when the leader has
 * counted it, and until then not at all. */
static void test_many_queues(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "SELECT tenon.enqueue('a', queue => 'q' || i) FROM generate_series(1, 3000) i;"
                 "SELECT tenon.enqueue_many('a', array_fill('1'::jsonb, ARRAY[20000]),"
                 " queue => 'q1')");
    test_sql(fx, "ALTER FUNCTION tenon.count_depth RENAME TO count_none");
    struct process *p = leader(fx);
    struct web w = scrape_at(p);
    scrape_await(&w, "tenon_statistics_up", 1, LIMIT_MS);
    char *page = scrape(&w);
    int queues = 0;
    for (const char *at = page; (at = strstr(at, "\ntenon_queue_paused{")); at++) {
        queues++;
    }
    assert_int_equal(queues, 200);
    assert_true(scrape_value(page, "tenon_queue_tasks{queue=\"q1\",state=\"ready\"}") == -1);
    assert_true(scrape_value(page, "tenon_queue_tasks{queue=\"q10\",state=\"ready\"}") == 1);
    assert_true(scrape_value(page, "tenon_depth_age_seconds") == -1);
    free(page);
    end_well(p);
    test_sql(fx, "ALTER FUNCTION tenon.count_none RENAME TO count_depth");
    p = leader(fx);
    w = scrape_at(p);
    scrape_await(&w, "tenon_queue_tasks{queue=\"q1\",state=\"ready\"}", 20001, LIMIT_MS);
    page = scrape(&w);
    assert_in_range((uintmax_t)scrape_value(page, "tenon_depth_age_seconds"), 0, 600);
    free(page);
    end_well(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVERS(test_a_worker_counts_what_happened),
        WITH_SERVERS(test_waits),
        WITH_SERVERS(test_a_drain),
        WITH_SERVERS(test_ready_while_the_database_is_away),
        WITH_SERVERS(test_a_handler_that_does_not_start),
        WITH_SERVERS(test_before_the_start),
        WITH_SERVERS(test_live_while_the_main_loop_stands_still),
        WITH_SERVERS(test_the_leader_tells_what_the_database_has),
        WITH_DATABASE(test_an_old_transaction),
        WITH_SERVERS(test_nobody_asks_nobody_gathers),
        WITH_SERVERS(test_the_rights_of_a_cleaner),
        WITH_SERVERS(test_many_queues),
        WITH_DATABASE(test_the_alert_rules),
    };
    return RUN_GROUP(tests);
}
