/* label: e2e */
/* timeout: 240 */
/* long: 1800 */
/* The bank: transfers by handlers in C, Python, Node and SQL, each in the transaction that finishes
 * its task, while everything is killed at random and frozen handlers are revived. What counts in
 * the end are the balances and the ledger, both written by plain statements that would take a
 * double. Its random numbers begin with TEST_SEED, which a failure names. */
#include "tests/support/load.h"
#include "tests/support/working.h"

#include "core/now.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    ACCOUNTS = 1000, /* so many that what is frozen does not block all else; even, see below */
    BALANCE = 100000,
    PAUSE_EVERY = 10, /* one in so many transfers waits before it commits, for who freezes it */
    TURN = 20,        /* transfers of one language are enqueued together */
    WORKERS = 2,
    CHILDREN_MAX = 64,
    ENVIRONMENT_MS = 200000, /* npm and pip, when they run for the first time */
    END_MS = 120000,
    GIVEN_MS = 8000, /* a frozen task, to another worker */
};

static const char *const languages[] = {"c", "sql", "python", "node"};
enum { LANGUAGES = sizeof languages / sizeof *languages };

enum strike { STRIKE_CHILD, STRIKE_BACKEND, STRIKE_CLEANER, STRIKE_WORKER, STRIKE_FREEZE, STRIKES };

struct bank {
    struct fixture *fx;
    unsigned seed;
    int64_t transfers, at_once;    /* so many between two strikes */
    char commands[LANGUAGES][600]; /* "" = there is no such language here */
    struct process *workers[WORKERS], *cleaner;
    int strikes[STRIKES];
};

static int chance(struct bank *b, int n)
{
    return (int)((unsigned)rand_r(&b->seed) % (unsigned)n);
}

/* --- its handlers --- */

/* What script/python-env or script/node-env prints; "" where the language is missing. */
static void environment(struct fixture *fx, const char *script, char *ret, size_t size)
{
    char command[400];
    *ret = '\0';
    (void)snprintf(command, sizeof command, "cd %s && exec %s", repository, script);
    struct process *p = process_spawn(fx, (const char *const[]){"sh", "-c", command, NULL}, NULL);
    if (process_wait(p, ENVIRONMENT_MS) == 0) {
        char *text = file_text(p->out);
        (void)snprintf(ret, size, "%.*s", (int)strcspn(text, "\n"), text);
        free(text);
    } else {
        print_message("%s: no transfers in this language, as it is not here\n", script);
    }
}

static void find_handlers(struct bank *b)
{
    enum { C, SQL, PYTHON, NODE, BYTES = sizeof *b->commands };
    char program[256], env[256];
    handler_path("bank", program, sizeof program);
    (void)snprintf(b->commands[C], BYTES, "exec %s", program);
    (void)snprintf(b->commands[SQL], BYTES,
                   "exec %s-sql --function public.transfer --connections 2", tenon_program);
    environment(b->fx, "script/python-env", env, sizeof env);
    if (*env) {
        (void)snprintf(b->commands[PYTHON], BYTES,
                       "cd %s/clients/python/tests && exec %s/bin/python -B -m tenon bank"
                       " --concurrency 4",
                       repository, env);
    }
    environment(b->fx, "script/node-env", env, sizeof env);
    if (*env) {
        (void)snprintf(b->commands[NODE], BYTES,
                       "cd %s && exec node node_modules/tenon/bin/tenon-node.js --concurrency 4"
                       " tests/"
                       "bank.fixture.js",
                       env);
    }
}

static void open_bank(struct bank *b)
{
    test_sql(b->fx,
             "CREATE TABLE public.account (id bigint PRIMARY KEY, balance bigint);"
             "CREATE TABLE public.ledger (n bigint, source bigint, target bigint, amount bigint,"
             " by text);"
             "INSERT INTO public.account SELECT id, %d FROM generate_series(1, %d) id",
             BALANCE, ACCOUNTS);
    test_sql(b->fx,
             "CREATE FUNCTION public.transfer(payload jsonb) RETURNS void LANGUAGE plpgsql AS $$"
             " DECLARE source bigint := payload->>'from'; target bigint := payload->>'to';"
             " moved bigint := payload->>'amount'; BEGIN"
             " PERFORM FROM public.account WHERE id IN (source, target) ORDER BY id FOR UPDATE;"
             " UPDATE public.account SET balance = balance - moved WHERE id = source;"
             " UPDATE public.account SET balance = balance + moved WHERE id = target;"
             " INSERT INTO public.ledger VALUES ((payload->>'n')::bigint, source, target, moved,"
             " 'sql');"
             " PERFORM pg_sleep((payload->>'pause')::double precision); END $$");
}

