/* label: e2e */
/* timeout: 180 */
/* long: 300 */
/* No update is swallowed: whoever enqueues under a unique key gets a run that starts after his
 * commit, whatever holds the key and whoever dies. And what misses its start_before expires. */
#include "tests/support/working.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PRODUCERS = 50, KEYS = 5, EACH = 15, EACH_LONG = 100, KILL_EVERY_MS = 700, PACE_MS = 200 };
enum { EXPIRED = 20, SOON_MS = 500, TRIES = 3 };

/* A handler writes down what was committed when it started, and the ids in its payload. */
#define SEES                                                                                       \
    "a=psql -Xqv ON_ERROR_STOP=1 \"$APP_URL\" -v p=\"$(cat)\" <<'EOF'\n"                           \
    "INSERT INTO seen SELECT id FROM change WHERE key = (:'p'::jsonb ->> 'key')::integer;\n"       \
    "INSERT INTO given SELECT k::bigint FROM jsonb_object_keys(:'p') k WHERE k <> 'key';\n"        \
    "EOF"

static struct process *start_worker(struct fixture *fx)
{
    char app[600];
    (void)snprintf(app, sizeof app, "APP_URL=%s", fx->database_url);
    return tenon_spawn(fx, (const char *const[]){"worker", "--slots", "4", "--handler", SEES, NULL},
                       (const char *const[]){app, NULL});
}

/* Changes rows and enqueues, rolls back every seventh time. With odd keys payloads are merged. */
static void produce(const struct fixture *fx, int me, int n)
{
    PGconn *conn = sql_connect(fx->database_url);
    for (int i = 0; i < n; i++) {
        int key = (me + i) % KEYS;
        sql_run(conn, "BEGIN");
        int64_t id = sql_int(conn, "INSERT INTO change (key) VALUES (%d) RETURNING id", key);
        sql_run(conn,
                "SELECT tenon.enqueue('a', '{\"key\": %d, \"%lld\": 1}', unique_key => 'k%d',"
                " on_conflict => '%s')",
                key, (long long)id, key, key % 2 == 1 ? "merge" : "keep");
        sql_run(conn, i % 7 == 6 ? "ROLLBACK" : "COMMIT");
        (void)poll(NULL, 0, PACE_MS); /* a bounded load */
    }
    PQfinish(conn);
    _exit(0);
}

static void start_producers(const struct fixture *fx, int n, pid_t pids[PRODUCERS])
{
    for (int i = 0; i < PRODUCERS; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0) {
            produce(fx, i, n);
        }
    }
}

/* How many have not ended yet; who failed fails the test. */
static int still_producing(pid_t pids[PRODUCERS])
{
    int n = 0, status;
    for (int i = 0; i < PRODUCERS; i++) {
        if (pids[i] && waitpid(pids[i], &status, WNOHANG) == pids[i]) {
            assert_int_equal(status, 0);
            pids[i] = 0;
        }
        n += pids[i] != 0;
    }
    return n;
}

static void test_no_update_is_swallowed(void **state)
{
    struct fixture *fx = *state;
    int each = getenv("TEST_LONG") ? EACH_LONG : EACH;
    pid_t pids[PRODUCERS];
    test_sql(fx, "CREATE TABLE change (id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,"
                 " key integer); CREATE TABLE seen (id bigint); CREATE TABLE given (id bigint)");
    struct process *cleaner = TENON(fx, "cleaner");
    struct process *workers[2] = {start_worker(fx), start_worker(fx)};
    start_producers(fx, each, pids);
    for (int i = 0; still_producing(pids) > 0; i++) {
        (void)poll(NULL, 0, KILL_EVERY_MS);
        process_kill(workers[i % 2]);
        workers[i % 2] = start_worker(fx);
        test_sql(fx, "UPDATE tenon.task SET crashes = 0"); /* the third would be the last */
    }
    test_await(
        fx, 90000,
        "SELECT NOT EXISTS (SELECT FROM tenon.task) AND NOT EXISTS (SELECT FROM tenon.again),"
        " (SELECT count(*) FROM tenon.task), (SELECT count(*) FROM tenon.again),"
        " (SELECT string_agg(state || ' ' || run_at, ',') FROM tenon.tasks WHERE end_time IS"
        " NULL)");
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM change"),
                     PRODUCERS * (each - each / 7));
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.dead"), 0);
    assert_int_equal(
        test_sql_int(fx, "SELECT count(*) FROM change WHERE id NOT IN (SELECT id FROM seen)"), 0);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM change WHERE key %% 2 = 1 AND id NOT IN"
                                      " (SELECT id FROM given)"),
                     0);
    assert_int_equal(
        test_sql_int(fx, "SELECT count(*) FROM given WHERE id NOT IN (SELECT id FROM change)"), 0);
    /* and not a run for each: they join each other */
    assert_true(test_sql_bool(fx, "SELECT (SELECT count(*) FROM tenon.finished) <"
                                  " (SELECT count(*) FROM change)"));
    end_well(workers[0]);
    end_well(workers[1]);
    end_well(cleaner);
}

