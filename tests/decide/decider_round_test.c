/* label: unit */
/* What goes into a round with the database, and what its answers mean. */
#include "tests/support/deciding.h"

#include <signal.h>
#include <stdlib.h>

static void test_claims_nothing_before_it_is_present(void **state)
{
    (void)state;
    struct decider *d = decider_make(2, 1, exec_mode);
    (void)decide(d, 0);
    assert_null(action_find(d, ACTION_ROUND));
    assert_null(action_find(d, ACTION_PREFETCH));
    present(d, 5);
    (void)decide(d, 5);
    assert_non_null(action_find(d, ACTION_ROUND));
    assert_int_equal(d->round.n_poll, 2);
    assert_int_equal(action_find(d, ACTION_PREFETCH)->n, 2);
    decider_free(d);
}

static void test_one_round_at_a_time_and_more_gathers(void **state)
{
    (void)state;
    struct decider *d = decider_make(4, 1, exec_mode);
    present(d, 0);
    feed(d, 0, (struct event){.type = EVENT_BROKER, .up = true, .epoch = 1});
    (void)decide(d, 0);
    assert_non_null(action_find(d, ACTION_ROUND));
    const int64_t ids[] = {1, 2, 3};
    feed(d, 1,
         (struct event){.type = EVENT_WAKEUPS, .epoch = 1, .ids = ids, .n = 3, .last_tag = 3});
    (void)decide(d, 1);
    assert_null(action_find(d, ACTION_ROUND));
    commit(d, 2, NULL, 0);
    (void)decide(d, 2);
    assert_non_null(action_find(d, ACTION_ROUND));
    assert_int_equal(d->round.n_ids, 3);
    assert_int_equal(action_find(d, ACTION_ACK)->tag, 3); /* what is lost with it a poll finds */
    struct claim *c = claimed(2, "a");
    d->round.claimed[0] = c;
    d->round.n_claimed = 1;
    feed(d, 3, (struct event){.type = EVENT_ROUND_DONE});
    (void)decide(d, 3);
    assert_int_equal(action_count(d, ACTION_SPAWN), 1);
    /* 1 and 3 were missing or locked: they are asked for once more */
    (void)decide(d, 53);
    assert_int_equal(d->round.n_ids, 2);
    commit(d, 54, NULL, 0);
    (void)decide(d, 200);
    assert_false(d->rounds.in_flight);
    decider_free(d);
}

static void test_done_is_finished_in_the_next_round(void **state)
{
    (void)state;
    struct decider *d = running(exec_mode, claimed(5, "a"));
    settle(d, 3);
    reply(d, 4, 5, OUTCOME_DONE);
    gone(d, 4, 0, "exit status 0");
    (void)decide(d, 4);
    assert_int_equal(d->round.n_finish, 1);
    assert_int_equal(d->round.finish[0]->id, 5);
    commit(d, 5, NULL, 0);
    assert_int_equal(d->n_held, 0);
    assert_int_equal(d->count_done, 1);
    decider_free(d);
}

static void test_a_finish_that_was_missed_is_verified(void **state)
{
    (void)state;
    static const enum verdict verdicts[] = {VERDICT_MINE, VERDICT_ENDED, VERDICT_LOST};
    for (size_t i = 0; i < 3; i++) {
        struct decider *d = running(exec_mode, claimed(5, "a"));
        settle(d, 3);
        reply(d, 4, 5, OUTCOME_DONE);
        gone(d, 4, 0, "");
        (void)decide(d, 4);
        d->round.finished[0] = false;
        feed(d, 5, (struct event){.type = EVENT_ROUND_DONE});
        (void)decide(d, 5 + RETRY_MIN_MS);
        assert_int_equal(d->round.n_verify, 1);
        assert_int_equal(d->round.verify[0].id, 5);
        d->round.verdicts[0] = verdicts[i];
        feed(d, 60, (struct event){.type = EVENT_ROUND_DONE});
        (void)decide(d, 60);
        if (verdicts[i] == VERDICT_MINE) {
            assert_int_equal(d->round.n_finish, 1); /* told again */
        } else {
            assert_int_equal(d->n_held, 0);
            assert_int_equal(d->count_lost, verdicts[i] == VERDICT_LOST);
            assert_int_equal(note_find(d, NOTE_CLAIM_LOST) != NULL, verdicts[i] == VERDICT_LOST);
        }
        decider_free(d);
    }
}

