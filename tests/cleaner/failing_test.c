/* label: e2e */
/* What keeps failing is told: by doctor, why, status, /ready and the metrics. */
#include "tests/support/scrape.h"
#include "tests/support/working.h"

#include <stdio.h>
#include <stdlib.h>

#define FREE_PORT "--http", "127.0.0.1:0"

/* What a command prints has these words, or has them no more. */
static void says(struct fixture *fx, bool wanted, const char *words, const char *const *args)
{
    struct process *p = tenon_spawn(fx, args, NULL);
    (void)process_wait(p, LIMIT_MS); /* doctor's code says that something is wrong */
    char *out = file_text(p->out);
    if ((strstr(out, words) != NULL) != wanted) {
        fail_msg("tenon %s %s \"%s\": %s", args[0], wanted ? "does not say" : "says", words, out);
    }
    free(out);
}
#define SAYS(fx, wanted, words, ...)                                                               \
    says(fx, wanted, words, (const char *const[]){__VA_ARGS__, NULL})

static void test_a_chore(void **state)
{
    struct fixture *fx = *state;
    static const char metric[] = "tenon_chore_failing{chore=\"settle\"}";
    struct process *cleaner = TENON(fx, "cleaner", FREE_PORT);
    process_await_line(cleaner, "event=leader", LIMIT_MS);
    struct web w = scrape_at(cleaner);
    scrape_await_probe(&w, "/ready", 200, "it leads", LIMIT_MS);
    scrape_await(&w, metric, 0, LIMIT_MS);
    test_sql(fx, "ALTER FUNCTION tenon.settle_all RENAME TO settle_none;"
                 "SELECT tenon.set_limit('t', max_running => 1);"
                 "SELECT tenon.enqueue('a', limit_keys => '{t}')");
    test_await(fx, LIMIT_MS, "SELECT count(*) = 1 FROM tenon.failing WHERE name = 'settle'");
    scrape_await_probe(&w, "/ready", 503, "its chore settle keeps failing", LIMIT_MS);
    scrape_await(&w, metric, 1, LIMIT_MS);
    static const char words[] = "the chore settle of the cleaner on ";
    SAYS(fx, true, words, "status");
    SAYS(fx, true, words, "status", "--json");
    SAYS(fx, true, words, "doctor");
    SAYS(fx, true, "function tenon.settle_all(integer, integer, bigint) does not exist", "doctor");
    SAYS(fx, true, words, "why", "1");
    SAYS(fx, true, "0 taken", "why", "1"); /* the limit is not what is in the way */
    test_sql(fx, "ALTER FUNCTION tenon.settle_none RENAME TO settle_all");
    test_await(fx, LIMIT_MS, "SELECT count(*) = 0 FROM tenon.chore_failure");
    scrape_await_probe(&w, "/ready", 200, "it leads", LIMIT_MS);
    scrape_await(&w, metric, 0, LIMIT_MS);
    SAYS(fx, false, words, "doctor");
    SAYS(fx, false, words, "why", "1");
    end_well(cleaner);
}

/* A worker whose role may do all but what its rounds need. */
static void test_rounds(void **state)
{
    struct fixture *fx = *state;
    char role[100], env[700], text[256];
    (void)snprintf(role, sizeof role, "%s_w", fx->database);
    (void)snprintf(env, sizeof env, "DATABASE_URL=postgresql://%s:word@%s", role,
                   strchr(fx->database_url, '@') + 1);
    test_sql(fx, "CREATE ROLE %s LOGIN PASSWORD 'word'", role);
    free(TENON_RUN(fx, 0, "setup", "--grant-worker", role));
    const char *const args[] = {"worker", "--handler", handler(text, "a=pool:%s", "pool"),
                                FREE_PORT, NULL};
    struct process *worker = tenon_spawn(fx, args, (const char *const[]){env, NULL});
    process_await_line(worker, "event=worker_ready", LIMIT_MS);
    struct web w = scrape_at(worker);
    test_sql(fx, "REVOKE UPDATE (claims) ON tenon.task FROM %s; SELECT tenon.enqueue('a')", role);
    test_await(fx, LIMIT_MS, "SELECT count(*) = 1 FROM tenon.failing WHERE what = 'rounds'");
    scrape_await_probe(&w, "/ready", 503, "rounds with PostgreSQL fail", LIMIT_MS);
    static const char words[] = "permission denied for table task";
    SAYS(fx, true, words, "status");
    SAYS(fx, true, words, "doctor");
    SAYS(fx, true, words, "why", "1");
    test_sql(fx, "GRANT UPDATE (claims) ON tenon.task TO %s", role);
    await_done(fx, 1);
    test_await(fx, LIMIT_MS, "SELECT count(*) = 0 FROM tenon.failing");
    SAYS(fx, false, words, "doctor");
    end_well(worker);
    test_sql(fx, "DROP OWNED BY %s; DROP ROLE %s", role, role);
}

