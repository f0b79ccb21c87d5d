/* label: fault */
/* timeout: 150 */
/* Connections that hang: nothing comes, nothing goes, and nobody says so. In front of either
 * server, either way, half open, from the start, and while a worker stops. All at once, as most
 * of it is waiting: each limit is one of DESIGN.md's or of a header's. */
#include "tests/support/subject.h"

#include "core/now.h"

#include <poll.h>
#include <signal.h>

enum {
    DATABASE_MS = 26000, /* an exchange without an answer is given up after 20 s */
    LOGIN_MS = 32000,    /* what hangs after the login is given up after 5 or 20 s */
    BROKER_MS = 36000,   /* a peer without a heartbeat is given up after 20 to 30 s */
    STOP_MS = 19000,     /* drain limit 2 s, telling 10 s, closing 1.25 + 1 + 2.25 s */
};

enum { TO_SERVER, TO_CLIENT, HALF_OPEN, WAYS };
enum { MID_LOGIN, IN_SESSION, IN_SCHEMA, SILENT_DATABASE, SILENT_BROKER, STARTS };

struct all {
    struct subject database[WAYS], broker[WAYS], start[STARTS], stop, cleaner;
    int64_t tasks[WAYS], start_ms;
};

static void hang(struct proxy *p, int how, bool hangs)
{
    if (how == HALF_OPEN && hangs) {
        proxy_break(p, PROXY_HALF_OPEN);
    } else if (how != HALF_OPEN) {
        proxy_stall(p, how == TO_SERVER ? PROXY_TO_SERVER : PROXY_TO_CLIENT, hangs);
    }
}

/* --- from the start: nobody answers, or stops answering after so many bytes --- */

/* How many bytes the server sends until somebody is logged in and no more. */
static int64_t login_bytes(struct fixture *fx)
{
    struct proxy p;
    proxy_open(&p, fx->database_url);
    PGconn *conn = sql_connect(p.url);
    int64_t bytes = proxy_bytes(&p, PROXY_TO_CLIENT);
    PQfinish(conn);
    proxy_close(&p);
    return bytes;
}

static void begin_starts(struct fixture *fx, struct all *a)
{
    int64_t login = login_bytes(fx);
    const int64_t bytes[] = {
        [MID_LOGIN] = 100, [IN_SESSION] = login + 60, [IN_SCHEMA] = login + 300};
    for (int i = 0; i < STARTS; i++) {
        struct subject *s = &a->start[i];
        subject_open(fx, s);
        if (i <= IN_SCHEMA) {
            proxy_hang_next(&s->database, PROXY_TO_CLIENT, bytes[i], 1);
            proxy_hang_next(&s->broker, PROXY_TO_CLIENT, bytes[i], 1);
        }
        proxy_door(&s->database, i == SILENT_DATABASE ? PROXY_SILENT : PROXY_SERVES);
        proxy_door(&s->broker, i == SILENT_BROKER ? PROXY_SILENT : PROXY_SERVES);
        subject_work(fx, s);
    }
}

static void end_starts(struct fixture *fx, struct all *a)
{
    process_await_line(a->start[SILENT_DATABASE].process, "event=waiting_for_database", LOGIN_MS);
    proxy_door(&a->start[SILENT_DATABASE].database, PROXY_SERVES);
    for (int i = 0; i < STARTS; i++) {
        process_await_line(a->start[i].process, "event=worker_ready", LOGIN_MS);
        subject_run(fx, &a->start[i], START_MS);
    }
}

/* --- the database, in the middle: a task that runs then has its outcome told later --- */

static void begin_database(struct fixture *fx, struct all *a)
{
    for (int i = 0; i < WAYS; i++) {
        a->tasks[i] = subject_give(fx, &a->database[i], "{\"do\": \"sleep\", \"ms\": 3000}");
    }
    load_await_running(fx, WAYS);
    for (int i = 0; i < WAYS; i++) {
        hang(&a->database[i].database, i, true);
    }
    hang(&a->cleaner.database, TO_CLIENT, true);
}

static void end_database(struct fixture *fx, struct all *a)
{
    for (int i = 0; i < WAYS; i++) {
        process_await_line(a->database[i].process, "event=exchange_failed", DATABASE_MS);
        hang(&a->database[i].database, i, false);
    }
    process_await_line(a->cleaner.process, "event=database_down", DATABASE_MS);
    hang(&a->cleaner.database, TO_CLIENT, false);
    print_message("a database that hangs is given up within %lld ms\n",
                  (long long)(now_ms() - a->start_ms));
    for (int i = 0; i < WAYS; i++) {
        await_task(fx, a->tasks[i], BACK_MS);
        subject_run(fx, &a->database[i], BACK_MS);
    }
    process_await_line(a->cleaner.process, "event=database_up", BACK_MS);
    subject_await_lines(&a->cleaner, "event=leader", 3, BACK_MS); /* leader, leader_lost, leader */
}

/* --- the broker, in the middle: connected, and no message comes though there is work --- */

static void begin_broker(struct fixture *fx, struct all *a)
{
    for (int i = 0; i < WAYS; i++) {
        hang(&a->broker[i].broker, i, true);
    }
    for (int i = 0; i < WAYS; i++) {
        subject_run(fx, &a->broker[i], LOOK_MS);
        produce(fx, a->broker[i].broker.url, a->broker[i].queue);
    }
}

static void end_broker(struct all *a)
{
    for (int i = 0; i < WAYS; i++) {
        process_await_line(a->broker[i].process, "event=broker_down", BROKER_MS);
        hang(&a->broker[i].broker, i, false);
    }
    print_message("a broker that hangs is given up within %lld ms\n",
                  (long long)(now_ms() - a->start_ms));
    for (int i = 0; i < WAYS; i++) {
        subject_await_lines(&a->broker[i], "event=broker_up", 2, BACK_MS);
    }
}

/* --- SIGTERM while everything hangs --- */

static void end_stop(struct all *a)
{
    int64_t start_ms = now_ms();
    process_signal(a->stop.process, SIGTERM);
    (void)process_wait(a->stop.process, STOP_MS);
    print_message("with everything hanging, a worker ends within %lld ms\n",
                  (long long)(now_ms() - start_ms));
    subject_close(&a->stop);
}

static void test_connections_that_hang(void **state)
{
    struct fixture *fx = *state;
    struct all *a = calloc(1, sizeof *a);
    subjects_up(fx, a->database, WAYS);
    subjects_up(fx, a->broker, WAYS);
    subjects_up(fx, &a->stop, 1);
    subject_open(fx, &a->cleaner);
    subject_clean(fx, &a->cleaner);
    process_await_line(a->cleaner.process, "event=leader", START_MS);
    begin_starts(fx, a);
    a->start_ms = now_ms();
    hang(&a->stop.database, TO_CLIENT, true);
    hang(&a->stop.broker, TO_CLIENT, true);
    begin_database(fx, a);
    begin_broker(fx, a);
    end_stop(a);
    end_database(fx, a);
    end_broker(a);
    end_starts(fx, a);
    assert_nobody_died(fx);
    assert_all_ran_once(fx);
    subjects_down(a->database, WAYS);
    subjects_down(a->broker, WAYS);
    subjects_down(a->start, STARTS);
    end_well(a->cleaner.process);
    subject_close(&a->cleaner);
    free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {WITH_SERVERS(test_connections_that_hang)};
    return RUN_GROUP(tests);
}
