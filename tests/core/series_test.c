/* label: unit */
/* Prometheus' text format, what is counted by queue and kind, and whether a main loop moves. */
#include "core/http/metric.h"
#include "core/http/probes.h"
#include "core/http/series.h"
#include "tests/support/scrape.h"

#include <stdio.h>

enum { PAGE_BYTES = 8 << 20 };

static const char *const words[] = {"done", "failed"};

static void test_labels_are_escaped(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, PAGE_BYTES);
    metric_head(&b, "x_total", "counter", "A \\ and a\nline.");
    metric_int(&b, "x_total", LABELS({"queue", "a\"b\\c\nd\" 7"}, {"kind", ""}), 5);
    metric_seconds(&b, "x_total", LABELS({"queue", "q"}), 1500000);
    metric_seconds(&b, "x_total", NO_LABELS, -1);
    assert_string_equal(buf_text(&b), "# HELP x_total A \\\\ and a\\nline.\n"
                                      "# TYPE x_total counter\n"
                                      "x_total{queue=\"a\\\"b\\\\c\\nd\\\" 7\",kind=\"\"} 5\n"
                                      "x_total{queue=\"q\"} 1.500000\n"
                                      "x_total 0.000000\n");
    scrape_check(buf_text(&b));
    buf_clear(&b);
}

static void write_all(struct series *s, struct buf *b)
{
    series_write_counters(s, b, "x_total", "How many.", "outcome", words, 2);
    series_write_times(s, b, 1, "x_seconds", "How long.");
    assert_false(b->failed);
    scrape_check(buf_text(b));
}

static void test_counters_and_times(void **state)
{
    (void)state;
    struct series *s = series_new();
    struct buf b;
    buf_init(&b, PAGE_BYTES);
    struct pair *p = series_of(s, "q", "mail");
    assert_ptr_equal(series_of(s, "q", "mail"), p);
    assert_ptr_not_equal(series_of(s, "qm", "ail"), p);
    series_count(p, 1);
    series_time(p, 0, 1000);
    series_time(p, 1, 5000);
    series_time(p, 1, 5001);
    series_time(p, 1, 2000000000);
    write_all(s, &b);
    const char *page = buf_text(&b);
#define OF(name, more) name "{queue=\"q\",kind=\"mail\"" more "}"
    assert_true(scrape_value(page, OF("x_total", ",outcome=\"failed\"")) == 1);
    assert_true(scrape_value(page, OF("x_total", ",outcome=\"done\"")) == 0);
    assert_true(scrape_value(page, OF("x_seconds_bucket", ",le=\"0.005\"")) == 1);
    assert_true(scrape_value(page, OF("x_seconds_bucket", ",le=\"0.01\"")) == 2);
    assert_true(scrape_value(page, OF("x_seconds_bucket", ",le=\"1800\"")) == 2);
    assert_true(scrape_value(page, OF("x_seconds_bucket", ",le=\"7200\"")) == 3);
    assert_true(scrape_value(page, OF("x_seconds_bucket", ",le=\"+Inf\"")) == 3);
    assert_true(scrape_value(page, OF("x_seconds_count", "")) == 3);
    assert_true(scrape_value(page, OF("x_seconds_sum", "")) == 2000.010001);
    struct series_sums sums;
    assert_true(series_read(s, 0, &sums));
    assert_string_equal(sums.queue, "q");
    assert_string_equal(sums.kind, "mail");
    assert_int_equal(sums.counters[1], 1);
    assert_int_equal(sums.times[0], 1);
    assert_int_equal(sums.times_us[0], 1000);
    assert_int_equal(sums.times[1], 3);
    assert_int_equal(sums.buckets[1][0], 1);
    assert_int_equal(sums.buckets[1][1], 1);
    assert_int_equal(sums.buckets[1][17], 1); /* over 30 min, up to 2 h */
    assert_true(series_read(s, 1, &sums));    /* qm, ail */
    assert_int_equal(sums.counters[1], 0);
    assert_false(series_read(s, 2, &sums));
    buf_clear(&b);
    series_free(s);
}

/* Names without end cost nothing after SERIES_MAX. */
static void test_names_without_end(void **state)
{
    (void)state;
    enum { NAMES = 3000 };
    struct series *s = series_new();
    struct buf b;
    char queue[32], long_name[300];
    buf_init(&b, PAGE_BYTES);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < NAMES; i++) {
            (void)snprintf(queue, sizeof queue, "q%d", i);
            series_count(series_of(s, queue, "a"), 0);
        }
    }
    memset(long_name, 'x', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    series_count(series_of(s, long_name, "a"), 0);
    write_all(s, &b);
    const char *page = buf_text(&b);
    assert_true(scrape_value(page, "x_total{queue=\"q199\",kind=\"a\",outcome=\"done\"}") == 2);
    assert_true(scrape_value(page, "x_total{queue=\"q200\",kind=\"a\",outcome=\"done\"}") == -1);
    double others = scrape_value(page,
                                 "x_total{queue=\"(other)\",kind=\"(other)\",outcome=\"done\"}");
    assert_true(others == 2 * (NAMES - SERIES_MAX) + 1);
    struct series_sums sums;
    assert_true(series_read(s, SERIES_MAX, &sums));
    assert_string_equal(sums.queue, SERIES_OTHER);
    assert_int_equal(sums.counters[0], 2 * (NAMES - SERIES_MAX) + 1);
    assert_false(series_read(s, SERIES_MAX + 1, &sums));
    buf_clear(&b);
    series_free(s);
}

static void test_does_it_move(void **state)
{
    static const struct {
        int64_t moved_ms, now_ms;
        bool moves;
        const char *sentence;
    } rows[] = {{0, 1000000, true, "it starts"},
                {5000, 5000, true, "the main loop moves"},
                {5000, 16999, true, "the main loop moves"},
                {5000, 17000, false, "the main loop has not moved for 12 s"}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buf b;
        buf_init(&b, 200);
        assert_int_equal(probes_moves(rows[i].moved_ms, rows[i].now_ms, 12000, &b), rows[i].moves);
        assert_string_equal(buf_text(&b), rows[i].sentence);
        buf_clear(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_labels_are_escaped),
        cmocka_unit_test(test_counters_and_times),
        cmocka_unit_test(test_names_without_end),
        cmocka_unit_test(test_does_it_move),
    };
    return RUN_GROUP(tests);
}
