/* label: unit */
/* What running tasks say of themselves: when it is written, and that nothing of it is lost; when
 * they have more time; and how a child is told to stop. */
#include "tests/support/deciding.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A pool child of one slot that has task 5, or tasks 1 to `n`. */
static struct decider *child_with(int n, bool hears_stop)
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
    feed(d, 2,
         (struct event){.type = EVENT_CHILD_READY, .slot = 0, .room = n, .hears_stop = hears_stop});
    (void)decide(d, 2);
    assert_int_equal(d->n_given, n);
    settle(d, 2);
    settle(d, 2);
    return d;
}

static void say(struct decider *d, int64_t now, int64_t id, const char *line)
{
    feed(d, now,
         (struct event){.type = EVENT_PROGRESS, .slot = 0, .id = id, .progress = strdup(line)});
}

static void extend(struct decider *d, int64_t now, int64_t id, int64_t ms)
{
    feed(d, now, (struct event){.type = EVENT_PROGRESS, .slot = 0, .id = id, .extend_ms = ms});
}

static void fails(struct decider *d, int64_t now, enum round_failure failure)
{
    feed(d, now, (struct event){.type = EVENT_ROUND_FAILED, .failure = failure, .text = "t"});
}

static const struct write *written(const struct decider *d)
{
    return d->rounds.in_flight && d->round.n_progress > 0 ? d->round.progress[0] : NULL;
}

static void test_progress_is_written_once_a_second(void **state)
{
    (void)state;
    struct decider *d = child_with(1, false);
    int n = 0;
    char line[32], last[32] = "";
    for (int64_t now = 3; now <= 4003; now++) {
        (void)snprintf(line, sizeof line, "%lld", (long long)now);
        say(d, now, 1, line);
        int64_t due = decide(d, now);
        if (written(d)) {
            assert_string_equal(written(d)->line, line); /* what was said last */
            (void)snprintf(last, sizeof last, "%s", line);
            n++;
        }
        assert_true(d->rounds.in_flight || due <= now + PROGRESS_EVERY_MS);
        settle(d, now);
    }
    assert_int_equal(n, 5);
    assert_string_equal(last, "4003");
    (void)decide(d, 9000); /* all was written */
    assert_null(written(d));
    decider_free(d);
}

/* Many tasks that say something are one statement. */
static void test_many_are_written_together(void **state)
{
    (void)state;
    struct decider *d = child_with(8, false);
    int rounds = 0;
    for (int64_t now = 3; now <= 2003; now++) {
        say(d, now, 1 + now % 8, "x");
        (void)decide(d, now);
        if (written(d)) {
            rounds++;
            assert_true(d->round.n_progress == (rounds == 1 ? 1 : 8));
        }
        settle(d, now);
    }
    assert_int_equal(rounds, 3);
    decider_free(d);
}

/* More than one round may carry: the next goes on with the others, and nobody is written twice. */
static void test_what_does_not_fit_follows_at_once(void **state)
{
    (void)state;
    static const size_t want[] = {2, 2, 2, 2}; /* 8 MiB are reached by the second of 4 MiB */
    struct decider *d = child_with(8, false);
    char *large = malloc(ROUND_WRITES_BYTES_MAX / 2 + 1);
    memset(large, 'x', ROUND_WRITES_BYTES_MAX / 2);
    large[ROUND_WRITES_BYTES_MAX / 2] = '\0';
    for (int64_t id = 1; id <= 8; id++) {
        say(d, 3, id, large);
    }
    int64_t next = 1;
    (void)decide(d, 3);
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        assert_int_equal(d->round.n_progress, want[i]);
        for (size_t j = 0; j < want[i]; j++) {
            assert_int_equal(d->round.progress[j]->id, next++);
            say(d, 3, d->round.progress[j]->id, "again");
        }
        settle(d, 3);
    }
    assert_true(!written(d));
    settle(d, 3);
    (void)decide(d, 3 + PROGRESS_EVERY_MS);
    assert_int_equal(d->round.n_progress, 8);
    free(large);
    decider_free(d);
}