static void test_an_unknown_outcome_asks_first_what_is_ours(void **state)
{
    (void)state;
    struct decider *d = running(exec_mode, claimed(5, "a"));
    settle(d, 3);
    reply(d, 4, 5, OUTCOME_DONE);
    gone(d, 4, 0, "");
    (void)decide(d, 4);
    feed(d, 5,
         (struct event){.type = EVENT_ROUND_FAILED, .failure = FAILURE_UNKNOWN, .text = "gone"});
    int64_t due = decide(d, 5);
    assert_null(action_find(d, ACTION_ROUND)); /* a pause first */
    assert_true(due > 5 && due < 5 + 2 * RETRY_MIN_MS);
    (void)decide(d, due);
    assert_true(d->round.own);
    assert_int_equal(d->round.n_verify, 1);
    assert_int_equal(d->round.n_finish, 0);
    assert_int_equal(d->round.n_poll, 0);
    /* it had committed, and claimed task 6, of which we never heard */
    d->round.verdicts[0] = VERDICT_ENDED;
    d->round.owned = calloc(1, sizeof *d->round.owned);
    d->round.owned[0] = claimed(6, "");
    d->round.n_owned = 1;
    feed(d, due + 1, (struct event){.type = EVENT_ROUND_DONE});
    (void)decide(d, due + 1);
    assert_int_equal(d->round.n_requeue, 1);
    assert_int_equal(d->round.requeue[0]->id, 6);
    assert_int_equal(d->round.requeue[0]->outcome, OUTCOME_RELEASED);
    decider_free(d);
}

/* A standby that lagged knows nothing of the claim that runs here; the task was claimed from it
 * once more by us, with the same number of claims, in a round whose answer was lost. */
static void test_another_claim_with_the_same_attempt_is_given_back(void **state)
{
    (void)state;
    struct decider *d = running(exec_mode, claimed(5, "a"));
    settle(d, 3);
    d->polling.next_ms = 4;
    (void)decide(d, 4);
    feed(d, 5,
         (struct event){.type = EVENT_ROUND_FAILED, .failure = FAILURE_UNKNOWN, .text = "gone"});
    (void)decide(d, 5 + 2 * RETRY_MIN_MS);
    assert_true(d->rounds.in_flight && d->round.own);
    d->round.owned = calloc(1, sizeof *d->round.owned);
    d->round.owned[0] = claimed(5, "");
    d->round.owned[0]->key++;
    d->round.n_owned = 1;
    feed(d, 200, (struct event){.type = EVENT_ROUND_DONE});
    (void)decide(d, 200);
    assert_int_equal(d->round.n_requeue, 1);
    assert_int_equal(d->round.requeue[0]->outcome, OUTCOME_RELEASED);
    commit(d, 201, NULL, 0);
    assert_int_equal(d->n_given, 1); /* until the database says that it is lost */
    decider_free(d);
}

/* What is asked for once more, and requeued in the same round, was ours when we asked. */
static void test_what_is_requeue_is_not_taken_for_unknown(void **state)
{
    (void)state;
    struct decider *d = running(exec_mode, claimed(5, "a"));
    settle(d, 3);
    reply(d, 4, 5, OUTCOME_SNOOZE);
    gone(d, 4, 0, "");
    d->rounds.own_again_ms = 5;
    (void)decide(d, 5);
    assert_true(d->round.own);
    assert_int_equal(d->round.n_requeue, 1);
    d->round.requeue_state[0] = REQUEUE_WAITS;
    d->round.owned = calloc(1, sizeof *d->round.owned);
    d->round.owned[0] = claimed(5, "");
    d->round.n_owned = 1;
    feed(d, 6, (struct event){.type = EVENT_ROUND_DONE});
    (void)decide(d, 6);
    assert_int_equal(d->n_held, 0);
    assert_int_equal(d->round.n_requeue, 0);
    decider_free(d);
}

