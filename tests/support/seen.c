#include "tests/support/seen.h"

#include "core/now.h"

#include <poll.h>
#include <stdio.h>

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

void await_depth(struct broker *b, const char *queue, int64_t depth)
{
    int64_t until_ms = now_ms() + LIMIT_MS, seen;
    while ((seen = broker_depth(b, queue)) != depth) {
        if (now_ms() >= until_ms) {
            fail_msg("tenon.%s holds %lld ids, not %lld", queue, (long long)seen, (long long)depth);
        }
        (void)poll(NULL, 0, 2);
    }
}

static void open_consumer(struct seen *s, bool acks, struct consumer_settings settings)
{
    struct fault f = {0};
    *s = (struct seen){.acks = acks};
    (void)pthread_mutex_init(&s->lock, NULL);
    (void)pthread_cond_init(&s->news, NULL);
    settings.name = "test";
    settings.on_event = on_event;
    settings.owner = s;
    (void)pthread_mutex_lock(&s->lock); /* no event before s->c is set */
    assert_ok(consumer_open(&settings, &s->c, &f), &f);
    (void)pthread_mutex_unlock(&s->lock);
}

void seen_listen(struct seen *s, const char *url, const char *const *queues, size_t n, bool acks)
{
    open_consumer(s, acks, (struct consumer_settings){.url = url, .queues = queues, .n_queues = n});
}

void seen_watch(struct seen *s, const char *url, const char *queue, bool acks, int64_t watch_ms)
{
    open_consumer(s, acks,
                  (struct consumer_settings){
                      .url = url, .queues = &queue, .n_queues = 1, .watch_ms = watch_ms});
}

void use_other(struct fixture *fx, struct broker *b)
{
    test_sql(fx, "INSERT INTO tenon.queue (name) VALUES ('other')");
    broker_delete_queue(b, "other");
}

void publish_ids(struct broker *b, const char *queue, int from, int n)
{
    for (int i = from; i < from + n; i++) {
        char body[24];
        int len = snprintf(body, sizeof body, "%d", i);
        broker_publish(b, queue, body, (size_t)len);
    }
}

struct broker *declared(struct fixture *fx)
{
    struct broker *b = broker_open(fx->amqp_url);
    broker_declare(b, "default");
    return b;
}