/* The next attempt begins with it: it is written before the outcome, whatever the time. */
static void test_the_last_word_goes_before_the_outcome(void **state)
{
    (void)state;
    static const enum claim_outcome outcomes[] = {OUTCOME_FAILED, OUTCOME_SNOOZE, OUTCOME_RELEASED,
                                                  OUTCOME_DEAD};
    for (size_t i = 0; i < sizeof outcomes / sizeof *outcomes; i++) {
        struct decider *d = child_with(1, false);
        say(d, 3, 1, "first");
        (void)decide(d, 3);
        settle(d, 3);
        say(d, 4, 1, "last");
        reply(d, 5, 1, outcomes[i]);
        (void)decide(d, 5);
        assert_string_equal(written(d)->line, "last");
        assert_int_equal(d->round.n_requeue, 0);
        settle(d, 6);
        assert_true(d->rounds.in_flight);
        assert_null(written(d));
        assert_int_equal(d->round.n_requeue, 1);
        assert_int_equal(d->round.requeue[0]->outcome, outcomes[i]);
        settle(d, 7);
        assert_int_equal(d->n_held, 0);
        assert_int_equal(d->handlers[0].said_bytes, 0);
        decider_free(d);
    }
}

static void test_a_done_task_s_progress_is_dropped(void **state)
{
    (void)state;
    struct decider *d = child_with(1, false);
    say(d, 3, 1, "x");
    reply(d, 3, 1, OUTCOME_DONE);
    (void)decide(d, 3);
    assert_null(written(d));
    assert_int_equal(d->round.n_finish, 1);
    assert_int_equal(d->handlers[0].said_bytes, 0);
    decider_free(d);
}

/* A child that dies leaves what it said. */
static void test_a_child_that_dies(void **state)
{
    (void)state;
    struct decider *d = child_with(1, false);
    say(d, 3, 1, "x");
    gone(d, 3, 0, "killed by signal 9");
    (void)decide(d, 3);
    assert_string_equal(written(d)->line, "x");
    settle(d, 4);
    assert_int_equal(d->round.n_requeue, 1);
    assert_int_equal(d->round.requeue[0]->outcome, OUTCOME_FAILED);
    decider_free(d);
}

/* Its round failed, in either way, or its row was locked: it comes again, unless there is newer. */
static void test_what_was_not_written_comes_again(void **state)
{
    (void)state;
    static const enum round_failure failures[] = {FAILURE_AGAIN, FAILURE_ROW, FAILURE_UNKNOWN,
                                                  FAILURE_UNSENT};
    for (size_t i = 0; i < 2 * sizeof failures / sizeof *failures; i++) {
        struct decider *d = child_with(1, false);
        bool newer = i % 2;
        say(d, 3, 1, "x");
        (void)decide(d, 3);
        assert_non_null(written(d));
        if (newer) {
            say(d, 4, 1, "newer");
        }
        fails(d, 5, failures[i / 2]);
        int64_t now = 5;
        for (; now < 10000 && !written(d); now += 10) {
            (void)decide(d, now);
            if (!written(d)) {
                settle(d, now);
            }
        }
        assert_string_equal(written(d)->line, newer ? "newer" : "x");
        decider_free(d);
    }
}

static void test_a_failed_round_keeps_the_last_word_before_the_outcome(void **state)
{
    (void)state;
    struct decider *d = child_with(1, false);
    say(d, 3, 1, "x");
    reply(d, 3, 1, OUTCOME_FAILED);
    (void)decide(d, 3);
    fails(d, 5, FAILURE_UNKNOWN);
    for (int64_t now = 5; now < 10000 && d->n_held > 0; now += 10) {
        (void)decide(d, now);
        assert_true(d->round.n_requeue == 0 || !d->rounds.in_flight || d->held->said == NULL);
        settle(d, now);
    }
    assert_int_equal(d->n_held, 0);
    decider_free(d);
}

/* The round in flight commits, with what was said of its progress; all claims are ours. */
static void answer(struct decider *d, int64_t now)
{
    for (size_t i = 0; i < d->round.n_verify; i++) {
        d->round.verdicts[i] = VERDICT_MINE;
        d->round.timeouts_ms[i] = 0;
    }
    if (d->rounds.in_flight) {
        feed(d, now, (struct event){.type = EVENT_ROUND_DONE});
    }
}

static void test_a_locked_row(void **state)
{
    (void)state;
    struct decider *d = child_with(2, false);
    say(d, 3, 1, "x");
    say(d, 3, 2, "y");
    reply(d, 3, 1, OUTCOME_FAILED);
    (void)decide(d, 3);
    d->round.progress[0]->state = d->round.progress[1]->state = WRITE_MISSED;
    feed(d, 4, (struct event){.type = EVENT_ROUND_DONE});
    (void)decide(d, 4);
    int tries = 0;
    for (int64_t now = 4; now < 1000; now++) { /* the outcome waits; are they ours still? */
        (void)decide(d, now);
        assert_true(!d->rounds.in_flight || d->round.n_requeue == 0);
        if (written(d)) {
            assert_string_equal(written(d)->line, "x");
            d->round.progress[0]->state = WRITE_MISSED;
            tries++;
        }
        answer(d, now);
    }
    assert_in_range(tries, 10, 1000 / RETRY_MIN_MS);
    (void)decide(d, 1004);
    assert_int_equal(d->round.n_progress, 2); /* that of the other task, a second later */
    settle(d, 1004);
    assert_int_equal(d->round.n_requeue, 1);
    decider_free(d);
}

