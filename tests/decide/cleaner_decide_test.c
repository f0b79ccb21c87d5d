/* label: unit */
/* What the cleaner decides without a server: news, sleep, death, passes. */
#include "cleaner/decide/pace.h"
#include "cleaner/decide/pass.h"
#include "cleaner/decide/settled.h"
#include "cleaner/decide/verdict.h"
#include "cleaner/decide/watermark.h"
#include "cleaner/state.h"
#include "core/base/throttle.h"
#include "tests/support/test.h"
#include "worker/decide/slots.h"

#include <stdio.h>
#include <string.h>

_Static_assert(ASK_LIMIT_MS + SIBLINGS_MAX_MS + TERM_GRACE_MS < 1000 * CLEANER_GRACE_S,
               "the worker ends a task that timed out before the cleaner does");

static struct watermark mark;
static struct verdict verdict;
static int64_t ids[WATERMARK_GAPS_MAX];

static void test_watermark_rises(void **state)
{
    (void)state;
    watermark_start(&mark, 10);
    assert_true(watermark_see(&mark, 11, 0));
    assert_true(watermark_see(&mark, 12, 0));
    assert_false(watermark_see(&mark, 12, 0));
    assert_false(watermark_see(&mark, 10, 0));
    assert_int_equal(mark.id, 12);
    assert_int_equal(watermark_ask(&mark, 0, true, ids), 0);
}

static void read_saw(const char *running, int64_t xmax, int64_t next)
{
    struct snapshot s;
    snapshot_read(&s, running, xmax, next);
    watermark_snapshot(&mark, &s);
}

static size_t asked(int64_t now_ms)
{
    return watermark_ask(&mark, now_ms, false, ids);
}

static size_t asked_all(int64_t now_ms)
{
    return watermark_ask(&mark, now_ms, true, ids);
}

static void test_watermark_keeps_gaps(void **state)
{
    (void)state;
    watermark_start(&mark, 10);
    assert_true(watermark_see(&mark, 14, 100));
    assert_int_equal(asked_all(100), 3);
    assert_int_equal(ids[0], 11);
    assert_int_equal(ids[2], 13);
    assert_true(watermark_see(&mark, 12, 200));
    assert_false(watermark_see(&mark, 12, 200));
    assert_int_equal(asked_all(200), 2); /* again: no answer to the question came */
    assert_int_equal(ids[1], 13);
}

/* A gap is asked for when a transaction has ended that may have had it, and once more after a
 * while; not for what others do. */
static void test_watermark_asks_when_one_has_ended(void **state)
{
    (void)state;
    watermark_start(&mark, 1);
    read_saw("90 95", 98, 100);
    (void)watermark_see(&mark, 3, 0); /* 2 is of 90, 95, 98 or 99 */
    assert_false(watermark_has_ended(&mark, 1));
    assert_int_equal(asked(1), 0);
    read_saw("90 95", 99, 110);
    assert_true(watermark_has_ended(&mark, 2));
    assert_int_equal(asked_all(2), 1);
    read_saw("90 95", 99, 120);
    assert_false(watermark_has_ended(&mark, 3));
    assert_int_equal(asked(2 + WATERMARK_ASK_MS), 1);
    read_saw("90 95 99 110", 130, 140); /* 110 is another's */
    assert_int_equal(asked_all(100), 0);
    read_saw("90 130", 140, 150);
    assert_int_equal(asked(1000), 1);
    read_saw("90 150", 160, 170);
    assert_int_equal(asked(1500), 0); /* the pause is as long as the gap is old */
    assert_int_equal(asked(2000), 1);
    read_saw("90 150", 160, 170);
    assert_int_equal(asked_all(3000), 0);
    read_saw("", 180, 180);
    assert_int_equal(asked_all(3001), 1);
    read_saw("", 180, 190);
    assert_int_equal(asked_all(3001 + WATERMARK_ASK_MS), 1);
    read_saw("", 180, 190);
    assert_int_equal(asked_all(4000), 0);
    assert_int_equal(mark.n, 0);
}

/* As long as they end, the questions come less and less often, up to once a second. */
static void test_watermark_asks_less_and_less_often(void **state)
{
    (void)state;
    int n = 0;
    watermark_start(&mark, 1);
    read_saw("", 0, 10000);
    (void)watermark_see(&mark, 3, 0);
    for (int64_t now_ms = 0; now_ms < 10000; now_ms++) {
        n += (int)asked(now_ms);
        read_saw("", now_ms, 10000);
    }
    assert_in_range(n, 13, 17);
    assert_int_equal(asked(2 * (int64_t)WATERMARK_GAP_MS), 0);
    assert_int_equal(mark.n, 0);
    assert_false(watermark_see(&mark, 2, 2 * (int64_t)WATERMARK_GAP_MS));
}

