/* label: unit */
/* When it looks for tasks by itself, how, and when it takes them for the last. */
#include "tests/support/deciding.h"

static void test_idle_polls_once_a_second(void **state)
{
    (void)state;
    struct decider *d = decider_make(2, 1, exec_mode);
    present(d, 0);
    int64_t now = 0;
    int rounds = 0;
    while (now < 60000) {
        int64_t due = decide(d, now);
        if (action_find(d, ACTION_ROUND)) {
            rounds++;
            commit(d, now, NULL, 0);
            due = decide(d, now);
        }
        assert_true(due > now);
        now = due;
    }
    assert_in_range(rounds, 45, 122); /* polls and ticks, each at most once a second */
    decider_free(d);
}

/* The poll in flight ends like this. */
static void polled(struct decider *d, int64_t now, enum poll_end end)
{
    assert_true(d->rounds.in_flight);
    assert_true(d->round.n_poll > 0);
    d->round.n_claimed = 0;
    d->round.end = end;
    feed(d, now, (struct event){.type = EVENT_ROUND_DONE});
}

/* A worker that is present, and whose first sweep has ended. */
static struct decider *swept(int slots)
{
    struct decider *d = decider_make(slots, 1, exec_mode);
    present(d, 0);
    (void)decide(d, 0);
    assert_int_equal(d->round.way, POLL_SWEEP);
    polled(d, 0, POLL_ALL);
    (void)decide(d, 0);
    assert_false(d->rounds.in_flight);
    return d;
}

/* When it polls next. */
static int64_t next_poll(struct decider *d, int64_t now)
{
    for (int64_t due = decide(d, now); !d->rounds.in_flight; due = decide(d, now)) {
        assert_true(due > now);
        now = due;
    }
    return now;
}

/* When it sweeps next; other polls before it find nothing. */
static int64_t next_sweep(struct decider *d, int64_t now)
{
    for (now = next_poll(d, now); d->round.way == POLL_ON; now = next_poll(d, now)) {
        polled(d, now, POLL_ALL);
    }
    return now;
}

static void test_told_that_tasks_may_be_ready_it_polls_at_once(void **state)
{
    (void)state;
    struct decider *d = swept(2);
    feed(d, 10, (struct event){.type = EVENT_POLL});
    (void)decide(d, 10);
    assert_true(d->rounds.in_flight);
    assert_int_equal(d->round.n_poll, 2);
    assert_int_equal(d->round.way, POLL_ON);
    decider_free(d);
}

/* Of 200 workers that serve the same and are told of one task a few poll, of more tasks more, and
 * all when nobody says of how many. */
static void test_told_of_one_task_few_of_many_workers_poll(void **state)
{
    static const struct {
        size_t tasks;
        int least, most; /* polls of 200 that are told, with much room for chance */
    } cases[] = {{1, 1, 30}, {20, 20, 90}, {200, 200, 200}, {0, 200, 200}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int polls = 0;
        struct decider *d = swept(2);
        feed(d, 10, (struct event){.type = EVENT_PEERS, .n = 200});
        for (int worker = 0; worker < 200; worker++) {
            d->polling.at_once = false;
            feed(d, 10, (struct event){.type = EVENT_POLL, .n = cases[i].tasks});
            polls += d->polling.at_once;
        }
        assert_in_range(polls, cases[i].least, cases[i].most);
        decider_free(d);
    }
}

/* Many that serve the same poll less often each, up to POLL_SLOWER_MAX times. */
static void test_with_many_peers_it_polls_less_often(void **state)
{
    static const struct {
        size_t peers;
        int slower;
    } cases[] = {{0, 1}, {19, 1}, {20, 2}, {200, POLL_SLOWER_MAX}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        enum { FOR_MS = 60000 };
        int rounds = 0;
        struct decider *d = swept(2);
        feed(d, 10, (struct event){.type = EVENT_PEERS, .n = cases[i].peers});
        for (int64_t now = 10; now < FOR_MS; now++) {
            (void)decide(d, now);
            if (d->rounds.in_flight) {
                rounds++;
                polled(d, now, POLL_ALL);
            }
        }
        int64_t least = FOR_MS / ((int64_t)SWEEP_EVERY_MS * cases[i].slower);
        assert_in_range(rounds, least - 1, least + least / 4 + 2);
        decider_free(d);
    }
}