static void test_what_cannot_be_stored_is_noted(void **state)
{
    (void)state;
    struct decider *d = child_with(1, false);
    say(d, 3, 1, "x");
    (void)decide(d, 3);
    d->round.progress[0]->state = WRITE_REFUSED;
    feed(d, 4, (struct event){.type = EVENT_ROUND_DONE});
    (void)decide(d, 4);
    assert_int_equal(note_find(d, NOTE_PROGRESS_REFUSED)->task, 1);
    for (int64_t now = 5; now < 3000; now += 10) {
        (void)decide(d, now);
        assert_null(written(d));
        settle(d, now);
    }
    decider_free(d);
}

/* None of it keeps the bad outcome from being found. */
static void test_a_bad_outcome_beside_progress(void **state)
{
    (void)state;
    struct decider *d = child_with(3, false);
    reply(d, 3, 1, OUTCOME_DONE); /* the bad one */
    say(d, 3, 3, "y");
    reply(d, 3, 3, OUTCOME_FAILED);
    for (int64_t now = 3; now < 60000 && d->n_held > 1; now += 10) {
        say(d, now, 2, "x");
        (void)decide(d, now);
        bool bad = false;
        for (size_t i = 0; d->rounds.in_flight && i < d->round.n_finish; i++) {
            bad = bad || !d->round.finish[i]->refused;
        }
        if (bad) {
            fails(d, now, FAILURE_ROW);
        } else {
            settle(d, now);
        }
    }
    assert_int_equal(d->count_done, 1);
    assert_int_equal(d->count_failed, 1);
    decider_free(d);
}

/* While outcomes fail, progress is written as ever, and that does not mean that rounds work. */
static void test_outcomes_that_fail_go_by_themselves(void **state)
{
    (void)state;
    struct decider *d = child_with(2, false);
    say(d, 3, 2, "x");
    reply(d, 3, 1, OUTCOME_DONE);
    (void)decide(d, 3);
    assert_int_equal(d->round.n_finish, 1);
    assert_int_equal(d->round.n_progress, 1);
    fails(d, 4, FAILURE_AGAIN);
    int n = 0;
    for (int64_t now = 4; now < 9004; now += 10) {
        say(d, now, 2, "x");
        (void)decide(d, now);
        assert_null(note_find(d, NOTE_ROUND_WORKS));
        if (d->rounds.in_flight && d->round.n_finish > 0) {
            assert_null(written(d));
            fails(d, now, FAILURE_AGAIN);
        } else if (d->rounds.in_flight) {
            n += written(d) != NULL;
            commit(d, now, NULL, 0);
        }
    }
    assert_in_range(n, 8, 10);
    decider_free(d);
}

static void test_a_lost_claim_s_progress_is_dropped(void **state)
{
    (void)state;
    struct decider *d = child_with(1, false);
    say(d, 3, 1, "x");
    verdict = VERDICT_CANCELLED;
    (void)decide(d, 3); /* the write was missed: the claim is asked for */
    d->round.progress[0]->state = WRITE_MISSED;
    feed(d, 4, (struct event){.type = EVENT_ROUND_DONE});
    (void)decide(d, 4 + RETRY_MIN_MS);
    assert_int_equal(d->round.n_verify, 1);
    settle(d, 5 + RETRY_MIN_MS);
    assert_int_equal(action_find(d, ACTION_SIGNAL)->n, SIGTERM); /* it does not hear */
    assert_null(action_find(d, ACTION_TELL_STOP));
    say(d, 100, 1, "more");
    for (int64_t now = 100; now < 3000; now += 10) {
        (void)decide(d, now);
        assert_null(written(d));
        settle(d, now);
    }
    assert_int_equal(d->handlers[0].said_bytes, 0);
    decider_free(d);
}

/* --- more time --- */