/* It lies before where the polls go on, and on a busy machine a sweep from the head may rest for a
 * minute. */
static void test_what_is_given_back_ready_is_swept_soon(void **state)
{
    static const struct {
        enum requeue_state requeued;
        int64_t full_ms;
    } cases[] = {
        {REQUEUE_READY, 6 + SWEEP_REST_MAX_MS},
        {REQUEUE_WAITS, SWEEP_FULL_REST_MAX_MS},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct decider *d = running(exec_mode, claimed(5, "a"));
        settle(d, 3);
        reply(d, 4, 5, OUTCOME_RELEASED);
        gone(d, 4, 0, "");
        (void)decide(d, 5);
        assert_int_equal(d->round.n_requeue, 1);
        d->polling.next_full_ms = SWEEP_FULL_REST_MAX_MS;
        d->round.requeue_state[0] = cases[i].requeued;
        feed(d, 6, (struct event){.type = EVENT_ROUND_DONE});
        (void)decide(d, 6);
        assert_int_equal(d->n_held, 0);
        assert_int_equal(d->polling.next_full_ms, cases[i].full_ms);
        decider_free(d);
    }
}

/* Its task is done, too. */
static void test_a_bad_value_is_found_by_halving(void **state)
{
    static const char kept[] = "{\"result\":1}",
                      note[] = "{\"result\":\"tenon: the result was not kept: bad jsonb\"}";
    (void)state;
    struct decider *d = decider_make(8, 1, exec_mode);
    present(d, 0);
    (void)decide(d, 0);
    struct claim *all[8];
    for (int i = 0; i < 8; i++) {
        all[i] = claimed(i + 1, "a");
    }
    commit(d, 1, all, 8);
    (void)decide(d, 1);
    settle(d, 2);
    for (int i = 0; i < 8; i++) {
        feed(d, 3,
             (struct event){.type = EVENT_REPLY,
                            .slot = all[i]->slot,
                            .id = i + 1,
                            .outcome = OUTCOME_DONE,
                            .reply = strdup(i == 5 ? "\\u0000" : kept),
                            .delay_ms = -1});
    }
    int done = 0, noted = 0;
    int64_t now = 3;
    for (int turn = 0; turn < 40 && done < 8; turn++) {
        now += 100;
        (void)decide(d, now);
        struct round *x = &d->round;
        bool bad = false;
        for (size_t i = 0; i < x->n_finish; i++) {
            const char *reply = x->finish[i]->reply;
            bad = bad || (x->finish[i]->id == 6 && strcmp(reply, "\\u0000") == 0);
            noted += strcmp(reply, kept) != 0 && x->finish[i]->id != 6 ? 100 : 0;
            noted += strcmp(reply, note) == 0;
        }
        if (bad) {
            feed(d, now,
                 (struct event){.type = EVENT_ROUND_FAILED,
                                .failure = FAILURE_ROW,
                                .text = "bad jsonb"});
            continue;
        }
        done += (int)x->n_finish;
        assert_int_equal(x->n_requeue, 0);
        commit(d, now, NULL, 0);
    }
    assert_int_equal(done, 8);
    assert_int_equal(noted, 1);
    decider_free(d);
}

static void test_claimed_tasks_without_a_child_go_back_after_a_second(void **state)
{
    (void)state;
    struct decider *d = running(exec_mode, claimed(1, "a"));
    struct claim *c = claimed(2, "a");
    c->timeout_ms = 1000000;
    settle(d, 3);
    (void)decide(d, 2000); /* a poll is due, but no slot is free: force one more claim through */
    settle(d, 2000);
    d->rounds.in_flight = true;
    d->round.n_ids = d->round.n_claimed = d->round.n_finish = d->round.n_requeue =
        d->round.n_verify = 0;
    commit(d, 2001, &c, 1);
    (void)decide(d, 2001);
    assert_int_equal(d->n_waiting, 1);
    (void)decide(d, 2001 + WAITING_MAX_MS);
    settle(d, 2001 + WAITING_MAX_MS);
    (void)decide(d, 2002 + WAITING_MAX_MS);
    assert_int_equal(d->n_waiting, 0);
    assert_int_equal(d->count_released, 1);
    decider_free(d);
}

