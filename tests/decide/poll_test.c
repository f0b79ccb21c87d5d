/* label: unit */
/* How far the polls have read: cursors of two queues, and what each kind of poll does to them. */
#include "worker/poll.h"

#include "tests/support/test.h"

#include <stdlib.h>

enum { QUEUES = 2, ALL_RANGES = QUEUES * POLL_PRIORITIES };

static struct poll p;
static int64_t now;

static int setup(void **state)
{
    struct fault f = {0};
    (void)state;
    now = 1000000;
    return poll_init(&p, QUEUES, &f) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    poll_clear(&p);
    return 0;
}

static void begin(enum poll_way way)
{
    now += 1000; /* nothing was found empty a moment ago */
    poll_begin(&p, way, -1, 0, now);
}

/* The number of the range among those of the poll in flight. */
static size_t range_of(size_t queue, int priority)
{
    for (size_t i = 0; i < p.n_ranges; i++) {
        if (p.ranges[i].queue == queue && p.ranges[i].priority == priority) {
            return i;
        }
    }
    fail_msg("queue %zu, priority %d is not asked", queue, priority);
    return 0;
}

static void read_to(size_t queue, int priority, int64_t us)
{
    poll_read_to(&p, range_of(queue, priority), (struct poll_place){us, us});
}

/* From where it reads; 0 = the head. */
static int64_t from(size_t queue, int priority)
{
    int64_t us = p.ranges[range_of(queue, priority)].from.run_at_us;
    return us == INT64_MIN ? 0 : us;
}

static enum poll_end end(enum poll_end how)
{
    return poll_end(&p, how, now);
}

static void test_it_goes_on_where_it_ended(void **state)
{
    (void)state;
    begin(POLL_ON);
    assert_int_equal(p.n_ranges, ALL_RANGES);
    assert_int_equal(from(0, 4), 0);
    read_to(0, 4, 700);
    read_to(1, 4, 500);
    assert_int_equal(end(POLL_ALL), POLL_ALL);
    begin(POLL_ON);
    assert_int_equal(from(0, 4), 700);
    assert_int_equal(from(1, 4), 500);
    assert_int_equal(from(1, 3), 0);
}

static void test_one_that_failed_changes_nothing(void **state)
{
    (void)state;
    begin(POLL_ON);
    read_to(0, 4, 700);
    begin(POLL_ON);
    assert_int_equal(from(0, 4), 0);
}

static void test_the_highest_priority_comes_first_and_the_queues_take_turns(void **state)
{
    (void)state;
    for (unsigned turn = 0; turn < 4; turn++) {
        poll_begin(&p, POLL_ON, -1, turn, now);
        assert_int_equal(p.ranges[0].priority, 9);
        assert_int_equal(p.ranges[0].queue, turn % 2);
        assert_int_equal(p.ranges[1].queue, (turn + 1) % 2);
        assert_int_equal(p.ranges[ALL_RANGES - 1].priority, 0);
    }
    poll_begin(&p, POLL_LOWEST, -1, 0, now);
    assert_int_equal(p.ranges[0].priority, 0);
    assert_int_equal(p.ranges[ALL_RANGES - 1].priority, 9);
}

static void test_of_one_run_at_the_id_says_what_comes_first(void **state)
{
    (void)state;
    begin(POLL_ON);
    poll_read_to(&p, range_of(0, 4), (struct poll_place){700, 5});
    (void)end(POLL_ALL);
    begin(POLL_SWEEP);
    poll_read_to(&p, range_of(0, 4), (struct poll_place){700, 4});
    assert_int_equal(end(POLL_FULL), POLL_FULL_BEFORE); /* number 5 is behind it */
    begin(POLL_ON);
    assert_int_equal(p.ranges[range_of(0, 4)].from.id, 5);
}

static void test_a_sweep_comes_from_the_head_and_leaves_the_cursors(void **state)
{
    (void)state;
    begin(POLL_ON);
    read_to(0, 4, 700);
    (void)end(POLL_ALL);
    begin(POLL_SWEEP);
    assert_int_equal(from(0, 4), 0);
    read_to(0, 4, 300);
    assert_int_equal(end(POLL_ALL), POLL_ALL);
    begin(POLL_ON);
    assert_int_equal(from(0, 4), 700);
    begin(POLL_SWEEP);
    assert_int_equal(from(0, 4), 0);
}

