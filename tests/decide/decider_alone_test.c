/* label: unit */
/* Suspects in the worker's head: when it asks for a turn, and what it does in one. */
#include "tests/support/deciding.h"

#include <stdlib.h>

static enum alone_ask asked(const struct decider *d)
{
    return d->rounds.in_flight ? d->round.alone : ALONE_ASK_NOTHING;
}

static void answer_turn(struct decider *d, int64_t now, bool has_turn)
{
    d->round.has_turn = has_turn;
    commit(d, now, NULL, 0);
    (void)decide(d, now);
}

/* A worker that asks for its first turn at `now`, while it runs this, NULL = nothing. */
static struct decider *asking(int64_t now, const bool *pool, struct claim *c)
{
    struct decider *d = c ? running(pool, c) : decider_make(2, 1, pool);
    present(d, 2);
    d->alone.ask_ms = now;
    for (int i = 0; i < 5 && asked(d) == ALONE_ASK_NOTHING; i++) {
        settle(d, now);
        (void)decide(d, now + ALONE_ASK_MS);
    }
    assert_int_equal(asked(d), ALONE_ASK_TURN);
    return d;
}

/* One that has the turn, and whose child has suspect 1 now. */
static struct decider *runs_suspect(void)
{
    struct decider *d = asking(5000, pool_mode, NULL);
    answer_turn(d, 6001, true);
    assert_int_equal(asked(d), ALONE_ASK_CLAIM);
    struct claim *c = claimed(1, "a");
    commit(d, 6002, &c, 1);
    (void)decide(d, 6002);
    assert_int_equal(action_count(d, ACTION_SPAWN), 1); /* of its own, in a worker of two slots */
    feed(d, 6003, (struct event){.type = EVENT_CHILD_READY, .slot = 0, .room = 4});
    (void)decide(d, 6003);
    assert_int_equal(action_count(d, ACTION_GIVE), 1);
    return d;
}

static void test_a_new_worker_does_ordinary_work_first(void **state)
{
    (void)state;
    struct decider *d = decider_make(1, 1, pool_mode);
    alone_reset(d, 0);
    present(d, 0);
    for (int64_t now = 0; now < ALONE_FIRST_MS; now += 100) {
        settle(d, now);
        (void)decide(d, now);
        assert_int_equal(asked(d), ALONE_ASK_NOTHING);
    }
    for (int64_t now = ALONE_FIRST_MS; asked(d) == ALONE_ASK_NOTHING; now += 100) {
        assert_true(now <= ALONE_FIRST_MS + 2 * ALONE_ASK_MS);
        settle(d, now);
        (void)decide(d, now);
    }
    decider_free(d);
}

static void test_without_a_turn_it_goes_on(void **state)
{
    (void)state;
    struct decider *d = asking(5000, pool_mode, NULL);
    answer_turn(d, 6001, false);
    assert_int_equal(d->alone.state, ALONE_NOT);
    assert_true(round_capacity(d) > 0);
    decider_free(d);
}

/* What runs ends first, and nothing else is claimed; the children go. */
static void test_it_empties_before_it_claims(void **state)
{
    (void)state;
    struct decider *d = asking(5000, pool_mode, claimed(7, "a"));
    answer_turn(d, 6001, true);
    assert_int_equal(d->alone.state, ALONE_EMPTIES);
    assert_int_equal(round_capacity(d), 0);
    settle(d, 6002);
    assert_int_not_equal(asked(d), ALONE_ASK_CLAIM);
    reply(d, 6100, 7, OUTCOME_DONE);
    (void)decide(d, 6100);
    assert_non_null(action_find(d, ACTION_CLOSE));
    settle(d, 6101);
    assert_int_not_equal(asked(d), ALONE_ASK_CLAIM); /* its child is there still */
    gone(d, 6102, 0, "exit status 0");
    (void)decide(d, 6102);
    assert_int_equal(asked(d), ALONE_ASK_CLAIM);
    assert_int_equal(d->round.n_poll + (int)d->round.n_ids, 0);
    settle(d, 6103);
    assert_int_equal(asked(d), ALONE_ASK_OVER); /* there was none */
    settle(d, 6104);
    assert_int_equal(d->alone.state, ALONE_NOT);
    decider_free(d);
}

