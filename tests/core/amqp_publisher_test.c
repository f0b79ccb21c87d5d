/* label: e2e */
/* timeout: 120 */
/* only: all */
/* The publisher against a real RabbitMQ, and against one that hangs. */
#include "tests/support/consumer_log.h"
#include "tests/support/proxy.h"
#include "tests/support/silent.h"

#include "core/amqp/amqp_publisher.h"
#include "core/amqp/amqp_thread.h"
#include "core/base/now.h"

#include <poll.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CLOSE_MS = 300 };

static const char mail[] = "default/mail", image[] = "default/image";

/* --- the publisher ---------------------------------------------------------------------------- */

static struct publisher *publisher_to(const char *url, bool declare)
{
    struct fault f = {0};
    struct publisher *p = NULL;
    struct publisher_settings settings = {.url = url,
                                          .name = "test",
                                          .exchange = declare ? "tenon" : NULL};
    assert_ok(publisher_open(&settings, &p, &f), &f);
    return p;
}

static bool offer(struct publisher *p, int64_t id)
{
    return publisher_offer(p, wakeup_new("tenon", mail, id));
}

/* A broker with a queue that keeps what is published. */
static struct broker *spied(struct fixture *fx)
{
    struct broker *b = broker_open(fx->amqp_url);
    broker_spy(b, mail, mail);
    return b;
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
    struct broker *b = spied(fx);
    struct publisher *p = publisher_to(fx->amqp_url, false);
    assert_false(stats_of(p).connected); /* there was no need */
    for (int i = 1; i <= 3000; i++) {
        assert_true(offer(p, i));
    }
    assert_true(publisher_flush(p, LIMIT_MS * PATIENCE));
    struct publisher_stats stats = stats_of(p);
    assert_int_equal(stats.published, 3000);
    assert_int_equal(stats.dropped, 0);
    assert_true(stats.connected);
    assert_int_equal(broker_depth(b, mail), 3000);
    publisher_close(p, 1000);
    for (int i = 1; i <= 3000; i++) {
        assert_int_equal(broker_take(b, mail), i);
    }
    broker_close(b);
}

static void test_no_broker(void **state)
{
    (void)state;
    struct publisher *p = publisher_to("amqp://127.0.0.1:1/", false);
    (void)offer(p, 1);
    assert_true(publisher_flush(p, LIMIT_MS * PATIENCE)); /* dropped is settled */
    assert_true(publisher_is_away(p));
    assert_false(offer(p, 2));
    assert_true(publisher_flush(p, LIMIT_MS * PATIENCE));
    struct publisher_stats stats = stats_of(p);
    assert_int_equal(stats.published, 0);
    assert_int_equal(stats.dropped, 2);
    assert_contains(stats.last_error, "connection refused");
    publisher_close(p, 1000);
}

static void test_a_missing_exchange(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = broker_open(fx->amqp_url);
    broker_delete_exchange(b);
    struct publisher *p = publisher_to(fx->amqp_url, false);
    (void)offer(p, 1);
    assert_true(publisher_flush(p, LIMIT_MS * PATIENCE));
    struct publisher_stats stats = stats_of(p);
    assert_int_equal(stats.dropped, 1);
    assert_contains(stats.last_error, "no exchange 'tenon'");
    publisher_close(p, 1000);
    broker_close(b);
}

/* A wake-up of a kind that no worker serves reaches RabbitMQ, which drops it. */
static void test_nobody_is_there(void **state)
{
    struct fixture *fx = *state;
    struct publisher *p = publisher_to(fx->amqp_url, true);
    assert_true(offer(p, 1));
    assert_true(publisher_flush(p, LIMIT_MS * PATIENCE));
    assert_int_equal(stats_of(p).published, 1);
    publisher_close(p, 1000);
}

/* The exchange is declared with each link, so that one that was lost comes back. */
static void test_declares_the_exchange(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = spied(fx);
    struct publisher *p = publisher_to(fx->amqp_url, true);
    assert_true(offer(p, 1));
    assert_true(publisher_flush(p, LIMIT_MS * PATIENCE));
    broker_delete_exchange(b);
    (void)offer(p, 2); /* costs the link */
    assert_true(publisher_flush(p, LIMIT_MS * PATIENCE));
    assert_int_equal(stats_of(p).dropped, 1);
    for (int64_t until_ms = patience_end_ms(LIMIT_MS); stats_of(p).published < 2;) {
        assert_true(now_ms() < until_ms);
        (void)offer(p, 3);
        assert_true(publisher_flush(p, LIMIT_MS * PATIENCE));
        (void)poll(NULL, 0, 5);
    }
    publisher_close(p, 1000);
    broker_close(b);
}