/* A transaction that has enqueued 5,000 tasks is open for a minute, in which others come and end:
 * with its end they are asked for. */
static void test_watermark_waits_for_a_late_commit(void **state)
{
    enum { TASKS = 5000, SECONDS = 60 };
    (void)state;
    watermark_start(&mark, 1);
    read_saw("90", 100, 100);
    (void)watermark_see(&mark, 1 + TASKS + 1, 0);
    for (int i = 1; i <= SECONDS; i++) {
        (void)asked_all(1000 * i);
        read_saw("90", 100 + i, 100 + i);
        (void)watermark_see(&mark, 1 + TASKS + 1 + i, 1000 * i);
    }
    assert_int_equal(asked_all(1000 * SECONDS + 100), 0);
    read_saw("", 1000, 1000);
    assert_true(watermark_has_ended(&mark, 1000 * SECONDS + 200));
    assert_int_equal(asked_all(1000 * SECONDS + 200), TASKS);
    read_saw("", 1000, 1000);
    for (int i = 0; i < TASKS; i++) {
        assert_true(watermark_see(&mark, 2 + i, 1000 * SECONDS + 200));
    }
    assert_int_equal(asked_all(1000 * SECONDS + 300), 0);
    assert_int_equal(mark.n, 0);
}

/* The read that follows the end finds it. */
static void test_watermark_fills_gaps(void **state)
{
    (void)state;
    watermark_start(&mark, 1);
    read_saw("90", 100, 100);
    (void)watermark_see(&mark, 3, 0);
    read_saw("", 110, 110);
    assert_int_equal(asked_all(1), 1);
    read_saw("", 110, 110);
    assert_true(watermark_see(&mark, 2, 1));
    assert_int_equal(asked_all(WATERMARK_ASK_MS), 0);
    assert_int_equal(mark.n, 0);
}

/* An id may be taken a moment before its transaction counts. */
static void test_watermark_does_not_settle_at_once(void **state)
{
    (void)state;
    watermark_start(&mark, 1);
    read_saw("", 100, 100);
    (void)watermark_see(&mark, 3, 0);
    assert_int_equal(asked(WATERMARK_ASK_MS - 1), 0);
    for (int64_t now_ms = 1; now_ms <= WATERMARK_ASK_MS; now_ms++) {
        assert_int_equal(asked_all(now_ms), 1);
        read_saw("", 100, 100);
    }
    assert_int_equal(asked_all(WATERMARK_ASK_MS + 1), 0);
    assert_int_equal(mark.n, 0);
}

/* Of more than are told apart, all above count as running. */
static void test_watermark_with_very_many_transactions(void **state)
{
    (void)state;
    char text[WATERMARK_RUNNING_MAX * 8] = "";
    for (int i = 0; i <= WATERMARK_RUNNING_MAX; i++) {
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), "%s%d", i ? " " : "",
                       1000 + 2 * i);
    }
    struct snapshot s;
    snapshot_read(&s, text, 5000, 5000);
    assert_int_equal(s.n, WATERMARK_RUNNING_MAX);
    assert_int_equal(s.running[0], 1000);
    assert_int_equal(s.xmax, 1000 + 2 * WATERMARK_RUNNING_MAX);
    assert_int_equal(s.next, 5000);
}

static void test_watermark_forgets_the_lowest(void **state)
{
    (void)state;
    watermark_start(&mark, 0);
    (void)watermark_see(&mark, 4, 0); /* gaps 1 to 3 */
    (void)watermark_see(&mark, 4 + WATERMARK_GAPS_MAX, 0);
    assert_int_equal(asked(WATERMARK_ASK_MS), WATERMARK_GAPS_MAX);
    assert_int_equal(ids[0], 3);
    (void)watermark_see(&mark, INT64_MAX - 1, 0);
    assert_int_equal(asked(WATERMARK_ASK_MS), WATERMARK_GAPS_MAX);
    assert_true(ids[WATERMARK_GAPS_MAX - 1] == INT64_MAX - 2);
    assert_true(ids[0] == INT64_MAX - 1 - WATERMARK_GAPS_MAX);
}

