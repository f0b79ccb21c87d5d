/* A sign-up service in C, with libtenon: each sign-up inserts a user and enqueues the task that
 * welcomes them, in one transaction.
 *
 *     signup FIRST LAST PER_SECOND LOG
 *
 * Every tenth person thinks better of it: the transaction is rolled back, with user and task.
 * LOG gets one line per sign-up, right after its transaction ended; the demo counts by it:
 *     committed|rolled_back NUMBER TASK CLOCK_REALTIME_IN_NANOSECONDS
 *
 * For the demo: after SIGUSR1 the program stops itself between the next commit and its publishing,
 * the worst moment to be killed. */
#include <tenon/tenon.h>

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *const names[] = {"Ann Archer", "Zoë Müller", "Bo Li", "Åsa Öberg",
                                    "Joan \"J\" O'Neil"};

static volatile sig_atomic_t stop_wanted;

static void on_usr1(int signal)
{
    (void)signal;
    stop_wanted = 1;
}

static int64_t clock_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void wait_until(int64_t at_ns)
{
    const struct timespec at = {.tv_sec = at_ns / 1000000000, .tv_nsec = at_ns % 1000000000};
    while (clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &at, NULL) == EINTR) {
    }
}

static void fail(const char *what, const char *why)
{
    (void)fprintf(stderr, "signup: %s: %s\n", what, why);
    exit(1);
}

static void run(PGconn *conn, const char *sql)
{
    PGresult *result = PQexec(conn, sql);
    if (PQresultStatus(result) != PGRES_COMMAND_OK) {
        fail(sql, PQerrorMessage(conn));
    }
    PQclear(result);
}

static void insert_user(PGconn *conn, const char *email, const char *name, char id[24])
{
    const char *const params[] = {email, name};
    PGresult *result =
        PQexecParams(conn, "INSERT INTO app.users (email, name) VALUES ($1, $2) RETURNING id", 2,
                     NULL, params, NULL, NULL, 0);
    if (PQresultStatus(result) != PGRES_TUPLES_OK) {
        fail("could not insert the user", PQerrorMessage(conn));
    }
    (void)snprintf(id, 24, "%s", PQgetvalue(result, 0, 0));
    PQclear(result);
}

static int64_t enqueue_welcome(tenon *t, PGconn *conn, const char *user, const char *email,
                               const char *name)
{
    json_t *mail = json_pack("{s:I, s:s, s:s}", "user", (json_int_t)strtoll(user, NULL, 10),
                             "email", email, "name", name);
    char *payload = json_dumps(mail, JSON_COMPACT);
    tenon_task task = TENON_TASK_INIT;
    int64_t id;
    task.kind = "welcome_mail";
    task.payload = payload;
    if (tenon_enqueue(t, conn, &task, &id) != TENON_OK) {
        fail("could not enqueue", tenon_errmsg());
    }
    free(payload);
    json_decref(mail);
    return id;
}

static void note(int log, const char *what, long number, int64_t task, int64_t at_ns)
{
    if (dprintf(log, "%s %ld %lld %lld\n", what, number, (long long)task, (long long)at_ns) < 0) {
        fail("could not write the log", strerror(errno));
    }
}

static void sign_up(tenon *t, PGconn *conn, long number, int log)
{
    const char *name = names[(size_t)number % (sizeof names / sizeof *names)];
    char email[64], user[24];
    (void)snprintf(email, sizeof email, "user%ld@example.org", number);
    run(conn, "BEGIN");
    insert_user(conn, email, name, user);
    int64_t task = enqueue_welcome(t, conn, user, email, name);
    if (number % 10 == 0) {
        (void)tenon_rollback(t, conn);
        note(log, "rolled_back", number, task, clock_ns());
        return;
    }
    run(conn, "COMMIT"); /* tenon_commit() does this and what follows in one call */
    note(log, "committed", number, task, clock_ns());
    if (stop_wanted) {
        (void)raise(SIGSTOP);
    }
    tenon_committed(t, conn);
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        (void)fputs("usage: signup FIRST LAST PER_SECOND LOG\n", stderr);
        return 64;
    }
    long first = strtol(argv[1], NULL, 10), last = strtol(argv[2], NULL, 10);
    double pause_ns = 1e9 / strtod(argv[3], NULL);
    int log = open(argv[4], O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    (void)signal(SIGUSR1, on_usr1);

    PGconn *conn = PQconnectdb(getenv("DATABASE_URL"));
    if (PQstatus(conn) != CONNECTION_OK) {
        fail("could not connect", PQerrorMessage(conn));
    }
    tenon *t = tenon_new(NULL);
    if (!t || log < 0) {
        fail("could not start", t ? strerror(errno) : tenon_errmsg());
    }
    int64_t start_ns = clock_ns();
    for (long number = first; number <= last; number++) {
        sign_up(t, conn, number, log);
        wait_until(start_ns + (int64_t)((double)(number - first + 1) * pause_ns));
    }
    tenon_free(t);
    PQfinish(conn);
    return 0;
}
