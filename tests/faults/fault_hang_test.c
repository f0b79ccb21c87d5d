/* label: fault */
/* timeout: 150 */
/* only: all */
/* Connections that hang: nothing comes, nothing goes, and nobody says so. In front of either
 * server, either way, half open, from the start, and while a worker stops. All at once, as most
 * of it is waiting: each limit is one of a header's, counted from the moment in which the
 * connections began to hang to the time in the log. */
#include "tests/support/subject.h"

#include "core/base/now.h"

#include <poll.h>
#include <signal.h>
#include <time.h>

enum {
    DATABASE_MS = 26000, /* a round without an answer is given up after 20 s */
    PRESENCE_MS = 28000, /* the same for a ping, of which there is one every 5 s */
    LOGIN_MS = 32000,    /* what hangs after the login is given up after 5 or 20 s */
    BROKER_MS = 36000,   /* a peer without a heartbeat is given up after 20 to 30 s */
    STOP_MS = 19000,     /* drain limit 2 s, telling 10 s, closing 1.25 + 1 + 2.25 s */
};

enum { TO_SERVER, TO_CLIENT, HALF_OPEN, WAYS };
enum { LEADER = TO_CLIENT }; /* which of the cleaners leads at the beginning */
enum { MID_LOGIN, IN_SESSION, IN_SCHEMA, SILENT_DATABASE, SILENT_BROKER, STARTS };

struct all {
    struct subject database[WAYS], broker[WAYS], start[STARTS], stop, cleaner[WAYS];
    int64_t tasks[WAYS], start_ms, spawn_ms;
};

/* When the log's first line with this text was written, on CLOCK_REALTIME. */
static int64_t logged_at_ms(const struct process *p, const char *text)
{
    struct tm tm = {0};
    char *log = file_text(p->log), *rest = log, *line;
    while ((line = strsep(&rest, "\n")) && !strstr(line, text)) {
    }
    char *dot = line ? strptime(line, "ts=%Y-%m-%dT%H:%M:%S", &tm) : NULL;
    if (!dot) {
        fail_msg("no line with \"%s\" and its time", text);
    }
    int64_t ms = timegm(&tm) * INT64_C(1000) + strtol(dot + 1, NULL, 10);
    free(log);
    return ms;
}

static int64_t wall_ms(void)
{
    return load_now_ns() / 1000000;
}

/* A first line with this text comes within limit_ms of start_ms, by its own time. ret: after ms */
static int64_t await_told(struct subject *s, const char *text, int64_t start_ms, int64_t limit_ms)
{
    int64_t left_ms = start_ms + limit_ms - wall_ms();
    process_await_line(s->process, text, left_ms > 0 ? left_ms : 0);
    int64_t after_ms = logged_at_ms(s->process, text) - start_ms;
    print_message("%s %s after %lld ms\n", s->queue, text, (long long)after_ms);
    assert_in_range(after_ms, 0, patience_loaded_ms(limit_ms));
    return after_ms;
}

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
    a->spawn_ms = wall_ms();
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
    struct subject *no_database = &a->start[SILENT_DATABASE];
    struct subject *no_broker = &a->start[SILENT_BROKER];
    (void)await_told(no_database, "event=waiting_for_database", a->spawn_ms, LOGIN_MS);
    (void)await_told(no_broker, "event=broker_down", a->spawn_ms, LOGIN_MS);
    /* ready is who can be woken: no sooner than its broker_up */
    assert_int_equal(process_lines(no_broker->process, "event=worker_ready"), 0);
    proxy_door(&no_database->database, PROXY_SERVES);
    proxy_door(&no_broker->broker, PROXY_SERVES);
    for (int i = 0; i < STARTS; i++) {
        if (i == SILENT_DATABASE || i == SILENT_BROKER) {
            process_await_line(a->start[i].process, "event=worker_ready", BACK_MS);
        } else {
            (void)await_told(&a->start[i], "event=worker_ready", a->spawn_ms, LOGIN_MS);
        }
        process_await_line(a->start[i].process, "event=broker_up", BACK_MS);
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
    a->start_ms = wall_ms();
    for (int i = 0; i < WAYS; i++) {
        hang(&a->database[i].database, i, true);
        hang(&a->cleaner[i].database, i, true);
    }
}

static void end_database(struct fixture *fx, struct all *a)
{
    for (int i = 0; i < WAYS; i++) {
        (void)await_told(&a->database[i], "event=round_failed", a->start_ms, DATABASE_MS);
        (void)await_told(&a->cleaner[i], "event=database_down", a->start_ms, DATABASE_MS);
        (void)await_told(&a->database[i], "event=presence_lost", a->start_ms, PRESENCE_MS);
        hang(&a->database[i].database, i, false);
        hang(&a->cleaner[i].database, i, false);
    }
    for (int i = 0; i < WAYS; i++) {
        await_task(fx, a->tasks[i], BACK_MS);
        subject_run(fx, &a->database[i], BACK_MS);
        subject_await_lines(&a->database[i], "event=presence_held", 2, BACK_MS);
        process_await_line(a->cleaner[i].process, "event=database_up", BACK_MS);
    }
}

