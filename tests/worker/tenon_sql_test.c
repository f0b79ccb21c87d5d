/* label: e2e */
/* timeout: 240 */
/* long: 360 */
/* tenon-sql under a worker: a function's effect and its task's end are one commit. */
#include "tests/support/load.h"
#include "tests/support/proxy.h"
#include "tests/support/working.h"

#include "core/base/now.h"

#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

/* Of pg_stat_activity: a function that sleeps. */
#define ASLEEP "datname = current_database() AND wait_event = 'PgSleep'"

/* A worker with tenon-sql for these kinds; the handler connects to `url`. */
static struct process *start(struct fixture *fx, const char *url, const char *const *kinds,
                             const char *options)
{
    char handler_url[600], worker_url[600], handlers[8][400];
    const char *args[24] = {"worker", "--slots", "1"};
    size_t n = 3;
    (void)snprintf(handler_url, sizeof handler_url, "DATABASE_URL=%s", url);
    (void)snprintf(worker_url, sizeof worker_url, "TENON_DATABASE_URL=%s", fx->database_url);
    for (size_t i = 0; kinds[i]; i++) {
        (void)snprintf(handlers[i], sizeof handlers[i], "%s=pool:exec %s-sql %s", kinds[i],
                       tenon_program, options);
        args[n++] = "--handler";
        args[n++] = handlers[i];
    }
    return tenon_spawn(fx, args, (const char *const[]){handler_url, worker_url, NULL});
}

static struct process *start_one(struct fixture *fx, const char *options)
{
    return start(fx, fx->database_url, (const char *const[]){"pay", NULL}, options);
}

static int64_t enqueue(struct fixture *fx, const char *kind, const char *payload,
                       const char *timeout)
{
    return test_sql_int(fx, "SELECT tenon.enqueue('%s', '%s', timeout => '%s')", kind, payload,
                        timeout);
}

static void await(struct fixture *fx, int64_t id, const char *what)
{
    test_await(fx, LIMIT_MS, "SELECT %s, t.* FROM tenon.tasks t WHERE id = %lld", what,
               (long long)id);
}

/* pay() notes n of its payload, and then does what the payload says. */
static void make_functions(struct fixture *fx)
{
    test_sql(fx, "CREATE SCHEMA app; CREATE TABLE app.paid (n numeric);"
                 "CREATE FUNCTION app.pay(payload jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$ BEGIN"
                 " INSERT INTO app.paid VALUES ((payload->>'n')::numeric);"
                 " PERFORM pg_sleep((payload->>'sleep')::double precision);"
                 " IF payload ? 'code' THEN"
                 "  RAISE EXCEPTION 'asked to' USING ERRCODE = payload->>'code',"
                 "  DETAIL = coalesce(payload->>'detail', 'none');"
                 " END IF;"
                 " RETURN payload->'n'; END $$;"
                 "CREATE FUNCTION app.\"Nothing\"(payload jsonb) RETURNS void LANGUAGE sql AS"
                 " $$ INSERT INTO app.paid VALUES ((payload->>'n')::numeric) $$;"
                 "CREATE FUNCTION app.count(payload jsonb) RETURNS integer LANGUAGE sql AS"
                 " $$ SELECT jsonb_array_length(payload) $$;"
                 "CREATE FUNCTION app.set_of(payload jsonb) RETURNS SETOF jsonb LANGUAGE sql AS"
                 " $$ SELECT payload $$");
}

static int64_t paid(struct fixture *fx)
{
    return test_sql_int(fx, "SELECT count(*) FROM app.paid");
}

static void test_results(void **state)
{
    struct fixture *fx = *state;
    make_functions(fx);
    struct process *p = start(fx, fx->database_url,
                              (const char *const[]){"pay", "nothing", "count", NULL},
                              "--function app.pay --function 'nothing=app.\"Nothing\"'"
                              " --function count=app.count");
    int64_t pay = enqueue(fx, "pay", "{\"n\": 12345678901234567890.125}", "20 s");
    int64_t nothing = enqueue(fx, "nothing", "{\"n\": 2}", "20 s");
    int64_t count = enqueue(fx, "count", "[1, 2, 3]", "20 s");
    await(fx, pay, "state = 'done' AND result = '12345678901234567890.125'");
    await(fx, nothing, "state = 'done' AND result IS NULL");
    await(fx, count, "state = 'done' AND result = '3'");
    assert_int_equal(paid(fx), 2);
    end_well(p);
}

