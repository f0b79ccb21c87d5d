/* label: fault */
/* timeout: 480 */
/* long: 1800 */
/* only: all */
/* The bank: transfers by handlers in C, Python, Node and SQL, each in the transaction that finishes
 * its task, while everything is killed, PostgreSQL and RabbitMQ too, and frozen handlers are
 * revived, whose finish must be refused. What counts in the end are the balances and the ledger,
 * both written by plain statements that would take a double. The order of strikes, and all else
 * that is random, follows from TEST_SEED. 320 transfers, with TEST_LONG 10,000. */
#include "tests/support/clients.h"
#include "tests/support/held.h"
#include "tests/support/load.h"
#include "tests/support/servers.h"
#include "tests/support/working.h"

#include "cleaner/statements.h"
#include "core/base/now.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    ACCOUNTS = 1000, /* so many that what is frozen does not block all else; even, see below */
    BALANCE = 100000,
    WORKERS = 2,
    CHILDREN_MAX = 64,
    END_MS = 120000,
    FROZEN_FIRST = 100000, /* ids of transfers that are frozen; below 1e6, as bank.c has "%g" */
    FROZEN_TIMEOUT_S = 2,  /* how long one may take that is to pass its deadline */
    FROZEN_PAUSE_S = 3, /* and how long it waits before it finishes its task, if nobody ends that */
    TURNS_MAX = 64,
    FREEZE_TRIES = 10, /* it may be over before it is frozen */
    GIVEN_MS = 20000,  /* a frozen task, to another worker */
    STRIKE_MS = 30000, /* within that there is something to strike */
    KILLED_MS = 5000,  /* what was killed is gone */
    POLL_MS = 20,
};

static const char *const languages[] = {"c", "sql", "python", "node"};
enum { LANGUAGES = sizeof languages / sizeof *languages };

enum strike {
    STRIKE_CHILD,
    STRIKE_BACKEND,
    STRIKE_CLEANER,
    STRIKE_WORKER,
    STRIKE_POSTGRES,
    STRIKE_RABBITMQ,
    STRIKE_FREEZE,
    STRIKES
};
enum { POSTGRES, RABBITMQ }; /* the servers of the test's own */
/* Until when a worker is frozen, with what it runs. */
enum way { UNTIL_DECLARED_DEAD, UNTIL_PAST_DEADLINE, WAYS };

struct bank {
    struct fixture *fx;
    unsigned seed;
    int turns, each;        /* so many transfers of each language are enqueued before a strike */
    int server_strikes_max; /* of PostgreSQL; of RabbitMQ, which starts slowly, half of it */
    char commands[LANGUAGES][600];
    struct process *workers[WORKERS], *cleaner;
    enum strike plan[TURNS_MAX]; /* for each turn */
    int strikes[STRIKES];        /* that hit */
    int strikes_least;           /* of each kind */
    int frozen[LANGUAGES][WAYS];
    int64_t to_freeze; /* transfers of which one was to be frozen */
};

static int chance(struct bank *b, int n)
{
    return (int)((unsigned)rand_r(&b->seed) % (unsigned)n);
}

/* --- its handlers --- */

static void find_handlers(struct bank *b)
{
    enum { C, SQL, PYTHON, NODE, BYTES = sizeof *b->commands };
    char program[256], env[256];
    handler_path("bank", program, sizeof program);
    (void)snprintf(b->commands[C], BYTES, "exec \"%s\"", program);
    (void)snprintf(b->commands[SQL], BYTES,
                   "exec \"%s-sql\" --function public.transfer --connections 2", tenon_program);
    clients_environment(b->fx, "script/python-env", env, sizeof env);
    (void)snprintf(b->commands[PYTHON], BYTES,
                   "cd \"%s/clients/python/tests\" && exec \"%s/bin/python\" -B -m tenon bank"
                   " --concurrency 4",
                   repository, env);
    clients_environment(b->fx, "script/node-env", env, sizeof env);
    (void)snprintf(b->commands[NODE], BYTES,
                   "cd \"%s\" && exec node node_modules/tenon-tasks/bin/tenon-node.js"
                   " --concurrency 4 ./tests/bank.fixture.js",
                   env);
}

