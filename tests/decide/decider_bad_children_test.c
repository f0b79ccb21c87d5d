/* label: unit */
/* What the worker's head does about children that behave badly, and how much it holds for one. */
#include "tests/support/deciding.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* It says hello and ends, again and again, and nobody is charged: then it must back off. */
static void test_a_child_that_ends_after_its_hello_backs_off(void **state)
{
    (void)state;
    struct claim *c = claimed(1, "a");
    struct decider *d = decider_make(1, 1, pool_mode);
    int spawned = 0;
    present(d, 0);
    (void)decide(d, 0);
    commit(d, 0, &c, 1);
    for (int64_t now = 1; now < 2000; now++) {
        (void)decide(d, now);
        if (action_find(d, ACTION_SPAWN)) {
            spawned++;
            feed(d, now, (struct event){.type = EVENT_CHILD_READY, .slot = 0, .room = 1});
            gone(d, now, 0, "exit status 0");
        }
    }
    assert_in_range(spawned, 1, 5);
    assert_int_equal(d->n_given, 0);
    decider_free(d);
}

/* Once it has answered, its end is no reason to back off. */
static void test_a_child_that_worked_may_end(void **state)
{
    (void)state;
    struct decider *d = running(pool_mode, claimed(1, "a"));
    reply(d, 10, 1, OUTCOME_DONE);
    (void)decide(d, 10);
    gone(d, 11, 0, "exit status 0");
    (void)decide(d, 11);
    assert_null(note_find(d, NOTE_HANDLER_BACKS_OFF));
    settle(d, 12);
    decider_free(d);
}

static void test_a_child_without_pipes_is_stopped(void **state)
{
    (void)state;
    struct decider *d = running(pool_mode, claimed(1, "a"));
    feed(d, 10, (struct event){.type = EVENT_CHILD_PIPE_CLOSED, .slot = 0});
    assert_in_range(decide(d, 10), 11, 10 + PIPE_GRACE_MS);
    assert_null(action_find(d, ACTION_SIGNAL));
    (void)decide(d, 10 + PIPE_GRACE_MS);
    assert_int_equal(action_find(d, ACTION_SIGNAL)->n, SIGTERM);
    gone(d, 2000, 0, "killed by signal 15");
    settle(d, 2000);
    (void)decide(d, 2000);
    assert_int_equal(d->round.n_requeue, 1);
    assert_int_equal(d->round.requeue[0]->outcome, OUTCOME_FAILED);
    assert_contains(d->round.requeue[0]->error, "closed its stdin or stdout");
    commit(d, 2001, NULL, 0);
    decider_free(d);
}

/* A child that crashed loses its pipes a moment before anybody knows of its end. */
static void test_a_crash_that_shows_as_closed_pipes_is_a_crash(void **state)
{
    (void)state;
    struct decider *d = running(pool_mode, claimed(1, "a"));
    feed(d, 10, (struct event){.type = EVENT_CHILD_PIPE_CLOSED, .slot = 0});
    (void)decide(d, 10);
    gone(d, 11, 0, "killed by signal 6");
    settle(d, 12);
    (void)decide(d, 12);
    assert_contains(d->round.requeue[0]->error, "ended without an answer: killed by signal 6");
    commit(d, 13, NULL, 0);
    decider_free(d);
}

/* --- a child that retires --- */

/* A child with room for two that has answered task 1; it still has task 2. */
static struct decider *answered_one(int32_t claims)
{
    struct decider *d = decider_make(1, 1, pool_mode);
    struct claim *found[] = {claimed(1, "a"), claimed(2, "a")};
    found[1]->claims = claims;
    present(d, 0);
    d->handlers[0].room = 2;
    (void)decide(d, 0);
    commit(d, 1, found, 2);
    (void)decide(d, 1);
    feed(d, 2, (struct event){.type = EVENT_CHILD_READY, .slot = 0, .room = 2});
    (void)decide(d, 2);
    settle(d, 3);
    reply(d, 10, 1, OUTCOME_DONE);
    (void)decide(d, 10);
    settle(d, 11);
    assert_int_equal(d->n_given, 1);
    return d;
}

static void assert_requeued(struct decider *d, enum claim_outcome outcome)
{
    settle(d, 20);
    (void)decide(d, 20);
    assert_int_equal(d->round.n_requeue, 1);
    assert_int_equal(d->round.requeue[0]->id, 2);
    assert_int_equal(d->round.requeue[0]->outcome, outcome);
    assert_null(note_find(d, NOTE_HANDLER_BACKS_OFF));
    decider_free(d);
}

static void exits(struct decider *d, int64_t now, bool well)
{
    feed(d, now,
         (struct event){
             .type = EVENT_CHILD_GONE, .slot = 0, .exited_well = well, .text = "exit status"});
}

static void test_a_child_that_exits_well_after_an_answer_retires(void **state)
{
    (void)state;
    struct decider *d = answered_one(1);
    exits(d, 12, true);
    assert_requeued(d, OUTCOME_RELEASED);
    d = answered_one(1);
    exits(d, 12, false);
    assert_requeued(d, OUTCOME_FAILED);
}

static void test_a_child_that_exits_without_an_answer_is_charged(void **state)
{
    (void)state;
    struct decider *d = running(pool_mode, claimed(2, "a"));
    exits(d, 12, true);
    assert_requeued(d, OUTCOME_FAILED);
}

