/* label: e2e */
/* timeout: 120 */
/* only: all */
/* The consumer against a real RabbitMQ, and against one that hangs. */
#include "tests/support/consumer_log.h"
#include "tests/support/silent.h"

#include "core/amqp/amqp_publisher.h"
#include "core/amqp/amqp_thread.h"
#include "core/base/now.h"

#include <stdio.h>

enum { CLOSE_MS = 300 };

static const char one[] = "default/a";
static const char two[] = "default/a other/b";

/* --- the consumer ----------------------------------------------------------------------------- */

static void test_delivers(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = declared(fx);
    struct consumer_log s;
    publish_ids(b, one, 1, 50);
    consumer_log_start(&s, fx->amqp_url, one, true);
    AWAIT(&s, s.ups == 1);
    assert_int_equal(s.n, 0); /* not before the first prefetch */
    consumer_prefetch(s.c, 20);
    AWAIT(&s, s.n == 50);
    publish_ids(b, one, 51, 50);
    AWAIT(&s, s.n == 100);
    for (size_t i = 0; i < s.n; i++) {
        assert_int_equal(s.ids[i], i + 1);
    }
    consumer_close(s.c, 2000);
    await_depth(b, one, 0);
    broker_close(b);
}

/* What was not acked comes again to the next consumer, what was acked on the way out does not. */
static void test_close_sends_acks(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = declared(fx);
    struct consumer_log s;
    publish_ids(b, one, 1, 10);
    consumer_log_start(&s, fx->amqp_url, one, false);
    consumer_prefetch(s.c, 10);
    AWAIT(&s, s.n == 10);
    consumer_ack(s.c, s.epoch, s.last_tag - 4);
    consumer_close(s.c, 2000);
    await_depth(b, one, 4);
    broker_close(b);
}

static void test_prefetch_is_a_budget(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = declared(fx);
    struct consumer_log s;
    publish_ids(b, one, 1, 100);
    consumer_log_start(&s, fx->amqp_url, one, false);
    consumer_prefetch(s.c, 10);
    await_depth(b, one, 90);
    AWAIT(&s, s.n == 10);
    consumer_ack(s.c, s.epoch, s.last_tag);
    await_depth(b, one, 80);
    AWAIT(&s, s.n == 20);
    consumer_prefetch(s.c, 30); /* another channel: the ten that are out come again */
    AWAIT(&s, s.ups == 2 && s.n == 50);
    await_depth(b, one, 60);
    assert_int_equal(s.ids[20], 11);
    assert_int_equal(s.ids[49], 40);
    assert_int_equal(s.downs, 0);
    consumer_close(s.c, 2000);
    await_depth(b, one, 90);
    broker_close(b);
}

static void test_prefetch_zero_gives_back(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = declared(fx);
    struct consumer_log s;
    publish_ids(b, one, 1, 10);
    consumer_log_start(&s, fx->amqp_url, one, false);
    consumer_prefetch(s.c, 10);
    AWAIT(&s, s.n == 10);
    int64_t old_epoch = s.epoch;
    uint64_t old_tag = s.last_tag;
    consumer_ack(s.c, s.epoch, s.last_tag - 7);
    consumer_prefetch(s.c, 0);
    AWAIT(&s, s.ups == 2);
    await_depth(b, one, 7);
    consumer_prefetch(s.c, 10);
    AWAIT(&s, s.n == 17);
    assert_int_equal(s.ids[10], 4);
    /* an ack of the old epoch is no ack of the new one, and costs no channel */
    consumer_ack(s.c, old_epoch, old_tag);
    publish_ids(b, one, 11, 1);
    AWAIT(&s, s.n == 18);
    assert_int_equal(s.ups, 2);
    consumer_close(s.c, 2000);
    await_depth(b, one, 8);
    broker_close(b);
}

static void test_a_wrong_ack_is_not_sent(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = declared(fx);
    struct consumer_log s;
    publish_ids(b, one, 1, 1);
    consumer_log_start(&s, fx->amqp_url, one, false);
    consumer_prefetch(s.c, 10);
    AWAIT(&s, s.n == 1);
    consumer_ack(s.c, s.epoch, 1000);
    publish_ids(b, one, 2, 1);
    AWAIT(&s, s.n == 2);
    assert_int_equal(s.ups, 1);
    consumer_close(s.c, 2000);
    await_depth(b, one, 2);
    broker_close(b);
}

