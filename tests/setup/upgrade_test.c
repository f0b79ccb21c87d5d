/* label: e2e */
/* timeout: 120 */
/* long: 600 */
/* only: all */
/* An upgrade under load: a database as the last release left it, programs of two versions, first
 * the old ones, then both, then the new ones. With TEST_LONG=1 the old ones are those of the last
 * tag, if there is one. Otherwise the new ones are tenon_next, whose schema has one migration
 * more. */
#include "tests/support/load.h"
#include "tests/support/release.h"
#include "tests/support/working.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    PER_S = 25,         /* transactions a second of each producer */
    PRODUCER_MS = 2500, /* the longest that one may take: setup holds its locks for less */
    ENDED_MS = 40000,   /* cleaners declare no worker dead before 15 s */
    SETUPS = 3,         /* under load, one after the other */
    SETUPS_LONG = 100,
    PROGRAM_BYTES = 512
};

struct versions {
    char old[PROGRAM_BYTES], next[PROGRAM_BYTES];
};

/* The program of the last tag, "" if there is none. */
static void find_tagged(char path[PROGRAM_BYTES])
{
    char command[PROGRAM_BYTES];
    (void)snprintf(command, sizeof command, "'%s/script/keep-release' --program", repository);
    FILE *out = popen(command, "r");
    *path = '\0';
    if (fgets(path, PROGRAM_BYTES, out)) {
        path[strcspn(path, "\n")] = '\0';
    }
    assert_int_equal(pclose(out), 0);
}

static void find_versions(struct versions *v)
{
    *v = (struct versions){.old = ""};
    if (load_is_long()) {
        find_tagged(v->old);
    }
    bool tagged = *v->old;
    (void)snprintf(v->next, sizeof v->next, "%s", tagged ? tenon_program : TENON_NEXT);
    if (!tagged) {
        (void)snprintf(v->old, sizeof v->old, "%s", tenon_program);
    }
    print_message("old: %s, new: %s\n", v->old, v->next);
}

/* Handlers for all that fill.sql leaves: each run writes the task's number to the file "ran", and
 * "stepped" answers with the steps that it got. */
static struct process *worker(struct fixture *fx, const char *program)
{
    static const char *const kinds[] = {"done", "flaky", "stuck", "waits", "idle", "stepped"};
    enum { KINDS = sizeof kinds / sizeof *kinds, FIXED = 8 };
    char pool[256], texts[KINDS][512];
    const char *argv[FIXED + 2 * KINDS + 1] = {
        program,     "worker",
        "--slots",   "4",
        "--queues",  "default,held,slow",
        "--handler", handler(pool, "a=pool:exec %s 1", "pool")};
    for (size_t i = 0; i < KINDS; i++) {
        (void)snprintf(texts[i], sizeof texts[i], "%s=echo $TENON_TASK_ID >>'%s/ran'%s", kinds[i],
                       fx->dir,
                       strcmp(kinds[i], "stepped") != 0
                           ? ""
                           : " && exec psql -qXAt \"$DATABASE_URL\" -c \"SELECT "
                             "tenon.steps('$TENON_TASK_CLAIM')\"");
        argv[FIXED + 2 * i] = "--handler";
        argv[FIXED + 2 * i + 1] = texts[i];
    }
    struct process *p = process_spawn(fx, argv, NULL);
    process_await_line(p, "event=worker_ready", LIMIT_MS);
    return p;
}

static struct process *cleaner(struct fixture *fx, const char *program)
{
    struct process *p = PROGRAM(fx, program, "cleaner");
    process_await_line(p, "event=cleaner_started", LIMIT_MS);
    return p;
}

/* Until so many more tasks were committed and as many have run: the load goes on. */
static void await_progress(struct fixture *fx, const struct load *load, int64_t n)
{
    test_await(fx, LIMIT_MS,
               "SELECT count(*) >= %lld, count(*) FROM tenon.history WHERE kind = 'a'",
               (long long)(test_sql_int(fx, "SELECT count(*) FROM tenon.history WHERE kind = 'a'") +
                           n));
    assert_int_equal(load->shared->failures, 0);
}

static void set_up(struct fixture *fx, const char *program, const char *says)
{
    program_says(PROGRAM(fx, program, "setup"), 0, says);
}

/* What waits for a person, or for a long time. */
static void release_tasks(struct fixture *fx)
{
    test_sql(fx, "SELECT tenon.resume(queue => 'held'), tenon.signal('go', '1'),"
                 " tenon.remove_limit('rare')");
    test_sql(fx, "SELECT tenon.run_now(id) FROM tenon.tasks WHERE state IN ('scheduled',"
                 " 'retrying')");
    test_sql(fx, "SELECT tenon.close(id) FROM tenon.flow WHERE name = 'open'");
}