static void test_a_line_extends_the_deadline(void **state)
{
    (void)state;
    struct decider *d = child_with(1, false); /* 10 s from 2 on */
    extend(d, 3, 1, 5000);                    /* no later than it is */
    (void)decide(d, 3);
    assert_null(written(d));
    extend(d, 9000, 1, 20000);
    (void)decide(d, 9000);
    assert_int_equal(d->held->deadline_ms, 29002); /* from when the child got it */
    while (!written(d)) {
        settle(d, 9000);
    }
    assert_int_equal(written(d)->timeout_ms, 29000);
    assert_null(written(d)->line);
    for (int64_t now = 9001; now < 29002; now += 500) {
        settle(d, now);
        (void)decide(d, now);
        assert_null(action_find(d, ACTION_SIGNAL));
    }
    settle(d, 29002);
    (void)decide(d, 29002);
    settle(d, 29002);
    assert_int_equal(action_find(d, ACTION_SIGNAL)->n, SIGTERM);
    extend(d, 29003, 1, 20000); /* too late */
    gone(d, 29004, 0, "killed");
    (void)decide(d, 29004);
    assert_int_equal(d->round.requeue[0]->outcome, OUTCOME_TIMED_OUT);
    assert_contains(d->round.requeue[0]->error, "timed out after 29000 ms");
    decider_free(d);
}

/* The row's deadline counts from the claim, however often that was verified since. */
static void test_more_time_for_what_waited_for_its_child(void **state)
{
    (void)state;
    struct claim *c = claimed(1, "a");
    struct decider *d = decider_make(1, 1, pool_mode);
    present(d, 0);
    (void)decide(d, 0);
    commit(d, 1, &c, 1);
    for (int64_t now = 1; now < 5000; now += 10) {
        (void)decide(d, now);
        settle(d, now);
    }
    feed(d, 5000, (struct event){.type = EVENT_CHILD_READY, .slot = 0, .room = 1});
    (void)decide(d, 5000);
    assert_int_equal(d->n_given, 1);
    extend(d, 6000, 1, 20000);
    assert_int_equal(d->held->timeout_ms, 26000);
    decider_free(d);
}

static void test_no_task_runs_for_more_than_30_days(void **state)
{
    (void)state;
    struct decider *d = child_with(1, false);
    extend(d, 9000, 1, TIMEOUT_MAX_MS);
    assert_true(d->held->timeout_ms == TIMEOUT_MAX_MS);
    decider_free(d);
}

/* By tenon.extend(): the worker hears of it when it asks, at the deadline if not before. */
static void test_the_database_may_know_a_later_deadline(void **state)
{
    (void)state;
    struct decider *d = child_with(1, false);
    d->held->verify_ms = INT64_MAX / 2;
    assert_true(decide(d, 10001) <= 10011);
    settle(d, 10001);
    (void)decide(d, 10002);
    assert_true(d->rounds.in_flight);
    assert_int_equal(d->round.n_verify, 1);
    d->round.verdicts[0] = VERDICT_MINE;
    d->round.timeouts_ms[0] = 60000;
    feed(d, 10003, (struct event){.type = EVENT_ROUND_DONE});
    for (int64_t now = 10003; now < 60002; now += 1000) {
        (void)decide(d, now);
        assert_null(action_find(d, ACTION_SIGNAL));
        settle(d, now);
    }
    (void)decide(d, 60002);
    settle(d, 60002);
    settle(d, 60002);
    assert_int_equal(d->slots[0].state, SLOT_STOPPING);
    decider_free(d);
}

/* Without an answer the deadline holds, and an answer from before it does not count. */
static void test_a_database_that_does_not_answer(void **state)
{
    (void)state;
    struct decider *d = child_with(1, false);
    feed(d, 10001, (struct event){.type = EVENT_POLL});
    d->held->verify_ms = 10001;
    d->attention_ms = 10001;
    (void)decide(d, 10001);
    assert_true(d->rounds.in_flight); /* asked a moment too soon */
    (void)decide(d, 10002);
    assert_null(action_find(d, ACTION_SIGNAL));
    settle(d, 10003);
    assert_null(action_find(d, ACTION_SIGNAL));
    assert_int_equal(d->round.n_verify, 1); /* asked again */
    (void)decide(d, 10001 + ASK_LIMIT_MS);
    assert_null(action_find(d, ACTION_SIGNAL));
    (void)decide(d, 10002 + ASK_LIMIT_MS);
    assert_int_equal(action_find(d, ACTION_SIGNAL)->n, SIGTERM);
    decider_free(d);
}

/* --- stop --- */

static void lose_1(struct decider *d)
{
    (void)decide(d, 2 + VERIFY_EVERY_MS);
    for (size_t i = 0; i < d->round.n_verify; i++) {
        d->round.verdicts[i] = d->round.verify[i].id == 1 ? VERDICT_CANCELLED : VERDICT_MINE;
        d->round.timeouts_ms[i] = 0;
    }
    feed(d, 5010, (struct event){.type = EVENT_ROUND_DONE});
    (void)decide(d, 5010);
}

