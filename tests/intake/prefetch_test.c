/* How many messages may be on their way follows what commits take. */
#include "intake/decide/prefetch.h"
#include "tests/support/test.h"

/* A second in which commits took so long, of `n` messages of so many bytes. */
static int after(struct prefetch *p, int64_t *now_ms, int64_t n, int64_t bytes, int64_t busy_ms)
{
    prefetch_note(p, n, n * bytes, busy_ms * 1000);
    *now_ms += PREFETCH_WINDOW_MS;
    int wanted = prefetch_wanted(p, *now_ms);
    p->now = wanted;
    return wanted;
}

static void test_follows_the_commits(void **state)
{
    struct prefetch p = {0};
    int64_t now_ms = 1000;
    (void)state;
    assert_int_equal(prefetch_wanted(&p, now_ms), PREFETCH_FIRST);
    p.now = PREFETCH_FIRST;
    assert_int_equal(after(&p, &now_ms, 20000, 100, 1000), PREFETCH_MAX);
    assert_int_equal(after(&p, &now_ms, 20000, 100, 1000), PREFETCH_MAX);
    assert_int_equal(after(&p, &now_ms, 400, 100, 1000), 100);
    assert_int_equal(after(&p, &now_ms, 10, 100, 1000), PREFETCH_MIN); /* not below */
    assert_int_equal(after(&p, &now_ms, 0, 0, 0), PREFETCH_MIN);       /* nothing to go by */
    assert_int_equal(after(&p, &now_ms, 1, 100, 1), 250);              /* few, but they were fast */
    assert_int_equal(after(&p, &now_ms, 700, 100, 1000), 250); /* not twice as many or few */
}

static void test_large_bodies_are_few(void **state)
{
    struct prefetch p = {.now = PREFETCH_MAX, .begun_ms = 1};
    int64_t now_ms = 1;
    (void)state;
    assert_in_range(after(&p, &now_ms, 10000, 1 << 20, 1000), 30, 32);
    assert_int_equal(after(&p, &now_ms, 10, 100 << 20, 10), 1);
}

static void test_within_the_window_nothing_changes(void **state)
{
    struct prefetch p = {.now = 100, .begun_ms = 1, .measured = true};
    (void)state;
    prefetch_note(&p, 100000, 100, 1000);
    assert_int_equal(prefetch_wanted(&p, PREFETCH_WINDOW_MS), 100);
    assert_int_equal(prefetch_wanted(&p, PREFETCH_WINDOW_MS + 1), PREFETCH_MAX);
}

static void test_the_first_messages_tell_at_once(void **state)
{
    struct prefetch p = {.now = PREFETCH_FIRST, .begun_ms = 1};
    (void)state;
    prefetch_note(&p, PREFETCH_FIRST - 1, 100, 1000);
    assert_int_equal(prefetch_wanted(&p, 2), PREFETCH_FIRST);
    prefetch_note(&p, 1, 100, 1000);
    assert_int_equal(p.now = prefetch_wanted(&p, 2), PREFETCH_MAX);
    prefetch_note(&p, 10, 100, 1000000);
    assert_int_equal(prefetch_wanted(&p, 3), PREFETCH_MAX); /* later ones, after the window */
}

static void test_a_fixed_one_stays(void **state)
{
    struct prefetch p = {.fixed = 7};
    (void)state;
    assert_int_equal(prefetch_wanted(&p, 1), 7);
    p.now = 7;
    prefetch_note(&p, 100000, 100, 1000);
    assert_int_equal(prefetch_wanted(&p, 100000), 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_follows_the_commits),
        cmocka_unit_test(test_large_bodies_are_few),
        cmocka_unit_test(test_within_the_window_nothing_changes),
        cmocka_unit_test(test_the_first_messages_tell_at_once),
        cmocka_unit_test(test_a_fixed_one_stays),
    };
    return RUN_GROUP(tests);
}
