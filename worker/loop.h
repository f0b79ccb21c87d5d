/* The worker's main loop: the only place of the main
 * thread that waits. Events go to the decider, its actions to the
 * children, the round thread and the consumer. */
#ifndef TENON_WORKER_LOOP_H
#define TENON_WORKER_LOOP_H

#include "core/amqp/amqp_consumer.h"
#include "worker/children.h"
#include "worker/metrics.h"
#include "worker/presence.h"
#include "worker/round_thread.h"
#include "worker/spans.h"

struct loop {
    struct decider *decider;
    struct mailbox *mailbox;
    struct children *children;
    struct round_thread *round_thread;
    struct presence *presence;
    struct consumer *consumer;      /* NULL = no broker */
    struct worker_metrics *metrics; /* NULL = nobody is shown any */
    struct otlp *otlp;              /* NULL = no collector */
    struct spans *spans;            /* the same */
    bool connected, ready;          /* to RabbitMQ; and present, for the first time */
    int64_t failing_ms;             /* since when rounds fail; 0 = they do not */
    char rounds_why[PRESENCE_WHY_BYTES];
    struct presence_note note; /* for the next ping */
    void (*on_ready)(void *owner);
    void *owner;
    int signal_fd;
    int64_t unix_ms; /* of the moment that is 0 in now_ms() */
    char worker_id[WORKER_ID_BYTES];
};

/* Run until the decider says so. Returns false when it ended for want of memory. */
MUST_CHECK bool loop_run(struct loop *l);

/* For children_init(): hand an event of a child to the decider at once. `owner` is the loop. */
void loop_child_event(void *owner, const struct event *event);
bool loop_child_has(void *owner, int slot, int64_t id);
bool loop_child_is_full(void *owner, int slot);

/* For consumer_open(): pass an event of the broker on as mail. `owner` is the mailbox. */
void loop_consumer_event(void *owner, const struct consumer_event *event);

#endif