static void open_bank(struct bank *b)
{
    test_sql(b->fx,
             "CREATE TABLE public.account (id bigint PRIMARY KEY, balance bigint);"
             "CREATE TABLE public.ledger (n bigint, source bigint, target bigint, amount bigint,"
             " by text);"
             "INSERT INTO public.account SELECT id, %d FROM generate_series(1, %d) id",
             BALANCE, ACCOUNTS + 2);
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

static void set_kinds(struct bank *b)
{
    for (int i = 0; i < LANGUAGES; i++) {
        test_sql(b->fx,
                 "SELECT tenon.set_kind('bank_%s', retry => 'constant(1 ms)',"
                 " max_attempts => 1000)",
                 languages[i]);
    }
}

static int64_t transfers_of_each(const struct bank *b)
{
    return (int64_t)b->turns * b->each;
}

/* So that all languages are at it at the same time; returns how many there are by then. */
static int64_t enqueue_some(struct bank *b, int turn)
{
    for (int i = 0; i < LANGUAGES; i++) {
        int64_t first = 1 + i * transfers_of_each(b) + (int64_t)turn * b->each;
        test_sql(b->fx,
                 "SELECT tenon.enqueue_many('bank_%s', array_agg(jsonb_build_object("
                 "'n', n, 'from', 1 + n %% %d, 'to', 1 + (n * 7 + 3) %% %d, 'amount', 1 + n %% 9,"
                 " 'pause', 0))) FROM generate_series(%lld, %lld) n",
                 languages[i], ACCOUNTS, ACCOUNTS, (long long)first,
                 (long long)(first + b->each - 1));
    }
    return (int64_t)(turn + 1) * LANGUAGES * b->each;
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
        (void)snprintf(handlers[i], sizeof handlers[i], "bank_%s=pool:%s", languages[i],
                       b->commands[i]);
        args[n++] = "--handler";
        args[n++] = handlers[i];
    }
    return tenon_spawn(b->fx, args, (const char *const[]){url, handler_url, NULL});
}

/* What the leader's pass does, at once. */
static void recover_all(struct bank *b, const char *grace)
{
    const char *const params[] = {"(0,0)", "(100000,0)", grace, "1000"};
    PQclear(statement_run(b->fx->conn, &sql_recover, params, 4));
}

/* As a cleaner does that has watched a worker for 15 s; its tasks are requeued. */
static void declare_dead(struct bank *b, const struct process *worker)
{
    test_sql(b->fx,
             "UPDATE tenon.worker SET state = 'dead', ended_at = now()"
             " WHERE pid = %d AND ended_at IS NULL",
             (int)worker->pid);
    recover_all(b, "1 min");
}

/* --- strikes: each returns whether it hit what lived, and is gone --- */

static bool kill_child(struct bank *b)
{
    pid_t pids[CHILDREN_MAX];
    int n = process_children(b->workers[chance(b, WORKERS)], pids, CHILDREN_MAX);
    pid_t pid = n > 0 ? pids[chance(b, n)] : 0;
    bool hits = pid > 0 && process_is_handler(pid);
    if (pid > 0) {
        (void)kill(pid, SIGKILL);
    }
    for (int64_t until = patience_end_ms(KILLED_MS);
         hits && process_is_handler(pid) && now_ms() < until;) {
        test_sql(b->fx, "SELECT pg_sleep(0.005)");
    }
    return hits && !process_is_handler(pid);
}

static bool end_backend(struct bank *b)
{
    return test_sql_bool(b->fx,
                         "SELECT coalesce(bool_or(pg_terminate_backend(pid, %d)), false) FROM ("
                         "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
                         " AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
                         " ORDER BY random() LIMIT 1) one",
                         KILLED_MS);
}