/* The one in flight may have begun too early. */
static void test_told_during_a_poll_it_polls_again(void **state)
{
    (void)state;
    struct decider *d = swept(2);
    for (int64_t now = 10; now < 12; now++) {
        feed(d, now, (struct event){.type = EVENT_POLL});
        (void)decide(d, now);
        assert_true(d->rounds.in_flight);
    }
    polled(d, 12, POLL_ALL);
    assert_int_equal(next_poll(d, 12), 12);
    polled(d, 13, POLL_ALL);
    (void)decide(d, 13);
    assert_false(d->rounds.in_flight);
    decider_free(d);
}

/* Whoever may log in can NOTIFY. */
static void test_told_all_the_time_it_polls_now_and_then(void **state)
{
    (void)state;
    struct decider *d = swept(2);
    int polls = 0;
    for (int64_t now = 10; now < 10010; now++) {
        feed(d, now, (struct event){.type = EVENT_POLL});
        (void)decide(d, now);
        if (d->rounds.in_flight) {
            polls += d->round.way == POLL_ON;
            polled(d, now, POLL_ALL);
        }
    }
    assert_in_range(polls, 10000 / THROTTLE_REST_MS / 2,
                    (10000 + THROTTLE_AHEAD_MS) / THROTTLE_REST_MS + 10000 / POLL_EVERY_MS + 2);
    (void)decide(d, 10100); /* what was told is done soon all the same */
    assert_true(d->rounds.in_flight);
    polled(d, 10100, POLL_ALL);
    decider_free(d);
}

/* Something each time: none waits. */
static void test_told_of_tasks_it_polls_each_time(void **state)
{
    (void)state;
    struct polling p = {.next_ms = 1000, .next_sweep_ms = 1000};
    for (int64_t now = 10; now < 900; now++) {
        enum poll_way way;
        p.at_once = true;
        assert_true(polling_due(&p) <= now);
        assert_true(polling_begin(&p, &way, now));
        polling_end(&p, way, POLL_ALL, true, 1, 0, now);
    }
}

static void test_after_the_bound_it_polls_after_a_pause(void **state)
{
    (void)state;
    struct decider *d = swept(2);
    feed(d, 10, (struct event){.type = EVENT_POLL});
    (void)decide(d, 10);
    polled(d, 11, POLL_BOUNDED);
    assert_int_equal(next_poll(d, 11), 11 + POLL_PAUSE_MS);
    decider_free(d);
}

/* What is behind a million rows of a kind that nobody handles waits for no sweep over them. */
static void test_between_the_parts_of_a_sweep_it_polls_as_ever(void **state)
{
    (void)state;
    struct decider *d = swept(2);
    int64_t now = next_poll(d, 10);
    assert_int_equal(d->round.way, POLL_SWEEP);
    polled(d, now, POLL_BOUNDED);
    (void)decide(d, now);
    feed(d, now + 10, (struct event){.type = EVENT_POLL});
    (void)decide(d, now + 10);
    assert_true(d->rounds.in_flight);
    assert_int_equal(d->round.way, POLL_ON);
    polled(d, now + 11, POLL_ALL);
    assert_int_equal(next_poll(d, now + 11), now + POLL_PAUSE_MS);
    assert_int_equal(d->round.way, POLL_SWEEP_ON);
    decider_free(d);
}

