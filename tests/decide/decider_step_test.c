/* label: unit */
/* Steps that running tasks record: written at once and in order, told to the child when they are
 * committed and not before, always before the outcome of their task. */
#include "tests/support/deciding.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A pool child of one slot that has tasks 1 to `n`. */
static struct decider *child_with(int n)
{
    struct decider *d = decider_make(1, 1, pool_mode);
    struct claim *all[8];
    verdict = VERDICT_MINE;
    present(d, 0);
    d->handlers[0].room = n;
    (void)decide(d, 0);
    for (int i = 0; i < n; i++) {
        all[i] = claimed(i + 1, "a");
    }
    commit(d, 1, all, (size_t)n);
    (void)decide(d, 1);
    feed(d, 2, (struct event){.type = EVENT_CHILD_READY, .slot = 0, .room = n});
    (void)decide(d, 2);
    assert_int_equal(d->n_given, n);
    settle(d, 2);
    settle(d, 2);
    return d;
}

static void step(struct decider *d, int64_t now, int64_t id, const char *name)
{
    struct event e = {.type = EVENT_STEP, .slot = 0, .id = id, .step = strdup(name)};
    (void)snprintf(e.name, sizeof e.name, "%s", name);
    feed(d, now, e);
}

/* The names in the round in flight, of a letter each; "" = none. */
static const char *writes(const struct decider *d)
{
    static char names[256];
    size_t n = 0;
    for (size_t i = 0; d->rounds.in_flight && i < d->round.n_steps && n < 255; i++) {
        names[n++] = *d->round.steps[i]->name;
    }
    names[n] = '\0';
    return names;
}

static void answer(struct decider *d, int64_t now, enum write_state state)
{
    for (size_t i = 0; i < d->round.n_steps; i++) {
        d->round.steps[i]->state = state;
    }
    for (size_t i = 0; i < d->round.n_verify; i++) {
        d->round.verdicts[i] = VERDICT_MINE;
    }
    feed(d, now, (struct event){.type = EVENT_ROUND_DONE});
}

static void test_a_step_is_told_when_it_is_committed(void **state)
{
    (void)state;
    struct decider *d = child_with(2);
    step(d, 3, 2, "a");
    (void)decide(d, 3);
    assert_string_equal(writes(d), "a");
    assert_null(action_find(d, ACTION_TELL_STEP));
    step(d, 4, 2, "b"); /* while a is on its way */
    answer(d, 5, WRITE_WRITTEN);
    (void)decide(d, 5);
    assert_int_equal(action_count(d, ACTION_TELL_STEP), 1);
    const struct action *a = action_find(d, ACTION_TELL_STEP);
    assert_int_equal(a->task, 2);
    assert_int_equal(a->n, true);
    assert_string_equal(a->text, "a");
    assert_string_equal(writes(d), "b");
    answer(d, 6, WRITE_REFUSED);
    (void)decide(d, 6);
    a = action_find(d, ACTION_TELL_STEP);
    assert_int_equal(a->n, false);
    assert_string_equal(a->text, "b");
    assert_non_null(note_find(d, NOTE_STEP_REFUSED));
    assert_int_equal(d->handlers[0].said_bytes, 0);
    decider_free(d);
}

/* Not after its outcome, though it was said right before it; not at all, if the task is done. */
static void test_a_step_goes_before_the_outcome(void **state)
{
    (void)state;
    struct decider *d = child_with(2);
    step(d, 3, 1, "a");
    step(d, 3, 2, "b");
    reply(d, 3, 1, OUTCOME_FAILED);
    reply(d, 3, 2, OUTCOME_DONE);
    (void)decide(d, 3);
    assert_string_equal(writes(d), "a");
    assert_int_equal(d->round.n_requeue, 0); /* when it is known to be written */
    assert_int_equal(d->round.n_finish, 1);
    answer(d, 4, WRITE_WRITTEN);
    (void)decide(d, 4);
    assert_null(action_find(d, ACTION_TELL_STEP)); /* nobody listens any more */
    assert_int_equal(d->round.n_requeue, 1);
    assert_int_equal(d->handlers[0].said_bytes, 0);
    decider_free(d);
}

