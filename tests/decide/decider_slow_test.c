/* label: unit */
/* Rounds that run into their statement's timeout take less, until what is too slow stands alone and
 * is set aside. */
#include "tests/support/deciding.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TASKS = 64, STEPS = 40, BAD = 7, TIMEOUT_MS = 15000, TURNS = 400 };

static void times_out(struct decider *d, int64_t now)
{
    feed(d, now,
         (struct event){.type = EVENT_ROUND_FAILED, .failure = FAILURE_AGAIN, .text = "canceled"});
}

/* A worker whose tasks have ended, every second one with a failure. */
static struct decider *with_outcomes(void)
{
    struct decider *d = decider_make(TASKS, 1, exec_mode);
    struct claim *all[TASKS];
    present(d, 0);
    (void)decide(d, 0);
    for (int i = 0; i < TASKS; i++) {
        all[i] = claimed(i + 1, "a");
    }
    commit(d, 1, all, TASKS);
    (void)decide(d, 1);
    settle(d, 2);
    for (int i = 0; i < TASKS; i++) {
        feed(d, 3,
             (struct event){.type = EVENT_REPLY,
                            .slot = all[i]->slot,
                            .id = i + 1,
                            .outcome = i % 2 ? OUTCOME_FAILED : OUTCOME_DONE,
                            .delay_ms = -1});
    }
    return d;
}

static bool has_bad(const struct round *x)
{
    bool has = false;
    for (size_t i = 0; i < x->n_finish; i++) {
        has = has || (x->finish[i]->id == BAD && !x->finish[i]->refused);
    }
    return has;
}

/* The others end, in few such rounds, and in the end a note stands for its result. */
static void test_an_outcome_is_set_aside(void **state)
{
    (void)state;
    struct decider *d = with_outcomes();
    size_t ended = 0;
    int slow = 0;
    int64_t now = 3;
    for (int turn = 0; turn < TURNS && ended < TASKS; turn++, now += 100) {
        (void)decide(d, now);
        if (d->rounds.in_flight && has_bad(&d->round)) {
            slow++;
            now += TIMEOUT_MS;
            times_out(d, now);
        } else if (d->rounds.in_flight) {
            ended += d->round.n_finish + d->round.n_requeue;
            commit(d, now, NULL, 0);
        }
    }
    assert_int_equal(ended, TASKS);
    assert_in_range(slow, 4, 20); /* not each try counts: another round must have committed */
    decider_free(d);
}

static struct decider *with_steps(void)
{
    struct decider *d = decider_make(1, 1, pool_mode);
    struct claim *c = claimed(1, "a");
    present(d, 0);
    (void)decide(d, 0);
    commit(d, 1, &c, 1);
    (void)decide(d, 1);
    feed(d, 2, (struct event){.type = EVENT_CHILD_READY, .slot = 0, .room = 1});
    (void)decide(d, 2);
    settle(d, 2);
    settle(d, 2);
    assert_int_equal(d->n_given, 1);
    for (int i = 1; i <= STEPS; i++) {
        struct event e = {.type = EVENT_STEP, .slot = 0, .id = 1, .step = strdup("{}")};
        (void)snprintf(e.name, sizeof e.name, "%d", i);
        feed(d, 3, e);
    }
    return d;
}

static bool has_bad_step(struct round *x)
{
    bool has = false;
    for (size_t i = 0; i < x->n_steps; i++) {
        x->steps[i]->state = WRITE_WRITTEN;
        has = has || strtol(x->steps[i]->name, NULL, 10) == BAD;
    }
    for (size_t i = 0; i < x->n_verify; i++) {
        x->verdicts[i] = VERDICT_MINE;
    }
    return has;
}

/* The others are written, and this one is refused. */
static void test_a_step_is_refused(void **state)
{
    (void)state;
    struct decider *d = with_steps();
    size_t recorded = 0, refused = 0;
    int64_t now = 3;
    for (int turn = 0; turn < TURNS && recorded + refused < STEPS; turn++, now += 100) {
        (void)decide(d, now);
        refused += note_find(d, NOTE_STEP_REFUSED) != NULL;
        if (d->rounds.in_flight && has_bad_step(&d->round)) {
            now += TIMEOUT_MS;
            times_out(d, now);
        } else if (d->rounds.in_flight) {
            recorded += d->round.n_steps;
            feed(d, now, (struct event){.type = EVENT_ROUND_DONE});
        }
    }
    assert_int_equal(recorded, STEPS - 1);
    assert_int_equal(refused, 1);
    decider_free(d);
}

/* A statement was cancelled, or met a lock: that tells nothing of its size. */
static void test_a_short_failure_makes_no_round_smaller(void **state)
{
    (void)state;
    struct decider *d = with_outcomes();
    int64_t now = 3;
    (void)decide(d, now);
    assert_true(d->round.n_finish > 1);
    times_out(d, now + 9000);
    assert_int_equal(d->rounds.outcomes_max, ROUND_OUTCOMES_MAX);
    for (now += 9000; !d->rounds.in_flight; now += 100) {
        (void)decide(d, now);
    }
    times_out(d, now + TIMEOUT_MS);
    assert_true(d->rounds.outcomes_max < TASKS);
    decider_free(d);
}

/* One result, and a server that is away for minutes: it is kept until it can be told. */
static void test_a_server_that_is_away_costs_no_result(void **state)
{
    (void)state;
    const enum round_failure ways[] = {FAILURE_UNSENT, FAILURE_UNKNOWN};
    for (size_t way = 0; way < sizeof ways / sizeof *ways; way++) {
        struct claim *c = claimed(1, "a");
        struct decider *d = running(exec_mode, c);
        int64_t now = 2;
        int away = 0;
        reply(d, now, 1, OUTCOME_DONE);
        for (int turn = 0; turn < TURNS && away < 10; turn++, now += 1000) {
            (void)decide(d, now);
            if (d->rounds.in_flight && d->round.n_finish > 0) {
                now += TIMEOUT_MS;
                away++;
                feed(d, now,
                     (struct event){.type = EVENT_ROUND_FAILED,
                                    .failure = ways[way],
                                    .text = "away"});
            } else if (d->rounds.in_flight) { /* is it still ours? */
                commit(d, now, NULL, 0);
            }
        }
        assert_int_equal(away, 10);
        assert_int_equal(c->slow, 0);
        assert_false(c->refused);
        decider_free(d);
    }
}

/* Every statement runs into its timeout, for minutes: no result is given up for that. */
static void test_a_server_that_is_slow_costs_no_result(void **state)
{
    (void)state;
    struct claim *c = claimed(1, "a");
    struct decider *d = running(exec_mode, c);
    int64_t now = 2;
    reply(d, now, 1, OUTCOME_DONE);
    for (int turn = 0; turn < TURNS; turn++, now += 1000) {
        (void)decide(d, now);
        if (d->rounds.in_flight) {
            now += TIMEOUT_MS;
            times_out(d, now);
        }
    }
    assert_in_range(c->slow, 0, 1);
    assert_false(c->refused);
    decider_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_outcome_is_set_aside),
        cmocka_unit_test(test_a_step_is_refused),
        cmocka_unit_test(test_a_short_failure_makes_no_round_smaller),
        cmocka_unit_test(test_a_server_that_is_away_costs_no_result),
        cmocka_unit_test(test_a_server_that_is_slow_costs_no_result),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