/* Tasks that take long keep it from its turn; the next time it waits longer. */
static void test_its_patience_ends_and_grows(void **state)
{
    (void)state;
    struct claim *c = claimed(7, "a");
    c->timeout_ms = INT64_C(1) << 40;
    struct decider *d = asking(5000, pool_mode, c);
    answer_turn(d, 6001, true);
    int64_t now = 6002;
    for (; d->alone.state == ALONE_EMPTIES; now += 100) {
        assert_true(now <= 6101 + ALONE_PATIENCE_MS);
        settle(d, now);
        assert_true(decide(d, now) <= 6101 + ALONE_PATIENCE_MS);
    }
    assert_in_range(now, 6001 + ALONE_PATIENCE_MS, 6201 + ALONE_PATIENCE_MS);
    settle(d, now);
    settle(d, now + 1);
    assert_int_equal(d->alone.state, ALONE_NOT);
    assert_int_equal(d->alone.patience_ms, 2 * ALONE_PATIENCE_MS);
    assert_true(d->alone.ask_ms >= now + ALONE_PATIENCE_MS); /* others have it meanwhile */
    decider_free(d);
}

/* The death of a child tells who is guilty, though that had one task only. */
static void test_a_suspect_s_child_that_dies(void **state)
{
    (void)state;
    struct decider *d = runs_suspect();
    settle(d, 6004);
    gone(d, 6100, 0, "killed by signal 6");
    (void)decide(d, 6100);
    assert_int_equal(d->round.n_requeue, 1);
    assert_int_equal(d->round.requeue[0]->outcome, OUTCOME_CRASHED);
    settle(d, 6101);
    (void)decide(d, 6101);
    assert_int_equal(asked(d), ALONE_ASK_CLAIM);
    decider_free(d);
}

/* The next suspect has a child of its own, too. After a turn comes as much ordinary work. */
static void test_a_turn_ends(void **state)
{
    (void)state;
    struct decider *d = runs_suspect();
    settle(d, 6004);
    reply(d, 6100, 1, OUTCOME_DONE);
    (void)decide(d, 6100);
    settle(d, 6101);
    (void)decide(d, 6101);
    assert_int_equal(d->alone.state, ALONE_EMPTIES);
    assert_int_not_equal(asked(d), ALONE_ASK_CLAIM);
    gone(d, 6102, 0, "exit status 0");
    (void)decide(d, 6102);
    assert_int_equal(asked(d), ALONE_ASK_CLAIM);
    struct claim *c = claimed(2, "a");
    commit(d, 6103, &c, 1);
    (void)decide(d, 6103);
    feed(d, 6104, (struct event){.type = EVENT_CHILD_READY, .slot = 0, .room = 4});
    (void)decide(d, 6104);
    settle(d, 6105);
    int64_t now = 6001 + ALONE_TURN_MS;
    reply(d, now, 2, OUTCOME_DONE);
    for (int i = 0; i < 4 && d->alone.state != ALONE_NOT; i++) {
        (void)decide(d, now + i);
        settle(d, now + i);
    }
    assert_int_equal(d->alone.state, ALONE_NOT);
    assert_in_range(d->alone.ask_ms, now + ALONE_TURN_MS, now + ALONE_TURN_MS + 10);
    gone(d, now + 10, 0, "exit status 0"); /* the child is not given another task */
    (void)decide(d, now + 10);
    assert_true(round_capacity(d) > 0);
    decider_free(d);
}

static void test_another_identity_has_no_turn(void **state)
{
    (void)state;
    struct decider *d = asking(5000, pool_mode, NULL);
    answer_turn(d, 6001, true);
    assert_int_not_equal(d->alone.state, ALONE_NOT);
    feed(d, 6002, (struct event){.type = EVENT_PRESENCE, .up = true, .renewed = true});
    assert_int_equal(d->alone.state, ALONE_NOT);
    settle(d, 6003);
    assert_int_equal(d->alone.state, ALONE_NOT);
    decider_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_new_worker_does_ordinary_work_first),
        cmocka_unit_test(test_without_a_turn_it_goes_on),
        cmocka_unit_test(test_it_empties_before_it_claims),
        cmocka_unit_test(test_its_patience_ends_and_grows),
        cmocka_unit_test(test_a_suspect_s_child_that_dies),
        cmocka_unit_test(test_a_turn_ends),
        cmocka_unit_test(test_another_identity_has_no_turn),
    };
    return RUN_GROUP(tests);
}
