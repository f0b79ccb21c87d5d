/* label: unit */
/* Where an ordered claim begins to look. */
#include "worker/bounds.h"

#include "core/array.h"

#include "tests/support/test.h"

#include <string.h>

/* The first queue's lowest priority has a bound, and nothing else. */
#define ONLY(bound) "{" bound ",0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0}"
#define FRONT ONLY("0")
#define EVERYTHING "{}"

static struct bounds b;
static struct buf array;

static int setup(void **state)
{
    (void)state;
    struct fault f = {0};
    buf_init(&array, 1 << 16);
    return bounds_init(&b, 2, &f) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    bounds_clear(&b);
    buf_clear(&array);
    return 0;
}

static const char *start_after(unsigned turn, bool by_age, int64_t now_ms)
{
    bounds_start(&b, turn, by_age, false, now_ms, &array);
    return array_end(&array);
}

/* One that leaves nothing out. */
static const char *start(unsigned turn, int64_t now_ms)
{
    b.next_all_ms = 0;
    bounds_start(&b, turn, false, false, now_ms, &array);
    return array_end(&array);
}

static void test_after_the_front_it_goes_on_where_it_ended(void **state)
{
    (void)state;
    assert_string_equal(start(0, 5000), FRONT);
    bounds_saw(&b, 1, 4, 700, 0);
    bounds_saw(&b, 1, 4, 600, 0);
    bounds_end(&b, true, 5001);
    assert_string_equal(start(0, 5002), "{0,0,0,0,0,0,0,0,0,0,0,0,0,0,700,0,0,0,0,0}");
    bounds_saw(&b, 1, 4, 900, 0);
    bounds_end(&b, true, 5003);
    assert_string_equal(start(1, 5004), "{0,0,0,0,900,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0}");
}

static void test_everything_is_looked_at_on_demand(void **state)
{
    (void)state;
    (void)start(0, 5000);
    bounds_saw(&b, 0, 4, 700, 0);
    bounds_end(&b, true, 5001);
    bounds_start(&b, 0, false, true, 5002, &array);
    assert_string_equal(array_end(&array), EVERYTHING);
    bounds_end(&b, false, 5003);
    assert_string_equal(start(0, 5004), "{0,0,0,0,-700,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0}");
}

static void test_the_front_is_looked_at_every_second(void **state)
{
    (void)state;
    (void)start(0, 5000);
    bounds_saw(&b, 0, 0, 700, 0);
    bounds_end(&b, true, 5001);
    assert_string_equal(start(0, 6000), ONLY("700"));
    bounds_saw(&b, 0, 0, 800, 0);
    bounds_end(&b, true, 6000);
    assert_string_equal(start(0, 6001), FRONT);
    bounds_saw(&b, 0, 0, 900, 0);
    bounds_end(&b, true, 6201); /* it took 200 ms: the next one after 4 s */
    assert_string_equal(start(0, 10200), ONLY("900"));
    bounds_saw(&b, 0, 0, 950, 0);
    bounds_end(&b, true, 10200);
    assert_string_equal(start(0, 10201), FRONT);
}

static void test_after_it_found_nothing_it_looks_at_everything(void **state)
{
    (void)state;
    (void)start(0, 5000);
    bounds_saw(&b, 1, 9, 700, 0);
    bounds_end(&b, false, 5001);
    assert_string_equal(start(0, 6001), FRONT);
    bounds_end(&b, false, 6002);
    assert_string_equal(start(0, 7002), EVERYTHING);
    bounds_saw(&b, 1, 9, 800, 0);
    bounds_end(&b, false, 7003);
    assert_string_equal(start(0, 8003), FRONT);
}

/* In a backlog that does not end, and not when all others do. */
static void test_now_and_then_it_looks_at_everything(void **state)
{
    (void)state;
    int64_t seen_ms[4];
    size_t n = 0;
    for (int64_t ms = 5250; n < 4 && ms < 10000000; ms += BOUNDS_FRONT_EVERY_MS) {
        if (strcmp(start(0, ms), EVERYTHING) == 0) {
            seen_ms[n++] = ms;
        }
        bounds_saw(&b, 0, 0, ms, 0);
        bounds_end(&b, true, ms);
    }
    assert_int_equal(n, 4);
    assert_int_equal(seen_ms[0], 5250 + 225000); /* half of the five minutes, and 250 thousandths */
    for (size_t i = 1; i < n; i++) {
        assert_int_equal(seen_ms[i] - seen_ms[i - 1], BOUNDS_EVERYTHING_EVERY_MS);
    }
}

