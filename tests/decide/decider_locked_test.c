/* label: unit */
/* What the worker's head does when an application holds the row of a task that has ended. */
#include "tests/support/deciding.h"

/* A worker whose round with the end of task 5 is in flight. */
static struct decider *ending(int64_t now)
{
    struct decider *d = running(exec_mode, claimed(5, "a"));
    settle(d, now - 1);
    reply(d, now, 5, OUTCOME_DONE);
    (void)decide(d, now);
    assert_int_equal(d->round.n_finish, 1);
    return d;
}

static void fails(struct decider *d, int64_t now)
{
    feed(d, now,
         (struct event){.type = EVENT_ROUND_FAILED,
                        .failure = FAILURE_AGAIN,
                        .text = "lock timeout"});
}

/* The round in flight commits, and the row of its task was locked. */
static void misses(struct decider *d, int64_t now)
{
    verdict = VERDICT_MINE;
    for (size_t i = 0; i < d->round.n_verify; i++) {
        d->round.verdicts[i] = VERDICT_MINE;
    }
    for (size_t i = 0; i < d->round.n_finish; i++) {
        d->round.finished[i] = false;
    }
    feed(d, now, (struct event){.type = EVENT_ROUND_DONE});
}

static void test_the_first_lock_costs_no_pause(void **state)
{
    (void)state;
    struct decider *d = ending(10);
    assert_false(d->round.unlocked);
    fails(d, 110);
    (void)decide(d, 110);
    assert_true(d->rounds.in_flight);
    assert_true(d->round.unlocked);
    fails(d, 210); /* that was something else */
    (void)decide(d, 210);
    assert_int_equal(d->round.n_finish, 0); /* meanwhile it polls */
    commit(d, 210, NULL, 0);
    assert_in_range(decide(d, 210), 211, 210 + 2 * RETRY_MIN_MS);
    assert_false(d->rounds.in_flight);
    decider_free(d);
}

/* A round that waits for a lock holds up all other tasks; so no other one does. */
static void test_a_lock_that_stays_is_waited_for_once(void **state)
{
    (void)state;
    struct decider *d = ending(10);
    fails(d, 110);
    int finishes = 0;
    int64_t now = 110;
    while (now < 70000) {
        int64_t due = decide(d, now);
        if (d->rounds.in_flight) {
            assert_true(d->round.unlocked || d->round.n_finish == 0);
            finishes += d->round.n_finish > 0;
            misses(d, now + 1);
            due = now + 1;
        }
        now = due > now ? due : now + 1;
    }
    assert_in_range(finishes, 70, 1400); /* it is tried again and again */
    decider_free(d);
}

static void test_later_the_plain_form_is_used_again(void **state)
{
    (void)state;
    struct decider *d = ending(10);
    fails(d, 110);
    (void)decide(d, 110);
    commit(d, 111, NULL, 0);
    for (int64_t now = 112; now < 111 + UNLOCKED_FOR_MS + 2000; now += 100) {
        (void)decide(d, now);
        if (d->rounds.in_flight) {
            settle(d, now);
        }
    }
    assert_false(d->round.unlocked);
    decider_free(d);
}

/* Partitions that another session is making stop one round a second, not all. */
static void test_chores_that_failed_are_left_out_of_the_next(void **state)
{
    (void)state;
    struct decider *d = decider_make(1, 1, exec_mode);
    present(d, 0);
    (void)decide(d, 0);
    assert_true(d->round.chores);
    fails(d, 100);
    for (int64_t now = 101; now < 1000; now++) {
        (void)decide(d, now);
        if (d->rounds.in_flight) {
            assert_false(d->round.chores);
            settle(d, now);
        }
    }
    for (int64_t now = 1000; now < 3000 && !d->round.chores; now++) {
        (void)decide(d, now);
        if (d->rounds.in_flight && !d->round.chores) {
            settle(d, now);
        }
    }
    assert_true(d->round.chores);
    decider_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_first_lock_costs_no_pause),
        cmocka_unit_test(test_a_lock_that_stays_is_waited_for_once),
        cmocka_unit_test(test_later_the_plain_form_is_used_again),
        cmocka_unit_test(test_chores_that_failed_are_left_out_of_the_next),
    };
    return RUN_GROUP(tests);
}
