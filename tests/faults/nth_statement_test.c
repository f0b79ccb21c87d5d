/* label: e2e */
/* timeout: 400 */
/* long: 600 */
/* only: all */
/* setup, cleaner and worker lose their connection at the Nth statement, for every N of a short run:
 * before it is sent, or after it was committed and before its answer. What ends says why, nothing
 * is lost, and the same command again brings all to its end. So for the Nth write to a pipe. */
#include "tests/support/load.h"
#include "tests/support/partitions.h"
#include "tests/support/working.h"

#include "core/db/schema.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

/* runs come unequally far: only several that need no more in a row are the end */
enum { RUNS_MAX = 200, UNSTRUCK_RUNS = 3, TASKS = 12 };

struct strike {
    struct fixture *fx;
    const char *counted; /* TEST_STATEMENT, TEST_WRITE */
    const char *how;     /* "TEST_LOST=before" */
    long n;
};

/* Run tenon with the strike; false: it ended before that came. */
static bool run_struck(const struct strike *s, const char *const *args, int *ret_status)
{
    char struck[320], path[300], nth[64], asan[300], preload[300];
    const char *options = getenv("ASAN_OPTIONS");
    (void)snprintf(path, sizeof path, "%s/struck", s->fx->dir);
    (void)snprintf(struck, sizeof struck, "TEST_STRUCK=%s", path);
    (void)snprintf(nth, sizeof nth, "%s=%ld", s->counted, s->n);
    (void)snprintf(asan, sizeof asan, "ASAN_OPTIONS=%s:verify_asan_link_order=0",
                   options ? options : "");
    preload_variable(s->fx, PRELOAD, preload, sizeof preload);
    const char *const env[] = {struck, nth, s->how, asan, preload, NULL};
    (void)unlink(path);
    struct process *p = tenon_spawn(s->fx, args, env);
    *ret_status = process_wait(p, LIMIT_MS);
    char *log = file_text(p->log);
    if (strstr(log, "Sanitizer") || strstr(log, "runtime error") || *ret_status > 100) {
        fail_msg("%s=%ld %s: status %d, %s", s->counted, s->n, s->how, *ret_status, log);
    }
    bool told = strstr(log, "_failed") || strstr(log, "level=error") ||
                strncmp(log, "tenon ", strlen("tenon ")) == 0;
    if (*ret_status != 0 && !told) {
        fail_msg("%s=%ld %s: status %d, and no reason: %s", s->counted, s->n, s->how, *ret_status,
                 log);
    }
    free(log);
    return access(path, F_OK) == 0;
}

/* Every N, with the two ways in turn, or both at night. */
static void each(struct fixture *fx, const char *counted, const char *const ways[2],
                 bool (*run)(const struct strike *s))
{
    for (int first = 0; first < (load_is_long() ? 2 : 1); first++) {
        struct strike s = {.fx = fx, .counted = counted};
        long struck = 0, unstruck = 0;
        for (s.n = 1; unstruck < UNSTRUCK_RUNS; s.n++) {
            assert_in_range(s.n, 1, RUNS_MAX);
            s.how = ways[(s.n + first) % 2];
            bool any = run(&s);
            struck += any;
            unstruck = any ? 0 : unstruck + 1;
        }
        print_message("%s failed in %ld runs\n", counted, struck);
        assert_true(struck > 1);
    }
}

static const char *const lost[2] = {"TEST_LOST=before", "TEST_LOST=answer"};

/* --- setup ----------------------------------------------------------------------------------- */

static bool run_setup(const struct strike *s)
{
    static const char *const args[] = {"setup", NULL};
    int status;
    test_sql(s->fx, "SET client_min_messages = warning; DROP SCHEMA IF EXISTS tenon CASCADE");
    bool struck = run_struck(s, args, &status);
    assert_true(status == 1 || (status == 0 && !struck));
    free(TENON_RUN(s->fx, 0, "setup"));
    assert_int_equal(test_sql_int(s->fx, "SELECT count(*) FROM tenon.migration"),
                     schema_migrations_n);
    test_sql(s->fx, "SELECT tenon.enqueue('a')");
    return struck;
}

static void test_setup(void **state)
{
    each(*state, "TEST_STATEMENT", lost, run_setup);
}

/* --- cleaner --------------------------------------------------------------------------------- */

/* Of these die the third, by its third crash, which it has alone, and the late one, by its
 * only deadline, which its worker has missed. */
