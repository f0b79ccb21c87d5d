/* label: unit */
/* After a failure rounds go apart: what is wrong with one part of a round delays no other part. */
#include "tests/support/deciding.h"

#include <stdlib.h>
#include <string.h>

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
    assert_false(d->rounds.parts[PART_FINISH].failed || d->rounds.parts[PART_CLAIM].failed);
    decider_free(d);
}

static void meets_a_lock(struct decider *d, int64_t now)
{
    feed(d, now,
         (struct event){.type = EVENT_ROUND_FAILED, .failure = FAILURE_AGAIN, .text = "lock"});
}

/* The task that was claimed last runs, and ends. */
static void runs_and_ends(struct decider *d, int64_t now, int64_t id)
{
    const struct action *a = action_find(d, ACTION_SPAWN);
    assert_non_null(a);
    int slot = a->slot;
    feed(d, now,
         (struct event){
             .type = EVENT_REPLY, .slot = slot, .id = id, .outcome = OUTCOME_DONE, .delay_ms = -1});
    gone(d, now, slot, "");
}

/* What locks the history stops no start, but not for ever: those whose ends nobody learns would run
 * again. */
static void test_who_cannot_tell_claims_only_so_many(void **state)
{
    (void)state;
    struct decider *d = tells_and_polls();
    int64_t now = 4, id = 100;
    meets_a_lock(d, now);
    for (int idle = 0; idle < 100; now++) {
        d->polling.next_ms = now;
        (void)decide(d, now);
        idle = d->rounds.in_flight ? 0 : idle + 1;
        now += idle > 0 ? RETRY_MAX_MS / 10 : 0;
        if (d->round.n_finish > 0 && d->rounds.in_flight) {
            assert_int_equal(d->round.n_poll, 0);
            meets_a_lock(d, now);
            idle = id - 100 >= UNTOLD_MAX - 1 ? 100 : 0;
        } else if (d->rounds.in_flight) {
            struct claim *c = claimed(id++, "a");
            commit(d, now, &c, 1);
            (void)decide(d, now);
            runs_and_ends(d, now, c->id);
        }
    }
    assert_int_equal(id - 100, UNTOLD_MAX - 1); /* and task 5 */
    for (int64_t until = now + RETRY_MAX_MS * 2; now < until; now += 100) {
        (void)decide(d, now);
        if (d->rounds.in_flight) {
            break;
        }
    }
    assert_int_equal(d->round.n_finish, UNTOLD_MAX);
    commit(d, now, NULL, 0);
    (void)decide(d, now);
    assert_int_equal(d->round.n_poll, 1);
    commit(d, now, NULL, 0);
    decider_free(d);
}

/* A lock on the history: a running task that was cancelled is stopped all the same. */
static void test_outcomes_that_fail_delay_no_verification(void **state)
{
    (void)state;
    struct decider *d = tells_and_polls();
    meets_a_lock(d, 4);
    verdict = VERDICT_CANCELLED;
    int64_t now = 5;
    for (; now < 10000 && !action_find(d, ACTION_SIGNAL); now += 10) {
        (void)decide(d, now);
        if (d->rounds.in_flight && d->round.n_finish > 0) {
            meets_a_lock(d, now);
        } else if (d->rounds.in_flight) {
            commit(d, now, NULL, 0);
        }
    }
    verdict = VERDICT_MINE;
    assert_in_range(now, VERIFY_EVERY_MS, VERIFY_EVERY_MS + 200);
    assert_int_equal(d->count_done, 0);
    decider_free(d);
}

/* The connection broke, and by now the task is another worker's: no outcome is left to fail. */
static void test_rounds_go_together_when_nothing_is_left_to_fail(void **state)
{
    (void)state;
    struct decider *d = running(exec_mode, claimed(5, "a"));
    settle(d, 3);
    d->polling.next_ms = d->polling.next_sweep_ms = INT64_MAX;
    reply(d, 4, 5, OUTCOME_DONE);
    (void)decide(d, 4);
    assert_int_equal(round_parts(&d->round), 1);
    feed(d, 5,
         (struct event){.type = EVENT_ROUND_FAILED, .failure = FAILURE_UNKNOWN, .text = "gone"});
    verdict = VERDICT_LOST;
    for (int64_t now = 5; d->n_held > 0; now += 10) {
        assert_true(now < 1000);
        assert_true(!d->rounds.in_flight || d->round.own);
        settle(d, now);
        (void)decide(d, now);
    }
    verdict = VERDICT_MINE;
    assert_true(d->rounds.parts[PART_FINISH].failed);
    assert_false(round_goes_apart(d));
    assert_false(d->rounds.failing);
    decider_free(d);
}

