/* label: unit */
/* When it looks for tasks by itself, how, and when it takes them for the last. */
#include "tests/support/deciding.h"

static void test_idle_looks_once_a_second(void **state)
{
    (void)state;
    struct decider *d = decider_make(2, 1, exec_mode);
    present(d, 0);
    int64_t now = 0;
    int rounds = 0;
    while (now < 60000) {
        int64_t due = decide(d, now);
        if (action_find(d, ACTION_ROUND)) {
            rounds++;
            commit(d, now, NULL, 0);
            due = decide(d, now);
        }
        assert_true(due > now);
        now = due;
    }
    assert_in_range(rounds, 45, 122); /* looks and ticks, each at most once a second */
    decider_free(d);
}

/* One that left something out says nothing about the rest. */
static void test_after_a_partial_look_it_looks_again_at_once(void **state)
{
    (void)state;
    struct decider *d = decider_make(2, 1, exec_mode);
    present(d, 0);
    (void)decide(d, 0);
    d->round.partial = true; /* as the round_thread answers */
    commit(d, 1, NULL, 0);
    (void)decide(d, 1);
    assert_non_null(action_find(d, ACTION_ROUND));
    assert_false(d->round.partial);
    commit(d, 2, NULL, 0);
    assert_true(decide(d, 2) > 2);
    assert_null(action_find(d, ACTION_ROUND));
    decider_free(d);
}

/* Every eighth look goes by age, so that nothing starves. */
static void test_some_looks_go_by_age(void **state)
{
    (void)state;
    struct decider *d = decider_make(2, 1, exec_mode);
    present(d, 0);
    int64_t now = 0;
    for (int n = 1; n <= 32; now = decide(d, now)) {
        (void)decide(d, now);
        if (!action_find(d, ACTION_ROUND)) {
            continue;
        }
        if (d->round.n_poll > 0) {
            assert_int_equal(d->round.oldest, n % 8 == 0);
            n++;
        }
        commit(d, now, NULL, 0);
    }
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
        for (; d->in_flight; due = decide(d, now)) {
            rounds++;
            assert_true(rounds < 20);
            commit(d, now, NULL, 0);
        }
        assert_true(due > now);
        now = due;
    }
    assert_int_equal(d->stop_level, 0); /* nobody looked at the kind that rests */
    (void)decide(d, 11300);
    assert_true(d->in_flight);
    commit(d, 11300, NULL, 0);
    assert_int_equal(d->stop_level, 1);
    decider_free(d);
}

/* Which stands in the way of others: not before an ordinary look has found nothing. */
static void test_until_empty_looks_at_everything_last(void **state)
{
    (void)state;
    struct decider *d = decider_make(1, 1, pool_mode);
    d->until_empty = true;
    present(d, 0);
    for (int i = 0; i < 3; i++) {
        (void)decide(d, i);
        assert_true(d->round.n_poll > 0);
        assert_true(d->round.everything == (i == 2));
        assert_int_equal(d->stop_level, 0);
        d->round.partial = i == 0; /* which says nothing about the rest */
        commit(d, i, NULL, 0);
    }
    assert_int_equal(d->stop_level, 1);
    decider_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_idle_looks_once_a_second),
        cmocka_unit_test(test_after_a_partial_look_it_looks_again_at_once),
        cmocka_unit_test(test_some_looks_go_by_age),
        cmocka_unit_test(test_until_empty_does_not_spin_while_a_handler_backs_off),
        cmocka_unit_test(test_until_empty_looks_at_everything_last),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
