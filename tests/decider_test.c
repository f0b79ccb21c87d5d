/* label: unit */
/* The worker's head, fed with events and a clock of its own: no server, no process, no waiting. */
#include "worker/decide/decider.h"

#include "tests/support/test.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

static const char *const one_kind[] = {"a"};
static const char *const two_kinds[] = {"a", "b,c"};
static const bool exec_mode[] = {false, false};
static const bool pool_mode[] = {true, true};

static size_t seen; /* actions of the last call of decide() */

static struct decider *make(int slots, int handlers, const bool *pool)
{
    struct decider *d = decider_new(slots, handlers, handlers == 1 ? one_kind : two_kinds, pool,
                                    25000, false, 42, 0);
    assert_non_null(d);
    seen = 0;
    return d;
}

/* A claim as the exchange thread makes it; its texts are constants. */
static struct claim *claimed(int64_t id, const char *kind)
{
    struct claim *c = calloc(1, sizeof *c);
    assert_non_null(c);
    *c = (struct claim){.id = id,
                        .attempt = 1,
                        .start_us = 1000 + id,
                        .timeout_ms = 10000,
                        .queue = "default",
                        .kind = kind,
                        .payload = "{}",
                        .payload_bytes = 2,
                        .handler = -1,
                        .slot = -1,
                        .delay_ms = -1};
    return c;
}

static void event(struct decider *d, int64_t now, struct event e)
{
    decider_event(d, &e, now);
}

/* Ask for actions. Those since the last call, from events too, stay in d->actions. */
static int64_t decide(struct decider *d, int64_t now)
{
    seen = seen < d->n_actions ? seen : d->n_actions;
    for (size_t i = seen; i < d->n_actions; i++) {
        d->actions[i - seen] = d->actions[i];
    }
    d->n_actions -= seen;
    int64_t due = decider_decide(d, now);
    seen = d->n_actions;
    return due;
}

static const struct action *find(const struct decider *d, enum action_type type)
{
    for (size_t i = 0; i < d->n_actions; i++) {
        if (d->actions[i].type == type) {
            return &d->actions[i];
        }
    }
    return NULL;
}

static size_t count(const struct decider *d, enum action_type type)
{
    size_t n = 0;
    for (size_t i = 0; i < d->n_actions; i++) {
        n += d->actions[i].type == type;
    }
    return n;
}

static const struct action *find_note(const struct decider *d, enum note note)
{
    for (size_t i = 0; i < d->n_actions; i++) {
        if (d->actions[i].type == ACTION_NOTE && d->actions[i].note == note) {
            return &d->actions[i];
        }
    }
    return NULL;
}

static void present(struct decider *d, int64_t now)
{
    event(d, now, (struct event){.type = EVENT_PRESENCE, .up = true});
}

static enum verdict verdict =
    VERDICT_MINE; /* what the database says of every claim it is asked for */

/* The exchange in flight commits: all outcomes are taken, and the look finds these tasks. */
static void commit(struct decider *d, int64_t now, struct claim *const *found, size_t n)
{
    struct exchange *x = &d->exchange;
    for (size_t i = 0; i < x->n_finish; i++) {
        x->finished[i] = true;
    }
    for (size_t i = 0; i < x->n_put_back; i++) {
        x->put_back_state[i] = PUT_BACK_READY;
    }
    for (size_t i = 0; i < x->n_verify; i++) {
        x->verdicts[i] = verdict;
    }
    for (size_t i = 0; i < n; i++) {
        x->claimed[i] = found[i];
    }
    x->n_by_look = n;
    event(d, now, (struct event){.type = EVENT_EXCHANGED});
}

/* A worker that holds one running task. */
static struct decider *running(const bool *pool, struct claim *c)
{
    struct decider *d = make(1, 1, pool);
    present(d, 0);
    (void)decide(d, 0);
    assert_non_null(find(d, ACTION_EXCHANGE));
    commit(d, 1, &c, 1);
    (void)decide(d, 1);
    assert_non_null(find(d, ACTION_SPAWN));
    if (*pool) {
        event(d, 2, (struct event){.type = EVENT_CHILD_READY, .slot = 0, .room = 1});
        (void)decide(d, 2);
        assert_non_null(find(d, ACTION_GIVE));
    }
    assert_int_equal(d->n_given, 1);
    return d;
}