/* What lies before the cursors of a lower priority is not swept by a full sweep. */
static void test_a_sweep_goes_on_when_the_backlog_is_over(void **state)
{
    (void)state;
    struct decider *d = swept(2);
    int64_t now = next_sweep(d, 10);
    polled(d, now, POLL_FULL_BEFORE);
    assert_int_equal(next_poll(d, now), now);
    assert_int_equal(d->round.way, POLL_SWEEP_ON);
    polled(d, now, POLL_FULL);
    assert_int_equal(next_poll(d, now), now);
    assert_int_equal(d->round.way, POLL_ON);
    polled(d, now, POLL_ALL);
    assert_int_equal(next_poll(d, now), now);
    assert_int_equal(d->round.way, POLL_SWEEP_ON);
    polled(d, now, POLL_ALL);
    assert_in_range(next_poll(d, now), now + SWEEP_EVERY_MS, now + SWEEP_EVERY_MS + POLL_JITTER_MS);
    assert_int_equal(d->round.way, POLL_SWEEP);
    decider_free(d);
}

/* Those from the head: until the next one, sweeps read what was due lately. */
static void test_sweeps_that_take_long_are_rare(void **state)
{
    (void)state;
    static const struct {
        int64_t took_ms;
        int64_t reach_ms; /* -1: it comes from the head */
        int64_t rest_ms, full_ms;
    } sweeps[] = {{1, -1, 1000, 300},     {100, -1, 1000, 30000}, {1, 2000, 1000, 0},
                  {100, 4000, 2000, 0},   {3000, 2000, 10000, 0}, {3000, 8000, 10000, 0},
                  {3000, -1, 1000, 60000}};
    struct decider *d = swept(2);
    int64_t now = 10;
    for (size_t i = 0; i < sizeof sweeps / sizeof *sweeps; i++) {
        now = next_sweep(d, now);
        while (sweeps[i].reach_ms < 0 && d->round.reach_ms > 0) {
            polled(d, now, POLL_ALL);
            now = next_sweep(d, now);
        }
        assert_int_equal(d->round.reach_ms, sweeps[i].reach_ms);
        polled(d, now + sweeps[i].took_ms - 1, POLL_BOUNDED);
        now = next_sweep(d, now + sweeps[i].took_ms - 1);
        polled(d, now + 1, POLL_ALL);
        assert_int_equal(d->polling.next_sweep_ms, now + 1 + sweeps[i].rest_ms);
        if (sweeps[i].reach_ms < 0) {
            assert_int_equal(d->polling.next_full_ms, now + 1 + sweeps[i].full_ms);
        }
    }
    decider_free(d);
}

/* One that read only what was due lately says nothing of the backlog before that. */
static void test_a_short_sweep_ends_no_backlog(void **state)
{
    (void)state;
    struct decider *d = swept(2);
    int64_t now = next_sweep(d, 10);
    now += 100;
    polled(d, now, POLL_ALL);
    feed(d, now, (struct event){.type = EVENT_POLL});
    now = next_poll(d, now);
    assert_int_equal(d->round.way, POLL_ON);
    polled(d, now, POLL_FULL);
    for (now = next_poll(d, now); d->round.way != POLL_SWEEP; now = next_poll(d, now)) {
        now += 100;
        polled(d, now, POLL_FULL);
    }
    assert_int_equal(d->round.reach_ms, SWEEP_REACH_MS);
    polled(d, now, POLL_ALL);
    assert_true(d->polling.backlog);
    decider_free(d);
}

/* What it has found and could not claim yet does not become too old for it. */
static void test_a_short_sweep_that_goes_on_reads_what_it_began_with(void **state)
{
    (void)state;
    struct decider *d = swept(2);
    int64_t now = next_sweep(d, 10);
    polled(d, now + 100, POLL_ALL);
    now = next_sweep(d, now + 100);
    assert_int_equal(d->round.reach_ms, SWEEP_REACH_MS);
    polled(d, now, POLL_BOUNDED);
    int64_t later = next_poll(d, now);
    assert_int_equal(d->round.way, POLL_SWEEP_ON);
    assert_int_equal(d->round.reach_ms, SWEEP_REACH_MS + later - now);
    decider_free(d);
}