/* Each rolls back what it did. */
static void check_errors(struct fixture *fx, const char *options)
{
    static const struct {
        const char *payload, *what;
    } cases[] = {
        {"{\"n\": 1, \"code\": \"23505\"}", "state = 'retrying' AND error_class = '23505'"
                                            " AND last_error LIKE 'asked to (none)%%line 1%%'"},
        {"{\"n\": 2, \"code\": \"TN001\"}", "state = 'dead' AND error_class = 'TN001'"},
        {"{\"n\": 3, \"code\": \"TN002\", \"detail\": \"50min\"}",
         "state = 'scheduled' AND failures = 0 AND run_at - now() BETWEEN '45 min' AND '50 min'"},
        {"{\"n\": 4, \"code\": \"TN002\"}",
         "state = 'scheduled' AND failures = 0 AND run_at - now() < '1 min'"},
        {"{\"n\": 5, \"code\": \"40001\"}", "failures > 1"}, /* again in a second */
        {"{\"n\": 6, \"sleep\": 100}", "state = 'retrying' AND error_class = '57014'"},
        {"{\"n\": \"x\"}", "state = 'retrying' AND error_class = '22P02'"},
    };
    enum { N = sizeof cases / sizeof *cases };
    int64_t ids[N];
    make_functions(fx);
    struct process *p = start_one(fx, options);
    (void)TENON(fx, "cleaner"); /* wakes the worker for what is due again */
    for (size_t i = 0; i < N; i++) {
        ids[i] = enqueue(fx, "pay", cases[i].payload, "4 s");
    }
    for (size_t i = 0; i < N; i++) {
        await(fx, ids[i], cases[i].what);
    }
    assert_int_equal(paid(fx), 0);
    end_well(p);
}

static void test_what_each_error_means(void **state)
{
    check_errors(*state, "--function app.pay --commit-size 1");
}

static void test_what_each_error_means_in_batches(void **state)
{
    check_errors(*state, "--function app.pay");
}

/* Many commit together; of those that fail, one at the commit itself, nobody else is charged. */
static void test_batches(void **state)
{
    enum { TASKS = 120 };
    struct fixture *fx = *state;
    make_functions(fx);
    test_sql(fx,
             "ALTER TABLE app.paid ADD UNIQUE (n) DEFERRABLE INITIALLY DEFERRED;"
             "SELECT tenon.enqueue_many('pay', array_agg(CASE n WHEN 60 THEN '{\"n\": 59}'"
             " WHEN 90 THEN '{\"n\": 90, \"code\": \"22012\"}'"
             " ELSE jsonb_build_object('n', n) END ORDER BY n)) FROM generate_series(1, %d) n",
             TASKS);
    struct process *p = start_one(fx, "--function app.pay --connections 1");
    await_done(fx, TASKS - 2);
    test_await(fx, LIMIT_MS,
               "SELECT count(*) = 2 FROM tenon.task WHERE failures = 1"
               " AND error_class IN ('23505', '22012')");
    assert_int_equal(paid(fx), TASKS - 2);
    assert_int_equal(test_sql_int(fx, "SELECT sum(failures) + sum(claims) FROM tenon.history"),
                     TASKS - 2);
    assert_true(test_sql_int(fx, "SELECT count(DISTINCT xmin::text) FROM app.paid") < TASKS - 20);
    end_well(p);
}

/* They do not wait for the slow one, in whose batch they may have been. It is the server that ends
 * that batch: nobody who would ask it to is let in. */
