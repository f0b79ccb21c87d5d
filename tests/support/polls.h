/* worker/poll.sql as tests run it. */
#ifndef TENON_TESTS_SUPPORT_POLLS_H
#define TENON_TESTS_SUPPORT_POLLS_H

#include "tests/support/held.h"

/* Its parameters but the first three, for the queue default: a sweep from the head of the index,
 * from the highest priority down; and a poll from a cursor, which leaves out what others marked. */
#define POLL_EVER "9000000000000"
#define POLL_DEFAULT                                                                               \
    "{default,default,default,default,default,default,default,default,default,default}"
#define POLL_HEAD                                                                                  \
    POLL_DEFAULT, "{9,8,7,6,5,4,3,2,1,0}", "{NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL}",  \
        "{0,0,0,0,0,0,0,0,0,0}", "10000", "16777216", "true", POLL_EVER
#define POLL_FROM_1970                                                                             \
    POLL_DEFAULT, "{9,8,7,6,5,4,3,2,1,0}", "{0,0,0,0,0,0,0,0,0,0}", "{0,0,0,0,0,0,0,0,0,0}",       \
        "10000", "16777216", "false", POLL_EVER

enum {
    POLL_PARAMS = 11,
    PARAM_MARKED = 9,
    COLUMN_ID = 0,
    COLUMN_PAYLOAD = 10,
    COLUMN_RUN_AT = 14,
    COLUMN_RANGE = 15, /* NULL = a claimed task */
    COLUMN_END = 16,   /* true: full; false: bounded */
};

/* A poll of these queues from the head; an error fails the test. PQclear() what it returns. */
PGresult *poll_run(PGconn *conn, const char *worker, const char *queues, const char *kinds,
                   const char *n);

/* How many tasks were claimed: their rows come first. */
int poll_claimed(const PGresult *result);

#endif