static void reply(struct decider *d, int64_t now, int64_t id, enum claim_outcome outcome)
{
    event(d, now,
          (struct event){
              .type = EVENT_REPLY, .slot = 0, .id = id, .outcome = outcome, .delay_ms = -1});
}

static void gone(struct decider *d, int64_t now, int slot, const char *text)
{
    event(d, now, (struct event){.type = EVENT_CHILD_GONE, .slot = slot, .text = text});
}

/* An exchange that was in flight commits without finding anything new, until none is asked for. */
static void settle(struct decider *d, int64_t now)
{
    if (d->in_flight) {
        commit(d, now, NULL, 0);
        (void)decide(d, now);
    }
}

static void test_claims_nothing_before_it_is_present(void **state)
{
    (void)state;
    struct decider *d = make(2, 1, exec_mode);
    (void)decide(d, 0);
    assert_null(find(d, ACTION_EXCHANGE));
    assert_null(find(d, ACTION_PREFETCH));
    present(d, 5);
    (void)decide(d, 5);
    assert_non_null(find(d, ACTION_EXCHANGE));
    assert_int_equal(d->exchange.n_look, 2);
    assert_int_equal(find(d, ACTION_PREFETCH)->n, 2);
    decider_free(d);
}

static void test_idle_looks_once_a_second(void **state)
{
    (void)state;
    struct decider *d = make(2, 1, exec_mode);
    present(d, 0);
    int64_t now = 0;
    int exchanges = 0;
    while (now < 60000) {
        int64_t due = decide(d, now);
        if (find(d, ACTION_EXCHANGE)) {
            exchanges++;
            commit(d, now, NULL, 0);
            due = decide(d, now);
        }
        assert_true(due > now);
        now = due;
    }
    assert_in_range(exchanges, 45, 122); /* looks and ticks, each at most once a second */
    decider_free(d);
}

static void test_one_exchange_at_a_time_and_more_gathers(void **state)
{
    (void)state;
    struct decider *d = make(4, 1, exec_mode);
    present(d, 0);
    event(d, 0, (struct event){.type = EVENT_BROKER, .up = true, .epoch = 1});
    (void)decide(d, 0);
    assert_non_null(find(d, ACTION_EXCHANGE));
    const int64_t ids[] = {1, 2, 3};
    event(d, 1,
          (struct event){.type = EVENT_WAKEUPS, .epoch = 1, .ids = ids, .n = 3, .last_tag = 3});
    (void)decide(d, 1);
    assert_null(find(d, ACTION_EXCHANGE));
    commit(d, 2, NULL, 0);
    (void)decide(d, 2);
    assert_non_null(find(d, ACTION_EXCHANGE));
    assert_int_equal(d->exchange.n_ids, 3);
    assert_null(find(d, ACTION_ACK)); /* not before the commit */
    struct claim *c = claimed(2, "a");
    d->exchange.claimed[0] = c;
    d->exchange.n_by_id = 1;
    event(d, 3, (struct event){.type = EVENT_EXCHANGED});
    (void)decide(d, 3);
    assert_int_equal(find(d, ACTION_ACK)->tag, 3);
    assert_int_equal(count(d, ACTION_SPAWN), 1);
    /* 1 and 3 were missing or locked: they are asked for again */
    (void)decide(d, 53);
    assert_int_equal(d->exchange.n_ids, 2);
    decider_free(d);
}

