/* label: unit */
/* Which child gets which task, and when a child must go. */
#include "tests/support/deciding.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

static void test_timeout_terms_then_kills_then_charges(void **state)
{
    (void)state;
    struct decider *d = running(exec_mode, claimed(5, "a"));
    settle(d, 3);
    int64_t due = decide(d, 9000);
    settle(d, 9000);
    assert_true(due <= 10001);
    (void)decide(d, 10002); /* asks the database whether there is more time */
    assert_null(action_find(d, ACTION_SIGNAL));
    settle(d, 10002);
    assert_int_equal(action_find(d, ACTION_SIGNAL)->n, SIGTERM);
    settle(d, 10002);
    (void)decide(d, 10002 + TERM_GRACE_MS);
    assert_int_equal(action_find(d, ACTION_SIGNAL)->n, SIGKILL);
    settle(d, 10002 + TERM_GRACE_MS);
    gone(d, 15004, 0, "killed by signal 9 (Killed)");
    (void)decide(d, 15004);
    assert_non_null(note_find(d, NOTE_TASK_TIMED_OUT));
    assert_int_equal(d->round.n_requeue, 1);
    assert_int_equal(d->round.requeue[0]->outcome, OUTCOME_TIMED_OUT);
    assert_contains(d->round.requeue[0]->error, "timed out after 10000 ms: killed by signal 9");
    decider_free(d);
}

/* What is claimed ahead of tasks that do not end would only wait, and keep others from it. */
static void test_nothing_is_claimed_ahead_of_long_tasks(void **state)
{
    (void)state;
    struct decider *d = running(pool_mode, claimed(5, "a"));
    d->rate_per_ms = 1; /* until now a task ended each millisecond */
    d->ewma_us = 1000;
    d->rate_from_ms = 2000;
    (void)decide(d, 2000 + RATE_STALE_MS - 1);
    assert_int_equal(round_capacity(d), AHEAD_MS);
    (void)decide(d, 2000 + RATE_STALE_MS);
    assert_int_equal(round_capacity(d), 0);
    d->rate_per_ms = 1;
    d->ewma_us = AHEAD_FAST_US;
    assert_int_equal(round_capacity(d), 0);
    decider_free(d);
}

static void test_a_dead_pool_child_makes_all_of_its_tasks_suspicious(void **state)
{
    (void)state;
    struct decider *d = decider_make(1, 1, pool_mode);
    present(d, 0);
    d->handlers[0].room = 3;
    (void)decide(d, 0);
    struct claim *all[] = {claimed(1, "a"), claimed(2, "a"), claimed(3, "a")};
    commit(d, 1, all, 3);
    (void)decide(d, 1);
    feed(d, 2, (struct event){.type = EVENT_CHILD_READY, .slot = 0, .room = 3});
    (void)decide(d, 2);
    assert_int_equal(action_count(d, ACTION_GIVE), 3);
    settle(d, 3);
    gone(d, 4, 0, "killed by signal 11");
    (void)decide(d, 4);
    assert_int_equal(d->round.n_requeue, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(d->round.requeue[i]->outcome, OUTCOME_CRASHED);
    }
    decider_free(d);
}

static void test_a_handler_that_cannot_start_backs_off(void **state)
{
    (void)state;
    struct decider *d = decider_make(1, 2, pool_mode);
    present(d, 0);
    (void)decide(d, 0);
    struct claim *c = claimed(1, "a");
    commit(d, 1, &c, 1);
    (void)decide(d, 1);
    assert_non_null(action_find(d, ACTION_SPAWN));
    settle(d, 2);
    feed(d, 3,
         (struct event){
             .type = EVENT_CHILD_GONE, .slot = 0, .failed_start = true, .text = "no such file"});
    (void)decide(d, 3);
    assert_non_null(note_find(d, NOTE_HANDLER_BACKS_OFF));
    assert_int_equal(d->round.n_requeue, 1);
    assert_int_equal(d->round.requeue[0]->outcome, OUTCOME_RELEASED); /* nobody is charged */
    commit(d, 4, NULL, 0);
    d->polling.next_ms = 5;
    (void)decide(d, 5);
    assert_true(d->round.left_out[0]);
    assert_false(d->round.left_out[1]);
    decider_free(d);
}

