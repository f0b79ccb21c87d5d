/* label: e2e */
/* timeout: 120 */
/* The publisher against a real RabbitMQ, and against one that hangs. */
#include "tests/support/seen.h"
#include "tests/support/silent.h"

#include "core/amqp_link.h"
#include "core/amqp_publisher.h"
#include "core/now.h"

#include <poll.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CLOSE_MS = 300 };

static const char *const one[] = {"default"};

/* --- the publisher ---------------------------------------------------------------------------- */

static struct publisher *publisher_to(const char *url, int64_t window, bool declare)
{
    struct fault f = {0};
    struct publisher *p = NULL;
    struct publisher_settings settings = {.url = url,
                                          .name = "test",
                                          .window = window,
                                          .declare = declare ? "classic" : NULL};
    assert_ok(publisher_open(&settings, &p, &f), &f);
    return p;
}

static struct publisher_stats stats_of(struct publisher *p)
{
    struct publisher_stats stats;
    publisher_stats(p, &stats);
    return stats;
}

static void test_publishes(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = declared(fx);
    struct publisher *p = publisher_to(fx->amqp_url, 0, false);
    assert_false(stats_of(p).connected); /* there was no need */
    for (int i = 1; i <= 3000; i++) {
        assert_true(publisher_offer(p, "default", i));
    }
    assert_true(publisher_flush(p, LIMIT_MS));
    struct publisher_stats stats = stats_of(p);
    assert_int_equal(stats.offered, 3000);
    assert_int_equal(stats.published, 3000);
    assert_int_equal(stats.confirmed, 3000);
    assert_int_equal(stats.dropped + stats.unconfirmed + stats.returned, 0);
    assert_true(stats.connected);
    assert_int_equal(broker_depth(b, "default"), 3000);
    publisher_close(p, 1000);
    struct seen s;
    seen_listen(&s, fx->amqp_url, one, 1, true);
    consumer_prefetch(s.c, 500);
    AWAIT(&s, s.n == 3000);
    for (size_t i = 0; i < s.n; i++) {
        assert_int_equal(s.ids[i], i + 1);
    }
    consumer_close(s.c, 2000);
    broker_close(b);
}

static void test_no_broker(void **state)
{
    (void)state;
    struct publisher *p = publisher_to("amqp://127.0.0.1:1/", 0, false);
    (void)publisher_offer(p, "default", 1);
    assert_true(publisher_flush(p, LIMIT_MS)); /* dropped is settled */
    assert_true(publisher_is_away(p));
    assert_false(publisher_offer(p, "default", 2));
    assert_int_equal(publisher_room(p, "default"), -1);
    assert_true(publisher_flush(p, LIMIT_MS));
    struct publisher_stats stats = stats_of(p);
    assert_int_equal(stats.offered, 2);
    assert_int_equal(stats.dropped, 2);
    assert_contains(stats.last_error, "could not connect");
    publisher_close(p, 1000);
}

/* Without the right to declare: nothing is published where nobody would get it. */
static void test_a_missing_queue_is_left_alone(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = declared(fx);
    use_other(fx, b);
    struct publisher *p = publisher_to(fx->amqp_url, 0, false);
    (void)publisher_offer(p, "other", 1);
    assert_true(publisher_flush(p, LIMIT_MS));
    assert_false(publisher_offer(p, "other", 2));
    assert_int_equal(publisher_room(p, "other"), 0);
    assert_true(publisher_offer(p, "default", 3));
    assert_true(publisher_flush(p, LIMIT_MS));
    assert_int_equal(broker_depth(b, "default"), 1);
    assert_int_equal(stats_of(p).dropped + stats_of(p).returned, 2);
    broker_declare(b, "other");
    int64_t until_ms = now_ms() + LIMIT_MS;
    while (!publisher_offer(p, "other", 4) && now_ms() < until_ms) {
        (void)poll(NULL, 0, 20);
    }
    assert_true(publisher_flush(p, LIMIT_MS));
    assert_int_equal(broker_depth(b, "other"), 1);
    publisher_close(p, 1000);
    broker_close(b);
}

static void test_a_missing_exchange(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = broker_open(fx->amqp_url);
    broker_delete_exchange(b);
    struct publisher *p = publisher_to(fx->amqp_url, 0, false);
    (void)publisher_offer(p, "default", 1);
    assert_true(publisher_flush(p, LIMIT_MS));
    struct publisher_stats stats = stats_of(p);
    assert_int_equal(stats.unconfirmed + stats.dropped, 1);
    assert_contains(stats.last_error, "no exchange 'tenon'");
    publisher_close(p, 1000);
    broker_close(b);
}