static void test_done_is_finished_in_the_next_exchange(void **state)
{
    (void)state;
    struct decider *d = running(exec_mode, claimed(5, "a"));
    settle(d, 3);
    reply(d, 4, 5, OUTCOME_DONE);
    gone(d, 4, 0, "exit status 0");
    (void)decide(d, 4);
    assert_int_equal(d->exchange.n_finish, 1);
    assert_int_equal(d->exchange.finish[0]->id, 5);
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
        d->exchange.finished[0] = false;
        event(d, 5, (struct event){.type = EVENT_EXCHANGED});
        (void)decide(d, 5);
        assert_int_equal(d->exchange.n_verify, 1);
        assert_int_equal(d->exchange.verify[0].id, 5);
        d->exchange.verdicts[0] = verdicts[i];
        event(d, 6, (struct event){.type = EVENT_EXCHANGED});
        (void)decide(d, 6);
        if (verdicts[i] == VERDICT_MINE) {
            assert_int_equal(d->exchange.n_finish, 1); /* told again */
        } else {
            assert_int_equal(d->n_held, 0);
            assert_int_equal(d->count_lost, verdicts[i] == VERDICT_LOST);
            assert_int_equal(find_note(d, NOTE_CLAIM_LOST) != NULL, verdicts[i] == VERDICT_LOST);
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
    event(d, 5,
          (struct event){.type = EVENT_EXCHANGE_FAILED,
                         .failure = FAILURE_UNKNOWN,
                         .text = "gone"});
    int64_t due = decide(d, 5);
    assert_null(find(d, ACTION_EXCHANGE)); /* a pause first */
    assert_true(due > 5 && due < 5 + 2 * RETRY_MIN_MS);
    (void)decide(d, due);
    assert_true(d->exchange.own);
    assert_int_equal(d->exchange.n_verify, 1);
    assert_int_equal(d->exchange.n_finish, 0);
    assert_int_equal(d->exchange.n_look, 0);
    /* it had committed, and claimed task 6, of which we never heard */
    d->exchange.verdicts[0] = VERDICT_ENDED;
    d->exchange.owned = calloc(1, sizeof *d->exchange.owned);
    d->exchange.owned[0] = claimed(6, "");
    d->exchange.n_owned = 1;
    event(d, due + 1, (struct event){.type = EVENT_EXCHANGED});
    (void)decide(d, due + 1);
    assert_int_equal(d->exchange.n_put_back, 1);
    assert_int_equal(d->exchange.put_back[0]->id, 6);
    assert_int_equal(d->exchange.put_back[0]->outcome, OUTCOME_RELEASED);
    decider_free(d);
}

static void test_a_bad_value_is_found_by_halving(void **state)
{
    (void)state;
    struct decider *d = make(8, 1, exec_mode);
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
        event(d, 3,
              (struct event){.type = EVENT_REPLY,
                             .slot = all[i]->slot,
                             .id = i + 1,
                             .outcome = OUTCOME_DONE,
                             .delay_ms = -1});
    }
    int done = 0, failed = 0;
    int64_t now = 3;
    for (int turn = 0; turn < 40 && done + failed < 8; turn++) {
        now += 100;
        (void)decide(d, now);
        struct exchange *x = &d->exchange;
        bool bad = false;
        for (size_t i = 0; i < x->n_finish; i++) {
            bad = bad || x->finish[i]->id == 6;
        }
        if (bad) {
            event(d, now,
                  (struct event){.type = EVENT_EXCHANGE_FAILED,
                                 .failure = FAILURE_ROW,
                                 .text = "bad jsonb"});
            continue;
        }
        done += (int)x->n_finish;
        for (size_t i = 0; i < x->n_put_back; i++) {
            assert_int_equal(x->put_back[i]->id, 6);
            assert_contains(x->put_back[i]->error, "bad jsonb");
            failed++;
        }
        commit(d, now, NULL, 0);
    }
    assert_int_equal(done, 7);
    assert_int_equal(failed, 1);
    decider_free(d);
}