static void test_declare_says_why_not(void **state)
{
    struct fixture *fx = *state;
    struct fault f = {0};
    char url[600];
    assert_false(amqp_declare("amqp://127.0.0.1:1/", "tenon", &f));
    assert_int_equal(f.code, FAULT_RETRY);
    assert_contains(f.text, "connection refused");
    fault_clear(&f);
    url_with_path(fx->amqp_url, "no-such-vhost", url, sizeof url);
    assert_false(amqp_declare(url, "tenon", &f));
    assert_int_equal(f.code, FAULT_CONFIG);
    assert_contains(f.text, "no-such-vhost");
    fault_clear(&f);
    const char *at = strchr(fx->amqp_url, '@');
    (void)snprintf(url, sizeof url, "amqp://nobody:wrong-word%s", at);
    assert_false(amqp_declare(url, "tenon", &f));
    assert_int_equal(f.code, FAULT_CONFIG);
    assert_contains(f.text, "ACCESS_REFUSED");
    assert_null(strstr(f.text, "wrong-word"));
}

static void test_publisher_comes_back(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = spied(fx);
    struct publisher *p = publisher_to(fx->amqp_url, false);
    assert_true(offer(p, 1));
    assert_true(publisher_flush(p, LIMIT_MS * PATIENCE));
    broker_close(b);
    broker_ctl("close_all_connections --vhost %s bye", fx->vhost);
    int64_t until_ms = patience_end_ms(LIMIT_MS);
    while (stats_of(p).published < 2 && now_ms() < until_ms) {
        (void)offer(p, 2);
        (void)publisher_flush(p, 20);
    }
    assert_true(stats_of(p).published >= 2);
    assert_true(stats_of(p).connected);
    publisher_close(p, 1000);
}

static void test_names_that_are_too_long(void **state)
{
    (void)state;
    struct publisher *p = publisher_to("amqp://127.0.0.1:1/", false);
    char name[TOPOLOGY_KEY_BYTES + 1];
    memset(name, 'q', sizeof name);
    name[TOPOLOGY_KEY_BYTES] = '\0';
    assert_false(publisher_offer(p, wakeup_new("tenon", name, 1)));
    assert_false(publisher_offer(p, wakeup_new(name, mail, 1)));
    publisher_close(p, 0);
}

/* More than may be pending is dropped, and nothing is forgotten in the counts. */
static void test_too_many_at_once(void **state)
{
    (void)state;
    struct silent silent;
    silent_open(&silent, true);
    struct publisher *p = publisher_to(silent.url, false);
    for (int i = 0; i < PUBLISHER_PENDING_MAX + 10; i++) {
        assert_int_equal(offer(p, i + 1), i < PUBLISHER_PENDING_MAX);
    }
    assert_int_equal(stats_of(p).dropped, 10);
    publisher_close(p, 0);
    silent_close(&silent);
}

/* A queue that is full refuses, and is left alone for a moment; others are not, though
 * these two share a place in the table of full ones. */
static void test_a_full_queue(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = broker_open(fx->amqp_url);
    struct publisher *p = publisher_to(fx->amqp_url, false);
    broker_declare(b, mail);
    broker_spy(b, image, image);
    broker_purge(b, image);
    for (int i = 1; i <= 10050; i++) {
        assert_true(offer(p, i));
    }
    assert_true(publisher_flush(p, LIMIT_MS * PATIENCE));
    assert_int_equal(broker_depth(b, mail), 10000);
    struct publisher_stats stats = stats_of(p);
    assert_int_equal(stats.published + stats.held_back, 10050);
    assert_int_equal(stats.dropped, 0);
    assert_true(stats.held_back > 0);
    assert_true(publisher_offer(p, wakeup_new("tenon", image, 1)));
    broker_purge(b, mail);
    int64_t held_back = stats_of(p).held_back;
    while (!offer(p, 1)) { /* until the moment is over */
        held_back++;
    }
    assert_true(publisher_flush(p, LIMIT_MS * PATIENCE));
    assert_int_equal(stats_of(p).held_back, held_back);
    assert_int_equal(broker_depth(b, mail), 1);
    assert_int_equal(broker_depth(b, image), 1);
    publisher_close(p, 1000);
    broker_close(b);
}

