/* label: e2e */
/* timeout: 180 */
/* only: all */
/* The commands of an operator: list, retry, cancel, delete, run-now, set, pause, resume, queue,
 * kind, audit, status --watch; with workers that run what they let go. */
#include "core/base/now.h"
#include "tests/support/held.h"
#include "tests/support/load.h"
#include "tests/support/rows.h"
#include "tests/support/working.h"

#include <jansson.h>
#include <poll.h>
#include <stdio.h>

/* --- helpers -------------------------------------------------------------------------------- */

static int64_t enqueue(struct fixture *fx, const char *kind, const char *arguments)
{
    return test_sql_int(fx, "SELECT tenon.enqueue('%s'%s)", kind, arguments);
}

static json_t *parse(char *out)
{
    json_error_t error;
    json_t *o = json_loads(out, 0, &error);
    if (!o) {
        fail_msg("%s: %s", error.text, out);
    }
    free(out);
    return o;
}

static json_int_t number(const json_t *o, const char *key)
{
    const json_t *value = json_object_get(o, key);
    if (!json_is_integer(value)) {
        fail_msg("\"%s\" is no number", key);
    }
    return json_integer_value(value);
}

#define FAILS(fx, code, log, ...) TENON_SAYS(fx, code, "", log, __VA_ARGS__)

#define SAYS(fx, out, ...) TENON_SAYS(fx, 0, out, "", __VA_ARGS__)

static int64_t count(struct fixture *fx, const char *state)
{
    return test_sql_int(fx, "SELECT count(*) FROM tenon.tasks WHERE state = '%s'", state);
}

static void await_state(struct fixture *fx, int64_t id, const char *state)
{
    test_await(fx, LIMIT_MS, "SELECT state = '%s', t.* FROM tenon.tasks t WHERE id = %lld", state,
               (long long)id);
}

/* --- list ----------------------------------------------------------------------------------- */

static void test_list(void **state)
{
    struct fixture *fx = *state;
    SAYS(fx, "no task matches", "list");
    rows_dead(fx, "mail", 3, "Timeout: slow");
    (void)enqueue(fx, "pay",
                  ", '{\"to\": \"ann@example.com\"}', unique_key => 'k', delay => '1 h'");
    json_t *o = parse(TENON_RUN(fx, 0, "list", "--json", "--limit", "3"));
    assert_int_equal(json_array_size(json_object_get(o, "tasks")), 3);
    assert_int_equal(number(json_array_get(json_object_get(o, "tasks"), 0), "id"), 4);
    assert_int_equal(number(o, "next"), 2);
    json_decref(o);
    o = parse(TENON_RUN(fx, 0, "list", "--json", "--limit", "3", "--cursor", "2"));
    const json_t *task = json_array_get(json_object_get(o, "tasks"), 0);
    assert_int_equal(json_array_size(json_object_get(o, "tasks")), 1);
    assert_string_equal(json_string_value(json_object_get(task, "error_class")), "Timeout");
    assert_true(json_is_null(json_object_get(o, "next")));
    json_decref(o);
    SAYS(fx, "dead   mail  default    4", "list", "--state", "dead,ready", "--queue", "default");
    SAYS(fx, "there may be more: --cursor 2", "list", "--kind", "mail", "--limit", "2");
    SAYS(fx, "scheduled", "list", "--payload", "$.to == \"ann@example.com\"");
    SAYS(fx, "scheduled", "list", "--unique-key", "k");
    SAYS(fx, "no task matches", "list", "--kind", "pay", "--older-than", "1h");
    SAYS(fx, "no task matches", "list", "--error", "Refused");
    SAYS(fx, "5\n", "enqueue", "child", "--flow",
         (free(test_sql_text(fx, "SELECT tenon.flow('f')")), "1"), "--limit-keys", "tenant:42");
    SAYS(fx, "child", "list", "--flow", "1");
    SAYS(fx, "child", "list", "--limit-key", "tenant:42");
    SAYS(fx, "no task matches", "list", "--flow", "2");
    SAYS(fx, "no task matches", "list", "--limit-key", "tenant:4");
    SAYS(fx, "1 task cancelled", "cancel", "--flow", "1", "--yes");
    FAILS(fx, 2, "--flow \"x\" is not allowed", "list", "--flow", "x");
    FAILS(fx, 1, "a predicate of SQL/JSON path", "list", "--payload", "$.to ==");
    FAILS(fx, 2, "--limit \"0\" is not allowed", "list", "--limit", "0");
}

