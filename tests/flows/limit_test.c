/* label: e2e */
/* timeout: 240 */
/* long: 4500 */
/* Limits by the journal of the handlers, while workers and cleaners are killed and PostgreSQL
 * crashes: never more at once than allowed, never more starts in any time than the rate (by all
 * claims, too), in order, and whose turn it is. With TEST_LONG these are a million starts, and
 * RabbitMQ is killed too. */
#include "tests/support/load.h"
#include "tests/support/servers.h"
#include "tests/support/working.h"

#include <poll.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    WORKERS = 3,
    ROUNDS = 18, /* at least; with TEST_LONG until the last task has ended */
    KILL_EVERY_MS = 400,
    KILL_EVERY_LONG_MS = 2000,
    SHARED = 3, /* `running` of the keys c:0 to c:4 */
    WIDE = 6,   /* of the key that they have together */
    WIDE_LONG = 12,
    KEYS = 5,
    AT_ONCE = 10000, /* tasks of one statement */
    EACH = 120,      /* of a key */
    EACH_LONG = 160000,
    ORDERED = 30, /* of one in order */
    ORDERED_LONG = 10000,
    TASK_MS = 60,
    TASK_LONG_MS = 1,
    RATE = 20, /* starts within RATE_MS */
    RATE_LONG = 1000,
    RATE_MS = 1000,
    LATE_PARTS = 4,    /* a handler is late when a part of RATE_MS has gone by since the claim */
    CHILDREN_MS = 100, /* in which those of a killed worker are gone */
    STRIKES_MAX = 20000,
    TAKERS = 6,
    TAKES = 40,
    KEY_BYTES = 16,
};

/* What a task does, for or after so many milliseconds, and which key to look for in the journal. */
static void give_to(struct fixture *fx, const char *key, const char *keys, int n, const char *what,
                    int ms)
{
    for (int left = n; left > 0; left -= AT_ONCE) {
        test_sql(fx,
                 "INSERT INTO keyed SELECT unnest(tenon.enqueue_many('a', array_fill("
                 "'{\"do\": \"%s\", \"ms\": %d, \"delay_ms\": %d}'::jsonb, ARRAY[%d]),"
                 " limit_keys => '%s', retry => 'constant(1 s)')), '%s'",
                 what, ms, ms, left < AT_ONCE ? left : AT_ONCE, keys, key);
    }
}

static void give(struct fixture *fx, const char *key, const char *keys, int n, int ms)
{
    give_to(fx, key, keys, n, "sleep", ms);
}

static void make_keyed(struct fixture *fx)
{
    test_sql(fx, "CREATE TABLE keyed (id bigint PRIMARY KEY, key text)");
}

/* Each claim of the key "r", whatever became of it: one that is released, or answered `snooze`,
 * leaves no other trace. */