static void test_timeout_terms_then_kills_then_charges(void **state)
{
    (void)state;
    struct decider *d = running(exec_mode, claimed(5, "a"));
    settle(d, 3);
    int64_t due = decide(d, 9000);
    settle(d, 9000);
    assert_true(due <= 10001);
    (void)decide(d, 10002);
    assert_int_equal(find(d, ACTION_SIGNAL)->n, SIGTERM);
    settle(d, 10002);
    (void)decide(d, 10002 + TERM_GRACE_MS);
    assert_int_equal(find(d, ACTION_SIGNAL)->n, SIGKILL);
    settle(d, 10002 + TERM_GRACE_MS);
    reply(d, 15003, 5, OUTCOME_DONE); /* too late */
    assert_int_equal(d->n_given, 1);
    gone(d, 15004, 0, "killed by signal 9 (Killed)");
    (void)decide(d, 15004);
    assert_non_null(find_note(d, NOTE_TASK_TIMED_OUT));
    assert_int_equal(d->exchange.n_put_back, 1);
    assert_int_equal(d->exchange.put_back[0]->outcome, OUTCOME_FAILED);
    assert_contains(d->exchange.put_back[0]->error, "timed out after 10000 ms");
    decider_free(d);
}

static void test_a_dead_pool_child_charges_the_oldest_only(void **state)
{
    (void)state;
    struct decider *d = make(1, 1, pool_mode);
    present(d, 0);
    d->handlers[0].room = 3;
    (void)decide(d, 0);
    struct claim *all[] = {claimed(1, "a"), claimed(2, "a"), claimed(3, "a")};
    commit(d, 1, all, 3);
    (void)decide(d, 1);
    event(d, 2, (struct event){.type = EVENT_CHILD_READY, .slot = 0, .room = 3});
    (void)decide(d, 2);
    assert_int_equal(count(d, ACTION_GIVE), 3);
    settle(d, 3);
    gone(d, 4, 0, "killed by signal 11");
    (void)decide(d, 4);
    assert_int_equal(d->exchange.n_put_back, 3);
    for (size_t i = 0; i < 3; i++) {
        const struct claim *c = d->exchange.put_back[i];
        assert_int_equal(c->outcome, c->id == 1 ? OUTCOME_FAILED : OUTCOME_RELEASED);
    }
    decider_free(d);
}

static void test_a_handler_that_cannot_start_rests(void **state)
{
    (void)state;
    struct decider *d = make(1, 2, pool_mode);
    present(d, 0);
    (void)decide(d, 0);
    struct claim *c = claimed(1, "a");
    commit(d, 1, &c, 1);
    (void)decide(d, 1);
    assert_non_null(find(d, ACTION_SPAWN));
    settle(d, 2);
    event(d, 3,
          (struct event){
              .type = EVENT_CHILD_GONE, .slot = 0, .failed_start = true, .text = "no such file"});
    (void)decide(d, 3);
    assert_non_null(find_note(d, NOTE_HANDLER_RESTS));
    assert_int_equal(d->exchange.n_put_back, 1);
    assert_int_equal(d->exchange.put_back[0]->outcome, OUTCOME_RELEASED); /* nobody is charged */
    commit(d, 4, NULL, 0);
    d->next_look_ms = 5;
    (void)decide(d, 5);
    assert_true(d->exchange.rests[0]);
    assert_false(d->exchange.rests[1]);
    decider_free(d);
}

