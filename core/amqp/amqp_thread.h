/* A thread that has a link to RabbitMQ, and its end within a time limit.
 *
 * It connects, lets its owner work while the link lasts, and connects again for ever, after a
 * jittered pause of 0.1 s doubling to 10 s. rabbitmq-c can block in any send, and the resolver in
 * any look-up. So nobody waits for such a thread without a limit: one that does not end is left
 * behind and frees what it owns when it wakes up, at the latest when the kernel gives its
 * connection up (LINK_USER_TIMEOUT_MS). Its stack is 8 MiB (a hostile broker can send deeply nested
 * tables, which the library reads recursively), and all signals are blocked in it. */
#ifndef TENON_CORE_AMQP_THREAD_H
#define TENON_CORE_AMQP_THREAD_H

#include "core/amqp/amqp_url.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

enum {
    AMQP_THREAD_STACK_BYTES = 8 << 20,
    AMQP_THREAD_NAME_BYTES = 128,
    AMQP_THREAD_PATIENCE_MS = 250, /* for the end, beyond what it was given */
    AMQP_STEADY_MS = 10000,        /* a link that lasted this long was good */
};

/* When to connect: after a link that was good after a short pause, else after 0.1 s
 * doubling to 10 s, half of it by chance. */
struct amqp_pause {
    int failures;        /* in a row */
    int64_t due_ms;      /* not before then */
    int64_t up_since_ms; /* 0 = there is no link */
};

void amqp_pause_up(struct amqp_pause *p);
void amqp_pause_down(struct amqp_pause *p);

/* What the owner does, on the thread. False is a fault, which costs the link. */
struct amqp_duty {
    bool (*up)(void *owner, struct fault *f);   /* a new link, before anything else */
    bool (*work)(void *owner, struct fault *f); /* all that is due, without waiting for more */
    void (*down)(void *owner, const struct fault *f); /* the link is lost, or cannot be had */
    void (*destroy)(void *owner);                     /* free it; once, by the last user */
};

struct amqp_thread {
    pthread_t id;
    int event; /* an eventfd */
    atomic_bool ending;
    atomic_bool over;   /* the thread has ended, or nobody waits for it any more */
    atomic_bool wanted; /* connect */
    int64_t close_ms;   /* to close in good order; written before the thread is asked to end */
    const struct amqp_duty *duty;
    void *owner;

    /* the rest is the thread's, and its owner's on it */
    struct amqp_url url;
    char name[AMQP_THREAD_NAME_BYTES];
    struct link *link; /* set in up() and work() */
    struct amqp_pause pause;
    bool unsent;    /* work again when the socket takes more */
    int64_t due_ms; /* work again at this time at the latest; 0 = when there is something to do */
};

/* Start it; it connects when amqp_thread_want() was called.
 *   name    shown in RabbitMQ's list of connections
 *   false   CONFIG: the URL; MEMORY; RETRY: the system refused a thread or a descriptor. Nothing
 *           is called */
MUST_CHECK bool amqp_thread_start(struct amqp_thread *t, const char *url, const char *name,
                                  const struct amqp_duty *duty, void *owner, struct fault *f);

/* From any thread: be connected; and work, for there is something to do. */
void amqp_thread_want(struct amqp_thread *t);

/* End the thread within limit_ms and AMQP_THREAD_PATIENCE_MS: it works once more, and says
 * good-bye. The owner is gone when this returns, or will be. */
void amqp_thread_end(struct amqp_thread *t, int64_t limit_ms);

/* In a forked child: close our descriptor. The thread does not exist here. */
void amqp_thread_abandon(struct amqp_thread *t);

#endif
