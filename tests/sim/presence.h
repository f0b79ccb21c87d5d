/* The model of the session that says a worker is alive (worker/presence.c). */
#ifndef TENON_TESTS_SIM_PRESENCE_H
#define TENON_TESTS_SIM_PRESENCE_H

#include <stdbool.h>
#include <stdint.h>

struct sim;
struct node;

struct presence {
    int64_t session;
    int worker; /* the row it registered last, 0 = none yet */
    bool held, busy;
    bool drain, drained;
    int pause_ms;
    int64_t pinged_us;
};

void presence_start(struct sim *s, struct node *n);
void presence_ping(struct sim *s, struct node *n);
void presence_stop(struct sim *s, struct node *n);                    /* a good end */
void presence_abandon(struct sim *s, struct node *n, bool unplugged); /* the worker is dead */

#endif
