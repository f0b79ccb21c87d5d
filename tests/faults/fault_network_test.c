/* label: fault */
/* timeout: 200 */
/* long: 1100 */
/* only: all */
/* What becomes of tasks when the network in front of either server cuts, resets, refuses, or is
 * slow. With TEST_LONG, every 25th of a connection's first 3,000 bytes is a place to cut at, and
 * every 20th of those of three tasks' lives. */
#include "tests/support/subject.h"

#include "core/base/now.h"

#include <poll.h>
#include <signal.h>

enum {
    CUT_BYTES_MAX = 3000,
    BROKER_BYTES = 600,    /* at least so many go either way until a consumer or publisher works */
    LIFE_BYTES_MAX = 2000, /* of three tasks */
    CUT_LIMIT_MS = 2000,
    HELD_MS = 4000,
    STARVED_MS = 75000, /* two checks, 30 to 33 s apart, see CONSUMER_WATCH_MS; and a task's time */
};

/* --- cut at byte N of a connection --- */

enum { DOORS = 5, MET_PERCENT_MIN = 90 };

/* Rounds, and those in which a connection really came to its limit. */
struct cuts {
    int rounds, met[DOORS];
};

static void count_cuts(struct cuts *cuts, const struct proxy *const doors[DOORS])
{
    int64_t deadline_ms = patience_end_ms(CUT_LIMIT_MS);
    cuts->rounds++;
    for (int i = 0; i < DOORS; i++) {
        while (proxy_cut(doors[i]) == 0 && now_ms() < deadline_ms) {
            (void)poll(NULL, 0, 1);
        }
        cuts->met[i] += proxy_cut(doors[i]) > 0;
    }
}

static void cut_at(struct fixture *fx, struct cuts *cuts, enum proxy_way way, int64_t bytes)
{
    struct subject worker, cleaner;
    struct proxy producer;
    int64_t broker_bytes = bytes % BROKER_BYTES;
    subject_open(fx, &worker);
    subject_open(fx, &cleaner);
    proxy_open(&producer, fx->amqp_url);
    proxy_cut_next(&worker.database, way, bytes, 2); /* presence and rounds */
    proxy_cut_next(&worker.broker, way, broker_bytes, 1);
    proxy_cut_next(&cleaner.database, way, bytes, 2);
    proxy_cut_next(&cleaner.broker, way, broker_bytes, 1);
    proxy_cut_next(&producer, way, broker_bytes, 1);
    subject_work(fx, &worker);
    subject_clean(fx, &cleaner);
    produce(fx, producer.url, worker.queue);
    for (int i = 0; i < 3; i++) {
        (void)subject_give(fx, &worker, "{}");
    }
    test_await(fx, START_MS, "SELECT count(*) = 0, count(*) FROM tenon.task");
    process_await_line(cleaner.process, "event=leader", START_MS);
    test_await(fx, START_MS,
               "SELECT count(*) = 1, count(*) FROM pg_stat_activity WHERE datname = "
               "current_database() AND application_name = 'tenon worker presence'");
    count_cuts(cuts, (const struct proxy *const[]){&worker.database, &worker.broker,
                                                   &cleaner.database, &cleaner.broker, &producer});
    end_well(worker.process);
    end_well(cleaner.process);
    subject_close(&worker);
    subject_close(&cleaner);
    proxy_close(&producer);
}

static void test_connections_cut_at_any_byte(void **state)
{
    struct fixture *fx = *state;
    static const int64_t bytes[] = {0,   1,   8,    30,   100,  250,  300,  350, 400,
                                    500, 700, 1000, 1300, 1600, 2000, 2400, 2900};
    enum { N = sizeof bytes / sizeof *bytes };
    struct cuts cuts = {0};
    for (int i = 0; i < N && !load_is_long(); i++) {
        cut_at(fx, &cuts, i % 2 ? PROXY_TO_CLIENT : PROXY_TO_SERVER, bytes[i]);
    }
    for (int64_t n = 0; n <= CUT_BYTES_MAX && load_is_long(); n += 25) {
        cut_at(fx, &cuts, PROXY_TO_CLIENT, n);
        cut_at(fx, &cuts, PROXY_TO_SERVER, n);
    }
    for (int i = 0; i < DOORS; i++) {
        print_message("door %d: %d of %d connections were cut\n", i, cuts.met[i], cuts.rounds);
        assert_in_range(cuts.met[i], cuts.rounds * MET_PERCENT_MIN / 100, cuts.rounds);
    }
    assert_all_ran_once(fx);
}

