/* libtenon as tests use it. */
#ifndef TENON_TESTS_SUPPORT_PRODUCER_H
#define TENON_TESTS_SUPPORT_PRODUCER_H

#include "tests/support/broker.h"
#include "tests/support/fixture.h"

#include "include/tenon/tenon.h"

enum { LIMIT_MS = 15000 };

/* A handle, and a queue "default" that its ids arrive in. */
tenon *make(struct fixture *fx, struct broker **ret);

/* A task of this kind, all else by default. */
tenon_task task_of(const char *kind);

/* Enqueue one; it must succeed. Returns its id. */
int64_t enqueue(tenon *t, PGconn *conn);

/* All that was published has arrived, and it is so many. */
void assert_arrived(tenon *t, struct broker *b, int64_t n);

int64_t tasks(struct fixture *fx); /* rows of tenon.task */

#define assert_code(call, code)                                                                    \
    do {                                                                                           \
        int got_code = (call);                                                                     \
        if (got_code != (code)) {                                                                  \
            fail_msg("%s: %s (%s), not %s", #call, tenon_strerror(got_code), tenon_errmsg(),       \
                     tenon_strerror(code));                                                        \
        }                                                                                          \
    } while (0)

#endif