static void test_a_child_that_said_bye_gets_no_more(void **state)
{
    (void)state;
    struct decider *d = answered_one(1);
    assert_int_equal(slots_room(d), 1);
    feed(d, 12, (struct event){.type = EVENT_CHILD_RETIRES, .slot = 0});
    (void)decide(d, 12);
    assert_int_equal(slots_room(d), 0);
    assert_null(action_find(d, ACTION_CLOSE)); /* it may answer what it has */
    exits(d, 13, false);
    assert_requeued(d, OUTCOME_RELEASED);
    d = answered_one(1);
    feed(d, 12, (struct event){.type = EVENT_CHILD_RETIRES, .slot = 0});
    reply(d, 13, 2, OUTCOME_DONE);
    (void)decide(d, 13);
    assert_non_null(action_find(d, ACTION_CLOSE));
    decider_free(d);
}

/* It may be what ends its children. */
static void test_a_task_that_always_comes_back_is_charged(void **state)
{
    (void)state;
    struct decider *d = answered_one(RETURNS_MAX);
    exits(d, 12, true);
    assert_requeued(d, OUTCOME_RELEASED);
    d = answered_one(1 + RETURNS_MAX);
    exits(d, 12, true);
    assert_requeued(d, OUTCOME_FAILED);
    d = answered_one(1 + RETURNS_MAX);
    slots_stop(d, 0, STOP_RELEASE, SIGTERM, 11);
    exits(d, 12, true); /* it was asked to */
    assert_requeued(d, OUTCOME_RELEASED);
}

/* Nobody is charged, and so it must not start again and again for nothing. */
static void test_a_child_that_says_bye_at_once_backs_off(void **state)
{
    (void)state;
    struct decider *d = decider_make(1, 1, pool_mode);
    struct claim *c = claimed(1, "a");
    present(d, 0);
    (void)decide(d, 0);
    commit(d, 1, &c, 1);
    (void)decide(d, 1);
    feed(d, 2, (struct event){.type = EVENT_CHILD_READY, .slot = 0, .room = 1});
    feed(d, 2, (struct event){.type = EVENT_CHILD_RETIRES, .slot = 0});
    (void)decide(d, 2);
    assert_null(action_find(d, ACTION_GIVE));
    exits(d, 3, true);
    assert_non_null(note_find(d, NOTE_HANDLER_BACKS_OFF));
    decider_free(d);
}

/* --- bytes --- */

static struct claim *big(int64_t id, const char *kind, size_t bytes)
{
    struct claim *c = claimed(id, kind);
    c->payload_bytes = bytes; /* the decider does not look into it */
    return c;
}

/* What one handler's tasks hold keeps its kinds out of the next claim, and nobody else's. */
static void test_payloads_held_are_bounded_for_each_handler(void **state)
{
    (void)state;
    struct decider *d = decider_make(4, 2, pool_mode);
    struct claim *found[] = {big(1, "b", HELD_BYTES_MAX / 4), big(2, "b", HELD_BYTES_MAX / 4),
                             claimed(3, "a")};
    present(d, 0);
    (void)decide(d, 0);
    assert_false(d->round.left_out[1]);
    commit(d, 1, found, 3);
    (void)decide(d, 1);
    settle(d, 1500);
    (void)decide(d, 3000);
    assert_true(d->rounds.in_flight);
    assert_false(d->round.left_out[0]);
    assert_true(d->round.left_out[1]);
    commit(d, 3000, NULL, 0);
    /* they are released: there is room again */
    feed(d, 3001, (struct event){.type = EVENT_PRESENCE, .up = true, .renewed = true});
    (void)decide(d, 3002);
    assert_int_equal(d->handlers[1].payload_bytes, 0);
    decider_free(d);
}

static void test_answers_wait_in_the_pipe_when_too_many_are_held(void **state)
{
    (void)state;
    struct decider *d = running(pool_mode, claimed(1, "a"));
    char *result = malloc(HELD_BYTES_MAX + 1);
    assert_non_null(result);
    memset(result, 'r', HELD_BYTES_MAX);
    result[HELD_BYTES_MAX] = '\0';
    assert_false(slots_is_full(d, 0));
    feed(d, 10,
         (struct event){.type = EVENT_REPLY,
                        .slot = 0,
                        .id = 1,
                        .outcome = OUTCOME_DONE,
                        .reply = result,
                        .delay_ms = -1});
    assert_true(slots_is_full(d, 0));
    (void)decide(d, 10);
    settle(d, 11);
    settle(d, 12);
    assert_false(slots_is_full(d, 0));
    decider_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_child_that_ends_after_its_hello_backs_off),
        cmocka_unit_test(test_a_child_that_worked_may_end),
        cmocka_unit_test(test_a_child_without_pipes_is_stopped),
        cmocka_unit_test(test_a_crash_that_shows_as_closed_pipes_is_a_crash),
        cmocka_unit_test(test_a_child_that_exits_well_after_an_answer_retires),
        cmocka_unit_test(test_a_child_that_exits_without_an_answer_is_charged),
        cmocka_unit_test(test_a_child_that_said_bye_gets_no_more),
        cmocka_unit_test(test_a_task_that_always_comes_back_is_charged),
        cmocka_unit_test(test_a_child_that_says_bye_at_once_backs_off),
        cmocka_unit_test(test_payloads_held_are_bounded_for_each_handler),
        cmocka_unit_test(test_answers_wait_in_the_pipe_when_too_many_are_held),
    };
    return RUN_GROUP(tests);
}
