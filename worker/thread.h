/* The end of a thread, which nobody waits for without a limit. */
#ifndef TENON_WORKER_THREAD_H
#define TENON_WORKER_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Wait for its end for at most limit_ms. false: it goes on, and what it uses must stay. */
bool thread_join(pthread_t id, int64_t limit_ms);

#endif
