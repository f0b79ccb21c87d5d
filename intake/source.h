/* A queue or stream of RabbitMQ from which messages are taken.
 *
 * A thread with a connection to RabbitMQ and a session of PostgreSQL of its own, so that nothing
 * that happens to one source delays another. It consumes, takes what has arrived into the database
 * in pieces of one transaction each, and acknowledges after the commit. Without PostgreSQL it keeps
 * what has arrived and tries again; without RabbitMQ it forgets that, since it is delivered
 * again. */
#ifndef TENON_INTAKE_SOURCE_H
#define TENON_INTAKE_SOURCE_H

#include "intake/batch.h"

enum {
    SOURCE_PAUSE_MIN_MS = 100, /* before a piece or a connection to PostgreSQL is tried again */
    SOURCE_PAUSE_MAX_MS = 10000,
    SOURCE_CLOSE_LIMIT_MS = 500,
    SOURCE_PROOF_MS = 10000, /* for the last message of a stream that was taken before */
    SOURCE_TOLD_MAX = 10,    /* rejected messages that are logged, of each source and minute */
};

struct source;

struct source_settings {
    const char *database_url, *amqp_url; /* all borrowed */
    const char *queue;
    bool is_stream;
    const struct rules *rules;
    int wake_fd; /* set when `up` or `error` change */
};

struct source_stats {
    struct batch_counts total;
    int64_t commits;
    int64_t waiting; /* messages that have arrived and are not committed */
    int64_t prefetch;
    int64_t next_offset;              /* of a stream; -1 = none yet */
    bool connected;                   /* to RabbitMQ */
    bool in_database;                 /* PostgreSQL took the last piece, or was not needed yet */
    bool up;                          /* it consumes */
    char error[FAULT_TEXT_BYTES_MAX]; /* why it does not take messages; "" = it does */
};

/* Start the thread. false: CONFIG (a URL), MEMORY, RETRY (the system refused a thread). */
MUST_CHECK bool source_open(const struct source_settings *settings, struct source **ret,
                            struct fault *f);

const char *source_queue(const struct source *s);
bool source_is_stream(const struct source *s);
void source_stats(struct source *s, struct source_stats *ret);
const char *source_problem(const struct source_stats *s); /* why it takes nothing; NULL = it does */

/* End the thread within about a second. NULL is fine. */
void source_close(struct source *s);

#endif