static void test_pace_falls_asleep_and_wakes(void **state)
{
    (void)state;
    struct pace p;
    pace_start(&p, 0);
    assert_int_equal(pace_plan(&p, false, 0), PACE_READ);
    assert_int_equal(pace_done(&p, PACE_READ, false, PACE_NOTHING, false, 0), PACE_BUSY_MS);
    assert_int_equal(pace_plan(&p, false, PACE_QUIET_MS), PACE_LOCK);
    assert_int_equal(pace_done(&p, PACE_LOCK, false, PACE_NOTHING, false, 10),
                     10 + PACE_REFUSED_MS);
    assert_int_equal(pace_plan(&p, false, 30), PACE_LOCK);
    assert_int_equal(pace_done(&p, PACE_LOCK, true, PACE_NOTHING, false, 30), 30 + PACE_TICK_MS);
    assert_int_equal(pace_plan(&p, false, 1030), PACE_READ);
    assert_int_equal(pace_done(&p, PACE_READ, false, PACE_NOTHING, false, 1030),
                     1030 + PACE_TICK_MS);
    assert_int_equal(pace_plan(&p, true, 1040), PACE_UNLOCK);
    assert_int_equal(pace_done(&p, PACE_UNLOCK, false, PACE_ROWS, false, 1040),
                     1040 + PACE_BUSY_MS);
    assert_int_equal(pace_plan(&p, true, 1042), PACE_READ);
}

static void test_pace_rises_when_a_tick_finds_rows(void **state)
{
    (void)state;
    struct pace p;
    pace_start(&p, 0);
    (void)pace_done(&p, PACE_LOCK, true, PACE_ROWS, false,
                    10); /* a row came between read and lock */
    assert_int_equal(pace_plan(&p, false, 10), PACE_UNLOCK);
    (void)pace_done(&p, PACE_UNLOCK, false, PACE_NOTHING, false, 10);
    (void)pace_done(&p, PACE_LOCK, true, PACE_NOTHING, false, 20);
    assert_int_equal(pace_done(&p, PACE_READ, false, PACE_ROWS, false, 1020), 1020);
    assert_int_equal(pace_plan(&p, false, 1020), PACE_UNLOCK);
}

static void test_pace_never_waits_while_reads_are_full(void **state)
{
    (void)state;
    struct pace p;
    pace_start(&p, 0);
    assert_int_equal(pace_done(&p, PACE_READ, false, PACE_ROWS, true, 50), 50);
}

static void test_pace_sleeps_through_announced_rows(void **state)
{
    (void)state;
    struct pace p;
    pace_start(&p, 0);
    assert_int_equal(pace_done(&p, PACE_READ, false, PACE_ANNOUNCED, false, 2), 2 + PACE_BUSY_MS);
    assert_int_equal(pace_plan(&p, false, PACE_QUIET_MS), PACE_LOCK);
    assert_int_equal(pace_done(&p, PACE_LOCK, true, PACE_ANNOUNCED, false, 10),
                     10 + PACE_FOLLOW_MS);
    assert_int_equal(pace_plan(&p, false, 110), PACE_READ);
    assert_int_equal(pace_done(&p, PACE_READ, false, PACE_ANNOUNCED, true, 110), 110);
    assert_int_equal(pace_done(&p, PACE_READ, false, PACE_ANNOUNCED, false, 112),
                     112 + PACE_FOLLOW_MS);
    assert_int_equal(pace_done(&p, PACE_READ, false, PACE_NOTHING, false, 212), 212 + PACE_TICK_MS);
}

static void test_pace_gives_the_lock_back_after_a_failure(void **state)
{
    (void)state;
    struct pace p;
    pace_start(&p, 0);
    pace_failed(&p);
    assert_int_equal(pace_plan(&p, false, 1), PACE_UNLOCK);
}

/* One check of `n` workers; bit i of `free_mask` says that worker i's lock is free. ret: how many
 * are dead */
static size_t check_locks(size_t n, unsigned free_mask, int64_t now_ms)
{
    static const char *const names[] = {"a", "b", "c", "d", "e"};
    size_t dead = 0;
    for (size_t i = 0; i < n; i++) {
        if ((free_mask >> i) & 1) {
            verdict_lock_is_free(&verdict, names[i], now_ms);
        }
    }
    verdict_end(&verdict);
    for (size_t i = 0; i < verdict.n; i++) {
        dead += verdict_is_dead(&verdict, i, now_ms);
    }
    return dead;
}