static void test_a_slow_one_in_a_batch(void **state)
{
    enum { TASKS = 120 };
    struct fixture *fx = *state;
    struct proxy proxy;
    make_functions(fx);
    proxy_open(&proxy, fx->database_url);
    struct process *p = start(fx, proxy.url, (const char *const[]){"pay", NULL},
                              "--function app.pay --connections 2");
    await(fx, enqueue(fx, "pay", "{\"n\": 0}", "20 s"), "state = 'done'");
    proxy_door(&proxy, PROXY_SILENT);
    test_sql(fx,
             "SELECT tenon.enqueue_many('pay', array_agg(jsonb_build_object('n', n, 'sleep',"
             " CASE n WHEN 60 THEN 600 ELSE 0 END) ORDER BY n)) FROM generate_series(1, %d) n",
             TASKS);
    await_done(fx, TASKS);
    proxy_door(&proxy, PROXY_SERVES);
    assert_true(test_sql_bool(fx, "SELECT tenon.cancel(id) FROM tenon.task"));
    await(fx, enqueue(fx, "pay", "{\"n\": 1000}", "20 s"), "state = 'done'");
    assert_int_equal(paid(fx), TASKS + 1);
    end_well(p);
    proxy_close(&proxy);
}

/* One is cancelled by another of its batch: its effect is rolled back, and theirs are not. */
static void test_a_lost_claim_in_a_batch(void **state)
{
    enum { TASKS = 60 };
    struct fixture *fx = *state;
    make_functions(fx);
    test_sql(
        fx,
        "CREATE FUNCTION app.pay_or_cancel(payload jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$"
        " BEGIN PERFORM tenon.cancel(t.id) FROM tenon.task t"
        " WHERE t.payload->'n' = pay_or_cancel.payload->'cancel'; RETURN app.pay(payload); END $$;"
        "SELECT tenon.enqueue_many('pay', array_agg(CASE n WHEN 30 THEN"
        " '{\"n\": 30, \"cancel\": 31}' ELSE jsonb_build_object('n', n) END ORDER BY n))"
        " FROM generate_series(1, %d) n",
        TASKS);
    struct process *p = start_one(fx, "--function app.pay_or_cancel --connections 1");
    test_await(fx, LIMIT_MS, "SELECT count(*) = %d, count(*) FROM tenon.history", TASKS);
    test_await(fx, LIMIT_MS, "SELECT count(*) = %d, count(*) FROM app.paid", TASKS - 1);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM app.paid WHERE n = 31"), 0);
    assert_int_equal(test_sql_int(fx, "SELECT sum(failures) FROM tenon.history"), 0);
    end_well(p);
}

/* One child for three kinds. */
static struct process *start_kinds(struct fixture *fx)
{
    char path[300], url[600], worker_url[600];
    (void)snprintf(path, sizeof path, "%s/handlers.conf", fx->dir);
    (void)snprintf(url, sizeof url, "DATABASE_URL=%s", fx->database_url);
    (void)snprintf(worker_url, sizeof worker_url, "TENON_DATABASE_URL=%s", fx->database_url);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    (void)fprintf(file,
                  "handler \"pay,nothing,count\" {\n  mode = \"pool\"\n  command = {\"%s-sql\","
                  " \"--connections\", \"1\", \"--function\", \"pay=app.pay\", \"--function\","
                  " 'nothing=app.\"Nothing\"', \"--function\", \"count=app.count\"}\n}\n",
                  tenon_program);
    assert_int_equal(fclose(file), 0);
    const char *const args[] = {"worker", "--slots", "1", "--handlers", path, NULL};
    return tenon_spawn(fx, args, (const char *const[]){url, worker_url, NULL});
}

/* A batch has one function: each task of each kind gets its own, and its own result. */
static void test_kinds_in_batches(void **state)
{
    enum { TASKS = 120 };
    struct fixture *fx = *state;
    make_functions(fx);
    test_sql(fx,
             "SELECT CASE n %% 3 WHEN 0 THEN tenon.enqueue('pay', jsonb_build_object('n', n))"
             " WHEN 1 THEN tenon.enqueue('nothing', jsonb_build_object('n', n))"
             " ELSE tenon.enqueue('count', to_jsonb(array_fill(0, ARRAY[n]))) END"
             " FROM generate_series(1, %d) n",
             TASKS);
    struct process *p = start_kinds(fx);
    await_done(fx, TASKS);
    assert_int_equal(test_sql_int(fx, "SELECT sum(n) FROM app.paid"),
                     test_sql_int(fx,
                                  "SELECT sum(n) FROM generate_series(1, %d) n"
                                  " WHERE n %% 3 < 2",
                                  TASKS));
    assert_int_equal(
        test_sql_int(fx, "SELECT count(*) FROM tenon.history WHERE result IS NOT DISTINCT FROM"
                         " CASE kind WHEN 'pay' THEN payload->'n'"
                         " WHEN 'count' THEN to_jsonb(jsonb_array_length(payload)) END"),
        TASKS);
    assert_true(test_sql_int(fx, "SELECT count(DISTINCT xmin::text) FROM tenon.history") <
                TASKS - 20);
    end_well(p);
}

