#include "tests/support/consumer_log.h"

#include "core/base/now.h"

#include <poll.h>
#include <stdio.h>

static void on_event(void *owner, const struct consumer_event *e)
{
    struct consumer_log *s = owner;
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

void await_depth(struct broker *b, const char *key, int64_t depth)
{
    int64_t until_ms = patience_end_ms(LIMIT_MS), seen;
    while ((seen = broker_depth(b, key)) != depth) {
        if (now_ms() >= until_ms) {
            fail_msg("tenon.%s holds %lld ids, not %lld", key, (long long)seen, (long long)depth);
        }
        (void)poll(NULL, 0, 2);
    }
}

void consumer_log_start(struct consumer_log *s, const char *url, const char *keys, bool acks)
{
    struct fault f = {0};
    struct consumer_settings settings = {
        .url = url, .exchange = "tenon", .keys = keys, .on_event = on_event, .owner = s};
    *s = (struct consumer_log){.acks = acks};
    (void)pthread_mutex_init(&s->lock, NULL);
    (void)pthread_cond_init(&s->news, NULL);
    (void)pthread_mutex_lock(&s->lock); /* no event before s->c is set */
    assert_ok(consumer_open(&settings, &s->c, &f), &f);
    (void)pthread_mutex_unlock(&s->lock);
}

void publish_ids(struct broker *b, const char *key, int from, int n)
{
    for (int i = from; i < from + n; i++) {
        char body[24];
        int len = snprintf(body, sizeof body, "%d", i);
        broker_publish(b, key, body, (size_t)len);
    }
}

struct broker *declared(struct fixture *fx)
{
    struct broker *b = broker_open(fx->amqp_url);
    broker_declare(b, "default/a");
    return b;
}