/* False: it had ended by itself, which none of them may. */
static bool kill_living(struct process *p)
{
    bool lived = !process_is_gone(p);
    process_kill(p);
    return lived && p->status == 128 + SIGKILL;
}

static bool kill_cleaner(struct bank *b)
{
    assert_true(kill_living(b->cleaner));
    b->cleaner = TENON(b->fx, "cleaner");
    return true;
}

static bool kill_worker(struct bank *b)
{
    int i = chance(b, WORKERS);
    assert_true(kill_living(b->workers[i]));
    declare_dead(b, b->workers[i]);
    b->workers[i] = start_worker(b);
    return true;
}

/* kill -9 of all of PostgreSQL, or an immediate stop, which its own recovery follows too. */
static bool kill_postgres(struct bank *b)
{
    server_use(POSTGRES);
    bool hits = server_listens();
    if (b->strikes[STRIKE_POSTGRES] % 2 == 0) {
        server_do("kill");
    } else {
        server_signal(server_postmaster(), SIGQUIT);
    }
    hits = hits && server_falls_silent();
    server_do("start");
    server_reconnect(b->fx);
    return hits;
}

static bool kill_rabbitmq(struct bank *b)
{
    (void)b;
    server_use(RABBITMQ);
    bool hits = server_listens();
    server_do("kill");
    hits = hits && server_falls_silent();
    server_do("start");
    return hits;
}

/* --- a handler that stands still in the middle of a transfer --- */

static const char timed_out[] = "canceling statement due to statement timeout";

/* A transfer, its task, and who runs it. */
struct frozen {
    int language;
    enum way way;
    int64_t n, id, claims;
    size_t timed_out; /* statements, before */
    struct process *worker;
    pid_t children[CHILDREN_MAX];
    int children_n;
};

static void send_all(const struct frozen *z, int signal)
{
    for (int i = 0; i < z->children_n; i++) {
        (void)kill(z->children[i], signal);
    }
}

/* Between two accounts that no other transfer touches, so that what is frozen blocks nothing else.
 */
static void enqueue_to_freeze(struct bank *b, int language, enum way way, struct frozen *ret)
{
    server_use(POSTGRES);
    *ret = (struct frozen){.language = language,
                           .way = way,
                           .n = FROZEN_FIRST + b->to_freeze++,
                           .timed_out = server_log_lines(timed_out)};
    ret->id = test_sql_int(b->fx,
                           "SELECT tenon.enqueue('bank_%s', jsonb_build_object('n', %lld, 'from',"
                           " %d, 'to', %d, 'amount', 3, 'pause', %d), priority => 9, timeout =>"
                           " '%d s')",
                           languages[language], (long long)ret->n, ACCOUNTS + 1, ACCOUNTS + 2,
                           FROZEN_PAUSE_S,
                           way == UNTIL_PAST_DEADLINE ? FROZEN_TIMEOUT_S : END_MS / 1000);
}

/* Its accounts are locked by whoever runs it; the task is not, which tenon.finish() would do. */
static const char in_the_middle[] =
    "WITH account AS (SELECT FROM public.account WHERE id = %lld FOR UPDATE SKIP LOCKED),"
    " task AS (SELECT FROM tenon.task WHERE id = %lld AND start_time IS NOT NULL"
    " FOR UPDATE SKIP LOCKED)"
    " SELECT (SELECT count(*) FROM account) = 0 AND (SELECT count(*) FROM task) = 1";

/* False: it is over already, or its process is none of ours any more. */
static bool stop_its_worker(struct bank *b, struct frozen *z)
{
    if (!sql_comes_true(b->fx->conn, END_MS, in_the_middle, (long long)ACCOUNTS + 1,
                        (long long)z->id)) {
        return false;
    }
    int64_t pid = test_sql_int(b->fx,
                               "SELECT w.pid FROM tenon.task t JOIN tenon.worker w ON w.id ="
                               " t.worker_id WHERE t.id = %lld",
                               (long long)z->id);
    for (int i = 0; i < WORKERS; i++) {
        z->worker = b->workers[i]->pid == pid ? b->workers[i] : z->worker;
    }
    if (z->worker) {
        process_signal(z->worker, SIGSTOP);
        z->children_n = process_children(z->worker, z->children, CHILDREN_MAX);
        send_all(z, SIGSTOP);
        z->claims = test_sql_int(b->fx, "SELECT claims FROM tenon.task WHERE id = %lld",
                                 (long long)z->id);
    }
    return z->worker &&
           test_sql_bool(b->fx, in_the_middle, (long long)ACCOUNTS + 1, (long long)z->id);
}