/* The class is exact. Whoever mistypes it, or knows only a part, is told which there are. */
static void test_which_errors_there_are(void **state)
{
    struct fixture *fx = *state;
    FAILS(fx, 0, "", "list", "--error", "Timeout"); /* there is none */
    rows_dead(fx, "mail", 2, "TimeoutError: slow");
    rows_dead(fx, "mail", 1, "ValueError: bad");
    rows_dead(fx, "pay", 1, "Refused: no");
    const char *says =
        "no task has the error Timeout; the tasks that match the other options have: "
        "TimeoutError 2, ValueError 1\n";
    FAILS(fx, 0, says, "retry", "--state", "dead", "--kind", "mail", "--error", "Timeout",
          "--dry-run");
    FAILS(fx, 0, says, "retry", "--kind", "mail", "--error", "Timeout", "--yes", "--json");
    FAILS(fx, 0, says, "list", "--kind", "mail", "--error", "Timeout");
    FAILS(fx, 0, "have: TimeoutError 2, Refused 1, ValueError 1\n", "list", "--error", "x");
    SAYS(fx, "2 tasks would be retried", "retry", "--error", "TimeoutError", "--dry-run");
    FAILS(fx, 0, "have: TimeoutError 2, Refused 1, ValueError 1\n", "retry", "--error", "x",
          "--dry-run");
    for (int i = 0; i < 12; i++) {
        char error[24];
        (void)snprintf(error, sizeof error, "Class%d: x", i);
        rows_dead(fx, "mail", 850, error);
    }
    FAILS(fx, 0, " and others (of the first ", "list", "--error", "x");
}

/* --- acts ----------------------------------------------------------------------------------- */

static void test_acts_are_shown_first(void **state)
{
    struct fixture *fx = *state;
    rows_dead(fx, "mail", 5, "Timeout: slow");
    rows_dead(fx, "mail", 2, "Refused: no");
    FAILS(fx, 2, "name the tasks by their ids", "retry");
    FAILS(fx, 2, "5 tasks would be retried: there is no terminal to ask on; pass --yes", "retry",
          "--error", "Timeout");
    SAYS(fx, "5 tasks would be retried, the first of them", "retry", "--error", "Timeout",
         "--dry-run");
    rows_dead(fx, "exec", 1, "exit status 1: ValueError: bad address");
    SAYS(fx, "default  ValueError: bad address\n", "retry", "--kind", "exec", "--dry-run");
    SAYS(fx, "1 task deleted", "delete", "--kind", "exec", "--yes");
    assert_int_equal(count(fx, "dead"), 7);
    SAYS(fx, "5 tasks retried", "retry", "--error", "Timeout", "--state", "dead", "--kind", "mail",
         "--yes", "--why", "it is back");
    assert_int_equal(count(fx, "ready"), 5);
    assert_int_equal(count(fx, "dead"), 2);
    json_t *o = parse(TENON_RUN(fx, 0, "delete", "--kind", "mail", "--yes", "--json"));
    assert_int_equal(number(o, "matched"), 2);
    assert_int_equal(number(o, "changed"), 2);
    assert_int_equal(number(o, "skipped"), 0);
    json_decref(o);
    SAYS(fx, "5 tasks changed", "set", "--kind", "mail", "--priority", "9", "--run-at",
         "2030-01-01", "--yes");
    assert_true(
        test_sql_bool(fx, "SELECT bool_and(priority = 9 AND run_at > now()) FROM tenon.task"));
    SAYS(fx, "5 tasks made ready", "run-now", "--state", "scheduled", "--yes");
    SAYS(fx, "5 tasks cancelled", "cancel", "--queue", "default", "--yes");
    SAYS(fx, "0 tasks cancelled", "cancel", "--queue", "default");
    o = parse(TENON_RUN(fx, 0, "audit", "--json", "--limit", "4"));
    const json_t *acts = json_object_get(o, "acts");
    assert_int_equal(json_array_size(acts), 4);
    assert_string_equal(json_string_value(json_object_get(json_array_get(acts, 3), "act")),
                        "delete");
    json_decref(o);
    SAYS(fx, "\"why\": \"it is back\"", "audit");
    FAILS(fx, 2, "give what to change: --priority, --run-at or --max-crashes", "set", "17");
}

