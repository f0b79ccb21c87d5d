/* What the relay's thread knows. Inside the relay only. */
#ifndef TENON_CLEANER_RELAY_STATE_H
#define TENON_CLEANER_RELAY_STATE_H

#include "cleaner/decide/settled.h"
#include "cleaner/relay.h"
#include "cleaner/relay_message.h"
#include "core/amqp/amqp_link.h"
#include "core/amqp/amqp_thread.h"
#include "core/base/buf.h"
#include "core/db/db.h"

#include <pthread.h>
#include <stdatomic.h>
#include <uthash.h>

enum {
    RELAY_ARRAY_BYTES_MAX = 32 << 20, /* of ids, errors or keys for one statement */
    RELAY_ERROR_BYTES = 512,
};

/* A key of which a message is on its way; the others that were read follow it. */
struct order {
    UT_hash_handle hh;
    struct message *rest;
    char key[];
};

/* What became of messages, until PostgreSQL is told. */
struct ended {
    size_t n, n_failed;
    struct buf done, expired, failed, errors, retries; /* arrays */
};

struct relay {
    struct amqp_thread thread;
    const char *database_url;
    atomic_bool leads, called, looks; /* called: to read; to look for what came late, too */
    atomic_int_fast64_t seen;         /* messages up to this id were read */

    /* the thread's */
    struct db *db;
    char token[24];
    struct settled settled;
    int64_t watch_ms;      /* when to look for what came late */
    int64_t from;          /* 0, or there are messages above this id and below `seen` to read */
    bool more, newest;     /* there are more above `seen`; read the newest next */
    struct message *ready; /* to be sent, in this order */
    struct message *sent;  /* in the order of their tags */
    size_t n_ready, n_sent, n_rest, sent_bytes; /* n_rest: behind others of their keys */
    int64_t read_ms, pause_ms; /* when messages above `seen` were read; how long not again */
    uint64_t tag;
    struct order *busy;
    struct ended ended;
    bool returning;       /* a message comes back: its header is next */
    int careful;          /* how many messages are still sent one at a time */
    int64_t bad_id;       /* the message that closed the channel; 0 = none */
    int64_t bad_until_ms; /* nothing is sent to that exchange */
    char bad_exchange[256], bad_error[RELAY_ERROR_BYTES];

    pthread_mutex_t lock; /* holds the rest */
    pthread_cond_t quiet; /* it is idle */
    bool idle;
    struct relay_stats stats;
};

/* --- relay_answers.c: what RabbitMQ says of messages ------------------------------------------ */

void ended_begin(struct ended *e);

/* What became of a message that is in no list any more; it is freed. The next one of its key is
 * ready then, or its key ends. */
void relay_end_well(struct relay *r, struct message *m, bool expired);
void relay_end_badly(struct relay *r, struct message *m, const char *error, bool retry);

void relay_make_ready(struct relay *r, struct message *m);

/* The key of the message, if it is busy; else NULL. */
struct order *relay_order_of(struct relay *r, const struct message *m);

/* Add to the statistics; the second, a message that was refused. */
void relay_count(struct relay *r, int64_t sent, int64_t expired);
void relay_count_refused(struct relay *r, const char *exchange, const char *error);

/* For link_take_frames(); `owner` is the relay. */
bool relay_take_frame(void *owner, const amqp_frame_t *frame, struct fault *f);

/* --- relay_rows.c: what it reads from PostgreSQL, and tells it -------------------------------- */

/* Tell what became of messages. */
MUST_CHECK bool relay_tell_ended(struct relay *r, struct fault *f);

/* Once a second: look for what was committed late. */
MUST_CHECK bool relay_watch(struct relay *r, struct fault *f);

/* When to read the next messages, by now_ms(); INT64_MAX = there are none, or there is no room.
 * A read marks the messages behind others of their keys as held, which writes each of those rows
 * twice more. So while a window's worth is in memory, reads stay near what is being sent, and those
 * that only hold rows take half of the time at most. */
int64_t relay_read_due(const struct relay *r);

/* Read the next messages, if there is room for them. */
MUST_CHECK bool relay_read_more(struct relay *r, struct fault *f);

/* --- relay_send.c ----------------------------------------------------------------------------- */

/* A message is ready, and the window and the socket take it. */
bool relay_may_send(const struct relay *r);

MUST_CHECK bool relay_send_ready(struct relay *r, struct fault *f);

#endif