static void test_verdict_needs_two_checks(void **state)
{
    (void)state;
    verdict_start(&verdict, 0);
    assert_int_equal(check_locks(3, 1, 20000), 0);
    assert_int_equal(verdict.n, 1);
    assert_int_equal(check_locks(3, 1, 20300), 0); /* too soon after the first */
    assert_int_equal(check_locks(3, 1, 21000), 1);
    assert_string_equal(verdict.suspects[0].id, "a");
}

static void test_verdict_forgets_who_is_back(void **state)
{
    (void)state;
    verdict_start(&verdict, 0);
    assert_int_equal(check_locks(3, 1, 20000), 0);
    assert_int_equal(check_locks(3, 0, 21000), 0);
    assert_int_equal(verdict.n, 0);
    assert_int_equal(check_locks(3, 1, 22000), 0);
    assert_int_equal(check_locks(3, 1, 23000), 1);
}

/* Checks before a while without any do not count. */
static void test_verdict_begins_again(void **state)
{
    (void)state;
    verdict_start(&verdict, 0);
    assert_int_equal(check_locks(3, 1, 20000), 0);
    verdict_forget(&verdict);
    assert_int_equal(check_locks(3, 1, 30000), 0);
    assert_int_equal(check_locks(3, 1, 31000), 1);
}

static void test_verdict_waits_for_an_old_session(void **state)
{
    (void)state;
    verdict_start(&verdict, 0);
    for (int64_t now_ms = 0; now_ms < VERDICT_PATIENCE_MS; now_ms += 1000) {
        assert_int_equal(check_locks(3, 1, now_ms), 0);
    }
    assert_int_equal(check_locks(3, 1, VERDICT_PATIENCE_MS), 1);
    verdict_start(&verdict, VERDICT_PATIENCE_MS);
    assert_int_equal(check_locks(3, 1, VERDICT_PATIENCE_MS + 1000), 0);
    assert_int_equal(check_locks(3, 1, VERDICT_PATIENCE_MS + 2000), 0);
}

/* --- passes ---------------------------------------------------------------------------------- */

enum { PIECE = PASS_PIECE_BLOCKS };

/* ret: pieces that were read until it was over, of a table of `blocks` */
static int pass_through(struct pass *p, int64_t blocks)
{
    int n = 0;
    while (p->goes_on) {
        pass_read(p, blocks);
        n++;
    }
    return n;
}

static void test_a_pass_reads_each_piece_once(void **state)
{
    (void)state;
    static const int64_t blocks[] = {0, 1, PIECE, PIECE + 1, 10 * PIECE - 1, 10 * PIECE};
    static const int pieces[] = {1, 1, 1, 2, 10, 10};
    struct pass p = {0};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        pass_want(&p);
        assert_int_equal(p.block, 0);
        assert_int_equal(pass_through(&p, blocks[i]), pieces[i]);
    }
}

/* From where it is, and once round: also when it is wanted in each piece. */
static void test_a_pass_that_is_wanted_again_goes_round(void **state)
{
    (void)state;
    struct pass p = {0};
    for (int i = 0; i < 7; i++) {
        pass_want(&p);
        pass_read(&p, 10 * PIECE);
    }
    pass_want(&p);
    assert_int_equal(p.block, 7 * PIECE);
    assert_int_equal(pass_through(&p, 10 * PIECE), 10);
    assert_int_equal(p.block, 7 * PIECE);
}

/* The table grows or is cut off while the pass goes round. */
static void test_a_pass_of_a_table_that_changes(void **state)
{
    (void)state;
    struct pass p = {.block = 7 * PIECE};
    pass_want(&p);
    pass_read(&p, 8 * PIECE + 1);
    assert_int_equal(pass_through(&p, 12 * PIECE), 11);
    assert_int_equal(p.block, 7 * PIECE);
    pass_want(&p);
    pass_read(&p, 10 * PIECE);
    assert_int_equal(pass_through(&p, 3 * PIECE), 4);
    assert_int_equal(p.block, 0);
}

/* --- throttles ------------------------------------------------------------------------------- */

/* An awake leader reads by itself, and each read that a NOTIFY came before is charged. */
static void test_a_throttle_charged_faster_than_it_is_due(void **state)
{
    (void)state;
    enum { EVERY_MS = 2, FOR_MS = 60000 };
    struct throttle r = {0};
    for (int64_t now_ms = 0; now_ms < FOR_MS; now_ms += EVERY_MS) {
        throttle_charge(&r, now_ms);
        assert_true(throttle_due(&r) <= now_ms + THROTTLE_REST_MS);
    }
}