/* As on a busy machine: what it took says nothing of how many entries are dead. */
static void test_the_front_is_never_left_alone_for_long(void **state)
{
    (void)state;
    (void)start(0, 5000);
    bounds_end(&b, false, 15000);
    assert_string_equal(start(0, 24999), FRONT); /* as there are no bounds */
    bounds_end(&b, false, 24999);
    assert_string_equal(start(0, 25000), EVERYTHING);
}

static void test_a_full_look_from_the_front_comes_back_to_what_was_late(void **state)
{
    (void)state;
    (void)start(0, 5000);
    bounds_saw(&b, 0, 0, 9000, 0);
    bounds_end(&b, true, 5000);
    (void)start(
        0, 6000); /* the front again: tasks that were committed late lie there, more than fit */
    bounds_saw(&b, 0, 0, 3000, 8800);
    bounds_end(&b, true, 6000);
    assert_string_equal(start(0, 6001), ONLY("-3000"));
    bounds_saw(&b, 0, 0, 4000, 8900);
    bounds_end(&b, true, 6002); /* still among them */
    assert_string_equal(start(0, 6003), ONLY("-4000"));
    bounds_saw(&b, 0, 0, 9000, 8900);
    bounds_end(&b, true, 6004); /* back where it was */
    assert_string_equal(start(0, 6005), ONLY("9000"));
}

/* Who is not in a backlog has claimed the newest there was, and others may yet commit before it. */
static void test_only_a_full_look_shares(void **state)
{
    (void)state;
    (void)start(0, 5000);
    bounds_saw(&b, 0, 0, 9000, 0);
    bounds_end(&b, false, 5001);
    assert_string_equal(start(0, 5002), ONLY("-9000"));
    bounds_saw(&b, 0, 0, 9500, 0);
    bounds_end(&b, true, 5003);
    assert_string_equal(start(0, 5004), ONLY("9500"));
    bounds_end(&b, true, 5005); /* of others */
    assert_string_equal(start(0, 5006), ONLY("9500"));
    bounds_end(&b, false, 5007);
    assert_string_equal(start(0, 5008), ONLY("-9500"));
    bounds_saw(&b, 1, 9, 8000, 0); /* the first there: poll.sql does not say where others are */
    bounds_end(&b, true, 5009);
    assert_string_equal(start(0, 5010), "{-9500,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,-8000}");
    bounds_saw(&b, 1, 9, 8100, 0);
    bounds_end(&b, true, 5011);
    assert_string_equal(start(0, 5012), "{-9500,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,8100}");
}

/* A new worker, say, in a backlog that was committed late, or after others gave theirs back. */
static void test_who_is_behind_the_others_goes_on_alone(void **state)
{
    (void)state;
    (void)start(0, 5000);
    bounds_saw(&b, 0, 0, 3000, 8000);
    bounds_end(&b, true, 5001);
    assert_string_equal(start(0, 5002), ONLY("-3000"));
    bounds_saw(&b, 0, 0, 7999, 0); /* another queue has taken the place of what was told */
    bounds_end(&b, true, 5003);
    assert_string_equal(start(0, 5004), ONLY("-7999"));
    bounds_saw(&b, 0, 0, 8001, 8001);
    bounds_end(&b, true, 5005);
    assert_string_equal(start(0, 5006), ONLY("8001"));
}

/* As after a clock that was set back. */
static void test_what_was_told_wrongly_is_forgotten(void **state)
{
    (void)state;
    (void)start(0, 5000);
    bounds_saw(&b, 0, 0, 3000, 900000);
    bounds_end(&b, true, 5001);
    assert_string_equal(start(0, 5002), ONLY("-3000"));
    bounds_saw(&b, 0, 0, 4000, 3500);
    bounds_end(&b, true, 5003);
    assert_string_equal(start(0, 5004), ONLY("4000"));
}

static void test_after_other_kinds_it_goes_on_alone(void **state)
{
    (void)state;
    (void)start(0, 5000);
    bounds_saw(&b, 0, 0, 3000, 0);
    bounds_end(&b, true, 5001);
    bounds_other_kinds(&b);
    assert_string_equal(start(0, 5002), ONLY("-3000"));
    bounds_saw(&b, 0, 0, 4000, 0);
    bounds_end(&b, true, 5003);
    assert_string_equal(start(0, 5004), ONLY("-4000"));
    bounds_saw(&b, 0, 0, 4500, 0);
    bounds_end(&b, true, 5005);
    assert_string_equal(start(0, 6001), FRONT);
    bounds_saw(&b, 0, 0, 5000, 0);
    bounds_end(&b, true, 6002);
    assert_string_equal(start(0, 6003), ONLY("5000"));
}

