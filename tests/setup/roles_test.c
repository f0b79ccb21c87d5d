/* label: e2e */
/* Workers and cleaners that log in as roles with nothing but what `tenon setup` grants for them. */
#include "tests/support/partitions.h"
#include "tests/support/working.h"

#include <signal.h>
#include <stdio.h>

/* A role that may log in, and the variable that makes a program do so. */
struct login {
    char role[80];
    char env[700];
};

static void login_make(struct fixture *fx, struct login *l, const char *part)
{
    char option[40];
    (void)snprintf(l->role, sizeof l->role, "%s_%s", fx->database, part);
    (void)snprintf(l->env, sizeof l->env, "DATABASE_URL=postgresql://%s:word@%s", l->role,
                   strchr(fx->database_url, '@') + 1);
    (void)snprintf(option, sizeof option, "--grant-%s", part);
    test_sql(fx, "CREATE ROLE %s LOGIN PASSWORD 'word'", l->role);
    free(TENON_RUN(fx, 0, "setup", option, l->role));
}

static struct process *start(struct fixture *fx, const struct login *l, const char *const *args)
{
    return tenon_spawn(fx, args, (const char *const[]){l->env, NULL});
}

static struct process *start_worker(struct fixture *fx, const struct login *l)
{
    char text[256];
    const char *const args[] = {
        "worker", "--slots", "2", "--handler", handler(text, "a=pool:%s", "pool"), NULL};
    struct process *p = start(fx, l, args);
    process_await_line(p, "event=worker_ready", LIMIT_MS);
    return p;
}

static int64_t enqueue(struct fixture *fx, const char *arguments)
{
    return test_sql_int(fx, "SELECT tenon.enqueue('a', %s)", arguments);
}

static void await_state(struct fixture *fx, int64_t id, const char *state)
{
    test_await(fx, LIMIT_MS, "SELECT state = '%s', t.* FROM tenon.tasks t WHERE id = %lld", state,
               (long long)id);
}

/* Something to do for every chore of the cleaner. */
static void make_old(struct fixture *fx)
{
    partition_begun(fx, "history", "9 days");
    test_sql(fx, "DROP TABLE tenon.history_3");
    test_sql(fx, "INSERT INTO tenon.worker (host, pid, slots, queues, kinds, state, ended_at)"
                 " VALUES ('h', 1, 1, '{}', '{}', 'left', now() - interval '8 days');"
                 "SELECT tenon.set_schedule('s', every => '1 h', kind => 'a');"
                 "UPDATE tenon.schedule SET next_at = now(), due_at = now()");
    for (int i = 0; i < 2; i++) { /* an orphan, and one that is an hour over its time */
        test_sql(fx,
                 "UPDATE tenon.task SET claims = 1, claim_key = id, worker_id = gen_random_uuid(),"
                 " start_time = now() - interval '%d min' WHERE id = %lld",
                 i * 120, (long long)enqueue(fx, "'{}'"));
    }
}

static void no_complaint(struct process *const *all, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(process_lines(all[i], "permission denied"), 0);
        assert_int_equal(process_lines(all[i], "event=chore_failed"), 0);
        assert_int_equal(process_lines(all[i], "event=round_failed"), 0);
    }
}

static void test_worker_and_cleaner_own_nothing(void **state)
{
    struct fixture *fx = *state;
    struct login worker, cleaner;
    login_make(fx, &worker, "worker");
    login_make(fx, &cleaner, "cleaner");
    make_old(fx);
    struct process *all[3];
    all[0] = start(fx, &cleaner, (const char *const[]){"cleaner", NULL});
    process_await_line(all[0], "event=partition_dropped partition=history_1", LIMIT_MS);
    all[1] = start_worker(fx, &worker);
    int64_t first = enqueue(fx, "'{\"do\": \"first\", \"ms\": 600000}'");
    await_state(fx, first, "running");
    int64_t delayed = enqueue(fx, "'{}', delay => '300 ms'");
    int64_t gives_up = enqueue(fx, "'{\"do\": \"dead\"}'");
    int64_t fails = enqueue(fx, "'{\"do\": \"fail\"}', max_attempts => 1");
    await_state(fx, delayed, "done");
    await_state(fx, gives_up, "dead");
    await_state(fx, fails, "dead");
    await_done(fx, 4); /* with what make_old() left */
    process_kill(all[1]);
    all[2] = start_worker(fx, &worker);
    await_state(fx, first, "done");
    assert_true(
        test_sql_bool(fx, "SELECT crashes = 1 FROM tenon.tasks WHERE id = %lld", (long long)first));
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.worker WHERE host = 'h'"), 0);
    process_await_line(all[0], "event=partitions_made partitions=1", LIMIT_MS);
    end_well(all[2]);
    end_well(all[0]);
    no_complaint(all, 3);
    test_sql(fx, "DROP OWNED BY %s, %s; DROP ROLE %s, %s", worker.role, cleaner.role, worker.role,
             cleaner.role);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVERS(test_worker_and_cleaner_own_nothing),
    };
    return RUN_GROUP(tests);
}