static void test_a_child_that_hears_is_told(void **state)
{
    (void)state;
    struct decider *d = child_with(1, true);
    lose_1(d);
    assert_int_equal(action_find(d, ACTION_TELL_STOP)->task, 1);
    assert_string_equal(action_find(d, ACTION_TELL_STOP)->text, "cancelled");
    assert_null(action_find(d, ACTION_SIGNAL));
    settle(d, 5011);
    reply(d, 6000, 1, OUTCOME_RELEASED); /* it stops by itself, and lives */
    for (int64_t now = 6000; now < 60000; now += 500) {
        (void)decide(d, now);
        assert_null(action_find(d, ACTION_SIGNAL));
        settle(d, now);
    }
    assert_int_equal(slots_room(d), 1);
    assert_int_equal(d->count_lost, 1);
    decider_free(d);
}

static void test_a_child_that_does_not_obey(void **state)
{
    (void)state;
    struct decider *d = child_with(1, true);
    lose_1(d);
    settle(d, 5011);
    for (int64_t now = 5011; now < 5010 + STOP_GRACE_MS; now += 7) {
        assert_true(decide(d, now) <= 5010 + STOP_GRACE_MS);
        assert_null(action_find(d, ACTION_SIGNAL));
        settle(d, now);
    }
    (void)decide(d, 5010 + STOP_GRACE_MS);
    assert_int_equal(action_find(d, ACTION_SIGNAL)->n, SIGTERM);
    decider_free(d);
}

static void test_a_drain_is_told_to_who_hears(void **state)
{
    (void)state;
    for (int hears = 0; hears < 2; hears++) {
        struct decider *d = child_with(2, hears);
        feed(d, 3, (struct event){.type = EVENT_STOP});
        (void)decide(d, 3);
        assert_int_equal(action_count(d, ACTION_TELL_STOP), hears);
        if (hears) {
            assert_int_equal(action_find(d, ACTION_TELL_STOP)->task, 0);
            assert_string_equal(action_find(d, ACTION_TELL_STOP)->text, "drain");
        }
        decider_free(d);
    }
}

/* Never charged while the worker drains; elsewhere not for ever. */
static void test_an_interruption_is_not_charged(void **state)
{
    (void)state;
    for (int drains = 0; drains < 2; drains++) {
        for (int claims = 1; claims < 30; claims++) {
            struct decider *d = child_with(1, true);
            bool charged = !drains && claims > RETURNS_MAX;
            d->held->claims = claims;
            if (drains) {
                feed(d, 3, (struct event){.type = EVENT_STOP});
            }
            say(d, 3, 1, "x");
            reply(d, 3, 1, OUTCOME_RELEASED);
            (void)decide(d, 3);
            assert_non_null(written(d));
            settle(d, 3);
            assert_int_equal(d->round.requeue[0]->outcome,
                             charged ? OUTCOME_FAILED : OUTCOME_RELEASED);
            assert_true(d->round.requeue[0]->delay_ms == -1);
            if (charged) {
                assert_contains(d->round.requeue[0]->error, "again and again");
            }
            decider_free(d);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_progress_is_written_once_a_second),
        cmocka_unit_test(test_many_are_written_together),
        cmocka_unit_test(test_what_does_not_fit_follows_at_once),
        cmocka_unit_test(test_the_last_word_goes_before_the_outcome),
        cmocka_unit_test(test_a_done_task_s_progress_is_dropped),
        cmocka_unit_test(test_a_child_that_dies),
        cmocka_unit_test(test_what_was_not_written_comes_again),
        cmocka_unit_test(test_a_failed_round_keeps_the_last_word_before_the_outcome),
        cmocka_unit_test(test_a_locked_row),
        cmocka_unit_test(test_what_cannot_be_stored_is_noted),
        cmocka_unit_test(test_a_bad_outcome_beside_progress),
        cmocka_unit_test(test_outcomes_that_fail_go_by_themselves),
        cmocka_unit_test(test_a_lost_claim_s_progress_is_dropped),
        cmocka_unit_test(test_a_line_extends_the_deadline),
        cmocka_unit_test(test_more_time_for_what_waited_for_its_child),
        cmocka_unit_test(test_no_task_runs_for_more_than_30_days),
        cmocka_unit_test(test_the_database_may_know_a_later_deadline),
        cmocka_unit_test(test_a_database_that_does_not_answer),
        cmocka_unit_test(test_a_child_that_hears_is_told),
        cmocka_unit_test(test_a_child_that_does_not_obey),
        cmocka_unit_test(test_a_drain_is_told_to_who_hears),
        cmocka_unit_test(test_an_interruption_is_not_charged),
    };
    return RUN_GROUP(tests);
}
