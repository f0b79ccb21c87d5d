/* A thread that talks to RabbitMQ, and its end within a time limit.
 *
 * rabbitmq-c can block in any send, and the resolver in any look-up. So nobody waits for such a
 * thread without a limit: its socket is shut down, and if that does not help either it is left
 * behind and frees what it owns when it wakes up. Its stack is 8 MiB (a hostile broker can send
 * deeply nested tables, which the library reads recursively), and all signals are blocked in it. */
#ifndef TENON_CORE_AMQP_THREAD_H
#define TENON_CORE_AMQP_THREAD_H

#include "core/fault.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

enum {
    AMQP_THREAD_STACK_BYTES = 8 << 20,
    AMQP_THREAD_PATIENCE_MS = 250, /* for the end, after its socket was shut down */
    AMQP_STEADY_MS = 10000,        /* a link that lasted so long was good */
};

struct amqp_thread {
    pthread_t id;
    int event; /* an eventfd */
    atomic_bool signalled, ending;
    atomic_bool over; /* the thread has ended, or nobody waits for it any more */
    pthread_mutex_t lock;
    int fd;   /* under the lock: a duplicate of its socket, so that its number stays ours even when
                 the library has closed its own; -1 = none */
    bool cut; /* under the lock: the socket is shut down, this one and any other */
    void (*run)(void *owner);
    void (*destroy)(void *owner);
    void *owner;
};

/* Start `run(owner)`, which returns soon after amqp_thread_is_ending() turned true.
 *   destroy   frees the owner, `t` within it; called once, by whoever is last
 *   false     MEMORY, RETRY: the system refused a thread or a descriptor; nothing is called */
MUST_CHECK bool amqp_thread_start(struct amqp_thread *t, void (*run)(void *),
                                  void (*destroy)(void *), void *owner, struct fault *f);

/* From any thread: end its wait. Cheap when it is awake. */
void amqp_thread_wake(struct amqp_thread *t);

/* On the thread: wait for `events` on `fd` (-1 = none), for a wake, or until due_ms on now_ms(). */
void amqp_thread_wait(struct amqp_thread *t, int fd, short events, int64_t due_ms);

bool amqp_thread_is_ending(struct amqp_thread *t);

/* On the thread: this is its socket now, -1 = none. False: no descriptor was left for a duplicate.
 */
bool amqp_thread_socket(struct amqp_thread *t, int fd);
bool amqp_thread_is_cut(struct amqp_thread *t);

/* End the thread within limit_ms and AMQP_THREAD_PATIENCE_MS. The owner is gone when this returns,
 * or will be. */
void amqp_thread_end(struct amqp_thread *t, int64_t limit_ms);

/* In a forked child: close our descriptors. The thread does not exist here. */
void amqp_thread_abandon(struct amqp_thread *t);

/* When to connect: after a link that was good at once but for a short pause, else after 0.1 s
 * doubling to 10 s, half of it by chance. */
struct amqp_pause {
    int failures;        /* in a row */
    int64_t due_ms;      /* not before then */
    int64_t up_since_ms; /* 0 = there is no link */
};

void amqp_pause_up(struct amqp_pause *p);
void amqp_pause_down(struct amqp_pause *p);

#endif