static void test_drain_lets_run_and_releases_the_rest(void **state)
{
    (void)state;
    struct claim *c = claimed(5, "a");
    c->timeout_ms = 1000000;
    struct decider *d = running(exec_mode, c);
    settle(d, 3);
    feed(d, 10, (struct event){.type = EVENT_STOP});
    (void)decide(d, 10);
    assert_int_equal(action_find(d, ACTION_PREFETCH)->n, 0);
    assert_null(action_find(d, ACTION_SIGNAL));
    for (int64_t now = 11; now < 25000; now += 1000) {
        (void)decide(d, now);
        assert_null(action_find(d, ACTION_SIGNAL));
        assert_null(action_find(d, ACTION_EXIT));
        if (d->rounds.in_flight) {
            assert_int_equal(d->round.n_poll, 0);
            commit(d, now, NULL, 0);
        }
    }
    (void)decide(d, 25011);
    assert_int_equal(action_find(d, ACTION_SIGNAL)->n, SIGTERM);
    gone(d, 25012, 0, "killed by signal 15");
    (void)decide(d, 25012);
    settle(d, 25012);
    if (d->n_held > 0) {
        settle(d, 25013);
    }
    assert_int_equal(d->count_released, 1);
    assert_int_equal(d->count_failed, 0);
    (void)decide(d, 25014);
    assert_non_null(action_find(d, ACTION_EXIT));
    decider_free(d);
}

static void test_a_second_signal_kills(void **state)
{
    (void)state;
    struct decider *d = running(exec_mode, claimed(5, "a"));
    settle(d, 3);
    feed(d, 10, (struct event){.type = EVENT_STOP});
    (void)decide(d, 10);
    feed(d, 11, (struct event){.type = EVENT_STOP});
    (void)decide(d, 11);
    assert_int_equal(action_find(d, ACTION_SIGNAL)->n, SIGKILL);
    decider_free(d);
}

/* A service manager does not kill what drains because the page said so. */
static void test_a_signal_after_an_operators_drain(void **state)
{
    (void)state;
    struct decider *d = running(exec_mode, claimed(5, "a"));
    settle(d, 3);
    feed(d, 10, (struct event){.type = EVENT_DRAIN});
    (void)decide(d, 10);
    assert_int_equal(action_find(d, ACTION_PREFETCH)->n, 0);
    feed(d, 11, (struct event){.type = EVENT_STOP});
    (void)decide(d, 11);
    assert_null(action_find(d, ACTION_SIGNAL));
    feed(d, 12, (struct event){.type = EVENT_DRAIN});
    (void)decide(d, 12);
    assert_null(action_find(d, ACTION_SIGNAL));
    feed(d, 13, (struct event){.type = EVENT_STOP});
    (void)decide(d, 13);
    assert_int_equal(action_find(d, ACTION_SIGNAL)->n, SIGKILL);
    decider_free(d);
}

static void test_without_postgresql_it_stops_its_own_children(void **state)
{
    (void)state;
    struct claim *c = claimed(5, "a");
    c->timeout_ms = 1000000;
    struct decider *d = running(exec_mode, c);
    settle(d, 3);
    feed(d, 100, (struct event){.type = EVENT_PRESENCE, .up = false});
    (void)decide(d, 100);
    assert_null(action_find(d, ACTION_SIGNAL));
    int64_t due = decide(d, 101);
    assert_true(due <= 100 + PRESENCE_GRACE_MS);
    (void)decide(d, 100 + PRESENCE_GRACE_MS);
    assert_int_equal(action_find(d, ACTION_SIGNAL)->n, SIGKILL);
    decider_free(d);
}

static void test_wakeups_are_returned_when_full(void **state)
{
    (void)state;
    struct claim *c = claimed(5, "a");
    c->timeout_ms = 1000000;
    struct decider *d = running(exec_mode, c);
    settle(d, 3);
    int told = -1;
    for (int64_t now = 10; now < 3000; now += 50) {
        (void)decide(d, now);
        if (action_find(d, ACTION_PREFETCH)) {
            told = action_find(d, ACTION_PREFETCH)->n;
        }
        settle(d, now);
    }
    assert_int_equal(told, 0);
    reply(d, 3001, 5, OUTCOME_DONE);
    gone(d, 3001, 0, "");
    (void)decide(d, 3001);
    assert_int_equal(action_find(d, ACTION_PREFETCH)->n, 1);
    settle(d, 3002);
    decider_free(d);
}

