/* One connection to RabbitMQ: login, channels, frames, and the server's words when it refuses.
 *
 * Only core/amqp_*.c use this. A link is used by one thread. After a fault with link_is_broken()
 * the connection is gone and the link can only be closed; otherwise only the channel that was asked
 * is closed, and can be opened again. */
#ifndef TENON_CORE_AMQP_LINK_H
#define TENON_CORE_AMQP_LINK_H

#include "core/amqp_thread.h"
#include "core/fault.h"

#include <amqp.h>
#include <stdint.h>

enum {
    LINK_CONNECT_LIMIT_S = 5, /* TCP and TLS */
    LINK_ANSWER_LIMIT_S = 10, /* login, and every question with an answer */
    LINK_HEARTBEAT_S = 10,    /* a dead peer is seen after 20 s */
    LINK_TICK_MS = 2000,      /* the library must be called so often, or it sends no heartbeat */
    LINK_FRAME_BYTES_MAX = 131072,
    LINK_USER_TIMEOUT_MS =
        20000, /* the kernel ends a connection whose data is not taken for so long */
    LINK_TEXT_BYTES = 256,
};

struct link;

/* Connect and log in: to the first host of the URL, in its order, that lets us in.
 *   name    shown in RabbitMQ's list of connections
 *   cut     where another thread finds the socket; NULL = nobody does
 *   false   RETRY: not reachable; CONFIG: the URL, the login, the virtual host, the certificate */
MUST_CHECK bool link_open(const char *url, const char *name, struct socket_cut *cut,
                          struct link **ret, struct fault *f);

/* Say good-bye for at most limit_ms (0 = do not), and free. What was sent before is processed by
 * the server. NULL is fine. */
void link_close(struct link *l, int64_t limit_ms);

amqp_connection_state_t link_conn(struct link *l);
int link_fd(const struct link *l);
const char *link_where(const struct link *l); /* "host=... port=... vhost=... user=..." */
bool link_is_broken(const struct link *l);
bool link_is_blocked(const struct link *l); /* an alarm: the server reads nothing from publishers */

/* Frames were read already: poll() would not tell. */
bool link_has_frames(const struct link *l);

/* The socket takes at least a few kilobytes without blocking. */
bool link_can_send(const struct link *l);

enum link_next { LINK_FRAME, LINK_NOTHING, LINK_FAILED };

/* The next frame that concerns a channel, without waiting; channel 0 is dealt with inside. The
 * frame is valid until link_release(). LINK_FAILED: the link is broken. */
enum link_next link_next(struct link *l, amqp_frame_t *frame, struct fault *f);
void link_release(struct link *l);

/* Open a channel. */
MUST_CHECK bool link_channel_open(struct link *l, amqp_channel_t channel, struct fault *f);

/* After a call on `channel` that asks and waits: what came of it. On a refusal the channel is
 * closed, link_code() has AMQP's reply code, and the fault is CONFIG. */
MUST_CHECK bool link_answer(struct link *l, amqp_channel_t channel, const char *doing,
                            struct fault *f);
int link_code(const struct link *l);
void link_set_code(struct link *l, int code);

/* After a call that only sends: its status. */
MUST_CHECK bool link_sent(struct link *l, int status, const char *doing, struct fault *f);

/* The server closed a channel by itself: answer, set the fault and link_code(). Always false. */
bool link_channel_closed(struct link *l, const amqp_frame_t *frame, struct fault *f);

/* A name as bytes, and bytes as a name that is safe to print. */
amqp_bytes_t link_bytes(const char *text);
void link_text(amqp_bytes_t bytes, char *text, size_t size);

#endif