/* LeakSanitizer judges. */
static void test_a_worker_may_end_before_it_takes_an_answer(void **state)
{
    (void)state;
    struct decider *d = decider_make(1, 1, exec_mode);
    present(d, 0);
    (void)decide(d, 0);
    assert_true(d->rounds.in_flight);
    d->round.claimed[0] = claimed(1, "a");
    d->round.owned = calloc(1, sizeof *d->round.owned);
    d->round.owned[0] = claimed(2, "a");
    d->round.n_claimed = d->round.n_owned = 1;
    decider_free(d);
}

static void test_a_running_task_that_was_taken_is_stopped(void **state)
{
    (void)state;
    struct claim *c = claimed(5, "a");
    c->timeout_ms = 1000000;
    struct decider *d = running(exec_mode, c);
    settle(d, 3);
    (void)decide(d, 1 + VERIFY_EVERY_MS + 1);
    assert_int_equal(d->round.n_verify, 1);
    verdict = VERDICT_LOST;
    commit(d, 6000, NULL, 0);
    verdict = VERDICT_MINE;
    (void)decide(d, 6000);
    assert_int_equal(action_find(d, ACTION_SIGNAL)->n, SIGTERM);
    decider_free(d);
}

static void test_the_same_task_claimed_twice_is_given_back(void **state)
{
    (void)state;
    struct claim *c = claimed(5, "a");
    struct decider *d = decider_make(2, 1, exec_mode);
    present(d, 0);
    (void)decide(d, 0);
    commit(d, 1, &c, 1);
    (void)decide(d, 1);
    settle(d, 2);
    struct claim *again = claimed(5, "a");
    again->claims = 2;
    d->polling.next_ms = 3;
    (void)decide(d, 3);
    commit(d, 4, &again, 1);
    (void)decide(d, 4);
    assert_int_equal(d->n_given, 1);
    assert_int_equal(d->round.n_requeue, 1);
    assert_int_equal(d->round.requeue[0]->claims, 2);
    assert_int_equal(d->round.n_verify, 1); /* the older claim is lost; find out at once */
    verdict = VERDICT_LOST;
    commit(d, 5, NULL, 0);
    verdict = VERDICT_MINE;
    (void)decide(d, 5);
    gone(d, 6, 0, "killed");
    (void)decide(d, 6);
    assert_int_equal(d->n_held, 0);
    decider_free(d);
}

/* A row that somebody keeps locked is asked for and told about in turns, but with a pause. */
static void test_a_locked_row_does_not_make_it_spin(void **state)
{
    (void)state;
    struct decider *d = running(exec_mode, claimed(5, "a"));
    settle(d, 3);
    reply(d, 4, 5, OUTCOME_FAILED);
    gone(d, 4, 0, "exit status 1");
    int rounds = 0;
    for (int64_t now = 4; now < 1004;) {
        int64_t due = decide(d, now);
        for (; d->rounds.in_flight; due = decide(d, now)) {
            rounds++;
            d->round.requeue_state[0] = REQUEUE_MISSED;
            d->round.verdicts[0] = VERDICT_MINE;
            feed(d, now, (struct event){.type = EVENT_ROUND_DONE});
            assert_true(rounds < 100);
        }
        assert_true(due > now);
        now = due;
    }
    assert_in_range(rounds, 10, 60);
    assert_int_equal(d->n_held, 1);
    decider_free(d);
}

/* Rows that somebody keeps locked must not hide which value is bad: then they would be told about
 * together again and again, as fast as the database can. */
