/* The relay: sends the messages of tenon.publish to RabbitMQ after their commit.
 *
 * A thread with its own session and its own connection to RabbitMQ. It reads messages, sends them
 * as persistent and mandatory, and deletes the rows of those that RabbitMQ has confirmed. Messages
 * with the same order key are sent one at a time, each after the confirm of the one before.
 * A message that RabbitMQ refuses or returns stays in the table, and only blocks its own key.
 * After a fault the relay drops its state and reads again, so a message may be sent twice but is
 * never lost. Only the leading cleaner relays; the row of tenon.relay fences off any other
 * (sql/functions/relay.sql). */
#ifndef TENON_CLEANER_RELAY_H
#define TENON_CLEANER_RELAY_H

#include "core/base/fault.h"

#include <stdint.h>

enum {
    RELAY_WINDOW = 1024,           /* unconfirmed messages, at most */
    RELAY_WINDOW_BYTES = 16 << 20, /* and the bytes of their bodies */
    RELAY_ROWS = 1000,             /* that one read returns, at most */
    RELAY_NEWEST_ROWS = 200,       /* and a read of the newest ones */
    RELAY_AHEAD_MS = 250,          /* between reads, while a window's worth is in memory */
    RELAY_WATCH_MS = 1000,         /* between reads for late commits */
    RELAY_BAD_EXCHANGE_MS = 10000, /* before a missing exchange is tried again */
    RELAY_CLOSE_LIMIT_MS = 200,
};

struct relay;

struct relay_stats {
    int64_t sent;    /* confirmed by RabbitMQ */
    int64_t refused; /* rejected by RabbitMQ, or not routed to any queue */
    int64_t expired; /* past their expiry, or deleted */
    int64_t in_flight;
    bool connected;
    char error[FAULT_TEXT_BYTES_MAX]; /* why it cannot relay; "" = no error */
    char exchange[128];               /* of the last refused message */
    char refusal[512];                /* and why it was refused; "" = none was */
};

/* Start the thread. It connects when it leads and relay_call is called. false: CONFIG (a bad URL),
 * MEMORY, RETRY. The URLs must outlive the relay. */
MUST_CHECK bool relay_open(const char *database_url, const char *amqp_url, struct relay **ret,
                           struct fault *f);

/* Tell the relay whether this cleaner leads. Here and below, r may be NULL. */
void relay_lead(struct relay *r, bool leads);

/* Wake the relay: there are new messages. */
void relay_call(struct relay *r);

/* The highest message id read so far. */
int64_t relay_seen(const struct relay *r);

/* Wait until the relay is idle. false: it was not within limit_ms. */
bool relay_flush(struct relay *r, int64_t limit_ms);

void relay_stats(struct relay *r, struct relay_stats *ret);

void relay_close(struct relay *r);

#endif
