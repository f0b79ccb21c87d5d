/* label: unit */
/* The ids RabbitMQ delivered: acked when all are taken, and asked for once more when missed. */
#include "worker/decide/wakeups.h"

#include "tests/support/test.h"

#include <stdlib.h>

static struct wakeups w;
static int64_t ids[2 * WAKEUPS_MAX];
static bool again[2 * WAKEUPS_MAX];

static int setup(void **state)
{
    (void)state;
    memset(&w, 0, sizeof w);
    return 0;
}

static void add(int64_t first, size_t n, uint64_t last_tag)
{
    int64_t delivered[WAKEUPS_MAX + 1];
    for (size_t i = 0; i < n; i++) {
        delivered[i] = first + (int64_t)i;
    }
    wakeups_add(&w, delivered, n, last_tag);
}

static size_t take(int64_t now_ms, size_t max)
{
    return wakeups_take(&w, now_ms, ids, again, max);
}

static void assert_ack(uint64_t tag)
{
    uint64_t got = 0;
    assert_true(wakeups_ack(&w, &got));
    assert_int_equal(got, tag);
}

static void assert_no_ack(void)
{
    uint64_t tag;
    assert_false(wakeups_ack(&w, &tag));
}

static void test_acked_when_all_are_taken(void **state)
{
    (void)state;
    add(10, 3, 3);
    add(20, 2, 5);
    assert_int_equal(take(0, 4), 4);
    assert_int_equal(ids[0], 10);
    assert_int_equal(ids[3], 20);
    assert_false(again[3]);
    assert_no_ack();
    assert_int_equal(take(0, 4), 1);
    assert_ack(5);
    assert_no_ack();
}

static void test_what_is_discarded_is_acked(void **state)
{
    (void)state;
    add(10, 3, 3);
    wakeups_discard(&w);
    assert_int_equal(take(0, 4), 0);
    assert_ack(3);
}

static void test_a_new_channel_delivers_again(void **state)
{
    (void)state;
    add(10, 3, 3);
    wakeups_forget(&w);
    assert_int_equal(take(0, 4), 0);
    assert_no_ack();
}

static void test_a_missed_id_is_asked_for_once_more(void **state)
{
    (void)state;
    wakeups_missed(&w, 7, 1000);
    add(8, 1, 1);
    assert_int_equal(wakeups_due(&w), 1000 + WAKEUPS_AGAIN_MS);
    assert_int_equal(take(1000 + WAKEUPS_AGAIN_MS - 1, 1), 1);
    assert_int_equal(ids[0], 8);
    assert_int_equal(take(1000 + WAKEUPS_AGAIN_MS, 1), 1);
    assert_int_equal(ids[0], 7);
    assert_true(again[0]);
    assert_int_equal(wakeups_due(&w), INT64_MAX);
}

/* Too many of either sort: those there is no room for are left to the polls, and acked. */
static void test_what_there_is_no_room_for_is_dropped(void **state)
{
    (void)state;
    for (int64_t i = 1; i <= WAKEUPS_MAX + 10; i++) {
        wakeups_missed(&w, i, 0);
    }
    assert_int_equal(take(WAKEUPS_AGAIN_MS, 2 * WAKEUPS_MAX), WAKEUPS_MAX);
    add(1, WAKEUPS_MAX, WAKEUPS_MAX);
    add(5000, 1, 5000);
    assert_int_equal(take(0, 2 * WAKEUPS_MAX), WAKEUPS_MAX);
    assert_int_equal(ids[WAKEUPS_MAX - 1], WAKEUPS_MAX);
    assert_ack(5000);
}

#define TEST(name) cmocka_unit_test_setup(name, setup)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_acked_when_all_are_taken),
        TEST(test_what_is_discarded_is_acked),
        TEST(test_a_new_channel_delivers_again),
        TEST(test_a_missed_id_is_asked_for_once_more),
        TEST(test_what_there_is_no_room_for_is_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
