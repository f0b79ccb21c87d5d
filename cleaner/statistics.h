/* What the database has, for /metrics of the cleaner that leads: gathered when somebody asks, in a
 * session of its own, at most once in STATISTICS_EVERY_MS. */
#ifndef TENON_CLEANER_STATISTICS_H
#define TENON_CLEANER_STATISTICS_H

#include "core/base/buf.h"

enum {
    STATISTICS_EVERY_MS = 5000,
    STATISTICS_STATEMENT_LIMIT_MS = 2000, /* its usual is under 50 */
    STATISTICS_ANSWER_LIMIT_MS = 5000,
};

/* How far counts go, beyond which a queue is shown as the leader counted it; queues, and limits. */
#define STATISTICS_ROWS_MAX "10000"
#define STATISTICS_QUEUES_MAX "200"
#define STATISTICS_LIMITS_MAX "100"

struct statistics;

/* `url` is borrowed. Nothing is connected yet. */
MUST_CHECK bool statistics_open(const char *url, struct statistics **ret, struct fault *f);
void statistics_close(struct statistics *s); /* NULL is fine */

/* Any thread. What cannot be gathered is left out; the log says why, once. */
void statistics_write(struct statistics *s, struct buf *b);

/* It is another's turn: close the session, and forget what was gathered. */
void statistics_rest(struct statistics *s);

#endif
