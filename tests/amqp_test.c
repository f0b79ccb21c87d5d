/* label: e2e */
/* timeout: 180 */
/* The consumer and the publisher against a real RabbitMQ, and against one that hangs. */
#include "tests/support/broker.h"
#include "tests/support/fixture.h"

#include "core/amqp_consumer.h"
#include "core/amqp_link.h"
#include "core/amqp_publisher.h"
#include "core/now.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LIMIT_MS = 15000, IDS_MAX = 4096, CLOSE_MS = 300 };

/* --- what a consumer told ---------------------------------------------------------------------- */

struct seen {
    pthread_mutex_t lock;
    pthread_cond_t news;
    struct consumer *c;
    bool acks; /* ack everything at once */
    int ups, downs;
    int64_t epoch, hostile;
    uint64_t last_tag;
    size_t n;
    int64_t ids[IDS_MAX];
    char down[512];
};

static void on_event(void *owner, const struct consumer_event *e)
{
    struct seen *s = owner;
    (void)pthread_mutex_lock(&s->lock);
    s->hostile += e->hostile;
    switch (e->type) {
    case CONSUMER_UP:
        s->ups++;
        s->epoch = e->epoch;
        break;
    case CONSUMER_DOWN:
        s->downs++;
        (void)snprintf(s->down, sizeof s->down, "%s", e->text);
        break;
    case CONSUMER_WAKEUPS:
        for (size_t i = 0; i < e->n && s->n < IDS_MAX; i++) {
            s->ids[s->n++] = e->ids[i];
        }
        s->last_tag = e->last_tag;
        if (s->acks) {
            consumer_ack(s->c, e->epoch, e->last_tag);
        }
        break;
    }
    (void)pthread_cond_broadcast(&s->news);
    (void)pthread_mutex_unlock(&s->lock);
}

/* Wait until `condition`, which may use s, holds. */
#define AWAIT(s, condition)                                                                        \
    do {                                                                                           \
        struct timespec until;                                                                     \
        (void)clock_gettime(CLOCK_REALTIME, &until);                                               \
        until.tv_sec += LIMIT_MS / 1000;                                                           \
        int late = 0;                                                                              \
        (void)pthread_mutex_lock(&(s)->lock);                                                      \
        while (!(condition) && late == 0) {                                                        \
            late = pthread_cond_timedwait(&(s)->news, &(s)->lock, &until);                         \
        }                                                                                          \
        bool held = (condition);                                                                   \
        (void)pthread_mutex_unlock(&(s)->lock);                                                    \
        if (!held) {                                                                               \
            fail_msg("not so: %s (n %zu, ups %d, downs %d, %s)", #condition, (s)->n, (s)->ups,     \
                     (s)->downs, (s)->down);                                                       \
        }                                                                                          \
    } while (0)

static void await_depth(struct broker *b, const char *queue, int64_t depth)
{
    int64_t until_ms = now_ms() + LIMIT_MS, seen;
    while ((seen = broker_depth(b, queue)) != depth) {
        if (now_ms() >= until_ms) {
            fail_msg("tenon.%s holds %lld ids, not %lld", queue, (long long)seen, (long long)depth);
        }
        (void)poll(NULL, 0, 2);
    }
}

static void listen_to(struct seen *s, const char *url, const char *const *queues, size_t n,
                      bool acks)
{
    struct fault f = {0};
    *s = (struct seen){.acks = acks};
    (void)pthread_mutex_init(&s->lock, NULL);
    (void)pthread_cond_init(&s->news, NULL);
    struct consumer_settings settings = {.url = url,
                                         .name = "test",
                                         .queues = queues,
                                         .n_queues = n,
                                         .on_event = on_event,
                                         .owner = s};
    (void)pthread_mutex_lock(&s->lock); /* no event before s->c is set */
    assert_ok(consumer_open(&settings, &s->c, &f), &f);
    (void)pthread_mutex_unlock(&s->lock);
}

static const char *const one[] = {"default"};
static const char *const two[] = {"default", "other"};

/* A queue of the fixture beside "default"; named in the database, so that it is removed at the end. */
static void use_other(struct fixture *fx, struct broker *b)
{
    test_sql(fx, "INSERT INTO tenon.queue (name) VALUES ('other')");
    broker_delete_queue(b, "other");
}

static void publish_ids(struct broker *b, const char *queue, int from, int n)
{
    for (int i = from; i < from + n; i++) {
        char body[24];
        int len = snprintf(body, sizeof body, "%d", i);
        broker_publish(b, queue, body, (size_t)len);
    }
}

static struct broker *declared(struct fixture *fx)
{
    struct broker *b = broker_open(fx->amqp_url);
    broker_declare(b, "default");
    return b;
}

/* --- the consumer ------------------------------------------------------------------------------- */