/* What comes one by one is due at once; what comes without a pause once in THROTTLE_REST_MS. */
static void test_a_throttle(void **state)
{
    (void)state;
    enum { FOR_MS = 10000 };
    struct throttle r = {0};
    int64_t n = 0;
    for (int64_t now_ms = 0; now_ms < FOR_MS; now_ms++) {
        if (throttle_due(&r) <= now_ms) {
            throttle_charge(&r, now_ms);
            n++;
        }
    }
    assert_in_range(n, FOR_MS / THROTTLE_REST_MS,
                    (FOR_MS + THROTTLE_AHEAD_MS) / THROTTLE_REST_MS + 1);
}

/* --- settled ---------------------------------------------------------------------------------- */

static void answer(struct settled *s, int64_t first, int64_t last, int64_t xmin, int64_t next)
{
    settled_answered(s, &(struct settled_answer){s->id, first, last, xmin, next}, 1);
}

/* A mark counts when all transactions have ended that had begun when it was set. */
static void test_settled_waits_for_open_transactions(void **state)
{
    (void)state;
    struct settled s = {.all_ms = 0};
    answer(&s, 0, 10, 100, 100);
    answer(&s, 0, 20, 95, 105);
    answer(&s, 0, 30, 104, 120);
    assert_int_equal(settled_from(&s, 1), 0);
    answer(&s, 0, 40, 105, 130);
    assert_int_equal(settled_from(&s, 1), 10);
}

static void test_settled_keeps_what_is_left(void **state)
{
    (void)state;
    struct settled s = {.all_ms = 0};
    answer(&s, 4, 10, 100, 100);
    answer(&s, 4, 10, 100, 100);
    answer(&s, 4, 10, 100, 100);
    assert_int_equal(settled_from(&s, 1), 3);
    for (int i = 0; i < 3; i++) {
        answer(&s, 0, 10, 100, 100);
    }
    assert_int_equal(settled_from(&s, 1), 10);
    answer(&s, 7, 10, 100, 100); /* when everything was read, one was found below */
    assert_int_equal(settled_from(&s, 1), 6);
}

static void test_settled_reads_everything_now_and_then(void **state)
{
    (void)state;
    struct settled s = {.id = 10, .all_ms = 0};
    assert_int_equal(settled_from(&s, SETTLED_ALL_MS - 1), 10);
    assert_int_equal(settled_from(&s, SETTLED_ALL_MS), 0);
    assert_int_equal(settled_from(&s, SETTLED_ALL_MS + 1), 0); /* until it ended well */
    settled_answered(&s, &(struct settled_answer){.last = 10}, SETTLED_ALL_MS + 1);
    assert_int_equal(settled_from(&s, SETTLED_ALL_MS + 2), 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_watermark_rises),
        cmocka_unit_test(test_watermark_keeps_gaps),
        cmocka_unit_test(test_watermark_asks_when_one_has_ended),
        cmocka_unit_test(test_watermark_fills_gaps),
        cmocka_unit_test(test_watermark_waits_for_a_late_commit),
        cmocka_unit_test(test_watermark_asks_less_and_less_often),
        cmocka_unit_test(test_watermark_does_not_settle_at_once),
        cmocka_unit_test(test_watermark_with_very_many_transactions),
        cmocka_unit_test(test_watermark_forgets_the_lowest),
        cmocka_unit_test(test_pace_falls_asleep_and_wakes),
        cmocka_unit_test(test_pace_rises_when_a_tick_finds_rows),
        cmocka_unit_test(test_pace_never_waits_while_reads_are_full),
        cmocka_unit_test(test_pace_sleeps_through_announced_rows),
        cmocka_unit_test(test_pace_gives_the_lock_back_after_a_failure),
        cmocka_unit_test(test_verdict_needs_two_checks),
        cmocka_unit_test(test_verdict_forgets_who_is_back),
        cmocka_unit_test(test_verdict_begins_again),
        cmocka_unit_test(test_verdict_waits_for_an_old_session),
        cmocka_unit_test(test_a_throttle_charged_faster_than_it_is_due),
        cmocka_unit_test(test_a_throttle),
        cmocka_unit_test(test_settled_waits_for_open_transactions),
        cmocka_unit_test(test_settled_keeps_what_is_left),
        cmocka_unit_test(test_settled_reads_everything_now_and_then),
        cmocka_unit_test(test_a_pass_reads_each_piece_once),
        cmocka_unit_test(test_a_pass_that_is_wanted_again_goes_round),
        cmocka_unit_test(test_a_pass_of_a_table_that_changes),
    };
    return RUN_GROUP(tests);
}