/* What is committed late comes to light while others flow. */
static void test_a_sweep_comes_from_the_head_though_polls_went_on(void **state)
{
    (void)state;
    for (int64_t us = 100; us < 500; us += 100) {
        begin(POLL_ON);
        read_to(0, 4, us);
        (void)end(POLL_ALL);
        begin(POLL_SWEEP);
        assert_int_equal(from(0, 4), 0);
        (void)end(POLL_ALL);
    }
}

/* A million rows before the cursors: the sweep reads them in parts, and other polls go on behind
 * them meanwhile. */
static void test_a_sweep_that_met_the_bound_goes_on(void **state)
{
    (void)state;
    begin(POLL_ON);
    read_to(0, 4, 700);
    (void)end(POLL_ALL);
    for (int64_t us = 100; us <= 900; us += 100) {
        begin(us == 100 ? POLL_SWEEP : POLL_SWEEP_ON);
        assert_int_equal(from(0, 4), us - 100);
        read_to(0, 4, us);
        assert_int_equal(end(POLL_BOUNDED), POLL_BOUNDED);
        begin(POLL_ON);
        assert_int_equal(from(0, 4), us > 700 ? us : 700);
        (void)end(POLL_ALL);
    }
    begin(POLL_SWEEP_ON);
    (void)end(POLL_ALL);
    begin(POLL_SWEEP);
    assert_int_equal(from(0, 4), 0);
}

static void test_a_full_sweep_goes_on_until_it_is_where_the_polls_are(void **state)
{
    (void)state;
    begin(POLL_ON);
    read_to(0, 4, 700);
    (void)end(POLL_ALL);
    begin(POLL_SWEEP);
    read_to(0, 4, 300);
    assert_int_equal(end(POLL_FULL), POLL_FULL_BEFORE);
    begin(POLL_SWEEP_ON);
    assert_int_equal(from(0, 4), 300);
    read_to(0, 4, 800);
    assert_int_equal(end(POLL_FULL), POLL_FULL);
    begin(POLL_ON);
    assert_int_equal(from(0, 4), 800);
}

/* What a full poll did not come to has not been read. */
static void test_a_backlog_does_not_move_the_cursors_below_it(void **state)
{
    (void)state;
    begin(POLL_ON);
    read_to(0, 2, 600);
    (void)end(POLL_ALL);
    for (int64_t us = 100; us < 500; us += 100) {
        begin(POLL_SWEEP);
        read_to(0, 9, us);
        (void)end(POLL_FULL);
        begin(POLL_LOWEST);
        assert_int_equal(from(0, 2), us - 100); /* the sweep's, moved by these polls alone */
        read_to(0, 2, us);
        (void)end(POLL_FULL);
    }
}

static void test_a_low_priority_that_a_sweep_read_through_is_swept_anew(void **state)
{
    (void)state;
    begin(POLL_ON);
    read_to(0, 2, 600);
    (void)end(POLL_ALL);
    begin(POLL_SWEEP);
    read_to(0, 2, 200); /* the others are gone */
    (void)end(POLL_ALL);
    begin(POLL_SWEEP);
    assert_int_equal(from(0, 2), 0);
}

/* --- what is left out --- */

static bool is_asked(size_t queue, int priority)
{
    for (size_t i = 0; i < p.n_ranges; i++) {
        if (p.ranges[i].queue == queue && p.ranges[i].priority == priority) {
            return true;
        }
    }
    return false;
}

static void test_what_was_empty_is_left_out_for_a_moment(void **state)
{
    (void)state;
    begin(POLL_ON);
    read_to(0, 4, 700);
    (void)end(POLL_FULL);
    poll_begin(&p, POLL_ON, -1, 0, now + QUEUES * POLL_EMPTY_MS - 1);
    assert_false(is_asked(0, 9));
    assert_true(is_asked(0, 4));
    assert_true(is_asked(0, 3)); /* the full poll did not come to it */
    poll_begin(&p, POLL_ON, -1, 0, now + QUEUES * POLL_EMPTY_MS);
    assert_int_equal(p.n_ranges, ALL_RANGES);
    poll_begin(&p, POLL_SWEEP, -1, 0, now);
    assert_int_equal(p.n_ranges, ALL_RANGES);
}

static void test_a_poll_that_left_something_out_has_not_read_all(void **state)
{
    (void)state;
    begin(POLL_ON);
    read_to(0, 4, 700);
    (void)end(POLL_FULL);
    poll_begin(&p, POLL_ON, -1, 0, now);
    assert_int_equal(end(POLL_ALL), POLL_FULL); /* there may be more */
    poll_begin(&p, POLL_ON, -1, 0, now);
    assert_int_equal(p.n_ranges, ALL_RANGES);
    assert_int_equal(end(POLL_ALL), POLL_ALL);
}