static void test_delivers(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = declared(fx);
    struct seen s;
    publish_ids(b, "default", 1, 50);
    listen_to(&s, fx->amqp_url, one, 1, true);
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
    listen_to(&s, fx->amqp_url, one, 1, false);
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
    listen_to(&s, fx->amqp_url, one, 1, false);
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
    listen_to(&s, fx->amqp_url, one, 1, false);
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
    listen_to(&s, fx->amqp_url, one, 1, false);
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
    listen_to(&s, fx->amqp_url, one, 1, true);
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
    listen_to(&s, fx->amqp_url, two, 2, true);
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

static void test_a_deleted_queue_is_found_again(void **state)
{
    struct fixture *fx = *state;
    struct broker *b = declared(fx);
    struct seen s;
    publish_ids(b, "default", 1, 1);
    listen_to(&s, fx->amqp_url, one, 1, true);
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
    listen_to(&s, fx->amqp_url, one, 1, false);
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
    listen_to(&s, url, one, 1, false);
    AWAIT(&s, s.downs == 1);
    assert_contains(s.down, "no-such-vhost");
    consumer_close(s.c, 2000);
    listen_to(&s, "amqp://nobody:wrong-word@127.0.0.1:1/", one, 1, false);
    AWAIT(&s, s.downs == 1);
    assert_contains(s.down, "could not connect");
    assert_null(strstr(s.down, "wrong-word"));
    consumer_close(s.c, 2000);
}

/* --- a broker that hangs ------------------------------------------------------------------------ */

/* Takes connections (the kernel does) and never says a word. */
static int silent_server(char url[100], int backlog)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(fd, backlog), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    (void)snprintf(url, 100, "amqp://127.0.0.1:%d/", ntohs(address.sin_port));
    return fd;
}

static void assert_took(int64_t since_ms, int64_t at_most_ms)
{
    int64_t took = now_ms() - since_ms;
    if (took > at_most_ms) {
        fail_msg("it took %lld ms, allowed were %lld", (long long)took, (long long)at_most_ms);
    }
}

static void hang(int backlog)
{
    char url[100];
    int fd = silent_server(url, backlog);
    struct seen s;
    struct publisher *p;
    struct fault f = {0};
    struct publisher_settings settings = {.url = url, .name = "test"};
    int full = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (backlog == 0) { /* somebody waits there already, so that nobody else is let in */
        struct sockaddr_in address;
        socklen_t len = sizeof address;
        assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
        (void)connect(full, (struct sockaddr *)&address, len);
    }
    listen_to(&s, url, one, 1, false);
    assert_ok(publisher_open(&settings, &p, &f), &f);
    int64_t start = now_ms();
    assert_true(publisher_offer(p, "default", 1)); /* nobody knows yet */
    assert_int_equal(publisher_room(p, "default"), -1);
    assert_false(publisher_flush(p, 200));
    consumer_prefetch(s.c, 1);
    assert_took(start, 200 + CLOSE_MS);
    start = now_ms();
    consumer_close(s.c, 200);
    assert_took(start, 200 + AMQP_THREAD_PATIENCE_MS + CLOSE_MS);
    start = now_ms();
    publisher_close(p, 200);
    assert_took(start, 200 + 2 * AMQP_THREAD_PATIENCE_MS + CLOSE_MS);
    (void)close(full);
    (void)close(fd);
}

static void test_a_broker_that_never_answers(void **state)
{
    (void)state;
    hang(16);
}

static void test_a_broker_that_lets_nobody_in(void **state)
{
    (void)state;
    hang(0);
}

/* --- the publisher ------------------------------------------------------------------------------ */

static struct publisher *publisher_to(const char *url, int64_t window, bool declare)
{
    struct fault f = {0};
    struct publisher *p = NULL;
    struct publisher_settings settings = {.url = url,
                                          .name = "test",
                                          .window = window,
                                          .declare = declare};
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
    listen_to(&s, fx->amqp_url, one, 1, true);
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
    assert_ok(amqp_declare(fx->amqp_url, one, 1, &f), &f);
    assert_ok(amqp_declare(fx->amqp_url, one, 1, &f), &f); /* and again */
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
    assert_false(amqp_declare("amqp://127.0.0.1:1/", one, 1, &f));
    assert_int_equal(f.code, FAULT_RETRY);
    fault_clear(&f);
    url_with_path(fx->amqp_url, "no-such-vhost", url, sizeof url);
    assert_false(amqp_declare(url, one, 1, &f));
    assert_int_equal(f.code, FAULT_CONFIG);
    assert_contains(f.text, "no-such-vhost");
    fault_clear(&f);
    const char *at = strchr(fx->amqp_url, '@');
    (void)snprintf(url, sizeof url, "amqp://nobody:wrong-word%s", at);
    assert_false(amqp_declare(url, one, 1, &f));
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
        WITH_SERVERS(test_a_deleted_queue_is_found_again),
        WITH_SERVERS(test_a_lost_connection_comes_back),
        WITH_SERVERS(test_says_why_it_is_down),
        cmocka_unit_test(test_a_broker_that_never_answers),
        cmocka_unit_test(test_a_broker_that_lets_nobody_in),
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
    };
    return RUN_GROUP(tests);
}