static void make_work(struct fixture *fx)
{
    partition_begun(fx, "history", "9 days");
    test_sql(fx, "UPDATE tenon.setting SET on_dead = 'told';"
                 "TRUNCATE tenon.task, tenon.suspect, tenon.worker, tenon.dead, tenon.schedule;"
                 "INSERT INTO tenon.worker (id, host, pid, slots, queues, kinds, state, ended_at)"
                 " VALUES ('11111111-1111-1111-1111-111111111111', 'h', 1, 1, '{default}', '{a}',"
                 " 'dead', now()),"
                 " ('22222222-2222-2222-2222-222222222222', 'h', 2, 1, '{default}', '{a}',"
                 " 'alive', NULL);"
                 "SELECT pg_advisory_unlock_all();"
                 "SELECT pg_advisory_lock(lock_key) FROM tenon.worker WHERE state = 'alive';"
                 "SELECT tenon.enqueue(k, max_attempts => 1)"
                 " FROM unnest('{orphan,orphan,orphan,third,late,ready}'::text[]) k;"
                 "SELECT tenon.enqueue('due', delay => '1 ms') FROM generate_series(1, 2);"
                 "UPDATE tenon.task SET claims = 1,"
                 " start_time = now() - CASE kind WHEN 'late' THEN interval '1 day' ELSE '0' END,"
                 " crashes = CASE kind WHEN 'third' THEN 2 ELSE 0 END,"
                 " claim_key = id, worker_id = CASE kind WHEN 'late' THEN"
                 " '22222222-2222-2222-2222-222222222222'::uuid ELSE"
                 " '11111111-1111-1111-1111-111111111111' END"
                 " WHERE kind IN ('orphan', 'third', 'late');"
                 "INSERT INTO tenon.suspect SELECT id, 2, tenon.progress_mark(t), true, now(), 1"
                 " FROM tenon.task t WHERE kind = 'third';"
                 "SELECT tenon.set_schedule('s', every => '1 h', kind => 'tick');"
                 "UPDATE tenon.schedule SET next_at = now(), due_at = now()");
}

static bool run_cleaner(const struct strike *s)
{
    static const char *const args[] = {"cleaner", "--once", NULL};
    int status;
    make_work(s->fx);
    bool struck = run_struck(s, args, &status);
    assert_in_range(status, 0, 1);
    free(TENON_RUN(s->fx, 0, "cleaner", "--once"));
    char *got = test_sql_text(
        s->fx, "SELECT string_agg(format('%%s %%s %%s %%s', kind, state, claims, crashes), ', '"
               " ORDER BY kind) FROM tenon.tasks WHERE state <> 'done'");
    assert_string_equal(got, "due ready 0 0, due ready 0 0, late dead 1 0, orphan ready 1 1,"
                             " orphan ready 1 1, orphan ready 1 1, ready ready 0 0, third dead 1 3,"
                             " tick ready 0 0, told ready 0 0, told ready 0 0");
    free(got);
    assert_int_equal(test_sql_int(s->fx, "SELECT count(DISTINCT d.kind) FROM tenon.task t JOIN"
                                         " tenon.dead d ON d.id = t.compensates"),
                     2);
    assert_true(test_sql_bool(s->fx, "SELECT tenon.drop_history() IS NULL"));
    return struck;
}

static void test_cleaner(void **state)
{
    each(*state, "TEST_STATEMENT", lost, run_cleaner);
}

/* --- worker ---------------------------------------------------------------------------------- */

static void run_worker(const struct strike *s, bool *ret_struck)
{
    char h[256];
    int status;
    const char *const args[] = {"worker",      "--until-empty",
                                "--slots",     "2",
                                "--handler",   handler(h, "a=pool:exec %s 4", "pool"),
                                "--log-level", "debug",
                                NULL};
    (void)unlink(s->fx->journal);
    test_sql(s->fx, "TRUNCATE tenon.task, tenon.history, tenon.dead");
    test_sql(s->fx, "SELECT tenon.enqueue('a') FROM generate_series(1, %d)", TASKS);
    *ret_struck = run_struck(s, args, &status);
    assert_int_equal(status, 0);
    assert_int_equal(test_sql_int(s->fx, "SELECT count(DISTINCT id) FROM tenon.tasks"), TASKS);
    assert_int_equal(test_sql_int(s->fx, "SELECT count(*) FROM tenon.tasks"), TASKS);
}

static bool run_worker_statement(const struct strike *s)
{
    bool struck;
    run_worker(s, &struck);
    assert_int_equal(test_sql_int(s->fx, "SELECT count(*) FROM tenon.tasks WHERE state = 'done'"),
                     TASKS);
    assert_each_ran_once(s->fx, TASKS);
    return struck;
}

static void test_worker(void **state)
{
    each(*state, "TEST_STATEMENT", lost, run_worker_statement);
}

/* --- pipes ----------------------------------------------------------------------------------- */

/* A child that cannot be written to is ended, and its task is tried again later. */
static bool run_worker_write(const struct strike *s)
{
    bool struck;
    run_worker(s, &struck);
    int64_t done = test_sql_int(s->fx, "SELECT count(*) FROM tenon.tasks WHERE state = 'done'");
    int64_t waits = test_sql_int(s->fx,
                                 "SELECT count(*) FROM tenon.tasks WHERE state = 'retrying'");
    assert_int_equal(done + waits, TASKS);
    assert_in_range(waits, 0, strstr(s->how, "=11") ? 0 : 1);
    return struck;
}

static void test_writes_to_children(void **state)
{
    static const char *const errors[2] = {"TEST_ERRNO=11", "TEST_ERRNO=32"};
    _Static_assert(EAGAIN == 11 && EPIPE == 32, "Linux");
    each(*state, "TEST_WRITE", errors, run_worker_write);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_setup),
        WITH_DATABASE(test_cleaner),
        WITH_DATABASE(test_worker),
        WITH_DATABASE(test_writes_to_children),
    };
    return RUN_GROUP(tests);
}