static void test_hostile_bodies(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = declared(fx);
    struct consumer_log s;
    static char huge[300000];
    memset(huge, '7', sizeof huge);
    static const char *const bodies[] = {"", "0", "-1", "abc", "9223372036854775808", "1 OR 1=1"};
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        broker_publish(b, one, bodies[i], strlen(bodies[i]));
    }
    broker_publish(b, one, huge, sizeof huge);
    broker_publish(b, one, "1\0002", 3);
    publish_ids(b, one, 7, 1);
    consumer_log_start(&s, fx->amqp_url, one, true);
    consumer_prefetch(s.c, 1); /* they take nothing of the budget for long */
    AWAIT(&s, s.n == 1);
    assert_int_equal(s.ids[0], 7);
    assert_int_equal(s.hostile, 8);
    consumer_close(s.c, 2000);
    await_depth(b, one, 0);
    broker_close(b);
}

/* Who consumes, declares, and binds: what is published with a key comes to who serves it. */
static void test_declares_its_queues(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = declared(fx);
    struct consumer_log s;
    broker_delete_queue(b, one);
    broker_delete_queue(b, "other/b");
    consumer_log_start(&s, fx->amqp_url, two, true);
    consumer_prefetch(s.c, 2);
    AWAIT(&s, s.ups == 1);
    publish_ids(b, one, 1, 3);
    publish_ids(b, "other/b", 4, 3);
    publish_ids(b, "other/a", 7, 1); /* nobody's */
    AWAIT(&s, s.n == 6);
    consumer_close(s.c, 2000);
    broker_declare(b, one); /* with the very same arguments */
    broker_delete_queue(b, "other/b");
    broker_close(b);
}

static void test_a_queue_declared_otherwise(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = broker_open(fx->amqp_url);
    struct consumer_log s;
    broker_spy(b, one, one);
    consumer_log_start(&s, fx->amqp_url, one, true);
    consumer_prefetch(s.c, 2);
    AWAIT(&s, s.downs == 1);
    assert_contains(s.down, "406");
    assert_contains(s.down, "tenon.default/a");
    assert_contains(s.down, "delete it");
    broker_delete_queue(b, one);
    AWAIT(&s, s.ups == 1);
    consumer_close(s.c, 2000);
    broker_close(b);
}

static void test_a_missing_exchange_is_waited_for(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = broker_open(fx->amqp_url);
    struct consumer_log s;
    broker_delete_exchange(b);
    consumer_log_start(&s, fx->amqp_url, one, true);
    AWAIT(&s, s.downs == 1);
    assert_contains(s.down, "tenon setup");
    broker_declare_exchange(b);
    AWAIT(&s, s.ups == 1);
    consumer_close(s.c, 2000);
    broker_close(b);
}

/* What setup prints for a worker is what it needs, and no more. */
static void test_rights(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = declared(fx);
    struct consumer_log s;
    char url[600];
    broker_delete_queue(b, one);
    broker_ctl("delete_user worker-%s || true", fx->vhost); /* of a run that failed */
    broker_ctl("add_user worker-%s word", fx->vhost);
    broker_ctl("set_permissions --vhost %s worker-%s '^tenon\\.' '^tenon\\.' '^$'", fx->vhost,
               fx->vhost);
    (void)snprintf(url, sizeof url, "amqp://worker-%s:word@%s", fx->vhost,
                   strchr(fx->amqp_url, '@') + 1);
    consumer_log_start(&s, url, one, true);
    consumer_prefetch(s.c, 2);
    AWAIT(&s, s.downs == 1);
    assert_contains(s.down, "403");
    broker_ctl("set_permissions --vhost %s worker-%s '^tenon\\.' '^tenon\\.' '^tenon(\\.|$)'",
               fx->vhost, fx->vhost);
    AWAIT(&s, s.ups == 1);
    publish_ids(b, one, 1, 1);
    AWAIT(&s, s.n == 1);
    consumer_close(s.c, 2000);
    broker_ctl("delete_user worker-%s", fx->vhost);
    broker_close(b);
}

static void test_a_deleted_queue_is_declared_again(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = declared(fx);
    struct consumer_log s;
    publish_ids(b, one, 1, 1);
    consumer_log_start(&s, fx->amqp_url, one, true);
    consumer_prefetch(s.c, 5);
    AWAIT(&s, s.n == 1);
    broker_delete_queue(b, one);
    AWAIT(&s, s.ups == 2);
    assert_contains(s.down, "its queue is gone");
    publish_ids(b, one, 2, 1);
    AWAIT(&s, s.n == 2);
    consumer_close(s.c, 2000);
    broker_close(b);
}

