/* label: unit */
/* When children of pool handlers start: one of each first, then as many at a time as processors. */
#include "tests/support/deciding.h"

#include <signal.h>

/* A worker with `slots` slots on two processors, whose handlers have not started anything yet. */
static struct decider *cold(int slots, int handlers)
{
    struct decider *d = decider_make(slots, handlers, pool_mode);
    d->warm = false;
    d->starts_max = 2;
    for (int i = 0; i < handlers; i++) {
        d->handlers[i].starts_well = false;
    }
    present(d, 1);
    (void)decide(d, 1);
    return d;
}

static int starting(const struct decider *d, int handler)
{
    int n = 0;
    for (int i = 0; i < d->n_slots; i++) {
        n += d->slots[i].state == SLOT_STARTING && d->slots[i].handler == handler;
    }
    return n;
}

static void hello(struct decider *d, int64_t now, int slot)
{
    feed(d, now, (struct event){.type = EVENT_CHILD_READY, .slot = slot, .room = 1});
    (void)decide(d, now);
}

static int first_starting(const struct decider *d)
{
    for (int i = 0; i < d->n_slots; i++) {
        if (d->slots[i].state == SLOT_STARTING) {
            return i;
        }
    }
    return -1;
}

static void test_one_first_then_as_many_as_processors(void **state)
{
    (void)state;
    struct decider *d = cold(10, 1);
    assert_int_equal(starting(d, 0), 1);
    (void)decide(d, 9000);
    assert_int_equal(starting(d, 0), 1);
    hello(d, 9001, 0);
    assert_int_equal(starting(d, 0), 2);
    for (int64_t now = 9002, slot; (slot = first_starting(d)) >= 0; now++) {
        hello(d, now, (int)slot);
        assert_in_range(starting(d, 0), 0, 2);
    }
    for (int i = 0; i < 10; i++) {
        assert_int_equal(d->slots[i].state, SLOT_READY);
    }
    decider_free(d);
}

static void test_each_handler_gets_its_first_child_soon(void **state)
{
    (void)state;
    struct decider *d = cold(6, 2);
    assert_int_equal(starting(d, 0), 1);
    assert_int_equal(starting(d, 1), 1);
    hello(d, 100, 0); /* the other one's start still takes a processor */
    assert_int_equal(starting(d, 0) + starting(d, 1), 2);
    assert_int_equal(starting(d, 1), 1);
    decider_free(d);
}

/* The first child of a handler may hang: it takes no processor then. */
static void test_a_start_that_hangs_keeps_no_other_back(void **state)
{
    (void)state;
    struct decider *d = decider_make(4, 2, pool_mode);
    d->warm = false;
    d->starts_max = 1;
    d->handlers[0].starts_well = d->handlers[1].starts_well = false;
    present(d, 0);
    (void)decide(d, 0);
    assert_int_equal(starting(d, 0), 1);
    assert_int_equal(starting(d, 1), 0);
    int64_t due = decide(d, 9999);
    assert_int_equal(starting(d, 1), 0);
    assert_int_equal(due, 10000);
    (void)decide(d, 10000);
    assert_int_equal(starting(d, 1), 1);
    hello(d, 10001, 1);
    assert_int_equal(starting(d, 1), 1); /* its second one */
    assert_int_equal(starting(d, 0), 1);
    decider_free(d);
}

/* Nor does one that has many to start. */
static void test_a_first_child_beside_others(void **state)
{
    (void)state;
    struct decider *d = cold(10, 2);
    d->starts_max = 1;
    gone(d, 2, 1,
         "exit status 1"); /* of handler 1, which is started again when a task asks for it */
    (void)decide(d, 2);
    hello(d, 3, 0);
    assert_int_equal(starting(d, 0), 1);
    for (int64_t now = 4; now < 100 && d->rounds.in_flight; now++) {
        settle(d, now);
    }
    d->polling.next_ms = 200;
    (void)decide(d, 200);
    assert_true(d->rounds.in_flight);
    assert_false(d->round.left_out[1]);
    struct claim *c = claimed(1, "b");
    commit(d, 201, &c, 1);
    (void)decide(d, 201);
    assert_int_equal(starting(d, 0), 1);
    assert_int_equal(starting(d, 1), 1);
    decider_free(d);
}

