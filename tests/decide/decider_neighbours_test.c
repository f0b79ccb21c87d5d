/* label: unit */
/* Several tasks in one child: what becomes of the others when one times out, is lost or late. */
#include "tests/support/deciding.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* A pool child with room for several, and tasks 1 to 3 in it. */
static struct decider *three_in_one_child(void)
{
    struct decider *d = decider_make(1, 1, pool_mode);
    present(d, 0);
    d->handlers[0].room = 3;
    (void)decide(d, 0);
    struct claim *all[] = {claimed(1, "a"), claimed(2, "a"), claimed(3, "a")};
    commit(d, 1, all, 3);
    (void)decide(d, 1);
    feed(d, 2, (struct event){.type = EVENT_CHILD_READY, .slot = 0, .room = 3});
    (void)decide(d, 2);
    assert_int_equal(d->n_given, 3);
    settle(d, 3);
    return d;
}

/* The claim of task 2 is found to be lost at 5010. */
static void lose_2(struct decider *d)
{
    struct round *x = &d->round;
    (void)decide(d, 2 + VERIFY_EVERY_MS);
    assert_int_equal(x->n_verify, 3);
    for (size_t i = 0; i < 3; i++) {
        x->verdicts[i] = x->verify[i].id == 2 ? VERDICT_LOST : VERDICT_MINE;
    }
    feed(d, 5010, (struct event){.type = EVENT_ROUND_DONE});
    (void)decide(d, 5010);
}

static void test_a_lost_claim_takes_no_other_along(void **state)
{
    (void)state;
    struct decider *d = three_in_one_child();
    lose_2(d);
    assert_null(action_find(d, ACTION_SIGNAL));
    settle(d, 5011);
    reply(d, 5012, 1, OUTCOME_DONE);
    (void)decide(d, 5012);
    assert_null(action_find(d, ACTION_SIGNAL));
    assert_int_equal(slots_room(d), 0); /* it gets no more */
    settle(d, 5013);
    settle(d, 5013);
    reply(d, 5014, 3, OUTCOME_DONE);
    (void)decide(d, 5014);
    assert_int_equal(action_find(d, ACTION_SIGNAL)->n, SIGTERM); /* now nobody is hurt */
    settle(d, 5015);
    settle(d, 5015);
    gone(d, 5016, 0, "killed by signal 15");
    (void)decide(d, 5016);
    assert_non_null(note_find(d, NOTE_CLAIM_LOST));
    assert_int_equal(d->count_done, 2);
    assert_int_equal(d->n_held, 0);
    decider_free(d);
}

/* An answer that comes too late is an answer: the child that retires after it charges nobody. */
static void test_a_child_that_answered_a_lost_claim_may_retire(void **state)
{
    (void)state;
    struct decider *d = three_in_one_child();
    lose_2(d);
    settle(d, 5011);
    reply(d, 5012, 2, OUTCOME_DONE);
    feed(d, 5012, (struct event){.type = EVENT_CHILD_RETIRES, .slot = 0});
    gone(d, 5012, 0, "exit status 0");
    (void)decide(d, 5012);
    assert_int_equal(d->round.n_requeue, 2);
    assert_int_equal(d->round.requeue[0]->outcome, OUTCOME_RELEASED);
    assert_int_equal(d->round.requeue[1]->outcome, OUTCOME_RELEASED);
    settle(d, 5013);
    decider_free(d);
}

static void test_others_have_a_limit_when_one_times_out(void **state)
{
    (void)state;
    struct decider *d = three_in_one_child();
    d->slots[0].given->next->deadline_ms = d->slots[0].given->next->next->deadline_ms = 1000000;
    verdict = VERDICT_MINE;
    (void)decide(d, 10002);
    settle(d, 10002);
    assert_null(action_find(d, ACTION_SIGNAL));
    for (int64_t now = 10003; now < 10002 + SIBLINGS_MAX_MS; now += 997) {
        settle(d, now);
        assert_true(decide(d, now) <= 10002 + SIBLINGS_MAX_MS);
        assert_null(action_find(d, ACTION_SIGNAL));
    }
    settle(d, 10001 + SIBLINGS_MAX_MS);
    reply(d, 10001 + SIBLINGS_MAX_MS, 3, OUTCOME_DONE);
    (void)decide(d, 10002 + SIBLINGS_MAX_MS);
    assert_int_equal(action_find(d, ACTION_SIGNAL)->n, SIGTERM);
    settle(d, 41000);
    gone(d, 41001, 0, "killed by signal 15");
    (void)decide(d, 41001);
    assert_int_equal(d->count_done, 1);
    assert_int_equal(d->round.n_requeue, 2);
    assert_int_equal(d->round.requeue[0]->id, 1);
    assert_int_equal(d->round.requeue[0]->outcome, OUTCOME_TIMED_OUT);
    assert_int_equal(d->round.requeue[1]->outcome, OUTCOME_RELEASED);
    decider_free(d);
}

static void test_each_that_times_out_leaves_the_others_their_time(void **state)
{
    (void)state;
    struct decider *d = three_in_one_child();
    d->slots[0].given->next->deadline_ms = 20000;
    d->slots[0].given->next->next->deadline_ms = 1000000;
    verdict = VERDICT_MINE;
    (void)decide(d, 10002);
    settle(d, 10003);
    (void)decide(d, 20000);
    settle(d, 20000);
    reply(d, 20002, 1, OUTCOME_DONE);
    for (int64_t now = 20003; now < 20000 + SIBLINGS_MAX_MS; now += 997) {
        (void)decide(d, now);
        assert_null(action_find(d, ACTION_SIGNAL));
        settle(d, now);
    }
    (void)decide(d, 20000 + SIBLINGS_MAX_MS);
    assert_int_equal(action_find(d, ACTION_SIGNAL)->n, SIGTERM);
    decider_free(d);
}

/* The task that was late does not run any more, so its child may go on. */
static void test_a_child_that_answers_late_goes_on(void **state)
{
    (void)state;
    struct decider *d = three_in_one_child();
    d->slots[0].given->next->deadline_ms = d->slots[0].given->next->next->deadline_ms = 1000000;
    (void)decide(d, 10002);
    settle(d, 10003);
    assert_int_equal(slots_room(d), 0);
    reply(d, 10500, 1, OUTCOME_DONE);
    (void)decide(d, 10500);
    assert_non_null(note_find(d, NOTE_TASK_TIMED_OUT));
    assert_int_equal(d->round.n_finish, 0);
    assert_int_equal(d->round.requeue[0]->outcome, OUTCOME_TIMED_OUT);
    assert_int_equal(slots_room(d), 1);
    settle(d, 10501);
    for (int64_t now = 10502; now < 100000; now += 1000) {
        (void)decide(d, now);
        assert_null(action_find(d, ACTION_SIGNAL));
        settle(d, now);
    }
    decider_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_lost_claim_takes_no_other_along),
        cmocka_unit_test(test_a_child_that_answered_a_lost_claim_may_retire),
        cmocka_unit_test(test_others_have_a_limit_when_one_times_out),
        cmocka_unit_test(test_each_that_times_out_leaves_the_others_their_time),
        cmocka_unit_test(test_a_child_that_answers_late_goes_on),
    };
    return RUN_GROUP(tests);
}