static void record_claims(struct fixture *fx)
{
    test_sql(fx, "CREATE TABLE claim (id bigint, claims integer, us bigint);"
                 "CREATE FUNCTION claimed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                 " INSERT INTO public.claim VALUES (NEW.id, NEW.claims,"
                 "  extract(epoch FROM NEW.start_time) * 1000000); RETURN NULL; END $$;"
                 "CREATE TRIGGER claimed AFTER UPDATE ON tenon.task FOR EACH ROW WHEN"
                 " (OLD.start_time IS NULL AND NEW.start_time IS NOT NULL AND NEW.limit_keys ="
                 " '{r}') EXECUTE FUNCTION public.claimed()");
}

/* A moment before and one after each round's strikes. */
static struct {
    size_t n;
    int64_t ns[2 * STRIKES_MAX];
} struck;

static void note_strike(int64_t later_ms)
{
    assert_in_range(struck.n, 0, 2 * STRIKES_MAX - 1);
    struck.ns[struck.n++] = load_now_ns() + later_ms * 1000000;
}

/* A run without an end surely went on until the first strike after its start, which killed it or
 * another; one that began while they struck counts at its start. */
static int64_t surely_until(const struct journal_run *run)
{
    size_t i = 0;
    if (run->end_ns > 0) {
        return run->end_ns;
    }
    while (i < struck.n && struck.ns[i] <= run->start_ns) {
        i++;
    }
    return i < struck.n && i % 2 == 0 ? struck.ns[i] : run->start_ns + 1;
}

struct moment {
    int64_t ns;
    int step; /* 1 or -1 */
};

/* Of one moment the end comes first. */
static int compare(const void *a, const void *b)
{
    const struct moment *x = a, *y = b;
    return x->ns != y->ns ? (x->ns > y->ns) - (x->ns < y->ns) : x->step - y->step;
}

/* Which tasks have this key. */
static bool *ids_of(struct fixture *fx, const char *key, size_t n)
{
    bool *has = calloc(n + 1, sizeof *has);
    assert_non_null(has);
    PGresult *r = PQexec(fx->conn, "SELECT id, key FROM keyed");
    for (int i = 0; i < PQntuples(r); i++) {
        has[strtoll(PQgetvalue(r, i, 0), NULL, 10)] = strcmp(PQgetvalue(r, i, 1), key) == 0;
    }
    PQclear(r);
    return has;
}

/* The most runs of tasks with this key that went on at one moment. */
static int most_at_once(struct fixture *fx, const struct journal *j, const char *key, size_t n_ids)
{
    struct moment *m = calloc(2 * j->n + 1, sizeof *m);
    bool *has = ids_of(fx, key, n_ids);
    size_t n = 0;
    int now = 0, most = 0;
    assert_non_null(m);
    for (size_t i = 0; i < j->n; i++) {
        const struct journal_run *run = &j->runs[i];
        if (has[run->id]) {
            m[n++] = (struct moment){run->start_ns, 1};
            m[n++] = (struct moment){surely_until(run), -1};
        }
    }
    qsort(m, n, sizeof *m, compare);
    for (size_t i = 0; i < n; i++) {
        now += m[i].step;
        most = now > most ? now : most;
    }
    free(has);
    free(m);
    return most;
}

/* No run of a task before one of a lower id. */
static void assert_in_order(struct fixture *fx, const struct journal *j, const char *key,
                            size_t n_ids)
{
    bool *has = ids_of(fx, key, n_ids);
    int64_t last = 0;
    for (size_t i = 0; i < j->n; i++) {
        if (has[j->runs[i].id]) {
            if (j->runs[i].id < last) {
                fail_msg("task %lld of %s ran after %lld", (long long)j->runs[i].id, key,
                         (long long)last);
            }
            last = j->runs[i].id;
        }
    }
    free(has);
}

static void assert_most_within(struct fixture *fx, const char *starts, int rate, int64_t us)
{
    int64_t most = test_sql_int(fx,
                                "SELECT max(n) FROM (SELECT count(*) OVER (ORDER BY us RANGE"
                                " BETWEEN %lld PRECEDING AND CURRENT ROW) AS n FROM %s) w",
                                (long long)us - 1, starts);
    print_message("at most %lld of %d in %lld us by %s\n", (long long)most, rate, (long long)us,
                  starts);
    assert_in_range(most, 1, rate);
}

/* By the claims, which are the moments that count, and by the journal: handlers that start within a
 * part of RATE_MS after their claims cannot be more than the rate in what is left of it. */
static void assert_rate(struct fixture *fx, const struct journal *j, int rate)
{
    enum { LATE_US = RATE_MS * 1000 / LATE_PARTS };
    assert_most_within(fx, "claim", rate, RATE_MS * 1000);
    journal_store(fx, j);
    test_sql(
        fx,
        "CREATE TABLE lag AS SELECT r.start_us AS us, r.start_us - c.us AS lag FROM run r JOIN"
        " keyed k ON k.id = r.id AND k.key = 'r' LEFT JOIN claim c ON c.id = r.id AND c.claims ="
        " r.claims AND c.us <= r.start_us");
    char *lags = test_sql_text(fx,
                               "SELECT format('%%s runs, %%s ms after their claims at most, %%s"
                               " of them late', count(*), max(lag) / 1000, count(*) FILTER ("
                               "WHERE lag > %d)) FROM lag",
                               LATE_US);
    print_message("%s\n", lags);
    free(lags);
    assert_true(test_sql_bool(fx,
                              "SELECT count(*) = count(lag) AND count(*) FILTER (WHERE lag >"
                              " %d) <= count(*) / 4 FROM lag",
                              LATE_US));
    test_sql(fx, "CREATE VIEW journal AS SELECT us FROM lag WHERE lag <= %d", LATE_US);
    assert_most_within(fx, "journal", rate, RATE_MS * 1000 - LATE_US);
}

static int start_servers(void **state)
{
    if (!load_is_long()) {
        return server_fixture_setup(state, "limit");
    }
    server_open("postgres");
    server_use(1);
    server_open("rabbitmq");
    server_use(0);
    return fixture_setup(state);
}

static void crash_servers(struct fixture *fx, bool rabbitmq)
{
    server_crash(fx);
    if (rabbitmq) {
        server_use(1);
        server_do("kill");
        server_do("start");
        server_use(0);
    }
}

/* Each round kills one: a worker; a cleaner, the second of them seldom, so that one leads for long
 * enough to declare workers dead; now and then the servers. */
static void work_together(struct fixture *fx, struct process *workers[WORKERS],
                          struct process *cleaners[2])
{
    bool is_long = load_is_long();
    int crash_every = is_long ? 8 * ROUNDS : ROUNDS, second_every = is_long ? 3 * ROUNDS : ROUNDS;
    for (int i = 0;
         i < ROUNDS || (is_long && test_sql_bool(fx, "SELECT EXISTS (TABLE tenon.task)")); i++) {
        (void)poll(NULL, 0, is_long ? KILL_EVERY_LONG_MS : KILL_EVERY_MS);
        note_strike(0);
        process_kill(workers[i % WORKERS]);
        workers[i % WORKERS] = pool_worker(fx, is_long ? "8" : "4", "1");
        bool second = i % second_every == 12;
        if (i % 6 == 2 || second) {
            process_kill(cleaners[second]);
            cleaners[second] = TENON(fx, "cleaner");
        }
        if (i % crash_every == 6) {
            crash_servers(fx, is_long);
        }
        note_strike(CHILDREN_MS);
    }
}

/* ret: how many of those with two keys ran at once */
static int assert_numbers(struct fixture *fx, const struct journal *j, size_t n, int most_wide)
{
    char key[KEY_BYTES];
    for (int i = 0; i < KEYS; i++) {
        (void)snprintf(key, sizeof key, "c:%d", i);
        int most = most_at_once(fx, j, key, n);
        if (most > SHARED) {
            fail_msg("%d of %s at once", most, key);
        }
        (void)snprintf(key, sizeof key, "o:%d", i);
        assert_int_equal(most_at_once(fx, j, key, n), 1);
        assert_in_order(fx, j, key, n);
    }
    test_sql(fx, "UPDATE keyed SET key = 'wide' WHERE key LIKE 'c:%%'");
    int wide = most_at_once(fx, j, "wide", n);
    if (wide > most_wide || wide < 2) {
        fail_msg("%d of wide at once", wide);
    }
    return wide;
}

static void test_never_more(void **state)
{
    struct fixture *fx = *state;
    bool is_long = load_is_long();
    int each = is_long ? EACH_LONG : EACH, ordered = is_long ? ORDERED_LONG : ORDERED;
    int task_ms = is_long ? TASK_LONG_MS : TASK_MS, rate = is_long ? RATE_LONG : RATE;
    int most_wide = is_long ? WIDE_LONG : WIDE;
    char key[KEY_BYTES], keys[2 * KEY_BYTES];
    make_keyed(fx);
    record_claims(fx);
    test_sql(fx,
             "SELECT tenon.set_kind('a', max_crashes => 100);"
             "SELECT tenon.set_limit('c', max_running => %d); SELECT tenon.set_limit('o', strict =>"
             " true);"
             "SELECT tenon.set_limit('r', max_starts => %d, per => '%d ms');"
             "SELECT tenon.set_limit('wide', max_running => %d)",
             SHARED, rate, RATE_MS, most_wide);
    struct process *cleaners[2] = {TENON(fx, "cleaner"), TENON(fx, "cleaner")};
    struct process *workers[WORKERS];
    for (int i = 0; i < KEYS; i++) {
        (void)snprintf(key, sizeof key, "c:%d", i);
        (void)snprintf(keys, sizeof keys, "{%s,wide}", key);
        give(fx, key, keys, each, task_ms);
        (void)snprintf(key, sizeof key, "o:%d", i);
        (void)snprintf(keys, sizeof keys, "{%s}", key);
        give(fx, key, keys, ordered, task_ms);
    }
    give_to(fx, "r", "{r}", each - each / 6, "sleep", 5);
    give_to(fx, "r", "{r}", each / 6, "once later", 5); /* each is two starts */
    for (int i = 0; i < WORKERS; i++) {
        workers[i] = pool_worker(fx, "4", "1");
    }
    work_together(fx, workers, cleaners);
    test_await(
        fx, 120000,
        "SELECT NOT EXISTS (SELECT FROM tenon.task), (SELECT string_agg(format('%%s %%s %%s',"
        " key, ready, waiting), ', ') FROM tenon.limits)");
    test_await(fx, LIMIT_MS,
               "SELECT NOT EXISTS (SELECT FROM tenon.limit_task)"); /* nothing leaks */
    struct journal j;
    size_t n = (size_t)test_sql_int(fx, "SELECT max(id) FROM keyed");
    journal_read(fx, &j);
    assert_int_equal(journal_tasks(&j), n);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.dead"), 0);
    int wide = assert_numbers(fx, &j, n, most_wide);
    assert_rate(fx, &j, rate);
    print_message("%zu runs of %zu tasks, %d at once of those with two keys\n", j.n, n, wide);
    journal_clear(&j);
    for (int i = 0; i < WORKERS; i++) {
        end_well(workers[i]);
    }
    end_well(cleaners[0]);
    end_well(cleaners[1]);
}

/* What was let go while no worker lived starts all at once when one comes: it is no more than the
 * rate, and counts until it has started. */
static void test_a_rate_without_workers(void **state)
{
    struct fixture *fx = *state;
    make_keyed(fx);
    record_claims(fx);
    test_sql(fx, "SELECT tenon.set_limit('r', max_starts => 5, per => '500 ms')");
    struct process *cleaner = TENON(fx, "cleaner");
    process_await_line(cleaner, "event=leader", LIMIT_MS);
    give(fx, "r", "{r}", 23, 0);
    test_await(fx, LIMIT_MS, "SELECT ready = 5, ready FROM tenon.limits WHERE key = 'r'");
    /* it was looked at again after that time, and once more */
    test_sql(fx, "CREATE TABLE due AS SELECT due_at FROM tenon.limit_due");
    test_await(fx, LIMIT_MS,
               "SELECT count(*) = 1 FROM tenon.limit_due WHERE due_at > (SELECT"
               " due_at + interval '400 ms' FROM due)");
    assert_int_equal(test_sql_int(fx, "SELECT ready FROM tenon.limits WHERE key = 'r'"), 5);
    struct process *worker = pool_worker(fx, "8", "4");
    await_done(fx, 23);
    assert_most_within(fx, "claim", 5, 500000);
    end_well(worker);
    end_well(cleaner);
}

/* A task follows the one before it without a poll's second. */
static void test_one_after_the_other(void **state)
{
    struct fixture *fx = *state;
    make_keyed(fx);
    test_sql(fx, "SELECT tenon.set_limit('o', strict => true)");
    struct process *cleaner = TENON(fx, "cleaner");
    process_await_line(cleaner, "event=leader", LIMIT_MS);
    struct process *worker = pool_worker(fx, "2", "1");
    process_await_line(worker, "event=worker_ready", LIMIT_MS);
    give(fx, "o", "{o}", 100, 0);
    test_await(fx, LIMIT_MS, "SELECT count(*) = 100, count(*) FROM tenon.history"); /* else 100 s */
    end_well(worker);
    end_well(cleaner);
}

static size_t most_so_far(struct fixture *fx)
{
    struct journal j;
    journal_read(fx, &j);
    size_t most = journal_most_at_once(&j, 0);
    journal_clear(&j);
    return most;
}

/* Ten tasks of a tenant who comes anew. ret: how long the one waited that waited most, in ms */
static int64_t ten_wait_ms(struct fixture *fx, int tenant, int64_t *ret_others)
{
    enum { TEN = 10 };
    int64_t first = test_sql_int(fx,
                                 "SELECT (tenon.enqueue_many('a', array_fill('{\"do\": \"sleep\","
                                 " \"ms\": 100}'::text, '{%d}'), limit_keys => '{t:%d}'))[1]",
                                 TEN, tenant);
    test_await(fx, LIMIT_MS, "SELECT count(*) = %d, count(*) FROM tenon.history WHERE id >= %lld",
               TEN, (long long)first);
    *ret_others = test_sql_int(
        fx,
        "WITH mine AS (SELECT min(created_at) AS since, max(start_time) AS till FROM tenon.history"
        " WHERE id >= %lld) SELECT count(*) FROM tenon.tasks, mine WHERE id < %lld AND start_time"
        " BETWEEN since AND till",
        (long long)first, (long long)first);
    return test_sql_int(fx,
                        "SELECT (1000 * extract(epoch FROM max(start_time - created_at)))::bigint"
                        " FROM tenon.history WHERE id >= %lld",
                        (long long)first);
}

/* One tenant's backlog makes another's ten tasks wait for what was let go ahead, and for turns. */
static void test_fairness(void **state)
{
    enum {
        BACKLOG = 100000,
        OTHERS = 8 + 2 * 4 + 10 + 14, /* ahead; turns; 14 while they are enqueued */
        WAIT_MS = 2000,
        TRIES = 3,
    };
    struct fixture *fx = *state;
    int64_t others = INT64_MAX, ms = INT64_MAX;
    test_sql(fx, "SELECT tenon.set_limit('t', fair => true)");
    struct process *cleaner = TENON(fx, "cleaner");
    process_await_line(cleaner, "event=leader", LIMIT_MS);
    struct process *worker = pool_worker(fx, "4", "1");
    test_sql(fx,
             "SELECT tenon.enqueue_many('a', array_fill('{\"do\": \"sleep\", \"ms\": 100}'::text,"
             " '{%d}'), limit_keys => '{t:1}')",
             BACKLOG);
    journal_await_ended(fx, 12, LIMIT_MS);
    assert_int_equal(most_so_far(fx), 4); /* alone, it has all slots */
    /* the machine may be busy just now */
    for (int i = 0; i < TRIES && (others > OTHERS || ms >= WAIT_MS); i++) {
        ms = ten_wait_ms(fx, 2 + i, &others);
        print_message("%lld others started before the last of them, after %lld ms\n",
                      (long long)others, (long long)ms);
    }
    assert_in_range(others, 0, OTHERS);
    assert_in_range(ms, 0, WAIT_MS);
    process_kill(worker);
    end_well(cleaner);
}

/* Of one key three start while one of the other does. */
static void test_weights(void **state)
{
    enum { OF_EACH = 60 };
    struct fixture *fx = *state;
    test_sql(fx, "SELECT tenon.set_limit('t', fair => true), tenon.set_limit('t:3', weight => 3),"
                 " tenon.pause_limit('t')");
    struct process *cleaner = TENON(fx, "cleaner");
    process_await_line(cleaner, "event=leader", LIMIT_MS);
    struct process *worker = pool_worker(fx, "4", "1");
    for (int key = 1; key <= 3; key += 2) {
        test_sql(fx,
                 "SELECT tenon.enqueue_many('a', array_fill('{\"do\": \"sleep\", \"ms\": 5}'::"
                 "text, '{%d}'), limit_keys => '{t:%d}')",
                 OF_EACH, key);
    }
    test_sql(fx, "SELECT tenon.resume_limit('t')");
    test_await(fx, LIMIT_MS, "SELECT count(*) = %d, count(*) FROM tenon.history", 2 * OF_EACH);
    int64_t n = test_sql_int(fx,
                             "SELECT count(*) FROM (SELECT id FROM tenon.history ORDER BY"
                             " start_time LIMIT %d) first WHERE id > %d",
                             OF_EACH, OF_EACH);
    print_message("%lld of the first %d have the weight 3\n", (long long)n, OF_EACH);
    assert_in_range(n, OF_EACH * 3 / 4 - 6, OF_EACH * 3 / 4 + 6);
    process_kill(worker);
    end_well(cleaner);
}

static void take(const struct fixture *fx)
{
    PGconn *conn = sql_connect(fx->database_url);
    for (int i = 0; i < TAKES; i++) {
        for (int64_t wait_ms; (wait_ms = sql_int(conn, "SELECT tenon.take_limit('s')")) > 0;) {
            (void)poll(NULL, 0, (int)wait_ms);
        }
    }
    PQfinish(conn);
    _exit(0);
}

/* Handlers take, and tasks start, from one rate. Takes delete old rows, so a trigger notes all. */
static void test_takers(void **state)
{
    enum { OF_A_TIME = 30, TIME_MS = 400 };
    struct fixture *fx = *state;
    pid_t pids[TAKERS];
    int status;
    test_sql(fx, "CREATE TABLE taken (at timestamptz, n integer);"
                 "CREATE FUNCTION keep_taken() RETURNS trigger LANGUAGE plpgsql AS"
                 " 'BEGIN INSERT INTO public.taken VALUES (NEW.at, NEW.n); RETURN NULL; END';"
                 "CREATE TRIGGER keep AFTER INSERT ON tenon.limit_start FOR EACH ROW"
                 " EXECUTE FUNCTION keep_taken()");
    test_sql(fx, "SELECT tenon.set_limit('s', max_starts => %d, per => '%d ms')", OF_A_TIME,
             TIME_MS);
    for (int i = 0; i < TAKERS; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0) {
            take(fx);
        }
    }
    for (int i = 0; i < TAKERS; i++) {
        assert_true(waitpid(pids[i], &status, 0) == pids[i] && status == 0);
    }
    assert_int_equal(test_sql_int(fx, "SELECT sum(n) FROM taken"), TAKERS * TAKES);
    int64_t most = test_sql_int(
        fx,
        "SELECT max(n) FROM (SELECT sum(n) OVER (ORDER BY at RANGE BETWEEN '%d us' PRECEDING AND"
        " CURRENT ROW) AS n FROM taken) w",
        TIME_MS * 1000 - 1);
    assert_int_equal(most, OF_A_TIME);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVERS(test_a_rate_without_workers),
        WITH_SERVERS(test_one_after_the_other),
        WITH_SERVERS(test_fairness),
        WITH_SERVERS(test_weights),
        WITH_DATABASE(test_takers),
        /* the last: what follows would meet its servers */
        cmocka_unit_test_setup_teardown(test_never_more, start_servers, server_fixture_teardown),
    };
    return RUN_GROUP(tests);
}
