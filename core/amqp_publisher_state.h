/* The publisher's state, shared by its calls (amqp_publisher.c) and its thread
 * (amqp_publisher_thread.c). */
#ifndef TENON_CORE_AMQP_PUBLISHER_STATE_H
#define TENON_CORE_AMQP_PUBLISHER_STATE_H

#include "core/amqp_confirms.h"
#include "core/amqp_publisher.h"
#include "core/amqp_route.h"

struct wakeup {
    struct route *route;
    int64_t id;
};

struct publisher {
    struct amqp_thread thread;
    char *url, *name, *declare;
    int64_t window;

    /* The lock guards what stands from here to the mark. */
    pthread_mutex_t lock;
    pthread_cond_t settled;
    struct route *routes; /* a hash by name */
    struct route *route_list[PUBLISHER_QUEUES_MAX];
    size_t n_routes;
    struct wakeup *ring; /* of PUBLISHER_PENDING_MAX */
    size_t ring_first, ring_n;
    bool wanted;         /* something was offered or asked: connect */
    bool away;           /* the last try to connect failed: take nothing in */
    bool blocked;        /* an alarm */
    int64_t n_questions; /* routes that want to ask or to declare */
    struct publisher_stats stats;
    /* --- mark: the rest is the thread's --- */

    struct link *link;
    int failures;
    int64_t connect_due_ms, up_since_ms, burst_us;
    struct confirms confirms;
    struct refusals refusals;
    bool refused; /* they are why the link is closed */
    int64_t confirm_progress_ms;
    struct route *asking; /* whose depth is being asked for */
    int64_t asked_ms;
};

/* The thread's life: until amqp_thread_is_ending(). */
void publisher_run(void *owner);

/* These want the lock held. */
struct route *publisher_route(struct publisher *p, const char *queue, bool add); /* NULL: none */
void publisher_want(struct publisher *p, bool *question); /* of a route: wants_ask, wants_declare */
void publisher_want_no_more(struct publisher *p, bool *question);
void publisher_drop_pending(struct publisher *p);
void publisher_signal(struct publisher *p); /* wake those who flush, if all is settled */

#endif
