/* What a consumer reports, for tests; and waiting for it, and for the depth of a queue. */
#ifndef TENON_TESTS_SUPPORT_CONSUMER_LOG_H
#define TENON_TESTS_SUPPORT_CONSUMER_LOG_H

#include "tests/support/broker.h"
#include "tests/support/fixture.h"

#include "core/amqp/amqp_consumer.h"

#include <pthread.h>
#include <time.h>

enum { LIMIT_MS = 15000, IDS_MAX = 4096 };

struct consumer_log {
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

/* Wait until `condition`, which may use s, holds. */
#define AWAIT(s, condition)                                                                        \
    do {                                                                                           \
        struct timespec until;                                                                     \
        (void)clock_gettime(CLOCK_REALTIME, &until);                                               \
        until.tv_sec += LIMIT_MS / 1000 * PATIENCE;                                                \
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

/* Start a consumer of these routing keys, separated by blanks, that reports to `s`, which acks at
 * once if it `acks`. */
void consumer_log_start(struct consumer_log *s, const char *url, const char *keys, bool acks);

void await_depth(struct broker *b, const char *key, int64_t depth);

/* A broker with the queue "default/a". */
struct broker *declared(struct fixture *fx);

/* Publish the ids from, from + 1 ... */
void publish_ids(struct broker *b, const char *key, int from, int n);

#endif