/* What had ended stays as it was; all other tasks ran once more, and are done. */
static void check_kept(struct fixture *fx)
{
    test_await(fx, ENDED_MS,
               "SELECT count(*) = 0, string_agg(format('%%s %%s %%s', id, kind, state), ', ')"
               " FROM (SELECT id, kind, state FROM tenon.tasks WHERE end_time IS NULL AND kind <>"
               " 'a' UNION ALL SELECT id, 'flow', state FROM tenon.flows WHERE coalesce(done_task,"
               " end_task) IS NULL) u");
    char path[300];
    (void)snprintf(path, sizeof path, "%s/ran", fx->dir);
    char *ran = file_text(path);
    test_sql(fx,
             "CREATE TABLE public.ran AS SELECT id::bigint FROM unnest(string_to_array(trim("
             "'%s', E'\\n'), E'\\n')) id",
             ran);
    free(ran);
    char *wrong = test_sql_text(
        fx, "SELECT string_agg(format('%%s %%s was %%s and is %%s, ran %%s', id, t.kind, b.state,"
            " t.state, n), ', ') FROM public.before b LEFT JOIN tenon.tasks t USING (id), LATERAL"
            " (SELECT count(*) AS n FROM public.ran r WHERE r.id = b.id) r WHERE (t.state, n) IS"
            " DISTINCT FROM (CASE WHEN ended THEN b.state ELSE 'done' END, (NOT ended)::integer)");
    if (wrong) {
        fail_msg("tasks of the release: %s", wrong);
    }
    assert_true(test_sql_bool(fx, "SELECT result = '{\"first\": 1}' FROM tenon.history WHERE"
                                  " kind = 'stepped'"));
    /* the release's own; a cleaner declares nobody dead in the first 15 s of its session */
    test_await(fx, ENDED_MS, "SELECT count(*) = 1 FROM tenon.worker WHERE state = 'dead'");
}

static void check_load(struct fixture *fx, struct load *load)
{
    struct load_counts counts;
    load_stop(load);
    load_check(fx, LIMIT_MS, 0, &counts);
    assert_int_equal(load->shared->failures, 0);
    for (int i = 0; i < LOAD_PRODUCERS; i++) {
        print_message("the slowest transaction: %lld ms\n",
                      (long long)load->shared->slowest_us[i] / 1000);
        assert_in_range(load->shared->slowest_us[i], 0, patience_loaded_ms(PRODUCER_MS) * 1000);
    }
    print_message("%lld placed, lost 0, rolled back 0, doubled 0\n", (long long)counts.placed);
}

static void end_quietly(struct process *p)
{
    end_well(p);
    assert_int_equal(process_lines(p, "level=error"), 0);
}

static void test_under_load(void **state)
{
    struct fixture *fx = *state;
    struct versions v;
    struct load load;
    static char releases[RELEASES_MAX][RELEASE_PATH_BYTES];
    find_versions(&v);
    release_restore(fx, releases[releases_find(releases) - 1]);
    set_up(fx, v.old, "updated functions");
    test_sql(fx, "CREATE TABLE public.before AS SELECT id, state, end_time IS NOT NULL AS ended"
                 " FROM tenon.tasks");
    struct process *old[] = {worker(fx, v.old), worker(fx, v.old), cleaner(fx, v.old)};
    load_start(&load, fx, fx->amqp_url, PER_S);
    await_progress(fx, &load, PER_S);
    set_up(fx, v.next, "updated functions");
    for (int i = 1; i < (load_is_long() ? SETUPS_LONG : SETUPS); i++) {
        set_up(fx, v.next, "nothing to migrate");
    }
    await_progress(fx, &load, PER_S);
    /* a producer's program, and commands, of the old version */
    program_says(PROGRAM(fx, v.old, "enqueue", "done"), 0, "");
    program_says(PROGRAM(fx, v.old, "status"), 0, "");
    struct process *next[] = {worker(fx, v.next), cleaner(fx, v.next)};
    release_tasks(fx);
    await_progress(fx, &load, PER_S);
    for (size_t i = 0; i < sizeof old / sizeof *old; i++) {
        end_quietly(old[i]);
    }
    await_progress(fx, &load, PER_S);
    check_kept(fx);
    check_load(fx, &load);
    for (size_t i = 0; i < sizeof next / sizeof *next; i++) {
        end_quietly(next[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVERS(test_under_load),
    };
    return RUN_GROUP(tests);
}