static void test_a_full_poll_is_followed_by_the_next_when_there_is_room(void **state)
{
    (void)state;
    struct decider *d = swept(1);
    feed(d, 10, (struct event){.type = EVENT_POLL});
    (void)decide(d, 10);
    struct claim *c = claimed(1, "a");
    commit(d, 11, &c, 1);
    (void)decide(d, 11);
    assert_false(d->rounds.in_flight);
    reply(d, 20, 1, OUTCOME_DONE);
    gone(d, 20, 0, "exit status 0");
    (void)decide(d, 20);
    assert_true(d->rounds.in_flight);
    assert_int_equal(d->round.n_finish, 1);
    assert_int_equal(d->round.n_poll, 1);
    decider_free(d);
}

static void deliver(struct decider *d, int64_t now, const int64_t *ids, size_t n, uint64_t tag)
{
    feed(d, now,
         (struct event){.type = EVENT_WAKEUPS, .epoch = 1, .ids = ids, .n = n, .last_tag = tag});
}

/* A backlog: one slot, and each poll is full. ret: the time */
static int64_t make_backlog(struct decider *d, int64_t now, int64_t id)
{
    feed(d, now, (struct event){.type = EVENT_POLL});
    (void)decide(d, now);
    struct claim *c = claimed(id, "a");
    commit(d, now + 1, &c, 1);
    (void)decide(d, now + 1);
    assert_int_equal(d->n_given, 1);
    return now + 1;
}

static void test_in_a_backlog_wakeups_are_acked_and_not_asked_for(void **state)
{
    (void)state;
    struct decider *d = swept(1);
    feed(d, 5, (struct event){.type = EVENT_BROKER, .up = true, .epoch = 1});
    int64_t now = make_backlog(d, 10, 1);
    const int64_t ids[] = {7, 8};
    deliver(d, now, ids, 2, 2);
    (void)decide(d, now);
    assert_null(action_find(d, ACTION_ACK)); /* while it is busy, others may want them back */
    reply(d, 20, 1, OUTCOME_DONE);
    gone(d, 20, 0, "exit status 0");
    (void)decide(d, 20);
    assert_int_equal(d->round.n_poll, 1);
    assert_int_equal(d->round.n_ids, 0);
    assert_int_equal(action_find(d, ACTION_ACK)->tag, 2);
    commit(d, 21, NULL, 0); /* the backlog is over */
    (void)decide(d, 21);
    deliver(d, 22, ids, 1, 3);
    (void)decide(d, 22);
    assert_int_equal(d->round.n_poll, 0);
    assert_int_equal(d->round.n_ids, 1);
    decider_free(d);
}

static void test_once_a_second_a_poll_goes_first(void **state)
{
    (void)state;
    struct decider *d = swept(2);
    feed(d, 5, (struct event){.type = EVENT_BROKER, .up = true, .epoch = 1});
    int64_t now = 10, polled_ms = 0;
    for (uint64_t tag = 1; now < 5000; tag++, now += 10) {
        const int64_t id = (int64_t)tag;
        deliver(d, now, &id, 1, tag);
        for (; decide(d, now), d->rounds.in_flight; commit(d, now, NULL, 0)) {
            assert_true(d->round.n_poll == 0 || d->round.n_ids == 0);
            polled_ms = d->round.n_poll > 0 ? now : polled_ms;
        }
        assert_true(now - polled_ms < POLL_EVERY_MS + POLL_JITTER_MS + 20);
    }
    decider_free(d);
}