/* Other workers may have what waits: of slow functions the child holds no more than it runs. */
static void test_slow_functions_hold_no_others(void **state)
{
    static const char held[] =
        "SELECT count(*) FILTER (WHERE start_time IS NOT NULL) <= %d AND"
        " count(*) BETWEEN 50 AND 400, count(*) FROM tenon.task WHERE kind = 'pay'";
    struct fixture *fx = *state;
    make_functions(fx);
    test_sql(fx, "SELECT tenon.enqueue_many('pay', array_fill('{\"n\": 1, \"sleep\": 600}'"
                 "::jsonb, ARRAY[100]))");
    struct process *p = start_one(fx, "--function app.pay --connections 3");
    test_await(fx, LIMIT_MS, "SELECT count(*) = 3 FROM pg_stat_activity WHERE " ASLEEP);
    assert_true(test_sql_bool(fx, held, 3));
    process_kill(p);
    /* and the same when they become slow */
    test_sql(fx, "DELETE FROM tenon.task; SELECT tenon.enqueue_many('pay', array_agg("
                 "jsonb_build_object('n', n, 'sleep', CASE WHEN n > 300 THEN 0.1 ELSE 0 END)"
                 " ORDER BY n)) FROM generate_series(1, 700) n");
    p = start_one(fx, "--function app.pay --connections 3 --commit-size 32");
    test_await(fx, LIMIT_MS, held, 6);
    process_kill(p);
}

/* Tasks that lock the same rows in any order: each counts once, and few run twice. A sequence
 * counts the runs that were rolled back, too. */
static void test_batches_in_each_others_way(void **state)
{
    enum { TASKS = 1500, RUNS_MAX = TASKS + TASKS / 3 };
    struct fixture *fx = *state;
    test_sql(
        fx,
        "CREATE TABLE public.account (id integer PRIMARY KEY, balance bigint DEFAULT 0);"
        "INSERT INTO public.account SELECT generate_series(0, 39); CREATE SEQUENCE public.runs;"
        "CREATE FUNCTION public.transfer(payload jsonb) RETURNS void LANGUAGE plpgsql AS $$"
        " BEGIN PERFORM nextval('public.runs');"
        " UPDATE public.account SET balance = balance + 1 WHERE id = payload::integer; END $$;"
        "SELECT tenon.enqueue_many('pay', array_agg(to_jsonb((random() * 39)::integer)))"
        " FROM generate_series(1, %d)",
        TASKS);
    struct process *p = start_one(fx, "--function public.transfer");
    await_done(fx, TASKS);
    assert_int_equal(test_sql_int(fx, "SELECT sum(balance) FROM public.account"), TASKS);
    int64_t runs = test_sql_int(fx, "SELECT last_value FROM public.runs");
    print_message("%d tasks, %lld runs\n", TASKS, (long long)runs);
    assert_true(runs < RUNS_MAX);
    end_well(p);
}

/* Four functions wait for each other. */
static void test_several_at_once(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "CREATE FUNCTION public.meet(payload jsonb) RETURNS void LANGUAGE plpgsql AS $$"
                 " BEGIN WHILE (SELECT count(*) FROM pg_stat_activity WHERE datname ="
                 " current_database() AND application_name = 'tenon-sql' AND state = 'active') < 4"
                 " LOOP PERFORM pg_sleep(0.01), pg_stat_clear_snapshot(); END LOOP;"
                 " PERFORM pg_sleep(0.2); END $$");
    struct process *p = start_one(fx, "--function meet --connections 4");
    for (int i = 0; i < 4; i++) {
        (void)enqueue(fx, "pay", "1", "1 min");
    }
    await_done(fx, 4);
    end_well(p);
}