/* Its deadline passes, and the leader requeues it, without the minute of grace that it gives. */
static void run_past_deadline(struct bank *b, const struct frozen *z)
{
    (void)sql_comes_true(b->fx->conn, GIVEN_MS,
                         "SELECT start_time + make_interval(secs => timeout_ms / 1000.0) <"
                         " statement_timestamp() FROM tenon.task WHERE id = %lld AND claims = %lld",
                         (long long)z->id, (long long)z->claims);
    recover_all(b, "0 seconds");
}

/* The next attempt waits for nothing. */
static void leave_out_the_pause(struct bank *b, const struct frozen *z)
{
    test_sql(b->fx,
             "UPDATE tenon.task SET payload = payload || '{\"pause\": 0}' WHERE id ="
             " (SELECT id FROM tenon.task WHERE id = %lld FOR UPDATE SKIP LOCKED)",
             (long long)z->id);
}

/* PostgreSQL refuses what the frozen handler writes late. tenon-sql's statement ends at its task's
 * deadline before it comes to the claim. */
static void await_refused(const struct frozen *z)
{
    char refused[100];
    bool is_cut = z->way == UNTIL_PAST_DEADLINE && strcmp(languages[z->language], "sql") == 0;
    (void)snprintf(refused, sizeof refused, "tenon: claim '%lld/%lld/", (long long)z->id,
                   (long long)z->claims);
    const char *wanted = is_cut ? timed_out : refused;
    server_use(POSTGRES);
    int64_t end_ms = patience_end_ms(END_MS);
    while (server_log_lines(wanted) == (is_cut ? z->timed_out : 0) && now_ms() < end_ms) {
        (void)poll(NULL, 0, POLL_MS);
    }
    if (server_log_lines(wanted) == (is_cut ? z->timed_out : 0)) {
        fail_msg("transfer %lld: not in PostgreSQL's log: %s", (long long)z->n, wanted);
    }
}

/* The handlers go on first: a `late` one finds its claim lost, and the other one's transfer comes
 * through. Then the worker says that the late outcome does not count. */
static void revive(struct bank *b, const struct frozen *z, bool late)
{
    char lost[100];
    send_all(z, SIGCONT);
    if (late) {
        await_refused(z);
    }
    test_await(b->fx, END_MS, "SELECT count(*) > 0, count(*) FROM public.ledger WHERE n = %lld",
               (long long)z->n);
    if (z->worker) {
        process_signal(z->worker, SIGCONT);
    }
    (void)snprintf(lost, sizeof lost, "event=claim_lost task=%lld ", (long long)z->id);
    if (late) {
        process_await_line(z->worker, lost, END_MS);
    }
}

/* A worker stands still with its children, one of them amid a transfer, until the task is past its
 * deadline or the worker declared dead; another one gets it; then all goes on. False: no luck. */
static bool freeze_once(struct bank *b, int language, enum way way)
{
    struct frozen z;
    enqueue_to_freeze(b, language, way, &z);
    bool is = stop_its_worker(b, &z);
    leave_out_the_pause(b, &z);
    if (is && way == UNTIL_PAST_DEADLINE) {
        run_past_deadline(b, &z);
    } else if (is) {
        declare_dead(b, z.worker);
    }
    is = is &&
         sql_comes_true(b->fx->conn, GIVEN_MS,
                        "SELECT count(*) = 1 FROM tenon.task WHERE id = %lld AND claims > %lld"
                        " AND start_time IS NOT NULL",
                        (long long)z.id, (long long)z.claims);
    revive(b, &z, is);
    return is;
}