/* Somebody locks its row for a moment: nothing else may happen to it before the step is there, even
 * if the lock is gone when the outcome comes. Others do not wait. */
static void test_the_outcome_waits_for_a_step_that_was_missed(void **state)
{
    (void)state;
    struct decider *d = child_with(2);
    step(d, 3, 1, "a");
    reply(d, 3, 1, OUTCOME_SNOOZE);
    int64_t now = 3, last = -1000, missed = 0;
    for (; missed < 5; now++) {
        (void)decide(d, now);
        assert_true(!d->rounds.in_flight || d->round.n_requeue == 0);
        if (*writes(d)) {
            assert_true(now >= last + RETRY_MIN_MS); /* not as fast as the database can */
            last = now;
            missed++;
        }
        if (d->rounds.in_flight) {
            answer(d, now, WRITE_MISSED);
        }
    }
    reply(d, now, 2, OUTCOME_FAILED);
    (void)decide(d, now);
    assert_int_equal(d->round.n_requeue, 1);
    assert_int_equal(d->round.requeue[0]->id, 2);
    settle(d, now); /* with whatever it has of the first: it is recorded now */
    for (; d->n_held > 0 && now < 10000; now++) {
        (void)decide(d, now);
        settle(d, now);
    }
    assert_int_equal(d->n_held, 0);
    assert_int_equal(d->count_lost, 0);
    decider_free(d);
}

/* Its claim is another's by now: neither the step nor the outcome counts any more. */
static void test_a_missed_step_of_a_lost_task(void **state)
{
    (void)state;
    struct decider *d = child_with(1);
    step(d, 3, 1, "a");
    reply(d, 3, 1, OUTCOME_SNOOZE);
    (void)decide(d, 3);
    answer(d, 4, WRITE_MISSED);
    verdict = VERDICT_LOST;
    int64_t now = 4;
    for (; d->n_held > 0 && now < 10000; now++) {
        (void)decide(d, now);
        assert_true(!d->rounds.in_flight || d->round.n_requeue == 0);
        for (size_t i = 0; d->rounds.in_flight && i < d->round.n_verify; i++) {
            d->round.verdicts[i] = VERDICT_LOST;
        }
        for (size_t i = 0; d->rounds.in_flight && i < d->round.n_steps; i++) {
            d->round.steps[i]->state = WRITE_MISSED;
        }
        if (d->rounds.in_flight) {
            feed(d, now, (struct event){.type = EVENT_ROUND_DONE});
        }
    }
    assert_int_equal(d->n_held, 0);
    assert_int_equal(d->count_lost, 1);
    assert_null(d->writes);
    decider_free(d);
}

/* A round that failed, in any way, or a row that was locked: they come again, in their order. */
static void test_what_was_not_written_comes_again(void **state)
{
    (void)state;
    static const enum round_failure failures[] = {FAILURE_AGAIN, FAILURE_ROW, FAILURE_UNKNOWN,
                                                  FAILURE_UNSENT};
    enum { KINDS = 1 + sizeof failures / sizeof *failures };
    for (size_t i = 0; i < KINDS; i++) {
        struct decider *d = child_with(2);
        step(d, 3, 1, "a");
        step(d, 3, 1, "b");
        (void)decide(d, 3);
        assert_string_equal(writes(d), "ab");
        step(d, 4, 1, "c");
        if (i + 1 < KINDS) {
            feed(d, 5,
                 (struct event){.type = EVENT_ROUND_FAILED, .failure = failures[i], .text = "t"});
        } else {
            answer(d, 5, WRITE_MISSED);
        }
        assert_null(action_find(d, ACTION_TELL_STEP));
        bool written = false;
        for (int64_t now = 5; now < 10000 && !written; now += 10) {
            int64_t due = decide(d, now);
            written = *writes(d);
            assert_true(d->rounds.in_flight || due > now);
            if (!written) {
                settle(d, now);
            }
        }
        assert_string_equal(writes(d), "abc");
        answer(d, 10000, WRITE_WRITTEN);
        (void)decide(d, 10000);
        assert_int_equal(action_count(d, ACTION_TELL_STEP), 3);
        decider_free(d);
    }
}

