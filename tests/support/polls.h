/* worker/poll.sql as tests run it. */
#ifndef TENON_TESTS_SUPPORT_POLLS_H
#define TENON_TESTS_SUPPORT_POLLS_H

#include "tests/support/held.h"

/* Its parameters but the first three, for the queue default: a sweep from the head of the index,
 * from the highest priority down; and a poll from a cursor, which leaves out what others marked. */
#define POLL_EVER "9000000000000"
#define POLL_KEYS_10(d) d "0," d "1," d "2," d "3," d "4," d "5," d "6," d "7," d "8," d "9,"
#define POLL_KEYS                                                                                  \
    "{" POLL_KEYS_10("10") POLL_KEYS_10("11") POLL_KEYS_10("12") POLL_KEYS_10("13")                \
        POLL_KEYS_10("14") POLL_KEYS_10("15") POLL_KEYS_10("16") POLL_KEYS_10("17")                \
            POLL_KEYS_10("18") POLL_KEYS_10("19") "200}" /* for up to 101 claims */
#define POLL_DEFAULT                                                                               \
    "{default,default,default,default,default,default,default,default,default,default}"
#define POLL_HEAD                                                                                  \
    POLL_DEFAULT, "{9,8,7,6,5,4,3,2,1,0}", "{NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL}",  \
        "{0,0,0,0,0,0,0,0,0,0}", "10000", "16777216", "true", POLL_EVER, POLL_KEYS
#define POLL_FROM_1970                                                                             \
    POLL_DEFAULT, "{9,8,7,6,5,4,3,2,1,0}", "{0,0,0,0,0,0,0,0,0,0}", "{0,0,0,0,0,0,0,0,0,0}",       \
        "10000", "16777216", "false", POLL_EVER, POLL_KEYS

enum {
    POLL_PARAMS = 12,
    PARAM_MARKED = 9,
    COLUMN_ID = 0,
    COLUMN_PAYLOAD = 10,
    COLUMN_RUN_AT = 15,
    COLUMN_RANGE = 16, /* NULL = a claimed task */
    COLUMN_END = 17,   /* true: full; false: bounded */
};

/* A poll of these queues from the head; an error fails the test. PQclear() what it returns. */
PGresult *poll_run(PGconn *conn, const char *worker, const char *queues, const char *kinds,
                   const char *n);

/* How many tasks were claimed: their rows come first. */
int poll_claimed(const PGresult *result);

#endif
