/* A worker or cleaner of a test behind two proxies of its own, one in front of each server. */
#ifndef TENON_TESTS_SUPPORT_SUBJECT_H
#define TENON_TESTS_SUPPORT_SUBJECT_H

#include "tests/support/load.h"
#include "tests/support/proxy.h"
#include "tests/support/working.h"

enum {
    START_MS = 15000,
    AT_ONCE_MS = 500, /* a call of libtenon, whatever the broker does */
    POLLED_MS = 4000, /* a worker polls every second */
    BACK_MS = 16000,  /* pauses between two tries to connect go up to 10 s, half of them jitter */
};

struct subject {
    struct process *process;
    struct proxy database, broker;
    char queue[16], key[20]; /* of its own; the routing key of its kind "a" */
    int slots;               /* of a worker; 1 */
};

/* The proxies, and the queue, which is declared. */
void subject_open(struct fixture *fx, struct subject *s);
void subject_close(struct subject *s);

/* A worker for kind "a" of its queue, and two seconds to drain; a cleaner. */
void subject_work(struct fixture *fx, struct subject *s);
void subject_clean(struct fixture *fx, struct subject *s);

/* Open n workers that have each run a task; end them with SIGTERM. */
void subjects_up(struct fixture *fx, struct subject *s, int n);
void subjects_down(struct subject *s, int n);

/* A task for its queue, announced by nobody; and until it is done. */
int64_t subject_give(struct fixture *fx, const struct subject *s, const char *payload);
void subject_run(struct fixture *fx, const struct subject *s, int64_t limit_ms);
void await_task(struct fixture *fx, int64_t id, int64_t limit_ms);

/* Wait until so many lines of its log contain the text. */
void subject_await_lines(struct subject *s, const char *text, size_t n, int64_t limit_ms);

/* Enqueue three tasks with libtenon, which publishes to amqp_url: they are there, nobody waited. */
void produce(struct fixture *fx, const char *amqp_url, const char *queue);

void assert_nobody_died(struct fixture *fx);
void assert_all_ran_once(struct fixture *fx); /* by the journal; and nothing is left */

#endif
