/* label: fault */
/* timeout: 300 */
/* long: 900 */
/* only: all */
/* The relay dies, fails or freezes at each of its steps, and its connection is cut after any byte:
 * each message arrives, in the order of its key, and at most what was in flight comes again. */
#include "tests/support/held.h"
#include "tests/support/load.h"
#include "tests/support/outbox.h"
#include "tests/support/proxy.h"
#include "tests/support/struck.h"
#include "tests/support/working.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

enum { MESSAGES = 300, REACH_MS = 20000, FROZEN_MS = 60000, CUT_MESSAGES = 300 };

#ifdef TENON_POINTS

static const char *const points[] = {"relay_read", "relay_sent", "relay_confirmed",
                                     "relay_deleted"};
enum { POINTS_N = sizeof points / sizeof *points };

/* Only one of a key is in flight. */
static void judge(struct fixture *fx, struct broker *b, const char *point, const char *action)
{
    int64_t again = outbox_assert_order(fx, b);
    print_message("%s %s: %lld came again\n", point, action, (long long)again);
    assert_in_range(again, 0, strcmp(point, "relay_read") == 0 ? 0 : OUTBOX_KEYS);
}

/* `log` is there when the point was reached. */
static struct process *start_struck(struct fixture *fx, const char *point, int nth,
                                    const char *action, char log[300])
{
    char armed[128], variable[320];
    (void)snprintf(log, 300, "%s/%s-%s-%d", fx->dir, point, action, nth);
    (void)snprintf(armed, sizeof armed, "TENON_POINT=%s:%d:%s", point, nth, action);
    (void)snprintf(variable, sizeof variable, "TENON_POINT_LOG=%s", log);
    return tenon_spawn(fx, (const char *const[]){"cleaner", NULL},
                       (const char *const[]){armed, variable, NULL});
}

static void round_of(struct fixture *fx, const char *point, int nth, const char *action)
{
    char log[300];
    struct broker *b = outbox_open(fx);
    test_sql(fx, "UPDATE counter SET n = 0");
    test_sql(fx, "CALL produce(%d)", MESSAGES);
    struct process *p = start_struck(fx, point, nth, action, log);
    if (strcmp(action, "kill") == 0) {
        assert_int_equal(process_wait(p, REACH_MS), 128 + SIGKILL);
        p = TENON(fx, "cleaner");
    }
    test_await(fx, LIMIT_MS, OUTBOX_EMPTY);
    assert_int_equal(access(log, F_OK), 0);
    judge(fx, b, point, action);
    end_well(p);
    outbox_close(b);
}

/* The first time, and later, when others are at each of the other steps. */
static void test_killed_at_each_step(void **state)
{
    struct fixture *fx = *state;
    outbox_counters(fx);
    for (int i = 0; i < POINTS_N; i++) {
        round_of(fx, points[i], 1, "kill");
        if (strcmp(points[i], "relay_read") != 0) {
            round_of(fx, points[i], 7, "kill");
        }
    }
}

static void test_failed_at_each_step(void **state)
{
    struct fixture *fx = *state;
    outbox_counters(fx);
    for (int i = 0; i < POINTS_N; i++) {
        round_of(fx, points[i], 1, "error");
    }
}

/* It still thinks that it leads when it goes on, and another has sent the rest. */
static void hand_over(struct fixture *fx, const char *point, int nth)
{
    char log[300];
    struct broker *b = outbox_open(fx);
    outbox_counters(fx);
    test_sql(fx, "CALL produce(%d)", MESSAGES);
    struct process *frozen = start_struck(fx, point, nth, "freeze", log);
    struck_await_stopped(frozen->pid, REACH_MS);
    struct process *heir = TENON(fx, "cleaner");
    process_await_line(heir, "event=leader", FROZEN_MS);
    test_await(fx, LIMIT_MS, OUTBOX_EMPTY);
    process_signal(frozen, SIGCONT);
    test_sql(fx, "CALL produce(%d)", MESSAGES);
    test_await(fx, LIMIT_MS, OUTBOX_EMPTY);
    end_well(frozen);
    judge(fx, b, point, "freeze");
    end_well(heir);
    outbox_close(b);
}

static void test_frozen_with_messages_sent(void **state)
{
    hand_over(*state, "relay_sent", 5);
}

static void test_frozen_with_messages_confirmed(void **state)
{
    hand_over(*state, "relay_confirmed", 2);
}

#endif

/* Of the new connections, the wake-ups' and the relay's, each is cut after so many bytes; later
 * ones are not. */
static void cut_each(struct fixture *fx, enum proxy_way way, int step, int most)
{
    struct proxy proxy;
    int cuts = 0, rounds = 0;
    struct broker *b = outbox_open(fx);
    outbox_counters(fx);
    proxy_open(&proxy, fx->amqp_url);
    for (int bytes = 1; bytes < most; bytes += step, rounds++) {
        int before = proxy_cut(&proxy);
        test_sql(fx, "CALL produce(%d)", CUT_MESSAGES);
        proxy_cut_next(&proxy, way, bytes, 2);
        struct process *p = TENON(fx, "cleaner", "--amqp-url", proxy.url);
        test_await(fx, LIMIT_MS, OUTBOX_EMPTY);
        end_well(p);
        proxy_cut_next(&proxy, way, bytes, 0);
        cuts += proxy_cut(&proxy) > before;
    }
    print_message("%d of %d cut, %lld came again\n", cuts, rounds,
                  (long long)outbox_assert_order(fx, b));
    assert_true(cuts * 10 >= rounds * 9);
    proxy_close(&proxy);
    outbox_close(b);
}

static void test_cut_after_any_byte_to_rabbitmq(void **state)
{
    cut_each(*state, PROXY_TO_SERVER, load_is_long() ? 25 : 250, 2500);
}

static void test_cut_after_any_byte_from_rabbitmq(void **state)
{
    cut_each(*state, PROXY_TO_CLIENT, load_is_long() ? 10 : 100, 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#ifdef TENON_POINTS
        WITH_SERVERS(test_killed_at_each_step),
        WITH_SERVERS(test_failed_at_each_step),
        WITH_SERVERS(test_frozen_with_messages_sent),
        WITH_SERVERS(test_frozen_with_messages_confirmed),
#endif
        WITH_SERVERS(test_cut_after_any_byte_to_rabbitmq),
        WITH_SERVERS(test_cut_after_any_byte_from_rabbitmq),
    };
    return RUN_GROUP(tests);
}