/* Its statement ends within moments; the same child goes on. */
static void test_a_cancelled_task(void **state)
{
    static const char sleeping[] = "SELECT count(*) = %d FROM pg_stat_activity WHERE " ASLEEP;
    struct fixture *fx = *state;
    make_functions(fx);
    struct process *p = start_one(fx, "--function app.pay");
    int64_t id = enqueue(fx, "pay", "{\"n\": 1, \"sleep\": 600}", "1 h");
    test_await(fx, LIMIT_MS, sleeping, 1);
    assert_true(test_sql_bool(fx, "SELECT tenon.cancel(%lld)", (long long)id));
    test_await(fx, LIMIT_MS, sleeping, 0);
    await(fx, enqueue(fx, "pay", "{\"n\": 2}", "20 s"), "state = 'done'");
    assert_int_equal(test_sql_int(fx, "SELECT n FROM app.paid"), 2);
    end_well(p);
}

/* One that waits in the child behind another is not begun, and what comes after it is. */
static void test_a_cancelled_task_that_waits(void **state)
{
    struct fixture *fx = *state;
    int64_t ids[3];
    make_functions(fx);
    struct process *p = start_one(fx, "--function app.pay --connections 1 --commit-size 8");
    test_sql(fx, "SELECT tenon.enqueue_many('pay', array_fill('{\"n\": 2}'::jsonb, ARRAY[200]))");
    await_done(fx, 200); /* they are quick, so by now the child takes several at once */
    for (int i = 0; i < 3; i++) {
        ids[i] = enqueue(fx, "pay", i == 0 ? "{\"n\": 0, \"sleep\": 600}" : "{\"n\": 1}", "1 h");
        await(fx, ids[i], "state = 'running'");
    }
    assert_true(test_sql_bool(fx, "SELECT tenon.cancel(%lld)", (long long)ids[1]));
    assert_true(test_sql_bool(fx, "SELECT tenon.cancel(%lld)", (long long)ids[0]));
    await(fx, ids[2], "state = 'done' AND failures = 0");
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM app.paid WHERE n < 2"), 1);
    end_well(p);
}

/* The commit is there, its answer is not: the task is done once, whatever is said of it. */
static void test_a_commit_without_an_answer(void **state)
{
    struct fixture *fx = *state;
    struct proxy proxy;
    make_functions(fx);
    proxy_open(&proxy, fx->database_url);
    struct process *p = start(fx, proxy.url, (const char *const[]){"pay", NULL},
                              "--function app.pay");
    await(fx, enqueue(fx, "pay", "{\"n\": 1}", "20 s"), "state = 'done'");
    proxy_stall(&proxy, PROXY_TO_CLIENT, true);
    int64_t id = enqueue(fx, "pay", "{\"n\": 2}", "20 s");
    await(fx, id, "state = 'done'");
    proxy_break(&proxy, PROXY_RESET);
    proxy_stall(&proxy, PROXY_TO_CLIENT, false);
    await(fx, enqueue(fx, "pay", "{\"n\": 3}", "20 s"), "state = 'done'"); /* by a new child */
    await(fx, id, "state = 'done' AND failures = 0");
    assert_int_equal(paid(fx), 3);
    end_well(p);
    proxy_close(&proxy);
}

/* A child of the worker that runs tenon-sql; 0 = there is none just now. */
static pid_t child_of(const struct process *worker)
{
    char path[300], line[512];
    pid_t found = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)worker->pid,
                   (int)worker->pid);
    FILE *children = fopen(path, "r");
    int pid;
    while (children && !found && fscanf(children, "%d", &pid) == 1) {
        (void)snprintf(path, sizeof path, "/proc/%d/comm", pid);
        FILE *comm = fopen(path, "r");
        found = comm && fgets(line, sizeof line, comm) && strcmp(line, "tenon-sql\n") == 0 ? pid
                                                                                           : 0;
        if (comm) {
            (void)fclose(comm);
        }
    }
    if (children) {
        (void)fclose(children);
    }
    return found;
}