static void test_claimed_tasks_without_a_child_go_back_after_a_second(void **state)
{
    (void)state;
    struct decider *d = running(exec_mode, claimed(1, "a"));
    struct claim *c = claimed(2, "a");
    c->timeout_ms = 1000000;
    settle(d, 3);
    (void)decide(d, 2000); /* a look is due, but no slot is free: force one more claim through */
    settle(d, 2000);
    d->in_flight = true;
    d->exchange.n_ids = d->exchange.n_by_id = d->exchange.n_finish = d->exchange.n_put_back =
        d->exchange.n_verify = 0;
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

static void test_drain_lets_run_and_gives_back_the_rest(void **state)
{
    (void)state;
    struct claim *c = claimed(5, "a");
    c->timeout_ms = 1000000;
    struct decider *d = running(exec_mode, c);
    settle(d, 3);
    event(d, 10, (struct event){.type = EVENT_STOP});
    (void)decide(d, 10);
    assert_int_equal(find(d, ACTION_PREFETCH)->n, 0);
    assert_null(find(d, ACTION_SIGNAL));
    for (int64_t now = 11; now < 25000; now += 1000) {
        (void)decide(d, now);
        assert_null(find(d, ACTION_SIGNAL));
        assert_null(find(d, ACTION_EXIT));
        if (d->in_flight) {
            assert_int_equal(d->exchange.n_look, 0);
            commit(d, now, NULL, 0);
        }
    }
    (void)decide(d, 25011);
    assert_int_equal(find(d, ACTION_SIGNAL)->n, SIGTERM);
    gone(d, 25012, 0, "killed by signal 15");
    (void)decide(d, 25012);
    settle(d, 25012);
    if (d->n_held > 0) {
        settle(d, 25013);
    }
    assert_int_equal(d->count_released, 1);
    assert_int_equal(d->count_failed, 0);
    (void)decide(d, 25014);
    assert_true(find(d, ACTION_EXIT) || d->told_exit);
    decider_free(d);
}

static void test_a_second_signal_kills(void **state)
{
    (void)state;
    struct decider *d = running(exec_mode, claimed(5, "a"));
    settle(d, 3);
    event(d, 10, (struct event){.type = EVENT_STOP});
    (void)decide(d, 10);
    event(d, 11, (struct event){.type = EVENT_STOP});
    (void)decide(d, 11);
    assert_int_equal(find(d, ACTION_SIGNAL)->n, SIGKILL);
    decider_free(d);
}

static void test_without_postgresql_it_stops_its_own_children(void **state)
{
    (void)state;
    struct claim *c = claimed(5, "a");
    c->timeout_ms = 1000000;
    struct decider *d = running(exec_mode, c);
    settle(d, 3);
    event(d, 100, (struct event){.type = EVENT_PRESENCE, .up = false});
    (void)decide(d, 100);
    assert_null(find(d, ACTION_SIGNAL));
    int64_t due = decide(d, 101);
    assert_true(due <= 100 + PRESENCE_GRACE_MS);
    (void)decide(d, 100 + PRESENCE_GRACE_MS);
    assert_int_equal(find(d, ACTION_SIGNAL)->n, SIGKILL);
    decider_free(d);
}

static void test_declared_dead_it_drops_all_and_goes_on(void **state)
{
    (void)state;
    struct decider *d = running(exec_mode, claimed(5, "a"));
    settle(d, 3);
    event(d, 100, (struct event){.type = EVENT_PRESENCE, .up = false});
    event(d, 200, (struct event){.type = EVENT_PRESENCE, .up = true, .renewed = true});
    (void)decide(d, 200);
    assert_int_equal(find(d, ACTION_SIGNAL)->n, SIGKILL);
    settle(d, 200);
    gone(d, 201, 0, "killed by signal 9");
    (void)decide(d, 201);
    assert_non_null(find_note(d, NOTE_CLAIM_LOST));
    assert_int_equal(d->n_held, 0);
    assert_int_equal(d->exchange.n_put_back, 0); /* it is not ours to put back */
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
    assert_int_equal(d->exchange.n_verify, 1);
    verdict = VERDICT_LOST;
    commit(d, 6000, NULL, 0);
    verdict = VERDICT_MINE;
    (void)decide(d, 6000);
    assert_int_equal(find(d, ACTION_SIGNAL)->n, SIGTERM);
    decider_free(d);
}

static void test_wakeups_are_given_back_when_full(void **state)
{
    (void)state;
    struct claim *c = claimed(5, "a");
    c->timeout_ms = 1000000;
    struct decider *d = running(exec_mode, c);
    settle(d, 3);
    int told = -1;
    for (int64_t now = 10; now < 3000; now += 50) {
        (void)decide(d, now);
        if (find(d, ACTION_PREFETCH)) {
            told = find(d, ACTION_PREFETCH)->n;
        }
        settle(d, now);
    }
    assert_int_equal(told, 0);
    reply(d, 3001, 5, OUTCOME_DONE);
    gone(d, 3001, 0, "");
    (void)decide(d, 3001);
    assert_int_equal(find(d, ACTION_PREFETCH)->n, 1);
    settle(d, 3002);
    decider_free(d);
}

static void test_the_same_task_claimed_twice_is_given_back(void **state)
{
    (void)state;
    struct claim *c = claimed(5, "a");
    struct decider *d = make(2, 1, exec_mode);
    present(d, 0);
    (void)decide(d, 0);
    commit(d, 1, &c, 1);
    (void)decide(d, 1);
    settle(d, 2);
    struct claim *again = claimed(5, "a");
    again->attempt = 2;
    d->next_look_ms = 3;
    (void)decide(d, 3);
    commit(d, 4, &again, 1);
    (void)decide(d, 4);
    assert_int_equal(d->n_given, 1);
    assert_int_equal(d->exchange.n_put_back, 1);
    assert_int_equal(d->exchange.put_back[0]->attempt, 2);
    assert_int_equal(d->exchange.n_verify, 1); /* the older claim is lost; find out at once */
    verdict = VERDICT_LOST;
    commit(d, 5, NULL, 0);
    verdict = VERDICT_MINE;
    (void)decide(d, 5);
    gone(d, 6, 0, "killed");
    (void)decide(d, 6);
    assert_int_equal(d->n_held, 0);
    decider_free(d);
}

static void test_pool_children_of_another_kind_make_way(void **state)
{
    (void)state;
    struct decider *d = make(1, 2, pool_mode);
    present(d, 0);
    (void)decide(d, 0);
    struct claim *a = claimed(1, "a");
    commit(d, 1, &a, 1);
    (void)decide(d, 1);
    event(d, 2, (struct event){.type = EVENT_CHILD_READY, .slot = 0, .room = 1});
    (void)decide(d, 2);
    settle(d, 2);
    reply(d, 3, 1, OUTCOME_DONE);
    (void)decide(d, 3);
    settle(d, 4);
    struct claim *c = claimed(2, "c");
    d->next_look_ms = 5;
    (void)decide(d, 5);
    commit(d, 6, &c, 1);
    (void)decide(d, 6);
    assert_int_equal(find(d, ACTION_CLOSE)->slot, 0);
    settle(d, 6);
    gone(d, 7, 0, "exit status 0");
    (void)decide(d, 7);
    assert_int_equal(find(d, ACTION_SPAWN)->handler, 1);
    decider_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_claims_nothing_before_it_is_present),
        cmocka_unit_test(test_idle_looks_once_a_second),
        cmocka_unit_test(test_one_exchange_at_a_time_and_more_gathers),
        cmocka_unit_test(test_done_is_finished_in_the_next_exchange),
        cmocka_unit_test(test_a_finish_that_was_missed_is_verified),
        cmocka_unit_test(test_an_unknown_outcome_asks_first_what_is_ours),
        cmocka_unit_test(test_a_bad_value_is_found_by_halving),
        cmocka_unit_test(test_timeout_terms_then_kills_then_charges),
        cmocka_unit_test(test_a_dead_pool_child_charges_the_oldest_only),
        cmocka_unit_test(test_a_handler_that_cannot_start_rests),
        cmocka_unit_test(test_claimed_tasks_without_a_child_go_back_after_a_second),
        cmocka_unit_test(test_drain_lets_run_and_gives_back_the_rest),
        cmocka_unit_test(test_a_second_signal_kills),
        cmocka_unit_test(test_without_postgresql_it_stops_its_own_children),
        cmocka_unit_test(test_declared_dead_it_drops_all_and_goes_on),
        cmocka_unit_test(test_a_running_task_that_was_taken_is_stopped),
        cmocka_unit_test(test_wakeups_are_given_back_when_full),
        cmocka_unit_test(test_the_same_task_claimed_twice_is_given_back),
        cmocka_unit_test(test_pool_children_of_another_kind_make_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