static void test_acts_by_id(void **state)
{
    struct fixture *fx = *state;
    rows_dead(fx, "a", 2, "x");
    (void)enqueue(fx, "a", "");
    SAYS(fx, "2 tasks retried", "retry", "1", "2");
    SAYS(fx, "2 tasks would be made dead again", "retry", "--undo", "--kind", "a", "--dry-run");
    SAYS(fx, "1 task made dead again", "retry", "--undo", "1");
    FAILS(fx, 1, "task 1 is dead, not retried and still waiting to start\n", "retry", "--undo",
          "1");
    FAILS(fx, 1, "task 3 is ready, not retried and still waiting", "retry", "--undo", "3");
    SAYS(fx, "1 task retried", "retry", "1");
    FAILS(fx, 1, "task 3 is ready already\n", "retry", "3");
    FAILS(fx, 1, "task 3 is ready, not dead, done, cancelled or expired\n", "delete", "3");
    FAILS(fx, 1, "there is no task 17", "cancel", "3", "17");
    await_state(fx, 3, "cancelled");
    struct held running;
    char id[24];
    held_new(fx, &running);
    (void)snprintf(id, sizeof id, "%lld", (long long)running.id);
    SAYS(fx, "1 task cancelled; the handlers of those that ran are stopped within seconds",
         "cancel", id);
    FAILS(fx, 2, "the ID \"x\" is not allowed", "cancel", "x");
}

/* At a rate it takes its time, and says how it gets on; the act has one row in the audit. */
static void test_an_act_at_a_rate(void **state)
{
    struct fixture *fx = *state;
    rows_dead(fx, "a", 30, "x");
    int64_t begun_ms = now_ms();
    struct process *p = TENON(fx, "retry", "--state", "dead", "--rate", "5/s", "--yes");
    process_await_line(p, " of 30 tasks retried, about ", LIMIT_MS);
    assert_int_equal(process_wait(p, LIMIT_MS), 0);
    assert_true(now_ms() - begun_ms >= 5800); /* the last of 30 pieces waits for the others */
    assert_true(test_sql_bool(fx, "SELECT count(*) = 1 AND min(n) = 30 FROM tenon.audit"));
    assert_int_equal(test_sql_int(fx, "SELECT count(DISTINCT xmin::text) FROM tenon.task"), 30);
    FAILS(fx, 2, "--rate \"0/s\" is not allowed", "retry", "1", "--rate", "0/s");
}

/* A list continues until its page is full or everything was read: here an answer has one piece. */
static void test_a_list_goes_on(void **state)
{
    struct fixture *fx = *state;
    (void)enqueue(fx, "rare", "");
    test_sql(fx, "SELECT tenon.enqueue_many('mail', array_fill('1'::jsonb, '{3000}'))");
    (void)enqueue(fx, "rare", "");
    test_sql(fx, "ALTER FUNCTION tenon.find RENAME TO find_all;"
                 "CREATE FUNCTION tenon.find(filter jsonb, act text, after bigint, most integer,"
                 " limit_ms integer, oldest boolean, OUT ids bigint[], OUT next bigint,"
                 " OUT share double precision) LANGUAGE sql AS $$"
                 " SELECT * FROM tenon.find_all(filter, act, after, most, 0, oldest) $$");
    json_t *o = parse(TENON_RUN(fx, 0, "list", "--json", "--kind", "rare"));
    const json_t *tasks = json_object_get(o, "tasks");
    assert_int_equal(json_array_size(tasks), 2);
    assert_int_equal(number(json_array_get(tasks, 0), "id"), 3002);
    assert_int_equal(number(json_array_get(tasks, 1), "id"), 1);
    assert_true(json_is_null(json_object_get(o, "next")));
    json_decref(o);
    o = parse(TENON_RUN(fx, 0, "list", "--json", "--kind", "rare", "--oldest", "--limit", "1"));
    tasks = json_object_get(o, "tasks");
    assert_int_equal(number(json_array_get(tasks, 0), "id"), 1);
    assert_false(json_is_null(json_object_get(o, "next")));
    json_decref(o);
    SAYS(fx, "no task matches", "list", "--kind", "none");
}

