/* The session that says this worker is alive: it holds one session advisory lock, and the
 * cleaner takes the worker for dead when the lock is free. A thread of its own; the main loop
 * must call presence_ping() every PRESENCE_PING_MS, so that a worker whose main loop hangs, or
 * that is frozen, loses its session (idle_session_timeout) and with it the lock. */
#ifndef TENON_WORKER_PRESENCE_H
#define TENON_WORKER_PRESENCE_H

#include "core/http/series.h"
#include "worker/mailbox.h"
#include "worker/round_thread.h"

enum {
    PRESENCE_WATCH_MS = 1000,  /* how often it looks whether the main loop still moves */
    PRESENCE_STUCK_MS = 30000, /* no ping for this long: the process ends */
    PRESENCE_PING_MS = 5000,
    PRESENCE_PEERS_MS = 15000,       /* between two questions how many workers serve the same */
    PRESENCE_RECONNECT_MIN_MS = 100, /* doubled each time, with jitter */
    PRESENCE_RECONNECT_MAX_MS = 5000,
    PRESENCE_LEAVE_LIMIT_MS = 2000, /* how long presence_close() waits for "left" to be written */
    PRESENCE_NOTE_BYTES = 16384,
    PRESENCE_WHY_BYTES = 256,
    PRESENCE_CUT_LIMIT_MS = 250, /* for the thread's end, after its session was cut off */
};

struct presence;

/* What the worker's row says beside its state; "" = nothing. */
struct presence_note {
    char backing_off[PRESENCE_NOTE_BYTES]; /* see start_backing_off() */
    char rounds[PRESENCE_WHY_BYTES];       /* why they keep failing */
    char broker[PRESENCE_WHY_BYTES];       /* why it is away */
    char starting[PRESENCE_NOTE_BYTES];    /* "kinds: since doing", as the column says */
};

/* Connect, check the schema, register the worker and take its lock, then keep all that up.
 *   url       direct, through no pooler; borrowed, as are the others
 *   release   of the handlers; NULL = not named
 *   series    what the worker counts: what is new is written with each ping, and in the end
 *   mailbox   gets PRESENCE, whose text is the worker's id, or why it is not held; and POLL, when a
 *             cleaner says by NOTIFY that there is something for these queues and kinds; and
 *             DRAIN, once, if an operator says so
 *   false   CONFIG: no schema, a pooler, login refused; SCHEMA; RETRY: the server is away */
MUST_CHECK bool presence_open(const char *url, const struct served *served, int slots,
                              const char *release, struct series *series, struct mailbox *mailbox,
                              struct presence **ret, struct fault *f);

/* Requests to the thread. The note is copied; its bytes behind each text's end are 0. */
void presence_ping(struct presence *p, const struct presence_note *note);
void presence_drain(struct presence *p); /* the worker claims nothing any more */

/* The exchange in RabbitMQ, as the schema names it. */
const char *presence_exchange(const struct presence *p);

/* How the connection is unsafe, as db_insecure() says it. */
const char *presence_insecure(const struct presence *p);

/* Did it meet a schema that this program cannot work with? Then it has asked the main loop to
 * stop at once, and `f` is set. NULL is fine. */
MUST_CHECK bool presence_refused(struct presence *p, struct fault *f);

/* The worker's row says "left", the lock goes. NULL is fine.
 *   false   the thread still tries to connect after the limits above: end the process */
bool presence_close(struct presence *p);

#endif
