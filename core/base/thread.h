/* A thread: how it starts, how poll() in it is woken, and how it ends within a time limit. */
#ifndef TENON_CORE_THREAD_H
#define TENON_CORE_THREAD_H

#include "core/base/fault.h"

#include <pthread.h>
#include <stdint.h>

/* Start it with all signals blocked: they are for the main thread.
 *   stack_bytes  0 = the system's default
 *   what         for the fault: "could not start a thread for RabbitMQ"
 *   false        RETRY: the system refused it */
MUST_CHECK bool thread_start(pthread_t *ret, size_t stack_bytes, void *(*run)(void *), void *arg,
                             const char *what, struct fault *f);

/* Wait for its end for at most limit_ms. false: it still runs, and what it uses must stay. */
MUST_CHECK bool thread_join(pthread_t id, int64_t limit_ms);

/* A descriptor (an eventfd) that is readable after wakefd_set(), until wakefd_clear(). Neither of
 * them blocks; wakefd_set() may be called in a signal handler. The caller closes it.
 *   false   RETRY: the system refused a descriptor, and `*ret_fd` is -1 */
MUST_CHECK bool wakefd_open(int *ret_fd, struct fault *f);
void wakefd_set(int fd);
void wakefd_clear(int fd);

#endif