/* Of a slow one that found an end everywhere: a sweep reads from ever. */
static void test_after_a_slow_poll_the_next_do_not_read_what_it_has(void **state)
{
    (void)state;
    begin(POLL_ON);
    assert_int_equal(poll_reach_ms(&p), -1);
    now += POLL_SLOW_MS + 1;
    assert_int_equal(end(POLL_FULL), POLL_FULL);
    now += QUEUES * POLL_EMPTY_MS;
    begin(POLL_ON);
    assert_int_equal(poll_reach_ms(&p), -1);
    now += POLL_SLOW_MS + 1;
    assert_int_equal(end(POLL_ALL), POLL_ALL);
    begin(POLL_ON);
    assert_int_equal(poll_reach_ms(&p), POLL_LATE_MS + 1000 + POLL_SLOW_MS + 1);
    begin(POLL_SWEEP);
    assert_int_equal(poll_reach_ms(&p), -1);
    poll_begin(&p, POLL_SWEEP, SWEEP_REACH_MS, 0, now);
    assert_int_equal(poll_reach_ms(&p), SWEEP_REACH_MS);
}

/* In a backlog it has read the last seconds alone: the polls still read what is older. */
static void test_after_a_slow_short_sweep_polls_read_on(void **state)
{
    (void)state;
    begin(POLL_ON);
    read_to(0, 4, 100);
    (void)end(POLL_FULL);
    poll_begin(&p, POLL_SWEEP, SWEEP_REACH_MS, 0, now);
    read_to(0, 4, 900);
    now += POLL_SLOW_MS + 1;
    assert_int_equal(end(POLL_ALL), POLL_ALL);
    begin(POLL_ON);
    assert_int_equal(from(0, 4), 100);
    assert_int_equal(poll_reach_ms(&p), -1);
}

static void short_sweep(void)
{
    now += 1000;
    poll_begin(&p, POLL_SWEEP, SWEEP_REACH_MS, 0, now);
}

/* Where nothing was due lately, something older may wait. */
static void test_what_a_short_sweep_found_empty_is_not_left_out(void **state)
{
    (void)state;
    short_sweep();
    (void)end(POLL_ALL);
    poll_begin(&p, POLL_ON, -1, 0, now);
    assert_int_equal(p.n_ranges, ALL_RANGES);
}

/* One that a backlog of higher priority holds up is not gone on with from there. */
static void test_after_a_short_sweep_the_next_comes_from_the_head(void **state)
{
    (void)state;
    begin(POLL_ON);
    read_to(0, 4, 900);
    (void)end(POLL_ALL);
    short_sweep();
    read_to(0, 4, 700);
    (void)end(POLL_BOUNDED);
    short_sweep();
    assert_int_equal(from(0, 4), 700);
    read_to(0, 4, 800);
    (void)end(POLL_BOUNDED);
    begin(POLL_SWEEP);
    assert_int_equal(from(0, 4), 0);
}

#define WITH_CURSORS(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_CURSORS(test_it_goes_on_where_it_ended),
        WITH_CURSORS(test_one_that_failed_changes_nothing),
        WITH_CURSORS(test_the_highest_priority_comes_first_and_the_queues_take_turns),
        WITH_CURSORS(test_of_one_run_at_the_id_says_what_comes_first),
        WITH_CURSORS(test_a_sweep_comes_from_the_head_and_leaves_the_cursors),
        WITH_CURSORS(test_a_sweep_comes_from_the_head_though_polls_went_on),
        WITH_CURSORS(test_a_sweep_that_met_the_bound_goes_on),
        WITH_CURSORS(test_a_full_sweep_goes_on_until_it_is_where_the_polls_are),
        WITH_CURSORS(test_a_backlog_does_not_move_the_cursors_below_it),
        WITH_CURSORS(test_a_low_priority_that_a_sweep_read_through_is_swept_anew),
        WITH_CURSORS(test_what_was_empty_is_left_out_for_a_moment),
        WITH_CURSORS(test_a_poll_that_left_something_out_has_not_read_all),
        WITH_CURSORS(test_after_a_slow_poll_the_next_do_not_read_what_it_has),
        WITH_CURSORS(test_after_a_slow_short_sweep_polls_read_on),
        WITH_CURSORS(test_what_a_short_sweep_found_empty_is_not_left_out),
        WITH_CURSORS(test_after_a_short_sweep_the_next_comes_from_the_head),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