/* --- cut at byte N of a life: the sessions are set up and have prepared all they use --- */

static void live(struct fixture *fx, const struct subject *s)
{
    produce(fx, fx->amqp_url, s->queue);
    test_await(fx, START_MS, "SELECT count(*) = 0, count(*) FROM tenon.task");
}

/* Tasks until the cut has come; those before it show that the session is there. */
static void cut_life_at(struct fixture *fx, struct subject *s, enum proxy_way way, int64_t bytes)
{
    live(fx, s);
    int before = proxy_cut(&s->database);
    int64_t deadline_ms = patience_end_ms(START_MS);
    proxy_cut_after(&s->database, way, bytes);
    do {
        live(fx, s);
        assert_in_range(now_ms(), 0, deadline_ms);
    } while (proxy_cut(&s->database) == before);
}

static void test_lives_cut_at_any_byte(void **state)
{
    struct fixture *fx = *state;
    struct subject s;
    int rounds = 0;
    subjects_up(fx, &s, 1);
    int64_t step = load_is_long() ? 20 : 200;
    for (int64_t n = 0; n <= LIFE_BYTES_MAX; n += step) {
        cut_life_at(fx, &s, PROXY_TO_SERVER, n);
        cut_life_at(fx, &s, PROXY_TO_CLIENT, n + step / 2);
        rounds += 2;
    }
    int failed = (int)process_lines(s.process, "event=round_failed");
    print_message("%d rounds, %d connections were cut, %d rounds failed\n", rounds,
                  proxy_cut(&s.database), failed);
    assert_in_range(failed, rounds * MET_PERCENT_MIN / 100, 2 * rounds);
    assert_nobody_died(fx);
    assert_all_ran_once(fx);
    subjects_down(&s, 1);
}

/* --- one round is held --- */

/* Two tasks that run: one ends by itself, the other one must be ended. ret: the other's id */
static int64_t give_both(struct fixture *fx, const struct subject *s)
{
    int64_t id = test_sql_int(
        fx,
        "SELECT max(tenon.enqueue('a', p, queue => '%s', timeout => '1 second')) FROM unnest("
        "ARRAY['{\"do\": \"sleep\", \"ms\": 300}', '{\"do\": \"sleep\", \"ms\": 60000}']"
        "::jsonb[]) p",
        s->queue);
    load_await_running(fx, 2);
    return id;
}

static pid_t child_of(struct fixture *fx, int64_t id)
{
    struct journal j;
    pid_t pid = 0;
    journal_read(fx, &j);
    for (size_t i = 0; i < j.n; i++) {
        pid = j.runs[i].id == id ? j.runs[i].pid : pid;
    }
    journal_clear(&j);
    assert_true(pid > 0);
    return pid;
}

static void await_sent(const struct proxy *p, int64_t bytes, int64_t limit_ms)
{
    int64_t deadline_ms = patience_end_ms(limit_ms);
    while (proxy_bytes(p, PROXY_TO_SERVER) <= bytes) {
        assert_in_range(now_ms(), 0, deadline_ms);
        (void)poll(NULL, 0, 1);
    }
}

static void test_children_are_minded_while_a_round_is_held(void **state)
{
    struct fixture *fx = *state;
    struct subject s;
    subject_open(fx, &s);
    s.slots = 2;
    subject_work(fx, &s);
    process_await_line(s.process, "event=worker_ready", START_MS);
    int64_t id = give_both(fx, &s);
    pid_t child = child_of(fx, id);
    proxy_stall(&s.database, PROXY_TO_CLIENT, true);
    int64_t start_ms = now_ms(), sent = proxy_bytes(&s.database, PROXY_TO_SERVER);
    int64_t got = proxy_bytes(&s.database, PROXY_TO_CLIENT);
    journal_await_ended(fx, 1, HELD_MS);
    await_sent(&s.database, sent, HELD_MS); /* the round that says so is on its way */
    assert_int_equal(process_lines(s.process, "event=task_timed_out"), 0);
    process_await_line(s.process, "event=task_timed_out", HELD_MS);
    while (kill(child, 0) == 0) {
        assert_took(start_ms, HELD_MS);
        (void)poll(NULL, 0, 5);
    }
    (void)poll(NULL, 0, (int)(start_ms + HELD_MS - now_ms())); /* the time that the fault lasts */
    assert_int_equal(proxy_bytes(&s.database, PROXY_TO_CLIENT), got);
    proxy_stall(&s.database, PROXY_TO_CLIENT, false);
    test_await(fx, POLLED_MS,
               "SELECT count(*) = 1 AND min(failures) = 1, count(*), min(failures),"
               " min(last_error) FROM tenon.task WHERE id IN (%lld, %lld - 1)",
               (long long)id, (long long)id);
    await_task(fx, id - 1, POLLED_MS);
    assert_int_equal(process_lines(s.process, "event=round_failed"), 0);
    subjects_down(&s, 1);
}