static void test_declares(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = broker_open(fx->amqp_url);
    struct publisher *p = publisher_to(fx->amqp_url, 0, true);
    use_other(fx, b);
    publisher_declare(p, "other");
    assert_true(publisher_flush(p, LIMIT_MS));
    assert_int_equal(broker_depth(b, "other"), 0);
    assert_true(publisher_offer(p, "default", 1)); /* unknown until now */
    assert_true(publisher_flush(p, LIMIT_MS));
    assert_int_equal(broker_depth(b, "default"), 1);
    broker_delete_queue(b, "default");
    assert_true(publisher_offer(p, "default", 2)); /* comes back, and the queue is made again */
    assert_true(publisher_flush(p, LIMIT_MS));
    assert_true(publisher_offer(p, "default", 3));
    assert_true(publisher_flush(p, LIMIT_MS));
    assert_int_equal(broker_depth(b, "default"), 1);
    publisher_close(p, 1000);
    broker_close(b);
}

/* A queue that an operator made in another way is bound and used as it is. */
static void test_a_queue_declared_otherwise(void **state)
{
    struct fixture *fx = *state;
    struct fault f = {0};
    struct link *l = NULL;
    assert_ok(link_open(fx->amqp_url, "test", NULL, &l, &f), &f);
    assert_ok(link_channel_open(l, 1, &f), &f);
    amqp_table_entry_t lazy = {.key = amqp_cstring_bytes("x-max-priority")};
    lazy.value.kind = AMQP_FIELD_KIND_I32;
    lazy.value.value.i32 = 3;
    (void)amqp_queue_declare(link_conn(l), 1, amqp_cstring_bytes("tenon.default"), 0, 1, 0, 0,
                             (amqp_table_t){.num_entries = 1, .entries = &lazy});
    assert_ok(link_answer(l, 1, "declare", &f), &f);
    link_close(l, 1000);
    assert_ok(amqp_declare(fx->amqp_url, "classic", one, 1, &f), &f);
    assert_ok(amqp_declare(fx->amqp_url, "classic", one, 1, &f), &f); /* and again */
    struct publisher *p = publisher_to(fx->amqp_url, 0, true);
    assert_true(publisher_offer(p, "default", 1));
    assert_true(publisher_flush(p, LIMIT_MS));
    assert_int_equal(stats_of(p).returned, 0);
    assert_int_equal(stats_of(p).confirmed, 1);
    publisher_close(p, 1000);
}

static void test_declare_says_why_not(void **state)
{
    struct fixture *fx = *state;
    struct fault f = {0};
    char url[600];
    assert_false(amqp_declare("amqp://127.0.0.1:1/", "classic", one, 1, &f));
    assert_int_equal(f.code, FAULT_RETRY);
    fault_clear(&f);
    url_with_path(fx->amqp_url, "no-such-vhost", url, sizeof url);
    assert_false(amqp_declare(url, "classic", one, 1, &f));
    assert_int_equal(f.code, FAULT_CONFIG);
    assert_contains(f.text, "no-such-vhost");
    fault_clear(&f);
    const char *at = strchr(fx->amqp_url, '@');
    (void)snprintf(url, sizeof url, "amqp://nobody:wrong-word%s", at);
    assert_false(amqp_declare(url, "classic", one, 1, &f));
    assert_int_equal(f.code, FAULT_CONFIG);
    assert_contains(f.text, "ACCESS_REFUSED");
    assert_null(strstr(f.text, "wrong-word"));
}

static void test_the_window(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = declared(fx);
    struct publisher *p = publisher_to(fx->amqp_url, 100, false);
    for (int round = 0; round < 3; round++) {
        for (int i = 1; i <= 1000; i++) {
            (void)publisher_offer(p, "default", i);
        }
        assert_true(publisher_flush(p, LIMIT_MS));
    }
    /* about the window: what was under way when the depth was asked for may come on top */
    assert_in_range(broker_depth(b, "default"), 100, 300);
    assert_int_equal(stats_of(p).dropped + stats_of(p).confirmed, 3000);
    assert_int_equal(publisher_room(p, "default"), 0);
    broker_purge(b, "default");
    int64_t until_ms = now_ms() + LIMIT_MS;
    while (publisher_room(p, "default") != 100 && now_ms() < until_ms) {
        (void)poll(NULL, 0, 5);
    }
    assert_int_equal(publisher_room(p, "default"), 100);
    assert_true(publisher_offer(p, "default", 1));
    assert_int_equal(publisher_room(p, "default"), 99);
    publisher_close(p, 1000);
    broker_close(b);
}