static void test_a_bad_value_is_found_beside_locked_rows(void **state)
{
    (void)state;
    struct decider *d = decider_make(3, 1, exec_mode);
    present(d, 0);
    (void)decide(d, 0);
    struct claim *all[] = {claimed(1, "a"), claimed(2, "a"), claimed(3, "a")};
    commit(d, 1, all, 3);
    (void)decide(d, 1);
    settle(d, 2);
    for (int64_t id = 1; id <= 3; id++) {
        feed(d, 3,
             (struct event){.type = EVENT_REPLY,
                            .slot = all[id - 1]->slot,
                            .id = id,
                            .outcome = id == 1 ? OUTCOME_DONE : OUTCOME_FAILED,
                            .delay_ms = -1});
    }
    int rounds = 0;
    bool found = false;
    for (int64_t now = 3, due; now < 1000; now = due) {
        for (due = decide(d, now); d->rounds.in_flight; due = decide(d, now)) {
            const struct round *x = &d->round;
            rounds++;
            if (x->n_finish > 0 && !x->finish[0]->refused) {
                feed(d, now,
                     (struct event){.type = EVENT_ROUND_FAILED,
                                    .failure = FAILURE_ROW,
                                    .text = "bad"});
                continue;
            }
            found = found || x->n_finish > 0; /* a note stands for its result */
            d->round.finished[0] = true;
            for (size_t i = 0; i < x->n_requeue; i++) {
                d->round.requeue_state[i] = REQUEUE_MISSED;
            }
            for (size_t i = 0; i < x->n_verify; i++) {
                d->round.verdicts[i] = VERDICT_MINE;
            }
            feed(d, now, (struct event){.type = EVENT_ROUND_DONE});
            assert_true(rounds < 200);
        }
    }
    assert_true(found);
    decider_free(d);
}

/* The database takes something for bad that is none of the outcomes. */
static void test_a_row_fault_without_an_outcome_pauses(void **state)
{
    (void)state;
    struct decider *d = decider_make(1, 1, exec_mode);
    present(d, 0);
    (void)decide(d, 0);
    assert_true(d->rounds.in_flight);
    feed(d, 1, (struct event){.type = EVENT_ROUND_FAILED, .failure = FAILURE_ROW, .text = "bad"});
    int64_t due = decide(d, 1);
    assert_false(d->rounds.in_flight);
    assert_true(due > 1);
    assert_non_null(note_find(d, NOTE_ROUND_FAILED));
    decider_free(d);
}

/* A session that was lost may still be at work when we ask what is ours, and commit after it. */
static void test_what_is_ours_is_asked_again_later(void **state)
{
    (void)state;
    struct decider *d = decider_make(1, 1, exec_mode);
    present(d, 0);
    (void)decide(d, 0);
    feed(d, 1,
         (struct event){.type = EVENT_ROUND_FAILED, .failure = FAILURE_UNKNOWN, .text = "cut"});
    int asked = 0;
    int64_t last = 0;
    for (int64_t now = 1; now < 120000;) {
        int64_t due = decide(d, now);
        for (; d->rounds.in_flight; due = decide(d, now)) {
            asked += d->round.own;
            last = d->round.own ? now : last;
            commit(d, now, NULL, 0);
        }
        now = due;
    }
    assert_int_equal(asked, 2);
    assert_in_range(last, OWN_AGAIN_MS, OWN_AGAIN_MS + 2000);
    decider_free(d);
}

static void test_tasks_near_the_border_do_not_flip_the_prefetch(void **state)
{
    (void)state;
    struct decider *d = decider_make(2, 1, exec_mode);
    present(d, 0);
    (void)decide(d, 0);
    int changes = 0;
    for (int i = 1; i < 20; i++) {
        d->ewma_us = FAST_US + (i % 2 ? -100 : 100);
        (void)decide(d, i);
        changes += (int)action_count(d, ACTION_PREFETCH);
    }
    assert_int_equal(changes, 1);
    d->ewma_us = 3 * FAST_US;
    (void)decide(d, 20);
    assert_int_equal(action_find(d, ACTION_PREFETCH)->n, 2);
    decider_free(d);
}

/* The consumer may see only the second of two words about the prefetch: then its channel lives on,
 * and what it delivered comes no second time. */