/* --- connecting again --- */

/* How often somebody knocked in the first and in the last third of the time. */
struct knocks {
    int first, last;
};

static void count_knocks(struct proxy *const *p, struct knocks *k, int n, int64_t ms)
{
    int at_first[16], at_second[16], at_start[16];
    for (int i = 0; i < n; i++) {
        at_start[i] = proxy_accepted(p[i]);
        proxy_door(p[i], PROXY_RESETS);
        proxy_break(p[i], PROXY_RESET);
    }
    (void)poll(NULL, 0, (int)ms / 3);
    for (int i = 0; i < n; i++) {
        at_first[i] = proxy_accepted(p[i]);
    }
    (void)poll(NULL, 0, (int)ms / 3);
    for (int i = 0; i < n; i++) {
        at_second[i] = proxy_accepted(p[i]);
    }
    (void)poll(NULL, 0, (int)ms / 3);
    for (int i = 0; i < n; i++) {
        k[i].first = at_first[i] - at_start[i];
        k[i].last = proxy_accepted(p[i]) - at_second[i];
        proxy_door(p[i], PROXY_SERVES);
    }
}

static void test_reconnects_back_off_and_never_give_up(void **state)
{
    struct fixture *fx = *state;
    struct subject worker, cleaner;
    struct knocks k[4];
    subjects_up(fx, &worker, 1);
    subject_open(fx, &cleaner);
    subject_clean(fx, &cleaner);
    process_await_line(cleaner.process, "event=broker_up", START_MS);
    struct proxy *doors[] = {&worker.database, &worker.broker, &cleaner.database, &cleaner.broker};
    count_knocks(doors, k, 4, load_is_long() ? 60000 : 9000);
    for (int i = 0; i < 4; i++) {
        print_message("door %d: %d tries in the first third, %d in the last\n", i, k[i].first,
                      k[i].last);
        assert_in_range(k[i].first, 2, 16);
        assert_in_range(k[i].last, 0, k[i].first - 1);
    }
    process_await_line(cleaner.process, "event=database_up", BACK_MS);
    subject_run(fx, &worker, BACK_MS);
    subject_await_lines(&worker, "event=broker_up", 2, BACK_MS);
    /* once for each new reason, not once per try */
    assert_in_range(process_lines(worker.process, "event=broker_down"), 1, 12);
    assert_in_range(process_lines(worker.process, "event=round_failed"), 1, 2);
    assert_in_range(process_lines(cleaner.process, "event=database_down"), 1, 12);
    assert_all_ran_once(fx);
    subjects_down(&worker, 1);
    end_well(cleaner.process);
    subject_close(&cleaner);
}

/* A slow line: everything works, only later. */
static void test_throttled(void **state)
{
    struct fixture *fx = *state;
    struct subject s;
    subjects_up(fx, &s, 1);
    for (int way = 0; way < 2; way++) {
        proxy_throttle(&s.database, (enum proxy_way)way, 4000);
        proxy_throttle(&s.broker, (enum proxy_way)way, 500);
    }
    for (int i = 0; i < 10; i++) {
        (void)subject_give(fx, &s, "{}");
    }
    test_await(fx, START_MS, "SELECT count(*) = 0, count(*) FROM tenon.task");
    assert_int_equal(process_lines(s.process, "event=round_failed"), 0);
    assert_all_ran_once(fx);
    subjects_down(&s, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVERS(test_connections_cut_at_any_byte),
        WITH_SERVERS(test_lives_cut_at_any_byte),
        WITH_SERVERS(test_children_are_minded_while_a_round_is_held),
        WITH_SERVERS(test_reconnects_back_off_and_never_give_up),
        WITH_SERVERS(test_throttled),
    };
    return RUN_GROUP(tests);
}