/* Offer one to each, and one more when RabbitMQ has refused. Were those held back? */
static bool holds_back(struct fixture *fx, const char *const *keys, int n)
{
    static const char nobody[] = "default/nobody";
    struct publisher *p = publisher_to(fx->amqp_url, false);
    bool all = true;
    for (int i = -1; i <= n; i++) { /* once it has connected, as a burst; and a round trip behind */
        const char *key = i < 0 || i == n ? nobody : keys[i];
        assert_true(publisher_offer(p, wakeup_new("tenon", key, 1)));
        assert_true((i >= 0 && i < n - 1) || publisher_flush(p, LIMIT_MS * PATIENCE));
    }
    for (int i = 0; i < n; i++) {
        all = !publisher_offer(p, wakeup_new("tenon", keys[i], 1)) && all;
    }
    publisher_close(p, 1000);
    return all;
}

/* Each is left alone, though the last two share a place, and though RabbitMQ refuses with one
 * answer what was published to several. On a busy machine the moment may be over too soon. */
static void test_several_full_queues(void **state)
{
    static const char *const keys[] = {"default/post", "default/print", "default/invoice"};
    enum { KEYS = 3, ROUNDS = 30 };
    struct fixture *fx = *state;
    struct broker *b = broker_open(fx->amqp_url);
    int held_back = 0;
    for (int i = 0; i < KEYS; i++) {
        broker_refuse(b, keys[i]);
    }
    for (int i = 0; i < ROUNDS; i++) {
        held_back += holds_back(fx, keys, KEYS);
    }
    print_message("in %d of %d rounds all were held back\n", held_back, ROUNDS);
    assert_true(held_back > ROUNDS / 2);
    broker_close(b);
}

/* No more is under way than it is known where it went: a late refusal would silence another key.
 * While the answers are late, the thread waits. */
static void test_answers_are_late(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = spied(fx);
    struct proxy proxy;
    proxy_open(&proxy, fx->amqp_url);
    struct publisher *p = publisher_to(proxy.url, false);
    assert_true(offer(p, 1));
    assert_true(publisher_flush(p, LIMIT_MS * PATIENCE));
    proxy_stall(&proxy, PROXY_TO_CLIENT, true);
    for (int i = 0; i < 6000; i++) {
        assert_true(offer(p, 2));
    }
    await_depth(b, mail, 1 + 4096);
    clock_t cpu = clock();
    assert_false(publisher_flush(p, 300));
    assert_true(clock() - cpu < CLOCKS_PER_SEC / 10);
    assert_int_equal(broker_depth(b, mail), 1 + 4096);
    proxy_stall(&proxy, PROXY_TO_CLIENT, false);
    assert_true(publisher_flush(p, LIMIT_MS * PATIENCE));
    assert_int_equal(stats_of(p).published, 6001);
    assert_int_equal(broker_depth(b, mail), 6001);
    publisher_close(p, 1000);
    proxy_close(&proxy);
    broker_close(b);
}

static void test_abandoned_in_a_child(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = spied(fx);
    struct publisher *p = publisher_to(fx->amqp_url, false);
    assert_true(offer(p, 1));
    assert_true(publisher_flush(p, LIMIT_MS * PATIENCE));
    pid_t child = fork();
    if (child == 0) {
        publisher_abandon(p);
        struct publisher_settings settings = {.url = fx->amqp_url, .name = "child"};
        struct fault f = {0};
        struct publisher *own = NULL;
        bool ok = publisher_open(&settings, &own, &f) && offer(own, 2) &&
                  publisher_flush(own, LIMIT_MS);
        publisher_close(own, 1000);
        _exit(ok ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_true(offer(p, 3)); /* the parent's connection lives on */
    assert_true(publisher_flush(p, LIMIT_MS * PATIENCE));
    assert_int_equal(stats_of(p).published, 2);
    assert_int_equal(stats_of(p).dropped, 0);
    assert_int_equal(broker_depth(b, mail), 3);
    publisher_close(p, 1000);
    broker_close(b);
}

static void hang(bool takes)
{
    struct silent silent;
    silent_open(&silent, takes);
    struct publisher *p = publisher_to(silent.url, false);
    int64_t start = now_ms();
    assert_true(offer(p, 1)); /* nobody knows yet */
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
        WITH_SERVERS(test_a_missing_exchange),
        WITH_SERVERS(test_nobody_is_there),
        WITH_SERVERS(test_declares_the_exchange),
        WITH_SERVERS(test_declare_says_why_not),
        WITH_SERVERS(test_publisher_comes_back),
        cmocka_unit_test(test_names_that_are_too_long),
        cmocka_unit_test(test_too_many_at_once),
        WITH_SERVERS(test_a_full_queue),
        WITH_SERVERS(test_several_full_queues),
        WITH_SERVERS(test_answers_are_late),
        WITH_SERVERS(test_abandoned_in_a_child),
        cmocka_unit_test(test_a_broker_that_never_answers),
        cmocka_unit_test(test_a_broker_that_lets_nobody_in),
    };
    return RUN_GROUP(tests);
}