static void test_after_a_failure_it_looks_at_the_front(void **state)
{
    (void)state;
    (void)start(0, 5000);
    bounds_saw(&b, 0, 0, 9000, 0);
    bounds_end(&b, true, 5001);
    (void)start(0, 5002);
    bounds_fail(&b);
    assert_string_equal(start(0, 5003), FRONT);
}

#define EIGHT_NULLS "NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL"

/* By priority, and in each by the queues' places: what lies before the last that was claimed. And
 * the priorities below that one, to which it would not come. */
static void test_in_a_backlog_what_was_asked_in_vain_is_left_out(void **state)
{
    (void)state;
    (void)start_after(0, false, 5000);
    bounds_saw(&b, 0, 9, 600, 0);
    bounds_saw(&b, 0, 8, 700, 0);
    bounds_end(&b, true, 5001);
    assert_string_equal(start_after(0, false, 5002),
                        "{" EIGHT_NULLS ",700,600," EIGHT_NULLS ",0,NULL}");
    bounds_saw(&b, 1, 8, 800, 0);
    bounds_end(&b, true, 5003);
    assert_string_equal(start_after(1, false, 5000 + BOUNDS_VAIN_MS - 1),
                        "{" EIGHT_NULLS ",-800,NULL," EIGHT_NULLS ",NULL,NULL}");
    bounds_saw(&b, 1, 8, 900, 0);
    bounds_end(&b, true, 5000 + BOUNDS_VAIN_MS - 1);
    assert_string_equal(start_after(0, false, 5000 + BOUNDS_VAIN_MS),
                        "{0,0,0,0,0,0,0,0,700,600,0,0,0,0,0,0,0,0,900,0}");
}

/* So that none of them starves. */
static void test_a_look_by_age_asks_the_priorities_below_as_well(void **state)
{
    (void)state;
    (void)start_after(0, false, 5000);
    bounds_saw(&b, 1, 8, 700, 0);
    bounds_end(&b, true, 5001);
    assert_string_equal(start_after(0, true, 5002),
                        "{0,0,0,0,0,0,0,0,NULL,NULL,0,0,0,0,0,0,0,0,700,NULL}");
    assert_true(b.partial);
}

/* So that to ask all takes no more of the time. */
static void test_many_queues_are_asked_in_vain_less_often(void **state)
{
    enum { QUEUES = 180, REST_MS = QUEUES * BOUNDS_VAIN_QUEUE_MS };
    (void)state;
    struct fault f = {0};
    bounds_clear(&b);
    assert_true(bounds_init(&b, QUEUES, &f));
    (void)start_after(0, false, 5000);
    bounds_saw(&b, 0, 0, 700, 0);
    bounds_end(&b, true, 5001);
    (void)start_after(0, false, 5000 + REST_MS - 1);
    assert_true(b.partial);
    (void)start_after(0, false, 5000 + REST_MS);
    assert_false(b.partial);
}

static void test_a_look_from_the_front_leaves_nothing_out(void **state)
{
    (void)state;
    (void)start_after(0, false, 5000);
    bounds_end(&b, false, 5000);
    (void)start_after(0, false, 5990);
    bounds_saw(&b, 1, 8, 700, 0);
    bounds_end(&b, true, 5990);
    (void)start_after(0, false, 5999);
    assert_true(b.partial);
    assert_string_equal(start_after(0, false, 6000), FRONT);
    assert_false(b.partial);
}

/* The other queue comes first, and that look did not come to this one. */
static void test_what_a_look_did_not_come_to_is_asked(void **state)
{
    (void)state;
    (void)start_after(1, false, 5000);
    bounds_saw(&b, 1, 8, 800, 0);
    bounds_end(&b, true, 5001);
    assert_string_equal(start_after(0, false, 5002),
                        "{" EIGHT_NULLS ",0,NULL," EIGHT_NULLS ",800,NULL}");
}

static void test_where_the_backlog_ends_nothing_is_left_out(void **state)
{
    (void)state;
    (void)start_after(0, false, 5000);
    bounds_saw(&b, 0, 0, 700, 0);
    bounds_end(&b, true, 5001);
    (void)start_after(0, false, 5002);
    assert_true(b.partial);
    bounds_saw(&b, 0, 0, 800, 0);
    bounds_end(&b, false, 5003);
    assert_string_equal(start_after(0, false, 5004), ONLY("-800"));
    assert_false(b.partial);
}

