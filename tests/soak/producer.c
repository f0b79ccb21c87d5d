/* The producer with libtenon of script/soak and script/attack: producer LOG FIRST SEED RATE [plain]
 *
 * Transactions that insert a row of soak.placed and enqueue its task, some of them rolled back. Its
 * log says of each what it knows; soak/producer.py writes the same:
 *
 *   begin NUMBER
 *   committed|rolled_back|failed|unknown NUMBER TASK NANOSECONDS
 *   cancelling TASK          cancelled TASK 0|1 NANOSECONDS
 *
 * With `plain` all tasks are alike and short, none is cancelled, and it keeps to its rate. */
#include <tenon/tenon.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int log_fd, plain;
static volatile sig_atomic_t stop;

static void on_term(int sig)
{
    (void)sig;
    stop = 1;
}

static long long now_ns(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_REALTIME, &ts);
    return (long long)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static void put(const char *what, long long number, long long task)
{
    char line[128];
    int n = snprintf(line, sizeof line, "%s %lld %lld %lld\n", what, number, task, now_ns());
    if (write(log_fd, line, (size_t)n) != n) {
        abort();
    }
}

static int chance(int percent)
{
    return random() % 100 < percent;
}

static int execute(PGconn *conn, const char *text, int *ret_true)
{
    PGresult *result = PQexec(conn, text);
    ExecStatusType status = PQresultStatus(result);
    if (ret_true && status == PGRES_TUPLES_OK && PQntuples(result) == 1) {
        *ret_true = *PQgetvalue(result, 0, 0) == 't';
    }
    PQclear(result);
    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
}

/* Make a task up; its strings live until the next call. */
static void make_task(tenon_task *task, long long number, int *ret_fails)
{
    static char payload[64], key[32];
    int fails = !plain && chance(1);
    *task = (tenon_task)TENON_TASK_INIT;
    if (plain) {
        (void)snprintf(payload, sizeof payload, "{\"ms\": %ld}", 1 + random() % 5);
        task->kind = "work";
        task->payload = payload;
        *ret_fails = 0;
        return;
    }
    (void)snprintf(payload, sizeof payload, "{\"ms\": %ld, \"number\": %lld%s}", 5 + random() % 30,
                   number, fails ? ", \"fail\": true" : "");
    (void)snprintf(key, sizeof key, "key-%ld", random() % 20);
    task->kind = chance(10) ? "solo" : "work";
    task->payload = payload;
    task->priority = (int)(random() % 10);
    task->max_attempts = fails ? 2 : 0;
    task->delay_ms = chance(10) ? 1 + random() % 3000 : 0;
    task->unique_key = !fails && chance(5) ? key : NULL;
    *ret_fails = fails;
}

static int place(tenon *t, PGconn *conn, long long number, int64_t *ret_id)
{
    tenon_task task;
    char text[160];
    int fails;
    make_task(&task, number, &fails);
    if (!execute(conn, "BEGIN", NULL) || tenon_enqueue(t, conn, &task, ret_id) != TENON_OK) {
        return 0;
    }
    (void)snprintf(text, sizeof text, "INSERT INTO soak.placed VALUES (%lld, %lld, %s)", number,
                   (long long)*ret_id, fails ? "true" : "false");
    return execute(conn, text, NULL);
}

static void cancel(PGconn *conn, long long task)
{
    char text[80];
    int was = 0;
    put("cancelling", task, 0);
    (void)snprintf(text, sizeof text, "SELECT tenon.cancel(%lld)", task);
    if (execute(conn, text, &was)) {
        put("cancelled", task, was);
    }
}

/* False: the connection is of no use any more. */
static int transact(tenon *t, PGconn *conn, long long number)
{
    int64_t id = 0;
    put("begin", number, 0);
    if (!place(t, conn, number, &id)) {
        (void)tenon_rollback(t, conn);
        put("failed", number, id);
    } else if (chance(10)) {
        put(tenon_rollback(t, conn) == TENON_OK ? "rolled_back" : "failed", number, id);
    } else {
        int code = tenon_commit(t, conn);
        put(code == TENON_OK        ? "committed"
            : code == TENON_UNKNOWN ? "unknown"
                                    : "failed",
            number, id);
        if (code == TENON_OK && !plain && chance(3)) {
            cancel(conn, id);
        }
    }
    return PQstatus(conn) == CONNECTION_OK;
}

/* After a pause of this length on the average; or, if plain, so long after the last one was due. */
static void await_next(long pause_us)
{
    static long long due_ns;
    long long pause_ns = 1000LL * (pause_us / 2 + random() % (pause_us + 1)), late_ns = 1000000000;
    due_ns = plain && now_ns() - due_ns < late_ns ? due_ns + pause_ns : now_ns() + pause_ns;
    long long left_ns = due_ns - now_ns();
    if (left_ns > 0) {
        (void)usleep((useconds_t)(left_ns / 1000));
    }
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        (void)fputs("usage: producer LOG FIRST SEED RATE [plain]\n", stderr);
        return 2;
    }
    plain = argc > 5;
    log_fd = open(argv[1], O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    long long number = strtoll(argv[2], NULL, 10);
    srandom((unsigned)strtoul(argv[3], NULL, 10));
    long pause_us = 1000000 / strtol(argv[4], NULL, 10);
    (void)signal(SIGTERM, on_term);
    (void)signal(SIGPIPE, SIG_IGN);
    tenon *t = tenon_new(NULL);
    PGconn *conn = NULL;
    while (!stop) {
        if (!conn) {
            conn = PQconnectdb(getenv("DATABASE_URL"));
        }
        if (PQstatus(conn) != CONNECTION_OK || !transact(t, conn, number++)) {
            tenon_forget(t, conn);
            PQfinish(conn);
            conn = NULL;
            (void)usleep(200000);
        }
        await_next(pause_us);
    }
    tenon_free(t);
    PQfinish(conn);
    return 0;
}
