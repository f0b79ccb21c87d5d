/* label: unit */
/* The two sides of a round: what one asks for costs the other nothing. */
#include "tests/support/deciding.h"

static void fails_for_a_row(struct decider *d, int64_t now)
{
    feed(d, now, (struct event){.type = EVENT_ROUND_FAILED, .failure = FAILURE_ROW, .text = "bad"});
}

/* A round with the end of task 5 and a poll is in flight, of a worker with two slots in which task
 * 6 runs on. */
static struct decider *tells_and_polls(void)
{
    struct decider *d = decider_make(2, 1, exec_mode);
    struct claim *both[] = {claimed(5, "a"), claimed(6, "a")};
    present(d, 0);
    (void)decide(d, 0);
    commit(d, 1, both, 2);
    (void)decide(d, 1);
    settle(d, 2);
    reply(d, 3, 5, OUTCOME_DONE);
    gone(d, 3, 0, "");
    d->polling.next_sweep_ms = 3;
    (void)decide(d, 3);
    assert_int_equal(d->round.n_finish, 1);
    assert_int_equal(d->round.n_poll, 1);
    return d;
}

static void test_what_shares_its_round_with_a_bad_poll_is_not_to_blame(void **state)
{
    (void)state;
    struct decider *d = tells_and_polls();
    fails_for_a_row(d, 4);
    (void)decide(d, 4);
    assert_int_equal(d->round.n_finish, 1); /* again at once, without it */
    assert_false(d->round.finish[0]->refused);
    assert_int_equal(d->round.n_poll, 0);
    assert_false(d->round.chores);
    commit(d, 5, NULL, 0);
    assert_int_equal(d->count_done, 1);
    int64_t due = 6;
    for (int i = 0; i < 3; i++) { /* alone, after ever longer pauses, and each time longer */
        (void)decide(d, due);
        assert_int_equal(d->round.n_poll, 1);
        assert_int_equal(d->round.n_finish + d->round.n_verify, 0);
        assert_true(d->round.limit_ms >= ASK_LIMIT_MIN_MS && d->round.limit_ms <= RETRY_MAX_MS);
        fails_for_a_row(d, due);
        int64_t before = due;
        due = decide(d, before);
        assert_in_range(due - before, 1 + i * RETRY_MIN_MS / 2, (2 << i) * RETRY_MIN_MS);
        assert_false(d->rounds.in_flight);
    }
    feed(d, due - 1, /* what ends meanwhile waits for none of this */
         (struct event){
             .type = EVENT_REPLY, .slot = 1, .id = 6, .outcome = OUTCOME_DONE, .delay_ms = -1});
    gone(d, due - 1, 1, "");
    (void)decide(d, due - 1);
    assert_int_equal(d->round.n_finish, 1);
    assert_int_equal(d->round.n_poll, 0);
    commit(d, due, NULL, 0);
    (void)decide(d, due);
    assert_int_equal(d->round.n_poll, 2);
    assert_int_equal(d->round.limit_ms, 0); /* nobody waits */
    commit(d, due + 1, NULL, 0);
    assert_non_null(note_find(d, NOTE_ROUND_WORKS));
    decider_free(d);
}

static void test_a_poll_that_met_a_lock_costs_outcomes_no_pause(void **state)
{
    (void)state;
    struct decider *d = tells_and_polls();
    feed(d, 100,
         (struct event){.type = EVENT_ROUND_FAILED, .failure = FAILURE_AGAIN, .text = "lock"});
    (void)decide(d, 100);
    assert_int_equal(d->round.n_finish, 1);
    assert_int_equal(d->round.n_poll, 0);
    commit(d, 101, NULL, 0);
    (void)decide(d, 101); /* and the poll none */
    assert_int_equal(d->round.n_poll, 1);
    commit(d, 102, NULL, 0);
    assert_false(d->rounds.tell.failing || d->rounds.claim.failing);
    decider_free(d);
}

/* Or more and more tasks would run whose ends nobody learns. */
static void test_who_cannot_tell_does_not_claim(void **state)
{
    (void)state;
    struct decider *d = tells_and_polls();
    for (int64_t now = 4, n = 0; n < 5; n++) {
        feed(d, now,
             (struct event){.type = EVENT_ROUND_FAILED, .failure = FAILURE_AGAIN, .text = "full"});
        int64_t due = decide(d, now);
        for (now = due; !d->rounds.in_flight; now = due) {
            due = decide(d, now);
        }
        assert_int_equal(d->round.n_finish, 1);
        assert_int_equal(d->round.n_poll, 0);
    }
    commit(d, 60000, NULL, 0);
    (void)decide(d, 60000);
    settle(d, 60000); /* whether the other task, by now at its deadline, has more time */
    assert_int_equal(d->round.n_poll, 1);
    commit(d, 60001, NULL, 0);
    decider_free(d);
}

static void test_an_outcome_refused_twice_pauses(void **state)
{
    (void)state;
    struct decider *d = running(exec_mode, claimed(5, "a"));
    settle(d, 3);
    reply(d, 4, 5, OUTCOME_DONE);
    for (int i = 0; i < 3; i++) { /* with a poll, without it, and with a note */
        (void)decide(d, 4);
        assert_int_equal(d->round.n_finish, 1);
        assert_int_equal(d->round.n_poll > 0, i == 0);
        fails_for_a_row(d, 4);
    }
    assert_true(decide(d, 4) > 4);
    assert_false(d->rounds.in_flight);
    decider_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_shares_its_round_with_a_bad_poll_is_not_to_blame),
        cmocka_unit_test(test_a_poll_that_met_a_lock_costs_outcomes_no_pause),
        cmocka_unit_test(test_who_cannot_tell_does_not_claim),
        cmocka_unit_test(test_an_outcome_refused_twice_pauses),
    };
    return RUN_GROUP(tests);
}
