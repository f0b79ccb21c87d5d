/* label: e2e */
/* timeout: 120 */
/* The consumer against a real RabbitMQ, and against one that hangs. */
#include "tests/support/seen.h"
#include "tests/support/silent.h"

#include "core/amqp_thread.h"
#include "core/now.h"

#include <stdio.h>

enum { CLOSE_MS = 300, WATCH_MS = 200 };

static const char *const one[] = {"default"};
static const char *const two[] = {"default", "other"};

/* --- the consumer ----------------------------------------------------------------------------- */

static void test_delivers(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = declared(fx);
    struct seen s;
    publish_ids(b, "default", 1, 50);
    seen_listen(&s, fx->amqp_url, one, 1, true);
    AWAIT(&s, s.ups == 1);
    assert_int_equal(s.n, 0); /* not before the first prefetch */
    consumer_prefetch(s.c, 20);
    AWAIT(&s, s.n == 50);
    publish_ids(b, "default", 51, 50);
    AWAIT(&s, s.n == 100);
    for (size_t i = 0; i < s.n; i++) {
        assert_int_equal(s.ids[i], i + 1);
    }
    consumer_close(s.c, 2000);
    await_depth(b, "default", 0);
    broker_close(b);
}

/* What was not acked comes again to the next consumer, what was acked on the way out does not. */
static void test_close_sends_acks(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = declared(fx);
    struct seen s;
    publish_ids(b, "default", 1, 10);
    seen_listen(&s, fx->amqp_url, one, 1, false);
    consumer_prefetch(s.c, 10);
    AWAIT(&s, s.n == 10);
    consumer_ack(s.c, s.epoch, s.last_tag - 4);
    consumer_close(s.c, 2000);
    await_depth(b, "default", 4);
    broker_close(b);
}

static void test_prefetch_is_a_budget(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = declared(fx);
    struct seen s;
    publish_ids(b, "default", 1, 100);
    seen_listen(&s, fx->amqp_url, one, 1, false);
    consumer_prefetch(s.c, 10);
    await_depth(b, "default", 90);
    AWAIT(&s, s.n == 10);
    consumer_ack(s.c, s.epoch, s.last_tag);
    await_depth(b, "default", 80);
    AWAIT(&s, s.n == 20);
    consumer_prefetch(s.c, 30); /* the ten that are out do not count against the new one */
    await_depth(b, "default", 50);
    AWAIT(&s, s.n == 50);
    assert_int_equal(s.ups, 1);
    consumer_ack(s.c, s.epoch, s.last_tag);
    AWAIT(&s, s.n == 80);
    for (size_t i = 0; i < s.n; i++) {
        assert_int_equal(s.ids[i], i + 1);
    }
    consumer_close(s.c, 2000);
    await_depth(b, "default", 50);
    broker_close(b);
}

static void test_prefetch_zero_gives_back(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = declared(fx);
    struct seen s;
    publish_ids(b, "default", 1, 10);
    seen_listen(&s, fx->amqp_url, one, 1, false);
    consumer_prefetch(s.c, 10);
    AWAIT(&s, s.n == 10);
    int64_t old_epoch = s.epoch;
    uint64_t old_tag = s.last_tag;
    consumer_ack(s.c, s.epoch, s.last_tag - 7);
    consumer_prefetch(s.c, 0);
    AWAIT(&s, s.ups == 2);
    await_depth(b, "default", 7);
    consumer_prefetch(s.c, 10);
    AWAIT(&s, s.n == 17);
    assert_int_equal(s.ids[10], 4);
    /* an ack of the old epoch is no ack of the new one, and costs no channel */
    consumer_ack(s.c, old_epoch, old_tag);
    publish_ids(b, "default", 11, 1);
    AWAIT(&s, s.n == 18);
    assert_int_equal(s.ups, 2);
    consumer_close(s.c, 2000);
    await_depth(b, "default", 8);
    broker_close(b);
}

static void test_a_wrong_ack_is_not_sent(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = declared(fx);
    struct seen s;
    publish_ids(b, "default", 1, 1);
    seen_listen(&s, fx->amqp_url, one, 1, false);
    consumer_prefetch(s.c, 10);
    AWAIT(&s, s.n == 1);
    consumer_ack(s.c, s.epoch, 1000);
    publish_ids(b, "default", 2, 1);
    AWAIT(&s, s.n == 2);
    assert_int_equal(s.ups, 1);
    consumer_close(s.c, 2000);
    await_depth(b, "default", 2);
    broker_close(b);
}

static void test_hostile_bodies(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = declared(fx);
    struct seen s;
    static char huge[300000];
    memset(huge, '7', sizeof huge);
    static const char *const bodies[] = {"", "0", "-1", "abc", "9223372036854775808", "1 OR 1=1"};
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        broker_publish(b, "default", bodies[i], strlen(bodies[i]));
    }
    broker_publish(b, "default", huge, sizeof huge);
    broker_publish(b, "default", "1\0002", 3);
    publish_ids(b, "default", 7, 1);
    seen_listen(&s, fx->amqp_url, one, 1, true);
    consumer_prefetch(s.c, 1); /* they take nothing of the budget for long */
    AWAIT(&s, s.n == 1);
    assert_int_equal(s.ids[0], 7);
    assert_int_equal(s.hostile, 8);
    consumer_close(s.c, 2000);
    await_depth(b, "default", 0);
    broker_close(b);
}