static void test_pool_children_of_another_kind_yield(void **state)
{
    (void)state;
    struct decider *d = decider_make(1, 2, pool_mode);
    present(d, 0);
    (void)decide(d, 0);
    struct claim *a = claimed(1, "a");
    commit(d, 1, &a, 1);
    (void)decide(d, 1);
    feed(d, 2, (struct event){.type = EVENT_CHILD_READY, .slot = 0, .room = 1});
    (void)decide(d, 2);
    settle(d, 2);
    reply(d, 3, 1, OUTCOME_DONE);
    (void)decide(d, 3);
    settle(d, 4);
    struct claim *c = claimed(2, "c");
    d->polling.next_ms = 5;
    (void)decide(d, 5);
    commit(d, 6, &c, 1);
    (void)decide(d, 6);
    assert_int_equal(action_find(d, ACTION_CLOSE)->slot, 0);
    settle(d, 6);
    gone(d, 7, 0, "exit status 0");
    (void)decide(d, 7);
    assert_int_equal(action_find(d, ACTION_SPAWN)->handler, 1);
    decider_free(d);
}

/* While there are actions, the loop asks again before it waits: the same note again and again
 * would keep it from ever seeing that its children are gone. */
static void test_without_postgresql_it_says_so_once(void **state)
{
    (void)state;
    struct claim *c = claimed(5, "a");
    c->timeout_ms = 1000000;
    struct decider *d = running(exec_mode, c);
    settle(d, 3);
    feed(d, 100, (struct event){.type = EVENT_PRESENCE, .up = false});
    int64_t now = 100 + PRESENCE_GRACE_MS;
    (void)decide(d, now);
    assert_non_null(note_find(d, NOTE_STOPPING_CHILDREN));
    int64_t due = decide(d, now);
    assert_int_equal(d->actions.n, 0);
    assert_true(due > now);
    decider_free(d);
}

/* The answer to the last ping may be waited for long; the lock may be gone since the one before. */
static void test_the_grace_counts_from_when_presence_was_last_known(void **state)
{
    (void)state;
    struct claim *c = claimed(5, "a");
    c->timeout_ms = 1000000;
    struct decider *d = running(exec_mode, c);
    settle(d, 3);
    feed(d, 25000, (struct event){.type = EVENT_PRESENCE, .up = false, .since_ms = 4000});
    (void)decide(d, 25000);
    assert_int_equal(action_find(d, ACTION_SIGNAL)->n, SIGKILL);
    decider_free(d);
}

static void test_what_a_drain_interrupted_and_is_done_is_done(void **state)
{
    (void)state;
    struct claim *c = claimed(5, "a");
    c->timeout_ms = 1000000;
    struct decider *d = running(exec_mode, c);
    settle(d, 3);
    feed(d, 10, (struct event){.type = EVENT_STOP});
    (void)decide(d, 10);
    settle(d, 10);
    (void)decide(d, 25010);
    assert_int_equal(action_find(d, ACTION_SIGNAL)->n, SIGTERM);
    settle(d, 25010);
    reply(d, 25011, 5, OUTCOME_DONE);
    gone(d, 25011, 0, "exit status 0");
    (void)decide(d, 25011);
    assert_int_equal(d->round.n_finish, 1);
    assert_int_equal(d->round.n_requeue, 0);
    decider_free(d);
}

static void test_one_task_evicts_one_idle_child(void **state)
{
    (void)state;
    struct decider *d = decider_make(2, 2, pool_mode);
    present(d, 0);
    (void)decide(d, 0);
    struct claim *a[] = {claimed(1, "a"), claimed(2, "a")};
    commit(d, 1, a, 2);
    (void)decide(d, 1);
    for (int slot = 0; slot < 2; slot++) {
        feed(d, 2, (struct event){.type = EVENT_CHILD_READY, .slot = slot, .room = 1});
    }
    (void)decide(d, 2);
    settle(d, 2);
    for (int slot = 0; slot < 2; slot++) {
        int64_t id = d->slots[slot].given->id;
        feed(d, 3,
             (struct event){.type = EVENT_REPLY, .slot = slot, .id = id, .outcome = OUTCOME_DONE});
    }
    (void)decide(d, 3);
    settle(d, 4);
    d->polling.next_ms = 5;
    (void)decide(d, 5);
    struct claim *b = claimed(3, "b");
    commit(d, 6, &b, 1);
    int closed = 0;
    for (int i = 0; i < 4; i++) {
        (void)decide(d, 6 + i);
        closed += (int)action_count(d, ACTION_CLOSE);
    }
    assert_int_equal(closed, 1);
    decider_free(d);
}