static void test_what_was_delivered_outlives_a_prefetch_of_0(void **state)
{
    (void)state;
    struct decider *d = decider_make(1, 1, exec_mode);
    const int64_t id = 7;
    feed(d, 0, (struct event){.type = EVENT_BROKER, .up = true, .epoch = 1});
    feed(d, 0, (struct event){.type = EVENT_PRESENCE, .up = true});
    (void)decide(d, 0);
    commit(d, 1, NULL, 0);
    (void)decide(d, 1);
    feed(d, 2, (struct event){.type = EVENT_PRESENCE});
    feed(d, 2,
         (struct event){.type = EVENT_WAKEUPS, .epoch = 1, .ids = &id, .n = 1, .last_tag = 1});
    (void)decide(d, 2);
    assert_int_equal(action_find(d, ACTION_PREFETCH)->n, 0);
    feed(d, 3, (struct event){.type = EVENT_PRESENCE, .up = true});
    (void)decide(d, 3);
    assert_int_equal(d->round.n_ids, 1);
    assert_int_equal(action_find(d, ACTION_ACK)->tag, 1);
    commit(d, 4, NULL, 0);
    decider_free(d);
}

/* What a round may have claimed whose answer was lost is given back before the worker ends. */
static void test_a_drain_asks_for_what_it_may_own(void **state)
{
    (void)state;
    struct decider *d = decider_make(1, 1, exec_mode);
    present(d, 0);
    (void)decide(d, 0);
    feed(d, 1, (struct event){.type = EVENT_STOP});
    feed(d, 2,
         (struct event){.type = EVENT_ROUND_FAILED, .failure = FAILURE_UNKNOWN, .text = "cut"});
    (void)decide(d, 2);
    assert_null(action_find(d, ACTION_EXIT));
    (void)decide(d, 200);
    assert_true(d->rounds.in_flight && d->round.own);
    struct claim **owned = calloc(1, sizeof *owned);
    assert_non_null(owned);
    owned[0] = claimed(7, "a");
    d->round.owned = owned;
    d->round.n_owned = 1;
    feed(d, 201, (struct event){.type = EVENT_ROUND_DONE});
    (void)decide(d, 201);
    assert_int_equal(d->round.n_requeue, 1);
    commit(d, 202, NULL, 0);
    (void)decide(d, 202);
    assert_non_null(action_find(d, ACTION_EXIT));
    decider_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_claims_nothing_before_it_is_present),
        cmocka_unit_test(test_one_round_at_a_time_and_more_gathers),
        cmocka_unit_test(test_done_is_finished_in_the_next_round),
        cmocka_unit_test(test_a_finish_that_was_missed_is_verified),
        cmocka_unit_test(test_an_unknown_outcome_asks_first_what_is_ours),
        cmocka_unit_test(test_another_claim_with_the_same_attempt_is_given_back),
        cmocka_unit_test(test_what_is_requeue_is_not_taken_for_unknown),
        cmocka_unit_test(test_what_is_given_back_ready_is_swept_soon),
        cmocka_unit_test(test_a_bad_value_is_found_by_halving),
        cmocka_unit_test(test_claimed_tasks_without_a_child_go_back_after_a_second),
        cmocka_unit_test(test_a_worker_may_end_before_it_takes_an_answer),
        cmocka_unit_test(test_a_running_task_that_was_taken_is_stopped),
        cmocka_unit_test(test_the_same_task_claimed_twice_is_given_back),
        cmocka_unit_test(test_a_locked_row_does_not_make_it_spin),
        cmocka_unit_test(test_a_bad_value_is_found_beside_locked_rows),
        cmocka_unit_test(test_a_row_fault_without_an_outcome_pauses),
        cmocka_unit_test(test_a_drain_asks_for_what_it_may_own),
        cmocka_unit_test(test_what_is_ours_is_asked_again_later),
        cmocka_unit_test(test_tasks_near_the_border_do_not_flip_the_prefetch),
        cmocka_unit_test(test_what_was_delivered_outlives_a_prefetch_of_0),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