/* What was found beforehand is not what there is to do, where the search has found too many for its
 * time: as here, where it gives up after five.
 * */
static void test_an_act_on_at_least_so_many(void **state)
{
    struct fixture *fx = *state;
    rows_dead(fx, "a", 30, "x");
    test_sql(fx, "ALTER FUNCTION tenon.find RENAME TO find_all;"
                 "CREATE FUNCTION tenon.find(filter jsonb, act text DEFAULT NULL, after bigint"
                 " DEFAULT NULL, most integer DEFAULT 100, limit_ms integer DEFAULT NULL,"
                 " OUT ids bigint[], OUT next bigint) LANGUAGE sql AS $$"
                 " SELECT CASE WHEN most = 100000 THEN f.ids[1:5] ELSE f.ids END,"
                 "        CASE WHEN most = 100000 THEN f.ids[5] ELSE f.next END"
                 " FROM tenon.find_all(filter, act, after, most, limit_ms) f $$");
    SAYS(fx, "at least 5 tasks would be retried", "retry", "--state", "dead", "--dry-run");
    struct process *p = TENON(fx, "retry", "--state", "dead", "--rate", "5/s", "--yes");
    process_await_line(p, " tasks retried so far", LIMIT_MS);
    assert_int_equal(process_wait(p, LIMIT_MS), 0);
}

/* What is done stays done, and the audit says how much that is. */
static void test_an_act_that_is_killed(void **state)
{
    struct fixture *fx = *state;
    rows_dead(fx, "a", 3000, "x");
    struct process *p = TENON(fx, "retry", "--state", "dead", "--rate", "50/s", "--yes");
    test_await(fx, LIMIT_MS, "SELECT count(*) >= 30 FROM tenon.task");
    process_kill(p);
    test_await(fx, LIMIT_MS,
               "SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name ="
               " 'tenon operator' AND datname = current_database()");
    assert_true(test_sql_bool(fx, "SELECT n = (SELECT count(*) FROM tenon.task) AND n + (SELECT"
                                  " count(*) FROM tenon.dead) = 3000 FROM tenon.audit"));
}

static void test_what_is_retried_runs(void **state)
{
    struct fixture *fx = *state;
    struct process *p = pool_worker(fx, "2", "4");
    rows_dead(fx, "a", 20, "x");
    SAYS(fx, "20 tasks retried", "retry", "--state", "dead", "--yes");
    await_done(fx, 20);
    int64_t id = enqueue(fx, "a", ", delay => '1 h'");
    char text[32];
    (void)snprintf(text, sizeof text, "%lld", (long long)id);
    SAYS(fx, "1 task made ready", "run-now", text);
    await_done(fx, 21);
    end_well(p);
    assert_each_ran_once(fx, 21);
}

/* --- pausing -------------------------------------------------------------------------------- */

/* A worker for the kinds a and b. */
static struct process *worker_of_two(struct fixture *fx)
{
    char a[256], b[256];
    struct process *p = TENON(fx, "worker", "--slots", "2", "--handler",
                              handler(a, "a=pool:%s", "pool"), "--handler",
                              handler(b, "b=pool:%s", "pool"));
    process_await_line(p, "event=worker_ready", LIMIT_MS);
    return p;
}

/* While one of kind a waits, those of kind b run, one after the other. */
static void assert_waits(struct fixture *fx, int64_t id)
{
    for (int i = 0; i < 3; i++) {
        await_state(fx, enqueue(fx, "b", ""), "done");
    }
    await_state(fx, id, "ready");
}