/* One task in five seconds, so that nothing starves, and what is urgent is not held up. */
static void test_in_a_backlog_the_lowest_priority_gets_its_turn(void **state)
{
    (void)state;
    struct decider *d = decider_make(2, 1, exec_mode);
    int lowest = 0;
    present(d, 0);
    for (int64_t now = 0, id = 1; now < 60000; now += 100) {
        d->ewma_us = AHEAD_FAST_US; /* nothing is claimed ahead */
        (void)decide(d, now);
        if (!d->rounds.in_flight) {
            continue;
        }
        struct claim *c[2] = {NULL};
        assert_true(d->round.n_poll <= 2);
        for (int i = 0; i < d->round.n_poll; i++) {
            c[i] = claimed(id++, "a");
        }
        lowest += d->round.way == POLL_LOWEST;
        assert_true(d->round.way != POLL_LOWEST || d->round.n_poll == 1);
        commit(d, now, c, (size_t)d->round.n_poll);
        (void)decide(d, now);
        for (int slot = 0; slot < 2; slot++) {
            if (d->slots[slot].given) {
                feed(d, now,
                     (struct event){.type = EVENT_REPLY,
                                    .slot = slot,
                                    .id = d->slots[slot].given->id,
                                    .outcome = OUTCOME_DONE,
                                    .delay_ms = -1});
                gone(d, now, slot, "exit status 0");
            }
        }
    }
    assert_in_range(lowest, 10, 12);
    decider_free(d);
}

/* What polls passed over while their handler was left out is found as soon as it is not. */
static void test_a_handler_that_may_claim_again_sweeps(void **state)
{
    (void)state;
    struct decider *d = decider_make(2, 2, pool_mode);
    present(d, 0);
    (void)decide(d, 0);
    settle(d, 1);
    d->handlers[1].backoff_until_ms = 1600;
    (void)decide(d, 1300);
    assert_true(d->rounds.in_flight && d->round.left_out[1]);
    settle(d, 1301);
    int64_t due = decide(d, 1302);
    assert_int_equal(due, 1600); /* and not with the next poll or sweep */
    (void)decide(d, 1600);
    assert_int_equal(d->round.way, POLL_SWEEP);
    assert_false(d->round.left_out[1]);
    settle(d, 1601);
    d->handlers[0].payload_bytes = d->handlers[1].payload_bytes = HELD_BYTES_MAX;
    (void)decide(d, 3000); /* nobody may claim anything */
    assert_int_equal(d->round.n_poll, 0);
    settle(d, 3001);
    d->handlers[0].payload_bytes = d->handlers[1].payload_bytes = 0;
    (void)decide(d, 3002);
    assert_int_equal(d->round.way, POLL_SWEEP);
    assert_int_equal(d->round.n_poll > 0, 1);
    settle(d, 3003);
    decider_free(d);
}

static void pause_kinds(struct decider *d, int64_t now, const int64_t *kinds, size_t n)
{
    feed(d, now, (struct event){.type = EVENT_PAUSED, .ids = kinds, .n = n});
}

/* Kinds a, b and c, of which the second handler has two. What is resumed is swept for at once. */
static void test_paused_kinds_are_not_asked_for(void **state)
{
    (void)state;
    const int64_t all[] = {0, 1, 2}, b[] = {1};
    struct decider *d = decider_make(2, 2, pool_mode);
    pause_kinds(d, 0, b, 1);
    present(d, 0);
    (void)decide(d, 0);
    assert_true(d->rounds.in_flight && !d->round.left_out[1]);
    assert_true(!d->round.paused[0] && d->round.paused[1] && !d->round.paused[2]);
    pause_kinds(d, 1, all, 3);
    assert_false(d->round.paused[0]); /* the round in flight is not changed */
    settle(d, 1);
    int64_t due = decide(d, 5000);
    assert_false(d->rounds.in_flight); /* nobody may claim anything */
    assert_true(due > 5000);
    pause_kinds(d, 5001, b, 1);
    (void)decide(d, 5001);
    assert_true(d->rounds.in_flight && d->round.n_poll > 0);
    assert_int_equal(d->round.way, POLL_SWEEP);
    assert_true(!d->round.paused[0] && d->round.paused[1] && !d->round.paused[2]);
    settle(d, 5002);
    pause_kinds(d, 5003, NULL, 0);
    (void)decide(d, 5003);
    assert_int_equal(d->round.way, POLL_SWEEP);
    assert_false(d->round.paused[1]);
    settle(d, 5004);
    decider_free(d);
}

