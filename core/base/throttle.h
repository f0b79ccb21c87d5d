/* A throttle for acts that anybody who may log in to the database can cause by NOTIFY. An act
 * that found nothing is charged: in the long run one per THROTTLE_REST_MS, and a few at once. */
#ifndef TENON_CORE_THROTTLE_H
#define TENON_CORE_THROTTLE_H

#include <stdint.h>

enum {
    THROTTLE_REST_MS = 25,
    THROTTLE_AHEAD_MS = 200, /* 8 of them */
};

struct throttle {
    int64_t until_ms; /* what was charged takes the time until then */
};

/* The earliest moment for the next time. */
int64_t throttle_due(const struct throttle *r);

/* Charge an act that found nothing. However often it is charged, it is due again at most
 * THROTTLE_REST_MS after the last charge. */
void throttle_charge(struct throttle *r, int64_t now_ms);

#endif
