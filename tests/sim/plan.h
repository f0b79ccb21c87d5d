/* What a seed draws for its schedule: sizes, speeds, and which things go wrong how often. Every
 * schedule leaves some faults out altogether (swarm testing), so that rare ones meet. */
#ifndef TENON_TESTS_SIM_PLAN_H
#define TENON_TESTS_SIM_PLAN_H

#include "tests/sim/random.h"

enum fault_kind {
    FAULT_KILL,    /* kill -9 of a worker; it starts again later */
    FAULT_UNPLUG,  /* its host is gone: the server does not hear of it */
    FAULT_FREEZE,  /* SIGSTOP ... SIGCONT */
    FAULT_STOP,    /* SIGTERM, or two */
    FAULT_CUT_HOT, /* the session of the round breaks */
    FAULT_CUT_PRESENCE,
    FAULT_PARTITION, /* nothing passes between a worker and the server */
    FAULT_RESTART,   /* the server restarts; or fails over, and its clock jumps */
    FAULT_STALL,     /* the server answers nobody for a while */
    FAULT_BROKER_DOWN,
    FAULT_BROKER_LOSE, /* all messages are gone */
    FAULT_BROKER_BLOCK,
    FAULT_CHANNEL,  /* a worker's channel is closed */
    FAULT_CONSUMER, /* a worker's AMQP thread hangs in a send */
    FAULT_CLEANER,  /* a cleaner is killed, or its session breaks */
    FAULT_CLEANER_FREEZE,
    FAULT_PAUSE, /* a queue is paused */
    FAULT_KINDS
};

/* Rates are in ten thousandths. */
struct plan {
    bool faults;
    int n_nodes, n_cleaners, n_tasks;
    int64_t active_us; /* how long tasks come and faults strike */
    int64_t hop_us;    /* a message takes up to so long */
    int64_t turn_us;   /* a loop's turn */
    int64_t run_us;    /* a run */
    int64_t hold_us;   /* an application's transaction */
    int n_slots_max, room_max, handlers_max;
    int rate_pool, rate_late, rate_rollback, rate_announced, rate_early, rate_delayed;
    int rate_cancel, rate_lock;
    int rate_failed, rate_later, rate_dead, rate_bad, rate_own_finish, rate_retire;
    int rate_say, rate_hears, rate_take;
    int rate_hostile;
    int n_stops; /* workers that are told to stop, and start again */

    int64_t fault_every_us;
    bool fault[FAULT_KINDS];
    int rate_crash, rate_hang, rate_twice, rate_deaf, rate_pipe_closed, rate_no_hello,
        rate_no_start, rate_slow_start;
    int rate_cut, rate_again, rate_slow;
    int rate_drop, rate_double, rate_reorder, rate_forget;
};

void plan_draw(struct plan *p, struct random *r, bool faults);

#endif