static void test_nothing_is_claimed_before_the_first_hello(void **state)
{
    (void)state;
    struct decider *d = cold(4, 1);
    for (int64_t now = 2; now < 30000; now += 100) {
        assert_int_equal(d->round.n_poll, 0);
        settle(d, now);
        (void)decide(d, now);
    }
    hello(d, 30000, 0);
    assert_true(d->rounds.in_flight);
    assert_in_range(d->round.n_poll, 1, 3); /* the child that is ready, and two that may start */
    decider_free(d);
}

/* Two handlers, one of which is ready: its tasks are claimed, the other's left to other workers. */
static void test_only_what_starts_is_left_out(void **state)
{
    (void)state;
    struct decider *d = cold(4, 2);
    settle(d, 2);
    hello(d, 3, 0);
    assert_true(d->rounds.in_flight);
    assert_true(d->round.n_poll > 0);
    assert_false(d->round.left_out[0]);
    assert_true(d->round.left_out[1]);
    settle(d, 6);
    hello(d, 7, d->slots[1].handler == 1 ? 1 : 2);
    assert_true(d->rounds.in_flight); /* what was passed over is swept for at once */
    assert_int_equal(d->round.way, POLL_SWEEP);
    assert_false(d->round.left_out[1]);
    decider_free(d);
}

/* A task for which a child was started, on demand, waits for it, and no further one is claimed. */
static void test_a_child_on_demand(void **state)
{
    (void)state;
    struct decider *d = cold(1, 1);
    gone(d, 2, 0, "exit status 1"); /* of the warm-up */
    (void)decide(d, 2);
    settle(d, 3);
    assert_int_equal(starting(d, 0), 0); /* until a task asks for it */
    d->polling.next_ms = 200;
    (void)decide(d, 200);
    assert_int_equal(d->round.n_poll, 1);
    struct claim *c = claimed(1, "a");
    commit(d, 201, &c, 1);
    (void)decide(d, 201);
    assert_int_equal(starting(d, 0), 1);
    for (int64_t now = 300; now < 20000; now += 100) {
        settle(d, now);
        (void)decide(d, now);
        assert_int_equal(d->round.n_poll, 0);
        assert_int_equal(d->n_waiting, 1);
    }
    hello(d, 20000, 0);
    for (int64_t now = 20001; now < 20010 && d->n_waiting > 0; now++) {
        settle(d, now); /* it is asked whether it is still ours */
        (void)decide(d, now);
    }
    assert_int_equal(d->n_given, 1);
    decider_free(d);
}

/* Of three tasks the child that starts has room for one: the others go back after a second. */
static void test_what_has_no_room_is_released(void **state)
{
    (void)state;
    struct decider *d = cold(3, 1);
    gone(d, 2, 0, "exit status 1");
    (void)decide(d, 2);
    settle(d, 3);
    d->polling.next_ms = 200;
    (void)decide(d, 200);
    struct claim *found[] = {claimed(1, "a"), claimed(2, "a"), claimed(3, "a")};
    commit(d, 200, found, 3);
    (void)decide(d, 200);
    settle(d, 260);
    (void)decide(d, 1199);
    assert_int_equal(d->n_waiting, 3);
    settle(d, 1199);
    (void)decide(d, 1200);
    assert_int_equal(d->n_waiting, 1);
    assert_int_equal(d->handlers[0].waiting->id, 1);
    decider_free(d);
}