/* One slot, and a handler whose tasks never run out: the other's task must get its turn. */
static void starve(const bool *mode, int room)
{
    struct decider *d = decider_make(1, 2, mode);
    present(d, 0);
    d->handlers[0].room = room;
    (void)decide(d, 0);
    int64_t id = 1;
    bool turn = false, asked = false;
    for (int64_t now = 1; now < 5000 && !turn; now += 20) {
        for (; d->rounds.in_flight; id += 2) { /* two tasks more whenever it asks */
            struct claim *found[] = {claimed(id, "a"), claimed(id + 1, asked ? "a" : "b")};
            asked = true;
            commit(d, now, found, 2);
            (void)decide(d, now);
            if (d->rounds.in_flight && d->handlers[0].n_waiting > 8) {
                commit(d, now, NULL, 0);
                break;
            }
        }
        (void)decide(d, now);
        const struct slot *s = &d->slots[0];
        if (s->state == SLOT_STARTING) {
            feed(d, now, (struct event){.type = EVENT_CHILD_READY, .slot = 0, .room = room});
        } else if (s->closing && s->n_given == 0) {
            gone(d, now, 0, "exit status 0");
        } else if (s->given) {
            turn = s->handler == 1;
            reply(d, now, s->given->id, OUTCOME_DONE);
            if (!*mode) {
                gone(d, now, 0, "exit status 0");
            }
        }
        (void)decide(d, now);
        turn = turn || (d->slots[0].state != SLOT_EMPTY && d->slots[0].handler == 1);
    }
    assert_true(turn);
    decider_free(d);
}

static void test_no_handler_starves_another(void **state)
{
    (void)state;
    starve(exec_mode, 1);
    starve(pool_mode, 1);
    starve(pool_mode, 4);
}

/* Else two handlers would close each other's only child for ever, before it gets a task. */
static void test_a_new_child_has_a_task_before_it_yields(void **state)
{
    (void)state;
    struct decider *d = decider_make(1, 2, pool_mode);
    struct claim *both[] = {claimed(1, "a"), claimed(2, "b")};
    const int64_t late = 2 * YIELD_AFTER_MS - 100;
    present(d, 0);
    (void)decide(d, 0);
    commit(d, 1, both, 2);
    (void)decide(d, 1);
    settle(d, 2);
    settle(d, late);
    int first = d->slots[0].handler;
    feed(d, late, (struct event){.type = EVENT_CHILD_READY, .slot = 0, .room = 1});
    for (int i = 0; i < 5 && d->slots[0].n_given == 0; i++) {
        (void)decide(d, late);
        assert_null(action_find(d, ACTION_CLOSE));
        settle(d, late); /* its task is ours still */
    }
    assert_int_equal(d->slots[0].given->handler, first);
    (void)decide(d, late + 1);
    assert_true(d->slots[0].closing); /* the other one has waited for long */
    decider_free(d);
}

static void test_a_cut_error_keeps_its_characters_whole(void **state)
{
    (void)state;
    char words[ERROR_BYTES_MAX + 4096];
    for (size_t i = 0; i < sizeof words; i++) {
        words[i] = i < 2 ? '-' : "\xEF\xBF\xBD"[(i - 2) % 3]; /* a cut at 8 KiB would hit one */
    }
    words[2 + (sizeof words - 3) / 3 * 3] = '\0';
    struct decider *d = running(exec_mode, claimed(5, "a"));
    settle(d, 3);
    gone(d, 4, 0, words);
    (void)decide(d, 4);
    const char *error = d->round.requeue[0]->error;
    assert_string_equal(error + strlen(error) - 3, "\xEF\xBF\xBD");
    decider_free(d);
}

static void test_pool_children_start_with_the_worker(void **state)
{
    (void)state;
    struct decider *d = decider_make(5, 2, pool_mode);
    d->warm = false;
    (void)decide(d, 0);
    assert_int_equal(action_count(d, ACTION_SPAWN), 0);
    present(d, 1);
    (void)decide(d, 1);
    assert_int_equal(action_count(d, ACTION_SPAWN), 5);
    int of_first = 0;
    for (int i = 0; i < 5; i++) {
        of_first += d->slots[i].handler == 0;
    }
    assert_int_equal(of_first, 3);
    for (int i = 0; i < 5; i++) {
        gone(d, 2, i, "exit status 1"); /* all fail together: one strike each */
    }
    assert_int_equal(d->handlers[0].strikes, 1);
    decider_free(d);
    d = decider_make(5, 2, exec_mode);
    d->warm = false;
    present(d, 1);
    (void)decide(d, 1);
    assert_int_equal(action_count(d, ACTION_SPAWN), 0);
    decider_free(d);
}

