/* label: e2e */
/* timeout: 240 */
/* long: 450 */
/* No update is swallowed: whoever enqueues under a unique key gets a run that starts after his
 * commit, whatever holds the key and whoever dies. And what misses its start_before expires. */
#include "core/base/now.h"
#include "tests/support/load.h"
#include "tests/support/servers.h"
#include "tests/support/working.h"

#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PRODUCERS = 50, KEYS = 5, BURSTS = 4, BURSTS_LONG = 20, EACH = 5 };
enum { PACE_MS = 200, KILL_EVERY_MS = 300, CRASH_EVERY = 6, RECONNECT_MS = 50 };
enum { EXPIRED = 20, SOON_MS = 500, TRIES = 3 };

/* --- no update is swallowed ------------------------------------------------------------------ */

/* A handler writes down what was committed when it started, and the ids in its payload; then it
 * works for a while, in which it misses what is committed. */
#define SEES                                                                                       \
    "a=psql -Xqv ON_ERROR_STOP=1 \"$APP_URL\" -v p=\"$(cat)\" <<'EOF' && sleep 0.2\n"              \
    "INSERT INTO seen SELECT id FROM change WHERE key = (:'p'::jsonb ->> 'key')::integer"          \
    " ON CONFLICT DO NOTHING;\n"                                                                   \
    "INSERT INTO given SELECT k::bigint FROM jsonb_object_keys(:'p') k WHERE k <> 'key';\n"        \
    "EOF"

/* What all producers have committed; and of how many commits they do not know, as the server went
 * away before its answer. */
static struct {
    atomic_int committed, unknown;
} * counts;

struct fleet {
    struct process *workers[2], *cleaners[2];
    int kills;
};

static struct process *start_worker(struct fixture *fx)
{
    char app[600];
    (void)snprintf(app, sizeof app, "APP_URL=%s", fx->database_url);
    return tenon_spawn(fx, (const char *const[]){"worker", "--slots", "4", "--handler", SEES, NULL},
                       (const char *const[]){app, NULL});
}

static bool execute(PGconn *conn, const char *text)
{
    PGresult *result = PQexec(conn, text);
    bool ok = PQresultStatus(result) == PGRES_COMMAND_OK ||
              PQresultStatus(result) == PGRES_TUPLES_OK;
    PQclear(result);
    return ok;
}

/* Change a row and enqueue. False: that failed. */
static bool transact(PGconn *conn, int key, bool commit)
{
    static const char *const on_conflict[KEYS] = {"keep", "merge", "keep", "merge", "replace"};
    char text[400];
    (void)snprintf(text, sizeof text,
                   "BEGIN; INSERT INTO change (key) VALUES (%d);"
                   "SELECT tenon.enqueue('a', jsonb_build_object('key', %d, lastval()::text, 1),"
                   " unique_key => 'k%d', on_conflict => '%s', retry => 'constant(1 s)')",
                   key, key, key, on_conflict[key]);
    if (!execute(conn, text)) {
        return false;
    }
    if (!commit) {
        return execute(conn, "ROLLBACK");
    }
    bool known = execute(conn, "COMMIT");
    (void)atomic_fetch_add(known ? &counts->committed : &counts->unknown, 1);
    return known;
}

/* Every seventh is rolled back. Only a server that goes away is an excuse. */
static void produce(const struct fixture *fx, int me)
{
    PGconn *conn = sql_connect(fx->database_url);
    for (int i = 0; i < EACH; i++) {
        if (!transact(conn, (me + i) % KEYS, (me + i) % 7 != 6) &&
            PQstatus(conn) == CONNECTION_OK) {
            (void)fprintf(stderr, "a producer: %s", PQerrorMessage(conn));
            _exit(1);
        }
        while (PQstatus(conn) != CONNECTION_OK) {
            (void)poll(NULL, 0, RECONNECT_MS);
            PQreset(conn);
        }
        (void)poll(NULL, 0, PACE_MS); /* a bounded load */
    }
    PQfinish(conn);
    _exit(0);
}