/* --- compensating tasks ---------------------------------------------------------------------- */

/* Where a worker is killed that has given tasks up: before the commit, and before and after it has
 * read the answer. */
static const char *const worker_points[] = {"round_planned:4", "hot_sent:4", "reply_received:5",
                                            "requeue_committed:2"};
static const char *const cleaner_points[] = {"worker_rest:1", "tasks_recovered:1"};
enum { WORKER_POINTS = 4, CLEANER_POINTS = 2, BY_CHANCE = 200, FOR_EACH = 20 };

/* Their handler says that they are dead; or else the next worker that is killed is their third. */
static void give_deaths(struct fixture *fx, int n)
{
    test_sql(fx,
             "SELECT tenon.enqueue('a', '{\"do\": \"dead\"}') FROM generate_series(1, %d);"
             "UPDATE tenon.task SET crashes = 2 WHERE kind = 'a'",
             n);
}

/* tenon, which kills itself at a point. */
static struct process *armed(struct fixture *fx, const char *point, const char *const *args)
{
    char text[64];
    (void)snprintf(text, sizeof text, "TENON_POINT=%s:kill", point);
    return tenon_spawn(fx, args, (const char *const[]){text, NULL});
}

static void await_strike(struct process *p)
{
    assert_int_equal(process_wait(p, LIMIT_MS), 128 + SIGKILL);
}

static void kill_workers_by_chance(struct fixture *fx)
{
    give_deaths(fx, BY_CHANCE);
    while (test_sql_int(fx, "SELECT count(*) FROM tenon.dead") < BY_CHANCE / 2) {
        struct process *worker = pool_worker(fx, "2", "1");
        (void)poll(NULL, 0, KILL_EVERY_MS / 4);
        process_kill(worker);
    }
}

/* Each holds claims then, which the cleaner takes from it. */
static void kill_workers_at_points(struct fixture *fx)
{
    char h[256];
    const char *const args[] = {
        "worker", "--slots", "2", "--handler", handler(h, "a=pool:exec %s 1", "pool"), NULL};
    for (int i = 0; i < WORKER_POINTS; i++) {
        give_deaths(fx, FOR_EACH);
        struct process *p = armed(fx, worker_points[i], args);
        await_strike(p);
        assert_true(test_sql_bool(fx,
                                  "SELECT count(*) > 0 FROM tenon.task t JOIN tenon.worker w ON"
                                  " w.id = t.worker_id WHERE w.pid = %d",
                                  (int)p->pid));
    }
}

/* A death and its compensation are one: whoever is killed, at whatever step. */
static void test_each_death_has_one_compensation(void **state)
{
    enum { DEATHS = BY_CHANCE + WORKER_POINTS * FOR_EACH };
    struct fixture *fx = *state;
    struct process *cleaners[CLEANER_POINTS], *heir = TENON(fx, "cleaner");
    test_sql(fx, "UPDATE tenon.setting SET on_dead = 'told'");
    process_await_line(heir, "event=cleaner_started", LIMIT_MS);
    process_signal(heir, SIGSTOP); /* it must not be faster; its session ages meanwhile */
    for (int i = 0; i < CLEANER_POINTS; i++) {
        cleaners[i] = armed(fx, cleaner_points[i], (const char *const[]){"cleaner", NULL});
    }
    kill_workers_by_chance(fx);
    kill_workers_at_points(fx);
    for (int i = 0; i < CLEANER_POINTS; i++) {
        await_strike(cleaners[i]);
    }
    assert_true(test_sql_bool(fx, "SELECT count(*) > 0 FROM tenon.dead WHERE reason = 'crashes'"));
    test_sql(fx, "UPDATE tenon.task SET crashes = 0"); /* the others by their handler after all */
    process_signal(heir, SIGCONT);
    struct process *worker = pool_worker(fx, "2", "1");
    test_await(fx, 60000, "SELECT count(*) = %d, count(*) FROM tenon.dead", DEATHS);
    assert_true(test_sql_bool(
        fx,
        "SELECT count(*) = %d AND count(DISTINCT t.compensates) = %d AND bool_and(d.id IS NOT"
        " NULL AND t.payload ->> 'kind' = 'a') FROM tenon.task t LEFT JOIN tenon.dead d ON d.id"
        " = t.compensates WHERE t.kind = 'told'",
        DEATHS, DEATHS));
    end_well(worker);
    end_well(heir);
}