static void test_the_limit(void **state)
{
    (void)state;
    struct decider *d = cold(3, 1);
    d->handlers[0].start_limit_ms = 90000;
    gone(d, 2, 0, "exit status 1");
    (void)decide(d, 2);
    struct claim *c = claimed(1, "a");
    settle(d, 3);
    d->polling.next_ms = 200;
    (void)decide(d, 200);
    commit(d, 200, &c, 1);
    (void)decide(d, 201);
    assert_int_equal(starting(d, 0), 1);
    (void)decide(d, 10201);
    assert_string_equal(note_find(d, NOTE_HANDLER_STARTING)->text,
                        "a: starting for 10 s; the start limit is 90 s");
    settle(d, 80000);
    (void)decide(d, 90200);
    assert_null(action_find(d, ACTION_SIGNAL));
    assert_null(note_find(d, NOTE_HANDLER_STARTING)); /* once */
    (void)decide(d, 90201);
    assert_int_equal(action_find(d, ACTION_SIGNAL)->n, SIGKILL);
    gone(d, 90202, 0, "killed by signal 9 (Killed), starting: importing shop");
    (void)decide(d, 90202);
    assert_contains(note_find(d, NOTE_HANDLER_BACKS_OFF)->text,
                    "no hello within 90 s (start_limit): killed by signal 9 (Killed), starting: "
                    "importing shop");
    decider_free(d);
}

static void test_it_is_told_who_starts(void **state)
{
    (void)state;
    struct decider *d = cold(3, 1);
    assert_int_equal(start_oldest(d, 0, 1000), -1);
    assert_int_equal(start_oldest(d, 0, 1001), 0);
    hello(d, 5000, 0);
    assert_int_equal(start_oldest(d, 0, 9000), -1); /* one is ready */
    decider_free(d);
}

/* One that failed is tried by itself: the next ones wait for its hello. */
static void test_after_a_failure_one_at_a_time(void **state)
{
    (void)state;
    struct decider *d = cold(4, 1);
    hello(d, 2, 0);
    assert_int_equal(starting(d, 0), 2);
    gone(d, 3, 1, "exit status 1");
    gone(d, 3, 2, "exit status 1");
    gone(d, 4, 0, "exit status 1");
    (void)decide(d, 4);
    assert_int_equal(d->handlers[0].strikes, 1);
    settle(d, 5);
    d->polling.next_ms = 200;
    (void)decide(d, 200);
    assert_int_equal(d->round.n_poll, 1);
    struct claim *found[] = {claimed(1, "a"), claimed(2, "a"), claimed(3, "a")};
    commit(d, 201, found, 3);
    (void)decide(d, 201);
    assert_int_equal(starting(d, 0), 1);
    decider_free(d);
}

static void test_until_empty_does_not_spin_while_a_handler_backs_off(void **state)
{
    (void)state;
    struct decider *d = decider_make(1, 1, pool_mode);
    d->until_empty = true;
    present(d, 0);
    (void)decide(d, 0);
    struct claim *c = claimed(1, "a");
    commit(d, 1, &c, 1);
    (void)decide(d, 1);
    feed(d, 2,
         (struct event){
             .type = EVENT_CHILD_GONE, .slot = 0, .failed_start = true, .text = "no such file"});
    d->handlers[0].backoff_until_ms = 10000;
    int rounds = 0;
    for (int64_t now = 2; now < 10000 && d->stop_level == 0;) {
        int64_t due = decide(d, now);
        for (; d->rounds.in_flight; due = decide(d, now)) {
            rounds++;
            assert_true(rounds < 20);
            commit(d, now, NULL, 0);
        }
        assert_true(due > now);
        now = due;
    }
    assert_int_equal(d->stop_level, 0); /* nobody polled for the kind that backs off */
    (void)decide(d, 11300);
    assert_true(d->rounds.in_flight);
    for (int turn = 0; turn < 5 && d->stop_level == 0; turn++) {
        settle(d, 11300 + turn);
    }
    assert_int_equal(d->stop_level, 1);
    decider_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_first_then_as_many_as_processors),
        cmocka_unit_test(test_each_handler_gets_its_first_child_soon),
        cmocka_unit_test(test_a_start_that_hangs_keeps_no_other_back),
        cmocka_unit_test(test_a_first_child_beside_others),
        cmocka_unit_test(test_nothing_is_claimed_before_the_first_hello),
        cmocka_unit_test(test_only_what_starts_is_left_out),
        cmocka_unit_test(test_a_child_on_demand),
        cmocka_unit_test(test_what_has_no_room_is_released),
        cmocka_unit_test(test_the_limit),
        cmocka_unit_test(test_it_is_told_who_starts),
        cmocka_unit_test(test_after_a_failure_one_at_a_time),
        cmocka_unit_test(test_until_empty_does_not_spin_while_a_handler_backs_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