/* --- the broker, in the middle: connected, and no message comes though there is work --- */

static void begin_broker(struct fixture *fx, struct all *a)
{
    for (int i = 0; i < WAYS; i++) {
        hang(&a->broker[i].broker, i, true);
    }
    hang(&a->cleaner[LEADER].broker, LEADER, true);
    for (int i = 0; i < WAYS; i++) {
        subject_run(fx, &a->broker[i], POLLED_MS);
        produce(fx, a->broker[i].broker.url, a->broker[i].queue);
    }
}

static void end_broker(struct all *a)
{
    int64_t cleaner_ms = BROKER_MS + BACK_MS; /* it hung in its session as well */
    for (int i = 0; i < WAYS; i++) {
        (void)await_told(&a->broker[i], "event=broker_down", a->start_ms, BROKER_MS);
        hang(&a->broker[i].broker, i, false);
    }
    (void)await_told(&a->cleaner[LEADER], "event=broker_down", a->start_ms, cleaner_ms);
    hang(&a->cleaner[LEADER].broker, LEADER, false);
    for (int i = 0; i < WAYS; i++) {
        subject_await_lines(&a->broker[i], "event=broker_up", 2, BACK_MS);
    }
}

/* Whoever leads now: what is enqueued without a wake-up is published. The queue has no worker. */
static void await_leader(struct fixture *fx, struct all *a)
{
    const char *queue = a->cleaner[0].queue, *key = a->cleaner[0].key;
    struct broker *b = broker_open(fx->amqp_url);
    int64_t deadline_ms = patience_end_ms(BACK_MS);
    test_sql(fx, "SELECT tenon.enqueue('a', queue => '%s')", queue);
    while (broker_depth(b, key) < 1) {
        if (now_ms() > deadline_ms) {
            fail_msg("no cleaner leads and publishes");
        }
        (void)poll(NULL, 0, 5);
    }
    broker_close(b);
}

/* --- SIGTERM while everything hangs --- */

static void end_stop(struct all *a)
{
    int64_t start_ms = now_ms();
    process_signal(a->stop.process, SIGTERM);
    assert_int_equal(process_wait(a->stop.process, STOP_MS), 0);
    print_message("with everything hanging, a worker ends within %lld ms\n",
                  (long long)(now_ms() - start_ms));
    subject_close(&a->stop);
}

static void start_cleaners(struct fixture *fx, struct all *a)
{
    for (int i = 0; i < WAYS; i++) {
        subject_open(fx, &a->cleaner[i]);
    }
    subject_clean(fx, &a->cleaner[LEADER]);
    process_await_line(a->cleaner[LEADER].process, "event=leader", START_MS);
    process_await_line(a->cleaner[LEADER].process, "event=broker_up", START_MS);
    for (int i = 0; i < WAYS; i++) {
        if (i != LEADER) {
            subject_clean(fx, &a->cleaner[i]);
            process_await_line(a->cleaner[i].process, "event=cleaner_started", START_MS);
        }
    }
}

/* The one that ended while everything hung left its row, and those that start may leave one that
 * they registered for nothing: as soon as a cleaner has been there for 15 s, these are declared
 * dead. */
static void assert_they_live(struct fixture *fx, const struct subject *s, int n)
{
    for (int i = 0; i < n; i++) {
        assert_int_equal(test_sql_int(fx,
                                      "SELECT count(*) FROM tenon.worker WHERE state = 'dead' "
                                      "AND '%s' = ANY (queues)",
                                      s[i].queue),
                         0);
    }
}

static void test_connections_that_hang(void **state)
{
    struct fixture *fx = *state;
    struct all *a = calloc(1, sizeof *a);
    subjects_up(fx, a->database, WAYS);
    subjects_up(fx, a->broker, WAYS);
    subjects_up(fx, &a->stop, 1);
    start_cleaners(fx, a);
    begin_starts(fx, a);
    hang(&a->stop.database, TO_CLIENT, true);
    hang(&a->stop.broker, TO_CLIENT, true);
    begin_database(fx, a);
    begin_broker(fx, a);
    end_stop(a);
    end_database(fx, a);
    end_broker(a);
    end_starts(fx, a);
    assert_they_live(fx, a->database, WAYS);
    assert_they_live(fx, a->broker, WAYS);
    test_await(fx, START_MS, "SELECT count(*) = 0, count(*) FROM tenon.task");
    assert_all_ran_once(fx);
    await_leader(fx, a);
    subjects_down(a->database, WAYS);
    subjects_down(a->broker, WAYS);
    subjects_down(a->start, STARTS);
    subjects_down(a->cleaner, WAYS);
    free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {WITH_SERVERS(test_connections_that_hang)};
    return RUN_GROUP(tests);
}
