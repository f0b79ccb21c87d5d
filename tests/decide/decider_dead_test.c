/* label: unit */
/* What a worker does that was declared dead and goes on under another id, and with claims of long
 * ago. */
#include "tests/support/deciding.h"

#include <signal.h>

static void test_declared_dead_it_drops_all_and_goes_on(void **state)
{
    (void)state;
    struct decider *d = running(exec_mode, claimed(5, "a"));
    settle(d, 3);
    feed(d, 100, (struct event){.type = EVENT_PRESENCE, .up = false});
    feed(d, 200, (struct event){.type = EVENT_PRESENCE, .up = true, .renewed = true});
    (void)decide(d, 200);
    assert_int_equal(action_find(d, ACTION_SIGNAL)->n, SIGKILL);
    settle(d, 200);
    gone(d, 201, 0, "killed by signal 9");
    (void)decide(d, 201);
    assert_non_null(note_find(d, NOTE_CLAIM_LOST));
    assert_int_equal(d->n_held, 0);
    assert_int_equal(d->round.n_requeue, 0); /* it is not ours to requeue */
    decider_free(d);
}

/* The round in flight may commit claims for a worker that has been declared dead since. */
static void test_claims_of_a_dead_worker_id_are_not_run(void **state)
{
    (void)state;
    struct decider *d = decider_make(1, 1, exec_mode);
    present(d, 0);
    (void)decide(d, 0);
    feed(d, 1, (struct event){.type = EVENT_PRESENCE, .up = false});
    feed(d, 2, (struct event){.type = EVENT_PRESENCE, .up = true, .renewed = true});
    struct claim *c = claimed(7, "a");
    commit(d, 3, &c, 1);
    (void)decide(d, 3);
    assert_null(action_find(d, ACTION_SPAWN));
    assert_int_equal(d->n_held, 0);
    c = claimed(8, "a"); /* under the new id */
    d->polling.next_ms = 4;
    settle(d, 3);
    (void)decide(d, 4);
    commit(d, 4, &c, 1);
    (void)decide(d, 4);
    assert_non_null(action_find(d, ACTION_SPAWN));
    decider_free(d);
}

/* What such a round did not claim is still to be claimed: its wake-up was acked long ago. */
static void test_a_dead_worker_id_forgets_no_wakeup(void **state)
{
    (void)state;
    const int64_t id = 7;
    struct decider *d = decider_make(1, 1, exec_mode);
    present(d, 0);
    (void)decide(d, 0);
    commit(d, 0, NULL, 0);
    feed(d, 1,
         (struct event){.type = EVENT_WAKEUPS, .epoch = 1, .ids = &id, .n = 1, .last_tag = 1});
    (void)decide(d, 1);
    assert_int_equal(d->round.n_ids, 1);
    feed(d, 2, (struct event){.type = EVENT_PRESENCE, .up = false});
    feed(d, 3, (struct event){.type = EVENT_PRESENCE, .up = true, .renewed = true});
    commit(d, 4, NULL, 0);
    settle(d, 4);
    (void)decide(d, 4 + 50);
    assert_true(d->rounds.in_flight);
    assert_int_equal(d->round.n_ids, 1);
    assert_int_equal(d->round.ids[0], id);
    decider_free(d);
}

/* It asks at 0, and reads the answer when it is awake again. */
static struct decider *frozen_with_a_claim(int64_t awake_ms)
{
    struct decider *d = decider_make(1, 1, exec_mode);
    struct claim *c = claimed(7, "a");
    present(d, 0);
    (void)decide(d, 0);
    commit(d, awake_ms, &c, 1);
    (void)decide(d, awake_ms);
    return d;
}

/* It was frozen, or its whole machine, between a claim and the child. */
static void test_a_claim_of_long_ago_is_given_back(void **state)
{
    (void)state;
    struct decider *d = frozen_with_a_claim(START_MAX_MS);
    assert_null(action_find(d, ACTION_SPAWN));
    (void)decide(d, START_MAX_MS + 1);
    assert_int_equal(d->round.n_requeue, 1);
    assert_int_equal(d->round.requeue[0]->outcome, OUTCOME_RELEASED);
    decider_free(d);
}

/* Also if a round has said meanwhile that it is ours (sim --seed 8992747580036020347). */
static void test_a_claim_of_long_ago_is_given_back_though_it_is_ours(void **state)
{
    (void)state;
    struct decider *d = frozen_with_a_claim(START_MAX_MS - 1);
    assert_int_equal(d->round.n_verify, 1);
    commit(d, START_MAX_MS, NULL, 0);
    (void)decide(d, START_MAX_MS);
    assert_null(action_find(d, ACTION_SPAWN));
    assert_int_equal(d->round.n_requeue, 1);
    assert_int_equal(d->round.requeue[0]->outcome, OUTCOME_RELEASED);
    decider_free(d);
}