/* A lock on the dead, which requeueing needs. */
static void test_a_requeue_that_fails_stops_nothing_else(void **state)
{
    (void)state;
    struct decider *d = tells_and_polls();
    commit(d, 4, NULL, 0);
    feed(d, 5,
         (struct event){
             .type = EVENT_REPLY, .slot = 1, .id = 6, .outcome = OUTCOME_FAILED, .delay_ms = -1});
    gone(d, 5, 1, "");
    (void)decide(d, 5);
    assert_int_equal(d->round.n_requeue, 1);
    int64_t now = 6, retries = 0;
    for (int64_t id = 100; now < 30000; now += 100) { /* whatever ends meanwhile is told */
        if (d->rounds.in_flight && d->round.n_requeue > 0) {
            retries++;
            meets_a_lock(d, now);
        }
        d->polling.next_ms = now;
        (void)decide(d, now);
        if (d->rounds.in_flight && d->round.n_requeue == 0) {
            struct claim *c = claimed(id, "a");
            bool polls = d->round.n_poll > 0;
            commit(d, now, polls ? &c : NULL, polls ? 1 : 0);
            if (!polls) {
                free(c);
                continue;
            }
            (void)decide(d, now);
            runs_and_ends(d, now, id++);
        }
    }
    assert_in_range(retries, 4, 20);
    assert_true(d->count_done > 100);
    assert_non_null(d->to_requeue ? d->to_requeue : d->round.requeue[0]);
    for (; d->count_failed == 0; now += 100) {
        assert_true(now < 60000);
        settle(d, now);
        (void)decide(d, now);
    }
    decider_free(d);
}

/* While the history is locked: the next attempt begins with what the last one said. */
static void test_a_lock_on_the_history_keeps_no_last_word(void **state)
{
    (void)state;
    struct decider *d = tells_and_polls();
    meets_a_lock(d, 4);
    feed(d, 5, (struct event){.type = EVENT_PROGRESS, .slot = 1, .id = 6, .progress = strdup("x")});
    gone(d, 5, 1, "exit status 1");
    int said = 0;
    for (int64_t now = 5; now < 3000; now += 10) {
        (void)decide(d, now);
        if (d->rounds.in_flight && d->round.n_finish > 0) {
            assert_int_equal(d->round.n_requeue + d->round.n_progress, 0);
            meets_a_lock(d, now);
        } else if (d->rounds.in_flight) {
            said += (int)d->round.n_progress;
            assert_true(d->round.n_requeue == 0 || said == 1);
            commit(d, now, NULL, 0);
        }
    }
    assert_int_equal(said, 1);
    assert_int_equal(d->count_failed, 1);
    assert_int_equal(d->count_done, 0);
    settle(d, 9000);
    decider_free(d);
}

/* A lock on the dead: what was said is written before, and not again and again. */
static void test_a_requeue_that_fails_writes_the_last_word_once(void **state)
{
    (void)state;
    struct decider *d = tells_and_polls();
    commit(d, 4, NULL, 0);
    feed(d, 5, (struct event){.type = EVENT_PROGRESS, .slot = 1, .id = 6, .progress = strdup("x")});
    gone(d, 5, 1, "exit status 1");
    int retries = 0, said = 0;
    for (int64_t now = 5; now < 30000; now += 10) {
        (void)decide(d, now);
        if (d->rounds.in_flight && d->round.n_requeue > 0) {
            retries++;
            assert_int_equal(said, 1);
            meets_a_lock(d, now);
        } else if (d->rounds.in_flight) {
            said += (int)d->round.n_progress;
            commit(d, now, NULL, 0);
        }
        assert_false(d->rounds.parts[PART_FINISH].failed);
    }
    assert_int_equal(said, 1);
    assert_in_range(retries, 4, 20);
    decider_free(d);
}

/* Though another task ends while each round runs. */
static void test_a_bad_requeue_is_found_beside_outcomes(void **state)
{
    (void)state;
    enum { TASKS = 100 };
    struct decider *d = decider_make(1, 1, pool_mode);
    struct claim *all[TASKS];
    present(d, 0);
    d->handlers[0].room = TASKS;
    (void)decide(d, 0);
    for (int i = 0; i < TASKS; i++) {
        all[i] = claimed(1 + i, "a");
    }
    commit(d, 1, all, TASKS);
    (void)decide(d, 1);
    feed(d, 2, (struct event){.type = EVENT_CHILD_READY, .slot = 0, .room = TASKS});
    (void)decide(d, 2);
    settle(d, 2);
    settle(d, 2);
    reply(d, 3, 1, OUTCOME_FAILED);
    reply(d, 3, 2, OUTCOME_DONE);
    int64_t now = 3;
    for (int64_t id = 3; d->count_failed == 0; id++, now += 10) {
        assert_true(id <= TASKS / 2);
        d->polling.next_ms = d->polling.next_sweep_ms = INT64_MAX;
        (void)decide(d, now);
        reply(d, now, id, OUTCOME_DONE);
        if (d->rounds.in_flight && d->round.n_requeue > 0 && !d->round.requeue[0]->refused) {
            fails_for_a_row(d, now);
        } else {
            settle(d, now);
        }
    }
    (void)decide(d, now);
    settle(d, now);
    assert_true(d->count_done > 0);
    decider_free(d);
}