static void test_publisher_comes_back(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = declared(fx);
    struct publisher *p = publisher_to(fx->amqp_url, 0, false);
    assert_true(publisher_offer(p, "default", 1));
    assert_true(publisher_flush(p, LIMIT_MS));
    broker_close(b);
    broker_ctl("close_all_connections --vhost %s bye", fx->vhost);
    int64_t until_ms = now_ms() + LIMIT_MS;
    while (stats_of(p).confirmed < 2 && now_ms() < until_ms) {
        (void)publisher_offer(p, "default", 2);
        (void)publisher_flush(p, 20);
    }
    assert_true(stats_of(p).confirmed >= 2);
    assert_true(stats_of(p).connected);
    publisher_close(p, 1000);
}

static void test_too_many_queues_and_names(void **state)
{
    (void)state;
    struct publisher *p = publisher_to("amqp://127.0.0.1:1/", 0, false);
    char name[80];
    memset(name, 'q', 64);
    name[64] = '\0';
    assert_false(publisher_offer(p, name, 1));
    assert_int_equal(publisher_room(p, name), -1);
    for (int i = 0; i < PUBLISHER_QUEUES_MAX + 10; i++) {
        (void)snprintf(name, sizeof name, "q%d", i);
        bool taken = publisher_offer(p, name, 1);
        assert_false(taken && i >= PUBLISHER_QUEUES_MAX);
    }
    publisher_close(p, 0);
}

static void test_abandoned_in_a_child(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = declared(fx);
    struct publisher *p = publisher_to(fx->amqp_url, 0, false);
    assert_true(publisher_offer(p, "default", 1));
    assert_true(publisher_flush(p, LIMIT_MS));
    pid_t child = fork();
    if (child == 0) {
        publisher_abandon(p);
        struct publisher_settings settings = {.url = fx->amqp_url, .name = "child"};
        struct fault f = {0};
        struct publisher *own = NULL;
        bool ok = publisher_open(&settings, &own, &f) && publisher_offer(own, "default", 2) &&
                  publisher_flush(own, LIMIT_MS);
        publisher_close(own, 1000);
        _exit(ok ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_true(publisher_offer(p, "default", 3)); /* the parent's connection lives on */
    assert_true(publisher_flush(p, LIMIT_MS));
    assert_int_equal(stats_of(p).confirmed, 2);
    assert_int_equal(stats_of(p).unconfirmed, 0);
    assert_int_equal(broker_depth(b, "default"), 3);
    publisher_close(p, 1000);
    broker_close(b);
}

static void hang(bool takes)
{
    struct silent silent;
    silent_open(&silent, takes);
    struct publisher *p = publisher_to(silent.url, 0, false);
    int64_t start = now_ms();
    assert_true(publisher_offer(p, "default", 1)); /* nobody knows yet */
    assert_int_equal(publisher_room(p, "default"), -1);
    assert_false(publisher_flush(p, 200));
    assert_took(start, 200 + CLOSE_MS);
    start = now_ms();
    publisher_close(p, 200);
    assert_took(start, 200 + 2 * AMQP_THREAD_PATIENCE_MS + CLOSE_MS);
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
        WITH_SERVERS(test_publishes),
        cmocka_unit_test(test_no_broker),
        WITH_SERVERS(test_a_missing_queue_is_left_alone),
        WITH_SERVERS(test_a_missing_exchange),
        WITH_SERVERS(test_declares),
        WITH_SERVERS(test_a_queue_declared_otherwise),
        WITH_SERVERS(test_declare_says_why_not),
        WITH_SERVERS(test_the_window),
        WITH_SERVERS(test_publisher_comes_back),
        cmocka_unit_test(test_too_many_queues_and_names),
        WITH_SERVERS(test_abandoned_in_a_child),
        cmocka_unit_test(test_a_broker_that_never_answers),
        cmocka_unit_test(test_a_broker_that_lets_nobody_in),
    };
    return RUN_GROUP(tests);
}