static void enqueue_some(struct bank *b, int language, int64_t first, int64_t n)
{
    const char *word = languages[language];
    first += language * b->transfers;
    test_sql(b->fx,
             "SELECT tenon.set_kind('bank_%s', '{\"retry\": \"constant(1 ms)\","
             " \"max_attempts\": 1000}');"
             "SELECT tenon.enqueue_many('bank_%s', array_agg(jsonb_build_object("
             "'n', n, 'from', 1 + n %% %d, 'to', 1 + (n * 7 + 3) %% %d, 'amount', 1 + n %% 9,"
             " 'pause', CASE n %% %d WHEN 0 THEN 0.5 ELSE 0 END)))"
             " FROM generate_series(%lld, %lld) n",
             word, word, ACCOUNTS, ACCOUNTS, PAUSE_EVERY, (long long)first,
             (long long)(first + n - 1));
}

/* In turns, so that all languages are at it at the same time. */
static int64_t enqueue_transfers(struct bank *b)
{
    int64_t all = 0;
    for (int64_t first = 1; first <= b->transfers; first += TURN) {
        for (int i = 0; i < LANGUAGES; i++) {
            if (*b->commands[i]) {
                enqueue_some(b, i, first, TURN);
                all += TURN;
            }
        }
    }
    return all;
}

/* --- its processes --- */

static struct process *start_worker(struct bank *b)
{
    char url[600], handler_url[600], handlers[LANGUAGES][700];
    const char *args[2 * LANGUAGES + 8] = {"worker", "--slots", "4"};
    size_t n = 3;
    (void)snprintf(url, sizeof url, "TENON_DATABASE_URL=%s", b->fx->database_url);
    (void)snprintf(handler_url, sizeof handler_url, "DATABASE_URL=%s", b->fx->database_url);
    for (int i = 0; i < LANGUAGES; i++) {
        if (*b->commands[i]) {
            (void)snprintf(handlers[i], sizeof handlers[i], "bank_%s=pool:%s", languages[i],
                           b->commands[i]);
            args[n++] = "--handler";
            args[n++] = handlers[i];
        }
    }
    return tenon_spawn(b->fx, args, (const char *const[]){url, handler_url, NULL});
}

/* Its children, the guard too; returns how many. */
static int children_of(const struct process *worker, pid_t pids[CHILDREN_MAX])
{
    char path[100];
    int n = 0, pid;
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)worker->pid,
                   (int)worker->pid);
    FILE *children = fopen(path, "r");
    while (children && n < CHILDREN_MAX && fscanf(children, "%d", &pid) == 1) {
        pids[n++] = pid;
    }
    if (children) {
        (void)fclose(children);
    }
    return n;
}

/* Declares a worker dead, as a cleaner does that has watched it for 15 s, and requeues its tasks.
 */
static void declare_dead(struct bank *b, const struct process *worker)
{
    test_sql(b->fx,
             "UPDATE tenon.worker SET state = 'dead', ended_at = now()"
             " WHERE pid = %d AND ended_at IS NULL",
             (int)worker->pid);
    free(TENON_RUN(b->fx, 0, "cleaner", "--once"));
}

/* --- strikes --- */

static void kill_child(struct bank *b)
{
    pid_t pids[CHILDREN_MAX];
    int n = children_of(b->workers[chance(b, WORKERS)], pids);
    if (n > 0) {
        (void)kill(pids[chance(b, n)], SIGKILL);
    }
}

static void end_backend(struct bank *b)
{
    test_sql(b->fx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname ="
                    " current_database() AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1");
}

static void kill_cleaner(struct bank *b)
{
    process_kill(b->cleaner);
    b->cleaner = TENON(b->fx, "cleaner");
}

static void kill_worker(struct bank *b)
{
    int i = chance(b, WORKERS);
    process_kill(b->workers[i]);
    declare_dead(b, b->workers[i]);
    b->workers[i] = start_worker(b);
}

/* The task that this worker runs, and that waits before it commits; 0 = there is none. */
static int64_t paused_task(struct bank *b, const struct process *worker)
{
    return test_sql_int(b->fx,
                        "SELECT coalesce(min(t.id), 0) FROM tenon.task t JOIN tenon.worker w"
                        " ON w.id = t.worker_id WHERE w.pid = %d AND w.ended_at IS NULL AND"
                        " t.start_time < now() - interval '50 ms' AND (t.payload->>'pause')"
                        "::double precision > 0",
                        (int)worker->pid);
}

static void send_all(const pid_t *pids, int n, int signal)
{
    for (int i = 0; i < n; i++) {
        (void)kill(pids[i], signal);
    }
}

/* Within a limit; a query that does not come true is no failure. */
static bool comes_true(struct bank *b, int64_t limit_ms, const char *format, int64_t a, int64_t c)
{
    bool is = false;
    for (int64_t until = now_ms() + limit_ms; !is && now_ms() < until;) {
        is = test_sql_bool(b->fx, format, (long long)a, (long long)c);
        test_sql(b->fx, "SELECT pg_sleep(0.005)");
    }
    return is;
}

/* What blocks on rows that the frozen transaction has locked may leave the others no room. */
static bool given_to_another(struct bank *b, int64_t id, int64_t claims)
{
    return comes_true(b, GIVEN_MS,
                      "SELECT NOT EXISTS (SELECT FROM tenon.task WHERE id = %lld AND NOT"
                      " (claims > %lld AND start_time IS NOT NULL))",
                      id, claims);
}

