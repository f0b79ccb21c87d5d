/* What an error of PostgreSQL means for the task. */
#ifndef TENON_HANDLERS_SQL_VERDICT_H
#define TENON_HANDLERS_SQL_VERDICT_H

#include "handlers/pool.h"

/* What a function raises to say how its task is to end. */
#define SQLSTATE_DEAD "TN001"
#define SQLSTATE_SNOOZE "TN002"
/* The connection broke: nobody said what became of the transaction. */
#define SQLSTATE_LOST "08006"

enum { AGAIN_MS = 1000 }; /* after a deadlock or a serialization failure */

struct sql_error {
    const char *sqlstate, *message;
    const char *detail, *context; /* NULL = none */
};

enum { SQL_VERDICT_BYTES = 4096 };

struct sql_verdict {
    struct pool_answer answer; /* its texts are here */
    char text[SQL_VERDICT_BYTES], class[6];
};

/* TN001 is dead; TN002 later, in the time of its detail ("5min"), else in a minute. A server that
 * shuts down interrupts. All else is failed: after a deadlock or a serialization failure again in
 * a second. */
void sql_verdict_of(const struct sql_error *error, struct sql_verdict *ret);

#endif