/* Each language in its turn, in both ways. */
static bool freeze(struct bank *b)
{
    int n = b->strikes[STRIKE_FREEZE], language = n % LANGUAGES;
    enum way way = (n + n / LANGUAGES) % WAYS == 0 ? UNTIL_PAST_DEADLINE : UNTIL_DECLARED_DEAD;
    for (int i = 0; i < FREEZE_TRIES; i++) {
        if (freeze_once(b, language, way)) {
            b->frozen[language][way]++;
            return true;
        }
    }
    fail_msg("no transfer in %s was frozen in %d tries", languages[language], FREEZE_TRIES);
    return false;
}

static const struct {
    const char *what;
    bool (*once)(struct bank *);
} strikes[STRIKES] = {
    [STRIKE_CHILD] = {"handlers", kill_child},
    [STRIKE_BACKEND] = {"backends", end_backend},
    [STRIKE_CLEANER] = {"cleaners", kill_cleaner},
    [STRIKE_WORKER] = {"workers", kill_worker},
    [STRIKE_POSTGRES] = {"PostgreSQL", kill_postgres},
    [STRIKE_RABBITMQ] = {"RabbitMQ", kill_rabbitmq},
    [STRIKE_FREEZE] = {"frozen and revived", freeze},
};

/* Until it hits: a worker that has just started has no children, a backend may end before. */
static void strike_until_hit(struct bank *b, enum strike which)
{
    bool hit = false;
    for (int64_t until = patience_end_ms(STRIKE_MS); !hit && now_ms() < until;) {
        hit = strikes[which].once(b);
        test_sql(b->fx, "SELECT pg_sleep(0.005)");
    }
    if (!hit) {
        fail_msg("%s: nothing was hit within %d ms", strikes[which].what, STRIKE_MS);
    }
    b->strikes[which]++;
}

/* Each language is frozen in each way, and of the rest each kind gets its share, in any order. */
static void plan_strikes(struct bank *b)
{
    static const enum strike rest[] = {STRIKE_BACKEND, STRIKE_WORKER,   STRIKE_POSTGRES,
                                       STRIKE_CLEANER, STRIKE_RABBITMQ, STRIKE_CHILD};
    assert_in_range(b->turns, 1, TURNS_MAX);
    for (int i = 0; i < b->turns; i++) {
        int j = chance(b, i + 1);
        b->plan[i] = b->plan[j];
        b->plan[j] = i < LANGUAGES * WAYS ? STRIKE_FREEZE
                                          : rest[i % (int)(sizeof rest / sizeof *rest)];
    }
}

/* As planned; the servers a few times. */
static void strike(struct bank *b, int turn)
{
    enum strike which = b->plan[turn];
    if ((which == STRIKE_POSTGRES && b->strikes[which] >= b->server_strikes_max) ||
        (which == STRIKE_RABBITMQ && b->strikes[which] >= b->server_strikes_max / 2)) {
        which = STRIKE_CHILD;
    }
    strike_until_hit(b, which);
}

/* --- the verdict --- */

/* A task whose workers died three times is dead; an operator retries it. */
static void await_ledger(struct bank *b, int64_t n, int64_t limit_ms)
{
    test_await(
        b->fx, limit_ms,
        "SELECT (SELECT count(*) FROM public.ledger) >= %lld,"
        " (SELECT count(*) FROM public.ledger), (SELECT tenon.retry_where('{\"state\": \"dead\"}')"
        " WHERE EXISTS (SELECT FROM tenon.dead))",
        (long long)n);
}