static void test_a_paused_kind(void **state)
{
    struct fixture *fx = *state;
    struct process *workers[2];
    workers[0] = worker_of_two(fx);
    SAYS(fx, "the kind a is paused", "pause", "--kind", "a", "--why", "it is broken");
    process_await_line(workers[0], "event=kinds_paused kinds=a", LIMIT_MS);
    int64_t id = enqueue(fx, "a", "");
    assert_waits(fx, id);
    workers[1] = worker_of_two(fx); /* hears of it before its first claim */
    assert_int_equal(process_lines(workers[1], "event=kinds_paused kinds=a"), 1);
    assert_waits(fx, id);
    SAYS(fx, "the kind a is paused", "status");
    SAYS(fx, ": it is broken", "status");
    char text[32];
    (void)snprintf(text, sizeof text, "%lld", (long long)id);
    SAYS(fx, "The kind a is paused by", "show", text);
    SAYS(fx, "tenon resume --kind a", "why", text);
    SAYS(fx, "paused by", "kind", "a");
    SAYS(fx, "\"paused_why\": \"it is broken\"", "kind", "--json");
    SAYS(fx, "the kind a is resumed", "resume", "--kind", "a");
    await_state(fx, id, "done");
    SAYS(fx, "the kind a was not paused", "resume", "--kind", "a");
    end_well(workers[0]);
    end_well(workers[1]);
}

static void test_everything_paused(void **state)
{
    struct fixture *fx = *state;
    struct process *p = worker_of_two(fx);
    SAYS(fx, "everything is paused", "pause", "--all");
    process_await_line(p, "event=kinds_paused kinds=*", LIMIT_MS);
    int64_t id = enqueue(fx, "a", ""), queued = enqueue(fx, "b", "");
    /* a worker that ends when nothing is ready does, and claims nothing before */
    char h[256];
    free(TENON_RUN(fx, 0, "worker", "--until-empty", "--handler", handler(h, "a=pool:%s", "pool")));
    await_state(fx, id, "ready");
    SAYS(fx, "the queue default is paused", "pause", "default");
    SAYS(fx, "everything is resumed", "resume", "--all");
    process_await_line(p, "event=kinds_paused kinds=\"\"", LIMIT_MS);
    await_state(fx, queued, "ready");
    SAYS(fx, "the queue default is resumed", "resume", "default");
    await_state(fx, id, "done");
    await_state(fx, queued, "done");
    FAILS(fx, 2, "give one of: a queue, --kind", "pause");
    FAILS(fx, 2, "give one of: a queue, --kind", "pause", "default", "--all");
    end_well(p);
}

/* --- how soon all hear of it ----------------------------------------------------------------- */

enum {
    WORKERS = 5,
    LOAD = 20000,
    LOAD_MS = 20,
    HEARD_MS = 1000,
    QUIET_MS = 1500, /* after a pause: whoever has not heard of it would start tasks */
    TRIES = 3,
};

/* The moment of the last act, by the clock that the journal has, too. */
static int64_t acted_ns(struct fixture *fx)
{
    return test_sql_int(fx, "SELECT (extract(epoch FROM max(at)) * 1000000000)::bigint FROM"
                            " tenon.audit");
}

/* By the journal, of how many workers (each has one child) a task started since; ret_last: of those
 * the last one's first, and ret_any: the last start of all, in milliseconds after that moment. */
static int starters(const struct fixture *fx, int64_t since_ns, int64_t *ret_last, int64_t *ret_any)
{
    int pids[WORKERS], n = 0;
    struct journal j;
    *ret_last = *ret_any = 0;
    journal_read(fx, &j);
    for (size_t i = 0; i < j.n; i++) {
        int k = 0;
        if (j.runs[i].start_ns <= since_ns) {
            continue;
        }
        *ret_any = (j.runs[i].start_ns - since_ns) / 1000000;
        while (k < n && pids[k] != j.runs[i].pid) {
            k++;
        }
        if (k == n) {
            assert_in_range(n, 0, WORKERS - 1);
            pids[n++] = j.runs[i].pid;
            *ret_last = *ret_any;
        }
    }
    journal_clear(&j);
    return n;
}