static void test_the_broker(void **state)
{
    struct fixture *fx = *state;
    static const char nowhere[] = "amqp://127.0.0.1:1/";
    char text[256];
    struct process *worker = TENON(fx, "worker", "--handler", handler(text, "a=pool:%s", "pool"),
                                   "--amqp-url", nowhere);
    struct process *cleaner = TENON(fx, "cleaner", "--amqp-url", nowhere);
    test_await(fx, LIMIT_MS, "SELECT count(*) = 2 FROM tenon.failing WHERE what = 'broker'");
    SAYS(fx, true, "has no RabbitMQ: ", "status");
    SAYS(fx, true, "has no RabbitMQ: ", "doctor");
    SAYS(fx, true, "has had no RabbitMQ since ", "doctor");
    end_well(worker);
    end_well(cleaner);
}

/* Debezium makes one by default. */
static void test_a_publication_for_all_tables(void **state)
{
    struct fixture *fx = *state;
    char text[256];
    test_sql(fx, "CREATE PUBLICATION everything FOR ALL TABLES;"
                 "SELECT tenon.set_limit('t', max_running => 1),"
                 " tenon.set_limit('api', max_starts => 100, per => '1 s');"
                 "SELECT tenon.enqueue('a', limit_keys => '{t,api}')"
                 " FROM generate_series(1, 5)");
    struct process *cleaner = TENON(fx, "cleaner");
    struct process *worker = TENON(fx, "worker", "--handler", handler(text, "a=pool:%s", "pool"));
    await_done(fx, 5);
    test_await(fx, LIMIT_MS, "SELECT count(*) = 5 FROM tenon.limit_start WHERE key = 'api'");
    test_sql(fx, "UPDATE tenon.limit_start SET at = at - interval '40 days';"
                 "SELECT tenon.purge(500), tenon.delete_where('{\"state\": \"done\"}')");
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.limit_start"), 0);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.history"), 0);
    assert_int_equal(process_lines(cleaner, "event=chore_failed"), 0);
    SAYS(fx, true, "the publication everything has tenon's tables", "doctor");
    end_well(worker);
    end_well(cleaner);
}

/* Every table, and each partition, can say which row was deleted. */
static void test_replica_identities(void **state)
{
    struct fixture *fx = *state;
    char *without = test_sql_text(
        fx, "SELECT string_agg(c.relname, ', ') FROM pg_class c WHERE c.relkind IN ('r', 'p') AND"
            " c.relnamespace = 'tenon'::regnamespace AND c.relreplident <> 'f' AND NOT EXISTS"
            " (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary)");
    assert_null(without);
}

/* Whatever else the task has. */
static void test_a_failure_is_logged_as_one(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "SELECT tenon.set_limit('t', max_running => 1);"
                 "SELECT tenon.enqueue('a', limit_keys => '{t}')");
    struct process *cleaner = TENON(fx, "cleaner");
    struct process *worker = TENON(fx, "worker", "--handler", "a=exit 3");
    process_await_line(worker, "event=task_failed task=1", LIMIT_MS);
    end_well(worker);
    end_well(cleaner);
}

/* A grandchild of a dead task: its parent is only blocked. */
static void test_the_root_is_named(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "SELECT tenon.flow('{\"name\": \"f\", \"tasks\": ["
                 "{\"name\": \"x\", \"kind\": \"a\"},"
                 "{\"name\": \"y\", \"kind\": \"b\", \"depends_on\": [\"x\"]},"
                 "{\"name\": \"z\", \"kind\": \"c\", \"depends_on\": [\"y\"]}]}')");
    struct process *cleaner = TENON(fx, "cleaner");
    struct process *worker = TENON(fx, "worker", "--handler", "a=exit 65");
    test_await(fx, LIMIT_MS, "SELECT state = 'dead', * FROM tenon.flow_task WHERE id = 1");
    SAYS(fx, true, "Before them, task 1 did not end well", "why", "3");
    end_well(worker);
    end_well(cleaner);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(test_a_chore),
        WITH_DATABASE(test_rounds),
        WITH_DATABASE(test_the_broker),
        WITH_DATABASE(test_a_publication_for_all_tables),
        WITH_DATABASE(test_replica_identities),
        WITH_DATABASE(test_a_failure_is_logged_as_one),
        WITH_DATABASE(test_the_root_is_named),
    };
    return RUN_GROUP(tests);
}
