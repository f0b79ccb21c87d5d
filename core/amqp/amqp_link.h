/* One connection to RabbitMQ with one channel: login, frames, and the server's words when it
 * refuses.
 *
 * Only core/amqp/amqp_*.c use this. A link is used by one thread. Nothing is repaired: after any
 * fault the link can only be closed, and its owner makes another one after a pause. */
#ifndef TENON_CORE_AMQP_LINK_H
#define TENON_CORE_AMQP_LINK_H

#include "core/amqp/amqp_tls.h"
#include "core/amqp/amqp_url.h"

#include <amqp.h>
#include <stdatomic.h>
#include <stdint.h>

enum {
    LINK_CHANNEL = 1,         /* the only one */
    LINK_CONNECT_LIMIT_S = 5, /* TCP and TLS */
    LINK_ANSWER_LIMIT_S = 10, /* login, and every question with an answer */
    LINK_HEARTBEAT_S = 10,    /* a dead peer is seen after 20 s */
    LINK_TICK_MS = 2000,      /* the library must be called this often, or it sends no heartbeat */
    LINK_FRAME_BYTES_MAX = 131072,
    LINK_USER_TIMEOUT_MS = 20000, /* the kernel ends a connection whose data nobody takes */
    LINK_TEXT_BYTES = 256,
};

struct link {
    amqp_connection_state_t conn;
    bool broken;
    bool blocked;                /* an alarm: the server reads nothing from publishers */
    char where[LINK_TEXT_BYTES]; /* "host=... port=... vhost=... user=..." */
    char tls_why[TLS_TEXT_BYTES];
};

/* Connect, log in and open the channel: with the first host of the URL, in its order, that lets us
 * in.
 *   name    shown in RabbitMQ's list of connections
 *   ending  turns true when no other host is to be tried; NULL is fine
 *   false   RETRY: not reachable; CONFIG: the login, the virtual host, the certificate */
MUST_CHECK bool link_open(const struct amqp_url *url, const char *name, const atomic_bool *ending,
                          struct link **ret, struct fault *f);

/* Say good-bye for at most limit_ms (0 = do not), and free. What was sent before is processed by
 * the server. NULL is fine. */
void link_close(struct link *l, int64_t limit_ms);

int link_fd(const struct link *l);

/* Frames were read already: poll() would not tell. */
bool link_has_frames(const struct link *l);

/* The socket takes at least a few kilobytes without blocking. */
bool link_can_send(const struct link *l);

/* Give `take` (NULL = nobody) each frame of the channel that has arrived, borrowed for the call,
 * until it returns false. The end of the channel or of the connection is a fault. */
MUST_CHECK bool link_take_frames(struct link *l,
                                 bool (*take)(void *owner, const amqp_frame_t *frame,
                                              struct fault *f),
                                 void *owner, struct fault *f);

/* Close the channel and open it again: what was unacked on it is delivered again. */
MUST_CHECK bool link_renew_channel(struct link *l, struct fault *f);

/* After a call that asks and waits: what came of it. A refusal is a fault CONFIG. */
MUST_CHECK bool link_answer(struct link *l, const char *doing, struct fault *f);

/* After a call that only sends: its status. */
MUST_CHECK bool link_sent(struct link *l, int status, const char *doing, struct fault *f);

/* An entry of a table; the texts are borrowed. */
amqp_table_entry_t link_entry_text(const char *key, const char *text);

#endif
