/* What a source's thread knows. Inside of source_*.c only. */
#ifndef TENON_INTAKE_SOURCE_STATE_H
#define TENON_INTAKE_SOURCE_STATE_H

#include "core/amqp/amqp_link.h"
#include "core/amqp/amqp_thread.h"
#include "intake/decide/prefetch.h"
#include "intake/source.h"

#include <pthread.h>

struct source {
    struct amqp_thread thread;
    struct source_settings settings;

    /* the thread's */
    struct db *db;
    struct batch batch;
    struct assembly assembly;
    struct incoming *waiting; /* in the order of their tags */
    int64_t n_waiting;
    struct prefetch prefetch;
    int consumers;        /* begun so far on this channel; 0 = it does not consume */
    int64_t next_offset;  /* of a stream, the first that is not committed; -1 = none */
    int64_t asked_offset; /* from which this channel's first consumer began; -1 = no number */
    int64_t read_offset;  /* the last that has arrived; -1 = none */
    int64_t proof_ms;     /* until then the message there must have arrived; 0 = it has */
    int failures;         /* of PostgreSQL, in a row, and locks that it met */
    int locks;
    int64_t due_ms; /* when to try again after them */
    char broker_error[FAULT_TEXT_BYTES_MAX], database_error[FAULT_TEXT_BYTES_MAX]; /* as logged */
    int64_t told_ms;                                                               /* this minute */
    int told;

    pthread_mutex_t lock; /* holds the rest */
    struct source_stats stats;
};

/* --- source_take.c: what has arrived becomes tasks -------------------------------------------- */

/* A session that has read the limits is there. False: none is, and it is tried again at due_ms. */
bool source_has_session(struct source *s);

/* Take the next piece, if there is one and it is time, and acknowledge it. false: the link is
 * broken; what PostgreSQL refuses is tried again later. */
MUST_CHECK bool source_take(struct source *s, struct fault *f);

/* --- source.c --------------------------------------------------------------------------------- */

void source_forget(struct source *s);

/* Note in the statistics why nothing is taken; NULL = nothing is wrong. */
void source_note(struct source *s, bool in_database, const char *error);

#endif
