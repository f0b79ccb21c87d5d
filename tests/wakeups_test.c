/* label: unit */
/* The ids RabbitMQ delivered: asked once, acked when a committed round has asked, asked again
 * later. */
#include "worker/decide/wakeups.h"

#include "tests/support/test.h"

#include <stdlib.h>

static int setup(void **state)
{
    struct wakeups *w = malloc(sizeof *w);
    *state = w;
    return w && wakeups_init(w) ? 0 : -1;
}

static int teardown(void **state)
{
    wakeups_clear(*state);
    free(*state);
    return 0;
}

static void add(struct wakeups *w, int64_t epoch, int64_t first, size_t n, uint64_t last_tag)
{
    int64_t ids[WAKEUPS_BATCH_MAX];
    for (size_t i = 0; i < n; i++) {
        ids[i] = first + (int64_t)i;
    }
    assert_true(wakeups_add(w, epoch, ids, n, last_tag));
}

static void assert_ack(struct wakeups *w, int64_t epoch, uint64_t tag)
{
    int64_t got_epoch = 0;
    uint64_t got_tag = 0;
    assert_true(wakeups_next_ack(w, &got_epoch, &got_tag));
    assert_int_equal(got_epoch, epoch);
    assert_int_equal(got_tag, tag);
}

static void assert_no_ack(struct wakeups *w)
{
    int64_t epoch;
    uint64_t tag;
    assert_false(wakeups_next_ack(w, &epoch, &tag));
}

static void test_acked_only_when_settled_as_a_whole(void **state)
{
    struct wakeups *w = *state;
    int64_t ids[8];
    int tries[8];
    add(w, 1, 10, 5, 5);
    assert_int_equal(w->pending, 5);
    assert_int_equal(wakeups_take(w, 0, ids, tries, 3), 3);
    assert_int_equal(ids[0], 10);
    wakeups_settle(w);
    assert_no_ack(w);
    assert_int_equal(wakeups_take(w, 0, ids, tries, 8), 2);
    assert_no_ack(w); /* asked, and not committed */
    wakeups_settle(w);
    assert_ack(w, 1, 5);
    assert_no_ack(w);
    assert_int_equal(w->pending, 0);
}

static void test_several_deliveries_are_acked_at_once(void **state)
{
    struct wakeups *w = *state;
    int64_t ids[8];
    int tries[8];
    add(w, 1, 10, 2, 2);
    add(w, 1, 20, 2, 4);
    assert_int_equal(wakeups_take(w, 0, ids, tries, 8), 4);
    wakeups_settle(w);
    assert_ack(w, 1, 4);
    assert_no_ack(w);
}

static void test_what_was_not_committed_is_asked_again(void **state)
{
    struct wakeups *w = *state;
    int64_t ids[8];
    int tries[8];
    add(w, 1, 10, 3, 3);
    assert_int_equal(wakeups_take(w, 0, ids, tries, 2), 2);
    wakeups_unask(w);
    assert_int_equal(w->pending, 3);
    assert_int_equal(wakeups_take(w, 0, ids, tries, 8), 3);
    assert_int_equal(ids[0], 10);
}

static void test_a_new_channel_forgets(void **state)
{
    struct wakeups *w = *state;
    int64_t ids[8];
    int tries[8];
    add(w, 1, 10, 3, 3);
    wakeups_forget(w);
    assert_int_equal(wakeups_take(w, 0, ids, tries, 8), 0);
    wakeups_settle(w);
    assert_no_ack(w);
}

static void test_a_missed_id_is_asked_three_times_more(void **state)
{
    struct wakeups *w = *state;
    int64_t ids[2];
    int tries[2];
    const int64_t after[] = {50, 500, 3000};
    int64_t now = 1000;
    wakeups_missed(w, 7, 0, now);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(wakeups_due(w), now + after[i]);
        assert_int_equal(wakeups_take(w, now + after[i] - 1, ids, tries, 2), 0);
        now += after[i];
        assert_int_equal(wakeups_take(w, now, ids, tries, 2), 1);
        assert_int_equal(ids[0], 7);
        assert_int_equal(tries[0], i + 1);
        wakeups_missed(w, 7, tries[0], now);
    }
    assert_int_equal(wakeups_due(w), INT64_MAX);
}

static void test_the_ring_is_bounded_and_says_what_it_drops(void **state)
{
    struct wakeups *w = *state;
    for (int64_t i = 1; i <= WAKEUPS_RING_MAX + 10; i++) {
        wakeups_missed(w, i, 0, 0);
    }
    assert_int_equal(w->dropped, 10);
}

static void test_an_id_claimed_here_is_not_asked_but_acked(void **state)
{
    struct wakeups *w = *state;
    int64_t ids[8];
    int tries[8];
    wakeups_claimed(w, 11);
    add(w, 1, 10, 3, 3);
    assert_int_equal(wakeups_take(w, 0, ids, tries, 8), 2);
    assert_int_equal(ids[1], 12);
    wakeups_settle(w);
    assert_ack(w, 1, 3);
    wakeups_unclaimed(w, 11); /* it was put back: its next wake-up counts again */
    add(w, 1, 11, 1, 4);
    assert_int_equal(wakeups_take(w, 0, ids, tries, 8), 1);
}

/* Prefetch bounds the ids, not the deliveries: many small ones must not stay unacked for ever. */
static void test_many_small_deliveries_share_the_last_place(void **state)
{
    struct wakeups *w = *state;
    uint64_t n = 2 * WAKEUPS_BATCHES_MAX, tag = 0;
    int64_t epoch = 0, ids[2 * WAKEUPS_BATCHES_MAX];
    int tries[2 * WAKEUPS_BATCHES_MAX];
    for (uint64_t i = 1; i <= n; i++) {
        int64_t id = (int64_t)i;
        assert_true(wakeups_add(w, 1, &id, 1, i));
    }
    assert_int_equal(wakeups_take(w, 0, ids, tries, n), n);
    assert_int_equal(ids[n - 1], n);
    wakeups_settle(w);
    assert_true(wakeups_next_ack(w, &epoch, &tag));
    assert_int_equal(tag, n);
}

static void test_more_ids_than_there_is_room_for_are_refused(void **state)
{
    struct wakeups *w = *state;
    int64_t ids[WAKEUPS_BATCH_MAX] = {0};
    for (int i = 0; i < WAKEUPS_BATCHES_MAX; i++) {
        assert_true(wakeups_add(w, 1, ids, WAKEUPS_BATCH_MAX, (uint64_t)i + 1));
    }
    assert_false(wakeups_add(w, 1, ids, 1, 99));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_acked_only_when_settled_as_a_whole),
        TEST(test_several_deliveries_are_acked_at_once),
        TEST(test_what_was_not_committed_is_asked_again),
        TEST(test_a_new_channel_forgets),
        TEST(test_a_missed_id_is_asked_three_times_more),
        TEST(test_the_ring_is_bounded_and_says_what_it_drops),
        TEST(test_an_id_claimed_here_is_not_asked_but_acked),
        TEST(test_many_small_deliveries_share_the_last_place),
        TEST(test_more_ids_than_there_is_room_for_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