static void test_at_a_high_rate_outcomes_gather(void **state)
{
    (void)state;
    struct decider *d = decider_make(2, 1, pool_mode);
    present(d, 0);
    d->handlers[0].room = 100;
    (void)decide(d, 0);
    struct claim *all[100];
    for (int i = 0; i < 100; i++) {
        all[i] = claimed(i + 1, "a");
    }
    commit(d, 1, all, 100);
    (void)decide(d, 1);
    feed(d, 2, (struct event){.type = EVENT_CHILD_READY, .slot = 0, .room = 100});
    (void)decide(d, 2);
    settle(d, 2);
    settle(d, 2);
    d->rate_per_ms = 20;
    d->rounds.ended_ms = 2;
    d->polling.next_ms = 1000;
    reply(d, 3, 1, OUTCOME_DONE);
    int64_t due = decide(d, 3);
    assert_null(action_find(d, ACTION_ROUND));
    assert_int_equal(due, 2 + PACE_MS);
    (void)decide(d, 2 + PACE_MS);
    assert_non_null(action_find(d, ACTION_ROUND)); /* that is all it waits */
    commit(d, 5, NULL, 0);
    for (int id = 2; id <= 60; id++) {
        reply(d, 5, id, OUTCOME_DONE);
    }
    (void)decide(d, 5);
    assert_non_null(action_find(d, ACTION_ROUND)); /* enough came at once */
    decider_free(d);
}

/* It takes more than its hello said, and then fewer than it has: those it keeps. */
static void test_a_child_takes_more_or_fewer(void **state)
{
    (void)state;
    struct decider *d = decider_make(1, 1, pool_mode);
    present(d, 0);
    (void)decide(d, 0);
    struct claim *all[] = {claimed(1, "a"), claimed(2, "a"), claimed(3, "a"), claimed(4, "a")};
    commit(d, 1, all, 4);
    (void)decide(d, 1);
    feed(d, 2, (struct event){.type = EVENT_CHILD_READY, .slot = 0, .room = 1, .hears_stop = true});
    (void)decide(d, 2);
    assert_int_equal(d->slots[0].n_given, 1);
    feed(d, 3, (struct event){.type = EVENT_CHILD_READY, .slot = 0, .room = 3});
    (void)decide(d, 3);
    assert_int_equal(d->slots[0].n_given, 3);
    assert_int_equal(d->handlers[0].room, 1); /* as children begin */
    assert_true(d->slots[0].hears_stop);
    feed(d, 4, (struct event){.type = EVENT_CHILD_READY, .slot = 0, .room = 1});
    assert_int_equal(slots_room(d), 0);
    settle(d, 4);
    reply(d, 5, 1, OUTCOME_DONE);
    (void)decide(d, 5);
    assert_int_equal(d->slots[0].n_given, 2);
    reply(d, 6, 2, OUTCOME_DONE);
    reply(d, 6, 3, OUTCOME_DONE);
    (void)decide(d, 6);
    assert_int_equal(d->slots[0].n_given, 1);
    decider_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_timeout_terms_then_kills_then_charges),
        cmocka_unit_test(test_nothing_is_claimed_ahead_of_long_tasks),
        cmocka_unit_test(test_a_dead_pool_child_makes_all_of_its_tasks_suspicious),
        cmocka_unit_test(test_a_handler_that_cannot_start_backs_off),
        cmocka_unit_test(test_a_child_takes_more_or_fewer),
        cmocka_unit_test(test_drain_lets_run_and_releases_the_rest),
        cmocka_unit_test(test_a_second_signal_kills),
        cmocka_unit_test(test_a_signal_after_an_operators_drain),
        cmocka_unit_test(test_without_postgresql_it_stops_its_own_children),
        cmocka_unit_test(test_wakeups_are_returned_when_full),
        cmocka_unit_test(test_pool_children_of_another_kind_yield),
        cmocka_unit_test(test_without_postgresql_it_says_so_once),
        cmocka_unit_test(test_the_grace_counts_from_when_presence_was_last_known),
        cmocka_unit_test(test_what_a_drain_interrupted_and_is_done_is_done),
        cmocka_unit_test(test_one_task_evicts_one_idle_child),
        cmocka_unit_test(test_pool_children_start_with_the_worker),
        cmocka_unit_test(test_at_a_high_rate_outcomes_gather),
        cmocka_unit_test(test_no_handler_starves_another),
        cmocka_unit_test(test_a_new_child_has_a_task_before_it_yields),
        cmocka_unit_test(test_a_cut_error_keeps_its_characters_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