/* The broker's own bounds: what is over the window is refused. */
static void test_the_window(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = declared(fx);
    struct publisher *p = NULL;
    struct fault f = {0};
    const struct publisher_settings settings = {.url = fx->amqp_url, .name = "test"};
    assert_ok(publisher_open(&settings, &p, &f), &f);
    for (int i = 1; i <= TOPOLOGY_WINDOW_IDS + 500; i++) {
        assert_true(publisher_offer(p, wakeup_new("tenon", one, i)));
    }
    assert_true(publisher_flush(p, LIMIT_MS * PATIENCE));
    await_depth(b, one, TOPOLOGY_WINDOW_IDS);
    assert_int_equal(broker_take(b, one), 1);
    publisher_close(p, 1000);
    broker_close(b);
}

static void test_a_lost_connection_comes_back(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = declared(fx);
    struct consumer_log s;
    publish_ids(b, one, 1, 4);
    consumer_log_start(&s, fx->amqp_url, one, false);
    consumer_prefetch(s.c, 4);
    AWAIT(&s, s.n == 4);
    uint64_t tag = s.last_tag;
    broker_close(b);
    broker_ctl("close_all_connections --vhost %s bye", fx->vhost);
    AWAIT(&s, s.ups == 2);
    assert_contains(s.down, "CONNECTION_FORCED");
    consumer_ack(s.c, 1, tag); /* too late */
    AWAIT(&s, s.n == 8);
    assert_int_equal(s.epoch, 2);
    consumer_close(s.c, 2000);
    b = broker_open(fx->amqp_url);
    await_depth(b, one, 4);
    broker_close(b);
}

static void test_says_why_it_is_down(void **state)
{
    struct fixture *fx = *state;
    struct consumer_log s;
    char url[600];
    url_with_path(fx->amqp_url, "no-such-vhost", url, sizeof url);
    consumer_log_start(&s, url, one, false);
    AWAIT(&s, s.downs == 1);
    assert_contains(s.down, "no-such-vhost");
    consumer_close(s.c, 2000);
    consumer_log_start(&s, "amqp://nobody:wrong-word@127.0.0.1:1/", one, false);
    AWAIT(&s, s.downs == 1);
    assert_contains(s.down, "connection refused");
    assert_null(strstr(s.down, "wrong-word"));
    consumer_close(s.c, 2000);
}

/* --- a broker that hangs ---------------------------------------------------------------------- */

static void hang(bool takes)
{
    struct silent silent;
    struct consumer_log s;
    silent_open(&silent, takes);
    consumer_log_start(&s, silent.url, one, false);
    consumer_prefetch(s.c, 1);
    consumer_ack(s.c, 1, 1);
    int64_t start = now_ms();
    consumer_close(s.c, 200);
    assert_took(start, 200 + AMQP_THREAD_PATIENCE_MS + CLOSE_MS);
    silent_close(&silent);
}

static void test_a_broker_that_never_answers(void **state)
{
    (void)state;
    hang(true);
}

static void test_a_broker_that_lets_nobody_in(void **state)
{
    (void)state;
    hang(false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVERS(test_delivers),
        WITH_SERVERS(test_close_sends_acks),
        WITH_SERVERS(test_prefetch_is_a_budget),
        WITH_SERVERS(test_prefetch_zero_gives_back),
        WITH_SERVERS(test_a_wrong_ack_is_not_sent),
        WITH_SERVERS(test_hostile_bodies),
        WITH_SERVERS(test_declares_its_queues),
        WITH_SERVERS(test_a_queue_declared_otherwise),
        WITH_SERVERS(test_a_missing_exchange_is_waited_for),
        WITH_SERVERS(test_rights),
        WITH_SERVERS(test_a_deleted_queue_is_declared_again),
        WITH_SERVERS(test_the_window),
        WITH_SERVERS(test_a_lost_connection_comes_back),
        WITH_SERVERS(test_says_why_it_is_down),
        cmocka_unit_test(test_a_broker_that_never_answers),
        cmocka_unit_test(test_a_broker_that_lets_nobody_in),
    };
    return RUN_GROUP(tests);
}