/* A worker stands still with its children, one of them in the middle of a transfer; it is declared
 * dead, another one gets the task; then all of it goes on. False: that could not be had. */
static bool freeze(struct bank *b)
{
    pid_t pids[CHILDREN_MAX];
    struct process *frozen = b->workers[chance(b, WORKERS)];
    bool is = false;
    for (int64_t until = now_ms() + GIVEN_MS; paused_task(b, frozen) == 0 && now_ms() < until;) {
        test_sql(b->fx, "SELECT pg_sleep(0.005)");
    }
    process_signal(frozen, SIGSTOP);
    int n = children_of(frozen, pids);
    send_all(pids, n, SIGSTOP);
    int64_t id = paused_task(b, frozen);
    if (id > 0) {
        int64_t claims = test_sql_int(b->fx,
                                      "SELECT coalesce(max(claims), 0) FROM tenon.task"
                                      " WHERE id = %lld",
                                      (long long)id);
        declare_dead(b, frozen);
        is = given_to_another(b, id, claims);
    }
    send_all(pids, n, SIGCONT);
    process_signal(frozen, SIGCONT);
    return is;
}

/* Each kind in its turn. */
static void strike(struct bank *b, int64_t turn)
{
    static void (*const strikes[])(struct bank *) = {kill_child, end_backend, kill_cleaner,
                                                     kill_worker};
    enum strike which = (enum strike)(turn % STRIKES);
    if (which == STRIKE_FREEZE) {
        b->strikes[which] += freeze(b);
    } else {
        strikes[which](b);
        b->strikes[which]++;
    }
}

/* --- the verdict --- */

/* A task whose workers died three times is dead; an operator retries it. */
static void await_ledger(struct bank *b, int64_t n, int64_t limit_ms)
{
    test_await(b->fx, limit_ms,
               "SELECT (SELECT count(*) FROM public.ledger) >= %lld,"
               " (SELECT count(*) FROM public.ledger), (SELECT tenon.retry('{\"state\": \"dead\"}')"
               " WHERE EXISTS (SELECT FROM tenon.dead))",
               (long long)n);
}

static void judge(struct bank *b, int64_t n)
{
    struct fixture *fx = b->fx;
    test_await(fx, END_MS,
               "SELECT (SELECT count(*) FROM tenon.task) = 0, (SELECT count(*) FROM tenon.task),"
               " (SELECT tenon.retry('{\"state\": \"dead\"}')"
               " WHERE EXISTS (SELECT FROM tenon.dead))");
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM public.ledger"), n);
    assert_int_equal(test_sql_int(fx, "SELECT count(DISTINCT n) FROM public.ledger"), n);
    assert_int_equal(test_sql_int(fx, "SELECT sum(balance) FROM public.account"),
                     (int64_t)ACCOUNTS * BALANCE);
    assert_int_equal(test_sql_int(fx,
                                  "SELECT count(*) FROM public.account a WHERE balance <> %d"
                                  " + (SELECT coalesce(sum(amount), 0) FROM public.ledger"
                                  " WHERE target = a.id)"
                                  " - (SELECT coalesce(sum(amount), 0) FROM public.ledger"
                                  " WHERE source = a.id)",
                                  BALANCE),
                     0);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.finished WHERE outcome = 'done'"
                                      " AND kind LIKE 'bank%%'"),
                     n);
}

static void test_transfers(void **state)
{
    struct bank b = {.fx = *state,
                     .transfers = load_is_long() ? 2500 : 100,
                     .at_once = load_is_long() ? 100 : 20};
    const char *seed = getenv("TEST_SEED");
    b.seed = seed ? (unsigned)strtoul(seed, NULL, 10) : (unsigned)getpid();
    print_message("TEST_SEED=%u\n", b.seed);
    find_handlers(&b);
    open_bank(&b);
    int64_t n = enqueue_transfers(&b);
    b.cleaner = TENON(b.fx, "cleaner");
    for (int i = 0; i < WORKERS; i++) {
        b.workers[i] = start_worker(&b);
    }
    for (int64_t done = b.at_once; done < n; done += b.at_once) {
        await_ledger(&b, done, END_MS);
        strike(&b, done / b.at_once);
    }
    judge(&b, n);
    print_message("%lld transfers; killed: %d children, %d backends, %d cleaners, %d workers;"
                  " frozen and revived when another one had the task: %d\n",
                  (long long)n, b.strikes[STRIKE_CHILD], b.strikes[STRIKE_BACKEND],
                  b.strikes[STRIKE_CLEANER], b.strikes[STRIKE_WORKER], b.strikes[STRIKE_FREEZE]);
    for (int i = 0; i < WORKERS; i++) {
        process_await_line(b.workers[i], "event=worker_ready", LIMIT_MS);
        end_well(b.workers[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {WITH_SERVERS(test_transfers)};
    return RUN_GROUP(tests);
}
