/* label: e2e */
/* timeout: 120 */
/* only: all */
/* An alarm stops every publisher of a broker, so these have one of their own. */
#include "tests/support/producer.h"
#include "tests/support/servers.h"
#include "tests/support/silent.h"

#include "core/amqp/amqp_link.h"
#include "core/amqp/amqp_publisher.h"
#include "core/base/now.h"

#include <poll.h>

enum { AT_ONCE_MS = 500, ALARM_MS = LINK_ANSWER_LIMIT_S * 1000 + 2000 };

static int broker_starts(void **state)
{
    (void)state;
    server_open("rabbitmq");
    return 0;
}

static int broker_ends(void **state)
{
    (void)state;
    server_close();
    return 0;
}

static int alarm_ends(void **state)
{
    broker_ctl("set_vm_memory_high_watermark 0.4");
    return fixture_teardown(state);
}

/* The second id is sent before the publisher can know of the alarm. */
static void await_blocked(struct publisher *p)
{
    int64_t until_ms = patience_end_ms(LIMIT_MS);
    assert_true(publisher_offer(p, wakeup_new("tenon", "default/mail", 2)));
    while (!publisher_is_away(p) && now_ms() < until_ms) {
        (void)poll(NULL, 0, 5);
    }
    assert_true(publisher_is_away(p));
}

/* What lies with the broker is neither lost nor late: it answers when the alarm is over. */
static void test_a_publisher_outlives_an_alarm(void **state)
{
    struct fixture *fx = *state;
    struct fault f = {0};
    struct publisher_stats stats;
    int refused = 0;
    struct publisher *p = NULL;
    struct publisher_settings settings = {.url = fx->amqp_url, .name = "test", .exchange = "tenon"};
    assert_ok(publisher_open(&settings, &p, &f), &f);
    assert_true(publisher_offer(p, wakeup_new("tenon", "default/mail", 1)));
    assert_true(publisher_flush(p, LIMIT_MS * PATIENCE));
    broker_ctl("set_vm_memory_high_watermark 0.00001");
    await_blocked(p);
    for (int64_t end_ms = now_ms() + ALARM_MS; now_ms() < end_ms;) {
        assert_false(publisher_offer(p, wakeup_new("tenon", "default/mail", 3)));
        refused++;
        publisher_stats(p, &stats);
        assert_true(stats.connected);
        (void)poll(NULL, 0, 50);
    }
    broker_ctl("set_vm_memory_high_watermark 0.4");
    assert_true(publisher_flush(p, LIMIT_MS * PATIENCE));
    publisher_stats(p, &stats);
    assert_string_equal(stats.last_error, "");
    assert_int_equal(stats.published, 2);
    assert_int_equal(stats.dropped, refused);
    assert_true(publisher_offer(p, wakeup_new("tenon", "default/mail", 4)));
    assert_true(publisher_flush(p, LIMIT_MS * PATIENCE));
    publisher_close(p, 1000);
}

static void test_a_producer_does_not_wait_for_an_alarm(void **state)
{
    struct fixture *fx = *state;
    struct broker *b;
    tenon *t = make(fx, &b);
    (void)enqueue(t, fx->conn);
    assert_arrived(t, b, 1);
    broker_ctl("set_vm_memory_high_watermark 0.00001");
    int64_t start = now_ms();
    for (int i = 0; i < 20; i++) {
        test_sql(fx, "BEGIN");
        (void)enqueue(t, fx->conn);
        assert_code(tenon_commit(t, fx->conn), TENON_OK);
    }
    assert_took(start, 20 * AT_ONCE_MS);
    assert_code(tenon_flush(t, 100), TENON_UNPUBLISHED);
    start = now_ms();
    tenon_free(t);
    assert_took(start, TENON_FREE_LIMIT_MS + AT_ONCE_MS);
    assert_int_equal(tasks(fx), 21);
    broker_close(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_publisher_outlives_an_alarm, fixture_setup,
                                        alarm_ends),
        cmocka_unit_test_setup_teardown(test_a_producer_does_not_wait_for_an_alarm, fixture_setup,
                                        alarm_ends),
    };
    return cmocka_run_group_tests(tests, broker_starts, broker_ends);
}