/* pay() that first waits for a lock which this session has, if it is to. */
static void make_pay_or_hold(struct fixture *fx)
{
    make_functions(fx);
    test_sql(fx, "CREATE FUNCTION app.pay_or_hold(payload jsonb) RETURNS jsonb LANGUAGE plpgsql AS"
                 " $$ BEGIN IF payload ? 'hold' THEN PERFORM pg_advisory_lock_shared(1);"
                 " PERFORM pg_advisory_unlock_shared(1); END IF; RETURN app.pay(payload); END $$;"
                 "SELECT pg_advisory_lock(1)");
}

static void await_connection(struct proxy *proxy, int before)
{
    int64_t until_ms = patience_end_ms(LIMIT_MS);
    while (proxy_accepted(proxy) == before) {
        assert_true(now_ms() < until_ms);
        (void)poll(NULL, 0, 5);
    }
}

/* One that sleeps on one connection, one that is held on the other, and some that wait for that. */
static int64_t fill(struct fixture *fx)
{
    static const char event[] = "SELECT count(*) = 1 FROM pg_stat_activity WHERE datname ="
                                " current_database() AND wait_event = '%s'";
    int64_t sleeps = enqueue(fx, "pay", "{\"n\": 1, \"sleep\": 600}", "1 h");
    test_await(fx, LIMIT_MS, event, "PgSleep");
    (void)enqueue(fx, "pay", "{\"n\": 2, \"hold\": true}", "20 s");
    test_await(fx, LIMIT_MS, event, "advisory");
    for (int i = 0; i < 2; i++) {
        (void)enqueue(fx, "pay", "{\"n\": 3}", "20 s");
    }
    test_await(fx, LIMIT_MS, "SELECT count(*) = 4 FROM tenon.tasks WHERE state = 'running'");
    return sleeps;
}

/* The server is asked to end a statement by way of a proxy that never says a word. What else the
 * child has goes on: what runs on its other connection, and what waits for that. */
static void test_a_cancel_without_an_answer(void **state)
{
    enum { QUICK = 200 };
    struct fixture *fx = *state;
    struct proxy proxy;
    make_pay_or_hold(fx);
    proxy_open(&proxy, fx->database_url);
    struct process *p = start(fx, proxy.url, (const char *const[]){"pay", NULL},
                              "--function app.pay_or_hold --connections 2 --commit-size 8");
    test_sql(fx, "SELECT tenon.enqueue_many('pay', array_fill('{\"n\": 0}'::jsonb, ARRAY[%d]))",
             QUICK);
    await_done(fx, QUICK); /* they are quick, so by now the child takes several at once */
    int64_t cancelled = fill(fx);
    int connections = proxy_accepted(&proxy);
    proxy_door(&proxy, PROXY_SILENT);
    assert_true(test_sql_bool(fx, "SELECT tenon.cancel(%lld)", (long long)cancelled));
    await_connection(&proxy, connections);
    test_sql(fx, "SELECT pg_advisory_unlock(1)");
    test_await(fx, LIMIT_MS,
               "SELECT count(*) = %d AND sum(claims) = %d, count(*), sum(claims)"
               " FROM tenon.history WHERE outcome = 'done'",
               QUICK + 3, QUICK + 3);
    proxy_door(&proxy, PROXY_SERVES);
    await(fx, enqueue(fx, "pay", "{\"n\": 4}", "20 s"), "state = 'done'"); /* by a new child */
    assert_int_equal(paid(fx), QUICK + 4);
    end_well(p);
    proxy_close(&proxy);
}

/* By turns: kill -9 of the child, the end of a backend, and at most twice kill -9 of the whole
 * worker: a task that was there three times would be dead. */
static struct process *strike(struct fixture *fx, struct process *worker, int turn,
                              const char *options)
{
    pid_t child = child_of(worker);
    if (turn % 10 == 4) {
        process_kill(worker);
        recover_at_once(fx);
        return start_one(fx, options);
    }
    if (turn % 5 == 2) {
        test_sql(fx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname ="
                     " current_database() AND application_name = 'tenon-sql' LIMIT 1");
    } else if (child > 0) {
        (void)kill(child, SIGKILL);
    }
    return worker;
}