/* How old a claim is counts from when its round began, whenever the answer is read. */
static void test_a_claim_whose_round_was_slow_is_verified_first(void **state)
{
    (void)state;
    struct decider *d = frozen_with_a_claim(START_CHECKED_MS - 1);
    assert_non_null(action_find(d, ACTION_SPAWN));
    decider_free(d);
    for (enum verdict v = VERDICT_LOST; v <= VERDICT_MINE; v++) {
        d = frozen_with_a_claim(START_CHECKED_MS);
        assert_null(action_find(d, ACTION_SPAWN));
        assert_int_equal(d->round.n_verify, 1);
        verdict = v;
        commit(d, START_CHECKED_MS + 1, NULL, 0);
        verdict = VERDICT_MINE;
        (void)decide(d, START_CHECKED_MS + 1);
        assert_int_equal(action_find(d, ACTION_SPAWN) != NULL, v == VERDICT_MINE);
        decider_free(d);
    }
}

/* Where every round takes long, tasks start all the same: when the second one has said so. */
static void test_with_a_slow_database_tasks_start(void **state)
{
    (void)state;
    enum { ROUND_MS = 900 };
    struct decider *d = frozen_with_a_claim(ROUND_MS);
    assert_null(action_find(d, ACTION_SPAWN));
    commit(d, 2 * ROUND_MS, NULL, 0);
    (void)decide(d, 2 * ROUND_MS);
    assert_non_null(action_find(d, ACTION_SPAWN));
    decider_free(d);
}

/* A claim that waits for its child, which is ready so long after; a round asks whether the task is
 * cancelled or another's by now. */
static struct decider *child_ready_after(int64_t waited_ms)
{
    struct claim *c = claimed(5, "a");
    struct decider *d = decider_make(1, 1, pool_mode);
    present(d, 0);
    (void)decide(d, 0);
    commit(d, 1, &c, 1);
    int64_t due = decide(d, 1);
    assert_non_null(action_find(d, ACTION_SPAWN));
    assert_false(d->rounds.in_flight);
    assert_true(due <= 1 + CHECK_AFTER_MS);
    feed(d, 1 + waited_ms, (struct event){.type = EVENT_CHILD_READY, .slot = 0, .room = 1});
    (void)decide(d, 1 + waited_ms);
    return d;
}

static void test_what_did_not_wait_starts_unasked(void **state)
{
    (void)state;
    struct decider *d = child_ready_after(CHECK_AFTER_MS - 1);
    assert_non_null(action_find(d, ACTION_GIVE));
    assert_false(d->rounds.in_flight);
    decider_free(d);
}

static void test_what_waited_is_verified_before_it_starts(void **state)
{
    (void)state;
    for (enum verdict v = VERDICT_LOST; v <= VERDICT_MINE; v++) {
        int64_t now = 1 + START_CHECKED_MS;
        struct decider *d = child_ready_after(START_CHECKED_MS);
        assert_null(action_find(d, ACTION_GIVE));
        assert_int_equal(d->round.n_verify, 1);
        verdict = v;
        commit(d, now + 1, NULL, 0);
        verdict = VERDICT_MINE;
        (void)decide(d, now + 1);
        assert_int_equal(action_find(d, ACTION_GIVE) != NULL, v == VERDICT_MINE);
        assert_int_equal(d->n_held, v == VERDICT_MINE);
        assert_int_equal(note_find(d, NOTE_CLAIM_LOST) != NULL, v == VERDICT_LOST);
        decider_free(d);
    }
}

/* It claimed two while tasks were fast; the first one took long. */
static void test_an_exec_task_that_waited_is_verified_too(void **state)
{
    (void)state;
    struct claim *both[] = {claimed(5, "a"), claimed(6, "a")};
    struct decider *d = decider_make(1, 1, exec_mode);
    present(d, 0);
    (void)decide(d, 0);
    commit(d, 1, both, 2);
    (void)decide(d, 1);
    assert_int_equal(d->n_waiting, 1);
    int64_t now = 1 + START_CHECKED_MS;
    reply(d, now, 5, OUTCOME_DONE);
    gone(d, now, 0, "exit status 0");
    (void)decide(d, now);
    assert_null(action_find(d, ACTION_SPAWN));
    assert_int_equal(d->round.n_verify, 1);
    commit(d, now + 1, NULL, 0);
    (void)decide(d, now + 1);
    assert_int_equal(action_find(d, ACTION_SPAWN)->claim->id, 6);
    decider_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_declared_dead_it_drops_all_and_goes_on),
        cmocka_unit_test(test_claims_of_a_dead_worker_id_are_not_run),
        cmocka_unit_test(test_a_dead_worker_id_forgets_no_wakeup),
        cmocka_unit_test(test_a_claim_of_long_ago_is_given_back),
        cmocka_unit_test(test_a_claim_of_long_ago_is_given_back_though_it_is_ours),
        cmocka_unit_test(test_a_claim_whose_round_was_slow_is_verified_first),
        cmocka_unit_test(test_with_a_slow_database_tasks_start),
        cmocka_unit_test(test_what_did_not_wait_starts_unasked),
        cmocka_unit_test(test_what_waited_is_verified_before_it_starts),
        cmocka_unit_test(test_an_exec_task_that_waited_is_verified_too),
    };
    return RUN_GROUP(tests);
}
