/* label: e2e */
/* timeout: 120 */
/* What an idle system asks of PostgreSQL: a worker and two cleaners, after some work. */
#include "tests/support/fixture.h"
#include "tests/support/process.h"

#include "core/now.h"

#include <signal.h>

enum {
    LIMIT_MS = 30000,
    STOP_MS = 10000,
    TRANSACTIONS = 25,
    PER_S_MAX = 5, /* worker 1.2, leader 1.4, the other cleaner 1 */
    TAKES_MS = TRANSACTIONS * 1000 / PER_S_MAX,
    TRIES = 12, /* autovacuum counts too, when it comes by */
};

/* The leader sleeps: it holds the sleeper's lock. */
static const char asleep[] =
    "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND classid = 1952804463"
    " AND objid = 2 AND mode = 'ExclusiveLock' AND granted AND database ="
    " (SELECT oid FROM pg_database WHERE datname = current_database()))";

/* Asked from another database, so that the question does not count. */
static int64_t transactions(struct fixture *fx)
{
    return sql_int(fx->maintenance,
                   "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = '%s'",
                   fx->database);
}

/* So many more were reported. ret: how long it took */
static int64_t await_transactions(struct fixture *fx, int n)
{
    int64_t begin_ms = now_ms();
    sql_await(fx->maintenance, LIMIT_MS,
              "SELECT xact_commit + xact_rollback >= %lld, xact_commit, xact_rollback"
              " FROM pg_stat_database WHERE datname = '%s'",
              (long long)transactions(fx) + n, fx->database);
    return now_ms() - begin_ms;
}

static void test_an_idle_system_asks_little(void **state)
{
    struct fixture *fx = *state;
    struct process *worker = TENON(fx, "worker", "--handler", "mail=exec true");
    struct process *first = TENON(fx, "cleaner");
    process_await_line(first, "event=leader", LIMIT_MS);
    struct process *second = TENON(fx, "cleaner");
    process_await_line(second, "event=cleaner_started", LIMIT_MS);
    process_await_line(worker, "event=worker_ready", LIMIT_MS);
    test_sql(fx, "SELECT tenon.enqueue('mail') FROM generate_series(1, 20)");
    test_sql(fx, "SELECT tenon.enqueue('mail', delay => '1 hour')");
    test_await(fx, LIMIT_MS, "SELECT count(*) = 20, count(*) FROM tenon.finished");
    test_await(fx, LIMIT_MS, "%s", asleep);
    int64_t took_ms = 0;
    /* sessions report late what they did before, after ten seconds at most */
    for (int i = 0; i < TRIES && took_ms < TAKES_MS; i++) {
        took_ms = await_transactions(fx, TRANSACTIONS);
        print_message("%d transactions in %lld ms\n", TRANSACTIONS, (long long)took_ms);
    }
    assert_in_range(took_ms, TAKES_MS, LIMIT_MS);
    struct process *const all[] = {worker, first, second};
    for (size_t i = 0; i < 3; i++) {
        process_signal(all[i], SIGTERM);
        assert_int_equal(process_wait(all[i], STOP_MS), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVERS(test_an_idle_system_asks_little),
    };
    return RUN_GROUP(tests);
}
