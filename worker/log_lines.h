/* The lines that handlers have logged and tenon.log_line does not have yet. The main thread adds
 * them, the round thread writes them between its rounds, in a transaction of their own: about once
 * a second, or sooner when there are many. What does not fit is in the worker's log only. */
#ifndef TENON_WORKER_LOG_LINES_H
#define TENON_WORKER_LOG_LINES_H

#include "core/db/db.h"

enum {
    LOG_WRITE_EVERY_MS = 500,        /* how long the first line waits for others */
    LOG_WRITE_LATE_MS = 1000,        /* then the next round waits */
    LOG_WRITE_LINES_MAX = 500,       /* of one statement */
    LOG_WRITE_BYTES_MAX = 512 << 10, /* the same, without its last line */
    LOG_WRITE_LIMIT_MS = 5000,       /* a statement without an answer for this long is given up */
    LOG_WRITE_RETRY_MS = 5000,       /* after one that failed */
    LOG_WAITING_BYTES_MAX = 4 << 20, /* of all lines that wait */
};

struct log_lines;

/* `message` and `fields` are borrowed for the call; NULL = no fields. */
struct log_line {
    int64_t task;
    int attempt;
    const char *level, *message, *fields;
};

struct log_lines *log_lines_new(void); /* NULL: no memory */
void log_lines_free(struct log_lines *l);

/* True: it is the first that waits, and log_lines_due() has changed. */
bool log_lines_add(struct log_lines *l, const struct log_line *line);

/* When to write them, if there is time; INT64_MAX: there are none. */
int64_t log_lines_due(struct log_lines *l);

/* Write some. A failure is logged once; then they are tried again later. */
bool log_lines_write(struct log_lines *l, struct db *db);

#endif
