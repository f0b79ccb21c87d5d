/* The life of a task: its states, and every act that moves it from one to another.
 *
 * The table is the only place that says what is possible; docs/states.md is printed from it, and a
 * test runs every act's statement from every state and compares. */
#ifndef TENON_CORE_TASK_H
#define TENON_CORE_TASK_H

#include <stddef.h>

enum task_state {
    TASK_BLOCKED,   /* waits for a parent, a limit or a signal */
    TASK_SCHEDULED, /* run_at lies ahead */
    TASK_READY,     /* may start now */
    TASK_RUNNING,   /* claimed by a worker */
    TASK_RETRYING,  /* failed or crashed before, run_at lies ahead */
    TASK_DONE,      /* in tenon.history */
    TASK_CANCELLED, /* in tenon.history */
    TASK_EXPIRED,   /* start_before has passed; in tenon.history, or soon */
    TASK_DEAD,      /* in tenon.dead */
    TASK_STATE_COUNT,
    TASK_NONE = TASK_STATE_COUNT, /* there is no row: not enqueued yet, or forgotten */
};

struct task_act {
    const char *name; /* "claim", "finish", "fail", ... */
    enum task_state from;
    enum task_state to;
    const char *who;  /* "worker", "cleaner", "application", "time" */
    const char *how;  /* the SQL that does it; of tenon.requeue() also the reason */
    const char *text; /* when, in one line */
};

extern const struct task_act task_acts[];
extern const size_t task_acts_n;

/* "scheduled", as in the view tenon.tasks; "" for TASK_NONE. */
const char *task_state_word(enum task_state state);

/* What a state means, in one line; "" for TASK_NONE. */
const char *task_state_text(enum task_state state);

#endif