/* --- the next run, and none ------------------------------------------------------------------ */

/* By itself, and soon: what was enqueued while a task ran follows it without a poll's second. */
static void test_the_next_run_follows(void **state)
{
    struct fixture *fx = *state;
    struct process *cleaner = TENON(fx, "cleaner");
    process_await_line(cleaner, "event=leader", LIMIT_MS);
    struct process *worker = pool_worker(fx, "1", "1");
    test_sql(fx,
             "SELECT tenon.enqueue('a', '{\"do\": \"sleep\", \"ms\": 1000}', unique_key => 'k')");
    journal_await_started(fx, 1, LIMIT_MS);
    test_sql(fx, "SELECT tenon.enqueue('a', '{}', unique_key => 'k')");
    await_done(fx, 2);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.again"), 0);
    end_well(worker);
    end_well(cleaner);
}

/* Tasks that nobody starts, to be expired at moments a second and more from now; ret: how late the
 * last of them was, in milliseconds. */
static int64_t expire_all(struct fixture *fx)
{
    int64_t last = test_sql_int(
        fx,
        "WITH x AS (SELECT clock_timestamp() + i * interval '100 ms' AS moment"
        " FROM generate_series(11, %d) i)"
        "SELECT max(tenon.enqueue('a', to_jsonb(moment), start_before => moment)) FROM x",
        EXPIRED + 10);
    test_await(fx, LIMIT_MS,
               "SELECT count(*) = %d FROM tenon.finished WHERE outcome = 'expired' AND id > %lld",
               EXPIRED, (long long)last - EXPIRED);
    assert_true(
        test_sql_bool(fx,
                      "SELECT bool_and(state = 'expired' AND start_time IS NULL AND last_error LIKE"
                      " 'not started before %%' AND end_time >= (payload #>> '{}')::timestamptz)"
                      " FROM tenon.tasks WHERE id > %lld",
                      (long long)last - EXPIRED));
    return test_sql_int(fx,
                        "SELECT (1000 * max(extract(epoch FROM finished_at - (payload #>>"
                        " '{}')::timestamptz)))::bigint FROM tenon.finished WHERE id > %lld",
                        (long long)last - EXPIRED);
}

/* Also when nobody works, and not before their moment. A second is promised; the cleaner, which looks
 * once a second, waits for the next of them. */
static void test_expired(void **state)
{
    struct fixture *fx = *state;
    struct process *cleaner = TENON(fx, "cleaner", "--amqp-url", "none");
    process_await_line(cleaner, "event=leader", LIMIT_MS);
    test_sql(fx, "SELECT tenon.enqueue('a', start_before => now() + interval '1 h')");
    int64_t late_ms = expire_all(fx);
    for (int i = 1; i < TRIES && late_ms >= SOON_MS; i++) { /* the machine may be busy just now */
        late_ms = expire_all(fx);
    }
    print_message("%d expired %lld ms after their moments, or sooner\n", EXPIRED,
                  (long long)late_ms);
    assert_in_range(late_ms, 0, SOON_MS - 1);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.task"), 1);
    end_well(cleaner);
}

/* Nobody cleans up: the view says expired, and no worker takes it. */
static void test_no_worker_starts_an_expired_one(void **state)
{
    struct fixture *fx = *state;
    test_sql(fx, "SELECT tenon.enqueue('a', '{}',"
                 " start_before => now() + interval '1 h'); UPDATE tenon.task SET start_before ="
                 " now(); SELECT tenon.enqueue('a', '{}', start_before => now() +"
                 " interval '1 h')");
    struct process *worker = pool_worker(fx, "1", "1");
    await_done(fx, 1);
    assert_true(test_sql_bool(fx, "SELECT count(*) = 1 AND bool_and(state = 'expired' AND claims ="
                                  " 0) FROM tenon.tasks WHERE end_time IS NULL"));
    end_well(worker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVERS(test_no_update_is_swallowed),
        WITH_SERVERS(test_each_death_has_one_compensation),
        WITH_SERVERS(test_the_next_run_follows),
        WITH_SERVERS(test_expired),
        WITH_SERVERS(test_no_worker_starts_an_expired_one),
    };
    return RUN_GROUP(tests);
}