static void judge(struct bank *b, int64_t n)
{
    struct fixture *fx = b->fx;
    test_await(fx, END_MS,
               "SELECT (SELECT count(*) FROM tenon.task) = 0, (SELECT count(*) FROM tenon.task),"
               " (SELECT tenon.retry_where('{\"state\": \"dead\"}')"
               " WHERE EXISTS (SELECT FROM tenon.dead))");
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM public.ledger"), n);
    assert_int_equal(test_sql_int(fx, "SELECT count(DISTINCT n) FROM public.ledger"), n);
    assert_int_equal(test_sql_int(fx, "SELECT sum(balance) FROM public.account"),
                     (int64_t)(ACCOUNTS + 2) * BALANCE);
    assert_int_equal(test_sql_int(fx,
                                  "SELECT count(*) FROM public.account a WHERE balance <> %d"
                                  " + (SELECT coalesce(sum(amount), 0) FROM public.ledger"
                                  " WHERE target = a.id)"
                                  " - (SELECT coalesce(sum(amount), 0) FROM public.ledger"
                                  " WHERE source = a.id)",
                                  BALANCE),
                     0);
    assert_int_equal(test_sql_int(fx, "SELECT count(*) FROM tenon.history WHERE outcome = 'done'"
                                      " AND kind LIKE 'bank%%'"),
                     n);
}

/* Of each language as many as were enqueued, and frozen in each way; what took part is said. */
static void judge_languages(struct bank *b)
{
    for (int i = 0; i < LANGUAGES; i++) {
        int64_t n = test_sql_int(b->fx, "SELECT count(*) FROM public.ledger WHERE by = '%s'",
                                 languages[i]);
        print_message("ran: the bank: %lld transfers in %s; frozen: %d, %d\n", (long long)n,
                      languages[i], b->frozen[i][UNTIL_DECLARED_DEAD],
                      b->frozen[i][UNTIL_PAST_DEADLINE]);
        assert_in_range(n, transfers_of_each(b), INT64_MAX);
        assert_in_range(b->frozen[i][UNTIL_DECLARED_DEAD], 1, INT64_MAX);
        assert_in_range(b->frozen[i][UNTIL_PAST_DEADLINE], 1, INT64_MAX);
    }
}

static void judge_strikes(const struct bank *b)
{
    for (int i = 0; i < STRIKES; i++) {
        print_message("struck: %s: %d\n", strikes[i].what, b->strikes[i]);
        assert_in_range(b->strikes[i], b->strikes_least, INT64_MAX);
    }
}

static void test_transfers(void **state)
{
    struct bank b = {.fx = *state,
                     .turns = load_is_long() ? 50 : 20,
                     .each = load_is_long() ? 50 : 4,
                     .server_strikes_max = load_is_long() ? 6 : 2,
                     .strikes_least = load_is_long() ? 3 : 1};
    const char *seed = getenv("TEST_SEED");
    b.seed = seed ? (unsigned)strtoul(seed, NULL, 10) : (unsigned)getpid();
    print_message("TEST_SEED=%u\n", b.seed);
    find_handlers(&b);
    open_bank(&b);
    set_kinds(&b);
    plan_strikes(&b);
    b.cleaner = TENON(b.fx, "cleaner");
    for (int i = 0; i < WORKERS; i++) {
        b.workers[i] = start_worker(&b);
    }
    int64_t n = 0;
    for (int i = 0; i < b.turns; i++) {
        int64_t before = n;
        n = enqueue_some(&b, i);
        await_ledger(&b, before + b.to_freeze + 1, END_MS); /* and the others are under way */
        strike(&b, i);
    }
    judge(&b, n + b.to_freeze);
    judge_languages(&b);
    judge_strikes(&b);
    for (int i = 0; i < WORKERS; i++) {
        process_await_line(b.workers[i], "event=worker_ready", LIMIT_MS);
        end_well(b.workers[i]);
    }
}

static int start_servers(void **state)
{
    (void)state;
    server_use(POSTGRES);
    server_open("postgres");
    server_use(RABBITMQ);
    server_open("rabbitmq");
    return 0;
}

static int close_servers(void **state)
{
    (void)state;
    server_close();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {WITH_SERVERS(test_transfers)};
    return cmocka_run_group_tests(tests, start_servers, close_servers);
}