static void start_producers(const struct fixture *fx, pid_t pids[PRODUCERS])
{
    for (int i = 0; i < PRODUCERS; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0) {
            produce(fx, i);
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

/* Servers of its own that crash, with TEST_LONG. */
static int start_servers(void **state)
{
    if (load_is_long()) {
        server_open("postgres");
        server_use(1);
        server_open("rabbitmq");
        server_use(0);
    }
    return fixture_setup(state);
}

static void crash_servers(struct fixture *fx)
{
    server_crash(fx);
    server_use(1);
    server_do("kill");
    server_do("start");
    server_use(0);
}

/* A cleaner declares nobody dead in the first 15 s of its session; until then the tasks of killed
 * workers would hold their keys. */
static void await_patient_cleaner(struct fixture *fx)
{
    struct process *worker = start_worker(fx);
    process_await_line(worker, "event=worker_ready", LIMIT_MS);
    process_kill(worker);
    test_await(fx, LIMIT_MS, "SELECT count(*) = 1 FROM tenon.worker WHERE state = 'dead'");
}

/* Workers in turn; after them one of the two cleaners, who both settle. */
static void kill_next(struct fixture *fx, struct fleet *f)
{
    int i = f->kills++;
    process_kill(f->workers[i % 2]);
    f->workers[i % 2] = start_worker(fx);
    if (i % 3 == 2) {
        process_kill(f->cleaners[1]);
        f->cleaners[1] = TENON(fx, "cleaner");
    }
}

/* In the lull after it all that it has committed is seen. While others go on to enqueue under a key
 * their runs would see what was swallowed. So would a run that is done again: in every other burst
 * nobody is killed. */
static void burst(struct fixture *fx, struct fleet *f, int number)
{
    pid_t pids[PRODUCERS];
    start_producers(fx, pids);
    for (int i = 0; still_producing(pids) > 0; i++) {
        (void)poll(NULL, 0, KILL_EVERY_MS);
        if (load_is_long() && i == 0 && number % CRASH_EVERY == CRASH_EVERY / 2) {
            crash_servers(fx);
        } else if (number % 2 == 1) {
            kill_next(fx, f);
        }
    }
    test_await(
        fx, 90000,
        "SELECT count(*) = 0, string_agg(format('%%s of key %%s', id, key), ', ') FROM change"
        " WHERE id NOT IN (SELECT id FROM seen)");
}

static void assert_none(struct fixture *fx, const char *ids)
{
    int64_t n = test_sql_int(fx, "SELECT count(*) FROM (%s) t", ids);
    if (n > 0) {
        fail_msg("%lld: %s", (long long)n, ids);
    }
}

/* By the table that was changed, which says what was committed. */
static void judge(struct fixture *fx)
{
    int64_t changed = test_sql_int(fx, "SELECT count(*) FROM change");
    print_message("%lld committed, %d of them without an answer; %lld runs\n", (long long)changed,
                  (int)changed - counts->committed,
                  (long long)test_sql_int(fx, "SELECT count(*) FROM tenon.history"));
    assert_in_range(changed, counts->committed, counts->committed + counts->unknown);
    assert_true(load_is_long() || changed == counts->committed);
    assert_none(fx, "SELECT FROM tenon.dead");
    assert_none(fx, "SELECT id FROM change WHERE key IN (1, 3) EXCEPT SELECT id FROM given");
    assert_none(fx, "SELECT id FROM given EXCEPT SELECT id FROM change");
    /* and not a run for each: they join each other */
    assert_true(test_sql_bool(fx, "SELECT (SELECT count(*) FROM tenon.history) <"
                                  " (SELECT count(*) FROM change)"));
}

static void test_no_update_is_swallowed(void **state)
{
    struct fixture *fx = *state;
    int bursts = load_is_long() ? BURSTS_LONG : BURSTS;
    test_sql(fx, "CREATE TABLE change (id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,"
                 " key integer); CREATE TABLE seen (id bigint PRIMARY KEY);"
                 "CREATE TABLE given (id bigint);"
                 "SELECT tenon.set_kind('a', max_crashes => 100)");
    counts = mmap(NULL, sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true((void *)counts != MAP_FAILED);
    struct fleet f = {.cleaners = {TENON(fx, "cleaner"), TENON(fx, "cleaner")}};
    await_patient_cleaner(fx);
    f.workers[0] = start_worker(fx);
    f.workers[1] = start_worker(fx);
    for (int i = 0; i < bursts; i++) {
        burst(fx, &f, i);
    }
    test_await(
        fx, 90000,
        "SELECT NOT EXISTS (SELECT FROM tenon.task) AND NOT EXISTS (SELECT FROM tenon.again),"
        " (SELECT count(*) FROM tenon.task), (SELECT count(*) FROM tenon.again),"
        " (SELECT string_agg(state || ' ' || run_at, ',') FROM tenon.tasks WHERE end_time IS"
        " NULL)");
    judge(fx);
    for (int i = 0; i < 2; i++) {
        end_well(f.workers[i]);
        end_well(f.cleaners[i]);
    }
}

/* --- compensating tasks ---------------------------------------------------------------------- */

/* Where a worker is killed that has given tasks up: before the commit, and before and after it has
 * read the answer. */
static const char *const worker_points[] = {"round_planned:4", "hot_sent:4", "reply_received:5",
                                            "requeue_committed:2"};
static const char *const cleaner_points[] = {"worker_declared_dead:1", "tasks_recovered:1"};
enum {
    WORKER_POINTS = 4,
    CLEANER_POINTS = 2,
    BY_CHANCE = 200,
    FOR_EACH = 20,
    KILL_CHANCE_MS = 100 /* at most, after it has begun to work */
};

/* Their handler says that they are dead; or else the next worker that is killed is their third. */
static void give_deaths(struct fixture *fx, int n)
{
    test_sql(fx,
             "SELECT tenon.enqueue('a', '{\"do\": \"dead\"}') FROM generate_series(1, %d);"
             "UPDATE tenon.task SET crashes = 2 WHERE kind = 'a';"
             "INSERT INTO tenon.suspect SELECT id, 2, tenon.progress_mark(t), true, now(), 1"
             " FROM tenon.task t WHERE kind = 'a' ON CONFLICT DO NOTHING", /* alone, at once */
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

/* Each gives a task up, however slow the machine is, and is killed at any moment after that. */
static void kill_workers_by_chance(struct fixture *fx)
{
    static const char dead[] = "SELECT count(*) FROM tenon.dead";
    give_deaths(fx, BY_CHANCE);
    for (int64_t n; (n = test_sql_int(fx, dead)) < BY_CHANCE / 2;) {
        struct process *worker = pool_worker(fx, "2", "1");
        test_await(fx, LIMIT_MS, "SELECT count(*) > %lld FROM tenon.dead", (long long)n);
        (void)poll(NULL, 0, (int)now_jitter(KILL_CHANCE_MS));
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
    static const char *const args[] = {"cleaner", NULL};
    struct process *cleaners[CLEANER_POINTS], *heir;
    test_sql(fx, "UPDATE tenon.setting SET on_dead = 'told'");
    /* the first leads, and dies when it has declared somebody dead; the second recovers */
    cleaners[0] = armed(fx, cleaner_points[0], args);
    process_await_line(cleaners[0], "event=leader", LIMIT_MS);
    heir = TENON(fx, "cleaner");
    process_await_line(heir, "event=cleaner_started", LIMIT_MS);
    process_signal(heir, SIGSTOP); /* it must not be faster; its session ages meanwhile */
    cleaners[1] = armed(fx, cleaner_points[1], args);
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
               "SELECT count(*) = %d FROM tenon.history WHERE outcome = 'expired' AND id > %lld",
               EXPIRED, (long long)last - EXPIRED);
    assert_true(
        test_sql_bool(fx,
                      "SELECT bool_and(state = 'expired' AND start_time IS NULL AND last_error LIKE"
                      " 'not started before %%' AND end_time >= (payload #>> '{}')::timestamptz)"
                      " FROM tenon.tasks WHERE id > %lld",
                      (long long)last - EXPIRED));
    return test_sql_int(fx,
                        "SELECT (1000 * max(extract(epoch FROM finished_at - (payload #>>"
                        " '{}')::timestamptz)))::bigint FROM tenon.history WHERE id > %lld",
                        (long long)last - EXPIRED);
}

/* Also when nobody works, and not before their moment. A second is promised; the cleaner, though it
 * asks once a second, waits for the next of them. */
static void test_expired(void **state)
{
    struct fixture *fx = *state;
    struct process *cleaner = TENON(fx, "cleaner", "--amqp-url", "none");
    process_await_line(cleaner, "event=leader", LIMIT_MS);
    test_sql(fx, "SELECT tenon.enqueue('a', start_before => now() + interval '1 h')");
    int64_t late_ms = expire_all(fx);
    for (int i = 1; i < TRIES && late_ms >= patience_loaded_ms(SOON_MS);
         i++) { /* the machine may be busy just now */
        late_ms = expire_all(fx);
    }
    print_message("%d expired %lld ms after their moments, or sooner\n", EXPIRED,
                  (long long)late_ms);
    assert_in_range(late_ms, 0, patience_loaded_ms(SOON_MS) - 1);
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
        WITH_SERVERS(test_each_death_has_one_compensation),
        WITH_SERVERS(test_the_next_run_follows),
        WITH_SERVERS(test_expired),
        WITH_SERVERS(test_no_worker_starts_an_expired_one),
        /* the last: what follows would meet its servers */
        cmocka_unit_test_setup_teardown(test_no_update_is_swallowed, start_servers,
                                        server_fixture_teardown),
    };
    return RUN_GROUP(tests);
}
