/* How often to do what anybody may ask for: whoever may log in to the database can NOTIFY. What
 * was done and found nothing is charged; in the long run that is once in RATION_REST_MS, and a few
 * may come one by one. */
#ifndef TENON_CORE_RATION_H
#define TENON_CORE_RATION_H

#include <stdint.h>

enum {
    RATION_REST_MS = 25,
    RATION_AHEAD_MS = 200, /* 8 of them */
};

struct ration {
    int64_t until_ms; /* what was charged takes the time until then */
};

/* The earliest moment for the next time. */
int64_t ration_due(const struct ration *r);

/* It was done, and found nothing. What is done for other reasons as well may be charged faster than
 * it is due: it is due again RATION_REST_MS after the last charge at the latest. */
void ration_charge(struct ration *r, int64_t now_ms);

#endif