/* ret: how long after that moment each of them had started a task, in milliseconds */
static int64_t await_all_start(const struct fixture *fx, int64_t since_ns)
{
    int64_t last_ms, any_ms, deadline_ms = patience_end_ms(LIMIT_MS);
    while (starters(fx, since_ns, &last_ms, &any_ms) < WORKERS) {
        assert_true(now_ms() < deadline_ms);
        (void)poll(NULL, 0, 10);
    }
    return last_ms;
}

static void act(struct fixture *fx, const char *verb, const char *const scope[2])
{
    free(tenon_run(fx, 0, (const char *const[]){verb, scope[0], scope[1], NULL}));
}

/* While all of them start tasks; ret: how long after the pause, or its end, the last one heard of
 * it. */
static int64_t pause_and_resume(struct fixture *fx, const char *const scope[2])
{
    int64_t paused_ms, resumed_ms, first_ms;
    (void)await_all_start(fx, load_now_ns());
    act(fx, "pause", scope);
    (void)poll(NULL, 0, QUIET_MS);
    (void)starters(fx, acted_ns(fx), &first_ms, &paused_ms);
    act(fx, "resume", scope);
    resumed_ms = await_all_start(fx, acted_ns(fx));
    print_message(
        "%s %s: the last start %lld ms after the pause, all go on %lld ms after its end\n",
        scope[0], scope[1] ? scope[1] : "", (long long)paused_ms, (long long)resumed_ms);
    return paused_ms > resumed_ms ? paused_ms : resumed_ms;
}

static void test_all_workers_hear_of_it(void **state)
{
    static const char *const scopes[][2] = {{"default"}, {"--kind", "a"}, {"--all"}};
    struct fixture *fx = *state;
    struct process *workers[WORKERS];
    for (int i = 0; i < WORKERS; i++) {
        workers[i] = pool_worker(fx, "1", "1");
        process_await_line(workers[i], "event=worker_ready", LIMIT_MS);
    }
    test_sql(fx,
             "SELECT tenon.enqueue_many('a', array_fill('{\"do\": \"sleep\", \"ms\": %d}'::jsonb,"
             " ARRAY[%d]))",
             LOAD_MS, LOAD);
    for (size_t i = 0; i < sizeof scopes / sizeof *scopes; i++) {
        int64_t took_ms = HEARD_MS + 1;
        for (int k = 0; k < TRIES && took_ms > patience_loaded_ms(HEARD_MS);
             k++) { /* the machine may be busy */
            took_ms = pause_and_resume(fx, scopes[i]);
        }
        assert_in_range(took_ms, 0, patience_loaded_ms(HEARD_MS));
    }
    for (int i = 0; i < WORKERS; i++) {
        end_well(workers[i]);
    }
}

static void test_a_mistyped_queue(void **state)
{
    struct fixture *fx = *state;
    (void)enqueue(fx, "a", ", queue => 'mail'");
    FAILS(fx, 0, "no task, schedule or worker has the queue mial yet", "pause", "mial");
    SAYS(fx, "the queue mial is paused", "status");
    SAYS(fx, "the queue mial is resumed", "resume", "mial");
    char *out = TENON_RUN(fx, 0, "status");
    assert_null(strstr(out, "mial"));
    free(out);
    /* nothing to say of one that has a task, or is set up; which stays so */
    SAYS(fx, "the queue mail is paused", "pause", "mail");
    SAYS(fx, "set_up", "queue", "set_up", "--priority", "7");
    struct process *p = TENON(fx, "pause", "set_up");
    assert_int_equal(process_wait(p, LIMIT_MS), 0);
    assert_int_equal(process_lines(p, "has the queue"), 0);
    SAYS(fx, "the queue set_up is resumed", "resume", "set_up");
    assert_int_equal(test_sql_int(fx, "SELECT priority FROM tenon.queue WHERE name = 'set_up'"), 7);
}