static void test_a_missing_queue_is_waited_for(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = declared(fx);
    struct seen s;
    use_other(fx, b);
    publish_ids(b, "default", 1, 3);
    seen_listen(&s, fx->amqp_url, two, 2, true);
    consumer_prefetch(s.c, 2);
    AWAIT(&s, s.n == 3);
    broker_declare(b, "other");
    publish_ids(b, "other", 4, 3);
    AWAIT(&s, s.n == 6);
    assert_int_equal(s.ups, 1); /* the channel lived on */
    assert_int_equal(s.downs, 0);
    consumer_close(s.c, 2000);
    broker_close(b);
}

/* One queue that may not be read is named, and the other one is served all the same. */
static void test_a_queue_that_may_not_be_read(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = declared(fx);
    struct seen s;
    char url[600];
    use_other(fx, b);
    broker_declare(b, "other");
    publish_ids(b, "default", 1, 3);
    publish_ids(b, "other", 4, 3);
    broker_ctl("delete_user reader-%s || true", fx->vhost); /* of a run that failed */
    broker_ctl("add_user reader-%s word", fx->vhost);
    broker_ctl("set_permissions --vhost %s reader-%s '^$' '^$' '^tenon.other$'", fx->vhost,
               fx->vhost);
    (void)snprintf(url, sizeof url, "amqp://reader-%s:word@%s", fx->vhost,
                   strchr(fx->amqp_url, '@') + 1);
    seen_listen(&s, url, two, 2, true);
    consumer_prefetch(s.c, 2);
    AWAIT(&s, s.n == 3);
    assert_int_equal(s.ids[2], 6);
    assert_int_equal(s.downs, 1);
    assert_contains(s.down, "403");
    assert_contains(s.down, "tenon.default");
    consumer_close(s.c, 2000);
    broker_ctl("delete_user reader-%s", fx->vhost);
    broker_close(b);
}

static void test_a_deleted_queue_is_found_again(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = declared(fx);
    struct seen s;
    publish_ids(b, "default", 1, 1);
    seen_listen(&s, fx->amqp_url, one, 1, true);
    consumer_prefetch(s.c, 5);
    AWAIT(&s, s.n == 1);
    broker_delete_queue(b, "default");
    broker_declare(b, "default");
    publish_ids(b, "default", 2, 1);
    AWAIT(&s, s.n == 2);
    assert_int_equal(s.downs, 0);
    consumer_close(s.c, 2000);
    broker_close(b);
}

static void test_a_lost_connection_comes_back(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = declared(fx);
    struct seen s;
    publish_ids(b, "default", 1, 4);
    seen_listen(&s, fx->amqp_url, one, 1, false);
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
    await_depth(b, "default", 4);
    broker_close(b);
}

static void test_says_why_it_is_down(void **state)
{
    struct fixture *fx = *state;
    struct seen s;
    char url[600];
    url_with_path(fx->amqp_url, "no-such-vhost", url, sizeof url);
    seen_listen(&s, url, one, 1, false);
    AWAIT(&s, s.downs == 1);
    assert_contains(s.down, "no-such-vhost");
    consumer_close(s.c, 2000);
    seen_listen(&s, "amqp://nobody:wrong-word@127.0.0.1:1/", one, 1, false);
    AWAIT(&s, s.downs == 1);
    assert_contains(s.down, "could not connect");
    assert_null(strstr(s.down, "wrong-word"));
    consumer_close(s.c, 2000);
}

/* --- a queue that delivers nothing ------------------------------------------------------------ */

/* Connected and alone in getting nothing, as only one consumer is active: it says so, again and
 * again, and has the messages as soon as it is let. One that has not acked what it got, and waits
 * for itself, says nothing. */
static void test_deliveries_that_stop(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = broker_open(fx->amqp_url), *holder = broker_open(fx->amqp_url);
    struct seen full, starved;
    use_other(fx, b);
    broker_declare(b, "other");
    broker_declare_single(b, "default");
    broker_hold(holder, "default");
    publish_ids(b, "default", 1, 3);
    publish_ids(b, "other", 4, 3);
    seen_watch(&full, fx->amqp_url, "other", false, WATCH_MS);
    consumer_prefetch(full.c, 1);
    AWAIT(&full, full.n == 1);
    await_depth(b, "default", 2);
    seen_watch(&starved, fx->amqp_url, "default", true, WATCH_MS);
    consumer_prefetch(starved.c, 5);
    AWAIT(&starved, starved.downs == 2);
    assert_string_equal(starved.down, "RabbitMQ stopped delivering");
    assert_int_equal(starved.n, 0);
    assert_int_equal(full.downs, 0); /* looked at at least as often */
    broker_close(holder);
    AWAIT(&starved, starved.n == 3);
    consumer_close(starved.c, 2000);
    consumer_close(full.c, 2000);
    await_depth(b, "default", 0);
    broker_close(b);
}

/* --- a broker that hangs ---------------------------------------------------------------------- */

static void hang(bool takes)
{
    struct silent silent;
    struct seen s;
    silent_open(&silent, takes);
    seen_listen(&s, silent.url, one, 1, false);
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
        WITH_SERVERS(test_a_missing_queue_is_waited_for),
        WITH_SERVERS(test_a_queue_that_may_not_be_read),
        WITH_SERVERS(test_a_deleted_queue_is_found_again),
        WITH_SERVERS(test_a_lost_connection_comes_back),
        WITH_SERVERS(test_says_why_it_is_down),
        WITH_SERVERS(test_deliveries_that_stop),
        cmocka_unit_test(test_a_broker_that_never_answers),
        cmocka_unit_test(test_a_broker_that_lets_nobody_in),
    };
    return RUN_GROUP(tests);
}