/* --until-empty: what is paused is not ready, and so nothing is left. */
static void test_until_empty_ends_when_all_is_paused(void **state)
{
    (void)state;
    const int64_t all[] = {0};
    struct decider *d = decider_make(1, 1, pool_mode);
    d->until_empty = true;
    pause_kinds(d, 0, all, 1);
    present(d, 0);
    for (int64_t now = 0; now < 20 && d->stop_level == 0; now++) {
        (void)decide(d, now);
        settle(d, now);
    }
    assert_int_equal(d->stop_level, 1);
    decider_free(d);
}

/* Not before a whole sweep, of several polls maybe, has found nothing. */
static void test_until_empty_ends_after_a_sweep_that_found_nothing(void **state)
{
    (void)state;
    struct decider *d = decider_make(1, 1, pool_mode);
    d->until_empty = true;
    present(d, 0);
    (void)decide(d, 0);
    polled(d, 0, POLL_BOUNDED);
    assert_int_equal(d->stop_level, 0);
    int64_t now = next_sweep(d, 0);
    assert_int_equal(d->round.way, POLL_SWEEP_ON);
    assert_int_equal(d->stop_level, 0);
    polled(d, now, POLL_ALL);
    assert_int_equal(d->stop_level, 1);
    decider_free(d);
}

/* Nor after a short sweep, which leaves out what was due long ago. */
static void test_until_empty_does_not_end_after_a_short_sweep(void **state)
{
    (void)state;
    struct decider *d = decider_make(1, 1, exec_mode);
    struct claim *c = claimed(1, "a");
    d->until_empty = true;
    present(d, 0);
    (void)decide(d, 0);
    commit(d, 10, &c, 1); /* it took 10 ms: the next one from the head is due in 3 s */
    (void)decide(d, 10);
    reply(d, 2000, 1, OUTCOME_DONE);
    gone(d, 2000, 0, "exit status 0");
    (void)decide(d, 2000);
    assert_true(d->round.way == POLL_SWEEP && d->polling.reach_ms >= 0);
    commit(d, 2000, NULL, 0);
    assert_int_equal(d->stop_level, 0);
    (void)decide(d, 2000);
    assert_true(d->round.way == POLL_SWEEP && d->polling.reach_ms < 0);
    polled(d, 2000, POLL_ALL);
    assert_int_equal(d->stop_level, 1);
    decider_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_idle_polls_once_a_second),
        cmocka_unit_test(test_told_that_tasks_may_be_ready_it_polls_at_once),
        cmocka_unit_test(test_told_of_one_task_few_of_many_workers_poll),
        cmocka_unit_test(test_with_many_peers_it_polls_less_often),
        cmocka_unit_test(test_told_during_a_poll_it_polls_again),
        cmocka_unit_test(test_told_all_the_time_it_polls_now_and_then),
        cmocka_unit_test(test_told_of_tasks_it_polls_each_time),
        cmocka_unit_test(test_after_the_bound_it_polls_after_a_pause),
        cmocka_unit_test(test_between_the_parts_of_a_sweep_it_polls_as_ever),
        cmocka_unit_test(test_a_sweep_goes_on_when_the_backlog_is_over),
        cmocka_unit_test(test_sweeps_that_take_long_are_rare),
        cmocka_unit_test(test_a_short_sweep_ends_no_backlog),
        cmocka_unit_test(test_a_short_sweep_that_goes_on_reads_what_it_began_with),
        cmocka_unit_test(test_a_full_poll_is_followed_by_the_next_when_there_is_room),
        cmocka_unit_test(test_in_a_backlog_wakeups_are_acked_and_not_asked_for),
        cmocka_unit_test(test_once_a_second_a_poll_goes_first),
        cmocka_unit_test(test_in_a_backlog_the_lowest_priority_gets_its_turn),
        cmocka_unit_test(test_a_handler_that_may_claim_again_sweeps),
        cmocka_unit_test(test_paused_kinds_are_not_asked_for),
        cmocka_unit_test(test_until_empty_ends_when_all_is_paused),
        cmocka_unit_test(test_until_empty_ends_after_a_sweep_that_found_nothing),
        cmocka_unit_test(test_until_empty_does_not_end_after_a_short_sweep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
