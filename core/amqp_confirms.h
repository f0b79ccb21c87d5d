/* Which publishes of a channel the server has answered. Confirms come out of order, alone or up to
 * a tag; the first publish of a channel has tag 1. No I/O, no clock. */
#ifndef TENON_CORE_AMQP_CONFIRMS_H
#define TENON_CORE_AMQP_CONFIRMS_H

#include <stdbool.h>
#include <stdint.h>

enum { CONFIRMS_MAX = 32768 }; /* publishes without an answer; a power of two */

struct confirms {
    uint64_t first;                       /* the lowest tag without an answer */
    uint64_t next;                        /* the tag of the next publish */
    int64_t open;                         /* publishes without an answer */
    uint64_t answered[CONFIRMS_MAX / 64]; /* bits of the tags from first on */
};

void confirms_reset(struct confirms *c);
bool confirms_full(const struct confirms *c);
void confirms_sent(struct confirms *c); /* one more publish; not when full */

/* The server answered `tag`, or all up to it (0 with `multiple`: all). Returns for how many
 * publishes this is the first answer; 0 for a tag that was never sent. */
int64_t confirms_take(struct confirms *c, uint64_t tag, bool multiple);

/* Refusals (basic.nack) that do not stop. A quorum queue may refuse for ever what comes through a
 * channel that was opened while the queue had no leader (RabbitMQ 3.10), and only a new channel
 * helps. A full queue refuses as well and no channel helps, so each is given twice the time. */
enum {
    REFUSALS_QUIET_MS = 1000, /* without one for so long: they stopped */
    REFUSALS_MS_MIN = 1000,
    REFUSALS_MS_MAX = 60000,
};

struct refusals {
    int64_t first_ms, last_ms; /* of those that do not stop; 0 = never */
    int64_t patience_ms;       /* 0 = REFUSALS_MS_MIN */
};

void refusals_note(struct refusals *r, int64_t now_ms);

/* They went on for too long; what follows is about the next channel. */
bool refusals_too_long(struct refusals *r);

#endif
