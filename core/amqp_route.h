/* What the publisher knows of one queue, and what follows for an id that wants to go there. No I/O,
 * no clock: every time is given, in milliseconds of now_ms(). */
#ifndef TENON_CORE_AMQP_ROUTE_H
#define TENON_CORE_AMQP_ROUTE_H

#include "core/amqp_topology.h"

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

enum {
    ROUTE_FRESH_MS = 1000, /* an answer about the depth is good for so long */
    ROUTE_SHUT_MS = 3000,  /* a queue that does not exist is left alone for so long */
};

struct route {
    char queue[TOPOLOGY_QUEUE_BYTES];
    UT_hash_handle hh;
    int64_t pending;   /* offered, not yet published */
    int64_t published; /* ever */
    int64_t shut_until_ms;
    bool wants_ask, wants_declare;
    bool answered;           /* on this connection */
    int64_t answered_ms;     /* when */
    int64_t ready;           /* the depth, as answered */
    int64_t published_then;  /* `published` when that was asked */
    int64_t published_asked; /* `published` when the question now under way was sent */
};

enum route_verdict {
    ROUTE_GO,
    ROUTE_HOLD, /* until the question about the depth is answered */
    ROUTE_DROP,
};

/* Nothing is known any more: a new connection. */
void route_forget(struct route *r);

/* How many more ids the queue may be given: -1 = not known. */
int64_t route_room(const struct route *r, int64_t window, int64_t now_ms);

/* May an id be taken in, and may one that was taken in be published? */
bool route_accepts(const struct route *r, int64_t window, int64_t now_ms);
enum route_verdict route_verdict(const struct route *r, int64_t window, int64_t now_ms);

/* Is it time to ask for the depth? */
bool route_is_due(const struct route *r, int64_t now_ms);
void route_asked(struct route *r);
void route_answered(struct route *r, int64_t ready, int64_t now_ms);

/* The queue does not exist. */
void route_shut(struct route *r, int64_t now_ms, int64_t jitter_ms);

#endif