/* Among those without a task there may be some to which it did not come. */
static void test_a_full_look_by_age_says_only_where_tasks_are(void **state)
{
    (void)state;
    (void)start_after(0, false, 5000);
    bounds_saw(&b, 1, 8, 700, 0);
    bounds_end(&b, true, 5001);
    (void)start_after(0, true, 5000 + BOUNDS_VAIN_MS); /* asks all, but does not count as such */
    assert_false(b.partial);
    bounds_saw(&b, 0, 9, 600, 0);
    bounds_end(&b, true, 5000 + BOUNDS_VAIN_MS);
    assert_false(b.all[9].vain);
    assert_true(b.all[8].vain);
    (void)start_after(0, false, 5000 + BOUNDS_VAIN_MS + 1);
    assert_false(b.partial);
}

/* It may have ended early, by its bytes: what is behind that was not asked. */
static void test_after_a_look_that_was_not_full_only_a_full_one_counts(void **state)
{
    (void)state;
    (void)start_after(0, false, 5000);
    bounds_saw(&b, 1, 8, 700, 0);
    bounds_end(&b, false, 5001);
    (void)start_after(0, true, 5002);
    bounds_saw(&b, 0, 0, 600, 0);
    bounds_end(&b, true, 5003);
    (void)start_after(0, false, 5004);
    assert_false(b.partial);
}

/* Its round failed before it. */
static void test_a_look_that_did_not_run_has_asked_nothing(void **state)
{
    (void)state;
    (void)start_after(0, false, 5000);
    bounds_saw(&b, 0, 0, 700, 0);
    bounds_end(&b, true, 5001);
    (void)start_after(0, false, 5000 + BOUNDS_VAIN_MS);
    assert_false(b.partial);
    (void)start_after(0, false, 5001 + BOUNDS_VAIN_MS);
    assert_false(b.partial);
    bounds_saw(&b, 0, 0, 800, 0);
    bounds_end(&b, true, 5002 + BOUNDS_VAIN_MS);
    bounds_other_kinds(&b);
    for (int i = 0; i < 2; i++) {
        (void)start_after(0, false, 5003 + BOUNDS_VAIN_MS);
        assert_false(b.partial);
    }
}

static void test_a_partial_look_that_found_nothing_says_nothing(void **state)
{
    (void)state;
    (void)start_after(0, false, 5000);
    bounds_saw(&b, 0, 0, 700, 0);
    bounds_end(&b, true, 5900);
    b.next_front_ms = 6000;
    b.next_all_ms = 6000;
    (void)start_after(0, false, 5901);
    assert_true(b.partial);
    bounds_end(&b, false, 5902);
    assert_string_equal(start_after(0, false, 6000), FRONT);
}

static void test_other_kinds_are_asked_for_everywhere(void **state)
{
    (void)state;
    (void)start_after(0, false, 5000);
    bounds_saw(&b, 0, 0, 3000, 0);
    bounds_end(&b, true, 5001);
    bounds_other_kinds(&b);
    assert_string_equal(start_after(0, false, 5002), ONLY("-3000"));
}

#define WITH_BOUNDS(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_BOUNDS(test_after_the_front_it_goes_on_where_it_ended),
        WITH_BOUNDS(test_everything_is_looked_at_on_demand),
        WITH_BOUNDS(test_the_front_is_looked_at_every_second),
        WITH_BOUNDS(test_after_it_found_nothing_it_looks_at_everything),
        WITH_BOUNDS(test_now_and_then_it_looks_at_everything),
        WITH_BOUNDS(test_the_front_is_never_left_alone_for_long),
        WITH_BOUNDS(test_a_full_look_from_the_front_comes_back_to_what_was_late),
        WITH_BOUNDS(test_only_a_full_look_shares),
        WITH_BOUNDS(test_who_is_behind_the_others_goes_on_alone),
        WITH_BOUNDS(test_what_was_told_wrongly_is_forgotten),
        WITH_BOUNDS(test_after_other_kinds_it_goes_on_alone),
        WITH_BOUNDS(test_after_a_failure_it_looks_at_the_front),
        WITH_BOUNDS(test_in_a_backlog_what_was_asked_in_vain_is_left_out),
        WITH_BOUNDS(test_a_look_by_age_asks_the_priorities_below_as_well),
        WITH_BOUNDS(test_many_queues_are_asked_in_vain_less_often),
        WITH_BOUNDS(test_a_look_from_the_front_leaves_nothing_out),
        WITH_BOUNDS(test_what_a_look_did_not_come_to_is_asked),
        WITH_BOUNDS(test_where_the_backlog_ends_nothing_is_left_out),
        WITH_BOUNDS(test_a_full_look_by_age_says_only_where_tasks_are),
        WITH_BOUNDS(test_after_a_look_that_was_not_full_only_a_full_one_counts),
        WITH_BOUNDS(test_a_look_that_did_not_run_has_asked_nothing),
        WITH_BOUNDS(test_a_partial_look_that_found_nothing_says_nothing),
        WITH_BOUNDS(test_other_kinds_are_asked_for_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