/* A limit has a name like a queue's, or like its key, which no queue can have. */
static void test_pause_of_what_is_a_limit(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "SELECT tenon.set_limit('tenant', max_running => 1);"
                 "SELECT tenon.enqueue('a', limit_keys => '{tenant:9}')");
    struct process *p = TENON(fx, "pause", "tenant:9");
    assert_int_equal(process_wait(p, LIMIT_MS), 2);
    char *log = file_text(p->log);
    assert_contains(log, "the queue \"tenant:9\" is not allowed");
    assert_contains(log, "to pause a limit: tenon limit pause tenant:9\n");
    assert_null(strstr(log, "the name is wrong"));
    free(log);
    FAILS(fx, 0, "tenon resume tenant; to pause a limit: tenon limit pause tenant\n", "pause",
          "tenant");
    FAILS(fx, 2, "to pause a limit: tenon limit pause tenant:8\n", "pause", "tenant:8");
    FAILS(fx, 2, "the first not . or -\n", "pause", "a:9");
}

/* --- defaults and status -------------------------------------------------------------------- */

static void test_defaults(void **state)
{
    struct fixture *fx = *state;
    SAYS(fx, "no defaults are set", "queue", "mail");
    SAYS(fx, "mail", "queue", "mail", "--priority", "7", "--timeout", "2min");
    SAYS(fx, "00:02:00", "queue");
    json_t *o = parse(TENON_RUN(fx, 0, "queue", "mail", "--unset", "timeout", "--json"));
    const json_t *row = json_array_get(json_object_get(o, "queues"), 0);
    assert_int_equal(number(row, "priority"), 7);
    assert_true(json_is_null(json_object_get(row, "timeout_ms")));
    json_decref(o);
    o = parse(TENON_RUN(fx, 0, "kind", "m", "--queue", "mail", "--max-attempts", "3",
                        "--on-timeout", "dead", "--timeout-min", "1s", "--json"));
    row = json_array_get(json_object_get(o, "kinds"), 0);
    assert_string_equal(json_string_value(json_object_get(row, "queue")), "mail");
    assert_string_equal(json_string_value(json_object_get(row, "on_timeout")), "dead");
    assert_int_equal(number(row, "timeout_min_ms"), 1000);
    json_decref(o);
    FAILS(fx, 2, "the name is missing: tenon", "queue", "--priority", "7");
    FAILS(fx, 2, "there is no such default", "queue", "mail", "--unset", "colour");
}

/* Lines come each second, and count what happens. */
static void test_status_watch(void **state)
{
    struct fixture *fx = *state;
    (void)enqueue(fx, "a", "");
    test_flush_statistics(fx);
    struct process *p = TENON(fx, "status", "--watch", "--json");
    bool counted = false;
    while (!counted) {
        test_sql(fx, "SELECT tenon.enqueue('a')");
        test_flush_statistics(fx);
        assert_false(process_is_gone(p));
        char *out = file_text(p->out);
        const char *line = strstr(out, "\"arrived_per_s\": ");
        for (; line && !counted; line = strstr(line + 1, "\"arrived_per_s\": ")) {
            counted = strtod(line + strlen("\"arrived_per_s\": "), NULL) > 0;
        }
        free(out);
    }
    process_kill(p);
    char *out = file_text(p->out);
    assert_contains(out, "\"ended_per_s\": null, \"failed_per_s\": null, \"died_per_s\": null, "
                         "\"ready\": ");
    assert_contains(out, "\"oldest_ready_s\": ");
    assert_contains(out, "\"workers\": 0, \"slots\": 0}");
    free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_list),
        WITH_DATABASE(test_which_errors_there_are),
        WITH_DATABASE(test_acts_are_shown_first),
        WITH_DATABASE(test_acts_by_id),
        WITH_DATABASE(test_an_act_at_a_rate),
        WITH_DATABASE(test_a_list_goes_on),
        WITH_DATABASE(test_an_act_on_at_least_so_many),
        WITH_DATABASE(test_an_act_that_is_killed),
        WITH_SERVERS(test_what_is_retried_runs),
        WITH_SERVERS(test_a_paused_kind),
        WITH_DATABASE(test_everything_paused),
        WITH_SERVERS(test_all_workers_hear_of_it),
        WITH_DATABASE(test_a_mistyped_queue),
        WITH_DATABASE(test_pause_of_what_is_a_limit),
        WITH_DATABASE(test_defaults),
        WITH_DATABASE(test_status_watch),
    };
    return RUN_GROUP(tests);
}
