/* label: e2e */
/* A poll that fails, or takes too long, beside tasks that end: their outcomes do not wait. And what
 * locks the dead or the history stops only what needs them. */
#include "tests/support/working.h"

#include "core/base/now.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READY_MS = 15000, FAILS_MS = 20000, SOON_MS = 1000, RUNNING = 3 };

struct running {
    struct fixture *fx;
    struct process *worker;
    int64_t ids[RUNNING];
};

static void path_of(const struct running *r, int64_t id, char path[300])
{
    (void)snprintf(path, 300, "%s/task-%lld", r->fx->dir, (long long)id);
}

/* Its handler ends when end_task() says so. */
static int64_t enqueue(const struct running *r)
{
    char path[300];
    test_sql(r->fx, "BEGIN");
    int64_t id = test_sql_int(r->fx, "SELECT tenon.enqueue('a')");
    path_of(r, id, path);
    assert_int_equal(mkfifo(path, 0600), 0);
    test_sql(r->fx, "COMMIT");
    return id;
}

static void end_task(const struct running *r, int64_t id)
{
    char path[300];
    path_of(r, id, path);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    (void)close(fd);
}

static struct running start(struct fixture *fx)
{
    char command[300];
    struct running r = {.fx = fx};
    (void)snprintf(command, sizeof command, "a=cat %s/task-$TENON_TASK_ID", fx->dir);
    r.worker = TENON(fx, "worker", "--slots", "5", "--handler", command, "--handler",
                     "fails=false");
    process_await_line(r.worker, "event=worker_ready", READY_MS);
    for (int i = 0; i < RUNNING; i++) {
        r.ids[i] = enqueue(&r);
    }
    test_await(fx, READY_MS, "SELECT count(*) = %d FROM tenon.task WHERE start_time IS NOT NULL",
               RUNNING);
    return r;
}

/* While the poll is out of order, each end is in the history within `limit_ms`. */
static void tasks_end(const struct running *r, int64_t limit_ms)
{
    for (int i = 0; i < RUNNING; i++) {
        end_task(r, r->ids[i]);
        test_await(r->fx, limit_ms, "SELECT count(*) = 1 FROM tenon.history WHERE id = %lld",
                   (long long)r->ids[i]);
    }
    assert_int_equal(test_sql_int(r->fx, "SELECT count(*) FROM tenon.history"
                                         " WHERE outcome = 'done' AND failures = 0"),
                     RUNNING);
}

static void all_is_well_again(struct running *r)
{
    int64_t id = enqueue(r);
    end_task(r, id);
    await_done(r->fx, RUNNING + 1);
    process_await_line(r->worker, "event=round_works", READY_MS);
    end_well(r->worker);
}

/* A lock on a table that no outcome needs. */
static void test_a_poll_that_meets_a_lock(void **state)
{
    struct running r = start(*state);
    PGconn *other = sql_connect(r.fx->database_url);
    sql_run(other, "BEGIN; LOCK TABLE tenon.paused IN ACCESS EXCLUSIVE MODE");
    process_await_line(r.worker, "event=round_failed", FAILS_MS);
    tasks_end(&r, SOON_MS);
    sql_run(other, "COMMIT");
    all_is_well_again(&r);
    PQfinish(other);
}

static int64_t starts(const struct running *r)
{
    int64_t id = enqueue(r);
    test_await(r->fx, READY_MS,
               "SELECT count(*) = 1 FROM tenon.task WHERE id = %lld AND start_time IS NOT NULL",
               (long long)id);
    return id;
}

/* CREATE INDEX takes it. */
static PGconn *share_lock(const struct running *r, const char *table)
{
    PGconn *other = sql_connect(r->fx->database_url);
    sql_run(other, "BEGIN; LOCK TABLE %s IN SHARE MODE", table);
    return other;
}

/* A task that fails waits for the lock; others end, and start. */
static void test_a_lock_on_the_dead(void **state)
{
    struct running r = start(*state);
    PGconn *other = share_lock(&r, "tenon.dead");
    test_sql(r.fx, "SELECT tenon.enqueue('fails', max_attempts => 1)");
    process_await_line(r.worker, "event=round_failed", FAILS_MS);
    tasks_end(&r, SOON_MS);
    end_task(&r, starts(&r));
    await_done(r.fx, RUNNING + 1);
    sql_run(other, "COMMIT");
    PQfinish(other);
    test_await(r.fx, READY_MS, "SELECT count(*) = 1 FROM tenon.dead");
    process_await_line(r.worker, "event=round_works", READY_MS);
    end_well(r.worker);
}

/* A task that is done waits for it; others start. */
static void test_a_lock_on_the_history(void **state)
{
    struct running r = start(*state);
    PGconn *other = share_lock(&r, "tenon.history");
    end_task(&r, r.ids[0]);
    process_await_line(r.worker, "event=round_failed", FAILS_MS);
    int64_t more[] = {starts(&r), starts(&r)};
    end_task(&r, more[0]);
    more[0] = starts(&r);
    sql_run(other, "COMMIT");
    PQfinish(other);
    end_task(&r, more[0]);
    end_task(&r, more[1]);
    end_task(&r, r.ids[1]);
    end_task(&r, r.ids[2]);
    await_done(r.fx, RUNNING + 3);
    process_await_line(r.worker, "event=round_works", READY_MS);
    end_well(r.worker);
}

/* In the place of tenon.paused stands a view of the queue default, if this is true. */
static void break_poll(const struct running *r, const char *paused)
{
    test_sql(r->fx,
             "BEGIN; ALTER TABLE tenon.paused RENAME TO paused_kept;"
             "INSERT INTO tenon.paused_kept VALUES ('queue', 'default', 'somebody', now());"
             "CREATE VIEW tenon.paused AS SELECT * FROM tenon.paused_kept WHERE %s;"
             "GRANT SELECT ON tenon.paused TO PUBLIC; COMMIT",
             paused);
    process_await_line(r->worker, "event=round_failed", FAILS_MS);
}

static void mend_poll(const struct running *r)
{
    test_sql(r->fx, "BEGIN; DROP VIEW tenon.paused; DELETE FROM tenon.paused_kept;"
                    "ALTER TABLE tenon.paused_kept RENAME TO paused; COMMIT");
}

/* With an error of class 22, as of a bad value. */
static void test_a_poll_that_fails(void **state)
{
    struct running r = start(*state);
    break_poll(&r, "(1 / (length(name) - length(name)) = 1)");
    tasks_end(&r, SOON_MS);
    assert_int_equal(test_sql_int(r.fx, "SELECT count(*) FROM tenon.history WHERE result"
                                        " IS NOT NULL"),
                     0);
    mend_poll(&r);
    all_is_well_again(&r);
}

/* First it takes statement_timeout, then half a second, with each failure more, 5 s at most. */
static void test_a_poll_that_takes_too_long(void **state)
{
    struct running r = start(*state);
    break_poll(&r, "(pg_catalog.pg_sleep(20)::text = name)");
    tasks_end(&r, 2 * SOON_MS);
    mend_poll(&r);
    all_is_well_again(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVERS(test_a_poll_that_meets_a_lock),   WITH_SERVERS(test_a_poll_that_fails),
        WITH_SERVERS(test_a_poll_that_takes_too_long), WITH_SERVERS(test_a_lock_on_the_dead),
        WITH_SERVERS(test_a_lock_on_the_history),
    };
    return RUN_GROUP(tests);
}