/* A step does not wait for outcomes that fail, and nothing spins. */
static void test_failing_outcomes(void **state)
{
    (void)state;
    struct decider *d = child_with(3);
    reply(d, 3, 1, OUTCOME_DONE);
    (void)decide(d, 3);
    feed(d, 4, (struct event){.type = EVENT_ROUND_FAILED, .failure = FAILURE_AGAIN, .text = "t"});
    step(d, 5, 2, "a");
    reply(d, 5, 2, OUTCOME_SNOOZE);
    int64_t now = 5;
    for (; now < 10000 && !*writes(d); now++) {
        int64_t due = decide(d, now);
        assert_true(d->rounds.in_flight || due > now);
        assert_true(!d->rounds.in_flight || d->round.n_requeue == 0);
        if (d->rounds.in_flight && d->round.n_finish > 0) {
            feed(d, now,
                 (struct event){.type = EVENT_ROUND_FAILED, .failure = FAILURE_AGAIN, .text = "t"});
        } else if (!*writes(d)) {
            settle(d, now);
        }
    }
    assert_string_equal(writes(d), "a");
    assert_int_equal(d->count_done, 0);
    answer(d, now, WRITE_WRITTEN);
    for (; now < 20000 && d->n_held > 1; now++) {
        (void)decide(d, now);
        settle(d, now);
    }
    assert_int_equal(d->n_held, 1);
    decider_free(d);
}

static void test_a_lost_task_records_nothing(void **state)
{
    (void)state;
    struct decider *d = child_with(2);
    step(d, 3, 1, "a");
    (void)decide(d, 3);
    step(d, 4, 1, "b");
    feed(d, 4, (struct event){.type = EVENT_PRESENCE, .up = true, .renewed = true, .text = "w"});
    answer(d, 5, WRITE_MISSED);
    (void)decide(d, 5);
    assert_string_equal(writes(d), "");
    assert_null(action_find(d, ACTION_TELL_STEP));
    assert_int_equal(d->handlers[0].said_bytes, 0);
    decider_free(d);
}

static void test_many_do_not_fit(void **state)
{
    (void)state;
    struct decider *d = child_with(2);
    for (int i = 0; i < ROUND_WRITES_MAX + 1; i++) {
        step(d, 3, 1, "x");
    }
    reply(d, 3, 1, OUTCOME_FAILED);
    (void)decide(d, 3);
    assert_int_equal(d->round.n_steps, ROUND_WRITES_MAX);
    assert_int_equal(d->round.n_requeue, 0); /* its last step is still to be written */
    answer(d, 4, WRITE_WRITTEN);
    (void)decide(d, 4);
    assert_int_equal(d->round.n_steps, 1);
    assert_int_equal(d->round.n_requeue, 0);
    answer(d, 5, WRITE_WRITTEN);
    (void)decide(d, 5);
    assert_int_equal(d->round.n_steps, 0);
    assert_int_equal(d->round.n_requeue, 1);
    decider_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_step_is_told_when_it_is_committed),
        cmocka_unit_test(test_a_step_goes_before_the_outcome),
        cmocka_unit_test(test_the_outcome_waits_for_a_step_that_was_missed),
        cmocka_unit_test(test_a_missed_step_of_a_lost_task),
        cmocka_unit_test(test_what_was_not_written_comes_again),
        cmocka_unit_test(test_failing_outcomes),
        cmocka_unit_test(test_a_lost_task_records_nothing),
        cmocka_unit_test(test_many_do_not_fit),
    };
    return RUN_GROUP(tests);
}