static void check_exactly_once(struct fixture *fx, const char *sleep, const char *options)
{
    enum { EACH = 15 };
    int strikes = load_is_long() ? 19 : 11, tasks = (strikes + 1) * EACH;
    make_functions(fx);
    test_sql(fx,
             "SELECT tenon.set_kind('pay', retry => 'constant(1 ms)',"
             " max_attempts => 1000);"
             "SELECT tenon.enqueue_many('pay', array_agg(jsonb_build_object('n', n,"
             " 'sleep', %s))) FROM generate_series(1, %d) n",
             sleep, tasks);
    struct process *p = start_one(fx, options);
    (void)TENON(fx, "cleaner"); /* wakes the worker for what is due again */
    for (int turn = 1; turn <= strikes; turn++) {
        test_await(fx, LIMIT_MS, "SELECT count(*) >= %d, count(*) FROM app.paid", turn * EACH);
        p = strike(fx, p, turn, options);
    }
    test_await(fx, 3 * LIMIT_MS,
               "SELECT count(*) = %d, count(*), (SELECT string_agg(concat_ws(' ', id, start_time,"
               " worker_id, failures, crashes), ', ') FROM tenon.task), (SELECT count(*) FROM"
               " tenon.dead) FROM tenon.history",
               tasks);
    assert_int_equal(paid(fx), tasks);
    assert_int_equal(test_sql_int(fx, "SELECT count(DISTINCT n) FROM app.paid"), tasks);
    assert_true(test_sql_bool(fx, "SELECT bool_and(outcome = 'done') FROM tenon.history"));
    process_await_line(p, "event=worker_ready", LIMIT_MS); /* the last one may just begin */
    end_well(p);
}

static void test_exactly_once(void **state)
{
    check_exactly_once(*state, "0.01", "--function app.pay --commit-size 1");
}

static void test_exactly_once_in_batches(void **state)
{
    struct fixture *fx = *state;
    check_exactly_once(fx, "0.002", "--function app.pay --connections 2");
    assert_true(test_sql_int(fx, "SELECT count(DISTINCT xmin::text) FROM app.paid") <
                paid(fx) * 9 / 10);
}

/* What is wrong stands in the log; no task is charged. */
static void test_it_does_not_start(void **state)
{
    static const struct {
        const char *options, *why;
    } cases[] = {
        {"--function app.nowhere", "could not prepare app.nowhere(jsonb)"},
        {"--function app.set_of", "it is an aggregate, a procedure, or returns a set"},
        {"--function x=", "--function is not NAME or KIND=NAME: x="},
        {"--connections 3", "--function is missing"},
        {"--function app.pay --connections 65", "--connections is not a number from 1 to 64"},
        {"--function app.pay --commit-size 257", "--commit-size is not a number from 1 to 256"},
    };
    struct fixture *fx = *state;
    make_functions(fx);
    (void)enqueue(fx, "pay", "1", "20 s");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct process *p = start_one(fx, cases[i].options);
        process_await_line(p, cases[i].why, LIMIT_MS);
        assert_true(process_lines(p, "event=handler_backs_off") > 0);
        process_kill(p);
    }
    assert_int_equal(test_sql_int(fx, "SELECT failures FROM tenon.task"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_results),
        WITH_SERVERS(test_what_each_error_means),
        WITH_SERVERS(test_what_each_error_means_in_batches),
        WITH_SERVERS(test_batches),
        WITH_DATABASE(test_a_slow_one_in_a_batch),
        WITH_DATABASE(test_a_lost_claim_in_a_batch),
        WITH_DATABASE(test_kinds_in_batches),
        WITH_DATABASE(test_slow_functions_hold_no_others),
        WITH_DATABASE(test_batches_in_each_others_way),
        WITH_DATABASE(test_several_at_once),
        WITH_DATABASE(test_a_cancelled_task),
        WITH_DATABASE(test_a_cancelled_task_that_waits),
        WITH_DATABASE(test_a_commit_without_an_answer),
        WITH_DATABASE(test_a_cancel_without_an_answer),
        WITH_SERVERS(test_exactly_once),
        WITH_SERVERS(test_exactly_once_in_batches),
        WITH_DATABASE(test_it_does_not_start),
    };
    return RUN_GROUP(tests);
}