static void test_an_outcome_refused_twice_pauses(void **state)
{
    (void)state;
    struct decider *d = running(exec_mode, claimed(5, "a"));
    settle(d, 3);
    reply(d, 4, 5, OUTCOME_DONE);
    int64_t due = decide(d, 4);
    int tries = 0, polls = 0;
    for (; d->rounds.in_flight; due = decide(d, 4)) {
        if (d->round.n_finish > 0) { /* with a poll, without it, and with a note */
            assert_int_equal(d->round.n_poll > 0, tries++ == 0);
            fails_for_a_row(d, 4);
        } else {
            polls += d->round.n_poll > 0;
            commit(d, 4, NULL, 0);
        }
    }
    assert_int_equal(tries, 3);
    assert_int_equal(polls, 1);
    assert_true(due > 4);
    decider_free(d);
}

/* --- many more outcomes than a round holds --- */

enum { CHILDREN = 21, ROOM = 1000, MANY = CHILDREN * ROOM };

static void start_children(struct decider *d, int64_t now)
{
    for (int i = 0; i < CHILDREN; i++) {
        if (d->slots[i].state == SLOT_STARTING) {
            feed(d, now, (struct event){.type = EVENT_CHILD_READY, .slot = i, .room = ROOM});
        }
    }
}

/* ret: the time, as tasks come in as many rounds as they need. */
static int64_t run_many(struct decider *d)
{
    int64_t now = 0, id = 1;
    present(d, 0);
    while (d->n_given < MANY) {
        static struct claim *found[ROUND_CLAIMS_MAX];
        size_t n = 0;
        (void)decide(d, ++now);
        start_children(d, now);
        while (d->rounds.in_flight && n < (size_t)d->round.n_poll) {
            found[n++] = claimed(id++, "a");
        }
        if (d->rounds.in_flight) {
            commit(d, now, found, n);
        }
        assert_true(now < 100000);
    }
    return now;
}

static void fail_all(struct decider *d, int64_t now, enum claim_outcome outcome)
{
    for (int i = 0; i < CHILDREN; i++) {
        while (d->slots[i].given) {
            feed(d, now,
                 (struct event){.type = EVENT_REPLY,
                                .slot = i,
                                .id = d->slots[i].given->id,
                                .outcome = outcome,
                                .delay_ms = 5000});
        }
    }
}

/* A bad value halves the next round, to a number that a doubling takes past the array. */
static void test_many_outcomes_stay_within_a_round(void **state)
{
    (void)state;
    static const enum claim_outcome outcomes[] = {OUTCOME_FAILED, OUTCOME_DONE};
    for (size_t k = 0; k < 2; k++) {
        struct decider *d = decider_make(CHILDREN, 1, pool_mode);
        int64_t now = run_many(d);
        size_t most = 0;
        settle(d, now);
        d->stop_level = 1; /* nothing new */
        fail_all(d, now, outcomes[k]);
        d->rounds.outcomes_max = ROUND_OUTCOMES_MAX / 2 + 201;
        for (int i = 0; d->n_held > 0 && i < 1000; i++) {
            (void)decide(d, now += 5);
            if (d->rounds.in_flight) {
                most = d->round.n_finish + d->round.n_requeue > most
                           ? d->round.n_finish + d->round.n_requeue
                           : most;
                assert_true(most <= ROUND_OUTCOMES_MAX);
                commit(d, now, NULL, 0);
            }
        }
        assert_int_equal(d->n_held, 0);
        assert_int_equal(most, ROUND_OUTCOMES_MAX);
        decider_free(d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_shares_its_round_with_a_bad_poll_is_not_to_blame),
        cmocka_unit_test(test_a_poll_that_met_a_lock_costs_outcomes_no_pause),
        cmocka_unit_test(test_who_cannot_tell_claims_only_so_many),
        cmocka_unit_test(test_outcomes_that_fail_delay_no_verification),
        cmocka_unit_test(test_rounds_go_together_when_nothing_is_left_to_fail),
        cmocka_unit_test(test_a_requeue_that_fails_stops_nothing_else),
        cmocka_unit_test(test_a_lock_on_the_history_keeps_no_last_word),
        cmocka_unit_test(test_a_requeue_that_fails_writes_the_last_word_once),
        cmocka_unit_test(test_a_bad_requeue_is_found_beside_outcomes),
        cmocka_unit_test(test_an_outcome_refused_twice_pauses),
        cmocka_unit_test(test_many_outcomes_stay_within_a_round),
    };
    return RUN_GROUP(tests);
}
